/* SPDX-License-Identifier: Apache-2.0 */
/* What clusters counted, from the cells the workers write anyway. Main thread. */
#include "base/mem.h"
#include "gateway/config/routes.h"
#include "gateway/observe/accesslog.h"
#include "gateway/upstream/cluster.h"
#include "gateway/xds/store_int.h"
#include "telemetry/metrics.h"

enum { CLUSTERS_MAX = 512, GONE_MAX = 1024, CLASSES = 6 };

static const char *const class_names[CLASSES] = {"none", "1xx", "2xx", "3xx", "4xx", "5xx"};

static struct sw_metric *pair(struct sw_metrics_shard *s, enum sw_metric_id id, struct sw_slice a,
                              const char *b)
{
    struct sw_slice v[2] = {a, sw_slice_str(b)};

    return sw_metric_get(s, id, v);
}

enum { CONNECT, TLS, TIMEOUT, OVERFLOW, NO_HOST, REASONS };
static const char *const reason_names[REASONS] = {"connect", "tls", "timeout", "overflow",
                                                  "no_host"};
enum { HEALTHY, FAILING, EJECTED, SET_ASIDE, STATES };
static const char *const state_names[STATES] = {"healthy", "failing", "ejected", "set_aside"};

/* Sums of the cells, at one moment. */
struct sums {
    uint64_t classes[CLASSES];
    uint64_t reasons[REASONS];
    uint64_t retries;
    uint64_t failovers;
    uint64_t ejections;
};

/* Of a cluster that was used, as reported so far. */
struct sw_gw_cstats {
    struct sums reported;
    bool shared;              /* counted under 'overflow', without gauges */
    struct sw_metric *active; /* NULL: shared */
    struct sw_metric *connections;
    struct sw_metric *members[STATES];
};

static void add_up(const struct sw_gw_cluster_state *st, struct sums *t, uint64_t *ret_active,
                   uint64_t *ret_cx)
{
    *ret_active = *ret_cx = 0;
    for (unsigned i = 0; i < st->n_cells; i++) {
        struct sw_gw_cluster_cell *c = &st->cells[i];

        for (int k = 0; k < CLASSES; k++)
            t->classes[k] += atomic_load_explicit(&c->status[k], memory_order_relaxed);
        t->reasons[CONNECT] += atomic_load_explicit(&c->cx_fail, memory_order_relaxed);
        t->reasons[TLS] += atomic_load_explicit(&c->tls_fail, memory_order_relaxed);
        t->reasons[TIMEOUT] += atomic_load_explicit(&c->timeouts, memory_order_relaxed);
        t->reasons[OVERFLOW] += atomic_load_explicit(&c->overflow, memory_order_relaxed);
        t->reasons[NO_HOST] += atomic_load_explicit(&c->no_host, memory_order_relaxed);
        t->retries += atomic_load_explicit(&c->retries, memory_order_relaxed);
        t->failovers += atomic_load_explicit(&c->failovers, memory_order_relaxed);
        *ret_active += atomic_load_explicit(&c->active, memory_order_relaxed);
        *ret_cx += atomic_load_explicit(&c->cx, memory_order_relaxed);
    }
    t->ejections = atomic_load_explicit(&st->ejections, memory_order_relaxed);
}

static void add_since(struct sw_metrics_shard *s, enum sw_metric_id id, struct sw_slice cluster,
                      const char *second, uint64_t *reported, uint64_t now)
{
    if (now == *reported)
        return;
    sw_metric_add(second ? pair(s, id, cluster, second) : sw_metric_get(s, id, &cluster),
                  now - *reported);
    *reported = now;
}

static void set_members(struct sw_gw_cstats *cs, const struct sw_gw_members *ms)
{
    uint64_t n[STATES] = {0};

    SW_GW_ENDPOINTS_EACH (e, ms) {
        uint32_t h = atomic_load_explicit(&e->member->health, memory_order_relaxed);

        if (h & SW_GW_FAILED_OUTLIER)
            n[EJECTED]++;
        else if (h & SW_GW_SET_ASIDE)
            n[SET_ASIDE]++;
        else
            n[(h & SW_GW_FAILED_ACTIVE) || e->unhealthy ? FAILING : HEALTHY]++;
    }
    for (int i = 0; i < STATES; i++)
        sw_metric_set(cs->members[i], (int64_t)n[i]);
}

static struct sw_gw_cstats *cstats_new(struct sw_gw_store *s, struct sw_slice cluster)
{
    struct sw_gw_cstats *c = SW_NEW(struct sw_gw_cstats);

    c->shared = s->n_cstats >= CLUSTERS_MAX;
    if (c->shared)
        return c;
    s->n_cstats++;
    c->active = sw_metric_get(s->o.shard, SW_METRIC_GW_CLUSTER_ACTIVE, &cluster);
    c->connections = sw_metric_get(s->o.shard, SW_METRIC_GW_CLUSTER_CONNECTIONS, &cluster);
    for (int i = 0; i < STATES; i++)
        c->members[i] = pair(s->o.shard, SW_METRIC_GW_CLUSTER_MEMBERS, cluster, state_names[i]);
    return c;
}

static void drop_gauges(struct sw_gw_store *s, struct sw_gw_cstats *c)
{
    if (c->shared)
        return;
    s->n_cstats--;
    sw_metric_drop(s->o.shard, c->active);
    sw_metric_drop(s->o.shard, c->connections);
    for (int i = 0; i < STATES; i++)
        sw_metric_drop(s->o.shard, c->members[i]);
}

