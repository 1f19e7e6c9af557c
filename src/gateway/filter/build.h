/* SPDX-License-Identifier: Apache-2.0 */
/* Filters, compiled. */
#pragma once

#include "gateway/config/build.h"
#include "gateway/config/filter.h"

struct Sw__FilterConfigEntry;
struct Sw__HttpFilter;

/* The filters of a connection manager, the router excluded (it must be last). */
SW_NODISCARD int sw_gw_build_filters(struct sw_gw_build *b, struct Sw__HttpFilter *const *in,
                                     size_t n, const struct sw_gw_filter **ret, size_t *ret_n);
/* typed_per_filter_config; unknown types are refused. */
SW_NODISCARD int sw_gw_build_per_filter(struct sw_gw_build *b,
                                        struct Sw__FilterConfigEntry *const *in, size_t n,
                                        const struct sw_gw_per_filter **ret, size_t *ret_n);
