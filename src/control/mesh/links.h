/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which record depends on which: records enter and leave the index here, and what their coming or
 * going affects is marked for the next flush.
 */
#pragma once

#include "control/mesh/model.h"
#include "control/mesh/read/read.h"

/* Never NULL: made when missing, and kept while anything refers to it. */
struct mesh_ns *mesh_ns_get(struct sw_mesh_index *ix, struct sw_slice name);
void mesh_ns_release(struct sw_mesh_index *ix, struct mesh_ns *ns);
struct mesh_node *mesh_node_get(struct sw_mesh_index *ix, struct sw_slice name);
void mesh_node_release(struct sw_mesh_index *ix, struct mesh_node *n);

void mesh_mark_workload(struct sw_mesh_index *ix, struct mesh_workload *w);
/* Everything in the namespace. */
void mesh_mark_ns(struct sw_mesh_index *ix, struct mesh_ns *ns);
/* Its workloads: services list no policies. */
void mesh_mark_policies(struct sw_mesh_index *ix, struct mesh_ns *ns);
/* Everything there is. */
void mesh_mark_all(struct sw_mesh_index *ix);
/* What is bound to the waypoint, wants to be, or is an instance of it. */
void mesh_mark_gateway(struct sw_mesh_index *ix, const struct mesh_gateway *g);
/* The services of a host name; key: "namespace/hostname" of one of them. */
void mesh_mark_host(struct sw_mesh_index *ix, struct sw_slice key);
/* What depends on a service whose offers won or lost. */
void mesh_mark_service(struct sw_mesh_index *ix, struct mesh_svc *s);

/*
 * w takes the place of the workload of its key in the map, if there is one; NULL: that one goes.
 * place->labels is taken over.
 */
void mesh_put_workload(struct sw_mesh_index *ix, struct sw_map *map, struct mesh_workload *w,
                       const struct mesh_place *place);
void mesh_drop_workload(struct sw_mesh_index *ix, struct sw_map *map, struct sw_slice key);

void mesh_put_service(struct sw_mesh_index *ix, struct mesh_svc *s, struct sw_slice ns);
void mesh_drop_service(struct sw_mesh_index *ix, bool entry, struct sw_slice key);

void mesh_put_slice(struct sw_mesh_index *ix, struct mesh_slice *s, struct sw_slice ns);
void mesh_drop_slice(struct sw_mesh_index *ix, struct sw_slice key);
/* The Service of a slice; NULL: not known. */
struct mesh_svc *mesh_slice_service(const struct sw_mesh_index *ix, const struct mesh_slice *s);
/* Gives its pods to the Service, where that has no selector. */
void mesh_slice_bind(struct sw_mesh_index *ix, struct mesh_slice *s);
