/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gateway controller: watches the objects of the Gateway API, keeps an xDS cache filled with
 * what they ask for, and writes their statuses where it leads. Endpoints have a runtime of their
 * own: their coming and going touches nothing else.
 */
#pragma once

#include "control/gateway/build/build.h"
#include "control/gateway/lookups.h"
#include "control/gateway/xds/xds.h"
#include "kube/client/client.h"

struct sw_gateway_controller;
struct sw_metrics_shard;
struct sw_xds_cache;

struct sw_gateway_controller_opts {
    struct sw_gateway_conf conf;       /* what it points to is borrowed for the controller's life */
    struct sw_model_xds_conf xds;      /* the same */
    struct sw_xds_cache *cache;        /* borrowed; changed from the loop only */
    struct sw_metrics_shard *metrics;  /* NULL: nothing is counted */
    struct sw_egress *egress;          /* borrowed: judges what host names resolve to */
    void (*ask)(struct sw_resolve *r); /* who resolves them; NULL: sw_resolve_start */
    bool threaded;                     /* build on threads of their own */
    struct sw_control_election election;
    /* The Gateways that are served, "ns/name", a line each: when they change. From the loop. */
    void (*on_gateways)(void *arg, struct sw_slice names);
    void *arg;
};

#define SW_GATEWAY_CONTROLLER_NAME "spanwire.dev/gateway"
#define SW_INGRESS_CONTROLLER_NAME "spanwire.dev/ingress"
enum { SW_GATEWAY_PORT_OFFSET = 8000 };

/* NULL with SW_EINVAL, SW_ESYS. Empty controller names become the ones above. */
SW_NODISCARD struct sw_gateway_controller *
sw_gateway_controller_new(struct sw_kube_client *c, const struct sw_gateway_controller_opts *o,
                          struct sw_err *err);
/* NULL is fine. */
void sw_gateway_controller_free(struct sw_gateway_controller *g);
void sw_gateway_controller_start(struct sw_gateway_controller *g);
/* Gives the lease back; done (may be NULL) comes from the loop. */
void sw_gateway_controller_stop(struct sw_gateway_controller *g, void (*done)(void *arg),
                                void *arg);
/* What data planes made of their listeners (planes.h, as text): statuses say it. */
void sw_gateway_controller_planes(struct sw_gateway_controller *g, struct sw_slice text);
/* Views of the configuration for data planes that serve some Gateways only (views.h, as text). */
void sw_gateway_controller_views(struct sw_gateway_controller *g, struct sw_slice text);
/*
 * Whether data planes are connected that get the addresses of host names from us, and where they
 * connect from (lookups.h).
 */
void sw_gateway_controller_clients(struct sw_gateway_controller *g, enum sw_lookups_mode mode,
                                   const struct sw_ip *clients, size_t n);
/* True once the first build is in the cache: a data plane that asks before would see nothing. */
bool sw_gateway_controller_ready(const struct sw_gateway_controller *g);
/* True when nothing is left to do: built, published and written. */
bool sw_gateway_controller_idle(const struct sw_gateway_controller *g);
/* The runtimes under it, for status and metrics. */
const struct sw_control *sw_gateway_controller_main(const struct sw_gateway_controller *g);
const struct sw_control *sw_gateway_controller_endpoints(const struct sw_gateway_controller *g);
