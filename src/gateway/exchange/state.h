/* SPDX-License-Identifier: Apache-2.0 */
/* What routing, filters and attempts remember of an exchange (sw_exchange.rs). */
#pragma once

#include "base/budget.h"
#include "gateway/config/routes.h"
#include "gateway/upstream/host.h"

struct sw_gw_route_state {
    struct sw_budget work; /* left of what the request may cost */
    const struct sw_gw_routes *table;
    const struct sw_gw_vhost *vhost;
    const struct sw_gw_weight *weight;
    const struct sw_gw_retry *retry;
    struct sw_slice cluster;
    struct sw_slice original_path;
    struct sw_slice hash_cookie; /* Set-Cookie value to add */
    struct sw_gw_pick pick;
    const struct sw_gw_session *session;
    struct sw_slice cors_origin; /* allowed: goes into the response */
    const struct sw_gw_cors *cors;
    size_t next_filter;              /* of the connection manager's, that has not run */
    struct sw_gw_authz_state *authz; /* filter/authz.c; NULL: no check was sent */
    const struct sw_gw_gzip *gzip;   /* filter/gzip.c; NULL: answers go as they are */
    bool gzip_accepted;              /* by the client */
    bool retry_slot;                 /* holds one of the cluster's retry slots */
    uint32_t retries;
    struct sw_gw_member *member; /* a reference: of the last attempt, for the log */
};
