/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to nodes: found, dialled once, shared, and closed when idle. */
#include "tunnel/qdial.h"

#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "http/capsule.h"
#include "quic/path.h"
#include "tunnel/qdial_int.h"
#include "tunnel/qpump.h"

static void find(struct sw_qnode *n);
static void on_wake(struct sw_defer *defer);

/* ---- nodes ---- */

static void forget_lookup(struct sw_qnode *n)
{
    struct sw_qlookup *l = n->lookup;

    n->lookup = NULL;
    if (l && n->d->c.ops->cancel)
        n->d->c.ops->cancel(n->d->c.arg, l);
    sw_free(l);
}

void qnode_retire(struct sw_qnode *n)
{
    struct sw_qdial *d = n->d;

    if (sw_map_get(&d->nodes, qnode_key(&n->id)) == n)
        (void)sw_map_del(&d->nodes, qnode_key(&n->id));
    d->n_apart -= sw_list_linked(&n->apart_link);
    sw_list_unlink(&n->apart_link);
    sw_list_unlink(&n->idle_link);
    sw_timer_stop(d->loop, &n->timer);
}

static void node_free(struct sw_qnode *n)
{
    struct sw_qdial *d = n->d;

    forget_lookup(n);
    sw_timer_stop(d->loop, &n->timer);
    sw_defer_cancel(&n->wake);
    sw_defer_cancel(&n->reap);
    qnode_retire(n);
    sw_list_unlink(&n->link);
    sw_map_done(&n->flows);
    sw_free(n);
}

static void on_reap(struct sw_defer *defer)
{
    node_free(SW_CONTAINER_OF(defer, struct sw_qnode, reap));
}

/* All waiting calls fail alike. The list is taken first: a callback may start new calls. */
static void fail_waiting(struct sw_qnode *n, enum sw_qfail why, const char *text)
{
    struct sw_list gone;
    struct sw_qcall *c;

    sw_list_init(&gone);
    sw_list_splice(&gone, &n->waiting);
    while ((c = SW_LIST_FIRST(&gone, struct sw_qcall, link)))
        qcall_fail(c, why, text);
}

/*
 * The node could not be reached: all calls that waited for it fail, and it is freed. Unless an
 * older connection to it recovered meanwhile.
 */
static void give_up(struct sw_qnode *n, enum sw_qfail why, const char *text)
{
    struct sw_qdial *d = n->d;
    struct sw_qnode *other;
    char id[SW_NODEID_SHORT];

    sw_log_info("dial", "%s: %s: %s", sw_nodeid_short(&n->id, id), sw_qfail_text(why), text);
    qnode_retire(n);
    forget_lookup(n);
    other = qnode_recover(d, &n->id);
    if (other)
        qnode_move_waiting(n, other);
    else if (why == SW_QFAIL_DIAL_TIMEOUT)
        qnode_remember_failure(d, &n->id);
    if (d->c.ops->dial_failed)
        d->c.ops->dial_failed(d->c.arg, &n->id, why, text);
    fail_waiting(n, why, text);
    sw_loop_defer(d->loop, &n->reap, on_reap);
}

/* ---- a connection ---- */

void qnode_close(struct sw_qnode *n, const char *reason)
{
    n->state = QNODE_CLOSING;
    qnode_retire(n);
    sw_qconn_close(n->conn, 0, reason);
}

static void on_idle(struct sw_timer *t)
{
    struct sw_qnode *n = SW_CONTAINER_OF(t, struct sw_qnode, timer);

    n->was_idle = true;
    qnode_close(n, "idle");
}

static void check_idle(struct sw_qnode *n)
{
    if (n->state != QNODE_READY || n->n_calls || sw_list_linked(&n->idle_link))
        return;
    if (sw_list_linked(&n->apart_link)) {
        qnode_close(n, "replaced");
        return;
    }
    sw_list_push_back(&n->d->idle, &n->idle_link);
    sw_timer_start(n->d->loop, &n->timer, n->d->draining ? 0 : n->d->c.idle_ns, on_idle);
}

