/* SPDX-License-Identifier: Apache-2.0 */
/*
 * protobuf-c decodes by recursion and allocates as the input tells it to. So the input is walked
 * once before, with the same descriptors, and the allocator it gets has a budget.
 */
#include "proto/pb.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <protobuf-c/protobuf-c.h>

#include "proto/pb_int.h"

enum { FIELD_MAX = (1 << 29) - 1 };

/* --- walking --- */

bool pb_long_varint(struct sw_slice *in, uint64_t *ret)
{
    uint64_t v = 0;

    for (size_t i = 0; i < in->n && i < 10; i++) {
        uint8_t b = (uint8_t)in->p[i];

        v |= (uint64_t)(b & 0x7f) << (7 * i);
        if (!(b & 0x80)) {
            *in = sw_slice_from(*in, i + 1);
            *ret = v;
            return true;
        }
    }
    return false;
}

const ProtobufCFieldDescriptor *pb_field(const ProtobufCMessageDescriptor *d, uint32_t id)
{
    size_t lo = 0;
    size_t hi = d->n_fields;

    while (lo < hi) { /* fields are sorted by number */
        size_t mid = lo + (hi - lo) / 2;

        if (d->fields[mid].id == id)
            return &d->fields[mid];
        if (d->fields[mid].id < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

bool pb_tag(struct sw_slice *in, uint64_t *ret)
{
    return pb_varint(in, ret) && *ret >> 3 != 0 && *ret >> 3 <= FIELD_MAX;
}

bool pb_value(struct sw_slice *in, unsigned wire, struct sw_slice *ret)
{
    uint64_t v;

    *ret = (struct sw_slice){0};
    switch (wire) {
    case PROTOBUF_C_WIRE_TYPE_VARINT:
        return pb_varint(in, &v);
    case PROTOBUF_C_WIRE_TYPE_64BIT:
    case PROTOBUF_C_WIRE_TYPE_32BIT:
        v = wire == PROTOBUF_C_WIRE_TYPE_64BIT ? 8 : 4;
        break;
    case PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED:
        if (!pb_varint(in, &v) || v > in->n)
            return false;
        *ret = sw_slice(in->p, (size_t)v);
        break;
    default:
        return false; /* groups are of another age */
    }
    if (v > in->n)
        return false;
    *in = sw_slice_from(*in, (size_t)v);
    return true;
}

struct sw_pb_limits pb_limits(const struct sw_pb_limits *given, size_t input)
{
    struct sw_pb_limits l = given ? *given : (struct sw_pb_limits){0};

    if (!l.bytes)
        l.bytes = PB_DEFAULT_BYTES;
    if (!l.depth)
        l.depth = PB_DEFAULT_DEPTH;
    if (!l.memory)
        l.memory = sw_min(PB_DEFAULT_MEMORY, sw_max(PB_MEMORY_LEAST, input * PB_MEMORY_FACTOR));
    return l;
}

static int walk(const ProtobufCMessageDescriptor *d, struct sw_slice in, unsigned depth,
                struct sw_err *err)
{
    if (depth == 0)
        return sw_err_set(err, SW_ELIMIT, "message '%s' is nested too deeply", d->short_name);
    while (in.n) {
        const ProtobufCFieldDescriptor *f;
        struct sw_slice value;
        uint64_t tag;
        int rc;

        if (!pb_tag(&in, &tag) || !pb_value(&in, tag & 7, &value))
            return sw_err_set(err, SW_EPROTO, "malformed message '%s'", d->short_name);
        f = pb_field(d, (uint32_t)(tag >> 3));
        if (!f || f->type != PROTOBUF_C_TYPE_MESSAGE ||
            (tag & 7) != PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED)
            continue;
        rc = walk(f->descriptor, value, depth - 1, err);
        if (rc != SW_OK)
            return rc;
    }
    return SW_OK;
}

int sw_pb_next(struct sw_slice *in, struct sw_pb_field *ret)
{
    uint64_t tag;

    if (!pb_tag(in, &tag) || !pb_value(in, tag & 7, &ret->bytes))
        return SW_EPROTO;
    ret->number = (uint32_t)(tag >> 3);
    return SW_OK;
}

/* --- decoding --- */

struct budget {
    struct sw_arena *arena;
    size_t left;
    bool exceeded;
};

static void *take(void *arg, size_t n)
{
    struct budget *b = arg;

    if (n > b->left) {
        b->exceeded = true;
        return NULL;
    }
    b->left -= n;
    return sw_arena_alloc(b->arena, n);
}

/* It goes with the arena. */
static void keep(void *arg, void *p)
{
}

struct ProtobufCMessage *sw_pb_unpack(struct sw_arena *a,
                                      const struct ProtobufCMessageDescriptor *type,
                                      struct sw_slice in, const struct sw_pb_limits *limits,
                                      struct sw_err *err)
{
    struct sw_pb_limits l = pb_limits(limits, in.n);
    struct budget b = {.arena = a};
    ProtobufCAllocator alloc = {.alloc = take, .free = keep, .allocator_data = &b};
    ProtobufCMessage *m;

    if (in.n > l.bytes) {
        (void)sw_err_set(err, SW_ELIMIT, "message '%s' is too large", type->short_name);
        return NULL;
    }
    if (walk(type, in, l.depth, err) != SW_OK)
        return NULL;
    b.left = l.memory;
    m = protobuf_c_message_unpack(type, &alloc, in.n, (const uint8_t *)(in.p ? in.p : ""));
    if (!m)
        (void)sw_err_set(err, b.exceeded ? SW_ELIMIT : SW_EPROTO,
                         b.exceeded ? "message '%s' takes too much memory"
                                    : "malformed message '%s'",
                         type->short_name);
    return m;
}

/* --- encoding --- */

size_t sw_pb_size(const struct ProtobufCMessage *m)
{
    return protobuf_c_message_get_packed_size(m);
}

struct sw_slice sw_pb_pack(struct sw_arena *a, const struct ProtobufCMessage *m)
{
    size_t n = sw_pb_size(m);
    uint8_t *p = sw_arena_alloc(a, n + 1);

    return sw_slice(p, protobuf_c_message_pack(m, p));
}

struct ProtobufCMessage *sw_pb_new(struct sw_arena *a,
                                   const struct ProtobufCMessageDescriptor *type)
{
    ProtobufCMessage *m = sw_arena_alloc(a, type->sizeof_message);

    protobuf_c_message_init(type, m);
    return m;
}

/* How every entry of a map begins. */
struct entry {
    ProtobufCMessage base;
    ProtobufCBinaryData key;
};

static int by_key(const void *x, const void *y)
{
    const struct entry *a = *(const struct entry *const *)x;
    const struct entry *b = *(const struct entry *const *)y;

    return sw_slice_cmp(SW_PB_SLICE(a->key), SW_PB_SLICE(b->key));
}

void sw_pb_sort_entries(void *entries, size_t n)
{
    if (n > 1)
        qsort(entries, n, sizeof(void *), by_key);
}

struct sw_slice sw_pb_type_name(struct sw_slice type_url)
{
    static const struct sw_slice prefix = SW_SLICE_LIT("type.googleapis.com/");

    return sw_slice_has_prefix(type_url, prefix) ? sw_slice_from(type_url, prefix.n) : type_url;
}

/* --- by hand --- */

static size_t varint_size(uint64_t v)
{
    size_t n = 1;

    while (v >= 0x80) {
        v >>= 7;
        n++;
    }
    return n;
}

static char *put_varint(char *p, uint64_t v)
{
    while (v >= 0x80) {
        *p++ = (char)(uint8_t)(v | 0x80);
        v >>= 7;
    }
    *p++ = (char)(uint8_t)v;
    return p;
}

static uint64_t tag_of(unsigned field, unsigned wire)
{
    return (uint64_t)field << 3 | wire;
}

int pb_put_varint(struct sw_buf *out, uint64_t v)
{
    size_t n = varint_size(v);
    char *p = sw_buf_reserve(out, n);

    if (!p)
        return SW_ELIMIT;
    (void)put_varint(p, v);
    sw_buf_commit(out, n);
    return SW_OK;
}

int pb_put_tag(struct sw_buf *out, unsigned field, unsigned wire)
{
    return pb_put_varint(out, tag_of(field, wire));
}

static int put_pair(struct sw_buf *out, uint64_t tag, uint64_t value)
{
    size_t n = varint_size(tag) + varint_size(value);
    char *p = sw_buf_reserve(out, n);

    if (!p)
        return SW_ELIMIT;
    (void)put_varint(put_varint(p, tag), value);
    sw_buf_commit(out, n);
    return SW_OK;
}

int sw_pb_put_varint(struct sw_buf *out, unsigned field, uint64_t value)
{
    return put_pair(out, tag_of(field, PROTOBUF_C_WIRE_TYPE_VARINT), value);
}

int sw_pb_put_head(struct sw_buf *out, unsigned field, size_t n)
{
    return put_pair(out, tag_of(field, PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED), n);
}

int sw_pb_put_bytes(struct sw_buf *out, unsigned field, struct sw_slice value)
{
    if (sw_pb_bytes_size(field, value.n) > out->max - sw_buf_len(out))
        return SW_ELIMIT; /* before anything is written */
    if (sw_pb_put_head(out, field, value.n) != SW_OK)
        return SW_ELIMIT;
    return sw_buf_append_slice(out, value);
}

size_t sw_pb_bytes_size(unsigned field, size_t n)
{
    return varint_size(tag_of(field, PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED)) + varint_size(n) + n;
}
