/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of what webhooks and ValidatingAdmissionPolicies did, for /metrics. */
#pragma once

#include "apiserver/api/api.h"

enum api_admission_event {
    API_HOOK_CALLED,
    API_HOOK_REJECTED,
    API_HOOK_FAILED,           /* no usable answer */
    API_HOOK_EXCLUDED,         /* a match condition was false */
    API_HOOK_CONDITION_FAILED, /* a match condition could not be evaluated */
    API_POLICY_DENIED,
    API_POLICY_WARNED,
    API_POLICY_AUDITED,
    API_ADMISSION_EVENTS,
};

/* Where it happened. */
enum api_admission_type {
    API_BY_MUTATING_HOOK,
    API_BY_VALIDATING_HOOK,
    API_BY_POLICY,
};

/* One more. name is of the webhook or policy; distinct names are bounded. */
void api_admission_count(struct sw_api *api, enum api_admission_event event,
                         enum api_admission_type type, struct sw_slice name);
/* In the text format of Prometheus. */
void api_admission_metrics(struct sw_api *api, struct sw_buf *out);
void api_admission_metrics_free(struct sw_api *api);
