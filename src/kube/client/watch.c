/* SPDX-License-Identifier: Apache-2.0 */
/* Watches: endless answers, cut into events. */
#include "base/mem.h"
#include "base/rand.h"
#include "base/time.h"
#include "kube/client/client_int.h"
#include "kube/client/frame.h"

enum { HEAD_TIMEOUT_S = 30, SLACK_S = 30, ERROR_BODY_MAX = 1 << 20 };

struct sw_kube_watch {
    struct sw_list link;
    struct sw_kube_client *client;
    struct sw_http_call *http;
    struct kube_right right;
    struct sw_kube_frames frames;
    struct sw_defer later; /* a failure known at once, or freeing */
    struct sw_err early;
    int status;
    uint64_t retry_after_ns;
    bool over;
    struct sw_kube_watch_cbs cbs;
    void *arg;
};

static void watch_free(struct sw_kube_watch *w)
{
    sw_list_unlink(&w->link);
    sw_defer_cancel(&w->later);
    sw_kube_frames_done(&w->frames);
    sw_free(w);
}

static void on_reap(struct sw_defer *d)
{
    watch_free(SW_CONTAINER_OF(d, struct sw_kube_watch, later));
}

/* Nothing more comes of it. */
static void close_watch(struct sw_kube_watch *w)
{
    struct sw_http_call *http = w->http;

    w->over = true;
    w->http = NULL;
    if (http)
        sw_http_call_cancel(http);
    sw_list_unlink(&w->link);
    sw_list_push_back(&w->client->watches, &w->link); /* until the loop frees it */
    sw_loop_defer(w->client->loop, &w->later, on_reap);
}

static void end(struct sw_kube_watch *w, struct sw_kube_reply *r)
{
    if (w->over)
        return;
    close_watch(w);
    r->retry_after_ns = r->retry_after_ns ? r->retry_after_ns : w->retry_after_ns;
    w->cbs.end(w->arg, r);
}

static void end_failed(struct sw_kube_watch *w, int rc, const struct sw_err *err)
{
    SW_ARENA_AUTO a = {0};
    struct sw_kube_reply r = {.arena = &a};

    kube_reply_failed(&r, rc, err);
    end(w, &r);
}

void kube_watches_end(struct sw_kube_client *c, const struct sw_err *err)
{
    SW_LIST_EACH (struct sw_kube_watch, w, &c->watches, link) {
        if (!w->over)
            end_failed(w, SW_ECANCELED, err);
    }
    while (!sw_list_empty(&c->watches))
        watch_free(SW_CONTAINER_OF(c->watches.next, struct sw_kube_watch, link));
}

static bool event_type(struct sw_slice s, enum sw_kube_event *ret)
{
    static const char *const names[] = {
        [SW_KUBE_ADDED] = "ADDED",
        [SW_KUBE_MODIFIED] = "MODIFIED",
        [SW_KUBE_DELETED] = "DELETED",
        [SW_KUBE_BOOKMARK] = "BOOKMARK",
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(names); i++) {
        if (sw_slice_eq_str(s, names[i])) {
            *ret = (enum sw_kube_event)i;
            return true;
        }
    }
    return false;
}

static void on_frame(struct sw_kube_watch *w, struct sw_slice frame)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json_dups dups = {0};
    const struct sw_json_opts o = {.dups = &dups};
    struct sw_kube_reply r = {.arena = &a};
    enum sw_kube_event type = SW_KUBE_ADDED;
    struct sw_json *v = NULL;
    struct sw_json *object;
    struct sw_err err = {0};

    if (sw_json_parse(&a, frame, &o, &v, &err) != SW_OK) {
        (void)sw_err_prefix(&err, "watch event");
        end_failed(w, SW_EPROTO, &err);
        return;
    }
    object = sw_json_find(v, "object");
    if (sw_json_str_eq(sw_json_find(v, "type"), "ERROR")) {
        kube_reply_from_status(&r, object);
        end(w, &r);
    } else if (!sw_json_is(object, SW_JSON_OBJECT) ||
               !event_type(sw_json_str(sw_json_find(v, "type")), &type)) {
        (void)sw_err_set(&err, SW_EPROTO, "watch event of unknown type");
        end_failed(w, SW_EPROTO, &err);
    } else {
        w->cbs.event(w->arg, type, object, &a);
    }
}

