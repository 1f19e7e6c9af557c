/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Configuration for Envoys of others that shall reach connectors: what has to be in the bootstrap
 * of an Envoy that Envoy Gateway runs, and a whole Envoy that is nothing but the way to one
 * connector.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "control/gateway/xds/xds.h"

/*
 * Appends an EnvoyProxy (gateway.envoyproxy.io) whose bootstrap is patched: the extension for
 * internal listeners, the tunnel's listener and the cluster of the CONNECT proxy. YAML. SW_ELIMIT.
 */
SW_NODISCARD int sw_envoy_patch_write(const struct sw_model_xds_conf *conf, struct sw_slice ns,
                                      struct sw_slice name, struct sw_buf *out, struct sw_err *err);

struct sw_envoy_tunnel {
    struct sw_model_xds_conf conf;
    struct sw_slice target; /* "host:port", as the device sees it */
    struct sw_slice id;     /* NodeID, 64 hex digits */
    struct sw_slice listen; /* IP address */
    uint16_t port;
};

/* Appends a complete static configuration as YAML. SW_EINVAL, SW_ELIMIT. */
SW_NODISCARD int sw_envoy_tunnel_write(const struct sw_envoy_tunnel *t, struct sw_buf *out,
                                       struct sw_err *err);
