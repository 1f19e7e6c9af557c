/* SPDX-License-Identifier: Apache-2.0 */
/* The workload selectors of policies: labels that must all be there. */
#pragma once

#include "base/arena.h"
#include "base/json.h"
#include "control/mesh/policy/model.h"

struct mesh_selector {
    const struct sw_mesh_label *p;
    size_t n; /* 0: no selector */
};

/*
 * spec.selector.matchLabels in the order of keys, in the arena. What is no set of
 * strings becomes a label that no workload has: the policy selects nothing rather than everything.
 */
struct mesh_selector mesh_selector_read(struct sw_arena *a, const struct sw_json *spec);
/* True when the labels have every pair of the selector. */
bool mesh_selector_match(const struct mesh_selector *s, const struct sw_mesh_label *labels,
                         size_t n);
/* The same labels in another arena. */
struct mesh_selector mesh_selector_copy(struct sw_arena *a, struct mesh_selector from);
