/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rooms of the functions. Signatures are letters: s string, i int, u uint, d double, b bool,
 * y bytes, D duration, T timestamp, l any list, L list of strings, n list of numbers, c list of
 * what has an order, p list of optionals, m map or object, o optional, F named format, U URL, I
 * address, C prefix, Q quantity, * anything; results also e (element of the first argument), E
 * (optional of it), W (list of what its optionals hold), S (type of the first argument), O
 * (optional of the first argument), V (optional list of strings), M (map of lists of strings), t
 * (type); A authorizer, P, G and R its checks of a path, a group and a resource, X its decision.
 */
#pragma once

#include "kube/cel/cel_priv.h"

#define FN(name)                                                                                   \
    static struct cel_val name(struct cel_env *env, const struct cel_node *n, struct cel_val *a,   \
                               size_t na)

/* Each ends with a row without a name. */
extern const struct cel_fn cel_fns_strings[];
extern const struct cel_fn cel_fns_lists[];
extern const struct cel_fn cel_fns_convert[];
extern const struct cel_fn cel_fns_time[];
extern const struct cel_fn cel_fns_kube[];
extern const struct cel_fn cel_fns_net[];
extern const struct cel_fn cel_fns_quantity[];
extern const struct cel_fn cel_fns_authz[];

static inline void charge(struct cel_env *env, size_t bytes)
{
    env->cost += bytes / 10 + 1;
}

static inline bool strings(const struct cel_val *a, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (a[i].k != CEL_STRING)
            return false;
    }
    return true;
}

#define NEED_STRINGS(count)                                                                        \
    do {                                                                                           \
        if (!strings(a, (count)))                                                                  \
            return cel_error(env, "no such overload");                                             \
        charge(env, a[0].s.n);                                                                     \
    } while (0)

/* A short text with its end marked; false when it is empty, too long or begins with a space. */
bool cel_to_text(struct sw_slice s, char *buf, size_t cap);
/* RFC 3339. */
const char *cel_time_text(struct cel_env *env, const struct cel_val *v);
/* What string() makes of a value; an error for what it does not take. */
struct cel_val cel_to_string(struct cel_env *env, const struct cel_val *v);
/* The name type() answers with. */
const char *cel_kind_name(enum cel_kind k);
