/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ingresses: their rules join the tables of ports 80 and 443 on the first address, behind every
 * route of the Gateway API. A host of another namespace is left alone (names.c).
 */
#include <stdlib.h>

#include "control/gateway/build/build_int.h"
#include "control/gateway/build/rule.h"
#include "xds/limits.h"

enum { RULES_MAX = 256, PATHS_MAX = 256, TLS_HOSTS_MAX = 1024 };

/* ---- whose it is ---- */

static bool class_is_ours(const struct builder *b, const struct sw_kube_obj *class)
{
    return class && sw_slice_eq(sw_json_str(sw_json_walk(class->json, "spec", "controller", NULL)),
                                b->conf->ingress_controller);
}

static bool default_class(const struct sw_kube_obj *class)
{
    return sw_json_str_eq(sw_json_walk(class->json, "metadata", "annotations",
                                       "ingressclass.kubernetes.io/is-default-class", NULL),
                          "true");
}

static bool is_ours(const struct builder *b, const struct sw_kube_obj *o)
{
    struct sw_slice name = sw_json_str(sw_json_walk(o->json, "spec", "ingressClassName", NULL));

    if (!name.p)
        name = sw_json_str(
            sw_json_walk(o->json, "metadata", "annotations", "kubernetes.io/ingress.class", NULL));
    if (name.p)
        return class_is_ours(b, sw_view_find(b->v, SW_MODEL_INGRESSCLASS, sw_slice(NULL, 0), name));
    SW_VIEW_EACH (c, b->v, SW_MODEL_INGRESSCLASS) {
        if (default_class(c))
            return class_is_ours(b, c);
    }
    return false;
}

/* A host that is there and no name: the rule must not come to stand for all hosts. */
static bool bad_host(const struct sw_json *host)
{
    return host && host->type != SW_JSON_NULL &&
           (host->type != SW_JSON_STRING || (host->text.n && !host_valid(host->text)));
}

/* ---- routes ---- */

struct ingress {
    struct builder *b;
    struct route *route;
    struct socket *http;  /* NULL: the port belongs to others */
    struct socket *https; /* NULL: no certificate */
    const struct sw_json *spec;
    struct load load; /* of what was put so far */
    size_t http_from; /* where its own begin */
    size_t https_from;
    size_t n_tls_hosts;
    bool refused; /* one of its hosts is another namespace's */
};

static bool may_serve(struct ingress *in, struct sw_slice host)
{
    bool ours = name_for_ingress(in->b, host, in->route->obj);

    in->refused |= !ours;
    return ours;
}

static struct sw_model_route *make_route(struct ingress *in, const struct sw_json *backend,
                                         size_t rule, size_t path)
{
    const struct sw_kube_obj *o = in->route->obj;
    const struct sw_json *svc = sw_json_find(backend, "service");
    const struct sw_json *port = sw_json_find(svc, "port");
    struct sw_model_route *r = SW_ARENA_NEW(in->b->a, struct sw_model_route);
    struct sw_model_backend *be = SW_ARENA_NEW(in->b->a, struct sw_model_backend);
    struct verdict v = {0};

    be->weight = 1;
    if (svc)
        be->cluster = service_cluster(in->b, o->ns, js(svc, "name"),
                                      (uint16_t)js_int(port, "number", UINT16_MAX, 0),
                                      js_or(port, "name", ""), &v);
    r->name = gw_printf(in->b, "ingress/%.*s/rule/%zu/match/%zu", SW_SLICE_ARG(o->key), rule, path);
    r->action = be->cluster ? SW_MODEL_FORWARD : SW_MODEL_RESPOND;
    if (!be->cluster) {
        r->status = 500;
        add_note(in->b, gw_printf(in->b, "ingress/%.*s/%zu/%zu", SW_SLICE_ARG(o->key), rule, path),
                 sw_slice_str(v.msg ? v.msg : "a backend that is no Service is not served"));
    } else {
        r->backends = be;
        r->n_backends = 1;
    }
    r->invalid_status = 500;
    r->request_timeout_ms = -1;
    r->backend_timeout_ms = -1;
    r->websocket = true;
    return r;
}

