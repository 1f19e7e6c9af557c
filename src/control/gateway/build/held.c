/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that routes serve already, between Gateways of different namespaces. A listener with a
 * hostname gets every request for it on its socket, also those that a route on a wider listener of
 * another namespace served until then. So a listener without a record of its own place is refused
 * when a route of another namespace serves its name, by that name or by a wildcard, and when it is
 * a wildcard between such a route's name and the wider listener. What a wide wildcard or no name
 * covers is not held by it: only the names that are routed there.
 *
 * The record is the status of the route, which only we write: a Gateway of ours has accepted it.
 */
#include "control/device/hostname.h"
#include "control/gateway/build/build_int.h"

/* A name that a route serves on a listener. */
struct held {
    const struct listener *l;
    struct sw_slice route_ns;
    struct held *next; /* of the same name */
};

static void add(struct builder *b, struct sw_slice host, const struct listener *l,
                struct sw_slice route_ns)
{
    struct held *first;
    struct held *h;

    if (!host.n || host_is_wide(host))
        return;
    first = sw_map_get(&b->held, host);
    h = SW_ARENA_NEW(b->a, struct held);
    *h = (struct held){.l = l, .route_ns = route_ns};
    if (first) {
        h->next = first->next;
        first->next = h;
    } else {
        (void)sw_map_put(&b->held, host, h);
    }
}

static void read_names(struct builder *b, const struct sw_kube_obj *o, const struct listener *l)
{
    const struct sw_json *hosts = sw_json_walk(o->json, "spec", "hostnames", NULL);

    if (!sw_json_len(hosts))
        add(b, l->host, l, o->ns);
    for (size_t i = 0; i < sw_json_len(hosts); i++) {
        struct sw_slice host = sw_json_str(sw_json_at(hosts, i));
        struct sw_slice common;

        if (host_valid(host) && host_intersect(l->host, host, &common))
            add(b, common, l, o->ns);
    }
}

static void read_route(struct builder *b, const struct sw_kube_obj *o)
{
    const struct sw_json *parents = sw_json_walk(o->json, "status", "parents", NULL);

    SW_JSON_ITEMS (e, parents) {
        const struct sw_json *ref = sw_json_find(e, "parentRef");
        const struct parent *p;

        if (!sw_slice_eq(js_or(e, "controllerName", ""), b->conf->controller) ||
            !cn_is_true(sw_json_find(e, "conditions"), "Accepted"))
            continue;
        p = route_names_parent(b, ref, o->ns);
        for (size_t k = 0; p && !p->refused.reason && k < p->n_listeners; k++) {
            const struct listener *l = &p->listeners[k];

            if (route_names_listener(l, ref) && listener_recorded(b, l))
                read_names(b, o, l);
        }
    }
}

static void read_routes(struct builder *b)
{
    static const enum route_kind kinds[] = {RK_HTTP, RK_GRPC, RK_TLS};

    for (size_t k = 0; k < SW_ARRAY_LEN(kinds); k++) {
        enum sw_model_kind kind = route_view_kinds[kinds[k]];

        for (size_t i = 0; i < sw_view_count(b->v, kind); i++)
            read_route(b, sw_view_at(b->v, kind, i));
    }
    b->held_read = true;
}

static bool same_address(const struct gateway *x, const struct gateway *y)
{
    for (size_t i = 0; i < x->n_addrs; i++) {
        for (size_t k = 0; k < y->n_addrs; k++) {
            if (x->addrs[i] == y->addrs[k])
                return true;
        }
    }
    return false;
}

/* Neither the holder's Gateway nor its route is of a namespace that the listener is of. */
static bool is_foreign(const struct held *h, const struct listener *l)
{
    const struct sw_slice own[] = {l->parent->obj->ns, l->parent->gw->parent.obj->ns};
    const struct sw_slice theirs[] = {h->l->parent->obj->ns, h->l->parent->gw->parent.obj->ns,
                                      h->route_ns};

    for (size_t i = 0; i < SW_ARRAY_LEN(own); i++) {
        for (size_t k = 0; k < SW_ARRAY_LEN(theirs); k++) {
            if (sw_slice_eq(own[i], theirs[k]))
                return false;
        }
    }
    return same_address(h->l->parent->gw, l->parent->gw);
}

/* The name itself, or a wildcard above it. */
static bool serves_name(struct builder *b, const struct listener *l)
{
    struct sw_slice host = l->host;

    do {
        for (const struct held *h = sw_map_get(&b->held, host); h; h = h->next) {
            if (is_foreign(h, l))
                return true;
        }
    } while (host_widen(b->a, &host) && !host_is_wide(host));
    return false;
}

/* A name below the wildcard, on a wider listener of the same port, which would lose it. */
static bool serves_below(const struct builder *b, const struct listener *l)
{
    struct sw_slice common;

    if (l->host.p[0] != '*')
        return false;
    SW_MAP_FOREACH (it, &b->held) {
        if (!host_intersect(l->host, it->key, &common) || !sw_slice_eq(common, it->key))
            continue;
        for (const struct held *h = it->value; h; h = h->next) {
            bool wider = host_intersect(h->l->host, l->host, &common) &&
                         sw_slice_eq(common, l->host) && !sw_slice_eq(h->l->host, l->host);

            if (wider && h->l->port == l->port && is_foreign(h, l))
                return true;
        }
    }
    return false;
}

/* The name that an HTTPProxy gets for its Gateway: whoever has a wildcard above does not hold it.
 */
static bool is_canonical(struct builder *b, const struct listener *l)
{
    struct sw_slice domain = l->host;

    (void)sw_slice_cut(&domain, '.');
    return domain.p && sw_slice_eq(l->host, sw_connector_hostname(
                                                b->a, l->parent->gw->parent.obj->uid, domain));
}

bool name_held(struct builder *b, const struct listener *l, bool had_name)
{
    const struct sw_slice *claim = sw_map_get(&b->claimed, l->host);

    /* A claim of its own is the better record. */
    if (b->gateways.n < 2 || (claim && sw_slice_eq(*claim, l->parent->obj->ns)) ||
        is_canonical(b, l))
        return false;
    if (!b->held_read)
        read_routes(b);
    return b->held.n && ((!had_name && serves_name(b, l)) || serves_below(b, l));
}
