/* SPDX-License-Identifier: Apache-2.0 */
/* What creating and updating share. Not for others. */
#pragma once

#include "apiserver/verbs/verbs.h"
#include "kube/apply/managed.h"

/* True when metadata.generation of the kind is kept. */
bool api_keeps_generation(const struct api_res *res);
bool api_is_crd_kind(const struct api_res *res);
/* All validation of an object (old: the stored one, NULL when new); false: 422 was sent. */
bool api_validate(struct api_req *r, struct sw_json *obj, const struct sw_json *old);
/* Takes out what clients may not set on new objects. */
void api_wipe_for_create(struct api_req *r, struct sw_json *obj);
/* An object with its owners noted: mutating webhooks come first, if any; then finish. */
bool api_write_prepared(struct api_write *w, struct sw_json *obj,
                        bool (*finish)(struct api_write *w, struct sw_json *obj));
/* Sends 409 for a create whose name is taken. */
void api_already_exists(struct api_write *w);
/* PUT and apply may make an object, if the client may also create; false: 403 was sent. */
bool api_may_create(struct api_req *r);
/* Value at a path like ".spec.replicas"; NULL when missing. */
struct sw_json *api_at_path(const struct sw_json *obj, const char *path);

enum api_patch_kind {
    API_PATCH_JSON,
    API_PATCH_MERGE,
    API_PATCH_STRATEGIC,
    API_PATCH_APPLY,
};
/* The kind of patch a request has; false: 415 was sent. */
bool api_patch_kind(struct api_req *r, enum api_patch_kind *ret);
/* Options and body of a patch; false: an error was sent. */
bool api_patch_read(struct api_req *r, enum api_patch_kind kind, struct sw_json **ret,
                    struct sw_json_dups *dups);
/* What a JSON patch makes of an object; false: an error was sent. */
bool api_json_patched(struct api_req *r, const struct sw_json *obj, const struct sw_json *patch,
                      struct sw_json **ret);
/* A manager must be named for apply; false: 422 was sent. */
bool api_need_manager(struct api_req *r);
/* Sends the failure of an apply. */
void api_apply_failed(struct api_req *r, const struct sw_smd_result *res);
