/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bearer tokens: the administrator's, and those of service accounts, which we sign ourselves.
 * TokenRequest, which issues the latter, is in token_request.c.
 */
#include <string.h>

#include "apiserver/api/api.h"
#include "apiserver/auth/auth.h"
#include "base/base64.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "tls/crypto/jws.h"

enum { LEEWAY_S = 60 };

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

/* The audience of this server. */
static struct sw_json *own_audience(const struct sw_api *api, struct sw_arena *a)
{
    return sw_json_new_list(a, sw_json_new_str(a, api->issuer));
}

/* The audiences both sides name; NULL when there are none in common. */
static struct sw_json *common_audiences(struct sw_api *api, struct sw_arena *a,
                                        const struct sw_json *have, const struct sw_json *want)
{
    struct sw_json *out = sw_json_new_array(a);

    SW_JSON_ITEMS (it, sw_json_len(want) ? want : own_audience(api, a)) {
        SW_JSON_ITEMS (x, have) {
            if (sw_json_equal(it, x, SW_JSON_EQ_TEXT)) {
                sw_json_push(a, out, sw_json_copy(a, it));
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

/* The stored object with the uid of the reference; NULL when there is none. */
static struct sw_json *referenced(struct sw_api *api, struct sw_arena *a, const char *plural,
                                  struct sw_slice ns, const struct sw_json *ref)
{
    struct sw_json *obj =
        api_stored(api, a, api_registry_core(&api->reg, plural), ns, api_str(ref, "name"));

    return obj && sw_slice_eq(api_meta_str(obj, "uid"), api_str(ref, "uid")) ? obj : NULL;
}

/* The object exists with that uid and is not going away. */
static bool still_there(struct sw_api *api, struct sw_arena *a, const char *plural,
                        struct sw_slice ns, const struct sw_json *ref)
{
    const struct sw_json *obj = referenced(api, a, plural, ns, ref);

    return obj && !api_is_going(obj);
}

/* A pod that terminates keeps its identity until its time is up: it still drains connections. */
static bool pod_there(struct sw_api *api, struct sw_arena *a, struct sw_slice ns,
                      const struct sw_json *ref)
{
    const struct sw_json *pod = referenced(api, a, "pods", ns, ref);
    struct sw_slice until = api_meta_str(pod, "deletionTimestamp");
    char limit[SW_RFC3339_LEN];

    /* Both are written by sw_rfc3339: the order of the texts is that of the times. */
    (void)sw_rfc3339(sw_wall_ns() - (uint64_t)LEEWAY_S * SW_NS_PER_S, 0, limit);
    return pod && (!until.n || sw_slice_cmp(until, sw_slice_str(limit)) >= 0);
}

static void put_extra(struct sw_arena *a, struct sw_json *extra, const char *what,
                      struct sw_slice value)
{
    if (value.n)
        sw_json_put(a, extra, sw_arena_printf(a, "authentication.kubernetes.io/%s", what),
                    sw_json_new_list(a, sw_json_new_string(a, value)));
}

static void fill_user(struct sw_arena *a, const struct sw_json *claims, struct sw_slice ns,
                      const struct sw_json *sa, struct api_user *ret)
{
    *ret = (struct api_user){.name = api_str(claims, "sub"), .uid = api_str(sa, "uid")};
    api_account_groups(a, ns, ret);
}

/* What the token itself is, and the pod and node it was made for. */
static struct sw_json *extra_of(struct sw_arena *a, const struct sw_json *claims,
                                const struct sw_json *k)
{
    static const char *const bound[] = {"node", "pod"};
    const char *id = sw_arena_printf(a, "JTI=%.*s", SW_SLICE_ARG(api_str(claims, "jti")));
    struct sw_json *extra = sw_json_new_object(a);

    put_extra(a, extra, "credential-id", sw_slice_str(id));
    for (size_t i = 0; i < SW_ARRAY_LEN(bound); i++) {
        const struct sw_json *ref = sw_json_find(k, bound[i]);

        put_extra(a, extra, sw_arena_printf(a, "%s-name", bound[i]), api_str(ref, "name"));
        put_extra(a, extra, sw_arena_printf(a, "%s-uid", bound[i]), api_str(ref, "uid"));
    }
    return extra;
}

static bool bound_ok(struct sw_api *api, struct sw_arena *a, struct sw_slice ns,
                     const struct sw_json *k)
{
    const struct sw_json *secret = sw_json_find(k, "secret");
    const struct sw_json *pod = sw_json_find(k, "pod");
    const struct sw_json *node = sw_json_find(k, "node");

    if (secret && !still_there(api, a, "secrets", ns, secret))
        return false;
    if (pod) /* its node is informational: the pod may outlive the Node object */
        return pod_there(api, a, ns, pod);
    return !node || still_there(api, a, "nodes", sw_slice("", 0), node);
}

/* --- tokens kept in Secrets --- */

static const char legacy_issuer[] = "kubernetes/serviceaccount";
#define LEGACY "kubernetes.io/serviceaccount/"

struct sw_slice api_token_for_secret(struct sw_api *api, struct sw_arena *a, struct sw_slice ns,
                                     struct sw_slice secret, const struct sw_json *account)
{
    SW_BUF_AUTO token = {.max = SW_JWS_TOKEN_MAX};
    struct sw_slice name = api_meta_str(account, "name");
    const struct sw_json *c = SW_JSON_OF(
        a, {"iss", .str = legacy_issuer}, {LEGACY "namespace", .text = ns},
        {LEGACY "secret.name", .text = secret}, {LEGACY "service-account.name", .text = name},
        {LEGACY "service-account.uid", .text = api_meta_str(account, "uid")},
        {"sub", .text = api_account_name(a, ns, name)});
    struct sw_err err = {0};

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
    const struct sw_json *obj =
        api_stored(api, a, api_registry_core(&api->reg, "secrets"), ns, name);
    SW_BUF_AUTO b = {.max = SW_JWS_TOKEN_MAX};

    return obj && sw_base64_decode(&b, api_str(sw_json_find(obj, "data"), "token")) == SW_OK &&
           same_secret(sw_buf_slice(&b), token) && !api_is_going(obj);
}

static bool legacy_user(struct sw_api *api, struct sw_arena *a, const struct api_bearer *bearer,
                        const struct sw_json *claims, struct api_user *ret,
                        struct sw_json **ret_audiences)
{
    struct sw_slice ns = api_str(claims, LEGACY "namespace");
    const struct sw_json *sa =
        SW_JSON_OF(a, {"name", .text = api_str(claims, LEGACY "service-account.name")},
                   {"uid", .text = api_str(claims, LEGACY "service-account.uid")});
    struct sw_json *common = common_audiences(api, a, own_audience(api, a), bearer->audiences);

    if (!common || !still_there(api, a, "serviceaccounts", ns, sa) ||
        !secret_holds(api, a, ns, api_str(claims, LEGACY "secret.name"), bearer->token))
        return false;
    fill_user(a, claims, ns, sa, ret);
    if (ret_audiences)
        *ret_audiences = common;
    return true;
}

bool api_token_user(struct sw_api *api, struct sw_arena *a, const struct api_bearer *bearer,
                    struct api_user *ret, struct sw_json **ret_audiences, const char **ret_why)
{
    struct sw_slice payload;
    struct sw_json *claims = NULL;
    struct sw_json *common;
    const struct sw_json *k;
    const struct sw_json *sa;
    struct sw_slice ns;
    int64_t exp = 0;

    *ret_why = "invalid bearer token";
    if (static_user(api, a, bearer->token, ret)) {
        if (ret_audiences)
            *ret_audiences = own_audience(api, a);
        return true;
    }
    if (!payload_of(api, a, bearer->token, &payload) ||
        sw_json_parse(a, payload, &(struct sw_json_opts){.max_depth = 16}, &claims, NULL) != SW_OK)
        return false;
    if (sw_json_str_eq(sw_json_find(claims, "iss"), legacy_issuer))
        return legacy_user(api, a, bearer, claims, ret, ret_audiences);
    if (!sw_json_str_eq(sw_json_find(claims, "iss"), api->issuer) || !in_time(claims))
        return false;
    common = common_audiences(api, a, sw_json_find(claims, "aud"), bearer->audiences);
    k = sw_json_find(claims, "kubernetes.io");
    sa = sw_json_find(k, "serviceaccount");
    ns = api_str(k, "namespace");
    if (!common || !still_there(api, a, "serviceaccounts", ns, sa) || !bound_ok(api, a, ns, k))
        return false;
    fill_user(a, claims, ns, sa, ret);
    ret->extra = extra_of(a, claims, k);
    if (sw_json_i64(sw_json_find(claims, "exp"), &exp) && exp > 0)
        ret->expires_s = (uint64_t)exp + 1; /* good for all of that second */
    if (ret_audiences)
        *ret_audiences = common;
    return true;
}
