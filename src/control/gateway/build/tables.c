/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets into listeners, chains and tables. A host belongs to the most specific listener on its
 * socket, and only that listener's routes serve it: names that a sibling owns are left out here.
 */
#include <stdlib.h>

#include "base/search.h"
#include "control/gateway/build/build_int.h"

/* Above this many HTTPS listeners on a socket names outside one's own are misdirected as a whole
 * instead of one by one: tables would grow with the square. */
enum { SIBLINGS_MAX = 64 };

struct vhost {
    struct sw_model_vhost out;
    SW_VEC(const struct entry *) entries;
};

struct table {
    struct builder *b;
    struct socket *s;
    struct sw_slice name;
    struct sw_map vhosts; /* host -> struct vhost */
};

/* ---- order of routes ---- */

static int cmp_num(size_t more, size_t less)
{
    return more > less ? -1 : more < less;
}

static int cmp_specific(const struct entry *x, const struct entry *y)
{
    int d = 0;

    if (x->grpc) {
        d = cmp_num(x->len1, y->len1);
        d = d ? d : cmp_num(x->len2, y->len2);
        return d ? d : cmp_num(x->r->match.n_headers, y->r->match.n_headers);
    }
    d = (int)x->rank - (int)y->rank;
    d = d ? d : cmp_num(x->len1, y->len1);
    d = d ? d : cmp_num(x->r->match.method.n != 0, y->r->match.method.n != 0);
    d = d ? d : cmp_num(x->r->match.n_headers, y->r->match.n_headers);
    return d ? d : cmp_num(x->r->match.n_queries, y->r->match.n_queries);
}

/* Most specific first, then oldest, then by name, then as written. gRPC stands before plain HTTP:
 * its routes take only gRPC requests. */
static int cmp_entry(const void *p, const void *q)
{
    const struct entry *x = *(const struct entry *const *)p;
    const struct entry *y = *(const struct entry *const *)q;
    int d = (int)x->low - (int)y->low;

    d = d ? d : (int)y->grpc - (int)x->grpc;
    d = d ? d : cmp_specific(x, y);
    d = d ? d : sw_slice_cmp(x->route->created, y->route->created);
    d = d ? d : sw_slice_cmp(x->route->obj->key, y->route->obj->key);
    d = d ? d : (int)x->rule - (int)y->rule;
    d = d ? d : (int)x->match - (int)y->match;
    return d ? d : (int)x->share - (int)y->share;
}

/* ---- tables ---- */

/* The Gateway of a listener, also of one in a ListenerSet. */
static struct sw_slice owner_of(const struct listener *l)
{
    return l->parent->gw->parent.obj->key;
}

static struct vhost *vhost_get(struct table *t, struct sw_slice host)
{
    struct vhost *v = sw_map_get(&t->vhosts, host);

    if (!v) {
        v = SW_ARENA_NEW(t->b->a, struct vhost);
        v->out.host = host;
        (void)sw_map_put(&t->vhosts, v->out.host, v);
    }
    return v;
}

static uint16_t default_port(bool https)
{
    return https ? 443 : 80;
}

/*
 * The port of Location is the one asked for, else that of the scheme asked for, else the
 * listener's. The scheme's own is left out, but not where the port of the request would then take
 * its place.
 */
static const struct entry *localise(struct table *t, const struct listener *l,
                                    const struct entry *e)
{
    struct sw_model_redirect *d;
    struct sw_model_route *r;
    struct entry *copy;
    bool https;
    bool moved;

    if (!e->local_redirect || !e->r->redirect)
        return e;
    d = SW_ARENA_NEW(t->b->a, struct sw_model_redirect);
    *d = *e->r->redirect;
    https = d->scheme.n ? sw_slice_eq_str(d->scheme, "https") : l->proto == PROTO_HTTPS;
    if (!d->port)
        d->port = d->scheme.n ? default_port(https) : l->port;
    /* Where the port is bound elsewhere clients may name that one, which is not the new scheme's.
     */
    moved = d->scheme.n && t->s->bind_port != t->s->port;
    if (d->port == default_port(https) &&
        (d->host.n || (l->port == default_port(l->proto == PROTO_HTTPS) && !moved)))
        d->port = 0;
    r = SW_ARENA_NEW(t->b->a, struct sw_model_route);
    *r = *e->r;
    r->redirect = d;
    r->memo = NULL;
    copy = SW_ARENA_NEW(t->b->a, struct entry);
    *copy = *e;
    copy->r = r;
    return copy;
}

