/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and answers of the API as text: paths, queries, bodies, Status objects. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/time.h"
#include "base/utf8.h"
#include "http/url.h"
#include "kube/client/client_int.h"

enum { TARGET_MAX = 32 * 1024, BODY_MAX = 16 << 20 };

/* --- requests --- */

/* A path segment. Names never hold these; with them the path would mean something else. */
static int put_segment(struct sw_buf *b, struct sw_slice s)
{
    if (s.n == 0 || sw_slice_eq_str(s, ".") || sw_slice_eq_str(s, "..") ||
        sw_slice_find(s, '/') >= 0 || memchr(s.p, 0, s.n))
        return SW_EINVAL;
    if (sw_buf_putc(b, '/') != SW_OK)
        return SW_ELIMIT;
    return sw_percent_encode(b, s);
}

static int put_path(struct sw_buf *b, const struct sw_kube_client *c, const struct sw_kube_req *r)
{
    bool named = r->verb != SW_KUBE_LIST && r->verb != SW_KUBE_CREATE &&
                 r->verb != SW_KUBE_DELETE_COLLECTION;
    int rc = sw_buf_append_slice(b, c->t.cfg.base);

    if (rc == SW_OK && r->path)
        return sw_buf_append_str(b, r->path);
    if (rc == SW_OK)
        rc = sw_buf_append_str(b, *r->gvr->group ? "/apis" : "/api");
    if (rc == SW_OK && *r->gvr->group)
        rc = put_segment(b, sw_slice_str(r->gvr->group));
    if (rc == SW_OK)
        rc = put_segment(b, sw_slice_str(r->gvr->version));
    if (rc == SW_OK && r->gvr->namespaced && r->ns.n) {
        rc = sw_buf_append_str(b, "/namespaces");
        if (rc == SW_OK)
            rc = put_segment(b, r->ns);
    } else if (rc == SW_OK && r->gvr->namespaced && r->verb != SW_KUBE_LIST) {
        rc = SW_EINVAL;
    }
    if (rc == SW_OK)
        rc = put_segment(b, sw_slice_str(r->gvr->resource));
    /* Creating a subresource (a token) names the object it belongs to. */
    if (rc == SW_OK && (named || (r->verb == SW_KUBE_CREATE && r->sub)))
        rc = put_segment(b, r->name);
    if (rc == SW_OK && r->sub)
        rc = put_segment(b, sw_slice_str(r->sub));
    return rc;
}

struct query {
    struct sw_buf *b;
    char sep;
    int rc;
};

static void param(struct query *q, const char *name, struct sw_slice value)
{
    if (q->rc == SW_OK && value.n)
        q->rc = sw_buf_putc(q->b, q->sep);
    if (q->rc == SW_OK && value.n)
        q->rc = sw_buf_append_str(q->b, name);
    if (q->rc == SW_OK && value.n)
        q->rc = sw_buf_putc(q->b, '=');
    if (q->rc == SW_OK && value.n)
        q->rc = sw_percent_encode(q->b, value);
    if (value.n)
        q->sep = '&';
}

static void param_flag(struct query *q, const char *name, bool on)
{
    param(q, name, on ? SW_SLICE_LIT("true") : sw_slice("", 0));
}

static void param_u32(struct query *q, const char *name, uint32_t n)
{
    char text[16];

    (void)snprintf(text, sizeof(text), "%u", n);
    param(q, name, n ? sw_slice_str(text) : sw_slice("", 0));
}

static int put_query(struct sw_buf *b, const struct sw_kube_req *r,
                     const struct kube_watch_params *w)
{
    struct query q = {.b = b, .sep = r->path && strchr(r->path, '?') ? '&' : '?'};

    param(&q, "labelSelector", sw_slice_str(r->label_selector));
    param(&q, "fieldSelector", sw_slice_str(r->field_selector));
    param_u32(&q, "limit", r->limit);
    param(&q, "continue", r->continue_token);
    param(&q, "resourceVersion", r->resource_version);
    param(&q, "resourceVersionMatch", sw_slice_str(r->resource_version_match));
    param(&q, "fieldManager", sw_slice_str(r->field_manager));
    param(&q, "fieldValidation", sw_slice_str(r->field_validation));
    param_flag(&q, "force", r->force);
    param(&q, "dryRun", r->dry_run ? SW_SLICE_LIT("All") : sw_slice("", 0));
    if (w) {
        param_flag(&q, "watch", true);
        param_flag(&q, "allowWatchBookmarks", w->bookmarks || w->initial);
        param_flag(&q, "sendInitialEvents", w->initial);
        if (w->initial && !r->resource_version_match)
            param(&q, "resourceVersionMatch", SW_SLICE_LIT("NotOlderThan"));
        param_u32(&q, "timeoutSeconds", w->timeout_s);
    }
    return q.rc;
}

