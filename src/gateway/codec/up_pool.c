/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections of one worker to one host. HTTP/1: the connection used last is used first, one dial
 * per exchange that finds none. HTTP/2: one connection carries many, a second is made only when the
 * first has no stream left; until the first is open, all wait for it.
 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "gateway/codec/internal.h"
#include "gateway/codec/up.h"
#include "gateway/codec/up_pool.h"
#include "gateway/config/config.h"
#include "gateway/config/tls.h"
#include "gateway/exchange/exchange.h"
#include "gateway/upstream/aside.h"
#include "gateway/upstream/cluster.h"
#include "io/sock.h"
#include "tls/connfilter.h"
#include "tls/tls.h"

enum {
    SWEEP_S = 5,
    LOG_EVERY_S = 10, /* between two log lines about one pool */
    LOG_MAX = 20,     /* lines of one worker in that time: clients choose names of pools */
    DIALS_MAX = 1024, /* connections per host and worker */
    QUEUE_MAX = 16384,
    NAMES_MAX = 256, /* pools of one host: server names and protocols that requests chose */
};

static const struct sw_conn_ops dial_ops;

/* ---- life of a pool ---- */

static void pool_maybe_free(struct sw_gw_pool *p)
{
    if (!p->released || p->held || p->n_conns || p->n_queue)
        return;
    sw_list_unlink(&p->link);
    sw_timer_stop(p->worker->loop, &p->sweep);
    (void)sw_gw_cluster_unref(p->cluster);
    sw_free(p->name);
    sw_free(p);
}

/* Has it been open for as long as max_connection_duration allows? */
static bool expired(const struct up_conn *u)
{
    uint64_t max = u->pool->cluster->spec->max_connection_duration_ns;

    return max && sw_loop_now(u->pool->worker->loop) - u->born_ns >= max;
}

static void on_sweep(struct sw_timer *t);

static void sweep_later(struct sw_gw_pool *p)
{
    if (!sw_timer_running(&p->sweep))
        sw_timer_start(p->worker->loop, &p->sweep, SWEEP_S * SW_NS_PER_S, on_sweep);
}

/* Returns whether there are any that use HTTP/2. */
static bool sweep_h2(struct sw_gw_pool *p)
{
    uint64_t now = sw_loop_now(p->worker->loop);
    uint64_t limit = p->cluster->spec->idle_timeout_ns;
    bool any = false;

    SW_LIST_EACH (struct up_conn, u, &p->busy, link) {
        any |= u->h2 != NULL;
        if (u->h2 && expired(u))
            up_h2_drain(u);
        else if (limit && up_h2_is_idle(u) && now - u->since_ns >= limit)
            up_gone(u, false);
    }
    return any;
}

static void on_sweep(struct sw_timer *t)
{
    struct sw_gw_pool *p = SW_CONTAINER_OF(t, struct sw_gw_pool, sweep);
    uint64_t now = sw_loop_now(p->worker->loop);
    uint64_t limit = p->cluster->spec->idle_timeout_ns;
    struct sw_list *last;

    /* The list is ordered: those idle longest are at its end. */
    while (limit && (last = p->idle.prev) != &p->idle) {
        struct up_conn *u = SW_CONTAINER_OF(last, struct up_conn, link);

        if (now - u->since_ns < limit)
            break;
        up_gone(u, false);
    }
    SW_LIST_EACH (struct up_conn, u, &p->idle, link) {
        if (expired(u))
            up_gone(u, false);
    }
    if (sweep_h2(p) || !sw_list_empty(&p->idle))
        sweep_later(p);
}

/*
 * The server name (SNI) of a connection for this exchange; in the exchange's arena or static. NULL:
 * none. A connection made for one name is never used for another: its certificate was checked for
 * the first.
 */
static const char *server_name(struct sw_exchange *x, const struct sw_gw_tls *t)
{
    struct sw_slice host = x->plan.authority.p ? x->plan.authority : x->req.authority;
    struct sw_slice own = x->host->member->hostname;

    if (t->auto_sni && host.n) {
        ptrdiff_t end = sw_slice_find(host, host.p[0] == '[' ? ']' : ':');

        if (end >= 0)
            host = sw_slice_head(host, (size_t)end);
        if (host.n && host.p[0] == '[')
            host = sw_slice_from(host, 1);
        return sw_gw_lowered(&x->arena, host).p;
    }
    if (t->auto_host_sni && own.n)
        return sw_arena_dup(&x->arena, own);
    return t->sni;
}

