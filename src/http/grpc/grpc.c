/* SPDX-License-Identifier: Apache-2.0 */
/* Framing, and what calls of servers and clients have in common. */
#include "http/grpc/grpc.h"

#include <string.h>

#include "base/hex.h"
#include "base/mem.h"
#include "http/grpc/grpc_int.h"

enum { READER_SLACK = 1 << 20 }; /* beyond one message: what a window lets through */

/* --- framing --- */

void sw_grpc_reader_init(struct sw_grpc_reader *r, size_t max)
{
    *r = (struct sw_grpc_reader){.max = max};
    sw_buf_init(&r->buf, max + SW_GRPC_HEAD + READER_SLACK);
}

void sw_grpc_reader_done(struct sw_grpc_reader *r)
{
    sw_buf_done(&r->buf);
    r->taken = 0;
}

static void drop_taken(struct sw_grpc_reader *r)
{
    sw_buf_consume(&r->buf, r->taken);
    r->taken = 0;
}

int sw_grpc_reader_feed(struct sw_grpc_reader *r, struct sw_slice data, struct sw_err *err)
{
    drop_taken(r);
    if (sw_buf_append_slice(&r->buf, data) != SW_OK)
        return sw_err_set(err, SW_ELIMIT, "too many bytes wait to be read");
    return SW_OK;
}

int sw_grpc_reader_next(struct sw_grpc_reader *r, struct sw_slice *ret, struct sw_err *err)
{
    struct sw_slice in;
    size_t n;

    drop_taken(r);
    in = sw_buf_slice(&r->buf);
    if (in.n < SW_GRPC_HEAD)
        return SW_EAGAIN;
    if (in.p[0] != 0)
        return sw_err_set(err, SW_EPROTO, "compressed messages are not supported");
    n = (size_t)(uint8_t)in.p[1] << 24 | (size_t)(uint8_t)in.p[2] << 16 |
        (size_t)(uint8_t)in.p[3] << 8 | (size_t)(uint8_t)in.p[4];
    if (n > r->max)
        return sw_err_set(err, SW_ELIMIT, "message of %zu bytes is larger than %zu", n, r->max);
    if (in.n - SW_GRPC_HEAD < n)
        return SW_EAGAIN;
    *ret = sw_slice(in.p + SW_GRPC_HEAD, n);
    r->taken = SW_GRPC_HEAD + n;
    return SW_OK;
}

bool sw_grpc_reader_idle(const struct sw_grpc_reader *r)
{
    return sw_buf_len(&r->buf) == r->taken;
}

void sw_grpc_head(char out[SW_GRPC_HEAD], size_t n)
{
    out[0] = 0;
    for (int i = 0; i < 4; i++)
        out[1 + i] = (char)(uint8_t)(n >> (24 - 8 * i));
}

void sw_grpc_message_encode(struct sw_slice in, struct sw_buf *out)
{
    int rc = SW_OK;

    for (size_t i = 0; i < in.n && rc == SW_OK; i++) {
        uint8_t b = (uint8_t)in.p[i];
        char esc[3] = {'%', sw_hex_upper(b >> 4), sw_hex_upper(b)};

        if (b >= 0x20 && b <= 0x7e && b != '%')
            rc = sw_buf_putc(out, in.p[i]);
        else
            rc = sw_buf_append(out, esc, sizeof(esc));
    }
}

void sw_grpc_message_decode(struct sw_slice in, struct sw_buf *out)
{
    int rc = SW_OK;

    for (size_t i = 0; i < in.n && rc == SW_OK; i++) {
        int escaped = sw_hex_escape(in, i);

        rc = sw_buf_putc(out, escaped < 0 ? in.p[i] : (char)escaped);
        i += escaped < 0 ? 0 : 2;
    }
}

/* --- receiving --- */

static bool listening(const struct sw_grpc_call *c)
{
    return c->ops && !c->broken && !c->cancelled && !(c->server && c->finished);
}

