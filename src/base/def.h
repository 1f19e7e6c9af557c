/* SPDX-License-Identifier: Apache-2.0 */
/* Compiler attributes and the few macros every file may use. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SW_NODISCARD    __attribute__((warn_unused_result))
#define SW_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define SW_NORETURN     __attribute__((noreturn))
#define SW_UNUSED       __attribute__((unused))
#define SW_COLD         __attribute__((cold, noinline))
#define SW_LIKELY(x)    __builtin_expect(!!(x), 1)
#define SW_UNLIKELY(x)  __builtin_expect(!!(x), 0)

#define SW_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* The object of 'type' whose 'member' lives at 'ptr'. */
#define SW_CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* Hands ownership out of a local that a cleanup attribute would otherwise release. */
#define SW_TAKE(p)                                                                                 \
    __extension__({                                                                                \
        __typeof__(p) sw_taken_ = (p);                                                             \
        (p) = NULL;                                                                                \
        sw_taken_;                                                                                 \
    })
#define SW_TAKE_FD(fd)                                                                             \
    __extension__({                                                                                \
        int sw_taken_ = (fd);                                                                      \
        (fd) = -1;                                                                                 \
        sw_taken_;                                                                                 \
    })

static inline size_t sw_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t sw_max(size_t a, size_t b)
{
    return a > b ? a : b;
}
