/* SPDX-License-Identifier: Apache-2.0 */
/* Messages to JSON, by their descriptors. */
#include "proto/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <protobuf-c/protobuf-c.h>

#include <proto/google.pb-c.h>

#include "base/base64.h"
#include "base/buf.h"
#include "proto/json_int.h"
#include "proto/pb.h"
#include "proto/types.h"

enum { DEPTH_MAX = 64 };

bool sw_pb_is_wrapper(const struct ProtobufCMessageDescriptor *d)
{
    return d == &sw__bool_value__descriptor || d == &sw__uint32_value__descriptor ||
           d == &sw__uint64_value__descriptor || d == &sw__int32_value__descriptor ||
           d == &sw__int64_value__descriptor || d == &sw__double_value__descriptor ||
           d == &sw__string_value__descriptor || d == &sw__bytes_value__descriptor;
}

bool sw_pb_is_wrapped(const struct ProtobufCMessageDescriptor *d)
{
    return sw_pb_is_wrapper(d) || d == &sw__duration__descriptor || d == &sw__struct__descriptor ||
           d == &sw__value__descriptor || d == &sw__list_value__descriptor;
}

bool sw_pb_is_entry(const struct ProtobufCMessageDescriptor *d)
{
    return d->n_fields == 2 && d->fields[0].id == 1 && d->fields[1].id == 2 &&
           strcmp(d->fields[0].name, "key") == 0 && strcmp(d->fields[1].name, "value") == 0;
}

bool sw_pb_field_is_binary(const struct ProtobufCMessageDescriptor *d,
                           const struct ProtobufCFieldDescriptor *f)
{
    static const char *const names[] = {"inline_bytes", "raw_value", "binary",
                                        "buf_value",    "raw_body",  "unstructured_bytes"};

    if (f->type != PROTOBUF_C_TYPE_BYTES)
        return false;
    for (size_t i = 0; i < SW_ARRAY_LEN(names); i++) {
        if (strcmp(f->name, names[i]) == 0)
            return true;
    }
    return d == &sw__bytes_value__descriptor || d == &sw__any__descriptor;
}

struct out_ctx {
    struct sw_arena *arena;
    bool secrets;
    unsigned depth;
};

static struct sw_json *message(struct out_ctx *c, const ProtobufCMessage *m);

static struct sw_json *base64(struct out_ctx *c, struct sw_slice bytes)
{
    SW_BUF_AUTO out = {0};

    sw_buf_init(&out, bytes.n * 2 + 8);
    if (sw_base64_append(&out, bytes) < 0)
        return sw_json_new_str(c->arena, "");
    return sw_json_new_string(c->arena, sw_buf_slice(&out));
}

static struct sw_json *number(struct out_ctx *c, double d)
{
    return isfinite(d) ? sw_json_new_double(c->arena, d) : sw_json_new_str(c->arena, "NaN");
}

static struct sw_json *duration(struct out_ctx *c, const Sw__Duration *d)
{
    char text[48];
    long long s = d->seconds;
    int nanos = d->nanos;

    if (nanos == 0)
        (void)snprintf(text, sizeof(text), "%llds", s);
    else if (nanos % 1000000 == 0)
        (void)snprintf(text, sizeof(text), "%lld.%03ds", s, nanos / 1000000);
    else
        (void)snprintf(text, sizeof(text), "%lld.%09ds", s, nanos);
    return sw_json_new_str(c->arena, text);
}

static struct sw_json *value(struct out_ctx *c, const Sw__Value *v)
{
    switch ((int)v->kind_case) {
    case SW__VALUE__KIND_NUMBER_VALUE:
        return number(c, v->number_value);
    case SW__VALUE__KIND_STRING_VALUE:
        return sw_json_new_string(c->arena, SW_PB_SLICE(v->string_value));
    case SW__VALUE__KIND_BOOL_VALUE:
        return sw_json_new_bool(c->arena, v->bool_value);
    case SW__VALUE__KIND_STRUCT_VALUE:
        return message(c, &v->struct_value->base);
    case SW__VALUE__KIND_LIST_VALUE:
        return message(c, &v->list_value->base);
    case SW__VALUE__KIND_NULL_VALUE:
    case SW__VALUE__KIND__NOT_SET:
    default:
        return sw_json_new_null(c->arena);
    }
}

