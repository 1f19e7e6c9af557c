/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of an informer: a complete state first (as a stream where the server can, else as a
 * list), then its changes; whatever goes wrong leads back to one of the two.
 */
#include "kube/client/informer_int.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/search.h"
#include "base/time.h"
#include "kube/client/client_int.h"

static const uint64_t backoff_first_ns = 800 * SW_NS_PER_MS;
static const uint64_t backoff_most_ns = 30 * SW_NS_PER_S;
static const uint64_t eager_most_ns = SW_NS_PER_S;
static const uint64_t wake_spread_ns = 200 * SW_NS_PER_MS;
/* A server that does not know streaming lists and does not say so. */
static const uint64_t stream_stall_ns = 10 * SW_NS_PER_S;
static const uint64_t short_watch_ns = SW_NS_PER_S;
/* How often a kind that is not served is looked for. */
static const uint64_t absent_ns = 5 * SW_NS_PER_S;

static void sync_begin(struct sw_informer *i);
static void watch_begin(struct sw_informer *i);

static void set_rv(struct sw_informer *i, struct sw_slice rv)
{
    if (!rv.n)
        return;
    sw_free(i->rv);
    i->rv = sw_slice_dup(rv);
}

/* --- going wrong --- */

static void on_backoff(struct sw_timer *t)
{
    struct sw_informer *i = SW_CONTAINER_OF(t, struct sw_informer, timer);

    if (i->rv)
        watch_begin(i);
    else
        sync_begin(i);
}

/* Waits, then watches from where we are, or (without a revision) reads everything again. */
static void back_off(struct sw_informer *i, const struct sw_kube_reply *r)
{
    bool eager = i->o.eager && r->code == 0;
    uint64_t wait = backoff_first_ns << sw_min(i->failed, 10);

    wait = sw_min(wait, eager ? eager_most_ns : backoff_most_ns);
    wait += sw_rand_below(wait);
    wait = sw_max(wait, r->retry_after_ns);
    i->failed++;
    i->stats.failures++;
    i->state = INF_WAIT;
    sw_timer_start(sw_kube_client_loop(i->client), &i->timer, wait, on_backoff);
}

static void on_wake(struct kube_reader *r)
{
    struct sw_informer *i = SW_CONTAINER_OF(r, struct sw_informer, reader);

    if (i->state == INF_WAIT)
        sw_timer_start(sw_kube_client_loop(i->client), &i->timer, sw_rand_below(wake_spread_ns),
                       on_backoff);
}

static void forget_revision(struct sw_informer *i)
{
    sw_free(i->rv);
    i->rv = NULL;
}

static void complain(const struct sw_informer *i, const char *what, const struct sw_kube_reply *r)
{
    /* The first is news, the rest is detail; health.c logs what is the same for all informers. */
    bool detail = i->failed || r->code == 0 || r->code == 401 || sw_kube_lacks_right(r);
    struct sw_log_line l;

    sw_log_begin(&l, detail ? SW_LOG_DEBUG : SW_LOG_INFO, "kube", "%s failed", what);
    sw_log_cstr(&l, "resource", sw_informer_gvr(i)->resource);
    sw_log_str(&l, "reason", r->message);
    sw_log_end(&l);
}

/* --- reading everything --- */

static struct sw_kube_req base_req(const struct sw_informer *i)
{
    return (struct sw_kube_req){.gvr = sw_informer_gvr(i),
                                .ns = i->o.ns,
                                .label_selector = i->labels,
                                .field_selector = i->fields};
}

/* An object as it is kept. The arena holds json and may be taken over; NULL: it is another's. */
static struct sw_kube_obj *make_obj(const struct sw_informer *i, const struct sw_json *json,
                                    struct sw_arena *arena)
{
    struct sw_kube_obj *o;

    if (i->o.slim)
        o = sw_kube_obj_slim(json);
    else
        o = arena ? sw_kube_obj_take(arena, json) : sw_kube_obj_new(json);
    if (o && i->o.wanted && !i->o.wanted(o)) {
        struct sw_kube_obj *stub = sw_kube_obj_stub(o->json);

        (void)sw_kube_obj_unref(o);
        return stub;
    }
    return o;
}

