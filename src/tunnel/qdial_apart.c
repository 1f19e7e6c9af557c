/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections set apart: new calls do not use them any more, calls that run on them continue, and
 * they close with the last of these. So a silence, or a peer without streams, costs running calls
 * nothing.
 */
#include "base/log.h"
#include "base/time.h"
#include "tunnel/qdial_int.h"

#define FULL_NS SW_NS_PER_S /* before a second connection is worth it */
/* How often peers are pinged, see sw_quic_config.keepalive_ns. */
#define KEEPALIVE_NS (5 * SW_NS_PER_S)

static void tell(const struct sw_qnode *n, const char *why)
{
    if (n->d->c.ops->set_apart)
        n->d->c.ops->set_apart(n->d->c.arg, &n->id, why);
}

void qnode_move_waiting(struct sw_qnode *from, struct sw_qnode *to)
{
    struct sw_qcall *c;

    while ((c = SW_LIST_POP(&from->waiting, struct sw_qcall, link))) {
        from->n_calls--;
        to->n_calls++;
        c->node = to;
        c->reused = to->state == QNODE_READY;
        sw_list_push_back(&to->waiting, &c->link);
        if (to->state == QNODE_READY)
            qcall_wait_stream(c);
    }
    sw_list_unlink(&to->idle_link);
    if (to->state == QNODE_READY && !to->full)
        sw_timer_stop(to->d->loop, &to->timer);
    qnode_wake(to);
}

/* Calls that wait here move on, when there is another connection to be had. */
static void set_apart(struct sw_qnode *n)
{
    struct sw_qdial *d = n->d;
    struct sw_qnode *other;

    qnode_retire(n);
    sw_list_push_back(&d->apart, &n->apart_link);
    d->n_apart++;
    if (!sw_list_empty(&n->waiting)) {
        other = qnode_get(d, &n->id);
        if (other)
            qnode_move_waiting(n, other);
    }
    if (n->n_calls == 0)
        qnode_close(n, "replaced");
}

static bool in_use(const struct sw_qnode *n)
{
    return n->state == QNODE_READY && n->conn && !sw_list_linked(&n->apart_link);
}

/* ---- silence ---- */

static void doubt(struct sw_qnode *n)
{
    char id[SW_NODEID_SHORT];

    sw_log_info("dial", "%s: no packet for %llu ms, dialling a new connection for new requests",
                sw_nodeid_short(&n->id, id),
                (unsigned long long)(sw_qconn_silence_ns(n->conn) / SW_NS_PER_MS));
    n->silent_ns = sw_loop_now(n->d->loop);
    tell(n, "silent");
    set_apart(n);
}

bool qnode_silent(struct sw_qcall *c)
{
    struct sw_qnode *n = c->node;

    if (n->state != QNODE_READY || !n->conn ||
        sw_qconn_silence_ns(n->conn) < n->d->c.silence_ns / 2)
        return false;
    if (in_use(n))
        doubt(n);
    return true;
}

bool qnode_stale(struct sw_qnode *n)
{
    if (!in_use(n) || sw_qconn_silence_ns(n->conn) < KEEPALIVE_NS + n->d->c.silence_ns)
        return false;
    doubt(n);
    return true;
}

void qnode_suspect(struct sw_qcall *c)
{
    if (c->node && in_use(c->node))
        set_apart(c->node);
}

bool qnode_any_silent(const struct sw_qdial *d, const struct sw_nodeid *id)
{
    SW_LIST_EACH (const struct sw_qnode, n, &d->apart, apart_link) {
        if (n->silent_ns && sw_nodeid_eq(&n->id, id))
            return true;
    }
    return false;
}

static bool has_answered(const struct sw_qnode *n)
{
    return n->silent_ns && n->conn &&
           sw_qconn_silence_ns(n->conn) < sw_loop_now(n->d->loop) - n->silent_ns;
}

struct sw_qnode *qnode_recover(struct sw_qdial *d, const struct sw_nodeid *id)
{
    struct qnode_failure *f = sw_map_get(&d->failures, qnode_key(id));
    struct sw_qnode *n = NULL;
    char text[SW_NODEID_SHORT];

    if (sw_map_get(&d->nodes, qnode_key(id)))
        return NULL;
    SW_LIST_EACH (struct sw_qnode, it, &d->apart, apart_link) {
        if (!n && sw_nodeid_eq(&it->id, id) && has_answered(it))
            n = it;
    }
    if (!n)
        return NULL;
    if (f)
        qnode_drop_failure(d, f);
    sw_log_info("dial", "%s: packets arrive again", sw_nodeid_short(id, text));
    sw_list_unlink(&n->apart_link);
    d->n_apart--;
    n->silent_ns = 0;
    (void)sw_map_put(&d->nodes, qnode_key(&n->id), n);
    tell(n, "recovered");
    return n;
}

/* ---- no more streams ---- */

static size_t conns_of(const struct sw_qnode *n)
{
    size_t count = 1;

    SW_LIST_EACH (const struct sw_qnode, other, &n->d->apart, apart_link)
        count += sw_nodeid_eq(&other->id, &n->id);
    return count;
}

static void on_full(struct sw_timer *t)
{
    struct sw_qnode *n = SW_CONTAINER_OF(t, struct sw_qnode, timer);
    char id[SW_NODEID_SHORT];

    if (!n->full || !in_use(n) || sw_list_empty(&n->waiting))
        return;
    if (conns_of(n) >= n->d->c.max_conns_of_node) {
        sw_timer_start(n->d->loop, &n->timer, FULL_NS, on_full);
        return;
    }
    sw_log_info("dial", "%s: no more streams allowed, dialing another connection",
                sw_nodeid_short(&n->id, id));
    tell(n, "full");
    set_apart(n);
}

void qnode_full(struct sw_qnode *n)
{
    n->full = true; /* until ops->room */
    if (in_use(n))
        sw_timer_start(n->d->loop, &n->timer, FULL_NS, on_full);
}
