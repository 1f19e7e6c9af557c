/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Housekeeping, first half: follows all changes, keeps the graph of owners and dependents, and a
 * queue of things to look at. What is done with them is in gc_tasks.c.
 */
#include <string.h>

#include "apiserver/admission/quota.h"
#include "apiserver/gc/gc.h"
#include "apiserver/gc/gc_int.h"
#include "apiserver/gc/pods.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/time.h"

static const uint64_t event_ttl_ns = 3600 * SW_NS_PER_S;
static const uint64_t sweep_ns = 60 * SW_NS_PER_S;

/* --- the queue -------------------------------------------------------------------------- */

static void enqueue(struct gc_task *t);

static void task_free(struct gc_task *t)
{
    sw_timer_stop(t->gc->api->loop, &t->timer);
    sw_slice_free(&t->id);
    sw_free(t);
}

/* Nothing under way: continues when it was queued meanwhile, else the task is forgotten. */
static void task_rest(struct gc_task *t)
{
    struct api_gc *g = t->gc;

    if (t->running || t->queued || sw_timer_running(&t->timer))
        return;
    if (t->again) {
        t->again = false;
        enqueue(t);
        return;
    }
    (void)sw_map_del(&g->tasks, t->id);
    task_free(t);
}

static void on_run(struct sw_defer *d)
{
    struct api_gc *g = SW_CONTAINER_OF(d, struct api_gc, run);

    for (int i = 0; i < 64; i++) {
        struct gc_task *t = SW_LIST_POP(&g->queue, struct gc_task, link);

        if (!t)
            return;
        t->queued = false;
        t->running++; /* our own hold while it runs */
        gc_run(t);
        t->running--;
        task_rest(t);
    }
    sw_loop_defer(g->api->loop, &g->run, on_run);
}

static struct gc_task *task_of(struct api_gc *g, enum gc_kind kind, struct sw_slice key)
{
    char *id = sw_malloc(key.n + 1);
    struct gc_task *t;

    id[0] = (char)('0' + kind);
    memcpy(id + 1, key.p, key.n);
    t = sw_map_get(&g->tasks, sw_slice(id, key.n + 1));
    if (t) {
        sw_free(id);
        return t;
    }
    t = SW_NEW(struct gc_task);
    t->gc = g;
    t->kind = kind;
    t->id = sw_slice(id, key.n + 1);
    t->key = sw_slice(id + 1, key.n);
    (void)sw_map_put(&g->tasks, t->id, t);
    return t;
}

static void enqueue(struct gc_task *t)
{
    struct api_gc *g = t->gc;

    if (t->queued)
        return;
    if (t->running) {
        t->again = true;
        return;
    }
    sw_timer_stop(g->api->loop, &t->timer);
    t->queued = true;
    sw_list_push_back(&g->queue, &t->link);
    sw_loop_defer(g->api->loop, &g->run, on_run);
}

void gc_queue(struct api_gc *g, enum gc_kind kind, struct sw_slice key)
{
    enqueue(task_of(g, kind, key));
}

static void on_retry(struct sw_timer *timer)
{
    enqueue(SW_CONTAINER_OF(timer, struct gc_task, timer));
}

void gc_later(struct gc_task *t, uint64_t ns)
{
    sw_timer_start(t->gc->api->loop, &t->timer, ns, on_retry);
}

static void on_answer(struct api_req *r, int code, const struct sw_json *body)
{
    struct gc_task *t = r->own.done_arg;
    struct api_gc *g = t->gc;
    bool failed = code >= 400 && code != 404;

    t->running--;
    if (g->api->phase.stopping)
        return;
    if (failed) {
        uint64_t ms = 20u << (t->failures < 10 ? t->failures : 10);

        t->failures++;
        if (t->failures > 3)
            sw_log_debug("gc", "%.*s: status %d, retrying", SW_SLICE_ARG(t->key), code);
        if (!t->queued)
            sw_timer_start(g->api->loop, &t->timer, (ms + sw_rand_below(ms)) * SW_NS_PER_MS,
                           on_retry);
        return;
    }
    t->failures = 0;
    task_rest(t);
}

