/* SPDX-License-Identifier: Apache-2.0 */
/* Headers to add, whose values are format strings. */
#pragma once

#include "gateway/config/build.h"

struct Sw__HeaderValueOption;

SW_NODISCARD int sw_gw_build_headers(struct sw_gw_build *b, struct Sw__HeaderValueOption *const *in,
                                     size_t n, const struct sw_gw_header_add **ret, size_t *ret_n);
