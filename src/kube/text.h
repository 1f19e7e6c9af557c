/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Appending to a bounded buffer when a cut text is acceptable: messages for people. What does not
 * fit is dropped; data never goes through here.
 */
#pragma once

#include <stdarg.h>

#include "base/arena.h"
#include "base/buf.h"

static inline void sw_tx_slice(struct sw_buf *b, struct sw_slice s)
{
    if (sw_buf_append_slice(b, s) < 0)
        b->max = b->n - b->off; /* full: later pieces must not follow a missing one */
}

static inline void sw_tx_str(struct sw_buf *b, const char *s)
{
    sw_tx_slice(b, sw_slice_str(s));
}

static inline void sw_tx_c(struct sw_buf *b, char c)
{
    sw_tx_slice(b, sw_slice(&c, 1));
}

SW_PRINTF(2, 3) static inline void sw_tx_printf(struct sw_buf *b, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    if (sw_buf_vprintf(b, fmt, ap) < 0)
        b->max = b->n - b->off;
    va_end(ap);
}

/* ASCII only. */
static inline char sw_tx_lower(char c)
{
    if (c >= 'A' && c <= 'Z')
        c = (char)(c | 0x20);
    return c;
}

/* A copy in lower case, NUL-terminated. */
static inline struct sw_slice sw_tx_lower_dup(struct sw_arena *a, struct sw_slice s)
{
    char *p = sw_arena_dup(a, s);

    for (size_t i = 0; i < s.n; i++)
        p[i] = sw_tx_lower(p[i]);
    return sw_slice(p, s.n);
}