static void add_routes(struct table *t, struct listener *l)
{
    /* Its routes' hosts are covered by its own: alone on the socket it owns them all. */
    bool alone = t->s->hosts.n == 1 && sw_map_get(&t->s->hosts, listener_host(l)) == l;

    for (const struct attached *at = l->routes; at; at = at->next) {
        for (size_t k = 0; k < at->use->n_entries; k++) {
            const struct entry *e = localise(t, l, &at->use->entries[k]);

            for (size_t i = 0; i < at->n_hosts; i++) {
                struct vhost *v;

                if ((!alone && host_owner(&t->s->hosts, at->hosts[i]) != l) ||
                    name_refuses_route(t->b, l, at->route, at->hosts[i]))
                    continue;
                v = vhost_get(t, at->hosts[i]);
                v->out.owner = owner_of(l);
                sw_vec_push(&v->entries, e);
            }
        }
    }
}

/* A wildcard serves nothing of what HTTPProxies of other namespaces have claimed below it. */
static void fence_claimed(struct table *t, const struct listener *l)
{
    struct sw_slice common;

    if (!l->host.n || l->host.p[0] != '*' || host_is_wide(l->host))
        return;
    SW_MAP_FOREACH (it, &t->b->claimed) {
        if (host_intersect(l->host, it->key, &common) && host_owner(&t->s->hosts, it->key) == l &&
            name_claimed(t->b, it->key, l->parent, l->parent->obj->ns, sw_slice("", 0)))
            vhost_get(t, it->key)->out.owner = owner_of(l);
    }
}

static void finish_vhost(struct table *t, struct vhost *v)
{
    const struct sw_model_route **list;

    if (v->entries.n > 1)
        qsort(v->entries.p, v->entries.n, sizeof(*v->entries.p), cmp_entry);
    list = sw_arena_array(t->b->a, v->entries.n + 1, sizeof(struct sw_model_route *));
    for (size_t i = 0; i < v->entries.n; i++)
        list[i] = v->entries.p[i]->r;
    v->out.routes = list;
    v->out.n_routes = v->entries.n;
    sw_vec_done(&v->entries);
}

static const struct sw_model_table *finish_table(struct table *t)
{
    struct sw_model_table *out = SW_ARENA_NEW(t->b->a, struct sw_model_table);
    void **sorted = sorted_values(t->b->a, &t->vhosts);
    const struct sw_model_vhost **list =
        sw_arena_array(t->b->a, t->vhosts.n + 1, sizeof(struct sw_model_vhost *));

    for (size_t i = 0; i < t->vhosts.n; i++) {
        struct vhost *v = sorted[i];

        finish_vhost(t, v);
        list[i] = &v->out;
    }
    out->name = t->name;
    out->vhosts = list;
    out->n_vhosts = t->vhosts.n;
    sw_map_done(&t->vhosts);
    sw_vec_push(&t->b->out_tables, out);
    return out;
}

/* Where the entries of a host begin; build_socket has put them in order. */
static size_t ingress_at(const struct socket *s, struct sw_slice host)
{
    return sw_lower_bound(s->ingress.p, s->ingress.n, sizeof(struct ingress_entry),
                          offsetof(struct ingress_entry, host), host);
}

/* With 'only' those of one host: each of many chains looks for its own. */
static void add_ingress(struct table *t, struct sw_slice only)
{
    for (size_t i = only.n ? ingress_at(t->s, only) : 0; i < t->s->ingress.n; i++) {
        const struct ingress_entry *e = &t->s->ingress.p[i];
        struct sw_slice host = e->host;
        struct vhost *v;

        if (only.n && !sw_slice_eq(host, only))
            break;
        v = vhost_get(t, host);
        if (!v->out.misdirected)
            sw_vec_push(&v->entries, e->entry);
    }
}

/* ---- chains ---- */

struct chains {
    struct builder *b;
    struct socket *s;
    SW_VEC(struct sw_model_chain *) list;
};

static struct sw_model_chain *new_chain(struct chains *c, const char *kind, struct sw_slice host)
{
    struct sw_model_chain *out = SW_ARENA_NEW(c->b->a, struct sw_model_chain);
    struct sw_slice bind = c->b->conf->addrs[c->s->addr].bind;
    struct sw_slice *names;

    out->name = gw_printf(c->b, "%s/%.*s/%u%s%.*s", kind, SW_SLICE_ARG(bind), c->s->port,
                          host.n ? "/" : "", SW_SLICE_ARG(host));
    if (host.n && !sw_slice_eq_str(host, "*")) {
        names = SW_ARENA_NEW(c->b->a, struct sw_slice);
        *names = host;
        out->server_names = names;
        out->n_server_names = 1;
    }
    sw_vec_push(&c->list, out);
    return out;
}

