/* SPDX-License-Identifier: Apache-2.0 */
/* The server half of gRPC: methods by path, refusals, the status at the end. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "http/grpc/grpc_int.h"
#include "http/h2serve.h"

struct sw_grpc_server {
    struct sw_loop *loop; /* borrowed */
    struct sw_grpc_server_opts o;
    struct sw_h2serve *serve;
    struct sw_map methods; /* path -> struct sw_grpc_method, owned */
    struct sw_list calls;
    size_t n_calls;
    size_t in_total;
    void (*plain)(struct sw_h2stream *st, const struct sw_h2_head *head, void *arg);
    void *plain_arg;
};

void grpc_server_bad(struct sw_grpc_call *c, enum sw_grpc_status status, const char *why)
{
    if (!c->finished)
        (void)!sw_buf_append_slice(&c->message, sw_slice_str(why));
    sw_grpc_finish(c, status, "%s", why);
}

void grpc_server_account(struct sw_grpc_call *c)
{
    struct sw_grpc_server *s = c->server;
    size_t now = sw_buf_len(&c->reader.buf);

    s->in_total += now;
    s->in_total -= c->accounted;
    c->accounted = now;
    if (s->in_total > s->o.max_in && now && !c->finished) {
        c->broken = true;
        grpc_server_bad(c, SW_GRPC_RESOURCE_EXHAUSTED, "server is short of memory");
    }
}

/* --- streams --- */

static void on_data(struct sw_h2stream *st, struct sw_slice data, void *arg)
{
    grpc_call_data(arg, data);
}

static void on_end(struct sw_h2stream *st, void *arg)
{
    grpc_call_end(arg);
}

static void on_drain(struct sw_h2stream *st, void *arg)
{
    struct sw_grpc_call *c = arg;

    if (c->ops && c->ops->on_drain && !c->finished)
        c->ops->on_drain(c, c->arg);
}

static void on_close(struct sw_h2stream *st, uint32_t code, void *arg)
{
    struct sw_grpc_call *c = arg;
    bool ok = c->finished && code == SW_H2_NO_ERROR;

    c->stream = NULL;
    if (c->ops && c->ops->on_done)
        c->ops->on_done(c, ok ? SW_GRPC_OK : SW_GRPC_CANCELLED, sw_buf_slice(&c->message), c->arg);
    c->server->in_total -= c->accounted;
    c->server->n_calls--;
    grpc_call_done(c);
}

static const struct sw_h2stream_ops stream_ops = {
    .on_data = on_data, .on_end = on_end, .on_drain = on_drain, .on_close = on_close};

/* --- answering --- */

enum { HEAD_FIELDS = 2 };

static void head_fields(struct sw_h2_header out[HEAD_FIELDS])
{
    out[0] = (struct sw_h2_header){SW_SLICE_LIT(":status"), SW_SLICE_LIT("200")};
    out[1] = (struct sw_h2_header){SW_SLICE_LIT("content-type"), SW_SLICE_LIT("application/grpc")};
}

static void respond(struct sw_grpc_call *c)
{
    struct sw_h2_header h[HEAD_FIELDS];

    if (c->responded || !c->stream)
        return;
    c->responded = true;
    head_fields(h);
    sw_h2stream_respond(c->stream, h, HEAD_FIELDS, false);
}

void sw_grpc_accept(struct sw_grpc_call *c, const struct sw_grpc_ops *ops, void *arg)
{
    c->ops = ops;
    c->arg = arg;
    respond(c);
}

