/* SPDX-License-Identifier: Apache-2.0 */
/* The parts that resources are made of. Messages live in the arena. */
#pragma once

#include "control/mesh/model.h"

struct mesh_binding;
struct Sw__MeshGatewayAddress;
struct Sw__MeshLocality;
struct Sw__MeshServicePorts;
struct Sw__MeshWorkload;
struct Sw__UInt32Value;

/*
 * The binding's waypoint. One that is held but not there is given by the name that its Service will
 * have: nodes refuse connections to what is bound to it. NULL: neither.
 */
struct Sw__MeshGatewayAddress *mesh_msg_binding(const struct sw_mesh_index *ix, struct sw_arena *a,
                                                const struct mesh_binding *b);
struct Sw__MeshGatewayAddress *mesh_msg_waypoint(const struct sw_mesh_index *ix, struct sw_arena *a,
                                                 const struct mesh_gateway *g);
struct Sw__MeshGatewayAddress *mesh_msg_netgw(struct sw_arena *a, const struct mesh_netgw *g);
/* How a network is reached; NULL: directly. */
struct Sw__MeshGatewayAddress *mesh_msg_network_gateway(const struct sw_mesh_index *ix,
                                                        struct sw_arena *a,
                                                        struct sw_slice network);
/* NULL when all parts are empty. */
struct Sw__MeshLocality *mesh_msg_locality(struct sw_arena *a, const struct mesh_locality *l);
/* NULL for 0: the default. */
struct Sw__UInt32Value *mesh_msg_capacity(struct sw_arena *a, uint32_t weight);

/* A workload's port of a service's. 0: it does not serve it. */
typedef uint16_t (*mesh_target_fn)(const struct mesh_svc *s, const struct mesh_port *p,
                                   const void *arg);
/* The ports of a service as one workload has them. */
struct Sw__MeshServicePorts *mesh_msg_ports(struct sw_arena *a, const struct mesh_offer *o,
                                            mesh_target_fn target, const void *arg);

/* A workload message with what all workloads of the index share. */
struct Sw__MeshWorkload *mesh_msg_workload(const struct sw_mesh_index *ix, struct sw_arena *a);
/* Canonical name and revision from labels. */
void mesh_msg_canonical(struct Sw__MeshWorkload *w, const struct mesh_text *labels);
/* Keys, one per line. */
void mesh_msg_policies(struct sw_arena *a, struct Sw__MeshWorkload *w, struct sw_slice lines);
/* Sorts the services and gives the resource with its aliases; slices live in the arena. */
struct sw_mesh_change mesh_msg_change(struct sw_arena *a, struct Sw__MeshWorkload *w);
