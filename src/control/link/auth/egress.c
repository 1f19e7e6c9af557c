/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Egress: which source of an Import a client's connection goes to. Sources are tried in the order
 * of the Import's scheme until a peer grants a token: own policy first, then the peer is asked.
 */
#include <stdio.h>

#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/time.h"
#include "control/link/auth/auth_int.h"
#include "control/link/auth/balance.h"
#include "control/link/auth/beat.h"
#include "control/link/auth/race.h"

/* A peer that does not answer may not use up the time of the others. */
static const uint64_t impatient_ns = SW_NS_PER_S;

enum { TOKEN_MAX = 32 << 10 };

struct sw_link_egress {
    struct sw_list link;
    struct sw_link_auth *auth;
    struct sw_arena arena;
    struct sw_link_facts *facts; /* the snapshot it is decided by */
    const struct sw_link_import *import;
    struct sw_slice client;
    struct sw_slice exclude;
    struct sw_attrs src;
    uint32_t order[SW_LINK_SOURCES_MAX];
    size_t n;
    size_t at;
    size_t denied; /* by a policy, ours or the peer's */
    bool limited;  /* the last source was not asked: too many requests are under way */
    struct sw_slice policy;
    char last[SW_LINK_TEXT]; /* why the last source was not used */
    struct sw_link_ask *ask;
    bool *over; /* set at the end, while the start is on the stack */
    sw_link_egress_cb done;
    void *arg;
};

struct sw_link_egress *auth_egress_of(struct sw_list *link)
{
    return SW_CONTAINER_OF(link, struct sw_link_egress, link);
}

static void egress_free(struct sw_link_egress *e)
{
    sw_link_ask_cancel(e->ask);
    sw_list_unlink(&e->link);
    e->auth->n_egress--;
    (void)sw_link_facts_unref(e->facts);
    sw_arena_clear(&e->arena);
    sw_free(e);
}

void sw_link_egress_cancel(struct sw_link_egress *e)
{
    if (e)
        egress_free(e);
}

/* ---- the order ---- */

static uint64_t random_below(void *arg, uint64_t bound)
{
    return sw_rand_below(bound);
}

static bool is_reachable(void *arg, const struct sw_link_source *s)
{
    struct sw_link_egress *e = arg;

    return sw_link_peers_reachable(e->auth->peers, s->peer);
}

static bool same_label(const struct sw_attrs *a, const struct sw_attrs *b, const char *key)
{
    const struct sw_slice *x = sw_attrs_get(a, sw_slice_str(key));
    const struct sw_slice *y = sw_attrs_get(b, sw_slice_str(key));

    return x && y && sw_slice_eq(*x, *y);
}

static int distance(void *arg, const struct sw_link_source *s)
{
    struct sw_link_egress *e = arg;
    const struct sw_attrs *own = &e->auth->self.labels;
    const struct sw_attrs *other = sw_link_peers_labels(e->auth->peers, s->peer);

    if (!same_label(own, other, SW_LINK_PEER_LABELS "topology.kubernetes.io/region"))
        return 2;
    return same_label(own, other, SW_LINK_PEER_LABELS "topology.kubernetes.io/zone") ? 0 : 1;
}

static bool is_excluded(void *arg, const struct sw_link_source *s)
{
    struct sw_link_egress *e = arg;
    struct sw_slice rest = e->exclude;

    while (rest.n) {
        struct sw_slice item = sw_slice_trim(sw_slice_cut(&rest, ','));
        struct sw_slice peer = sw_slice_cut(&item, '/');
        struct sw_slice ns = item.p ? sw_slice_cut(&item, '/') : item;

        if (sw_slice_eq(peer, s->peer) && sw_slice_eq(ns, s->export_ns) &&
            sw_slice_eq(item, s->export_name))
            return true;
    }
    return false;
}

/* ---- the end ---- */

static void record(struct sw_link_egress *e, const struct sw_link_answer *answer,
                   struct sw_slice peer)
{
    const struct auth_subject s = {.side = "egress",
                                   .import = e->import->key,
                                   .exported = answer->exported,
                                   .client = e->client,
                                   .peer = peer,
                                   .policy = e->policy};

    auth_record(e->auth, &s, answer);
}

static void finish(struct sw_link_egress *e, const struct sw_link_answer *answer)
{
    if (e->over)
        *e->over = true;
    e->done(e->arg, answer);
    egress_free(e);
}

