/* SPDX-License-Identifier: Apache-2.0 */
#include "connector/inspect/peek.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "connector/inspect/capture.h"
#include "http/h1.h"

/* What gateways let through by default (60 KiB, 100 fields), and what they add to it. */
enum { HEAD_MAX = 65536, FIELDS_MAX = 128 };

/* What a client that speaks HTTP/2 sends first, RFC 9113, section 3.4. */
static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
enum { PREFACE = sizeof(preface) - 1, NO_PREFACE = PREFACE + 1 };

struct request {
    uint64_t begun_ns;
    uint64_t bytes_in; /* of the body so far */
    size_t method_n;
    size_t host_n;
    size_t path_n;
    char method[SW_PEEK_METHOD];
    char host[SW_PEEK_HOST];
    char path[SW_PEEK_PATH];
    struct sw_capture *capture; /* owned; NULL: none */
};

struct side {
    struct sw_h1 *parser;
    struct sw_buf rest; /* the beginning of something not complete */
};

struct sw_peek {
    sw_peek_cb cb;
    void *arg;
    struct sw_capture_store *store; /* borrowed */
    struct sw_capture
        *uploading;        /* borrowed: of the request that is read; NULL: reported already */
    struct side up;        /* requests */
    struct side down;      /* answers */
    struct request *queue; /* a ring; grows, since most tunnels have one request at a time */
    size_t cap;
    size_t first; /* oldest unanswered */
    size_t n;
    int status; /* of the answer under way; 0: none */
    bool interim;
    bool blind;      /* stopped looking */
    uint8_t preface; /* bytes of it seen, or NO_PREFACE */
    uint64_t bytes_out;
    uint64_t told;
};

static void tell(struct sw_peek *p, bool complete, uint64_t now_ns)
{
    struct request *q = &p->queue[p->first];
    struct sw_peek_exchange x = {
        .method = sw_slice(q->method, q->method_n),
        .host = sw_slice(q->host, q->host_n),
        .path = sw_slice(q->path, q->path_n),
        .status = p->status,
        .complete = complete,
        .duration_ns = now_ns > q->begun_ns ? now_ns - q->begun_ns : 0,
        .bytes_in = q->bytes_in,
        .bytes_out = p->bytes_out,
        .capture = q->capture,
    };

    if (p->uploading == q->capture)
        p->uploading = NULL;
    q->capture = NULL;
    p->first = (p->first + 1) % p->cap;
    p->n--;
    p->told++;
    p->status = 0;
    p->bytes_out = 0;
    p->cb(p->arg, &x);
}

/* Gives back what only looking needs. */
static void close_eyes(struct sw_peek *p)
{
    p->blind = true;
    for (size_t i = 0; i < p->n; i++)
        sw_capture_drop(p->queue[(p->first + i) % p->cap].capture);
    p->n = 0;
    p->uploading = NULL;
    sw_h1_free(p->up.parser);
    sw_h1_free(p->down.parser);
    p->up.parser = NULL;
    p->down.parser = NULL;
    sw_buf_done(&p->up.rest);
    sw_buf_done(&p->down.rest);
    sw_free(p->queue);
    p->queue = NULL;
}

/* Nothing that follows is HTTP/1.1 as we read it. */
static void go_blind(struct sw_peek *p, uint64_t now_ns)
{
    p->blind = true;
    if (p->n)
        tell(p, false, now_ns);
    close_eyes(p);
}

static size_t copy(char *to, size_t max, struct sw_slice from)
{
    size_t n = sw_min(from.n, max);

    if (n)
        memcpy(to, from.p, n);
    return n;
}

static void grow(struct sw_peek *p)
{
    size_t cap = p->cap ? p->cap * 2 : 1;
    struct request *more = SW_NEW_ARRAY(struct request, cap);

    for (size_t i = 0; i < p->n; i++)
        more[i] = p->queue[(p->first + i) % p->cap];
    sw_free(p->queue);
    p->queue = more;
    p->cap = cap;
    p->first = 0;
}

/* False: too many wait. */
static bool on_request(struct sw_peek *p, const struct sw_h1_msg *m, uint64_t now_ns)
{
    struct sw_slice path = m->path_query.n ? m->path_query : m->target;
    struct request *q;

    if (p->n == SW_PEEK_QUEUE)
        return false;
    if (p->n == p->cap)
        grow(p);
    q = &p->queue[(p->first + p->n++) % p->cap];
    q->begun_ns = now_ns;
    q->bytes_in = 0;
    q->method_n = copy(q->method, SW_PEEK_METHOD, m->method);
    q->host_n = copy(q->host, SW_PEEK_HOST, m->authority);
    q->path_n = copy(q->path, SW_PEEK_PATH, path);
    q->capture = p->store ? sw_capture_new(p->store) : NULL;
    p->uploading = q->capture;
    sw_capture_head(q->capture, false, m);
    return true;
}

/* One event of the requests' parser; false: stop looking. */
static bool up_event(struct sw_peek *p, enum sw_h1_event e, uint64_t now_ns)
{
    switch (e) {
    case SW_H1_HEAD:
        return on_request(p, sw_h1_msg(p->up.parser), now_ns);
    case SW_H1_END:
        sw_capture_end(p->uploading, false);
        p->uploading = NULL;
        sw_h1_reset(p->up.parser);
        return true;
    case SW_H1_BODY:
        if (p->n) /* else it was answered before its end */
            p->queue[(p->first + p->n - 1) % p->cap].bytes_in += sw_h1_data(p->up.parser).n;
        sw_capture_body(p->uploading, false, sw_h1_data(p->up.parser));
        return true;
    case SW_H1_TRAILERS:
        break;
    }
    return true;
}

