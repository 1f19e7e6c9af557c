/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers and slices with a secret in them, overwritten before their memory is released. */
#pragma once

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/slice.h"

/* As sw_buf_done; copies that a growing buffer left behind are not reached. */
static inline void sw_buf_done_secret(struct sw_buf *b)
{
    if (b->p)
        explicit_bzero(b->p, b->cap);
    sw_buf_done(b);
}

/* A local buffer, as SW_BUF_AUTO. */
#define SW_BUF_SECRET __attribute__((cleanup(sw_buf_done_secret))) struct sw_buf

/* Overwrites the bytes, which belong to an arena or a buffer that can be written. */
static inline void sw_slice_wipe(struct sw_slice s)
{
    if (s.n)
        explicit_bzero((char *)(uintptr_t)s.p, s.n);
}

/* As sw_slice_free. */
static inline void sw_slice_free_secret(struct sw_slice *s)
{
    sw_free_secret((void *)(uintptr_t)s->p, s->n);
    *s = (struct sw_slice){0};
}
