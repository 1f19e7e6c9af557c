/* SPDX-License-Identifier: Apache-2.0 */
#include "control/link/controller.h"

#include <pthread.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "control/gateway/build/build.h" /* sw_gateway_stamp */
#include "control/link/facts.h"
#include "control/link/secret.h"
#include "telemetry/metrics.h"
#include "xds/cache.h"

enum { INPUT_MAX = 16 << 20 };

struct sw_link_controller {
    struct sw_link_conf conf;
    struct sw_xds_cache *cache;
    struct sw_metrics_shard *metrics;
    struct sw_control *runtime;
    void (*on_facts)(void *arg, struct sw_link_facts *facts);
    void *arg;
    /* What the newest build made, from the builder's thread. */
    pthread_mutex_t lock;
    struct sw_link_facts *built; /* locked; owned */
    struct sw_link_facts *facts; /* the loop's; owned */
    struct sw_slice reach;       /* parts of the input, owned */
    struct sw_slice planes;
    bool has_objects; /* the first build is there */
    bool has_identity;
};

/* ---- building; on the builder's thread ---- */

static void build(const struct sw_view *v, struct sw_output *out, void *arg)
{
    struct sw_link_controller *c = arg;
    struct sw_link_facts *facts = NULL;

    sw_link_build(v, &c->conf, out, &facts);
    pthread_mutex_lock(&c->lock);
    sw_link_facts_unref(c->built);
    c->built = facts;
    pthread_mutex_unlock(&c->lock);
}

/* ---- publishing; on the loop ---- */

static void put(struct sw_xds_txn *t, const char *type, struct sw_slice name, struct sw_slice bytes)
{
    struct sw_err err = {0};
    struct sw_log_line l;

    if ((bytes.p ? sw_xds_txn_set(t, type, name, bytes, &err)
                 : sw_xds_txn_del(t, type, name, &err)) == SW_OK)
        return;
    sw_log_begin(&l, SW_LOG_ERROR, "link", "resource refused");
    sw_log_str(&l, "name", name);
    sw_log_str(&l, "reason", sw_slice_str(err.msg));
    sw_log_end(&l);
}

/* Hold responses to reconnecting data planes until every kind was listed. */
static void release(struct sw_link_controller *c)
{
    sw_xds_cache_hold(c->cache, !c->has_objects || !c->has_identity);
}

static void log_note(const struct sw_link_controller *c, const struct sw_change *n)
{
    struct sw_log_line l;

    if (!n->bytes.p)
        return;
    sw_log_begin(&l, SW_LOG_WARN, "link", "object refused");
    sw_log_str(&l, "subject", n->name);
    sw_log_str(&l, "reason", sw_slice_str(n->reason));
    sw_log_str(&l, "text", n->bytes);
    sw_log_end(&l);
    if (c->metrics)
        sw_metric_add(sw_metric_get1(c->metrics, SW_METRIC_LINK_REFUSALS, n->reason), 1);
}

static void take_facts(struct sw_link_controller *c)
{
    struct sw_link_facts *newest;

    pthread_mutex_lock(&c->lock);
    newest = SW_TAKE(c->built);
    pthread_mutex_unlock(&c->lock);
    if (!newest)
        return;
    sw_link_facts_unref(c->facts);
    c->facts = newest;
    if (c->on_facts)
        c->on_facts(c->arg, c->facts);
}

static void publish(void *arg, const struct sw_change *changes, size_t n, uint64_t version)
{
    struct sw_link_controller *c = arg;
    struct sw_xds_txn *t = sw_xds_txn_new();

    for (size_t i = 0; i < n; i++) {
        if (strcmp(changes[i].kind, SW_OUT_NOTE) == 0)
            log_note(c, &changes[i]);
        else if (strcmp(changes[i].kind, SW_LINK_FACTS) == 0)
            take_facts(c);
        else
            put(t, changes[i].kind, changes[i].name, changes[i].bytes);
    }
    (void)sw_xds_cache_commit(c->cache, t);
    c->has_objects = true;
    release(c);
}

/* ---- from outside ---- */

