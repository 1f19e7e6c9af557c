/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Direct paths of a connection that runs through a relay. Both ends send each other their
 * candidates inside the connection; both probe all of these at once, which opens the NATs in front
 * of them; the dialling side migrates to the one that answers (path.c). A peer that never answers
 * the first message does not speak this protocol: nothing more is sent to it.
 */
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/time.h"
#include "quic/conn.h"
#include "quic/path_int.h"
#include "quic/path_places.h"
#include "quic/send.h"
#include "quic/wire/probe.h"

enum {
    SENDS_MAX = 6,               /* of a message that is not acknowledged */
    PATIENCE = 4,                /* of these until blind attempts begin: path.c */
    LISTS_PER_SECOND = 10,       /* of a peer: more are not looked at */
    PINGS_PER_SECOND = 100,      /* of a connection: a peer names the places */
    ALL_PINGS_PER_SECOND = 2000, /* of the endpoint */
    PONGS_PER_SECOND = 20,       /* to a place, and to all that are none yet together */
    SEEN_PINGS = 64,             /* a ping that was copied is not answered again */
};

#define TELL_NS    (200 * SW_NS_PER_MS) /* doubles */
#define AGAIN_NS   (100 * SW_NS_PER_MS) /* between pings that a ping caused */
#define PENALTY_NS (10 * SW_NS_PER_S)   /* pings came through, QUIC did not */
#define LOOK_NS    (15 * SW_NS_PER_S)   /* between looks for something better than a direct path */
#define SILENT_NS  SW_NS_PER_S          /* between looks while a direct path is silent */

static const uint16_t ping_at_ms[PLACE_PINGS + 1] = {0,   30,   60,   120,  250,
                                                     500, 1000, 2000, 4000, 5000};
static const uint8_t round_after_s[] = {5, 10, 20, 40, 60};

struct sw_qreach {
    struct sw_qconn *c; /* borrowed */
    struct sw_timer timer;
    uint8_t tag[PROBE_TAG]; /* key in q->reaches */
    uint8_t key[PROBE_KEY];
    uint32_t seq;   /* of our list */
    uint32_t acked; /* by the peer */
    uint8_t sends;
    uint64_t send_ns; /* UINT64_MAX: nothing to report */
    struct sw_qbucket lists;
    struct sw_qbucket pings;
    struct sw_qbucket strangers; /* pongs to where no place is known */
    uint64_t seen[SEEN_PINGS];   /* pings that were answered: the first bytes of their sums */
    size_t n_seen;
    struct sw_reach peer; /* as last received; seq 0: not yet */
    struct sw_qplaces places;
    uint64_t began_ns;
    uint64_t round_ns; /* next one, on the dialling side, while on the relay */
    uint8_t rounds;
    uint64_t look_ns; /* next one */
    uint64_t looked_ns;
    bool failed; /* logged that no direct path was found */
};

static void step(struct sw_qreach *r);

static void on_timer(struct sw_timer *t)
{
    step(SW_CONTAINER_OF(t, struct sw_qreach, timer));
}

static uint64_t now_ns(const struct sw_qreach *r)
{
    return sw_quic_now(r->c->q);
}

static bool by_relay(const struct sw_qreach *r)
{
    return sw_qconn_path(r->c) == SW_QPATH_RELAY;
}

/* ---- places ---- */

/* A peer may name any address: the filter of the endpoint decides. */
bool sw_qprobe_allowed(const struct sw_quic *q, const struct sw_addr *a)
{
    enum sw_addr_reach reach = sw_addr_reach(&a->ip);

    if (reach == SW_REACH_NONE || (reach == SW_REACH_HOST && !q->loopback))
        return false;
    return !q->cfg.probe_allowed || q->cfg.probe_allowed(q->cfg.arg, a);
}

static void name_places(struct sw_qreach *r)
{
    struct sw_qroute routes[SW_QUIC_ADDRS_MAX];
    size_t n = 0;

    for (size_t i = 0; i < r->peer.n; i++)
        n += sw_qprobe_allowed(r->c->q, &r->peer.addrs[i]) &&
             sw_qroute_direct(r->c->q, &r->peer.addrs[i], &routes[n]);
    sw_qplaces_name(&r->places, routes, n);
}

