/* SPDX-License-Identifier: Apache-2.0 */
/* Readiness: the tasks that must finish before the process is ready. Thread-safe. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"

struct sw_ready;

SW_NODISCARD struct sw_ready *sw_ready_new(void);
void sw_ready_free(struct sw_ready *r);
/* Adds a task by name (copied, cut at 63 bytes; at most 32 tasks). Idempotent. */
void sw_ready_add(struct sw_ready *r, const char *task);
/* The task is finished. An unknown name is ignored. */
void sw_ready_done(struct sw_ready *r, const char *task);
/* True when nothing is pending; else appends "a, b", sorted, to pending (may be NULL). */
bool sw_ready_check(struct sw_ready *r, struct sw_buf *pending);