/* Opens streams for waiting calls, as many as the peer allows. */
static void on_wake(struct sw_defer *defer)
{
    struct sw_qnode *n = SW_CONTAINER_OF(defer, struct sw_qnode, wake);
    struct sw_qcall *c;
    int rc = SW_OK;

    if (n->state == QNODE_NEW) {
        find(n);
        return;
    }
    while (n->state == QNODE_READY && !n->full &&
           (c = SW_LIST_FIRST(&n->waiting, struct sw_qcall, link))) {
        rc = qcall_open(c);
        if (rc != SW_OK)
            break;
        sw_list_unlink(&c->link);
        sw_list_push_back(&n->open, &c->link);
    }
    if (rc == SW_ELIMIT)
        qnode_full(n);
    check_idle(n);
}

void qnode_wake(struct sw_qnode *n)
{
    if (n->state == QNODE_READY || n->state == QNODE_NEW)
        sw_loop_defer(n->d->loop, &n->wake, on_wake);
}

static void on_ready(struct sw_qconn *q)
{
    struct sw_qnode *n = sw_qconn_arg(q);

    n->state = QNODE_READY;
    n->hurry = false;
    n->d->n_conns++;
    sw_timer_stop(n->d->loop, &n->timer);
    SW_LIST_EACH (struct sw_qcall, c, &n->waiting, link)
        qcall_wait_stream(c);
    if (n->d->c.ops->opened)
        n->d->c.ops->opened(n->d->c.arg, q);
    qnode_wake(n);
}

/* Nodes open none: not attached, it is reset. */
static void on_stream(struct sw_qconn *q, struct sw_qstream *s)
{
}

static void on_datagram(struct sw_qconn *q, const uint8_t *p, size_t len)
{
    struct sw_qnode *n = sw_qconn_arg(q);
    struct sw_slice payload = sw_slice(p, len);
    struct sw_qcall *c = sw_qhead_flow(&n->flows, &payload);

    if (c && c->ops->datagram && sw_masque_udp_payload(payload, &payload) == SW_OK)
        c->ops->datagram(c, (const uint8_t *)payload.p, payload.n);
}

static void on_path(struct sw_qconn *q)
{
    struct sw_qnode *n = sw_qconn_arg(q);

    if (n->state == QNODE_READY && n->d->c.ops->path)
        n->d->c.ops->path(n->d->c.arg, q);
}

static void on_room(struct sw_qconn *q)
{
    struct sw_qnode *n = sw_qconn_arg(q);

    n->full = false;
    if (!sw_list_linked(&n->idle_link)) /* else it is the timer of its idleness */
        sw_timer_stop(n->d->loop, &n->timer);
    qnode_wake(n);
}

static enum sw_qfail close_reason(const struct sw_qclose *why)
{
    switch (why->kind) {
    case SW_QCLOSE_IDENTITY:
        return SW_QFAIL_IDENTITY;
    case SW_QCLOSE_TIMEOUT:
    case SW_QCLOSE_IDLE:
        return SW_QFAIL_DIAL_TIMEOUT;
    case SW_QCLOSE_TRANSPORT:
        /* Refused, or its TLS wanted something else (another protocol, another key). */
        return why->code == 2 || why->code >= 0x100 ? SW_QFAIL_NOT_ADMITTED : SW_QFAIL_DIAL_FAILED;
    case SW_QCLOSE_APP:
        return SW_QFAIL_NOT_ADMITTED;
    case SW_QCLOSE_LOCAL:
    case SW_QCLOSE_RESET:
    case SW_QCLOSE_FAILED:
        break;
    }
    return SW_QFAIL_DIAL_FAILED;
}

static void close_text(const struct sw_qclose *why, char *out, size_t cap)
{
    if (why->text.n)
        (void)snprintf(out, cap, "%.*s (code 0x%llx)", (int)sw_min(why->text.n, 80), why->text.p,
                       (unsigned long long)why->code);
    else
        (void)snprintf(out, cap, "code 0x%llx", (unsigned long long)why->code);
}

