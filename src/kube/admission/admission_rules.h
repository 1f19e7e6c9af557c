/* SPDX-License-Identifier: Apache-2.0 */
/* Validation of the rules that say which requests a webhook or policy is about. */
#pragma once

#include "base/json.h"
#include "kube/errs.h"

void sw_admission_rule_check(const struct sw_json *rule, const struct sw_fpath *path,
                             struct sw_field_errs *e);
