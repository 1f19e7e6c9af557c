/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The paths of a connection (table.c), and which is taken. A dial sends everywhere until the
 * first answer; a connection on a relay keeps trying direct addresses, one on a direct path that
 * falls silent goes back to the relay. Only the dialling side can migrate (RFC 9000, 9); an
 * accepted connection follows its peer.
 */
#include <ngtcp2/ngtcp2.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "quic/conn.h"
#include "quic/path_int.h"
#include "quic/renew.h"
#include "quic/send.h"

#define TRYING_NS (5 * SW_NS_PER_S)
#define ANSWER_NS (1500 * SW_NS_PER_MS)
#define STRAY_NS  (2 * SW_NS_PER_S) /* between two: each costs a connection ID */

enum { PTOS_BEFORE_MOVE = 1, PTOS_BEFORE_FALLBACK = 3 };

static bool same_host(const struct sw_qroute *a, const struct sw_qroute *b)
{
    return !a->relay && !b->relay && sw_ip_eq(&a->remote.ip, &b->remote.ip);
}

static bool loopback(const struct sw_qroute *r)
{
    return !r->relay && sw_ip_is_loopback(&r->remote.ip);
}

/* ---- incoming ---- */

static bool is_candidate(const struct sw_qroutes *d, const struct sw_qroute *r)
{
    for (size_t i = 0; i < d->n; i++)
        if (sw_qroute_eq(&d->route[i], r))
            return true;
    return false;
}

/*
 * A peer behind a NAT that got another address, or forgot its flows: its packets come from
 * elsewhere, and ours do not arrive. Their source is tried like any other path: an attacker that
 * only copied a packet cannot answer there.
 */
static void note_stray(struct sw_qconn *c, const struct sw_qroute *from)
{
    const struct sw_qpathent *p = sw_qpath_get(c, c->paths.now);
    uint64_t now = sw_quic_now(c->q);

    if (!c->shake.told || from->relay || (c->jumbo && !loopback(from)) ||
        now - c->heard.at_ns < SW_NS_PER_S || now < c->dial->stray_at_ns)
        return;
    /* The packet proves nothing yet: it does not lead to where our own probes may not go. */
    if (!(p && same_host(&p->route, from)) && !sw_qprobe_allowed(c->q, &from->remote)) {
        c->q->stats.probes_dropped++;
        return;
    }
    c->dial->stray = *from;
    c->dial->stray.local = (struct sw_ip){0};
    c->dial->stray_ns = now;
    sw_qconn_touch(c);
}

struct sw_qpathent *sw_qpath_enter(struct sw_qconn *c, const struct sw_qroute *from)
{
    struct sw_qpathent *p;

    /* A dial has one path until it is decided which route it is. */
    if (c->dial && c->dial->racing)
        return is_candidate(c->dial, from) ? sw_qpath_get(c, c->paths.now) : NULL;
    p = sw_qpath_of(c, from, false);
    if (p && !c->dial)
        p->route.local = from->local;
    /*
     * The dialling side decides the paths: a stray packet, above all one that comes by a relay that
     * was left, may carry a stateless reset for an ID that was retired with that path.
     */
    if (p)
        return p;
    /*
     * Late packets of a way that was left are as good as others when the peer is one of ours.
     * Resets of such a way do not come here: see sw_quic_stranger.
     */
    if (c->dial && sw_qreach_known(c) && is_candidate(c->dial, from))
        return sw_qpath_get(c, c->paths.now);
    if (c->dial) {
        note_stray(c, from);
        return NULL;
    }
    /* Copies of a dial's first packets come from everywhere; the first one decided. */
    if (!c->shake.told || (c->jumbo && !loopback(from)) || sw_qpath_exhausted(c))
        return NULL;
    return sw_qpath_add(c, from);
}

/* The first authenticated answer ends the race; its route is the path from then on. */
void sw_qpath_race_won(struct sw_qconn *c, const struct sw_qroute *by)
{
    struct sw_qpathent *p = sw_qpath_get(c, c->paths.now);

    if (!c->dial || !c->dial->racing || !p)
        return;
    c->dial->racing = false;
    sw_free(c->dial->flight);
    c->dial->flight = NULL;
    p->route = *by;
    p->route.local = (struct sw_ip){0};
}

void sw_qpath_repeat(struct sw_qconn *c, struct sw_qrelay *r)
{
    struct sw_qroutes *d = c->dial;

    if (!d || !d->racing || !d->flight)
        return;
    for (size_t i = 0; i < d->n; i++)
        if (d->route[i].relay == r)
            (void)sw_qroute_send(c->q, &d->route[i], 0, d->flight, d->flight_n, d->flight_segment);
}

