/* SPDX-License-Identifier: Apache-2.0 */
/* What an Envoy has to be started with to take its configuration from us. */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

/* Empty slices leave things out. */
struct sw_envoy_bootstrap {
    struct sw_slice node_id;      /* needed */
    struct sw_slice node_cluster; /* needed */
    struct sw_slice xds_host;     /* needed: IP address or DNS name */
    uint16_t xds_port;
    struct sw_slice ca;         /* file with roots for the server's certificate; empty: no TLS */
    struct sw_slice cert;       /* files for mutual TLS, both or none; need ca */
    struct sw_slice key;        /* */
    struct sw_slice sni;        /* server name, and what its certificate must be for [xds_host] */
    struct sw_slice token;      /* bearer token sent with the stream */
    struct sw_slice admin_host; /* IP address of Envoy's admin interface; empty: none */
    uint16_t admin_port;
};

/*
 * Appends the bootstrap as YAML: delta ADS over one gRPC stream with keep-alive, listeners and
 * clusters from it, and the extension that internal listeners need, which cannot come over xDS.
 * SW_EINVAL for what does not fit together, SW_ELIMIT.
 */
SW_NODISCARD int sw_envoy_bootstrap_write(const struct sw_envoy_bootstrap *b, struct sw_buf *out,
                                          struct sw_err *err);
