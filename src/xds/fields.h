/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fields of the schemas that our gateway decodes and does not act on. What changes the way traffic
 * is handled is refused; what is harmless, or sent by every control plane, is accepted without
 * effect. spanwire-gateway(8) and doc/internals/gateway-xds.md list the table (tools/check-fields).
 */
#pragma once

#include "base/err.h"

struct ProtobufCMessage;
struct sw_pb_unread_table;

/*
 * SW_EINVAL when m, or a message inside, sets a field that is refused; err has the path and the
 * reason. Anys stay closed.
 */
SW_NODISCARD int sw_xds_check_fields(const struct ProtobufCMessage *m, struct sw_err *err);
/* The table itself, for tests. */
struct sw_pb_unread_table *sw_xds_fields(void);
