/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bringing the newest output to the API. Every write is judged against what the watch shows: what
 * is already so is not written, what others changed back is written again, and a write whose echo
 * has not come yet is waited for.
 */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "control/objects.h"
#include "control/runtime_int.h"
#include "kube/client/health.h"

/* After this a write that the watch never showed is repeated. */
static const uint64_t echo_ns = 30 * SW_NS_PER_S;

/* Of one object: a write costs so much time, and so many may be ahead of it. */
static const uint64_t write_cost_ns = SW_NS_PER_S / 2;
enum { WRITES_AHEAD = 20 };

static struct write_state *state_of(struct sw_control *c, struct sw_slice id)
{
    struct write_state *s = sw_map_get(&c->states, id);

    if (s)
        return s;
    s = sw_calloc(1, sizeof(*s) + id.n + 1);
    memcpy(s + 1, id.p, id.n);
    s->id = sw_slice(s + 1, id.n);
    s->control = c;
    (void)sw_map_put(&c->states, s->id, s);
    return s;
}

static void state_free(struct write_state *s)
{
    sw_kube_call_cancel(s->call);
    sw_free(s->seen_rv);
    sw_free(s);
}

void control_write_seen(struct sw_control *c, size_t kind, struct sw_slice key)
{
    static const enum out_op ops[] = {OUT_APPLY, OUT_STATUS, OUT_DELETE, OUT_FINALIZER};
    char id[2048];

    if (c->states.n == 0 || key.n > sizeof(id) - 64)
        return;
    for (size_t i = 0; i < SW_ARRAY_LEN(ops); i++) {
        struct write_state *s;
        int n = snprintf(id, sizeof(id), "%d|%zu|%.*s", (int)ops[i], kind, SW_SLICE_ARG(key));

        s = sw_map_get(&c->states, sw_slice(id, (size_t)n));
        if (!s)
            continue;
        s->settled = false;
        s->echoed = s->call != NULL;
    }
}

bool control_status_wanted(const struct sw_control *c, size_t kind, const struct sw_kube_obj *o)
{
    const struct out_write *w;
    char id[2048];
    int n;

    if (!c->last || o->key.n > sizeof(id) - 64)
        return false;
    n = snprintf(id, sizeof(id), "%d|%zu|%.*s", (int)OUT_STATUS, kind, SW_SLICE_ARG(o->key));
    w = sw_map_get(&c->last->by_id, sw_slice(id, (size_t)n));
    return w && json_within(w->json, sw_json_find(o->json, "status"));
}

static const struct sw_kube_gvr *gvr_of(const struct sw_control *c, const struct out_write *w)
{
    return sw_informer_gvr(c->kinds[w->kind].informer);
}

static struct sw_kube_obj *object_of(const struct sw_control *c, const struct out_write *w)
{
    return sw_informer_get(c->kinds[w->kind].informer, w->key);
}

/* Every field we want is there with our value; which kind it is was never the question. */
static bool applied(const struct sw_json *want, const struct sw_json *have)
{
    for (size_t i = 0; i < sw_json_len(want); i++) {
        const struct sw_json_member *m = sw_json_member_at(want, i);

        if (sw_slice_eq_str(m->key, "apiVersion") || sw_slice_eq_str(m->key, "kind"))
            continue;
        if (!json_within(m->value, sw_json_get(have, m->key)))
            return false;
    }
    return true;
}

/* True when the API already is as wanted. */
static bool satisfied(const struct out_write *w, const struct sw_kube_obj *o)
{
    switch (w->op) {
    case OUT_APPLY:
        return o && applied(w->json, o->json);
    case OUT_STATUS:
        /* An object that is gone, or another of its name, needs no status from us. */
        return !o || (w->uid.n && !sw_slice_eq(o->uid, w->uid)) ||
               json_within(w->json, sw_json_find(o->json, "status"));
    case OUT_DELETE:
        return !o || (w->uid.n && !sw_slice_eq(o->uid, w->uid)) || cn_deleting(o);
    case OUT_FINALIZER:
        /* What is on its way out takes no new ones. */
        return !o || (w->uid.n && !sw_slice_eq(o->uid, w->uid)) ||
               cn_has_finalizer(o, sw_json_str(w->json)) != w->drop || (!w->drop && cn_deleting(o));
    }
    return true;
}

static uint64_t hash_of(const struct out_write *w)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice text = w->json ? sw_json_text(&a, w->json, NULL) : w->uid;

    return sw_hash(text.p, text.n);
}

static bool same_rv(const struct write_state *s, const struct sw_kube_obj *o)
{
    if (!s->seen_rv || !o)
        return !s->seen_rv && !o;
    return sw_slice_eq_str(o->rv, s->seen_rv);
}

/*
 * The same was accepted a moment ago and the watch still shows the state before it; or it was
 * accepted without effect: an older schema prunes fields that it does not know.
 */
static bool awaits_echo(const struct sw_control *c, const struct write_state *s, uint64_t hash,
                        const struct sw_kube_obj *o)
{
    return s->settled && s->hash == hash && same_rv(s, o) &&
           (s->no_change || sw_loop_now(c->loop) - s->at_ns < echo_ns);
}