static void send_input(struct sw_link_controller *c)
{
    struct sw_slice reach = c->reach.n ? c->reach : SW_SLICE_LIT("{}");
    struct sw_slice planes = c->planes.n ? c->planes : SW_SLICE_LIT("[]");
    SW_BUF_AUTO text = {.max = INPUT_MAX};

    if (sw_buf_printf(&text, "{\"reach\":%.*s,\"addresses\":%.*s}", SW_SLICE_ARG(reach),
                      SW_SLICE_ARG(planes)) == SW_OK)
        sw_control_set_input(c->runtime, sw_buf_slice(&text));
}

static void replace(struct sw_slice *old, struct sw_slice by)
{
    sw_free((char *)(uintptr_t)old->p);
    *old = sw_slice(sw_slice_dup(by), by.n);
}

void sw_link_controller_set_reach(struct sw_link_controller *c, struct sw_slice json)
{
    replace(&c->reach, json);
    send_input(c);
}

void sw_link_controller_set_planes(struct sw_link_controller *c, const struct sw_slice *ips,
                                   size_t n)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *list = sw_json_new_array(&a);

    for (size_t i = 0; i < n; i++)
        sw_json_push(&a, list, sw_json_new_string(&a, ips[i]));
    replace(&c->planes, sw_json_text(&a, list, NULL));
    send_input(c);
}

void sw_link_controller_set_identity(struct sw_link_controller *c, struct sw_slice chain,
                                     struct sw_slice key, struct sw_slice ca)
{
    SW_ARENA_AUTO a = {0};
    struct sw_xds_txn *t = sw_xds_txn_new();
    struct sw_slice pair = sw_link_secret_certificate(&a, chain, key);

    put(t, SW_XDS_SECRET, SW_SLICE_LIT(SW_LINK_CERTIFICATE), pair);
    put(t, SW_XDS_SECRET, SW_SLICE_LIT(SW_LINK_VALIDATION), sw_link_secret_validation(&a, ca));
    (void)sw_xds_cache_commit(c->cache, t);
    explicit_bzero((char *)(uintptr_t)pair.p, pair.n);
    c->has_identity = true;
    release(c);
}

static void offer(struct sw_xds_cache *cache)
{
    static const char *const types[] = {SW_XDS_CLUSTER, SW_XDS_LISTENER, SW_XDS_SECRET};

    for (size_t i = 0; i < SW_ARRAY_LEN(types); i++)
        sw_xds_cache_offer(cache, types[i]);
    sw_xds_cache_hold(cache, true);
}

struct sw_link_controller *sw_link_controller_new(struct sw_kube_client *client,
                                                  const struct sw_link_controller_opts *o,
                                                  struct sw_err *err)
{
    struct sw_link_controller *c = SW_NEW(struct sw_link_controller);
    const struct sw_control_opts co = {.name = "spanwire-link",
                                       .kinds = sw_link_kinds,
                                       .n_kinds = SW_LK_COUNT(&o->conf),
                                       .build = build,
                                       .build_arg = c,
                                       .publish = publish,
                                       .arg = c,
                                       .stamp = sw_gateway_stamp,
                                       .threaded = o->threaded,
                                       .events = true,
                                       .election = o->election};

    c->conf = o->conf;
    if (!c->conf.ns.n)
        c->conf.ns = SW_SLICE_LIT(SW_LINK_NAMESPACE);
    if (!c->conf.domain.n)
        c->conf.domain = SW_SLICE_LIT("cluster.local");
    c->cache = o->cache;
    c->metrics = o->metrics;
    c->on_facts = o->on_facts;
    c->arg = o->arg;
    (void)pthread_mutex_init(&c->lock, NULL);
    offer(c->cache);
    c->runtime = sw_control_new(client, &co, err);
    if (!c->runtime) {
        sw_link_controller_free(c);
        return NULL;
    }
    return c;
}

void sw_link_controller_free(struct sw_link_controller *c)
{
    if (!c)
        return;
    if (c->runtime)
        sw_control_free(c->runtime);
    sw_link_facts_unref(c->built);
    sw_link_facts_unref(c->facts);
    sw_free((char *)(uintptr_t)c->reach.p);
    sw_free((char *)(uintptr_t)c->planes.p);
    (void)pthread_mutex_destroy(&c->lock);
    sw_free(c);
}

void sw_link_controller_start(struct sw_link_controller *c)
{
    sw_control_start(c->runtime);
}
