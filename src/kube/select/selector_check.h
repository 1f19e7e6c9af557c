/* SPDX-License-Identifier: Apache-2.0 */
/* Validation of a LabelSelector inside an object. */
#pragma once

#include "base/json.h"
#include "kube/errs.h"

void sw_selector_check(const struct sw_json *sel, const struct sw_fpath *path,
                       struct sw_field_errs *e);
