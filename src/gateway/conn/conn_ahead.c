/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small messages of several plain connections are read first, with one system call where that can
 * be had, and delivered then, one after the other: the kernel and our parsing do not chase each
 * other out of the processor's caches.
 */
#include "base/mem.h"
#include "gateway/conn/conn.h"
#include "gateway/conn/conn_int.h"
#include "gateway/conn/worker.h"
#include "io/batch.h"
#include "io/sock.h"

enum {
    AHEAD = 32,   /* connections read before any of them is looked at; SW_GW_BATCH at most */
    APART = 1328, /* buffers used together begin at different places of a page */
};

struct sw_gw_ahead {
    struct sw_gw_worker *worker;
    struct sw_defer defer;
    unsigned n;
    struct ahead_slot {
        struct sw_gw_conn *conn; /* NULL: closed meanwhile */
        ssize_t got;
        int got_errno;
        uint8_t buf[SW_GW_HEADROOM + GW_AHEAD_BYTES + APART];
    } slots[AHEAD];
};

struct sw_gw_ahead *sw_gw_ahead_new(struct sw_gw_worker *w)
{
    struct sw_gw_ahead *a = SW_NEW(struct sw_gw_ahead);

    a->worker = w;
    return a;
}

void sw_gw_ahead_free(struct sw_gw_ahead *a)
{
    sw_free(a);
}

bool gw_conn_may_read_ahead(const struct sw_gw_conn *c)
{
    return !c->tls && !c->wide && !c->paused && !c->in.n && !c->hup && !c->closed && !c->failed &&
           !c->eof && !c->lingering && !c->opening && !c->ahead;
}

static void deliver_ahead(struct ahead_slot *s)
{
    struct sw_gw_conn *c = s->conn;

    if (!c)
        return;
    c->ahead = false;
    if (s->got == GW_AHEAD_BYTES)
        c->wide = true;
    if (!c->lingering || s->got <= 0)
        (void)gw_conn_took(c, s->buf + SW_GW_HEADROOM, 0, s->got, GW_AHEAD_BYTES, s->got_errno);
    gw_conn_go_on(c);
}

/* Reads late: a connection closed since its event must not be read, its fd may be reused. */
static void read_all(struct sw_gw_ahead *a)
{
    const struct sw_batch_result *r;
    unsigned k = 0;

    for (unsigned i = 0; i < a->n; i++) {
        struct ahead_slot *s = &a->slots[i];

        if (s->conn)
            (void)sw_batch_read(a->worker->batch, s->conn->watch.fd, s->buf + SW_GW_HEADROOM,
                                GW_AHEAD_BYTES);
    }
    r = sw_batch_run(a->worker->batch);
    for (unsigned i = 0; i < a->n; i++) {
        struct ahead_slot *s = &a->slots[i];

        if (!s->conn)
            continue;
        s->got = r[k].n;
        s->got_errno = r[k++].sys_errno;
    }
}

static void deliver_all_ahead(struct sw_gw_worker *w)
{
    struct sw_gw_ahead *a = w->ahead;

    read_all(a);
    for (unsigned i = 0; i < a->n; i++) {
        deliver_ahead(&a->slots[i]);
        if (!sw_list_empty(&w->ended))
            w->calls->reap(w); /* while it is still in the cache */
    }
    a->n = 0;
    gw_conn_flush_queued(w);
}

static void on_ahead(struct sw_defer *d)
{
    deliver_all_ahead(SW_CONTAINER_OF(d, struct sw_gw_ahead, defer)->worker);
}

void gw_conn_read_ahead(struct sw_gw_conn *c)
{
    struct sw_gw_ahead *a = c->worker->ahead;
    struct ahead_slot *s = &a->slots[a->n++];

    s->conn = c;
    s->got = SW_EAGAIN;
    c->ahead = true;
    if (a->n == AHEAD)
        deliver_all_ahead(c->worker);
    else if (a->n == 1)
        sw_loop_defer_first(c->worker->loop, &a->defer, on_ahead);
}

void gw_conn_forget_ahead(const struct sw_gw_conn *c)
{
    struct sw_gw_ahead *a = c->worker->ahead;

    for (unsigned i = 0; i < a->n; i++) {
        if (a->slots[i].conn == c)
            a->slots[i].conn = NULL;
    }
}

bool sw_gw_conn_has_news(const struct sw_gw_conn *c)
{
    const struct sw_gw_ahead *a = c->worker->ahead;
    char first;

    for (unsigned i = 0; c->ahead && i < a->n; i++) {
        if (a->slots[i].conn == c && a->slots[i].got != SW_EAGAIN)
            return true;
    }
    return sw_sock_peek(c->watch.fd, &first, 1) != SW_EAGAIN;
}
