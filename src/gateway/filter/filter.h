/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP filters of a connection manager. They run in order, never block (but may wait), and end in
 * the router. */
#pragma once

#include "gateway/config/filter.h"
#include "gateway/exchange/exchange.h"

/* SW_OK: continue; SW_GW_REPLIED: sw_exchange_reply was called; SW_EPENDING: sw_gw_route_continue
 * comes later, and calling it again then continues behind the filter that waited. */
SW_NODISCARD int sw_gw_filters_request(struct sw_exchange *x);
/* A request without a route: true when a filter has the better answer, which it then gave. */
bool sw_gw_filters_misdirected(struct sw_exchange *x);
void sw_gw_filters_response(struct sw_exchange *x);