static bool same_name(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static struct sw_gw_pool *pool_new(struct sw_gw_worker *w, struct sw_gw_host *h, const char *name,
                                   enum sw_gw_up_protocol protocol)
{
    struct sw_gw_pool *p = SW_NEW(struct sw_gw_pool);

    p->worker = w;
    p->host = h;
    p->cluster = sw_gw_cluster_ref(h->cluster);
    p->name = name ? sw_strdup(name) : NULL;
    p->want = (struct sw_gw_tls_want){.tls = sw_gw_tls_for(p->cluster->tls, h->member->metadata),
                                      .host = p->name};
    p->addr = h->addr.ip;
    p->inside = h->addr.kind == SW_GW_ADDR_INTERNAL;
    p->protocol = protocol;
    p->h2 = protocol == SW_GW_UP_H2;
    sw_list_init(&p->idle);
    sw_list_init(&p->busy);
    sw_list_init(&p->queue);
    sw_list_push_back(&w->pools, &p->link);
    p->next = h->pool;
    h->pool = p;
    return p;
}

/* Those in use are closed when they are done. */
static void close_idle(struct sw_gw_pool *p)
{
    while (!sw_list_empty(&p->idle))
        up_gone(SW_CONTAINER_OF(p->idle.next, struct up_conn, link), false);
    SW_LIST_EACH (struct up_conn, u, &p->busy, link) {
        if (u->h2)
            up_h2_drain(u);
    }
}

static void release_one(struct sw_gw_pool *p)
{
    p->released = true;
    p->host = NULL;
    p->next = NULL;
    close_idle(p);
    pool_maybe_free(p);
}

void sw_gw_pool_release(struct sw_gw_pool *p)
{
    while (p && !p->released) {
        struct sw_gw_pool *next = p->next;

        release_one(p);
        p = next;
    }
}

/*
 * A connection to an internal listener ends in this process, and a draining worker waits for both
 * ends: it keeps none.
 */
static bool keeps(const struct sw_gw_pool *p)
{
    return !p->released && !(p->inside && p->worker->thread.draining);
}

void sw_gw_pools_drain(struct sw_gw_worker *w)
{
    SW_LIST_EACH (struct sw_gw_pool, p, &w->pools, link) {
        if (!keeps(p))
            close_idle(p);
    }
}

void sw_gw_pools_close(struct sw_gw_worker *w)
{
    SW_LIST_EACH (struct sw_gw_pool, p, &w->pools, link) {
        while (!sw_list_empty(&p->busy))
            up_gone(SW_CONTAINER_OF(p->busy.next, struct up_conn, link), true);
    }
}

/* Clients choose these names: evict an unused pool to make room for another. */
static bool make_room(struct sw_gw_host *h)
{
    for (struct sw_gw_pool **at = &h->pool; *at; at = &(*at)->next) {
        struct sw_gw_pool *p = *at;

        if (p->n_queue == 0 && sw_list_empty(&p->busy)) {
            *at = p->next;
            release_one(p);
            return true;
        }
    }
    return false;
}

static enum sw_gw_up_protocol protocol_of(const struct sw_exchange *x)
{
    enum sw_gw_up_protocol p = x->host->cluster->spec->protocol;

    if (p == SW_GW_UP_DOWNSTREAM)
        return x->req.version == SW_GW_HTTP2 ? SW_GW_UP_H2 : SW_GW_UP_H1;
    return p;
}

/* NULL: too many names are in use. */
static struct sw_gw_pool *pool_of(struct sw_exchange *x)
{
    struct sw_gw_host *h = x->host;
    const struct sw_gw_tls *t = sw_gw_tls_for(h->cluster->tls, h->member->metadata);
    enum sw_gw_up_protocol protocol = protocol_of(x);
    const char *name;
    unsigned n = 0;

    if (h->pool && h->pool->protocol == protocol && (!t || !t->auto_sni))
        return h->pool;
    name = t ? server_name(x, t) : NULL;
    for (struct sw_gw_pool *p = h->pool; p; p = p->next, n++) {
        if (p->protocol == protocol && same_name(p->name, name))
            return p;
    }
    if (n >= NAMES_MAX && !make_room(h))
        return NULL;
    return pool_new(x->worker, h, name, protocol);
}

/* ---- circuit limits ---- */

static struct sw_gw_cluster_cell *cell_of(const struct sw_gw_pool *p)
{
    return &p->cluster->state->cells[p->worker->index];
}

static void adjust(_Atomic uint32_t *c, int by)
{
    atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + (uint32_t)by,
                          memory_order_relaxed);
}

