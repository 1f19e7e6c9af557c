/* SPDX-License-Identifier: Apache-2.0 */
/* ValidatingAdmissionPolicies in force. */
#pragma once

#include "apiserver/admission/admission.h"

struct api_policies;

/* The admission plugin. */
void api_policies_admit(struct api_admission *ad);
/* A policy or a binding was written. */
void api_policies_changed(struct sw_api *api);
void api_policies_free(struct api_policies *x);