void sw_grpc_finish(struct sw_grpc_call *c, enum sw_grpc_status status, const char *fmt, ...)
{
    struct sw_h2_header h[HEAD_FIELDS + 2];
    SW_BUF_AUTO text = {0};
    char msg[GRPC_TEXT_MAX];
    char code[8];
    size_t n = HEAD_FIELDS;
    va_list ap;

    if (c->finished || !c->stream)
        return;
    c->finished = true;
    va_start(ap, fmt);
    (void)vsnprintf(msg, sizeof(msg), fmt, ap);
    va_end(ap);
    sw_buf_init(&text, GRPC_TEXT_MAX);
    sw_grpc_message_encode(sw_slice_str(msg), &text);
    (void)snprintf(code, sizeof(code), "%d", (int)status);
    head_fields(h);
    h[n++] = (struct sw_h2_header){SW_SLICE_LIT("grpc-status"), sw_slice_str(code)};
    if (sw_buf_len(&text))
        h[n++] = (struct sw_h2_header){SW_SLICE_LIT("grpc-message"), sw_buf_slice(&text)};
    if (c->responded)
        sw_h2stream_end(c->stream, h + HEAD_FIELDS, n - HEAD_FIELDS);
    else
        sw_h2stream_respond(c->stream, h, n, true);
    c->responded = true;
}

void sw_grpc_reply(struct sw_grpc_call *c, struct sw_slice msg)
{
    respond(c);
    if (sw_grpc_send(c, msg) == SW_OK)
        sw_grpc_finish(c, SW_GRPC_OK, "%s", "");
    else
        sw_grpc_finish(c, SW_GRPC_RESOURCE_EXHAUSTED, "answer is too large");
}

/* --- unary methods --- */

static void unary_message(struct sw_grpc_call *c, struct sw_slice msg, void *arg)
{
    if (!c->has_request)
        sw_buf_init(&c->request, msg.n + 1);
    if (c->has_request || sw_buf_append_slice(&c->request, msg) != SW_OK)
        sw_grpc_finish(c, SW_GRPC_INVALID_ARGUMENT, "more than one message in a unary call");
    c->has_request = true;
}

static void unary_end(struct sw_grpc_call *c, void *arg)
{
    if (!c->has_request)
        sw_grpc_finish(c, SW_GRPC_INVALID_ARGUMENT, "no message in a unary call");
    else
        c->method->unary(c, sw_buf_slice(&c->request), c->method->arg);
    sw_grpc_finish(c, SW_GRPC_INTERNAL, "no answer"); /* nothing when there was one */
}

static const struct sw_grpc_ops unary_ops = {.on_message = unary_message, .on_end = unary_end};

/* --- requests --- */

static struct sw_slice bearer(const struct sw_h2_head *head)
{
    struct sw_slice v = sw_h2_head_get(head, "authorization");
    static const struct sw_slice scheme = SW_SLICE_LIT("bearer ");

    if (v.n <= scheme.n || !sw_slice_ieq(sw_slice_head(v, scheme.n), scheme))
        return (struct sw_slice){0};
    return sw_slice_trim(sw_slice_from(v, scheme.n));
}

static void refuse_http(struct sw_h2stream *st, const char *status)
{
    struct sw_h2_header h = {SW_SLICE_LIT(":status"), sw_slice_str(status)};
    static const struct sw_h2stream_ops nobody;

    sw_h2stream_own(st, &nobody, NULL);
    sw_h2stream_respond(st, &h, 1, true);
}

static bool plain_encoding(const struct sw_h2_head *head)
{
    struct sw_slice e = sw_h2_head_get(head, "grpc-encoding");

    return e.n == 0 || sw_slice_eq_str(e, "identity");
}

static void dispatch(struct sw_grpc_call *c, const struct sw_h2_head *head)
{
    struct sw_grpc_server *s = c->server;
    struct sw_h2conn *conn = sw_h2stream_conn(c->stream);
    struct sw_grpc_request req = {.head = head,
                                  .token = bearer(head),
                                  .addr = sw_h2conn_peer_addr(conn),
                                  .cert = sw_h2conn_peer(conn)};
    const struct sw_grpc_method *m = sw_map_get(&s->methods, head->path);
    struct sw_err err = {0};

    if (s->n_calls > s->o.max_calls) {
        sw_grpc_finish(c, SW_GRPC_RESOURCE_EXHAUSTED, "too many calls");
        return;
    }
    if (s->o.allow && !(m && m->judges) && s->o.allow(s->o.arg, &req, &err) != SW_OK) {
        sw_grpc_finish(c, SW_GRPC_UNAUTHENTICATED, "%s", err.msg);
        return;
    }
    if (!m || !plain_encoding(head)) {
        sw_grpc_finish(c, SW_GRPC_UNIMPLEMENTED,
                       m ? "compression is not supported" : "no such method");
        return;
    }
    c->method = m;
    if (m->unary) {
        c->ops = &unary_ops;
        return;
    }
    m->open(c, &req, m->arg);
    if (!c->ops)
        sw_grpc_finish(c, SW_GRPC_INTERNAL, "call was not taken");
}

