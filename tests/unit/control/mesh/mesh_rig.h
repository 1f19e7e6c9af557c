/* SPDX-License-Identifier: Apache-2.0 */
/* An index of the mesh with a node's copy of what it emitted. */
#pragma once

#include "base/arena.h"
#include "base/map.h"
#include "control/mesh/index.h"
#include "control/mesh/networks.h"

struct mesh_rig {
    struct sw_mesh_index *ix;
    struct sw_mesh_networks *nets; /* NULL: one cluster */
    struct sw_map have;            /* name -> struct mesh_got */
    size_t changes;                /* since rig_flush began */
};

struct mesh_got {
    char *name;
    char *value;
    size_t n;
    char *extra; /* "aliases; node; services" */
};

void mesh_rig_init(struct mesh_rig *r, const struct sw_mesh_conf *conf);
void mesh_rig_done(struct mesh_rig *r);
/* Objects as JSON with ' for ", one per line or a list of them; kinds by their "kind". */
void mesh_rig_set(struct mesh_rig *r, const char *objects);
/* The same in another cluster; NULL: our own. */
void mesh_rig_set_in(struct mesh_rig *r, struct sw_mesh_part *p, const char *objects);
/* Several clusters from now on. */
void mesh_rig_join(struct mesh_rig *r);
void mesh_rig_del(struct mesh_rig *r, enum sw_mesh_kind kind, const char *ns, const char *name);
/* Everything; the number of changes. */
size_t mesh_rig_flush(struct mesh_rig *r);
/* As much as one turn of the loop does; true: that was all. */
bool mesh_rig_turn(struct mesh_rig *r, size_t most);
/* NULL: no such resource. */
const struct mesh_got *mesh_rig_get(const struct mesh_rig *r, const char *name);
/* The resource as text, in the arena; "" when there is none. */
const char *mesh_rig_text(const struct mesh_rig *r, struct sw_arena *a, const char *name);
struct sw_json *mesh_rig_json(struct sw_arena *a, const char *text);
enum sw_mesh_kind mesh_rig_kind(const struct sw_json *obj);
