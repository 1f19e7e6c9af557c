/* SPDX-License-Identifier: Apache-2.0 */
#include "control/gateway/controller.h"

#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "control/gateway/lookups.h"
#include "control/gateway/views.h"
#include "io/loop.h"
#include "telemetry/metrics.h"
#include "xds/cache.h"

/* Names of what a build publishes: a type URL, or one of these, then '|' and the name. */
static const char note_type[] = "note";
static const char refused_type[] = "refused"; /* a note on a host name of others */
static const char dropped_type[] = "dropped"; /* a note on an endpoint's address */
static const char plan_type[] = "plan";
static const char gateways_type[] = "gateways";
static const char seen_type[] = "seen"; /* endpoints were built for the plan of this number */

/* How long routes wait for the endpoints of what they name. */
static const uint64_t patience_ns = 10 * SW_NS_PER_S;

enum { GATEWAYS_MAX = 64 << 20 };

/* What a build changed, until endpoints were built for its plan. */
struct batch {
    struct sw_xds_txn *txn;
    uint64_t plan;
};

struct sw_gateway_controller {
    struct sw_gateway_conf conf;
    struct sw_model_xds_conf xds;
    struct sw_xds_cache *cache;
    struct sw_gateway_cache *kept; /* the builder's */
    struct sw_control *main;
    struct sw_control *endpoints;
    struct sw_loop *loop;
    struct sw_metrics_shard *metrics;
    uint64_t plan; /* number of the newest */
    /* The first is what endpoints are being built for, the second all that came meanwhile. */
    struct batch waiting[2];
    size_t n_waiting;
    struct sw_timer patience;
    struct sw_lookups *lookups;  /* NULL: data planes resolve names themselves */
    struct sw_xds_txn *resolved; /* sets of host names that changed in this turn; or NULL */
    struct sw_defer flush;
    /* Endpoints that wait for the first answers about new names, and the plan they are of. */
    struct sw_xds_txn *late;
    uint64_t seen;
    bool settled; /* they have waited: names that came since do not make them wait again */
    struct sw_slice planes; /* the two halves of the main build's input, owned */
    struct sw_slice views;
    void (*on_gateways)(void *arg, struct sw_slice names);
    void *arg;
};

/* ---- building; on the builder's thread ---- */

static void publish_resources(struct sw_output *out, const struct sw_model_resources *r)
{
    for (size_t i = 0; i < r->n; i++)
        sw_out_publish(out, r->p[i].type, r->p[i].name, r->p[i].value);
}

static void publish_view(void *arg, const char *type, struct sw_slice name, struct sw_slice value)
{
    sw_out_publish(arg, type, name, value);
}

static void publish_gateways(struct sw_output *out, const struct sw_model *m)
{
    struct sw_arena *a = sw_out_arena(out);
    SW_BUF_AUTO names = {.max = GATEWAYS_MAX};
    int rc = SW_OK;

    for (size_t i = 0; i < m->n_gateways && rc == SW_OK; i++)
        rc = sw_buf_printf(&names, "%.*s\n", SW_SLICE_ARG(m->gateways[i]));
    sw_out_publish(out, gateways_type, sw_slice("", 0), sw_arena_slice(a, sw_buf_slice(&names)));
}

static void put_want(struct sw_output *out, const struct sw_model_want *w)
{
    switch (w->how) {
    case SW_MODEL_WANT_OBJECT:
        sw_out_apply(out, w->kind, sw_json_copy(sw_out_arena(out), w->json));
        break;
    case SW_MODEL_WANT_GONE:
        sw_out_delete(out, w->kind, w->of);
        break;
    case SW_MODEL_WANT_FINALIZER:
    case SW_MODEL_WANT_NO_FINALIZER:
        sw_out_finalizer(out, w->kind, w->of, w->finalizer, w->how == SW_MODEL_WANT_FINALIZER);
        break;
    }
}

