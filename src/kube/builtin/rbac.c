/* SPDX-License-Identifier: Apache-2.0 */
/* Validation of roles and bindings. */
#include "kube/builtin/builtin_int.h"
#include "kube/select/selector_check.h"

/* Ours: the reference has no bounds but the size of an object. Real roles are below a tenth. */
enum { RULES_MAX = 4096, ENTRIES_MAX = 4096, ROLE_ENTRIES_MAX = 16384, SUBJECTS_MAX = 4096 };

static void check_rule(const struct sw_at *r, bool namespaced)
{
    const struct sw_at *urls = SW_IN(r, "nonResourceURLs");

    (void)sw_at_need(SW_IN(r, "verbs"), "verbs must contain at least one value");
    if (sw_at_len(urls)) {
        if (namespaced)
            sw_b_invalid_list(urls, "string", "namespaced rules cannot apply to non-resource URLs");
        if (sw_at_len(SW_IN(r, "apiGroups")) || sw_at_len(SW_IN(r, "resources")) ||
            sw_at_len(SW_IN(r, "resourceNames")))
            sw_b_invalid_list(urls, "string",
                              "rules cannot apply to both regular resources and non-resource URLs");
        return;
    }
    (void)sw_at_need(SW_IN(r, "apiGroups"), "resource rules must supply at least one api group");
    (void)sw_at_need(SW_IN(r, "resources"), "resource rules must supply at least one resource");
}

static void check_aggregation(const struct sw_at *rule)
{
    const struct sw_at *list = SW_IN(rule, "clusterRoleSelectors");

    if (rule->v)
        (void)sw_at_need(list, "at least one clusterRoleSelector required if aggregationRule is "
                               "non-nil");
    SW_AT_FOREACH (selector, list)
        sw_selector_check(&selector);
}

/*
 * Bounds what every later comparison and every request of a bound user costs. Rules that are
 * aggregated are the sum of bounded ones, and rules that were there before stay.
 */
static void check_sizes(const struct sw_at *obj, const struct sw_json *old)
{
    static const char *const lists[] = {"verbs", "apiGroups", "resources", "resourceNames",
                                        "nonResourceURLs"};
    const struct sw_at *rules = SW_IN(obj, "rules");
    size_t total = 0;

    if (sw_json_is(sw_json_find(obj->v, "aggregationRule"), SW_JSON_OBJECT) ||
        (old && sw_json_equal(rules->v, sw_json_find(old, "rules"), SW_JSON_EQ_VALUE)) ||
        !sw_at_max(rules, RULES_MAX))
        return;
    SW_AT_FOREACH (rule, rules) {
        for (size_t k = 0; k < SW_ARRAY_LEN(lists); k++) {
            total += sw_at_len(SW_IN(&rule, lists[k]));
            (void)sw_at_max(SW_IN(&rule, lists[k]), ENTRIES_MAX);
        }
    }
    if (total > ROLE_ENTRIES_MAX)
        sw_ferr(rules->e, SW_CAUSE_TOO_MANY, &rules->path,
                sw_arena_printf(rules->e->arena,
                                "Too many: %zu: the lists of all rules must have at most %d items",
                                total, ROLE_ENTRIES_MAX));
}

void sw_b_check_role(const struct sw_at *obj, const struct sw_json *old)
{
    const struct sw_at *rules = SW_IN(obj, "rules");
    bool namespaced = sw_at_text(SW_IN(obj, "metadata.namespace")).n;

    SW_AT_FOREACH (rule, rules)
        check_rule(&rule, namespaced);
    check_sizes(obj, old);
    check_aggregation(SW_IN(obj, "aggregationRule"));
}

static const char rbac_group[] = "rbac.authorization.k8s.io";

static void check_subject(const struct sw_at *s, bool namespaced)
{
    const struct sw_at *kind = SW_IN(s, "kind");
    const struct sw_at *name = SW_IN(s, "name");
    const struct sw_at *group = SW_IN(s, "apiGroup");
    bool user = sw_at_is(kind, "User");

    (void)sw_at_need(name, NULL);
    if (user || sw_at_is(kind, "Group")) {
        if (!sw_at_text(name).n)
            sw_at_invalid_text(name,
                               user ? "user name cannot be empty" : "group name cannot be empty");
        sw_at_one_of(group, rbac_group);
        return;
    }
    if (!sw_at_is(kind, "ServiceAccount")) {
        sw_at_one_of(kind, "ServiceAccount User Group");
        return;
    }
    sw_at_name(name, sw_name_dns1123_subdomain);
    sw_at_set_one_of(group, "");
    if (!namespaced)
        (void)sw_at_need(SW_IN(s, "namespace"), NULL);
}

static const char *go_role_ref(struct sw_arena *a, const struct sw_json *ref)
{
    return sw_arena_printf(a, "rbac.RoleRef{APIGroup:%s, Kind:%s, Name:%s}",
                           sw_go_quote(a, sw_field_text(ref, "apiGroup")),
                           sw_go_quote(a, sw_field_text(ref, "kind")),
                           sw_go_quote(a, sw_field_text(ref, "name")));
}

void sw_b_check_binding(const struct sw_at *obj, const struct sw_json *old)
{
    const struct sw_at *ref = SW_IN(obj, "roleRef");
    const struct sw_at *subjects = SW_IN(obj, "subjects");
    bool namespaced = sw_at_text(SW_IN(obj, "metadata.namespace")).n;

    sw_at_one_of(SW_IN(ref, "apiGroup"), rbac_group);
    sw_at_one_of(SW_IN(ref, "kind"), namespaced ? "Role ClusterRole" : "ClusterRole");
    sw_at_need_name(SW_IN(ref, "name"), sw_name_path_segment);
    if (sw_at_len(subjects) > sw_json_len(sw_json_find(old, "subjects")) &&
        !sw_at_max(subjects, SUBJECTS_MAX))
        return;
    SW_AT_FOREACH (s, subjects)
        check_subject(&s, namespaced);
    if (old && !sw_json_equal(ref->v, sw_json_find(old, "roleRef"), SW_JSON_EQ_VALUE))
        sw_b_invalid_go(ref, go_role_ref(ref->e->arena, ref->v), "cannot change roleRef");
}