static void give_up(struct sw_link_egress *e)
{
    struct sw_link_answer answer = {.tried = e->import->n};

    if (e->import->n == 0)
        auth_refuse(&answer, 503, "no-sources", "import '%.*s' has no sources",
                    SW_SLICE_ARG(e->import->key));
    else if (e->n && e->denied == e->n)
        auth_refuse(&answer, 403, "policy", "%s", e->last);
    else
        auth_refuse(&answer, 503, e->limited ? "overload" : "no-peer",
                    "tried out all %zu sources: %s", e->import->n,
                    e->n ? e->last : "all are excluded");
    record(e, &answer, sw_slice("", 0));
    finish(e, &answer);
}

static struct sw_link_grant grant_of(struct sw_link_egress *e, const struct sw_link_source *s)
{
    const char *exported = sw_arena_printf(&e->arena, "%.*s/%.*s", SW_SLICE_ARG(s->export_ns),
                                           SW_SLICE_ARG(s->export_name));

    return (struct sw_link_grant){.side = SW_LINK_EGRESS,
                                  .import = e->import->key,
                                  .client = e->client,
                                  .peer = s->peer,
                                  .exported = sw_slice_str(exported)};
}

/* The peer took its time to answer, and objects or policies may have changed meanwhile. */
static bool still_allowed(struct sw_link_egress *e, const struct sw_link_grant *g)
{
    struct sw_link_answer answer = {.status = 200};

    if (e->facts == e->auth->facts)
        return true;
    auth_review_egress(e->auth, &e->arena, g, &answer);
    if (answer.status == 200)
        return true;
    (void)snprintf(e->last, sizeof(e->last), "%s", answer.text);
    return false;
}

static void grant(struct sw_link_egress *e, const struct sw_link_grant *g, struct sw_slice token)
{
    struct sw_link_answer answer = {
        .status = 200, .reason = "granted", .token = token, .exported = g->exported};
    SW_BUF_AUTO out = {.max = SW_LINK_GRANT_MAX};
    struct sw_err err = {0};

    answer.host =
        sw_slice_str(sw_arena_printf(&e->arena, "remote-peer-%.*s", SW_SLICE_ARG(g->peer)));
    answer.policy = e->policy;
    answer.source = auth_source(&e->arena, &e->src);
    if (!e->auth->has_key)
        auth_refuse(&answer, 500, "no-key", "no key for grants yet");
    else if (sw_link_grant_mint(&e->auth->key, g, &out, &err) != SW_OK)
        auth_refuse(&answer, 500, "internal", "%s", err.msg);
    answer.grant = sw_buf_slice(&out);
    record(e, &answer, g->peer);
    finish(e, &answer);
}

/* ---- one source after the other ---- */

static void step(struct sw_link_egress *e);

/* A token goes into a header field of ours. */
static bool usable_token(struct sw_slice t)
{
    for (size_t i = 0; i < t.n; i++) {
        if (t.p[i] <= ' ' || t.p[i] > '~')
            return false;
    }
    return t.n > 0 && t.n <= TOKEN_MAX;
}

static const struct sw_link_source *current(const struct sw_link_egress *e)
{
    return &e->import->sources[e->order[e->at]];
}

static void on_answer(void *arg, const struct sw_link_race_result *r)
{
    struct sw_link_egress *e = arg;
    const struct sw_link_source *s = current(e);
    bool granted = r->status == 200 && usable_token(r->value);
    const struct sw_link_grant g = grant_of(e, s);

    e->ask = NULL;
    if (granted && still_allowed(e, &g)) {
        grant(e, &g, r->value);
        return;
    }
    if (granted)
        e->denied++;
    else if (r->status == 0)
        (void)snprintf(e->last, sizeof(e->last), "peer '%.*s': %s", SW_SLICE_ARG(s->peer),
                       r->err->msg);
    else
        (void)snprintf(e->last, sizeof(e->last), "peer '%.*s' answered %d: %.*s",
                       SW_SLICE_ARG(s->peer), r->status,
                       SW_SLICE_ARG(sw_slice_trim_lines(sw_slice_head(r->body, 200))));
    e->denied += r->status == 403;
    e->at++;
    step(e);
}

static struct sw_slice request_body(struct sw_link_egress *e, const struct sw_link_source *s)
{
    static const struct sw_json_write_opts as_go = {.flags = SW_JSON_GO_ESCAPE};
    struct sw_json *o = sw_json_new_object(&e->arena);

    sw_json_put_str(&e->arena, o, "ServiceName", s->export_name);
    sw_json_put_str(&e->arena, o, "ServiceNamespace", s->export_ns);
    sw_json_put(&e->arena, o, "SrcAttributes", sw_link_attrs_json(&e->arena, &e->src));
    return sw_json_text(&e->arena, o, &as_go);
}

