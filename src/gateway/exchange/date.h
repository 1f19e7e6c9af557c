/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/slice.h"

struct sw_gw_worker;

/* "Sun, 06 Nov 1994 08:49:37 GMT", made once per second. */
struct sw_slice sw_gw_worker_date(struct sw_gw_worker *w);
