/* SPDX-License-Identifier: Apache-2.0 */
#include "control/mesh/clusters.h"

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "base/vec.h"
#include "control/mesh/kinds.h"
#include "control/mesh/networks.h"
#include "io/loop.h"
#include "kube/client/informer.h"
#include "kube/client/kinds.h"
#include "kube/client/secret.h"
#include "telemetry/metrics.h"

enum { CLUSTERS_MAX = 64, PATIENCE_S = 30 };

/* What is read of another cluster: configuration of the mesh is our own cluster's. */
static const enum sw_mesh_kind read_kinds[] = {SW_MESH_NAMESPACE, SW_MESH_NODE,  SW_MESH_GATEWAY,
                                               SW_MESH_SERVICE,   SW_MESH_SLICE, SW_MESH_POD};
enum { READ = SW_ARRAY_LEN(read_kinds) };

struct source {
    struct cluster *of;
    enum sw_mesh_kind kind;
    struct sw_informer *informer;
};

struct cluster {
    struct sw_mesh_clusters *of;
    char *name;
    uint64_t digest; /* of its kubeconfig */
    bool wanted;
    struct sw_kube_client *client; /* NULL: refused */
    struct sw_mesh_part *part;
    struct source sources[READ];
    size_t synced;
};

struct sw_mesh_clusters {
    struct sw_mesh_clusters_opts o;
    struct sw_loop *loop;
    struct sw_informer *secrets;
    SW_VEC(struct cluster *) all;
    struct sw_timer look;
    struct sw_timer patience;
    bool looked; /* the Secrets were read once */
    bool impatient;
    bool stopped;
};

/* ---- objects of a cluster ---- */

static void refuse(struct sw_mesh_clusters *m, const char *label, const char *cluster,
                   struct sw_slice object, const char *why)
{
    struct sw_log_line l;

    if (m->o.metrics)
        sw_metric_add(sw_metric_get1(m->o.metrics, SW_METRIC_MESH_REFUSALS, label), 1);
    sw_log_begin(&l, SW_LOG_WARN, "mesh", "ignored");
    sw_log_cstr(&l, "cluster", cluster);
    sw_log_str(&l, "object", object);
    sw_log_cstr(&l, "reason", why);
    sw_log_end(&l);
}

static void on_object(void *arg, struct sw_kube_obj *o)
{
    struct source *s = arg;
    const char *why = NULL;

    sw_mesh_networks_set(s->of->part, s->kind, o->json, &why);
    if (why)
        refuse(s->of->of, "object", s->of->name, o->key, why);
    s->of->of->o.changed(s->of->of->o.arg);
}

static void on_update(void *arg, struct sw_kube_obj *old, struct sw_kube_obj *now)
{
    on_object(arg, now);
}

static void on_gone(void *arg, struct sw_kube_obj *last)
{
    struct source *s = arg;

    sw_mesh_networks_del(s->of->part, s->kind, last->ns, last->name);
    s->of->of->o.changed(s->of->of->o.arg);
}

static void on_synced(void *arg)
{
    struct source *s = arg;
    struct cluster *c = s->of;

    if (++c->synced < READ)
        return;
    sw_log_info("mesh", "cluster '%s' was read", c->name);
    sw_mesh_networks_ready(c->part);
    c->of->o.changed(c->of->o.arg);
}

static const struct sw_informer_cbs object_cbs = {
    .add = on_object, .update = on_update, .del = on_gone, .synced = on_synced};

/* ---- clusters ---- */

/* A Secret must not make us read files of this machine, and send what is in them elsewhere. */
static int read_config(const struct cluster *c, struct sw_slice text, struct sw_kube_config *ret,
                       struct sw_err *err)
{
    const struct sw_kubeconfig_src src = {.text = text, .name = c->name, .dir = "."};
    int rc = sw_kubeconfig_read(&src, 1, NULL, ret, err);

    if (rc != SW_OK || !(ret->ca.file || ret->cert.file || ret->key.file || ret->token.file))
        return rc;
    sw_kube_config_done(ret);
    return sw_err_set(err, SW_EINVAL, "the kubeconfig names files, which are not read");
}

