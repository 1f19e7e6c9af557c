/* SPDX-License-Identifier: Apache-2.0 */
/* Validation of roles and bindings. */
#include "kube/builtin/builtin_int.h"
#include "kube/select/selector_check.h"

/* Ours: the reference has no bounds but the size of an object. Real roles are below a tenth. */
enum { RULES_MAX = 4096, ENTRIES_MAX = 4096, ROLE_ENTRIES_MAX = 16384, SUBJECTS_MAX = 4096 };

static void check_rule(const struct sw_json *r, bool namespaced, const struct sw_fpath *path,
                       struct sw_field_errs *e)
{
    struct sw_fpath at_verbs = sw_fpath_str(path, "verbs");
    struct sw_fpath at_groups = sw_fpath_str(path, "apiGroups");
    struct sw_fpath at_res = sw_fpath_str(path, "resources");
    struct sw_fpath at_urls = sw_fpath_str(path, "nonResourceURLs");
    const struct sw_json *urls = sw_json_find(r, "nonResourceURLs");

    if (!sw_json_len(sw_json_find(r, "verbs")))
        sw_ferr_required(e, &at_verbs, "verbs must contain at least one value");
    if (sw_json_len(urls)) {
        if (namespaced)
            sw_b_invalid_go(e, &at_urls, sw_b_go_list(e->arena, urls, "string"),
                            "namespaced rules cannot apply to non-resource URLs");
        if (sw_json_len(sw_json_find(r, "apiGroups")) ||
            sw_json_len(sw_json_find(r, "resources")) ||
            sw_json_len(sw_json_find(r, "resourceNames")))
            sw_b_invalid_go(e, &at_urls, sw_b_go_list(e->arena, urls, "string"),
                            "rules cannot apply to both regular resources and non-resource URLs");
        return;
    }
    if (!sw_json_len(sw_json_find(r, "apiGroups")))
        sw_ferr_required(e, &at_groups, "resource rules must supply at least one api group");
    if (!sw_json_len(sw_json_find(r, "resources")))
        sw_ferr_required(e, &at_res, "resource rules must supply at least one resource");
}

static void check_aggregation(const struct sw_json *rule, struct sw_field_errs *e)
{
    const struct sw_json *list = sw_json_find(rule, "clusterRoleSelectors");
    struct sw_fpath up = sw_fpath_str(NULL, "aggregationRule.clusterRoleSelectors");

    if (rule && !sw_json_len(list))
        sw_ferr_required(e, &up,
                         "at least one clusterRoleSelector required if aggregationRule is non-nil");
    for (size_t i = 0; i < sw_json_len(list); i++) {
        struct sw_fpath item = sw_fpath_index(&up, i);

        sw_selector_check(sw_json_at(list, i), &item, e);
    }
}

/*
 * Bounds what every later comparison and every request of a bound user costs. Rules that are
 * aggregated are the sum of bounded ones, and rules that were there before stay.
 */
static void check_sizes(const struct sw_json *obj, const struct sw_json *old,
                        struct sw_field_errs *e)
{
    static const char *const lists[] = {"verbs", "apiGroups", "resources", "resourceNames",
                                        "nonResourceURLs"};
    const struct sw_json *rules = sw_json_find(obj, "rules");
    struct sw_fpath up = sw_fpath_str(NULL, "rules");
    size_t total = 0;

    if (sw_json_is(sw_json_find(obj, "aggregationRule"), SW_JSON_OBJECT) ||
        (old && sw_json_equal(rules, sw_json_find(old, "rules"), SW_JSON_EQ_VALUE)))
        return;
    if (sw_json_len(rules) > RULES_MAX) {
        sw_ferr_too_many(e, &up, sw_json_len(rules), RULES_MAX);
        return;
    }
    for (size_t i = 0; i < sw_json_len(rules); i++) {
        struct sw_fpath at = sw_fpath_index(&up, i);

        for (size_t k = 0; k < SW_ARRAY_LEN(lists); k++) {
            size_t n = sw_json_len(sw_json_find(sw_json_at(rules, i), lists[k]));
            struct sw_fpath list = sw_fpath_str(&at, lists[k]);

            total += n;
            if (n > ENTRIES_MAX)
                sw_ferr_too_many(e, &list, n, ENTRIES_MAX);
        }
    }
    if (total > ROLE_ENTRIES_MAX)
        sw_ferr(e, SW_CAUSE_TOO_MANY, &up,
                sw_arena_printf(e->arena,
                                "Too many: %zu: the lists of all rules must have at most %d items",
                                total, ROLE_ENTRIES_MAX));
}

void sw_b_check_role(const struct sw_json *obj, const struct sw_json *old, struct sw_field_errs *e)
{
    const struct sw_json *rules = sw_json_find(obj, "rules");
    struct sw_fpath up = sw_fpath_str(NULL, "rules");
    bool namespaced = sw_field_text(sw_json_find(obj, "metadata"), "namespace").n;

    for (size_t i = 0; i < sw_json_len(rules); i++) {
        struct sw_fpath at = sw_fpath_index(&up, i);

        check_rule(sw_json_at(rules, i), namespaced, &at, e);
    }
    check_sizes(obj, old, e);
    check_aggregation(sw_json_find(obj, "aggregationRule"), e);
}

