/* SPDX-License-Identifier: Apache-2.0 */
/* Sorting, and finding things in sorted arrays. */
#pragma once

#include <stddef.h>

#include "base/slice.h"

/* By bytes. list may be NULL with n == 0. */
void sw_slice_sort(struct sw_slice *list, size_t n);
/*
 * Where 'key' stands, or would stand, among n elements of 'size' bytes each that are sorted by the
 * slice at 'offset' inside them: the first that is not less, n when all are. list may be NULL with
 * n == 0.
 */
size_t sw_lower_bound(const void *list, size_t n, size_t size, size_t offset, struct sw_slice key);