static void on_page(void *arg, const struct sw_json *items, struct sw_arena *arena)
{
    struct sw_informer *i = arg;

    SW_JSON_ITEMS (item, items) {
        struct sw_kube_obj *o = make_obj(i, item, NULL);

        if (o)
            inf_fresh_put(i, o);
    }
}

static void on_restart(void *arg)
{
    inf_fresh_clear(arg);
}

static void set_absent(struct sw_informer *i, bool absent)
{
    if (i->reader.absent == absent)
        return;
    i->reader.absent = absent;
    kube_health_changed(&i->client->health);
    if (i->cbs.presence)
        i->cbs.presence(i->arg);
}

/* None of the versions is served: looked for again, from the newest on. */
static void kind_absent(struct sw_informer *i)
{
    i->version = 0;
    set_absent(i, true);
    inf_replace(i);
    i->state = INF_WAIT;
    sw_timer_start(sw_kube_client_loop(i->client), &i->timer, absent_ns + sw_rand_below(absent_ns),
                   on_backoff);
}

static void on_listed(void *arg, const struct sw_kube_reply *r, struct sw_slice rv)
{
    struct sw_informer *i = arg;

    i->lister = NULL;
    if (r->rc == SW_OK && rv.n) {
        set_rv(i, rv);
        set_absent(i, false);
        i->state = INF_WATCH;
        inf_replace(i);
        if (i->state == INF_WATCH)
            watch_begin(i);
        return;
    }
    inf_fresh_clear(i);
    if (r->code == 404 && i->o.older && i->o.older[i->version]) {
        i->version++;
        sync_begin(i);
        return;
    }
    i->version = 0;
    if (r->code == 404 && i->o.optional) {
        kind_absent(i);
        return;
    }
    complain(i, "list", r);
    back_off(i, r);
}

static void list_begin(struct sw_informer *i)
{
    static const struct sw_kube_list_cbs cbs = {
        .page = on_page, .restart = on_restart, .done = on_listed};
    struct sw_kube_req req = base_req(i);

    inf_fresh_clear(i);
    req.limit = i->o.page;
    i->state = INF_LIST;
    i->lister = sw_kube_list(i->client, &req, &cbs, i);
}

/* --- watching --- */

static void on_stall(struct sw_timer *t)
{
    struct sw_informer *i = SW_CONTAINER_OF(t, struct sw_informer, timer);

    sw_log_info("kube", "no streaming list of '%s' from this server", sw_informer_gvr(i)->resource);
    sw_kube_watch_cancel(i->watch);
    i->watch = NULL;
    i->no_stream = true;
    list_begin(i);
}

static bool ends_initial_events(const struct sw_json *object)
{
    return sw_json_str_eq(
        sw_json_walk(object, "metadata", "annotations", "k8s.io/initial-events-end", NULL), "true");
}

static void stream_event(struct sw_informer *i, enum sw_kube_event type,
                         const struct sw_json *object, struct sw_arena *arena)
{
    struct sw_loop *l = sw_kube_client_loop(i->client);
    struct sw_kube_obj *o;

    sw_timer_start(l, &i->timer, stream_stall_ns, on_stall);
    if (type == SW_KUBE_BOOKMARK) {
        if (!ends_initial_events(object))
            return;
        sw_timer_stop(l, &i->timer);
        set_rv(i, sw_json_str(sw_json_walk(object, "metadata", "resourceVersion", NULL)));
        set_absent(i, false);
        i->state = INF_WATCH;
        inf_replace(i);
        return;
    }
    o = make_obj(i, object, arena);
    if (!o)
        return;
    if (type == SW_KUBE_DELETED) {
        inf_fresh_del(i, o->key);
        sw_kube_obj_unref(o);
    } else {
        inf_fresh_put(i, o);
    }
}

static void live_event(struct sw_informer *i, enum sw_kube_event type, const struct sw_json *object,
                       struct sw_arena *arena)
{
    struct sw_kube_obj *old;
    struct sw_kube_obj *o;