static void build(const struct sw_view *v, struct sw_output *out, void *arg)
{
    const struct sw_gateway_controller *g = arg;
    struct sw_arena *a = sw_out_arena(out);
    struct sw_model_resources res;
    struct sw_model_result r;

    sw_gateway_rebuild(g->kept, v, &g->conf, a, &r);
    sw_model_xds_encode(r.model, &g->xds, a, &res);
    publish_resources(out, &res);
    sw_plane_views_encode(r.model, &g->xds, sw_view_input(v), a, publish_view, out);
    publish_gateways(out, r.model);
    sw_out_publish(out, plan_type, sw_slice("", 0), sw_gateway_plan_write(a, r.model));
    for (size_t i = 0; i < r.n_notes; i++)
        sw_out_publish(out, r.notes[i].refused ? refused_type : note_type, r.notes[i].subject,
                       r.notes[i].text);
    /* Copies: the output outlives what the build keeps. */
    for (size_t i = 0; i < r.n_statuses; i++)
        sw_out_status(out, r.statuses[i].kind, r.statuses[i].of,
                      sw_json_copy(a, r.statuses[i].status));
    for (size_t i = 0; i < r.n_notices; i++)
        sw_out_notice(out, r.notices[i].kind, r.notices[i].of, r.notices[i].reason,
                      r.notices[i].text);
    for (size_t i = 0; i < r.n_wants; i++)
        put_want(out, &r.wants[i]);
}

static void build_endpoints(const struct sw_view *v, struct sw_output *out, void *arg)
{
    struct sw_arena *a = sw_out_arena(out);
    struct sw_slice text = sw_view_input(v);
    struct sw_slice number = sw_slice_cut(&text, '\n');
    struct sw_endpoint_model sets;
    struct sw_model_resources res;
    struct sw_model plan;

    sw_gateway_plan_read(a, text, &plan);
    sw_gateway_endpoints(v, plan.endpoints, plan.n_endpoints, a, &sets);
    sw_model_xds_encode_endpoints(&plan, &sets, a, &res);
    publish_resources(out, &res);
    for (size_t i = 0; i < sets.n_dropped; i++)
        sw_out_publish(out, dropped_type, sets.dropped[i].subject, sets.dropped[i].text);
    if (number.n)
        sw_out_publish(out, seen_type, sw_slice("", 0), number);
}

/* ---- publishing; on the loop ---- */

static void log_note(const struct sw_gateway_controller *g, struct sw_slice subject,
                     struct sw_slice text)
{
    bool limit = sw_slice_has_prefix(subject, SW_SLICE_LIT("limit/"));
    struct sw_log_line l;

    if (!text.p)
        return;
    if (limit && g->metrics)
        sw_metric_add(sw_metric_get1(g->metrics, SW_METRIC_CONTROL_OBJECTS_LIMITED, NULL), 1);
    sw_log_begin(&l, limit ? SW_LOG_WARN : SW_LOG_INFO, "gateway", "note");
    sw_log_str(&l, "subject", subject);
    sw_log_str(&l, "text", text);
    sw_log_end(&l);
}

/* An object asks for what it does not get: a host name of others, a special address. */
static void log_refused(const struct sw_gateway_controller *g, struct sw_slice subject,
                        struct sw_slice text, const char *reason)
{
    struct sw_log_line l;

    if (!text.p)
        return;
    sw_log_begin(&l, SW_LOG_WARN, "gateway", "refused");
    sw_log_str(&l, "subject", subject);
    sw_log_str(&l, "text", text);
    sw_log_end(&l);
    if (g->metrics)
        sw_metric_add(sw_metric_get1(g->metrics, SW_METRIC_GATEWAY_REFUSALS, reason), 1);
}

static void put_resource(struct sw_xds_txn *t, const char *url, struct sw_slice name,
                         struct sw_slice bytes)
{
    struct sw_err err;
    int rc;

    rc = bytes.p ? sw_xds_txn_set(t, url, name, bytes, &err) : sw_xds_txn_del(t, url, name, &err);
    if (rc != SW_OK) {
        struct sw_log_line l;

        sw_log_begin(&l, SW_LOG_ERROR, "gateway", "resource refused");
        sw_log_str(&l, "name", name);
        sw_log_str(&l, "reason", sw_slice_str(err.msg));
        sw_log_end(&l);
    }
}

/* ---- host names ---- */

static void on_flush(struct sw_defer *d);

static void flush_soon(struct sw_gateway_controller *g)
{
    sw_loop_defer(g->loop, &g->flush, on_flush);
}

