/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's connection before its protocol is known, and what lasts as long as it does: timers,
 * drain, the listener it belongs to.
 */
#include "gateway/codec/down.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "gateway/config/config.h"
#include "gateway/config/tls.h"
#include "gateway/exchange/clients.h"
#include "gateway/exchange/exchange.h"
#include "gateway/observe/stats.h"
#include "gateway/upstream/hosts.h"
#include "io/sock.h"
#include "tls/connfilter.h"
#include "tls/tls.h"

enum {
    HANDSHAKE_S = 10,
    HEAD_S = 20, /* a head must be complete after this, whatever the configuration says */
    PREFACE = 24,
    LINGER_MAX_MS = 60000,
    DRAIN_IDLE_S = 1, /* how long a connection between requests is kept while draining */
    LATE_S = 1,       /* for what came in time and could not be read in time */
};

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

void down_introduce(struct down *d, struct sw_exchange *x)
{
    sw_gw_origin_tell(&d->from, x);
    x->hcm = &d->from.chain->hcm;
    x->from.sni = d->from.sni;
    sw_exchange_meet(x, sw_tls_of(d->conn.filter));
    x->from.connection_id = d->id;
    x->from.stats = d->life.stats;
    x->req.scheme = x->from.tls ? SW_SLICE_LIT("https") : SW_SLICE_LIT("http");
}

/* ---- waiting ---- */

/* How long the current wait may last; 0: for ever. */
static uint64_t patience(const struct down *d)
{
    const struct sw_gw_hcm *h = down_hcm(d);
    uint64_t head = h->timeouts.request_headers_ns;

    if (!d->waiting)
        return 0;
    if (head == 0 || head > HEAD_S * SW_NS_PER_S)
        head = HEAD_S * SW_NS_PER_S;
    if (d->head_begun)
        return head;
    if (d->draining && !d->h2)
        return DRAIN_IDLE_S * SW_NS_PER_S;
    return h->timeouts.idle_ns;
}

/*
 * When the wait is over, or the connection is as old as it may be; 0: never. A request of HTTP/1.1
 * is served to its end first, one that is being read, too.
 */
static uint64_t due(const struct down *d)
{
    uint64_t wait = patience(d);
    uint64_t max = down_hcm(d)->timeouts.max_connection_ns;
    uint64_t at = wait ? d->since_ns + wait : 0;

    if (max == 0 || (!d->h2 && (!d->waiting || d->head_begun)))
        return at;
    return at ? sw_min(at, d->born_ns + max) : d->born_ns + max;
}

static void on_timer(struct sw_timer *t);

/* The timer is never moved later, only checked when it fires: no work per request. */
static void watch_wait(struct down *d)
{
    uint64_t now = sw_loop_now(d->worker->loop);
    uint64_t at = due(d);

    if (at == 0 || (sw_timer_running(&d->timer) && d->timer.deadline_ns <= at))
        return;
    sw_timer_start(d->worker->loop, &d->timer, at > now ? at - now : 1, on_timer);
}

/* Bytes wait to be read. */
static bool has_bytes(const struct down *d)
{
    char first;

    return d->conn.reading.ahead || sw_sock_peek(d->conn.watch.fd, &first, 1) > 0;
}

/*
 * Bytes of a request arrived in time, but the process stalled and has not parsed them yet. They are
 * parsed soon, unless this side does not read.
 */
static bool no_request(struct down *d)
{
    if (d->late || !has_bytes(d))
        return false;
    d->late = true;
    return true;
}

static void on_timer(struct sw_timer *t)
{
    struct down *d = SW_CONTAINER_OF(t, struct down, timer);
    uint64_t at = due(d);

    if (d->conn.closed)
        return;
    if (at == 0 || sw_loop_now(d->worker->loop) < at) {
        watch_wait(d);
        return;
    }
    if (d->head_begun && !d->h2)
        down_h1_head_late(d);
    else if (d->h2)
        down_h2_drain(d);
    else if (no_request(d))
        sw_timer_start(d->worker->loop, t, LATE_S * SW_NS_PER_S, on_timer);
    else
        sw_conn_close_flushed(&d->conn);
}

