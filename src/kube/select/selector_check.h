/* SPDX-License-Identifier: Apache-2.0 */
/* Validation of a LabelSelector inside an object. */
#pragma once

#include "kube/at.h"

void sw_selector_check(const struct sw_at *sel);
