/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Before a dial: a node behind a NAT sends small datagrams to the gateways that may dial it, at the
 * pace NATs need to keep a mapping. That lets the gateways' packets in, and the answers carry the
 * address the NAT made of ours. Gateways answer every node that knows their NodeID, with as many
 * bytes as the question had and nothing but the sender's own address.
 */
#include <string.h>

#include "base/mem.h"
#include "base/rand.h"
#include "base/time.h"
#include "quic/conn.h"
#include "quic/path_int.h"
#include "quic/send.h"
#include "quic/wire/probe.h"

enum {
    SEEN_MAX = 4, /* observed by relays */
    ANSWERS_PER_SECOND = 5000,
    ASKS_PER_SECOND = 100, /* writers of annotations choose the addresses and the rate of changes */
    NEWS_PER_SECOND = 10,  /* relays and gateways report addresses at any rate, too */
    QUICK = 4,             /* questions in a row before the pace of the NAT */
};

#define QUICK_NS (500 * SW_NS_PER_MS) /* doubles */
/* Mappings without an answer end after 30 s with many routers, and a datagram may be lost. */
#define PACE_NS  (12 * SW_NS_PER_S)
#define STALE_NS (60 * SW_NS_PER_S)

struct opening {
    struct sw_quic_place to;
    struct sw_qroute route;
    uint8_t key[PROBE_KEY];
    uint8_t tx[PROBE_TX];
    uint64_t next_ns;
    bool waiting; /* for the answer: a second one is not looked at */
    uint8_t unanswered;
    struct sw_addr seen; /* family 0: not reported */
    uint64_t seen_ns;
};

struct seen {
    struct sw_addr by;
    struct sw_addr at;
};

struct sw_qopenings {
    struct sw_quic *q;
    struct sw_timer timer;
    uint8_t key[PROBE_KEY]; /* for questions to us */
    struct sw_qbucket answers;
    struct sw_qbucket asks;
    struct sw_qbucket news;
    struct sw_timer later; /* news that wait */
    bool mapped;           /* they are of what others see */
    struct opening o[SW_QUIC_PLACES_MAX];
    size_t n;
    struct seen seen[SEEN_MAX];
    size_t n_seen;
    struct sw_addr_list own;
};

struct sw_qopenings *sw_qopenings_new(struct sw_quic *q)
{
    struct sw_qopenings *s = SW_NEW(struct sw_qopenings);

    s->q = q;
    sw_probe_ask_key(sw_rawkey_id(q->cfg.key), s->key);
    return s;
}

void sw_qopenings_free(struct sw_qopenings *s)
{
    if (!s)
        return;
    sw_timer_stop(s->q->loop, &s->timer);
    sw_timer_stop(s->q->loop, &s->later);
    sw_free(s);
}

/* ---- our own addresses ---- */

static size_t push(struct sw_addr *list, size_t n, size_t max, const struct sw_addr *a)
{
    if (!a->ip.family || n == max || sw_addr_among(list, n, a))
        return n;
    list[n] = *a;
    return n + 1;
}

size_t sw_quic_mapped(const struct sw_quic *q, struct sw_addr ret[SW_QUIC_MAPPED_MAX])
{
    const struct sw_qopenings *s = q->openings;
    uint64_t now = sw_quic_now(q);
    size_t n = 0;

    for (size_t i = 0; i < s->n_seen; i++)
        n = push(ret, n, SW_QUIC_MAPPED_MAX, &s->seen[i].at);
    for (size_t i = 0; i < s->n; i++)
        if (now - s->o[i].seen_ns < STALE_NS)
            n = push(ret, n, SW_QUIC_MAPPED_MAX, &s->o[i].seen);
    return n;
}

size_t sw_quic_candidates(const struct sw_quic *q, struct sw_addr ret[SW_QUIC_ADDRS_MAX])
{
    const struct sw_qopenings *s = q->openings;
    struct sw_addr mapped[SW_QUIC_MAPPED_MAX];
    size_t n_mapped = sw_quic_mapped(q, mapped);
    size_t n = 0;

    for (size_t i = 0; i < n_mapped; i++)
        n = push(ret, n, SW_QUIC_ADDRS_MAX, &mapped[i]);
    for (size_t i = 0; i < s->own.n; i++)
        n = push(ret, n, SW_QUIC_ADDRS_MAX, &s->own.a[i]);
    return n;
}

