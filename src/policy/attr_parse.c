/* SPDX-License-Identifier: Apache-2.0 */
/* Access policies from their objects. */
#include "base/json.h"
#include "kube/names.h"
#include "policy/attr.h"

static const struct sw_slice labels_mark = SW_SLICE_LIT("/labels.");

/* A label's key, or "PREFIX/labels." in front of one that has a prefix of its own. */
static bool valid_key(struct sw_slice key)
{
    ptrdiff_t slash = sw_slice_find(key, '/');
    struct sw_slice rest = slash > 0 ? sw_slice_from(key, (size_t)slash) : sw_slice("", 0);

    if (sw_name_label_key(key).n == 0)
        return true;
    return sw_slice_has_prefix(rest, labels_mark) &&
           sw_name_dns1123_subdomain(sw_slice_head(key, (size_t)slash)).n == 0 &&
           sw_name_label_key(sw_slice_from(rest, labels_mark.n)).n == 0;
}

static int read_key(struct sw_arena *a, struct sw_slice in, struct sw_slice *ret,
                    struct sw_err *err)
{
    if (!valid_key(in))
        return sw_err_set(err, SW_EINVAL, "'%.100s' is not a key of an attribute",
                          sw_arena_dup(a, sw_slice_head(in, 100)));
    *ret = sw_arena_slice(a, in);
    return SW_OK;
}

static int read_value(struct sw_arena *a, const struct sw_json *v, struct sw_strmatch *ret,
                      struct sw_err *err)
{
    struct sw_slice text = sw_json_str(v);

    if (!text.p || sw_name_label_value(text).n)
        return sw_err_set(err, SW_EINVAL, "'%.100s' is not a value of an attribute",
                          sw_arena_dup(a, sw_slice_head(text.p ? text : sw_slice("", 0), 100)));
    *ret = (struct sw_strmatch){.kind = SW_STRMATCH_EXACT, .text = sw_arena_slice(a, text)};
    return SW_OK;
}

static int read_label(struct sw_arena *a, const struct sw_json_member *m, struct sw_attr_match *ret,
                      struct sw_err *err)
{
    struct sw_strmatch *value = SW_ARENA_NEW(a, struct sw_strmatch);
    int rc = read_key(a, m->key, &ret->key, err);

    if (rc == SW_OK)
        rc = read_value(a, m->value, value, err);
    ret->op = SW_ATTR_IN;
    ret->values = (struct sw_strmatch_list){value, 1};
    return rc;
}

static int read_op(const struct sw_json *v, enum sw_attr_op *ret, struct sw_err *err)
{
    static const char *const names[] = {[SW_ATTR_IN] = "In",
                                        [SW_ATTR_NOT_IN] = "NotIn",
                                        [SW_ATTR_EXISTS] = "Exists",
                                        [SW_ATTR_NOT_EXISTS] = "DoesNotExist"};

    for (size_t i = 0; i < SW_ARRAY_LEN(names); i++) {
        if (sw_json_str_eq(v, names[i])) {
            *ret = (enum sw_attr_op)i;
            return SW_OK;
        }
    }
    return sw_err_set(err, SW_EINVAL, "unknown operator of a selector");
}

static int read_expression(struct sw_arena *a, const struct sw_json *v, struct sw_attr_match *ret,
                           struct sw_err *err)
{
    const struct sw_json *values = sw_json_find(v, "values");
    struct sw_strmatch *p = sw_arena_array(a, sw_json_len(values), sizeof(*p));
    struct sw_slice key = sw_json_str(sw_json_find(v, "key"));
    int rc = read_key(a, key.p ? key : sw_slice("", 0), &ret->key, err);

    if (rc == SW_OK)
        rc = read_op(sw_json_find(v, "operator"), &ret->op, err);
    for (size_t i = 0; i < sw_json_len(values) && rc == SW_OK; i++)
        rc = read_value(a, sw_json_at(values, i), &p[i], err);
    ret->values = (struct sw_strmatch_list){p, sw_json_len(values)};
    if (rc != SW_OK)
        return rc;
    if ((ret->op == SW_ATTR_IN || ret->op == SW_ATTR_NOT_IN) != (ret->values.n > 0))
        return sw_err_set(err, SW_EINVAL, "operator and values of a selector do not fit");
    return SW_OK;
}

