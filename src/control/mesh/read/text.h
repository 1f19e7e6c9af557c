/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interned texts: equal bytes are one counted allocation, so a million pods share their service
 * accounts, label sets and port lists, and equality is a comparison of pointers.
 *
 * A set of labels is a text too: its pairs ordered by key, each with two lengths in front. NULL is
 * the empty text and the empty set.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/map.h"
#include "base/slice.h"
#include "control/mesh/policy/model.h"

enum {
    SW_MESH_LABELS_MAX = 256,      /* of one object; the API allows more bytes than are in use */
    SW_MESH_LABEL_MAX = UINT16_MAX /* bytes of a key or a value */
};

struct mesh_text {
    uint32_t refs;
    uint32_t n;
    char p[];
};

struct mesh_pool {
    struct sw_map texts;
};

/* Frees the table; all texts must have been released. */
void mesh_pool_done(struct mesh_pool *p);
/* A reference; NULL for an empty slice. */
struct mesh_text *mesh_text(struct mesh_pool *p, struct sw_slice s);
/* Gives a reference back and clears the pointer. */
void mesh_text_drop(struct mesh_pool *p, struct mesh_text **t);

static inline struct sw_slice mesh_str(const struct mesh_text *t)
{
    return t ? sw_slice(t->p, t->n) : sw_slice("", 0);
}

/* Takes the first pair off *set, in the order of keys; false at the end. */
bool mesh_labels_next(struct sw_slice *set, struct sw_mesh_label *ret);
/* p == NULL when the set has no such label. */
struct sw_slice mesh_labels_get(const struct mesh_text *set, const char *key);
/* True when every pair of 'sub' is in 'set'. An empty 'sub' is. */
bool mesh_labels_within(const struct mesh_text *sub, const struct mesh_text *set);
/*
 * The set of an object's string members, those of 'over' winning; either may be NULL. Members that
 * are no strings, or too long, are passed over; of too many the first by key are taken.
 */
struct mesh_text *mesh_labels(struct mesh_pool *p, const struct sw_json *base,
                              const struct sw_json *over);
