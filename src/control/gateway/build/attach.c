/* SPDX-License-Identifier: Apache-2.0 */
/* Routes to listeners: parentRefs, kinds, namespaces, host names; counted as they attach. */
#include <stdio.h>

#include "control/gateway/build/build_int.h"
#include "control/gateway/build/rule.h"

enum { PARENTS_MAX = 32, HOSTS_MAX = 1024, RULES_MAX = 64 };

struct parent *route_names_parent(const struct builder *b, const struct sw_json *ref,
                                  struct sw_slice own_ns)
{
    struct sw_slice group = js_or(ref, "group", GW_GROUP);
    struct sw_slice kind = js_or(ref, "kind", "Gateway");
    struct sw_slice ns = js_or(ref, "namespace", "");
    struct sw_slice name = js(ref, "name");
    const char *prefix = NULL;
    char key[1024];
    int n;

    if (!ns.n)
        ns = own_ns;
    if (sw_slice_eq_str(kind, "Gateway"))
        prefix = "gateway";
    else if (sw_slice_eq_str(kind, "ListenerSet"))
        prefix = "set";
    if (!prefix || !sw_slice_eq_str(group, GW_GROUP) || ns.n + name.n > 900)
        return NULL;
    n = snprintf(key, sizeof(key), "%s|%.*s/%.*s", prefix, SW_SLICE_ARG(ns), SW_SLICE_ARG(name));
    return sw_map_get(&b->parents, sw_slice(key, (size_t)n));
}

/* ---- compiling, once per client certificate ---- */

static void compile_rules(struct builder *b, struct route *route, struct compiled *c, bool first,
                          void (*compile)(struct rule *r, struct compiled *c))
{
    const struct sw_json *rules = sw_json_find(route->spec, "rules");
    size_t n = sw_min(sw_json_len(rules), RULES_MAX);
    bool fits = true;

    for (size_t i = 0; i < n && fits; i++) {
        size_t from = c->n_entries;
        struct rule r = {
            .b = b,
            .route = route,
            .json = sw_json_at(rules, i),
            .backend = {.route = route, .client_cert = c->client_cert, .use_policies = true},
            .first = first,
            .index = (uint16_t)i};

        compile(&r, c);
        fits = load_rule(&r, c, from);
    }
    if (!fits)
        refuse_object(b, route, c);
}

static struct compiled *compiled_for(struct builder *b, struct route *r, const struct gateway *gw)
{
    struct sw_arena *build_arena = b->a;
    struct compiled *c;
    bool first = !r->compiled;

    for (c = r->compiled; c; c = c->next) {
        if (sw_slice_eq(c->client_cert, gw->client_cert))
            return c;
    }
    b->a = r->arena;
    c = SW_ARENA_NEW(b->a, struct compiled);
    c->client_cert = sw_arena_slice(b->a, gw->client_cert);
    c->next = r->compiled;
    switch (r->kind) {
    case RK_HTTP:
        compile_rules(b, r, c, first, http_rule);
        break;
    case RK_GRPC:
        compile_rules(b, r, c, first, grpc_rule);
        break;
    case RK_TLS:
    case RK_TCP:
    case RK_UDP:
        compile_l4(b, r, c, first);
        break;
    case RK_COUNT:
        break;
    }
    r->compiled = c;
    b->a = build_arena;
    return c;
}

/* ---- host names ---- */

static bool has_hosts(enum route_kind k)
{
    return k == RK_HTTP || k == RK_GRPC || k == RK_TLS;
}

/* False when listener and route have no name in common. */
static bool effective_hosts(const struct listener *l, const struct route *r, struct attached *at)
{
    /* A copy: the route may outlive the listener. */
    struct sw_slice own = l->host.n ? sw_arena_slice(r->arena, l->host) : sw_slice("", 0);

    bool whole = false;

    at->hosts = sw_arena_array(r->arena, r->n_hosts + 1, sizeof(*at->hosts));
    if (!has_hosts(r->kind) || !r->n_hosts) {
        at->hosts[at->n_hosts++] = own.n ? own : SW_SLICE_LIT("*");
        return true;
    }
    for (size_t i = 0; i < r->n_hosts; i++) {
        struct sw_slice h;

        if (!host_intersect(own, r->hosts[i], &h))
            continue;
        /* The route's names differ from each other, but several may cover the listener's. */
        if (sw_slice_eq(h, own)) {
            if (whole)
                continue;
            whole = true;
        }
        at->hosts[at->n_hosts++] = h;
    }
    return at->n_hosts > 0;
}

