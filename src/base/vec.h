/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Growable arrays of any element type: SW_VEC(int) v = {0}; sw_vec_push(&v, 7);
 * SW_VEC_FOREACH(int, it, &v) {...}. Elements are plain values; sw_vec_done frees the array only.
 */
#pragma once

#include <stddef.h>

#include "base/def.h"
#include "base/mem.h"

#define SW_VEC(type)                                                                               \
    struct {                                                                                       \
        type *p;                                                                                   \
        size_t n;                                                                                  \
        size_t cap;                                                                                \
    }

static inline void *sw_vec_grow(void *p, size_t n, size_t *cap, size_t size)
{
    size_t bytes;

    if (n < *cap)
        return p;
    *cap = *cap ? *cap * 2 : 4;
    if (__builtin_mul_overflow(*cap, size, &bytes))
        __builtin_trap();
    return sw_realloc(p, bytes);
}

/* The element may be made from the array's length before it. */
#define sw_vec_push(v, ...)                                                                        \
    do {                                                                                           \
        (v)->p = sw_vec_grow((v)->p, (v)->n, &(v)->cap, sizeof(*(v)->p));                          \
        (v)->p[(v)->n] = (__VA_ARGS__);                                                            \
        (v)->n++;                                                                                  \
    } while (0)

#define sw_vec_done(v)                                                                             \
    do {                                                                                           \
        sw_free((v)->p);                                                                           \
        (v)->p = NULL;                                                                             \
        (v)->n = 0;                                                                                \
        (v)->cap = 0;                                                                              \
    } while (0)

/* Order is not kept: the last element takes the place of i. */
#define sw_vec_swap_remove(v, i) ((v)->p[(i)] = (v)->p[--(v)->n])

#define SW_VEC_FOREACH(type, it, v) for (type *it = (v)->p; it && it < (v)->p + (v)->n; it++)

/* The elements of an array of pointers, none of them NULL; 'it' has the type of an element. */
#define SW_VEC_EACH(type, it, v)                                                                   \
    for (type * it, *const *sw_at_##it = (type *const *)(v)->p;                                    \
         sw_at_##it && sw_at_##it < (type *const *)(v)->p + (v)->n && (it = *sw_at_##it, true);    \
         sw_at_##it++)