    set_rv(i, sw_json_str(sw_json_walk(object, "metadata", "resourceVersion", NULL)));
    if (type == SW_KUBE_BOOKMARK)
        return;
    o = make_obj(i, object, arena);
    if (!o)
        return;
    old = sw_map_get(&i->store, o->key);
    if (type == SW_KUBE_DELETED)
        inf_store_del(i, o->key, o);
    else if (old && sw_slice_eq(old->uid, o->uid) && inf_older(o->rv, old->rv))
        sw_kube_obj_unref(o);
    else
        inf_store_put(i, o);
}

static void on_event(void *arg, enum sw_kube_event type, const struct sw_json *object,
                     struct sw_arena *arena)
{
    struct sw_informer *i = arg;

    i->stats.events++;
    i->watch_events++;
    i->failed = 0;
    if (i->state == INF_STREAM)
        stream_event(i, type, object, arena);
    else
        live_event(i, type, object, arena);
}

static void on_open(void *arg)
{
    struct sw_informer *i = arg;

    i->stats.watches++;
    i->watch_began_ns = sw_loop_now(sw_kube_client_loop(i->client));
    if (i->state == INF_STREAM)
        sw_timer_start(sw_kube_client_loop(i->client), &i->timer, stream_stall_ns, on_stall);
    if (i->cbs.opened)
        i->cbs.opened(i->arg);
}

/* A streaming list that did not come to its end. */
static void stream_ended(struct sw_informer *i, const struct sw_kube_reply *r)
{
    bool refused = r->code >= 400 && r->code < 500 && r->code != 401 && r->code != 403 &&
                   r->code != 410 && r->code != 429;

    sw_timer_stop(sw_kube_client_loop(i->client), &i->timer);
    inf_fresh_clear(i);
    if (refused) {
        /* 404 may also be the kind's; the list will tell. */
        i->no_stream = r->code != 404;
        list_begin(i);
        return;
    }
    complain(i, "streaming list", r);
    back_off(i, r);
}

static void on_watch_end(void *arg, const struct sw_kube_reply *r)
{
    struct sw_informer *i = arg;
    uint64_t now = sw_loop_now(sw_kube_client_loop(i->client));
    bool good = r->rc == SW_EOF && (i->watch_events || now - i->watch_began_ns >= short_watch_ns);

    i->watch = NULL;
    if (i->state == INF_STREAM) {
        stream_ended(i, r);
        return;
    }
    if (good && i->version) {
        /* A newer version may be served by now; objects that did not change cause no event. */
        i->version = 0;
        forget_revision(i);
        sync_begin(i);
        return;
    }
    if (good) {
        watch_begin(i);
        return;
    }
    if (r->rc != SW_EOF)
        complain(i, "watch", r);
    if (r->code >= 400 && r->code < 500 && r->code != 429 && r->code != 401 && r->code != 403) {
        forget_revision(i);
        i->version = 0;
        /* At once, unless that did not help a moment ago. */
        if (r->code == 410 && now - i->listed_ns >= short_watch_ns) {
            sync_begin(i);
            return;
        }
    }
    back_off(i, r);
}

static const struct sw_kube_watch_cbs watch_cbs = {
    .open = on_open, .event = on_event, .end = on_watch_end};

static void watch_begin(struct sw_informer *i)
{
    struct sw_kube_req req = base_req(i);

    req.resource_version = sw_slice_str(i->rv);
    i->state = INF_WATCH;
    i->watch_events = 0;
    i->watch_began_ns = sw_loop_now(sw_kube_client_loop(i->client));
    i->watch = sw_kube_watch(i->client, &req, &(struct sw_kube_watch_opts){.bookmarks = true},
                             &watch_cbs, i);
}

static void stream_begin(struct sw_informer *i)
{
    struct sw_kube_req req = base_req(i);

    inf_fresh_clear(i);
    i->state = INF_STREAM;
    i->watch_events = 0;
    i->watch_began_ns = sw_loop_now(sw_kube_client_loop(i->client));
    sw_timer_start(sw_kube_client_loop(i->client), &i->timer, 4 * stream_stall_ns, on_stall);
    i->watch = sw_kube_watch(i->client, &req, &(struct sw_kube_watch_opts){.initial = true},
                             &watch_cbs, i);
}

static void sync_begin(struct sw_informer *i)
{
    if (i->no_stream || i->o.plain_list)
        list_begin(i);
    else
        stream_begin(i);
}