/* ---- one parentRef ---- */

bool route_names_listener(const struct listener *l, const struct sw_json *ref)
{
    struct sw_slice section = js_or(ref, "sectionName", "");
    int64_t port = js_int(ref, "port", UINT16_MAX, 0);

    return (!section.n || sw_slice_eq(section, l->name)) && (!port || port == l->port);
}

static bool admits(const struct builder *b, const struct listener *l, const struct route *r)
{
    return (l->kinds & 1u << r->kind) && ns_rule_admits(b, &l->ns, l->parent->obj->ns, r->obj->ns);
}

static void attach(struct builder *b, struct listener *l, struct route *r,
                   const struct attached *proto)
{
    struct attached *at;

    if (l->counted == r)
        return; /* by another parentRef */
    l->counted = r;
    if (!proto->guard)
        l->attached++;
    at = SW_ARENA_NEW(r->arena, struct attached);
    *at = *proto;
    at->route = r;
    at->compiled = compiled_for(b, r, l->parent->gw);
    at->use = at->compiled;
    at->parent = l->parent->number;
    at->listener = (size_t)(l - l->parent->listeners);
    at->also = r->attached;
    r->attached = at;
    at->next = l->routes;
    l->routes = at;
}

static bool all_rules_bad(const struct route *r)
{
    return r->n_rules && r->n_bad_rules == r->n_rules;
}

static struct verdict attach_to_parent(struct builder *b, struct parent *p, struct route *r,
                                       const struct sw_json *ref)
{
    size_t candidates = 0;
    size_t admitted = 0;
    size_t matching = 0;

    if (r->bad_host)
        return (struct verdict){"UnsupportedValue", "one of the hostnames is no host name"};
    if (p->refused.reason)
        return (struct verdict){"NoMatchingParent",
                                "the ListenerSet is not attached to its Gateway"};
    for (size_t i = 0; i < p->n_listeners; i++) {
        struct listener *l = &p->listeners[i];
        struct attached at = {0};

        if (!route_names_listener(l, ref))
            continue;
        candidates++;
        if (!admits(b, l, r))
            continue;
        admitted++;
        if (!effective_hosts(l, r, &at))
            continue;
        matching++;
        /* Not accepted, yet not away: a wider route would serve what its filter was to guard. */
        at.guard = all_rules_bad(r);
        if (!at.guard || r->fail_closed)
            attach(b, l, r, &at);
    }
    if (!candidates)
        return (struct verdict){"NoMatchingParent", "no listener has that name and port"};
    if (!admitted)
        return (struct verdict){"NotAllowedByListeners",
                                "no listener allows routes of this kind and namespace"};
    if (!matching)
        return (struct verdict){"NoMatchingListenerHostname",
                                "no listener has a hostname in common with the route"};
    return all_rules_bad(r) ? r->bad_rule : (struct verdict){0};
}

/* ---- one route ---- */

static void read_route(struct route *r)
{
    struct sw_map seen = {0};
    const struct sw_json *list;
    size_t n;

    r->spec = sw_json_find(r->obj->json, "spec");
    r->refs = sw_json_find(r->spec, "parentRefs");
    r->created = created_of(r->obj);
    list = sw_json_find(r->spec, "hostnames");
    n = sw_min(sw_json_len(list), HOSTS_MAX);
    r->hosts = sw_arena_array(r->arena, n + 1, sizeof(*r->hosts));
    for (size_t i = 0; i < n; i++) {
        struct sw_slice host = sw_json_str(sw_json_at(list, i));

        if (!host_valid(host))
            r->bad_host = true;
        else if (n == 1 || !sw_map_put(&seen, host, r))
            r->hosts[r->n_hosts++] = host;
    }
    sw_map_done(&seen);
}

static void note_policies(struct builder *b, const struct route *r, struct gateway *gw)
{
    for (size_t i = 0; i < r->services.n; i++)
        policy_used(b, r->services.p[i], gw);
}