static bool down_head(struct sw_peek *p)
{
    const struct sw_h1_msg *m = sw_h1_msg(p->down.parser);

    if (p->n == 0)
        return false; /* an answer to nothing */
    p->interim = m->status >= 100 && m->status < 200 && m->status != 101;
    if (!p->interim) {
        p->status = m->status;
        sw_capture_head(p->queue[p->first].capture, true, m);
    }
    return m->framing != SW_H1_TUNNEL;
}

static bool down_event(struct sw_peek *p, enum sw_h1_event e, uint64_t now_ns)
{
    switch (e) {
    case SW_H1_HEAD:
        return down_head(p);
    case SW_H1_BODY:
        p->bytes_out += sw_h1_data(p->down.parser).n;
        sw_capture_body(p->queue[p->first].capture, true, sw_h1_data(p->down.parser));
        return true;
    case SW_H1_END:
        sw_h1_reset(p->down.parser);
        if (!p->interim) {
            sw_capture_end(p->queue[p->first].capture, true);
            tell(p, true, now_ns);
        }
        return true;
    case SW_H1_TRAILERS:
        break;
    }
    return true;
}

/* Reads what is complete of 'in'; returns how much was used, or SIZE_MAX: stop looking. */
static size_t read_side(struct sw_peek *p, bool down, struct sw_slice in, uint64_t now_ns)
{
    struct side *s = down ? &p->down : &p->up;
    size_t used = 0;

    for (;;) {
        enum sw_h1_event e;
        size_t n = 0;
        int rc;

        if (down && sw_h1_idle(s->parser) && p->n) {
            const struct request *q = &p->queue[p->first];

            sw_h1_answer_to(s->parser, sw_slice(q->method, q->method_n));
        }
        rc = sw_h1_next(s->parser, sw_slice_from(in, used), &n, &e, NULL);
        if (rc == SW_OK && !(down ? down_event(p, e, now_ns) : up_event(p, e, now_ns)))
            return SIZE_MAX;
        used += n;
        if (rc == SW_EAGAIN)
            return used;
        if (rc != SW_OK)
            return SIZE_MAX;
        if (used == in.n && sw_h1_idle(s->parser))
            return used;
    }
}

static void match_preface(struct sw_peek *p, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n && p->preface < PREFACE; i++)
        p->preface = bytes[i] == preface[p->preface] ? (uint8_t)(p->preface + 1) : NO_PREFACE;
}

void sw_peek_bytes(struct sw_peek *p, bool from_origin, const void *bytes, size_t n,
                   uint64_t now_ns)
{
    struct side *s = from_origin ? &p->down : &p->up;
    struct sw_slice in = sw_slice(bytes, n);
    bool kept = sw_buf_len(&s->rest) > 0;
    size_t used;

    if (!from_origin)
        match_preface(p, bytes, n);
    if (p->blind || n == 0)
        return;
    while (kept && in.n) {
        /* Only what is needed to complete a head is copied; bodies are not. */
        size_t room = s->rest.max - sw_buf_len(&s->rest);
        size_t take = sw_min(in.n, room);

        if (take == 0 || sw_buf_append(&s->rest, in.p, take) != SW_OK) {
            go_blind(p, now_ns);
            return;
        }
        in = sw_slice_from(in, take);
        used = read_side(p, from_origin, sw_buf_slice(&s->rest), now_ns);
        if (used == SIZE_MAX) {
            go_blind(p, now_ns);
            return;
        }
        if (p->blind)
            return;
        sw_buf_consume(&s->rest, used);
        kept = sw_buf_len(&s->rest) > 0;
    }
    if (in.n == 0)
        return;
    used = read_side(p, from_origin, in, now_ns);
    if (used == SIZE_MAX || in.n - used > s->rest.max ||
        sw_buf_append_slice(&s->rest, sw_slice_from(in, used)) != SW_OK)
        go_blind(p, now_ns);
}

void sw_peek_end(struct sw_peek *p, uint64_t now_ns)
{
    bool whole = !p->blind && p->status && sw_h1_eof(p->down.parser, NULL) == SW_OK;

    if (p->blind)
        return;
    if (p->n && whole)
        sw_capture_end(p->queue[p->first].capture, true);
    if (p->n)
        tell(p, whole, now_ns);
    while (p->n)
        tell(p, false, now_ns);
    close_eyes(p);
}

struct sw_peek *sw_peek_new(sw_peek_cb cb, void *arg, struct sw_capture_store *store)
{
    const struct sw_h1_limits limits = {.line = HEAD_MAX, .head = HEAD_MAX, .headers = FIELDS_MAX};
    struct sw_peek *p = SW_NEW(struct sw_peek);

    p->cb = cb;
    p->arg = arg;
    p->store = store;
    p->up.parser = sw_h1_new(SW_H1_REQUEST, &limits);
    p->down.parser = sw_h1_new(SW_H1_RESPONSE, &limits);
    sw_buf_init(&p->up.rest, HEAD_MAX + 256);
    sw_buf_init(&p->down.rest, HEAD_MAX + 256);
    return p;
}

void sw_peek_free(struct sw_peek *p)
{
    if (!p)
        return;
    close_eyes(p);
    sw_free(p);
}

bool sw_peek_http2(const struct sw_peek *p)
{
    return p->preface == PREFACE;
}

uint64_t sw_peek_reported(const struct sw_peek *p)
{
    return p->told;
}
