/* SPDX-License-Identifier: Apache-2.0 */
/* Between the format strings and the logs. */
#pragma once

#include "gateway/accesslog.h"

/* True when the format is one operator whose value is a number. */
bool sw_gw_format_is_number(const struct sw_gw_format *f);
/* "UF,URX"; p == NULL without flags. */
struct sw_slice sw_gw_flags_text(uint32_t flags, char *s, size_t cap);