static void cluster_open(struct cluster *c, struct sw_slice text)
{
    struct sw_kube_config cfg = {0};
    struct sw_err err = {0};

    c->part = sw_mesh_networks_add(c->of->o.nets, sw_slice_str(c->name));
    if (!c->part) {
        refuse(c->of, "cluster", c->name, sw_slice("", 0),
               "the name is this cluster's, or is none");
        return;
    }
    if (read_config(c, text, &cfg, &err) == SW_OK)
        c->client = sw_kube_client_new(c->of->loop, &cfg, NULL, &err);
    if (!c->client) {
        refuse(c->of, "cluster", c->name, sw_slice("", 0), err.msg);
        sw_mesh_networks_remove(c->part);
        c->part = NULL;
        return;
    }
    for (size_t i = 0; i < READ; i++) {
        struct source *s = &c->sources[i];
        const struct sw_informer_opts io = {.gvr = &sw_mesh_kinds[read_kinds[i]].gvr,
                                            .optional = sw_mesh_kinds[read_kinds[i]].optional,
                                            .hollow = true};

        *s = (struct source){.of = c, .kind = read_kinds[i]};
        s->informer = sw_informer_new(c->client, &io, &object_cbs, s);
        sw_informer_start(s->informer);
    }
    sw_log_info("mesh", "cluster '%s' joins", c->name);
}

static void cluster_free(struct cluster *c)
{
    for (size_t i = 0; i < READ; i++)
        sw_informer_free(c->sources[i].informer);
    if (c->client)
        sw_kube_client_free(c->client);
    if (c->part)
        sw_mesh_networks_remove(c->part);
    sw_free(c->name);
    sw_free(c);
}

static struct cluster *find(const struct sw_mesh_clusters *m, struct sw_slice name)
{
    for (size_t i = 0; i < m->all.n; i++) {
        if (sw_slice_eq_str(name, m->all.p[i]->name))
            return m->all.p[i];
    }
    return NULL;
}

/* ---- Secrets ---- */

/* One key of a Secret. */
struct entry {
    struct sw_slice name;
    struct sw_slice text;
    uint64_t digest;
};

static void drop_unwanted(struct sw_mesh_clusters *m, const struct entry *e, size_t n)
{
    for (size_t i = 0; i < m->all.n;) {
        struct cluster *c = m->all.p[i];
        bool keep = false;

        for (size_t k = 0; k < n && !keep; k++)
            keep = sw_slice_eq_str(e[k].name, c->name) && e[k].digest == c->digest;
        if (keep) {
            i++;
            continue;
        }
        sw_log_info("mesh", "cluster '%s' leaves", c->name);
        cluster_free(c);
        (void)sw_vec_swap_remove(&m->all, i);
    }
}

static void add_wanted(struct sw_mesh_clusters *m, const struct entry *e, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        struct cluster *c = find(m, e[k].name);

        if (c)
            continue;
        c = SW_NEW(struct cluster);
        c->of = m;
        c->name = sw_slice_dup(e[k].name);
        c->digest = e[k].digest;
        sw_vec_push(&m->all, c);
        cluster_open(c, e[k].text);
    }
}

/* The clusters of all Secrets, of two with one name the first, in the arena. */
static size_t read_secrets(struct sw_mesh_clusters *m, struct sw_arena *a, struct entry *out)
{
    struct sw_kube_obj **secrets;
    size_t n_secrets = sw_informer_list(m->secrets, &secrets);
    size_t n = 0;

    for (size_t i = 0; i < n_secrets; i++) {
        const struct sw_json *data = sw_json_find(secrets[i]->json, "data");

        for (size_t j = 0; j < sw_json_len(data); j++) {
            SW_BUF_AUTO text = {.max = SW_SECRET_VALUE_MAX};
            struct sw_slice name = sw_arena_slice(a, sw_json_member_at(data, j)->key);
            bool twice = false;

            for (size_t k = 0; k < n && !twice; k++)
                twice = sw_slice_eq(out[k].name, name);
            if (twice || n == CLUSTERS_MAX ||
                sw_secret_get(secrets[i]->json, name.p, &text) != SW_OK) {
                refuse(m, "cluster", name.p, secrets[i]->key,
                       twice               ? "another Secret has this cluster"
                       : n == CLUSTERS_MAX ? "too many clusters"
                                           : "the value is not base64, or too long");
                continue;
            }
            out[n].name = name;
            out[n].text = sw_arena_slice(a, sw_buf_slice(&text));
            out[n].digest = sw_hash(out[n].text.p, out[n].text.n);
            n++;
        }
        (void)sw_kube_obj_unref(secrets[i]);
    }
    sw_free(secrets);
    return n;
}

