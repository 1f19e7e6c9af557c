/* SPDX-License-Identifier: Apache-2.0 */
/* References to Secrets and ConfigMaps, and the grants that let them cross namespaces. */
#include "base/base64.h"
#include "base/hash.h"
#include "control/gateway/build/build_int.h"
#include "tls/cert/cred.h"

/* Grants of one namespace: a stretch of the view. */
struct grant_range {
    size_t from;
    size_t to;
};

enum { SECRET_MAX = 1024 * 1024 };

void refs_init(struct builder *b)
{
    size_t n = sw_view_count(b->v, SW_MODEL_GRANT);

    for (size_t i = 0; i < n; i++) {
        const struct sw_kube_obj *o = sw_view_at(b->v, SW_MODEL_GRANT, i);
        struct grant_range *r = sw_map_get(&b->grants, o->ns);

        if (!r) {
            r = SW_ARENA_NEW(b->a, struct grant_range);
            r->from = i;
            (void)sw_map_put(&b->grants, o->ns, r);
        }
        r->to = i + 1;
    }
}

void refs_done(struct builder *b)
{
    sw_map_done(&b->grants);
}

/* True when the member is this text; what is not there is empty, what is no text is nothing. */
static bool says(const struct sw_json *v, const char *key, struct sw_slice text)
{
    const struct sw_json *m = sw_json_find(v, key);

    return sw_slice_eq(sw_json_str(m), text) && (!m || m->type == SW_JSON_STRING);
}

static bool from_matches(const struct sw_json *list, const struct ref_from *from)
{
    SW_JSON_ITEMS (f, list) {
        if (says(f, "group", SW_SLICE_LIT(GW_GROUP)) && says(f, "kind", sw_slice_str(from->kind)) &&
            says(f, "namespace", from->ns))
            return true;
    }
    return false;
}

static bool to_matches(const struct sw_json *list, const struct sw_gateway_ref *to)
{
    SW_JSON_ITEMS (t, list) {
        const struct sw_json *only = sw_json_find(t, "name");

        /* A name that is none permits nothing: it must not come to stand for all. */
        if (says(t, "group", to->group) && says(t, "kind", to->kind) &&
            (!only || (to->name.n && says(t, "name", to->name))))
            return true;
    }
    return false;
}

bool ref_granted(const struct builder *b, const struct ref_from *from,
                 const struct sw_gateway_ref *to)
{
    const struct grant_range *r;

    if (sw_slice_eq(from->ns, to->ns))
        return true;
    r = sw_map_get(&b->grants, to->ns);
    for (size_t i = r ? r->from : 0; r && i < r->to; i++) {
        const struct sw_kube_obj *o = sw_view_at(b->v, SW_MODEL_GRANT, i);
        const struct sw_json *spec = sw_json_find(o->json, "spec");

        if (sw_slice_eq(o->ns, to->ns) && from_matches(sw_json_find(spec, "from"), from) &&
            to_matches(sw_json_find(spec, "to"), to))
            return true;
    }
    return false;
}

/* ---- PEM ---- */

static struct sw_slice find_text(struct sw_slice in, struct sw_slice what)
{
    const char *p = in.n ? memmem(in.p, in.n, what.p, what.n) : NULL;

    return p ? sw_slice(p, in.n - (size_t)(p - in.p)) : sw_slice(NULL, 0);
}

/* Base64 of a DER sequence, broken into lines. */
static bool body_ok(struct sw_slice body)
{
    SW_BUF_AUTO joined = {.max = SECRET_MAX};
    SW_BUF_AUTO der = {.max = SECRET_MAX};

    for (size_t i = 0; i < body.n; i++) {
        char c = body.p[i];

        if (c != '\n' && c != '\r' && c != ' ' && c != '\t' && sw_buf_putc(&joined, c) != SW_OK)
            return false;
    }
    return sw_base64_decode(&der, sw_buf_slice(&joined)) == SW_OK && sw_buf_len(&der) > 2 &&
           sw_buf_data(&der)[0] == 0x30;
}

/*
 * True when the text has a well-formed block whose label ends so ("CERTIFICATE", "PRIVATE KEY").
 * Whether key and certificate fit each other is the data plane's to say.
 */
