/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks and the text forms of times and durations. */
#pragma once

#include <stdint.h>

#include "base/def.h"
#include "base/err.h"
#include "base/slice.h"

#define SW_NS_PER_US UINT64_C(1000)
#define SW_NS_PER_MS UINT64_C(1000000)
#define SW_NS_PER_S  UINT64_C(1000000000)

/* CLOCK_MONOTONIC. */
uint64_t sw_now_ns(void);
/* CLOCK_REALTIME since the epoch. */
uint64_t sw_wall_ns(void);

enum { SW_RFC3339_LEN = 32 };
/* "2026-11-15T12:30:00.123456Z" with micros, "…00Z" without; returns out. */
char *sw_rfc3339(uint64_t wall_ns, int micros, char out[SW_RFC3339_LEN]);

/*
 * "5s", "10m", "1h30m", "250ms", "2d", also plain "0". Refuses an empty text, a number without
 * unit, an unknown unit and anything above 100 years.
 */
SW_NODISCARD int sw_duration_parse(struct sw_slice in, uint64_t *ret_ns, struct sw_err *err);
