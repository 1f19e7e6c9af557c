/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches: the current objects first (where requested), then every change in order, one JSON line
 * each. A client that reads too slowly pauses its watch; when the changes that a paused watch needs
 * are compacted it ends with 410.
 */
#include <stdio.h>
#include <string.h>

#include "apiserver/api/api.h"
#include "apiserver/api/fair.h"
#include "apiserver/verbs/verbs.h"
#include "base/base64.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/time.h"

enum {
    LINE_MAX = 64 << 20,
    INITIAL_BATCH = 256,       /* objects of one watch before the next has its turn */
    INITIAL_BYTES = 256 << 10, /* and bytes of them */
};
static const uint64_t walk_ns = SW_NS_PER_MS / 2; /* of one turn of the loop, for all of them */
static const uint64_t bookmark_ns = 60 * SW_NS_PER_S;

enum phase {
    WATCH_INITIAL, /* walking the snapshot */
    WATCH_LIVE,
};

struct api_watch {
    struct sw_list link;
    struct sw_list turn; /* in its client's queue while it has more of the initial state to send */
    struct sw_api *api;
    struct api_req *r;
    struct sw_xchg *x;
    struct api_filter filter;
    struct sw_slice prefix;
    struct sw_store_watch watch;
    struct sw_store_snap *snap;  /* initial state */
    struct sw_buf at;            /* key to continue with */
    struct sw_store_event *held; /* event that did not fit */
    struct sw_timer timeout;
    struct sw_timer bookmark;
    enum phase phase;
    uint64_t revision; /* to begin at, as requested; then of the initial state */
    uint64_t end_ns;   /* when the server closes it */
    int64_t timeout_s; /* as requested; 0: not */
    uint64_t judged;   /* the last time its client's rights were looked at */
    bool bookmarks;
    bool initial_end; /* say when the initial state is complete */
    bool columns_sent;
};

static struct api_watch *watch_of(struct sw_xchg *x)
{
    return ((struct api_req *)x->user)->own.done_arg;
}

/* Frees the watch; the exchange is done with. */
static void watch_free(struct api_watch *w)
{
    sw_list_unlink(&w->link);
    sw_list_unlink(&w->turn);
    api_fair_unwatch(w->r);
    sw_store_watch_stop(&w->watch);
    sw_timer_stop(w->api->loop, &w->timeout);
    sw_timer_stop(w->api->loop, &w->bookmark);
    if (w->held)
        sw_store_event_unref(w->held);
    sw_store_snap_unref(w->snap);
    sw_buf_done(&w->at);
    w->r->own.done_arg = NULL;
    api_req_done(w->r, 200);
}

static void watch_end(struct api_watch *w)
{
    struct sw_xchg *x = w->x;

    watch_free(w);
    sw_xchg_end(x);
}

static void on_gone(struct sw_xchg *x)
{
    watch_free(watch_of(x));
}

/* --- lines ------------------------------------------------------------------------------ */

static int put_object(struct api_watch *w, struct sw_buf *b, const struct sw_store_obj *o,
                      uint64_t revision)
{
    struct api_req *r = w->r;
    struct sw_arena *a;
    SW_ARENA_AUTO tmp = {0};
    struct sw_arena *keep = r->arena;
    struct sw_json *obj;
    struct sw_json *out;
    int rc;

    if (r->out.as == API_AS_OBJECT && revision == o->revision)
        return api_write_obj(b, r->res, o, true);
    a = &tmp;
    obj = api_load(a, r->res, o);
    if (!obj)
        return SW_EINVAL;
    api_set_rv(a, obj, revision);
    r->arena = a; /* the forms are made for this line only */
    if (r->out.as == API_AS_TABLE) {
        out = api_to_table(r, &obj, 1, !w->columns_sent);
        sw_json_put_str(a, sw_json_find(out, "metadata"), "resourceVersion",
                        api_meta_str(obj, "resourceVersion"));
        w->columns_sent = true;
    } else {
        out = r->out.as == API_AS_PARTIAL ? api_to_partial(r, obj) : obj;
    }
    rc = sw_json_write(b, out, NULL);
    r->arena = keep;
    return rc;
}

static int make_line(struct api_watch *w, struct sw_buf *b, const char *type,
                     const struct sw_store_obj *o, uint64_t revision)
{
    int rc = sw_buf_printf(b, "{\"type\":\"%s\",\"object\":", type);

    if (rc == SW_OK)
        rc = put_object(w, b, o, revision);
    return rc == SW_OK ? sw_buf_append_str(b, "}\n") : rc;
}

