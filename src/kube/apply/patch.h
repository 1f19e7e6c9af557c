/* SPDX-License-Identifier: Apache-2.0 */
/* Strategic merge patch for built-in kinds (JSON Patch and Merge Patch are in base). */
#pragma once

#include "base/arena.h"
#include "base/json.h"
#include "kube/schema/schema.h"

/*
 * Applies a strategic merge patch to a copy of doc, in the arena. The schema says which lists merge
 * and by which key. Directives $patch, $deleteFromPrimitiveList/x, $setElementOrder/x and
 * $retainKeys are honoured and do not appear in the result.
 *
 * Returns SW_OK; SW_EPROTO for a directive of a wrong form, SW_EINVAL for a patch that does not fit
 * the object, with the message of the refusal in *ret_why (in the arena).
 */
SW_NODISCARD int sw_strategic_patch(struct sw_arena *a, const struct sw_schema *s,
                                    const struct sw_json *doc, const struct sw_json *patch,
                                    struct sw_json **ret, const char **ret_why);