static void http_chain(struct chains *c)
{
    struct sw_model_chain *out = new_chain(c, "http", sw_slice("", 0));
    struct table t = {.b = c->b, .s = c->s, .name = out->name};

    SW_VEC_EACH (struct listener, l, &c->s->listeners) {
        vhost_get(&t, listener_host(l))->out.owner = owner_of(l);
        if (listener_served(l))
            add_routes(&t, l);
        fence_claimed(&t, l);
    }
    add_ingress(&t, sw_slice("", 0));
    out->kind = SW_MODEL_CHAIN_HTTP;
    out->table = finish_table(&t);
}

static void misdirect(struct table *t, struct sw_slice host, struct sw_slice owner)
{
    struct vhost *v = vhost_get(t, host);

    v->out.misdirected = true;
    v->out.owner = owner;
}

static void add_misdirected(struct table *t, const struct listener *of)
{
    struct sw_slice own = listener_host(of);
    bool many = t->s->listeners.n > SIBLINGS_MAX;
    bool all = sw_slice_eq_str(own, "*");
    bool wild = all || own.p[0] == '*';

    for (size_t i = 0; i < t->s->listeners.n && (!many || wild); i++) {
        const struct listener *l = t->s->listeners.p[i];
        struct sw_slice h = listener_host(l);
        struct sw_slice common;

        if (l->proto != PROTO_HTTPS || sw_slice_eq(h, own))
            continue;
        if (many && !all &&
            (!l->host.n || !host_intersect(own, h, &common) || !sw_slice_eq(common, h)))
            continue;
        misdirect(t, h, owner_of(l));
    }
    if (many && !all)
        misdirect(t, SW_SLICE_LIT("*"), owner_of(of));
}

static void https_chain(struct chains *c, struct listener *l)
{
    struct sw_model_chain *out = new_chain(c, "https", listener_host(l));
    struct table t = {.b = c->b, .s = c->s, .name = out->name};

    out->owner = owner_of(l);
    out->tls = SW_MODEL_TLS_TERMINATE;
    if (!listener_served(l)) {
        out->kind = SW_MODEL_CHAIN_REFUSE;
        return;
    }
    out->kind = SW_MODEL_CHAIN_HTTP;
    out->certs = l->certs;
    out->n_certs = l->n_certs;
    out->client_mode = l->client_mode;
    out->client_ca = l->client_ca;
    out->alpn_http = true;
    vhost_get(&t, listener_host(l))->out.owner = owner_of(l);
    add_routes(&t, l);
    fence_claimed(&t, l);
    add_misdirected(&t, l);
    add_ingress(&t, listener_host(l));
    out->table = finish_table(&t);
}

static void ingress_chain(struct chains *c, struct sw_slice host, const struct sw_slice *cert)
{
    struct sw_model_chain *out;
    struct table t = {.b = c->b, .s = c->s};

    if (sw_map_get(&c->s->hosts, host))
        return; /* a Gateway's listener has the name: the routes are in its table */
    out = new_chain(c, "https", host);
    t.name = out->name;
    out->tls = SW_MODEL_TLS_TERMINATE;
    out->kind = SW_MODEL_CHAIN_HTTP;
    out->certs = cert;
    out->n_certs = 1;
    out->alpn_http = true;
    (void)vhost_get(&t, host);
    add_ingress(&t, host);
    out->table = finish_table(&t);
}

/* ---- L4 ---- */

static bool older(const struct attached *x, const struct attached *y)
{
    return by_age(x->route->obj, y->route->obj) < 0;
}

static void set_backends(struct chains *c, struct sw_model_chain *out, const struct listener *l,
                         const struct attached *at)
{
    const struct route *r = at->route;
    static const char *const names[RK_COUNT] = {[RK_HTTP] = "httproute",
                                                [RK_GRPC] = "grpcroute",
                                                [RK_TLS] = "tlsroute",
                                                [RK_TCP] = "tcproute",
                                                [RK_UDP] = "udproute"};

    out->kind = SW_MODEL_CHAIN_L4;
    out->owner = owner_of(l);
    out->tls = l->tls;
    if (l->tls == SW_MODEL_TLS_TERMINATE) {
        out->certs = l->certs;
        out->n_certs = l->n_certs;
    }
    out->backends = l->tls == SW_MODEL_TLS_TERMINATE ? at->compiled->tls : at->compiled->plain;
    out->n_backends = at->compiled->n_backends;
    out->route = gw_printf(c->b, "%s/%.*s", names[r->kind], SW_SLICE_ARG(r->obj->key));
}