static void begin_round(struct sw_qreach *r)
{
    uint64_t now = now_ns(r);

    r->began_ns = now;
    for (size_t i = 0; i < r->places.n; i++)
        sw_qplace_begin(&r->places.at[i], now);
}

/* ---- telling the peer ---- */

static void tell(struct sw_qreach *r)
{
    struct sw_quic *q = r->c->q;
    struct sw_reach m = {.want = r->acked != r->seq, .seq = r->seq, .ack = r->peer.seq};
    uint8_t buf[REACH_MAX];

    memcpy(m.tag, r->tag, sizeof(m.tag));
    memcpy(m.key, r->key, sizeof(m.key));
    m.n = sw_quic_candidates(q, m.addrs);
    m.varies[0] = sw_quic_mapping_varies(q, 4);
    m.varies[1] = sw_quic_mapping_varies(q, 6);
    (void)!sw_qconn_datagram(r->c, buf, sw_reach_write(&m, buf)); /* lost: sent again */
}

/* A new number makes the peer probe, too. */
static void send_anew(struct sw_qreach *r)
{
    r->seq++;
    r->sends = 0;
    r->send_ns = now_ns(r);
}

static void send_if_due(struct sw_qreach *r)
{
    uint64_t now = now_ns(r);

    if (now < r->send_ns)
        return;
    if (r->acked == r->seq || r->sends >= SENDS_MAX) {
        r->send_ns = UINT64_MAX;
        return;
    }
    r->send_ns = now + (TELL_NS << r->sends);
    r->sends++;
    tell(r);
}

/* ---- probes ---- */

static void send_probe(struct sw_qreach *r, const struct sw_qroute *to, struct sw_probe *m)
{
    uint8_t buf[PROBE_LEN];

    memcpy(m->tag, r->peer.tag, sizeof(m->tag));
    sw_probe_write(m, r->peer.key, buf);
    (void)sw_qroute_send(r->c->q, to, 0, buf, sizeof(buf), sizeof(buf));
    r->c->q->stats.probes_sent++;
}

static void ping(struct sw_qreach *r, struct sw_qplace *k)
{
    struct sw_probe m = {.kind = SW_PROBE_PING};
    uint64_t now = now_ns(r);
    uint8_t i = (uint8_t)sw_min(k->sent, PLACE_PINGS - 1);

    memcpy(m.tx, k->tx, sizeof(m.tx));
    m.tx[PROBE_TX - 1] = i;
    k->sent_ns[i] = now;
    k->sent = (uint8_t)(i + 1);
    k->next_ns = k->sent < PLACE_PINGS
                     ? now + (uint64_t)(ping_at_ms[i + 1] - ping_at_ms[i]) * SW_NS_PER_MS
                     : UINT64_MAX;
    if (sw_qbucket_take(&r->pings, now, PINGS_PER_SECOND) &&
        sw_qbucket_take(&r->c->q->limit.ping, now, ALL_PINGS_PER_SECOND))
        send_probe(r, &k->route, &m);
}

static void ping_if_due(struct sw_qreach *r)
{
    uint64_t now = now_ns(r);

    for (size_t i = 0; i < r->places.n; i++) {
        struct sw_qplace *k = &r->places.at[i];

        /* One that answered needs no more of them: the connection takes over. */
        if (k->sent > 1 && k->rtt_ns && now - k->heard_ns < PLACE_FRESH_NS)
            k->next_ns = UINT64_MAX;
        if (now >= k->next_ns)
            ping(r, k);
    }
}

/* The peer's packets come from there: so may ours go. */
static void ping_back(struct sw_qreach *r, struct sw_qplace *k, const struct sw_qroute *from)
{
    uint64_t now = now_ns(r);

    if (!k)
        (void)sw_qplaces_learn(&r->places, from, now);
    else if (k->next_ns == UINT64_MAX && now - k->heard_ns > PLACE_FRESH_NS &&
             now - k->sent_ns[k->sent ? k->sent - 1 : 0] > AGAIN_NS)
        sw_qplace_begin(k, now); /* one that was sent before would count as a copy */
}

