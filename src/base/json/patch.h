/* SPDX-License-Identifier: Apache-2.0 */
/* JSON Pointer (RFC 6901), JSON Patch (RFC 6902) and JSON Merge Patch (RFC 7386) on json.h trees.
 */
#pragma once

#include "base/json.h"

/*
 * The value a pointer like "/metadata/labels/a~1b/0" leads to; "" is the document itself.
 * SW_EINVAL for text that is no pointer, SW_ENOENT when there is nothing at that place.
 */
SW_NODISCARD int sw_json_pointer_get(const struct sw_json *doc, struct sw_slice pointer,
                                     struct sw_json **ret, struct sw_err *err);

struct sw_json_patch_opts {
    size_t max_ops;        /* operations in the patch; 0 = no bound */
    size_t max_copy_bytes; /* what all "copy" operations may add together; 0 = 32 MiB */
    size_t max_work_bytes; /* what all operations may go over together; 0 = the most there is */
};

/*
 * Applies a patch (an array of operations) to a copy of doc in the arena; doc and patch stay as
 * they are and nothing is shared with them. All or nothing. opts may be NULL.
 *
 * A "test" for null holds where an object has no such member, as in kube-apiserver.
 *
 * Moves of large values, and inserts into and removals from large containers, are bounded together.
 *
 * Returns SW_OK; SW_EINVAL for a malformed patch or pointer; SW_ENOENT when a place does not
 * exist; SW_EDENIED when a "test" failed; SW_ELIMIT for a bound. Messages begin with
 * "operation N (op 'path'): " counting from 0, and err->offset is N.
 */
SW_NODISCARD int sw_json_patch(struct sw_arena *a, const struct sw_json *doc,
                               const struct sw_json *patch, const struct sw_json_patch_opts *opts,
                               struct sw_json **ret, struct sw_err *err);

/*
 * Merges patch into a copy of target (NULL: nothing there yet), in the arena. Members that are
 * null in the patch go away. Cannot fail; the inputs stay as they are.
 */
struct sw_json *sw_json_merge_patch(struct sw_arena *a, const struct sw_json *target,
                                    const struct sw_json *patch);
/*
 * The merge patch that turns 'from' into 'to' (an empty object when they are equal by value).
 * Nulls inside 'to' cannot be expressed: they come out as removals.
 */
struct sw_json *sw_json_merge_diff(struct sw_arena *a, const struct sw_json *from,
                                   const struct sw_json *to);
