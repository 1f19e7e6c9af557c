/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From one client to another. On the same worker a packet is copied once, from where it was read
 * to the queue of its receiver. To another worker it goes in a block that is posted when it is full
 * and at the end of the turn.
 */
#include <string.h>

#include "base/mem.h"
#include "relay/relay_int.h"

enum {
    BLOCK = 192 * 1024,
    IN_FLIGHT_MAX = 64, /* blocks from one worker to another: beyond, packets are dropped */
    SPARE_MAX = 16,
    QUEUE_BYTES = 8 << 20,    /* that wait for one client */
    WORKER_BYTES = 256 << 20, /* and for all of a worker: then only readers get packets */
};

struct relay_block {
    struct sw_msg msg;
    struct relay_worker *from;
    struct relay_worker *to;
    struct relay_block *next;
    uint32_t n;
    uint8_t b[BLOCK];
};

/* In front of each packet in a block. */
struct crossing {
    struct sw_nodeid to;
    struct sw_nodeid from;
    uint32_t n;
    uint16_t segment;
    uint8_t type; /* enum sw_relay_type, as the receiver will get it */
    uint8_t ecn;
};

static void deliver(struct relay_worker *w, const struct crossing *x, const uint8_t *p)
{
    const struct relay_id *id = relay_table_get(w, &x->to);
    struct relay_client *c;
    struct sw_wsconn *ws;
    uint8_t *out;
    size_t head;

    if (!id) {
        sw_metric_add(w->stats.dropped_unknown, x->type != SW_RELAY_GONE);
        return;
    }
    c = SW_CONTAINER_OF(id->clients.next, struct relay_client, same);
    ws = &c->ws;
    if (x->type == SW_RELAY_GONE) {
        uint8_t gone[1 + SW_NODEID_LEN] = {SW_RELAY_GONE};

        memcpy(gone + 1, x->from.b, SW_NODEID_LEN);
        relay_client_send(c, gone, sizeof(gone));
        return;
    }
    if (sw_wsconn_queued(ws) >= w->relay->config->queue ||
        sw_wsconn_unsent(ws) + x->n > QUEUE_BYTES ||
        (sw_conn_loop_queued(w->loop) > WORKER_BYTES && sw_wsconn_queued(ws))) {
        sw_metric_add(w->stats.dropped_queue, 1);
        return;
    }
    head = x->type == SW_RELAY_RECV_BATCH ? SW_RELAY_BATCH_HEAD : SW_RELAY_DATAGRAM_HEAD;
    out = sw_wsconn_room(ws, SW_WS_BINARY, head + x->n, true);
    (void)sw_relay_put_datagram(out, (enum sw_relay_type)x->type, &x->from, x->ecn, x->segment);
    memcpy(out + head, p, x->n);
    sw_wsconn_commit(ws, out, head + x->n);
    sw_metric_add(w->stats.packets_sent, 1);
    sw_metric_add(w->stats.bytes_sent, x->n);
}

/* ---- between workers ---- */

static void on_block(struct sw_msg *m)
{
    struct relay_block *b = SW_CONTAINER_OF(m, struct relay_block, msg);
    struct relay_worker *w = b->to;
    size_t at = 0;

    while (at < b->n) {
        struct crossing x;

        memcpy(&x, b->b + at, sizeof(x));
        at += sizeof(x);
        deliver(w, &x, b->b + at);
        at += x.n;
    }
    (void)atomic_fetch_sub_explicit(&b->from->in_flight[w->index], 1, memory_order_relaxed);
    if (w->n_spare < SPARE_MAX) {
        b->next = w->spare;
        w->spare = b;
        w->n_spare++;
    } else {
        sw_free(b);
    }
}

static void post(struct relay_worker *w, unsigned to)
{
    struct relay_block *b = w->out[to];

    w->out[to] = NULL;
    sw_loop_post(b->to->loop, &b->msg);
}

static void on_flush(struct sw_defer *d)
{
    struct relay_worker *w = SW_CONTAINER_OF(d, struct relay_worker, flush);

    for (unsigned i = 0; i < w->relay->n_workers; i++) {
        if (w->out[i])
            post(w, i);
    }
}

static struct relay_block *block_for(struct relay_worker *w, unsigned to, size_t n)
{
    struct relay_block *b = w->out[to];

    if (b && BLOCK - b->n >= n)
        return b;
    if (b)
        post(w, to);
    if (atomic_load_explicit(&w->in_flight[to], memory_order_relaxed) >= IN_FLIGHT_MAX)
        return NULL;
    (void)atomic_fetch_add_explicit(&w->in_flight[to], 1, memory_order_relaxed);
    b = w->spare;
    if (b) {
        w->spare = b->next;
        w->n_spare--;
    } else {
        b = sw_malloc(sizeof(*b)); /* not zeroed: only what is written is sent */
    }
    b->msg.cb = on_block;
    b->from = w;
    b->to = &w->relay->workers[to];
    b->n = 0;
    w->out[to] = b;
    return b;
}

static void send_over(struct relay_worker *w, unsigned to, const struct crossing *x,
                      const uint8_t *p)
{
    struct relay_block *b = block_for(w, to, sizeof(*x) + x->n);

    if (!b) {
        sw_metric_add(w->stats.dropped_queue, 1);
        return;
    }
    memcpy(b->b + b->n, x, sizeof(*x));
    b->n += (uint32_t)sizeof(*x);
    if (x->n)
        memcpy(b->b + b->n, p, x->n);
    b->n += x->n;
    sw_loop_defer(w->loop, &w->flush, on_flush);
}

static void route(struct relay_worker *w, const struct crossing *x, const uint8_t *p)
{
    unsigned home = relay_home(w->relay, &x->to);

    if (home == w->index)
        deliver(w, x, p);
    else
        send_over(w, home, x, p);
}

/* ---- for clients ---- */

void relay_forward(struct relay_client *from, const struct sw_relay_frame *f)
{
    struct relay_worker *w = from->worker;
    struct crossing x = {
        .to = *f->id,
        .from = from->id->id,
        .n = (uint32_t)f->n,
        .segment = f->segment,
        .type = f->type == SW_RELAY_SEND ? SW_RELAY_RECV : SW_RELAY_RECV_BATCH,
        .ecn = f->ecn,
    };

    sw_metric_add(w->stats.packets_recv, 1);
    sw_metric_add(w->stats.bytes_recv, f->n);
    relay_table_sent(w, from->id, f->id);
    route(w, &x, f->p);
}

void relay_forward_gone(struct relay_worker *w, const struct sw_nodeid *to,
                        const struct sw_nodeid *gone)
{
    struct crossing x = {.to = *to, .from = *gone, .type = SW_RELAY_GONE};

    if (!w->thread.stopped)
        route(w, &x, NULL);
}

void relay_forward_done(struct relay_worker *w)
{
    for (unsigned i = 0; w->out && i < w->relay->n_workers; i++)
        sw_free(w->out[i]);
    while (w->spare) {
        struct relay_block *b = w->spare;

        w->spare = b->next;
        sw_free(b);
    }
    sw_free(w->out);
    sw_free(w->in_flight);
}
