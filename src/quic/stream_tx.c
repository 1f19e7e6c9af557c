/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sending half of streams. Bytes stand in a list of chunks, where ngtcp2 finds them again until
 * they are acknowledged. How much there may be of them is memory.c's affair.
 */
#include <ngtcp2/ngtcp2.h>

#include "base/mem.h"
#include "quic/conn.h"
#include "quic/memory.h"
#include "quic/stream.h"

/* ---- chunks ---- */

static struct sw_qchunk *chunk_new(struct sw_qstream *s, uint32_t cap)
{
    struct sw_quic *q = s->c->q;
    struct sw_qchunk *k = q->memory.free;

    if (cap == QUIC_CHUNK && k) {
        q->memory.free = k->next;
        q->memory.n_free--;
    } else {
        k = sw_malloc(sizeof(*k) + cap);
        k->cap = cap;
    }
    k->next = NULL;
    k->n = 0;
    sw_qmem_count(s, cap);
    return k;
}

static void chunk_free(struct sw_qstream *s, struct sw_qchunk *k)
{
    struct sw_quic *q = s->c->q;

    sw_qmem_count(s, -(int64_t)k->cap);
    if (k->cap != QUIC_CHUNK || q->memory.n_free >= QUIC_CHUNKS_KEPT) {
        sw_free(k);
        return;
    }
    k->next = q->memory.free;
    q->memory.free = k;
    q->memory.n_free++;
}

void sw_qchunks_done(struct sw_quic *q)
{
    while (q->memory.free) {
        struct sw_qchunk *k = q->memory.free;

        q->memory.free = k->next;
        sw_free(k);
    }
    q->memory.n_free = 0;
}

static void chunks_drop(struct sw_qstream *s)
{
    while (s->tx.head) {
        struct sw_qchunk *k = s->tx.head;

        s->tx.head = k->next;
        chunk_free(s, k);
    }
    s->tx.tail = NULL;
    s->tx.at = NULL;
    s->tx.at_off = 0;
}

void sw_qstream_drop_chunks(struct sw_qstream *s)
{
    chunks_drop(s);
    if (s->tx.spare)
        chunk_free(s, s->tx.spare);
    s->tx.spare = NULL;
}

static void chunk_add(struct sw_qstream *s, uint32_t cap)
{
    struct sw_qchunk *k = chunk_new(s, cap);

    if (s->tx.tail)
        s->tx.tail->next = k;
    else
        s->tx.head = k;
    s->tx.tail = k;
    if (!s->tx.at) {
        s->tx.at = k;
        s->tx.at_off = 0;
    }
}

/* ---- sending ---- */

bool sw_qstream_pending(const struct sw_qstream *s)
{
    return !s->tx.shut && !s->ended &&
           (s->tx.sent < s->tx.end || (s->tx.finish && !s->tx.fin_sent));
}

static void want_send(struct sw_qstream *s)
{
    struct sw_qconn *c = s->c;

    if (!sw_list_linked(&s->sendq))
        sw_list_push_back(&c->streams.sendable, &s->sendq);
    sw_qconn_touch(c);
}

/* The second piece is the chunk that will follow; it is not part of the list yet. */
static bool spare_ready(struct sw_qstream *s)
{
    size_t may;

    if (s->tx.spare)
        return true;
    may = sw_qmem_room(s, s->tx.tail->cap - s->tx.tail->n);
    if (may >= QUIC_CHUNK_SMALL)
        s->tx.spare = chunk_new(s, (uint32_t)sw_min(may, QUIC_CHUNK));
    return s->tx.spare != NULL;
}

int sw_qstream_reserve(struct sw_qstream *s, struct iovec room[2])
{
    size_t unsent = s->tx.end - s->tx.sent;
    size_t may;
    int n = 0;

    if (s->tx.shut || s->tx.finish || s->ended || s->c->end.closing)
        return 0;
    if (unsent >= QUIC_SEND_MAX) {
        s->tx.starved = true;
        return 0;
    }
    if (!s->tx.tail || s->tx.tail->n == s->tx.tail->cap) {
        may = sw_qmem_room(s, 0);
        if (may < QUIC_CHUNK_SMALL) {
            s->tx.starved = true;
            sw_qmem_held_back(s);
            return 0;
        }
        /* Many streams carry a few hundred bytes: the first chunk is small. */
        chunk_add(s, s->tx.end == 0 ? QUIC_CHUNK_SMALL : (uint32_t)sw_min(may, QUIC_CHUNK));
    }
    room[n++] = (struct iovec){.iov_base = s->tx.tail->p + s->tx.tail->n,
                               .iov_len = s->tx.tail->cap - s->tx.tail->n};
    if (unsent + room[0].iov_len < QUIC_SEND_MAX && spare_ready(s))
        room[n++] = (struct iovec){.iov_base = s->tx.spare->p, .iov_len = s->tx.spare->cap};
    return n;
}

