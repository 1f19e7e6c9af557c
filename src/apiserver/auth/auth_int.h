/* SPDX-License-Identifier: Apache-2.0 */
/* The index of roles and bindings (authz.c), for code that reads single rules (escalate.c). */
#pragma once

#include "apiserver/auth/auth.h"

struct api_rule {
    const struct sw_json *verbs, *groups, *resources, *names, *urls;
};

struct api_role {
    struct sw_slice key; /* "ns/name", cluster roles: "/name" */
    struct api_rule *rules;
    size_t n;
};

#define API_RBAC_GROUP "rbac.authorization.k8s.io"

/* Reads the roles and bindings anew if any has changed; roles found before are gone then. */
void api_authz_refresh(struct api_authz *z);
/* The rules of a role as written; they borrow from the list. */
void api_rules_read(struct sw_arena *a, const struct sw_json *list, struct api_rule **ret,
                    size_t *ret_n);
/* A role of the index, of the cluster with an empty namespace; NULL: there is none. */
const struct api_role *api_role_find(struct api_authz *z, struct sw_slice ns, struct sw_slice name);
/* The rules a user holds in a namespace, or in all of them (empty); they borrow from the index. */
struct api_rule *api_rules_held(struct api_authz *z, struct sw_arena *a, const struct api_user *u,
                                struct sw_slice ns, size_t *ret_n);
/*
 * Names of the aggregated cluster roles that a cluster role with these labels gives its rules to,
 * directly or by way of others. Returns how many; they live in the request's arena.
 */
size_t api_aggregators(struct api_req *r, const struct sw_json *role, struct sw_slice **ret);
