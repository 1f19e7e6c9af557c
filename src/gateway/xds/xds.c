/* SPDX-License-Identifier: Apache-2.0 */
/* Resources from an xDS server: the delta client on one side, the store on the other. */
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/vec.h"
#include "gateway/config/options.h"
#include "gateway/xds/store.h"
#include "gateway/xds/xds.h"
#include "io/filewatch.h"
#include "proto/types.h"
#include "tls/cert/cred.h"
#include "xds/client.h"
#include "xds/limits.h"

struct sw_gw_xds {
    struct sw_gw_store *store; /* borrowed */
    struct sw_xds_client *client;
    const struct sw_gateway_config *config; /* borrowed; NULL: the credential never changes */
    struct sw_filewatch *watches[3];        /* of the credential's files */
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
                            SW_SLICE_ARG_MAX(r.name, 60));
        if (!r.bytes.p)
            r.bytes = sw_slice("", 0);
        sw_vec_push(&res, r);
    }
    if (rc == SW_OK) {
        struct sw_gw_delta d = {.type = f->type,
                                .changed = res.p,
                                .n_changed = res.n,
                                .removed = u->removed,
                                .n_removed = u->n_removed};

        rc = sw_gw_store_update(f->xds->store, &d, err);
    }
    sw_vec_done(&res);
    /* Whether sockets can be opened is a part of the answer. */
    if (sw_gw_store_rebinds(f->xds->store))
        sw_xds_client_hold_answer(f->xds->client, f->url);
    return rc;
}

void sw_gw_xds_set_trouble(struct sw_gw_xds *x, struct sw_slice text)
{
    sw_xds_client_set_trouble(x->client, SW_TYPE_LISTENER, text);
}

void sw_gw_xds_applied(struct sw_gw_xds *x)
{
    sw_xds_client_send_held(x->client);
}

static void on_wanted(enum sw_gw_type t, struct sw_slice name, bool wanted, void *arg)
{
    struct sw_gw_xds *x = arg;

    if (!wanted)
        sw_xds_client_unsubscribe(x->client, x->feeds[t].url, name);
    else if (sw_xds_client_subscribe(x->client, x->feeds[t].url, name) != SW_OK)
        sw_log_warn("xds", "cannot subscribe to '%.*s'", SW_SLICE_ARG_MAX(name, 100));
}

struct sw_gw_xds *sw_gw_xds_new(struct sw_gw_store *s, struct sw_loop *l,
                                const struct sw_xds_client_opts *o, struct sw_err *err)
{
    static const char *const urls[SW_GW_TYPES] = {
        [SW_GW_TYPE_CLUSTER] = SW_TYPE_CLUSTER,   [SW_GW_TYPE_ENDPOINTS] = SW_TYPE_ENDPOINT,
        [SW_GW_TYPE_LISTENER] = SW_TYPE_LISTENER, [SW_GW_TYPE_ROUTES] = SW_TYPE_ROUTE,
        [SW_GW_TYPE_SECRET] = SW_TYPE_SECRET,
    };
    struct sw_gw_xds *x = SW_NEW(struct sw_gw_xds);

    x->store = s;
    x->client = sw_xds_client_new(l, o, err);
    if (!x->client) {
        sw_free(x);
        return NULL;
    }
    for (int t = 0; t < SW_GW_TYPES; t++) {
        struct feed *f = &x->feeds[t];

        *f = (struct feed){.xds = x, .type = (enum sw_gw_type)t, .url = urls[t]};
        sw_xds_client_type(x->client, f->url, on_update, f);
    }
    sw_xds_client_wildcard(x->client, SW_TYPE_CLUSTER, true);
    sw_xds_client_wildcard(x->client, SW_TYPE_LISTENER, true);
    sw_gw_store_on_wanted(s, on_wanted, x);
    sw_xds_client_start(x->client);
    return x;
}

static void on_state(void *arg, bool connected, const struct sw_err *err)
{
    if (connected)
        sw_log_info("xds", "connected");
    else
        sw_log_warn("xds", "ADS stream closed, retrying: %s",
                    err && err->msg[0] ? err->msg : "stream ended");
}

/* Plain HTTP/2 carries keys of listeners: never over a network. */
static bool is_loopback(struct sw_slice host)
{
    struct sw_ip ip;

    return sw_slice_eq_str(host, "localhost") ||
           (sw_ip_parse(host, &ip, NULL) == SW_OK && sw_ip_is_loopback(&ip));
}

/* One file of the credential; no path is no bytes. */
static int read_part(const char *flag, const char *path, struct sw_slice *ret, struct sw_err *err)
{
    if (!path || sw_file_read(path, SW_TLS_PEM_MAX, ret, err) == SW_OK)
        return SW_OK;
    return sw_err_prefix(err, "%s", flag);
}