static void on_set(void *arg, const struct sw_resolved *r)
{
    struct sw_gateway_controller *g = arg;
    SW_ARENA_AUTO a = {0};

    if (!g->resolved)
        g->resolved = sw_xds_txn_new();
    put_resource(g->resolved, SW_XDS_ENDPOINT, r->set,
                 r->ips ? sw_model_xds_encode_resolved(&a, r).value : sw_slice(NULL, 0));
    flush_soon(g);
}

static void on_settled(void *arg)
{
    struct sw_gateway_controller *g = arg;

    g->settled = g->late != NULL;
    flush_soon(g);
}

static void commit_resolved(struct sw_gateway_controller *g)
{
    if (g->resolved)
        (void)sw_xds_cache_commit(g->cache, SW_TAKE(g->resolved));
}

/* Sets of names go with the clusters that had them, not before. */
static void sweep_names(struct sw_gateway_controller *g)
{
    if (g->n_waiting == 0)
        sw_lookups_sweep(g->lookups);
}

/* ---- what goes out together ---- */

/* Streams look at the cache when the loop comes round: commits of one turn are one to them. */
static void commit_waiting(struct sw_gateway_controller *g, uint64_t plan)
{
    size_t n = 0;

    while (n < g->n_waiting && g->waiting[n].plan <= plan)
        (void)sw_xds_cache_commit(g->cache, g->waiting[n++].txn);
    for (size_t i = n; i < g->n_waiting; i++)
        g->waiting[i - n] = g->waiting[i];
    g->n_waiting -= n;
    if (n)
        sw_timer_stop(g->loop, &g->patience);
    if (n)
        sw_plane_views_endpoints(g->cache, g->views);
    sweep_names(g);
}

static void on_patience(struct sw_timer *t)
{
    struct sw_gateway_controller *g = SW_CONTAINER_OF(t, struct sw_gateway_controller, patience);

    sw_log_warn("gateway",
                "endpoints not received in time, serving routes without endpoints of new backends");
    commit_waiting(g, UINT64_MAX);
}

static void await_endpoints(struct sw_gateway_controller *g)
{
    if (g->n_waiting && !sw_timer_running(&g->patience))
        sw_timer_start(g->loop, &g->patience, patience_ns, on_patience);
}

static const struct sw_change *find_change(const struct sw_change *changes, size_t n,
                                           const char *type)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(changes[i].kind, type) == 0)
            return &changes[i];
    }
    return NULL;
}

/* Numbered, so that endpoints can say which plan they were built for. */
static void take_plan(struct sw_gateway_controller *g, struct sw_slice plan)
{
    SW_BUF_AUTO text = {0};

    sw_lookups_plan(g->lookups, plan);
    sw_buf_init(&text, plan.n + 32);
    if (sw_buf_printf(&text, "%llu\n", (unsigned long long)++g->plan) == SW_OK &&
        sw_buf_append_slice(&text, plan) == SW_OK)
        sw_control_set_input(g->endpoints, sw_buf_slice(&text));
}

/* What a change is added to; NULL: it need not wait. */
static struct sw_xds_txn *waiting_txn(struct sw_gateway_controller *g, const struct sw_change *plan)
{
    if (plan && (plan->bytes.n || g->n_waiting)) {
        if (g->n_waiting < SW_ARRAY_LEN(g->waiting))
            g->waiting[g->n_waiting++].txn = sw_xds_txn_new();
        g->waiting[g->n_waiting - 1].plan = g->plan;
    }
    return g->n_waiting ? g->waiting[g->n_waiting - 1].txn : NULL;
}

static void put_resources(const struct sw_gateway_controller *g, struct sw_xds_txn *t,
                          const struct sw_change *changes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct sw_slice name = changes[i].name;
        const char *type = changes[i].kind;

        if (strcmp(type, note_type) == 0)
            log_note(g, name, changes[i].bytes);
        else if (strcmp(type, refused_type) == 0)
            log_refused(g, name, changes[i].bytes, "HostnameInUse");
        else if (strcmp(type, dropped_type) == 0)
            log_refused(g, name, changes[i].bytes, "EndpointAddress");
        else if (strcmp(type, plan_type) != 0 && strcmp(type, seen_type) != 0 &&
                 strcmp(type, gateways_type) != 0)
            put_resource(t, type, name, changes[i].bytes);
    }
}