/* Its streams were closed before: waiting calls never were on it, or may be retried. */
static void on_closed(struct sw_qconn *q, const struct sw_qclose *why)
{
    struct sw_qnode *n = sw_qconn_arg(q);
    struct sw_qdial *d = n->d;
    enum qnode_state was = n->state;
    bool silent = was == QNODE_READY && why->kind == SW_QCLOSE_IDLE;
    char text[128];

    n->conn = NULL;
    n->full = false;
    close_text(why, text, sizeof(text));
    if (was == QNODE_DIAL) {
        give_up(n, n->fail ? n->fail : close_reason(why), text);
        return;
    }
    d->n_conns--;
    sw_list_unlink(&n->idle_link);
    sw_timer_stop(d->loop, &n->timer);
    if (d->c.ops->closed)
        d->c.ops->closed(d->c.arg, q, n->was_idle,
                         was == QNODE_CLOSING ? SW_QFAIL_NONE : SW_QFAIL_LOST);
    if (was == QNODE_READY && !sw_list_empty(&n->waiting) &&
        sw_map_get(&d->nodes, qnode_key(&n->id)) == n) {
        n->state = QNODE_NEW;
        n->hurry |= silent;
        sw_loop_defer(d->loop, &n->wake, on_wake);
        return;
    }
    qnode_retire(n);
    /* The node was silent for long: the next call need not wait for a whole dial as well. */
    if (silent && !sw_map_get(&d->nodes, qnode_key(&n->id)))
        qnode_remember_failure(d, &n->id);
    fail_waiting(n, SW_QFAIL_LOST, text);
    sw_loop_defer(d->loop, &n->reap, on_reap);
}

static const struct sw_qconn_ops conn_ops = {
    .ready = on_ready,
    .stream = on_stream,
    .datagram = on_datagram,
    .path = on_path,
    .room = on_room,
    .closed = on_closed,
};

/* ---- finding ---- */

static void on_deadline(struct sw_timer *t)
{
    struct sw_qnode *n = SW_CONTAINER_OF(t, struct sw_qnode, timer);

    if (n->state == QNODE_LOOKUP) {
        give_up(n, SW_QFAIL_LOOKUP, "finding the node took too long");
        return;
    }
    n->fail = SW_QFAIL_DIAL_TIMEOUT;
    qnode_retire(n);
    sw_qconn_close(n->conn, 0, "timeout");
}

/* Looks the node up; the answer may come from inside, and the node may be gone then. */
static void find(struct sw_qnode *n)
{
    struct sw_qdial *d = n->d;

    n->state = QNODE_LOOKUP;
    n->fail = SW_QFAIL_NONE;
    n->lookup = SW_NEW(struct sw_qlookup);
    n->lookup->node = n;
    sw_timer_start(d->loop, &n->timer,
                   n->hurry ? sw_min(d->c.silence_ns, d->c.lookup_timeout_ns)
                            : d->c.lookup_timeout_ns,
                   on_deadline);
    d->c.ops->resolve(d->c.arg, n->lookup);
}

static struct sw_qnode *end_lookup(struct sw_qlookup *l)
{
    struct sw_qnode *n = l->node;

    n->lookup = NULL;
    sw_free(l);
    return n;
}

void sw_qlookup_found(struct sw_qlookup *l, const struct sw_quic_target *target)
{
    struct sw_qnode *n = end_lookup(l);
    struct sw_err err = {0};

    n->state = QNODE_DIAL;
    n->conn = sw_quic_dial(n->d->c.quic, target, n->d->c.alpn, &conn_ops, n, &err);
    if (!n->conn)
        give_up(n, err.rc == SW_ELIMIT ? SW_QFAIL_LIMIT : SW_QFAIL_DIAL_FAILED, err.msg);
}

