/* SPDX-License-Identifier: Apache-2.0 */
/* The identity of this site towards its peers, as data planes get it. The only key material. */
#pragma once

#include "base/arena.h"
#include "base/slice.h"

/* Names of the two secrets, of ClusterLink. */
#define SW_LINK_CERTIFICATE "certificate"
#define SW_LINK_VALIDATION  "validation"

/* Encoded envoy.extensions.transport_sockets.tls.v3.Secret, in the arena. */
struct sw_slice sw_link_secret_certificate(struct sw_arena *a, struct sw_slice chain_pem,
                                           struct sw_slice key_pem);
struct sw_slice sw_link_secret_validation(struct sw_arena *a, struct sw_slice ca_pem);
