/* SPDX-License-Identifier: Apache-2.0 */
/* Services of a host name: which of them count, and their resources. */
#pragma once

#include "control/mesh/model.h"

struct Sw__MeshService;

/* The one of this "namespace/hostname" that counts; NULL: none. */
struct mesh_offer *mesh_offer_find(const struct sw_mesh_index *ix, struct sw_slice key);
/* Both live in the arena. */
struct Sw__MeshService *mesh_service_message(struct sw_mesh_index *ix, struct mesh_offer *o,
                                             struct sw_arena *a);
struct sw_mesh_change mesh_service_change(struct sw_arena *a, struct sw_slice key,
                                          struct Sw__MeshService *v);

/* Before an offer goes: it is not counted any more. */
void mesh_offer_leave(struct sw_mesh_index *ix, struct mesh_offer *o);
/*
 * Settles who wins and emits the winners. Calls 'flipped' for each service of which an offer won or
 * lost.
 */
void mesh_host_renew(struct sw_mesh_index *ix, struct mesh_host *h,
                     void (*flipped)(struct sw_mesh_index *ix, struct mesh_svc *s));
