/* SPDX-License-Identifier: Apache-2.0 */
#include "http/h2client.h"

#include "base/arena.h"
#include "base/mem.h"
#include "base/time.h"

struct sw_h2client {
    struct sw_h2origin origin;
    struct sw_list waiting; /* calls without a stream */
    struct sw_list running;
    struct sw_defer start;
    bool stuck; /* the server allows no more streams */
};

struct sw_h2call {
    struct sw_list link;
    struct sw_h2client *client;
    struct sw_h2stream *stream; /* NULL: waits */
    struct sw_arena arena;      /* of the request, until it is sent */
    struct sw_h2_header *fields;
    size_t n;
    struct sw_slice body;
    struct sw_h2call_opts o;
    struct sw_buf answer;
    struct sw_timer deadline;
    bool answered;
};

static void on_start(struct sw_defer *d);

static void call_free(struct sw_h2call *k)
{
    struct sw_h2client *c = k->client;

    if (k->stream) {
        sw_h2stream_own(k->stream, NULL, NULL);
        sw_h2stream_reset(k->stream, SW_H2_CANCEL);
    }
    sw_list_unlink(&k->link);
    sw_timer_stop(c->origin.loop, &k->deadline);
    sw_buf_done(&k->answer);
    sw_arena_clear(&k->arena);
    sw_free(k);
    c->stuck = false;
    if (!sw_list_empty(&c->waiting))
        sw_loop_defer(c->origin.loop, &c->start, on_start);
}

void sw_h2call_cancel(struct sw_h2call *k)
{
    call_free(k);
}

static void finish(struct sw_h2call *k, int rc, const struct sw_err *err)
{
    void (*done)(void *, int, struct sw_slice, const struct sw_err *) = k->o.on_done;
    struct sw_buf body = k->answer;

    sw_buf_init(&k->answer, 0);
    done(k->o.arg, rc, sw_buf_slice(&body), err);
    sw_buf_done(&body);
}

/* The callback may not touch the call: it is freed before. */
static void complete(struct sw_h2call *k, int rc, const char *why)
{
    struct sw_h2call told = {.o = k->o, .answer = k->answer};
    struct sw_err err = {0};

    (void)sw_err_set(&err, rc, "%s", why);
    sw_buf_init(&k->answer, 0);
    call_free(k);
    finish(&told, rc, &err);
}

static void on_deadline(struct sw_timer *t)
{
    complete(SW_CONTAINER_OF(t, struct sw_h2call, deadline), SW_ETIME, "no answer in time");
}

/* ---- streams ---- */

static void on_head(struct sw_h2stream *st, const struct sw_h2_head *head, void *arg)
{
    struct sw_h2call *k = arg;

    k->answered = true;
    if (k->o.on_head)
        k->o.on_head(k->o.arg, head);
}

static void on_data(struct sw_h2stream *st, struct sw_slice data, void *arg)
{
    struct sw_h2call *k = arg;

    sw_h2stream_took(st, data.n);
    if (sw_buf_append_slice(&k->answer, data) != SW_OK)
        complete(k, SW_ELIMIT, "answer is too large");
}

static void on_end(struct sw_h2stream *st, void *arg)
{
    struct sw_h2call *k = arg;

    if (k->answered)
        complete(k, SW_OK, "");
    else
        complete(k, SW_EPROTO, "stream ended without an answer");
}

static void on_close(struct sw_h2stream *st, uint32_t code, void *arg)
{
    struct sw_h2call *k = arg;

    k->stream = NULL;
    complete(k, SW_ECLOSED, "connection lost, or the request was reset");
}

static const struct sw_h2stream_ops stream_ops = {
    .on_head = on_head, .on_data = on_data, .on_end = on_end, .on_close = on_close};

static void open_stream(struct sw_h2call *k)
{
    struct sw_h2client *c = k->client;
    struct sw_err err = {0};

    k->stream = sw_h2stream_open(c->origin.conn, k->fields, k->n, &stream_ops, k, &err);
    if (!k->stream) {
        c->stuck = err.rc == SW_ELIMIT && !sw_list_empty(&c->running);
        if (!c->stuck)
            complete(k, SW_ECLOSED, err.msg);
        return;
    }
    sw_list_unlink(&k->link);
    sw_list_push_back(&c->running, &k->link);
    if (k->body.n)
        (void)!sw_h2stream_send(k->stream, k->body); /* below max_queue */
    sw_h2stream_end(k->stream, NULL, 0);
    sw_arena_clear(&k->arena);
}

