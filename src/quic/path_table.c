/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of a connection's paths: numbers for ngtcp2, routes for packets. Which path is taken is
 * decided in path.c.
 */
#include <netinet/in.h>
#include <ngtcp2/ngtcp2.h>
#include <stddef.h>

#include "quic/conn.h"
#include "quic/path_int.h"

/* ---- routes ---- */

bool sw_qroute_eq(const struct sw_qroute *a, const struct sw_qroute *b)
{
    if (a->relay || b->relay)
        return a->relay == b->relay && sw_nodeid_eq(&a->node, &b->node);
    return a->sock == b->sock && sw_addr_eq(&a->remote, &b->remote);
}

bool sw_qroute_direct(const struct sw_quic *q, const struct sw_addr *a, struct sw_qroute *ret)
{
    size_t s = 0;

    while (s < q->n_socks && q->sock[s].addr.ip.family != a->ip.family)
        s++;
    if (s == q->n_socks || a->port == 0)
        return false;
    *ret = (struct sw_qroute){.sock = (uint8_t)s, .remote = *a};
    return true;
}

/* ---- the table ---- */

struct sw_qpathent *sw_qpath_get(struct sw_qconn *c, uint16_t id)
{
    for (size_t i = 0; id && i < QUIC_PATHS_MAX; i++)
        if (c->paths.ent[i].id == id)
            return &c->paths.ent[i];
    return NULL;
}

const struct sw_qpathent *sw_qpath_now(const struct sw_qconn *c)
{
    for (size_t i = 0; c->paths.now && i < QUIC_PATHS_MAX; i++)
        if (c->paths.ent[i].id == c->paths.now)
            return &c->paths.ent[i];
    return NULL;
}

/*
 * Several paths may have one route, when the network changed or became slower: then the present one
 * matches. The accepting side moves to a renewed path by taking the peer's next packet for one of
 * it; the dialling side is there already, or has left it again: ngtcp2 drops packets of a path that
 * was left. A peer that returns to a route gets a new path: ngtcp2 0.12 aborts the process when a
 * packet comes by the path it would fall back to (conn_recv_non_probing_pkt_on_new_path).
 */
static struct sw_qpathent *find(struct sw_qconn *c, const struct sw_qroute *r)
{
    struct sw_qpathent *found = c->dial ? NULL : sw_qpath_get(c, c->paths.renewed);

    if (found && !found->left && sw_qroute_eq(&found->route, r))
        return found;
    found = sw_qpath_get(c, c->paths.now);
    if (found && sw_qroute_eq(&found->route, r))
        return found;
    found = NULL;
    for (size_t i = 0; i < QUIC_PATHS_MAX && !found; i++)
        if (c->paths.ent[i].id && !c->paths.ent[i].left && sw_qroute_eq(&c->paths.ent[i].route, r))
            found = &c->paths.ent[i];
    return found;
}

/* A free entry, else the oldest that is neither in use nor being tried. */
static struct sw_qpathent *spare(struct sw_qconn *c)
{
    struct sw_qpathent *best = NULL;
    uint16_t best_age = 0;

    for (size_t i = 0; i < QUIC_PATHS_MAX; i++) {
        struct sw_qpathent *p = &c->paths.ent[i];
        uint16_t age = (uint16_t)(c->paths.next - p->id);

        if (!p->id)
            return p;
        if (p->id == c->paths.now || (c->dial && p->id == c->dial->trying))
            continue;
        if (!best || age > best_age) {
            best = p;
            best_age = age;
        }
    }
    return best;
}

bool sw_qpath_exhausted(const struct sw_qconn *c)
{
    return !c->dial && c->paths.next == UINT16_MAX;
}

struct sw_qpathent *sw_qpath_add(struct sw_qconn *c, const struct sw_qroute *r)
{
    struct sw_qpathent *p = spare(c);

    do
        c->paths.next++;
    while (c->paths.next == 0 || sw_qpath_get(c, c->paths.next));
    *p = (struct sw_qpathent){.id = c->paths.next, .route = *r};
    return p;
}

struct sw_qpathent *sw_qpath_of(struct sw_qconn *c, const struct sw_qroute *r, bool make)
{
    struct sw_qpathent *p = find(c, r);

    return p || !make ? p : sw_qpath_add(c, r);
}

/* ---- ngtcp2's view ---- */

