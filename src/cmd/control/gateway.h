/* SPDX-License-Identifier: Apache-2.0 */
/* The gateway's part of `spanwire control`: its controller, and the xDS server beside the API. */
#pragma once

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "io/addr.h"

struct sw_api;
struct sw_kube_client;
struct sw_loop;
struct sw_control_access;
struct sw_control_gateway;
struct sw_egress;
struct sw_jw;
struct sw_link_ports;
struct sw_metrics_shard;
struct sw_tls_cred;
struct sw_xds_cache;

struct sw_control_gateway_opts {
    struct sw_addr listen;     /* of the xDS server */
    struct sw_addr hooks;      /* of Envoy Gateway's hooks in plain HTTP/2; family 0: nowhere */
    const char *controller;    /* GatewayClass.spec.controllerName that is ours */
    const char *addresses;     /* what Gateways get: see sw_gateway_addrs_parse; NULL: by mode */
    uint32_t port_offset;      /* added to listener ports below 1024 */
    const char *reserved;      /* ports of the fabric: see sw_gateway_ports_parse */
    bool ingress_shared_hosts; /* Ingresses of several namespaces may serve one host */
    bool access_log;           /* data planes print a line per request */
    bool gzip;                 /* data planes compress text */
    bool http10;               /* data planes serve HTTP/1.0 */
    const char *via;           /* what they append to Via; NULL: nothing */
    const char *connect_proxy; /* where tunnels to connectors start */
    bool static_tunnel;        /* Envoys have the tunnel's listener in their bootstrap */
    bool envoy_resolves; /* Envoys resolve host names of backends, and addresses are not checked */
    /* Not flags of their own. */
    struct sw_addr api;       /* where our API listens; family 0: nowhere */
    struct sw_egress *egress; /* judges what host names of backends resolve to */
    struct sw_metrics_shard *metrics;
    /* Without an API of ours: */
    struct sw_tls_cred *cred;                  /* of the xDS server */
    struct sw_control_access *access;          /* judges its clients */
    uint64_t review_ns;                        /* how often tokens of open streams are reviewed */
    const char *lease_ns;                      /* NULL: we are alone and lead */
    const char *identity;                      /* in the lease; NULL: made up */
    const char *link_ns;                       /* where links have their objects */
    const struct sw_link_ports *link_reserved; /* target ports no Import has */
    size_t n_link_reserved;
};

/*
 * Everything is borrowed and must outlive it, o included. api may be NULL: then o says who judges
 * clients. NULL with what was wrong; the port is taken when it returns.
 */
SW_NODISCARD struct sw_control_gateway *
sw_control_gateway_new(struct sw_loop *l, struct sw_api *api, struct sw_kube_client *client,
                       const struct sw_control_gateway_opts *o, struct sw_err *err);
/* Who knows what is behind HTTPProxies, for the extension server. */
struct sw_connector_controller;
void sw_control_gateway_rules(struct sw_control_gateway *g, struct sw_connector_controller *c);
/* Where the xDS server listens. */
struct sw_addr sw_control_gateway_addr(const struct sw_control_gateway *g);
/* What the xDS server serves, for others of the same loop to fill. */
struct sw_xds_cache *sw_control_gateway_cache(const struct sw_control_gateway *g);
/* Members of the status: its controllers; and an object for each type of each stream, in an array.
 */
void sw_control_gateway_put_status(const struct sw_control_gateway *g, struct sw_jw *w);
void sw_control_gateway_put_clients(const struct sw_control_gateway *g, struct sw_jw *w);
/* True once data planes can have a complete configuration. */
bool sw_control_gateway_ready(const struct sw_control_gateway *g);
/* A renewed certificate of the xDS server. */
void sw_control_gateway_set_cred(struct sw_control_gateway *g, struct sw_tls_cred *cred);
/* Stops building and serving; done comes from the loop. */
void sw_control_gateway_stop(struct sw_control_gateway *g, uint64_t deadline_ns,
                             void (*done)(void *arg), void *arg);
/* NULL is fine. */
void sw_control_gateway_free(struct sw_control_gateway *g);
