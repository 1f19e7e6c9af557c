/* SPDX-License-Identifier: Apache-2.0 */
#include "connector/inspect/capture.h"

#include <string.h>

#include "base/mem.h"

enum { METHOD_MAX = 32, HOST_MAX = 512 };

void sw_captures_init(struct sw_capture_store *s)
{
    *s = (struct sw_capture_store){0};
    sw_list_init(&s->kept);
}

static size_t size_of(const struct sw_capture *c)
{
    return sizeof(*c) + sw_buf_len(&c->req.head) + sw_buf_len(&c->req.body) +
           sw_buf_len(&c->resp.head) + sw_buf_len(&c->resp.body) + sw_buf_len(&c->method) +
           sw_buf_len(&c->target) + sw_buf_len(&c->host);
}

/* The oldest that may go; NULL: none. */
static struct sw_capture *oldest(struct sw_capture_store *s)
{
    SW_LIST_EACH (struct sw_capture, c, &s->kept, link) {
        if (c != s->pinned)
            return c;
    }
    return NULL;
}

/* Room for n more bytes, at the cost of the oldest; false: not even so. */
static bool make_room(struct sw_capture_store *s, size_t n)
{
    while (s->bytes + n > SW_CAPTURE_TOTAL && oldest(s))
        sw_capture_drop(oldest(s));
    return s->bytes + n <= SW_CAPTURE_TOTAL;
}

/* Appends what fits into the buffer and the store; false: not all did. */
static bool append(struct sw_capture *c, struct sw_buf *b, struct sw_slice data)
{
    size_t take = sw_min(data.n, b->max - sw_buf_len(b));

    if (take && (!make_room(c->store, take) || sw_buf_append(b, data.p, take) != SW_OK))
        return false;
    c->store->bytes += take;
    return take == data.n;
}

static void init_message(struct sw_captured *m)
{
    sw_buf_init(&m->head, SW_CAPTURE_HEAD);
    sw_buf_init(&m->body, SW_CAPTURE_BODY);
}

static void done_message(struct sw_captured *m)
{
    sw_buf_done(&m->head);
    sw_buf_done(&m->body);
}

struct sw_capture *sw_capture_new(struct sw_capture_store *s)
{
    struct sw_capture *c;

    if (!make_room(s, sizeof(*c)))
        return NULL;
    c = SW_NEW(struct sw_capture);
    c->store = s;
    s->bytes += sizeof(*c);
    init_message(&c->req);
    init_message(&c->resp);
    sw_buf_init(&c->method, METHOD_MAX);
    sw_buf_init(&c->target, SW_CAPTURE_TARGET);
    sw_buf_init(&c->host, HOST_MAX);
    return c;
}

void sw_capture_drop(struct sw_capture *c)
{
    if (!c)
        return;
    c->store->bytes -= size_of(c);
    if (c->id) {
        sw_list_unlink(&c->link);
        c->store->n--;
    }
    done_message(&c->req);
    done_message(&c->resp);
    sw_buf_done(&c->method);
    sw_buf_done(&c->target);
    sw_buf_done(&c->host);
    sw_free(c);
}

void sw_captures_done(struct sw_capture_store *s)
{
    while (oldest(s))
        sw_capture_drop(oldest(s));
}

static void add_field(struct sw_capture *c, struct sw_captured *m, const struct sw_h1_field *f)
{
    size_t need = f->name.n + f->value.n + 2;

    /* A field is there whole or not at all: half a value is another one. */
    if (need > m->head.max - sw_buf_len(&m->head) || !make_room(c->store, need)) {
        m->cut_head = true;
        return;
    }
    (void)append(c, &m->head, f->name);
    (void)append(c, &m->head, sw_slice("", 1));
    (void)append(c, &m->head, f->value);
    (void)append(c, &m->head, sw_slice("", 1));
}

