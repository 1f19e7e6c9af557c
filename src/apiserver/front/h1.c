/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1.1 on a connection of the front: one exchange at a time, in order. */
#include "apiserver/front/front_int.h"
#include "base/log.h"
#include "http/url.h"

static struct front_xchg *current(struct front_conn *c)
{
    return SW_LIST_FIRST(&c->xchgs, struct front_xchg, link);
}

static void copy_fields(struct front_xchg *x, const struct sw_h1_msg *m)
{
    struct sw_front_field *f = sw_arena_array(&x->pub.arena, m->nfields + 1, sizeof(*f));

    for (size_t i = 0; i < m->nfields; i++)
        f[i] = (struct sw_front_field){.name = m->fields[i].name, .value = m->fields[i].value};
    x->pub.fields = f;
    x->pub.nfields = m->nfields;
}

/* The request cannot be read: a short answer, then the end. */
static void refuse(struct front_conn *c, int status, const char *why)
{
    struct front_xchg *x = current(c);

    if (!x)
        x = front_xchg_new(c);
    x->close_after = true;
    x->state = XCHG_HANDLE;
    sw_xchg_send_slice(&x->pub, status, "text/plain; charset=utf-8", sw_slice_str(why));
}

static int on_head(struct front_conn *c)
{
    static const char go_ahead[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct front_xchg *x = front_xchg_new(c);
    struct sw_h1_msg *m = sw_h1_msg_dup(&x->pub.arena, sw_h1_msg(c->h1));

    x->pub.method = m->method;
    sw_target_split(m->path_query, &x->pub.path, &x->pub.query);
    if (x->pub.path.n == 0)
        x->pub.path = SW_SLICE_LIT("/");
    copy_fields(x, m);
    x->close_after = !m->keep_alive;
    x->chunked = m->minor > 0;
    if (m->framing == SW_H1_TUNNEL) {
        refuse(c, 405, "this is not a proxy\n");
        return SW_OK;
    }
    sw_timer_stop(c->front->loop, &c->timer);
    if (m->framing == SW_H1_LENGTH && front_xchg_refuse_length(x, m->content_length))
        return SW_OK;
    if (m->expect_continue)
        sw_conn_put(&c->io, go_ahead, sizeof(go_ahead) - 1);
    return SW_OK;
}

static int on_event(struct front_conn *c, enum sw_h1_event ev)
{
    struct front_xchg *x = current(c);

    switch (ev) {
    case SW_H1_HEAD:
        return on_head(c);
    case SW_H1_BODY:
        return front_xchg_take_body(x, sw_h1_data(c->h1)) ? SW_OK : SW_ECLOSED;
    case SW_H1_TRAILERS:
        return SW_OK;
    case SW_H1_END:
        front_xchg_dispatch(x);
        return SW_OK;
    }
    return SW_EINVAL;
}

int front_h1_step(struct front_conn *c, struct sw_slice in, size_t *ret_used)
{
    struct front_xchg *x = current(c);
    enum sw_h1_event ev;
    struct sw_err err = {0};
    int rc;

    if (x && x->state != XCHG_READ)
        return SW_EAGAIN; /* one at a time */
    rc = sw_h1_next(c->h1, in, ret_used, &ev, &err);
    if (rc == SW_OK)
        return on_event(c, ev);
    if (rc == SW_EAGAIN)
        return SW_EAGAIN;
    sw_log_debug("api", "request refused: %s", err.msg);
    refuse(c, sw_h1_error_status(c->h1), err.msg);
    return SW_EAGAIN;
}

void front_h1_head(struct front_xchg *x, int status, const char *content_type, int64_t length)
{
    struct sw_slice f = sw_slice(x->fields.p, sw_buf_len(&x->fields));
    struct sw_buf *out = &x->out;
    int rc = sw_h1_put_status(out, status, sw_slice("", 0), 1);

    while (f.n && rc == SW_OK) {
        const char *name = f.p;
        size_t n = strlen(name) + 1;
        const char *value = f.p + n;

        rc = sw_h1_put_field_str(out, name, value);
        f = sw_slice_from(f, n + strlen(value) + 1);
    }
    if (rc == SW_OK && content_type)
        rc = sw_h1_put_field_str(out, "Content-Type", content_type);
    if (length < 0 && !x->chunked)
        x->close_after = true; /* HTTP/1.0: the end of the connection ends the stream */
    if (rc == SW_OK && length >= 0 && status != 304 && status != 204)
        rc = sw_h1_put_length(out, (uint64_t)length);
    else if (rc == SW_OK && length < 0 && x->chunked)
        rc = sw_h1_put_chunked(out);
    if (length >= 0)
        x->chunked = false;
    if (x->front->stopping)
        x->close_after = true;
    if (rc == SW_OK && x->close_after)
        rc = sw_h1_put_field_str(out, "Connection", "close");
    if (rc == SW_OK)
        rc = sw_h1_put_end(out);
    if (rc != SW_OK)
        x->conn->broken = true;
}

void front_h1_chunk(struct front_xchg *x, struct sw_slice data)
{
    int rc = x->chunked ? sw_h1_put_chunk(&x->out, data) : sw_buf_append_slice(&x->out, data);

    if (rc != SW_OK)
        x->conn->broken = true;
}

void front_h1_finish(struct front_xchg *x)
{
    if (x->chunked && !x->head_only && sw_h1_put_last_chunk(&x->out) != SW_OK)
        x->conn->broken = true;
}
