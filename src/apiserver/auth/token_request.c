/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TokenRequest: signed tokens of service accounts, with an expiry and bound to an object if
 * requested.
 */
#include <string.h>

#include "apiserver/api/api.h"
#include "apiserver/api/body.h"
#include "apiserver/auth/auth.h"
#include "base/time.h"
#include "kube/at.h"
#include "tls/crypto/jws.h"

enum { MIN_S = 600, DEFAULT_S = 3600 };

static struct sw_json *ref_json(struct sw_arena *a, struct sw_slice name, struct sw_slice uid)
{
    return SW_JSON_OF(a, {"name", .text = name}, {"uid", .some = uid});
}

/* What a token can be bound to, and the claim for it. */
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

/* The account of a token, what it is bound to, and its lifetime. */
struct grant {
    struct sw_slice ns;
    struct sw_slice name;
    const struct sw_json *account;
    const struct sw_json *bound; /* boundObjectRef with its uid; NULL: to nothing */
    const struct sw_json *node;  /* name and uid of the bound pod's node; NULL: none */
    int64_t now;
    int64_t ttl;
};

static struct sw_json *make_claims(struct sw_api *api, struct sw_arena *a, const struct grant *g,
                                   struct sw_json *aud)
{
    struct sw_json *k = SW_JSON_OF(a, {"namespace", .text = g->ns});

    if (g->bound) {
        const struct binding *b = find_binding(g->bound);

        sw_json_put(a, k, b ? b->claim : "secret",
                    ref_json(a, api_str(g->bound, "name"), api_str(g->bound, "uid")));
    }
    if (g->node)
        sw_json_put(a, k, "node", ref_json(a, api_str(g->node, "name"), api_str(g->node, "uid")));
    sw_json_put(a, k, "serviceaccount", ref_json(a, g->name, api_meta_str(g->account, "uid")));
    return SW_JSON_OF(a, {"aud", .json = aud}, {"exp", .json = sw_json_new_i64(a, g->now + g->ttl)},
                      {"iat", .json = sw_json_new_i64(a, g->now)}, {"iss", .str = api->issuer},
                      {"jti", .str = api_uuid(a)}, {"kubernetes.io", .json = k},
                      {"nbf", .json = sw_json_new_i64(a, g->now)},
                      {"sub", .text = api_account_name(a, g->ns, g->name)});
}

struct sw_slice api_token_for_account(struct sw_api *api, struct sw_arena *a, struct sw_slice ns,
                                      struct sw_slice name, uint32_t ttl_s)
{
    const struct api_res *res = api_registry_core(&api->reg, "serviceaccounts");
    struct grant g = {.ns = ns,
                      .name = name,
                      .account = api_stored(api, a, res, ns, name),
                      .now = (int64_t)(sw_wall_ns() / SW_NS_PER_S),
                      .ttl = ttl_s};
    SW_BUF_AUTO token = {.max = SW_JWS_TOKEN_MAX};
    struct sw_json *aud = sw_json_new_list(a, sw_json_new_str(a, api->issuer));
    struct sw_err err = {0};

    if (!g.account)
        return sw_slice("", 0);
    if (sw_jws_sign(api->token_key, sw_json_text(a, make_claims(api, a, &g, aud), NULL), &token,
                    &err) != SW_OK)
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
    api_fail_details(
        r, 404, "NotFound",
        sw_arena_printf(r->arena, "%s \"%.*s\" not found", b->plural, SW_SLICE_ARG(name)),
        SW_JSON_OF(r->arena, {"name", .text = name.p ? name : sw_slice("", 0)},
                   {"kind", .str = b->plural}));
    return false;
}

static bool bound_changed(struct api_req *r, const struct binding *b, const struct sw_json *bound)
{
    struct sw_slice name = api_str(bound, "name");

    api_fail_details(
        r, 409, "Conflict",
        sw_arena_printf(r->arena,
                        "Operation cannot be fulfilled on %s \"%.*s\": the UID in the "
                        "bound object reference (%.*s) does not match the UID in "
                        "record. The object might have been deleted and then recreated",
                        b->kind, SW_SLICE_ARG(name), SW_SLICE_ARG(api_str(bound, "uid"))),
        SW_JSON_OF(r->arena, {"name", .text = name}, {"kind", .str = b->kind}));
    return false;
}

