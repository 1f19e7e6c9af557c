/* SPDX-License-Identifier: Apache-2.0 */
/* The client half of gRPC: one connection to one server, made when a call needs it. */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "http/grpc/grpc_int.h"
#include "http/h2origin.h"

/* Streams of xDS are silent for hours, and a server that is gone without a word must not be. */
static const uint64_t pong_ns = 10 * SW_NS_PER_S;

struct sw_grpc_client {
    struct sw_h2origin origin;
    struct sw_grpc_client_opts o;
    struct sw_arena arena; /* of o.headers */
    struct sw_list calls;
    struct sw_defer start;
};

/* --- ends --- */

void grpc_client_release(struct sw_grpc_call *c)
{
    if (c->stream) {
        sw_h2stream_own(c->stream, NULL, NULL);
        sw_h2stream_reset(c->stream, SW_H2_CANCEL);
        c->stream = NULL;
    }
    grpc_call_done(c);
}

static void complete(struct sw_grpc_call *c, enum sw_grpc_status status, struct sw_slice text)
{
    const struct sw_grpc_ops *ops = c->ops;

    c->finished = true;
    c->ops = NULL;
    if (ops && ops->on_done)
        ops->on_done(c, status, text, c->arg);
    if (c->delivering)
        c->cancelled = true; /* freed by the delivery under way */
    else
        grpc_client_release(c);
}

void grpc_client_fail(struct sw_grpc_call *c, enum sw_grpc_status status, const char *why)
{
    complete(c, status, sw_slice_str(why));
}

void sw_grpc_cancel(struct sw_grpc_call *c)
{
    c->ops = NULL;
    if (c->delivering)
        c->cancelled = true;
    else
        grpc_client_release(c);
}

static void on_deadline(struct sw_timer *t)
{
    grpc_client_fail(SW_CONTAINER_OF(t, struct sw_grpc_call, deadline), SW_GRPC_DEADLINE_EXCEEDED,
                     "no answer in time");
}

/* --- streams --- */

static enum sw_grpc_status from_http(unsigned status)
{
    switch (status) {
    case 400:
        return SW_GRPC_INTERNAL;
    case 401:
        return SW_GRPC_UNAUTHENTICATED;
    case 403:
        return SW_GRPC_PERMISSION_DENIED;
    case 404:
        return SW_GRPC_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504:
        return SW_GRPC_UNAVAILABLE;
    default:
        return SW_GRPC_UNKNOWN;
    }
}

static enum sw_grpc_status from_text(struct sw_slice v)
{
    uint64_t code;

    if (!sw_slice_to_u64(v, SW_GRPC_UNAUTHENTICATED, &code))
        return SW_GRPC_UNKNOWN;
    return (enum sw_grpc_status)code;
}

static void take_status(struct sw_grpc_call *c, const struct sw_h2_head *head)
{
    struct sw_slice v = sw_h2_head_get(head, "grpc-status");

    if (!v.p)
        return;
    c->has_status = true;
    c->status = from_text(v);
    sw_buf_clear(&c->message);
    sw_grpc_message_decode(sw_h2_head_get(head, "grpc-message"), &c->message);
}

static void on_head(struct sw_h2stream *st, const struct sw_h2_head *head, void *arg)
{
    struct sw_grpc_call *c = arg;

    take_status(c, head);
    if (head->status == 200 || c->has_status)
        return;
    c->has_status = true;
    c->status = from_http(head->status);
    if (sw_buf_printf(&c->message, "HTTP status %u", head->status) != SW_OK)
        sw_buf_clear(&c->message);
    c->broken = true; /* its body is no message */
}

static void on_trailers(struct sw_h2stream *st, const struct sw_h2_head *head, void *arg)
{
    take_status(arg, head);
}

static void on_data(struct sw_h2stream *st, struct sw_slice data, void *arg)
{
    grpc_call_data(arg, data);
}

void grpc_client_ended(struct sw_grpc_call *c)
{
    if (c->has_status)
        complete(c, c->status, sw_buf_slice(&c->message));
    else
        grpc_client_fail(c, SW_GRPC_INTERNAL, "stream ended without a status");
}

static void on_end(struct sw_h2stream *st, void *arg)
{
    struct sw_grpc_call *c = arg;

    c->remote_end = true;
    if (c->broken)
        grpc_client_ended(c);
    else
        grpc_call_end(c);
}

