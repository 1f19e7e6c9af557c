/* SPDX-License-Identifier: Apache-2.0 */
/* Exchanges: their life, and the calls handlers answer with. */
#include <string.h>

#include "apiserver/front/front_int.h"
#include "base/log.h"
#include "base/mem.h"
#include "http/grammar.h"
#include "http/gzip.h"
#include "tls/connfilter.h"

enum {
    FIELDS_MAX = 16 * 1024,
    GZIP_FROM = 128 * 1024,
    HEAD_ROOM = 64 * 1024,
};
static const size_t out_max = (size_t)1 << 30;

struct front_xchg *front_xchg_new(struct front_conn *c)
{
    struct front_xchg *x = SW_NEW(struct front_xchg);

    x->front = c->front;
    x->conn = c;
    x->state = XCHG_READ;
    x->since_ns = sw_loop_now(c->front->loop);
    sw_buf_init(&x->body, c->front->opts.max_body);
    sw_buf_init(&x->out, out_max);
    sw_buf_init(&x->fields, FIELDS_MAX);
    sw_list_push_back(&c->xchgs, &x->link);
    c->nxchgs++;
    x->pub.peer = c->peer;
    x->pub.cert = sw_tls_peer(sw_tls_of(c->io.filter));
    x->pub.cert_refused = sw_tls_peer_refused(sw_tls_of(c->io.filter));
    return x;
}

void front_xchg_account(struct front_xchg *x)
{
    struct sw_front *f = x->front;

    if (sw_buf_len(&x->out) != x->out_accounted)
        front_share_account(x, sw_buf_len(&x->out));
    f->body_total = f->body_total - x->body_accounted + sw_buf_len(&x->body);
    if (x->payer)
        x->payer->bodies = x->payer->bodies - x->body_accounted + sw_buf_len(&x->body);
    x->body_accounted = sw_buf_len(&x->body);
}

bool front_xchg_take_body(struct front_xchg *x, struct sw_slice data)
{
    bool fits = front_share_body_fits(x, data.n);

    if (!x->pub.too_large && !x->pub.crowded && fits &&
        sw_buf_append_slice(&x->body, data) == SW_OK) {
        front_xchg_account(x);
        return true;
    }
    if (!fits && !x->pub.too_large)
        x->pub.crowded = true;
    else if (!x->pub.crowded)
        x->pub.too_large = true;
    sw_buf_done(&x->body);
    front_xchg_account(x);
    x->discarded += data.n;
    return x->discarded <= FRONT_DISCARD;
}

void front_xchg_dispatch(struct front_xchg *x)
{
    front_share_body_read(x);
    x->state = XCHG_HANDLE;
    x->pub.body = sw_buf_slice(&x->body);
    x->head_only = sw_slice_eq_str(x->pub.method, "HEAD");
    x->front->opts.handler(&x->pub, x->front->opts.arg);
}

bool front_xchg_refuse_length(struct front_xchg *x, uint64_t length)
{
    if (length <= x->front->opts.max_body)
        return false;
    x->pub.too_large = true;
    x->close_after = true;
    front_xchg_dispatch(x);
    return true;
}

static void xchg_free(struct front_xchg *x)
{
    sw_list_unlink(&x->link);
    sw_buf_done(&x->body);
    sw_buf_done(&x->out);
    front_xchg_account(x);
    front_share_leave(x);
    sw_buf_done(&x->fields);
    if (x->front->opts.discard)
        x->front->opts.discard(x->front->opts.arg, &x->pub.arena);
    else
        sw_arena_clear(&x->pub.arena);
    sw_free(x);
}

void front_xchg_release(struct front_xchg *x)
{
    const struct sw_xchg_stream_ops *ops = x->ops;
    struct front_conn *c = x->conn;

    sw_list_unlink(&x->link);
    if (c)
        c->nxchgs--;
    x->conn = NULL;
    x->pub.cert = NULL;            /* dies with the connection */
    if (x->state == XCHG_HANDLE) { /* the handler will answer; then it goes */
        sw_list_push_back(&x->front->orphans, &x->link);
        if (x->pub.on_gone)
            x->pub.on_gone(&x->pub);
        return;
    }
    if (x->state == XCHG_STREAM && ops) {
        x->state = XCHG_DONE;
        ops->on_gone(&x->pub);
    }
    xchg_free(x);
}

