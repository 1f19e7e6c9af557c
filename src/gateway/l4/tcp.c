/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TCP proxy. Plain bytes on both sides are pumped between the sockets, by splice when there are
 * many. With TLS on a side, or inside a CONNECT tunnel, the connection becomes an exchange
 * (tcp_tunnel.c).
 */
#include "gateway/l4/tcp.h"

#include <stdio.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/time.h"
#include "gateway/config/config.h"
#include "gateway/conn/worker.h"
#include "gateway/exchange/clients.h"
#include "gateway/observe/accesslog.h"
#include "gateway/observe/stats.h"
#include "gateway/upstream/aside.h"
#include "gateway/upstream/host.h"
#include "gateway/upstream/hosts.h"
#include "gateway/upstream/pick.h"
#include "tunnel/dial.h"
#include "tunnel/pump.h"

struct tcp {
    struct sw_gw_down life;
    struct sw_gw_worker *worker;
    struct sw_gw_origin from;
    const struct sw_gw_tcp_proxy *proxy; /* of the chain */
    struct sw_gw_host *host;             /* a reference while it is counted */
    struct sw_gw_member *member;         /* of the last attempt; a reference, for the log */
    struct sw_gw_pick pick;
    struct sw_slice cluster; /* of the proxy */
    struct sw_slice pre;     /* owned */
    int fd;                  /* -1 once the pump has it */
    struct sw_dial dial;
    struct sw_pump pump;
    struct sw_timer idle;
    struct sw_timer most; /* max_downstream_connection_duration */
    struct sw_defer defer;
    uint64_t start_ns;
    uint64_t start_wall_ns;
    uint64_t active_ns;
    uint64_t bytes[2];
    uint32_t attempts;
    uint32_t flags;
    bool pumping;
    bool closed;
    char failure[96];
};

static void tcp_free(struct sw_defer *d)
{
    struct tcp *t = SW_CONTAINER_OF(d, struct tcp, defer);

    sw_gw_origin_done(&t->from);
    (void)sw_gw_member_unref(t->member);
    sw_slice_free(&t->pre);
    sw_free(t);
}

static void write_log(struct tcp *t)
{
    uint64_t now = sw_loop_now(t->worker->loop);
    struct sw_gw_vars v = {
        .peer = t->from.peer,
        .local = t->from.local,
        .sni = t->from.sni,
        .cluster = t->cluster,
        .member = t->member,
        .metadata = t->from.metadata,
        .listener = t->from.listener->name,
        .chain = t->from.chain->name,
        .flags = t->flags,
        .failure = t->failure[0] ? t->failure : NULL,
        .start_wall_ns = t->start_wall_ns,
        .duration_ns = now - t->start_ns,
        .rx_bytes = t->bytes[0],
        .tx_bytes = t->bytes[1],
        .attempts = t->attempts,
    };

    if (t->proxy->n_logs)
        sw_gw_accesslog_write(t->proxy->logs, t->proxy->n_logs, &v);
}

static void leave_host(struct tcp *t, enum sw_gw_result how)
{
    if (t->host)
        sw_gw_lb_done(t->worker->hosts, t->host, how, 0);
    t->host = NULL;
}

static void tcp_close(struct tcp *t, bool reset)
{
    if (t->closed)
        return;
    t->closed = true;
    sw_timer_stop(t->worker->loop, &t->idle);
    sw_timer_stop(t->worker->loop, &t->most);
    sw_dial_cancel(&t->dial);
    if (t->pumping)
        sw_pump_stop(&t->pump, reset);
    if (t->fd >= 0) {
        if (reset)
            sw_sock_set_reset(t->fd);
        sw_sock_close(t->fd);
    }
    leave_host(t, SW_GW_RESULT_NEUTRAL);
    sw_gw_down_remove(t->worker, &t->life);
    write_log(t);
    sw_loop_defer(t->worker->loop, &t->defer, tcp_free);
}

static struct tcp *of_life(struct sw_gw_down *d)
{
    return SW_CONTAINER_OF(d, struct tcp, life);
}