static struct sw_json *any(struct out_ctx *c, const Sw__Any *a)
{
    const ProtobufCMessageDescriptor *d = sw_pb_type_find(SW_PB_SLICE(a->type_url));
    struct sw_json *v = sw_json_new_object(c->arena);
    const ProtobufCMessage *m = NULL;
    struct sw_json *body;

    sw_json_put_str(c->arena, v, "@type", SW_PB_SLICE(a->type_url));
    if (d)
        m = sw_pb_unpack(c->arena, d, SW_PB_SLICE(a->value), NULL, NULL);
    if (!m) {
        sw_json_put(c->arena, v, "value", base64(c, SW_PB_SLICE(a->value)));
        return v;
    }
    body = message(c, m);
    if (sw_pb_is_wrapped(d) || body->type != SW_JSON_OBJECT) {
        sw_json_put(c->arena, v, "value", body);
        return v;
    }
    for (size_t i = 0; i < body->obj.n; i++)
        sw_json_set(c->arena, v, body->obj.members[i].key, body->obj.members[i].value);
    return v;
}

static bool is_secret(const ProtobufCMessageDescriptor *d, const ProtobufCFieldDescriptor *f)
{
    static const char *const names[] = {"private_key", "password", "session_ticket_keys",
                                        "generic_secret"};

    (void)d;
    for (size_t i = 0; i < SW_ARRAY_LEN(names); i++) {
        if (strcmp(f->name, names[i]) == 0)
            return true;
    }
    return false;
}

static struct sw_json *enum_name(struct out_ctx *c, const ProtobufCFieldDescriptor *f, int32_t v)
{
    const ProtobufCEnumValue *e = protobuf_c_enum_descriptor_get_value(f->descriptor, v);

    return e ? sw_json_new_str(c->arena, e->name) : sw_json_new_i64(c->arena, v);
}

/* The value at p, of the field's type. */
static struct sw_json *one(struct out_ctx *c, const ProtobufCMessageDescriptor *d,
                           const ProtobufCFieldDescriptor *f, const void *p)
{
    int32_t i32;
    int64_t i64;
    uint64_t u64;
    double dbl;
    ProtobufCBinaryData bin;
    protobuf_c_boolean b;
    const ProtobufCMessage *m;

    switch ((int)f->type) { /* kinds our schemas do not use fall through to default */
    case PROTOBUF_C_TYPE_BOOL:
        memcpy(&b, p, sizeof(b));
        return sw_json_new_bool(c->arena, b != 0);
    case PROTOBUF_C_TYPE_INT32:
        memcpy(&i32, p, sizeof(i32));
        return sw_json_new_i64(c->arena, i32);
    case PROTOBUF_C_TYPE_UINT32:
        memcpy(&i32, p, sizeof(i32));
        return sw_json_new_u64(c->arena, (uint32_t)i32);
    case PROTOBUF_C_TYPE_ENUM:
        memcpy(&i32, p, sizeof(i32));
        return enum_name(c, f, i32);
    case PROTOBUF_C_TYPE_INT64:
        memcpy(&i64, p, sizeof(i64));
        return sw_json_new_i64(c->arena, i64);
    case PROTOBUF_C_TYPE_UINT64:
        memcpy(&u64, p, sizeof(u64));
        return sw_json_new_u64(c->arena, u64);
    case PROTOBUF_C_TYPE_DOUBLE:
        memcpy(&dbl, p, sizeof(dbl));
        return number(c, dbl);
    case PROTOBUF_C_TYPE_BYTES:
        memcpy(&bin, p, sizeof(bin));
        return sw_pb_field_is_binary(d, f) ? base64(c, SW_PB_SLICE(bin))
                                           : sw_json_new_string(c->arena, SW_PB_SLICE(bin));
    case PROTOBUF_C_TYPE_MESSAGE:
        memcpy(&m, p, sizeof(m));
        return m ? message(c, m) : NULL;
    default:
        return NULL;
    }
}

static size_t size_of(const ProtobufCFieldDescriptor *f)
{
    switch ((int)f->type) { /* kinds our schemas do not use fall through to default */
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_MESSAGE:
    case PROTOBUF_C_TYPE_STRING:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    default:
        return 4;
    }
}

