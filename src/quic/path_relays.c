/* SPDX-License-Identifier: Apache-2.0 */
/* The relays of an endpoint: its home, and those of peers it dials. */
#include <ngtcp2/ngtcp2.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "quic/cid.h"
#include "quic/conn.h"
#include "quic/endpoint.h"
#include "quic/path_int.h"
#include "quic/stateless.h"
#include "quic/wire/relay_url.h"

enum { HELD_MAX = 32 }; /* packets from relays that wait for a direct one */

#define HOLD_NS           (120 * SW_NS_PER_MS)
#define RELAY_IDLE_NS     (60 * SW_NS_PER_S)
#define RELAY_LINES_PER_S 2

/* An Initial that came by relay and waits: a direct copy of it may follow. */
struct sw_qheld {
    struct sw_list link;
    struct sw_qroute route;
    uint64_t due_ns;
    uint8_t ecn;
    size_t n;
    uint8_t p[];
};

/* ---- callbacks of a relay ---- */

static void on_packets(void *arg, const struct sw_nodeid *from, uint8_t ecn, uint8_t *p, size_t n,
                       size_t segment)
{
    struct sw_qrelay *r = arg;
    struct sw_qroute route = {.relay = r, .node = *from};

    if (segment == 0)
        segment = n;
    while (n > 0) {
        size_t k = sw_min(n, segment);

        sw_quic_packet(r->q, &route, ecn, p, k);
        p += k;
        n -= k;
    }
    sw_quic_wake(r->q);
}

static void on_state(void *arg, bool up, const char *why)
{
    struct sw_qrelay *r = arg;
    struct sw_quic *q = r->q;

    r->up = up;
    sw_log_info("quic", "relay %.*s: %s%s%s", SW_SLICE_ARG(r->url), up ? "connected" : "lost",
                why[0] ? ": " : "", why);
    sw_qseen_by_start(r);
    if (r->home && q->cfg.relay_state)
        q->cfg.relay_state(q->cfg.arg, up);
    /* A dial that waits for it continues without waiting for its timer. */
    SW_LIST_EACH (struct sw_qconn, c, &q->conns, link) {
        if (!up || !sw_qpath_uses_relay(c, r))
            continue;
        sw_qpath_repeat(c, r);
        sw_qconn_touch(c);
    }
}

static void count_refusal(struct sw_quic *q, const char *reason)
{
    if (q->cfg.relay_refused)
        q->cfg.relay_refused(q->cfg.arg, reason);
}

static void on_refused(void *arg, const char *reason)
{
    count_refusal(((struct sw_qrelay *)arg)->q, reason);
}

static const struct sw_relay_client_ops relay_ops = {
    .packets = on_packets, .state = on_state, .refused = on_refused};

/* ---- keeping them ---- */

static void held_free(struct sw_quic *q, struct sw_qheld *h)
{
    sw_list_unlink(&h->link);
    q->held.n--;
    sw_free(h);
}

static void relay_free(struct sw_qrelay *r)
{
    SW_LIST_EACH (struct sw_qconn, c, &r->q->conns, link)
        sw_qpath_forget_relay(c, r);
    SW_LIST_EACH (struct sw_qheld, h, &r->q->held.all, link)
        if (h->route.relay == r)
            held_free(r->q, h);
    sw_qseen_by_free(r);
    sw_relay_client_free(r->client);
    sw_list_unlink(&r->link);
    sw_slice_free(&r->url);
    sw_free(r);
}

/* Ours for this URL however it is written: a relay serves only the newest connection of a key. */
static struct sw_qrelay *find_relay(struct sw_quic *q, const struct sw_relay_url *u)
{
    SW_LIST_EACH (struct sw_qrelay, r, &q->relays, link) {
        struct sw_relay_url have;

        if (sw_relay_url_parse(r->url, &have, NULL) == SW_OK && sw_relay_url_same(&have, u))
            return r;
    }
    return NULL;
}

/* The token, if this is the relay it is for. Any other server that sees it could use the relay. */
static struct sw_slice token_for(struct sw_quic *q, struct sw_slice url,
                                 const struct sw_relay_url *u)
{
    bool its_relay = sw_relay_url_same_text(url, q->token_for);

    if (q->token.n == 0 || (its_relay && u->tls))
        return q->token;
    sw_log_warn("quic", "relay %.*s: token withheld: %s", SW_SLICE_ARG(sw_slice_head(url, 120)),
                its_relay ? "the URL is not https" : "the token is for another relay");
    count_refusal(q, SW_RELAY_REFUSED_TOKEN);
    return sw_slice("", 0);
}

static struct sw_qrelay *relay_get(struct sw_quic *q, struct sw_slice url, struct sw_err *err)
{
    struct sw_relay_client_config cfg = {.url = url,
                                         .key = q->cfg.key,
                                         .ca_file = q->ca_file,
                                         .sign_over_tls = q->cfg.relay_sign_over_tls,
                                         .ops = &relay_ops};
    struct sw_relay_url u;
    struct sw_qrelay *r;

    if (sw_relay_url_parse(url, &u, err) != SW_OK)
        return NULL;
    r = find_relay(q, &u);
    if (r)
        return r;
    r = SW_NEW(struct sw_qrelay);
    r->q = q;
    cfg.arg = r;
    cfg.token = token_for(q, url, &u);
    r->client = sw_relay_client_new(q->loop, &cfg, err);
    if (!r->client) {
        sw_free(r);
        return NULL;
    }
    r->url = sw_slice_copy(url);
    sw_list_push_back(&q->relays, &r->link);
    return r;
}

