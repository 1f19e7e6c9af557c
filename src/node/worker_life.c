/* SPDX-License-Identifier: Apache-2.0 */
/* A worker as the main thread sees it: its orders, its beginning and its end. */
#include <assert.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "node/inbound.h"
#include "node/worker.h"
#include "tunnel/scratch.h"

enum {
    HANDSHAKE_S = 10,
    PING_S = 10,
    PING_TIMEOUT_S = 20,
    MAX_STREAMS = 200,
};

/* ---- orders of the main thread ---- */

static struct sw_worker *worker_of(struct sw_crew_thread *t)
{
    return SW_CONTAINER_OF(t, struct sw_worker, thread);
}

/* Every open inbound connection is judged anew by the fresh records. */
static void recheck_guards(struct sw_worker *w)
{
    SW_LIST_EACH (struct sw_guard, g, &w->guards, link) {
        struct sw_policy_verdict verdict;

        if (!sw_worker_authorise(w, g->pod, g->src_ip, g->src, &g->dst, &verdict))
            g->deny(g, verdict.text);
        else if (g->waypoint &&
                 !sw_route_may_pass(w->state, &w->env, g->pod->local, g->src_ip, g->src, &g->dst))
            g->deny(g, "the destination has a waypoint and the caller is not it");
    }
}

static bool is_gone(struct sw_slice uid, const struct sw_ip *ip, void *arg)
{
    const struct sw_workload *w = sw_state_workload_by_uid(arg, uid);

    if (w && sw_workload_has_ip(w, ip))
        return false;
    return !w || !w->has_hostname; /* one that is known by name has the addresses DNS tells */
}

/* A pod that is gone sends no FIN: its address may be another pod's soon. */
static void retire_carriers(struct sw_worker *w)
{
    size_t n = sw_pool_retire(w->pool, is_gone, w->state);

    if (n == 0)
        return;
    sw_metric_add(w->pool_retired, n);
    sw_log_debug("outbound", "%zu connections to workloads that are gone take no more tunnels", n);
}

static void take_state(struct sw_crew_thread *t, void *state)
{
    struct sw_worker *w = worker_of(t);
    struct sw_state *old = w->state;
    bool local = sw_state_local_version(old) != sw_state_local_version(state);

    w->state = state;
    /* Most changes are about pods of other nodes: nothing here depends on those. */
    SW_LIST_EACH (struct sw_wpod, p, &w->pods, link) {
        if (local)
            p->local = sw_pod_workload(w->state, p->pod);
    }
    if (sw_state_authz_version(old) != sw_state_authz_version(state))
        recheck_guards(w);
    if (sw_state_places_version(old) != sw_state_places_version(state))
        retire_carriers(w);
    if (local)
        sw_worker_serve_parked(w);
    (void)sw_state_unref(old);
}

void sw_worker_send_state(struct sw_worker *w, struct sw_state *state)
{
    sw_crew_order(&w->thread, take_state, state);
}

struct found {
    enum sw_lookup_end end;
    size_t n;
    char key[];
};

static void take_found(struct sw_crew_thread *t, void *arg)
{
    struct found *f = arg;

    sw_lookup_found(&worker_of(t)->lookups, sw_slice(f->key, f->n), f->end);
    sw_free(f);
}

void sw_worker_send_found(struct sw_worker *w, struct sw_slice key, enum sw_lookup_end end)
{
    struct found *f = sw_calloc(1, sizeof(*f) + key.n);

    f->end = end;
    f->n = key.n;
    memcpy(f->key, key.p, key.n);
    sw_crew_order(&w->thread, take_found, f);
}

static void take_forget(struct sw_crew_thread *t, void *arg)
{
    sw_lookup_forget(&worker_of(t)->lookups);
}

void sw_worker_send_forget(struct sw_worker *w)
{
    sw_crew_order(&w->thread, take_forget, NULL);
}

static void worker_drain(struct sw_crew_thread *t)
{
    struct sw_worker *w = worker_of(t);

    SW_LIST_EACH (struct sw_wpod, p, &w->pods, link) {
        for (size_t i = 0; i < SW_LISTEN_KINDS; i++)
            sw_accept_finish(&p->listeners[i].acceptor);
    }
    sw_accept_done(&w->accept);
    sw_inbound_drain(w);
}

static bool worker_idle(struct sw_crew_thread *t)
{
    const struct sw_worker *w = worker_of(t);

    return w->n_lives == 0 && w->n_servers == 0;
}

static void worker_kill(struct sw_crew_thread *t)
{
    static const char why[] = "connection closed due to connection drain";
    struct sw_worker *w = worker_of(t);

    while (!sw_list_empty(&w->lives)) {
        struct sw_live *l = SW_CONTAINER_OF(w->lives.next, struct sw_live, link);

        l->ops->end(l, why);
        assert(!sw_list_linked(&l->link));
    }
    sw_worker_close_parked(w, NULL);
    sw_inbound_close_all(w, NULL, why);
}

static void worker_end(struct sw_crew_thread *t)
{
    struct sw_worker *w = worker_of(t);

    sw_pool_free(w->pool);
    w->pool = NULL;
}