/* DeleteOptions; nothing when there is nothing to say. */
static int put_delete_options(struct kube_words *w, const struct sw_kube_req *r)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *only = SW_JSON_OF(&a, {"uid", .some = r->if_uid},
                                      {"resourceVersion", .some = r->if_resource_version});
    struct sw_json *grace = r->grace_s > 0 ? sw_json_new_i64(&a, r->grace_s) : NULL;
    struct sw_json *o = SW_JSON_OF(
        &a, {"kind", .str = "DeleteOptions"}, {"apiVersion", .str = "v1"},
        {"gracePeriodSeconds", .json = grace}, {"propagationPolicy", .str = r->propagation},
        {"preconditions", .json = sw_json_len(only) ? only : NULL});

    if (sw_json_len(o) == 2)
        return SW_OK;
    w->content_type = "application/json";
    return sw_json_write(&w->body, o, NULL);
}

static int put_body(struct kube_words *w, const struct sw_kube_req *r)
{
    static const char *const patches[] = {
        [SW_KUBE_PATCH_JSON] = "application/json-patch+json",
        [SW_KUBE_PATCH_MERGE] = "application/merge-patch+json",
        [SW_KUBE_PATCH_STRATEGIC] = "application/strategic-merge-patch+json",
        [SW_KUBE_PATCH_APPLY] = "application/apply-patch+yaml",
    };

    w->content_type = NULL;
    switch (r->verb) {
    case SW_KUBE_GET:
    case SW_KUBE_LIST:
        w->method = "GET";
        return SW_OK;
    case SW_KUBE_DELETE:
    case SW_KUBE_DELETE_COLLECTION:
        w->method = "DELETE";
        return put_delete_options(w, r);
    case SW_KUBE_CREATE:
    case SW_KUBE_UPDATE:
        w->method = r->verb == SW_KUBE_CREATE ? "POST" : "PUT";
        w->content_type = "application/json";
        break;
    case SW_KUBE_PATCH:
        w->method = "PATCH";
        w->content_type = patches[r->patch];
        if (r->patch == SW_KUBE_PATCH_APPLY && !r->field_manager)
            return SW_EINVAL;
        break;
    }
    return r->body ? sw_json_write(&w->body, r->body, NULL) : SW_EINVAL;
}

int kube_words_make(struct kube_words *w, const struct sw_kube_client *c,
                    const struct sw_kube_req *req, const struct kube_watch_params *watch,
                    struct sw_err *err)
{
    int rc;

    *w = (struct kube_words){0};
    sw_buf_init(&w->target, TARGET_MAX);
    sw_buf_init(&w->body, BODY_MAX);
    rc = put_path(&w->target, c, req);
    if (rc == SW_OK)
        rc = put_query(&w->target, req, watch);
    if (rc == SW_OK)
        rc = put_body(w, req);
    if (rc == SW_OK)
        return SW_OK;
    kube_words_done(w);
    return sw_err_set(err, rc,
                      rc == SW_ELIMIT ? "the request is too large"
                                      : "the request names no usable object");
}

void kube_words_done(struct kube_words *w)
{
    sw_buf_done(&w->target);
    if (w->body.p)
        explicit_bzero(w->body.p, w->body.cap); /* may be a Secret */
    sw_buf_done(&w->body);
}

struct sw_http_call *kube_send(struct sw_kube_client *c, const struct kube_words *w,
                               struct sw_http_call_opts *o, struct sw_err *err)
{
    struct sw_h1_field fields[SW_KUBE_AUTH_FIELDS + 3];
    size_t n;

    (void)sw_kube_transport_refresh(&c->t, false);
    n = sw_kube_transport_fields(&c->t, fields);
    fields[n++] = (struct sw_h1_field){SW_SLICE_LIT("User-Agent"), sw_slice_str(c->user_agent)};
    fields[n++] = (struct sw_h1_field){SW_SLICE_LIT("Accept"), SW_SLICE_LIT("application/json")};
    if (w->content_type)
        fields[n++] =
            (struct sw_h1_field){SW_SLICE_LIT("Content-Type"), sw_slice_str(w->content_type)};
    o->method = sw_slice_str(w->method);
    o->target = sw_buf_slice(&w->target);
    o->fields = fields;
    o->nfields = n;
    o->body = sw_buf_slice(&w->body);
    o->has_body = w->content_type != NULL;
    return sw_http_call_start(c->t.http, o, err);
}

