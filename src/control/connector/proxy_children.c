/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is made for an HTTPProxy: EndpointSlices that stand for its backends, certificates, CAs, the
 * route; its Gateway is in proxy_gateway.c. All belong to the HTTPProxy and go with it.
 */
#include "base/hash.h"
#include "base/time.h"
#include "control/connector/proxy_int.h"
#include "tls/cert/x509.h"

#define SPEC_HASH "spanwire.dev/spec-hash"

static const uint64_t renew_ns = UINT64_C(30) * 24 * 3600 * SW_NS_PER_S;

struct sw_json *hp_child(struct hp *h, const char *api, const char *kind, struct sw_slice name)
{
    struct sw_json *obj = cn_object(h->a, api, kind, h->obj->ns, name);

    cn_meta(h->a, obj, "labels", MANAGED, SW_SLICE_LIT("spanwire"));
    cn_meta(h->a, obj, "labels", PROXY, h->obj->name);
    cn_own(h->a, obj, h->obj, HP_API, "HTTPProxy");
    return obj;
}

/*
 * Fields that are not wanted any more have to go too, and what is compared is only whether the
 * wanted ones are there: the hash tells.
 */
void hp_put_spec(struct hp *h, struct sw_json *obj, struct sw_json *spec)
{
    struct sw_slice text =
        sw_json_text(h->a, spec, &(struct sw_json_write_opts){.flags = SW_JSON_SORT_KEYS});

    cn_meta(h->a, obj, "annotations", SPEC_HASH,
            cn_printf(h->a, "%016llx", (unsigned long long)sw_siphash13(3, 5, text.p, text.n)));
    sw_json_put(h->a, obj, "spec", spec);
}

/* ---- certificates ---- */

static struct sw_slice secret_name(struct hp *h, const struct hp_host *host)
{
    return cn_printf(h->a, "%.*s-tls-%08x", SW_SLICE_ARG(h->obj->name),
                     (unsigned)sw_siphash13(11, 13, host->name.p, host->name.n));
}

static void ask_certificate(struct hp *h, const struct hp_host *host)
{
    struct sw_json *s = hp_child(h, "v1", "Secret", host->secret);

    cn_meta(h->a, s, "labels", SW_CONNECTOR_CERT_LABEL, SW_SLICE_LIT("true"));
    cn_meta(h->a, s, "annotations", SW_CONNECTOR_CERT_NAME, host->name);
    cn_meta(h->a, s, "annotations", SW_CONNECTOR_CERT_BY, h->conf->issuer);
    sw_json_put(h->a, s, "type", sw_json_new_str(h->a, "kubernetes.io/tls"));
    sw_out_publish(
        h->out, SW_CONNECTOR_CERT,
        cn_printf(h->a, "%.*s/%.*s", SW_SLICE_ARG(h->obj->ns), SW_SLICE_ARG(host->secret)),
        sw_json_text(h->a, s, NULL));
}

/* The Secret has a certificate for this name, of this issuer; *ret_until is its end. */
static bool has_certificate(const struct hp *h, const struct hp_host *host,
                            const struct sw_kube_obj *o, uint64_t *ret_until)
{
    return o && cn_owned_by(o, h->obj->uid) &&
           sw_slice_eq(cn_meta_of(o, "annotations", SW_CONNECTOR_CERT_NAME), host->name) &&
           sw_slice_eq(cn_meta_of(o, "annotations", SW_CONNECTOR_CERT_BY), h->conf->issuer) &&
           cn_time(cn_meta_of(o, "annotations", SW_CONNECTOR_CERT_UNTIL), ret_until);
}

static bool wanted_secret(const struct hp *h, struct sw_slice name)
{
    for (size_t i = 0; i < h->n_hosts; i++) {
        if (h->hosts[i].state == HP_NAME_OURS && sw_slice_eq(h->hosts[i].secret, name))
            return true;
    }
    return false;
}

static bool has_failed(const struct hp *h, const struct hp_host *host)
{
    struct sw_slice rest = sw_view_input(h->v);
    struct sw_slice key;

    if (!rest.n)
        return false;
    key = cn_printf(h->a, "%.*s/%.*s", SW_SLICE_ARG(h->obj->ns), SW_SLICE_ARG(host->secret));
    while (rest.p) {
        if (sw_slice_eq(sw_slice_cut(&rest, '\n'), key))
            return true;
    }
    return false;
}

/* The name constraints of the CA's root have the same effect for every client that trusts it. */
static bool signable(const struct hp *h, struct sw_slice name)
{
    for (size_t i = 0; i < h->conf->n_cert_domains; i++) {
        if (sw_x509_name_under(name, h->conf->cert_domains[i]))
            return true;
    }
    return false;
}