void gc_request(struct gc_task *t, enum api_verb verb, const struct gc_at *at, const char *sub,
                const struct sw_json *body)
{
    t->running++;
    (void)api_internal(
        t->gc->api,
        &(struct api_internal_request){
            .verb = verb, .res = at->res, .ns = at->ns, .name = at->name, .sub = sub, .body = body},
        on_answer, t);
}

/* --- the graph -------------------------------------------------------------------------- */

static struct gc_owner *owner_of(struct api_gc *g, struct sw_slice uid)
{
    struct gc_owner *o = sw_map_get(&g->owners, uid);

    if (o)
        return o;
    o = SW_NEW(struct gc_owner);
    o->uid = sw_slice(sw_slice_dup(uid), uid.n);
    (void)sw_map_put(&g->owners, o->uid, o);
    return o;
}

static void owner_free(struct gc_owner *o)
{
    sw_vec_done(&o->deps);
    sw_slice_free(&o->uid);
    sw_slice_free(&o->key);
    sw_free(o);
}

static void dep_free(struct gc_dep *d)
{
    sw_vec_done(&d->owners);
    sw_vec_done(&d->blocks);
    sw_slice_free(&d->key);
    sw_free(d);
}

static void dep_drop(struct api_gc *g, struct gc_dep *d)
{
    for (size_t i = 0; i < d->owners.n; i++) {
        struct gc_owner *o = d->owners.p[i];

        for (size_t k = 0; k < o->deps.n; k++) {
            if (o->deps.p[k] == d) {
                sw_vec_swap_remove(&o->deps, k);
                break;
            }
        }
        /* A waiting owner may be free now. */
        if (o->key.n)
            gc_queue(g, GC_FOREGROUND, o->key);
        if (o->deps.n == 0) {
            (void)sw_map_del(&g->owners, o->uid);
            owner_free(o);
        }
    }
    (void)sw_map_del(&g->deps, d->key);
    dep_free(d);
}

const struct api_res *gc_owner_res(const struct sw_api *api, const struct sw_json *ref)
{
    struct sw_slice version = api_str(ref, "apiVersion");
    struct sw_slice group = sw_slice("", 0);

    if (sw_slice_find(version, '/') >= 0)
        group = sw_slice_cut(&version, '/');
    return api_registry_kind(&api->reg, group, version, api_str(ref, "kind"));
}

/* The store key an owner reference leads to; empty when its kind is not served. */
static struct sw_slice owner_key(struct sw_api *api, struct sw_arena *a, const struct sw_json *ref,
                                 struct sw_slice ns)
{
    const struct api_res *res = gc_owner_res(api, ref);

    if (!res || (res->namespaced && ns.n == 0))
        return sw_slice("", 0);
    return api_key(a, res, ns, api_str(ref, "name"));
}

static void dep_set(struct api_gc *g, struct sw_slice key, const struct sw_json *refs,
                    struct sw_slice ns)
{
    SW_ARENA_AUTO a = {0};
    struct gc_dep *d = sw_map_get(&g->deps, key);

    if (d)
        dep_drop(g, d);
    if (sw_json_len(refs) == 0)
        return;
    d = SW_NEW(struct gc_dep);
    d->key = sw_slice(sw_slice_dup(key), key.n);
    (void)sw_map_put(&g->deps, d->key, d);
    for (size_t i = 0; i < sw_json_len(refs) && i < 64; i++) {
        const struct sw_json *ref = sw_json_at(refs, i);
        struct gc_owner *o = owner_of(g, api_str(ref, "uid"));
        struct sw_slice ok = owner_key(g->api, &a, ref, ns);

        if (o->key.n == 0 && ok.n)
            o->key = sw_slice(sw_slice_dup(ok), ok.n);
        sw_vec_push(&d->owners, o);
        sw_vec_push(&d->blocks, sw_json_true(sw_json_find(ref, "blockOwnerDeletion")));
        sw_vec_push(&o->deps, d);
    }
}

/* --- following changes ------------------------------------------------------------------ */

static bool mentions(struct sw_slice value, const char *text)
{
    return memmem(value.p, value.n, text, strlen(text)) != NULL;
}

static bool is_prefix(struct sw_slice key, const char *p)
{
    return sw_slice_has_prefix(key, sw_slice_str(p));
}