static void line_forget(struct api_line *l)
{
    sw_buf_done(&l->text);
    l->obj = NULL;
}

/* A change goes to all its watches one after the other: plain objects are written once. */
static bool line_is(const struct api_line *l, const struct api_watch *w, const char *type,
                    const struct sw_store_obj *o, uint64_t revision)
{
    return l->obj == o && l->revision == revision && l->res == w->r->res && l->type == type;
}

static int send_shared(struct api_watch *w, const char *type, const struct sw_store_obj *o,
                       uint64_t revision)
{
    struct api_line *l = &w->api->walk.line;

    if (!line_is(l, w, type, o, revision)) {
        line_forget(l);
        sw_buf_init(&l->text, LINE_MAX);
        if (make_line(w, &l->text, type, o, revision) != SW_OK)
            return SW_OK;
        *l = (struct api_line){
            .text = l->text, .type = type, .res = w->r->res, .obj = o, .revision = revision};
    }
    return sw_xchg_write(w->x, sw_buf_slice(&l->text));
}

/* As sw_xchg_write. */
static int send_line(struct api_watch *w, const char *type, const struct sw_store_obj *o,
                     uint64_t revision)
{
    SW_BUF_AUTO b = {.max = LINE_MAX};

    if (w->r->out.as == API_AS_OBJECT)
        return send_shared(w, type, o, revision);
    if (make_line(w, &b, type, o, revision) != SW_OK)
        return SW_OK; /* cannot be shown; the client will find out when it lists */
    return sw_xchg_write(w->x, sw_buf_slice(&b));
}

static void send_error(struct api_watch *w, int code, const char *reason, const char *message)
{
    SW_ARENA_AUTO a = {0};
    SW_BUF_AUTO b = {.max = 65536};
    const struct sw_json *line =
        SW_JSON_OF(&a, {"type", .str = "ERROR"},
                   {"object", .json = api_status_new(&a, code, reason, message, NULL)});

    if (sw_json_write(&b, line, NULL) == SW_OK && sw_buf_putc(&b, '\n') == SW_OK)
        (void)!sw_xchg_write(w->x, sw_buf_slice(&b));
}

/* The list the client would have got, without its items: what its items were made of. */
static const char *blueprint(struct api_watch *w, struct sw_arena *a)
{
    SW_BUF_AUTO b = {.max = 4096};
    const char *json = sw_arena_printf(
        a, "{\"kind\":\"%s\",\"apiVersion\":\"%s\",\"metadata\":{},\"items\":%s}\n",
        w->r->res->list_kind, w->r->res->api_version, w->r->res->builtin ? "null" : "[]");

    if (sw_base64_append(&b, sw_slice_str(json)) != SW_OK)
        return "";
    return sw_arena_dup(a, sw_buf_slice(&b));
}

static int send_bookmark(struct api_watch *w, uint64_t revision, bool end)
{
    SW_ARENA_AUTO a = {0};
    SW_BUF_AUTO b = {.max = 65536};
    const struct api_res *res = w->r->res;
    enum api_as as = w->r->out.as;
    const char *form = as == API_AS_TABLE ? "Table" : "PartialObjectMetadata";
    const char *version = sw_arena_printf(&a, "meta.k8s.io/%s", w->r->out.as_version);
    int rc = sw_buf_printf(&b,
                           "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"%s\",\"apiVersion\":"
                           "\"%s\",\"metadata\":{\"resourceVersion\":\"%llu\"",
                           as == API_AS_OBJECT ? res->kind : form,
                           as == API_AS_OBJECT ? res->api_version : version,
                           (unsigned long long)revision);

    if (rc == SW_OK && (as == API_AS_PARTIAL || (as == API_AS_OBJECT && res->builtin)))
        rc = sw_buf_append_str(&b, ",\"creationTimestamp\":null");
    if (rc == SW_OK && end)
        rc = sw_buf_printf(&b,
                           ",\"annotations\":{\"k8s.io/initial-events-end\":\"true\","
                           "\"kubernetes.io/initial-events-list-blueprint\":\"%s\"}",
                           blueprint(w, &a));
    if (rc == SW_OK)
        rc = sw_buf_append_str(
            &b, as == API_AS_TABLE ? "},\"columnDefinitions\":null,\"rows\":[]}}\n" : "}}}\n");
    return rc == SW_OK ? sw_xchg_write(w->x, sw_buf_slice(&b)) : SW_OK;
}

