/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Expressions of admission: over object, oldObject, request, params, namespaceObject, authorizer
 * and the variables of a policy, where rules of schemas are over self.
 */
#pragma once

#include "kube/cel/cel.h"

/* A variable of a policy: named and typed by an expression, evaluated at its first use. */
struct sw_cel_named {
    struct sw_slice name;
    struct sw_cel *cel; /* NULL: did not compile */
};

/* What an expression may name. */
struct sw_cel_scope {
    bool params;
    bool authorizer;
    const struct sw_cel_named *vars;
    size_t nvars;
};

enum sw_cel_want {
    SW_CEL_BE_BOOL,
    SW_CEL_BE_STRING,
    SW_CEL_BE_STRING_OR_NULL,
    SW_CEL_BE_ANYTHING,
};

/*
 * Compiles an expression. The scope must outlive the result, and keep its first nvars variables.
 * Returns SW_OK, or SW_EINVAL with the reason in *ret_why (in the arena).
 */
SW_NODISCARD int sw_cel_compile_policy(struct sw_arena *a, struct sw_slice src,
                                       const struct sw_cel_scope *scope, enum sw_cel_want want,
                                       struct sw_cel **ret, const char **ret_why);

/* An access that an expression checks. Slices live in the arena of the run. */
struct sw_cel_access {
    struct sw_slice path; /* not a resource when given */
    bool is_path;
    struct sw_slice group, resource, subresource, ns, name, verb;
    struct sw_slice account_ns, account; /* of another service account; p == NULL: the user's own */
};
/* True: allowed; *ret_reason (in the arena) may say why. */
typedef bool (*sw_cel_allowed_fn)(void *arg, struct sw_arena *a, const struct sw_cel_access *access,
                                  const char **ret_reason);

/* One request, as the expressions see it; NULL trees are null. */
struct sw_cel_input {
    const struct sw_json *object;
    const struct sw_json *old;
    const struct sw_json *request; /* never NULL */
    const struct sw_json *params;
    const struct sw_json *ns;
    sw_cel_allowed_fn allowed;
    void *arg;
    const struct sw_budget *cancel; /* ends all evaluations; may be NULL */
};

/* Evaluations for one request share the values of variables. */
struct sw_cel_run;
struct sw_cel_run *sw_cel_run_new(struct sw_arena *a, const struct sw_cel_scope *scope,
                                  const struct sw_cel_input *in);
/*
 * Evaluates one expression, at most SW_CEL_RULE_COST for it and for each variable it needs first;
 * cost is the sum.
 */
struct sw_cel_result sw_cel_run_eval(struct sw_cel_run *run, const struct sw_cel *c);
