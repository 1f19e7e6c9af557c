/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The local file: policies. Match objects are the one place where unknown keys are not refused,
 * because newer files may carry conditions this version does not know. Ignoring such a condition
 * would widen what the policy allows, so the match is marked: it never allows, and where it
 * denies, only the conditions that are known limit it.
 */
#include <stddef.h>
#include <string.h>

#include "node/localconfig_int.h"

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
    static const char *const known[] = {"namespace", "serviceAccount", NULL};
    struct sw_sa_match *ret = item;
    struct sw_slice text = {0};
    int rc;

    if (node->kind == SW_YAML_MAP) {
        rc = sw_yaml_known_keys(node, known, l->err);
        if (rc == SW_OK)
            rc = sw_local_text(l, node, "namespace", &ret->ns);
        if (rc == SW_OK)
            rc = sw_local_text(l, node, "serviceAccount", &ret->sa);
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
                             (int)sw_min(node->text.n, 64), node->text.p);
    return SW_OK;
}

static int read_cidr(struct sw_local *l, const struct sw_yaml *node, void *item)
{
    struct sw_slice text = {0};
    int rc = sw_yaml_text(node, &text, l->err);

    if (rc != SW_OK)
        return rc;
    /* Dropping a bad block, as one might, would widen the match. */
    if (sw_cidr_parse(text, item, NULL) != SW_OK)
        return sw_yaml_error(node, l->err, "'%.*s' is not an address block",
                             (int)sw_min(text.n, 64), text.p);
    return SW_OK;
}

static int read_port(struct sw_local *l, const struct sw_yaml *node, void *item)
{
    int64_t v = 0;
    int rc = sw_yaml_int(node, 0, 65535, &v, l->err);

    *(uint16_t *)item = (uint16_t)v;
    return rc;
}

/* The conditions of a match: each is a list. */
#define LIST(key, field, read)                                                                     \
    {                                                                                              \
        key, offsetof(struct sw_policy_match, field),                                              \
            sizeof(*((struct sw_policy_match *)NULL)->field.p), read                               \
    }
static const struct {
    const char *key;
    size_t at;
    size_t size; /* of an item */
    sw_local_item_cb read;
} conditions[] = {
    LIST("namespaces", namespaces, read_string),
    LIST("notNamespaces", not_namespaces, read_string),
    LIST("serviceAccounts", service_accounts, read_account),
    LIST("notServiceAccounts", not_service_accounts, read_account),
    LIST("principals", principals, read_string),
    LIST("notPrincipals", not_principals, read_string),
    LIST("sourceIps", source_ips, read_cidr),
    LIST("notSourceIps", not_source_ips, read_cidr),
    LIST("destinationIps", destination_ips, read_cidr),
    LIST("notDestinationIps", not_destination_ips, read_cidr),
    LIST("destinationPorts", destination_ports, read_port),
    LIST("notDestinationPorts", not_destination_ports, read_port),
};
#undef LIST

static int read_match(struct sw_local *l, const struct sw_yaml *node, void *item)
{
    struct sw_policy_match *m = item;
    const char *known[SW_ARRAY_LEN(conditions) + 1] = {NULL};
    struct sw_err what;
    int rc = sw_yaml_expect(node, SW_YAML_MAP, l->err);

    if (rc != SW_OK)
        return rc;
    for (size_t i = 0; i < SW_ARRAY_LEN(conditions); i++)
        known[i] = conditions[i].key;
    if (sw_yaml_known_keys(node, known, &what) != SW_OK) {
        m->unknown = true;
        sw_local_warn(l, NULL, "%s: the match never allows, and denies by its known conditions",
                      what.msg);
    }
    for (size_t i = 0; rc == SW_OK && i < SW_ARRAY_LEN(conditions); i++) {
        struct sw_local_list got = {0};

        rc = sw_local_list(l, sw_local_get(node, conditions[i].key), conditions[i].size,
                           conditions[i].read, &got);
        /* Every list of a match is a pointer and a count. */
        memcpy((char *)m + conditions[i].at, &got, sizeof(got));
    }
    return rc;
}

static int read_clause(struct sw_local *l, const struct sw_yaml *node, void *item)
{
    struct sw_policy_clause *c = item;
    struct sw_local_list got = {0};
    int rc = sw_local_list(l, node, sizeof(*c->matches), read_match, &got);

    c->matches = got.p;
    c->n = got.n;
    return rc;
}

static int read_rule(struct sw_local *l, const struct sw_yaml *node, void *item)
{
    struct sw_policy_rule *r = item;
    struct sw_local_list got = {0};
    int rc = sw_local_list(l, node, sizeof(*r->clauses), read_clause, &got);

    r->clauses = got.p;
    r->n = got.n;
    return rc;
}

static int read_rules(struct sw_local *l, const struct sw_yaml *node, struct sw_policy *p)
{
    const struct sw_yaml *list;
    struct sw_local_list got = {0};
    int rc = sw_local_need(l, node, "rules", &list);

    if (rc == SW_OK)
        rc = sw_local_list(l, list, sizeof(*p->rules), read_rule, &got);
    p->rules = got.p;
    p->n = got.n;
    return rc;
}

static int read_head(struct sw_local *l, const struct sw_yaml *node, struct sw_policy *p)
{
    static const char *const required[] = {"name", "namespace", "scope", "action", "dryRun", NULL};
    static const char *const scopes[] = {"Global", "Namespace", "WorkloadSelector", NULL};
    static const char *const actions[] = {"Allow", "Deny", NULL};
    int scope = 0;
    int action = 0;
    int rc = SW_OK;

    for (int i = 0; rc == SW_OK && required[i]; i++) {
        const struct sw_yaml *v;

        rc = sw_local_need(l, node, required[i], &v);
    }
    if (rc == SW_OK)
        rc = sw_local_text(l, node, "name", &p->name);
    if (rc == SW_OK)
        rc = sw_local_text(l, node, "namespace", &p->ns);
    if (rc == SW_OK)
        rc = sw_local_enum(l, node, "scope", scopes, &scope);
    if (rc == SW_OK)
        rc = sw_local_enum(l, node, "action", actions, &action);
    if (rc == SW_OK)
        rc = sw_local_bool(l, node, "dryRun", &p->dry_run);
    p->scope = (enum sw_policy_scope)scope;
    p->action = (enum sw_policy_action)action;
    return rc;
}

int sw_local_policy(struct sw_local *l, const struct sw_yaml *node)
{
    static const char *const known[] = {"name",  "namespace", "scope", "action",
                                        "rules", "dryRun",    NULL};
    struct sw_policy p = {0};
    struct sw_err why;
    int rc = sw_yaml_expect(node, SW_YAML_MAP, l->err);

    if (rc == SW_OK)
        rc = sw_yaml_known_keys(node, known, l->err);
    if (rc == SW_OK)
        rc = read_head(l, node, &p);
    if (rc == SW_OK)
        rc = read_rules(l, node, &p);
    if (rc != SW_OK)
        return rc;
    if (sw_state_has_policy(l->b, p.ns, p.name))
        return sw_yaml_error(node, l->err, "a second policy '%.*s/%.*s'", (int)sw_min(p.ns.n, 64),
                             p.ns.p, (int)sw_min(p.name.n, 64), p.name.p);
    if (sw_state_add_policy(l->b, &p, sw_slice("", 0), &why) != SW_OK)
        return sw_yaml_error(node, l->err, "%s", why.msg);
    return SW_OK;
}