/*
 * Routes that name a new backend go out together with its endpoints. Otherwise a data plane would
 * get an empty set, and send requests there the moment before they come.
 */
static void publish(void *arg, const struct sw_change *changes, size_t n, uint64_t version)
{
    struct sw_gateway_controller *g = arg;
    const struct sw_change *plan = find_change(changes, n, plan_type);
    const struct sw_change *gateways = find_change(changes, n, gateways_type);
    struct sw_xds_txn *wait;
    struct sw_xds_txn *t;

    if (gateways && g->on_gateways)
        g->on_gateways(g->arg, gateways->bytes);
    if (plan)
        take_plan(g, plan->bytes);
    wait = waiting_txn(g, plan);
    t = wait ? wait : sw_xds_txn_new();
    put_resources(g, t, changes, n);
    if (!wait) {
        (void)sw_xds_cache_commit(g->cache, t);
        sw_plane_views_endpoints(g->cache, g->views);
        sweep_names(g);
        if (plan) /* an empty one: nothing more will come */
            sw_xds_cache_hold(g->cache, false);
    }
    await_endpoints(g);
}

/* Endpoints, the routes that waited for them, and the addresses of names they need. */
static void commit_late(struct sw_gateway_controller *g)
{
    if (!g->late || (!g->settled && !sw_lookups_settled(g->lookups)))
        return;
    g->settled = false;
    commit_resolved(g);
    commit_waiting(g, g->seen);
    (void)sw_xds_cache_commit(g->cache, SW_TAKE(g->late));
    commit_resolved(g);
    sw_plane_views_endpoints(g->cache, g->views);
    if (g->seen)
        sw_xds_cache_hold(g->cache, false);
}

static void on_flush(struct sw_defer *d)
{
    struct sw_gateway_controller *g = SW_CONTAINER_OF(d, struct sw_gateway_controller, flush);
    bool changed = g->resolved != NULL;

    commit_resolved(g);
    commit_late(g);
    await_endpoints(g);
    if (changed)
        sw_plane_views_endpoints(g->cache, g->views);
}

static void publish_endpoints(void *arg, const struct sw_change *changes, size_t n,
                              uint64_t version)
{
    struct sw_gateway_controller *g = arg;
    const struct sw_change *seen = find_change(changes, n, seen_type);
    uint64_t plan;

    if (!g->late)
        g->late = sw_xds_txn_new();
    put_resources(g, g->late, changes, n);
    if (seen && sw_slice_to_u64(seen->bytes, UINT64_MAX, &plan))
        g->seen = plan;
    commit_late(g);
    await_endpoints(g);
}

/* ---- from outside ---- */

static int make_runtimes(struct sw_gateway_controller *g, struct sw_kube_client *c,
                         const struct sw_gateway_controller_opts *o, struct sw_err *err)
{
    struct sw_control_opts co = {.name = "spanwire-gateway",
                                 .kinds = sw_gateway_kinds,
                                 .n_kinds = SW_MODEL_KINDS,
                                 .build = build,
                                 .build_arg = g,
                                 .publish = publish,
                                 .arg = g,
                                 .stamp = sw_gateway_stamp,
                                 .threaded = o->threaded,
                                 .events = true,
                                 .election = o->election};

    g->main = sw_control_new(c, &co, err);
    if (!g->main)
        return SW_EINVAL;
    /* It writes nothing: every replica runs it, without an election. */
    co.name = "spanwire-gateway-endpoints";
    co.kinds = sw_gateway_endpoint_kinds;
    co.n_kinds = SW_MODEL_EP_KINDS;
    co.build = build_endpoints;
    co.publish = publish_endpoints;
    co.stamp = NULL;
    co.events = false;
    co.election.name = sw_slice("", 0);
    g->endpoints = sw_control_new(c, &co, err);
    return g->endpoints ? SW_OK : SW_EINVAL;
}

struct sw_gateway_controller *sw_gateway_controller_new(struct sw_kube_client *c,
                                                        const struct sw_gateway_controller_opts *o,
                                                        struct sw_err *err)
{
    struct sw_gateway_controller *g = SW_NEW(struct sw_gateway_controller);

