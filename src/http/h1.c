/* SPDX-License-Identifier: Apache-2.0 */
/* The parser's engine: lines, bodies and chunks. What the lines mean is in h1_head.c. */
#include "http/h1.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/hex.h"
#include "base/mem.h"
#include "base/search.h"
#include "http/grammar.h"
#include "http/h1_int.h"

enum {
    DEFAULT_LINE = 8192,
    DEFAULT_HEAD = 16384,
    DEFAULT_FIELDS = 100,
    DEFAULT_CHUNK_EXT = 1024,
    CHUNK_DIGITS = 16,
};

void sw_h1_set_limits(struct sw_h1 *p, const struct sw_h1_limits *limits)
{
    p->limits = limits ? *limits : (struct sw_h1_limits){0};
    if (!p->limits.line)
        p->limits.line = DEFAULT_LINE;
    if (!p->limits.head)
        p->limits.head = DEFAULT_HEAD;
    if (!p->limits.headers)
        p->limits.headers = DEFAULT_FIELDS;
    if (!p->limits.body)
        p->limits.body = UINT64_MAX;
    if (!p->limits.chunk_ext)
        p->limits.chunk_ext = DEFAULT_CHUNK_EXT;
}

struct sw_h1 *sw_h1_new(enum sw_h1_kind kind, const struct sw_h1_limits *limits)
{
    struct sw_h1 *p = SW_NEW(struct sw_h1);

    p->kind = kind;
    sw_h1_set_limits(p, limits);
    sw_h1_reset(p);
    return p;
}

void sw_h1_free(struct sw_h1 *p)
{
    if (!p)
        return;
    sw_vec_done(&p->spans);
    sw_vec_done(&p->fields);
    sw_vec_done(&p->trailers);
    sw_vec_done(&p->listed);
    sw_free(p);
}

void sw_h1_reset(struct sw_h1 *p)
{
    p->state = H1_START;
    p->answers_head = false;
    p->answers_connect = false;
    p->skipped_blank = false;
    p->base = 0;
    p->pos = 0;
    p->scan = 0;
    p->spans.n = 0;
    p->fields.n = 0;
    p->trailers.n = 0;
    p->left = 0;
    p->seen = 0;
    p->ext_seen = 0;
    p->msg = (struct sw_h1_msg){.kind = p->kind};
    p->data = (struct sw_slice){0};
    p->error_status = 0;
}

void sw_h1_answer_to(struct sw_h1 *p, struct sw_slice method)
{
    p->answers_head = sw_slice_eq_str(method, "HEAD");
    p->answers_connect = sw_slice_eq_str(method, "CONNECT");
}

int h1_fail(struct sw_h1 *p, int status, int rc, size_t at, const char *fmt, ...)
{
    char msg[sizeof(p->error.msg)];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(msg, sizeof(msg), fmt, ap);
    va_end(ap);
    p->state = H1_FAILED;
    p->error_status = p->kind == SW_H1_REQUEST ? status : 502;
    return sw_err_at(&p->error, rc, p->base + at, "%s", msg);
}

/* How far a line may reach, and what passing it means. */
struct line_bound {
    size_t line;
    size_t total;
    int line_status;
    int total_status;
};

/*
 * The next line as [pos, pos + n) without its CRLF; p->pos and p->scan move behind it. The limits
 * are judged before the content and by the byte that passes them first, so that the verdict does
 * not depend on how the bytes were cut.
 */
static int next_line(struct sw_h1 *p, struct sw_slice in, const struct line_bound *b,
                     struct h1_span *ret)
{
    const char *lf = in.n > p->scan ? memchr(in.p + p->scan, '\n', in.n - p->scan) : NULL;
    size_t end = lf ? (size_t)(lf - in.p) : in.n;
    size_t line_max = p->pos + b->line + 1; /* highest index the line feed may have */
    size_t total_max = b->total - 1;

    if (end > sw_min(line_max, total_max)) {
        if (line_max <= total_max)
            return h1_fail(p, b->line_status, SW_ELIMIT, line_max, "line longer than %zu bytes",
                           b->line);
        return h1_fail(p, b->total_status, SW_ELIMIT, total_max, "head larger than %zu bytes",
                       b->total);
    }
    if (!lf) {
        p->scan = in.n;
        return SW_EAGAIN;
    }
    if (end == p->pos || in.p[end - 1] != '\r')
        return h1_fail(p, 400, SW_EPROTO, end, "line feed without carriage return");
    *ret = (struct h1_span){p->pos, end - 1 - p->pos};
    p->pos = end + 1;
    p->scan = p->pos;
    return SW_OK;
}

/* The first n bytes of 'in' are finished with. */
static void use(struct sw_h1 *p, struct sw_slice *in, size_t n, size_t *ret_used)
{
    *in = sw_slice_from(*in, n);
    *ret_used += n;
    p->base += n;
    p->pos = 0;
    p->scan = 0;
}

