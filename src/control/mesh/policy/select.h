/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Things found by the labels of a workload: each is filed under one label of its selector, so that
 * a workload looks at those that share a label with it, and not at all there are.
 */
#pragma once

#include "base/map.h"
#include "control/mesh/policy/labels.h"

/* Zeroed is empty. */
struct mesh_select {
    struct sw_map buckets; /* a label -> struct bucket */
};

void mesh_select_done(struct mesh_select *m);
/* The selector has at least one label, and lives as long as the entry. */
void mesh_select_add(struct mesh_select *m, const struct mesh_selector *s, const void *value);
void mesh_select_del(struct mesh_select *m, const struct mesh_selector *s, const void *value);

typedef void (*mesh_select_fn)(void *arg, const void *value);
/* Calls f for each whose selector matches, once, in no order. Labels have each key once. */
void mesh_select_each(const struct mesh_select *m, const struct sw_mesh_label *labels, size_t n,
                      mesh_select_fn f, void *arg);
