/* SPDX-License-Identifier: Apache-2.0 */
/* The load balancer: which member is next. */
#pragma once

#include "gateway/upstream/host.h"

void sw_gw_lb_view_free(struct sw_gw_lb_view *v);
/* The choice alone, without hosts and counters (tests). */
struct sw_gw_member *sw_gw_lb_choose(struct sw_gw_wcluster *wc, const struct sw_gw_pick *pick);

/* Whether the balancer knows a usable member that is not in pick->tried. */
bool sw_gw_lb_has_untried(struct sw_gw_wcluster *wc, const struct sw_gw_pick *pick);
