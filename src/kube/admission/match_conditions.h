/* SPDX-License-Identifier: Apache-2.0 */
/* matchConditions of webhooks and policies: expressions that must all hold for a request. */
#pragma once

#include "kube/at.h"
#include "kube/cel/policy.h"

#define SW_CEL_OUT_OF_BUDGET                                                                       \
    "validation failed due to running out of cost budget, no further validation rules will be run"

struct sw_match_condition {
    struct sw_slice name, expression;
    struct sw_cel *cel;
};

struct sw_match_conditions {
    struct sw_match_condition *p;
    size_t n;
    const char *broken; /* what does not compile; NULL when all does */
};

enum sw_match_outcome {
    SW_MATCH_HOLDS,
    SW_MATCH_EXCLUDES, /* one is false, whatever the others are */
    SW_MATCH_FAILED,   /* one could not be evaluated: the failure policy decides */
};

/* What match conditions of webhooks may name. */
extern const struct sw_cel_scope sw_webhook_scope;

/*
 * Compiles the list at a place. Everything wrong with it is reported in the reference's words. The
 * result is never NULL; arena, list and scope must outlive it. End with sw_match_conditions_done.
 */
struct sw_match_conditions *sw_match_conditions_compile(struct sw_arena *a,
                                                        const struct sw_cel_scope *scope,
                                                        const struct sw_at *list);
void sw_match_conditions_done(struct sw_match_conditions *c);

/* Evaluates them within the cost limits of the reference. *ret_why: of SW_MATCH_FAILED. */
enum sw_match_outcome sw_match_conditions_eval(const struct sw_match_conditions *c,
                                               struct sw_arena *a, struct sw_cel_run *run,
                                               const char **ret_why);

/* How the reference words an evaluation that failed. */
const char *sw_cel_error_text(struct sw_arena *a, struct sw_slice expression,
                              const struct sw_cel_result *r);