/* The addresses filled in last. They depend on the path's number alone: they never become wrong. */
struct sw_qpathlib {
    uint16_t id; /* 0: none yet */
    ngtcp2_path_storage ps;
};

/*
 * A unique local address (RFC 4193) that exists nowhere, another one for every path at both ends.
 * The dialling side needs that to migrate. The accepting side needs it, too: ngtcp2 0.12 otherwise
 * keeps the connection ID of the old path for the new one, and when a third path follows before the
 * second is validated, retires that ID while it still holds it as the fallback. From then on it
 * counts the ID and accuses the peer of giving too many, or goes back to it.
 */
static void put_addr(struct sockaddr_in6 *sa, uint8_t side, uint16_t id)
{
    static const uint8_t prefix[] = {0xfd, 0x15, 0x07, 0x0a, 0x51, 0x0b};

    memset(sa, 0, sizeof(*sa));
    sa->sin6_family = AF_INET6;
    sa->sin6_port = htons(id);
    memcpy(sa->sin6_addr.s6_addr, prefix, sizeof(prefix));
    sa->sin6_addr.s6_addr[7] = side;
    sa->sin6_addr.s6_addr[14] = (uint8_t)(id >> 8);
    sa->sin6_addr.s6_addr[15] = (uint8_t)id;
}

void sw_qpath_fill(const struct sw_qpathent *p, struct ngtcp2_path_storage *ps)
{
    struct sockaddr_in6 local;
    struct sockaddr_in6 remote;

    put_addr(&local, 1, p->id);
    put_addr(&remote, 2, p->id);
    ngtcp2_path_storage_init(ps, (const struct sockaddr *)(const void *)&local, sizeof(local),
                             (const struct sockaddr *)(const void *)&remote, sizeof(remote), NULL);
}

const struct ngtcp2_path *sw_qpath_lib(const struct sw_qconn *c, const struct sw_qpathent *p)
{
    struct sw_qpathlib *last = c->q->path_lib;

    if (last->id != p->id) {
        sw_qpath_fill(p, &last->ps);
        last->id = p->id;
    }
    return &last->ps.path;
}

struct sw_qpathlib *sw_qpathlib_new(void)
{
    return SW_NEW(struct sw_qpathlib);
}

uint16_t sw_qpath_id(const struct ngtcp2_path *p)
{
    uint16_t port;

    if (p->remote.addrlen != sizeof(struct sockaddr_in6))
        return 0;
    memcpy(&port, (const uint8_t *)p->remote.addr + offsetof(struct sockaddr_in6, sin6_port),
           sizeof(port));
    return ntohs(port);
}

/* ---- relays that go ---- */

void sw_qpath_forget_relay(struct sw_qconn *c, const struct sw_qrelay *r)
{
    struct sw_qroutes *d = c->dial;
    size_t n = 0;

    for (size_t i = 0; i < QUIC_PATHS_MAX; i++)
        if (c->paths.ent[i].id && c->paths.ent[i].route.relay == r)
            c->paths.ent[i].id = 0;
    if (!d)
        return;
    for (size_t i = 0; i < d->n; i++)
        if (d->route[i].relay != r)
            d->route[n++] = d->route[i];
    d->n = (uint8_t)n;
    d->next = 0;
}

bool sw_qpath_uses_relay(const struct sw_qconn *c, const struct sw_qrelay *r)
{
    for (size_t i = 0; i < QUIC_PATHS_MAX; i++)
        if (c->paths.ent[i].id && c->paths.ent[i].route.relay == r)
            return true;
    for (size_t i = 0; c->dial && i < c->dial->n; i++)
        if (c->dial->route[i].relay == r)
            return true;
    return false;
}

/* ---- questions of the application ---- */

static const struct sw_qpathent *current(const struct sw_qconn *c)
{
    return c->dial && c->dial->racing ? NULL : sw_qpath_now(c);
}

enum sw_qpath sw_qconn_path(const struct sw_qconn *c)
{
    const struct sw_qpathent *p = current(c);

    if (!p)
        return SW_QPATH_NONE;
    return p->route.relay ? SW_QPATH_RELAY : SW_QPATH_DIRECT;
}

struct sw_addr sw_qconn_addr(const struct sw_qconn *c)
{
    const struct sw_qpathent *p = current(c);

    return p && !p->route.relay ? p->route.remote : (struct sw_addr){0};
}
