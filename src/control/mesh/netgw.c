/* SPDX-License-Identifier: Apache-2.0 */
#include "control/mesh/netgw.h"

#include <stdlib.h>

#include "base/mem.h"
#include "control/mesh/names.h"
#include "control/mesh/read/read.h"

static uint16_t hbone_port(const struct mesh_gateway *g)
{
    for (size_t i = 0; i < g->n_listeners; i++) {
        const struct mesh_listener *l = &g->listeners[i];

        if (l->hbone && l->port && (!g->far.p || l->terminates))
            return l->port;
    }
    return 0;
}

bool mesh_is_netgw(const struct mesh_gateway *g)
{
    return g && g->network.n &&
           sw_slice_eq_str(g->class, g->far.p ? MESH_CLASS_EAST_WEST : MESH_CLASS_REMOTE) &&
           hbone_port(g);
}

/* Our own first: where two clusters know one gateway, ours counts. */
static int by_netgw(const void *a, const void *b)
{
    const struct mesh_netgw *x = a;
    const struct mesh_netgw *y = b;
    int d = sw_slice_cmp(x->network, y->network);

    if (!d)
        d = (x->gateway->far.p != NULL) - (y->gateway->far.p != NULL);
    if (!d)
        d = sw_slice_cmp(x->gateway->key, y->gateway->key);
    if (!d && x->gateway->far.p)
        d = sw_slice_cmp(x->gateway->far, y->gateway->far);
    return d ? d : sw_slice_cmp(x->address, y->address);
}

static void add_addresses(struct sw_mesh_index *ix, const struct mesh_gateway *g)
{
    for (size_t i = 0; i < g->n_status; i++) {
        struct mesh_netgw n = {
            .network = g->network, .address = g->status[i], .port = hbone_port(g), .gateway = g};
        struct sw_err err;

        if (sw_ip_parse(n.address, &n.ip, &err) != SW_OK)
            n.ip = (struct sw_ip){0};
        sw_vec_push(&ix->netgws, n);
    }
}

void mesh_netgws_renew(struct sw_mesh_index *ix)
{
    sw_vec_done(&ix->netgws);
    if (ix->conf.home)
        return; /* ours lead there */
    SW_MAP_FOREACH (it, &ix->gateways) {
        if (mesh_is_netgw(it->value))
            add_addresses(ix, it->value);
    }
    SW_MAP_EACH (const struct mesh_gateway, g, &ix->far_gateways) {
        if (!sw_slice_eq(g->network, mesh_str(ix->network)))
            add_addresses(ix, g);
    }
    if (ix->netgws.n > 1)
        qsort(ix->netgws.p, ix->netgws.n, sizeof(*ix->netgws.p), by_netgw);
    ix->dirty_networks = true;
    ix->netgws_renewed++;
}

const struct mesh_netgw *mesh_netgw_first(const struct sw_mesh_index *ix, struct sw_slice network)
{
    for (size_t i = 0; i < ix->netgws.n; i++) {
        if (sw_slice_eq(ix->netgws.p[i].network, network))
            return &ix->netgws.p[i];
    }
    return NULL;
}

size_t mesh_netgw_count(const struct sw_mesh_index *ix, const struct mesh_netgw *first)
{
    size_t n = 0;

    while (first + n < ix->netgws.p + ix->netgws.n && sw_slice_eq(first[n].network, first->network))
        n++;
    return n;
}

/* ---- those of other clusters ---- */

/* now: NULL when it goes; taken over. */
static bool put_far(struct sw_mesh_index *ix, struct sw_slice key, struct mesh_gateway *now)
{
    struct mesh_gateway *old = sw_map_get(&ix->far_gateways, key);

    if (old && now && old->digest == now->digest) {
        mesh_gateway_free(now);
        return false;
    }
    if (now)
        (void)sw_map_put(&ix->far_gateways, now->far, now);
    else if (old)
        (void)sw_map_del(&ix->far_gateways, key);
    if (now || old)
        mesh_netgws_renew(ix);
    mesh_gateway_free(old);
    return now || old;
}

static struct sw_slice far_key(struct sw_arena *a, struct sw_slice cluster, struct sw_slice ns,
                               struct sw_slice name)
{
    return sw_slice_str(sw_arena_printf(a, "%.*s/%.*s/%.*s", SW_SLICE_ARG(cluster),
                                        SW_SLICE_ARG(ns), SW_SLICE_ARG(name)));
}

bool mesh_set_far_gateway(struct sw_mesh_index *ix, struct sw_slice cluster,
                          const struct sw_json *obj)
{
    struct mesh_gateway *g;
    struct mesh_meta m;
    bool changed;

    if (!mesh_read_meta(obj, true, &m))
        return false;
    g = mesh_read_gateway(obj, &m);
    g->far = far_key(&g->arena, cluster, m.ns, m.name);
    if (mesh_is_netgw(g))
        return put_far(ix, g->far, g);
    changed = put_far(ix, g->far, NULL);
    mesh_gateway_free(g);
    return changed;
}

bool mesh_del_far_gateway(struct sw_mesh_index *ix, struct sw_slice cluster, struct sw_slice ns,
                          struct sw_slice name)
{
    SW_ARENA_AUTO a = {0};

    return put_far(ix, far_key(&a, cluster, ns, name), NULL);
}

bool mesh_drop_far_gateways(struct sw_mesh_index *ix, struct sw_slice cluster)
{
    bool any = false;

    SW_MAP_EACH (struct mesh_gateway, g, &ix->far_gateways) {
        struct sw_slice rest = g->far;

        if (!sw_slice_eq(sw_slice_cut(&rest, '/'), cluster))
            continue;
        (void)sw_map_del(&ix->far_gateways, g->far);
        mesh_gateway_free(g);
        any = true;
    }
    if (any)
        mesh_netgws_renew(ix);
    return any;
}

void mesh_far_gateways_done(struct sw_mesh_index *ix)
{
    SW_MAP_DRAIN(&ix->far_gateways, mesh_gateway_free);
}
