/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The local file: policies. Match objects are the one place where unknown keys are not refused,
 * because newer files may carry conditions this version does not know. Ignoring such a condition
 * would widen what the policy allows, so the match is marked: it never allows, and where it
 * denies, only the conditions that are known limit it.
 */
#include "node/localconfig_int.h"

/* A list under a key of the match; *ret_list stays NULL when there is none. */
static int match_list(struct sw_local *l, const struct sw_yaml *match, const char *key,
                      const struct sw_yaml **ret_list)
{
    *ret_list = sw_local_get(match, key);
    return *ret_list ? sw_yaml_expect(*ret_list, SW_YAML_SEQ, l->err) : SW_OK;
}

/* {Exact: x} or !Exact x, and so on; {Presence: []} or !Presence []. */
static int read_string(struct sw_local *l, const struct sw_yaml *node, struct sw_strmatch *ret)
{
    static const char *const kinds[] = {"Exact", "Prefix", "Suffix", "Presence", NULL};
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

static int strings(struct sw_local *l, const struct sw_yaml *match, const char *key,
                   struct sw_strmatch_list *ret)
{
    const struct sw_yaml *list;
    struct sw_strmatch *out;
    int rc = match_list(l, match, key, &list);

    if (rc != SW_OK || !list)
        return rc;
    out = sw_arena_array(l->arena, list->count, sizeof(*out));
    ret->p = out;
    SW_YAML_FOREACH (it, list) {
        rc = read_string(l, it, &out[ret->n++]);
        if (rc != SW_OK)
            return rc;
    }
    return SW_OK;
}

/* {namespace, serviceAccount} or "namespace/serviceaccount". */
static int read_account(struct sw_local *l, const struct sw_yaml *node, struct sw_sa_match *ret)
{
    static const char *const known[] = {"namespace", "serviceAccount", NULL};
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

static int accounts(struct sw_local *l, const struct sw_yaml *match, const char *key,
                    struct sw_sa_match_list *ret)
{
    const struct sw_yaml *list;
    struct sw_sa_match *out;
    int rc = match_list(l, match, key, &list);

    if (rc != SW_OK || !list)
        return rc;
    out = sw_arena_array(l->arena, list->count, sizeof(*out));
    ret->p = out;
    SW_YAML_FOREACH (it, list) {
        rc = read_account(l, it, &out[ret->n++]);
        if (rc != SW_OK)
            return rc;
    }
    return SW_OK;
}

static int cidrs(struct sw_local *l, const struct sw_yaml *match, const char *key,
                 struct sw_cidr_list *ret)
{
    const struct sw_yaml *list;
    struct sw_cidr *out;
    int rc = match_list(l, match, key, &list);

    if (rc != SW_OK || !list)
        return rc;
    out = sw_arena_array(l->arena, list->count, sizeof(*out));
    ret->p = out;
    SW_YAML_FOREACH (it, list) {
        struct sw_slice text = {0};

        rc = sw_yaml_text(it, &text, l->err);
        if (rc != SW_OK)
            return rc;
        /* Dropping a bad block, as one might, would widen the match. */
        if (sw_cidr_parse(text, &out[ret->n++], NULL) != SW_OK)
            return sw_yaml_error(it, l->err, "'%.*s' is not an address block",
                                 (int)sw_min(text.n, 64), text.p);
    }
    return SW_OK;
}

static int ports(struct sw_local *l, const struct sw_yaml *match, const char *key,
                 struct sw_port_list *ret)
{
    const struct sw_yaml *list;
    uint16_t *out;
    int rc = match_list(l, match, key, &list);

    if (rc != SW_OK || !list)
        return rc;
    out = sw_arena_array(l->arena, list->count, sizeof(*out));
    ret->p = out;
    SW_YAML_FOREACH (it, list) {
        int64_t v = 0;

        rc = sw_yaml_int(it, 0, 65535, &v, l->err);
        if (rc != SW_OK)
            return rc;
        out[ret->n++] = (uint16_t)v;
    }
    return SW_OK;
}

static int callers(struct sw_local *l, const struct sw_yaml *node, struct sw_policy_match *m)
{
    int rc = strings(l, node, "namespaces", &m->namespaces);

    if (rc == SW_OK)
        rc = strings(l, node, "notNamespaces", &m->not_namespaces);
    if (rc == SW_OK)
        rc = strings(l, node, "principals", &m->principals);
    if (rc == SW_OK)
        rc = strings(l, node, "notPrincipals", &m->not_principals);
    if (rc == SW_OK)
        rc = accounts(l, node, "serviceAccounts", &m->service_accounts);
    if (rc == SW_OK)
        rc = accounts(l, node, "notServiceAccounts", &m->not_service_accounts);
    return rc;
}

static int addresses(struct sw_local *l, const struct sw_yaml *node, struct sw_policy_match *m)
{
    int rc = cidrs(l, node, "sourceIps", &m->source_ips);

    if (rc == SW_OK)
        rc = cidrs(l, node, "notSourceIps", &m->not_source_ips);
    if (rc == SW_OK)
        rc = cidrs(l, node, "destinationIps", &m->destination_ips);
    if (rc == SW_OK)
        rc = cidrs(l, node, "notDestinationIps", &m->not_destination_ips);
    if (rc == SW_OK)
        rc = ports(l, node, "destinationPorts", &m->destination_ports);
    if (rc == SW_OK)
        rc = ports(l, node, "notDestinationPorts", &m->not_destination_ports);
    return rc;
}

static int read_match(struct sw_local *l, const struct sw_yaml *node, struct sw_policy_match *m)
{
    static const char *const known[] = {"namespaces",
                                        "notNamespaces",
                                        "serviceAccounts",
                                        "notServiceAccounts",
                                        "principals",
                                        "notPrincipals",
                                        "sourceIps",
                                        "notSourceIps",
                                        "destinationIps",
                                        "notDestinationIps",
                                        "destinationPorts",
                                        "notDestinationPorts",
                                        NULL};
    struct sw_err what;
    int rc = sw_yaml_expect(node, SW_YAML_MAP, l->err);

    if (rc != SW_OK)
        return rc;
    if (sw_yaml_known_keys(node, known, &what) != SW_OK) {
        m->unknown = true;
        sw_local_warn(l, NULL, "%s: the match never allows, and denies by its known conditions",
                      what.msg);
    }
    rc = callers(l, node, m);
    return rc == SW_OK ? addresses(l, node, m) : rc;
}

static int read_clause(struct sw_local *l, const struct sw_yaml *node, struct sw_policy_clause *c)
{
    struct sw_policy_match *out;
    int rc = sw_yaml_expect(node, SW_YAML_SEQ, l->err);

    if (rc != SW_OK)
        return rc;
    out = sw_arena_array(l->arena, node->count, sizeof(*out));
    c->matches = out;
    SW_YAML_FOREACH (it, node) {
        rc = read_match(l, it, &out[c->n++]);
        if (rc != SW_OK)
            return rc;
    }
    return SW_OK;
}

static int read_rule(struct sw_local *l, const struct sw_yaml *node, struct sw_policy_rule *r)
{
    struct sw_policy_clause *out;
    int rc = sw_yaml_expect(node, SW_YAML_SEQ, l->err);

    if (rc != SW_OK)
        return rc;
    out = sw_arena_array(l->arena, node->count, sizeof(*out));
    r->clauses = out;
    SW_YAML_FOREACH (it, node) {
        rc = read_clause(l, it, &out[r->n++]);
        if (rc != SW_OK)
            return rc;
    }
    return SW_OK;
}

static int read_rules(struct sw_local *l, const struct sw_yaml *node, struct sw_policy *p)
{
    struct sw_policy_rule *out;
    const struct sw_yaml *list;
    int rc = sw_local_need(l, node, "rules", &list);

    if (rc == SW_OK)
        rc = sw_yaml_expect(list, SW_YAML_SEQ, l->err);
    if (rc != SW_OK)
        return rc;
    out = sw_arena_array(l->arena, list->count, sizeof(*out));
    p->rules = out;
    SW_YAML_FOREACH (it, list) {
        rc = read_rule(l, it, &out[p->n++]);
        if (rc != SW_OK)
            return rc;
    }
    return SW_OK;
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
    if (sw_state_add_policy(l->b, &p, &why) != SW_OK)
        return sw_yaml_error(node, l->err, "%s", why.msg);
    return SW_OK;
}
