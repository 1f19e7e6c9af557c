/* SPDX-License-Identifier: Apache-2.0 */
/* Key index of big JSON objects; private to the json files of base. */
#pragma once

#include "base/json.h"

enum { SW_JSON_INDEX_MIN = 16 }; /* objects with more members than this carry an index */

/* An empty index with room for n members. */
struct sw_json_index *sw_json_index_new(struct sw_arena *a, size_t n);
/* True when one more member fits without a bigger index. */
bool sw_json_index_has_room(const struct sw_json_index *x);
uint32_t sw_json_index_hash(struct sw_slice key);
/* Position of key among the members, or -1. */
ptrdiff_t sw_json_index_find(const struct sw_json_index *x, const struct sw_json_member *members,
                             struct sw_slice key, uint32_t hash);
/* Records that the member with this hash stands at pos. */
void sw_json_index_add(struct sw_json_index *x, uint32_t hash, size_t pos);
/* Forgets the member at pos and moves those behind it one place forward. */
void sw_json_index_del(struct sw_json_index *x, uint32_t hash, size_t pos);
/* Moves the members from pos on one place back, to make room for one at pos. */
void sw_json_index_shift(struct sw_json_index *x, size_t pos);
/* Forgets everything, keeps the room. */
void sw_json_index_clear(struct sw_json_index *x);
