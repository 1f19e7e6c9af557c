/* SPDX-License-Identifier: Apache-2.0 */
/* Matching in a compiled route table. Pure functions. */
#pragma once

#include "base/budget.h"
#include "gateway/config/routes.h"
#include "gateway/message/message.h"
#include "io/addr.h"

/* What matching looks at besides the head. */
struct sw_gw_facts {
    struct sw_addr peer;
    bool tls;
    bool cert_presented;
    bool cert_validated;
    uint64_t rnd; /* for runtime_fraction */
};

/* The virtual host of an authority, or NULL. */
const struct sw_gw_vhost *sw_gw_vhost_find(const struct sw_gw_routes *t, struct sw_slice authority);
/* The first route in list order that matches, or NULL. */
const struct sw_gw_route *sw_gw_route_find(const struct sw_gw_vhost *v,
                                           const struct sw_gw_request *req,
                                           const struct sw_gw_facts *facts);
/* First in list order by looking at every route: what the index must agree with (tests). */
const struct sw_gw_route *sw_gw_route_scan(const struct sw_gw_vhost *v,
                                           const struct sw_gw_request *req,
                                           const struct sw_gw_facts *facts);
/* Builds the indexes of a host and of the table; their slices must be in place. */
void sw_gw_vhost_index(struct sw_gw_vhost *v);
void sw_gw_routes_index(struct sw_gw_routes *t);