/* "/configmaps/NS/kube-root-ca.crt", which is kept as we made it */
static bool is_root_map(struct sw_slice key)
{
    const struct sw_slice tail = SW_SLICE_LIT("/kube-root-ca.crt");

    return key.n > tail.n && sw_slice_eq(sw_slice_from(key, key.n - tail.n), tail);
}

static void queue_namespace_of(struct api_gc *g, struct sw_slice key)
{
    SW_ARENA_AUTO a = {0};
    struct gc_at at = gc_resolve(g->api, key);

    if (at.ns.n)
        gc_queue(g, GC_NAMESPACE,
                 sw_slice_str(sw_arena_printf(&a, "/namespaces/%.*s", SW_SLICE_ARG(at.ns))));
}

static void look_at(struct api_gc *g, const struct sw_store_obj *o)
{
    SW_ARENA_AUTO a = {0};
    const struct sw_json *obj;
    const struct sw_json *meta;
    struct gc_dep *d = sw_map_get(&g->deps, o->key);
    bool owned = mentions(o->value, "\"ownerReferences\"");
    bool going = mentions(o->value, "\"deletionTimestamp\"");

    if (is_prefix(o->key, "/namespaces/"))
        gc_queue(g, GC_NAMESPACE, o->key);
    if (is_prefix(o->key, "/configmaps/") && is_root_map(o->key))
        queue_namespace_of(g, o->key);
    if (is_prefix(o->key, "rbac.authorization.k8s.io/clusterroles/"))
        gc_queue(g, GC_AGGREGATE, SW_SLICE_LIT("all"));
    gc_quota_changed(g, o->key);
    if (is_prefix(o->key, "/secrets/") && mentions(o->value, GC_TOKEN_TYPE))
        gc_queue(g, GC_TOKEN, o->key);
    gc_endpoints_changed(g, o->key, o, NULL);
    if (!owned && d)
        dep_drop(g, d);
    if (!owned && !going)
        return;
    obj = api_parse_stored(&a, o);
    if (!obj)
        return;
    meta = sw_json_find(obj, "metadata");
    if (owned) {
        dep_set(g, o->key, sw_json_find(meta, "ownerReferences"), api_str(meta, "namespace"));
        gc_queue(g, GC_DEPENDENT, o->key);
    }
    if (!going)
        return;
    if (is_prefix(o->key, "apiextensions.k8s.io/customresourcedefinitions/"))
        gc_queue(g, GC_CRD, o->key);
    SW_JSON_ITEMS (it, sw_json_find(meta, "finalizers")) {
        if (sw_json_str_eq(it, "foregroundDeletion"))
            gc_queue(g, GC_FOREGROUND, o->key);
        if (sw_json_str_eq(it, "orphan"))
            gc_queue(g, GC_ORPHAN, o->key);
    }
}

/* An object was deleted: look after its dependents and after objects that waited for it. */
static void look_after(struct api_gc *g, const struct sw_store_event *ev)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice key = sw_store_event_key(ev);
    struct gc_dep *d = sw_map_get(&g->deps, key);
    const struct sw_json *obj;
    struct gc_owner *o;
    struct gc_at at;

    if (d)
        dep_drop(g, d);
    gc_quota_changed(g, key);
    gc_endpoints_changed(g, key, NULL, ev->prev);
    if (is_prefix(key, "rbac.authorization.k8s.io/clusterroles/"))
        gc_queue(g, GC_AGGREGATE, SW_SLICE_LIT("all"));
    obj = ev->prev ? api_parse_stored(&a, ev->prev) : NULL;
    if (obj) {
        o = sw_map_get(&g->owners, api_meta_str(obj, "uid"));
        for (size_t i = 0; o && i < o->deps.n; i++)
            gc_queue(g, GC_DEPENDENT, o->deps.p[i]->key);
    }
    at = gc_resolve(g->api, key);
    if (is_prefix(key, "/serviceaccounts/"))
        gc_account_gone(g, at.ns);
    queue_namespace_of(g, key);
    if (at.res && at.res->crd && at.res->crd->terminating) {
        const char *k = sw_arena_printf(&a, "apiextensions.k8s.io/customresourcedefinitions/%s",
                                        at.res->crd->name);

        gc_queue(g, GC_CRD, sw_slice_str(k));
    }
}

