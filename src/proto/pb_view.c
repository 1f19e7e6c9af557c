/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes in one pass and copies nothing: for the many resources of a large response, of which
 * only the records made of them stay.
 */
#include <stdlib.h>
#include <string.h>

#include <protobuf-c/protobuf-c.h>

#include "proto/pb.h"
#include "proto/pb_int.h"

struct view {
    struct sw_arena *a;
    size_t left; /* of the memory it may take */
    struct sw_err *err;
};

static int view_message(struct view *v, ProtobufCMessage *m, struct sw_slice in, unsigned depth);

static int malformed(const struct view *v, const ProtobufCMessage *m)
{
    return sw_err_set(v->err, SW_EPROTO, "malformed message '%s'", m->descriptor->short_name);
}

static void *take(struct view *v, const ProtobufCMessage *m, size_t n)
{
    if (n > v->left) {
        (void)sw_err_set(v->err, SW_ELIMIT, "message '%s' takes too much memory",
                         m->descriptor->short_name);
        return NULL;
    }
    v->left -= n;
    return sw_arena_alloc(v->a, n);
}

/* Size of a value in its message, and how it travels. */
static size_t value_size(const ProtobufCFieldDescriptor *f)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(ProtobufCMessage *);
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_ENUM:
        return sizeof(uint32_t);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT64:
        return sizeof(uint64_t);
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_DOUBLE:
    case PROTOBUF_C_TYPE_STRING:
    default:
        abort(); /* a schema that is not for views */
    }
}

static bool is_number(const ProtobufCFieldDescriptor *f)
{
    return f->type != PROTOBUF_C_TYPE_BYTES && f->type != PROTOBUF_C_TYPE_MESSAGE;
}

/* Room for one more behind the n of a repeated field: its capacity is the next power of two. */
static void *append(struct view *v, ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    size_t *n = (size_t *)(void *)((char *)m + f->quantifier_offset);
    char **list = (char **)(void *)((char *)m + f->offset);
    size_t size = value_size(f);

    if ((*n & (*n - 1)) == 0) {
        char *fresh = take(v, m, size * (*n ? *n * 2 : 1));

        if (!fresh)
            return NULL;
        if (*n)
            memcpy(fresh, *list, *n * size);
        *list = fresh;
    }
    return *list + (*n)++ * size;
}

/* Where the next value of this field goes; the value of another field of its oneof is dropped. */
static void *member(struct view *v, ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    char *at = (char *)m + f->offset;
    uint32_t *which = (uint32_t *)(void *)((char *)m + f->quantifier_offset);

    if (f->label == PROTOBUF_C_LABEL_REPEATED)
        return append(v, m, f);
    if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF && *which != f->id) {
        *which = f->id;
        memset(at, 0, value_size(f));
    }
    return at;
}

static void put_number(void *to, const ProtobufCFieldDescriptor *f, uint64_t n)
{
    protobuf_c_boolean yes = n != 0;

    if (f->type == PROTOBUF_C_TYPE_BOOL)
        memcpy(to, &yes, sizeof(yes));
    else if (value_size(f) == sizeof(n))
        memcpy(to, &n, sizeof(n));
    else
        memcpy(to, &(uint32_t){(uint32_t)n}, sizeof(uint32_t));
}

/* All numbers of a packed field. */
static int view_packed(struct view *v, ProtobufCMessage *m, const ProtobufCFieldDescriptor *f,
                       struct sw_slice in)
{
    while (in.n) {
        uint64_t number;
        void *to;

        if (!pb_varint(&in, &number))
            return malformed(v, m);
        to = append(v, m, f);
        if (!to)
            return SW_ELIMIT;
        put_number(to, f, number);
    }
    return SW_OK;
}

/* Parts of the same message are merged. */
static int view_nested(struct view *v, ProtobufCMessage *m, const ProtobufCFieldDescriptor *f,
                       ProtobufCMessage **to, struct sw_slice in, unsigned depth)
{
    const ProtobufCMessageDescriptor *type = f->descriptor;

    if (!*to) {
        *to = take(v, m, type->sizeof_message);
        if (!*to)
            return SW_ELIMIT;
        protobuf_c_message_init(type, *to);
    }
    return view_message(v, *to, in, depth);
}

static int view_field(struct view *v, ProtobufCMessage *m, const ProtobufCFieldDescriptor *f,
                      unsigned wire, struct sw_slice *in, unsigned depth)
{
    bool bare = wire == PROTOBUF_C_WIRE_TYPE_VARINT;
    struct sw_slice bytes = {0};
    uint64_t number = 0;
    void *to;

    if (bare ? !is_number(f) || !pb_varint(in, &number)
             : wire != PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED || !pb_value(in, wire, &bytes))
        return malformed(v, m);
    if (!bare && is_number(f))
        return f->label == PROTOBUF_C_LABEL_REPEATED ? view_packed(v, m, f, bytes)
                                                     : malformed(v, m);
    to = member(v, m, f);
    if (!to)
        return SW_ELIMIT;
    if (f->type == PROTOBUF_C_TYPE_MESSAGE)
        return view_nested(v, m, f, to, bytes, depth);
    if (f->type == PROTOBUF_C_TYPE_BYTES)
        *(ProtobufCBinaryData *)to = SW_PB_BYTES(bytes);
    else
        put_number(to, f, number);
    return SW_OK;
}

/* Fields come in the order of their numbers, or several times: the search is for the rest. */
static const ProtobufCFieldDescriptor *next_field(const ProtobufCMessageDescriptor *d,
                                                  const ProtobufCFieldDescriptor *last, uint32_t id)
{
    if (last && last->id == id)
        return last;
    if (last && last + 1 < d->fields + d->n_fields && last[1].id == id)
        return last + 1;
    return pb_field(d, id);
}

static int view_message(struct view *v, ProtobufCMessage *m, struct sw_slice in, unsigned depth)
{
    const ProtobufCMessageDescriptor *d = m->descriptor;
    const ProtobufCFieldDescriptor *last = NULL;

    if (depth == 0)
        return sw_err_set(v->err, SW_ELIMIT, "message '%s' is nested too deeply", d->short_name);
    while (in.n) {
        const ProtobufCFieldDescriptor *f;
        struct sw_slice skipped;
        uint64_t tag;
        int rc = SW_OK;

        if (!pb_tag(&in, &tag))
            return malformed(v, m);
        f = next_field(d, last, (uint32_t)(tag >> 3));
        if (f)
            rc = view_field(v, m, f, tag & 7, &in, depth - 1);
        else if (!pb_value(&in, tag & 7, &skipped))
            rc = malformed(v, m);
        if (rc != SW_OK)
            return rc;
        last = f ? f : last;
    }
    return SW_OK;
}

struct ProtobufCMessage *sw_pb_view(struct sw_arena *a,
                                    const struct ProtobufCMessageDescriptor *type,
                                    struct sw_slice in, const struct sw_pb_limits *limits,
                                    struct sw_err *err)
{
    struct sw_pb_limits l = pb_limits(limits, in.n);
    struct view v = {.a = a, .left = l.memory, .err = err};
    ProtobufCMessage *m;

    if (in.n > l.bytes) {
        (void)sw_err_set(err, SW_ELIMIT, "message '%s' is too large", type->short_name);
        return NULL;
    }
    m = sw_pb_new(a, type);
    return view_message(&v, m, in, l.depth) == SW_OK ? m : NULL;
}
