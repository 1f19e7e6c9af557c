/* SPDX-License-Identifier: Apache-2.0 */
#include "base/slice.h"

#include "base/mem.h"

int sw_slice_cmp(struct sw_slice a, struct sw_slice b)
{
    size_t n = sw_min(a.n, b.n);
    int c = n ? memcmp(a.p, b.p, n) : 0;

    if (c != 0)
        return c;
    return a.n < b.n ? -1 : a.n > b.n;
}

/* Eight characters at once: those from A to Z become small, all others stay. */
static uint64_t lower8(uint64_t v)
{
    uint64_t low = v & 0x7f7f7f7f7f7f7f7fU;
    uint64_t from_a = low + 0x3f3f3f3f3f3f3f3fU;  /* bit 7: 'A' or above */
    uint64_t above_z = low + 0x2525252525252525U; /* bit 7: above 'Z' */

    return v | ((from_a & ~above_z & ~v & 0x8080808080808080U) >> 2);
}

static uint64_t load8(const char *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

/* Fewer than eight characters, in some order that is the same for the same n. */
static uint64_t load_few(const char *p, size_t n)
{
    uint32_t a;
    uint32_t b;
    uint64_t v = 0;

    if (n >= 4) {
        memcpy(&a, p, 4);
        memcpy(&b, p + n - 4, 4);
        return (uint64_t)b << 32 | a;
    }
    for (size_t i = 0; i < n; i++)
        v = v << 8 | (unsigned char)p[i];
    return v;
}

bool sw_slice_ieq(struct sw_slice a, struct sw_slice b)
{
    if (a.n != b.n)
        return false;
    if (a.n < 8)
        return lower8(load_few(a.p, a.n)) == lower8(load_few(b.p, b.n));
    for (size_t i = 0; i + 8 < a.n; i += 8) {
        if (lower8(load8(a.p + i)) != lower8(load8(b.p + i)))
            return false;
    }
    return lower8(load8(a.p + a.n - 8)) == lower8(load8(b.p + b.n - 8));
}

ptrdiff_t sw_slice_find(struct sw_slice a, char c)
{
    const char *hit = a.n ? memchr(a.p, c, a.n) : NULL;

    return hit ? hit - a.p : -1;
}

ptrdiff_t sw_slice_rfind(struct sw_slice a, char c)
{
    const char *hit = a.n ? memrchr(a.p, c, a.n) : NULL;

    return hit ? hit - a.p : -1;
}

struct sw_slice sw_slice_trim(struct sw_slice a)
{
    while (a.n && (a.p[0] == ' ' || a.p[0] == '\t')) {
        a.p++;
        a.n--;
    }
    while (a.n && (a.p[a.n - 1] == ' ' || a.p[a.n - 1] == '\t'))
        a.n--;
    return a;
}

struct sw_slice sw_slice_trim_lines(struct sw_slice a)
{
    while (a.n && (a.p[a.n - 1] == '\n' || a.p[a.n - 1] == '\r' || a.p[a.n - 1] == ' '))
        a.n--;
    return a;
}

struct sw_slice sw_slice_cut(struct sw_slice *rest, char sep)
{
    struct sw_slice all = *rest;
    ptrdiff_t at = sw_slice_find(all, sep);

    if (at < 0) {
        *rest = (struct sw_slice){NULL, 0};
        return all;
    }
    *rest = sw_slice_from(all, (size_t)at + 1);
    return sw_slice_head(all, (size_t)at);
}

bool sw_slice_to_u64(struct sw_slice a, uint64_t max, uint64_t *ret)
{
    uint64_t v = 0;

    if (a.n == 0)
        return false;
    for (size_t i = 0; i < a.n; i++) {
        unsigned d = (unsigned)(unsigned char)a.p[i] - '0';

        if (d > 9 || __builtin_mul_overflow(v, 10U, &v) || __builtin_add_overflow(v, d, &v) ||
            v > max)
            return false;
    }
    *ret = v;
    return true;
}

char *sw_slice_dup(struct sw_slice a)
{
    return sw_strndup(a.p, a.n);
}

struct sw_slice sw_slice_copy(struct sw_slice a)
{
    return sw_slice(sw_slice_dup(a), a.n);
}

void sw_text_set(char **text, struct sw_slice s)
{
    sw_free(*text);
    *text = s.p ? sw_slice_dup(s) : NULL;
}

void sw_slice_free(struct sw_slice *a)
{
    char *p;

    memcpy(&p, &a->p, sizeof(p)); /* ours, so the const was only a loan */
    sw_free(p);
    *a = (struct sw_slice){NULL, 0};
}
