/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What streams of an endpoint may hold, in both directions, so that peers and origins that do not
 * read slow down only their own streams: chunks to be sent, counted where they are made and freed,
 * and windows, which are promises to the peer. The rules are in doc/internals/quic.md, "Memory and
 * bounds". No stream waits for another: one with nothing under way always gets room (QUIC_FLOOR),
 * and one that is refused has bytes under way, and retries when they are sent or acknowledged (wake
 * in stream_tx.c). Once a reader has taken everything, its peer has at least a quarter of the first
 * window: we keep less than a quarter of the present one back, ngtcp2 at most half of the first.
 */
#include <inttypes.h>

#include <ngtcp2/ngtcp2.h>

#include "base/log.h"
#include "base/time.h"
#include "quic/memory.h"
#include "quic/stream.h"

enum {
    READ_AHEAD = 4 * QUIC_CHUNK, /* unsent bytes of a stream while memory is tight */
    SHARE = 2,                   /* a window takes at most this part of what is left */
    PROOF = 1 << 20,             /* read by a stream that gets at the second half of a budget */
    PROOF_SHARE = 8,             /* and so many bytes for each of its window */
    NEAR_WINDOW = 1 << 20,       /* more is of no use on a short way */
};

#define SLACK_NS (SW_NS_PER_S / 1000) /* for turns of the loop, beside the round trip */
#define NEAR_NS  (SW_NS_PER_S / 1000)
#define TELL_NS  (60 * SW_NS_PER_S)

/* ---- to be sent ---- */

enum level {
    PLENTY,
    TIGHT, /* beyond half of a limit */
    FULL,
};

static uint64_t beyond(uint64_t held)
{
    return held > QUIC_FLOOR ? held - QUIC_FLOOR : 0;
}

void sw_qmem_count(struct sw_qstream *s, int64_t delta)
{
    struct sw_qconn *c = s->c;
    uint64_t before = beyond(s->tx.mem);
    uint64_t more;

    s->tx.mem += (uint64_t)delta;
    c->q->memory.tx += (uint64_t)delta;
    more = beyond(s->tx.mem) - before; /* modulo 2^64, as sums of unsigned are */
    c->flow.tx_beyond += more;
    c->q->memory.tx_beyond += more;
}

static enum level level_of(uint64_t used, uint64_t limit)
{
    return used >= limit ? FULL : used >= limit / 2 ? TIGHT : PLENTY;
}

static enum level level(const struct sw_qconn *c)
{
    enum level own = level_of(c->flow.tx_beyond, c->q->cfg.max_conn_buffered / 2);
    enum level all = level_of(c->q->memory.tx_beyond, c->q->cfg.max_buffered / 2);

    return own > all ? own : all;
}

/* What the peer would take of this stream now, sent already or not. */
static uint64_t peer_credit(const struct sw_qstream *s)
{
    if (!s->c->nc)
        return 0;
    return sw_min(ngtcp2_conn_get_max_stream_data_left(s->c->nc, s->id),
                  ngtcp2_conn_get_max_data_left(s->c->nc));
}

size_t sw_qmem_room(const struct sw_qstream *s, size_t lent)
{
    enum level lv = level(s->c);
    uint64_t unsent = s->tx.end - s->tx.sent + lent;
    uint64_t ahead;
    uint64_t may;

    if (lv == PLENTY)
        return QUIC_SEND_MAX;
    ahead = sw_min(peer_credit(s), READ_AHEAD);
    may = ahead > unsent ? ahead - unsent : 0;
    if (lv == FULL)
        may = sw_min(may, s->tx.mem < QUIC_CHUNK ? QUIC_CHUNK - s->tx.mem : 0);
    return (size_t)sw_max(may, s->tx.mem < QUIC_FLOOR ? QUIC_FLOOR - s->tx.mem : 0);
}