/* ---- dialling ---- */

static struct sw_tls *client_tls(const struct sw_gw_pool *p, struct sw_err *err)
{
    struct sw_tls_params params = {0};

    sw_gw_tls_client_params(&p->want, &params);
    if (p->protocol == SW_GW_UP_H2)
        params.alpn = "h2";
    else if (!params.alpn && p->protocol == SW_GW_UP_AUTO)
        params.alpn = "h2,http/1.1";
    return sw_tls_new(&params, err);
}

/* The exchange that the next connection is for; NULL: the queue is empty. */
static const struct sw_exchange *first_waiting(const struct sw_gw_pool *p)
{
    return SW_LIST_FIRST(&p->queue, const struct sw_exchange, queue);
}

static int open_conn(struct sw_gw_pool *p, struct up_conn *u, struct sw_err *err)
{
    const struct sw_gw_cluster_spec *spec = p->cluster->spec;
    struct sw_sock_opts o = sw_gw_sock_opts(spec);
    struct sw_conn_opts co = {
        .ops = &dial_ops,
        .open_ms = sw_gw_ms(spec->connect_timeout_ns),
        .dialled = true,
    };
    bool inside = p->host && p->host->addr.kind == SW_GW_ADDR_INTERNAL;
    struct sw_tls *tls = NULL;
    int fd;
    int rc;

    if (p->want.tls) {
        tls = client_tls(p, err);
        if (!tls)
            return err->rc;
    }
    if (inside)
        rc = sw_gw_internal_connect(p->worker, p->host, first_waiting(p), &fd, err);
    else if (p->host && p->host->addr.kind == SW_GW_ADDR_PIPE)
        rc = sw_sock_connect_unix(SOCK_STREAM, p->host->addr.name.p, &fd, err);
    else if ((rc = sw_sock_connect(&p->addr, NULL, &o, &fd, err)) == SW_OK)
        sw_sock_tune(fd, &o);
    if (rc != SW_OK) {
        sw_tls_free(tls);
        return rc;
    }
    co.filter = sw_tls_filter(tls);
    rc = sw_conn_init(&u->conn, p->worker->loop, fd, &co, err);
    u->conn.ends_first = inside;
    return rc;
}

static struct sw_exchange *queue_pop(struct sw_gw_pool *p)
{
    struct sw_exchange *x = SW_LIST_FIRST(&p->queue, struct sw_exchange, queue);

    if (x)
        sw_gw_pool_cancel(x);
    return x;
}

static void fail_one(struct sw_gw_pool *p, enum sw_gw_outcome how, const char *why)
{
    struct sw_exchange *x = queue_pop(p);

    if (x)
        sw_exchange_up_failed(x, how, why);
}

static bool may_log_failure(struct sw_gw_pool *p)
{
    struct sw_gw_worker *w = p->worker;
    uint64_t now = sw_loop_now(w->loop);

    if (p->logged_ns && now - p->logged_ns < LOG_EVERY_S * SW_NS_PER_S)
        return false;
    if (w->n_logged == 0 || now - w->logged_ns >= LOG_EVERY_S * SW_NS_PER_S) {
        w->n_logged = 0;
        w->logged_ns = now;
    }
    if (w->n_logged >= LOG_MAX)
        return false;
    w->n_logged++;
    p->logged_ns = now;
    return true;
}

/* What is logged of a host, around its address. */
struct failure {
    const char *before;
    const char *after;
};

static const struct failure not_connected = {"cannot connect to", ""};
static const struct failure no_handshake = {"TLS handshake with", " failed"};
static const struct failure not_trusted = {"upstream", " is not trusted"};

/*
 * The wrong server answers at the host's address, our trust bundle is wrong, or no server answers:
 * clients get a 503 that does not name the host, so the log does.
 */
static void log_failure(struct sw_gw_pool *p, const struct failure *f, const char *why)
{
    if (!may_log_failure(p))
        return;
    sw_log_warn(
        "gateway", "cluster '%.*s': %s %.*s%s: %s", SW_SLICE_ARG(p->cluster->spec->name), f->before,
        SW_SLICE_ARG(p->host ? p->host->member->text : SW_SLICE_LIT("(removed)")), f->after, why);
}