/* --- live changes ----------------------------------------------------------------------- */

static bool selective(const struct api_watch *w)
{
    return w->filter.has_labels || w->filter.has_fields;
}

static bool matches(const struct api_watch *w, const struct sw_store_obj *o)
{
    return o && (!selective(w) || api_filter_match(&w->filter, w->r->res, o));
}

/* SW_OK when the event was sent or does not concern this watch. */
static int send_event(struct api_watch *w, const struct sw_store_event *ev)
{
    bool deleted = ev->type == SW_STORE_DELETED;
    bool before = matches(w, ev->prev);
    bool after = !deleted && matches(w, ev->obj);

    if (deleted && before)
        return send_line(w, "DELETED", ev->prev, ev->revision);
    if (before && after)
        return send_line(w, "MODIFIED", ev->obj, ev->revision);
    if (after)
        return send_line(w, "ADDED", ev->obj, ev->revision);
    if (before)
        return send_line(w, "DELETED", ev->prev, ev->revision);
    return SW_OK;
}

static void gone_too_far(struct api_watch *w)
{
    send_error(w, 410, "Expired", "too old resource version: the watch fell too far behind");
    watch_end(w);
}

/* Other answers to this user take all it may leave unread. */
static void too_much_unread(struct api_watch *w)
{
    send_error(w, 429, "TooManyRequests",
               "too many bytes of other answers to this user were not read yet");
    watch_end(w);
}

static void on_event(struct sw_store_watch *sw, struct sw_store_event *ev, int rc)
{
    struct api_watch *w = SW_CONTAINER_OF(sw, struct api_watch, watch);

    if (!ev) {
        gone_too_far(w);
        return;
    }
    rc = send_event(w, ev);
    if (rc == SW_OK)
        return;
    if (rc == SW_ELIMIT) {
        too_much_unread(w);
        return;
    }
    w->held = sw_store_event_ref(ev);
    sw_store_watch_pause(sw);
}

static void go_live(struct api_watch *w)
{
    struct sw_err err = {0};

    w->phase = WATCH_LIVE;
    if (sw_store_watch_start(w->api->feed, &w->watch, w->prefix, w->revision, on_event, &err) ==
        SW_OK)
        return;
    gone_too_far(w);
}

/* --- the initial state ------------------------------------------------------------------ */

static void initial_step(struct api_watch *w);

/* One of each client after the other, and only for a part of each turn of the loop. */
static void on_walk(struct sw_defer *d)
{
    struct sw_api *api = SW_CONTAINER_OF(d, struct sw_api, walk.turn);
    uint64_t until = sw_now_ns() + walk_ns;
    struct sw_list *it;

    if (api->walk.turn_ns != sw_loop_now(api->loop)) { /* once in a turn */
        api->walk.turn_ns = sw_loop_now(api->loop);
        do {
            it = api_fair_walk_next(api->fair);
            if (it)
                initial_step(SW_CONTAINER_OF(it, struct api_watch, turn));
        } while (it && sw_now_ns() < until);
    }
    if (api_fair_walks(api->fair))
        sw_loop_defer(api->loop, &api->walk.turn, on_walk);
}

static void walk_on(struct api_watch *w)
{
    sw_list_unlink(&w->turn);
    api_fair_walk(w->r, &w->turn);
    sw_loop_defer(w->api->loop, &w->api->walk.turn, on_walk);
}

static void initial_step(struct api_watch *w)
{
    struct sw_store_iter it;
    struct sw_store_obj *o;
    size_t bytes = 0;
    int rc;

    sw_store_iter_init(&it, w->snap, w->prefix, sw_buf_slice(&w->at));
    for (int i = 0; (o = sw_store_iter_next(&it)); i++) {
        sw_buf_clear(&w->at);
        if (sw_buf_append_slice(&w->at, o->key) != SW_OK) {
            watch_end(w);
            return;
        }
        if (i == INITIAL_BATCH || bytes > INITIAL_BYTES) {
            walk_on(w);
            return;
        }
        bytes += o->value.n;
        rc = matches(w, o) ? send_line(w, "ADDED", o, o->revision) : SW_OK;
        if (rc == SW_ELIMIT)
            too_much_unread(w);
        if (rc != SW_OK)
            return; /* on_drain continues from here */
        if (sw_buf_putc(&w->at, 0) != SW_OK)
            return;
    }
    if (w->initial_end && send_bookmark(w, w->revision, true) != SW_OK)
        return;
    w->snap = sw_store_snap_unref(w->snap);
    go_live(w);
}