/* --- from outside --- */

static char *dup_opt(const char *s)
{
    return s && *s ? sw_strdup(s) : NULL;
}

struct sw_informer *sw_informer_new(struct sw_kube_client *c, const struct sw_informer_opts *o,
                                    const struct sw_informer_cbs *cbs, void *arg)
{
    struct sw_informer *i = SW_NEW(struct sw_informer);

    i->client = c;
    i->reader = (struct kube_reader){
        .gvr = o->gvr,
        .optional = o->optional,
        .needed = o->needed,
        .wake = on_wake,
    };
    sw_list_init(&i->reader.link);
    i->o = *o;
    i->ns = sw_slice_dup(o->ns);
    i->o.ns = sw_slice_str(i->ns);
    i->labels = dup_opt(o->label_selector);
    i->fields = dup_opt(o->field_selector);
    i->o.label_selector = i->labels;
    i->o.field_selector = i->fields;
    i->cbs = *cbs;
    i->arg = arg;
    return i;
}

static void on_resync(struct sw_timer *t)
{
    struct sw_informer *i = SW_CONTAINER_OF(t, struct sw_informer, resync);
    struct sw_kube_obj **all = NULL;
    size_t n = sw_informer_list(i, &all);

    for (size_t k = 0; k < n; k++) {
        if (i->reader.synced)
            inf_tell(i, true, all[k], all[k]);
        sw_kube_obj_unref(all[k]);
    }
    sw_free(all);
    sw_timer_start(sw_kube_client_loop(i->client), &i->resync, i->o.resync_ns, on_resync);
}

void sw_informer_start(struct sw_informer *i)
{
    struct sw_loop *l = sw_kube_client_loop(i->client);

    if (i->state != INF_STOPPED)
        return;
    sw_list_push_back(&i->client->health.readers, &i->reader.link);
    if (i->o.resync_ns)
        sw_timer_start(l, &i->resync, i->o.resync_ns, on_resync);
    if (i->rv)
        watch_begin(i);
    else
        sync_begin(i);
}

void sw_informer_stop(struct sw_informer *i)
{
    struct sw_loop *l = sw_kube_client_loop(i->client);

    sw_list_unlink(&i->reader.link);
    sw_timer_stop(l, &i->timer);
    sw_timer_stop(l, &i->resync);
    sw_kube_list_cancel(i->lister);
    i->lister = NULL;
    sw_kube_watch_cancel(i->watch);
    i->watch = NULL;
    inf_fresh_clear(i);
    i->state = INF_STOPPED;
}

void sw_informer_free(struct sw_informer *i)
{
    if (!i)
        return;
    sw_informer_stop(i);
    inf_store_clear(i);
    sw_free(i->rv);
    sw_free(i->ns);
    sw_free(i->labels);
    sw_free(i->fields);
    sw_free(i);
}

const struct sw_kube_gvr *sw_informer_gvr(const struct sw_informer *i)
{
    return i->version ? i->o.older[i->version - 1] : i->o.gvr;
}

bool sw_informer_absent(const struct sw_informer *i)
{
    return i->reader.absent;
}

bool sw_informer_synced(const struct sw_informer *i)
{
    return i->reader.synced;
}

size_t sw_informer_count(const struct sw_informer *i)
{
    return i->o.hollow ? i->known.n : i->store.n;
}

struct sw_kube_obj *sw_informer_get(const struct sw_informer *i, struct sw_slice key)
{
    return sw_map_get(&i->store, key);
}

size_t sw_informer_list(const struct sw_informer *i, struct sw_kube_obj ***ret)
{
    struct sw_kube_obj **all = SW_NEW_ARRAY(struct sw_kube_obj *, i->store.n + 1);
    size_t n = 0;

    SW_MAP_FOREACH (it, &i->store)
        all[n++] = sw_kube_obj_ref(it->value);
    SW_SORT_POINTERS_BY(all, n, key);
    *ret = all;
    return n;
}

struct sw_informer_stats sw_informer_stats(const struct sw_informer *i)
{
    return i->stats;
}

struct sw_slice sw_informer_revision(const struct sw_informer *i)
{
    return sw_slice_str(i->rv);
}