static bool pem_has(struct sw_slice pem, const char *label)
{
    static const struct sw_slice begin = SW_SLICE_LIT("-----BEGIN ");
    static const struct sw_slice dashes = SW_SLICE_LIT("-----");

    for (;;) {
        struct sw_slice at = find_text(pem, begin);
        struct sw_slice name;
        struct sw_slice end;

        if (!at.p)
            return false;
        at = sw_slice_from(at, begin.n);
        end = find_text(at, dashes);
        if (!end.p)
            return false;
        name = sw_slice(at.p, (size_t)(end.p - at.p));
        at = sw_slice_from(end, dashes.n);
        end = find_text(at, SW_SLICE_LIT("-----END "));
        if (!end.p)
            return false;
        if (sw_slice_has_suffix(name, sw_slice_str(label)) &&
            body_ok(sw_slice(at.p, (size_t)(end.p - at.p))))
            return true;
        pem = end;
    }
}

/* ---- Secrets ---- */

static bool secret_value(struct builder *b, const struct sw_kube_obj *o, const char *key,
                         struct sw_slice *ret)
{
    SW_BUF_AUTO out = {.max = SECRET_MAX};
    struct sw_slice plain = sw_json_str(sw_json_walk(o->json, "stringData", key, NULL));
    struct sw_slice text = sw_json_str(sw_json_walk(o->json, "data", key, NULL));

    if (plain.p) { /* only in files: an API folds it into data */
        *ret = plain;
        return true;
    }
    if (!text.p || sw_base64_decode(&out, text) != SW_OK)
        return false;
    *ret = sw_arena_slice(b->a, sw_buf_slice(&out));
    return true;
}

/* The data plane would refuse it and keep what it had: say so instead of promising. */
static bool cert_usable(struct builder *b, const struct sw_model_secret *s, struct sw_err *err)
{
    struct sw_tls_cred_pem pem = {
        .chain = s->chain_pem, .key = s->key_pem, .any_identity = true, .trust_nobody = true};
    uint64_t hash[2];
    struct sw_tls_cred *cred;

    for (uint64_t i = 0; i < 2; i++)
        hash[i] =
            sw_siphash13(sw_siphash13(i, 1, pem.chain.p, pem.chain.n), 2, pem.key.p, pem.key.n);
    if (cache_cert_known(b, hash))
        return true;
    cred = sw_tls_cred_new(&pem, err);
    if (!cred)
        return false;
    cred = sw_tls_cred_unref(cred);
    cache_cert_add(b, hash);
    return true;
}

static struct verdict load_cert(struct builder *b, struct sw_slice ns, struct sw_slice name,
                                const char *bad, struct sw_slice *ret_name)
{
    const struct sw_kube_obj *o = sw_view_find(b->v, SW_MODEL_SECRET, ns, name);
    struct sw_model_secret s = {.kind = SW_MODEL_SECRET_CERT};
    struct sw_model_secret *copy;
    struct sw_err err = {0};

    if (!o)
        return VERDICT(b, bad, "there is no usable Secret '%.*s/%.*s'", SW_SLICE_ARG(ns),
                       SW_SLICE_ARG(name));
    if (!secret_value(b, o, "tls.crt", &s.chain_pem) || !pem_has(s.chain_pem, "CERTIFICATE") ||
        !secret_value(b, o, "tls.key", &s.key_pem) || !pem_has(s.key_pem, "PRIVATE KEY"))
        return VERDICT(b, bad,
                       "Secret '%.*s/%.*s' has no certificate and key in "
                       "tls.crt and tls.key",
                       SW_SLICE_ARG(ns), SW_SLICE_ARG(name));
    if (!cert_usable(b, &s, &err))
        return VERDICT(b, bad, "Secret '%.*s/%.*s': %s", SW_SLICE_ARG(ns), SW_SLICE_ARG(name),
                       err.msg);
    s.name = *ret_name;
    copy = SW_ARENA_NEW(b->a, struct sw_model_secret);
    *copy = s;
    (void)sw_map_put(&b->secrets, copy->name, copy);
    return (struct verdict){0};
}

struct verdict cert_by_name(struct builder *b, struct sw_slice ns, struct sw_slice name,
                            const char *bad, struct sw_slice *ret_name)
{
    struct sw_slice key = gw_printf(b, "cert/%.*s/%.*s", SW_SLICE_ARG(ns), SW_SLICE_ARG(name));
    struct verdict v = {0};

    if (!sw_map_get(&b->secrets, key))
        v = load_cert(b, ns, name, bad, &key);
    if (!v.reason)
        *ret_name = key;
    return v;
}

