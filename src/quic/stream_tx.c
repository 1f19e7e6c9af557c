/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sending half of streams. Bytes stand in a list of chunks, where ngtcp2 finds them again until
 * they are acknowledged. How much there may be of them is memory.c's affair.
 */
#include <ngtcp2/ngtcp2.h>

#include "base/mem.h"
#include "quic/core.h"

/* ---- chunks ---- */

static struct sw_qchunk *chunk_new(struct sw_qstream *s, uint32_t cap)
{
    struct sw_quic *q = s->c->q;
    struct sw_qchunk *k = q->free_chunks;

    if (cap == QUIC_CHUNK && k) {
        q->free_chunks = k->next;
        q->n_free_chunks--;
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
    if (k->cap != QUIC_CHUNK || q->n_free_chunks >= QUIC_CHUNKS_KEPT) {
        sw_free(k);
        return;
    }
    k->next = q->free_chunks;
    q->free_chunks = k;
    q->n_free_chunks++;
}

void sw_qchunks_done(struct sw_quic *q)
{
    while (q->free_chunks) {
        struct sw_qchunk *k = q->free_chunks;

        q->free_chunks = k->next;
        sw_free(k);
    }
    q->n_free_chunks = 0;
}

static void chunks_drop(struct sw_qstream *s)
{
    while (s->head) {
        struct sw_qchunk *k = s->head;

        s->head = k->next;
        chunk_free(s, k);
    }
    s->tail = NULL;
    s->at = NULL;
    s->at_off = 0;
}

void sw_qstream_drop_chunks(struct sw_qstream *s)
{
    chunks_drop(s);
    if (s->spare)
        chunk_free(s, s->spare);
    s->spare = NULL;
}

static void chunk_add(struct sw_qstream *s, uint32_t cap)
{
    struct sw_qchunk *k = chunk_new(s, cap);

    if (s->tail)
        s->tail->next = k;
    else
        s->head = k;
    s->tail = k;
    if (!s->at) {
        s->at = k;
        s->at_off = 0;
    }
}

/* ---- sending ---- */

bool sw_qstream_pending(const struct sw_qstream *s)
{
    return !s->tx_shut && !s->ended && (s->tx_sent < s->tx_end || (s->finish && !s->fin_sent));
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

    if (s->spare)
        return true;
    may = sw_qmem_room(s, s->tail->cap - s->tail->n);
    if (may >= QUIC_CHUNK_SMALL)
        s->spare = chunk_new(s, (uint32_t)sw_min(may, QUIC_CHUNK));
    return s->spare != NULL;
}

int sw_qstream_reserve(struct sw_qstream *s, struct iovec room[2])
{
    size_t unsent = s->tx_end - s->tx_sent;
    size_t may;
    int n = 0;

    if (s->tx_shut || s->finish || s->ended || s->c->end.closing)
        return 0;
    if (unsent >= QUIC_SEND_MAX) {
        s->starved = true;
        return 0;
    }
    if (!s->tail || s->tail->n == s->tail->cap) {
        may = sw_qmem_room(s, 0);
        if (may < QUIC_CHUNK_SMALL) {
            s->starved = true;
            sw_qmem_held_back(s);
            return 0;
        }
        /* Many streams carry a few hundred bytes: the first chunk is small. */
        chunk_add(s, s->tx_end == 0 ? QUIC_CHUNK_SMALL : (uint32_t)sw_min(may, QUIC_CHUNK));
    }
    room[n++] =
        (struct iovec){.iov_base = s->tail->p + s->tail->n, .iov_len = s->tail->cap - s->tail->n};
    if (unsent + room[0].iov_len < QUIC_SEND_MAX && spare_ready(s))
        room[n++] = (struct iovec){.iov_base = s->spare->p, .iov_len = s->spare->cap};
    return n;
}

/* Room that was not used: an idle stream owns none. */
static void give_back(struct sw_qstream *s)
{
    if (s->spare)
        chunk_free(s, s->spare);
    s->spare = NULL;
    /* An empty chunk is alone: it was added when all before were full, and those may be gone. */
    if (s->tail && s->tail->n == 0 && s->head == s->tail)
        chunks_drop(s);
}

void sw_qstream_commit(struct sw_qstream *s, size_t n)
{
    size_t k;

    if (s->tail && !s->tx_shut && !s->ended) {
        k = sw_min(n, s->tail->cap - s->tail->n);
        s->tail->n += (uint32_t)k;
        s->tx_end += k;
        if (n > k && s->spare) {
            s->tail->next = s->spare;
            s->tail = s->spare;
            s->spare = NULL;
            s->tail->n = (uint32_t)sw_min(n - k, s->tail->cap);
            s->tx_end += s->tail->n;
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
    if (s->finish || s->tx_shut || s->ended)
        return;
    s->finish = true;
    want_send(s);
}

/* A reserve found no room: is there some now? Asked whenever bytes were sent or acknowledged. */
static void wake(struct sw_qstream *s)
{
    if (!s->starved || s->tx_end - s->tx_sent > QUIC_SEND_MAX / 2)
        return;
    if (s->held_back && sw_qmem_room(s, 0) < QUIC_FLOOR)
        return;
    s->starved = false;
    s->held_back = false;
    s->writable = true;
    sw_qstream_note(s);
}

void sw_qstream_advance(struct sw_qstream *s, size_t n, bool fin)
{
    s->tx_sent += n;
    while (n > 0) {
        size_t k = sw_min(n, s->at->n - s->at_off);

        if (k == 0) {
            s->at = s->at->next;
            s->at_off = 0;
            continue;
        }
        s->at_off += (uint32_t)k;
        n -= k;
    }
    if (fin)
        s->fin_sent = true;
    wake(s);
}

void sw_qstream_was_stopped(struct sw_qstream *s, uint64_t code)
{
    if (s->tx_shut)
        return;
    s->tx_shut = true; /* ngtcp2 has sent RESET_STREAM */
    s->stopped = true;
    s->stop_code = code;
    sw_qstream_note(s);
}

void sw_qstream_acked(struct sw_qstream *s, uint64_t upto)
{
    if (upto <= s->tx_acked)
        return;
    s->tx_acked = upto;
    while (s->head && s->tx_base + s->head->n <= upto) {
        struct sw_qchunk *k = s->head;

        if (k == s->at) {
            s->at = k->next;
            s->at_off = 0;
        }
        s->tx_base += k->n;
        s->head = k->next;
        if (s->tail == k)
            s->tail = NULL;
        chunk_free(s, k);
    }
    wake(s);
}

bool sw_qstream_in_flight(const struct sw_qstream *s)
{
    return !s->tx_shut && s->tx_sent > s->tx_acked;
}

size_t sw_qstream_unacked(const struct sw_qstream *s)
{
    return s->tx_end - s->tx_acked;
}

void sw_qstream_reset(struct sw_qstream *s, uint64_t code)
{
    if (s->tx_shut || s->ended || !s->c->nc || (s->fin_sent && s->tx_acked == s->tx_end))
        return;
    s->tx_shut = true;
    sw_list_unlink(&s->sendq);
    (void)ngtcp2_conn_shutdown_stream_write(s->c->nc, s->id, code);
    sw_qconn_touch(s->c);
}