static enum h1_state state_after_head(const struct sw_h1 *p)
{
    switch (p->msg.framing) {
    case SW_H1_LENGTH:
        return p->left ? H1_BODY_LENGTH : H1_DONE;
    case SW_H1_CHUNKED:
        return H1_CHUNK_SIZE;
    case SW_H1_UNTIL_CLOSE:
        return H1_BODY_CLOSE;
    case SW_H1_NO_BODY:
    case SW_H1_TUNNEL:
        break;
    }
    return H1_DONE;
}

static int read_head(struct sw_h1 *p, struct sw_slice in, size_t *ret_used)
{
    const struct line_bound start = {p->limits.line, p->limits.head, 414, 431};
    const struct line_bound field = {p->limits.line, p->limits.head, 431, 431};
    struct h1_span line = {0};
    int rc = SW_OK;

    /* One empty line in front of a request is forgiven (RFC 9112, 2.2): old clients send it. */
    if (p->state == H1_START && p->kind == SW_H1_REQUEST && !p->skipped_blank && p->scan < 2) {
        if (in.n == 0 || (in.n == 1 && in.p[0] == '\r'))
            return SW_EAGAIN;
        if (in.n >= 2 && in.p[0] == '\r' && in.p[1] == '\n') {
            p->skipped_blank = true;
            use(p, &in, 2, ret_used);
        }
    }
    while (rc == SW_OK) {
        rc = next_line(p, in, p->state == H1_START ? &start : &field, &line);
        if (rc != SW_OK)
            return rc;
        if (p->state == H1_FIELDS && line.n == 0)
            break;
        if (p->state == H1_START) {
            rc = h1_start_line(p, in, line);
            if (rc == SW_OK)
                p->state = H1_FIELDS;
        } else {
            rc = h1_field_line(p, in, line);
        }
    }
    if (rc == SW_OK)
        rc = h1_head_done(p, in);
    if (rc != SW_OK)
        return rc;
    use(p, &in, p->pos, ret_used);
    p->state = state_after_head(p);
    return SW_OK;
}

static int parse_chunk_size(struct sw_h1 *p, struct sw_slice line)
{
    uint64_t size = 0;
    size_t i = 0;

    while (i < line.n && sw_hex_digit(line.p[i]) >= 0) {
        if (i == CHUNK_DIGITS)
            return h1_fail(p, 400, SW_EPROTO, i, "chunk size has more than %d digits",
                           CHUNK_DIGITS);
        size = size << 4 | (unsigned)sw_hex_digit(line.p[i++]);
    }
    if (i == 0 || (i < line.n && line.p[i] != ';'))
        return h1_fail(p, 400, SW_EPROTO, i, "bad chunk size");
    if (!sw_http_value_valid(sw_slice_trim(sw_slice_from(line, i))))
        return h1_fail(p, 400, SW_EPROTO, i, "control byte in a chunk extension");
    p->ext_seen += line.n - i;
    if (p->ext_seen > p->limits.chunk_ext)
        return h1_fail(p, 400, SW_ELIMIT, i, "chunk extensions longer than %zu bytes",
                       p->limits.chunk_ext);
    if (size > p->limits.body - p->seen)
        return h1_fail(p, 413, SW_ELIMIT, 0, "body larger than %llu bytes",
                       (unsigned long long)p->limits.body);
    p->left = size;
    return SW_OK;
}

static int read_chunk_size(struct sw_h1 *p, struct sw_slice *in, size_t *ret_used)
{
    const struct line_bound b = {p->limits.line, SIZE_MAX, 400, 400};
    struct h1_span line = {0};
    int rc = next_line(p, *in, &b, &line);

    if (rc == SW_OK)
        rc = parse_chunk_size(p, sw_slice(in->p, line.n));
    if (rc != SW_OK)
        return rc;
    use(p, in, p->pos, ret_used);
    p->spans.n = 0;
    p->state = p->left ? H1_CHUNK_DATA : H1_TRAILER;
    return SW_OK;
}

static int read_chunk_crlf(struct sw_h1 *p, struct sw_slice *in, size_t *ret_used)
{
    if (in->n && in->p[0] != '\r')
        return h1_fail(p, 400, SW_EPROTO, 0, "chunk data not followed by CRLF");
    if (in->n < 2)
        return SW_EAGAIN;
    if (in->p[1] != '\n')
        return h1_fail(p, 400, SW_EPROTO, 1, "chunk data not followed by CRLF");
    use(p, in, 2, ret_used);
    p->state = H1_CHUNK_SIZE;
    return SW_OK;
}

/* These would change framing or routing after the fact. */
static bool forbidden_trailer(struct sw_slice name)
{
    static const char *const names[] = {"content-length",
                                        "transfer-encoding",
                                        "host",
                                        "trailer",
                                        "content-encoding",
                                        "connection",
                                        "upgrade",
                                        "expect",
                                        "te",
                                        "authorization",
                                        NULL};

    return sw_word_in_any_case(name, names);
}

