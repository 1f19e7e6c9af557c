/* SPDX-License-Identifier: Apache-2.0 */
/* Matching in a compiled route table, and what routes do to a request. Pure functions. */
#pragma once

#include "base/budget.h"
#include "gateway/config/routes.h"
#include "gateway/exchange/exchange.h"
#include "gateway/exchange/state.h"
#include "gateway/filter/filter.h"
#include "gateway/observe/accesslog.h"
#include "gateway/upstream/cluster.h"

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

/* The path to send upstream; req->path when nothing is rewritten. In the arena. */
struct sw_slice sw_gw_rewrite_path(const struct sw_gw_route *r, struct sw_slice path,
                                   struct sw_arena *a, struct sw_budget *b);
/* Location of a redirect. In the arena. */
struct sw_slice sw_gw_redirect_location(const struct sw_gw_route *r,
                                        const struct sw_gw_request *req,
                                        const struct sw_addr *local, struct sw_arena *a);
/* All matches of the expression replaced; in the arena. */
struct sw_slice sw_gw_regex_apply(const struct sw_gw_regex_rewrite *rw, struct sw_slice text,
                                  struct sw_arena *a, struct sw_budget *b);
/* Resolves dot segments, merges slashes, treats %2F as told. SW_EINVAL: answer 400; SW_EAGAIN: the
 * path changed by unescaping and the client is to be redirected to *ret. */
int sw_gw_normalize_path(const struct sw_gw_hcm *hcm, struct sw_slice path, struct sw_arena *a,
                         struct sw_slice *ret);

/* True when the policy covers this end of an attempt. */
bool sw_gw_retry_wants(const struct sw_gw_retry *r, enum sw_gw_outcome how, int status,
                       const struct sw_gw_response *resp);
/* Random below base * 2^(n-1), at most max; n counts from 1. */
uint64_t sw_gw_retry_delay(const struct sw_gw_retry *r, unsigned n, uint64_t rnd);

/* Sends copies of a request that is about to be forwarded, as its route says. */
void sw_gw_mirror_start(struct sw_exchange *x);
