/* SPDX-License-Identifier: Apache-2.0 */
#include "quic/cap.h"

#include "base/time.h"

enum {
    LOST_PART = 50,   /* of what a round trip sends: losses of a full queue */
    LOST_PACKETS = 6, /* and so many more: 1 % at random of 330 is that many once in 30,000 times */
    QUEUE_PART = 8,   /* a full queue also makes the round trip longer by this part */
    SETTLE = 2,       /* round trips: until then losses are of packets from before a cut */
    PACKETS_MIN = 16, /* under way, whatever is lost */
    CALM_RTTS = 8,
    SLACK_PART = 8,    /* of the largest product, which is left with this much more */
    GROW_PART = 64,    /* a round trip */
    FORGET_PART = 128, /* of the largest product, a round trip */
    CUT_TO = 60,       /* percent of what was under way */
};

#define MOST    1e15               /* bytes */
#define LATE_NS (4 * SW_NS_PER_MS) /* what two busy machines hold back */
#define CALM_NS (8 * SW_NS_PER_S)  /* who was pushed away needs seconds to come back */

void sw_qcap_sent(struct sw_qcap *c, uint64_t n, uint64_t again)
{
    c->sent += n;
    c->again += again;
}

/* Rates after a move may be of any size: bounded before they are a whole number. */
uint64_t sw_qcap_bytes(double bytes)
{
    return bytes < MOST ? (uint64_t)bytes : (uint64_t)MOST;
}

static bool queue_is_full(const struct sw_qcap *c, const struct sw_qcap_path *p)
{
    uint64_t sent = sw_max(c->last_sent, c->sent / 2);

    return c->again > sent / LOST_PART + LOST_PACKETS * p->packet &&
           p->rtt_ns > p->min_rtt_ns + p->min_rtt_ns / QUEUE_PART;
}

/* Not what was under way: packets that were lost count as that until it is noticed. */
static uint64_t held_by_path(const struct sw_qcap_path *p)
{
    return sw_qcap_bytes((double)p->product * (double)p->rtt_ns / (double)p->min_rtt_ns);
}

static uint64_t late_by(const struct sw_qcap *c, const struct sw_qcap_path *p)
{
    return sw_qcap_bytes((double)c->best * LATE_NS / (double)p->min_rtt_ns);
}

/*
 * Not below the largest product of late: who shares the queue and backs off has room then, and who
 * does not, as the kernel's BBR, would get everything.
 */
static void cut(struct sw_qcap *c, uint64_t now, const struct sw_qcap_path *p)
{
    uint64_t most = sw_min(sw_max(c->last_peak, c->peak), held_by_path(p));
    uint64_t low = sw_max(c->best + c->best / SLACK_PART + late_by(c, p), PACKETS_MIN * p->packet);

    if (c->bytes > 0)
        most = sw_min(most, c->bytes);
    most = sw_max(most / 100 * CUT_TO, low);
    c->bytes = c->bytes > 0 ? sw_min(c->bytes, most) : most;
    c->calm_ns = now + sw_max(CALM_NS, CALM_RTTS * p->rtt_ns);
    c->settling = SETTLE;
}

static void grow(struct sw_qcap *c, const struct sw_qcap_path *p)
{
    c->bytes += c->bytes / GROW_PART;
    if (c->bytes > p->window)
        c->bytes = 0;
    c->best -= c->best / FORGET_PART;
}

bool sw_qcap_look(struct sw_qcap *c, uint64_t now_ns, const struct sw_qcap_path *p)
{
    bool lowered = false;

    c->peak = sw_max(c->peak, p->under_way);
    if (c->round_ns && now_ns - c->round_ns < p->rtt_ns)
        return false;
    c->best = sw_max(c->best, sw_min(p->product, p->window));
    if (c->settling > 0) {
        c->settling--;
    } else if (queue_is_full(c, p)) {
        cut(c, now_ns, p);
        lowered = true;
    } else if (c->bytes > 0 && now_ns >= c->calm_ns) {
        grow(c, p);
    }
    c->last_sent = c->sent;
    c->last_peak = c->peak;
    c->sent = c->again = c->peak = 0;
    c->round_ns = now_ns;
    return lowered;
}

bool sw_qcap_reached(const struct sw_qcap *c, uint64_t under_way)
{
    return c->bytes > 0 && under_way >= c->bytes;
}