static const char *const rbac_group[] = {"rbac.authorization.k8s.io", NULL};

static void check_person(const struct sw_json *s, const struct sw_fpath *path,
                         struct sw_field_errs *e)
{
    struct sw_fpath at_name = sw_fpath_str(path, "name");
    struct sw_fpath at_group = sw_fpath_str(path, "apiGroup");

    if (!sw_field_text(s, "name").n)
        sw_ferr_invalid_str(e, &at_name, sw_slice("", 0),
                            sw_field_is(s, "kind", "User") ? "user name cannot be empty"
                                                           : "group name cannot be empty");
    sw_field_one_of(sw_json_find(s, "apiGroup"), rbac_group, &at_group, e);
}

static void check_subject(const struct sw_json *s, bool namespaced, const struct sw_fpath *path,
                          struct sw_field_errs *e)
{
    static const char *const known[] = {"ServiceAccount", "User", "Group", NULL};
    static const char *const core[] = {"", NULL};
    const struct sw_json *kind = sw_json_find(s, "kind");
    struct sw_fpath at_name = sw_fpath_str(path, "name");
    struct sw_fpath at_kind = sw_fpath_str(path, "kind");
    struct sw_fpath at_ns = sw_fpath_str(path, "namespace");
    struct sw_fpath at_group = sw_fpath_str(path, "apiGroup");
    struct sw_slice name = sw_field_text(s, "name");

    if (!name.n)
        sw_ferr_required(e, &at_name, NULL);
    if (!sw_json_str_eq(kind, "ServiceAccount")) {
        if (sw_json_str_eq(kind, "User") || sw_json_str_eq(kind, "Group"))
            check_person(s, path, e);
        else
            sw_field_one_of(kind, known, &at_kind, e);
        return;
    }
    if (name.n)
        sw_name_report(e, &at_name, name, sw_name_dns1123_subdomain(name));
    if (sw_field_text(s, "apiGroup").n)
        sw_ferr_unsupported(e, &at_group, sw_json_find(s, "apiGroup"), core);
    if (!namespaced && !sw_field_text(s, "namespace").n)
        sw_ferr_required(e, &at_ns, NULL);
}

static const char *go_role_ref(struct sw_arena *a, const struct sw_json *ref)
{
    return sw_arena_printf(a, "rbac.RoleRef{APIGroup:%s, Kind:%s, Name:%s}",
                           sw_go_quote(a, sw_field_text(ref, "apiGroup")),
                           sw_go_quote(a, sw_field_text(ref, "kind")),
                           sw_go_quote(a, sw_field_text(ref, "name")));
}

void sw_b_check_binding(const struct sw_json *obj, const struct sw_json *old,
                        struct sw_field_errs *e)
{
    static const char *const role_kinds[] = {"Role", "ClusterRole", NULL};
    const struct sw_json *ref = sw_json_find(obj, "roleRef");
    const struct sw_json *subjects = sw_json_find(obj, "subjects");
    bool namespaced = sw_field_text(sw_json_find(obj, "metadata"), "namespace").n;
    struct sw_fpath at_ref = sw_fpath_str(NULL, "roleRef");
    struct sw_fpath at_group = sw_fpath_str(&at_ref, "apiGroup");
    struct sw_fpath at_name = sw_fpath_str(&at_ref, "name");
    struct sw_fpath at_kind = sw_fpath_str(&at_ref, "kind");
    struct sw_fpath up = sw_fpath_str(NULL, "subjects");

    sw_field_one_of(sw_json_find(ref, "apiGroup"), rbac_group, &at_group, e);
    sw_field_one_of(sw_json_find(ref, "kind"), namespaced ? role_kinds : role_kinds + 1, &at_kind,
                    e);
    if (!sw_field_text(ref, "name").n)
        sw_ferr_required(e, &at_name, NULL);
    else
        sw_name_report(e, &at_name, sw_field_text(ref, "name"),
                       sw_name_path_segment(sw_field_text(ref, "name")));
    if (sw_json_len(subjects) > SUBJECTS_MAX &&
        sw_json_len(subjects) > sw_json_len(sw_json_find(old, "subjects"))) {
        sw_ferr_too_many(e, &up, sw_json_len(subjects), SUBJECTS_MAX);
        return;
    }
    for (size_t i = 0; i < sw_json_len(subjects); i++) {
        struct sw_fpath at = sw_fpath_index(&up, i);

        check_subject(sw_json_at(subjects, i), namespaced, &at, e);
    }
    if (old && !sw_json_equal(ref, sw_json_find(old, "roleRef"), SW_JSON_EQ_VALUE))
        sw_b_invalid_go(e, &at_ref, go_role_ref(e->arena, ref), "cannot change roleRef");
}
