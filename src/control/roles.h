/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ClusterRoles that controllers bring along. Made where missing; rules of older releases go, new
 * ones come, those of users stay (kube/schema/bundled.h).
 */
#pragma once

#include "control/runtime.h"

struct sw_role {
    const char *name;
    const char *rules;  /* JSON with single quotes */
    const char *before; /* those of releases that left no note beside the role; or NULL */
};

/* kind: that of ClusterRoles in the view: ours (app.kubernetes.io/managed-by), perhaps others. */
void sw_role_want(const struct sw_view *v, size_t kind, struct sw_output *out,
                  const struct sw_role *role);
