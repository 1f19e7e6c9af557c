/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/control/access.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/time.h"
#include "io/loop.h"
#include "kube/client/client.h"
#include "kube/client/review.h"

enum { ENTRIES_MAX = 1024, TOKEN_LEN_MAX = 16 * 1024 };

static const uint64_t trust_ns = 300 * SW_NS_PER_S; /* a yes is worth nothing afterwards */
static const uint64_t denied_ns = 5 * SW_NS_PER_S;  /* how long a no is believed */

static const struct sw_kube_gvr access_reviews = {
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", false};

struct entry {
    struct sw_control_access *access;
    struct sw_kube_call *call; /* a review under way */
    struct sw_slice key;       /* path, a line end, token; behind the struct */
    struct sw_slice path;
    struct sw_slice token;
    bool known;
    bool allowed;
    bool nobody;    /* not allowed because the token is unknown */
    bool held;      /* by a stream that is open */
    bool unsure;    /* no API could be asked */
    uint64_t at_ns; /* of the answer */
    char why[120];
};

struct sw_control_access {
    struct sw_kube_client *client;
    struct sw_loop *loop;
    struct sw_map entries; /* by key */
    uint64_t fresh_ns;     /* then it is asked again, beside */
    void (*on_answer)(void *arg, bool changed);
    void *answer_arg;
};

struct sw_control_access *sw_control_access_new(struct sw_kube_client *client, uint64_t fresh_ns)
{
    struct sw_control_access *a = SW_NEW(struct sw_control_access);

    a->client = client;
    a->loop = sw_kube_client_loop(client);
    a->fresh_ns = fresh_ns;
    return a;
}

void sw_control_access_on_answer(struct sw_control_access *a, void (*cb)(void *arg, bool changed),
                                 void *arg)
{
    a->on_answer = cb;
    a->answer_arg = arg;
}

static void entry_free(struct entry *e)
{
    sw_kube_call_cancel(e->call);
    explicit_bzero((char *)(uintptr_t)e->key.p, e->key.n);
    sw_free(e);
}

void sw_control_access_free(struct sw_control_access *a)
{
    if (!a)
        return;
    SW_MAP_DRAIN(&a->entries, entry_free);
    sw_free(a);
}

/* ---- reviews ---- */

static void settle(struct entry *e, bool allowed, const char *why, struct sw_slice detail)
{
    if (e->known && e->allowed && !allowed)
        sw_log_warn("control", "token of %.*s is no longer valid: %s%.*s", SW_SLICE_ARG(e->path),
                    why, SW_SLICE_ARG(detail));
    e->known = true;
    e->allowed = allowed;
    e->at_ns = sw_loop_now(e->access->loop);
    (void)snprintf(e->why, sizeof(e->why), "%s%.*s", why, SW_SLICE_ARG_MAX(detail, 80));
}

static void report(struct sw_control_access *a, bool changed)
{
    if (a->on_answer) /* entries may be gone when it returns */
        a->on_answer(a->answer_arg, changed);
}

static void answered(struct entry *e, bool allowed, const char *why, struct sw_slice detail)
{
    /* Made-up tokens are not a reason to look at every stream. */
    bool changed = e->known ? e->allowed != allowed : e->held;

    changed |= e->held && !allowed && e->unsure;
    e->unsure = false;
    settle(e, allowed, why, detail);
    report(e->access, changed);
}

/* No API could be asked. An earlier approval counts for a while. */
static void unanswered(struct entry *e, const char *why, struct sw_slice detail)
{
    if (!e->known || !e->allowed || sw_loop_now(e->access->loop) - e->at_ns >= trust_ns) {
        e->unsure = true;
        settle(e, false, why, detail);
    }
    report(e->access, false);
}

static void on_access(void *arg, struct sw_kube_reply *r)
{
    struct entry *e = arg;
    const struct sw_json *status = sw_json_find(r->object, "status");

    e->call = NULL;
    if (r->rc != SW_OK)
        unanswered(e, "its rights cannot be reviewed: ", r->message);
    else if (sw_json_true(sw_json_find(status, "allowed")))
        answered(e, true, "", sw_slice("", 0));
    else
        answered(e, false, "its owner may not get ", e->path);
}

static void ask_access(struct entry *e, const struct sw_json *user)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *spec;
    struct sw_json *o = sw_kube_review_new(&a, &access_reviews, &spec);
    struct sw_json *what = sw_json_new_object(&a);
    const struct sw_json *groups = sw_json_find(user, "groups");

    sw_json_put_str(&a, spec, "user", sw_json_str(sw_json_find(user, "username")));
    if (groups)
        sw_json_put(&a, spec, "groups", sw_json_copy(&a, groups));
    sw_json_put_str(&a, what, "path", e->path);
    sw_json_put(&a, what, "verb", sw_json_new_str(&a, "get"));
    sw_json_put(&a, spec, "nonResourceAttributes", what);
    e->call = sw_kube_create(e->access->client, &access_reviews, o, on_access, e);
}

