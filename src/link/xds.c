/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots from the control plane: clusters, listeners and secrets over delta ADS, and the epoch
 * of our own form. A resource that cannot be used is refused alone: the others count, and what it
 * was before stays. At most one snapshot per turn of the loop.
 */
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/secret.h"
#include "base/time.h"
#include "link/link_int.h"
#include "proto/types.h"
#include "tls/cert/cred.h"
#include "xds/client.h"

enum { RESOURCES_MAX = 100000 };

struct link_xds {
    struct link_xds_opts o;
    struct sw_xds_client *client;
    struct sw_map res[3]; /* link_res by name, by kind; a reference each */
    struct sw_arena secret_arena[2];
    struct link_secret secrets; /* certificate and validation, each in its arena */
    struct sw_tls_cred *cred;
    uint64_t cred_version;
    uint8_t epoch[LINK_EPOCH_MAX];
    size_t n_epoch;
    uint64_t version;
    struct link_snap *snap; /* published last */
    struct sw_defer publish;
};

static void on_publish(struct sw_defer *d);

static void changed(struct link_xds *x)
{
    sw_loop_defer(x->o.loop, &x->publish, on_publish);
}

/* ---- snapshots ---- */

static void copy_map(struct sw_map *to, const struct sw_map *from)
{
    SW_MAP_FOREACH (slot, from)
        (void)sw_map_put(to, slot->key, link_res_ref(slot->value));
}

static void on_publish(struct sw_defer *d)
{
    struct link_xds *x = SW_CONTAINER_OF(d, struct link_xds, publish);
    struct link_snap *s = SW_NEW(struct link_snap);

    atomic_init(&s->refs, 1);
    s->version = ++x->version;
    copy_map(&s->peers, &x->res[LINK_PEER]);
    copy_map(&s->exports, &x->res[LINK_EXPORT]);
    copy_map(&s->imports, &x->res[LINK_IMPORT]);
    s->cred = x->cred ? sw_tls_cred_ref(x->cred) : NULL;
    s->cred_version = x->cred_version;
    s->complete = x->cred && sw_xds_client_ready(x->client, SW_TYPE_CLUSTER) &&
                  sw_xds_client_ready(x->client, SW_TYPE_LISTENER);
    memcpy(s->epoch, x->epoch, x->n_epoch);
    s->n_epoch = x->n_epoch;
    (void)link_snap_unref(x->snap);
    x->snap = link_snap_ref(s);
    x->o.on_snap(x->o.arg, s);
}

struct link_snap *link_xds_snap(const struct link_xds *x)
{
    return x->snap;
}

/* ---- clusters and listeners ---- */

static void refuse(struct link_xds *x, const char *type, struct sw_slice name,
                   const struct sw_err *err)
{
    sw_log_warn("link", "resource '%.*s' rejected, keeping the previous version: %s",
                SW_SLICE_ARG_MAX(name, 100), err->msg);
    sw_xds_client_refuse(x->client, type, name, err->msg);
}

typedef struct link_res *(*decode_fn)(struct sw_slice name, struct sw_slice bytes,
                                      struct sw_err *err);

static void add_all(struct link_xds *x, const struct sw_xds_update *u, const char *type,
                    decode_fn decode)
{
    for (size_t i = 0; i < u->n_added; i++) {
        struct sw_err why = {0};
        struct link_res *r = decode(u->added[i].name, u->added[i].value, &why);

        if (r)
            (void)link_res_unref(sw_map_put(&x->res[r->kind], r->name, r));
        else if (why.rc != SW_ENOENT)
            refuse(x, type, u->added[i].name, &why);
    }
    changed(x);
}

static void drop_all(struct link_xds *x, const struct sw_xds_update *u, enum link_kind kind,
                     const char *prefix)
{
    for (size_t i = 0; i < u->n_removed; i++) {
        struct sw_slice name = u->removed[i];

        if (sw_slice_has_prefix(name, sw_slice_str(prefix)))
            (void)link_res_unref(sw_map_del(&x->res[kind], sw_slice_from(name, strlen(prefix))));
    }
}

static int on_clusters(void *arg, const struct sw_xds_update *u, struct sw_err *err)
{
    add_all(arg, u, SW_TYPE_CLUSTER, link_res_cluster);
    drop_all(arg, u, LINK_PEER, "remote-peer-");
    drop_all(arg, u, LINK_EXPORT, "export-");
    return SW_OK;
}

static int on_listeners(void *arg, const struct sw_xds_update *u, struct sw_err *err)
{
    add_all(arg, u, SW_TYPE_LISTENER, link_res_listener);
    drop_all(arg, u, LINK_IMPORT, "import-");
    return SW_OK;
}

/* ---- secrets ---- */

/* Both are there: the credential of new handshakes. */
static int make_cred(struct link_xds *x, const struct link_secret *s, struct sw_err *err)
{
    struct sw_tls_cred *cred;

    if (!s->chain.n || !s->roots.n)
        return SW_OK;
    cred = sw_tls_cred_new(
        &(struct sw_tls_cred_pem){
            .chain = s->chain, .key = s->key, .roots = s->roots, .any_identity = true},
        err);
    if (!cred)
        return err->rc;
    (void)sw_tls_cred_unref(x->cred);
    x->cred = cred;
    x->cred_version++;
    sw_metric_gauge(x->o.shard, SW_METRIC_CERT_EXPIRY, "link",
                    (int64_t)sw_tls_cred_not_after(cred));
    sw_log_info("link", "fabric certificate %s", x->cred_version == 1 ? "received" : "renewed");
    changed(x);
    return SW_OK;
}