    g->conf = o->conf;
    g->xds = o->xds;
    g->cache = o->cache;
    g->metrics = o->metrics;
    g->on_gateways = o->on_gateways;
    g->arg = o->arg;
    g->loop = sw_kube_client_loop(c);
    g->kept = sw_gateway_cache_new();
    /* A restarted control plane publishes nothing before it has read what was published. */
    sw_xds_cache_hold(g->cache, true);
    if (!g->conf.controller.n)
        g->conf.controller = SW_SLICE_LIT(SW_GATEWAY_CONTROLLER_NAME);
    if (!g->conf.ingress_controller.n)
        g->conf.ingress_controller = SW_SLICE_LIT(SW_INGRESS_CONTROLLER_NAME);
    if (!g->xds.clients_resolve)
        g->lookups = sw_lookups_new(&(struct sw_lookups_opts){.loop = g->loop,
                                                              .egress = o->egress,
                                                              .metrics = o->metrics,
                                                              .ask = o->ask,
                                                              .on_set = on_set,
                                                              .on_settled = on_settled,
                                                              .arg = g});
    if (make_runtimes(g, c, o, err) != SW_OK) {
        sw_gateway_controller_free(g);
        return NULL;
    }
    return g;
}

void sw_gateway_controller_free(struct sw_gateway_controller *g)
{
    if (!g)
        return;
    sw_control_free(g->main);
    sw_control_free(g->endpoints);
    sw_lookups_free(g->lookups);
    sw_defer_cancel(&g->flush);
    sw_xds_txn_free(g->resolved);
    sw_xds_txn_free(g->late);
    sw_timer_stop(g->loop, &g->patience);
    for (size_t i = 0; i < g->n_waiting; i++)
        sw_xds_txn_free(g->waiting[i].txn);
    sw_gateway_cache_free(g->kept);
    sw_slice_free(&g->planes);
    sw_slice_free(&g->views);
    sw_free(g);
}

void sw_gateway_controller_start(struct sw_gateway_controller *g)
{
    sw_control_start(g->endpoints);
    sw_control_start(g->main);
}

void sw_gateway_controller_stop(struct sw_gateway_controller *g, void (*done)(void *arg), void *arg)
{
    sw_control_stop(g->endpoints, NULL, NULL);
    sw_control_stop(g->main, done, arg);
}

/* Without data planes that speak there is no input at all: statuses then do not ask for them. */
static void set_input(struct sw_gateway_controller *g)
{
    SW_BUF_AUTO text = {0};

    sw_buf_init(&text, g->planes.n + g->views.n + 1);
    if (sw_buf_append_slice(&text, g->planes) == SW_OK &&
        sw_buf_append_slice(&text, g->views) == SW_OK)
        sw_control_set_input(g->main, sw_buf_slice(&text));
}

static void replace(struct sw_slice *own, struct sw_slice text)
{
    sw_slice_free(own);
    *own = sw_slice(sw_slice_dup(text), text.n);
}

void sw_gateway_controller_planes(struct sw_gateway_controller *g, struct sw_slice text)
{
    replace(&g->planes, text);
    set_input(g);
}

void sw_gateway_controller_views(struct sw_gateway_controller *g, struct sw_slice text)
{
    sw_plane_views_drop(g->cache, g->views, text);
    replace(&g->views, text);
    set_input(g);
    sw_plane_views_endpoints(g->cache, text);
}

void sw_gateway_controller_clients(struct sw_gateway_controller *g, enum sw_lookups_mode mode,
                                   const struct sw_ip *clients, size_t n)
{
    sw_lookups_mode(g->lookups, mode, clients, n);
}

bool sw_gateway_controller_ready(const struct sw_gateway_controller *g)
{
    return sw_control_stats(g->main).builds && sw_control_stats(g->endpoints).builds &&
           !sw_xds_cache_held(g->cache);
}

bool sw_gateway_controller_idle(const struct sw_gateway_controller *g)
{
    return sw_control_idle(g->main) && sw_control_idle(g->endpoints) && !g->n_waiting && !g->late &&
           !g->resolved;
}

const struct sw_control *sw_gateway_controller_main(const struct sw_gateway_controller *g)
{
    return g->main;
}

const struct sw_control *sw_gateway_controller_endpoints(const struct sw_gateway_controller *g)
{
    return g->endpoints;
}
