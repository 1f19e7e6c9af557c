/* SPDX-License-Identifier: Apache-2.0 */
/* JSON to wire format: written straight from the tree, guided by descriptors; no message is built.
 */
#include "proto/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <protobuf-c/protobuf-c.h>

#include <proto/google.pb-c.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/time.h"
#include "proto/json_int.h"
#include "proto/pb_int.h"
#include "proto/types.h"

enum { OUT_MAX = 64 << 20, PATH_MAX_TEXT = 120, DEPTH_MAX = 64 };

struct in_ctx {
    struct sw_arena *arena;
    struct sw_err *err;
    unsigned depth;
};

/* Where we are, linked on the stack; written out only for messages. */
struct path {
    const struct path *up;
    const char *name; /* NULL: index */
    size_t index;
};

static void path_text(const struct path *p, char *out, size_t cap)
{
    const struct path *chain[DEPTH_MAX * 2];
    size_t n = 0;
    size_t at = 0;

    for (; p && n < SW_ARRAY_LEN(chain); p = p->up)
        chain[n++] = p;
    out[0] = '\0';
    while (n-- > 0 && at + 1 < cap) {
        int w = chain[n]->name ? snprintf(out + at, cap - at, "%s%s", at ? "." : "", chain[n]->name)
                               : snprintf(out + at, cap - at, "[%zu]", chain[n]->index);

        if (w < 0)
            break;
        at += (size_t)w;
    }
}

__attribute__((format(printf, 3, 4))) static int bad(const struct in_ctx *c, const struct path *p,
                                                     const char *fmt, ...)
{
    char where[PATH_MAX_TEXT];
    char what[120];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    path_text(p, where, sizeof(where));
    return sw_err_set(c->err, SW_EINVAL, "%s%s%s", where, where[0] ? ": " : "", what);
}

static int put_message(struct in_ctx *c, const struct path *p, const ProtobufCMessageDescriptor *d,
                       const struct sw_json *v, struct sw_buf *out);

/* Integers may be written as strings, as protobuf's JSON does with 64 bits. */
static bool get_int(const struct sw_json *v, int64_t min, uint64_t max, uint64_t *ret)
{
    struct sw_json n = *v;
    int64_t i;
    uint64_t u;

    if (v->type == SW_JSON_STRING) {
        if (!sw_json_number_valid(v->text))
            return false;
        n.type = SW_JSON_NUMBER;
    }
    if (n.type != SW_JSON_NUMBER)
        return false;
    if (sw_json_exact_i64(&n, &i)) {
        if (i < min || (i > 0 && (uint64_t)i > max))
            return false;
        *ret = (uint64_t)i;
        return true;
    }
    if (sw_json_u64(&n, &u) && u <= max) {
        *ret = u;
        return true;
    }
    return false;
}

static bool get_double(const struct sw_json *v, double *ret)
{
    return sw_json_is(v, SW_JSON_NUMBER) && sw_json_double(v, ret);
}

static bool enum_value(const ProtobufCEnumDescriptor *d, struct sw_slice name, int *ret)
{
    for (unsigned i = 0; i < d->n_values; i++) {
        struct sw_slice have = sw_slice_str(d->values[i].name);

        /* Ours carry a prefix where two enums of one scope would collide. */
        if (sw_slice_eq(have, name) || (have.n > name.n && sw_slice_has_suffix(have, name) &&
                                        have.p[have.n - name.n - 1] == '_')) {
            *ret = d->values[i].value;
            return true;
        }
    }
    return false;
}