/* ---- moving ---- */

static bool on_relay(const struct sw_qconn *c)
{
    const struct sw_qpathent *p = sw_qpath_now(c);

    return p && p->route.relay;
}

bool sw_qpath_relay_down(const struct sw_qconn *c)
{
    return on_relay(c) && !sw_qpath_now(c)->route.relay->up;
}

/* The first route of the dial by a relay, or of those without one; NULL: there is none. */
static const struct sw_qroute *first_route(const struct sw_qroutes *d, bool by_relay)
{
    for (size_t i = 0; i < d->n; i++)
        if ((d->route[i].relay != NULL) == by_relay)
            return &d->route[i];
    return NULL;
}

/* When another direct address is worth a try: quickly at first, then ever more seldom. */
static uint64_t next_try_ns(const struct sw_qroutes *d)
{
    static const uint8_t seconds[] = {0, 0, 1, 1, 2, 5, 10, 30};
    size_t i = sw_min(d->tries, SW_ARRAY_LEN(seconds) - 1);

    return seconds[i] * SW_NS_PER_S;
}

/* Starts to validate a path over r: 0, or why not (ngtcp2's number). */
static int start_route(struct sw_qconn *c, const struct sw_qroute *r, bool at_once)
{
    struct sw_qpathent *p;
    ngtcp2_path_storage ps;
    int rc;

    /* Always a path of its own: the local address must differ from the present one. */
    p = sw_qpath_add(c, r);
    sw_qpath_fill(p, &ps);
    rc = at_once ? ngtcp2_conn_initiate_immediate_migration(c->nc, &ps.path, sw_quic_now(c->q))
                 : ngtcp2_conn_initiate_migration(c->nc, &ps.path, sw_quic_now(c->q));
    if (rc != 0) {
        sw_log_debug("quic", "cannot change paths now: %s", ngtcp2_strerror(rc));
        p->id = 0;
        return rc;
    }
    if (at_once) {
        c->paths.now = p->id;
        c->dial->proving = p->id;
        c->dial->proving_ns = sw_quic_now(c->q);
        sw_qrenew_moved(c);
    } else {
        c->dial->trying = p->id;
        c->dial->trying_ns = sw_quic_now(c->q);
    }
    sw_qconn_touch(c);
    return 0;
}

static bool try_route(struct sw_qconn *c, const struct sw_qroute *r, bool at_once)
{
    return start_route(c, r, at_once) == 0;
}

static void try_direct(struct sw_qconn *c)
{
    struct sw_qroutes *d = c->dial;
    uint64_t now = sw_quic_now(c->q);

    for (size_t i = 0; i < d->n; i++) {
        const struct sw_qroute *r = &d->route[d->next];

        d->next = (uint8_t)((d->next + 1) % d->n);
        if (r->relay || (c->jumbo && !loopback(r)))
            continue;
        if (d->tries < UINT8_MAX)
            d->tries++;
        (void)try_route(c, r, false);
        break;
    }
    d->retry_at_ns = now + next_try_ns(d);
}

/* Every attempt costs one of the IDs that the peer gave, and in a silence it gives no new ones. */
static uint64_t relay_pause_ns(const struct sw_qroutes *d)
{
    return (uint64_t)(d->relay_tries + 2) * SW_NS_PER_S;
}

/*
 * No connection ID is left, and a path that is silent brings no new ones: the present path
 * continues over the relay, under its ID. The peer takes that for a NAT that gave us another
 * address.
 */
static void divert(struct sw_qconn *c, const struct sw_qroute *relay)
{
    struct sw_qpathent *p = sw_qpath_get(c, c->paths.now);

    if (!p)
        return;
    p->route = *relay;
    c->paths.renewed = 0;
    c->paths.told = 0;
    c->renew.tainted = true;
    sw_qconn_touch(c);
}

static bool try_relay(struct sw_qconn *c)
{
    struct sw_qroutes *d = c->dial;
    const struct sw_qroute *r = first_route(d, true);
    int rc;

    if (!r || sw_quic_now(c->q) < d->relay_at_ns)
        return false;
    d->relay_at_ns = sw_quic_now(c->q) + relay_pause_ns(d);
    if (d->relay_tries < UINT8_MAX)
        d->relay_tries++;
    rc = start_route(c, r, false);
    if (rc == NGTCP2_ERR_CONN_ID_BLOCKED && r->relay->up)
        divert(c, r);
    return rc == 0 || rc == NGTCP2_ERR_CONN_ID_BLOCKED;
}

