/* SPDX-License-Identifier: Apache-2.0 */
/* Requests with an end: sending, repeating, answering. Watches are in watch.c. */
#include "kube/client/client.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/secret.h"
#include "base/time.h"
#include "http/grammar.h"
#include "kube/client/client_int.h"

static const uint64_t backoff_first_ns = 100 * SW_NS_PER_MS;
static const uint64_t backoff_most_ns = 10 * SW_NS_PER_S;
static const uint64_t default_timeout_ns = 60 * SW_NS_PER_S;

struct sw_kube_call {
    struct sw_list link;
    struct sw_kube_client *client;
    struct kube_words words;
    struct kube_right right;
    struct sw_http_call *http; /* under way; NULL between tries */
    struct sw_timer timer;     /* until the next try */
    struct sw_defer later;     /* answers that are known at once; freeing */
    struct sw_buf body;
    uint64_t deadline_ns;
    uint64_t retry_after_ns;
    uint64_t date_s;
    uint32_t tried;
    int status;
    bool read_only;
    bool once;
    bool asked_token;
    struct sw_err early; /* why it never left */
    sw_kube_cb cb;
    void *arg;
};

/* --- the client --- */

struct sw_kube_client *sw_kube_client_new(struct sw_loop *l, struct sw_kube_config *cfg,
                                          const struct sw_kube_client_opts *o, struct sw_err *err)
{
    static const struct sw_kube_client_opts defaults;
    struct sw_kube_client *c = SW_NEW(struct sw_kube_client);

    o = o ? o : &defaults;
    c->loop = l;
    sw_list_init(&c->calls);
    sw_list_init(&c->watches);
    kube_health_init(&c->health, l);
    c->reply_max = o->reply_max ? o->reply_max : 64 << 20;
    c->event_max = o->event_max ? o->event_max : 8 << 20;
    c->tries = o->tries ? o->tries : 10;
    if (sw_kube_transport_init(&c->t, l, cfg, o->max_conns, err) != SW_OK) {
        sw_free(c);
        return NULL;
    }
    c->user_agent = sw_strdup(o->user_agent ? o->user_agent : "spanwire/" SW_VERSION);
    return c;
}

static void call_free(struct sw_kube_call *call)
{
    sw_list_unlink(&call->link);
    sw_timer_stop(call->client->loop, &call->timer);
    sw_defer_cancel(&call->later);
    if (call->http)
        sw_http_call_cancel(call->http);
    sw_buf_done_secret(&call->body);
    kube_words_done(&call->words);
    sw_free(call);
}

static void finish(struct sw_kube_call *call, struct sw_kube_reply *r)
{
    sw_kube_cb cb = call->cb;
    void *arg = call->arg;

    /* Gone before the callback: it may do anything. */
    call_free(call);
    cb(arg, r);
    sw_arena_clear(r->arena);
}

static void fail(struct sw_kube_call *call, int rc, const struct sw_err *err)
{
    struct sw_arena a = {0};
    struct sw_kube_reply r = {.arena = &a};

    kube_reply_failed(&r, rc, err);
    finish(call, &r);
}

void sw_kube_client_free(struct sw_kube_client *c)
{
    struct sw_err err = {0};

    if (!c)
        return;
    c->closing = true;
    c->health.closing = true;
    (void)sw_err_set(&err, SW_ECANCELED, "client closed");
    while (!sw_list_empty(&c->calls))
        fail(SW_CONTAINER_OF(c->calls.next, struct sw_kube_call, link), SW_ECANCELED, &err);
    kube_watches_end(c, &err);
    kube_health_done(&c->health);
    sw_kube_transport_done(&c->t);
    sw_free(c->user_agent);
    sw_free(c);
}

struct sw_loop *sw_kube_client_loop(const struct sw_kube_client *c)
{
    return c->loop;
}

struct sw_slice sw_kube_client_ns(const struct sw_kube_client *c)
{
    return c->t.cfg.ns;
}

bool sw_kube_synced(const struct sw_kube_client *c, struct sw_buf *ret_waits)
{
    return kube_health_synced(&c->health, ret_waits);
}

bool sw_kube_away(const struct sw_kube_client *c)
{
    return c->health.away[0] != '\0';
}