static bool any_count(const struct sums *t)
{
    bool any = t->retries || t->failovers || t->ejections;

    for (int i = 0; i < CLASSES; i++)
        any |= t->classes[i] != 0;
    for (int i = 0; i < REASONS; i++)
        any |= t->reasons[i] != 0;
    return any;
}

static void add_counts(struct sw_metrics_shard *s, struct sw_slice name, struct sw_gw_cstats *cs,
                       const struct sums *now)
{
    struct sums *reported = &cs->reported;

    if (cs->shared)
        name = SW_SLICE_LIT("overflow");
    for (int i = 0; i < CLASSES; i++)
        add_since(s, SW_METRIC_GW_CLUSTER_REQUESTS, name, class_names[i], &reported->classes[i],
                  now->classes[i]);
    for (int i = 0; i < REASONS; i++)
        add_since(s, SW_METRIC_GW_CLUSTER_FAILURES, name, reason_names[i], &reported->reasons[i],
                  now->reasons[i]);
    add_since(s, SW_METRIC_GW_CLUSTER_RETRIES, name, NULL, &reported->retries, now->retries);
    add_since(s, SW_METRIC_GW_CLUSTER_FAILOVERS, name, NULL, &reported->failovers, now->failovers);
    add_since(s, SW_METRIC_GW_CLUSTER_EJECTIONS, name, NULL, &reported->ejections, now->ejections);
}

static void scrape_one(struct sw_gw_store *s, struct sw_gw_res *r)
{
    struct sums now = {0};
    uint64_t active;
    uint64_t cx;

    add_up(r->cluster->state, &now, &active, &cx);
    if (!r->cstats && !active && !any_count(&now) && !r->cluster->spec->n_checks)
        return; /* most of ten thousand clusters */
    if (!r->cstats)
        r->cstats = cstats_new(s, r->name);
    add_counts(s->o.shard, r->name, r->cstats, &now);
    if (r->cstats->shared)
        return;
    sw_metric_set(r->cstats->active, (int64_t)active);
    sw_metric_set(r->cstats->connections, (int64_t)cx);
    set_members(r->cstats, r->cluster->members);
}

/* ---- clusters that went ---- */

static void gone_done(struct sw_gw_gone *g)
{
    (void)sw_gw_cluster_state_unref(g->state);
    sw_slice_free(&g->name);
    sw_free(g->cstats);
}

static void add_removed(struct sw_gw_store *s, struct sw_gw_gone *g)
{
    struct sums now = {0};
    uint64_t active;
    uint64_t cx;

    add_up(g->state, &now, &active, &cx);
    if (any_count(&now))
        add_counts(s->o.shard, g->name, g->cstats, &now);
}

void sw_gw_stats_sweep(struct sw_gw_store *s)
{
    for (size_t i = s->gone.n; i-- > 0;) {
        struct sw_gw_gone *g = &s->gone.p[i];
        /* Read before the counts: a holder that dropped its reference counts no more. */
        bool last = atomic_load_explicit(&g->state->refs, memory_order_acquire) == 1;

        add_removed(s, g);
        if (!last)
            continue;
        gone_done(g);
        (void)sw_vec_swap_remove(&s->gone, i);
    }
}

void sw_gw_stats_leave(struct sw_gw_store *s, struct sw_gw_res *r)
{
    struct sw_gw_gone g = {.cstats = r->cstats};

    if (!s->o.shard || !r->state)
        return;
    if (g.cstats) {
        drop_gauges(s, g.cstats);
    } else {
        g.cstats = SW_NEW(struct sw_gw_cstats);
        g.cstats->shared = s->n_cstats >= CLUSTERS_MAX;
    }
    r->cstats = NULL;
    g.name = sw_slice_copy(r->name);
    g.state = sw_gw_cluster_state_ref(r->state);
    if (s->gone.n < GONE_MAX) {
        sw_vec_push(&s->gone, g);
        return;
    }
    add_removed(s, &g);
    gone_done(&g);
}

void sw_gw_stats_done(struct sw_gw_store *s)
{
    for (size_t i = 0; i < s->gone.n; i++)
        gone_done(&s->gone.p[i]);
    sw_vec_done(&s->gone);
}

/* ---- all of them ---- */

/* From the start: with a counter that appears only with its first refusal, rate() sees no rise. */
static void add_refused(struct sw_gw_store *s)
{
    for (int i = 0; i < SW_GW_TYPES; i++) {
        sw_metric_add(
            sw_metric_get1(s->o.shard, SW_METRIC_GW_CONFIG_REFUSED, sw_gw_type_names[i].label),
            s->refused[i] - s->refused_reported[i]);
        s->refused_reported[i] = s->refused[i];
    }
}

static void set_invalid(struct sw_gw_store *s)
{
    uint64_t n = 0;

    SW_MAP_EACH (const struct sw_gw_res, r, &s->res[SW_GW_TYPE_ROUTES])
        n += r->routes ? r->routes->n_invalid : 0;
    sw_metric_set(sw_metric_get(s->o.shard, SW_METRIC_GW_HOSTS_INVALID, NULL), (int64_t)n);
}

void sw_gw_stats_scrape(struct sw_gw_store *s)
{
    uint64_t lost = sw_gw_accesslog_lost();

    add_refused(s);
    set_invalid(s);
    sw_metric_add(sw_metric_get(s->o.shard, SW_METRIC_GW_LOG_LOST, NULL), lost - s->lost_reported);
    s->lost_reported = lost;
    sw_gw_stats_sweep(s);
    SW_MAP_EACH (struct sw_gw_res, r, &s->res[SW_GW_TYPE_CLUSTER]) {
        if (r->cluster)
            scrape_one(s, r);
    }
}