void down_set_waiting(struct down *d, bool waiting)
{
    if (waiting && !d->waiting)
        sw_gw_down_idle(d->worker, &d->life);
    d->waiting = waiting;
    d->late = false;
    d->since_ns = sw_loop_now(d->worker->loop);
    if (waiting)
        watch_wait(d);
}

bool down_is_last(const struct down *d)
{
    const struct sw_gw_hcm *h = down_hcm(d);

    return d->draining || d->worker->thread.draining ||
           (h->max_requests_per_connection && d->requests >= h->max_requests_per_connection) ||
           (h->timeouts.max_connection_ns &&
            sw_loop_now(d->worker->loop) - d->born_ns > h->timeouts.max_connection_ns);
}

/* ---- life ---- */

static void drain(struct sw_gw_down *life)
{
    struct down *d = SW_CONTAINER_OF(life, struct down, life);

    d->draining = true;
    if (d->conn.closed || d->conn.lingering)
        return;
    if (d->conn.opening)
        return;
    if (d->h2)
        down_h2_drain(d);
    else
        down_h1_drain(d);
}

static void kill(struct sw_gw_down *life)
{
    struct down *d = SW_CONTAINER_OF(life, struct down, life);

    sw_conn_close(&d->conn, true);
}

static bool evict(struct sw_gw_down *life)
{
    struct down *d = SW_CONTAINER_OF(life, struct down, life);

    if (!d->waiting || d->head_begun || d->conn.closed || d->conn.lingering || d->conn.opening ||
        sw_conn_unsent(&d->conn) || has_bytes(d))
        return false;
    if (d->h2)
        down_h2_goaway(d);
    sw_conn_shutdown(&d->conn);
    sw_conn_close(&d->conn, false);
    return true;
}

/* The listener changed: the chain with the same settings stays, others end. */
static void renew(struct sw_gw_down *life)
{
    struct down *d = SW_CONTAINER_OF(life, struct down, life);
    const struct sw_gw_listener *fresh =
        sw_gw_config_listener(d->worker->view->config, d->from.listener->name);

    if (d->conn.closed || fresh == d->from.listener)
        return;
    for (size_t i = 0; fresh && i <= fresh->n_chains; i++) {
        const struct sw_gw_chain *c =
            i < fresh->n_chains ? &fresh->chains[i] : fresh->default_chain;

        if (c && c->hash == d->from.chain->hash && c->kind == SW_GW_CHAIN_HTTP) {
            struct sw_gw_listener *held;

            memcpy(&held, &fresh, sizeof(held));
            held = sw_gw_listener_ref(held);
            (void)sw_gw_listener_unref(d->from.listener);
            d->from.listener = held;
            d->from.chain = c;
            return;
        }
    }
    drain(life);
}

void down_free(struct sw_conn *c)
{
    struct down *d = down_of(c);

    sw_timer_stop(d->worker->loop, &d->timer);
    down_h1_cleanup(d);
    down_h2_cleanup(d);
    sw_gw_down_remove(d->worker, &d->life);
    sw_gw_origin_done(&d->from);
    (void)sw_gw_tls_unref(d->tls);
    sw_free(d);
}

/* ---- which protocol ---- */

static void begin_h2(struct down *d)
{
    sw_conn_set_ops(&d->conn, &down_h2_ops);
    down_h2_begin(d);
}

static void on_open(struct sw_conn *c)
{
    struct down *d = down_of(c);
    const struct sw_tls *tls = sw_tls_of(c->filter);
    const char *why = NULL;

    if (!sw_gw_tls_client_ok(d->from.chain, tls, &why)) {
        sw_gw_lstats_tls_refused(d->life.stats, "client_certificate");
        sw_gw_lstats_log_refusal(d->life.stats, "client_certificate", &d->from.peer, why);
        sw_conn_close_flushed(c);
        return;
    }
    down_set_waiting(d, true);
    if (strcmp(sw_tls_alpn(tls), "h2") == 0)
        begin_h2(d);
    else if (down_hcm(d)->codec == SW_GW_CODEC_H1 || *sw_tls_alpn(tls))
        sw_conn_set_ops(c, &down_h1_ops);
    if (d->draining)
        drain(&d->life);
}