/* --- one request --- */

static void attempt(struct sw_kube_call *call);

static void on_retry(struct sw_timer *t)
{
    attempt(SW_CONTAINER_OF(t, struct sw_kube_call, timer));
}

/* Waits and tries again; false when there is no time or patience left. */
static bool again(struct sw_kube_call *call)
{
    struct sw_kube_client *c = call->client;
    uint64_t now = sw_loop_now(c->loop);
    uint64_t wait = backoff_first_ns << sw_min(call->tried - 1, 10);

    wait = wait > backoff_most_ns ? backoff_most_ns : wait;
    wait += sw_rand_below(wait);
    if (call->retry_after_ns)
        wait = call->retry_after_ns + sw_rand_below(call->retry_after_ns / 4 + 1);
    if (call->once || call->tried >= c->tries || now + wait >= call->deadline_ns)
        return false;
    sw_timer_start(c->loop, &call->timer, wait, on_retry);
    return true;
}

static void on_head(struct sw_http_call *http, const struct sw_h1_msg *msg, void *arg)
{
    struct sw_kube_call *call = arg;
    const struct sw_slice *after = sw_h1_field(msg, "retry-after");
    const struct sw_slice *date = sw_h1_field(msg, "date");
    uint64_t s = 0;

    call->status = msg->status;
    /* A date is allowed too; API servers do not send one. */
    if (after && sw_slice_to_u64(*after, 3600, &s))
        call->retry_after_ns = s ? s * SW_NS_PER_S : 1;
    if (!date || !sw_http_date_parse(*date, &call->date_s))
        call->date_s = 0;
}

static void on_body(struct sw_http_call *http, struct sw_slice data, void *arg)
{
    struct sw_kube_call *call = arg;

    (void)!sw_buf_append_slice(&call->body, data); /* the exchange bounds it */
}

static bool worth_repeating(const struct sw_kube_call *call)
{
    if (call->status == 429)
        return true;
    return call->status >= 500 && (call->read_only || call->retry_after_ns);
}

static void on_done(struct sw_http_call *http, int rc, const struct sw_err *err, void *arg)
{
    struct sw_kube_call *call = arg;
    bool sent = sw_http_call_sent(http);
    struct sw_arena a = {0};
    struct sw_kube_reply r = {.arena = &a};

    call->http = NULL;
    if (rc != SW_OK) {
        kube_health_failed(&call->client->health, err);
        /* A refused certificate or an answer too large will not get better. */
        bool hopeless = rc == SW_EDENIED || rc == SW_ELIMIT || rc == SW_EINVAL;

        if (!hopeless && (call->read_only || !sent) && again(call))
            return;
        fail(call, rc, err);
        return;
    }
    if (call->status == 401 && !call->asked_token) {
        call->asked_token = true;
        if (sw_kube_transport_refresh(&call->client->t, true)) {
            attempt(call);
            return;
        }
    }
    if (worth_repeating(call) && again(call))
        return;
    r.retry_after_ns = call->retry_after_ns;
    r.date_s = call->date_s;
    kube_reply_decode(&r, call->status, sw_buf_slice(&call->body));
    kube_health_answered(&call->client->health, &call->right, &r);
    finish(call, &r);
}

static void on_early(struct sw_defer *d)
{
    struct sw_kube_call *call = SW_CONTAINER_OF(d, struct sw_kube_call, later);

    fail(call, call->early.rc, &call->early);
}

static void attempt(struct sw_kube_call *call)
{
    struct sw_kube_client *c = call->client;
    uint64_t now = sw_loop_now(c->loop);
    struct sw_http_call_opts o = {.timeout_ns = call->deadline_ns - now,
                                  .body_max = c->reply_max,
                                  .on_head = on_head,
                                  .on_body = on_body,
                                  .on_done = on_done,
                                  .arg = call};

    call->tried++;
    call->status = 0;
    call->retry_after_ns = 0;
    sw_buf_clear(&call->body);
    if (now >= call->deadline_ns)
        (void)sw_err_set(&call->early, SW_ETIME, "no answer in time");
    else
        call->http = kube_send(c, &call->words, &o, &call->early);
    if (!call->http)
        sw_loop_defer(c->loop, &call->later, on_early);
}

