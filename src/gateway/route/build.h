/* SPDX-License-Identifier: Apache-2.0 */
/* Between the two files that compile routes. */
#pragma once

#include "gateway/config/config_int.h"
#include "gateway/config/routes.h"

struct Sw__HeaderMatcher;
struct Sw__Route;
struct Sw__RetryPolicy;
struct Sw__RouteAction__RequestMirrorPolicy;
struct Sw__RuntimeFractionalPercent;

SW_NODISCARD int sw_gw_build_header_ops(struct sw_gw_build *b,
                                        struct Sw__HeaderValueOption *const *add, size_t n_add,
                                        const struct ProtobufCBinaryData *remove, size_t n_remove,
                                        struct sw_gw_header_ops *ret);
SW_NODISCARD int sw_gw_build_header_match(struct sw_gw_build *b, const struct Sw__HeaderMatcher *in,
                                          struct sw_gw_header_match *m);
/* In millionths. */
uint32_t sw_gw_build_fraction(const struct Sw__RuntimeFractionalPercent *f, uint32_t otherwise);
SW_NODISCARD int sw_gw_build_action(struct sw_gw_build *b, const struct Sw__Route *in,
                                    size_t body_max, struct sw_gw_route *r);
SW_NODISCARD int sw_gw_build_retry(struct sw_gw_build *b, const struct Sw__RetryPolicy *in,
                                   const struct sw_gw_retry **ret);
SW_NODISCARD int sw_gw_build_mirrors(struct sw_gw_build *b,
                                     struct Sw__RouteAction__RequestMirrorPolicy *const *in,
                                     size_t n, const struct sw_gw_mirror **ret, size_t *ret_n);