/* An unknown protocol has no way to end gracefully; the drain's deadline ends it. */
static void on_drain(struct sw_gw_down *d)
{
    struct tcp *t = of_life(d);

    if (!t->pumping)
        tcp_close(t, true);
}

static void on_kill(struct sw_gw_down *d)
{
    tcp_close(of_life(d), true);
}

/* ---- pumping ---- */

static void on_moved(struct sw_pump *p, int from, size_t n)
{
    struct tcp *t = SW_CONTAINER_OF(p, struct tcp, pump);

    t->bytes[from] += n;
    t->active_ns = sw_loop_now(t->worker->loop);
}

static void on_pumped(struct sw_pump *p, int rc)
{
    struct tcp *t = SW_CONTAINER_OF(p, struct tcp, pump);

    t->pumping = false;
    leave_host(t, SW_GW_RESULT_OK);
    if (rc != SW_OK)
        t->flags |= SW_GW_FLAG_UC;
    tcp_close(t, false);
}

static const struct sw_pump_ops pump_ops = {.on_moved = on_moved, .on_done = on_pumped};

static void on_idle(struct sw_timer *timer)
{
    struct tcp *t = SW_CONTAINER_OF(timer, struct tcp, idle);
    uint64_t now = sw_loop_now(t->worker->loop);
    uint64_t end = t->active_ns + t->proxy->idle_timeout_ns;

    if (now < end) {
        sw_timer_start(t->worker->loop, &t->idle, end - now, on_idle);
        return;
    }
    t->flags |= SW_GW_FLAG_SI;
    tcp_close(t, false);
}

static void on_most(struct sw_timer *timer)
{
    struct tcp *t = SW_CONTAINER_OF(timer, struct tcp, most);

    t->flags |= SW_GW_FLAG_DT;
    tcp_close(t, false);
}

static void attempt(struct tcp *t);

/* The client sees only a reset. */
static void refuse(struct tcp *t, const char *reason, const char *why)
{
    char text[400];

    (void)snprintf(text, sizeof(text), "cluster '%.*s': %s", SW_SLICE_ARG_MAX(t->cluster, 255),
                   why);
    sw_gw_lstats_refused(t->life.stats, reason);
    sw_gw_lstats_log_refusal(t->life.stats, reason, &t->from.peer, text);
    tcp_close(t, true);
}

static void refuse_unpicked(struct tcp *t, int rc)
{
    if (rc == SW_ENOENT) {
        t->flags |= SW_GW_FLAG_NC;
        refuse(t, "tcp_no_cluster", "not known");
    } else if (rc == SW_ELIMIT) {
        t->flags |= SW_GW_FLAG_UO;
        refuse(t, "tcp_overflow", "too many connections");
    } else {
        t->flags |= SW_GW_FLAG_UH;
        refuse(t, "tcp_no_host", "no usable member");
    }
}

/* 'unsent': no byte went to the host, so another one may have them without a policy. */
static void failed(struct tcp *t, const char *why, bool unsent)
{
    bool more = t->attempts < t->proxy->max_connect_attempts;

    (void)snprintf(t->failure, sizeof(t->failure), "%s", why);
    if (more)
        sw_gw_pick_tried(&t->pick, t->host->member);
    else
        more = unsent && t->attempts < SW_GW_HOSTS_MAX &&
               sw_gw_lb_fail_over(t->worker->hosts, t->host, &t->pick);
    leave_host(t, SW_GW_RESULT_LOCAL);
    t->flags |= SW_GW_FLAG_UF;
    if (more) {
        attempt(t);
        return;
    }
    t->flags |= SW_GW_FLAG_URX;
    refuse(t, "tcp_connect", t->failure);
}

