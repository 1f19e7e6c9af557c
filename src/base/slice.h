/* SPDX-License-Identifier: Apache-2.0 */
/* Borrowed bytes and the searches every parser needs. A slice owns nothing. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/def.h"

struct sw_slice {
    const char *p;
    size_t n;
};

#define SW_SLICE_LIT(s) ((struct sw_slice){(s), sizeof(s) - 1})
/* For printf's "%.*s". */
#define SW_SLICE_ARG(s) (int)(s).n, (s).p
/* The same, of at most so many bytes. */
#define SW_SLICE_ARG_MAX(s, max) (int)sw_min((s).n, (size_t)(max)), (s).p

static inline struct sw_slice sw_slice(const void *p, size_t n)
{
    return (struct sw_slice){.p = p, .n = n};
}

static inline struct sw_slice sw_slice_str(const char *s)
{
    return (struct sw_slice){.p = s, .n = s ? strlen(s) : 0};
}

static inline bool sw_slice_eq(struct sw_slice a, struct sw_slice b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static inline bool sw_slice_eq_str(struct sw_slice a, const char *s)
{
    return sw_slice_eq(a, sw_slice_str(s));
}

static inline bool sw_slice_has_prefix(struct sw_slice a, struct sw_slice prefix)
{
    return a.n >= prefix.n && (prefix.n == 0 || memcmp(a.p, prefix.p, prefix.n) == 0);
}

static inline bool sw_slice_has_suffix(struct sw_slice a, struct sw_slice suffix)
{
    return a.n >= suffix.n &&
           (suffix.n == 0 || memcmp(a.p + a.n - suffix.n, suffix.p, suffix.n) == 0);
}

/* The bytes from 'from' on; empty when the slice is shorter. */
static inline struct sw_slice sw_slice_from(struct sw_slice a, size_t from)
{
    if (from >= a.n)
        return sw_slice(a.p ? a.p + a.n : NULL, 0);
    return sw_slice(a.p + from, a.n - from);
}

static inline struct sw_slice sw_slice_head(struct sw_slice a, size_t n)
{
    return sw_slice(a.p, sw_min(a.n, n));
}

/* Like memcmp, shorter first on a common prefix. */
int sw_slice_cmp(struct sw_slice a, struct sw_slice b);
/* ASCII case-insensitive equality. */
bool sw_slice_ieq(struct sw_slice a, struct sw_slice b);
/* Index of the first / last c, or -1. */
ptrdiff_t sw_slice_find(struct sw_slice a, char c);
ptrdiff_t sw_slice_rfind(struct sw_slice a, char c);
/* Without spaces and tabs at both ends. */
struct sw_slice sw_slice_trim(struct sw_slice a);
/* Without line ends and spaces at the end: a token as a file holds it. */
struct sw_slice sw_slice_trim_lines(struct sw_slice a);

/*
 * Cuts *rest at the first sep: returns what stands before it and leaves what
 * follows in *rest. Without sep returns all and leaves *rest with p == NULL,
 * so that 'while (rest.p)' sees every piece, a trailing empty one included.
 */
struct sw_slice sw_slice_cut(struct sw_slice *rest, char sep);

/* Decimal digits only, no sign, no leading plus; false when empty, too large or anything else. */
SW_NODISCARD bool sw_slice_to_u64(struct sw_slice a, uint64_t max, uint64_t *ret);

/* Heap copy, NUL-terminated (the content may hold NULs of its own). */
char *sw_slice_dup(struct sw_slice a);
/* The same, as a slice that owns it. */
struct sw_slice sw_slice_copy(struct sw_slice a);
/* Replaces an owned text by a copy of s, or by NULL when s.p is. */
void sw_text_set(char **text, struct sw_slice s);
/* Frees the bytes of a slice that owns them (made from sw_slice_dup and the like); empty
 * afterwards. */
void sw_slice_free(struct sw_slice *a);
