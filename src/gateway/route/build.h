/* SPDX-License-Identifier: Apache-2.0 */
/* Route tables, compiled. */
#pragma once

#include "gateway/config/build.h"
#include "gateway/config/routes.h"

struct Sw__HeaderValueOption;
struct Sw__Route;
struct Sw__RetryPolicy;
struct Sw__RouteAction__RequestMirrorPolicy;
struct Sw__RouteConfiguration;

SW_NODISCARD int sw_gw_build_header_ops(struct sw_gw_build *b,
                                        struct Sw__HeaderValueOption *const *add, size_t n_add,
                                        const struct ProtobufCBinaryData *remove, size_t n_remove,
                                        struct sw_gw_header_ops *ret);
SW_NODISCARD int sw_gw_build_action(struct sw_gw_build *b, const struct Sw__Route *in,
                                    size_t body_max, struct sw_gw_route *r);
SW_NODISCARD int sw_gw_build_retry(struct sw_gw_build *b, const struct Sw__RetryPolicy *in,
                                   const struct sw_gw_retry **ret);
SW_NODISCARD int sw_gw_build_mirrors(struct sw_gw_build *b,
                                     struct Sw__RouteAction__RequestMirrorPolicy *const *in,
                                     size_t n, const struct sw_gw_mirror **ret, size_t *ret_n);

/* The object comes with one reference. */
/* 'old' (or NULL): the table it replaces; hosts whose bytes are the same are shared with it. */
struct sw_gw_routes *sw_gw_build_routes(struct sw_gw_build *b, struct sw_slice bytes,
                                        const struct sw_gw_routes *old);
struct sw_gw_routes *sw_gw_build_route_config(struct sw_gw_build *b,
                                              const struct Sw__RouteConfiguration *rc);
