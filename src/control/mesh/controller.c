/* SPDX-License-Identifier: Apache-2.0 */
#include "control/mesh/controller.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "base/vec.h"
#include "control/gateway/build/build.h"
#include "control/mesh/clusters.h"
#include "control/mesh/index.h"
#include "control/mesh/kinds.h"
#include "control/mesh/networks.h"
#include "control/mesh/policy/policy.h"
#include "control/mesh/read/text.h"
#include "io/loop.h"
#include "kube/client/informer.h"
#include "proto/types.h"
#include "telemetry/metrics.h"
#include "xds/cache.h"

/* Resources computed in one turn of the loop. */
enum { SLICE = 4096 };

enum { KINDS = SW_MESH_WATCHED };

/* A change is published at once; after a flush that took long others gather for twice as long. */
static const uint64_t gap_most_ns = SW_NS_PER_S;

/* One kind that is watched. */
struct source {
    struct sw_mesh_controller *of;
    int kind;
    struct sw_informer *informer;
};

struct sw_mesh_controller {
    struct sw_mesh_status_conf conf;
    struct sw_loop *loop;
    struct sw_mesh_index *ix;
    struct sw_mesh_networks *nets;
    struct sw_mesh_clusters *clusters; /* NULL: our own only */
    size_t doorless;                   /* as logged */
    struct sw_mesh_policies *policies;
    struct source sources[KINDS];
    size_t synced; /* kinds that were read once */
    bool ready;
    bool stopped;
    struct sw_xds_cache *cache;
    struct sw_xds_txn *txn;
    SW_VEC(char *) dropped; /* policies that no workload may list any more */
    struct sw_timer flush;
    uint64_t not_before_ns;
    struct sw_metrics_shard *metrics;
    struct sw_control *statuses; /* NULL: not written */
    struct sw_log_limit ignored; /* lines about objects and resources that are left out */
};

/* ---- out ---- */

static void count(const struct sw_mesh_controller *m, enum sw_metric_id id, const char *label)
{
    if (m->metrics)
        sw_metric_add(sw_metric_get1(m->metrics, id, label), 1);
}

/* x may be NULL; value.p == NULL removes. */
static void put(struct sw_mesh_controller *m, const char *type, struct sw_slice name,
                struct sw_slice value, const struct sw_xds_extra *x)
{
    struct sw_err err = {0};
    int rc;

    if (!m->txn)
        m->txn = sw_xds_txn_new();
    rc = value.p ? sw_xds_txn_set_extra(m->txn, type, name, value, x, &err)
                 : sw_xds_txn_del(m->txn, type, name, &err);
    count(m, SW_METRIC_MESH_CHANGES, value.p ? "set" : "removed");
    if (rc != SW_OK) {
        count(m, SW_METRIC_MESH_REFUSALS, "resource");
        sw_log_limited(&m->ignored, sw_loop_now(m->loop), SW_LOG_WARN, "mesh",
                       "resource '%.*s' not published: %s", SW_SLICE_ARG(name), err.msg);
    }
}

static void on_change(void *arg, const struct sw_mesh_change *c)
{
    const struct sw_xds_extra x = {.aliases = c->aliases,
                                   .n_aliases = c->n_aliases,
                                   .node = c->node,
                                   .services = c->services,
                                   .n_services = c->n_services};

    put(arg, SW_TYPE_ADDRESS, c->name, c->value, &x);
}

/* ---- policies ---- */

/* A node has to know a policy before a workload lists it, and as long as one does. */
static void on_policy(void *arg, struct sw_slice key, struct sw_slice value)
{
    struct sw_mesh_controller *m = arg;

    if (!value.p) {
        sw_vec_push(&m->dropped, sw_slice_dup(key));
        return;
    }
    put(m, SW_TYPE_AUTHORIZATION, key, value, NULL);
    for (size_t i = 0; i < m->dropped.n;) {
        if (!sw_slice_eq_str(key, m->dropped.p[i])) {
            i++;
            continue;
        }
        sw_free(m->dropped.p[i]);
        (void)sw_vec_swap_remove(&m->dropped, i);
    }
}

static void on_affected(void *arg, const struct sw_mesh_policy_scope *scope)
{
    struct sw_mesh_controller *m = arg;

    sw_mesh_index_policies_changed(m->ix, scope->ns);
}

