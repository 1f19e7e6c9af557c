/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer that owes an acknowledgement and does not send. QUIC probes ever more seldom (PTO
 * doubles): after a silence of ten seconds the next probe may be ten more away, and by then the
 * peer has given up. So the last probe is sent again, byte for byte, every second. After an outage
 * it arrives as new and is acknowledged, which brings everything else; where it did arrive before,
 * it is dropped as a duplicate.
 */
#include <ngtcp2/ngtcp2.h>

#include "base/mem.h"
#include "base/time.h"
#include "quic/conn.h"
#include "quic/path_int.h"
#include "quic/send.h"

#define REPEAT_NS SW_NS_PER_S
#define ASK_NS    (3 * SW_NS_PER_S)  /* then relays have to answer a ping */
#define GONE_NS   (25 * SW_NS_PER_S) /* after this the peer is given up */

/* The peer left probes (PTO) unanswered, for a second at least. */
static bool owes_answer(const struct sw_qconn *c)
{
    ngtcp2_conn_stat st;

    if (!c->shake.told || sw_quic_now(c->q) - c->heard.at_ns < SW_NS_PER_S)
        return false;
    ngtcp2_conn_get_conn_stat(c->nc, &st);
    return st.pto_count > 0;
}

/* ngtcp2 limits what is sent to an address that is not validated. */
static bool may_repeat(const struct sw_qconn *c)
{
    return c->probe.p && c->probe.path == c->paths.now &&
           (c->dialled || c->paths.valid == c->paths.now);
}

void sw_qsilence_sent(struct sw_qconn *c, uint16_t path, const uint8_t *p, size_t n)
{
    if (path != c->paths.now || !owes_answer(c))
        return;
    sw_free(c->probe.p);
    c->probe.p = sw_malloc(n);
    memcpy(c->probe.p, p, n);
    c->probe.n = n;
    c->probe.path = path;
    c->probe.repeat_ns = sw_quic_now(c->q) + REPEAT_NS;
}

void sw_qsilence_end(struct sw_qconn *c)
{
    sw_free(c->probe.p);
    c->probe.p = NULL;
    c->probe.relays_asked = false;
}

/*
 * The dialling side falls back to our relay: a connection to it that died with the address of a NAT
 * would be noticed only when we send something, or at the next ping.
 */
static uint64_t ask_due(const struct sw_qconn *c)
{
    if (!c->shake.told || c->streams.n == 0 || c->probe.relays_asked)
        return UINT64_MAX;
    return sw_max(c->heard.at_ns, c->keepalive_at_ns) + ASK_NS;
}

static void ask_relays(struct sw_qconn *c)
{
    if (ask_due(c) > sw_quic_now(c->q))
        return;
    c->probe.relays_asked = true;
    SW_LIST_EACH (struct sw_qrelay, r, &c->q->relays, link)
        sw_relay_client_probe(r->client);
}

/* When the probe is repeated, or the peer given up. */
static uint64_t repeat_due(const struct sw_qconn *c)
{
    uint64_t gone = c->heard.at_ns + GONE_NS;

    /* A relay of ours that is down explains the silence. */
    if (!owes_answer(c) || sw_qpath_relay_down(c))
        return UINT64_MAX;
    return may_repeat(c) ? sw_min(gone, c->probe.repeat_ns) : gone;
}

uint64_t sw_qsilence_due(const struct sw_qconn *c)
{
    return sw_min(ask_due(c), repeat_due(c));
}

void sw_qsilence_check(struct sw_qconn *c)
{
    uint64_t now = sw_quic_now(c->q);

    if (c->end.closing)
        return;
    ask_relays(c);
    if (repeat_due(c) > now)
        return;
    if (now >= c->heard.at_ns + GONE_NS) {
        sw_qconn_fail(c, SW_QCLOSE_IDLE, 0, "the peer does not answer");
        return;
    }
    (void)sw_qpath_send(c, c->probe.path, 0, c->probe.p, c->probe.n, c->probe.n);
    c->probe.repeat_ns = now + REPEAT_NS;
}
