/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/control/link.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "cmd/control/link_fabric.h"
#include "cmd/control/link_facts.h"
#include "cmd/control/link_key.h"
#include "cmd/control/link_site.h"
#include "control/link/auth/auth.h"
#include "io/filewatch.h"
#include "kube/client/client.h"
#include "kube/names.h"
#include "proto/types.h"
#include "tls/cert/cred.h"
#include "tls/peer.h"
#include "xds/cache.h"
#include "xds/server.h"

/* Decisions that wait for a peer share a connection with all others. */
enum { MAX_CONNS = 256, MAX_STREAMS = 4096, CONN_CALLS = 2048, PLANES_MAX = 64 };

struct sw_control_link {
    const struct sw_control_link_opts *o;
    struct sw_loop *loop;
    struct sw_arena arena; /* of the labels */
    struct sw_attrs labels;
    char *site;
    struct sw_filewatch *site_watch;
    struct sw_link_auth *auth;
    struct sw_control_link_fabric *fabric;
    struct sw_control_link_key *key;
    struct sw_control_link_facts *facts;
    struct sw_xds_cache *cache;
    struct sw_xds_server *server;
    struct sw_addr bound;
    struct sw_defer planes;
    bool logged; /* of a data plane on loopback */
};

/* ---- what comes in ---- */

static void on_fabric(void *arg, const struct sw_control_link_identity *id)
{
    struct sw_control_link *l = arg;

    sw_link_auth_set_fabric(l->auth, id->name, id->cred);
    sw_link_controller_set_identity(sw_control_link_controller(l->facts), id->chain, id->key,
                                    id->ca);
}

static void on_key(void *arg, struct sw_slice key)
{
    struct sw_control_link *l = arg;
    struct sw_err err = {0};

    if (sw_link_auth_set_key(l->auth, key, &err) != SW_OK)
        sw_log_warn("link", "cannot load the token signing key, tokens not issued: %s", err.msg);
}

static void on_facts(void *arg, struct sw_link_facts *f)
{
    struct sw_control_link *l = arg;

    sw_link_auth_set_facts(l->auth, f);
}

static void on_reach(void *arg, struct sw_slice json)
{
    struct sw_control_link *l = arg;

    /* None before there are objects to probe. */
    if (l->facts)
        sw_link_controller_set_reach(sw_control_link_controller(l->facts), json);
}

/* Our data planes review their connections when the one resource of this type changes. */
static void on_epoch(void *arg, uint64_t epoch)
{
    struct sw_control_link *l = arg;
    struct sw_xds_txn *t = sw_xds_txn_new();
    struct sw_err err = {0};
    int rc = sw_xds_txn_put(t, SW_TYPE_LINK_EPOCH, SW_SLICE_LIT("epoch"),
                            sw_slice(&epoch, sizeof(epoch)), &err);

    if (rc == SW_OK)
        (void)sw_xds_cache_commit(l->cache, t);
    else
        sw_xds_txn_free(t);
}

static void on_site(void *arg)
{
    struct sw_control_link *l = arg;
    struct sw_err err = {0};
    struct sw_tls_cred *cred = sw_control_link_site_cred(l->site, &err);

    if (!cred) {
        sw_log_warn("link", "site certificates in %s not usable, keeping the previous ones: %s",
                    l->site, err.msg);
        return;
    }
    sw_xds_server_set_cred(l->server, cred);
    (void)sw_tls_cred_unref(cred);
}

/* ---- options ---- */

static int read_labels(struct sw_control_link *l, struct sw_err *err)
{
    const struct sw_opt_list *in = &l->o->labels;
    struct sw_attr *p = sw_arena_array(&l->arena, in->n, sizeof(*p));
    size_t n = 0;

    for (size_t i = 0; i < in->n; i++) {
        struct sw_slice value = sw_slice_str(in->p[i]);
        struct sw_slice key = sw_slice_cut(&value, '=');

        if (!value.p || sw_name_label_key(key).n || sw_name_label_value(value).n)
            return sw_err_set(err, SW_EINVAL, "--peer-label: '%.100s' is not KEY=VALUE of a label",
                              in->p[i]);
        p[n++] = (struct sw_attr){key, value};
    }
    sw_attrs_sort(p, &n);
    l->labels = (struct sw_attrs){p, n};
    return SW_OK;
}