static int read_selector(struct sw_arena *a, const struct sw_json *v, struct sw_attr_selector *ret,
                         struct sw_err *err)
{
    const struct sw_json *labels = sw_json_find(v, "matchLabels");
    const struct sw_json *expressions = sw_json_find(v, "matchExpressions");
    size_t n = sw_json_len(labels) + sw_json_len(expressions);
    struct sw_attr_match *p = sw_arena_array(a, n, sizeof(*p));
    int rc = SW_OK;

    for (size_t i = 0; i < sw_json_len(labels) && rc == SW_OK; i++)
        rc = read_label(a, sw_json_member_at(labels, i), &p[i], err);
    for (size_t i = 0; i < sw_json_len(expressions) && rc == SW_OK; i++)
        rc = read_expression(a, sw_json_at(expressions, i), &p[sw_json_len(labels) + i], err);
    *ret = (struct sw_attr_selector){p, n};
    return rc;
}

static int read_selectors(struct sw_arena *a, const struct sw_json *spec, const char *member,
                          struct sw_attr_selectors *ret, struct sw_err *err)
{
    const struct sw_json *list = sw_json_find(spec, member);
    struct sw_attr_selector *p;
    int rc = SW_OK;

    if (!sw_json_is(list, SW_JSON_ARRAY) || list->arr.n == 0)
        return sw_err_set(err, SW_EINVAL, "spec.%s is empty", member);
    if (list->arr.n > SW_ATTR_POLICY_PARTS)
        return sw_err_set(err, SW_EINVAL, "spec.%s has more than %d entries", member,
                          SW_ATTR_POLICY_PARTS);
    p = sw_arena_array(a, list->arr.n, sizeof(*p));
    for (size_t i = 0; i < list->arr.n && rc == SW_OK; i++) {
        const struct sw_json *item = sw_json_at(list, i);
        const struct sw_json *selector = sw_json_find(item, "workloadSelector");

        if (sw_json_len(sw_json_find(item, "workloadSets")))
            return sw_err_set(err, SW_EINVAL, "spec.%s[%zu].workloadSets is not supported", member,
                              i);
        if (!sw_json_is(selector, SW_JSON_OBJECT))
            return sw_err_set(err, SW_EINVAL, "spec.%s[%zu].workloadSelector is missing", member,
                              i);
        rc = read_selector(a, selector, &p[i], err);
        if (rc != SW_OK)
            return sw_err_prefix(err, "spec.%s[%zu]", member, i);
    }
    *ret = (struct sw_attr_selectors){p, list->arr.n};
    return SW_OK;
}

static size_t terms_of(struct sw_attr_selectors l)
{
    size_t n = l.n;

    for (size_t i = 0; i < l.n; i++) {
        for (size_t k = 0; k < l.p[i].n; k++)
            n += 1 + l.p[i].p[k].values.n;
    }
    return n;
}

size_t sw_attr_policy_terms(const struct sw_attr_policy *p)
{
    return terms_of(p->from) + terms_of(p->to);
}

int sw_attr_policy_parse(struct sw_arena *a, struct sw_slice ns, struct sw_slice name,
                         const struct sw_json *spec, struct sw_attr_policy **ret,
                         struct sw_err *err)
{
    struct sw_attr_policy *p = SW_ARENA_NEW(a, struct sw_attr_policy);
    const struct sw_json *action = sw_json_find(spec, "action");
    int rc;

    if (sw_json_str_eq(action, "allow"))
        p->action = SW_POLICY_ALLOW;
    else if (sw_json_str_eq(action, "deny"))
        p->action = SW_POLICY_DENY;
    else
        return sw_err_set(err, SW_EINVAL, "spec.action is neither allow nor deny");
    rc = read_selectors(a, spec, "from", &p->from, err);
    if (rc == SW_OK)
        rc = read_selectors(a, spec, "to", &p->to, err);
    if (rc != SW_OK)
        return rc;
    if (sw_attr_policy_terms(p) > SW_ATTR_TERMS_MAX)
        return sw_err_set(err, SW_EINVAL, "spec has more than %d selectors, keys and values",
                          SW_ATTR_TERMS_MAX);
    p->name = sw_arena_slice(a, name);
    p->ns = sw_arena_slice(a, ns);
    p->key =
        ns.n ? sw_slice_str(sw_arena_printf(a, "%.*s/%.*s", SW_SLICE_ARG(ns), SW_SLICE_ARG(name)))
             : p->name;
    *ret = p;
    return SW_OK;
}
