/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model as Envoy resources: listeners, route configurations, clusters, secrets; endpoints
 * apart from them. Pure and deterministic: equal models give equal bytes, so a resource whose
 * content did not change keeps its version. Names, recipes and limits:
 * doc/internals/gateway-xds.md.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"
#include "control/gateway/model.h"

struct sw_resolved;
struct sw_xds_txn;

/* A cluster by this name is never defined: its share of requests is answered with an error. */
#define SW_MODEL_INVALID_CLUSTER "invalid-backend-cluster"
/* Extension of a check whose value is the list of headers to show, in lower case, by commas. */
#define SW_MODEL_AUTH_HEADERS "spanwire.dev/allowed-headers"
/* What connector backends are reached through. */
#define SW_MODEL_TUNNEL_LISTENER "spanwire-tunnel"
#define SW_MODEL_CONNECT_PROXY   "spanwire-connect-proxy"
/* The same proxy over HTTP/2: datagrams need extended CONNECT. */
#define SW_MODEL_CONNECT_PROXY_UDP "spanwire-connect-proxy-udp"

/* Where a data plane finds its system's roots: Envoy knows no other way to name them. */
#define SW_MODEL_SYSTEM_ROOTS "/etc/ssl/certs/ca-certificates.crt"

/* A zeroed one is good where no cluster of the model is a tunnel. */
struct sw_model_xds_conf {
    bool access_log;     /* a line per request and connection on the data plane's standard output */
    bool gzip;           /* data planes compress what is worth it for clients that take it */
    bool http10;         /* HTTP/1.0 requests are served */
    struct sw_slice via; /* appended to Via of requests and answers; empty: none */
    /*
     * Where CONNECT requests for connectors go: an IP address and port, or the path of a socket
     * (begins with '/'). Empty: 127.0.0.1, port 15040.
     */
    struct sw_slice connect_proxy;
    uint16_t connect_proxy_port;
    bool connect_proxy_h2; /* HTTP/2 with prior knowledge; otherwise HTTP/1.1 */
    bool clients_resolve;  /* clusters of host names are STRICT_DNS: addresses are not checked */
};

/* One resource, encoded. */
struct sw_model_resource {
    const char *type; /* type URL, one of SW_XDS_* of xds/cache.h */
    struct sw_slice name;
    struct sw_slice value; /* the message, without Any */
};

/* In the order clusters, endpoints, listeners, routes, secrets; by name inside each. */
struct sw_model_resources {
    const struct sw_model_resource *p;
    size_t n;
};

/* Everything but the endpoints. Results live in the arena; the model may go. */
void sw_model_xds_encode(const struct sw_model *m, const struct sw_model_xds_conf *conf,
                         struct sw_arena *a, struct sw_model_resources *ret);
/*
 * The endpoints: a resource for each set, and one for each UDP chain that splits its traffic
 * (Envoy's udp_proxy takes one cluster, so the shares become localities of a cluster of its own).
 */
void sw_model_xds_encode_endpoints(const struct sw_model *m, const struct sw_endpoint_model *ep,
                                   struct sw_arena *a, struct sw_model_resources *ret);

/* The set of a cluster of a host name, with these addresses of it; in the arena. */
struct sw_model_resource sw_model_xds_encode_resolved(struct sw_arena *a,
                                                      const struct sw_resolved *r);

/*
 * Puts resources from sw_model_xds_encode into the transaction as the whole content of their four
 * types, empty ones included. The other function does the same for endpoints.
 */
SW_NODISCARD int sw_model_xds_put(struct sw_xds_txn *t, const struct sw_model_resources *r,
                                  struct sw_err *err);
SW_NODISCARD int sw_model_xds_put_endpoints(struct sw_xds_txn *t,
                                            const struct sw_model_resources *r, struct sw_err *err);