static void on_drain(struct sw_h2stream *st, void *arg)
{
    struct sw_grpc_call *c = arg;

    if (c->ops && c->ops->on_drain)
        c->ops->on_drain(c, c->arg);
}

static void on_close(struct sw_h2stream *st, uint32_t code, void *arg)
{
    struct sw_grpc_call *c = arg;
    char why[64];

    c->stream = NULL;
    if (c->remote_end)
        return; /* a paused owner has messages to read; the status comes behind them */
    (void)snprintf(why, sizeof(why), "stream was closed with code %u", (unsigned)code);
    grpc_client_fail(c, SW_GRPC_UNAVAILABLE, why);
}

static const struct sw_h2stream_ops stream_ops = {.on_head = on_head,
                                                  .on_data = on_data,
                                                  .on_trailers = on_trailers,
                                                  .on_end = on_end,
                                                  .on_drain = on_drain,
                                                  .on_close = on_close};

static void open_stream(struct sw_grpc_call *c)
{
    struct sw_grpc_client *cl = c->client;
    struct sw_h2_header h[9 + SW_GRPC_METADATA_MAX] = {
        {SW_SLICE_LIT(":method"), SW_SLICE_LIT("POST")},
        {SW_SLICE_LIT(":scheme"),
         cl->origin.o.conn.cred ? SW_SLICE_LIT("https") : SW_SLICE_LIT("http")},
        {SW_SLICE_LIT(":path"), sw_slice_str(c->path)},
        {SW_SLICE_LIT(":authority"), sw_slice_str(cl->origin.authority)},
        {SW_SLICE_LIT("content-type"), SW_SLICE_LIT("application/grpc")},
        {SW_SLICE_LIT("te"), SW_SLICE_LIT("trailers")},
        {SW_SLICE_LIT("user-agent"), SW_SLICE_LIT("spanwire/" SW_VERSION)},
    };
    struct sw_err err = {0};
    char timeout[32];
    size_t n = 7;

    if (c->token)
        h[n++] = (struct sw_h2_header){SW_SLICE_LIT("authorization"), sw_slice_str(c->token)};
    if (c->timeout_ns) {
        (void)snprintf(timeout, sizeof(timeout), "%llum",
                       (unsigned long long)(c->timeout_ns / SW_NS_PER_MS + 1) % 100000000);
        h[n++] = (struct sw_h2_header){SW_SLICE_LIT("grpc-timeout"), sw_slice_str(timeout)};
    }
    for (size_t i = 0; i < cl->o.n_headers; i++)
        h[n++] = cl->o.headers[i];
    c->stream = sw_h2stream_open(cl->origin.conn, h, n, &stream_ops, c, &err);
    if (!c->stream) {
        grpc_client_fail(c, SW_GRPC_UNAVAILABLE, err.msg);
        return;
    }
    if (sw_buf_len(&c->early) && sw_h2stream_send(c->stream, sw_buf_slice(&c->early)) != SW_OK) {
        grpc_client_fail(c, SW_GRPC_RESOURCE_EXHAUSTED, "request is too large");
        return;
    }
    sw_buf_done(&c->early);
    if (c->early_end)
        sw_h2stream_end(c->stream, NULL, 0);
}

/* --- connecting --- */

/* Calls without a stream fail with the reason. */
static void fail_waiting(struct sw_grpc_client *cl, const char *why)
{
    struct sw_list waiting;
    struct sw_grpc_call *c;

    sw_list_init(&waiting);
    sw_list_splice(&waiting, &cl->calls);
    while ((c = SW_LIST_POP(&waiting, struct sw_grpc_call, link))) {
        sw_list_push_back(&cl->calls, &c->link);
        if (!c->stream)
            grpc_client_fail(c, SW_GRPC_UNAVAILABLE, why);
    }
}

static void open_waiting(struct sw_grpc_client *cl)
{
    SW_LIST_EACH (struct sw_grpc_call, c, &cl->calls, link) {
        if (!c->stream)
            open_stream(c);
    }
}

static void on_origin_open(struct sw_h2origin *r)
{
    open_waiting(SW_CONTAINER_OF(r, struct sw_grpc_client, origin));
}

static void on_origin_down(struct sw_h2origin *r, const char *why)
{
    fail_waiting(SW_CONTAINER_OF(r, struct sw_grpc_client, origin), why);
}

