/* SPDX-License-Identifier: Apache-2.0 */
/* Listeners one by one: protocol, route kinds, certificates, client validation. */
#include "control/gateway/build/build_int.h"

enum { LISTENERS_MAX = 64 };

static const struct {
    const char *name;
    enum proto proto;
    unsigned kinds;
} protocols[] = {
    {"HTTP", PROTO_HTTP, 1u << RK_HTTP | 1u << RK_GRPC},
    {"HTTPS", PROTO_HTTPS, 1u << RK_HTTP | 1u << RK_GRPC},
    {"TLS", PROTO_TLS, 1u << RK_TLS},
    {"TCP", PROTO_TCP, 1u << RK_TCP},
    {"UDP", PROTO_UDP, 1u << RK_UDP},
};

static const char *kind_name(const struct parent *p)
{
    return p->kind == SW_MODEL_GATEWAY ? "Gateway" : "ListenerSet";
}

static void set_verdict(struct verdict *v, const char *reason, const char *msg)
{
    if (!v->reason)
        *v = (struct verdict){reason, msg};
}

/* ---- kinds ---- */

static void push_kind(struct builder *b, struct listener *l, enum route_kind k)
{
    sw_json_push(
        b->a, l->supported,
        SW_JSON_OF(b->a, {"group", .str = GW_GROUP}, {"kind", .str = route_kind_names[k]}));
    l->kinds |= 1u << k;
}

static void wanted_kind(struct builder *b, struct listener *l, const struct sw_json *ref,
                        unsigned possible)
{
    struct sw_slice kind = js(ref, "kind");

    for (unsigned k = 0; k < RK_COUNT; k++) {
        if ((possible & 1u << k) && sw_slice_eq_str(kind, route_kind_names[k]) &&
            sw_slice_eq_str(js_or(ref, "group", GW_GROUP), GW_GROUP)) {
            if (!(l->kinds & 1u << k))
                push_kind(b, l, (enum route_kind)k);
            return;
        }
    }
    set_verdict(&l->resolved, "InvalidRouteKinds",
                sw_arena_printf(b->a, "routes of kind '%.*s' cannot attach to this listener",
                                SW_SLICE_ARG(kind)));
}

static void read_kinds(struct builder *b, struct listener *l, unsigned possible)
{
    const struct sw_json *given = sw_json_walk(l->spec, "allowedRoutes", "kinds", NULL);
    size_t n = sw_json_len(given);

    l->supported = sw_json_new_array(b->a);
    for (unsigned k = 0; k < RK_COUNT && !n; k++) {
        if (possible & 1u << k)
            push_kind(b, l, (enum route_kind)k);
    }
    for (size_t i = 0; i < n; i++)
        wanted_kind(b, l, sw_json_at(given, i), possible);
    if (!l->kinds && possible)
        l->broken = "no kind of route can attach";
}

/* ---- TLS ---- */

static void read_certs(struct builder *b, struct listener *l, const struct sw_json *tls)
{
    const struct sw_json *refs = sw_json_find(tls, "certificateRefs");
    size_t n = sw_min(sw_json_len(refs), 64);

    l->certs = sw_arena_array(b->a, n + 1, sizeof(*l->certs));
    for (size_t i = 0; i < n; i++) {
        struct sw_slice name = {0};
        struct verdict v =
            resolve_cert(b, &(struct ref_from){kind_name(l->parent), l->parent->obj->ns},
                         sw_json_at(refs, i), "InvalidCertificateRef", &name);

        if (v.reason)
            set_verdict(&l->resolved, v.reason, v.msg);
        else
            l->certs[l->n_certs++] = name;
    }
    if (!n)
        l->broken = "TLS cannot be terminated without certificateRefs";
    else if (!l->n_certs)
        l->broken = "none of the certificates can be used";
}

/* The validation for this port; the port's own replaces the default entirely. */
static const struct sw_json *find_validation(const struct listener *l)
{
    const struct sw_json *frontend = sw_json_walk(l->parent->gw->spec, "tls", "frontend", NULL);
    const struct sw_json *ports = sw_json_find(frontend, "perPort");

    SW_JSON_ITEMS (p, ports) {
        if (js_int(p, "port", UINT16_MAX, 0) == l->port)
            return sw_json_walk(p, "tls", "validation", NULL);
    }
    return sw_json_walk(frontend, "default", "validation", NULL);
}

