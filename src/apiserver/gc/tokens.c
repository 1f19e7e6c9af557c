/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets that request the token of a service account: filled, and deleted with the account. */
#include <string.h>

#include "apiserver/auth/auth.h"
#include "apiserver/gc/gc_int.h"
#include "base/base64.h"
#include "tls/cert/ca.h"

static const char name_key[] = "kubernetes.io/service-account.name";
static const char uid_key[] = "kubernetes.io/service-account.uid";

/* The account the Secret is for; NULL when there is none, or another one of that name. */
static struct sw_json *account_of(struct sw_api *api, struct sw_arena *a, struct sw_slice ns,
                                  const struct sw_json *secret)
{
    const struct sw_json *notes = sw_json_walk(secret, "metadata", "annotations", NULL);
    struct gc_at at = {api_registry_core(&api->reg, "serviceaccounts"), ns,
                       api_str(notes, name_key)};
    struct sw_slice uid = api_str(notes, uid_key);
    struct sw_json *sa = gc_load(api, a, &at);

    return sa && (!uid.n || sw_slice_eq(uid, api_meta_str(sa, "uid"))) ? sa : NULL;
}

static void put_bytes(struct sw_arena *a, struct sw_json *data, const char *key,
                      struct sw_slice bytes)
{
    SW_BUF_AUTO b = {.max = bytes.n * 2 + 8};

    if (sw_base64_append(&b, bytes) == SW_OK)
        sw_json_put_str(a, data, key, sw_buf_slice(&b));
}

static bool differs(const struct sw_json_member *m, const void *old)
{
    return !sw_json_equal(m->value, sw_json_get(old, m->key), SW_JSON_EQ_TEXT);
}

static struct sw_json *wanted(struct sw_api *api, struct sw_arena *a, const struct gc_at *at,
                              const struct sw_json *secret, const struct sw_json *sa)
{
    const struct sw_json *old = sw_json_find(secret, "data");
    struct sw_json *data = sw_json_new_object(a);

    put_bytes(a, data, "ca.crt", sw_ca_root_pem(api->ca));
    put_bytes(a, data, "namespace", at->ns);
    if (!api_str(old, "token").n) {
        struct sw_slice token = api_token_for_secret(api, a, at->ns, at->name, sa);

        if (token.n)
            put_bytes(a, data, "token", token);
    }
    (void)sw_json_filter(data, differs, old);
    return data;
}

static void fill(struct gc_task *t, struct sw_arena *a, const struct gc_at *at,
                 const struct sw_json *secret, const struct sw_json *sa)
{
    const struct sw_json *notes = sw_json_walk(secret, "metadata", "annotations", NULL);
    struct sw_json *data = wanted(t->gc->api, a, at, secret, sa);
    struct sw_json *note = NULL;
    struct sw_json *meta;

    if (!api_str(notes, uid_key).n)
        note = SW_JSON_OF(a, {uid_key, .text = api_meta_str(sa, "uid")});
    if (!sw_json_len(data) && !note)
        return;
    meta = SW_JSON_OF(a, {"resourceVersion", .text = api_meta_str(secret, "resourceVersion")},
                      {"annotations", .json = note});
    gc_request(t, API_PATCH, at, NULL,
               SW_JSON_OF(a, {"metadata", .json = meta},
                          {"data", .json = sw_json_len(data) ? data : NULL}));
}

void gc_run_token(struct gc_task *t)
{
    SW_ARENA_AUTO a = {0};
    struct sw_api *api = t->gc->api;
    struct gc_at at = gc_resolve(api, t->key);
    struct sw_json *secret = gc_load(api, &a, &at);
    struct sw_json *sa;
    struct sw_json *pre;

    if (!secret || api_is_going(secret) ||
        !sw_json_str_eq(sw_json_find(secret, "type"), "kubernetes.io/service-account-token"))
        return;
    sa = account_of(api, &a, at.ns, secret);
    if (sa) {
        fill(t, &a, &at, secret, sa);
        return;
    }
    pre = SW_JSON_OF(&a, {"uid", .text = api_meta_str(secret, "uid")});
    gc_request(t, API_DELETE, &at, NULL, SW_JSON_OF(&a, {"preconditions", .json = pre}));
}

void gc_account_gone(struct api_gc *g, struct sw_slice ns)
{
    SW_ARENA_AUTO a = {0};
    SW_STORE_SNAP_AUTO snap = sw_store_snapshot(g->api->store);
    struct sw_slice prefix = sw_slice_str(sw_arena_printf(&a, "/secrets/%.*s/", SW_SLICE_ARG(ns)));

    SW_STORE_EACH (o, snap, prefix) {
        if (memmem(o->value.p, o->value.n, GC_TOKEN_TYPE, strlen(GC_TOKEN_TYPE)))
            gc_queue(g, GC_TOKEN, o->key);
    }
}