bool sw_quic_mapping_varies(const struct sw_quic *q, uint8_t family)
{
    struct sw_addr mapped[SW_QUIC_MAPPED_MAX];
    size_t n = sw_quic_mapped(q, mapped);
    const struct sw_addr *first = NULL;

    for (size_t i = 0; i < n; i++) {
        if (mapped[i].ip.family != family)
            continue;
        /* A gateway in our own network sees our own address: another one, but not mapped. */
        if (first && sw_ip_eq(&first->ip, &mapped[i].ip) && first->port != mapped[i].port)
            return true;
        first = &mapped[i];
    }
    return false;
}

/* Sends the new candidates to the peers of all connections. */
static void spread(struct sw_qopenings *s)
{
    struct sw_quic *q = s->q;
    bool mapped = s->mapped;

    s->mapped = false;
    SW_LIST_EACH (struct sw_qconn, c, &q->conns, link)
        sw_qreach_restart(c);
    if (mapped && q->cfg.mapped)
        q->cfg.mapped(q->cfg.arg);
}

static void on_later(struct sw_timer *t)
{
    spread(SW_CONTAINER_OF(t, struct sw_qopenings, later));
}

/* At once, but frequent changes are sent once a second. */
static void changed(struct sw_quic *q, bool mapped)
{
    struct sw_qopenings *s = q->openings;

    s->mapped = s->mapped || mapped;
    if (sw_timer_running(&s->later))
        return;
    if (sw_qbucket_take(&s->news, sw_quic_now(q), NEWS_PER_SECOND))
        spread(s);
    else
        sw_timer_start(q->loop, &s->later, SW_NS_PER_S, on_later);
}

void sw_quic_set_candidates(struct sw_quic *q, const struct sw_addr *addrs, size_t n)
{
    struct sw_qopenings *s = q->openings;
    struct sw_addr_list before = s->own;

    s->own.n = 0;
    q->loopback = false;
    for (size_t i = 0; i < n; i++) {
        s->own.n = push(s->own.a, s->own.n, SW_QUIC_ADDRS_MAX, &addrs[i]);
        q->loopback = q->loopback || sw_ip_is_loopback(&addrs[i].ip);
    }
    if (!sw_addr_list_equal(&before, &s->own))
        changed(q, false);
}

void sw_quic_observed(struct sw_quic *q, const struct sw_addr *by, const struct sw_addr *at)
{
    struct sw_qopenings *s = q->openings;
    size_t i = 0;

    while (i < s->n_seen && !sw_addr_eq(&s->seen[i].by, by))
        i++;
    if (i == SEEN_MAX || (i < s->n_seen && sw_addr_eq(&s->seen[i].at, at)))
        return;
    if (!at->ip.family) {
        if (i < s->n_seen)
            s->seen[i] = s->seen[--s->n_seen];
        return;
    }
    s->seen[i] = (struct seen){*by, *at};
    s->n_seen = sw_max(s->n_seen, i + 1);
    changed(q, true);
}

/* ---- asking ---- */

static void on_timer(struct sw_timer *t);

static void ask(struct sw_qopenings *s, struct opening *o, uint64_t now)
{
    struct sw_probe m = {.kind = SW_PROBE_ASK};
    uint8_t buf[PROBE_LEN];

    if (!sw_qbucket_take(&s->asks, now, ASKS_PER_SECOND)) {
        o->next_ns = now + SW_NS_PER_S;
        return;
    }
    sw_rand_bytes(o->tx, sizeof(o->tx));
    memcpy(m.tx, o->tx, sizeof(m.tx));
    sw_probe_write(&m, o->key, buf);
    (void)sw_qroute_send(s->q, &o->route, 0, buf, sizeof(buf), sizeof(buf));
    s->q->stats.probes_sent++;
    o->waiting = true;
    o->next_ns = now + (o->unanswered < QUICK ? QUICK_NS << o->unanswered : PACE_NS);
    if (o->unanswered < UINT8_MAX)
        o->unanswered++;
}

static void ask_if_due(struct sw_qopenings *s)
{
    uint64_t now = sw_quic_now(s->q);
    uint64_t due = UINT64_MAX;

    for (size_t i = 0; i < s->n; i++) {
        if (now >= s->o[i].next_ns)
            ask(s, &s->o[i], now);
        due = sw_min(due, s->o[i].next_ns);
    }
    if (due == UINT64_MAX)
        sw_timer_stop(s->q->loop, &s->timer);
    else
        sw_timer_start(s->q->loop, &s->timer, due - now, on_timer);
}

