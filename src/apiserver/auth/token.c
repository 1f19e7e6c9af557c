/* SPDX-License-Identifier: Apache-2.0 */
/* Bearer tokens: the administrator's, and those of service accounts, which we sign ourselves. */
#include <string.h>

#include "apiserver/api/api.h"
#include "apiserver/auth/auth.h"
#include "base/base64.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "tls/crypto/jws.h"

enum { MIN_S = 600, DEFAULT_S = 3600, LEEWAY_S = 60 };

static const struct api_res *core(struct sw_api *api, const char *plural)
{
    return api_registry_find(&api->reg, sw_slice("", 0), SW_SLICE_LIT("v1"), sw_slice_str(plural));
}

/* Compares in a time that does not depend on where they differ. */
static bool same_secret(struct sw_slice a, struct sw_slice b)
{
    unsigned char d = 0;

    if (a.n != b.n)
        return false;
    for (size_t i = 0; i < a.n; i++)
        d |= (unsigned char)(a.p[i] ^ b.p[i]);
    return d == 0;
}

static bool static_user(struct sw_api *api, struct sw_arena *a, struct sw_slice token,
                        struct api_user *ret)
{
    for (size_t i = 0; i < api->tokens.all.n; i++) {
        const struct api_static_token *t = api->tokens.all.p[i];

        if (!same_secret(t->token, token))
            continue;
        *ret = (struct api_user){.name = t->user, .uid = t->uid, .ngroups = 2};
        ret->groups = sw_arena_array(a, 2, sizeof(*ret->groups));
        ret->groups[0] = t->group;
        ret->groups[1] = SW_SLICE_LIT("system:authenticated");
        return true;
    }
    return false;
}

/* ---- signatures that were good ---- */

enum { DIGEST = 32, KNOWN_BYTES = 4096 };

struct api_known_token {
    uint8_t digest[DIGEST];
    size_t n;
    char payload[];
};

/*
 * The payload of a token with a good signature. A signature costs some 60 us to check, a client
 * sends the same token with every request.
 */
static bool payload_of(struct sw_api *api, struct sw_arena *a, struct sw_slice token,
                       struct sw_slice *ret)
{
    uint8_t digest[DIGEST];
    struct api_known_token **slot;
    struct api_known_token *t;

    sw_digest_sha256(token, digest);
    slot = &api->tokens.known[(digest[0] | digest[1] << 8) % API_TOKENS_KNOWN];
    if (*slot && memcmp((*slot)->digest, digest, DIGEST) == 0) {
        *ret = sw_arena_slice(a, sw_slice((*slot)->payload, (*slot)->n));
        return true;
    }
    if (sw_jws_verify(api->token_key, a, token, ret, NULL) != SW_OK)
        return false;
    if (ret->n > KNOWN_BYTES)
        return true;
    t = sw_malloc(sizeof(*t) + ret->n);
    memcpy(t->digest, digest, DIGEST);
    t->n = ret->n;
    memcpy(t->payload, ret->p, ret->n);
    sw_free(*slot);
    *slot = t;
    return true;
}

void api_tokens_done(struct api_tokens *t)
{
    for (size_t i = 0; i < API_TOKENS_KNOWN; i++)
        sw_free(t->known[i]);
    sw_vec_done(&t->all);
}

/* The audiences both sides name; NULL when there are none in common. */
static struct sw_json *common_audiences(struct sw_api *api, struct sw_arena *a,
                                        const struct sw_json *have, const struct sw_json *want)
{
    struct sw_json *out = sw_json_new_array(a);
    struct sw_json *own = sw_json_new_array(a);

    sw_json_push(a, own, sw_json_new_str(a, api->issuer));
    if (sw_json_len(want) == 0)
        want = own;
    for (size_t i = 0; i < sw_json_len(want); i++) {
        for (size_t k = 0; k < sw_json_len(have); k++) {
            if (sw_json_equal(sw_json_at(want, i), sw_json_at(have, k), SW_JSON_EQ_TEXT)) {
                sw_json_push(a, out, sw_json_copy(a, sw_json_at(want, i)));
                break;
            }
        }
    }
    return sw_json_len(out) ? out : NULL;
}