/*
 * When a direct path counts as silent though no probe timeout says so: keep-alives that go out more
 * often than the timeout start it anew each time. One of them has had its time to be answered. An
 * idle connection sends them so seldom that the path is long without packets when a stream opens:
 * the first one is due then.
 */
static uint64_t silent_at(const struct sw_qconn *c)
{
    return sw_max(c->heard.at_ns + c->keepalive_ns, c->keepalive_at_ns) + ANSWER_NS;
}

/*
 * While a stream is open silence must be noticed quickly: a side that only reads sends nothing
 * whose acknowledgement could be missed.
 */
static void choose_keepalive(struct sw_qconn *c)
{
    uint64_t ns = c->q->cfg.keepalive_ns;

    if (c->dial && c->streams.n > 0)
        ns = sw_min(ns, SW_NS_PER_S);
    if (ns == c->keepalive_ns)
        return;
    if (ns < c->keepalive_ns && sw_quic_now(c->q) < silent_at(c))
        c->keepalive_at_ns = sw_quic_now(c->q);
    c->keepalive_ns = ns;
    ngtcp2_conn_set_keep_alive_timeout(c->nc, ns);
}

/* When the next address is tried without knowing whether it answers: UINT64_MAX: not so. */
static uint64_t blind_due(const struct sw_qconn *c)
{
    return first_route(c->dial, false) && !sw_qreach_pending(c) && !sw_qreach_known(c)
               ? c->dial->retry_at_ns
               : UINT64_MAX;
}

/*
 * Our network changed under a direct path: the peer should not have to find out by itself where our
 * packets come from now. One such move at a time, and when no connection ID is left, as soon as the
 * peer gives one: every packet of it leads here.
 */
static void move_anew(struct sw_qconn *c)
{
    const struct sw_qpathent *p = sw_qpath_get(c, c->paths.now);
    struct sw_qroutes *d = c->dial;
    struct sw_qroute r;

    if (!p || !d->anew)
        return;
    r = p->route;
    if (d->proving && sw_quic_now(c->q) - d->proving_ns > TRYING_NS)
        d->proving = 0;
    if (r.relay || (!d->proving && try_route(c, &r, true)))
        d->anew = false;
}

static void look_for_better(struct sw_qconn *c)
{
    struct sw_qroutes *d = c->dial;
    struct sw_qroute r;
    ngtcp2_conn_stat st;
    bool silent;

    if (!d || d->racing || !c->shake.told || !sw_qpath_get(c, c->paths.now))
        return;
    /* ngtcp2 does not report every validation that it gives up. */
    if (d->trying && sw_quic_now(c->q) - d->trying_ns > TRYING_NS)
        sw_qpath_validated(c, d->trying, false);
    if (d->trying)
        return;
    move_anew(c);
    if (d->stray_ns) {
        d->stray_ns = 0;
        d->stray_at_ns = sw_quic_now(c->q) + STRAY_NS;
        sw_log_debug("quic", "peer address changed: validating the new path");
        (void)try_route(c, &d->stray, false);
        return;
    }
    if (on_relay(c)) {
        sw_qreach_start(c);
        if (sw_qreach_best(c, NULL, true, &r))
            (void)try_route(c, &r, false);
        else if (blind_due(c) <= sw_quic_now(c->q))
            try_direct(c);
        return;
    }
    ngtcp2_conn_get_conn_stat(c->nc, &st);
    silent = st.bytes_in_flight > 0 && sw_quic_now(c->q) >= silent_at(c);
    if (silent || st.pto_count > 0)
        sw_qreach_silent(c);
    if (sw_qreach_best(c, &sw_qpath_get(c, c->paths.now)->route,
                       silent || st.pto_count >= PTOS_BEFORE_MOVE, &r)) {
        (void)try_route(c, &r, false);
    } else if ((silent || st.pto_count >= PTOS_BEFORE_FALLBACK) && try_relay(c)) {
        sw_log_info("quic", "no packets on the direct path: probing the relay");
        sw_qreach_restart(c);
    }
}

uint64_t sw_qpath_due(const struct sw_qconn *c)
{
    const struct sw_qroutes *d = c->dial;

    if (!d || d->racing || !c->shake.told)
        return UINT64_MAX;
    if (d->trying)
        return d->trying_ns + TRYING_NS + SW_NS_PER_MS;
    if (on_relay(c))
        return blind_due(c);
    return silent_at(c) > sw_quic_now(c->q) ? silent_at(c) : UINT64_MAX;
}

