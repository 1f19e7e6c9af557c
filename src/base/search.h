/* SPDX-License-Identifier: Apache-2.0 */
/* Sorting, and finding things in arrays. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"

/* By bytes. list may be NULL with n == 0. */
void sw_slice_sort(struct sw_slice *list, size_t n);
/* Pointers to texts, const or not; by bytes. */
void sw_text_sort(void *list, size_t n);

/* Which slices inside an element decide: the second where the first are equal. */
struct sw_sort_order {
    size_t first; /* offsets */
    size_t second;
    bool pointers; /* the elements are pointers to what has the slices */
};
/* list may be NULL with n == 0. */
void sw_sort_by(void *list, size_t n, size_t size, const struct sw_sort_order *o);

/* Sorts the n elements that p points to by a member, or two, of type struct sw_slice. */
#define SW_SORT_BY2(p, n, member1, member2)                                                        \
    sw_sort_by((p), (n), sizeof(*(p)),                                                             \
               &(const struct sw_sort_order){.first = SW_SLICE_AT((p), member1),                   \
                                             .second = SW_SLICE_AT((p), member2)})
#define SW_SORT_BY(p, n, member) SW_SORT_BY2(p, n, member, member)
/* The same for an array of pointers to the elements. */
#define SW_SORT_POINTERS_BY2(p, n, member1, member2)                                               \
    sw_sort_by((p), (n), sizeof(*(p)),                                                             \
               &(const struct sw_sort_order){.first = SW_SLICE_AT(*(p), member1),                  \
                                             .second = SW_SLICE_AT(*(p), member2),                 \
                                             .pointers = true})
#define SW_SORT_POINTERS_BY(p, n, member) SW_SORT_POINTERS_BY2(p, n, member, member)
/* offsetof, and an error unless the member is a slice. */
#define SW_SLICE_AT(p, member)                                                                     \
    (offsetof(__typeof__(*(p)), member) +                                                          \
     0 * sizeof(1 ? &(p)->member : (const struct sw_slice *)NULL))

/* Whether the n have s, in whatever order. */
bool sw_slice_in(struct sw_slice s, const struct sw_slice *list, size_t n);
/* Whether one of the words, which end with NULL, is s. */
bool sw_word_in(struct sw_slice s, const char *const *words);
/* The same in any case (ASCII). */
bool sw_word_in_any_case(struct sw_slice s, const char *const *words);
/*
 * Where 'key' stands, or would stand, among n elements of 'size' bytes each that are sorted by the
 * slice at 'offset' inside them: the first that is not less, n when all are. list may be NULL with
 * n == 0.
 */
size_t sw_lower_bound(const void *list, size_t n, size_t size, size_t offset, struct sw_slice key);
