/* SPDX-License-Identifier: Apache-2.0 */
/* Goes through a message by its descriptor; nothing here knows a particular type but Any. */
#include "proto/text.h"

#include <inttypes.h>

#include <protobuf-c/protobuf-c.h>

#include <proto/google.pb-c.h>

#include "base/arena.h"
#include "proto/field.h"
#include "proto/pb.h"
#include "proto/types.h"

enum {
    DEPTH_MAX = 64,
};

struct text {
    struct sw_buf *out;
    unsigned depth;
};

static int put_message(struct text *t, const ProtobufCMessage *m);

static int indent(const struct text *t)
{
    return sw_buf_printf(t->out, "%*s", (int)(t->depth * 2), "");
}

static int put_quoted(struct sw_buf *out, struct sw_slice s)
{
    int rc = sw_buf_putc(out, '"');

    for (size_t i = 0; rc == SW_OK && i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];

        if (c == '\n')
            rc = sw_buf_append_str(out, "\\n");
        else if (c == '"' || c == '\\')
            rc = sw_buf_printf(out, "\\%c", c);
        else if (c < 0x20 || c >= 0x7f)
            rc = sw_buf_printf(out, "\\x%02x", c);
        else
            rc = sw_buf_putc(out, (char)c);
    }
    return rc == SW_OK ? sw_buf_putc(out, '"') : rc;
}

static int put_enum(struct sw_buf *out, const ProtobufCEnumDescriptor *d, int value)
{
    const ProtobufCEnumValue *v = protobuf_c_enum_descriptor_get_value(d, value);

    return v ? sw_buf_append_str(out, v->name) : sw_buf_printf(out, "%d", value);
}

/* A scalar of the type at p, without its name. */
static int put_scalar(struct sw_buf *out, const ProtobufCFieldDescriptor *f, const void *p)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        return sw_buf_printf(out, "%" PRId32, *(const int32_t *)p);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        return sw_buf_printf(out, "%" PRId64, *(const int64_t *)p);
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        return sw_buf_printf(out, "%" PRIu32, *(const uint32_t *)p);
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return sw_buf_printf(out, "%" PRIu64, *(const uint64_t *)p);
    case PROTOBUF_C_TYPE_FLOAT:
        return sw_buf_printf(out, "%.9g", (double)*(const float *)p);
    case PROTOBUF_C_TYPE_DOUBLE:
        return sw_buf_printf(out, "%.17g", *(const double *)p);
    case PROTOBUF_C_TYPE_BOOL:
        return sw_buf_append_str(out, *(const protobuf_c_boolean *)p ? "true" : "false");
    case PROTOBUF_C_TYPE_ENUM:
        return put_enum(out, f->descriptor, *(const int *)p);
    case PROTOBUF_C_TYPE_STRING:
        return put_quoted(out, sw_slice_str(*(char *const *)p));
    case PROTOBUF_C_TYPE_BYTES:
        return put_quoted(out, SW_PB_SLICE(*(const ProtobufCBinaryData *)p));
    case PROTOBUF_C_TYPE_MESSAGE:
        break; /* not a scalar */
    }
    return SW_EINVAL;
}

/* The content of a message, in braces behind its name. */
static int put_block(struct text *t, const ProtobufCMessage *m)
{
    int rc = sw_buf_append_str(t->out, " {\n");

    t->depth++;
    if (rc == SW_OK)
        rc = put_message(t, m);
    t->depth--;
    if (rc == SW_OK && (rc = indent(t)) == SW_OK)
        rc = sw_buf_append_str(t->out, "}\n");
    return rc;
}

static int put_any(struct text *t, const Sw__Any *any)
{
    const ProtobufCMessageDescriptor *type = sw_pb_type_find(SW_PB_SLICE(any->type_url));
    SW_ARENA_AUTO tmp = {0};
    ProtobufCMessage *m;
    int rc;

    if (!type)
        return SW_ENOENT;
    m = sw_pb_unpack(&tmp, type, SW_PB_SLICE(any->value), NULL, NULL);
    if (!m)
        return SW_ENOENT;
    if ((rc = indent(t)) != SW_OK ||
        (rc = sw_buf_printf(t->out, "[%s]", sw_pb_type_of(type))) != SW_OK)
        return rc;
    return put_block(t, m);
}

static int put_value(struct text *t, const ProtobufCFieldDescriptor *f, const void *p)
{
    int rc = indent(t);

    if (rc == SW_OK)
        rc = sw_buf_append_str(t->out, f->name);
    if (rc != SW_OK)
        return rc;
    if (f->type == PROTOBUF_C_TYPE_MESSAGE)
        return put_block(t, *(const ProtobufCMessage *const *)p);
    if ((rc = sw_buf_append_str(t->out, ": ")) != SW_OK || (rc = put_scalar(t->out, f, p)) != SW_OK)
        return rc;
    return sw_buf_putc(t->out, '\n');
}

static int put_field(struct text *t, const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    const void *at;
    size_t n = sw_pb_values(m, f, &at);
    int rc = SW_OK;

    for (size_t i = 0; rc == SW_OK && i < n; i++)
        rc = put_value(t, f, (const char *)at + i * sw_pb_value_size(f));
    return rc;
}

static int put_message(struct text *t, const ProtobufCMessage *m)
{
    const ProtobufCMessageDescriptor *d = m->descriptor;
    int rc = SW_OK;

    if (t->depth > DEPTH_MAX)
        return SW_ELIMIT;
    if (d == &sw__any__descriptor) {
        rc = put_any(t, (const Sw__Any *)(const void *)m);
        if (rc != SW_ENOENT)
            return rc;
        rc = SW_OK; /* not ours: as plain fields */
    }
    for (unsigned i = 0; rc == SW_OK && i < d->n_fields; i++)
        rc = put_field(t, m, &d->fields[i]);
    for (unsigned i = 0; rc == SW_OK && i < m->n_unknown_fields; i++) {
        if ((rc = indent(t)) == SW_OK)
            rc = sw_buf_printf(t->out, "# unknown field %" PRIu32 "\n", m->unknown_fields[i].tag);
    }
    return rc;
}

int sw_pb_text(struct sw_buf *out, const struct ProtobufCMessage *m)
{
    struct text t = {.out = out};

    return put_message(&t, m);
}