static void on_start(struct sw_defer *d)
{
    struct sw_grpc_client *cl = SW_CONTAINER_OF(d, struct sw_grpc_client, start);

    if (cl->origin.open)
        open_waiting(cl);
    else if (!sw_list_empty(&cl->calls))
        sw_h2origin_want(&cl->origin);
}

/* --- calls --- */

struct sw_grpc_call *sw_grpc_call(struct sw_grpc_client *cl, struct sw_slice path,
                                  struct sw_slice token, uint64_t timeout_ns,
                                  const struct sw_grpc_ops *ops, void *arg)
{
    struct sw_grpc_call *c = SW_NEW(struct sw_grpc_call);

    c->client = cl;
    c->loop = cl->origin.loop;
    c->ops = ops;
    c->arg = arg;
    c->path = sw_slice_dup(path);
    if (token.n)
        c->token = sw_asprintf("Bearer %.*s", SW_SLICE_ARG(token));
    c->timeout_ns = timeout_ns;
    sw_grpc_reader_init(&c->reader, cl->o.max_message);
    sw_buf_init(&c->early, cl->o.max_queue);
    sw_buf_init(&c->message, GRPC_TEXT_MAX);
    sw_list_push_back(&cl->calls, &c->link);
    if (timeout_ns)
        sw_timer_start(cl->origin.loop, &c->deadline, timeout_ns, on_deadline);
    sw_loop_defer(cl->origin.loop, &cl->start, on_start);
    return c;
}

void sw_grpc_end(struct sw_grpc_call *c)
{
    c->early_end = true;
    if (c->stream)
        sw_h2stream_end(c->stream, NULL, 0);
}

/* --- the whole --- */

static void copy_headers(struct sw_grpc_client *cl, const struct sw_grpc_client_opts *o)
{
    struct sw_h2_header *to = sw_arena_array(&cl->arena, o->n_headers + 1, sizeof(*to));

    for (size_t i = 0; i < o->n_headers; i++) {
        to[i].name = sw_arena_slice(&cl->arena, o->headers[i].name);
        to[i].value = sw_arena_slice(&cl->arena, o->headers[i].value);
    }
    cl->o.headers = to;
}

struct sw_grpc_client *sw_grpc_client_new(struct sw_loop *l, const struct sw_grpc_client_opts *o,
                                          struct sw_err *err)
{
    struct sw_grpc_client *cl;
    struct sw_h2origin_opts at = {
        .conn = {.scope = o->scope ? o->scope : "grpc",
                 .cred = o->cred,
                 .leaf_ok = o->leaf_ok,
                 .leaf_arg = o->leaf_arg,
                 .insecure_skip = o->insecure_skip,
                 .stream_window = o->window,
                 .max_queue = o->max_queue ? o->max_queue : (size_t)64 << 20,
                 .open_timeout_ns = o->connect_timeout_ns,
                 .pong_ns = pong_ns},
        .host = o->host,
        .port = o->port,
        .tls_name = o->tls_name,
        .authority = o->authority,
        .mark = o->mark,
        .on_open = on_origin_open,
        .on_down = on_origin_down,
    };

    if (o->n_headers > SW_GRPC_METADATA_MAX) {
        (void)sw_err_set(err, SW_EINVAL, "%zu headers of metadata, allowed are %d", o->n_headers,
                         SW_GRPC_METADATA_MAX);
        return NULL;
    }
    cl = SW_NEW(struct sw_grpc_client);
    if (sw_h2origin_init(&cl->origin, l, &at, err) != SW_OK) {
        sw_free(cl);
        return NULL;
    }
    cl->o = *o;
    cl->o.max_message = o->max_message ? o->max_message : (size_t)4 << 20;
    cl->o.max_queue = at.conn.max_queue;
    copy_headers(cl, o);
    sw_list_init(&cl->calls);
    return cl;
}

void sw_grpc_client_set_cred(struct sw_grpc_client *cl, struct sw_tls_cred *cred)
{
    sw_h2origin_set_cred(&cl->origin, cred);
}

void sw_grpc_client_free(struct sw_grpc_client *cl)
{
    struct sw_grpc_call *c;

    if (!cl)
        return;
    sw_defer_cancel(&cl->start);
    while ((c = SW_LIST_FIRST(&cl->calls, struct sw_grpc_call, link)))
        grpc_client_fail(c, SW_GRPC_CANCELLED, "client is closed");
    sw_h2origin_done(&cl->origin);
    sw_arena_clear(&cl->arena);
    sw_free(cl);
}