/* An observer of pings can replay them, from any address. p: the bytes. */
static bool is_copy(struct sw_qreach *r, const uint8_t *p)
{
    uint64_t sum;

    memcpy(&sum, p + PROBE_LEN - sizeof(sum), sizeof(sum));
    for (size_t i = 0; i < sw_min(r->n_seen, SEEN_PINGS); i++)
        if (r->seen[i] == sum)
            return true;
    r->seen[r->n_seen++ % SEEN_PINGS] = sum;
    return false;
}

/* Nothing goes where we would not send by ourselves, nor faster than the peer asks for. */
static bool may_answer(struct sw_qreach *r, struct sw_qplace *k, const struct sw_qroute *to,
                       const uint8_t *p)
{
    struct sw_quic *q = r->c->q;
    uint64_t now = now_ns(r);

    return sw_qprobe_allowed(q, &to->remote) && !is_copy(r, p) &&
           sw_qbucket_take(k ? &k->pongs : &r->strangers, now, PONGS_PER_SECOND) &&
           sw_qbucket_take(&q->limit.pong, now, ALL_PINGS_PER_SECOND);
}

static void on_ping(struct sw_qreach *r, const struct sw_qroute *from, const struct sw_probe *m,
                    const uint8_t *p)
{
    struct sw_probe answer = {.kind = SW_PROBE_PONG, .seen = from->remote};
    struct sw_qplace *k = sw_qplaces_find(&r->places, from);

    if (!may_answer(r, k, from, p)) {
        r->c->q->stats.probes_dropped++;
        return;
    }
    memcpy(answer.tx, m->tx, sizeof(answer.tx));
    send_probe(r, from, &answer);
    ping_back(r, k, from);
    step(r);
}

static void on_pong(struct sw_qreach *r, const struct sw_qroute *from, const struct sw_probe *m)
{
    struct sw_qplace *k = sw_qplaces_find(&r->places, from);

    if (k && sw_qplace_answered(k, m->tx, now_ns(r)))
        sw_qconn_touch(r->c); /* path.c looks at it */
}

bool sw_qreach_probe(struct sw_quic *q, const struct sw_qroute *from, const struct sw_probe *m,
                     const uint8_t *p)
{
    struct sw_qreach *r = sw_map_get(&q->reaches, sw_slice(m->tag, sizeof(m->tag)));

    if (!r || !sw_probe_genuine(p, r->key))
        return false;
    if (m->kind == SW_PROBE_PONG)
        on_pong(r, from, m);
    else if (r->peer.seq)
        on_ping(r, from, m, p);
    return true;
}

/* ---- the course of things ---- */

static bool any_answers(const struct sw_qreach *r)
{
    for (size_t i = 0; i < r->places.n; i++)
        if (r->places.at[i].rtt_ns)
            return true;
    return false;
}

/* The end of a round. */
static uint64_t over_ns(const struct sw_qreach *r)
{
    return r->began_ns + ping_at_ms[PLACE_PINGS] * SW_NS_PER_MS;
}

/* Logged once a connection, for operators who wonder why traffic stays on the relay. */
static void log_failed(struct sw_qreach *r)
{
    char id[SW_NODEID_SHORT];

    if (r->failed || !r->peer.seq || now_ns(r) < over_ns(r) || any_answers(r) || !by_relay(r))
        return;
    r->failed = true;
    r->c->q->stats.direct_failed++;
    if (r->c->dialled)
        sw_log_info("quic", "node %s: no direct path, staying on the relay: %s",
                    sw_nodeid_short(&r->c->peer, id), sw_qconn_path_note(r->c));
}