static struct sw_tls_cred *load_cred(const struct sw_gateway_config *c, struct sw_err *err)
{
    struct sw_tls_cred_pem pem = {.any_identity = true};
    struct sw_tls_cred *cred = NULL;

    if (read_part("--xds-ca", c->xds_ca, &pem.roots, err) == SW_OK &&
        read_part("--xds-cert", c->xds_cert, &pem.chain, err) == SW_OK &&
        read_part("--xds-key", c->xds_key, &pem.key, err) == SW_OK) {
        cred = sw_tls_cred_new(&pem, err);
        if (!cred)
            (void)sw_err_prefix(err, c->xds_cert ? "--xds-ca, --xds-cert, --xds-key" : "--xds-ca");
    }
    sw_slice_free(&pem.roots);
    sw_slice_free(&pem.chain);
    sw_slice_free_secret(&pem.key);
    return cred;
}

/* A renewed credential is for the next connection; a broken one leaves the old. */
static void on_cred_files(void *arg)
{
    struct sw_gw_xds *x = arg;
    struct sw_err err = {0};
    struct sw_tls_cred *cred = load_cred(x->config, &err);

    if (!cred) {
        sw_log_warn("xds", "cannot reload the xDS credential, keeping the previous one: %s",
                    err.msg);
        return;
    }
    sw_xds_client_set_cred(x->client, cred);
    (void)sw_tls_cred_unref(cred);
    sw_log_info("xds", "xDS credential reloaded");
}

static int watch_cred(struct sw_gw_xds *x, struct sw_loop *l, const struct sw_gateway_config *c,
                      struct sw_err *err)
{
    const char *const files[] = {c->xds_ca, c->xds_cert, c->xds_key};

    x->config = c;
    for (size_t i = 0; c->xds_ca && i < SW_ARRAY_LEN(files); i++) {
        if (!files[i])
            continue;
        x->watches[i] = sw_filewatch_new(l, files[i], on_cred_files, x, err);
        if (!x->watches[i])
            return SW_EINVAL;
    }
    return SW_OK;
}

static int check_flags(const struct sw_gateway_config *c, struct sw_slice host, struct sw_err *err)
{
    if (!c->xds_ca && !is_loopback(host))
        return sw_err_set(err, SW_EINVAL, "--xds-ca is needed: '%s' is not this machine",
                          c->xds_addr);
    if (!c->xds_cert != !c->xds_key)
        return sw_err_set(err, SW_EINVAL, "--xds-cert and --xds-key belong together");
    if (!c->xds_ca && (c->xds_cert || c->xds_server_name))
        return sw_err_set(err, SW_EINVAL, "%s needs --xds-ca",
                          c->xds_cert ? "--xds-cert" : "--xds-server-name");
    return SW_OK;
}

struct sw_gw_xds *sw_gw_xds_open(struct sw_gw_store *s, struct sw_loop *l,
                                 const struct sw_gateway_config *c, struct sw_metrics_shard *shard,
                                 struct sw_err *err)
{
    char name[256] = "gateway";
    struct sw_xds_client_opts o = {
        .token_file = c->xds_token_file,
        .node_cluster = sw_slice_str(c->xds_node_cluster),
        .metrics = shard,
        .feature = SW_SLICE_LIT(SW_XDS_RESOLVES),
        .on_state = on_state,
    };
    struct sw_gw_xds *x;

    if (sw_authority_split(sw_slice_str(c->xds_addr), &o.host, &o.port, err) != SW_OK) {
        (void)sw_err_prefix(err, "--xds-addr");
        return NULL;
    }
    if (check_flags(c, o.host, err) != SW_OK)
        return NULL;
    if (c->xds_ca) {
        o.cred = load_cred(c, err);
        if (!o.cred)
            return NULL;
    } else {
        sw_log_info("xds", "xDS connection to '%s' is not encrypted (no --xds-ca)", c->xds_addr);
    }
    if (c->xds_server_name)
        o.tls_name = sw_slice_str(c->xds_server_name);
    (void)!gethostname(name, sizeof(name) - 1);
    o.node_id = sw_slice_str(c->xds_node_id ? c->xds_node_id : name);
    x = sw_gw_xds_new(s, l, &o, err);
    (void)sw_tls_cred_unref(o.cred);
    if (x && watch_cred(x, l, c, err) != SW_OK) {
        sw_gw_xds_free(x);
        x = NULL;
    }
    return x;
}

void sw_gw_xds_free(struct sw_gw_xds *x)
{
    if (!x)
        return;
    for (size_t i = 0; i < SW_ARRAY_LEN(x->watches); i++)
        sw_filewatch_free(x->watches[i]);
    sw_gw_store_on_wanted(x->store, NULL, NULL);
    sw_xds_client_free(x->client);
    sw_free(x);
}