/* The first says enough. */
static void say(struct ingress *in, struct sw_slice text)
{
    if (!in->route->too_large)
        note_limit(in->b, SW_MODEL_INGRESS, in->route->obj, text);
    in->route->too_large = true;
}

static void put(struct ingress *in, struct socket *s, struct sw_slice host, const struct entry *e)
{
    if (!host.n)
        host = SW_SLICE_LIT("*");
    if (!s || !object_fits(in->load) || !may_serve(in, host))
        return;
    in->load.bytes += route_size(e->r) + 2 * host.n;
    sw_vec_push(&s->ingress, (struct ingress_entry){host, e, in->route});
}

/* What two certificates of the Ingress cover is there once. */
static void put_once(struct ingress *in, struct sw_map *had, struct sw_slice host,
                     const struct entry *e)
{
    if (!host.n)
        host = SW_SLICE_LIT("*");
    if (!sw_map_put(had, host, in))
        put(in, in->https, host, e);
}

/* Under every certificate that covers the host. */
static void put_tls(struct ingress *in, struct sw_slice host, const struct entry *e)
{
    const struct sw_json *tls = sw_json_find(in->spec, "tls");
    struct sw_map had = {0};

    for (size_t i = 0; in->https && object_fits(in->load) && i < sw_json_len(tls); i++) {
        const struct sw_json *hosts = sw_json_find(sw_json_at(tls, i), "hosts");

        if (!sw_json_len(hosts))
            put_once(in, &had, host, e);
        for (size_t k = 0; k < sw_json_len(hosts); k++) {
            struct sw_slice th = sw_json_str(sw_json_at(hosts, k));
            struct sw_slice common = th;

            if (bad_host(sw_json_at(hosts, k)))
                continue;
            if (!host.n || host_intersect(host, th, &common))
                put_once(in, &had, common, e);
        }
    }
    sw_map_done(&had);
}

static void add_path(struct ingress *in, struct sw_slice host, const struct sw_json *path,
                     const struct sw_json *backend, size_t rule, size_t index)
{
    struct sw_model_route *r = make_route(in, backend, rule, index);
    struct entry *e = SW_ARENA_NEW(in->b->a, struct entry);

    r->match.path = js_or(path, "path", "/");
    r->match.path_kind = SW_MODEL_PATH_PREFIX;
    if (sw_json_str_eq(sw_json_find(path, "pathType"), "Exact"))
        r->match.path_kind = SW_MODEL_PATH_EXACT;
    while (r->match.path_kind == SW_MODEL_PATH_PREFIX && r->match.path.n > 1 &&
           r->match.path.p[r->match.path.n - 1] == '/')
        r->match.path.n--;
    if (!r->match.path.n)
        r->match.path = SW_SLICE_LIT("/");
    if (r->match.path.n > SW_XDS_PATH_MAX) {
        note_limit(
            in->b, SW_MODEL_INGRESS, in->route->obj,
            gw_printf(
                in->b,
                "rule %zu, path %zu: %zu bytes, of which %d are possible; the path is not served",
                rule, index, r->match.path.n, SW_XDS_PATH_MAX));
        return;
    }
    if (!path_valid(r->match.path)) {
        add_note(in->b,
                 gw_printf(in->b, "ingress/%.*s/%zu/%zu", SW_SLICE_ARG(in->route->obj->key), rule,
                           index),
                 SW_SLICE_LIT("no request has this path; it is not served"));
        return;
    }
    *e = (struct entry){.r = r,
                        .route = in->route,
                        .rank = r->match.path_kind == SW_MODEL_PATH_EXACT ? 0 : 2,
                        .len1 = (uint32_t)r->match.path.n,
                        .rule = (uint16_t)rule,
                        .match = (uint16_t)index,
                        .low = true};
    put(in, in->http, host, e);
    put_tls(in, host, e);
}

/* True when an earlier rule has the same host. */
static bool host_seen(const struct sw_json *rules, size_t before, struct sw_slice host)
{
    for (size_t i = 0; i < before; i++) {
        if (sw_slice_eq(js_or(sw_json_at(rules, i), "host", ""), host))
            return true;
    }
    return false;
}

