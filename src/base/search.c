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

size_t sw_lower_bound(const void *list, size_t n, size_t size, size_t offset, struct sw_slice key)
{
    size_t low = 0;
    size_t high = n;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        struct sw_slice at;

        memcpy(&at, (const char *)list + mid * size + offset, sizeof(at));
        if (sw_slice_cmp(at, key) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}
