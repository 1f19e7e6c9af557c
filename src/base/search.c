/* SPDX-License-Identifier: Apache-2.0 */
#include "base/search.h"

#include <string.h>

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