void sw_qlookup_failed(struct sw_qlookup *l, enum sw_qfail why, const char *text)
{
    give_up(end_lookup(l), why, text);
}

const struct sw_nodeid *sw_qlookup_id(const struct sw_qlookup *l)
{
    return &l->node->id;
}

void sw_qlookup_set(struct sw_qlookup *l, void *p)
{
    l->data = p;
}

void *sw_qlookup_get(const struct sw_qlookup *l)
{
    return l->data;
}

/* ---- calls come and go ---- */

static bool make_room(struct sw_qdial *d)
{
    struct sw_qnode *n;

    if (d->nodes.n + d->n_apart < d->c.max_conns)
        return true;
    n = SW_LIST_FIRST(&d->idle, struct sw_qnode, idle_link);
    if (!n)
        return false;
    n->was_idle = true;
    qnode_close(n, "drop");
    return true;
}

struct sw_qnode *qnode_get(struct sw_qdial *d, const struct sw_nodeid *id)
{
    struct sw_qnode *n = sw_map_get(&d->nodes, qnode_key(id));
    bool silent = n && qnode_stale(n);

    if (silent)
        n = sw_map_get(&d->nodes, qnode_key(id)); /* its successor, where calls waited */
    n = n ? n : qnode_recover(d, id);
    if (n)
        return n;
    if (!make_room(d))
        return NULL;
    n = SW_NEW(struct sw_qnode);
    n->d = d;
    n->id = *id;
    n->state = QNODE_NEW;
    n->hurry = silent || qnode_any_silent(d, id);
    sw_list_init(&n->waiting);
    sw_list_init(&n->open);
    sw_list_init(&n->idle_link);
    sw_list_init(&n->apart_link);
    sw_list_push_back(&d->all, &n->link);
    (void)sw_map_put(&d->nodes, qnode_key(&n->id), n);
    return n;
}

int qnode_join(struct sw_qnode *n, struct sw_qcall *c)
{
    if (n->n_calls >= n->d->c.max_calls)
        return SW_ELIMIT;
    if (sw_list_linked(&n->idle_link)) {
        sw_list_unlink(&n->idle_link);
        sw_timer_stop(n->d->loop, &n->timer);
    }
    c->reused = n->state == QNODE_READY;
    c->node = n;
    n->n_calls++;
    n->d->n_calls++;
    sw_list_push_back(&n->waiting, &c->link);
    qcall_wait_dial(c);
    if (n->state == QNODE_READY)
        qcall_wait_stream(c);
    qnode_wake(n);
    return SW_OK;
}

void qnode_leave(struct sw_qcall *c)
{
    struct sw_qnode *n = c->node;

    if (!n)
        return;
    if (c->datagrams)
        (void)sw_map_del(&n->flows, sw_slice(&c->id, sizeof(c->id)));
    sw_list_unlink(&c->link);
    c->node = NULL;
    n->n_calls--;
    n->d->n_calls--;
    check_idle(n);
}

void qnode_add_flow(struct sw_qcall *c)
{
    (void)sw_map_put(&c->node->flows, sw_slice(&c->id, sizeof(c->id)), c);
}

/* ---- the whole ---- */

struct sw_qdial *sw_qdial_new(struct sw_loop *l, const struct sw_qdial_config *c)
{
    struct sw_qdial *d = SW_NEW(struct sw_qdial);

    d->loop = l;
    d->c = *c;
    if (d->c.alpn.n == 0)
        d->c.alpn = SW_SLICE_LIT(SW_QTUNNEL_ALPN);
    d->c.max_conns = c->max_conns ? c->max_conns : 1024;
    d->c.max_calls = c->max_calls ? c->max_calls : 4096;
    d->c.max_conns_of_node = c->max_conns_of_node ? c->max_conns_of_node : 4;
    d->c.idle_ns = c->idle_ns ? c->idle_ns : 3600 * SW_NS_PER_S;
    d->c.wait_ns = c->wait_ns ? c->wait_ns : 15 * SW_NS_PER_S;
    d->c.lookup_timeout_ns = c->lookup_timeout_ns ? c->lookup_timeout_ns : 10 * SW_NS_PER_S;
    d->c.silence_ns = c->silence_ns ? c->silence_ns : 2500 * SW_NS_PER_MS;
    d->c.remember_ns = c->remember_ns ? c->remember_ns : 2 * SW_NS_PER_S;
    sw_list_init(&d->failed);
    sw_list_init(&d->all);
    sw_list_init(&d->idle);
    sw_list_init(&d->apart);
    return d;
}