static void on_drain(struct sw_xchg *x)
{
    struct api_watch *w = watch_of(x);
    struct sw_store_event *ev = w->held;

    int rc;

    if (w->phase == WATCH_INITIAL) {
        walk_on(w);
        return;
    }
    if (!ev)
        return;
    rc = send_event(w, ev);
    if (rc == SW_ELIMIT)
        too_much_unread(w);
    if (rc != SW_OK)
        return;
    w->held = NULL;
    sw_store_event_unref(ev);
    sw_store_watch_resume(&w->watch);
}

/* --- beginning -------------------------------------------------------------------------- */

static void on_timeout(struct sw_timer *t)
{
    struct api_watch *w = SW_CONTAINER_OF(t, struct api_watch, timeout);

    watch_end(w);
}

static void on_bookmark(struct sw_timer *t);

/* Every minute, and shortly before the end: the client resumes from there. */
static void arm_bookmark(struct api_watch *w)
{
    uint64_t now = sw_loop_now(w->api->loop);
    uint64_t left = w->end_ns > now ? w->end_ns - now : 0;
    uint64_t last = left > 2 * SW_NS_PER_S ? left - 2 * SW_NS_PER_S : 0;

    if (last)
        sw_timer_start(w->api->loop, &w->bookmark, last < bookmark_ns ? last : bookmark_ns,
                       on_bookmark);
}

static void on_bookmark(struct sw_timer *t)
{
    struct api_watch *w = SW_CONTAINER_OF(t, struct api_watch, bookmark);

    if (w->phase == WATCH_LIVE && !w->held)
        (void)!send_bookmark(w, sw_store_watch_revision(&w->watch), false);
    arm_bookmark(w);
}

static bool check_options(struct api_req *r, bool *ret_send)
{
    static const char *const only[] = {"NotOlderThan", NULL};
    struct sw_slice match = api_param(r, "resourceVersionMatch");
    bool given = sw_query_get(&r->query, "sendInitialEvents") != NULL;
    struct sw_field_errs e;
    struct sw_fpath p = sw_fpath_str(NULL, "resourceVersionMatch");

    sw_field_errs_init(&e, r->arena);
    if (given && !sw_slice_eq_str(match, "NotOlderThan"))
        sw_ferr_forbidden(&e, &p,
                          "sendInitialEvents requires setting resourceVersionMatch to "
                          "NotOlderThan");
    if (!given && match.n)
        sw_ferr_forbidden(&e, &p,
                          "resourceVersionMatch is forbidden for watch unless "
                          "sendInitialEvents is provided");
    if (match.n && !sw_slice_eq_str(match, "NotOlderThan"))
        sw_ferr_unsupported(&e, &p, sw_json_new_string(r->arena, match), only);
    if (match.n && api_param(r, "continue").n)
        sw_ferr_forbidden(&e, &p, "resourceVersionMatch is forbidden when continue is provided");
    *ret_send = given && api_param_bool(r, "sendInitialEvents");
    return api_options_ok(r, "ListOptions", &e);
}

enum { TIMEOUT_MOST_S = 30 * 86400 };

static uint64_t timeout_of(int64_t s)
{
    if (s == 0)
        return (1800 + sw_rand_below(1800)) * SW_NS_PER_S;
    if (s < 0)
        return 1;
    return (s < TIMEOUT_MOST_S ? (uint64_t)s : TIMEOUT_MOST_S) * SW_NS_PER_S;
}

static const struct sw_xchg_stream_ops ops = {.on_gone = on_gone, .on_drain = on_drain};