static void on_request(struct sw_h2stream *st, const struct sw_h2_head *head, void *arg)
{
    struct sw_grpc_server *s = arg;
    struct sw_grpc_call *c;
    bool is_grpc =
        sw_slice_has_prefix(sw_h2_head_get(head, "content-type"), SW_SLICE_LIT("application/grpc"));

    if (!is_grpc && s->plain) {
        s->plain(st, head, s->plain_arg);
        return;
    }
    if (!sw_slice_eq_str(head->method, "POST")) {
        refuse_http(st, "405");
        return;
    }
    if (!is_grpc) {
        refuse_http(st, "415");
        return;
    }
    c = SW_NEW(struct sw_grpc_call);
    c->server = s;
    c->loop = s->loop;
    c->stream = st;
    sw_grpc_reader_init(&c->reader, s->o.max_message);
    sw_buf_init(&c->message, GRPC_TEXT_MAX);
    sw_list_push_back(&s->calls, &c->link);
    s->n_calls++;
    sw_h2stream_own(st, &stream_ops, c);
    dispatch(c, head);
}

/* --- the whole --- */

struct sw_grpc_server *sw_grpc_server_new(struct sw_loop *l, const struct sw_grpc_server_opts *o)
{
    struct sw_grpc_server *s = SW_NEW(struct sw_grpc_server);

    s->loop = l;
    s->o = *o;
    s->o.max_calls = o->max_calls ? o->max_calls : 4096;
    s->o.max_message = o->max_message ? o->max_message : (size_t)4 << 20;
    s->o.max_in = o->max_in ? o->max_in : (size_t)256 << 20;
    sw_list_init(&s->calls);
    s->serve =
        sw_h2serve_new(l, &(struct sw_h2serve_opts){.conn = {.scope = o->scope ? o->scope : "grpc",
                                                             .cred = o->cred,
                                                             .max_streams = o->conn_calls,
                                                             .max_queue = o->max_queue},
                                                    .max_conns = o->max_conns,
                                                    .on_request = on_request,
                                                    .arg = s});
    return s;
}

void sw_grpc_server_free(struct sw_grpc_server *s)
{
    if (!s)
        return;
    sw_h2serve_free(s->serve);
    SW_MAP_DRAIN(&s->methods, sw_free);
    sw_free(s);
}

void sw_grpc_server_methods(struct sw_grpc_server *s, const struct sw_grpc_method *m, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct sw_grpc_method *own = SW_NEW(struct sw_grpc_method);

        *own = m[i];
        sw_free(sw_map_put(&s->methods, sw_slice_str(own->path), own));
    }
}

void sw_grpc_server_plain(struct sw_grpc_server *s,
                          void (*fn)(struct sw_h2stream *st, const struct sw_h2_head *head,
                                     void *arg),
                          void *arg)
{
    s->plain = fn;
    s->plain_arg = arg;
}

int sw_grpc_server_listen(struct sw_grpc_server *s, const struct sw_addr *at,
                          struct sw_addr *ret_bound, struct sw_err *err)
{
    return sw_h2serve_listen(s->serve, at, ret_bound, err);
}

void sw_grpc_server_adopt(struct sw_grpc_server *s, int fd)
{
    sw_h2serve_adopt(s->serve, fd);
}

void sw_grpc_server_set_cred(struct sw_grpc_server *s, struct sw_tls_cred *cred)
{
    sw_h2serve_set_cred(s->serve, cred);
}

void sw_grpc_server_stop(struct sw_grpc_server *s, uint64_t deadline_ns, void (*on_done)(void *arg),
                         void *arg)
{
    sw_h2serve_stop(s->serve, deadline_ns, on_done, arg);
}

size_t sw_grpc_server_calls(const struct sw_grpc_server *s)
{
    return s->n_calls;
}
