/* SPDX-License-Identifier: Apache-2.0 */
/* What routes do to a request. Pure functions. */
#pragma once

#include "base/budget.h"
#include "gateway/config/listener.h"
#include "gateway/config/routes.h"
#include "gateway/message/message.h"

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
enum { SW_GW_PATH_MOVED = -52 }; /* a result beside those of base/err.h */
/* Resolves dot segments, merges slashes, treats %2F as configured. SW_EINVAL: answer 400;
 * SW_GW_PATH_MOVED: the path changed by unescaping and the client is to be redirected to *ret. */
int sw_gw_normalize_path(const struct sw_gw_hcm *hcm, struct sw_slice path, struct sw_arena *a,
                         struct sw_slice *ret);
