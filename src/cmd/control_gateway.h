/* SPDX-License-Identifier: Apache-2.0 */
/* The gateway's part of `spanwire control`: its controller, and the xDS server beside the API. */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "io/addr.h"

struct sw_api;
struct sw_kube_client;
struct sw_loop;
struct sw_control_gateway;
struct sw_metrics_shard;

struct sw_control_gateway_opts {
    struct sw_addr listen;     /* of the xDS server */
    const char *controller;    /* GatewayClass.spec.controllerName that is ours */
    const char *addresses;     /* what Gateways get: see sw_gateway_addrs_parse */
    uint32_t port_offset;      /* added to listener ports below 1024 */
    bool access_log;           /* data planes print a line per request */
    const char *connect_proxy; /* where tunnels to connectors start */
};

/*
 * Everything is borrowed and must outlive it, o included. NULL with what was wrong; the port is
 * taken when it returns.
 */
SW_NODISCARD struct sw_control_gateway *
sw_control_gateway_new(struct sw_loop *l, struct sw_api *api, struct sw_kube_client *client,
                       const struct sw_control_gateway_opts *o, struct sw_err *err);
/* Where the xDS server listens. */
struct sw_addr sw_control_gateway_addr(const struct sw_control_gateway *g);
/* What its page of metrics shows, for others of the same loop to count in. */
struct sw_metrics_shard *sw_control_gateway_metrics(const struct sw_control_gateway *g);
/* Stops building and serving; done comes from the loop. */
void sw_control_gateway_stop(struct sw_control_gateway *g, uint64_t deadline_ns,
                             void (*done)(void *arg), void *arg);
/* NULL is fine. */
void sw_control_gateway_free(struct sw_control_gateway *g);
