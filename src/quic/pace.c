/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pacing: how much a write pass may send, and when the next one may be made.
 *
 * ngtcp2 computes the rate, and between two passes lets out acknowledgements only; but it opens 1
 * ms before the time (EARLY_NS), which is a whole pass at 500 Mb/s: bursts of that kind overflow
 * the queue of a bottleneck. So its clock is put forward by that much, and the timer is ours. A
 * loop that wakes up late catches up: passes follow a schedule, not each other.
 */
#include <ngtcp2/ngtcp2.h>

#include "base/log.h"
#include "base/time.h"
#include "quic/conn.h"
#include "quic/pace.h"
#include "quic/renew.h"

enum {
    PASS_BYTES = 4 * SW_DGRAM_SEND_MAX, /* of one connection, before others have their turn */
    PASS_PACKETS_MIN = 4,
    HOLD = 4,    /* times slower while more is under way than the cap */
    MARGIN = 32, /* slower by this part: headers below ours, and a queue that gets empty */
};

#define UNPACED_RTT_NS SW_NS_PER_MS
#define LOWEST_RTT_NS  (3 * SW_NS_PER_MS)
#define QUEUED_RTT_NS  (10 * SW_NS_PER_MS)
#define FAST_RATE      0.25 /* bytes per nanosecond: 64 KB in 0.26 ms */
#define EARLY_NS       SW_NS_PER_MS
#define ROUNDING_NS    UINT64_C(1000)
#define PASS_NS        SW_NS_PER_MS       /* what a pass sends takes at most so long at the rate */
#define LATE_NS        (2 * SW_NS_PER_MS) /* a busy machine wakes us up so much too late */
#define CATCH_UP_NS    (4 * SW_NS_PER_MS) /* of the schedule, at most */

/* Bytes per nanosecond, as ngtcp2 computes it. */
static double rate(const ngtcp2_conn_stat *st)
{
    uint64_t rtt = st->first_rtt_sample_ts == UINT64_MAX ? SW_NS_PER_MS : st->smoothed_rtt;

    if (st->pacing_rate > 0)
        return st->pacing_rate;
    return 1.25 * (double)st->cwnd / (double)sw_max(rtt, 1);
}

/*
 * Bytes that wait at a busy receiver make the round trip longer, not the path. On a fast one paced
 * passes then cost so many turns of the loop, at both ends, that the receiver stays busy: the rate
 * falls to less than half and does not recover. Below FAST_RATE a pass lasts long enough for a
 * timer, and a queue on the way is as likely. After a move (renew.c) the lowest round trip is taken
 * under load, hence LOWEST_RTT_NS.
 */
bool sw_qpace_near(uint64_t smoothed_rtt_ns, uint64_t min_rtt_ns, double bytes_per_ns)
{
    if (smoothed_rtt_ns < UNPACED_RTT_NS)
        return true;
    return min_rtt_ns < LOWEST_RTT_NS && smoothed_rtt_ns < QUEUED_RTT_NS &&
           bytes_per_ns >= FAST_RATE;
}

/* So near that a timer cannot space packets any better than the kernel's queues do. */
static bool near_by(const struct sw_qconn *c, const ngtcp2_conn_stat *st)
{
    return c->jumbo ||
           (c->shake.confirmed && sw_qpace_near(st->smoothed_rtt, st->min_rtt, rate(st)));
}

/* BBR only: it fills queues whatever is lost. */
static void look_at_losses(struct sw_qconn *c, const ngtcp2_conn_stat *st)
{
    struct sw_qcap_path p = {
        .under_way = st->bytes_in_flight,
        .rtt_ns = st->smoothed_rtt,
        .min_rtt_ns = sw_max(st->min_rtt, 1),
        .product = sw_qcap_bytes((double)st->delivery_rate_sec * (double)st->min_rtt / SW_NS_PER_S),
        .window = st->cwnd,
        .packet = st->max_tx_udp_payload_size};
    char id[SW_NODEID_SHORT];

    if (c->q->cfg.congestion != SW_QCC_BBR || !c->shake.told || st->min_rtt == UINT64_MAX)
        return;
    if (sw_qcap_look(&c->pace.cap, sw_quic_now(c->q), &p))
        sw_log_debug("quic", "%s: packets lost, %" PRIu64 " KB under way at most",
                     sw_nodeid_short(&c->peer, id), c->pace.cap.bytes / 1000);
}

/* Where nothing is paced, every pass only costs a turn of the loop. */
size_t sw_qpace_limit(struct sw_qconn *c)
{
    ngtcp2_conn_stat st;
    double bytes;

    ngtcp2_conn_get_conn_stat(c->nc, &st);
    sw_qrenew_watch(c, &st);
    if (sw_qrenew_pause_ns(c) > 0) {
        c->pace.on = true;
        return 0;
    }
    c->pace.on = !near_by(c, &st);
    if (!c->pace.on)
        return PASS_BYTES;
    look_at_losses(c, &st);
    bytes = rate(&st) * (double)PASS_NS;
    if (bytes > (double)st.send_quantum)
        return st.send_quantum;
    return sw_max((size_t)bytes, PASS_PACKETS_MIN * st.max_tx_udp_payload_size);
}

/* The time is set in the past and taken back, else it would stand as a timer that is due. */
static void go_on(struct sw_qconn *c, uint64_t now)
{
    c->pace.at_ns = 0;
    if (ngtcp2_conn_get_expiry(c->nc) <= now) {
        ngtcp2_conn_update_pkt_tx_time(c->nc, now);
        return;
    }
    ngtcp2_conn_update_pkt_tx_time(c->nc, 0);
    (void)ngtcp2_conn_handle_expiry(c->nc, now);
}

void sw_qpace_sent(struct sw_qconn *c, size_t n, size_t again)
{
    uint64_t now = sw_quic_now(c->q);
    ngtcp2_conn_stat st;
    uint64_t from;
    uint64_t late;
    uint64_t took;
    uint64_t plain;

    if (!c->pace.on) {
        go_on(c, now);
        return;
    }
    if (n == 0)
        return;
    if (sw_qrenew_pause_ns(c) > 0) {
        c->pace.at_ns = now + sw_qrenew_pause_ns(c);
        ngtcp2_conn_update_pkt_tx_time(c->nc, c->pace.at_ns + EARLY_NS);
        return;
    }
    ngtcp2_conn_get_conn_stat(c->nc, &st);
    late = sw_min(CATCH_UP_NS, sw_max(LATE_NS, st.smoothed_rtt / 4));
    from = sw_max(c->pace.at_ns, now - late);
    from = sw_min(from, now);
    plain = (uint64_t)((double)n / rate(&st));
    took = plain;
    sw_qcap_sent(&c->pace.cap, n, again);
    if (sw_qcap_reached(&c->pace.cap, st.bytes_in_flight))
        took *= HOLD;
    c->pace.at_ns = from + took + took / MARGIN;
    ngtcp2_conn_update_pkt_tx_time(c->nc, c->pace.at_ns - plain + EARLY_NS - ROUNDING_NS);
}

uint64_t sw_qpace_due(const struct sw_qconn *c)
{
    return c->pace.at_ns > sw_quic_now(c->q) ? c->pace.at_ns : UINT64_MAX;
}