/* The connection, if there is one, ends without us. */
static void orphan(struct sw_qnode *n, const char *reason)
{
    if (!n->conn)
        return;
    sw_qconn_set_ops(n->conn, &sw_qconn_orphan, NULL);
    sw_qconn_close(n->conn, 0, reason);
    n->conn = NULL;
}

static void end_calls(struct sw_qnode *n, enum sw_qfail why, const char *text)
{
    struct sw_qcall *c;

    fail_waiting(n, why, text);
    while ((c = SW_LIST_FIRST(&n->open, struct sw_qcall, link)))
        qcall_fail(c, why, text);
}

void sw_qdial_free(struct sw_qdial *d)
{
    struct sw_qnode *n;

    if (!d)
        return;
    d->draining = true;
    while ((n = SW_LIST_FIRST(&d->all, struct sw_qnode, link))) {
        qnode_retire(n);
        end_calls(n, SW_QFAIL_DRAINING, "stopped");
        orphan(n, "stopped");
        node_free(n);
    }
    SW_LIST_EACH (struct qnode_failure, f, &d->failed, link)
        qnode_drop_failure(d, f);
    sw_map_done(&d->failures);
    sw_map_done(&d->nodes);
    sw_free(d);
}

void sw_qdial_drain(struct sw_qdial *d)
{
    d->draining = true;
    SW_LIST_EACH (struct sw_qnode, n, &d->idle, idle_link)
        sw_timer_start(d->loop, &n->timer, 0, on_idle);
}

size_t sw_qdial_calls(const struct sw_qdial *d)
{
    return d->n_calls;
}

size_t sw_qdial_conns(const struct sw_qdial *d)
{
    return d->n_conns;
}

const char *sw_qdial_state(const struct sw_qdial *d, const struct sw_nodeid *id)
{
    const struct sw_qnode *n = sw_map_get(&d->nodes, qnode_key(id));

    if (!n)
        return "none";
    return n->state == QNODE_READY ? "connected" : "dialing";
}

void sw_qdial_learn(struct sw_qdial *d, const struct sw_quic_target *t)
{
    struct qnode_failure *f = sw_map_get(&d->failures, qnode_key(&t->id));

    if (f)
        qnode_drop_failure(d, f);
    SW_LIST_EACH (const struct sw_qnode, n, &d->all, link) {
        if (n->conn && t->n_addrs && sw_nodeid_eq(&n->id, &t->id))
            sw_qconn_more_addrs(n->conn, t->addrs, t->n_addrs);
    }
}

static void forget_one(struct sw_qnode *n)
{
    if (n->state != QNODE_READY) {
        give_up(n, SW_QFAIL_OFFLINE, "the node was removed");
        orphan(n, "removed");
        return;
    }
    qnode_close(n, "removed");
    end_calls(n, SW_QFAIL_OFFLINE, "the node was removed");
}

/* Calls that end may start others: the list is read anew after each. */
void sw_qdial_forget(struct sw_qdial *d, const struct sw_nodeid *id)
{
    struct sw_qnode *n = sw_map_get(&d->nodes, qnode_key(id));

    if (n)
        forget_one(n);
    for (struct sw_list *it = d->apart.next; it != &d->apart;) {
        n = SW_CONTAINER_OF(it, struct sw_qnode, apart_link);
        it = it->next;
        if (sw_nodeid_eq(&n->id, id)) {
            forget_one(n);
            it = d->apart.next;
        }
    }
}
