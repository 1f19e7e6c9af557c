/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several clusters and networks as one mesh: the index of the own cluster and one for each other
 * cluster. Workloads of the own network come out one by one, whatever cluster they are in; what is
 * on other networks comes out as one workload for each GLOBAL service, network and gateway;
 * services that both sides call GLOBAL are one. Incremental, and a function of the objects alone,
 * as the indexes are.
 *
 * Changes may repeat what was published, and remove what never was: the cache takes both.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"
#include "control/mesh/index.h"
#include "control/mesh/types.h"

struct sw_mesh_networks;

/* Borrows the index of the own cluster. */
SW_NODISCARD struct sw_mesh_networks *sw_mesh_networks_new(struct sw_mesh_index *home);
/* With the other clusters' indexes. NULL is fine. */
void sw_mesh_networks_free(struct sw_mesh_networks *n);

struct sw_mesh_part; /* another cluster */

/*
 * Its settings are those of home. NULL: there is one of that name, or it is the own cluster's.
 * Nothing of it is seen before sw_mesh_networks_ready.
 */
SW_NODISCARD struct sw_mesh_part *sw_mesh_networks_add(struct sw_mesh_networks *n,
                                                       struct sw_slice cluster);
/* As sw_mesh_index_set and sw_mesh_index_del. */
void sw_mesh_networks_set(struct sw_mesh_part *p, enum sw_mesh_kind kind, const struct sw_json *obj,
                          const char **ret_why);
void sw_mesh_networks_del(struct sw_mesh_part *p, enum sw_mesh_kind kind, struct sw_slice ns,
                          struct sw_slice name);
void sw_mesh_networks_ready(struct sw_mesh_part *p);
/* The cluster goes, and the pointer with it. The next flush removes what came of it. */
void sw_mesh_networks_remove(struct sw_mesh_part *p);

/* As sw_mesh_index_flush, of all. */
bool sw_mesh_networks_flush(struct sw_mesh_networks *n, size_t most, sw_mesh_emit_fn emit,
                            void *arg);

struct sw_mesh_networks_stats {
    size_t clusters; /* others, those that are not ready included */
    size_t far;      /* workloads on other networks */
    size_t joined;   /* services that are more than our own cluster's */
    size_t doorless; /* networks with workloads that no gateway leads to */
};
struct sw_mesh_networks_stats sw_mesh_networks_stats(const struct sw_mesh_networks *n);