static int find_site(struct sw_control_link *l, struct sw_err *err)
{
    if (!l->o->site && !l->o->data)
        return sw_err_set(err, SW_EINVAL, "--link-listen needs --link-site or --data");
    l->site = l->o->site ? sw_strdup(l->o->site) : sw_asprintf("%s/link-site", l->o->data);
    return sw_control_link_site_make(l->site, err);
}

/* ---- the port ---- */

static int allow(void *arg, const struct sw_xds_client_id *id, struct sw_err *err)
{
    if (id->cert && sw_slice_eq_str(id->cert->cn, "cl-dataplane"))
        return SW_OK;
    return sw_err_set(err, SW_EDENIED, "a data plane's certificate is needed");
}

struct planes {
    struct sw_slice ips[PLANES_MAX];
    char text[PLANES_MAX][SW_IP_TEXT];
    size_t n;
    bool loopback; /* there was one that no other machine can reach and no EndpointSlice may name */
};

static void add_plane(const struct sw_xds_client_id *id, void *arg)
{
    struct planes *p = arg;

    if (sw_ip_is_loopback(&id->addr.ip))
        p->loopback = true;
    if (p->n == PLANES_MAX || sw_ip_is_loopback(&id->addr.ip))
        return;
    p->ips[p->n] = sw_slice_str(sw_ip_text(&id->addr.ip, p->text[p->n]));
    p->n++;
}

/* Addresses of the data planes, unless configured. One that restarts is not gone. */
static void find_planes(struct sw_defer *d)
{
    struct sw_control_link *l = SW_CONTAINER_OF(d, struct sw_control_link, planes);
    struct planes p = {.n = 0};

    sw_xds_server_clients(l->server, add_plane, &p);
    if (p.loopback && !l->o->addresses.n && !l->logged)
        sw_log_info("link", "a data plane is connected over loopback: Services of Imports get no "
                            "endpoint of it, --link-address says where it is reached");
    l->logged |= p.loopback;
    if (p.n)
        sw_link_controller_set_planes(sw_control_link_controller(l->facts), p.ips, p.n);
}

static void on_clients(void *arg)
{
    struct sw_control_link *l = arg;

    if (l->server)
        sw_loop_defer(l->loop, &l->planes, find_planes);
}

static int open_server(struct sw_control_link *l, struct sw_metrics_shard *metrics,
                       struct sw_err *err)
{
    struct sw_tls_cred *cred = sw_control_link_site_cred(l->site, err);
    struct sw_xds_server_opts so = {.cache = l->cache,
                                    .cred = cred,
                                    .metrics = metrics,
                                    .allow = allow,
                                    .on_change = on_clients,
                                    .arg = l,
                                    .bare_is_all = true, /* ClusterLink's Go data plane */
                                    .max_conns = MAX_CONNS,
                                    .max_streams = MAX_STREAMS,
                                    .conn_calls = CONN_CALLS};

    if (!cred)
        return sw_err_prefix(err, "--link-site");
    l->server = sw_xds_server_new(l->loop, &so, err);
    (void)sw_tls_cred_unref(cred);
    if (!l->server)
        return err->rc;
    sw_link_auth_serve(l->auth, sw_xds_server_grpc(l->server));
    return sw_xds_server_listen(l->server, &l->o->listen, &l->bound, err);
}

/* ---- life ---- */

static void open_auth(struct sw_control_link *l, struct sw_kube_client *client,
                      struct sw_metrics_shard *metrics)
{
    l->auth = sw_link_auth_new(
        l->loop, &(struct sw_link_auth_opts){.labels = l->labels,
                                             .known_peers_only = l->o->known_peers_only,
                                             .egress = l->o->egress,
                                             .metrics = metrics,
                                             .on_reach = on_reach,
                                             .on_epoch = on_epoch,
                                             .arg = l});
    l->key = sw_control_link_key_new(client, l->o->ns, on_key, l);
}

