/* SPDX-License-Identifier: Apache-2.0 */
/* Which waypoint an object is bound to, or why it is not. */
#pragma once

#include "control/mesh/model.h"

enum mesh_bind_error {
    MESH_BIND_OK,
    MESH_BIND_NOT_READY,
    MESH_BIND_DENIED,
    MESH_BIND_UNSUPPORTED,
    MESH_BIND_CROSS_NS,
    MESH_BIND_CANARY_WEIGHT,
    MESH_BIND_CANARY_SAME,
};

struct mesh_binding {
    const struct mesh_gateway *waypoint; /* NULL: none */
    enum mesh_bind_error error;          /* why there is none, though one is asked for */
    struct sw_slice key;                 /* "namespace/name" of the one asked for; empty: none is */
    bool held;                         /* no waypoint, and the namespace wants no traffic past it */
    const struct mesh_gateway *canary; /* NULL: none */
    uint32_t weight;                   /* percent of the canary */
    enum mesh_bind_error canary_error;
    struct sw_slice canary_key;
    bool ingress;          /* gateways go through the waypoint too */
    bool ingress_labelled; /* a label says whether they do */
};

/* Texts of the result are in the arena, or live as long as the index does not change. */
struct mesh_binding mesh_bind_service(const struct sw_mesh_index *ix, const struct mesh_svc *s,
                                      struct sw_arena *a);
struct mesh_binding mesh_bind_workload(const struct sw_mesh_index *ix, const struct mesh_ns *ns,
                                       const struct mesh_text *labels, struct sw_arena *a);
/* Keys of the waypoints that connections to a workload come from. */
struct mesh_senders {
    struct sw_slice *p;
    size_t n;
};
/* Room in the arena for the waypoints of so many bindings. */
struct mesh_senders mesh_senders(struct sw_arena *a, size_t bindings);
void mesh_senders_add(struct mesh_senders *s, const struct mesh_binding *b);
/* What is asked of the policies; sorts the list. */
struct sw_mesh_subject mesh_subject(const struct mesh_ns *ns, const struct mesh_text *labels,
                                    struct mesh_senders *s);

/* The waypoint that pods with these labels are instances of; NULL: none. */
const struct mesh_gateway *mesh_instance_of(const struct sw_mesh_index *ix,
                                            const struct mesh_ns *ns,
                                            const struct mesh_text *labels);

/* How a waypoint wants its traffic: annotation of the Gateway or its class. */
struct mesh_inbound {
    bool set;
    bool proxy;
    uint16_t port; /* 0: not set */
};
struct mesh_inbound mesh_inbound_of(const struct sw_mesh_index *ix, const struct mesh_gateway *g);

/* True when the labels of an object or namespace name the gateway (own: the object's namespace). */
bool mesh_labels_name(const struct mesh_text *labels, struct sw_slice own,
                      const struct mesh_gateway *g);