/* Being held back a little is normal under load; a reached limit is logged for the operator. */
static void note_held_back(struct sw_qconn *c, bool at_limit)
{
    struct sw_quic *q = c->q;
    char id[SW_NODEID_SHORT];

    q->stats.held_back++;
    if (!at_limit || (q->memory.told_ns && sw_quic_now(q) - q->memory.told_ns < TELL_NS))
        return;
    q->memory.told_ns = sw_quic_now(q);
    sw_log_warn("quic",
                "%s: streams hold too much for readers that are slow: %" PRIu64
                " bytes to be sent, windows of %" PRIu64
                " bytes beyond the first, together at most %" PRIu64,
                sw_nodeid_short(&c->peer, id), q->memory.tx, q->memory.promised,
                q->cfg.max_buffered);
}

void sw_qmem_held_back(struct sw_qstream *s)
{
    if (s->tx.held_back)
        return;
    s->tx.held_back = true;
    note_held_back(s->c, level(s->c) == FULL);
}

/* ---- received ---- */

static void promise(struct sw_qstream *s, int64_t delta)
{
    s->rx.window += (uint64_t)delta;
    s->c->flow.promised += (uint64_t)delta;
    s->c->q->memory.promised += (uint64_t)delta;
}

void sw_qmem_stream_begin(struct sw_qstream *s)
{
    s->rx.window = s->c->q->cfg.first_window;
    s->rx.window_ns = sw_quic_now(s->c->q);
}

void sw_qmem_stream_end(struct sw_qstream *s)
{
    promise(s, (int64_t)s->c->q->cfg.first_window - (int64_t)s->rx.window);
}

static uint64_t left(uint64_t budget, uint64_t used)
{
    return budget > used ? budget - used : 0;
}

/* What a window may take now at most. */
static uint64_t share(const struct sw_qconn *c)
{
    return sw_min(left(c->q->cfg.max_conn_buffered / 2, c->flow.promised),
                  left(c->q->cfg.max_buffered / 2, c->q->memory.promised)) /
           SHARE;
}

/* How large it may become at all. */
static uint64_t window_max(const struct sw_qstream *s)
{
    uint64_t max = s->c->q->cfg.stream_window;

    return sw_qconn_rtt_ns(s->c) < NEAR_NS ? sw_min(max, sw_max(s->rx.window, NEAR_WINDOW)) : max;
}

/* How large this window may be now. */
static uint64_t fair_window(const struct sw_qstream *s)
{
    const struct sw_quic_config *cfg = &s->c->q->cfg;
    uint64_t more = share(s->c);

    if (s->c->flow.promised >= cfg->max_conn_buffered / 4 ||
        s->c->q->memory.promised >= cfg->max_buffered / 4)
        more = s->rx.read < PROOF ? 0 : sw_min(more, s->rx.read / PROOF_SHARE);
    return sw_min(cfg->first_window + more, cfg->stream_window);
}

/*
 * At this pace the peer uses the window up within four round trips. A window that comes as one
 * burst is taken at once, and the next one is a round trip away.
 */
static bool is_used_up_fast(const struct sw_qstream *s, uint64_t taken, uint64_t now)
{
    double elapsed = (double)(now - s->rx.window_ns);
    double rtt = (double)(sw_qconn_rtt_ns(s->c) + SLACK_NS);

    return elapsed * (double)s->rx.window < 4 * rtt * (double)taken;
}

uint64_t sw_qmem_taken(struct sw_qstream *s, size_t n)
{
    uint64_t now = sw_quic_now(s->c->q);
    uint64_t wanted;
    uint64_t fair;
    uint64_t give;
    bool quick;

    s->rx.read += n;
    s->rx.taken += n;
    if (s->rx.taken < s->rx.window / 4)
        return 0;
    give = s->rx.taken;
    s->rx.taken = 0;
    quick = is_used_up_fast(s, give, now);
    s->rx.window_ns = now;
    fair = fair_window(s);
    if (fair <= s->rx.window && fair < s->c->q->cfg.stream_window) {
        uint64_t less = sw_min(give / 2, s->rx.window - fair);

        if (quick)
            note_held_back(s->c, share(s->c) < s->c->q->cfg.first_window);
        promise(s, -(int64_t)less);
        return give - less;
    }
    wanted = sw_min(2 * s->rx.window, window_max(s));
    if (quick && wanted > s->rx.window) {
        uint64_t more = sw_min(wanted, fair) - s->rx.window;

        promise(s, (int64_t)more);
        give += more;
    }
    return give;
}