/* What follows from parents the route was attached to, now or in an earlier build. */
static void settle(struct builder *b, const struct kept *k)
{
    const struct route *r = &k->route;

    if (k->n_parents < sw_json_len(sw_json_walk(r->obj->json, "spec", "parentRefs", NULL)))
        notice_route(b, r);
    for (size_t i = 0; i < k->n_parents; i++) {
        if (!k->parents[i].accepted.reason)
            note_policies(b, r, b->parent_list.p[k->parents[i].parent]->gw);
    }
    if (r->kind == RK_HTTP || r->kind == RK_GRPC)
        sw_vec_push(&b->l7, k);
    else if (k->status)
        sw_vec_push(&b->statuses,
                    (struct sw_model_status){route_view_kinds[r->kind], r->obj, k->status});
}

/* The cache says that nothing has changed but the places where Gateways live in memory. */
static void attach_again(struct builder *b, const struct kept *k)
{
    for (struct attached *at = k->route.attached; at; at = at->also) {
        struct listener *l = &b->parent_list.p[at->parent]->listeners[at->listener];

        if (!at->guard)
            l->attached++;
        at->next = l->routes;
        l->routes = at;
    }
}

void route_done(struct route *r)
{
    sw_vec_done(&r->services);
    sw_vec_done(&r->sticky);
    sw_vec_done(&r->looked_at);
}

static bool names(const struct sw_json *refs, const struct builder *b, struct sw_slice own_ns,
                  const struct parent *p)
{
    for (size_t i = 0; i < sw_json_len(refs); i++) {
        if (route_names_parent(b, sw_json_at(refs, i), own_ns) == p)
            return true;
    }
    return false;
}

static struct sw_json *ref_to(struct sw_arena *a, const struct sw_kube_obj *gw)
{
    return SW_JSON_OF(a, {"group", .str = GW_GROUP}, {"kind", .str = "Gateway"},
                      {"namespace", .text = gw->ns}, {"name", .text = gw->name});
}

/*
 * Gateways without a reference from the route, for routes that attach to all. Those that a route
 * does not fit are skipped without a condition: it never named them.
 */
static size_t attach_defaults(struct builder *b, struct route *r, struct route_parent *parents,
                              size_t n)
{
    if (!sw_slice_eq_str(js_or(r->spec, "useDefaultGateways", "None"), "All"))
        return n;
    for (size_t i = 0; i < b->gateways.n && n < PARENTS_MAX; i++) {
        struct gateway *g = b->gateways.p[i];
        struct sw_json *ref;
        struct verdict v;

        if (!sw_slice_eq_str(js_or(g->spec, "defaultScope", "None"), "All") ||
            names(r->refs, b, r->obj->ns, &g->parent))
            continue;
        ref = ref_to(r->arena, g->parent.obj);
        (void)compiled_for(b, r, g);
        v = attach_to_parent(b, &g->parent, r, ref);
        if (!v.reason)
            parents[n++] = (struct route_parent){ref, v, g->parent.number};
    }
    return n;
}

static void build_route(struct builder *b, struct kept *k)
{
    struct route_parent parents[PARENTS_MAX];
    struct sw_arena *build_arena = b->a;
    struct route *r = &k->route;
    size_t n = 0;

    read_route(r);
    for (size_t i = 0; i < sw_json_len(r->refs) && n < PARENTS_MAX; i++) {
        const struct sw_json *ref = sw_json_at(r->refs, i);
        struct parent *p = route_names_parent(b, ref, r->obj->ns);

        if (!p)
            continue; /* of another controller */
        (void)compiled_for(b, r, p->gw);
        parents[n++] = (struct route_parent){ref, attach_to_parent(b, p, r, ref), p->number};
    }
    n = attach_defaults(b, r, parents, n);
    b->a = r->arena;
    /* Without parents too: it may have been ours before. */
    if (n || sw_json_len(sw_json_walk(r->obj->json, "status", "parents", NULL)))
        k->status = route_status(b, r, parents, n);
    k->parents = cn_copy(b->a, parents, n, sizeof(*parents));
    k->n_parents = n;
    k->built = true;
    b->a = build_arena;
}

void build_routes(struct builder *b)
{
    for (unsigned i = 0; i < RK_COUNT; i++) {
        enum route_kind kind = (enum route_kind)i;

        SW_VIEW_EACH (o, b->v, route_view_kinds[i]) {
            struct kept *k = b->cache ? cache_route(b, kind, o) : SW_ARENA_NEW(b->a, struct kept);

            if (!b->cache)
                k->route = (struct route){.obj = o, .kind = kind, .arena = b->a};
            if (k->built)
                attach_again(b, k);
            else
                build_route(b, k);
            settle(b, k);
            if (!b->cache)
                route_done(&k->route);
        }
    }
}