static bool in_time(const struct sw_json *claims)
{
    int64_t now = (int64_t)(sw_wall_ns() / SW_NS_PER_S);
    int64_t exp = 0;
    int64_t nbf = 0;

    if (!sw_json_i64(sw_json_find(claims, "exp"), &exp) || now > exp)
        return false;
    return !sw_json_i64(sw_json_find(claims, "nbf"), &nbf) || now + LEEWAY_S >= nbf;
}

/* The object exists with that uid and is not going away. */
static bool still_there(struct sw_api *api, struct sw_arena *a, const char *plural,
                        struct sw_slice ns, const struct sw_json *ref)
{
    const struct api_res *res = core(api, plural);
    struct sw_store_obj *o;
    struct sw_json *obj;
    bool ok;

    if (!res)
        return false;
    o = sw_store_get(api->store, api_key(a, res, ns, api_str(ref, "name")));
    if (!o)
        return false;
    obj = sw_json_copy(a, api_load(a, res, o));
    sw_store_obj_unref(o);
    ok = sw_slice_eq(api_meta_str(obj, "uid"), api_str(ref, "uid"));
    return ok && !sw_json_walk(obj, "metadata", "deletionTimestamp", NULL);
}

static void fill_user(struct sw_arena *a, const struct sw_json *claims, struct sw_slice ns,
                      const struct sw_json *sa, struct api_user *ret)
{
    struct sw_json *ids = sw_json_new_array(a);

    *ret =
        (struct api_user){.name = api_str(claims, "sub"), .uid = api_str(sa, "uid"), .ngroups = 3};
    ret->groups = sw_arena_array(a, 3, sizeof(*ret->groups));
    ret->groups[0] = SW_SLICE_LIT("system:serviceaccounts");
    ret->groups[1] =
        sw_slice_str(sw_arena_printf(a, "system:serviceaccounts:%.*s", SW_SLICE_ARG(ns)));
    ret->groups[2] = SW_SLICE_LIT("system:authenticated");
    sw_json_push(
        a, ids,
        sw_json_new_str(a, sw_arena_printf(a, "JTI=%.*s", SW_SLICE_ARG(api_str(claims, "jti")))));
    ret->extra = sw_json_new_object(a);
    sw_json_put(a, ret->extra, "authentication.kubernetes.io/credential-id", ids);
}

static bool bound_ok(struct sw_api *api, struct sw_arena *a, struct sw_slice ns,
                     const struct sw_json *k)
{
    const struct sw_json *secret = sw_json_find(k, "secret");
    const struct sw_json *pod = sw_json_find(k, "pod");
    const struct sw_json *node = sw_json_find(k, "node");

    return (!secret || still_there(api, a, "secrets", ns, secret)) &&
           (!pod || still_there(api, a, "pods", ns, pod)) &&
           (!node || still_there(api, a, "nodes", sw_slice("", 0), node));
}

/* --- tokens kept in Secrets --- */

static const char legacy_issuer[] = "kubernetes/serviceaccount";
#define LEGACY "kubernetes.io/serviceaccount/"

struct sw_slice api_token_for_secret(struct sw_api *api, struct sw_arena *a, struct sw_slice ns,
                                     struct sw_slice secret, const struct sw_json *account)
{
    SW_BUF_AUTO token = {.max = SW_JWS_TOKEN_MAX};
    struct sw_slice name = api_meta_str(account, "name");
    struct sw_json *c = sw_json_new_object(a);
    struct sw_err err = {0};

    sw_json_put_str(a, c, "iss", sw_slice_str(legacy_issuer));
    sw_json_put_str(a, c, LEGACY "namespace", ns);
    sw_json_put_str(a, c, LEGACY "secret.name", secret);
    sw_json_put_str(a, c, LEGACY "service-account.name", name);
    sw_json_put_str(a, c, LEGACY "service-account.uid", api_meta_str(account, "uid"));
    sw_json_put_str(a, c, "sub",
                    sw_slice_str(sw_arena_printf(a, "system:serviceaccount:%.*s:%.*s",
                                                 SW_SLICE_ARG(ns), SW_SLICE_ARG(name))));
    if (sw_jws_sign(api->token_key, sw_json_text(a, c, NULL), &token, &err) != SW_OK) {
        sw_log_warn("api", "cannot sign a token: %s", err.msg);
        return sw_slice("", 0);
    }
    return sw_arena_slice(a, sw_buf_slice(&token));
}