/* Prior knowledge: the first bytes are the preface or they are not. */
static size_t on_first_bytes(struct sw_conn *c, struct sw_slice in)
{
    struct down *d = down_of(c);
    size_t n = sw_min(in.n, PREFACE);

    if (!d->head_begun) { /* the time for a head runs from its first byte */
        d->head_begun = true;
        down_set_waiting(d, true);
    }
    if (memcmp(in.p, preface, n) != 0) {
        sw_conn_set_ops(c, &down_h1_ops);
        return c->ops->on_bytes(c, in);
    }
    if (n < PREFACE)
        return 0;
    begin_h2(d);
    return c->ops->on_bytes(c, in);
}

static void on_first_eof(struct sw_conn *c)
{
    sw_conn_close(c, false);
}

static void on_first_fail(struct sw_conn *c, const struct sw_err *err)
{
    struct down *d = down_of(c);
    char peer[SW_ADDR_TEXT];

    if (c->opening) {
        sw_gw_lstats_tls_failed(d->life.stats, err);
        /* A client that disconnects is no error, and TCP checks of load balancers do so all day. */
        if (err->rc == SW_EDENIED || err->rc == SW_EPROTO)
            sw_gw_lstats_log_refusal(d->life.stats, "handshake", &d->from.peer, err->msg);
        else
            sw_log_debug("gateway", "%s: %s", sw_addr_text(&d->from.peer, peer), err->msg);
    }
    sw_conn_close(c, false);
}

static const struct sw_conn_ops first_ops = {
    .on_open = on_open,
    .on_bytes = on_first_bytes,
    .on_eof = on_first_eof,
    .on_fail = on_first_fail,
    .on_free = down_free,
};

void down_start(struct sw_gw_worker *w, const struct sw_gw_accepted *a)
{
    struct down *d = SW_NEW(struct down);
    struct sw_tls *tls = NULL;
    struct sw_err err = {0};
    uint64_t open_ns = a->chain->connect_timeout_ns;
    struct sw_conn_opts o = {
        .ops = &first_ops,
        .pre = a->pre,
        .open_ms = open_ns ? sw_gw_ms(open_ns) : HANDSHAKE_S * 1000,
    };

    if (a->chain->tls) {
        tls = sw_gw_tls_accept(a->chain, a->sni, &err);
        if (!tls) {
            sw_log_warn("gateway", "listener '%.*s': %s", SW_SLICE_ARG(a->listener->name), err.msg);
            sw_sock_close(a->fd);
            sw_free(d);
            return;
        }
    } else if (a->chain->hcm.codec == SW_GW_CODEC_H1) {
        o.ops = &down_h1_ops;
    }
    d->worker = w;
    o.filter = sw_tls_filter(tls);
    if (sw_conn_init(&d->conn, w->loop, a->fd, &o, &err) != SW_OK) {
        sw_log_warn("gateway", "%s", err.msg);
        sw_free(d);
        return;
    }
    sw_gw_origin_init(&d->from, a);
    d->tls = a->chain->tls ? sw_gw_tls_ref(a->chain->tls) : NULL;
    /* 0 would disable lingering, and a reset could discard the last bytes sent. */
    d->conn.linger_ms = (uint32_t)sw_min(
        sw_max(a->chain->hcm.timeouts.delayed_close_ns / SW_NS_PER_MS, 1), LINGER_MAX_MS);
    /* A head of HTTP/1.1 is used when it is complete: all of it has to fit. */
    d->conn.in_max = (uint32_t)sw_max(SW_CONN_IN_MAX, (a->chain->hcm.max_headers_kb + 1) * 1024);
    d->id = ++w->connection_seq * 64 + w->index;
    d->born_ns = sw_loop_now(w->loop);
    d->life = (struct sw_gw_down){
        .drain = drain,
        .kill = kill,
        .renew = renew,
        .evict = evict,
        .stats = sw_gw_lstats(w, a->listener->name),
    };
    sw_gw_down_add(w, &d->life);
    if (!tls)
        down_set_waiting(d, true);
}
