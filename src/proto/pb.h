/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protobuf messages in and out of bytes. Messages live in an arena and are freed with it. What
 * comes from a peer is measured before it is decoded: size, nesting and memory are bounded.
 * Generated types come from <proto/NAME.pb-c.h>, which only .c files include; the macros below
 * need it, the functions do not.
 */
#pragma once

#include <stddef.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

struct ProtobufCMessage;
struct ProtobufCMessageDescriptor;

/* Zero in a field means the default in brackets. */
struct sw_pb_limits {
    size_t bytes;   /* of the input [16 MiB] */
    size_t memory;  /* taken from the arena [64 MiB and 32 times the input, the smaller] */
    unsigned depth; /* messages inside messages, the outermost counts as 1 [64] */
};

/*
 * Decodes 'in' as a message of that type into the arena. Bytes fields are copies, unknown fields
 * are kept. limits may be NULL. NULL with SW_EPROTO (not such a message) or SW_ELIMIT.
 */
SW_NODISCARD struct ProtobufCMessage *
sw_pb_unpack(struct sw_arena *a, const struct ProtobufCMessageDescriptor *type, struct sw_slice in,
             const struct sw_pb_limits *limits, struct sw_err *err);

/*
 * The same for what is read and thrown away: bytes fields point into 'in', unknown fields are
 * dropped. For schemas of messages, bytes, bools, enums and integers that are no zigzags.
 */
SW_NODISCARD struct ProtobufCMessage *
sw_pb_view(struct sw_arena *a, const struct ProtobufCMessageDescriptor *type, struct sw_slice in,
           const struct sw_pb_limits *limits, struct sw_err *err);

/* Bytes that packing takes. */
size_t sw_pb_size(const struct ProtobufCMessage *m);
/* Encoded form in the arena. Fields in the order of their numbers: same content, same bytes. */
struct sw_slice sw_pb_pack(struct sw_arena *a, const struct ProtobufCMessage *m);

/* A message of that type in the arena, all fields at their defaults. */
struct ProtobufCMessage *sw_pb_new(struct sw_arena *a,
                                   const struct ProtobufCMessageDescriptor *type);

/*
 * Sorts the entries of a map (messages whose field 1 is 'bytes key') by key, as every map must be
 * before it is packed. 'entries' is the array of pointers.
 */
void sw_pb_sort_entries(void *entries, size_t n);

/* One field of a message as it stands. */
struct sw_pb_field {
    uint32_t number;
    struct sw_slice bytes; /* p == NULL unless the field is length-delimited */
};
/* Takes the next field off *in, which is not empty. SW_EPROTO: malformed. */
SW_NODISCARD int sw_pb_next(struct sw_slice *in, struct sw_pb_field *ret);

/* Type URL in an Any without "type.googleapis.com/"; all of it when the prefix is another. */
struct sw_slice sw_pb_type_name(struct sw_slice type_url);

/*
 * Low-level writing, for messages put together from parts that are encoded already: field numbers
 * below 16 or above alike. All return SW_OK or SW_ELIMIT.
 */
SW_NODISCARD int sw_pb_put_bytes(struct sw_buf *out, unsigned field, struct sw_slice value);
SW_NODISCARD int sw_pb_put_varint(struct sw_buf *out, unsigned field, uint64_t value);
/* Tag and length of a nested message of n bytes that the caller appends next. */
SW_NODISCARD int sw_pb_put_head(struct sw_buf *out, unsigned field, size_t n);
/* Size of such a field, tag and length included. */
size_t sw_pb_bytes_size(unsigned field, size_t n);

/* New message of a generated type: SW_PB_NEW(a, Sw__Any, sw__any). */
#define SW_PB_NEW(a, type, prefix) ((type *)(void *)sw_pb_new((a), &prefix##__descriptor))
/* Decoded message of a generated type, NULL on error. */
#define SW_PB_UNPACK(a, type, prefix, in, limits, err)                                             \
    ((type *)(void *)sw_pb_unpack((a), &prefix##__descriptor, (in), (limits), (err)))
#define SW_PB_VIEW(a, type, prefix, in, limits, err)                                               \
    ((type *)(void *)sw_pb_view((a), &prefix##__descriptor, (in), (limits), (err)))
/* Between slices and the 'bytes' of protobuf-c. The content is borrowed. */
#define SW_PB_BYTES(s) ((ProtobufCBinaryData){.len = (s).n, .data = (uint8_t *)(uintptr_t)(s).p})
#define SW_PB_LIT(s)   SW_PB_BYTES(SW_SLICE_LIT(s))
#define SW_PB_SLICE(b) sw_slice((b).data, (b).len)
