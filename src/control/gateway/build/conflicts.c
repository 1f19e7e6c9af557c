/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who gets which place on which socket. Inside a Gateway (and inside a ListenerSet) listeners that
 * cannot be told apart are all rejected. Between a Gateway and its ListenerSets there is an order
 * (the API's), and the first gets the place. Between Gateways on the same address a place stays
 * with the Gateway that has it: its listener's status, which only we write, records it. So an old
 * Gateway that is changed takes nothing from others. A free place goes to the oldest that asks.
 */
#include <stdio.h>

#include "control/gateway/build/build_int.h"

static const char hostname_conflict[] = "HostnameConflict";
static const char protocol_conflict[] = "ProtocolConflict";

/* HTTPS and TLS share sockets: both are told apart by server name. */
static enum proto family(enum proto p)
{
    return p == PROTO_TLS ? PROTO_HTTPS : p;
}

struct sw_slice listener_host(const struct listener *l)
{
    return l->host.n ? l->host : SW_SLICE_LIT("*");
}

/* The conflict between two listeners of one set of addresses; NULL: they can live together. */
static const char *clash(const struct listener *x, const struct listener *y)
{
    if (x->port != y->port || (x->proto == PROTO_UDP) != (y->proto == PROTO_UDP))
        return NULL;
    if (family(x->proto) != family(y->proto))
        return protocol_conflict;
    return sw_slice_eq(x->host, y->host) ? hostname_conflict : NULL;
}

static bool in_play(const struct listener *l)
{
    return l->proto != PROTO_UNKNOWN && l->port && !l->conflict.reason;
}

/* ---- sockets ---- */

static struct sw_slice socket_key(char *buf, size_t cap, struct sw_slice bind, bool udp,
                                  uint16_t port)
{
    int n = snprintf(buf, cap, "%s/%.*s/%u", udp ? "udp" : "tcp", SW_SLICE_ARG(bind), port);

    return sw_slice(buf, sw_min((size_t)n, cap - 1));
}

struct socket *socket_find(struct builder *b, size_t addr, uint16_t port, bool udp)
{
    char buf[128];

    return sw_map_get(&b->sockets,
                      socket_key(buf, sizeof(buf), b->conf->addrs[addr].bind, udp, port));
}

static uint16_t bind_port_of(const struct builder *b, uint16_t port)
{
    uint32_t moved = (uint32_t)port + b->conf->port_offset;

    return port < 1024 && moved <= UINT16_MAX ? (uint16_t)moved : port;
}

/* Another port that is bound where this one would be; NULL: free. */
static const struct socket *port_taken(struct builder *b, size_t addr, uint16_t port, bool udp)
{
    char buf[128];
    const struct socket *s =
        sw_map_get(&b->bound, socket_key(buf, sizeof(buf), b->conf->addrs[addr].bind, udp,
                                         bind_port_of(b, port)));

    return s && s->port != port ? s : NULL;
}

bool socket_blocked(struct builder *b, size_t addr, uint16_t port)
{
    return port_taken(b, addr, port, false) != NULL;
}

struct socket *socket_get(struct builder *b, size_t addr, uint16_t port, enum proto proto)
{
    struct socket *s = socket_find(b, addr, port, proto == PROTO_UDP);
    char buf[128];

    if (s)
        return s;
    s = SW_ARENA_NEW(b->a, struct socket);
    s->addr = addr;
    s->port = port;
    s->bind_port = bind_port_of(b, port);
    s->proto = family(proto);
    s->key = sw_arena_slice(
        b->a, socket_key(buf, sizeof(buf), b->conf->addrs[addr].bind, proto == PROTO_UDP, port));
    (void)sw_map_put(&b->sockets, s->key, s);
    (void)sw_map_put(&b->bound,
                     sw_arena_slice(b->a, socket_key(buf, sizeof(buf), b->conf->addrs[addr].bind,
                                                     proto == PROTO_UDP, s->bind_port)),
                     s);
    sw_vec_push(&b->socket_list, s);
    return s;
}

/* ---- places that are recorded ---- */

/* Whose it is, and on what port and with what protocol. */
struct place {
    const struct gateway *gw;
    uint16_t port;
    enum proto family;
};

const char *listener_place(struct builder *b, const struct listener *l)
{
    static const char *const names[] = {
        [PROTO_HTTP] = "HTTP", [PROTO_HTTPS] = "TLS", [PROTO_TLS] = "TLS",
        [PROTO_TCP] = "TCP",   [PROTO_UDP] = "UDP",   [PROTO_UNKNOWN] = "unknown"};

    return sw_arena_printf(b->a, "%u/%s %.*s", l->port, names[l->proto],
                           SW_SLICE_ARG(listener_host(l)));
}

bool listener_recorded(struct builder *b, const struct listener *l)
{
    const struct sw_json *all = sw_json_walk(l->parent->obj->json, "status", "listeners", NULL);
    const struct sw_json *own = sw_json_find_item(all, "name", l->name);
    const struct sw_json *c = cn_condition(sw_json_find(own, "conditions"), LISTENER_CLAIMED);

    return sw_json_str_eq(sw_json_find(c, "status"), "True") &&
           sw_json_str_eq(sw_json_find(c, "message"), listener_place(b, l));
}

/* The status says that the Gateway or ListenerSet had the listener's name somewhere: a listener
 * that changes its port or protocol keeps its name. */
static bool name_recorded(const struct listener *l)
{
    const struct sw_json *all = sw_json_walk(l->parent->obj->json, "status", "listeners", NULL);

    SW_JSON_ITEMS (one, all) {
        const struct sw_json *list = sw_json_find(one, "conditions");
        struct sw_slice host = js_or(cn_condition(list, LISTENER_CLAIMED), "message", "");

        (void)sw_slice_cut(&host, ' '); /* "80/HTTP a.test" */
        if (cn_is_true(list, LISTENER_CLAIMED) && sw_slice_eq(host, l->host))
            return true;
    }
    return false;
}

static struct sw_slice host_place(struct builder *b, size_t addr, const struct listener *l)
{
    char buf[128];

    return gw_printf(b, "%.*s %.*s",
                     SW_SLICE_ARG(socket_key(buf, sizeof(buf), b->conf->addrs[addr].bind,
                                             l->proto == PROTO_UDP, l->port)),
                     SW_SLICE_ARG(listener_host(l)));
}

/* The name itself, whatever the port. */
static struct sw_slice name_place(struct builder *b, size_t addr, const struct listener *l)
{
    return gw_printf(b, "name/%.*s %.*s", SW_SLICE_ARG(b->conf->addrs[addr].bind),
                     SW_SLICE_ARG(l->host));
}

static bool has_name(const struct listener *l)
{
    return l->host.n && l->proto != PROTO_TCP && l->proto != PROTO_UDP;
}

static struct sw_slice port_place(struct builder *b, size_t addr, const struct listener *l)
{
    char buf[128];

    return sw_arena_slice(b->a, socket_key(buf, sizeof(buf), b->conf->addrs[addr].bind,
                                           l->proto == PROTO_UDP, bind_port_of(b, l->port)));
}

static void keep_name(struct builder *b, struct sw_slice key, struct place *place)
{
    if (!sw_map_get(&b->recorded, key))
        (void)sw_map_put(&b->recorded, key, place);
}

/* Gateways come oldest first: of two that have it recorded, say of different addresses before, the
 * first keeps it. */
static void keep_places(struct builder *b, const struct parent *p)
{
    for (size_t i = 0; i < p->n_listeners; i++) {
        const struct listener *l = &p->listeners[i];
        struct place *place;
        bool recorded;

        if (!in_play(l))
            continue;
        recorded = listener_recorded(b, l);
        if (!recorded && !(has_name(l) && name_recorded(l)))
            continue;
        place = SW_ARENA_NEW(b->a, struct place);
        *place = (struct place){p->gw, l->port, family(l->proto)};
        for (size_t k = 0; k < p->gw->n_addrs; k++) {
            struct sw_slice host = host_place(b, p->gw->addrs[k], l);
            struct sw_slice port = port_place(b, p->gw->addrs[k], l);

            if (recorded && !sw_map_get(&b->recorded, host))
                (void)sw_map_put(&b->recorded, host, place);
            if (recorded && !sw_map_get(&b->recorded, port))
                (void)sw_map_put(&b->recorded, port, place);
            if (has_name(l))
                keep_name(b, name_place(b, p->gw->addrs[k], l), place);
        }
    }
}

static void read_recorded(struct builder *b)
{
    for (size_t i = 0; b->gateways.n > 1 && i < b->gateways.n; i++) {
        const struct gateway *g = b->gateways.p[i];

        keep_places(b, &g->parent);
        for (size_t k = 0; k < g->n_sets; k++) {
            if (!g->sets[k]->refused.reason)
                keep_places(b, g->sets[k]);
        }
    }
}

/* What another Gateway has where this listener would go; NULL: nothing. */
static const struct place *rival(struct builder *b, const struct listener *l, struct sw_slice key)
{
    const struct place *p = sw_map_get(&b->recorded, key);

    return p && p->gw != l->parent->gw ? p : NULL;
}

/* ---- conflicts ---- */

static void reject_twins(struct parent *p)
{
    for (size_t i = 0; i < p->n_listeners; i++) {
        struct listener *x = &p->listeners[i];
        const char *why = NULL;

        if (x->proto == PROTO_UNKNOWN || !x->port ||
            (x->conflict.reason && x->conflict.msg)) /* lost to another listener before */
            continue;
        for (size_t k = 0; k < p->n_listeners; k++) {
            const struct listener *y = &p->listeners[k];
            const char *c;

            if (k == i || y->proto == PROTO_UNKNOWN || (y->conflict.reason && y->conflict.msg))
                continue;
            c = clash(x, y);
            if (c && (!why || c == protocol_conflict))
                why = c;
        }
        if (why)
            x->conflict.reason = why;
    }
    /* Only now do messages tell losers of this round from losers before. */
    for (size_t i = 0; i < p->n_listeners; i++) {
        struct listener *x = &p->listeners[i];

        if (x->conflict.reason && !x->conflict.msg)
            x->conflict.msg = x->conflict.reason == protocol_conflict
                                  ? "another listener here has the port with another protocol"
                                  : "another listener here has the same port and hostname";
    }
}

/* Names of Gateways elsewhere are none of its business. */
static const char *winner_text(struct builder *b, const struct listener *l,
                               const struct gateway *winner)
{
    const struct sw_kube_obj *gw = winner->parent.obj;

    if (winner == l->parent->gw)
        return "a listener with precedence on this Gateway has it";
    if (!sw_slice_eq(gw->ns, l->parent->gw->parent.obj->ns))
        return "a Gateway of another namespace had it first";
    return sw_arena_printf(b->a, "Gateway '%.*s' had it first", SW_SLICE_ARG(gw->key));
}

/* Judges a listener against the places that other Gateways have. */
static void judge_recorded(struct builder *b, struct listener *l)
{
    const struct gateway *g = l->parent->gw;

    for (size_t i = 0; b->recorded.n && i < g->n_addrs && !l->conflict.reason; i++) {
        const struct place *port = rival(b, l, port_place(b, g->addrs[i], l));
        const struct place *host = rival(b, l, host_place(b, g->addrs[i], l));

        if (port && port->port == l->port && port->family != family(l->proto))
            l->conflict = (struct verdict){protocol_conflict, winner_text(b, l, port->gw)};
        else if (host)
            l->conflict = (struct verdict){hostname_conflict, winner_text(b, l, host->gw)};
    }
}

/* A name is one namespace's on all ports: who had it on another may wait for what proves it. */
static void judge_name(struct builder *b, struct listener *l)
{
    const struct gateway *g = l->parent->gw;
    const char *first;

    if (!has_name(l) || l->conflict.reason)
        return;
    first = name_claimed(b, l->host, l->parent, l->parent->obj->ns, sw_slice("", 0));
    if (first && !name_recorded(l)) {
        l->conflict = (struct verdict){hostname_conflict, first};
        return;
    }
    if (!listener_recorded(b, l) && name_held(b, l, name_recorded(l))) {
        l->conflict = (struct verdict){hostname_conflict, "a route of another namespace serves it"};
        return;
    }
    for (size_t i = 0; i < g->n_addrs && !l->conflict.reason; i++) {
        const struct place *p = rival(b, l, name_place(b, g->addrs[i], l));

        if (p && !sw_slice_eq(p->gw->parent.obj->ns, g->parent.obj->ns))
            l->conflict = (struct verdict){hostname_conflict, winner_text(b, l, p->gw)};
    }
}

/* Judges a listener against all that have their place already. */
static void judge(struct builder *b, struct listener *l)
{
    const struct gateway *g = l->parent->gw;

    for (size_t i = 0; i < g->n_addrs && !l->conflict.reason; i++) {
        struct socket *s = socket_find(b, g->addrs[i], l->port, l->proto == PROTO_UDP);
        const struct listener *winner;

        if (!s || !s->listeners.n)
            continue;
        winner = sw_map_get(&s->hosts, listener_host(l));
        if (s->proto != family(l->proto)) {
            l->conflict.reason = protocol_conflict;
            winner = s->listeners.p[0];
        } else if (winner) {
            l->conflict.reason = hostname_conflict;
        }
        if (winner && l->conflict.reason)
            l->conflict.msg = winner_text(b, l, winner->parent->gw);
    }
}

static void judge_port(struct builder *b, struct listener *l)
{
    const struct gateway *g = l->parent->gw;

    if (l->proto != PROTO_UDP && port_reserved(b, bind_port_of(b, l->port))) {
        l->accepted =
            VERDICT(b, "PortUnavailable", "port %u would be served on %u, a port of the fabric",
                    l->port, bind_port_of(b, l->port));
        l->refuse = false;
        return;
    }
    for (size_t i = 0; i < g->n_addrs; i++) {
        const struct socket *s = port_taken(b, g->addrs[i], l->port, l->proto == PROTO_UDP);
        const struct place *p = rival(b, l, port_place(b, g->addrs[i], l));
        uint16_t has = s ? s->port : p ? p->port : l->port;

        if (has != l->port && !l->accepted.reason)
            l->accepted =
                VERDICT(b, "PortUnavailable", "port %u would be served on %u, which port %u has",
                        l->port, bind_port_of(b, l->port), has);
    }
}

/* One line for all who come too late. */
static bool no_room(struct builder *b, struct gateway *g, const char *what)
{
    if (!g->full_noted)
        add_note(b, gw_printf(b, "gateway/%.*s", SW_SLICE_ARG(g->parent.obj->key)),
                 sw_slice_str(what));
    g->full_noted = true;
    return false;
}

/* False when the Gateway or the data plane has no place left; who came first keeps theirs. */
static bool has_room(struct builder *b, struct listener *l)
{
    struct gateway *g = l->parent->gw;
    size_t listeners =
        b->conf->max_listeners ? b->conf->max_listeners : (size_t)SW_GATEWAY_LISTENERS_MAX;
    size_t sockets = b->conf->max_sockets ? b->conf->max_sockets : (size_t)SW_GATEWAY_SOCKETS_MAX;
    size_t more = 0;

    if (g->n_claimed >= listeners) {
        if (!l->accepted.reason)
            l->accepted = VERDICT(b, "TooManyListeners", "the Gateway has %zu listeners already",
                                  g->n_claimed);
        return no_room(b, g, "it has as many listeners as it may");
    }
    for (size_t i = 0; i < g->n_addrs; i++)
        more += !socket_find(b, g->addrs[i], l->port, l->proto == PROTO_UDP);
    l->no_socket = more && b->socket_list.n + more > sockets;
    return l->no_socket ? no_room(b, g, "no more ports can be served") : true;
}

static void claim(struct builder *b, struct listener *l)
{
    struct gateway *g = l->parent->gw;
    const struct sw_kube_obj *o = l->parent->obj;

    judge_port(b, l);
    /* One that refuses handshakes still holds its name: no other listener may serve it meanwhile.
     */
    if ((l->accepted.reason && !l->refuse) || g->accepted.reason || !has_room(b, l))
        return;
    g->n_claimed++;
    l->bind_port = bind_port_of(b, l->port);
    l->claimed = true;
    for (size_t i = 0; i < g->n_addrs; i++) {
        struct socket *s = socket_get(b, g->addrs[i], l->port, l->proto);

        (void)sw_map_put(&s->hosts, listener_host(l), l);
        sw_vec_push(&s->listeners, l);
        if (has_name(l) && b->gateways.n > 1) {
            struct place *place = SW_ARENA_NEW(b->a, struct place);

            *place = (struct place){g, l->port, family(l->proto)};
            keep_name(b, name_place(b, g->addrs[i], l), place);
        }
    }
    if (l->bind_port != l->port && g->n_addrs && !l->broken) {
        l->note = sw_arena_printf(b->a, "port %u is served on port %u", l->port, l->bind_port);
        add_note(b,
                 gw_printf(b, "%s/%.*s/%.*s",
                           l->parent->kind == SW_MODEL_GATEWAY ? "gateway" : "listenerset",
                           SW_SLICE_ARG(o->key), SW_SLICE_ARG(l->name)),
                 sw_slice_str(l->note));
    }
}

/* Ports that are bound as they are go before those that are moved. */
static void claim_all(struct builder *b, struct parent *p)
{
    for (int moved = 0; moved < 2; moved++) {
        for (size_t i = 0; i < p->n_listeners; i++) {
            struct listener *l = &p->listeners[i];

            if (in_play(l) && (bind_port_of(b, l->port) != l->port) == (moved == 1))
                claim(b, l);
        }
    }
}

static void judge_all(struct builder *b, struct parent *p)
{
    for (size_t i = 0; i < p->n_listeners; i++) {
        if (in_play(&p->listeners[i]))
            judge_recorded(b, &p->listeners[i]);
        if (in_play(&p->listeners[i]))
            judge_name(b, &p->listeners[i]);
        if (in_play(&p->listeners[i]))
            judge(b, &p->listeners[i]);
    }
}

void claim_sockets(struct builder *b)
{
    read_recorded(b);
    SW_VEC_EACH (struct gateway, g, &b->gateways) {
        reject_twins(&g->parent);
        judge_all(b, &g->parent);
        claim_all(b, &g->parent);
        for (size_t k = 0; k < g->n_sets; k++) {
            if (g->sets[k]->refused.reason)
                continue;
            judge_all(b, g->sets[k]);
            reject_twins(g->sets[k]);
            claim_all(b, g->sets[k]);
        }
    }
    for (size_t i = 0; i < b->socket_list.n; i++)
        mark_overlaps(b, b->socket_list.p[i]);
}

bool listener_served(const struct listener *l)
{
    return l->claimed && !l->accepted.reason && !l->broken;
}
