/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names without a recorded claim that are not free all the same: those that
 * Gateways, routes and Ingresses of other namespaces serve or cover, and the fabric's own.
 *
 * Every class counts: a name that another controller serves is taken, too. What stands for
 * all names, or for a whole top-level domain, counts only by the names that are routed there.
 */
#include "control/connector/proxy_int.h"

/* A namespace that serves a name. */
struct server {
    struct sw_slice ns;
    struct server *next;
};

struct reading {
    const struct sw_view *v;
    struct sw_arena *a;
    struct sw_map *ret; /* host name or wildcard -> struct server */
};

static void add(struct reading *r, struct sw_slice host, struct sw_slice ns)
{
    struct server *first = host.n ? sw_map_get(r->ret, host) : NULL;
    struct server *s;

    if (!host.n || host_is_wide(host))
        return;
    for (s = first; s; s = s->next) {
        if (sw_slice_eq(s->ns, ns))
            return;
    }
    s = SW_ARENA_NEW(r->a, struct server);
    *s = (struct server){ns, first};
    if (first) {
        s->next = first->next;
        first->next = s;
    } else {
        (void)sw_map_put(r->ret, host, s);
    }
}

/* Claims say whose its names and ports are. */
bool hp_is_child(const struct sw_view *v, const struct sw_kube_obj *o)
{
    const struct sw_kube_obj *p = sw_view_find(v, SW_HP_PROXY, o->ns, o->name);

    return p && cn_owned_by(o, p->uid);
}

/* Of a Gateway or a ListenerSet. */
static void read_hostnames(struct reading *r, const struct sw_kube_obj *o)
{
    const struct sw_json *list = sw_json_walk(o->json, "spec", "listeners", NULL);

    for (size_t i = 0; i < sw_json_len(list); i++)
        add(r, js_or(sw_json_at(list, i), "hostname", ""), o->ns);
}

static bool has_parent(const struct reading *r, const struct sw_kube_obj *o)
{
    const struct sw_json *refs = sw_json_walk(o->json, "spec", "parentRefs", NULL);

    /* Without refs it may be on Gateways that take every route. */
    SW_JSON_ITEMS (ref, refs) {
        bool set = ref_is(ref, GW_GROUP, "Gateway", GW_GROUP, "ListenerSet");
        struct sw_slice ns = js_or(ref, "namespace", "");

        if ((set || ref_is(ref, GW_GROUP, "Gateway", GW_GROUP, "Gateway")) &&
            sw_view_find(r->v, set ? SW_HP_LISTENERSET : SW_HP_GATEWAY, ns.n ? ns : o->ns,
                         js(ref, "name")))
            return true;
    }
    return !sw_json_len(refs);
}

static void read_route(struct reading *r, const struct sw_kube_obj *o)
{
    const struct sw_json *hosts = sw_json_walk(o->json, "spec", "hostnames", NULL);

    if (!sw_json_len(hosts) || !has_parent(r, o))
        return;
    for (size_t i = 0; i < sw_json_len(hosts); i++)
        add(r, sw_json_str(sw_json_at(hosts, i)), o->ns);
}

static void read_ingress(struct reading *r, const struct sw_kube_obj *o)
{
    const struct sw_json *rules = sw_json_walk(o->json, "spec", "rules", NULL);
    const struct sw_json *tls = sw_json_walk(o->json, "spec", "tls", NULL);

    for (size_t i = 0; i < sw_json_len(rules); i++)
        add(r, js_or(sw_json_at(rules, i), "host", ""), o->ns);
    for (size_t i = 0; i < sw_json_len(tls); i++) {
        const struct sw_json *hosts = sw_json_find(sw_json_at(tls, i), "hosts");

        for (size_t k = 0; k < sw_json_len(hosts); k++)
            add(r, sw_json_str(sw_json_at(hosts, k)), o->ns);
    }
}

void hp_read_others(const struct sw_view *v, struct sw_arena *a, struct sw_map *ret)
{
    static const struct {
        enum sw_hp_kind kind;
        void (*read)(struct reading *r, const struct sw_kube_obj *o);
    } from[] = {
        {SW_HP_GATEWAY, read_hostnames}, {SW_HP_LISTENERSET, read_hostnames},
        {SW_HP_ROUTE, read_route},       {SW_HP_GRPCROUTE, read_route},
        {SW_HP_TLSROUTE, read_route},    {SW_HP_INGRESS, read_ingress},
    };
    struct reading r = {v, a, ret};

    for (size_t k = 0; k < SW_ARRAY_LEN(from); k++) {
        SW_VIEW_EACH (o, v, from[k].kind) {
            if (!hp_is_child(v, o))
                from[k].read(&r, o);
        }
    }
}

bool hp_served_elsewhere(const struct hp_names *names, struct sw_arena *a, struct sw_slice host,
                         struct sw_slice ns)
{
    if (!names->others.n)
        return false;
    do {
        for (const struct server *s = sw_map_get(&names->others, host); s; s = s->next) {
            if (!sw_slice_eq(s->ns, ns))
                return true;
        }
    } while (host_widen(a, &host) && !host_is_wide(host));
    return false;
}

/* ---- the fabric's own ---- */

/* Names by which clients expect services of the fabric itself. */
static bool reserved_label(struct sw_slice label)
{
    static const char *const labels[] = {"api", "control", "dns", "gateway", "ns", "relay", "www"};

    while (label.n && label.p[label.n - 1] >= '0' && label.p[label.n - 1] <= '9')
        label.n--; /* ns1, relay2 */
    if (label.n && label.p[label.n - 1] == '-')
        label.n--;
    for (size_t i = 0; i < SW_ARRAY_LEN(labels); i++) {
        if (sw_slice_eq_str(label, labels[i]))
            return true;
    }
    return false;
}

bool hp_is_fabrics(const struct hp_names *names, struct sw_slice domain, struct sw_slice host,
                   const struct sw_kube_obj *by)
{
    struct sw_slice below = host;
    struct sw_slice label;
    const struct sw_kube_obj *owner;
    size_t start;

    if (sw_slice_eq(host, domain))
        return true;
    if (host.n <= domain.n + 1 || !sw_slice_has_suffix(host, domain) ||
        host.p[host.n - domain.n - 1] != '.')
        return false;
    below.n -= domain.n + 1;
    for (start = below.n; start && below.p[start - 1] != '.';)
        start--;
    label = sw_slice_from(below, start);
    if (reserved_label(label))
        return true;
    owner = start ? sw_map_get(&names->canonical, sw_slice_from(host, start)) : NULL;
    return owner && owner != by;
}
