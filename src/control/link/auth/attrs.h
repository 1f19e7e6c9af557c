/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes of the two ends of a link's connection: put together, read and written as JSON. */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "control/link/facts.h"
#include "policy/attr.h"

enum { SW_LINK_ATTR_TEXT = 4096 }; /* bytes of one key or value that a peer sends */

/* Collects attributes; unsorted until sw_link_attrs_done. What does not fit is left out. */
struct sw_link_attrs {
    struct sw_attr *p;
    size_t n;
    size_t cap;
};

/* cap: how many there will be at most. */
void sw_link_attrs_begin(struct sw_link_attrs *b, struct sw_arena *a, size_t cap);
/* Texts are borrowed. */
void sw_link_attrs_add(struct sw_link_attrs *b, struct sw_slice key, struct sw_slice value);
void sw_link_attrs_add_all(struct sw_link_attrs *b, const struct sw_attrs *more);
struct sw_attrs sw_link_attrs_done(struct sw_link_attrs *b);

/*
 * A JSON object of strings with this prefix in front of each key; null or absent: none. Texts are
 * borrowed from v where there is no prefix. SW_EINVAL: anything else; SW_ELIMIT: too many or long.
 */
SW_NODISCARD int sw_link_attrs_read(struct sw_arena *a, const char *prefix, const struct sw_json *v,
                                    struct sw_attrs *ret, struct sw_err *err);
/* The object; null when there are none. */
struct sw_json *sw_link_attrs_json(struct sw_arena *a, const struct sw_attrs *of);