static void deliver(struct sw_grpc_call *c)
{
    struct sw_err err = {0};
    struct sw_slice msg = {0};
    int rc = SW_OK;
    bool all;

    if (c->delivering)
        return;
    c->delivering = true;
    while (listening(c) && !c->paused) {
        rc = sw_grpc_reader_next(&c->reader, &msg, &err);
        if (rc != SW_OK)
            break;
        if (c->ops->on_message)
            c->ops->on_message(c, msg, c->arg);
    }
    all = rc == SW_EAGAIN && c->remote_end;
    if (all && !sw_grpc_reader_idle(&c->reader)) {
        rc = sw_err_set(&err, SW_EPROTO, "stream ended inside a message");
    } else if (all && c->server && listening(c) && !c->end_reported) {
        c->end_reported = true;
        if (c->ops->on_end)
            c->ops->on_end(c, c->arg);
    }
    c->delivering = false;
    if (c->cancelled) {
        grpc_client_release(c);
    } else if (rc != SW_OK && rc != SW_EAGAIN) {
        c->broken = true;
        grpc_call_bad(c, rc, &err);
    } else if (c->server) {
        grpc_server_account(c);
    } else if (all) {
        grpc_client_ended(c);
    }
}

void grpc_call_data(struct sw_grpc_call *c, struct sw_slice data)
{
    struct sw_err err = {0};
    int rc;

    if (!listening(c)) {
        sw_h2stream_took(c->stream, data.n);
        return;
    }
    rc = sw_grpc_reader_feed(&c->reader, data, &err);
    if (rc != SW_OK) {
        c->broken = true;
        grpc_call_bad(c, rc, &err);
        return;
    }
    if (c->paused)
        c->owed += data.n;
    else
        sw_h2stream_took(c->stream, data.n);
    deliver(c);
}

void grpc_call_end(struct sw_grpc_call *c)
{
    c->remote_end = true;
    deliver(c);
}

static void on_again(struct sw_defer *d)
{
    deliver(SW_CONTAINER_OF(d, struct sw_grpc_call, again));
}

void sw_grpc_set_max(struct sw_grpc_call *c, size_t max)
{
    c->reader.max = max;
    c->reader.buf.max = max + SW_GRPC_HEAD + READER_SLACK;
}

void sw_grpc_pause(struct sw_grpc_call *c, bool pause)
{
    c->paused = pause;
    if (pause)
        return;
    if (c->stream && c->owed)
        sw_h2stream_took(c->stream, c->owed);
    c->owed = 0;
    if (!c->delivering)
        sw_loop_defer(c->loop, &c->again, on_again);
}

/* --- sending --- */

int sw_grpc_send(struct sw_grpc_call *c, struct sw_slice msg)
{
    char head[SW_GRPC_HEAD];
    struct sw_slice v[] = {sw_slice(head, sizeof(head)), msg};

    if (c->finished || c->early_end || msg.n > UINT32_MAX)
        return SW_ECLOSED;
    sw_grpc_head(head, msg.n);
    if (c->stream)
        return sw_h2stream_sendv(c->stream, v, SW_ARRAY_LEN(v));
    if (!c->client)
        return SW_ECLOSED;
    if (SW_GRPC_HEAD + msg.n > c->early.max - sw_buf_len(&c->early))
        return SW_ELIMIT;
    return sw_buf_append_slice(&c->early, v[0]) == SW_OK &&
                   sw_buf_append_slice(&c->early, v[1]) == SW_OK
               ? SW_OK
               : SW_ELIMIT;
}

size_t sw_grpc_queued(const struct sw_grpc_call *c)
{
    return c->stream ? sw_h2stream_queued(c->stream) : sw_buf_len(&c->early);
}

void grpc_call_done(struct sw_grpc_call *c)
{
    sw_list_unlink(&c->link);
    sw_defer_cancel(&c->again);
    sw_timer_stop(c->loop, &c->deadline);
    sw_grpc_reader_done(&c->reader);
    sw_buf_done(&c->request);
    sw_buf_done(&c->early);
    sw_buf_done(&c->message);
    sw_free(c->path);
    if (c->token)
        sw_free_secret(c->token, strlen(c->token));
    sw_free(c);
}

void grpc_call_bad(struct sw_grpc_call *c, int rc, const struct sw_err *err)
{
    enum sw_grpc_status status = rc == SW_ELIMIT ? SW_GRPC_RESOURCE_EXHAUSTED : SW_GRPC_INTERNAL;

    if (c->client)
        grpc_client_fail(c, status, err->msg);
    else
        grpc_server_bad(c, status, err->msg);
}