/* The home relay is the operator's choice; the callback knows the others. */
static bool allowed(struct sw_quic *q, struct sw_slice url, const struct sw_qrelay *have)
{
    return (have && have->home) || (q->cfg.relay_allowed && q->cfg.relay_allowed(q->cfg.arg, url));
}

struct sw_qrelay *sw_qrelay_of_peer(struct sw_quic *q, const struct sw_nodeid *peer,
                                    struct sw_slice url, struct sw_err *err)
{
    struct sw_relay_url u;
    char id[SW_NODEID_SHORT];

    if (sw_relay_url_parse(url, &u, err) != SW_OK)
        return NULL;
    if (allowed(q, url, find_relay(q, &u)))
        return relay_get(q, url, err);
    if (sw_qbucket_take(&q->limit.relay, sw_quic_now(q), RELAY_LINES_PER_S))
        sw_log_warn("quic", "relay %.*s of node %s refused: not on the list of allowed relays",
                    SW_SLICE_ARG(sw_slice_head(url, 120)), sw_nodeid_short(peer, id));
    count_refusal(q, SW_RELAY_REFUSED_LIST);
    (void)sw_err_set(err, SW_EDENIED, "relay '%s' is not on the list of allowed relays",
                     u.authority);
    return NULL;
}

static bool in_use(const struct sw_qrelay *r)
{
    SW_LIST_EACH (struct sw_qconn, c, &r->q->conns, link)
        if (sw_qpath_uses_relay(c, r))
            return true;
    return false;
}

void sw_qrelays_sweep(struct sw_quic *q, bool all)
{
    uint64_t now = sw_quic_now(q);

    SW_LIST_EACH (struct sw_qrelay, r, &q->relays, link) {
        /* A relay that was taken off the list is closed at once, even in use. */
        if (all || (!r->home && q->cfg.relay_allowed && !allowed(q, r->url, r)) ||
            (!r->home && now - sw_relay_client_last_used(r->client) > RELAY_IDLE_NS && !in_use(r)))
            relay_free(r);
    }
}

void sw_quic_set_home_relay(struct sw_quic *q, struct sw_slice url)
{
    struct sw_qrelay *r = NULL;
    struct sw_err err;

    if (url.n > 0) {
        r = relay_get(q, url, &err);
        if (!r)
            sw_log_warn("quic", "relay '%.*s': %s", SW_SLICE_ARG(url), err.msg);
    }
    SW_LIST_EACH (struct sw_qrelay, other, &q->relays, link)
        other->home = other == r;
}

/* ---- first packets that wait ---- */

/*
 * A peer that cannot change paths later (iroh's clients cannot, towards us) stays where its first
 * packet was accepted. A copy that came straight is better than the one by relay.
 */
static void release(struct sw_quic *q, struct sw_qheld *h)
{
    ngtcp2_version_cid vc;
    struct sw_qconn *c;

    sw_list_unlink(&h->link);
    q->held.n--;
    if (ngtcp2_pkt_decode_version_cid(&vc, h->p, h->n, QUIC_CID_LEN) == 0) {
        c = sw_qcid_find(q, vc.dcid, vc.dcidlen);
        if (c)
            sw_qconn_read(c, &h->route, h->ecn, h->p, h->n);
        else
            sw_quic_stranger(q, &h->route, h->ecn, h->p, h->n, true);
    }
    sw_free(h);
}

static void on_hold_timer(struct sw_timer *t)
{
    struct sw_quic *q = SW_CONTAINER_OF(t, struct sw_quic, held.timer);
    uint64_t now = sw_quic_now(q);
    struct sw_qheld *h;

    while ((h = SW_LIST_FIRST(&q->held.all, struct sw_qheld, link))) {
        if (h->due_ns > now) {
            sw_timer_start(q->loop, t, h->due_ns - now, on_hold_timer);
            break;
        }
        release(q, h);
    }
    sw_quic_wake(q);
}

bool sw_qrelay_hold(struct sw_quic *q, const struct sw_qroute *from, uint8_t ecn, const uint8_t *p,
                    size_t n)
{
    struct sw_qheld *h;

    if (q->held.n >= HELD_MAX)
        return false;
    h = sw_malloc(sizeof(*h) + n);
    *h = (struct sw_qheld){.route = *from, .due_ns = sw_quic_now(q) + HOLD_NS, .ecn = ecn, .n = n};
    memcpy(h->p, p, n);
    sw_list_push_back(&q->held.all, &h->link);
    q->held.n++;
    if (!sw_timer_running(&q->held.timer))
        sw_timer_start(q->loop, &q->held.timer, HOLD_NS, on_hold_timer);
    return true;
}

void sw_qrelay_unhold(struct sw_quic *q, const uint8_t *dcid, size_t n)
{
    SW_LIST_EACH (struct sw_qheld, h, &q->held.all, link) {
        ngtcp2_version_cid vc;

        if (ngtcp2_pkt_decode_version_cid(&vc, h->p, h->n, QUIC_CID_LEN) != 0 || vc.dcidlen != n ||
            memcmp(vc.dcid, dcid, n) != 0)
            continue;
        held_free(q, h);
    }
}

void sw_qrelay_held_done(struct sw_quic *q)
{
    SW_LIST_EACH (struct sw_qheld, h, &q->held.all, link)
        held_free(q, h);
    sw_timer_stop(q->loop, &q->held.timer);
}
