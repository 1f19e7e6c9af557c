/* SPDX-License-Identifier: Apache-2.0 */
/* What a decoded message holds in a field, for walks that know messages by their descriptors. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct ProtobufCFieldDescriptor;
struct ProtobufCMessage;

/* Bytes of one value, in the message or in the array of a repeated field. */
size_t sw_pb_value_size(const struct ProtobufCFieldDescriptor *f);
/* True for a value that proto3 does not send: zero, false, an empty text, no message. */
bool sw_pb_value_is_default(const struct ProtobufCFieldDescriptor *f, const void *p);
/*
 * How many values the field of m has, *ret at the first, each sw_pb_value_size behind the other:
 * all of a repeated one, otherwise one when it is set, which a oneof's choice is at its default
 * too.
 */
size_t sw_pb_values(const struct ProtobufCMessage *m, const struct ProtobufCFieldDescriptor *f,
                    const void **ret);