static void scan(struct api_gc *g, struct sw_store_snap *snap)
{
    gc_pods_free(g->pods); /* some may be gone, and all Services are looked at */
    g->pods = gc_pods_new();
    SW_STORE_EACH (o, snap, sw_slice("", 0))
        look_at(g, o);
}

static void follow(struct api_gc *g);

static void on_event(struct sw_store_watch *w, struct sw_store_event *ev, int rc)
{
    struct api_gc *g = SW_CONTAINER_OF(w, struct api_gc, watch);

    if (!ev)
        follow(g); /* fell behind: look at everything again */
    else if (ev->type == SW_STORE_DELETED)
        look_after(g, ev);
    else
        look_at(g, ev->obj);
}

static void follow(struct api_gc *g)
{
    SW_STORE_SNAP_AUTO snap = sw_store_snapshot(g->api->store);

    scan(g, snap);
    if (sw_store_watch_start(g->api->feed, &g->watch, sw_slice("", 0), sw_store_snap_revision(snap),
                             on_event, NULL) != SW_OK)
        sw_log_error("gc", "cannot follow the store");
}

/* --- events do not live for ever -------------------------------------------------------- */

/* Every write leaves its time with the fields it changed. */
static struct sw_slice last_written(const struct sw_json *obj)
{
    const struct sw_json *owners = sw_json_walk(obj, "metadata", "managedFields", NULL);
    struct sw_slice last = api_meta_str(obj, "creationTimestamp");

    SW_JSON_ITEMS (it, owners) {
        struct sw_slice t = api_str(it, "time");

        if (sw_slice_cmp(t, last) > 0)
            last = t;
    }
    return last;
}

static void on_swept(void *arg, const struct sw_store_result *res)
{
    struct sw_api *api = arg;

    api->writes--;
    api_quota_removed(api, res);
}

static void on_sweep(struct sw_timer *timer)
{
    struct api_gc *g = SW_CONTAINER_OF(timer, struct api_gc, sweep);
    SW_STORE_SNAP_AUTO snap = sw_store_snapshot(g->api->store);
    uint64_t now = sw_wall_ns();
    char limit[SW_RFC3339_LEN];
    int n = 0;

    (void)sw_rfc3339(now > event_ttl_ns ? now - event_ttl_ns : 0, 0, limit);
    SW_STORE_EACH (o, snap, SW_SLICE_LIT("/events/")) {
        SW_ARENA_AUTO a = {0};
        const struct sw_json *obj = api_parse_stored(&a, o);

        if (n == 1000)
            break;
        /* Times in this form sort as texts. */
        if (obj && sw_slice_cmp(sw_slice_head(last_written(obj), 19), sw_slice(limit, 19)) < 0) {
            struct sw_store_write w = {.verb = SW_STORE_DELETE,
                                       .key = o->key,
                                       .expect = o->revision,
                                       .loop = g->api->loop,
                                       .cb = on_swept,
                                       .arg = g->api};

            g->api->writes += sw_store_submit(g->api->store, &w, NULL) == SW_OK;
            n++;
        }
    }
    sw_timer_start(g->api->loop, timer, sweep_ns, on_sweep);
}

struct api_gc *api_gc_new(struct sw_api *api)
{
    struct api_gc *g = SW_NEW(struct api_gc);

    g->api = api;
    sw_list_init(&g->queue);
    follow(g);
    sw_timer_start(api->loop, &g->sweep, sweep_ns, on_sweep);
    return g;
}

void api_gc_stop(struct api_gc *g)
{
    if (!g)
        return;
    sw_store_watch_stop(&g->watch);
    sw_timer_stop(g->api->loop, &g->sweep);
    sw_defer_cancel(&g->run);
    SW_MAP_EACH (struct gc_task, t, &g->tasks)
        sw_timer_stop(g->api->loop, &t->timer);
}

void api_gc_free(struct api_gc *g)
{
    if (!g)
        return;
    api_gc_stop(g);
    SW_MAP_DRAIN(&g->tasks, task_free);
    SW_MAP_DRAIN(&g->deps, dep_free);
    SW_MAP_DRAIN(&g->owners, owner_free);
    gc_pods_free(g->pods);
    sw_free(g);
}
