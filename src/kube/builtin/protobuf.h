/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Request bodies in application/vnd.kubernetes.protobuf, decoded into the JSON tree the rest of the
 * server works on. Only the kinds of the built-in type table are known.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"

enum { SW_PB_DEPTH_MAX = 32, SW_PB_NODES_MAX = 500000 };

/*
 * Decodes the envelope "k8s\0" + Unknown and the object inside it. The result has apiVersion and
 * kind. SW_EINVAL for malformed bytes, SW_ENOENT for a kind without protobuf form, SW_ELIMIT for a
 * body with too many values.
 */
SW_NODISCARD int sw_pb_decode(struct sw_arena *a, struct sw_slice body, struct sw_json **ret,
                              struct sw_err *err);