static void port_chain(struct chains *c, struct listener *l)
{
    const struct attached *best = l->routes;
    struct sw_model_chain *out;

    for (const struct attached *at = l->routes; at; at = at->next) {
        if (older(at, best))
            best = at;
    }
    if (!best || !listener_served(l))
        return; /* no backend: the port stays closed */
    out = new_chain(c, l->proto == PROTO_UDP ? "udp" : "tcp", sw_slice("", 0));
    set_backends(c, out, l, best);
}

/* The oldest route for each name of a TLS listener. */
static void collect_names(struct chains *c, struct listener *l, struct sw_map *names)
{
    for (struct attached *at = l->routes; at; at = at->next) {
        for (size_t i = 0; i < at->n_hosts; i++) {
            const struct attached *other = sw_map_get(names, at->hosts[i]);

            if (host_owner(&c->s->hosts, at->hosts[i]) == l && (!other || older(at, other)) &&
                !name_refuses_route(c->b, l, at->route, at->hosts[i]))
                (void)sw_map_put(names, at->hosts[i], at);
        }
    }
}

static void tls_route_chain(struct chains *c, const struct listener *l, const struct attached *at,
                            const struct sw_map *names)
{
    struct sw_slice *list = sw_arena_array(c->b->a, at->n_hosts + 1, sizeof(*list));
    struct sw_model_chain *out;
    size_t n = 0;

    for (size_t i = 0; i < at->n_hosts; i++) {
        if (sw_map_get(names, at->hosts[i]) == at)
            list[n++] = at->hosts[i];
    }
    if (!n)
        return;
    sw_slice_sort(list, n);
    out = new_chain(c, "tls", list[0]);
    if (!sw_slice_eq_str(list[0], "*")) {
        out->server_names = list;
        out->n_server_names = n;
    }
    set_backends(c, out, l, at);
}

static void tls_chains(struct chains *c, struct listener *l)
{
    struct sw_map names = {0};

    if (listener_served(l)) {
        collect_names(c, l, &names);
        for (const struct attached *at = l->routes; at; at = at->next)
            tls_route_chain(c, l, at, &names);
    }
    /* Its own name must not fall to a wider listener. */
    if (!sw_map_get(&names, listener_host(l)) && c->s->listeners.n > 1) {
        struct sw_model_chain *out = new_chain(c, "tls", listener_host(l));

        out->kind = SW_MODEL_CHAIN_REFUSE;
        out->owner = owner_of(l);
        out->tls = SW_MODEL_TLS_PASSTHROUGH;
    }
    sw_map_done(&names);
}

/* ---- sockets ---- */

static void make_chains(struct chains *c)
{
    struct socket *s = c->s;

    if (s->proto == PROTO_HTTP) {
        http_chain(c);
        return;
    }
    SW_VEC_EACH (struct listener, l, &s->listeners) {
        if (l->proto == PROTO_HTTPS)
            https_chain(c, l);
        else if (l->proto == PROTO_TLS)
            tls_chains(c, l);
        else
            port_chain(c, l);
    }
    SW_MAP_FOREACH (it, &s->ingress_tls)
        ingress_chain(c, it->key, it->value);
}

static void build_socket(struct builder *b, struct socket *s)
{
    struct chains c = {.b = b, .s = s};
    struct sw_model_listener *out;
    bool serves = false;

    if (s->ingress.n > 1)
        SW_SORT_BY(s->ingress.p, s->ingress.n, host);
    make_chains(&c);
    for (size_t i = 0; i < c.list.n; i++)
        serves |= c.list.p[i]->kind != SW_MODEL_CHAIN_REFUSE;
    if (serves) {
        SW_SORT_POINTERS_BY(c.list.p, c.list.n, name);
        out = SW_ARENA_NEW(b->a, struct sw_model_listener);
        out->name = s->key;
        out->bind = b->conf->addrs[s->addr].bind;
        out->bind_port = s->bind_port;
        out->port = s->port;
        out->udp = s->proto == PROTO_UDP;
        out->inspect_tls = s->proto == PROTO_HTTPS;
        out->chains = CN_COPY_VEC(b->a, &c.list);
        out->n_chains = c.list.n;
        sw_vec_push(&b->out_listeners, out);
    }
    sw_vec_done(&c.list);
}

void build_sockets(struct builder *b)
{
    for (size_t i = 0; i < b->socket_list.n; i++)
        build_socket(b, b->socket_list.p[i]);
}
