/* SPDX-License-Identifier: Apache-2.0 */
/* Responses: heads, bodies, compression, streams. */
#include <stdarg.h>
#include <stdio.h>

#include "base/log.h"
#include "base/time.h"
#include "http/grammar.h"
#include "http/gzip.h"
#include "http/server_int.h"

enum {
    GZIP_FROM = 1024,
    TEXT_MAX = 1024,
};

void sw_http_set(struct sw_http_resp *r, const char *name, struct sw_slice value)
{
    struct conn *c = conn_of(r);

    if (sw_h1_put_field(&r->fields, sw_slice_str(name), value) != SW_OK)
        sw_log_warn(c->server->opts.scope, "response field '%s' dropped: bad or too long", name);
    else if (sw_slice_ieq(sw_slice_str(name), SW_SLICE_LIT("content-encoding")))
        r->has_encoding = true;
}

/* Everything but the framing line and the empty one. */
static int put_head(struct conn *c, int status, const char *content_type)
{
    struct sw_buf *out = &c->out;
    int minor = c->req.msg ? c->req.msg->minor : 1;
    char date[SW_HTTP_DATE_LEN];
    int rc = sw_h1_put_status(out, status, (struct sw_slice){0}, 1);

    if (rc == SW_OK)
        rc = sw_h1_put_field_str(out, "Date", sw_http_date(sw_wall_ns() / SW_NS_PER_S, date));
    if (rc == SW_OK && content_type)
        rc = sw_h1_put_field_str(out, "Content-Type", content_type);
    if (rc == SW_OK)
        rc = sw_h1_put_field_str(out, "X-Content-Type-Options", "nosniff");
    if (rc == SW_OK && c->close_after)
        rc = sw_h1_put_field_str(out, "Connection", "close");
    else if (rc == SW_OK && minor == 0)
        rc = sw_h1_put_field_str(out, "Connection", "keep-alive");
    if (rc == SW_OK)
        rc = sw_buf_append_slice(out, sw_buf_slice(&c->resp.fields));
    return rc;
}

/* True when *body was replaced by its compressed form. */
static bool compress(struct conn *c, struct sw_buf *body)
{
    const struct sw_slice *accept = NULL;
    struct sw_buf small;

    if (c->req.msg)
        accept = sw_h1_field(c->req.msg, "accept-encoding");
    if (!accept || c->resp.has_encoding || !sw_gzip_accepted(*accept))
        return false;
    /* Not worth it when it does not shrink: then the limit stops it. */
    sw_buf_init(&small, sw_buf_len(body) + 32768);
    if (sw_gzip(sw_buf_slice(body), &small) != SW_OK || sw_buf_len(&small) >= sw_buf_len(body)) {
        sw_buf_done(&small);
        return false;
    }
    sw_buf_done(body);
    *body = small;
    return true;
}

void conn_respond(struct conn *c, int status, const char *content_type, struct sw_buf *body)
{
    bool large = sw_buf_len(body) > GZIP_FROM;
    bool gzip = large && compress(c, body);
    bool bodiless = status < 200 || status == 204 || status == 304;
    int rc = put_head(c, status, content_type);

    if (rc == SW_OK && large)
        rc = sw_h1_put_field_str(&c->out, "Vary", "Accept-Encoding");
    if (rc == SW_OK && gzip)
        rc = sw_h1_put_field_str(&c->out, "Content-Encoding", "gzip");
    if (rc == SW_OK && !bodiless)
        rc = sw_h1_put_length(&c->out, sw_buf_len(body));
    if (rc == SW_OK)
        rc = sw_h1_put_end(&c->out);
    if (rc != SW_OK)
        c->close_after = true; /* cannot happen with our limits; close rather than guess */
    if (c->no_payload || bodiless || rc != SW_OK)
        sw_buf_done(body);
    sw_buf_done(&c->payload);
    c->payload = *body;
    *body = (struct sw_buf){.max = body->max};
    c->state = CONN_FLUSH;
    conn_account(c);
}

void sw_http_send_buf(struct sw_http_resp *r, int status, const char *content_type,
                      struct sw_buf *body)
{
    struct conn *c = conn_of(r);
    struct sw_http_server *s = c->server;