static struct sw_json *list(struct out_ctx *c, const ProtobufCMessageDescriptor *d,
                            const ProtobufCFieldDescriptor *f, const char *base)
{
    size_t n;
    const char *items;
    bool map = f->type == PROTOBUF_C_TYPE_MESSAGE && sw_pb_is_entry(f->descriptor);
    struct sw_json *out;

    memcpy(&n, base + f->quantifier_offset, sizeof(n));
    memcpy(&items, base + f->offset, sizeof(items));
    if (n == 0)
        return NULL;
    out = map ? sw_json_new_object(c->arena) : sw_json_new_array(c->arena);
    for (size_t i = 0; i < n; i++) {
        const char *at = items + i * size_of(f);
        struct sw_json *v;

        if (map) {
            const ProtobufCMessage *entry;
            const ProtobufCFieldDescriptor *val =
                &((const ProtobufCMessageDescriptor *)f->descriptor)->fields[1];
            ProtobufCBinaryData key;

            memcpy(&entry, at, sizeof(entry));
            memcpy(&key,
                   (const char *)entry +
                       ((const ProtobufCMessageDescriptor *)f->descriptor)->fields[0].offset,
                   sizeof(key));
            v = one(c, f->descriptor, val, (const char *)entry + val->offset);
            if (!v)
                v = sw_json_new_null(c->arena);
            sw_json_set(c->arena, out, SW_PB_SLICE(key), v);
            continue;
        }
        v = one(c, d, f, at);
        if (v)
            sw_json_push(c->arena, out, v);
    }
    return out;
}

/* True when the field says nothing: at its default without presence, or another of the oneof. */
static bool absent(const ProtobufCFieldDescriptor *f, const char *base)
{
    static const char zero[sizeof(ProtobufCBinaryData)];

    if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
        uint32_t which;

        memcpy(&which, base + f->quantifier_offset, sizeof(which));
        return which != f->id;
    }
    if (f->type == PROTOBUF_C_TYPE_BYTES) {
        ProtobufCBinaryData b;

        memcpy(&b, base + f->offset, sizeof(b));
        return b.len == 0;
    }
    return memcmp(base + f->offset, zero, size_of(f)) == 0;
}

static struct sw_json *fields(struct out_ctx *c, const ProtobufCMessage *m)
{
    const ProtobufCMessageDescriptor *d = m->descriptor;
    const char *base = (const char *)m;
    struct sw_json *out = sw_json_new_object(c->arena);

    for (unsigned i = 0; i < d->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &d->fields[i];
        struct sw_json *v;

        if (f->label == PROTOBUF_C_LABEL_REPEATED)
            v = list(c, d, f, base);
        else
            v = absent(f, base) ? NULL : one(c, d, f, base + f->offset);
        if (v && !c->secrets && is_secret(d, f))
            v = sw_json_new_str(c->arena, "[redacted]");
        if (v)
            sw_json_put(c->arena, out, f->name, v);
    }
    return out;
}

static struct sw_json *message(struct out_ctx *c, const ProtobufCMessage *m)
{
    const ProtobufCMessageDescriptor *d = m->descriptor;
    struct sw_json *v;

    if (c->depth >= DEPTH_MAX)
        return sw_json_new_null(c->arena);
    c->depth++;
    if (d == &sw__any__descriptor) {
        v = any(c, (const Sw__Any *)(const void *)m);
    } else if (d == &sw__duration__descriptor) {
        v = duration(c, (const Sw__Duration *)(const void *)m);
    } else if (d == &sw__value__descriptor) {
        v = value(c, (const Sw__Value *)(const void *)m);
    } else if (d == &sw__struct__descriptor) {
        v = list(c, d, &d->fields[0], (const char *)m);
        v = v ? v : sw_json_new_object(c->arena);
    } else if (d == &sw__list_value__descriptor) {
        v = list(c, d, &d->fields[0], (const char *)m);
        v = v ? v : sw_json_new_array(c->arena);
    } else if (sw_pb_is_wrapper(d)) {
        v = one(c, d, &d->fields[0], (const char *)m + d->fields[0].offset);
    } else {
        v = fields(c, m);
    }
    c->depth--;
    return v;
}

struct sw_json *sw_pb_to_json(struct sw_arena *a, const struct ProtobufCMessage *m, bool secrets)
{
    struct out_ctx c = {.arena = a, .secrets = secrets};

    return message(&c, m);
}
