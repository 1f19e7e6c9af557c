/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the decision tables only. */
#pragma once

#include "node/route.h"

/* A workload that was chosen, the service that led to it (or NULL), and the port to use there. */
struct sw_upstream {
    const struct sw_workload *w;
    const struct sw_service *svc;
    uint16_t port;
};

enum sw_pick_use {
    SW_PICK_STANDARD, /* the service must declare the port */
    SW_PICK_WAYPOINT, /* unless the endpoint has an application tunnel */
};

enum sw_pick_result {
    SW_PICK_OK,
    SW_PICK_NONE,      /* nothing fits */
    SW_PICK_EXHAUSTED, /* something would, but was tried already */
};

struct sw_picker {
    const struct sw_state *s;
    const struct sw_route_env *env;
    const struct sw_workload *source;
    const struct sw_route_tried *tried; /* may be NULL */
};

bool sw_pick_was_tried(const struct sw_picker *p, const struct sw_workload *w);
/* One endpoint of the service for its port 'port'. Not for PASSTHROUGH services. */
enum sw_pick_result sw_pick_endpoint(const struct sw_picker *p, const struct sw_service *svc,
                                     uint16_t port, enum sw_pick_use use, struct sw_upstream *ret);
/* What a waypoint or gateway reference stands for, at its own port. */
enum sw_pick_result sw_pick_gateway(const struct sw_picker *p, const struct sw_gateway_addr *gw,
                                    enum sw_pick_use use, struct sw_upstream *ret);
/* The waypoint of a service for one connection: a weighted draw, else the plain one, else NULL. */
const struct sw_gateway_addr *sw_pick_waypoint(const struct sw_picker *p,
                                               const struct sw_service *svc);

/* Does the reference stand for this workload (as an endpoint of the service, or by itself)? */
bool sw_gateway_is(const struct sw_state *s, const struct sw_gateway_addr *gw,
                   const struct sw_workload *w);
/* Service or workload behind a reference, without choosing; both may end up NULL. */
void sw_gateway_find(const struct sw_state *s, const struct sw_gateway_addr *gw,
                     struct sw_slice client_ns, const struct sw_service **ret_svc,
                     const struct sw_workload **ret_w);