struct sw_kube_call *sw_kube_do(struct sw_kube_client *c, const struct sw_kube_req *req,
                                sw_kube_cb cb, void *arg)
{
    struct sw_kube_call *call = SW_NEW(struct sw_kube_call);

    call->client = c;
    call->cb = cb;
    call->arg = arg;
    call->once = req->once;
    call->right = kube_right_of(req, false);
    call->read_only = req->verb == SW_KUBE_GET || req->verb == SW_KUBE_LIST;
    call->deadline_ns =
        sw_loop_now(c->loop) + (req->timeout_ns ? req->timeout_ns : default_timeout_ns);
    sw_buf_init(&call->body, c->reply_max);
    sw_list_push_back(&c->calls, &call->link);
    if (kube_words_make(&call->words, c, req, NULL, &call->early) != SW_OK)
        sw_loop_defer(c->loop, &call->later, on_early);
    else
        attempt(call);
    return call;
}

void sw_kube_call_cancel(struct sw_kube_call *call)
{
    if (call)
        call_free(call);
}

/* --- short forms --- */

static struct sw_slice meta_str(const struct sw_json *obj, const char *key)
{
    return sw_json_str(sw_json_walk(obj, "metadata", key, NULL));
}

struct sw_kube_call *sw_kube_get(struct sw_kube_client *c, const struct sw_kube_gvr *gvr,
                                 struct sw_slice ns, struct sw_slice name, sw_kube_cb cb, void *arg)
{
    return sw_kube_do(c, &(struct sw_kube_req){.gvr = gvr, .ns = ns, .name = name}, cb, arg);
}

struct sw_kube_call *sw_kube_create(struct sw_kube_client *c, const struct sw_kube_gvr *gvr,
                                    const struct sw_json *obj, sw_kube_cb cb, void *arg)
{
    const struct sw_kube_req req = {
        .verb = SW_KUBE_CREATE, .gvr = gvr, .ns = meta_str(obj, "namespace"), .body = obj};

    return sw_kube_do(c, &req, cb, arg);
}

struct sw_kube_call *sw_kube_update(struct sw_kube_client *c, const struct sw_kube_gvr *gvr,
                                    const struct sw_json *obj, const char *sub, sw_kube_cb cb,
                                    void *arg)
{
    const struct sw_kube_req req = {.verb = SW_KUBE_UPDATE,
                                    .gvr = gvr,
                                    .ns = meta_str(obj, "namespace"),
                                    .name = meta_str(obj, "name"),
                                    .sub = sub,
                                    .body = obj};

    return sw_kube_do(c, &req, cb, arg);
}

struct sw_kube_call *sw_kube_apply(struct sw_kube_client *c, const struct sw_kube_apply *p,
                                   sw_kube_cb cb, void *arg)
{
    const struct sw_kube_req req = {.verb = SW_KUBE_PATCH,
                                    .patch = SW_KUBE_PATCH_APPLY,
                                    .gvr = p->gvr,
                                    .ns = meta_str(p->obj, "namespace"),
                                    .name = meta_str(p->obj, "name"),
                                    .sub = p->sub,
                                    .body = p->obj,
                                    .field_manager = p->manager,
                                    .force = p->force};

    return sw_kube_do(c, &req, cb, arg);
}

struct sw_kube_call *sw_kube_patch_status(struct sw_kube_client *c,
                                          const struct sw_kube_status_patch *p, sw_kube_cb cb,
                                          void *arg)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *meta =
        SW_JSON_OF(&a, {"resourceVersion", .text = meta_str(p->seen, "resourceVersion")});
    struct sw_json *patch =
        SW_JSON_OF(&a, {"metadata", .json = meta}, {"status", .json = sw_json_copy(&a, p->status)});
    struct sw_kube_req req = {.verb = SW_KUBE_PATCH,
                              .patch = SW_KUBE_PATCH_MERGE,
                              .gvr = p->gvr,
                              .ns = meta_str(p->seen, "namespace"),
                              .name = meta_str(p->seen, "name"),
                              .sub = "status",
                              .body = patch,
                              .field_manager = p->manager};

    return sw_kube_do(c, &req, cb, arg);
}