/* The varint or fixed content of a scalar; *ret_wire says how it is written. */
static int scalar(struct in_ctx *c, const struct path *p, const ProtobufCFieldDescriptor *f,
                  const struct sw_json *v, unsigned *ret_wire, uint64_t *ret)
{
    double d;
    int e;

    *ret_wire = PROTOBUF_C_WIRE_TYPE_VARINT;
    switch ((int)f->type) { /* kinds our schemas do not use fall through to default */
    case PROTOBUF_C_TYPE_INT32:
        return get_int(v, INT32_MIN, INT32_MAX, ret) ? SW_OK : bad(c, p, "an int32 is expected");
    case PROTOBUF_C_TYPE_INT64:
        return get_int(v, INT64_MIN, INT64_MAX, ret) ? SW_OK : bad(c, p, "an int64 is expected");
    case PROTOBUF_C_TYPE_UINT32:
        return get_int(v, 0, UINT32_MAX, ret) ? SW_OK : bad(c, p, "a uint32 is expected");
    case PROTOBUF_C_TYPE_UINT64:
        return get_int(v, 0, UINT64_MAX, ret) ? SW_OK : bad(c, p, "a uint64 is expected");
    case PROTOBUF_C_TYPE_BOOL:
        if (v->type != SW_JSON_BOOL)
            return bad(c, p, "true or false is expected");
        *ret = v->boolean;
        return SW_OK;
    case PROTOBUF_C_TYPE_ENUM:
        if (v->type == SW_JSON_STRING && enum_value(f->descriptor, v->text, &e)) {
            *ret = (uint64_t)(int64_t)e;
            return SW_OK;
        }
        if (v->type == SW_JSON_NUMBER && get_int(v, INT32_MIN, INT32_MAX, ret))
            return SW_OK;
        return bad(c, p, "unknown value '%.*s'",
                   v->type == SW_JSON_STRING ? (int)sw_min(v->text.n, 40) : 0, v->text.p);
    case PROTOBUF_C_TYPE_DOUBLE:
        if (!get_double(v, &d))
            return bad(c, p, "a number is expected");
        *ret_wire = PROTOBUF_C_WIRE_TYPE_64BIT;
        memcpy(ret, &d, sizeof(*ret));
        return SW_OK;
    default:
        return bad(c, p, "fields of this type are not supported");
    }
}

/* A fixed number is little-endian, as every machine we run on. */
static int put_number(struct sw_buf *out, unsigned wire, uint64_t v)
{
    return wire == PROTOBUF_C_WIRE_TYPE_64BIT ? sw_buf_append(out, &v, sizeof(v))
                                              : pb_put_varint(out, v);
}

static int text_or_bytes(struct in_ctx *c, const struct path *p,
                         const ProtobufCMessageDescriptor *d, const ProtobufCFieldDescriptor *f,
                         const struct sw_json *v, struct sw_slice *ret)
{
    SW_BUF_AUTO raw = {.max = OUT_MAX};

    if (v->type != SW_JSON_STRING)
        return bad(c, p, "a string is expected, not %s", sw_json_type_name(v->type));
    *ret = v->text;
    if (!sw_pb_field_is_binary(d, f))
        return SW_OK;
    if (sw_base64_decode(&raw, v->text) < 0)
        return bad(c, p, "not base64");
    *ret = sw_arena_slice(c->arena, sw_buf_slice(&raw));
    return SW_OK;
}

static int put_nested(struct in_ctx *c, const struct path *p, const ProtobufCMessageDescriptor *d,
                      unsigned field, const struct sw_json *v, struct sw_buf *out)
{
    SW_BUF_AUTO inner = {.max = OUT_MAX};
    int rc;

    if (++c->depth > DEPTH_MAX)
        return bad(c, p, "nested too deeply");
    rc = put_message(c, p, d, v, &inner);
    if (rc == SW_OK)
        rc = sw_pb_put_bytes(out, field, sw_buf_slice(&inner));
    c->depth--;
    return rc;
}

