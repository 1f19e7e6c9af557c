/* SPDX-License-Identifier: Apache-2.0 */
/* Resources from an xDS server: the delta client on one side, the store on the other. */
#include "base/log.h"
#include "base/mem.h"
#include "base/vec.h"
#include "gateway/config_store.h"
#include "proto/types.h"
#include "xds/client.h"

struct sw_gw_xds {
    struct sw_gw_store *store; /* borrowed */
    struct sw_xds_client *client;
    struct feed {
        struct sw_gw_xds *xds;
        enum sw_gw_type type;
        const char *url;
    } feeds[SW_GW_TYPES];
};

static int on_update(void *arg, const struct sw_xds_update *u, struct sw_err *err)
{
    const struct feed *f = arg;
    SW_VEC(struct sw_gw_resource) res = {0};
    int rc = SW_OK;

    for (size_t i = 0; i < u->n_added && rc == SW_OK; i++) {
        struct sw_gw_resource r = {
            .name = u->added[i].name, .version = u->added[i].version, .bytes = u->added[i].value};

        if (!sw_slice_eq_str(u->added[i].type, f->url))
            rc = sw_err_set(err, SW_EINVAL, "%.*s: a resource of another type",
                            (int)sw_min(r.name.n, 60), r.name.p);
        if (!r.bytes.p)
            r.bytes = sw_slice("", 0);
        sw_vec_push(&res, r);
    }
    if (rc == SW_OK)
        rc =
            sw_gw_store_update(f->xds->store, f->type, res.p, res.n, u->removed, u->n_removed, err);
    sw_vec_done(&res);
    return rc;
}

static void on_wanted(enum sw_gw_type t, struct sw_slice name, bool wanted, void *arg)
{
    struct sw_gw_xds *x = arg;

    if (!wanted)
        sw_xds_client_unsubscribe(x->client, x->feeds[t].url, name);
    else if (sw_xds_client_subscribe(x->client, x->feeds[t].url, name) != SW_OK)
        sw_log_warn("xds", "cannot subscribe to '%.*s'", (int)sw_min(name.n, 100), name.p);
}

struct sw_gw_xds *sw_gw_xds_new(struct sw_gw_store *s, struct sw_loop *l,
                                const struct sw_xds_client_opts *o, struct sw_err *err)
{
    static const char *const urls[SW_GW_TYPES] = {
        [SW_GW_TYPE_CLUSTER] = SW_TYPE_CLUSTER,   [SW_GW_TYPE_ENDPOINTS] = SW_TYPE_ENDPOINT,
        [SW_GW_TYPE_LISTENER] = SW_TYPE_LISTENER, [SW_GW_TYPE_ROUTES] = SW_TYPE_ROUTE,
        [SW_GW_TYPE_SECRET] = SW_TYPE_SECRET,
    };
    /* What others need comes first, so that little has to wait. */
    static const enum sw_gw_type order[] = {SW_GW_TYPE_CLUSTER, SW_GW_TYPE_ENDPOINTS,
                                            SW_GW_TYPE_LISTENER, SW_GW_TYPE_ROUTES,
                                            SW_GW_TYPE_SECRET};
    struct sw_gw_xds *x = SW_NEW(struct sw_gw_xds);

    x->store = s;
    x->client = sw_xds_client_new(l, o, err);
    if (!x->client) {
        sw_free(x);
        return NULL;
    }
    for (size_t i = 0; i < SW_ARRAY_LEN(order); i++) {
        struct feed *f = &x->feeds[order[i]];

        *f = (struct feed){.xds = x, .type = order[i], .url = urls[order[i]]};
        sw_xds_client_type(x->client, f->url, on_update, f);
    }
    sw_xds_client_wildcard(x->client, SW_TYPE_CLUSTER, true);
    sw_xds_client_wildcard(x->client, SW_TYPE_LISTENER, true);
    sw_gw_store_on_wanted(s, on_wanted, x);
    sw_xds_client_start(x->client);
    return x;
}

bool sw_gw_xds_connected(const struct sw_gw_xds *x)
{
    return sw_xds_client_connected(x->client);
}

void sw_gw_xds_free(struct sw_gw_xds *x)
{
    if (!x)
        return;
    sw_gw_store_on_wanted(x->store, NULL, NULL);
    sw_xds_client_free(x->client);
    sw_free(x);
}