/* SW_OK with *ret_event only when the trailer has fields. */
static int read_trailer(struct sw_h1 *p, struct sw_slice *in, size_t *ret_used, bool *ret_fields)
{
    const struct line_bound b = {p->limits.line, p->limits.head, 431, 431};
    struct h1_span line = {0};
    int rc;

    while ((rc = next_line(p, *in, &b, &line)) == SW_OK && line.n) {
        struct h1_field_span *f;

        rc = h1_field_line(p, *in, line);
        if (rc != SW_OK)
            return rc;
        f = &p->spans.p[p->spans.n - 1];
        if (forbidden_trailer(sw_slice(in->p + f->name.off, f->name.n)))
            return h1_fail(p, 400, SW_EPROTO, f->name.off, "field not allowed in a trailer");
    }
    if (rc != SW_OK)
        return rc;
    h1_resolve(p, *in, &p->trailers);
    *ret_fields = p->trailers.n > 0;
    use(p, in, p->pos, ret_used);
    p->state = H1_DONE;
    return SW_OK;
}

static int read_body(struct sw_h1 *p, struct sw_slice in, size_t *ret_used)
{
    uint64_t room = p->state == H1_BODY_CLOSE ? p->limits.body - p->seen : p->left;

    if (in.n == 0)
        return SW_EAGAIN;
    if (room == 0)
        return h1_fail(p, 413, SW_ELIMIT, 0, "body larger than %llu bytes",
                       (unsigned long long)p->limits.body);
    p->data = sw_slice_head(in, room < in.n ? (size_t)room : in.n);
    use(p, &in, p->data.n, ret_used);
    p->seen += p->data.n;
    if (p->state == H1_BODY_CLOSE)
        return SW_OK;
    p->left -= p->data.n;
    if (p->left == 0)
        p->state = p->state == H1_CHUNK_DATA ? H1_CHUNK_CRLF : H1_DONE;
    return SW_OK;
}

static int step(struct sw_h1 *p, struct sw_slice in, size_t *ret_used, enum sw_h1_event *ret_event)
{
    bool fields = false;
    int rc = SW_OK;

    while (rc == SW_OK) {
        switch (p->state) {
        case H1_START:
        case H1_FIELDS:
            *ret_event = SW_H1_HEAD;
            return read_head(p, in, ret_used);
        case H1_BODY_LENGTH:
        case H1_BODY_CLOSE:
        case H1_CHUNK_DATA:
            *ret_event = SW_H1_BODY;
            return read_body(p, in, ret_used);
        case H1_CHUNK_SIZE:
            rc = read_chunk_size(p, &in, ret_used);
            break;
        case H1_CHUNK_CRLF:
            rc = read_chunk_crlf(p, &in, ret_used);
            break;
        case H1_TRAILER:
            rc = read_trailer(p, &in, ret_used, &fields);
            if (rc == SW_OK && fields) {
                *ret_event = SW_H1_TRAILERS;
                return SW_OK;
            }
            break;
        case H1_DONE:
            *ret_event = SW_H1_END;
            return SW_OK;
        case H1_FAILED:
            return p->error.rc;
        }
    }
    return rc;
}

int sw_h1_next(struct sw_h1 *p, struct sw_slice in, size_t *ret_used, enum sw_h1_event *ret_event,
               struct sw_err *err)
{
    int rc;

    *ret_used = 0;
    rc = step(p, in, ret_used, ret_event);
    if (rc != SW_OK && rc != SW_EAGAIN && err)
        *err = p->error;
    return rc;
}

int sw_h1_eof(struct sw_h1 *p, struct sw_err *err)
{
    if (p->state == H1_BODY_CLOSE)
        p->state = H1_DONE;
    if (p->state == H1_DONE || sw_h1_idle(p))
        return SW_OK;
    if (p->state != H1_FAILED)
        (void)h1_fail(p, 400, SW_EPROTO, p->scan, "connection closed inside a message");
    if (err)
        *err = p->error;
    return p->error.rc;
}

const struct sw_h1_msg *sw_h1_msg(const struct sw_h1 *p)
{
    return &p->msg;
}

struct sw_slice sw_h1_data(const struct sw_h1 *p)
{
    return p->data;
}

const struct sw_h1_field *sw_h1_trailers(const struct sw_h1 *p, size_t *ret_n)
{
    *ret_n = p->trailers.n;
    return p->trailers.p;
}

int sw_h1_error_status(const struct sw_h1 *p)
{
    return p->error_status;
}

const struct sw_err *sw_h1_error(const struct sw_h1 *p)
{
    return &p->error;
}

bool sw_h1_idle(const struct sw_h1 *p)
{
    return p->state == H1_START && p->scan == 0;
}