/* The Secret still holds this very token. */
static bool secret_holds(struct sw_api *api, struct sw_arena *a, struct sw_slice ns,
                         struct sw_slice name, struct sw_slice token)
{
    const struct api_res *res = core(api, "secrets");
    struct sw_store_obj *o = sw_store_get(api->store, api_key(a, res, ns, name));
    SW_BUF_AUTO b = {.max = SW_JWS_TOKEN_MAX};
    struct sw_json *obj;
    bool ok;

    if (!o)
        return false;
    obj = sw_json_copy(a, api_load(a, res, o));
    sw_store_obj_unref(o);
    ok = sw_base64_decode(&b, api_str(sw_json_find(obj, "data"), "token")) == SW_OK &&
         same_secret(sw_buf_slice(&b), token);
    return ok && !sw_json_walk(obj, "metadata", "deletionTimestamp", NULL);
}

static bool legacy_user(struct sw_api *api, struct sw_arena *a, struct sw_slice token,
                        const struct sw_json *claims, const struct sw_json *audiences,
                        struct api_user *ret, struct sw_json **ret_audiences)
{
    struct sw_slice ns = api_str(claims, LEGACY "namespace");
    struct sw_json *own = sw_json_new_array(a);
    struct sw_json *sa = sw_json_new_object(a);
    struct sw_json *common;

    sw_json_put_str(a, sa, "name", api_str(claims, LEGACY "service-account.name"));
    sw_json_put_str(a, sa, "uid", api_str(claims, LEGACY "service-account.uid"));
    sw_json_push(a, own, sw_json_new_str(a, api->issuer));
    common = common_audiences(api, a, own, audiences);
    if (!common || !still_there(api, a, "serviceaccounts", ns, sa) ||
        !secret_holds(api, a, ns, api_str(claims, LEGACY "secret.name"), token))
        return false;
    fill_user(a, claims, ns, sa, ret);
    ret->extra = NULL;
    if (ret_audiences)
        *ret_audiences = common;
    return true;
}

bool api_token_user(struct sw_api *api, struct sw_arena *a, struct sw_slice token,
                    const struct sw_json *audiences, struct api_user *ret,
                    struct sw_json **ret_audiences, const char **ret_why)
{
    struct sw_slice payload;
    struct sw_json *claims = NULL;
    struct sw_json *common;
    const struct sw_json *k;
    const struct sw_json *sa;
    struct sw_slice ns;
    int64_t exp = 0;

    *ret_why = "invalid bearer token";
    if (static_user(api, a, token, ret)) {
        if (ret_audiences) {
            *ret_audiences = sw_json_new_array(a);
            sw_json_push(a, *ret_audiences, sw_json_new_str(a, api->issuer));
        }
        return true;
    }
    if (!payload_of(api, a, token, &payload) ||
        sw_json_parse(a, payload, &(struct sw_json_opts){.max_depth = 16}, &claims, NULL) != SW_OK)
        return false;
    if (sw_json_str_eq(sw_json_find(claims, "iss"), legacy_issuer))
        return legacy_user(api, a, token, claims, audiences, ret, ret_audiences);
    if (!sw_json_str_eq(sw_json_find(claims, "iss"), api->issuer) || !in_time(claims))
        return false;
    common = common_audiences(api, a, sw_json_find(claims, "aud"), audiences);
    k = sw_json_find(claims, "kubernetes.io");
    sa = sw_json_find(k, "serviceaccount");
    ns = api_str(k, "namespace");
    if (!common || !still_there(api, a, "serviceaccounts", ns, sa) || !bound_ok(api, a, ns, k))
        return false;
    fill_user(a, claims, ns, sa, ret);
    if (sw_json_i64(sw_json_find(claims, "exp"), &exp) && exp > 0)
        ret->expires_s = (uint64_t)exp + 1; /* good for all of that second */
    if (ret_audiences)
        *ret_audiences = common;
    return true;
}

/* --- TokenRequest ----------------------------------------------------------------------- */

static struct sw_json *ref_json(struct sw_arena *a, struct sw_slice name, struct sw_slice uid)
{
    struct sw_json *v = sw_json_new_object(a);

    sw_json_put_str(a, v, "name", name);
    sw_json_put_str(a, v, "uid", uid);
    return v;
}

