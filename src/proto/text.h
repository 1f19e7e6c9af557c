/* SPDX-License-Identifier: Apache-2.0 */
/* Messages as text for people and for comparison in tests: same content, same text. */
#pragma once

#include "base/buf.h"

struct ProtobufCMessage;

/*
 * Appends the message in the notation of protobuf's text format: fields in the order of their
 * numbers, enums by name, an Any of a known type opened as "[type] {...}", other bytes quoted
 * with escapes. Fields that are unknown appear as "# unknown field N". SW_OK, or SW_ELIMIT when
 * the buffer is full or the nesting passes 64.
 */
SW_NODISCARD int sw_pb_text(struct sw_buf *out, const struct ProtobufCMessage *m);
