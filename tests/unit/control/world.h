/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of builds: YAML objects become views, and what a build wants is done to the objects as
 * an API would do it.
 */
#pragma once

#include "control/runtime_int.h"

struct world {
    struct sw_arena arena;
    struct sw_json **objs; /* owned */
    size_t n;
    size_t cap;
    uint64_t now;
    uint64_t since;        /* of the views; 0: ever */
    unsigned made;         /* uids given */
    struct sw_slice input; /* of the views */
    uint64_t revision;     /* that views have seen: all, unless set */
    /* Takes a document of kind TestConfig. */
    void (*configure)(struct world *w, const struct sw_json *v);
};

void world_add(struct world *w, struct sw_json *v);
/* Adds all documents. */
int world_load(struct world *w, struct sw_slice yaml, struct sw_err *err);
void world_end(struct world *w);
/* The order in which objects came, turned round. */
void world_reverse(struct world *w);
/* Two objects of one name cannot be in an API. */
bool world_distinct(const struct world *w);
/* True when all that one wants, the other wants too. */
bool output_same(const struct sw_output *x, const struct sw_output *y);
struct sw_view *world_view(struct world *w, const struct sw_control_kind *kinds, size_t n);
/* True when the world already is as this write wants it. */
bool world_done(struct world *w, const struct sw_control_kind *kinds, const struct out_write *o);
/* Does what is wanted. Returns how much there was to do. */
size_t world_obey(struct world *w, const struct sw_control_kind *kinds,
                  const struct sw_output *out);
/* What is wanted and not so yet, as text. */
void world_put_writes(struct world *w, const struct sw_control_kind *kinds,
                      const struct sw_output *o, struct sw_buf *out);
/* What is published, by kind, reason and name. The caller frees it. */
struct sw_change *world_published(const struct sw_output *o, size_t *ret_n);