/* --- answers --- */

/* What the reference calls a code when the answer does not say. */
static const char *reason_of(int code)
{
    static const struct {
        int code;
        const char *reason;
    } known[] = {
        {400, "BadRequest"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "NotFound"},
        {405, "MethodNotAllowed"},
        {406, "NotAcceptable"},
        {409, "Conflict"},
        {410, "Gone"},
        {413, "RequestEntityTooLarge"},
        {422, "Invalid"},
        {415, "UnsupportedMediaType"},
        {429, "TooManyRequests"},
        {500, "InternalError"},
        {503, "ServiceUnavailable"},
        {504, "Timeout"},
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(known); i++) {
        if (known[i].code == code)
            return known[i].reason;
    }
    return "Unknown";
}

static int rc_of(int code)
{
    if (code >= 200 && code < 300)
        return SW_OK;
    if (code == 404)
        return SW_ENOENT;
    if (code == 401 || code == 403)
        return SW_EDENIED;
    if (code >= 500)
        return SW_EUNAVAIL;
    return code >= 400 ? SW_EINVAL : SW_EPROTO;
}

/* Names and messages of a Status; code is the transport's unless there was none. */
static void fill_failure(struct sw_kube_reply *r, int code)
{
    uint64_t after = 0;
    int64_t own = 0;

    if (code == 0 && sw_json_i64(sw_json_find(r->status, "code"), &own) && own >= 400 && own < 600)
        code = (int)own;
    r->code = code ? code : 500;
    r->rc = rc_of(r->code);
    r->reason = sw_json_str(sw_json_find(r->status, "reason"));
    if (!r->reason.n)
        r->reason = sw_slice_str(reason_of(r->code));
    r->message = sw_json_str(sw_json_find(r->status, "message"));
    if (sw_json_u64(sw_json_walk(r->status, "details", "retryAfterSeconds", NULL), &after) &&
        after <= 3600 && !r->retry_after_ns)
        r->retry_after_ns = after * SW_NS_PER_S;
    if (!r->message.n)
        r->message =
            sw_slice_str(sw_arena_printf(r->arena, "the server answered %d (%.*s)", r->code,
                                         SW_SLICE_ARG(sw_slice_head(r->reason, 60))));
}

void kube_reply_from_status(struct sw_kube_reply *r, const struct sw_json *status)
{
    r->status = status;
    fill_failure(r, 0);
}

void kube_reply_decode(struct sw_kube_reply *r, int code, struct sw_slice body)
{
    struct sw_json_dups dups = {0};
    const struct sw_json_opts o = {.dups = &dups};
    struct sw_json *v = NULL;
    struct sw_err err = {0};
    int rc = SW_OK;

    if (body.n)
        rc = sw_json_parse(r->arena, body, &o, &v, &err);
    if (code >= 200 && code < 300) {
        r->code = code;
        r->rc = rc;
        r->object = v;
        if (rc != SW_OK) {
            r->rc = SW_EPROTO;
            r->reason = SW_SLICE_LIT("UnexpectedServerResponse");
            r->message = sw_slice_str(sw_arena_printf(r->arena, "answer is no JSON: %s", err.msg));
        }
        return;
    }
    if (rc == SW_OK && sw_json_str_eq(sw_json_find(v, "kind"), "Status"))
        r->status = v;
    fill_failure(r, code);
    if (!r->status && body.n && sw_utf8_valid(sw_slice_head(body, 200)))
        r->message = sw_slice_str(sw_arena_printf(r->arena, "%.*s: %.*s", SW_SLICE_ARG(r->message),
                                                  SW_SLICE_ARG(sw_slice_head(body, 200))));
}

void kube_reply_failed(struct sw_kube_reply *r, int rc, const struct sw_err *err)
{
    r->rc = rc;
    r->reason = SW_SLICE_LIT("");
    r->message = sw_slice_str(
        sw_arena_dup(r->arena, sw_slice_str(err && err->msg[0] ? err->msg : sw_rc_name(rc))));
}