static void serve_waiting(struct sw_h2client *c)
{
    struct sw_h2call *k;

    while (c->origin.open && !c->stuck && (k = SW_LIST_FIRST(&c->waiting, struct sw_h2call, link)))
        open_stream(k);
}

static void on_origin_open(struct sw_h2origin *r)
{
    struct sw_h2client *c = SW_CONTAINER_OF(r, struct sw_h2client, origin);

    c->stuck = false;
    serve_waiting(c);
}

static void fail_all(struct sw_list *calls, const char *why)
{
    struct sw_list failed;
    struct sw_h2call *k;

    sw_list_init(&failed);
    sw_list_splice(&failed, calls);
    while ((k = SW_LIST_FIRST(&failed, struct sw_h2call, link)))
        complete(k, SW_ECLOSED, why);
}

static void on_origin_down(struct sw_h2origin *r, const char *why)
{
    struct sw_h2client *c = SW_CONTAINER_OF(r, struct sw_h2client, origin);

    c->stuck = false;
    fail_all(&c->waiting, why); /* those with a stream got on_close */
}

static void on_start(struct sw_defer *d)
{
    struct sw_h2client *c = SW_CONTAINER_OF(d, struct sw_h2client, start);

    if (c->origin.open)
        serve_waiting(c);
    else if (!sw_list_empty(&c->waiting))
        sw_h2origin_want(&c->origin);
}

/* ---- calls ---- */

static void copy_request(struct sw_h2call *k, const struct sw_h2call_opts *o)
{
    const struct sw_h2origin *r = &k->client->origin;
    const struct sw_h2_header fixed[] = {
        {SW_SLICE_LIT(":method"), o->method},
        {SW_SLICE_LIT(":scheme"), r->o.conn.cred ? SW_SLICE_LIT("https") : SW_SLICE_LIT("http")},
        {SW_SLICE_LIT(":authority"), sw_slice_str(r->authority)},
        {SW_SLICE_LIT(":path"), o->path},
    };
    size_t n = sw_min(o->n, SW_H2CALL_FIELDS);

    k->fields = sw_arena_array(&k->arena, SW_ARRAY_LEN(fixed) + n, sizeof(*k->fields));
    for (size_t i = 0; i < SW_ARRAY_LEN(fixed) + n; i++) {
        const struct sw_h2_header *f =
            i < SW_ARRAY_LEN(fixed) ? &fixed[i] : &o->fields[i - SW_ARRAY_LEN(fixed)];

        k->fields[k->n].name = sw_arena_slice(&k->arena, f->name);
        k->fields[k->n++].value = sw_arena_slice(&k->arena, f->value);
    }
    k->body = sw_arena_slice(&k->arena, o->body);
}

struct sw_h2call *sw_h2call_start(struct sw_h2client *c, const struct sw_h2call_opts *o)
{
    struct sw_h2call *k = SW_NEW(struct sw_h2call);

    k->client = c;
    k->o = *o;
    copy_request(k, o);
    sw_buf_init(&k->answer, o->max_body);
    sw_list_push_back(&c->waiting, &k->link);
    sw_timer_start(c->origin.loop, &k->deadline, o->timeout_ns, on_deadline);
    sw_loop_defer(c->origin.loop, &c->start, on_start);
    return k;
}

struct sw_h2client *sw_h2client_new(struct sw_loop *l, const struct sw_h2origin_opts *o,
                                    struct sw_err *err)
{
    struct sw_h2client *c = SW_NEW(struct sw_h2client);
    struct sw_h2origin_opts opts = *o;

    opts.on_open = on_origin_open;
    opts.on_down = on_origin_down;
    sw_list_init(&c->waiting);
    sw_list_init(&c->running);
    if (sw_h2origin_init(&c->origin, l, &opts, err) == SW_OK)
        return c;
    sw_free(c);
    return NULL;
}

void sw_h2client_retire(struct sw_h2client *c)
{
    sw_h2origin_retire(&c->origin);
    c->stuck = false;
    if (!sw_list_empty(&c->waiting))
        sw_loop_defer(c->origin.loop, &c->start, on_start);
}

void sw_h2client_set_cred(struct sw_h2client *c, struct sw_tls_cred *cred)
{
    sw_h2origin_set_cred(&c->origin, cred);
    sw_h2client_retire(c);
}

bool sw_h2client_disagreed(const struct sw_h2client *c)
{
    return c->origin.disagreed;
}

void sw_h2client_free(struct sw_h2client *c)
{
    if (!c)
        return;
    fail_all(&c->waiting, "client is closed");
    fail_all(&c->running, "client is closed");
    sw_defer_cancel(&c->start);
    sw_h2origin_done(&c->origin);
    sw_free(c);
}
