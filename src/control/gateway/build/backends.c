/* SPDX-License-Identifier: Apache-2.0 */
/* What routes send traffic to: references become clusters, named after all that shapes them. */
#include <stdio.h>

#include "base/hash.h"
#include "base/search.h"
#include "control/gateway/build/build_int.h"
#include "control/linkname.h"

struct svc_port {
    struct sw_slice name;
    struct sw_slice app_protocol;
    uint16_t number;
};

/* ---- clusters ---- */

static void hash_slice(uint64_t *h, struct sw_slice s)
{
    *h = sw_siphash13(*h, s.n, s.p ? s.p : "", s.n);
}

/*
 * Fixed keys: the name must be the same in every process. Trusted roots count with their content:
 * a data plane keeps connections that it made under other roots (Envoy does), but not those of
 * another cluster.
 */
static uint64_t cluster_hash(const struct builder *b, enum sw_model_proto proto,
                             const struct sw_model_backend_tls *tls)
{
    unsigned char kind[2] = {(unsigned char)proto, tls != NULL};
    uint64_t h = sw_siphash13(1, 2, kind, sizeof(kind));

    if (!tls)
        return h;
    hash_slice(&h, tls->sni);
    hash_slice(&h, tls->ca);
    hash_slice(&h, ca_bundle(b, tls->ca));
    hash_slice(&h, tls->client_cert);
    for (size_t i = 0; i < tls->n_sans; i++) {
        hash_slice(&h, tls->sans[i].kind == SW_MODEL_SAN_DNS ? SW_SLICE_LIT("dns")
                                                             : SW_SLICE_LIT("uri"));
        hash_slice(&h, tls->sans[i].value);
    }
    return h;
}

/* A copy that shares nothing: clusters may outlive the build. */
static const struct sw_model_backend_tls *copy_tls(struct sw_arena *a,
                                                   const struct sw_model_backend_tls *tls)
{
    struct sw_model_backend_tls *copy = SW_ARENA_NEW(a, struct sw_model_backend_tls);
    struct sw_model_san *sans = sw_arena_array(a, tls->n_sans + 1, sizeof(*sans));

    *copy = (struct sw_model_backend_tls){.sni = sw_arena_slice(a, tls->sni),
                                          .ca = sw_arena_slice(a, tls->ca),
                                          .client_cert = sw_arena_slice(a, tls->client_cert),
                                          .sans = sans,
                                          .n_sans = tls->n_sans};
    for (size_t i = 0; i < tls->n_sans; i++)
        sans[i] = (struct sw_model_san){.kind = tls->sans[i].kind,
                                        .value = sw_arena_slice(a, tls->sans[i].value)};
    return copy;
}

struct sw_model_cluster *intern_cluster(struct builder *b, struct sw_slice endpoints,
                                        enum sw_model_proto proto,
                                        const struct sw_model_backend_tls *tls)
{
    char name[1024];
    int n = snprintf(name, sizeof(name), "%.*s/%016llx", SW_SLICE_ARG(endpoints),
                     (unsigned long long)cluster_hash(b, proto, tls));
    struct sw_slice key = sw_slice(name, sw_min((size_t)n, sizeof(name) - 1));
    struct sw_model_cluster *c = sw_map_get(&b->clusters, key);

    if (c)
        return c;
    c = &SW_ARENA_NEW(b->keep, struct own_cluster)->c;
    c->name = sw_arena_slice(b->keep, key);
    c->endpoints = sw_arena_slice(b->keep, endpoints);
    c->proto = proto;
    if (tls)
        c->tls = copy_tls(b->keep, tls);
    (void)sw_map_put(&b->clusters, c->name, c);
    return c;
}

/* ---- Services ---- */

/* Which port of a Service is meant: by number, or by name when that is 0. */
struct port_ref {
    uint16_t number;
    struct sw_slice name;
    const char *transport;
};

static const struct sw_json *find_port(const struct sw_json *ports, const struct port_ref *want,
                                       bool *ret_other)
{
    SW_JSON_ITEMS (p, ports) {
        bool hit = want->number ? js_int(p, "port", UINT16_MAX, 0) == want->number
                                : sw_slice_eq(js_or(p, "name", ""), want->name);

        if (!hit)
            continue;
        if (sw_slice_eq_str(js_or(p, "protocol", "TCP"), want->transport))
            return p;
        *ret_other = true;
    }
    return NULL;
}