/*
 * Two controllers that want different things of an object and do not know of each other put it
 * right in turn, as fast as the API can: that must not use up the API for other clients.
 */
static bool may_write(struct sw_control *c, struct write_state *s)
{
    uint64_t now = sw_loop_now(c->loop);
    uint64_t ahead = WRITES_AHEAD * write_cost_ns;
    struct sw_log_line l;

    if (s->spent_ns <= now) {
        s->spent_ns = now;
        s->logged = false;
    }
    if (s->spent_ns - now <= ahead) {
        s->spent_ns += write_cost_ns;
        return true;
    }
    sw_workqueue_add_after(c->queue, s->id, s->spent_ns - now - ahead);
    c->stats.held_back++;
    if (s->logged)
        return false;
    s->logged = true;
    sw_log_begin(
        &l, SW_LOG_WARN, c->o.name,
        "write rate limit reached: another writer may change the object; next write delayed");
    sw_log_str(&l, "object", s->id);
    sw_log_end(&l);
    return false;
}

/* It is not wanted any more, and how often it was written need not be remembered. */
static bool forgettable(const struct sw_control *c, const struct write_state *s)
{
    return !s->call && s->spent_ns <= sw_loop_now(c->loop);
}

/* True when an accepted write left the object in the state that was seen before it. */
static bool had_no_effect(const struct write_state *s, const struct sw_kube_reply *r)
{
    struct sw_slice rv = sw_json_str(sw_json_walk(r->object, "metadata", "resourceVersion", NULL));

    return r->rc == SW_OK && rv.n && s->seen_rv && sw_slice_eq_str(rv, s->seen_rv);
}

static void on_written(void *arg, struct sw_kube_reply *r)
{
    struct write_state *s = arg;
    struct sw_control *c = s->control;
    bool conflict = r->code == 409;
    /* What is gone needs nothing from us; of an apply it is the namespace that is not there yet. */
    bool done = r->rc == SW_OK || (r->code == 404 && s->op != OUT_APPLY);
    /* health.c logs rights that are missing, once for all objects. */
    bool detail = conflict || r->code == 404 || sw_kube_lacks_right(r);

    s->call = NULL;
    c->writing--;
    s->at_ns = sw_loop_now(c->loop);
    s->settled = done && !s->echoed;
    s->no_change = had_no_effect(s, r);
    s->hash = s->pending_hash;
    if (done) {
        c->stats.writes += r->rc == SW_OK;
        sw_workqueue_forget(c->queue, s->id);
        /* Looked at once more when the echo is overdue. */
        sw_workqueue_add_after(c->queue, s->id, echo_ns + SW_NS_PER_S);
    } else {
        struct sw_log_line l;

        c->stats.conflicts += conflict;
        c->stats.failures += !conflict;
        sw_log_begin(&l, detail ? SW_LOG_DEBUG : SW_LOG_WARN, c->o.name, "write failed");
        sw_log_str(&l, "object", s->id);
        sw_log_str(&l, "reason", r->message);
        sw_log_end(&l);
        sw_workqueue_add_rate_limited(c->queue, s->id);
    }
    sw_workqueue_done(c->queue, s->id);
    control_write_ready(c->queue, c);
}

/* The list is one of several writers', and a patch replaces it whole: only as it was seen. */
static struct sw_kube_call *patch_finalizers(struct sw_control *c, const struct out_write *w,
                                             const struct sw_kube_obj *o, struct write_state *s)
{
    SW_ARENA_AUTO a = {0};
    const struct sw_json *have = sw_json_walk(o->json, "metadata", "finalizers", NULL);
    struct sw_json *patch = sw_json_new_object(&a);
    struct sw_json *meta = sw_json_new_object(&a);
    struct sw_json *list = sw_json_new_array(&a);
    const struct sw_kube_req req = {.verb = SW_KUBE_PATCH,
                                    .patch = SW_KUBE_PATCH_MERGE,
                                    .gvr = gvr_of(c, w),
                                    .ns = o->ns,
                                    .name = o->name,
                                    .body = patch,
                                    .field_manager = c->o.name};

    SW_JSON_ITEMS (f, have) {
        if (f && !sw_json_equal(f, w->json, SW_JSON_EQ_VALUE))
            sw_json_push(&a, list, sw_json_copy(&a, f));
    }
    if (!w->drop)
        sw_json_push(&a, list, sw_json_copy(&a, w->json));
    sw_json_put_str(&a, meta, "resourceVersion", o->rv);
    sw_json_put(&a, meta, "finalizers", list);
    sw_json_put(&a, patch, "metadata", meta);
    return sw_kube_do(c->client, &req, on_written, s);
}

/* Builds write the newest version; where only an older one is served, the object says that one. */
static const struct sw_json *as_served(struct sw_arena *a, const struct sw_kube_gvr *gvr,
                                       const struct sw_json *obj)
{
    const char *api =
        gvr->group[0] ? sw_arena_printf(a, "%s/%s", gvr->group, gvr->version) : gvr->version;
    struct sw_json *copy;

    if (sw_json_str_eq(sw_json_find(obj, "apiVersion"), api))
        return obj;
    copy = sw_json_copy(a, obj);
    (void)sw_json_remove(copy, SW_SLICE_LIT("apiVersion"));
    sw_json_put(a, copy, "apiVersion", sw_json_new_str(a, api));
    return copy;
}