static void next_round_if_due(struct sw_qreach *r)
{
    uint64_t now = now_ns(r);
    size_t i = sw_min(r->rounds, SW_ARRAY_LEN(round_after_s) - 1);

    if (!r->c->dialled || !r->peer.seq || now < r->round_ns)
        return;
    r->round_ns = now + round_after_s[i] * SW_NS_PER_S;
    if (!by_relay(r))
        return;
    if (r->rounds < UINT8_MAX)
        r->rounds++;
    send_anew(r);
    begin_round(r);
}

/* One ping to each place. */
static void look(struct sw_qreach *r)
{
    uint64_t now = now_ns(r);

    r->looked_ns = now;
    for (size_t i = 0; i < r->places.n; i++) {
        struct sw_qplace *k = &r->places.at[i];

        sw_qplace_begin(k, now);
        ping(r, k);
        k->next_ns = UINT64_MAX;
    }
}

/* On a direct path: whether another one has become faster. */
static void look_if_due(struct sw_qreach *r)
{
    uint64_t now = now_ns(r);

    if (!r->c->dialled || !r->peer.seq || now < r->look_ns)
        return;
    r->look_ns = now + LOOK_NS;
    if (sw_qconn_path(r->c) == SW_QPATH_DIRECT && r->places.n > 1)
        look(r);
}

static uint64_t next_due(const struct sw_qreach *r)
{
    uint64_t due = r->send_ns;

    for (size_t i = 0; i < r->places.n; i++)
        due = sw_min(due, r->places.at[i].next_ns);
    if (r->peer.seq && r->c->dialled)
        due = sw_min(due, by_relay(r) ? r->round_ns : r->look_ns);
    if (r->peer.seq && !r->failed && by_relay(r) && over_ns(r) > now_ns(r))
        due = sw_min(due, over_ns(r));
    return due;
}

static void step(struct sw_qreach *r)
{
    uint64_t now = now_ns(r);
    uint64_t due;

    if (!r->c->nc || r->c->end.closing)
        return;
    log_failed(r);
    next_round_if_due(r);
    look_if_due(r);
    send_if_due(r);
    if (r->peer.seq)
        ping_if_due(r);
    due = next_due(r);
    if (due == UINT64_MAX)
        sw_timer_stop(r->c->q->loop, &r->timer);
    else
        sw_timer_start(r->c->q->loop, &r->timer, due > now ? due - now : 0, on_timer);
}

/* ---- begin and end ---- */

static void reach_new(struct sw_qconn *c)
{
    struct sw_qreach *r = SW_NEW(struct sw_qreach);

    r->c = c;
    c->reach = r;
    r->send_ns = UINT64_MAX;
    sw_rand_bytes(r->key, sizeof(r->key));
    do
        sw_rand_bytes(r->tag, sizeof(r->tag));
    while (sw_map_get(&c->q->reaches, sw_slice(r->tag, sizeof(r->tag))));
    (void)sw_map_put(&c->q->reaches, sw_slice(r->tag, sizeof(r->tag)), r);
}

void sw_qreach_free(struct sw_qconn *c)
{
    struct sw_qreach *r = c->reach;

    if (!r)
        return;
    c->reach = NULL;
    sw_timer_stop(c->q->loop, &r->timer);
    (void)sw_map_del(&c->q->reaches, sw_slice(r->tag, sizeof(r->tag)));
    sw_free_secret(r, sizeof(*r));
}

void sw_qreach_start(struct sw_qconn *c)
{
    if (c->reach || !c->dialled || c->q->cfg.no_probes || sw_qconn_datagram_max(c) < REACH_MAX)
        return;
    reach_new(c);
    send_anew(c->reach);
    step(c->reach);
}

void sw_qreach_restart(struct sw_qconn *c)
{
    struct sw_qreach *r = c->reach;

    if (!r || (!r->peer.seq && r->sends >= SENDS_MAX))
        return;
    r->rounds = 0;
    r->round_ns = now_ns(r) + round_after_s[0] * SW_NS_PER_S;
    for (size_t i = 0; i < r->places.n; i++)
        r->places.at[i].rtt_ns = 0; /* what answered before may be as dead as the rest */
    send_anew(r);
    begin_round(r);
    step(r);
}

