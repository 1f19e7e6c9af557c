/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request in absolute form: sent to its origin as HTTP/1.1, with the body framed as that needs,
 * because on the stream it ends with the stream. The answer is qserve_http.c's.
 */
#include "base/search.h"
#include "base/time.h"
#include "io/sock.h"
#include "tunnel/qserve_int.h"

enum {
    CHUNK = 32 * 1024,
    OUT_MAX = SW_QHEAD_MAX + 1024 + CHUNK + 64,
};
/* How long a request that may or may not have a body waits for the first byte or the end. */
static const uint64_t body_wait_ns = 100 * SW_NS_PER_MS;

static bool keep_request_field(const struct sw_h1_msg *m, struct sw_slice name)
{
    return !sw_h1_is_hop_by_hop(m, name) && !sw_slice_ieq(name, SW_SLICE_LIT("host")) &&
           !sw_slice_ieq(name, SW_SLICE_LIT("content-length")) &&
           !sw_slice_ieq(name, SW_SLICE_LIT("expect"));
}

static int put_framing(struct sw_buf *out, const struct qs_http *h)
{
    if (h->req == SW_H1_LENGTH)
        return sw_h1_put_length(out, h->want);
    return h->req == SW_H1_CHUNKED ? sw_h1_put_chunked(out) : SW_OK;
}

static int put_request(struct qs_exchange *x)
{
    const struct sw_h1_msg *m = x->msg;
    struct sw_buf *out = &x->http->out;
    struct sw_slice host = x->verdict.host_header.n ? x->verdict.host_header : m->authority;
    int rc = sw_h1_put_request(out, m->method, x->head.path, 1);

    if (rc == SW_OK)
        rc = sw_h1_put_field(out, SW_SLICE_LIT("host"), host);
    for (size_t i = 0; i < m->nfields && rc == SW_OK; i++) {
        if (keep_request_field(m, m->fields[i].name))
            rc = sw_h1_put_field(out, m->fields[i].name, m->fields[i].value);
    }
    if (rc == SW_OK)
        rc = put_framing(out, x->http);
    if (rc == SW_OK && x->head.kind == SW_QKIND_UPGRADE)
        rc = qs_put_upgrade(out, m->upgrade);
    return rc == SW_OK ? sw_h1_put_end(out) : rc;
}

static bool bodiless_method(struct sw_slice m)
{
    static const char *const names[] = {"GET", "HEAD", "OPTIONS", "TRACE", "DELETE", NULL};

    return sw_word_in(m, names);
}

/* Writes the head once it is known whether a body follows. */
static void send_head(struct qs_exchange *x, enum sw_h1_framing framing)
{
    struct qs_http *h = x->http;

    sw_timer_stop(x->v->loop, &h->wait);
    h->req = framing;
    h->sent_head = true;
    h->req_end = framing == SW_H1_NO_BODY || (framing == SW_H1_LENGTH && h->want == 0);
    if (put_request(x) != SW_OK) {
        qs_refuse(x, 400, NULL, "bad_head");
        return;
    }
    qs_http_step(x);
}

static void on_wait(struct sw_timer *t)
{
    struct qs_http *h = SW_CONTAINER_OF(t, struct qs_http, wait);
    struct qs_exchange *x = h->x;

    send_head(x, SW_H1_NO_BODY);
}

/* What the head alone says about the body, or the next bytes have to tell. */
static void decide_framing(struct qs_exchange *x)
{
    const struct sw_h1_msg *m = x->msg;
    struct qs_http *h = x->http;

    if (x->no_body || (x->head.kind == SW_QKIND_UPGRADE && m->framing != SW_H1_LENGTH)) {
        send_head(x, SW_H1_NO_BODY);
    } else if (m->framing == SW_H1_LENGTH) {
        h->want = m->content_length;
        send_head(x, SW_H1_LENGTH);
    } else if (x->fin) {
        h->want = 0;
        send_head(x, bodiless_method(m->method) ? SW_H1_NO_BODY : SW_H1_LENGTH);
    } else if (m->framing == SW_H1_CHUNKED || !bodiless_method(m->method)) {
        send_head(x, SW_H1_CHUNKED);
    } else {
        sw_timer_start(x->v->loop, &h->wait, body_wait_ns, on_wait);
    }
}

bool qs_request_flush(struct qs_exchange *x)
{
    struct qs_http *h = x->http;

    int rc = sw_sock_write_buf(h->fd, &h->out);

    if (rc != SW_OK && rc != SW_EAGAIN) {
        /* An origin may answer and close before it read all: its answer can still be read. */
        h->req_end = true;
        h->unsent = true;
        sw_buf_clear(&h->out);
    }
    return rc == SW_OK;
}

static size_t take_length(struct qs_exchange *x, const uint8_t *p, size_t n)
{
    struct qs_http *h = x->http;
    ssize_t w = 0;

    if (n > h->want) {
        qs_abort(x, "body_too_long");
        return n;
    }
    if (n)
        w = sw_sock_write(h->fd, p, n);
    if (w == SW_EAGAIN)
        return 0;
    if (w < 0) { /* as in qs_request_flush */
        h->req_end = true;
        h->unsent = true;
        return n;
    }
    h->want -= (uint64_t)w;
    x->bytes_in += (uint64_t)w;
    if (h->want == 0)
        h->req_end = true;
    return (size_t)w;
}

static size_t take_chunked(struct qs_exchange *x, const uint8_t *p, size_t n, bool fin)
{
    struct qs_http *h = x->http;
    size_t done = 0;

    while (done < n && sw_buf_len(&h->out) == 0) {
        size_t k = sw_min(n - done, CHUNK);

        if (sw_h1_put_chunk(&h->out, sw_slice(p + done, k)) != SW_OK)
            break;
        done += k;
        x->bytes_in += k;
        (void)qs_request_flush(x);
    }
    if (fin && done == n && !h->req_end) {
        (void)!sw_h1_put_last_chunk(&h->out); /* there is room for it */
        h->req_end = true;
        (void)qs_request_flush(x);
    }
    return done;
}

size_t qs_request_data(struct qs_exchange *x, const uint8_t *p, size_t n, bool fin)
{
    struct qs_http *h = x->http;
    size_t used = 0;

    if (x->head.kind == SW_QKIND_UPGRADE) { /* for the new protocol, when there is one */
        x->fin |= n == 0 && fin;
        return 0;
    }
    if (!h->sent_head) {
        if (n == 0 && fin)
            x->fin = true;
        send_head(x, n ? SW_H1_CHUNKED : SW_H1_NO_BODY);
        if (x->state != QS_HTTP)
            return n;
    }
    if (h->req_end) { /* more than was announced, or the origin does not listen any more */
        x->fin |= fin;
        return n;
    }
    if (!qs_request_flush(x) && !h->req_end)
        return 0;
    while (x->state == QS_HTTP && !h->req_end && used < n) {
        size_t k = h->req == SW_H1_LENGTH ? take_length(x, p + used, n - used)
                                          : take_chunked(x, p + used, n - used, fin);

        if (k == 0)
            return used;
        used += k;
    }
    if (x->state != QS_HTTP)
        return n;
    if (fin && used == n) {
        x->fin = true;
        if (h->req == SW_H1_CHUNKED && !h->req_end) {
            (void)take_chunked(x, NULL, 0, true);
        } else if (h->req == SW_H1_LENGTH && h->want && !h->req_end) {
            qs_abort(x, "body_cut");
            return n;
        }
    }
    return h->req_end ? n : used;
}

void qs_request_start(struct qs_exchange *x)
{
    sw_buf_init(&x->http->out, OUT_MAX);
    decide_framing(x);
}
