/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules of x-kubernetes-validations: a small CEL. Expressions are parsed, type-checked against
 * the schema and priced when a CRD is admitted, and evaluated with a cost limit when an object is.
 * The functions are those Kubernetes 1.33 gives to new expressions; what is missing of them
 * (message literals, time zones) is refused at admission with its name.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"
#include "kube/schema/schema.h"

struct sw_cel;

enum {
    SW_CEL_SOURCE_MAX = 32768,
    SW_CEL_RULE_COST = 1000000,     /* one evaluation */
    SW_CEL_OBJECT_COST = 10000000,  /* all evaluations for one object */
    SW_CEL_STATIC_COST = 10000000,  /* estimate for one rule, over all values it is evaluated for */
    SW_CEL_STEPS = 20,              /* of a budget, for one unit of cost */
    SW_CEL_SCHEMA_COST = 100000000, /* estimate for all rules of a schema */
};

enum sw_cel_flags {
    SW_CEL_RESOURCE = 1,     /* self has apiVersion, kind and metadata */
    SW_CEL_WANT_STRING = 2,  /* the result must be a string (default: a bool) */
    SW_CEL_OPTIONAL_OLD = 4, /* oldSelf is an optional */
    SW_CEL_STORED = 8,       /* admitted before: functions that new expressions lack are there */
};

/*
 * Compiles an expression over 'self' and 'oldSelf' of the given schema, which must outlive the
 * result. Returns SW_OK, or SW_EINVAL with the compiler's message in *ret_why (in the arena).
 */
SW_NODISCARD int sw_cel_compile(struct sw_arena *a, struct sw_slice src,
                                const struct sw_schema *self, unsigned flags, struct sw_cel **ret,
                                const char **ret_why);
void sw_cel_free(struct sw_cel *c);
bool sw_cel_uses_old(const struct sw_cel *c);
/* The worst-case cost of one evaluation, as Kubernetes estimates it; UINT64_MAX: no bound. */
uint64_t sw_cel_cost(const struct sw_cel *c);
/* How many values of the schema fit into one request at most. */
uint64_t sw_cel_cardinality(const struct sw_schema *s, bool resource);

enum sw_cel_outcome {
    SW_CEL_FALSE,
    SW_CEL_TRUE,
    SW_CEL_STRING,
    SW_CEL_ERROR,   /* text says why */
    SW_CEL_COST,    /* the limit was reached; text says so */
    SW_CEL_NOTHING, /* null; admission expressions only */
};

struct sw_cel_result {
    enum sw_cel_outcome outcome;
    struct sw_slice text; /* in the arena */
    uint64_t cost;
};

/*
 * old may be NULL: not there. Temporary values are allocated in the arena. Regular expressions take
 * their steps from the budget, which also cancels; both end as SW_CEL_COST. The budget may be NULL:
 * SW_REGEX_STEPS.
 */
struct sw_cel_result sw_cel_eval(const struct sw_cel *c, struct sw_arena *a,
                                 const struct sw_json *self, const struct sw_json *old,
                                 uint64_t limit, struct sw_budget *b);