bool sw_qreach_datagram(struct sw_qconn *c, const uint8_t *p, size_t n)
{
    struct sw_qreach *r;
    struct sw_reach m;
    struct sw_err err;
    bool fresh;

    if (c->q->cfg.no_probes || !sw_reach_is(p, n))
        return false;
    if (sw_reach_read(p, n, &m, &err) != SW_OK) {
        sw_log_debug("quic", "list of addresses refused: %s", err.msg);
        c->q->stats.probes_dropped++;
        return true;
    }
    if (!c->reach && c->dialled)
        return true; /* unsolicited: we sent no candidates */
    if (!c->reach) {
        reach_new(c);
        c->reach->seq = 1;
    }
    r = c->reach;
    if (memcmp(m.tag, r->tag, sizeof(m.tag)) == 0)
        return true; /* an echo of ours */
    if (!sw_qbucket_take(&r->lists, now_ns(r), LISTS_PER_SECOND)) {
        c->q->stats.probes_dropped++;
        return true;
    }
    fresh = m.seq != r->peer.seq;
    r->acked = m.ack;
    r->peer = m;
    if (fresh) {
        name_places(r);
        begin_round(r);
        if (r->rounds == 0)
            r->round_ns = now_ns(r) + round_after_s[0] * SW_NS_PER_S;
    }
    if (m.want)
        tell(r);
    if (r->acked != r->seq && r->send_ns == UINT64_MAX) {
        r->sends = 0;
        r->send_ns = now_ns(r) + TELL_NS;
    }
    step(r);
    return true;
}

/* ---- for path.c ---- */

bool sw_qreach_pending(const struct sw_qconn *c)
{
    return c->reach && !c->reach->peer.seq && c->reach->sends < PATIENCE;
}

bool sw_qreach_known(const struct sw_qconn *c)
{
    return c->reach && c->reach->peer.seq;
}

void sw_qreach_silent(struct sw_qconn *c)
{
    struct sw_qreach *r = c->reach;

    if (sw_qreach_known(c) && now_ns(r) - r->looked_ns > SILENT_NS)
        look(r);
}

bool sw_qreach_best(struct sw_qconn *c, const struct sw_qroute *now, bool urgent,
                    struct sw_qroute *ret)
{
    struct sw_qplaces_now at = {
        .on = now, .urgent = urgent, .heard_ns = c->heard.at_ns, .now_ns = sw_quic_now(c->q)};
    const struct sw_qroute *best = c->reach ? sw_qplaces_best(&c->reach->places, &at) : NULL;

    if (best)
        *ret = *best;
    return best != NULL;
}

void sw_qreach_outcome(struct sw_qconn *c, const struct sw_qroute *at, bool ok)
{
    struct sw_qreach *r = c->reach;
    struct sw_qplace *k = r ? sw_qplaces_find(&r->places, at) : NULL;

    if (!k)
        return;
    if (!ok) {
        k->barred_ns = now_ns(r) + PENALTY_NS;
        return;
    }
    r->c->q->stats.direct_found++;
    r->failed = false;
    r->rounds = 0;
    r->look_ns = now_ns(r) + LOOK_NS;
    step(r);
}

const char *sw_qconn_path_note(const struct sw_qconn *c)
{
    const struct sw_qreach *r = c->reach;
    bool ours;
    bool theirs;

    if (!r || !by_relay(r) || !r->failed)
        return "";
    if (r->places.n == 0)
        return "the peer names no address that may be probed";
    ours = sw_quic_mapping_varies(c->q, 4) || sw_quic_mapping_varies(c->q, 6);
    theirs = r->peer.varies[0] || r->peer.varies[1];
    if (ours || theirs)
        return ours && theirs ? "both NATs are symmetric"
               : ours         ? "our NAT is symmetric, and the peer's lets only answers in"
                              : "the peer's NAT is symmetric, and ours lets only answers in";
    return "no address of the peer answers probes";
}
