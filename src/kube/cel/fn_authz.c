/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to the authorizer: authorizer.group('').resource('pods').check('get').allowed(). */
#include "kube/cel/fn.h"
#include "kube/cel/policy.h"

enum { COST_CHECK = 350000 }; /* two checks an expression */

static struct sw_cel_access *copy(struct cel_env *env, const struct cel_val *v)
{
    struct sw_cel_access *x = SW_ARENA_NEW(env->a, struct sw_cel_access);

    if (v->access)
        *x = *v->access;
    return x;
}

static struct cel_val made(enum cel_kind k, const struct sw_cel_access *x)
{
    return (struct cel_val){.k = k, .access = x};
}

/* authorizer.path, .group and .serviceAccount */
FN(authorizer)
{
    struct sw_cel_access *x = copy(env, &a[0]);

    if (a[0].k != CEL_AUTHORIZER || !strings(a + 1, na - 1))
        return cel_no_overload(env);
    if (sw_slice_eq_str(n->name, "path")) {
        x->is_path = true;
        x->path = a[1].s;
        return made(CEL_PATH_CHECK, x);
    }
    if (sw_slice_eq_str(n->name, "group")) {
        x->group = a[1].s;
        return made(CEL_GROUP_CHECK, x);
    }
    x->account_ns = a[1].s;
    x->account = a[2].s;
    return made(CEL_AUTHORIZER, x);
}

FN(group_resource)
{
    struct sw_cel_access *x = copy(env, &a[0]);

    if (a[0].k != CEL_GROUP_CHECK || !strings(a + 1, 1))
        return cel_no_overload(env);
    x->resource = a[1].s;
    return made(CEL_RESOURCE_CHECK, x);
}

/* What narrows a resource; selectors do not change what RBAC answers. */
FN(narrow)
{
    struct sw_cel_access *x = copy(env, &a[0]);

    if (a[0].k != CEL_RESOURCE_CHECK || !strings(a + 1, 1))
        return cel_no_overload(env);
    if (sw_slice_eq_str(n->name, "subresource"))
        x->subresource = a[1].s;
    else if (sw_slice_eq_str(n->name, "namespace"))
        x->ns = a[1].s;
    else if (sw_slice_eq_str(n->name, "name"))
        x->name = a[1].s;
    return made(CEL_RESOURCE_CHECK, x);
}

FN(check)
{
    struct sw_cel_access *x = copy(env, &a[0]);
    const char *reason = NULL;
    struct cel_val v;

    if ((a[0].k != CEL_RESOURCE_CHECK && a[0].k != CEL_PATH_CHECK) || !strings(a + 1, 1))
        return cel_no_overload(env);
    if (cel_spent(env, COST_CHECK))
        return cel_over_budget(env);
    x->verb = a[1].s;
    v = made(CEL_DECISION, x);
    v.decision = cel_run_allowed(env, x, &reason);
    v.reason = reason ? reason : "";
    return v;
}

FN(decision)
{
    if (a[0].k != CEL_DECISION)
        return cel_no_overload(env);
    if (sw_slice_eq_str(n->name, "allowed"))
        return cel_bool(a[0].decision);
    if (sw_slice_eq_str(n->name, "errored"))
        return cel_bool(false);
    return cel_string(sw_slice_str(sw_slice_eq_str(n->name, "reason") ? a[0].reason : ""));
}
