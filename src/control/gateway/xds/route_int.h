/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that write routes. */
#pragma once

#include "control/gateway/xds/xds_int.h"

struct Sw__Route;
struct Sw__RouteMatch;
struct Sw__RouteAction;

struct Sw__RuntimeFractionalPercent;

/* num of den, as exactly as Envoy can have it: of a hundred, or of a million. */
struct Sw__RuntimeFractionalPercent *sw_gwx_fraction(struct enc *e, uint32_t num, uint32_t den);
struct Sw__RouteMatch *sw_gwx_route_match(struct enc *e, const struct sw_model_match *m);
/* Forwarding: clusters, rewrites, mirrors, timeouts, retries. */
struct Sw__RouteAction *sw_gwx_route_action(struct enc *e, const struct sw_model_route *r);
/* What filters other than the router need to know: cross-origin policy, whom to ask for leave,
 * session state. */
void sw_gwx_route_filters(struct enc *e, const struct sw_model_route *r, struct Sw__Route *to);

/*
 * How to replace a matched prefix. Envoy swaps bytes, so slashes at the seam need care: either
 * *ret_prefix is what to put there, or it is empty and a pattern has to eat the prefix with the
 * slashes behind it (*ret_pattern). Both empty: nothing changes.
 */
void sw_gwx_prefix_swap(struct enc *e, struct sw_slice matched, struct sw_slice replacement,
                        struct sw_slice *ret_prefix, struct sw_slice *ret_pattern);