/* What a token can be tied to, and the claim that says so. */
static const struct binding {
    const char *kind;
    const char *plural;
    const char *claim;
} bindable[] = {{"Pod", "pods", "pod"}, {"Secret", "secrets", "secret"}, {"Node", "nodes", "node"}};

static const struct binding *find_binding(const struct sw_json *bound)
{
    struct sw_slice version = api_str(bound, "apiVersion");

    for (size_t i = 0; i < SW_ARRAY_LEN(bindable); i++) {
        if (sw_slice_find(version, '/') < 0 &&
            sw_json_str_eq(sw_json_find(bound, "kind"), bindable[i].kind))
            return &bindable[i];
    }
    return NULL;
}

/* Whom a token is for, and for how long. */
struct grant {
    struct sw_slice ns;
    struct sw_slice name;
    const struct sw_json *account;
    int64_t now;
    int64_t ttl;
};

static struct sw_json *make_claims(struct sw_api *api, struct sw_arena *a, const struct grant *g,
                                   struct sw_json *aud, const struct sw_json *bound)
{
    struct sw_json *c = sw_json_new_object(a);
    struct sw_json *k = sw_json_new_object(a);

    sw_json_put(a, c, "aud", aud);
    sw_json_put(a, c, "exp", sw_json_new_i64(a, g->now + g->ttl));
    sw_json_put(a, c, "iat", sw_json_new_i64(a, g->now));
    sw_json_put(a, c, "iss", sw_json_new_str(a, api->issuer));
    sw_json_put(a, c, "jti", sw_json_new_str(a, api_uuid(a)));
    sw_json_put_str(a, k, "namespace", g->ns);
    if (bound) {
        const struct binding *b = find_binding(bound);

        sw_json_put(a, k, b ? b->claim : "secret",
                    ref_json(a, api_str(bound, "name"), api_str(bound, "uid")));
    }
    sw_json_put(a, k, "serviceaccount", ref_json(a, g->name, api_meta_str(g->account, "uid")));
    sw_json_put(a, c, "kubernetes.io", k);
    sw_json_put(a, c, "nbf", sw_json_new_i64(a, g->now));
    sw_json_put(a, c, "sub",
                sw_json_new_str(a, sw_arena_printf(a, "system:serviceaccount:%.*s:%.*s",
                                                   SW_SLICE_ARG(g->ns), SW_SLICE_ARG(g->name))));
    return c;
}

struct sw_slice api_token_for_account(struct sw_api *api, struct sw_arena *a, struct sw_slice ns,
                                      struct sw_slice name, uint32_t ttl_s)
{
    const struct api_res *res = core(api, "serviceaccounts");
    struct sw_store_obj *o = sw_store_get(api->store, api_key(a, res, ns, name));
    struct grant g = {
        .ns = ns, .name = name, .now = (int64_t)(sw_wall_ns() / SW_NS_PER_S), .ttl = ttl_s};
    SW_BUF_AUTO token = {.max = SW_JWS_TOKEN_MAX};
    struct sw_json *aud = sw_json_new_array(a);
    struct sw_err err = {0};

    if (!o)
        return sw_slice("", 0);
    g.account = sw_json_copy(a, api_load(a, res, o));
    sw_store_obj_unref(o);
    sw_json_push(a, aud, sw_json_new_str(a, api->issuer));
    if (sw_jws_sign(api->token_key, sw_json_text(a, make_claims(api, a, &g, aud, NULL), NULL),
                    &token, &err) != SW_OK)
        return sw_slice("", 0);
    return sw_arena_slice(a, sw_buf_slice(&token));
}

static bool check_ttl(struct api_req *r, const struct sw_json *spec, int64_t *ret)
{
    const struct sw_json *v = sw_json_find(spec, "expirationSeconds");
    struct sw_field_errs e;
    struct sw_fpath s = sw_fpath_str(NULL, "spec");
    struct sw_fpath p = sw_fpath_str(&s, "expirationSeconds");

    *ret = DEFAULT_S;
    if (!v || v->type == SW_JSON_NULL)
        return true;
    sw_field_errs_init(&e, r->arena);
    if (!sw_json_i64(v, ret) || *ret < MIN_S)
        sw_ferr_invalid(&e, &p, v, "may not specify a duration less than 10 minutes");
    else if (*ret > INT64_C(4294967296))
        sw_ferr_invalid(&e, &p, v, "may not specify a duration larger than 2^32 seconds");
    if (e.n == 0)
        return true;
    api_invalid_kind(r, "TokenRequest", "authentication.k8s.io", sw_slice("", 0), &e);
    return false;
}