static void note_failed(struct sw_gw_pool *p, const struct failure *f, const char *why)
{
    log_failure(p, f, why);
    if (p->host)
        sw_gw_aside_failed(p->host->cluster, p->host->member, sw_loop_now(p->worker->loop), why);
}

static void dial(struct sw_gw_pool *p)
{
    struct up_conn *u = SW_NEW(struct up_conn);
    struct sw_err err = {0};

    u->pool = p;
    u->state = UP_DIALLING;
    if (open_conn(p, u, &err) != SW_OK) {
        sw_free(u);
        sw_gw_bump(&cell_of(p)->cx_fail);
        note_failed(p, &not_connected, err.msg);
        fail_one(p, SW_GW_CONNECT_FAILED, err.msg);
        return;
    }
    sw_list_push_back(&p->busy, &u->link);
    p->n_conns++;
    adjust(&cell_of(p)->cx, 1);
    p->n_dialling++;
}

/* Every host may have one connection, whatever the others have. */
static bool below_limits(const struct sw_gw_pool *p)
{
    return p->n_conns == 0 ||
           (p->n_conns < DIALS_MAX &&
            sw_gw_limit_below(cell_of(p)->cx, p->cluster->spec->limits.max_connections,
                              p->worker->index, p->cluster->state->n_cells));
}

static bool may_dial(const struct sw_gw_pool *p)
{
    if (!below_limits(p))
        return false;
    /* By ALPN: the first connection decides the protocol. */
    if (p->h2 || (p->protocol == SW_GW_UP_AUTO && p->n_conns == 0))
        return p->n_dialling == 0;
    return p->n_dialling < p->n_queue;
}

static void attach(struct up_conn *u, struct sw_exchange *x)
{
    u->requests++;
    if (u->h2)
        up_h2_attach(u, x);
    else
        up_h1_attach(u, x);
    sw_exchange_up_ready(x);
}

static void on_dialled(struct sw_conn *c)
{
    struct up_conn *u = up_of(c);
    struct sw_gw_pool *p = u->pool;

    p->n_dialling--;
    u->state = UP_BUSY;
    u->born_ns = u->since_ns = sw_loop_now(p->worker->loop);
    if (p->host)
        sw_gw_aside_connected(p->host->cluster, p->host->member, sw_loop_now(p->worker->loop));
    p->h2 = p->protocol == SW_GW_UP_H2 ||
            (c->filter && strcmp(sw_tls_alpn(sw_tls_of(c->filter)), "h2") == 0);
    if (p->h2) {
        sw_conn_set_ops(c, &up_h2_ops);
        up_h2_begin(u);
        sweep_later(p);
        up_more_room(u);
        return;
    }
    sw_conn_set_ops(c, &up_h1_ops);
    up_free_again(u);
    while (p->n_queue && may_dial(p)) /* they expected streams of this connection */
        dial(p);
}

static void on_dial_failed(struct sw_conn *c, const struct sw_err *err)
{
    struct up_conn *u = up_of(c);
    struct sw_gw_pool *p = u->pool;
    bool tls = c->filter && !c->connecting;
    bool h2 = p->h2 || p->protocol == SW_GW_UP_AUTO;

    p->n_dialling--;
    u->state = UP_BUSY;
    sw_gw_bump(tls ? &cell_of(p)->tls_fail : &cell_of(p)->cx_fail);
    if (tls && err->rc == SW_EDENIED)
        note_failed(p, &not_trusted, err->msg);
    else
        note_failed(p, tls ? &no_handshake : &not_connected, err->msg);
    /* Those that waited for the one HTTP/2 connection share its fate. */
    do {
        fail_one(p, tls ? SW_GW_TLS_FAILED : SW_GW_CONNECT_FAILED, err->msg);
    } while (h2 && p->n_queue && p->n_dialling == 0);
    up_gone(u, false);
}

static size_t no_bytes(struct sw_conn *c, struct sw_slice in)
{
    return 0;
}

static const struct sw_conn_ops dial_ops = {
    .on_open = on_dialled,
    .on_bytes = no_bytes,
    .on_fail = on_dial_failed,
    .on_free = up_free,
};

/* ---- connections ---- */

void up_free(struct sw_conn *c)
{
    struct up_conn *u = up_of(c);
    struct sw_gw_pool *p = u->pool;

    up_h1_cleanup(u);
    up_h2_cleanup(u);
    sw_list_unlink(&u->link);
    sw_free(u);
    p->n_conns--;
    adjust(&cell_of(p)->cx, -1);
    /* A dial that fails at once takes one of the queue with it, which may even release the pool. */
    p->held = true;
    while (p->n_queue && may_dial(p)) {
        dial(p);
        if (p->n_conns)
            break;
    }
    p->held = false;
    pool_maybe_free(p);
}