static const char *manager_of(const struct sw_control *c, const struct out_write *w)
{
    const char *own = c->o.kinds[w->kind].manager;

    return own ? own : c->o.name;
}

static struct sw_kube_call *send(struct sw_control *c, const struct out_write *w,
                                 const struct sw_kube_obj *o, struct write_state *s)
{
    const struct sw_kube_gvr *gvr = gvr_of(c, w);
    const struct sw_json *json = w->json;
    SW_ARENA_AUTO a = {0};

    if (!o && w->op != OUT_APPLY)
        return NULL; /* nothing is wanted of what is not there: satisfied() returned that */
    switch (w->op) {
    case OUT_APPLY:
        return sw_kube_apply(
            c->client,
            &(struct sw_kube_apply){
                .gvr = gvr, .obj = as_served(&a, gvr, json), .manager = c->o.name, .force = true},
            on_written, s);
    case OUT_STATUS:
        if (s->event_hash != s->pending_hash)
            control_events_status(c, w, o);
        s->event_hash = s->pending_hash;
        if (c->o.stamp)
            json = c->o.stamp(&a, json, sw_wall_ns());
        return sw_kube_patch_status(
            c->client,
            &(struct sw_kube_status_patch){
                .gvr = gvr, .seen = o->json, .status = json, .manager = manager_of(c, w)},
            on_written, s);
    case OUT_DELETE:
        return sw_kube_do(c->client,
                          &(struct sw_kube_req){.verb = SW_KUBE_DELETE,
                                                .gvr = gvr,
                                                .ns = o->ns,
                                                .name = o->name,
                                                .propagation = "Background",
                                                .if_uid = w->uid},
                          on_written, s);
    case OUT_FINALIZER:
        return patch_finalizers(c, w, o, s);
    }
    return NULL;
}

/* Judges one write; true when a request is under way because of it. */
static bool look(struct sw_control *c, struct sw_slice id)
{
    const struct out_write *w = sw_map_get(&c->last->by_id, id);
    struct write_state *s = sw_map_get(&c->states, id);
    const struct sw_kube_obj *o;
    uint64_t hash;

    if (!w) { /* not wanted any more */
        sw_workqueue_forget(c->queue, id);
        if (s && forgettable(c, s)) {
            (void)sw_map_del(&c->states, id);
            state_free(s);
        }
        return false;
    }
    o = object_of(c, w);
    if (satisfied(w, o)) {
        sw_workqueue_forget(c->queue, id);
        return false;
    }
    s = state_of(c, id);
    hash = hash_of(w);
    if (s->call || awaits_echo(c, s, hash, o) || !may_write(c, s))
        return false;
    sw_free(s->seen_rv);
    s->seen_rv = o ? sw_slice_dup(o->rv) : NULL;
    s->pending_hash = hash;
    s->settled = false;
    s->echoed = false;
    s->op = w->op;
    s->call = send(c, w, o, s);
    c->writing += s->call != NULL;
    return s->call != NULL;
}

void control_write_ready(struct sw_workqueue *q, void *arg)
{
    struct sw_control *c = arg;
    struct sw_slice id;

    while (c->leading && c->last && c->writing < c->o.max_writes && sw_workqueue_get(q, &id)) {
        /* The key dies with done. */
        if (!look(c, id))
            sw_workqueue_done(q, id);
    }
}

void control_writes_renew(struct sw_control *c)
{
    if (!c->leading)
        return;
    SW_VEC_EACH (const struct out_write, w, &c->last->writes) {
        if (!satisfied(w, object_of(c, w)))
            sw_workqueue_add(c->queue, w->id);
    }
    /* States of what is not wanted any more. */
    SW_MAP_EACH (struct write_state, s, &c->states) {
        if (forgettable(c, s) && !sw_map_get(&c->last->by_id, s->id)) {
            (void)sw_map_del(&c->states, s->id);
            state_free(s);
        }
    }
    control_write_ready(c->queue, c);
}

void control_writes_abort(struct sw_control *c)
{
    SW_MAP_EACH (struct write_state, s, &c->states) {
        if (!s->call)
            continue;
        sw_kube_call_cancel(s->call);
        s->call = NULL;
        s->settled = false;
        c->writing--;
        sw_workqueue_done(c->queue, s->id);
    }
}

void control_writes_free(struct sw_control *c)
{
    SW_MAP_DRAIN(&c->states, state_free);
    c->states = (struct sw_map){0};
}

bool sw_control_idle(const struct sw_control *c)
{
    if (!c->synced || c->dirty || c->job || c->writing || !c->last)
        return false;
    if (c->leading && sw_workqueue_len(c->queue))
        return false;
    for (size_t i = 0; c->leading && i < c->last->writes.n; i++) {
        const struct out_write *w = c->last->writes.p[i];

        if (!satisfied(w, object_of(c, w)))
            return false;
    }
    return true;
}
