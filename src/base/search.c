/* SPDX-License-Identifier: Apache-2.0 */
#include "base/search.h"

#include <stdlib.h>
#include <string.h>

static int by_bytes(const void *x, const void *y)
{
    const struct sw_slice *p = x;
    const struct sw_slice *q = y;

    return sw_slice_cmp(*p, *q);
}

void sw_slice_sort(struct sw_slice *list, size_t n)
{
    if (n > 1)
        qsort(list, n, sizeof(*list), by_bytes);
}

static int by_text(const void *x, const void *y)
{
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

void sw_text_sort(void *list, size_t n)
{
    if (n > 1)
        qsort(list, n, sizeof(char *), by_text);
}

static struct sw_slice slice_at(const char *p, size_t offset)
{
    struct sw_slice s;

    memcpy(&s, p + offset, sizeof(s));
    return s;
}

static int by_members(const void *x, const void *y, void *arg)
{
    const struct sw_sort_order *o = arg;
    const char *p = o->pointers ? *(const char *const *)x : x;
    const char *q = o->pointers ? *(const char *const *)y : y;
    int c = sw_slice_cmp(slice_at(p, o->first), slice_at(q, o->first));

    if (c != 0 || o->second == o->first)
        return c;
    return sw_slice_cmp(slice_at(p, o->second), slice_at(q, o->second));
}

void sw_sort_by(void *list, size_t n, size_t size, const struct sw_sort_order *o)
{
    struct sw_sort_order order = *o;

    if (n > 1)
        qsort_r(list, n, size, by_members, &order);
}

bool sw_slice_in(struct sw_slice s, const struct sw_slice *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (sw_slice_eq(list[i], s))
            return true;
    }
    return false;
}

bool sw_word_in(struct sw_slice s, const char *const *words)
{
    for (; *words; words++) {
        if (sw_slice_eq_str(s, *words))
            return true;
    }
    return false;
}

bool sw_word_in_any_case(struct sw_slice s, const char *const *words)
{
    for (; *words; words++) {
        if (sw_slice_ieq(s, sw_slice_str(*words)))
            return true;
    }
    return false;
}

size_t sw_lower_bound(const void *list, size_t n, size_t size, size_t offset, struct sw_slice key)
{
    size_t low = 0;
    size_t high = n;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (sw_slice_cmp(slice_at((const char *)list + mid * size, offset), key) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}
