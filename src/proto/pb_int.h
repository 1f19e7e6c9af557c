/* SPDX-License-Identifier: Apache-2.0 */
/* The wire format, for the decoders and encoders. Not for others. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/pb.h"

struct ProtobufCFieldDescriptor;

enum {
    PB_DEFAULT_BYTES = 16 << 20,
    PB_DEFAULT_MEMORY = 64 << 20,
    PB_DEFAULT_DEPTH = 64,
    PB_MEMORY_FACTOR = 32,
    PB_MEMORY_LEAST = 64 * 1024,
};

bool pb_long_varint(struct sw_slice *in, uint64_t *ret);

static inline bool pb_varint(struct sw_slice *in, uint64_t *ret)
{
    if (in->n == 0 || (uint8_t)in->p[0] & 0x80)
        return pb_long_varint(in, ret);
    *ret = (uint8_t)in->p[0];
    *in = sw_slice(in->p + 1, in->n - 1);
    return true;
}

/* A tag as it travels; false: malformed, or no field number. */
bool pb_tag(struct sw_slice *in, uint64_t *ret);
/* Takes the value of one field; *ret is what a length-delimited one holds. */
bool pb_value(struct sw_slice *in, unsigned wire, struct sw_slice *ret);
/* NULL: no such field. */
const struct ProtobufCFieldDescriptor *pb_field(const struct ProtobufCMessageDescriptor *d,
                                                uint32_t id);
/* The other way: a varint, and a tag in front of a value. SW_ELIMIT. */
SW_NODISCARD int pb_put_varint(struct sw_buf *out, uint64_t v);
SW_NODISCARD int pb_put_tag(struct sw_buf *out, unsigned field, unsigned wire);
/* The limits with their defaults put in. */
struct sw_pb_limits pb_limits(const struct sw_pb_limits *given, size_t input);