static void on_timer(struct sw_timer *t)
{
    ask_if_due(SW_CONTAINER_OF(t, struct sw_qopenings, timer));
}

static const struct opening *find_place(const struct opening *list, size_t n,
                                        const struct sw_quic_place *p)
{
    for (size_t i = 0; i < n; i++)
        if (sw_nodeid_eq(&list[i].to.id, &p->id) && sw_addr_eq(&list[i].to.addr, &p->addr))
            return &list[i];
    return NULL;
}

void sw_quic_set_openings(struct sw_quic *q, const struct sw_quic_place *places, size_t n)
{
    struct sw_qopenings *s = q->openings;
    struct opening now[SW_QUIC_PLACES_MAX];
    size_t k = 0;

    for (size_t i = 0; i < n && k < SW_QUIC_PLACES_MAX; i++) {
        const struct opening *had = find_place(s->o, s->n, &places[i]);
        enum sw_addr_reach reach = sw_addr_reach(&places[i].addr.ip);

        if (find_place(now, k, &places[i]) || reach == SW_REACH_NONE ||
            (reach == SW_REACH_HOST && !q->loopback))
            continue;
        now[k] = had ? *had : (struct opening){.to = places[i], .next_ns = sw_quic_now(q)};
        sw_probe_ask_key(&places[i].id, now[k].key);
        k += sw_qroute_direct(q, &places[i].addr, &now[k].route);
    }
    memcpy(s->o, now, k * sizeof(*now));
    s->n = k;
    ask_if_due(s);
}

void sw_qopenings_network_changed(struct sw_quic *q)
{
    struct sw_qopenings *s = q->openings;

    s->n_seen = 0;
    for (size_t i = 0; i < s->n; i++) {
        s->o[i].seen = (struct sw_addr){0};
        s->o[i].unanswered = 0;
        s->o[i].next_ns = sw_quic_now(q);
    }
    ask_if_due(s);
}

/* ---- datagrams that came ---- */

static void on_ask(struct sw_qopenings *s, const struct sw_qroute *from, const struct sw_probe *m)
{
    struct sw_probe answer = {.kind = SW_PROBE_TOLD, .seen = from->remote};
    uint8_t buf[PROBE_LEN];

    if (!sw_qbucket_take(&s->answers, sw_quic_now(s->q), ANSWERS_PER_SECOND)) {
        s->q->stats.probes_dropped++;
        return;
    }
    memcpy(answer.tx, m->tx, sizeof(answer.tx));
    sw_probe_write(&answer, s->key, buf);
    (void)sw_qroute_send(s->q, from, 0, buf, sizeof(buf), sizeof(buf));
    s->q->stats.probes_sent++;
}

static bool on_observed(struct sw_qopenings *s, const struct sw_qroute *from,
                        const struct sw_probe *m, const uint8_t *p)
{
    uint64_t now = sw_quic_now(s->q);

    for (size_t i = 0; i < s->n; i++) {
        struct opening *o = &s->o[i];
        bool news;

        if (!o->waiting || !sw_qroute_eq(&o->route, from) ||
            memcmp(o->tx, m->tx, sizeof(o->tx)) != 0 || !sw_probe_genuine(p, o->key))
            continue;
        o->waiting = false;
        news = !sw_addr_eq(&o->seen, &m->seen) || now - o->seen_ns >= STALE_NS;
        o->seen = m->seen;
        o->seen_ns = now;
        o->unanswered = 0;
        o->next_ns = now + PACE_NS;
        if (news)
            changed(s->q, true);
        return true;
    }
    return false;
}

bool sw_quic_probe(struct sw_quic *q, const struct sw_qroute *from, const uint8_t *p, size_t n)
{
    struct sw_qopenings *s = q->openings;
    bool genuine = false;
    struct sw_probe m;

    if (from->relay || q->cfg.no_probes || sw_probe_read(p, n, &m, NULL) != SW_OK)
        return false;
    switch (m.kind) {
    case SW_PROBE_PING:
    case SW_PROBE_PONG:
        genuine = sw_qreach_probe(q, from, &m, p);
        break;
    case SW_PROBE_ASK:
        genuine = q->cfg.answer_asks && sw_probe_genuine(p, s->key);
        if (genuine)
            on_ask(s, from, &m);
        break;
    case SW_PROBE_TOLD:
        genuine = on_observed(s, from, &m, p);
        break;
    }
    q->stats.probes_received += genuine;
    q->stats.probes_dropped += !genuine;
    return genuine;
}