static int put_one(struct in_ctx *c, const struct path *p, const ProtobufCMessageDescriptor *d,
                   const ProtobufCFieldDescriptor *f, const struct sw_json *v, struct sw_buf *out)
{
    struct sw_slice text = {0};
    unsigned wire = 0;
    uint64_t n = 0;
    int rc;

    if (f->type == PROTOBUF_C_TYPE_MESSAGE)
        return put_nested(c, p, f->descriptor, f->id, v, out);
    if (f->type == PROTOBUF_C_TYPE_BYTES || f->type == PROTOBUF_C_TYPE_STRING) {
        rc = text_or_bytes(c, p, d, f, v, &text);
        if (rc < 0)
            return rc;
        /* Implicit presence: a default says nothing on the wire. */
        if (text.n == 0 && f->label == PROTOBUF_C_LABEL_NONE &&
            !(f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF))
            return SW_OK;
        return sw_pb_put_bytes(out, f->id, text);
    }
    rc = scalar(c, p, f, v, &wire, &n);
    if (rc < 0)
        return rc;
    if (n == 0 && f->label == PROTOBUF_C_LABEL_NONE && !(f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF))
        return SW_OK;
    if (pb_put_tag(out, f->id, wire) < 0)
        return SW_ELIMIT;
    return put_number(out, wire, n);
}

static int put_packed(struct in_ctx *c, const struct path *p, const ProtobufCFieldDescriptor *f,
                      const struct sw_json *v, struct sw_buf *out)
{
    SW_BUF_AUTO inner = {.max = OUT_MAX};
    int rc = SW_OK;

    for (size_t i = 0; rc == SW_OK && i < v->arr.n; i++) {
        struct path at = {.up = p, .index = i};
        unsigned wire = 0;
        uint64_t n = 0;

        rc = scalar(c, &at, f, v->arr.items[i], &wire, &n);
        if (rc == SW_OK)
            rc = put_number(&inner, wire, n);
    }
    if (rc == SW_OK && sw_buf_len(&inner))
        rc = sw_pb_put_bytes(out, f->id, sw_buf_slice(&inner));
    return rc;
}

/* {"k": v} as entries, sorted by key. */
static int put_map(struct in_ctx *c, const struct path *p, const ProtobufCFieldDescriptor *f,
                   const struct sw_json *v, struct sw_buf *out)
{
    const ProtobufCMessageDescriptor *entry = f->descriptor;
    struct sw_json *sorted = sw_json_copy(c->arena, v);
    int rc = SW_OK;

    sw_json_sort_members(sorted);
    for (size_t i = 0; rc == SW_OK && i < sorted->obj.n; i++) {
        const struct sw_json_member *m = &sorted->obj.members[i];
        char *key = sw_arena_dup(c->arena, m->key);
        struct path at = {.up = p, .name = key};
        SW_BUF_AUTO inner = {.max = OUT_MAX};

        if (m->key.n) /* as every other field at its default */
            rc = sw_pb_put_bytes(&inner, 1, m->key);
        if (rc == SW_OK)
            rc = put_one(c, &at, entry, &entry->fields[1], m->value, &inner);
        if (rc == SW_OK)
            rc = sw_pb_put_bytes(out, f->id, sw_buf_slice(&inner));
    }
    return rc;
}

static int put_field(struct in_ctx *c, const struct path *p, const ProtobufCMessageDescriptor *d,
                     const ProtobufCFieldDescriptor *f, const struct sw_json *v, struct sw_buf *out)
{
    if (v->type == SW_JSON_NULL && f->descriptor != &sw__value__descriptor)
        return SW_OK;
    if (f->label != PROTOBUF_C_LABEL_REPEATED)
        return put_one(c, p, d, f, v, out);
    if (v->type == SW_JSON_OBJECT && f->type == PROTOBUF_C_TYPE_MESSAGE &&
        sw_pb_is_entry(f->descriptor))
        return put_map(c, p, f, v, out);
    if (v->type != SW_JSON_ARRAY)
        return bad(c, p, "a list is expected, not %s", sw_json_type_name(v->type));
    if (f->flags & PROTOBUF_C_FIELD_FLAG_PACKED)
        return put_packed(c, p, f, v, out);
    for (size_t i = 0; i < v->arr.n; i++) {
        struct path at = {.up = p, .index = i};
        int rc = put_one(c, &at, d, f, v->arr.items[i], out); /* a default too */

        if (rc < 0)
            return rc;
    }
    return SW_OK;
}

