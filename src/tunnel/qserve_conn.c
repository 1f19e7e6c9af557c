/* SPDX-License-Identifier: Apache-2.0 */
/* The device half as a whole: connections that were given to it, and the streams of these. */
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "tunnel/qserve_int.h"

/*
 * A stream over the limit is refused once its head is there; but heads that never come must have a
 * bound as well.
 */
static void overflow(struct qs_conn *c)
{
    struct sw_qserve *v = c->v;
    uint64_t now = sw_loop_now(v->loop);
    char id[SW_NODEID_SHORT];

    v->stats.overflows++;
    if (v->overflow_logged_ns && now - v->overflow_logged_ns < SW_NS_PER_S)
        return;
    v->overflow_logged_ns = now;
    sw_log_warn("tunnel", "%s: streams are reset: %llu are open",
                sw_nodeid_short(sw_qconn_peer(c->q), id), (unsigned long long)v->stats.streams);
}

static void on_stream(struct sw_qconn *q, struct sw_qstream *s)
{
    struct qs_conn *c = sw_qconn_arg(q);
    struct sw_qserve *v = c->v;

    if (v->stats.streams >= v->c.max_streams + v->c.max_streams / 8 + 16) {
        overflow(c);
        return; /* not attached: it is reset */
    }
    qs_accept(c, s);
}

static void on_datagram(struct sw_qconn *q, const uint8_t *p, size_t n)
{
    struct qs_conn *c = sw_qconn_arg(q);
    struct sw_slice datagram = sw_slice(p, n);
    struct qs_exchange *x = sw_qhead_flow(&c->flows, &datagram);

    if (x)
        qs_udp_datagram(x, datagram);
    else
        c->v->stats.datagrams_dropped++;
}

static void on_path(struct sw_qconn *q)
{
    struct qs_conn *c = sw_qconn_arg(q);

    if (c->v->c.conn_path)
        c->v->c.conn_path(c->v->c.arg, q);
}

static void free_conn(struct qs_conn *c)
{
    sw_list_unlink(&c->link);
    c->v->stats.conns--;
    sw_map_done(&c->flows);
    sw_free(c);
}

static void on_conn_closed(struct sw_qconn *q, const struct sw_qclose *why)
{
    struct qs_conn *c = sw_qconn_arg(q);
    struct sw_qserve *v = c->v;

    if (v->c.conn_closed)
        v->c.conn_closed(v->c.arg, q, why);
    free_conn(c);
}

static const struct sw_qconn_ops conn_ops = {
    .stream = on_stream,
    .datagram = on_datagram,
    .path = on_path,
    .closed = on_conn_closed,
};

void sw_qserve_adopt(struct sw_qserve *v, struct sw_qconn *q)
{
    struct qs_conn *c = SW_NEW(struct qs_conn);

    c->v = v;
    c->q = q;
    sw_list_push_back(&v->conns, &c->link);
    v->stats.conns++;
    sw_qconn_set_ops(q, &conn_ops, c);
}

/* ---- the whole ---- */

struct sw_qserve *sw_qserve_new(struct sw_loop *l, const struct sw_qserve_config *c)
{
    struct sw_qserve *v = SW_NEW(struct sw_qserve);

    v->loop = l;
    v->c = *c;
    v->c.max_streams = c->max_streams ? c->max_streams : 4096;
    v->c.max_udp = c->max_udp ? c->max_udp : 1024;
    v->c.head_timeout_ns = c->head_timeout_ns ? c->head_timeout_ns : 10 * SW_NS_PER_S;
    v->c.dial_timeout_ns = c->dial_timeout_ns ? c->dial_timeout_ns : 10 * SW_NS_PER_S;
    v->c.idle_timeout_ns = c->idle_timeout_ns ? c->idle_timeout_ns : 3600 * SW_NS_PER_S;
    if (v->c.udp_idle_ns < 120 * SW_NS_PER_S)
        v->c.udp_idle_ns = 120 * SW_NS_PER_S;
    sw_list_init(&v->conns);
    sw_list_init(&v->idle);
    sw_list_init(&v->exchanges);
    return v;
}

void sw_qserve_free(struct sw_qserve *v)
{
    if (!v)
        return;
    v->draining = true; /* nothing is kept any more */
    qs_pool_clear(v);
    SW_LIST_EACH (struct qs_exchange, x, &v->exchanges, link)
        qs_stop(x);
    SW_LIST_EACH (struct qs_conn, c, &v->conns, link) {
        sw_qconn_set_ops(c->q, &sw_qconn_orphan, NULL);
        free_conn(c);
    }
    sw_free(v);
}

void sw_qserve_drain(struct sw_qserve *v)
{
    v->draining = true;
    qs_pool_clear(v);
}

void sw_qserve_recheck(struct sw_qserve *v)
{
    SW_LIST_EACH (struct qs_exchange, x, &v->exchanges, link)
        qs_recheck(x);
}

size_t sw_qserve_active(const struct sw_qserve *v)
{
    return v->stats.streams;
}

void sw_qserve_stats(const struct sw_qserve *v, struct sw_qserve_stats *ret)
{
    *ret = v->stats;
}
