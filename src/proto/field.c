/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/field.h"

#include <stdint.h>
#include <string.h>

#include <protobuf-c/protobuf-c.h>

size_t sw_pb_value_size(const struct ProtobufCFieldDescriptor *f)
{
    switch ((int)f->type) { /* all others have four bytes, bool and enums too */
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
        return sizeof(uint64_t);
    default:
        return sizeof(uint32_t);
    }
}

bool sw_pb_value_is_default(const struct ProtobufCFieldDescriptor *f, const void *p)
{
    static const char zero[sizeof(uint64_t)];

    if (f->type == PROTOBUF_C_TYPE_BYTES)
        return ((const ProtobufCBinaryData *)p)->len == 0;
    if (f->type == PROTOBUF_C_TYPE_STRING)
        return !*(const char *const *)p || !**(const char *const *)p;
    return memcmp(p, zero, sw_pb_value_size(f)) == 0;
}

size_t sw_pb_values(const struct ProtobufCMessage *m, const struct ProtobufCFieldDescriptor *f,
                    const void **ret)
{
    const void *p = (const char *)m + f->offset;
    const void *quantifier = (const char *)m + f->quantifier_offset;

    *ret = p;
    if (f->label == PROTOBUF_C_LABEL_REPEATED) {
        *ret = *(const void *const *)p;
        return *(const size_t *)quantifier;
    }
    if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
        return *(const uint32_t *)quantifier == f->id &&
               (f->type != PROTOBUF_C_TYPE_MESSAGE || *(const void *const *)p);
    return !sw_pb_value_is_default(f, p);
}