/* Apart from the informer's callbacks: clients are freed here. */
static void on_look(struct sw_timer *t)
{
    struct sw_mesh_clusters *m = SW_CONTAINER_OF(t, struct sw_mesh_clusters, look);
    SW_ARENA_AUTO a = {0};
    struct entry entries[CLUSTERS_MAX];
    size_t n = read_secrets(m, &a, entries);

    drop_unwanted(m, entries, n);
    add_wanted(m, entries, n);
    m->looked = true;
    m->o.changed(m->o.arg);
}

static void look(struct sw_mesh_clusters *m)
{
    if (!m->stopped && sw_informer_synced(m->secrets) && !sw_timer_running(&m->look))
        sw_timer_start(m->loop, &m->look, 0, on_look);
}

static void on_secret(void *arg, struct sw_kube_obj *o)
{
    look(arg);
}

static void on_secret_update(void *arg, struct sw_kube_obj *old, struct sw_kube_obj *now)
{
    look(arg);
}

static void on_secrets_synced(void *arg)
{
    look(arg);
}

static const struct sw_informer_cbs secret_cbs = {
    .add = on_secret, .update = on_secret_update, .del = on_secret, .synced = on_secrets_synced};

/* ---- from outside ---- */

static void on_patience(struct sw_timer *t)
{
    struct sw_mesh_clusters *m = SW_CONTAINER_OF(t, struct sw_mesh_clusters, patience);

    for (size_t i = 0; i < m->all.n; i++) {
        if (m->all.p[i]->client && m->all.p[i]->synced < READ)
            sw_log_warn("mesh",
                        "cluster '%s': initial list timed out after %d s, serving without it",
                        m->all.p[i]->name, PATIENCE_S);
    }
    m->impatient = true;
    m->o.changed(m->o.arg);
}

struct sw_mesh_clusters *sw_mesh_clusters_new(struct sw_kube_client *c,
                                              const struct sw_mesh_clusters_opts *o)
{
    struct sw_mesh_clusters *m = SW_NEW(struct sw_mesh_clusters);
    const struct sw_informer_opts io = {
        .gvr = &sw_secrets_gvr, .ns = o->ns, .label_selector = "istio/multiCluster=true"};

    m->o = *o;
    m->loop = sw_kube_client_loop(c);
    m->secrets = sw_informer_new(c, &io, &secret_cbs, m);
    return m;
}

void sw_mesh_clusters_start(struct sw_mesh_clusters *m)
{
    sw_informer_start(m->secrets);
    sw_timer_start(m->loop, &m->patience, PATIENCE_S * SW_NS_PER_S, on_patience);
}

void sw_mesh_clusters_stop(struct sw_mesh_clusters *m)
{
    m->stopped = true;
    sw_timer_stop(m->loop, &m->look);
    sw_timer_stop(m->loop, &m->patience);
    sw_informer_stop(m->secrets);
    for (size_t i = 0; i < m->all.n; i++) {
        for (size_t k = 0; k < READ; k++) {
            if (m->all.p[i]->sources[k].informer)
                sw_informer_stop(m->all.p[i]->sources[k].informer);
        }
    }
}

void sw_mesh_clusters_free(struct sw_mesh_clusters *m)
{
    if (!m)
        return;
    sw_timer_stop(m->loop, &m->look);
    sw_timer_stop(m->loop, &m->patience);
    for (size_t i = 0; i < m->all.n; i++)
        cluster_free(m->all.p[i]);
    sw_vec_done(&m->all);
    sw_informer_free(m->secrets);
    sw_free(m);
}

bool sw_mesh_clusters_settled(const struct sw_mesh_clusters *m)
{
    if (m->impatient)
        return true;
    for (size_t i = 0; i < m->all.n; i++) {
        if (m->all.p[i]->client && m->all.p[i]->synced < READ)
            return false;
    }
    return m->looked;
}
