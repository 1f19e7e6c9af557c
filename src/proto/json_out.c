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
#include "base/search.h"
#include "proto/field.h"
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
    static const char *const names[] = {"inline_bytes", "raw_value",          "binary", "buf_value",
                                        "raw_body",     "unstructured_bytes", NULL};

    return f->type == PROTOBUF_C_TYPE_BYTES &&
           (sw_word_in(sw_slice_str(f->name), names) || d == &sw__bytes_value__descriptor ||
            d == &sw__any__descriptor);
}

struct out_ctx {
    struct sw_arena *arena;
    bool secrets;
    unsigned depth;
};

static struct sw_json *message(struct out_ctx *c, const ProtobufCMessage *m);

static struct sw_json *base64(struct out_ctx *c, struct sw_slice bytes)
{
    SW_BUF_AUTO out = {.max = bytes.n * 2 + 8};

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

static bool is_secret(const ProtobufCFieldDescriptor *f)
{
    static const char *const names[] = {"private_key", "password", "session_ticket_keys",
                                        "generic_secret", NULL};

    return sw_word_in(sw_slice_str(f->name), names);
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
    const ProtobufCBinaryData *bytes = p;

    switch ((int)f->type) { /* kinds our schemas do not use fall through to default */
    case PROTOBUF_C_TYPE_BOOL:
        return sw_json_new_bool(c->arena, *(const protobuf_c_boolean *)p != 0);
    case PROTOBUF_C_TYPE_INT32:
        return sw_json_new_i64(c->arena, *(const int32_t *)p);
    case PROTOBUF_C_TYPE_UINT32:
        return sw_json_new_u64(c->arena, *(const uint32_t *)p);
    case PROTOBUF_C_TYPE_ENUM:
        return enum_name(c, f, *(const int32_t *)p);
    case PROTOBUF_C_TYPE_INT64:
        return sw_json_new_i64(c->arena, *(const int64_t *)p);
    case PROTOBUF_C_TYPE_UINT64:
        return sw_json_new_u64(c->arena, *(const uint64_t *)p);
    case PROTOBUF_C_TYPE_DOUBLE:
        return number(c, *(const double *)p);
    case PROTOBUF_C_TYPE_BYTES:
        return sw_pb_field_is_binary(d, f) ? base64(c, SW_PB_SLICE(*bytes))
                                           : sw_json_new_string(c->arena, SW_PB_SLICE(*bytes));
    case PROTOBUF_C_TYPE_MESSAGE:
        return *(ProtobufCMessage *const *)p ? message(c, *(ProtobufCMessage *const *)p) : NULL;
    default:
        return NULL;
    }
}

static void put_entry(struct out_ctx *c, const ProtobufCMessage *entry, struct sw_json *out)
{
    const ProtobufCFieldDescriptor *key = &entry->descriptor->fields[0];
    const ProtobufCFieldDescriptor *val = &entry->descriptor->fields[1];
    const void *name = (const char *)entry + key->offset;
    struct sw_json *v = one(c, entry->descriptor, val, (const char *)entry + val->offset);

    sw_json_set(c->arena, out, SW_PB_SLICE(*(const ProtobufCBinaryData *)name),
                v ? v : sw_json_new_null(c->arena));
}

/* The values of a repeated field; an object of those of a map. */
static struct sw_json *list(struct out_ctx *c, const ProtobufCMessage *m,
                            const ProtobufCFieldDescriptor *f)
{
    bool map = f->type == PROTOBUF_C_TYPE_MESSAGE && sw_pb_is_entry(f->descriptor);
    struct sw_json *out = map ? sw_json_new_object(c->arena) : sw_json_new_array(c->arena);
    const void *values;
    size_t n = sw_pb_values(m, f, &values);

    for (size_t i = 0; i < n; i++) {
        const void *at = (const char *)values + i * sw_pb_value_size(f);
        struct sw_json *v = map ? NULL : one(c, m->descriptor, f, at);

        if (map)
            put_entry(c, *(ProtobufCMessage *const *)at, out);
        else if (v)
            sw_json_push(c->arena, out, v);
    }
    return out;
}

static struct sw_json *fields(struct out_ctx *c, const ProtobufCMessage *m)
{
    const ProtobufCMessageDescriptor *d = m->descriptor;
    struct sw_json *out = sw_json_new_object(c->arena);

    for (unsigned i = 0; i < d->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &d->fields[i];
        const void *values;
        struct sw_json *v;

        if (sw_pb_values(m, f, &values) == 0)
            continue;
        v = f->label == PROTOBUF_C_LABEL_REPEATED ? list(c, m, f) : one(c, d, f, values);
        if (v && !c->secrets && is_secret(f))
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
    } else if (d == &sw__struct__descriptor || d == &sw__list_value__descriptor) {
        v = list(c, m, &d->fields[0]);
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