static void on_token(void *arg, struct sw_kube_reply *r)
{
    struct entry *e = arg;
    const struct sw_json *status = sw_json_find(r->object, "status");

    e->call = NULL;
    if (r->rc == SW_OK)
        e->nobody = !sw_json_true(sw_json_find(status, "authenticated"));
    if (r->rc != SW_OK)
        unanswered(e, "it cannot be reviewed: ", r->message);
    else if (!e->nobody)
        ask_access(e, sw_json_find(status, "user"));
    else
        answered(e, false, "token not authenticated: ", sw_json_str(sw_json_find(status, "error")));
}

static void ask(struct entry *e)
{
    if (!e->call)
        e->call = sw_kube_review_token(e->access->client, e->token, NULL, on_token, e);
}

/* ---- tokens ---- */

/* Makes room: what was answered longest ago goes. */
static void drop_oldest(struct sw_control_access *a)
{
    struct entry *oldest = NULL;

    SW_MAP_EACH (struct entry, e, &a->entries) {
        if (!oldest || e->at_ns < oldest->at_ns)
            oldest = e;
    }
    if (!oldest)
        return;
    (void)sw_map_del(&a->entries, oldest->key);
    entry_free(oldest);
}

static struct entry *entry_of(struct sw_control_access *a, struct sw_slice token,
                              struct sw_slice path)
{
    size_t n = path.n + 1 + token.n;
    struct entry *e = sw_calloc(1, sizeof(*e) + n + 1);
    char *key = (char *)(e + 1);
    struct entry *old;

    memcpy(key, path.p, path.n);
    key[path.n] = '\n';
    memcpy(key + path.n + 1, token.p, token.n);
    e->key = sw_slice(key, n);
    old = sw_map_get(&a->entries, e->key);
    if (old) {
        entry_free(e);
        return old;
    }
    if (a->entries.n >= ENTRIES_MAX)
        drop_oldest(a);
    e->path = sw_slice(key, path.n);
    e->token = sw_slice(key + path.n + 1, token.n);
    e->access = a;
    e->at_ns = sw_loop_now(a->loop);
    (void)sw_map_put(&a->entries, e->key, e);
    return e;
}

static int refusal(const struct entry *e, struct sw_err *err)
{
    return sw_err_set(err, e->nobody || e->unsure ? SW_EDENIED : SW_ENOENT, "bearer token: %s",
                      e->why);
}

int sw_control_access_check(struct sw_control_access *a, struct sw_slice token,
                            struct sw_slice path, struct sw_err *err)
{
    uint64_t now = sw_loop_now(a->loop);
    struct entry *e;

    if (token.n == 0 || token.n > TOKEN_LEN_MAX)
        return sw_err_set(err, SW_EDENIED, token.n ? "the token is too long" : "no bearer token");
    e = entry_of(a, token, path);
    if (!e->known || now - e->at_ns > (e->allowed ? a->fresh_ns : denied_ns))
        ask(e);
    if (e->known && e->allowed && now - e->at_ns < trust_ns)
        return SW_OK;
    return e->call ? SW_EPENDING : refusal(e, err);
}

int sw_control_access_review(struct sw_control_access *a, struct sw_slice token,
                             struct sw_slice path, struct sw_err *err)
{
    struct entry *e;

    if (token.n == 0 || token.n > TOKEN_LEN_MAX)
        return SW_EPENDING; /* it was never let in */
    e = entry_of(a, token, path);
    e->held = true;
    /* Reviews come every fresh_ns: an answer from the last one is old, one from now is new. */
    if (!e->known || sw_loop_now(a->loop) - e->at_ns > a->fresh_ns / 2)
        ask(e);
    if (!e->known || e->unsure)
        return SW_EPENDING;
    return e->allowed ? SW_OK : refusal(e, err);
}