static bool bound_missing(struct api_req *r, const struct binding *b, struct sw_slice name)
{
    struct sw_json *d = sw_json_new_object(r->arena);

    sw_json_put_str(r->arena, d, "name", name);
    sw_json_put_str(r->arena, d, "kind", sw_slice_str(b->plural));
    api_fail_details(
        r, 404, "NotFound",
        sw_arena_printf(r->arena, "%s \"%.*s\" not found", b->plural, SW_SLICE_ARG(name)), d);
    return false;
}

static bool bound_changed(struct api_req *r, const struct binding *b, const struct sw_json *bound)
{
    struct sw_slice name = api_str(bound, "name");
    struct sw_json *d = sw_json_new_object(r->arena);

    sw_json_put_str(r->arena, d, "name", name);
    sw_json_put_str(r->arena, d, "kind", sw_slice_str(b->kind));
    api_fail_details(
        r, 409, "Conflict",
        sw_arena_printf(r->arena,
                        "Operation cannot be fulfilled on %s \"%.*s\": the UID in the "
                        "bound object reference (%.*s) does not match the UID in "
                        "record. The object might have been deleted and then recreated",
                        b->kind, SW_SLICE_ARG(name), SW_SLICE_ARG(api_str(bound, "uid"))),
        d);
    return false;
}

/* The object a token is tied to must exist; its uid is filled in. */
static bool check_bound(struct api_req *r, struct sw_json *bound)
{
    const struct binding *b = find_binding(bound);
    struct sw_slice name = api_str(bound, "name");
    struct sw_slice version = api_str(bound, "apiVersion");
    const struct api_res *res = b ? core(r->api, b->plural) : NULL;
    struct sw_store_obj *o;
    const struct sw_json *obj;
    struct sw_slice uid;

    if (!b) {
        api_bad_request(r, "cannot bind token to object of type %s%.*s, Kind=%.*s",
                        sw_slice_find(version, '/') < 0 ? "/" : "", SW_SLICE_ARG(version),
                        SW_SLICE_ARG(api_str(bound, "kind")));
        return false;
    }
    o = res ? sw_store_snap_get(
                  r->snap, api_key(r->arena, res, res->namespaced ? r->ns : sw_slice("", 0), name))
            : NULL;
    if (!o)
        return bound_missing(r, b, name);
    obj = api_load(r->arena, res, o);
    if (strcmp(b->kind, "Pod") == 0 &&
        !sw_slice_eq(api_str(sw_json_find(obj, "spec"), "serviceAccountName"), r->name)) {
        api_bad_request(r,
                        "cannot bind token for serviceaccount \"%.*s\" to pod running with "
                        "different serviceaccount name.",
                        SW_SLICE_ARG(r->name));
        return false;
    }
    uid = api_meta_str(obj, "uid");
    if (api_str(bound, "uid").n && !sw_slice_eq(api_str(bound, "uid"), uid))
        return bound_changed(r, b, bound);
    sw_json_put_str(r->arena, bound, "uid", uid);
    return true;
}

/* Name and namespace of the body, when given, are those of the URL. */
static bool check_meta(struct api_req *r, const struct sw_json *tr)
{
    struct sw_field_errs e;
    struct sw_fpath m = sw_fpath_str(NULL, "metadata");
    struct sw_fpath name = sw_fpath_str(&m, "name");
    struct sw_fpath ns = sw_fpath_str(&m, "namespace");
    struct sw_slice has_name = api_meta_str(tr, "name");
    struct sw_slice has_ns = api_meta_str(tr, "namespace");

    sw_field_errs_init(&e, r->arena);
    if (has_name.n && !sw_slice_eq(has_name, r->name))
        sw_ferr_invalid_str(&e, &name, has_name,
                            "must match the service account name if specified");
    else if (has_ns.n && !sw_slice_eq(has_ns, r->ns))
        sw_ferr_invalid_str(&e, &ns, has_ns,
                            "must match the service account namespace if specified");
    if (e.n == 0)
        return true;
    api_invalid_kind(r, "TokenRequest", "authentication.k8s.io", r->name, &e);
    return false;
}