void front_xchg_drained(struct front_xchg *x)
{
    front_xchg_account(x);
    if (x->state != XCHG_STREAM || !x->want_drain ||
        sw_buf_len(&x->out) > x->front->opts.max_stream / 4)
        return;
    x->want_drain = false;
    if (x->ops->on_drain)
        x->ops->on_drain(&x->pub);
}

struct sw_slice sw_xchg_field(const struct sw_xchg *x, const char *name)
{
    for (size_t i = 0; i < x->nfields; i++) {
        if (sw_slice_ieq(x->fields[i].name, sw_slice_str(name)))
            return x->fields[i].value;
    }
    return sw_slice(NULL, 0);
}

void sw_xchg_set(struct sw_xchg *p, const char *name, struct sw_slice value)
{
    struct front_xchg *x = front_xchg_of(p);
    size_t need = strlen(name) + value.n + 2;
    char *at;

    if (!sw_http_value_valid(value) && value.n) {
        sw_log_warn("api", "response field '%s' has an invalid value and is left out", name);
        return;
    }
    at = sw_buf_reserve(&x->fields, need);
    if (!at)
        return;
    memcpy(at, name, strlen(name) + 1);
    at += strlen(name) + 1;
    if (value.n)
        memcpy(at, value.p, value.n);
    at[value.n] = 0;
    sw_buf_commit(&x->fields, need);
}

static void put_head(struct front_xchg *x, int status, const char *content_type, int64_t length)
{
    if (x->conn->h2)
        front_h2_head(x, status, content_type, length);
    else
        front_h1_head(x, status, content_type, length);
}

void sw_xchg_compress(struct sw_xchg *p, struct sw_buf *body)
{
    struct front_xchg *x = front_xchg_of(p);
    SW_BUF_AUTO small = {.max = sw_buf_len(body)};

    if (p->compressed || sw_buf_len(body) <= GZIP_FROM ||
        !sw_gzip_accepted(sw_xchg_field(&x->pub, "accept-encoding")))
        return;
    p->compressed = true;
    if (sw_gzip(sw_buf_slice(body), &small) != SW_OK)
        return;
    sw_buf_done(body);
    *body = small;
    small = (struct sw_buf){0};
    sw_xchg_set(&x->pub, "Content-Encoding", SW_SLICE_LIT("gzip"));
    sw_xchg_set(&x->pub, "Vary", SW_SLICE_LIT("Accept-Encoding"));
}

/* Too much is unread: a few words instead of the answer. The status to send. */
static int refuse_body(struct front_xchg *x, struct sw_buf *body, const char **content_type)
{
    bool own = x->user && x->user->out + sw_buf_len(body) > x->front->opts.max_out_user;

    if (front_share_log(x->front))
        sw_log_warn("api", "answer of %zu bytes dropped: %zu bytes of %s are not read yet",
                    sw_buf_len(body), own ? x->user->out : x->front->out_total,
                    own ? "the user's answers" : "all answers");
    x->front->counts.full++;
    sw_buf_done(body);
    sw_buf_clear(&x->fields); /* of the answer that is not given */
    sw_buf_init(body, 1024);
    sw_xchg_set(&x->pub, "Retry-After", SW_SLICE_LIT("1"));
    *content_type = "application/json";
    if (sw_buf_printf(body,
                      "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":"
                      "\"Failure\",\"message\":\"too many bytes of earlier answers %s were not "
                      "read yet\",\"reason\":\"%s\",\"code\":%d}\n",
                      own ? "to this user" : "to all clients",
                      own ? "TooManyRequests" : "ServiceUnavailable", own ? 429 : 503) != SW_OK)
        sw_buf_clear(body);
    return own ? 429 : 503;
}

