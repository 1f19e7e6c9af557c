/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/codec/h1.h"
#include "base/hex.h"
#include "gateway/message/fields.h"

#include "base/mem.h"

struct sw_h1 *gw_h1_lend(struct sw_gw_worker *w, enum sw_h1_kind kind,
                         const struct sw_h1_limits *limits)
{
    struct sw_h1 *p;

    if (!w->parsers[kind].n)
        return sw_h1_new(kind, limits);
    p = w->parsers[kind].p[--w->parsers[kind].n];
    sw_h1_set_limits(p, limits);
    return p;
}

struct sw_h1 *gw_h1_return(struct sw_gw_worker *w, struct sw_h1 *p, enum sw_h1_kind kind)
{
    if (!p)
        return NULL;
    if (w->parsers[kind].n < SW_GW_SPARE_PARSERS) {
        sw_h1_reset(p);
        sw_vec_push(&w->parsers[kind], p);
    } else {
        sw_h1_free(p);
    }
    return NULL;
}

/* ---- taking heads ---- */

/*
 * The fields lie in one stretch of memory: copied once, and the slices moved along. Returns how far
 * they moved.
 */
static const char *copy_block(struct sw_exchange *x, const char *from, const char *end)
{
    return sw_arena_dup(&x->arena, sw_slice(from, (size_t)(end - from)));
}

static struct sw_slice moved(struct sw_slice s, const char *from, const char *to)
{
    return sw_slice(s.n ? to + (s.p - from) : "", s.n);
}

static bool dropped(uint8_t hid)
{
    return sw_gw_hid_of_hop(hid) || hid == SW_GW_H_HTTP2_SETTINGS;
}

/* Copies the fields that are forwarded; the block they lie in begins at 'from' and was copied to
 * 'to'. */
static void take_fields(struct sw_exchange *x, struct sw_gw_fields *f, const struct sw_h1_msg *m,
                        const char *from, const char *to)
{
    sw_gw_fields_init(&x->arena, f, m->nfields + 10);
    for (size_t i = 0; i < m->nfields; i++) {
        const struct sw_h1_field *in = &m->fields[i];
        uint8_t hid = (uint8_t)sw_gw_hid(in->name);

        if (hid == SW_GW_H_TE && sw_h1_value_has_token(in->value, "trailers"))
            x->req.te_trailers = true;
        if (dropped(hid) || (m->nlisted && sw_h1_connection_lists(m, in->name)))
            continue;
        f->p[f->n] = (struct sw_h1_field){.name = moved(in->name, from, to),
                                          .value = moved(in->value, from, to)};
        f->hid[f->n++] = hid;
    }
}

static const char *block_end(const struct sw_h1_msg *m, struct sw_slice start)
{
    const char *end = start.p + start.n;

    for (size_t i = 0; i < m->nfields; i++) {
        const struct sw_h1_field *f = &m->fields[i];

        if (f->value.n && f->value.p + f->value.n > end)
            end = f->value.p + f->value.n;
        else if (f->name.p + f->name.n > end)
            end = f->name.p + f->name.n;
    }
    return end;
}

static void take_length(const struct sw_h1_msg *m, uint8_t *ret, uint64_t *ret_n)
{
    switch (m->framing) {
    case SW_H1_NO_BODY:
        *ret = SW_GW_LENGTH_NONE;
        break;
    case SW_H1_LENGTH:
        *ret = SW_GW_LENGTH_KNOWN;
        *ret_n = m->content_length;
        break;
    case SW_H1_CHUNKED:
    case SW_H1_UNTIL_CLOSE:
        *ret = SW_GW_LENGTH_UNKNOWN;
        break;
    case SW_H1_TUNNEL:
        *ret = SW_GW_LENGTH_TUNNEL;
        break;
    }
}

void gw_h1_take_request(struct sw_exchange *x, const struct sw_h1_msg *m)
{
    struct sw_gw_request *r = &x->req;
    const char *from = m->method.p;
    const char *to = copy_block(x, from, block_end(m, m->target));

    r->method = moved(m->method, from, to);
    r->authority = moved(m->authority, from, to);
    r->path = m->form == SW_H1_ASTERISK ? SW_SLICE_LIT("*") : moved(m->path_query, from, to);
    if (r->path.n == 0 && m->form == SW_H1_ABSOLUTE)
        r->path = SW_SLICE_LIT("/");
    if (r->path.n && r->path.p[0] == '?') {
        char *fixed = sw_arena_alloc(&x->arena, r->path.n + 2);

        fixed[0] = '/';
        memcpy(fixed + 1, r->path.p, r->path.n);
        r->path = sw_slice(fixed, r->path.n + 1);
    }
    r->version = m->minor ? SW_GW_HTTP11 : SW_GW_HTTP10;
    r->head = sw_slice_eq_str(m->method, "HEAD");
    r->connect = m->form == SW_H1_AUTHORITY;
    take_length(m, &r->length, &r->content_length);
    r->expect_continue = m->expect_continue;
    take_fields(x, &r->fields, m, from, to);
    r->grpc = sw_gw_fields_grpc(&r->fields);
    /* An upgrade with a body would have two meanings for what follows the head: no upgrade then. */
    if (m->upgrade.n && m->framing == SW_H1_NO_BODY &&
        !sw_slice_ieq(m->upgrade, SW_SLICE_LIT("h2c"))) {
        r->upgrade = moved(m->upgrade, from, to);
        r->length = SW_GW_LENGTH_TUNNEL;
    }
}