    if (c->state != CONN_HANDLE && c->state != CONN_ZOMBIE) {
        sw_log_warn(s->opts.scope, "a second response to one request was dropped");
        sw_buf_done(body);
        return;
    }
    if (c->state == CONN_ZOMBIE) {
        sw_buf_done(body);
        c->state = CONN_DEAD;
        conn_wake(c);
        return;
    }
    if (sw_buf_len(body) > s->opts.max_out - sw_min(s->out_total, s->opts.max_out)) {
        sw_log_warn(s->opts.scope, "response of %zu bytes refused: slow clients hold %zu already",
                    sw_buf_len(body), s->out_total);
        sw_buf_done(body);
        status = 503;
        content_type = NULL;
    }
    conn_respond(c, status, content_type, body);
    conn_wake(c);
}

void sw_http_send(struct sw_http_resp *r, int status, const char *content_type,
                  struct sw_slice body)
{
    struct sw_buf copy;

    sw_buf_init(&copy, body.n);
    if (sw_buf_append_slice(&copy, body) != SW_OK)
        status = 500;
    sw_http_send_buf(r, status, content_type, &copy);
}

void sw_http_send_text(struct sw_http_resp *r, int status, const char *fmt, ...)
{
    char text[TEXT_MAX];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    sw_http_send(r, status, "text/plain; charset=utf-8", sw_slice_str(text));
}

void sw_http_send_not_allowed(struct sw_http_resp *r, const char *allow)
{
    sw_http_set(r, "Allow", sw_slice_str(allow));
    sw_http_send_text(r, 405, "method not allowed, use %s\n", allow);
}

bool sw_http_only_get(const struct sw_http_req *req, struct sw_http_resp *r)
{
    if (sw_slice_eq_str(req->msg->method, "GET") || sw_slice_eq_str(req->msg->method, "HEAD"))
        return true;
    sw_http_send_not_allowed(r, "GET, HEAD");
    return false;
}

void sw_http_stream_begin(struct sw_http_resp *r, int status, const char *content_type,
                          void (*on_gone)(void *arg), void *arg)
{
    struct conn *c = conn_of(r);
    int rc;

    sw_http_on_gone(r, on_gone, arg);
    if (c->state != CONN_HANDLE)
        return; /* a zombie stays one until sw_http_stream_end */
    r->chunked = c->req.msg->minor == 1;
    c->close_after |= !r->chunked;
    rc = put_head(c, status, content_type);
    if (rc == SW_OK && r->chunked)
        rc = sw_h1_put_chunked(&c->out);
    if (rc == SW_OK)
        rc = sw_h1_put_end(&c->out);
    if (rc != SW_OK)
        c->close_after = true;
    c->state = CONN_STREAM;
    conn_account(c);
    conn_wake(c);
}

int sw_http_stream_write(struct sw_http_resp *r, struct sw_slice data)
{
    struct conn *c = conn_of(r);
    struct sw_http_server *s = c->server;
    int rc;

    if (c->state != CONN_STREAM)
        return SW_ECLOSED;
    if (c->no_payload)
        return SW_OK;
    if (data.n > s->opts.max_out - sw_min(s->out_total, s->opts.max_out))
        return SW_ELIMIT;
    rc = r->chunked ? sw_h1_put_chunk(&c->out, data) : sw_buf_append_slice(&c->out, data);
    conn_account(c);
    conn_wake(c);
    return rc;
}

size_t sw_http_stream_pending(struct sw_http_resp *r)
{
    return sw_buf_len(&conn_of(r)->out);
}

void sw_http_stream_end(struct sw_http_resp *r)
{
    struct conn *c = conn_of(r);

    if (c->state == CONN_STREAM) {
        if (r->chunked && !c->no_payload && sw_h1_put_last_chunk(&c->out) != SW_OK)
            c->close_after = true; /* the client sees the cut body */
        c->state = CONN_FLUSH;
        conn_account(c);
    } else if (c->state == CONN_ZOMBIE) {
        c->state = CONN_DEAD;
    }
    conn_wake(c);
}

void sw_http_on_gone(struct sw_http_resp *r, void (*on_gone)(void *arg), void *arg)
{
    r->on_gone = on_gone;
    r->gone_arg = arg;
}