/* What no path takes goes to the default backend: for hosts without rules, and behind the paths of
 * each host that has rules. */
static void add_fallback(struct ingress *in, const struct sw_json *backend,
                         const struct sw_json *rules, size_t n)
{
    add_path(in, sw_slice("", 0), NULL, backend, n, 0);
    for (size_t i = 0; i < n; i++) {
        struct sw_slice host = js_or(sw_json_at(rules, i), "host", "");

        if (host.n && host_valid(host) && !host_seen(rules, i, host))
            add_path(in, host, NULL, backend, n, i + 1);
    }
}

static void add_rules(struct ingress *in)
{
    const struct sw_json *rules = sw_json_find(in->spec, "rules");
    const struct sw_json *fallback = sw_json_find(in->spec, "defaultBackend");
    size_t n = sw_min(sw_json_len(rules), RULES_MAX);

    for (size_t i = 0; i < n; i++) {
        const struct sw_json *rule = sw_json_at(rules, i);
        const struct sw_json *paths = sw_json_walk(rule, "http", "paths", NULL);

        if (bad_host(sw_json_find(rule, "host"))) {
            add_note(in->b,
                     gw_printf(in->b, "ingress/%.*s/%zu", SW_SLICE_ARG(in->route->obj->key), i),
                     SW_SLICE_LIT("the host is no host name; the rule is not served"));
            continue;
        }
        for (size_t k = 0; k < sw_min(sw_json_len(paths), PATHS_MAX); k++) {
            const struct sw_json *p = sw_json_at(paths, k);

            add_path(in, js_or(rule, "host", ""), p, sw_json_find(p, "backend"), i, k);
        }
    }
    if (fallback)
        add_fallback(in, fallback, rules, n);
}

/* Everything that was put goes; its hosts answer with an error. */
static void refuse(struct ingress *in)
{
    const struct sw_json *rules = sw_json_find(in->spec, "rules");
    struct entry *e = SW_ARENA_NEW(in->b->a, struct entry);
    struct load was = in->load;

    in->load = (struct load){0};
    if (in->http)
        in->http->ingress.n = in->http_from;
    if (in->https)
        in->https->ingress.n = in->https_from;
    *e = (struct entry){.r = error_route(in->b,
                                         gw_printf(in->b, "ingress/%.*s/too-large",
                                                   SW_SLICE_ARG(in->route->obj->key)),
                                         500),
                        .route = in->route,
                        .rank = 2,
                        .len1 = 1,
                        .low = true};
    for (size_t i = 0; i < sw_min(sw_json_len(rules), RULES_MAX); i++) {
        struct sw_slice host = js_or(sw_json_at(rules, i), "host", "");

        if (host.n && host_valid(host) && !host_seen(rules, i, host)) {
            put(in, in->http, host, e);
            put(in, in->https, host, e);
        }
    }
    say(in, object_limits(in->b, was));
}

/* ---- sockets ---- */

static struct socket *ingress_socket(struct ingress *in, uint16_t port, enum proto proto)
{
    struct socket *s = socket_find(in->b, 0, port, false);

    if (s && s->proto == proto)
        return s;
    if (!s && !socket_blocked(in->b, 0, port))
        return socket_get(in->b, 0, port, proto);
    add_note(in->b,
             gw_printf(in->b, "ingress/%.*s/port/%u", SW_SLICE_ARG(in->route->obj->key), port),
             gw_printf(in->b, "port %u belongs to a Gateway with another protocol", port));
    return NULL;
}

static void add_cert(struct ingress *in, struct sw_slice host, struct sw_slice cert)
{
    struct sw_slice *copy;

    if (!host.n)
        host = SW_SLICE_LIT("*");
    if (sw_map_get(&in->https->ingress_tls, host) || !may_serve(in, host))
        return; /* an older Ingress brought one, or the name is not its own */
    if (in->n_tls_hosts++ >= TLS_HOSTS_MAX || in->https->ingress_tls.n >= SW_XDS_CHAINS_MAX / 4) {
        note_limit(
            in->b, SW_MODEL_INGRESS, in->route->obj,
            SW_SLICE_LIT("more names with certificates than are possible; not all are served"));
        return;
    }
    copy = SW_ARENA_NEW(in->b->a, struct sw_slice);
    *copy = cert;
    (void)sw_map_put(&in->https->ingress_tls, host, copy);
}