static void start(struct api_watch *w, bool initial)
{
    struct api_req *r = w->r;

    sw_xchg_set(r->x, "Cache-Control", SW_SLICE_LIT("no-cache, private"));
    api_common_headers(r);
    api_fair_leave(r);
    w->judged = w->api->review;
    sw_list_push_back(&w->api->watches, &w->link);
    /* A client whose token was renewed comes back with the new one. */
    w->end_ns = sw_min(timeout_of(w->timeout_s), api_credential_left_ns(r));
    sw_timer_start(w->api->loop, &w->timeout, w->end_ns, on_timeout);
    w->end_ns += sw_loop_now(w->api->loop);
    if (w->bookmarks)
        arm_bookmark(w);
    if (!sw_xchg_stream(r->x, 200, "application/json", &ops))
        return; /* the watch is freed */
    if (initial) {
        w->snap = sw_store_snapshot(w->api->store);
        w->revision = sw_store_snap_revision(w->snap);
        walk_on(w);
        return;
    }
    if (sw_store_watch_start(w->api->feed, &w->watch, w->prefix, w->revision, on_event, NULL) ==
        SW_OK) {
        w->phase = WATCH_LIVE;
        return;
    }
    {
        struct sw_store_stats st;
        SW_ARENA_AUTO a = {0};

        sw_store_stats(w->api->store, &st);
        send_error(w, 410, "Expired",
                   sw_arena_printf(&a, "too old resource version: %llu (%llu)",
                                   (unsigned long long)w->revision,
                                   (unsigned long long)st.floor + 1));
        watch_end(w);
    }
}

static void begin(struct api_req *r)
{
    struct api_watch *w = r->own.done_arg;

    if (!api_fair_watch(r)) {
        api_fail(r, 429, "TooManyRequests",
                 "Too many requests, please try again later: user '%.*s' has too many watches open",
                 SW_SLICE_ARG(r->user.name));
        return;
    }
    if (sw_query_get(&r->query, "sendInitialEvents") && !w->initial_end && w->revision == 0) {
        w->revision = sw_store_revision(r->api->store);
        start(w, false);
    } else {
        start(w, w->initial_end || w->revision == 0);
    }
}

/* After a wait the kind may be gone, and so may the right: the watch was not judged meanwhile. */
static void begin_later(struct api_req *r, void *arg)
{
    const char *why = "";

    if (api_registry_find(&r->api->reg, r->group, r->version, r->resource) != r->res)
        api_no_such_resource(r);
    else if (!api_still_allowed(r, r->arena, &why))
        api_fail(r, 401, "Unauthorized", "%s", why);
    else
        begin(r);
}

void api_watch(struct api_req *r)
{
    struct api_watch *w = SW_ARENA_NEW(r->arena, struct api_watch);
    struct sw_slice rv = api_param(r, "resourceVersion");
    int64_t limit;

    w->api = r->api;
    w->r = r;
    w->x = r->x;
    sw_buf_init(&w->at, 4096);
    if (!api_param_int(r, "limit", &limit) || !api_param_int(r, "timeoutSeconds", &w->timeout_s) ||
        !api_filter_syntax(r, &w->filter) || !check_options(r, &w->initial_end) ||
        !api_filter_labels(r, &w->filter))
        return;
    if (rv.n && !sw_slice_to_u64(rv, INT64_MAX, &w->revision)) {
        api_bad_request(r, "%s", api_bad_rv(r->arena, rv));
        return;
    }
    w->prefix = api_prefix(r->arena, r->res, r->ns);
    w->bookmarks = api_param_bool(r, "allowWatchBookmarks");
    r->own.done_arg = w;
    /* The initial state is not older than requested. */
    if (!w->initial_end || api_wait_revision(r, w->revision, begin_later))
        begin(r);
}

/* Ends the watch unless its client may continue with it. */
static void judge(struct api_watch *w)
{
    struct sw_api *api = w->api;
    SW_ARENA_AUTO a = {0};
    const char *why = "";

    if (api_still_allowed(w->r, &a, &why))
        return;
    api->refused.revoked++;
    sw_log_warn("api", "watch of user '%.*s' on %.*s ends: %s", SW_SLICE_ARG(w->r->user.name),
                SW_SLICE_ARG(w->r->path), why);
    send_error(w, 401, "Unauthorized", why);
    watch_end(w);
}

/* Those judged are at the end of the list, with the new ones. */
bool api_watches_review(struct sw_api *api, size_t batch)
{
    for (; batch > 0 && !sw_list_empty(&api->watches); batch--) {
        struct api_watch *w = SW_CONTAINER_OF(api->watches.next, struct api_watch, link);

        if (w->judged == api->review)
            return false;
        w->judged = api->review;
        sw_list_unlink(&w->link);
        sw_list_push_back(&api->watches, &w->link);
        judge(w);
    }
    return !sw_list_empty(&api->watches);
}

void api_watches_end(struct sw_api *api, const struct api_crd *crd)
{
    line_forget(&api->walk.line);
    SW_LIST_EACH (struct api_watch, w, &api->watches, link) {
        if (!crd || w->r->crd == crd)
            watch_end(w);
    }
}
