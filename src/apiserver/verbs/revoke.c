/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams outlive the authorisation of their request. When a right or a credential may have been
 * revoked (RBAC was written; an account, or what a token is bound to, was deleted) all watches are
 * authorised again, a few per turn of the loop, and the listener (server.h) is called. The expiry
 * of a token is known from the start: a watch ends no later.
 */
#include <string.h>

#include "apiserver/api/api.h"
#include "apiserver/auth/auth.h"
#include "apiserver/verbs/verbs.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/search.h"
#include "base/time.h"
#include "tls/tls.h"

enum { BATCH = 16, GOOD_MAX = 1024 }; /* watches per turn: each may cost a signature */

/* Changes come in crowds. */
static const uint64_t settle_ns = 200 * SW_NS_PER_MS;

struct api_revoker {
    struct sw_api *api;
    struct sw_timer settle;
    struct sw_defer again;
    struct sw_map good; /* tokens found good in this walk, owned */
    void (*on_revoke)(void *arg);
    void *arg;
};

static void forget_good(struct api_revoker *v)
{
    SW_MAP_FOREACH (it, &v->good)
        sw_free_secret(it->value, it->key.n);
    sw_map_done(&v->good);
    v->good = (struct sw_map){0};
}

struct api_revoker *api_revoker_new(struct sw_api *api)
{
    struct api_revoker *v = SW_NEW(struct api_revoker);

    v->api = api;
    return v;
}

void api_revoker_free(struct api_revoker *v)
{
    if (!v)
        return;
    sw_timer_stop(v->api->loop, &v->settle);
    sw_defer_cancel(&v->again);
    forget_good(v);
    sw_free(v);
}

void api_revoker_listen(struct api_revoker *v, void (*cb)(void *arg), void *arg)
{
    v->on_revoke = cb;
    v->arg = arg;
}

static bool token_good(struct api_revoker *v, struct sw_arena *a, struct sw_slice token)
{
    struct api_user user = {0};
    const char *why;
    char *own;

    if (sw_map_get(&v->good, token))
        return true;
    if (!api_token_user(v->api, a, &(struct api_bearer){.token = token}, &user, NULL, &why))
        return false;
    if (v->good.n < GOOD_MAX) {
        own = sw_slice_dup(token);
        (void)sw_map_put(&v->good, sw_slice(own, token.n), own);
    }
    return true;
}

bool api_still_allowed(struct api_req *r, struct sw_arena *a, const char **ret_why)
{
    bool by_cert = r->x->cert && r->x->cert->cn.n;
    struct sw_slice token = by_cert ? sw_slice("", 0) : api_bearer_of(r->x);
    struct api_attrs at = api_attrs_of(r, a);
    const char *why = "";

    if (token.n && !token_good(r->api->revoker, a, token))
        *ret_why = "the credential is not valid any more";
    else if (r->real_user.name.n && !api_may_impersonate(r, a))
        *ret_why = "the user may not be impersonated any more";
    else if (!api_allowed(r->api, a, &at, &why))
        *ret_why = api_denied_text(a, &at, why);
    else
        return true;
    return false;
}

uint64_t api_credential_left_ns(const struct api_req *r)
{
    uint64_t now = sw_wall_ns();
    uint64_t end_s = r->user.expires_s;

    if (end_s == 0 || end_s >= UINT64_MAX / SW_NS_PER_S)
        return UINT64_MAX;
    return end_s * SW_NS_PER_S > now ? end_s * SW_NS_PER_S - now : 1;
}

/* ---- all of them ---- */

static void on_again(struct sw_defer *d)
{
    struct api_revoker *v = SW_CONTAINER_OF(d, struct api_revoker, again);

    if (api_watches_review(v->api, BATCH))
        sw_loop_defer(v->api->loop, &v->again, on_again);
    else
        forget_good(v);
}

static void on_settled(struct sw_timer *t)
{
    struct api_revoker *v = SW_CONTAINER_OF(t, struct api_revoker, settle);

    if (v->api->phase.stopping)
        return;
    forget_good(v); /* of a walk that is under way: they may have gone since */
    v->api->review++;
    sw_loop_defer(v->api->loop, &v->again, on_again);
    if (v->on_revoke)
        v->on_revoke(v->arg);
}

/* Kinds a token stands and falls with. */
static bool bears_tokens(const struct api_res *res)
{
    static const char *const plurals[] = {"serviceaccounts", "secrets", "pods", "nodes", NULL};

    return !*res->group && sw_word_in(sw_slice_str(res->plural), plurals);
}

void api_revoker_note(struct sw_api *api, const struct api_res *res, bool gone)
{
    struct api_revoker *v = api->revoker;
    bool secret = !*res->group && strcmp(res->plural, "secrets") == 0;

    if (strcmp(res->group, "rbac.authorization.k8s.io") != 0 &&
        !(bears_tokens(res) && (gone || secret)))
        return;
    if (!sw_timer_running(&v->settle))
        sw_timer_start(api->loop, &v->settle, settle_ns, on_settled);
}
