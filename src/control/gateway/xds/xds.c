/* SPDX-License-Identifier: Apache-2.0 */
/* The model as a whole: what is encoded, in which order, and into the cache. */
#include "control/gateway/xds/xds.h"

#include <stdlib.h>
#include <string.h>

#include <proto/cluster.pb-c.h>
#include <proto/listener.pb-c.h>

#include "base/buf.h"
#include "control/gateway/xds/xds_int.h"
#include "proto/pb.h"
#include "proto/types.h"
#include "xds/cache.h"

void sw_gwx_enc_add_bytes(struct enc *e, const char *type, struct sw_slice name,
                          struct sw_slice value)
{
    e->res = sw_arena_grow(e->a, e->res, e->n, &e->cap, sizeof(*e->res));
    e->res[e->n++] = (struct sw_model_resource){.type = type, .name = name, .value = value};
}

void sw_gwx_enc_add(struct enc *e, const char *type, struct sw_slice name,
                    const struct ProtobufCMessage *m)
{
    sw_gwx_enc_add_bytes(e, type, sw_arena_slice(e->a, name), sw_pb_pack(e->a, m));
}

int sw_gwx_by_name(const void *x, const void *y)
{
    const struct sw_model_resource *a = x;
    const struct sw_model_resource *b = y;

    return sw_slice_cmp(a->name, b->name);
}

static void sort_from(struct enc *e, size_t from)
{
    if (e->n > from + 1)
        qsort(e->res + from, e->n - from, sizeof(*e->res), sw_gwx_by_name);
}

/* Which kinds of tunnels there are. */
struct tunnels {
    bool bytes;
    bool datagrams;
};

static struct tunnels find_tunnels(const struct sw_model *m)
{
    struct tunnels t = {0};

    for (size_t i = 0; i < m->n_clusters; i++) {
        bool udp = sw_model_is_udp_tunnel(m->clusters[i]);

        t.datagrams |= udp;
        t.bytes |= m->clusters[i]->tunnel && !udp;
    }
    return t;
}

static void encode_clusters(struct enc *e, const struct sw_model *m, struct tunnels tunnels)
{
    size_t from = e->n;

    for (size_t i = 0; i < m->n_clusters; i++) {
        if (!sw_model_is_udp_tunnel(m->clusters[i]))
            sw_gwx_encode_cluster(e, m->clusters[i]);
    }
    for (size_t i = 0; i < m->n_listeners; i++) {
        const struct sw_model_listener *l = m->listeners[i];

        for (size_t k = 0; l->udp && k < l->n_chains; k++) {
            if (sw_gwx_udp_split(l->chains[k]))
                sw_gwx_encode_udp_cluster(e, l->chains[k]);
        }
    }
    if (tunnels.bytes)
        sw_gwx_enc_add(e, SW_TYPE_CLUSTER, SW_SLICE_LIT(SW_MODEL_CONNECT_PROXY),
                       &sw_gwx_connect_proxy(e)->base);
    if (tunnels.datagrams)
        sw_gwx_enc_add(e, SW_TYPE_CLUSTER, SW_SLICE_LIT(SW_MODEL_CONNECT_PROXY_UDP),
                       &sw_gwx_connect_proxy_udp(e)->base);
    sort_from(e, from);
}

static void encode_listeners(struct enc *e, const struct sw_model *m, bool tunnels)
{
    size_t from = e->n;

    for (size_t i = 0; i < m->n_listeners; i++)
        sw_gwx_encode_listener(e, m->listeners[i]);
    if (tunnels)
        sw_gwx_enc_add(e, SW_TYPE_LISTENER, SW_SLICE_LIT(SW_MODEL_TUNNEL_LISTENER),
                       &sw_gwx_tunnel_listener(e)->base);
    sort_from(e, from);
}

void sw_model_xds_encode(const struct sw_model *m, const struct sw_model_xds_conf *conf,
                         struct sw_arena *a, struct sw_model_resources *ret)
{
    struct enc e = {.a = a, .conf = conf};
    struct tunnels tunnels = find_tunnels(m);

    encode_clusters(&e, m, tunnels);
    encode_listeners(&e, m, tunnels.bytes);
    for (size_t i = 0; i < m->n_tables; i++)
        sw_gwx_encode_table(&e, m->tables[i]);
    for (size_t i = 0; i < m->n_secrets; i++)
        sw_gwx_encode_secret(&e, m->secrets[i]);
    *ret = (struct sw_model_resources){.p = e.res, .n = e.n};
}

static int put_all(struct sw_xds_txn *t, const struct sw_model_resources *r, struct sw_err *err)
{
    for (size_t i = 0; i < r->n; i++) {
        int rc = sw_xds_txn_put(t, r->p[i].type, r->p[i].name, r->p[i].value, err);

        if (rc != SW_OK)
            return rc;
    }
    return SW_OK;
}

int sw_model_xds_put(struct sw_xds_txn *t, const struct sw_model_resources *r, struct sw_err *err)
{
    static const char *const types[] = {SW_XDS_CLUSTER, SW_XDS_LISTENER, SW_XDS_ROUTE,
                                        SW_XDS_SECRET};

    for (size_t i = 0; i < SW_ARRAY_LEN(types); i++)
        sw_xds_txn_clear(t, types[i]);
    return put_all(t, r, err);
}

int sw_model_xds_put_endpoints(struct sw_xds_txn *t, const struct sw_model_resources *r,
                               struct sw_err *err)
{
    sw_xds_txn_clear(t, SW_XDS_ENDPOINT);
    return put_all(t, r, err);
}