/* The object a token is tied to must exist; its uid is filled in. */
static bool check_bound(struct api_req *r, struct sw_json *bound)
{
    const struct binding *b = find_binding(bound);
    struct sw_slice name = api_str(bound, "name");
    struct sw_slice version = api_str(bound, "apiVersion");
    const struct api_res *res = b ? api_registry_core(&r->api->reg, b->plural) : NULL;
    const struct sw_json *obj;
    struct sw_slice uid;

    if (!b) {
        api_bad_request(r, "cannot bind token to object of type %s%.*s, Kind=%.*s",
                        sw_slice_find(version, '/') < 0 ? "/" : "", SW_SLICE_ARG(version),
                        SW_SLICE_ARG(api_str(bound, "kind")));
        return false;
    }
    obj = res ? api_in_snap(r, res, r->ns, name) : NULL;
    if (!obj)
        return bound_missing(r, b, name);
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
    const struct sw_at *name = SW_IN(SW_WHOLE(tr, &e), "metadata.name");
    const struct sw_at *ns = SW_IN(SW_WHOLE(tr, &e), "metadata.namespace");

    sw_field_errs_init(&e, r->arena);
    if (sw_at_text(name).n && !sw_slice_eq(sw_at_text(name), r->name))
        sw_at_invalid_text(name, "must match the service account name if specified");
    else if (sw_at_text(ns).n && !sw_slice_eq(sw_at_text(ns), r->ns))
        sw_at_invalid_text(ns, "must match the service account namespace if specified");
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
    struct sw_json *spec = sw_json_need(a, tr, "spec", SW_JSON_OBJECT);
    struct sw_json *bound;

    if (!check_ttl(r, spec, ret_ttl))
        return false;
    if (sw_json_len(sw_json_find(spec, "audiences")) == 0)
        sw_json_put(a, spec, "audiences", sw_json_new_list(a, sw_json_new_str(a, r->api->issuer)));
    sw_json_put(a, spec, "expirationSeconds", sw_json_new_i64(a, *ret_ttl));
    bound = sw_json_find(spec, "boundObjectRef");
    if (!sw_json_is(bound, SW_JSON_OBJECT))
        sw_json_put(a, spec, "boundObjectRef", sw_json_new_null(a));
    else if (!check_bound(r, bound))
        return false;
    *ret_spec = spec;
    return true;
}

/* The node of the pod a token is tied to: its uid too, when there is such a Node. */
static struct sw_json *node_of(struct api_req *r, const struct sw_json *bound)
{
    const struct api_res *pods = api_registry_core(&r->api->reg, "pods");
    const struct api_res *nodes = api_registry_core(&r->api->reg, "nodes");
    const struct binding *b = find_binding(bound);
    const struct sw_json *pod = NULL;
    struct sw_slice node;

    if (b && strcmp(b->kind, "Pod") == 0)
        pod = api_in_snap(r, pods, r->ns, api_str(bound, "name"));
    node = api_str(sw_json_find(pod, "spec"), "nodeName");
    if (!node.n)
        return NULL;
    return ref_json(r->arena, node,
                    api_meta_str(api_in_snap(r, nodes, sw_slice("", 0), node), "uid"));
}

static void issue(struct api_req *r, struct sw_json *tr, const struct sw_json *sa)
{
    struct sw_arena *a = r->arena;
    SW_BUF_AUTO token = {.max = SW_JWS_TOKEN_MAX};
    struct sw_err err = {0};
    int64_t now = (int64_t)(sw_wall_ns() / SW_NS_PER_S);
    struct grant g = {.ns = r->ns, .name = r->name, .account = sa, .now = now};
    struct sw_json *spec;
    struct sw_json *claims;
    char text[SW_RFC3339_LEN];

    if (!settle_spec(r, tr, &spec, &g.ttl))
        return;
    g.bound = sw_json_find(spec, "boundObjectRef");
    if (sw_json_is(g.bound, SW_JSON_OBJECT))
        g.node = node_of(r, g.bound);
    else
        g.bound = NULL;
    claims = make_claims(r->api, a, &g, sw_json_find(spec, "audiences"));
    if (sw_jws_sign(r->api->token_key, sw_json_text(a, claims, NULL), &token, &err) != SW_OK) {
        api_internal_error(r, err.msg);
        return;
    }
    (void)sw_rfc3339((uint64_t)(now + g.ttl) * SW_NS_PER_S, 0, text);
    sw_json_put(a, tr, "status",
                SW_JSON_OF(a, {"token", .text = sw_buf_slice(&token)},
                           {"expirationTimestamp", .str = text}));
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
    const struct sw_json *account;

    if (!api_write_options(r, "CreateOptions") || !api_decode_body(r, &tr, &dups))
        return;
    if (!sw_json_is(tr, SW_JSON_OBJECT)) {
        api_bad_request(r, "the body is not a TokenRequest object");
        return;
    }
    if (!check_meta(r, tr))
        return;
    r->snap = sw_store_snapshot(r->api->store);
    account = api_in_snap(r, r->res, r->ns, r->name);
    if (account)
        issue(r, tr, account);
    else
        api_not_found(r);
}