static struct verdict find_service_port(struct builder *b, struct sw_slice ns, struct sw_slice name,
                                        const struct port_ref *want, struct svc_port *ret)
{
    const struct sw_kube_obj *o = sw_view_find(b->v, SW_MODEL_SERVICE, ns, name);
    const struct sw_json *spec = o ? sw_json_find(o->json, "spec") : NULL;
    const struct sw_json *p;
    bool other = false;

    if (!o)
        return VERDICT(b, "BackendNotFound", "there is no Service '%.*s/%.*s'", SW_SLICE_ARG(ns),
                       SW_SLICE_ARG(name));
    if (sw_slice_eq_str(js_or(spec, "type", ""), "ExternalName"))
        return VERDICT(b, "BackendNotFound",
                       "Service '%.*s/%.*s' is an ExternalName, which is not served",
                       SW_SLICE_ARG(ns), SW_SLICE_ARG(name));
    p = find_port(sw_json_find(spec, "ports"), want, &other);
    if (!p)
        return VERDICT(b, other ? "UnsupportedProtocol" : "BackendNotFound",
                       "Service '%.*s/%.*s' has no %s port %u%.*s", SW_SLICE_ARG(ns),
                       SW_SLICE_ARG(name), want->transport, want->number, SW_SLICE_ARG(want->name));
    *ret = (struct svc_port){.name = js_or(p, "name", ""),
                             .app_protocol = js_or(p, "appProtocol", ""),
                             .number = (uint16_t)js_int(p, "port", UINT16_MAX, 0)};
    return (struct verdict){0};
}

bool app_proto(struct sw_slice app, enum route_kind kind, enum sw_model_proto *ret, bool *ret_tls)
{
    static const struct {
        const char *name;
        enum sw_model_proto proto;
        bool tls;
    } known[] = {
        {"http", SW_MODEL_PROTO_HTTP1, false},
        {"https", SW_MODEL_PROTO_HTTP1, true},
        {"kubernetes.io/h2c", SW_MODEL_PROTO_HTTP2, false},
        {"h2c", SW_MODEL_PROTO_HTTP2, false},
        {"http2", SW_MODEL_PROTO_HTTP2, false},
        {"grpc", SW_MODEL_PROTO_HTTP2, false},
        {"kubernetes.io/ws", SW_MODEL_PROTO_WS, false},
        {"kubernetes.io/wss", SW_MODEL_PROTO_WS, true},
    };

    *ret_tls = false;
    *ret = route_protos[kind];
    if (!app.n || kind == RK_TCP || kind == RK_TLS || kind == RK_UDP)
        return true;
    for (size_t i = 0; i < SW_ARRAY_LEN(known); i++) {
        if (!sw_slice_ieq(app, sw_slice_str(known[i].name)))
            continue;
        /* gRPC needs HTTP/2, whatever the port calls itself. */
        if (kind != RK_GRPC)
            *ret = known[i].proto;
        *ret_tls = known[i].tls;
        return true;
    }
    return false;
}

static void remember_service(struct builder *b, struct route *r, struct sw_slice ns,
                             struct sw_slice name, bool policies)
{
    struct sw_slice key = gw_printf(b, "%.*s/%.*s", SW_SLICE_ARG(ns), SW_SLICE_ARG(name));

    if (policies && !sw_slice_in(key, r->services.p, r->services.n))
        sw_vec_push(&r->services, key);
    if (b->cache && !sw_slice_in(key, r->looked_at.p, r->looked_at.n))
        sw_vec_push(&r->looked_at, key);
}

static struct sw_model_cluster *service_backend(struct builder *b, const struct backend_ctx *ctx,
                                                struct sw_slice ns, struct sw_slice name,
                                                uint16_t number, struct verdict *ret)
{
    struct svc_port port = {0};
    struct sw_model_backend_tls tls = {0};
    const struct policy *p = NULL;
    enum sw_model_proto proto;
    bool wants_tls;
    enum route_kind kind = ctx->route->kind;
    const struct port_ref want = {.number = number, .transport = kind == RK_UDP ? "UDP" : "TCP"};

    if (b->cache || b->policy_list.n)
        remember_service(b, ctx->route, ns, name, b->policy_list.n && ctx->use_policies);
    *ret = find_service_port(b, ns, name, &want, &port);
    if (ret->reason)
        return NULL;
    if (ctx->use_policies)
        p = policy_for(b, ns, name, port.name);
    if (!app_proto(port.app_protocol, kind, &proto, &wants_tls) || (wants_tls && !p)) {
        *ret = VERDICT(b, "UnsupportedProtocol", "Service '%.*s/%.*s' port %u speaks '%.*s'%s",
                       SW_SLICE_ARG(ns), SW_SLICE_ARG(name), port.number,
                       SW_SLICE_ARG(port.app_protocol),
                       wants_tls ? ", which needs a BackendTLSPolicy" : ", which is not supported");
        return NULL;
    }
    if (ctx->http2)
        proto = SW_MODEL_PROTO_HTTP2;
    if (p && p->accepted.reason)
        return NULL; /* the policy's status says why; nothing may go out unprotected */
    if (p) {
        tls = p->tls;
        tls.client_cert = ctx->client_cert;
    }
    return intern_cluster(b,
                          gw_printf(b, "%.*s/%.*s/%u%s", SW_SLICE_ARG(ns), SW_SLICE_ARG(name),
                                    port.number, kind == RK_UDP ? SW_MODEL_UDP_SET : ""),
                          proto, p ? &tls : NULL);
}

