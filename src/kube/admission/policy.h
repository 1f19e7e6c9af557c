/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ValidatingAdmissionPolicies as functions: what makes one valid, its compiled form, and what it
 * says of a request. Which requests it is about is in admission_match.h.
 */
#pragma once

#include "kube/admission/match_conditions.h"
#include "kube/cel/policy.h"
#include "kube/errs.h"

struct sw_policy_validation {
    struct sw_slice expression, message, reason;
    struct sw_cel *cel;
    struct sw_cel *cel_msg; /* NULL when there is none */
};

struct sw_policy_note { /* audit annotation */
    struct sw_slice name, expression;
    struct sw_cel *cel;
};

/* Immutable; owns everything. */
struct sw_admission_policy {
    struct sw_arena arena;
    struct sw_slice name;
    const struct sw_json *spec;
    bool ignore_failures; /* failurePolicy: Ignore */
    const char *broken;   /* what does not compile; NULL when all does */
    struct sw_cel_scope scope, message_scope, match_scope;
    struct sw_cel_named *vars;
    struct sw_match_conditions *conditions;
    struct sw_policy_note *notes;
    size_t nnotes;
    struct sw_policy_validation *validations;
    size_t nvalidations;
};

/*
 * Compiles a policy (defaulted before). Everything wrong with it goes to e in the reference's
 * words; the result is never NULL, and says in 'broken' that it cannot be evaluated. Free with
 * sw_policy_free.
 */
struct sw_admission_policy *sw_policy_compile(const struct sw_json *obj, struct sw_field_errs *e);
void sw_policy_free(struct sw_admission_policy *p);
/* What is wrong with a binding, whatever was stored. */
void sw_policy_binding_check(const struct sw_at *obj, const struct sw_json *old);

struct sw_policy_denial {
    size_t index; /* of the validation; 0 for other failures */
    const char *message;
    struct sw_slice reason; /* empty: Invalid */
};

struct sw_policy_audit {
    struct sw_slice key;
    struct sw_slice value;
};

/* In the arena of the evaluation. */
struct sw_policy_result {
    struct sw_policy_denial *denials;
    size_t ndenials;
    struct sw_policy_audit *audits;
    size_t naudits;
};

/*
 * Evaluates a policy for a request and one parameter object: match conditions, validations, audit
 * annotations, within the cost limits of the reference. A failure denies, unless the policy ignores
 * failures.
 */
struct sw_policy_result sw_policy_eval(const struct sw_admission_policy *p, struct sw_arena *a,
                                       const struct sw_cel_input *in);