/* Room that was not used: an idle stream owns none. */
static void give_back(struct sw_qstream *s)
{
    if (s->tx.spare)
        chunk_free(s, s->tx.spare);
    s->tx.spare = NULL;
    /* An empty chunk is alone: it was added when all before were full, and those may be gone. */
    if (s->tx.tail && s->tx.tail->n == 0 && s->tx.head == s->tx.tail)
        chunks_drop(s);
}

void sw_qstream_commit(struct sw_qstream *s, size_t n)
{
    size_t k;

    if (s->tx.tail && !s->tx.shut && !s->ended) {
        k = sw_min(n, s->tx.tail->cap - s->tx.tail->n);
        s->tx.tail->n += (uint32_t)k;
        s->tx.end += k;
        if (n > k && s->tx.spare) {
            s->tx.tail->next = s->tx.spare;
            s->tx.tail = s->tx.spare;
            s->tx.spare = NULL;
            s->tx.tail->n = (uint32_t)sw_min(n - k, s->tx.tail->cap);
            s->tx.end += s->tx.tail->n;
        }
        if (n > 0)
            want_send(s);
    }
    give_back(s);
}

size_t sw_qstream_write(struct sw_qstream *s, const void *p, size_t n)
{
    const uint8_t *at = p;
    size_t done = 0;
    struct iovec room[2];
    int pieces;

    while (done < n && (pieces = sw_qstream_reserve(s, room)) > 0) {
        size_t now = 0;

        for (int i = 0; i < pieces && done + now < n; i++) {
            size_t k = sw_min(room[i].iov_len, n - done - now);

            memcpy(room[i].iov_base, at + done + now, k);
            now += k;
        }
        sw_qstream_commit(s, now);
        done += now;
    }
    return done;
}

void sw_qstream_finish(struct sw_qstream *s)
{
    if (s->tx.finish || s->tx.shut || s->ended)
        return;
    s->tx.finish = true;
    want_send(s);
}

/* A reserve found no room: is there some now? Checked whenever bytes were sent or acknowledged. */
static void wake(struct sw_qstream *s)
{
    if (!s->tx.starved || s->tx.end - s->tx.sent > QUIC_SEND_MAX / 2)
        return;
    if (s->tx.held_back && sw_qmem_room(s, 0) < QUIC_FLOOR)
        return;
    s->tx.starved = false;
    s->tx.held_back = false;
    s->writable = true;
    sw_qstream_note(s);
}

void sw_qstream_advance(struct sw_qstream *s, size_t n, bool fin)
{
    s->tx.sent += n;
    while (n > 0) {
        size_t k = sw_min(n, s->tx.at->n - s->tx.at_off);

        if (k == 0) {
            s->tx.at = s->tx.at->next;
            s->tx.at_off = 0;
            continue;
        }
        s->tx.at_off += (uint32_t)k;
        n -= k;
    }
    if (fin)
        s->tx.fin_sent = true;
    wake(s);
}

void sw_qstream_was_stopped(struct sw_qstream *s, uint64_t code)
{
    if (s->tx.shut)
        return;
    s->tx.shut = true; /* ngtcp2 has sent RESET_STREAM */
    s->stopped = true;
    s->stop_code = code;
    sw_qstream_note(s);
}

void sw_qstream_acked(struct sw_qstream *s, uint64_t upto)
{
    if (upto <= s->tx.acked)
        return;
    s->tx.acked = upto;
    while (s->tx.head && s->tx.base + s->tx.head->n <= upto) {
        struct sw_qchunk *k = s->tx.head;

        if (k == s->tx.at) {
            s->tx.at = k->next;
            s->tx.at_off = 0;
        }
        s->tx.base += k->n;
        s->tx.head = k->next;
        if (s->tx.tail == k)
            s->tx.tail = NULL;
        chunk_free(s, k);
    }
    wake(s);
}

bool sw_qstream_in_flight(const struct sw_qstream *s)
{
    return !s->tx.shut && s->tx.sent > s->tx.acked;
}

size_t sw_qstream_unacked(const struct sw_qstream *s)
{
    return s->tx.end - s->tx.acked;
}

void sw_qstream_reset(struct sw_qstream *s, uint64_t code)
{
    if (s->tx.shut || s->ended || !s->c->nc || (s->tx.fin_sent && s->tx.acked == s->tx.end))
        return;
    s->tx.shut = true;
    sw_list_unlink(&s->sendq);
    (void)ngtcp2_conn_shutdown_stream_write(s->c->nc, s->id, code);
    sw_qconn_touch(s->c);
}