static void on_head(struct sw_http_call *http, const struct sw_h1_msg *msg, void *arg)
{
    struct sw_kube_watch *w = arg;
    const struct sw_slice *after = sw_h1_field(msg, "retry-after");
    uint64_t s = 0;

    w->status = msg->status;
    if (w->status == 200)
        kube_health_accepted(&w->client->health, &w->right);
    if (after && sw_slice_to_u64(*after, 3600, &s))
        w->retry_after_ns = s * SW_NS_PER_S;
    if (w->status == 200 && w->cbs.open)
        w->cbs.open(w->arg);
}

static void on_body(struct sw_http_call *http, struct sw_slice data, void *arg)
{
    struct sw_kube_watch *w = arg;
    struct sw_slice frame;
    struct sw_err err = {0};
    int rc = SW_OK;

    if (w->status != 200 && sw_buf_len(&w->frames.buf) + data.n > ERROR_BODY_MAX)
        return; /* the words of a refusal, for on_done */
    rc = sw_kube_frames_push(&w->frames, data);
    if (rc != SW_OK)
        (void)sw_err_set(&err, rc, "watch event is larger than allowed");
    while (rc == SW_OK && w->status == 200 && !w->over) {
        rc = sw_kube_frames_next(&w->frames, &frame, &err);
        if (rc == SW_OK)
            on_frame(w, frame);
    }
    if (rc != SW_OK && rc != SW_EAGAIN && !w->over)
        end_failed(w, rc, &err);
}

static void on_done(struct sw_http_call *http, int rc, const struct sw_err *err, void *arg)
{
    struct sw_kube_watch *w = arg;
    SW_ARENA_AUTO a = {0};
    struct sw_kube_reply r = {.arena = &a};

    w->http = NULL;
    if (rc != SW_OK) {
        kube_health_failed(&w->client->health, err);
        end_failed(w, rc, err);
        return;
    }
    if (w->status == 200 && sw_kube_frames_idle(&w->frames)) {
        r.rc = SW_EOF;
        r.code = 200;
        r.message = SW_SLICE_LIT("the server ended the watch");
    } else if (w->status == 200) {
        kube_reply_failed(&r, SW_EPROTO, NULL);
        r.message = SW_SLICE_LIT("watch stream ends inside an event");
    } else {
        kube_reply_decode(&r, w->status, sw_buf_slice(&w->frames.buf));
        kube_health_answered(&w->client->health, &w->right, &r);
        if (w->status == 401)
            (void)sw_kube_transport_refresh(&w->client->t, true); /* for the next one */
        if (r.rc == SW_OK)
            r.rc = SW_EPROTO; /* 204 and the like */
    }
    end(w, &r);
}

static void on_early(struct sw_defer *d)
{
    struct sw_kube_watch *w = SW_CONTAINER_OF(d, struct sw_kube_watch, later);

    end_failed(w, w->early.rc, &w->early);
}

struct sw_kube_watch *sw_kube_watch(struct sw_kube_client *c, const struct sw_kube_req *req,
                                    const struct sw_kube_watch_opts *o,
                                    const struct sw_kube_watch_cbs *cbs, void *arg)
{
    struct sw_kube_watch *w = SW_NEW(struct sw_kube_watch);
    struct kube_watch_params p = {.bookmarks = o->bookmarks,
                                  .initial = o->initial,
                                  .timeout_s = o->timeout_s ? o->timeout_s
                                                            : 300 + (uint32_t)sw_rand_below(300)};
    struct sw_http_call_opts ho = {.timeout_ns = HEAD_TIMEOUT_S * SW_NS_PER_S,
                                   .stream = true,
                                   .on_head = on_head,
                                   .on_body = on_body,
                                   .on_done = on_done,
                                   .arg = w};
    struct sw_kube_req list = *req;
    struct kube_words words;

    w->client = c;
    w->right = kube_right_of(req, true);
    w->cbs = *cbs;
    w->arg = arg;
    sw_kube_frames_init(&w->frames, c->event_max);
    sw_list_push_back(&c->watches, &w->link);
    list.verb = SW_KUBE_LIST;
    /* The server closes at the requested time; one that does not is gone. */
    ho.silence_ns = (p.timeout_s + SLACK_S) * SW_NS_PER_S;
    if (c->closing) {
        (void)sw_err_set(&w->early, SW_ECANCELED, "client closed");
    } else if (kube_words_make(&words, c, &list, &p, &w->early) == SW_OK) {
        w->http = kube_send(c, &words, &ho, &w->early);
        kube_words_done(&words);
    }
    if (!w->http)
        sw_loop_defer(c->loop, &w->later, on_early);
    return w;
}

void sw_kube_watch_cancel(struct sw_kube_watch *w)
{
    if (w && !w->over)
        close_watch(w);
}
