/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON form of messages (as protobuf defines it), by their descriptors: Durations as "1.5s",
 * wrappers as plain values, Struct as any JSON, Any with its "@type" beside the fields, maps as
 * objects, enums by name. Field names are accepted as they stand in the schema and in
 * lowerCamelCase.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/slice.h"

struct ProtobufCMessage;
struct ProtobufCMessageDescriptor;

/*
 * Encodes JSON as a message of that type. The result is in the arena; fields in the order of their
 * numbers, map entries sorted by key. Refuses unknown fields, values of the wrong type, two members
 * of one oneof and types of Any that are not in the table (types.h): SW_EINVAL with "a.b[2].c:
 * why".
 */
SW_NODISCARD int sw_pb_from_json(struct sw_arena *a, const struct ProtobufCMessageDescriptor *type,
                                 const struct sw_json *v, struct sw_slice *ret, struct sw_err *err);

/*
 * The reverse: fields at their defaults are left out, an Any of a type we do not know (or that does
 * not decode) keeps its bytes as {"@type", "value": base64}. secrets: false writes "[redacted]" for
 * private keys and other secrets. Never fails: what cannot be shown is left out.
 */
struct sw_json *sw_pb_to_json(struct sw_arena *a, const struct ProtobufCMessage *m, bool secrets);