struct verdict resolve_cert(struct builder *b, const struct ref_from *from,
                            const struct sw_json *ref, const char *bad, struct sw_slice *ret_name)
{
    struct sw_gateway_ref r = {.group = js_or(ref, "group", ""),
                               .kind = js_or(ref, "kind", "Secret"),
                               .ns = js_or(ref, "namespace", ""),
                               .name = js(ref, "name")};

    if (!r.ns.n)
        r.ns = from->ns;
    if (r.group.n || !sw_slice_eq_str(r.kind, "Secret"))
        return VERDICT(b, bad, "'%.*s' in group '%.*s' holds no certificates", SW_SLICE_ARG(r.kind),
                       SW_SLICE_ARG(r.group));
    if (!ref_granted(b, from, &r))
        return VERDICT(b, "RefNotPermitted", "no ReferenceGrant in '%.*s' permits Secret '%.*s'",
                       SW_SLICE_ARG(r.ns), SW_SLICE_ARG(r.name));
    return cert_by_name(b, r.ns, r.name, bad, ret_name);
}

/* ---- bundles ---- */

static struct verdict load_ca(struct builder *b, const struct ref_from *from,
                              const struct sw_json *ref, const struct ca_reasons *why,
                              struct sw_slice *ret_key, struct sw_slice *ret_pem)
{
    struct sw_gateway_ref r = {.group = js_or(ref, "group", ""),
                               .kind = js_or(ref, "kind", ""),
                               .ns = why->denied ? js_or(ref, "namespace", "") : sw_slice("", 0),
                               .name = js(ref, "name")};
    const struct sw_kube_obj *o;

    if (!r.ns.n)
        r.ns = from->ns;
    if (r.group.n || !sw_slice_eq_str(r.kind, "ConfigMap"))
        return VERDICT(b, why->kind,
                       "'%.*s' in group '%.*s' holds no CA "
                       "certificates, a ConfigMap does",
                       SW_SLICE_ARG(r.kind), SW_SLICE_ARG(r.group));
    if (!ref_granted(b, from, &r))
        return VERDICT(b, why->denied, "no ReferenceGrant in '%.*s' permits ConfigMap '%.*s'",
                       SW_SLICE_ARG(r.ns), SW_SLICE_ARG(r.name));
    o = sw_view_find(b->v, SW_MODEL_CONFIGMAP, r.ns, r.name);
    *ret_pem = o ? sw_json_str(sw_json_walk(o->json, "data", "ca.crt", NULL)) : sw_slice(NULL, 0);
    if (!ret_pem->p || !pem_has(*ret_pem, "CERTIFICATE"))
        return VERDICT(b, why->ref, "there is no ConfigMap '%.*s/%.*s' with certificates in ca.crt",
                       SW_SLICE_ARG(r.ns), SW_SLICE_ARG(r.name));
    *ret_key = gw_printf(b, "%.*s/%.*s", SW_SLICE_ARG(r.ns), SW_SLICE_ARG(r.name));
    return (struct verdict){0};
}

bool resolve_cas(struct builder *b, const struct ref_from *from, const struct sw_json *refs,
                 const struct ca_reasons *why, struct sw_slice *ret_name,
                 struct verdict *ret_verdict)
{
    SW_BUF_AUTO name = {.max = 8192};
    SW_BUF_AUTO pem = {.max = SECRET_MAX};
    struct sw_model_secret *s;
    int rc;

    rc = sw_buf_append_str(&name, "ca/");
    for (size_t i = 0; i < sw_json_len(refs) && rc == SW_OK; i++) {
        struct sw_slice key = {0};
        struct sw_slice text = {0};
        struct verdict v = load_ca(b, from, sw_json_at(refs, i), why, &key, &text);

        if (v.reason) {
            if (!ret_verdict->reason)
                *ret_verdict = v;
            continue;
        }
        rc = sw_buf_printf(&name, "%s%.*s", sw_buf_len(&pem) ? "+" : "", SW_SLICE_ARG(key));
        rc = rc == SW_OK ? sw_buf_append_slice(&pem, text) : rc;
        rc = rc == SW_OK ? sw_buf_putc(&pem, '\n') : rc;
    }
    if (rc != SW_OK || !sw_buf_len(&pem))
        return false;
    s = sw_map_get(&b->secrets, sw_buf_slice(&name));
    if (!s) {
        s = SW_ARENA_NEW(b->a, struct sw_model_secret);
        s->name = sw_arena_slice(b->a, sw_buf_slice(&name));
        s->kind = SW_MODEL_SECRET_CA;
        s->chain_pem = sw_arena_slice(b->a, sw_buf_slice(&pem));
        (void)sw_map_put(&b->secrets, s->name, s);
    }
    *ret_name = s->name;
    return true;
}

struct sw_slice ca_bundle(const struct builder *b, struct sw_slice name)
{
    const struct sw_model_secret *s = name.n ? sw_map_get(&b->secrets, name) : NULL;

    return s ? s->chain_pem : sw_slice("", 0);
}