static int take_secret(struct link_xds *x, const struct sw_xds_item *item, struct sw_err *err)
{
    bool validation = sw_slice_eq_str(item->name, "validation");
    struct sw_arena a = {0};
    struct link_secret s = x->secrets;
    int rc;

    if (!validation && !sw_slice_eq_str(item->name, "certificate"))
        return SW_OK;
    rc = link_secret_parse(&a, item->value, &s, err);
    if (rc == SW_OK)
        rc = make_cred(x, &s, err);
    if (rc != SW_OK) {
        sw_arena_clear(&a);
        return rc;
    }
    if (!validation)
        sw_slice_wipe(x->secrets.key);
    sw_arena_clear(&x->secret_arena[validation]);
    x->secret_arena[validation] = a;
    x->secrets = s;
    return SW_OK;
}

/* A secret that goes leaves the credential in force: links are not cut by an omission. */
static int on_secrets(void *arg, const struct sw_xds_update *u, struct sw_err *err)
{
    struct link_xds *x = arg;

    for (size_t i = 0; i < u->n_added; i++) {
        struct sw_err why = {0};

        if (take_secret(x, &u->added[i], &why) != SW_OK)
            refuse(x, SW_TYPE_SECRET, u->added[i].name, &why);
    }
    return SW_OK;
}

static int on_epoch(void *arg, const struct sw_xds_update *u, struct sw_err *err)
{
    struct link_xds *x = arg;

    for (size_t i = 0; i < u->n_added; i++) {
        struct sw_slice v = u->added[i].value;

        if (v.n == 0 || v.n > sizeof(x->epoch))
            return sw_err_set(err, SW_EINVAL, "epoch of %zu bytes", v.n);
        memcpy(x->epoch, v.p, v.n);
        x->n_epoch = v.n;
        changed(x);
    }
    return SW_OK;
}

/* ---- life ---- */

static void on_state(void *arg, bool connected, const struct sw_err *err)
{
    struct link_xds *x = arg;

    if (connected)
        sw_log_info("link", "control plane '%s' connected", x->o.config->control);
    else
        sw_log_warn("link", "control plane '%s' disconnected, keeping the configuration: %s",
                    x->o.config->control, err && err->msg[0] ? err->msg : "stream ended");
}

static int subscribe(struct link_xds *x)
{
    bool own = x->o.config->form == SW_LINK_CONTROL_OURS;
    int rc;

    sw_xds_client_type(x->client, SW_TYPE_SECRET, on_secrets, x);
    sw_xds_client_type(x->client, SW_TYPE_CLUSTER, on_clusters, x);
    sw_xds_client_type(x->client, SW_TYPE_LISTENER, on_listeners, x);
    sw_xds_client_wildcard(x->client, SW_TYPE_CLUSTER, true);
    sw_xds_client_wildcard(x->client, SW_TYPE_LISTENER, true);
    rc = sw_xds_client_subscribe(x->client, SW_TYPE_SECRET, SW_SLICE_LIT("certificate"));
    if (rc == SW_OK)
        rc = sw_xds_client_subscribe(x->client, SW_TYPE_SECRET, SW_SLICE_LIT("validation"));
    if (rc == SW_OK && own) {
        sw_xds_client_type(x->client, SW_TYPE_LINK_EPOCH, on_epoch, x);
        rc = sw_xds_client_subscribe(x->client, SW_TYPE_LINK_EPOCH, SW_SLICE_LIT("epoch"));
    }
    return rc;
}

struct link_xds *link_xds_new(const struct link_xds_opts *o, struct sw_err *err)
{
    struct link_xds *x = SW_NEW(struct link_xds);
    char id[SW_UUID_LEN];
    struct sw_xds_client_opts c = {
        .bare_wildcard = o->config->form == SW_LINK_CONTROL_CLUSTERLINK,
        .cred = o->cred,
        .tls_name = sw_slice_str(o->config->control_name),
        .node_cluster = SW_SLICE_LIT("cl-dataplane"),
        .metrics = o->shard,
        .max_resources = RESOURCES_MAX,
        .backoff_most_ns = 5 * SW_NS_PER_S,
        .on_state = on_state,
        .arg = x,
    };

    x->o = *o;
    c.node_id = sw_slice_str(sw_uuid(id));
    if (sw_authority_split(sw_slice_str(o->config->control), &c.host, &c.port, err) == SW_OK)
        x->client = sw_xds_client_new(o->loop, &c, err);
    if (!x->client || subscribe(x) != SW_OK) {
        link_xds_free(x);
        return NULL;
    }
    sw_xds_client_start(x->client);
    return x;
}

void link_xds_set_cred(struct link_xds *x, struct sw_tls_cred *cred)
{
    sw_xds_client_set_cred(x->client, cred);
}

bool link_xds_connected(const struct link_xds *x)
{
    return sw_xds_client_connected(x->client);
}

void link_xds_free(struct link_xds *x)
{
    if (!x)
        return;
    sw_xds_client_free(x->client);
    sw_defer_cancel(&x->publish);
    for (size_t i = 0; i < SW_ARRAY_LEN(x->res); i++)
        SW_MAP_DRAIN(&x->res[i], link_res_unref);
    sw_slice_wipe(x->secrets.key);
    sw_arena_clear(&x->secret_arena[0]);
    sw_arena_clear(&x->secret_arena[1]);
    (void)sw_tls_cred_unref(x->cred);
    (void)link_snap_unref(x->snap);
    sw_free(x);
}
