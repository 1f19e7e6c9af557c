/* SPDX-License-Identifier: Apache-2.0 */
/* What creating and updating share. Not for others. */
#pragma once

#include "apiserver/api.h"

/* True when metadata.generation of the kind is kept. */
bool api_keeps_generation(const struct api_res *res);
bool api_is_crd_kind(const struct api_res *res);
/* All validation of an object (old: the stored one, NULL when new); false: 422 was sent. */
bool api_validate(struct api_req *r, struct sw_json *obj, const struct sw_json *old);
/* Takes out what clients may not set on new objects. */
void api_wipe_for_create(struct api_req *r, struct sw_json *obj);
/* PUT and apply may make an object, if the client may also create; false: 403 was sent. */
bool api_may_create(struct api_req *r);