static void on_instances(void *arg, const struct sw_mesh_instances *of)
{
    struct sw_mesh_controller *m = arg;

    sw_mesh_policies_set_waypoint(m->policies, of->ns, of->name, of->accounts, of->n);
}

static void flush_policies(struct sw_mesh_controller *m)
{
    const struct sw_mesh_policy_sink sink = {
        .resource = on_policy, .affected = on_affected, .arg = m};

    if (m->conf.policy.allow_waypoints)
        sw_mesh_index_instances(m->ix, on_instances, m);
    sw_mesh_policies_flush(m->policies, &sink);
}

static void drop_policies(struct sw_mesh_controller *m)
{
    SW_VEC_FOREACH (char *, key, &m->dropped) {
        put(m, SW_TYPE_AUTHORIZATION, sw_slice_str(*key), sw_slice(NULL, 0), NULL);
        sw_free(*key);
    }
    m->dropped.n = 0;
}

static struct sw_slice policies_of(void *arg, const struct sw_mesh_subject *of, struct sw_arena *a)
{
    const struct sw_mesh_controller *m = arg;
    struct sw_mesh_label *labels = sw_arena_array(a, SW_MESH_LABELS_MAX, sizeof(*labels));
    struct sw_slice rest = of->labels;
    struct sw_slice keys;
    size_t n = 0;

    while (n < SW_MESH_LABELS_MAX && mesh_labels_next(&rest, &labels[n]))
        n++;
    keys = sw_mesh_workload_policies(m->policies, of->ns, labels, n, a);
    for (size_t i = 0; i < of->n_waypoints; i++) {
        struct sw_slice name = of->waypoints[i];
        struct sw_slice ns = sw_slice_cut(&name, '/');
        struct sw_slice own = sw_mesh_waypoint_policy(m->policies, ns, name, a);

        if (own.n)
            keys = sw_slice_str(sw_arena_printf(a, "%.*s%s%.*s", SW_SLICE_ARG(keys),
                                                keys.n ? "\n" : "", SW_SLICE_ARG(own)));
    }
    return keys;
}

/* ---- the flush ---- */

static void gauge(const struct sw_mesh_controller *m, enum sw_metric_id id, const char *label,
                  size_t n)
{
    sw_metric_set(sw_metric_get1(m->metrics, id, label), (int64_t)n);
}

static void set_gauges(const struct sw_mesh_controller *m)
{
    struct sw_mesh_index_stats st = sw_mesh_index_stats(m->ix);
    struct sw_mesh_networks_stats nt = sw_mesh_networks_stats(m->nets);

    if (!m->metrics)
        return;
    gauge(m, SW_METRIC_MESH_OBJECTS, "pods", st.pods);
    gauge(m, SW_METRIC_MESH_OBJECTS, "services", st.services);
    gauge(m, SW_METRIC_MESH_OBJECTS, "service_entries", st.service_entries);
    gauge(m, SW_METRIC_MESH_OBJECTS, "workload_entries", st.workload_entries);
    gauge(m, SW_METRIC_MESH_OBJECTS, "clusters", nt.clusters);
    gauge(m, SW_METRIC_MESH_OBJECTS, "remote_workloads", nt.far);
    gauge(m, SW_METRIC_MESH_OBJECTS, "joined_services", nt.joined);
    gauge(m, SW_METRIC_MESH_OBJECTS, "networks_without_gateway", nt.doorless);
    gauge(m, SW_METRIC_MESH_WAYPOINTLESS, "held", st.held);
    gauge(m, SW_METRIC_MESH_WAYPOINTLESS, "passed", st.passed);
}

/* Logged when it begins and when it ends. */
static void report_doorless(struct sw_mesh_controller *m)
{
    size_t now = sw_mesh_networks_stats(m->nets).doorless;

    if (now == m->doorless)
        return;
    m->doorless = now;
    if (now)
        sw_log_warn("mesh",
                    "%zu other networks have workloads and no gateway leads there: a Gateway of "
                    "class istio-remote, or istio-east-west in their cluster, is missing",
                    now);
    else
        sw_log_info("mesh", "gateways lead to all other networks");
}

static void commit(struct sw_mesh_controller *m)
{
    set_gauges(m);
    report_doorless(m);
    if (m->txn)
        (void)sw_xds_cache_commit(m->cache, SW_TAKE(m->txn));
}

