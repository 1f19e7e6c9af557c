/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of the connector builds: YAML objects become views, and what the builds want is done to
 * the objects as an API would do it.
 */
#pragma once

#include "control/connector/build_int.h"
#include "control/runtime_int.h"

enum { OBJECTS_MAX = 256 };

struct world {
    struct sw_arena arena;
    struct sw_json *objs[OBJECTS_MAX];
    size_t n;
    struct sw_connector_conf conf;
    uint64_t now;
    uint64_t since;        /* of the views; 0: ever */
    unsigned made;         /* uids given */
    struct sw_slice input; /* of the views */
    uint64_t revision;     /* that views have seen: all, unless set */
};

/* The two builds. */
extern const struct both {
    const struct sw_control_kind *kinds;
    size_t n;
    void (*build)(const struct sw_view *v, const struct sw_connector_conf *c, struct sw_output *o);
} both[2];

struct builds {
    struct sw_output *out[2];
};

/* An empty world at noon. */
void world_begin(struct world *w);
/* Adds all documents; one of kind TestConfig is the configuration. */
int world_load(struct world *w, struct sw_slice yaml, struct sw_err *err);
struct builds build(struct world *w);
void builds_free(struct builds *b);
/* True when the world already is as this write wants it. */
bool is_done(struct world *w, size_t at, const struct out_write *o);
/* Does what is wanted. Returns how much there was to do. */
size_t obey(struct world *w, struct builds *b);