void sw_xchg_send(struct sw_xchg *p, int status, const char *content_type, struct sw_buf *body)
{
    struct front_xchg *x = front_xchg_of(p);
    struct sw_buf none = {0};

    body = body ? body : &none;
    if (!x->conn) {
        sw_buf_done(body);
        xchg_free(x);
        return;
    }
    sw_xchg_compress(p, body);
    if (!front_share_fits(x, sw_buf_len(body)))
        status = refuse_body(x, body, &content_type);
    x->state = XCHG_FLUSH;
    x->end = true;
    put_head(x, status, content_type, (int64_t)sw_buf_len(body));
    if (!x->head_only && sw_buf_len(body)) {
        if (sw_buf_len(&x->out) == 0) {
            sw_buf_done(&x->out);
            x->out = *body;
            x->out.max = out_max + HEAD_ROOM;
            *body = (struct sw_buf){0};
        } else if (sw_buf_append_slice(&x->out, sw_buf_slice(body)) != SW_OK) {
            x->conn->broken = true;
        }
    }
    sw_buf_done(body);
    front_xchg_account(x);
    if (x->conn->h2 && x->responded)
        sw_h2_resume(x->conn->h2, x->id);
    front_wake(x->conn);
}

void sw_xchg_send_slice(struct sw_xchg *x, int status, const char *content_type,
                        struct sw_slice body)
{
    struct sw_buf b = {.max = body.n + 1};

    if (sw_buf_append_slice(&b, body) != SW_OK)
        sw_buf_clear(&b);
    sw_xchg_send(x, status, content_type, &b);
}

static void on_nothing(struct sw_xchg *x)
{
}

bool sw_xchg_stream(struct sw_xchg *p, int status, const char *content_type,
                    const struct sw_xchg_stream_ops *ops)
{
    static const struct sw_xchg_stream_ops no_ops = {.on_gone = on_nothing};
    struct front_xchg *x = front_xchg_of(p);

    x->ops = ops ? ops : &no_ops;
    x->state = XCHG_STREAM;
    if (!x->conn) {
        x->state = XCHG_DONE;
        x->ops->on_gone(p);
        xchg_free(x);
        return false;
    }
    sw_buf_done(&x->body); /* not read any more */
    p->body = sw_slice("", 0);
    put_head(x, status, content_type, -1);
    front_xchg_account(x);
    front_wake(x->conn);
    return true;
}

int sw_xchg_write(struct sw_xchg *p, struct sw_slice data)
{
    struct front_xchg *x = front_xchg_of(p);
    size_t max = x->front->opts.max_stream;

    /* One large item fits into an empty queue, whatever its size, within the user's share. */
    if ((sw_buf_len(&x->out) + data.n > max && sw_buf_len(&x->out) > max / 4) ||
        (sw_buf_len(&x->out) && !front_share_fits(x, data.n))) {
        x->want_drain = true;
        return SW_EAGAIN;
    }
    if (!front_share_fits(x, data.n))
        return SW_ELIMIT;
    if (x->head_only)
        return SW_OK;
    if (x->conn->h2) {
        if (sw_buf_append_slice(&x->out, data) != SW_OK)
            return SW_EAGAIN;
        sw_h2_resume(x->conn->h2, x->id);
    } else {
        front_h1_chunk(x, data);
    }
    if (sw_buf_len(&x->out) > max / 2)
        x->want_drain = true;
    front_xchg_account(x);
    front_wake(x->conn);
    return SW_OK;
}

void sw_xchg_end(struct sw_xchg *p)
{
    struct front_xchg *x = front_xchg_of(p);

    x->state = XCHG_FLUSH;
    x->end = true;
    x->ops = NULL;
    if (x->conn->h2)
        sw_h2_resume(x->conn->h2, x->id);
    else
        front_h1_finish(x);
    front_xchg_account(x);
    front_wake(x->conn);
}