static void become_ready(struct sw_mesh_controller *m)
{
    static const char *const types[] = {SW_TYPE_AUTHORIZATION, SW_TYPE_ADDRESS};
    struct sw_mesh_index_stats st = sw_mesh_index_stats(m->ix);

    commit(m);
    /* Also where there is nothing: the type is complete, and empty. */
    for (size_t i = 0; i < SW_ARRAY_LEN(types); i++) {
        struct sw_xds_txn *empty = sw_xds_txn_new();

        if (sw_xds_cache_awaits(m->cache, sw_slice_str(types[i])))
            sw_xds_txn_clear(empty, types[i]);
        (void)sw_xds_cache_commit(m->cache, empty);
    }
    m->ready = true;
    sw_log_info("mesh", "published %zu pods, %zu workload entries, %zu services, %zu entries",
                st.pods, st.workload_entries, st.services, st.service_entries);
}

static void schedule(struct sw_mesh_controller *m);

static void on_flush(struct sw_timer *t)
{
    struct sw_mesh_controller *m = SW_CONTAINER_OF(t, struct sw_mesh_controller, flush);
    uint64_t began = sw_now_ns();
    uint64_t took;
    bool done;

    flush_policies(m);
    done = sw_mesh_networks_flush(m->nets, SLICE, on_change, m);
    took = sw_now_ns() - began;
    if (done)
        drop_policies(m);
    if (m->ready)
        commit(m);
    else if (done)
        become_ready(m);
    /* The rest of a large change continues in the next turn; what comes later may gather. */
    m->not_before_ns = done ? sw_loop_now(m->loop) + sw_min(2 * took, gap_most_ns) : 0;
    if (!done)
        schedule(m);
}

static void schedule(struct sw_mesh_controller *m)
{
    uint64_t now = sw_loop_now(m->loop);

    if (m->stopped || m->synced < KINDS || sw_timer_running(&m->flush) ||
        (m->clusters && !m->ready && !sw_mesh_clusters_settled(m->clusters)))
        return;
    sw_timer_start(m->loop, &m->flush, m->not_before_ns > now ? m->not_before_ns - now : 0,
                   on_flush);
}

/* ---- in ---- */

static enum sw_mesh_policy_kind policy_kind(const struct source *s)
{
    return s->kind == SW_MESH_WATCH_POLICY ? SW_MESH_AUTHORIZATION_POLICY
                                           : SW_MESH_PEER_AUTHENTICATION;
}

static void on_object(void *arg, struct sw_kube_obj *o)
{
    struct source *s = arg;
    const char *why = NULL;
    struct sw_log_limit *limit = &s->of->ignored;
    struct sw_log_line l;

    if (s->kind < SW_MESH_KINDS)
        sw_mesh_index_set(s->of->ix, (enum sw_mesh_kind)s->kind, o->json, &why);
    else
        sw_mesh_policies_set(s->of->policies, policy_kind(s), o->json);
    if (why)
        count(s->of, SW_METRIC_MESH_REFUSALS, "object");
    if (why && sw_log_limit_take(limit, sw_loop_now(s->of->loop))) {
        sw_log_begin(&l, SW_LOG_WARN, "mesh", "object ignored");
        sw_log_cstr(&l, "kind", sw_mesh_kinds[s->kind].gvr.kind);
        sw_log_str(&l, "object", o->key);
        sw_log_cstr(&l, "reason", why);
        sw_log_limit_put(limit, &l);
        sw_log_end(&l);
    }
    schedule(s->of);
}

static void on_update(void *arg, struct sw_kube_obj *old, struct sw_kube_obj *now)
{
    on_object(arg, now);
}

static void on_gone(void *arg, struct sw_kube_obj *last)
{
    struct source *s = arg;

    if (s->kind < SW_MESH_KINDS)
        sw_mesh_index_del(s->of->ix, (enum sw_mesh_kind)s->kind, last->ns, last->name);
    else
        sw_mesh_policies_del(s->of->policies, policy_kind(s), last->ns, last->name);
    schedule(s->of);
}

static void on_synced(void *arg)
{
    struct source *s = arg;

    s->of->synced++;
    schedule(s->of);
}

static void on_clusters(void *arg)
{
    schedule(arg);
}

