/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of characters. */
#include <stdlib.h>

#include "regex/regex_int.h"

enum { CLEAN_AT = 16384 };

void re_set_done(struct re_set *s)
{
    sw_vec_done(&s->r);
}

void re_set_add(struct re_set *s, uint32_t lo, uint32_t hi)
{
    s->work++;
    if (s->r.n >= CLEAN_AT && s->r.n >= 2 * s->cleaned)
        re_set_clean(s);
    sw_vec_push(&s->r, ((struct re_range){lo, hi}));
}

void re_set_add_all(struct re_set *s, const struct re_range *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        re_set_add(s, p[i].lo, p[i].hi);
}

static int by_start(const void *x, const void *y)
{
    const struct re_range *a = x;
    const struct re_range *b = y;

    return a->lo < b->lo ? -1 : a->lo > b->lo;
}

void re_set_clean(struct re_set *s)
{
    size_t n = 0;

    if (s->r.n)
        qsort(s->r.p, s->r.n, sizeof(*s->r.p), by_start);
    for (size_t i = 0; i < s->r.n; i++) {
        struct re_range x = s->r.p[i];

        if (n && x.lo <= s->r.p[n - 1].hi + 1)
            s->r.p[n - 1].hi = (uint32_t)sw_max(s->r.p[n - 1].hi, x.hi);
        else
            s->r.p[n++] = x;
    }
    s->r.n = n;
    s->cleaned = n;
}

void re_set_negate(struct re_set *s, uint32_t max)
{
    uint32_t from = 0;
    size_t n = 0;

    re_set_clean(s);
    for (size_t i = 0; i < s->r.n && from <= max; i++) {
        struct re_range x = s->r.p[i];

        if (x.lo > max)
            break;
        if (x.lo > from)
            s->r.p[n++] = (struct re_range){from, x.lo - 1};
        from = x.hi + 1;
    }
    s->r.n = n;
    if (from <= max)
        sw_vec_push(&s->r, ((struct re_range){from, max}));
}

/* Index of the first entry that is not below c. */
static size_t fold_from(uint32_t c)
{
    size_t lo = 0;
    size_t hi = re_nfolds;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (re_folds[mid].c < c)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static uint32_t fold_next(uint32_t c)
{
    size_t i = fold_from(c);

    return i < re_nfolds && re_folds[i].c == c ? re_folds[i].next : c;
}

void re_set_fold(struct re_set *s)
{
    size_t n;

    re_set_clean(s);
    n = s->r.n;
    for (size_t i = 0; i < n; i++) {
        struct re_range x = s->r.p[i];

        for (size_t k = fold_from(x.lo); k < re_nfolds && re_folds[k].c <= x.hi; k++) {
            for (uint32_t c = re_folds[k].next; c != re_folds[k].c; c = fold_next(c)) {
                s->work++;
                sw_vec_push(&s->r, ((struct re_range){c, c}));
            }
        }
    }
    re_set_clean(s);
}

static int by_name(const void *key, const void *at)
{
    return sw_slice_cmp(*(const struct sw_slice *)key,
                        sw_slice_str(((const struct re_table *)at)->name));
}

const struct re_table *re_table_find(struct sw_slice name)
{
    return bsearch(&name, re_tables, re_ntables, sizeof(*re_tables), by_name);
}