void hp_certificates(struct hp *h)
{
    uint64_t now = sw_view_wall_ns(h->v);
    const struct hp_secret *s = sw_map_get(h->secrets, h->obj->key);

    for (size_t i = 0; h->conf->issuer.n && i < h->n_hosts; i++) {
        struct hp_host *host = &h->hosts[i];
        uint64_t until = 0;
        bool has;

        if (host->state != HP_NAME_OURS)
            continue;
        host->no_cert = !signable(h, host->name);
        if (host->no_cert)
            continue;
        host->secret = secret_name(h, host);
        has = has_certificate(h, host, sw_view_find(h->v, SW_HP_SECRET, h->obj->ns, host->secret),
                              &until);
        host->certified = has && until > now;
        host->failed = !host->certified && has_failed(h, host);
        if (!has || until < now + renew_ns)
            ask_certificate(h, host);
        else
            sw_out_expires(h->out, until - renew_ns);
    }
    for (; s; s = s->next) {
        if (cn_owned_by(s->obj, h->obj->uid) && !wanted_secret(h, s->obj->name))
            sw_out_delete(h->out, SW_HP_SECRET, s->obj);
    }
}

/* ---- EndpointSlices ---- */

static const char *address_type(const struct hp_backend *b)
{
    if (b->connector.n || !b->ep.ip)
        return "FQDN";
    return b->ep.family == 4 ? "IPv4" : "IPv6";
}

static struct sw_json *endpoints_part(struct hp *h, const struct hp_backend *b)
{
    /* The placeholder is never dialled. */
    struct sw_json *address =
        sw_json_new_string(h->a, b->connector.n ? SW_SLICE_LIT("connector.local") : b->ep.host);
    struct sw_json *ready = SW_JSON_OF(h->a, {"ready", .json = sw_json_new_bool(h->a, true)});

    return sw_json_new_list(h->a,
                            SW_JSON_OF(h->a, {"addresses", .json = sw_json_new_list(h->a, address)},
                                       {"conditions", .json = ready}));
}

static struct sw_json *ports_part(struct hp *h, size_t rule, const struct hp_backend *b)
{
    return sw_json_new_list(
        h->a,
        SW_JSON_OF(h->a, {"name", .text = cn_printf(h->a, "httpproxy-%zu-0", rule)},
                   {"port", .json = sw_json_new_i64(h->a, b->ep.port)}, {"protocol", .str = "TCP"},
                   {"appProtocol", .str = b->ep.tls ? "https" : "http"}));
}

static struct sw_slice meta_or_empty(const struct sw_kube_obj *o, const char *key)
{
    struct sw_slice s = cn_meta_of(o, "annotations", key);

    return s.p ? s : SW_SLICE_LIT("");
}

static struct sw_json *slice(struct hp *h, size_t rule, const struct hp_backend *b)
{
    struct sw_json *obj = hp_child(h, "discovery.k8s.io/v1", "EndpointSlice", b->slice);

    /* Always there, empty or not: an annotation that is left out would stay as it was. */
    cn_meta(h->a, obj, "labels", "endpointslice.kubernetes.io/managed-by",
            SW_SLICE_LIT("spanwire.dev"));
    cn_meta(h->a, obj, "annotations", SW_CONNECTOR_BACKEND, b->connector);
    cn_meta(h->a, obj, "annotations", SW_CONNECTOR_DIAL,
            b->connector.n ? sw_connector_target(h->a, b->ep.host, b->ep.port) : SW_SLICE_LIT(""));
    cn_meta(h->a, obj, "annotations", SW_CONNECTOR_REFUSED,
            sw_slice_str(b->refused ? b->refused : ""));
    cn_meta(h->a, obj, "annotations", SW_CONNECTOR_CA,
            !b->ep.tls ? SW_SLICE_LIT("")
            : h->ca.n  ? h->ca
                       : meta_or_empty(h->obj, SW_CONNECTOR_CA));
    cn_meta(h->a, obj, "annotations", SW_CONNECTOR_TLS, b->ep.tls ? b->tls_name : SW_SLICE_LIT(""));
    sw_json_put(h->a, obj, "addressType", sw_json_new_str(h->a, address_type(b)));
    sw_json_put(h->a, obj, "endpoints", endpoints_part(h, b));
    sw_json_put(h->a, obj, "ports", ports_part(h, rule, b));
    return obj;
}

static void want_slice(struct hp *h, size_t rule)
{
    const struct hp_backend *b = &h->backends[rule];
    struct sw_slice name = cn_printf(h->a, "%.*s-%zu-0", SW_SLICE_ARG(h->obj->name), rule);
    const struct sw_kube_obj *have = sw_view_find(h->v, SW_HP_SLICE, h->obj->ns, name);
    bool ours = have && cn_owned_by(have, h->obj->uid);

    if (!b->slice.n) {
        if (ours)
            sw_out_delete(h->out, SW_HP_SLICE, have);
        return;
    }
    /* The type of a slice cannot be changed: another takes its place once it is gone. */
    if (ours && !sw_json_str_eq(sw_json_find(have->json, "addressType"), address_type(b)))
        sw_out_delete(h->out, SW_HP_SLICE, have);
    else
        sw_out_apply(h->out, SW_HP_SLICE, slice(h, rule, b));
}