/* The descriptor's field for a JSON name: exact, or the name in lowerCamelCase. */
static bool name_is(struct sw_slice json, const char *field)
{
    size_t i = 0;
    bool upper = false;

    if (sw_slice_eq_str(json, field))
        return true;
    for (; *field; field++) {
        char ch = *field;

        if (ch == '_') {
            upper = true;
            continue;
        }
        if (upper && ch >= 'a' && ch <= 'z')
            ch = (char)(ch - 'a' + 'A');
        upper = false;
        if (i >= json.n || json.p[i++] != ch)
            return false;
    }
    return i == json.n;
}

static const ProtobufCFieldDescriptor *field_named(const ProtobufCMessageDescriptor *d,
                                                   struct sw_slice name)
{
    for (unsigned i = 0; i < d->n_fields; i++) {
        if (name_is(name, d->fields[i].name))
            return &d->fields[i];
    }
    return NULL;
}

static int check_names(struct in_ctx *c, const struct path *p, const ProtobufCMessageDescriptor *d,
                       const struct sw_json *v, bool any)
{
    for (size_t i = 0; i < v->obj.n; i++) {
        const struct sw_json_member *m = &v->obj.members[i];
        const ProtobufCFieldDescriptor *f = field_named(d, m->key);

        if (any && sw_slice_eq_str(m->key, "@type"))
            continue;
        if (!f)
            return bad(c, p, "unknown field '%.*s'", (int)sw_min(m->key.n, 40), m->key.p);
        if (!(f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) || m->value->type == SW_JSON_NULL)
            continue;
        for (size_t k = 0; k < i; k++) {
            const ProtobufCFieldDescriptor *other = field_named(d, v->obj.members[k].key);

            if (other && other != f && (other->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) &&
                other->quantifier_offset == f->quantifier_offset &&
                v->obj.members[k].value->type != SW_JSON_NULL)
                return bad(c, p, "'%s' and '%s' exclude each other", other->name, f->name);
        }
    }
    return SW_OK;
}

static int put_fields(struct in_ctx *c, const struct path *p, const ProtobufCMessageDescriptor *d,
                      const struct sw_json *v, bool any, struct sw_buf *out)
{
    int rc;

    if (v->type != SW_JSON_OBJECT)
        return bad(c, p, "an object is expected, not %s", sw_json_type_name(v->type));
    rc = check_names(c, p, d, v, any);
    for (unsigned i = 0; rc == SW_OK && i < d->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &d->fields[i];

        for (size_t k = 0; rc == SW_OK && k < v->obj.n; k++) {
            struct path at = {.up = p, .name = f->name};

            if (name_is(v->obj.members[k].key, f->name))
                rc = put_field(c, &at, d, f, v->obj.members[k].value, out);
        }
    }
    return rc;
}

static int put_any(struct in_ctx *c, const struct path *p, const struct sw_json *v,
                   struct sw_buf *out)
{
    struct sw_slice url = sw_json_str(sw_json_find(v, "@type"));
    const ProtobufCMessageDescriptor *d;
    const struct sw_json *body = v;
    SW_BUF_AUTO inner = {.max = OUT_MAX};
    int rc;

    if (!url.p)
        return bad(c, p, "an object with '@type' is expected");
    d = sw_pb_type_find(url);
    if (!d)
        return bad(c, p, "unknown type '%.*s'", (int)sw_min(url.n, 90), url.p);
    if (sw_pb_is_wrapped(d)) {
        body = sw_json_find(v, "value");
        if (!body)
            return bad(c, p, "'value' is missing");
    }
    rc = body == v ? put_fields(c, p, d, v, true, &inner) : put_message(c, p, d, body, &inner);
    if (rc == SW_OK)
        rc = sw_pb_put_bytes(out, 1, url);
    if (rc == SW_OK && sw_buf_len(&inner))
        rc = sw_pb_put_bytes(out, 2, sw_buf_slice(&inner));
    return rc;
}

/* "1.5s", "300s", "-2s"; also "250ms" and "1h30m" of human writers. */
static int put_duration(struct in_ctx *c, const struct path *p, const struct sw_json *v,
                        struct sw_buf *out)
{
    struct sw_slice t = sw_json_str(v);
    uint64_t s = 0;
    uint64_t frac = 0;
    ptrdiff_t dot;
    struct sw_slice whole;

