/* SPDX-License-Identifier: Apache-2.0 */
/* The order of validating admission, and which requests are exempt from it. */
#pragma once

#include "apiserver/admission/admission.h"

/* Runs the plugins in their order, then calls ad->then. Exempt requests continue at once. */
void sw_admission_validate(struct api_admission *ad);
