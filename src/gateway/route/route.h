/* SPDX-License-Identifier: Apache-2.0 */
/* Requests through the route table: matched, filtered, planned, and their answers changed. */
#pragma once

#include "base/def.h"

struct sw_exchange;

/*
 * The head is complete and clean (hop-by-hop, x-forwarded-*, request id are done): match a route,
 * run request filters, change x->req.fields, fill x->plan.
 *
 * SW_OK: continue and pick a host. SW_EPENDING: a filter waits; it calls sw_gw_route_continue.
 * SW_GW_REPLIED: sw_exchange_reply was called.
 */
SW_NODISCARD int sw_gw_route_request(struct sw_exchange *x);
/* Of the filter that waited: the rest of sw_gw_route_request, then sw_exchange_continue. */
void sw_gw_route_continue(struct sw_exchange *x);
/*
 * The head in x->resp is about to be sent downstream, ours or an upstream's: header changes of the
 * route, CORS, session cookies. x->host is the host that answered, NULL for a local reply.
 */
void sw_gw_route_response(struct sw_exchange *x);