static const struct sw_informer_cbs informer_cbs = {
    .add = on_object, .update = on_update, .del = on_gone, .synced = on_synced};

/* ---- from outside ---- */

static void build(const struct sw_view *v, struct sw_output *out, void *arg)
{
    const struct sw_mesh_controller *m = arg;

    sw_mesh_status_build(v, &m->conf, out);
}

static int make_statuses(struct sw_mesh_controller *m, struct sw_kube_client *c,
                         const struct sw_mesh_controller_opts *o, struct sw_err *err)
{
    const struct sw_control_opts co = {.name = "spanwire-mesh",
                                       .kinds = sw_mesh_status_kinds,
                                       .n_kinds = SW_MESH_ST_KINDS,
                                       .build = build,
                                       .build_arg = m,
                                       .stamp = sw_gateway_stamp,
                                       .events = true,
                                       .threaded = o->threaded,
                                       .election = o->election};

    m->statuses = sw_control_new(c, &co, err);
    return m->statuses ? SW_OK : SW_EINVAL;
}

struct sw_mesh_controller *sw_mesh_controller_new(struct sw_kube_client *c,
                                                  const struct sw_mesh_controller_opts *o,
                                                  struct sw_err *err)
{
    struct sw_mesh_controller *m = SW_NEW(struct sw_mesh_controller);
    struct sw_mesh_conf conf = o->conf.mesh;

    m->conf = o->conf;
    m->cache = o->cache;
    m->metrics = o->metrics;
    m->loop = sw_kube_client_loop(c);
    m->policies = sw_mesh_policies_new(&m->conf.policy);
    conf.policies = policies_of;
    conf.policies_arg = m;
    m->ix = sw_mesh_index_new(&conf);
    m->nets = sw_mesh_networks_new(m->ix);
    if (o->clusters)
        m->clusters =
            sw_mesh_clusters_new(c, &(struct sw_mesh_clusters_opts){.nets = m->nets,
                                                                    .ns = o->conf.mesh.root_ns,
                                                                    .metrics = m->metrics,
                                                                    .changed = on_clusters,
                                                                    .arg = m});
    sw_xds_cache_await(m->cache, SW_TYPE_ADDRESS);
    sw_xds_cache_await(m->cache, SW_TYPE_AUTHORIZATION);
    for (int k = 0; k < KINDS; k++) {
        struct source *s = &m->sources[k];
        const struct sw_informer_opts io = {
            .gvr = &sw_mesh_kinds[k].gvr, .optional = sw_mesh_kinds[k].optional, .hollow = true};

        *s = (struct source){.of = m, .kind = k};
        s->informer = sw_informer_new(c, &io, &informer_cbs, s);
    }
    if (o->statuses && make_statuses(m, c, o, err) != SW_OK) {
        sw_mesh_controller_free(m);
        return NULL;
    }
    return m;
}

void sw_mesh_controller_start(struct sw_mesh_controller *m)
{
    for (size_t k = 0; k < KINDS; k++)
        sw_informer_start(m->sources[k].informer);
    if (m->clusters)
        sw_mesh_clusters_start(m->clusters);
    if (m->statuses)
        sw_control_start(m->statuses);
}

void sw_mesh_controller_stop(struct sw_mesh_controller *m, void (*done)(void *arg), void *arg)
{
    m->stopped = true;
    sw_timer_stop(m->loop, &m->flush);
    for (size_t k = 0; k < KINDS; k++)
        sw_informer_stop(m->sources[k].informer);
    if (m->clusters)
        sw_mesh_clusters_stop(m->clusters);
    if (m->statuses)
        sw_control_stop(m->statuses, done, arg);
    else if (done)
        done(arg);
}

void sw_mesh_controller_free(struct sw_mesh_controller *m)
{
    if (!m)
        return;
    sw_timer_stop(m->loop, &m->flush);
    sw_control_free(m->statuses);
    for (size_t k = 0; k < KINDS; k++)
        sw_informer_free(m->sources[k].informer);
    sw_xds_txn_free(m->txn);
    SW_VEC_FOREACH (char *, key, &m->dropped)
        sw_free(*key);
    sw_vec_done(&m->dropped);
    sw_mesh_clusters_free(m->clusters);
    sw_mesh_networks_free(m->nets);
    sw_mesh_index_free(m->ix);
    sw_mesh_policies_free(m->policies);
    sw_free(m);
}
