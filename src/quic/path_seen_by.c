/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How relays see us: one question (QUIC address discovery) per relay we are connected to and
 * address family, from the socket that everything else uses. Kept open, it keeps the NAT's mapping
 * and reports changes.
 */
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "quic/path_int.h"
#include "quic/qad/qad.h"
#include "quic/send.h"

enum { FAMILIES = 2 };

#define AGAIN_NS (30 * SW_NS_PER_S)

/* One question. */
struct slot {
    struct sw_qseen_by *of;
    struct sw_qad_client *client; /* owned */
    struct sw_addr at;            /* the relay's */
    bool ended;
};

struct sw_qseen_by {
    struct sw_qrelay *r; /* borrowed */
    struct sw_timer again;
    struct slot slot[FAMILIES]; /* IPv4, IPv6 */
};

static void on_send(void *arg, const struct sw_addr *to, const uint8_t *p, size_t n)
{
    struct sw_quic *q = ((struct slot *)arg)->of->r->q;
    struct sw_qroute route;

    if (sw_qroute_direct(q, to, &route))
        (void)sw_qroute_send(q, &route, 0, p, n, n);
}

static void on_observed(void *arg, const struct sw_addr *at)
{
    const struct slot *s = arg;
    struct sw_qrelay *r = s->of->r;
    char text[SW_ADDR_TEXT];

    if (sw_addr_reach(&at->ip) == SW_REACH_NONE)
        return;
    sw_log_debug("quic", "relay %.*s reports our address as %s", SW_SLICE_ARG(r->url),
                 sw_addr_text(at, text));
    sw_quic_observed(r->q, &s->at, at);
}

static void ask_all(struct sw_qseen_by *s);

static void on_again(struct sw_timer *t)
{
    ask_all(SW_CONTAINER_OF(t, struct sw_qseen_by, again));
}

static void on_ended(void *arg, const char *why)
{
    struct slot *s = arg;
    struct sw_qrelay *r = s->of->r;

    sw_log_debug("quic", "relay %.*s reports no address: %s", SW_SLICE_ARG(r->url), why);
    s->ended = true;
    sw_quic_observed(r->q, &s->at, &(struct sw_addr){0});
    if (!sw_timer_running(&s->of->again))
        sw_timer_start(r->q->loop, &s->of->again, AGAIN_NS, on_again);
}

static const struct sw_qad_client_ops ops = {
    .send = on_send, .observed = on_observed, .ended = on_ended};

static void stop(struct sw_qseen_by *s)
{
    sw_timer_stop(s->r->q->loop, &s->again);
    for (size_t i = 0; i < FAMILIES; i++) {
        sw_qad_client_free(s->slot[i].client);
        sw_quic_observed(s->r->q, &s->slot[i].at, &(struct sw_addr){0});
        s->slot[i] = (struct slot){.of = s};
    }
}

static void ask(struct sw_qseen_by *of, const struct sw_relay_qad *qad, const struct sw_addr *at)
{
    struct slot *s = &of->slot[at->ip.family == 6];
    struct sw_qad_client_config cfg = {
        .relay = *at, .host = qad->host, .cred = qad->cred, .pin = qad->pin, .ops = &ops, .arg = s};
    struct sw_qroute route;
    struct sw_err err;

    if ((s->client && !s->ended) || !sw_qroute_direct(of->r->q, at, &route))
        return;
    sw_qad_client_free(s->client);
    s->ended = false;
    s->at = *at;
    s->client = sw_qad_client_new(of->r->q->loop, &cfg, &err);
    if (!s->client)
        sw_log_debug("quic", "cannot ask a relay for our address: %s", err.msg);
}

static void ask_all(struct sw_qseen_by *s)
{
    struct sw_relay_qad qad;

    if (s->r->q->cfg.no_probes || !s->r->up || !sw_relay_client_qad(s->r->client, &qad))
        return;
    for (size_t i = 0; i < qad.n_addrs; i++)
        ask(s, &qad, &qad.addrs[i]);
}

void sw_qseen_by_start(struct sw_qrelay *r)
{
    if (!r->seen_by) {
        r->seen_by = SW_NEW(struct sw_qseen_by);
        r->seen_by->r = r;
    }
    stop(r->seen_by);
    ask_all(r->seen_by);
}

void sw_qseen_by_free(struct sw_qrelay *r)
{
    if (!r->seen_by)
        return;
    stop(r->seen_by);
    sw_free(r->seen_by);
    r->seen_by = NULL;
}

bool sw_qseen_by_packet(struct sw_quic *q, const struct sw_qroute *from, uint8_t *p, size_t n)
{
    SW_LIST_FOREACH (it, &q->relays) {
        const struct sw_qseen_by *of = SW_CONTAINER_OF(it, struct sw_qrelay, link)->seen_by;
        const struct slot *s = of ? &of->slot[from->remote.ip.family == 6] : NULL;

        /* Two names of one relay have one address. */
        if (s && s->client && sw_addr_eq(&s->at, &from->remote) &&
            sw_qad_client_packet(s->client, &from->remote, p, n))
            return true;
    }
    return false;
}
