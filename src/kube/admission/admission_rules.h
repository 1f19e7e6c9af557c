/* SPDX-License-Identifier: Apache-2.0 */
/* Validation of the rules that say which requests a webhook or policy is about. */
#pragma once

#include "kube/at.h"

void sw_admission_rule_check(const struct sw_at *rule);