void sw_capture_head(struct sw_capture *c, bool answer, const struct sw_h1_msg *m)
{
    struct sw_captured *to;

    if (!c)
        return;
    to = answer ? &c->resp : &c->req;
    if (answer) {
        c->status = m->status;
    } else {
        c->cut_target = !append(c, &c->method, m->method);
        c->cut_target |= !append(c, &c->target, m->path_query.n ? m->path_query : m->target);
        c->cut_target |= !append(c, &c->host, m->authority);
    }
    for (size_t i = 0; i < m->nfields; i++)
        add_field(c, to, &m->fields[i]);
}

void sw_capture_body(struct sw_capture *c, bool answer, struct sw_slice data)
{
    struct sw_captured *to;

    if (!c)
        return;
    to = answer ? &c->resp : &c->req;
    to->body_bytes += data.n;
    /* Nothing is appended behind a gap. */
    if (!to->cut_body)
        to->cut_body = !append(c, &to->body, data);
}

void sw_capture_end(struct sw_capture *c, bool answer)
{
    if (c)
        *(answer ? &c->resp.complete : &c->req.complete) = true;
}

uint64_t sw_capture_keep(struct sw_capture *c)
{
    struct sw_capture_store *s = c->store;

    if (s->n == SW_CAPTURES_MAX)
        sw_capture_drop(oldest(s));
    c->id = ++s->last_id;
    sw_list_push_back(&s->kept, &c->link);
    s->n++;
    return c->id;
}

static struct sw_capture *copy_request(const struct sw_capture *x, const struct sw_h1_field *fields,
                                       size_t nfields)
{
    struct sw_h1_msg m = {.method = sw_buf_slice(&x->method),
                          .target = sw_buf_slice(&x->target),
                          .authority = sw_buf_slice(&x->host),
                          .fields = fields,
                          .nfields = nfields};
    struct sw_capture *copy = sw_capture_new(x->store);

    if (!copy)
        return NULL;
    sw_capture_head(copy, false, &m);
    sw_capture_body(copy, false, sw_buf_slice(&x->req.body));
    sw_capture_end(copy, false);
    memcpy(copy->origin_host, x->origin_host, sizeof(copy->origin_host));
    copy->origin_port = x->origin_port;
    copy->replay_of = x->id;
    return copy;
}

struct sw_capture *sw_capture_copy(const struct sw_capture *x, const struct sw_h1_field *fields,
                                   size_t nfields)
{
    struct sw_capture_store *s = x->store;
    struct sw_capture *copy;

    /* Making room for the copy must not drop what is copied. */
    s->pinned = x;
    copy = copy_request(x, fields, nfields);
    s->pinned = NULL;
    if (!copy || (!copy->cut_target && !copy->req.cut_head && !copy->req.cut_body))
        return copy;
    sw_capture_drop(copy);
    return NULL;
}

const struct sw_capture *sw_captures_find(const struct sw_capture_store *s, uint64_t id)
{
    SW_LIST_EACH (const struct sw_capture, c, &s->kept, link) {
        if (c->id == id)
            return c;
    }
    return NULL;
}

bool sw_captured_next(const struct sw_captured *m, size_t *at, struct sw_h1_field *ret)
{
    struct sw_slice rest = sw_slice_from(sw_buf_slice(&m->head), *at);

    if (!rest.n)
        return false;
    ret->name = sw_slice_cut(&rest, '\0');
    ret->value = sw_slice_cut(&rest, '\0');
    *at += ret->name.n + ret->value.n + 2;
    return true;
}

static bool contains(struct sw_slice name, const char *word)
{
    struct sw_slice w = sw_slice_str(word);

    for (size_t i = 0; i + w.n <= name.n; i++) {
        if (sw_slice_ieq(sw_slice(name.p + i, w.n), w))
            return true;
    }
    return false;
}

bool sw_capture_secret(struct sw_slice name)
{
    static const char *const words[] = {"authorization", "cookie",    "token",  "secret",
                                        "passw",         "key",       "jwt",    "credential",
                                        "session",       "signature", "x-auth", "assertion"};

    for (size_t i = 0; i < SW_ARRAY_LEN(words); i++) {
        if (contains(name, words[i]))
            return true;
    }
    return false;
}
