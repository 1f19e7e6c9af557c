/* SPDX-License-Identifier: Apache-2.0 */
/* What data planes get of a connector, and of backends behind one. */
#pragma once

#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/slice.h"

/* On an HTTPProxy: the ConfigMap with the CAs (ca.crt) of its https endpoints. */
#define SW_CONNECTOR_CA "spanwire.dev/backend-ca"
/* On an EndpointSlice that stands for a backend: how it is reached. SW_CONNECTOR_CA too. */
#define SW_CONNECTOR_BACKEND "spanwire.dev/connector"         /* names of Connectors, by commas */
#define SW_CONNECTOR_DIAL    "spanwire.dev/connector-target"  /* host:port, as the device sees it */
#define SW_CONNECTOR_REFUSED "spanwire.dev/connector-refused" /* a reason: nothing is forwarded */
#define SW_CONNECTOR_TLS     "networking.datumapis.com/backend-cert-hostname" /* name over TLS */

/*
 * Why a connector cannot do this ("ConnectTCP", "ConnectUDP"): a reason for a condition, and
 * *ret_why (a literal) ends a sentence that begins with its name. NULL: it can. One that says
 * nothing of its capabilities can do ConnectTCP and nothing else.
 */
const char *sw_connector_lacks(const struct sw_json *connector, const char *capability,
                               const char **ret_why);
/* "host:port" with brackets around IPv6. In the arena. */
struct sw_slice sw_connector_target(struct sw_arena *a, struct sw_slice host, uint16_t port);