/* ---- Backends of Envoy Gateway ---- */

bool hp_for_envoy_gateway(const struct hp *h)
{
    return h->conf->envoy_gateway || h->conf->patch_policies;
}

/* The same backend in the form that Envoy Gateway takes; TLS to a device goes inside its tunnel. */
static struct sw_json *backend(struct hp *h, const struct hp_backend *b)
{
    struct sw_json *obj = hp_child(h, "gateway.envoyproxy.io/v1alpha1", "Backend", b->slice);
    bool ip = !b->connector.n && b->ep.ip;
    struct sw_json *at =
        SW_JSON_OF(h->a,
                   {ip ? "address" : "hostname",
                    .text = b->connector.n ? SW_SLICE_LIT("connector.local") : b->ep.host},
                   {"port", .json = sw_json_new_i64(h->a, b->ep.port)});
    struct sw_json *one = SW_JSON_OF(h->a, {ip ? "ip" : "fqdn", .json = at});
    struct sw_json *tls = NULL;

    if (b->ep.tls && !b->connector.n)
        tls = SW_JSON_OF(h->a, {"wellKnownCACertificates", .str = "System"},
                         {"sni", .text = b->tls_name});
    hp_put_spec(
        h, obj,
        SW_JSON_OF(h->a, {"endpoints", .json = sw_json_new_list(h->a, one)}, {"tls", .json = tls}));
    return obj;
}

static void want_backend(struct hp *h, size_t rule)
{
    const struct hp_backend *b = &h->backends[rule];
    struct sw_slice name = cn_printf(h->a, "%.*s-%zu-0", SW_SLICE_ARG(h->obj->name), rule);
    const struct sw_kube_obj *have = sw_view_find(h->v, SW_HP_BACKEND, h->obj->ns, name);

    if (b->slice.n && hp_for_envoy_gateway(h))
        sw_out_apply(h->out, SW_HP_BACKEND, backend(h, b));
    else if (have && cn_owned_by(have, h->obj->uid))
        sw_out_delete(h->out, SW_HP_BACKEND, have);
}

/* ---- CAs of endpoints ---- */

const char *hp_ca_read(struct hp *h)
{
    struct sw_slice pem = cn_meta_of(h->obj, "annotations", SW_CONNECTOR_CA_PEM);

    if (!pem.n)
        return NULL;
    if (pem.n > SW_CONNECTOR_CA_MAX)
        return "metadata.annotations: " SW_CONNECTOR_CA_PEM " is larger than 64 KiB";
    h->ca = cn_printf(h->a, "%.*s-backend-ca", SW_SLICE_ARG(h->obj->name));
    return NULL;
}

static void want_ca(struct hp *h)
{
    struct sw_slice name = cn_printf(h->a, "%.*s-backend-ca", SW_SLICE_ARG(h->obj->name));
    const struct sw_kube_obj *have = sw_view_find(h->v, SW_HP_CA, h->obj->ns, name);
    struct sw_slice pem = cn_meta_of(h->obj, "annotations", SW_CONNECTOR_CA_PEM);
    struct sw_json *obj;

    if (!h->ca.n) {
        if (have && cn_owned_by(have, h->obj->uid))
            sw_out_delete(h->out, SW_HP_CA, have);
        return;
    }
    obj = hp_child(h, "v1", "ConfigMap", name);
    sw_json_put(h->a, obj, "data", SW_JSON_OF(h->a, {"ca.crt", .text = pem}));
    sw_out_apply(h->out, SW_HP_CA, obj);
}

/* ---- all ---- */

static void want_route(struct hp *h)
{
    static const size_t kinds[] = {SW_HP_ROUTE, SW_HP_TCPROUTE, SW_HP_TLSROUTE};
    const char *name;
    size_t kind = hp_route_kind(h, &name);
    struct sw_json *route = hp_child(h, GW_API, name, h->obj->name);

    for (size_t i = 0; i < SW_ARRAY_LEN(kinds); i++) {
        const struct sw_kube_obj *have = sw_view_find(h->v, kinds[i], h->obj->ns, h->obj->name);

        if (kinds[i] != kind && have && cn_owned_by(have, h->obj->uid))
            sw_out_delete(h->out, kinds[i], have);
    }
    hp_put_spec(h, route, hp_route(h));
    if (h->conf->envoy_gateway && h->any_connector)
        cn_meta(h->a, route, "annotations", SW_CONNECTOR_READY_EG, hp_ready_text(h));
    sw_out_apply(h->out, kind, route);
}

void hp_children(struct hp *h)
{
    hp_gateway(h);
    for (size_t i = 0; i < HP_RULES_MAX; i++) {
        want_slice(h, i);
        want_backend(h, i);
    }
    want_ca(h);
    want_route(h);
}