static void read_validation(struct builder *b, struct listener *l)
{
    static const struct ca_reasons why = {"InvalidCACertificateRef", "InvalidCACertificateKind",
                                          "RefNotPermitted"};
    /* The reference stands in the Gateway, whoever's listener it is. */
    const struct ref_from from = {"Gateway", l->parent->gw->parent.obj->ns};
    const struct sw_json *v = find_validation(l);
    struct sw_slice mode = js_or(v, "mode", "AllowValidOnly");
    struct verdict bad = {0};
    bool some;

    if (!v)
        return;
    some = resolve_cas(b, &from, sw_json_find(v, "caCertificateRefs"), &why, &l->client_ca, &bad);
    if (bad.reason)
        set_verdict(&l->resolved, bad.reason, bad.msg);
    l->client_mode = SW_MODEL_CLIENT_REQUIRE;
    if (sw_slice_eq_str(mode, "AllowInsecureFallback"))
        l->client_mode = SW_MODEL_CLIENT_INSECURE;
    if (!some) {
        set_verdict(&l->accepted, "NoValidCACertificate",
                    "no CA certificate for client certificates can be used");
        l->refuse = true;
    }
}

static void read_tls(struct builder *b, struct listener *l)
{
    const struct sw_json *tls = sw_json_find(l->spec, "tls");
    struct sw_slice mode = js_or(tls, "mode", "Terminate");

    if (l->proto != PROTO_HTTPS && l->proto != PROTO_TLS)
        return;
    if (sw_slice_eq_str(mode, "Passthrough") && l->proto == PROTO_TLS) {
        l->tls = SW_MODEL_TLS_PASSTHROUGH;
        return;
    }
    l->tls = SW_MODEL_TLS_TERMINATE;
    if (!sw_slice_eq_str(mode, "Terminate"))
        set_verdict(
            &l->accepted, "UnsupportedValue",
            sw_arena_printf(b->a, "TLS mode '%.*s' is not supported here", SW_SLICE_ARG(mode)));
    read_certs(b, l, tls);
    if (l->proto == PROTO_HTTPS)
        read_validation(b, l);
}

/* ---- all of one parent ---- */

/* One that is no name matches nothing: it must not come to stand for all names. Then false. */
static bool read_host(struct builder *b, struct listener *l)
{
    const struct sw_json *given = sw_json_find(l->spec, "hostname");

    l->host = js_or(l->spec, "hostname", "");
    if (!given || given->type == SW_JSON_NULL ||
        (given->type == SW_JSON_STRING && (!l->host.n || host_valid(l->host))))
        return true;
    set_verdict(&l->accepted, "UnsupportedValue",
                sw_arena_printf(b->a, "hostname '%.*s' is no host name",
                                SW_SLICE_ARG(sw_slice_head(l->host, 253))));
    if (!l->host.n)
        l->host = SW_SLICE_LIT("(none)");
    return false;
}

static void read_listener(struct builder *b, struct parent *p, struct listener *l,
                          const struct sw_json *spec)
{
    struct sw_slice proto = js(spec, "protocol");
    unsigned kinds = 0;
    bool named = true;

    l->parent = p;
    l->spec = spec;
    l->name = js_or(spec, "name", "");
    l->port = (uint16_t)js_int(spec, "port", UINT16_MAX, 0);
    l->bind_port = l->port;
    l->proto = PROTO_UNKNOWN;
    for (size_t i = 0; i < SW_ARRAY_LEN(protocols); i++) {
        if (sw_slice_eq_str(proto, protocols[i].name)) {
            l->proto = protocols[i].proto;
            kinds = protocols[i].kinds;
        }
    }
    if (l->proto == PROTO_UNKNOWN)
        set_verdict(&l->accepted, "UnsupportedProtocol",
                    sw_arena_printf(b->a, "protocol '%.*s' is not supported", SW_SLICE_ARG(proto)));
    if (!l->port)
        set_verdict(&l->accepted, "PortUnavailable", "a listener needs a port from 1 to 65535");
    l->ns = ns_rule_read(b, sw_json_walk(spec, "allowedRoutes", "namespaces", NULL), FROM_SAME);
    if (l->proto != PROTO_TCP && l->proto != PROTO_UDP)
        named = read_host(b, l);
    read_kinds(b, l, kinds);
    read_tls(b, l);
    l->refuse = l->refuse && named; /* an invalid name is not reserved */
}

void read_listeners(struct builder *b, struct parent *p)
{
    const struct sw_json *list = sw_json_walk(p->obj->json, "spec", "listeners", NULL);

    p->n_listeners = sw_min(sw_json_len(list), LISTENERS_MAX);
    p->listeners = sw_arena_array(b->a, p->n_listeners + 1, sizeof(*p->listeners));
    for (size_t i = 0; i < p->n_listeners; i++)
        read_listener(b, p, &p->listeners[i], sw_json_at(list, i));
}
