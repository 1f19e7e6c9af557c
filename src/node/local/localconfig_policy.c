/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The local file: policies. Match objects are the one place where unknown keys are not refused,
 * because newer files may carry conditions this version does not know. Ignoring such a condition
 * would widen what the policy allows, so the match is marked: it never allows, and where it
 * denies, only the conditions that are known limit it.
 */
#include "node/local/localconfig_int.h"

/* {Exact: x} or !Exact x, and so on; {Presence: []} or !Presence []. */
static int read_string(struct sw_local *l, const struct sw_yaml *node, void *item)
{
    static const char *const kinds[] = {"Exact", "Prefix", "Suffix", "Presence", NULL};
    struct sw_strmatch *ret = item;
    const struct sw_yaml *value = node;
    struct sw_yaml name = *node;
    int kind = 0;
    int rc;

    if (node->tag.n > 1) {
        name.kind = SW_YAML_SCALAR;
        name.plain = false;
        name.text = sw_slice_from(node->tag, 1);
    } else if (node->kind == SW_YAML_MAP && node->count == 1) {
        value = node->first;
        name = *value->key;
    } else {
        return sw_yaml_error(node, l->err,
                             "expected one of {Exact: x}, {Prefix: x}, {Suffix: x}, "
                             "{Presence: []}");
    }
    rc = sw_yaml_enum(&name, kinds, &kind, l->err);
    if (rc != SW_OK)
        return rc;
    ret->kind = (enum sw_strmatch_kind)kind;
    return ret->kind == SW_STRMATCH_PRESENCE ? SW_OK : sw_yaml_text(value, &ret->text, l->err);
}

/* {namespace, serviceAccount} or "namespace/serviceaccount". */
static int read_account(struct sw_local *l, const struct sw_yaml *node, void *item)
{
    static const struct sw_local_field fields[] = {
        {"namespace", sw_local_text, .at = offsetof(struct sw_sa_match, ns)},
        {"serviceAccount", sw_local_text, .at = offsetof(struct sw_sa_match, sa)},
    };
    struct sw_sa_match *ret = item;
    struct sw_slice text = {0};
    int rc;

    if (node->kind == SW_YAML_MAP) {
        rc = sw_local_map(l, node, fields, SW_ARRAY_LEN(fields), ret);
        if (rc == SW_OK && ret->sa.n == 0)
            return sw_yaml_error(node, l->err, "missing key 'serviceAccount'");
        return rc;
    }
    rc = sw_yaml_text(node, &text, l->err);
    if (rc != SW_OK)
        return rc;
    ret->ns = sw_slice_cut(&text, '/');
    ret->sa = text;
    if (ret->ns.n == 0 || ret->sa.n == 0)
        return sw_yaml_error(node, l->err, "'%.*s' is not NAMESPACE/SERVICEACCOUNT",
                             SW_SLICE_ARG_MAX(node->text, 64));
    return SW_OK;
}

static int read_cidr(struct sw_local *l, const struct sw_yaml *node, void *item)
{
    static const struct sw_local_field whole = {0};

    return sw_local_cidr(l, node, &whole, item);
}

static int read_port(struct sw_local *l, const struct sw_yaml *node, void *item)
{
    static const struct sw_local_field whole = {0};

    return sw_local_port(l, node, &whole, item);
}

/* A list in struct sw_policy_match and its like: a pointer and a count. */
#define LIST(type, list, count, read)                                                              \
    sw_local_list, .at = offsetof(type, list), .n_at = offsetof(type, count), .item = (read),      \
                   .size = sizeof(*((type *)NULL)->list)
#define CONDITION(read, list, key, not_key)                                                        \
    {key, LIST(struct sw_policy_match, list.p, list.n, read)},                                     \
        {not_key, LIST(struct sw_policy_match, not_##list.p, not_##list.n, read)},

static const struct sw_local_field conditions[] = {
    SW_POLICY_LISTS(CONDITION, read_string, read_account, read_cidr, read_port)};

static int read_match(struct sw_local *l, const struct sw_yaml *node, void *item)
{
    struct sw_policy_match *m = item;
    struct sw_err what;
    int rc = sw_yaml_expect(node, SW_YAML_MAP, l->err);

    if (rc != SW_OK)
        return rc;
    if (sw_local_known(node, conditions, SW_ARRAY_LEN(conditions), &what) != SW_OK) {
        m->unknown = true;
        sw_local_warn(l, NULL, "%s: the match never allows, and denies by its known conditions",
                      what.msg);
    }
    return sw_local_members(l, node, conditions, SW_ARRAY_LEN(conditions), m);
}

static int read_clause(struct sw_local *l, const struct sw_yaml *node, void *item)
{
    static const struct sw_local_field matches = {
        NULL, LIST(struct sw_policy_clause, matches, n, read_match)};

    return sw_local_list(l, node, &matches, item);
}

static int read_rule(struct sw_local *l, const struct sw_yaml *node, void *item)
{
    static const struct sw_local_field clauses = {
        NULL, LIST(struct sw_policy_rule, clauses, n, read_clause)};

    return sw_local_list(l, node, &clauses, item);
}

#define AT(field) .at = offsetof(struct sw_policy, field)
static const char *const scopes[] = {"Global", "Namespace", "WorkloadSelector", NULL};
static const char *const actions[] = {"Allow", "Deny", NULL};

static const struct sw_local_field policy_fields[] = {
    {"name", sw_local_text, AT(name), .needed = true},
    {"namespace", sw_local_text, AT(ns), .needed = true},
    {"scope", sw_local_enum, AT(scope), .needed = true, .names = scopes},
    {"action", sw_local_enum, AT(action), .needed = true, .names = actions},
    {"dryRun", sw_local_bool, AT(dry_run), .needed = true},
    {"rules", LIST(struct sw_policy, rules, n, read_rule), .needed = true},
};

int sw_local_policy(struct sw_local *l, const struct sw_yaml *node)
{
    struct sw_policy p = {0};
    struct sw_err why;
    int rc = sw_local_map(l, node, policy_fields, SW_ARRAY_LEN(policy_fields), &p);

    if (rc != SW_OK)
        return rc;
    if (sw_state_has_policy(l->b, p.ns, p.name))
        return sw_yaml_error(node, l->err, "a second policy '%.*s/%.*s'",
                             SW_SLICE_ARG_MAX(p.ns, 64), SW_SLICE_ARG_MAX(p.name, 64));
    if (sw_state_add_policy(l->b, &p, sw_slice("", 0), &why) != SW_OK)
        return sw_yaml_error(node, l->err, "%s", why.msg);
    return SW_OK;
}
