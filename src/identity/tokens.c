/* SPDX-License-Identifier: Apache-2.0 */
#include "identity/tokens.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/time.h"
#include "kube/client/client.h"
#include "kube/client/review.h"
#include "kube/fields.h"

#define EXTRA "authentication.kubernetes.io/"

enum { ENTRIES_MAX = 4096, TOKEN_MAX = 16 << 10 };

static const uint64_t denied_ns = 5 * SW_NS_PER_S; /* how long a no is believed */

struct entry {
    struct sw_tokens *tokens;
    struct sw_kube_call *call; /* a review under way */
    struct sw_slice token;     /* behind the struct; wiped */
    struct sw_arena arena;     /* of the caller */
    struct sw_caller caller;
    bool known;
    bool good;
    bool held;      /* by an open stream */
    uint64_t at_ns; /* of the answer */
    uint64_t asked_ns;
    uint64_t used_ns; /* shown, or held by a stream that is open */
    char why[120];
};

struct sw_tokens {
    struct sw_kube_client *client;
    struct sw_tokens_opts o;
    struct sw_map entries; /* by token */
};

struct sw_tokens *sw_tokens_new(struct sw_kube_client *client, const struct sw_tokens_opts *o)
{
    struct sw_tokens *t = SW_NEW(struct sw_tokens);

    t->client = client;
    t->o = *o;
    t->o.fresh_ns = o->fresh_ns ? o->fresh_ns : 60 * SW_NS_PER_S;
    return t;
}

static void entry_free(struct entry *e)
{
    sw_kube_call_cancel(e->call);
    sw_arena_clear(&e->arena);
    sw_slice_wipe(e->token);
    sw_free(e);
}

void sw_tokens_free(struct sw_tokens *t)
{
    if (!t)
        return;
    SW_MAP_DRAIN(&t->entries, entry_free);
    sw_free(t);
}

static uint64_t now_of(const struct sw_tokens *t)
{
    return sw_loop_now(sw_kube_client_loop(t->client));
}

/* --- answers --- */

static struct sw_slice first_extra(const struct sw_json *user, const char *name)
{
    return sw_json_str(sw_json_at(sw_json_find(sw_json_find(user, "extra"), name), 0));
}

/* "system:serviceaccount:NAMESPACE:NAME" of a user in the group of all service accounts. */
static bool read_user(struct entry *e, const struct sw_json *user)
{
    struct sw_slice rest = sw_json_str(sw_json_find(user, "username"));
    struct sw_slice system = sw_slice_cut(&rest, ':');
    struct sw_slice kind = sw_slice_cut(&rest, ':');
    struct sw_slice ns = sw_slice_cut(&rest, ':');

    sw_arena_clear(&e->arena);
    e->caller = (struct sw_caller){0};
    if (!sw_slice_eq_str(system, "system") || !sw_slice_eq_str(kind, "serviceaccount") ||
        ns.n == 0 || rest.n == 0 || sw_slice_find(rest, ':') >= 0 ||
        !sw_field_list_has(sw_json_find(user, "groups"), SW_SLICE_LIT("system:serviceaccounts")))
        return false;
    e->caller.ns = sw_arena_slice(&e->arena, ns);
    e->caller.account = sw_arena_slice(&e->arena, rest);
    e->caller.pod = sw_arena_slice(&e->arena, first_extra(user, EXTRA "pod-name"));
    e->caller.pod_uid = sw_arena_slice(&e->arena, first_extra(user, EXTRA "pod-uid"));
    return true;
}

/* Servers that know no audiences leave the list out: the token may be for any audience. */
static bool for_us(const struct entry *e, const struct sw_json *status)
{
    return sw_field_list_has(sw_json_find(status, "audiences"),
                             sw_slice_str(e->tokens->o.audience));
}

static bool judge(struct entry *e, const struct sw_json *status)
{
    struct sw_slice error = sw_json_str(sw_json_find(status, "error"));

    if (error.n || !sw_json_true(sw_json_find(status, "authenticated")))
        (void)snprintf(e->why, sizeof(e->why), "token not authenticated: %.*s",
                       SW_SLICE_ARG_MAX(error, 80));
    else if (!for_us(e, status))
        (void)snprintf(e->why, sizeof(e->why), "the token is not for the audience %s",
                       e->tokens->o.audience);
    else if (!read_user(e, sw_json_find(status, "user")))
        (void)snprintf(e->why, sizeof(e->why), "the token is not of a service account");
    else
        return true;
    return false;
}

