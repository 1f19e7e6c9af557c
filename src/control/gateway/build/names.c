/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose a host name is, between namespaces. What an HTTPProxy or an Ingress has claimed is its
 * namespace's, on every port. What Gateways serve by their listeners or routes is not for Ingresses
 * of others, and a host of Ingresses is that of the namespace that had it first. Inside one Gateway
 * the API's own precedence decides, and nothing here does.
 *
 * A wildcard covers what is below it. What stands for all names, or for a whole top-level domain,
 * owns none of them: else no other namespace could serve anything beside it.
 */
#include "control/claims.h"
#include "control/gateway/build/build_int.h"
#include "control/gateway/build/rule.h"

/* Who may serve a name: namespaces that do so through one Gateway, or one of Ingresses. */
struct name {
    const struct gateway *gw; /* NULL: Ingresses */
    struct sw_slice ns;
    struct name *also;
};

/* ---- what HTTPProxies and Ingresses have claimed ---- */

void names_init(struct builder *b)
{
    SW_VIEW_EACH (o, b->v, SW_MODEL_HOSTCLAIM) {
        const struct sw_json *spec = sw_json_find(o->json, "spec");
        struct sw_slice value = js_or(spec, "value", "");
        struct sw_slice ns = js_or(sw_json_find(spec, "holder"), "namespace", "");
        struct sw_slice *copy;

        if (!sw_json_str_eq(sw_json_find(spec, "type"), "Hostname") || !host_valid(value) ||
            !ns.n || !sw_slice_eq(sw_claim_name(b->a, SW_CLAIM_HOSTNAME, value), o->name))
            continue;
        copy = SW_ARENA_NEW(b->a, struct sw_slice);
        *copy = ns;
        (void)sw_map_put(&b->claimed, value, copy);
    }
    ingress_claims_init(b);
}

static bool foreign(struct sw_slice ns, const struct parent *p, struct sw_slice route_ns)
{
    return !sw_slice_eq(ns, p->obj->ns) && !sw_slice_eq(ns, p->gw->parent.obj->ns) &&
           !sw_slice_eq(ns, route_ns);
}

const char *name_claimed(struct builder *b, struct sw_slice host, const struct parent *p,
                         struct sw_slice route_ns, struct sw_slice since)
{
    static const char by_ingress[] = "an Ingress of another namespace had it first";
    const struct sw_slice *proxy = b->claimed.n ? sw_map_get(&b->claimed, host) : NULL;
    struct sw_slice ns;
    struct sw_slice claimed = {0};

    if (proxy)
        return foreign(*proxy, p, route_ns) ? "an HTTPProxy of another namespace had it first"
                                            : NULL;
    if (!b->ingress_claims.n || host_is_wide(host))
        return NULL;
    ns = ingress_claimed(b, host, NULL);
    if (ns.n)
        return foreign(ns, p, route_ns) ? by_ingress : NULL;
    while (host_widen(b->a, &host) && !host_is_wide(host)) {
        ns = ingress_claimed(b, host, &claimed);
        if (ns.n && foreign(ns, p, route_ns) && (!since.n || sw_slice_cmp(since, claimed) > 0))
            return by_ingress;
    }
    return NULL;
}

/* ---- notices ---- */

void name_refused(struct builder *b, enum sw_model_kind kind, const struct sw_kube_obj *of,
                  struct sw_slice host)
{
    struct sw_slice subject =
        gw_printf(b, "%.*s/%.*s/host/%.*s",
                  SW_SLICE_ARG(lower_case(b, sw_slice_str(sw_gateway_kinds[kind].gvr->kind))),
                  SW_SLICE_ARG(of->key), SW_SLICE_ARG(host));
    struct sw_slice text =
        gw_printf(b, "host '%.*s' belongs to another namespace; it is not served from here",
                  SW_SLICE_ARG(host));

    if (sw_map_put(&b->refused, subject, b))
        return;
    sw_vec_push(&b->notes, (struct sw_model_note){subject, text, true});
    sw_vec_push(&b->notices, (struct sw_model_notice){kind, of, "HostnameInUse", text});
}

bool name_refuses_route(struct builder *b, const struct listener *l, const struct route *r,
                        struct sw_slice host)
{
    if (sw_slice_eq(host, l->host) ||
        !name_claimed(b, host, l->parent, r->obj->ns, created_of(r->obj)))
        return false;
    name_refused(b, route_view_kinds[r->kind], r->obj, host);
    return true;
}

/* ---- what Gateways serve ---- */

static void add(struct builder *b, struct sw_slice host, const struct gateway *gw,
                struct sw_slice ns)
{
    struct name *first = sw_map_get(&b->names, host);
    struct name *n;

    for (n = first; n; n = n->also) {
        if (n->gw != gw || sw_slice_eq(n->ns, ns))
            return; /* another had it first, or it is known */
    }
    n = SW_ARENA_NEW(b->a, struct name);
    *n = (struct name){.gw = gw, .ns = ns};
    if (first) {
        n->also = first->also;
        first->also = n;
    } else {
        (void)sw_map_put(&b->names, host, n);
    }
}

static void add_listener(struct builder *b, const struct listener *l)
{
    const struct gateway *g = l->parent->gw;

    add(b, l->host, g, g->parent.obj->ns);
    add(b, l->host, g, l->parent->obj->ns);
}

static void add_routes(struct builder *b, const struct socket *s, const struct listener *l)
{
    const struct gateway *g = l->parent->gw;

    for (const struct attached *at = l->routes; at; at = at->next) {
        for (size_t i = 0; i < at->n_hosts; i++) {
            if (host_owner(&s->hosts, at->hosts[i]) != l)
                continue;
            add(b, at->hosts[i], g, g->parent.obj->ns);
            add(b, at->hosts[i], g, at->route->obj->ns);
        }
    }
}

void names_of_gateways(struct builder *b)
{
    /* Names of listeners go before those of routes: they are recorded. */
    for (int routes = 0; routes < 2; routes++) {
        SW_VEC_EACH (const struct socket, s, &b->socket_list) {
            for (size_t k = 0; s->addr == 0 && k < s->listeners.n; k++) {
                const struct listener *l = s->listeners.p[k];

                if (l->proto == PROTO_TCP || l->proto == PROTO_UDP)
                    continue;
                if (routes)
                    add_routes(b, s, l);
                else if (l->host.n)
                    add_listener(b, l);
            }
        }
    }
}

/* ---- Ingresses ---- */

static bool is_member(const struct name *n, struct sw_slice ns)
{
    for (; n; n = n->also) {
        if (sw_slice_eq(n->ns, ns))
            return true;
    }
    return false;
}

bool name_for_ingress(struct builder *b, struct sw_slice host, const struct sw_kube_obj *o)
{
    const struct sw_slice *proxy = sw_map_get(&b->claimed, host);
    struct sw_slice claimed = proxy ? *proxy : ingress_claimed(b, host, NULL);
    struct sw_slice h = host;
    bool ours = true;

    if (claimed.n) {
        ours = sw_slice_eq(claimed, o->ns);
    } else {
        const struct name *n = sw_map_get(&b->names, h);

        while (!n && host_widen(b->a, &h) && !host_is_wide(h))
            n = sw_map_get(&b->names, h);
        ours = !n || is_member(n, o->ns);
    }
    if (!ours)
        name_refused(b, SW_MODEL_INGRESS, o, host);
    else if (!b->conf->ingress_shared_hosts)
        add(b, host, NULL, o->ns);
    if (ours && !proxy)
        ingress_claim(b, host, o);
    return ours;
}