struct sw_model_cluster *service_cluster(struct builder *b, struct sw_slice ns,
                                         struct sw_slice name, uint16_t number,
                                         struct sw_slice port_name, struct verdict *ret)
{
    struct svc_port port = {0};
    struct route none = {.kind = RK_HTTP};
    const struct backend_ctx ctx = {.route = &none, .use_policies = true};
    struct sw_model_cluster *c;

    if (!number) {
        *ret = find_service_port(b, ns, name,
                                 &(struct port_ref){.name = port_name, .transport = "TCP"}, &port);
        if (ret->reason)
            return NULL;
        number = port.number;
    }
    c = service_backend(b, &ctx, ns, name, number, ret);
    route_done(&none);
    return c;
}

/* ---- other kinds ---- */

typedef struct sw_model_cluster *(*backend_fn)(struct builder *b, const struct backend_ctx *ctx,
                                               const struct sw_gateway_ref *ref,
                                               struct verdict *ret);

/* The resolver for references of a kind; NULL: none. */
static backend_fn foreign_kind(const struct sw_gateway_ref *r)
{
    static const struct {
        const char *group;
        const char *kind;
        backend_fn fn;
    } kinds[] = {
        {"networking.datumapis.com", "Connector", connector_backend},
        {"discovery.k8s.io", "EndpointSlice", slice_backend},
        {SW_LINK_GROUP, "Import", import_backend},
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(kinds); i++) {
        if (sw_slice_eq_str(r->group, kinds[i].group) && sw_slice_eq_str(r->kind, kinds[i].kind))
            return kinds[i].fn;
    }
    return NULL;
}

/* Kind before permission before existence: a tenant must not learn what exists in other namespaces.
 */
struct sw_model_cluster *resolve_backend(struct builder *b, const struct backend_ctx *ctx,
                                         const struct sw_json *ref, struct verdict *ret)
{
    const struct sw_kube_obj *o = ctx->route->obj;
    struct sw_gateway_ref r = {.group = js_or(ref, "group", ""),
                               .kind = js_or(ref, "kind", "Service"),
                               .ns = js_or(ref, "namespace", ""),
                               .name = js(ref, "name"),
                               .port = (uint16_t)js_int(ref, "port", UINT16_MAX, 0)};
    bool service = !r.group.n && sw_slice_eq_str(r.kind, "Service");
    backend_fn foreign = service ? NULL : foreign_kind(&r);

    *ret = (struct verdict){0};
    if (!r.ns.n)
        r.ns = o->ns;
    ctx->route->crossing |= !sw_slice_eq(r.ns, o->ns);
    if (!service && !foreign)
        *ret = VERDICT(b, "InvalidKind",
                       "'%.*s' in group '%.*s' cannot be a "
                       "backend",
                       SW_SLICE_ARG(r.kind), SW_SLICE_ARG(r.group));
    else if (!ref_granted(b, &(struct ref_from){route_kind_names[ctx->route->kind], o->ns}, &r))
        *ret = VERDICT(b, "RefNotPermitted", "no ReferenceGrant in '%.*s' permits %.*s '%.*s'",
                       SW_SLICE_ARG(r.ns), SW_SLICE_ARG(r.kind), SW_SLICE_ARG(r.name));
    else if (service && !r.port)
        *ret = (struct verdict){"BackendNotFound", "a Service needs a port"};
    if (ret->reason)
        return NULL;
    return service ? service_backend(b, ctx, r.ns, r.name, r.port, ret) : foreign(b, ctx, &r, ret);
}

void note_unresolved(struct route *r, struct verdict v)
{
    if (v.reason && !r->resolved.reason)
        r->resolved = v;
}