/* The spec as an object with its defaults; false: an error was sent. */
static bool settle_spec(struct api_req *r, struct sw_json *tr, struct sw_json **ret_spec,
                        int64_t *ret_ttl)
{
    struct sw_arena *a = r->arena;
    struct sw_json *spec = sw_json_find(tr, "spec");
    struct sw_json *aud;
    struct sw_json *bound;

    if (!sw_json_is(spec, SW_JSON_OBJECT)) {
        spec = sw_json_new_object(a);
        sw_json_put(a, tr, "spec", spec);
    }
    if (!check_ttl(r, spec, ret_ttl))
        return false;
    if (sw_json_len(sw_json_find(spec, "audiences")) == 0) {
        aud = sw_json_new_array(a);
        sw_json_push(a, aud, sw_json_new_str(a, r->api->issuer));
        sw_json_put(a, spec, "audiences", aud);
    }
    sw_json_put(a, spec, "expirationSeconds", sw_json_new_i64(a, *ret_ttl));
    bound = sw_json_find(spec, "boundObjectRef");
    if (!sw_json_is(bound, SW_JSON_OBJECT))
        sw_json_put(a, spec, "boundObjectRef", sw_json_new_null(a));
    else if (!check_bound(r, bound))
        return false;
    *ret_spec = spec;
    return true;
}

static void issue(struct api_req *r, struct sw_json *tr, const struct sw_json *sa)
{
    struct sw_arena *a = r->arena;
    SW_BUF_AUTO token = {.max = SW_JWS_TOKEN_MAX};
    struct sw_err err = {0};
    int64_t now = (int64_t)(sw_wall_ns() / SW_NS_PER_S);
    struct sw_json *status = sw_json_new_object(a);
    struct sw_json *spec;
    struct sw_json *bound;
    struct sw_json *claims;
    int64_t ttl;
    char text[SW_RFC3339_LEN];

    if (!settle_spec(r, tr, &spec, &ttl))
        return;
    bound = sw_json_find(spec, "boundObjectRef");
    claims = make_claims(
        r->api, a,
        &(struct grant){.ns = r->ns, .name = r->name, .account = sa, .now = now, .ttl = ttl},
        sw_json_find(spec, "audiences"), sw_json_is(bound, SW_JSON_OBJECT) ? bound : NULL);
    if (sw_jws_sign(r->api->token_key, sw_json_text(a, claims, NULL), &token, &err) != SW_OK) {
        api_fail(r, 500, "InternalError", "Internal error occurred: %s", err.msg);
        return;
    }
    sw_json_put_str(a, status, "token", sw_buf_slice(&token));
    sw_json_put_str(a, status, "expirationTimestamp",
                    sw_slice_str(sw_rfc3339((uint64_t)(now + ttl) * SW_NS_PER_S, 0, text)));
    sw_json_put(a, tr, "status", status);
    sw_json_put_str(a, tr, "kind", SW_SLICE_LIT("TokenRequest"));
    sw_json_put_str(a, tr, "apiVersion", SW_SLICE_LIT("authentication.k8s.io/v1"));
    sw_json_put_str(a, api_meta(a, tr), "name", r->name);
    sw_json_put_str(a, api_meta(a, tr), "namespace", r->ns);
    sw_json_put_str(a, api_meta(a, tr), "creationTimestamp", sw_slice_str(api_now(a)));
    api_reply(r, 201, tr);
}

void api_token_request(struct api_req *r)
{
    struct sw_json_dups dups;
    struct sw_json *tr = NULL;
    struct sw_store_obj *o;

    if (!api_write_options(r, "CreateOptions") || !api_decode_body(r, &tr, &dups))
        return;
    if (!sw_json_is(tr, SW_JSON_OBJECT)) {
        api_bad_request(r, "the body is not a TokenRequest object");
        return;
    }
    if (!check_meta(r, tr))
        return;
    r->snap = sw_store_snapshot(r->api->store);
    o = sw_store_snap_get(r->snap, api_key(r->arena, r->res, r->ns, r->name));
    if (o)
        issue(r, tr, api_load(r->arena, r->res, o));
    else
        api_not_found(r);
}