static void on_dialled(struct sw_dial *d, int rc, const struct sw_err *err)
{
    struct tcp *t = SW_CONTAINER_OF(d, struct tcp, dial);
    struct sw_dialled up;
    struct sw_err e = {0};

    if (rc != SW_OK) {
        const char *why = rc == SW_ETIME ? "connect timeout" : err->msg;

        sw_gw_aside_failed(t->host->cluster, t->host->member, sw_loop_now(t->worker->loop), why);
        failed(t, why, true);
        return;
    }
    sw_gw_aside_connected(t->host->cluster, t->host->member, sw_loop_now(t->worker->loop));
    t->flags = 0;
    t->failure[0] = '\0';
    sw_dial_take(d, &up);
    /* What was read to find the chain goes first; a fresh socket has room for it. */
    if (t->pre.n && sw_sock_write(up.fd, t->pre.p, t->pre.n) != (ssize_t)t->pre.n) {
        sw_dialled_close(&up);
        failed(t, "cannot pass on the first bytes", false);
        return;
    }
    t->bytes[0] = t->pre.n;
    rc = sw_pump_start(&t->pump, t->worker->loop, SW_TAKE_FD(t->fd), &up, &pump_ops, &e);
    if (rc != SW_OK) {
        tcp_close(t, true);
        return;
    }
    t->pumping = true;
    t->active_ns = sw_loop_now(t->worker->loop);
    if (t->proxy->idle_timeout_ns)
        sw_timer_start(t->worker->loop, &t->idle, t->proxy->idle_timeout_ns, on_idle);
}

static void attempt(struct tcp *t)
{
    const struct sw_gw_config *c = t->worker->view->config;
    const struct sw_gw_cluster_spec *spec;
    struct sw_sock_opts o;
    int rc = sw_gw_lb_pick(t->worker->hosts, c, t->cluster, &t->pick, &t->host);

    t->attempts++;
    if (rc != SW_OK) {
        refuse_unpicked(t, rc);
        return;
    }
    (void)sw_gw_member_unref(t->member);
    t->member = sw_gw_member_ref(t->host->member);
    if (t->host->addr.kind != SW_GW_ADDR_IP) {
        failed(t, "not an IP address", true);
        return;
    }
    spec = t->host->cluster->spec;
    o = sw_gw_sock_opts(spec);
    sw_dial_start(&t->dial, t->worker->loop,
                  &(struct sw_dial_target){
                      .to = &t->host->addr.ip, .opts = &o, .timeout_ns = spec->connect_timeout_ns},
                  on_dialled);
}

/* ---- start ---- */

static struct sw_slice choose_cluster(const struct sw_gw_tcp_proxy *p)
{
    uint64_t at = p->n_clusters > 1 ? sw_rand_below(p->total_weight) : 0;

    for (size_t i = 0; i < p->n_clusters; i++) {
        if (at < p->clusters[i].weight)
            return p->clusters[i].cluster;
        at -= p->clusters[i].weight;
    }
    return p->clusters[0].cluster;
}

static bool needs_exchange(const struct sw_gw_worker *w, const struct sw_gw_chain *chain,
                           struct sw_slice cluster)
{
    const struct sw_gw_cluster *c = sw_gw_config_cluster(w->view->config, cluster);

    return chain->tls || chain->tcp.tunnel || (c && (c->tls || c->spec->internal_upstream));
}

void sw_gw_tcp_start(struct sw_gw_worker *w, const struct sw_gw_accepted *a)
{
    struct sw_slice cluster = choose_cluster(&a->chain->tcp);
    struct tcp *t;

    if (needs_exchange(w, a->chain, cluster)) {
        sw_gw_tcp_exchange(w, a, cluster);
        return;
    }
    t = SW_NEW(struct tcp);
    t->worker = w;
    sw_gw_origin_init(&t->from, a);
    t->proxy = &a->chain->tcp;
    t->cluster = cluster;
    t->pre = sw_slice_copy(a->pre);
    t->fd = a->fd;
    t->start_ns = sw_loop_now(w->loop);
    t->start_wall_ns = sw_wall_ns();
    t->pick.original_dst = a->local;
    t->pick.has_hash = t->proxy->hash_source_ip;
    t->pick.hash = sw_siphash13(1, 1, a->peer.ip.b, sizeof(a->peer.ip.b));
    t->life.drain = on_drain;
    t->life.kill = on_kill;
    t->life.stats = sw_gw_lstats(w, a->listener->name);
    sw_gw_down_add(w, &t->life);
    if (t->proxy->max_duration_ns)
        sw_timer_start(w->loop, &t->most, t->proxy->max_duration_ns, on_most);
    attempt(t);
}