static bool ask(struct sw_link_egress *e, const struct sw_link_source *s)
{
    struct sw_err err = {0};
    bool others = e->at + 1 < e->n;
    const struct sw_link_ask_opts o = {.body = request_body(e, s),
                                       .timeout_ns =
                                           others ? impatient_ns : SW_LINK_PEER_TIMEOUT_NS,
                                       .done = on_answer,
                                       .arg = e};

    e->ask = sw_link_peers_ask(e->auth->peers, s->peer, &o, &err);
    e->limited = err.rc == SW_ELIMIT;
    if (!e->ask)
        (void)snprintf(e->last, sizeof(e->last), "%s", err.msg);
    return e->ask != NULL;
}

/* Own policy; the source's peer may be gone from the objects. */
static bool allowed(struct sw_link_egress *e, const struct sw_link_source *s)
{
    const struct sw_attrs *const ends[] = {&e->src, sw_link_peers_labels(e->auth->peers, s->peer)};
    struct sw_policy_verdict v;

    if (!sw_link_facts_peer(e->facts, s->peer)) {
        (void)snprintf(e->last, sizeof(e->last), "no Peer '%.*s'", SW_SLICE_ARG(s->peer));
        return false;
    }
    if (sw_link_judge_egress(&e->arena, e->facts, e->import, s, ends, &v)) {
        e->policy = v.why.policy;
        return true;
    }
    e->denied++;
    e->policy = v.why.policy;
    (void)snprintf(e->last, sizeof(e->last), "peer '%.*s': %.400s", SW_SLICE_ARG(s->peer), v.text);
    return false;
}

static void step(struct sw_link_egress *e)
{
    for (; e->at < e->n; e->at++) {
        const struct sw_link_source *s = current(e);

        if (allowed(e, s) && ask(e, s))
            return;
    }
    give_up(e);
}

/* ---- the start ---- */

/* SW_OK with the Import, or the refusal. */
static int find_import(struct sw_link_auth *a, const struct sw_link_egress_req *req,
                       struct sw_link_answer *answer, const struct sw_link_import **ret)
{
    const struct sw_link_import *i = a->facts ? sw_link_facts_import(a->facts, req->import) : NULL;

    if (!a->facts)
        auth_refuse(answer, 503, "not-ready", "objects are not known yet");
    else if (!i)
        auth_refuse(answer, 404, "no-import", "import '%.*s' not found", SW_SLICE_ARG(req->import));
    else if (!i->valid)
        auth_refuse(answer, 503, "invalid-import", "import '%.*s' is not valid: %.*s",
                    SW_SLICE_ARG(i->key), SW_SLICE_ARG(i->why));
    else if (!a->self.name.n)
        auth_refuse(answer, 503, "no-fabric", "no fabric certificate");
    else if (a->n_egress >= AUTH_EGRESS_MAX)
        auth_refuse(answer, 503, "overload", "%d decisions are under way", AUTH_EGRESS_MAX);
    else
        return *ret = i, SW_OK;
    return SW_EDENIED;
}

struct sw_link_egress *sw_link_auth_egress(struct sw_link_auth *a,
                                           const struct sw_link_egress_req *req,
                                           sw_link_egress_cb done, void *arg)
{
    const struct sw_link_import *import = NULL;
    struct sw_link_answer answer = {0};
    struct sw_link_choice choice = {.random = random_below,
                                    .reachable = is_reachable,
                                    .distance = distance,
                                    .excluded = is_excluded};
    struct sw_link_egress *e;
    bool over = false;

    if (find_import(a, req, &answer, &import) != SW_OK) {
        const struct auth_subject s = {
            .side = "egress", .import = req->import, .client = req->client};

        auth_record(a, &s, &answer);
        done(arg, &answer);
        return NULL;
    }
    e = SW_NEW(struct sw_link_egress);
    *e = (struct sw_link_egress){.auth = a, .import = import, .done = done, .arg = arg};
    e->facts = sw_link_facts_ref(a->facts);
    e->client = sw_arena_slice(&e->arena, req->client);
    e->exclude = sw_arena_slice(&e->arena, req->exclude.p ? req->exclude : sw_slice("", 0));
    e->src = sw_link_src_attrs(&e->arena, &a->self, sw_link_pods_find(a->pods, req->client));
    choice.turn = auth_turn(a, import->key);
    choice.arg = e;
    e->n = sw_link_order(import, &choice, e->order);
    sw_list_push_back(&a->egress, &e->link);
    a->n_egress++;
    e->over = &over;
    step(e);
    if (over)
        return NULL;
    e->over = NULL;
    return e;
}
