/* SPDX-License-Identifier: Apache-2.0 */
/* A request of a client in the form that webhooks are sent and that expressions are evaluated on.
 */
#pragma once

#include <string.h>

#include "apiserver/admission/admission.h"
#include "kube/cel/policy.h"

static inline bool sw_admission_is_namespace(const struct api_res *res)
{
    return res->builtin && strcmp(res->kind, "Namespace") == 0;
}

/* The namespace of a request; a Namespace is in itself, other cluster-scoped objects in none. */
struct sw_slice sw_admission_namespace(const struct api_req *r);
/*
 * AdmissionRequest without uid, object and oldObject, for the version 'as' of the resource. In the
 * request's arena, as all below.
 */
struct sw_json *sw_admission_request(const struct api_req *r, enum api_operation op,
                                     const struct api_res *as);
/* A copy of the object as that version has it; NULL for NULL. */
struct sw_json *sw_admission_object(const struct api_req *r, const struct api_res *as,
                                    const struct sw_json *obj);
/* authorizer.* of expressions: RBAC for the client of the request arg, or a service account. */
bool sw_admission_allowed(void *arg, struct sw_arena *a, const struct sw_cel_access *x,
                          const char **ret_reason);