void up_gone(struct up_conn *u, bool reset)
{
    u->state = UP_GONE;
    sw_list_unlink(&u->link);
    sw_conn_close(&u->conn, reset);
}

void up_free_again(struct up_conn *u)
{
    struct sw_gw_pool *p = u->pool;
    uint32_t max = p->cluster->spec->max_requests_per_connection;
    bool spent = (max && u->requests >= max) || u->conn.closed || u->conn.failed || u->conn.cut ||
                 u->conn.eof || (u->requests && expired(u));
    struct sw_exchange *x;

    sw_list_unlink(&u->link);
    /* A released pool still serves exchanges that chose its host before. */
    x = spent ? NULL : queue_pop(p);
    if (x) {
        sw_list_push_back(&p->busy, &u->link);
        u->state = UP_BUSY;
        attach(u, x);
        return;
    }
    if (spent || !keeps(p)) {
        sw_list_push_back(&p->busy, &u->link);
        up_gone(u, false);
        return;
    }
    u->state = UP_IDLE;
    u->since_ns = sw_loop_now(p->worker->loop);
    sw_list_push_front(&p->idle, &u->link);
    sweep_later(p);
}

void up_more_room(struct up_conn *u)
{
    struct sw_exchange *x;

    while (u->state == UP_BUSY && up_h2_has_room(u) && (x = queue_pop(u->pool)) != NULL)
        attach(u, x);
    while (u->pool->n_queue && may_dial(u->pool)) /* it is full, and its streams may last */
        dial(u->pool);
    if (u->state == UP_BUSY && !keeps(u->pool))
        up_h2_drain(u);
}

/* ---- for the core ---- */

void sw_gw_pool_cancel(struct sw_exchange *x)
{
    if (!sw_list_linked(&x->queue))
        return;
    sw_list_unlink(&x->queue);
    if (x->pool) {
        x->pool->n_queue--;
        adjust(&cell_of(x->pool)->pending, -1);
    }
    x->pool = NULL;
}

static struct up_conn *usable(struct sw_gw_pool *p, const struct sw_exchange *x)
{
    /* Where one had ended unheard others may have: there is no third time, so it gets a new one. */
    bool fresh = x->repeated && !p->h2 && below_limits(p);

    while (!fresh && !sw_list_empty(&p->idle)) {
        struct up_conn *u = SW_CONTAINER_OF(p->idle.next, struct up_conn, link);

        /*
         * Did its host close it, which we would only see in the next turn? Checked only for
         * requests that cannot be retried. Bytes sent before the close must not become the answer,
         * either.
         */
        if (!expired(u) && (sw_exchange_repeatable(x) || !sw_conn_has_news(&u->conn)))
            return u;
        up_gone(u, false);
    }
    if (!p->h2)
        return NULL;
    SW_LIST_EACH (struct up_conn, u, &p->busy, link) {
        if (u->state == UP_BUSY && u->h2 && up_h2_has_room(u)) {
            if (!expired(u))
                return u;
            up_h2_drain(u); /* its streams end as they would */
        }
    }
    return NULL;
}

void sw_gw_pool_get(struct sw_exchange *x)
{
    struct sw_gw_pool *p = pool_of(x);
    struct up_conn *u = p ? usable(p, x) : NULL;

    if (u) {
        if (u->state == UP_IDLE) {
            sw_list_unlink(&u->link);
            sw_list_push_back(&p->busy, &u->link);
            u->state = UP_BUSY;
        }
        attach(u, x);
        return;
    }
    if (!p || p->n_queue >= QUEUE_MAX ||
        !sw_gw_limit_below(cell_of(p)->pending, p->cluster->spec->limits.max_pending,
                           p->worker->index, p->cluster->state->n_cells)) {
        sw_gw_bump(&x->host->cluster->state->cells[x->worker->index].overflow);
        sw_exchange_up_failed(x, SW_GW_OVERFLOW, "too many requests wait for a connection");
        return;
    }
    x->pool = p;
    sw_list_push_back(&p->queue, &x->queue);
    p->n_queue++;
    adjust(&cell_of(p)->pending, 1);
    if (may_dial(p))
        dial(p);
}
