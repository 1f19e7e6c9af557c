/* SPDX-License-Identifier: Apache-2.0 */
#include "control/mesh/far.h"

#include <proto/google.pb-c.h>
#include <proto/workload.pb-c.h>

#include "control/mesh/netgw.h"
#include "control/mesh/service.h"
#include "proto/pb.h"

struct sw_slice mesh_home_network(const struct sw_mesh_index *ix)
{
    return mesh_str(ix->conf.home ? ix->conf.home->network : ix->network);
}

struct sw_slice mesh_identity(const struct sw_mesh_index *ix, struct sw_arena *a,
                              struct sw_slice ns, struct sw_slice account)
{
    if (!account.n)
        return sw_slice("", 0);
    return sw_slice_str(sw_arena_printf(a, "spiffe://%.*s/ns/%.*s/sa/%.*s",
                                        SW_SLICE_ARG(ix->conf.trust_domain), SW_SLICE_ARG(ns),
                                        SW_SLICE_ARG(account)));
}

static uint32_t weight_of(const Sw__MeshWorkload *w)
{
    if (w->status != SW__MESH_WORKLOAD__STATUS__HEALTHY)
        return 0;
    return w->capacity && w->capacity->value ? w->capacity->value : 1;
}

/* Workloads of other clusters are never endpoints themselves; our own are where nothing leads to
 * their network, so that a node can say why it refuses. */
static bool is_counted(const struct sw_mesh_index *ix, const Sw__MeshWorkload *w,
                       struct sw_slice key)
{
    const struct mesh_offer *o;

    if (ix->conf.home)
        return true;
    o = mesh_offer_find(ix, key);
    return o && o->of->global && mesh_netgw_first(ix, SW_PB_SLICE(w->network));
}

const struct sw_mesh_far *mesh_far_take(struct sw_mesh_index *ix, Sw__MeshWorkload *w)
{
    struct sw_slice *counted;
    struct sw_mesh_far *far;
    size_t left = 0;

    if (sw_slice_eq(SW_PB_SLICE(w->network), mesh_home_network(ix)))
        return NULL;
    far = sw_arena_array(&ix->tmp, 1, sizeof(*far));
    *far = (struct sw_mesh_far){.network = SW_PB_SLICE(w->network),
                                .identity = mesh_identity(ix, &ix->tmp, SW_PB_SLICE(w->namespace_),
                                                          SW_PB_SLICE(w->service_account)),
                                .weight = weight_of(w)};
    counted = sw_arena_array(&ix->tmp, w->n_services + 1, sizeof(*counted));
    for (size_t i = 0; i < w->n_services; i++) {
        struct sw_slice key = SW_PB_SLICE(w->services[i]->key);

        if (is_counted(ix, w, key))
            counted[far->n_counted++] = key;
        else
            w->services[left++] = w->services[i];
    }
    w->n_services = left;
    far->counted = counted;
    return far;
}
