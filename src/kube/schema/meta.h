/* SPDX-License-Identifier: Apache-2.0 */
/* Validation of metadata, the same for every kind. */
#pragma once

#include <stdbool.h>

#include "kube/at.h"

/* Owner references, and finalizers: ours, the reference has no bound. */
enum { SW_META_REFS_MAX = 1024 };

/* metadata.* of any kind. namespaced says whether a namespace is required or forbidden. */
void sw_meta_validate(const struct sw_json *obj, bool namespaced, sw_name_fn name_check,
                      struct sw_field_errs *e);
/* Rules between the stored and the new metadata. */
void sw_meta_validate_update(const struct sw_json *obj, const struct sw_json *old,
                             struct sw_field_errs *e);
void sw_labels_validate(const struct sw_at *labels);
