/* SPDX-License-Identifier: Apache-2.0 */
/* What both directions of the JSON form have to know about a type. */
#pragma once

#include <stdbool.h>

struct ProtobufCMessageDescriptor;
struct ProtobufCFieldDescriptor;

/* BoolValue, UInt32Value ...: written as the plain value. */
bool sw_pb_is_wrapper(const struct ProtobufCMessageDescriptor *d);
/* Types that are not objects of their fields: inside an Any they stand under "value". */
bool sw_pb_is_wrapped(const struct ProtobufCMessageDescriptor *d);
/* An entry {key, value} of a map. */
bool sw_pb_is_entry(const struct ProtobufCMessageDescriptor *d);
/* All text is declared 'bytes' here; these fields are bytes in Envoy's schema too: base64. */
bool sw_pb_field_is_binary(const struct ProtobufCMessageDescriptor *d,
                           const struct ProtobufCFieldDescriptor *f);