/* What a renewed path replaced is not to be validated again: it would count as the newer one. */
static void forget_doubles(struct sw_qconn *c)
{
    const struct sw_qpathent *p = sw_qpath_get(c, c->paths.now);

    for (size_t i = 0; p && p->id == c->paths.renewed && i < QUIC_PATHS_MAX; i++)
        if (c->paths.ent[i].id != p->id && sw_qroute_eq(&c->paths.ent[i].route, &p->route))
            c->paths.ent[i].id = 0;
}

void sw_qpath_follow(struct sw_qconn *c)
{
    uint16_t now = sw_qpath_id(ngtcp2_conn_get_path(c->nc));
    struct sw_qpathent *before = sw_qpath_get(c, c->paths.now);

    if (now == c->paths.now || !sw_qpath_get(c, now))
        return;
    if (before)
        before->left = !c->dial;
    c->paths.now = now;
    sw_qrenew_moved(c);
    forget_doubles(c);
}

void sw_qpath_check(struct sw_qconn *c)
{
    if (!c->nc || c->end.closing)
        return;
    sw_qpath_follow(c);
    if (c->paths.now == c->paths.renewed)
        c->paths.told = c->paths.now;
    if (c->paths.now != c->paths.told && c->shake.told) {
        c->paths.told = c->paths.now;
        c->paths.changed = true;
        c->q->stats.migrations++;
        sw_qconn_note(c);
    }
    look_for_better(c);
    choose_keepalive(c);
}

void sw_qpath_validated(struct sw_qconn *c, uint16_t id, bool ok)
{
    struct sw_qroutes *d = c->dial;
    struct sw_qpathent *p = sw_qpath_get(c, id);

    if (d && d->proving == id)
        d->proving = 0;
    if (!d || d->trying != id)
        return;
    d->trying = 0;
    if (p && !p->route.relay)
        sw_qreach_outcome(c, &p->route, ok);
    if (!ok) {
        if (p && id != c->paths.now)
            p->id = 0;
        return;
    }
    /* The old ways in are shut: see sw_qpath_enter. */
    for (size_t i = 0; i < QUIC_PATHS_MAX; i++)
        if (c->paths.ent[i].id != id)
            c->paths.ent[i].id = 0;
    c->paths.now = id;
    d->anew = false;
    d->stray_ns = 0;
    d->relay_tries = 0;
    sw_qrenew_moved(c);
    if (on_relay(c)) {
        d->tries = 2;
        d->retry_at_ns = sw_quic_now(c->q) + next_try_ns(d);
    }
}

/* ---- what the endpoint learns ---- */

bool sw_qdial_add(struct sw_quic *q, struct sw_qroutes *d, const struct sw_addr *a)
{
    struct sw_qroute r;

    if (d->n == QUIC_ROUTES_MAX || !sw_qroute_direct(q, a, &r) || is_candidate(d, &r))
        return false;
    d->route[d->n++] = r;
    return true;
}

void sw_qconn_more_addrs(struct sw_qconn *c, const struct sw_addr *addrs, size_t n)
{
    bool fresh = false;

    if (!c->dial || !c->nc)
        return;
    for (size_t i = 0; i < n; i++)
        if (sw_qdial_add(c->q, c->dial, &addrs[i])) {
            c->dial->next = (uint8_t)(c->dial->n - 1);
            fresh = true;
        }
    if (!fresh)
        return;
    c->dial->tries = 0;
    c->dial->retry_at_ns = 0;
    sw_qconn_touch(c);
}

void sw_qpath_network_changed(struct sw_qconn *c)
{
    if (!c->shake.told || c->end.closing)
        return;
    sw_qreach_restart(c);
    if (!c->dial)
        return;
    c->dial->tries = 0;
    c->dial->retry_at_ns = 0;
    c->dial->anew = true;
    sw_qconn_touch(c);
}

/*
 * The dialling side migrates at once. The accepting side takes the peer's next packet for one of
 * another path, which ngtcp2 answers with a PATH_CHALLENGE on the new path.
 */
bool sw_qpath_renew(struct sw_qconn *c)
{
    struct sw_qpathent *p = sw_qpath_get(c, c->paths.now);
    uint16_t before = c->paths.now;
    struct sw_qroute r;

    if (!p || c->end.closing || (c->dial && (c->dial->racing || c->dial->trying)) ||
        sw_qpath_exhausted(c))
        return false;
    r = p->route;
    if (!c->dial) {
        p = sw_qpath_add(c, &r);
        c->paths.renewed = p->id;
    } else if (try_route(c, &r, true)) {
        c->paths.renewed = c->paths.now;
        c->paths.told = c->paths.now;
    } else {
        return false;
    }
    if (c->hole.found && c->hole.path == before)
        c->hole.path = c->paths.renewed;
    return true;
}
