/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "gateway/observe/accesslog.h"

struct sw_exchange;

/* All of it but durations, from an exchange. Borrowed from it. */
void sw_gw_vars_fill(struct sw_exchange *x, struct sw_gw_vars *v);