void gw_h1_take_response(struct sw_exchange *x, const struct sw_h1_msg *m)
{
    struct sw_gw_response *r = &x->resp;
    const char *from = m->nfields ? m->fields[0].name.p : "";
    const char *to = m->nfields ? copy_block(x, from, block_end(m, m->fields[0].name)) : "";
    const struct sw_slice *length;

    memset(r, 0, sizeof(*r));
    r->status = (uint16_t)m->status;
    r->version = m->minor ? SW_GW_HTTP11 : SW_GW_HTTP10;
    take_length(m, &r->length, &r->content_length);
    if (m->framing == SW_H1_NO_BODY && (length = sw_h1_field(m, "content-length")) != NULL)
        r->has_length = sw_slice_to_u64(*length, UINT64_MAX >> 1, &r->content_length);
    take_fields(x, &r->fields, m, from, to);
}

void gw_h1_take_trailers(struct sw_exchange *x, struct sw_gw_fields *to,
                         const struct sw_h1_field *f, size_t n)
{
    sw_gw_fields_init(&x->arena, to, n + 2);
    for (size_t i = 0; i < n; i++) {
        if (!dropped((uint8_t)sw_gw_hid(f[i].name)))
            sw_gw_fields_add(&x->arena, to, sw_arena_slice(&x->arena, f[i].name),
                             sw_arena_slice(&x->arena, f[i].value));
    }
}

/* ---- writing heads ---- */

void gw_h1_out_begin(struct gw_h1_out *o, struct sw_conn *c, size_t n)
{
    o->conn = c;
    o->heap = n > SW_CONN_ROOM_MAX || c->closed ? sw_malloc(n) : NULL;
    o->from = o->heap ? o->heap : sw_conn_room(c, n);
    o->p = o->from;
    o->end = o->from + n;
}

void gw_h1_out_field(struct gw_h1_out *o, struct sw_slice name, struct sw_slice value)
{
    uint8_t *p = o->p;

    assert((size_t)(o->end - p) >= name.n + value.n + 4);
    memcpy(p, name.p, name.n);
    p += name.n;
    *p++ = ':';
    *p++ = ' ';
    if (value.n)
        memcpy(p, value.p, value.n);
    p += value.n;
    *p++ = '\r';
    *p++ = '\n';
    o->p = p;
}

void gw_h1_out_u64(struct gw_h1_out *o, uint64_t v)
{
    char text[20];
    size_t at = sizeof(text);

    do {
        text[--at] = (char)('0' + v % 10);
        v /= 10;
    } while (v);
    gw_h1_out_put(o, sw_slice(text + at, sizeof(text) - at));
}

void gw_h1_out_end(struct gw_h1_out *o)
{
    size_t n = (size_t)(o->p - o->from);

    if (o->heap) {
        sw_conn_put(o->conn, o->heap, n);
        sw_free(o->heap);
    } else {
        sw_conn_commit(o->conn, n);
    }
}

size_t gw_h1_fields_size(const struct sw_gw_fields *f)
{
    size_t n = 0;

    for (uint32_t i = 0; i < f->n; i++)
        n += f->p[i].name.n + f->p[i].value.n + 4;
    return n;
}

void gw_h1_put_fields(struct gw_h1_out *o, const struct sw_gw_fields *f)
{
    for (uint32_t i = 0; i < f->n; i++)
        gw_h1_out_field(o, f->p[i].name, f->p[i].value);
}

/* ---- bodies ---- */

void gw_h1_send_chunk(struct sw_conn *c, struct sw_slice data)
{
    char head[20];
    size_t at = sizeof(head);
    size_t n = data.n;

    if (n == 0)
        return;
    head[--at] = '\n';
    head[--at] = '\r';
    for (; n; n >>= 4)
        head[--at] = sw_hex_lower(n & 15);
    sw_conn_put(c, head + at, sizeof(head) - at);
    sw_conn_send(c, data);
    sw_conn_put(c, "\r\n", 2);
}

void gw_h1_send_last_chunk(struct sw_conn *c, const struct sw_gw_fields *trailers)
{
    struct gw_h1_out o;

    gw_h1_out_begin(&o, c, gw_h1_fields_size(trailers) + 5);
    gw_h1_out_lit(&o, "0\r\n");
    gw_h1_put_fields(&o, trailers);
    gw_h1_out_lit(&o, "\r\n");
    gw_h1_out_end(&o);
}