static const struct sw_crew_ops worker_ops = {
    .drain = worker_drain,
    .idle = worker_idle,
    .kill = worker_kill,
    .end = worker_end,
    .leave = sw_scratch_done,
};

/* ---- life ---- */

static void on_accept_pause(struct sw_accept_group *g)
{
    sw_metric_add(SW_CONTAINER_OF(g, struct sw_worker, accept)->accept_pauses, 1);
}

static void init_limits(struct sw_worker *w)
{
    const struct sw_node_config *c = w->config;

    w->session_config = (struct sw_session_config){
        .stream_window = c->h2.stream_window,
        .connection_window = c->h2.connection_window,
        .max_frame = c->h2.frame_size,
        .max_streams = MAX_STREAMS,
        .handshake_ns = HANDSHAKE_S * SW_NS_PER_S,
        .ping_interval_ns = PING_S * SW_NS_PER_S,
        .ping_timeout_ns = PING_TIMEOUT_S * SW_NS_PER_S,
    };
    w->sock = (struct sw_sock_opts){
        .netns_fd = -1,
        .mark = c->sockets.packet_mark,
        .keepalive = c->keepalive.on,
        .keepalive_time_s = (uint32_t)(c->keepalive.time_ns / SW_NS_PER_S),
        .keepalive_interval_s = (uint32_t)(c->keepalive.interval_ns / SW_NS_PER_S),
        .keepalive_retries = c->keepalive.retries,
        .user_timeout_ms = c->keepalive.user_timeout_ms,
    };
    w->env = (struct sw_route_env){
        .network = sw_slice_str(c->names.network),
        .socks5 = c->listen.socks5,
        .enforce_waypoint = c->tunnel.enforce_waypoint,
        .localhost_app_tunnel = c->sockets.localhost_app_tunnel,
    };
}

static void init_metrics(struct sw_worker *w, struct sw_metrics *metrics)
{
    w->shard = sw_metrics_shard_new(metrics);
    w->pool_hits = sw_metric_get1(w->shard, SW_METRIC_POOL_HITS, NULL);
    w->pool_misses = sw_metric_get1(w->shard, SW_METRIC_POOL_MISSES, NULL);
    w->pool_retired = sw_metric_get1(w->shard, SW_METRIC_POOL_RETIRED, NULL);
    w->accept_pauses = sw_metric_get1(w->shard, SW_METRIC_ACCEPT_PAUSES, NULL);
    w->fast_path = sw_metric_get1(w->shard, SW_METRIC_FAST_PATH, NULL);
    w->sockets[SW_REPORTER_SOURCE] = sw_metric_get1(w->shard, SW_METRIC_SOCKETS_OPEN, "source");
    w->sockets[SW_REPORTER_DESTINATION] =
        sw_metric_get1(w->shard, SW_METRIC_SOCKETS_OPEN, "destination");
}

int sw_worker_init(struct sw_worker *w, const struct sw_worker_setup *from, struct sw_err *err)
{
    struct sw_pool_config pool;
    int rc;

    *w = (struct sw_worker){.config = from->config,
                            .egress = from->egress,
                            .main = from->main,
                            .on_need = from->on_need,
                            .need_arg = from->arg};
    sw_list_init(&w->guards);
    sw_list_init(&w->lives);
    sw_list_init(&w->servers);
    sw_list_init(&w->parked);
    sw_list_init(&w->cred_waits);
    sw_list_init(&w->pods);
    sw_list_init(&w->graves);
    rc = sw_crew_thread_init(&w->thread, from->crew, &worker_ops, err);
    if (rc != SW_OK)
        return rc;
    w->loop = w->thread.loop;
    sw_accept_init(&w->accept, w->loop, "node");
    sw_accept_keep_spare(&w->accept);
    w->accept.on_pause = on_accept_pause;
    init_limits(w);
    init_metrics(w, from->metrics);
    w->book = (struct sw_ledger_book){.loop = w->loop, .shard = w->shard};
    w->lookups = (struct sw_lookup_book){
        .loop = w->loop, .shard = w->shard, .ask = from->lookup, .arg = from->lookup_arg};
    sw_list_init(&w->lookups.waiting);
    pool = (struct sw_pool_config){
        .max_streams = w->config->tunnel.pool_max_streams,
        .unused_release_ns = w->config->tunnel.pool_unused_release_ns,
        .connect_timeout_ns = SW_CONNECT_S * SW_NS_PER_S,
        .tls12 = w->config->crypto.tls12,
        .session = w->session_config,
    };
    w->pool = sw_pool_new(w->loop, &pool);
    w->state = sw_state_ref(from->state);
    return SW_OK;
}

int sw_worker_start(struct sw_worker *w, struct sw_err *err)
{
    return sw_crew_thread_start(&w->thread, err);
}

void sw_worker_done(struct sw_worker *w)
{
    sw_accept_done(&w->accept);
    sw_pool_free(w->pool);
    if (w->loop)
        sw_timer_stop(w->loop, &w->bury);
    sw_crew_thread_done(&w->thread);
    sw_worker_free_pods(w);
    (void)sw_state_unref(w->state);
    sw_map_done(&w->book.parties);
    sw_lookup_book_done(&w->lookups);
    if (w->shard)
        sw_metrics_shard_free(w->shard);
}