static void add_certs(struct ingress *in)
{
    const struct sw_json *tls = sw_json_find(in->spec, "tls");
    const struct sw_kube_obj *o = in->route->obj;

    for (size_t i = 0; i < sw_json_len(tls); i++) {
        const struct sw_json *item = sw_json_at(tls, i);
        const struct sw_json *hosts = sw_json_find(item, "hosts");
        struct sw_slice cert = {0};
        struct verdict v = cert_by_name(in->b, o->ns, js_or(item, "secretName", ""), "bad", &cert);

        if (v.reason) {
            add_note(in->b, gw_printf(in->b, "ingress/%.*s/tls/%zu", SW_SLICE_ARG(o->key), i),
                     sw_slice_str(v.msg));
            continue;
        }
        if (!in->https)
            in->https = ingress_socket(in, 443, PROTO_HTTPS);
        if (!in->https)
            return;
        if (!sw_json_len(hosts))
            add_cert(in, sw_slice("", 0), cert);
        for (size_t k = 0; k < sw_json_len(hosts); k++) {
            if (!bad_host(sw_json_at(hosts, k)))
                add_cert(in, sw_json_str(sw_json_at(hosts, k)), cert);
        }
    }
}

static void put_address(struct builder *b, const struct sw_kube_obj *o)
{
    const struct sw_model_address *at = &b->conf->addrs[0];
    struct sw_json *item =
        SW_JSON_OF(b->a, {at->hostname ? "hostname" : "ip", .text = at->address});
    struct sw_json *lb = SW_JSON_OF(b->a, {"ingress", .json = sw_json_new_list(b->a, item)});

    put_status(b, SW_MODEL_INGRESS, o, SW_JSON_OF(b->a, {"loadBalancer", .json = lb}));
}

static bool was_served(const struct sw_kube_obj *o)
{
    return sw_json_len(sw_json_walk(o->json, "status", "loadBalancer", "ingress", NULL)) > 0;
}

/* Ages have seconds: of two that are equally old, or nearly, the one that is served stays first. */
static int ingress_by_age(const void *x, const void *y)
{
    const struct sw_kube_obj *const *p = x;
    const struct sw_kube_obj *const *q = y;
    int d = (int)was_served(*q) - (int)was_served(*p);

    return d ? d : by_age(*p, *q);
}

static void build_one(struct builder *b, const struct sw_kube_obj *o)
{
    struct ingress in = {.b = b, .spec = sw_json_find(o->json, "spec")};

    in.route = SW_ARENA_NEW(b->a, struct route);
    in.route->obj = o;
    in.route->created = created_of(o);
    in.http = ingress_socket(&in, 80, PROTO_HTTP);
    in.http_from = in.http ? in.http->ingress.n : 0;
    add_certs(&in);
    in.https_from = in.https ? in.https->ingress.n : 0;
    add_rules(&in);
    if (!object_fits(in.load))
        refuse(&in);
    /* The address is the record that it is served: who asks for a host of others gets none. */
    if (!in.refused)
        put_address(b, o);
}

/* Who is served, then oldest first: whose name sorts before another's must not take that one's host
 * over. */
void build_ingress(struct builder *b)
{
    size_t all = b->conf->n_addrs ? sw_view_count(b->v, SW_MODEL_INGRESS) : 0;
    const struct sw_kube_obj **list = sw_arena_array(b->a, all + 1, sizeof(*list));
    size_t n = 0;

    for (size_t i = 0; i < all; i++) {
        const struct sw_kube_obj *o = sw_view_at(b->v, SW_MODEL_INGRESS, i);

        if (is_ours(b, o))
            list[n++] = o;
    }
    if (n)
        names_of_gateways(b);
    if (n > 1)
        qsort(list, n, sizeof(*list), ingress_by_age);
    for (size_t i = 0; i < n; i++)
        build_one(b, list[i]);
}