static const struct sw_slice *slices_of(struct sw_arena *a, const struct sw_opt_list *in)
{
    struct sw_slice *p = sw_arena_array(a, in->n + 1, sizeof(*p));

    for (size_t i = 0; i < in->n; i++)
        p[i] = sw_slice_str(in->p[i]);
    return p;
}

static int open_objects(struct sw_control_link *l, struct sw_kube_client *client,
                        struct sw_metrics_shard *metrics, struct sw_err *err)
{
    const struct sw_control_link_opts *o = l->o;
    const struct sw_control_link_facts_opts fo = {
        .pods = sw_link_auth_pods(l->auth),
        .controller = {.conf = {.ns = sw_slice_str(o->ns),
                                .direct = o->direct,
                                .addresses = slices_of(&l->arena, &o->addresses),
                                .n_addresses = o->addresses.n,
                                .export_hosts = slices_of(&l->arena, &o->export_hosts),
                                .n_export_hosts = o->export_hosts.n,
                                .reserved = o->outside,
                                .n_reserved = o->n_outside},
                       .cache = l->cache,
                       .metrics = metrics,
                       .on_facts = on_facts,
                       .arg = l,
                       .threaded = true,
                       .election = sw_control_election(o->lease_ns, "spanwire-link", o->identity)}};

    sw_xds_cache_offer(l->cache, SW_TYPE_LINK_EPOCH);
    l->facts = sw_control_link_facts_new(client, &fo, err);
    return l->facts ? SW_OK : err->rc;
}

static int open_fabric(struct sw_control_link *l, struct sw_kube_client *client,
                       struct sw_metrics_shard *metrics, struct sw_err *err)
{
    const struct sw_control_link_fabric_opts fo = {.dir = l->o->fabric,
                                                   .ns = l->o->ns,
                                                   .client = client,
                                                   .ttl_s = l->o->peer_ttl_ns / SW_NS_PER_S,
                                                   .metrics = metrics,
                                                   .changed = on_fabric,
                                                   .arg = l};

    l->fabric = sw_control_link_fabric_new(l->loop, &fo, err);
    return l->fabric ? SW_OK : err->rc;
}

static int watch_site(struct sw_control_link *l, struct sw_err *err)
{
    char *dir SW_AUTO_FREE = sw_asprintf("%s/", l->site);

    l->site_watch = sw_filewatch_new(l->loop, dir, on_site, l, err);
    return l->site_watch ? SW_OK : err->rc;
}

struct sw_control_link *sw_control_link_new(struct sw_kube_client *client,
                                            struct sw_metrics_shard *metrics,
                                            const struct sw_control_link_opts *o,
                                            struct sw_err *err)
{
    struct sw_control_link *l = SW_NEW(struct sw_control_link);

    l->o = o;
    l->loop = sw_kube_client_loop(client);
    l->cache = sw_xds_cache_new();
    if (read_labels(l, err) == SW_OK && find_site(l, err) == SW_OK) {
        open_auth(l, client, metrics);
        if (open_objects(l, client, metrics, err) == SW_OK &&
            open_fabric(l, client, metrics, err) == SW_OK &&
            open_server(l, metrics, err) == SW_OK && watch_site(l, err) == SW_OK)
            return l;
    }
    sw_control_link_free(l);
    return NULL;
}

void sw_control_link_free(struct sw_control_link *l)
{
    if (!l)
        return;
    sw_filewatch_free(l->site_watch);
    sw_xds_server_free(SW_TAKE(l->server));
    sw_defer_cancel(&l->planes);
    sw_control_link_facts_free(l->facts);
    sw_control_link_key_free(l->key);
    sw_control_link_fabric_free(l->fabric);
    sw_link_auth_free(l->auth);
    sw_xds_cache_free(l->cache);
    sw_arena_clear(&l->arena);
    sw_free(l->site);
    sw_free(l);
}

struct sw_addr sw_control_link_addr(const struct sw_control_link *l)
{
    return l->bound;
}
