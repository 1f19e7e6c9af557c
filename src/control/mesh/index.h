/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index from which nodes of a mesh get workloads and services: objects of the API go in one at
 * a time, changed istio.workload.Address resources come out. Each object leaves a compact record; a
 * change recomputes only the resources that depend on it, and the result equals what an index
 * filled from nothing with the same objects gives, byte for byte, in whatever order they came.
 *
 * No I/O, no clock, no threads. Objects are read during the call and not kept.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/slice.h"
#include "control/mesh/types.h"

struct sw_mesh_index;

SW_NODISCARD struct sw_mesh_index *sw_mesh_index_new(const struct sw_mesh_conf *conf);
/* NULL is fine. */
void sw_mesh_index_free(struct sw_mesh_index *ix);

/*
 * The object's newest state. An object without a name, or one that cannot be read, counts as gone;
 * then, where it is worth a line to an operator, *ret_why (may be NULL) is a literal.
 */
void sw_mesh_index_set(struct sw_mesh_index *ix, enum sw_mesh_kind kind, const struct sw_json *obj,
                       const char **ret_why);
/* ns is empty for kinds without namespaces. */
void sw_mesh_index_del(struct sw_mesh_index *ix, enum sw_mesh_kind kind, struct sw_slice ns,
                       struct sw_slice name);
/* All objects go; the next flush removes what came of them. */
void sw_mesh_index_clear(struct sw_mesh_index *ix);
/* What workloads list of policies may have changed in a namespace; an empty one: in all. */
void sw_mesh_index_policies_changed(struct sw_mesh_index *ix, struct sw_slice ns);

/*
 * Recomputes what depends on the changes since, about 'most' resources of it (0: all), and emits
 * the differences to what was emitted before. Returns false when something is left to do.
 */
bool sw_mesh_index_flush(struct sw_mesh_index *ix, size_t most, sw_mesh_emit_fn emit, void *arg);

/* Hands out what Gateways run as, where pods that are instances came, changed or went since. */
void sw_mesh_index_instances(struct sw_mesh_index *ix, sw_mesh_instances_fn fn, void *arg);

struct sw_mesh_index_stats {
    size_t pods;
    size_t workload_entries;
    size_t services;
    size_t service_entries;
    size_t groups; /* of workloads with the same labels */
    size_t texts;
    size_t held;       /* services that wait for a waypoint */
    size_t passed;     /* services whose traffic goes past a waypoint that is not there */
    uint64_t computed; /* resources encoded */
    uint64_t emitted;  /* that were different */
};
struct sw_mesh_index_stats sw_mesh_index_stats(const struct sw_mesh_index *ix);
