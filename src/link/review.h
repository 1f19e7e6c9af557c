/* SPDX-License-Identifier: Apache-2.0 */
/* The answer to a review: one line per grant. A pure parser; for review.c and its tests. */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "base/slice.h"

/* A grant that is denied now: its line, from 0, and the reason, which may be empty. */
typedef void (*link_review_line)(void *arg, size_t line, struct sw_slice reason);

/*
 * Reads an answer of n lines, "ok" or "denied REASON". SW_EPROTO, before any callback: another
 * number of lines, or another line.
 */
SW_NODISCARD int link_review_parse(struct sw_slice body, size_t n, link_review_line fn, void *arg);
