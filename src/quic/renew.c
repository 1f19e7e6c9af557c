/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Congestion control begins anew, on a path whose delay rose and after a move with packets under
 * way (doc/internals/quic.md, "Slower paths"). What resets ngtcp2 is a move. So the connection
 * moves to a path with another number and the same route, and before that nothing is sent until all
 * packets under way are acknowledged. This also tells whether the delay was a queue of our own:
 * then the last round trip is short again, the connection stays, and the next look waits twice as
 * long.
 */
#include <ngtcp2/ngtcp2.h>

#include "base/log.h"
#include "base/time.h"
#include "quic/conn.h"
#include "quic/path_int.h"
#include "quic/renew.h"

enum {
    RISE = 3, /* times the lowest one */
    WINDOW_RTTS = 4,
    DRAIN_STEPS = 4,
    BULK = 64 * 1024, /* less under way does no harm */
};

#define RISE_NS     (5 * SW_NS_PER_MS) /* and so much beyond that */
#define WINDOW_NS   (500 * SW_NS_PER_MS)
#define LOSS_NS     (2 * SW_NS_PER_S)
#define GAP_NS      (3 * SW_NS_PER_S)
#define GAP_MAX_NS  (600 * SW_NS_PER_S)
#define ACK_WAIT_NS (60 * SW_NS_PER_MS) /* a peer may hold an acknowledgement back */

/* ---- has the delay risen? ---- */

/* The lowest round trip of the window that ends now; 0: it has not ended. */
static uint64_t window_low(struct sw_qrenew *r, const ngtcp2_conn_stat *st, uint64_t now)
{
    uint64_t low = r->from_ns ? sw_min(r->low_ns, st->latest_rtt) : st->latest_rtt;

    r->low_ns = low;
    if (r->from_ns && now - r->from_ns < sw_max(WINDOW_NS, WINDOW_RTTS * st->smoothed_rtt))
        return 0;
    r->low_ns = UINT64_MAX;
    low = r->from_ns ? low : 0;
    r->from_ns = now;
    return low;
}

static bool is_rise(const ngtcp2_conn_stat *st, uint64_t rtt)
{
    return st->min_rtt != UINT64_MAX && rtt >= RISE * st->min_rtt + RISE_NS;
}

/* By its window, and by nothing else: packets that were lost speak of a queue that is full. */
static bool held_up(const ngtcp2_conn_stat *st, uint64_t now)
{
    uint64_t loss = st->congestion_recovery_start_ts;

    return st->bytes_in_flight >= st->cwnd / 2 && (loss == UINT64_MAX || now - loss > LOSS_NS);
}

/* ---- draining ---- */

static uint64_t step_ns(const ngtcp2_conn_stat *st)
{
    return st->smoothed_rtt + st->smoothed_rtt / 4 + ACK_WAIT_NS;
}

static void begin(struct sw_qconn *c, const ngtcp2_conn_stat *st)
{
    struct sw_qrenew *r = &c->renew;

    r->step_ns = step_ns(st);
    r->until_ns = sw_quic_now(c->q) + DRAIN_STEPS * r->step_ns;
    r->moving = false;
}

static void end(struct sw_qconn *c, bool renewed)
{
    struct sw_qrenew *r = &c->renew;
    bool mistaken = !renewed && !r->tainted;
    uint64_t gap = mistaken ? sw_min(2 * sw_max(r->gap_ns, GAP_NS), GAP_MAX_NS) : GAP_NS;
    char id[SW_NODEID_SHORT];

    r->until_ns = 0;
    r->from_ns = 0;
    r->gap_ns = gap;
    r->after_ns = sw_quic_now(c->q) + gap;
    if (!renewed) {
        /* A later packet must not lead there with others under way. */
        if (r->moving)
            c->paths.renewed = 0;
        return;
    }
    r->tainted = false;
    c->pace.cap = (struct sw_qcap){0};
    c->q->stats.renewals++;
    sw_log_debug("quic", "%s: path changed its delay or was left, congestion control restarted",
                 sw_nodeid_short(&c->peer, id));
}

/* Nothing is in flight. The accepting side still needs a packet of the peer: see sw_qpath_renew. */
static void move(struct sw_qconn *c, const ngtcp2_conn_stat *st)
{
    struct sw_qrenew *r = &c->renew;

    if (!r->tainted && !is_rise(st, st->latest_rtt))
        end(c, false);
    else if (!sw_qpath_renew(c))
        end(c, false);
    else if (c->dial)
        end(c, true);
    else
        r->moving = true;
}

static void drain(struct sw_qconn *c, const ngtcp2_conn_stat *st)
{
    struct sw_qrenew *r = &c->renew;

    if (r->moving && sw_qpath_id(ngtcp2_conn_get_path(c->nc)) == c->paths.renewed)
        end(c, true);
    else if (sw_quic_now(c->q) >= r->until_ns)
        end(c, false);
    else if (!r->moving && st->bytes_in_flight == 0)
        move(c, st);
}

/* ---- */

uint64_t sw_qrenew_pause_ns(const struct sw_qconn *c)
{
    return c->renew.until_ns ? c->renew.step_ns : 0;
}

void sw_qrenew_moved(struct sw_qconn *c)
{
    c->renew.tainted = c->paths.now != c->paths.renewed;
    c->pace.cap = (struct sw_qcap){0};
}

void sw_qrenew_watch(struct sw_qconn *c, const ngtcp2_conn_stat *st)
{
    struct sw_qrenew *r = &c->renew;
    uint64_t now = sw_quic_now(c->q);
    uint64_t low;

    if (!c->shake.told || c->jumbo)
        return;
    if (r->until_ns) {
        drain(c, st);
        return;
    }
    if (st->first_rtt_sample_ts == UINT64_MAX || st->latest_rtt == 0)
        return;
    low = window_low(r, st, now);
    if (now < r->after_ns)
        return;
    if ((r->tainted && st->bytes_in_flight > BULK) || (is_rise(st, low) && held_up(st, now)))
        begin(c, st);
}
