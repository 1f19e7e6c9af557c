/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects of the API to records of the index. Objects may be anything that is JSON: members of
 * other types count as absent, lists are bounded, and an object that makes no sense is refused
 * with NULL. Records are not linked to anything yet; texts in them are references.
 */
#pragma once

#include "control/mesh/model.h"

struct mesh_meta {
    struct sw_slice ns; /* empty for kinds without namespaces */
    struct sw_slice name;
    struct sw_slice created; /* empty: not set */
    const struct sw_json *labels;
    const struct sw_json *annotations;
};

/*
 * True for what may be part of a resource's name: not empty, 253 bytes at most, no slash, no space,
 * no control characters.
 */
bool mesh_read_is_name(struct sw_slice s);
/* False when a name is missing or is none. */
SW_NODISCARD bool mesh_read_meta(const struct sw_json *obj, bool namespaced, struct mesh_meta *ret);
/* True when a list like "a, b" has the word. */
bool mesh_read_has_word(struct sw_slice list, const char *word);

/* "region/zone/subzone", of which any may be missing. */
struct mesh_locality mesh_read_locality(struct sw_slice text);

/* What a Pod or WorkloadEntry is linked by. */
struct mesh_place {
    struct mesh_text *labels; /* a reference, the caller's */
    struct sw_slice node;     /* of the object; empty: none */
};

/* NULL: the pod has ended, or has no address. */
struct mesh_workload *mesh_read_pod(struct sw_mesh_index *ix, const struct sw_json *obj,
                                    const struct mesh_meta *m, struct mesh_place *ret);
/* NULL with a reason when it cannot be a workload. */
struct mesh_workload *mesh_read_workload_entry(struct sw_mesh_index *ix, const struct sw_json *obj,
                                               const struct mesh_meta *m, struct mesh_place *ret,
                                               const char **ret_why);
/* Also what is not linked any more. */
void mesh_workload_free(struct sw_mesh_index *ix, struct mesh_workload *w);

/* NULL: of type ExternalName, or none. */
struct mesh_svc *mesh_read_service(struct sw_mesh_index *ix, const struct sw_json *obj,
                                   const struct mesh_meta *m);
/* NULL with a reason. */
struct mesh_svc *mesh_read_service_entry(struct sw_mesh_index *ix, const struct sw_json *obj,
                                         const struct mesh_meta *m, const char **ret_why);
void mesh_svc_free(struct sw_mesh_index *ix, struct mesh_svc *s);

/* NULL: not of a Service, or of host names. */
struct mesh_slice *mesh_read_slice(struct sw_mesh_index *ix, const struct sw_json *obj,
                                   const struct mesh_meta *m);
/* A pod that is an endpoint. */
struct mesh_slice_pod {
    uint64_t uid; /* hash; 0: not set */
    struct sw_slice name;
};
/* Takes the first off a slice's 'pods'; false at the end. */
bool mesh_slice_pods_next(struct sw_slice *list, struct mesh_slice_pod *ret);
void mesh_slice_free(struct sw_mesh_index *ix, struct mesh_slice *s);

struct mesh_gateway *mesh_read_gateway(const struct sw_json *obj, const struct mesh_meta *m);
void mesh_gateway_free(struct mesh_gateway *g);