    if (t.n < 2 || t.p[t.n - 1] != 's')
        return bad(c, p, "a duration such as \"1.5s\" is expected");
    whole = sw_slice_head(t, t.n - 1);
    dot = sw_slice_find(whole, '.');
    if (dot >= 0) {
        struct sw_slice digits = sw_slice_from(whole, (size_t)dot + 1);
        size_t n = digits.n;

        if (n == 0 || n > 9 || !sw_slice_to_u64(digits, 999999999, &frac))
            return bad(c, p, "bad fraction in a duration");
        for (; n < 9; n++)
            frac *= 10;
        whole = sw_slice_head(whole, (size_t)dot);
    }
    if (!sw_slice_to_u64(whole, UINT64_C(315576000000), &s)) {
        struct sw_err err;

        if (dot >= 0 || sw_duration_parse(t, &s, &err) < 0)
            return bad(c, p, "bad duration");
        frac = s % SW_NS_PER_S;
        s /= SW_NS_PER_S;
    }
    if (s && sw_pb_put_varint(out, 1, s) < 0)
        return SW_ELIMIT;
    return frac ? sw_pb_put_varint(out, 2, frac) : SW_OK;
}

static int put_value(struct in_ctx *c, const struct path *p, const struct sw_json *v,
                     struct sw_buf *out)
{
    const ProtobufCMessageDescriptor *d = &sw__value__descriptor;
    double n;

    switch (v->type) {
    case SW_JSON_NULL:
        return sw_pb_put_varint(out, 1, 0);
    case SW_JSON_NUMBER:
        if (!get_double(v, &n))
            return bad(c, p, "number out of range");
        if (pb_put_tag(out, 2, PROTOBUF_C_WIRE_TYPE_64BIT) < 0)
            return SW_ELIMIT;
        return sw_buf_append(out, &n, sizeof(n));
    case SW_JSON_STRING:
        return sw_pb_put_bytes(out, 3, v->text);
    case SW_JSON_BOOL:
        return sw_pb_put_varint(out, 4, v->boolean);
    case SW_JSON_OBJECT:
        return put_nested(c, p, &sw__struct__descriptor, 5, v, out);
    case SW_JSON_ARRAY:
        return put_nested(c, p, &sw__list_value__descriptor, 6, v, out);
    }
    return bad(c, p, "bad value for %s", d->short_name);
}

static int put_message(struct in_ctx *c, const struct path *p, const ProtobufCMessageDescriptor *d,
                       const struct sw_json *v, struct sw_buf *out)
{
    if (d == &sw__any__descriptor)
        return put_any(c, p, v, out);
    if (d == &sw__duration__descriptor)
        return put_duration(c, p, v, out);
    if (d == &sw__value__descriptor)
        return put_value(c, p, v, out);
    if (d == &sw__struct__descriptor) {
        if (v->type != SW_JSON_OBJECT)
            return bad(c, p, "an object is expected");
        return put_map(c, p, &d->fields[0], v, out);
    }
    if (d == &sw__list_value__descriptor) {
        if (v->type != SW_JSON_ARRAY)
            return bad(c, p, "a list is expected");
        return put_field(c, p, d, &d->fields[0], v, out);
    }
    if (sw_pb_is_wrapper(d))
        return put_one(c, p, d, &d->fields[0], v, out);
    return put_fields(c, p, d, v, false, out);
}

int sw_pb_from_json(struct sw_arena *a, const struct ProtobufCMessageDescriptor *type,
                    const struct sw_json *v, struct sw_slice *ret, struct sw_err *err)
{
    struct in_ctx c = {.arena = a, .err = err};
    SW_BUF_AUTO out = {.max = OUT_MAX};
    int rc;

    rc = put_message(&c, NULL, type, v, &out);
    if (rc == SW_ELIMIT)
        return sw_err_set(err, SW_ELIMIT, "message too large");
    if (rc == SW_OK)
        *ret = sw_arena_slice(a, sw_buf_slice(&out));
    return rc;
}