static void on_review(void *arg, struct sw_kube_reply *r)
{
    struct entry *e = arg;
    struct sw_tokens *t = e->tokens;
    bool before = e->known && e->good;

    e->call = NULL;
    if (r->rc == SW_OK) {
        e->known = true;
        e->good = judge(e, sw_json_find(r->object, "status"));
        e->at_ns = now_of(t);
    } else {
        (void)snprintf(e->why, sizeof(e->why), "the token cannot be reviewed: %.*s",
                       SW_SLICE_ARG_MAX(r->message, 80));
    }
    if (t->o.on_answer)
        t->o.on_answer(t->o.arg, e->held && before != (e->known && e->good));
}

static void ask(struct entry *e)
{
    if (e->call)
        return;
    e->asked_ns = now_of(e->tokens);
    e->call =
        sw_kube_review_token(e->tokens->client, e->token, e->tokens->o.audience, on_review, e);
}

/* --- questions --- */

/* What goes later, when there is no room: a review under way, or who waits for it begins anew. */
static unsigned rank(const struct entry *e)
{
    if (e->call)
        return 2;
    return e->known && e->good;
}

/* Makes room: first what has no user, then what was not used for longest. */
static void drop_one(struct sw_tokens *t)
{
    struct entry *first = NULL;

    SW_MAP_EACH (struct entry, e, &t->entries) {
        if (!first || rank(e) < rank(first) ||
            (rank(e) == rank(first) && e->used_ns < first->used_ns))
            first = e;
    }
    if (!first)
        return;
    (void)sw_map_del(&t->entries, first->token);
    entry_free(first);
}

static struct entry *entry_of(struct sw_tokens *t, struct sw_slice token)
{
    struct entry *e = sw_map_get(&t->entries, token);

    if (!e) {
        if (t->entries.n >= ENTRIES_MAX)
            drop_one(t);
        e = sw_calloc(1, sizeof(*e) + token.n + 1);
        memcpy(e + 1, token.p, token.n);
        e->token = sw_slice(e + 1, token.n);
        e->tokens = t;
        (void)sw_map_put(&t->entries, e->token, e);
    }
    e->used_ns = now_of(t);
    return e;
}

int sw_tokens_check(struct sw_tokens *t, struct sw_slice token, const struct sw_caller **ret,
                    struct sw_err *err)
{
    uint64_t now = now_of(t);
    struct entry *e;

    if (token.n == 0 || token.n > TOKEN_MAX)
        return sw_err_set(err, SW_EDENIED, token.n ? "the token is too long" : "no bearer token");
    e = entry_of(t, token);
    if (e->known && now - e->at_ns < (e->good ? t->o.fresh_ns : denied_ns)) {
        *ret = &e->caller;
        return e->good ? SW_OK : sw_err_set(err, SW_EDENIED, "%s", e->why);
    }
    /* The API cannot be asked just now: one failure answers all waiting calls. */
    if (!e->call && e->why[0] && e->asked_ns && now - e->asked_ns < SW_NS_PER_S)
        return sw_err_set(err, SW_ETIME, "%s", e->why);
    e->why[0] = 0;
    ask(e);
    return SW_EPENDING;
}

const struct sw_caller *sw_tokens_owner(const struct sw_tokens *t, struct sw_slice token)
{
    const struct entry *e = sw_map_get(&t->entries, token);

    return e && e->known && e->good ? &e->caller : NULL;
}

bool sw_tokens_still_good(struct sw_tokens *t, struct sw_slice token, struct sw_err *err)
{
    struct entry *e;

    if (token.n == 0 || token.n > TOKEN_MAX)
        return true; /* it was let in for another reason */
    e = entry_of(t, token);
    e->held = true;
    if (now_of(t) - e->asked_ns > SW_NS_PER_S)
        ask(e);
    if (!e->known || e->good)
        return true;
    (void)sw_err_set(err, SW_EDENIED, "%s", e->why);
    return false;
}
