/* SPDX-License-Identifier: Apache-2.0 */
/* What makes a rule of a webhook or of a ValidatingAdmissionPolicy valid. */
#include "kube/admission/admission_rules.h"

#include <string.h>

#include "kube/fields.h"
#include "kube/names.h"

/* A list that must not be empty, and in which a star stands alone. */
static void check_star(const struct sw_json *v, const char *key, const char *what,
                       const struct sw_fpath *path, struct sw_field_errs *e)
{
    const struct sw_json *list = sw_json_find(v, key);
    struct sw_fpath at = sw_fpath_str(path, key);

    if (!sw_json_len(list))
        sw_ferr_required(e, &at, NULL);
    else if (sw_json_len(list) > 1 && sw_field_list_has(list, "*"))
        sw_ferr_invalid(
            e, &at, list,
            sw_arena_printf(e->arena, "if '*' is present, must not specify other %s", what));
}

static void check_resources(const struct sw_json *rule, const struct sw_fpath *path,
                            struct sw_field_errs *e)
{
    const struct sw_json *list = sw_json_find(rule, "resources");
    struct sw_fpath at = sw_fpath_str(path, "resources");
    bool plain = false;

    if (!sw_json_len(list))
        sw_ferr_required(e, &at, NULL);
    for (size_t i = 0; i < sw_json_len(list); i++) {
        struct sw_slice s = sw_json_str(sw_json_at(list, i));
        struct sw_fpath at_i = sw_fpath_index(&at, i);

        if (!s.n)
            sw_ferr_required(e, &at_i, NULL);
        plain = plain || (s.n && !memchr(s.p, '/', s.n) && !sw_slice_eq_str(s, "*"));
    }
    if (sw_json_len(list) > 1 && sw_field_list_has(list, "*/*"))
        sw_ferr_invalid(e, &at, list, "if '*/*' is present, must not specify other resources");
    if (sw_field_list_has(list, "*") && plain)
        sw_ferr_invalid(e, &at, list,
                        "if '*' is present, must not specify other resources without subresources");
}

/* Rules of policies have names of objects, too; those of webhooks do not. */
static void check_names(const struct sw_json *rule, const struct sw_fpath *path,
                        struct sw_field_errs *e)
{
    const struct sw_json *names = sw_json_find(rule, "resourceNames");
    struct sw_fpath up = sw_fpath_str(path, "resourceNames");

    for (size_t i = 0; i < sw_json_len(names); i++) {
        struct sw_slice s = sw_json_str(sw_json_at(names, i));
        struct sw_fpath at = sw_fpath_index(&up, i);

        sw_name_report(e, &at, s, sw_name_path_segment(s));
    }
}

void sw_admission_rule_check(const struct sw_json *rule, const struct sw_fpath *path,
                             struct sw_field_errs *e)
{
    static const char *const operations[] = {"*", "CONNECT", "CREATE", "DELETE", "UPDATE", NULL};
    static const char *const scopes[] = {"*", "Cluster", "Namespaced", NULL};
    const struct sw_json *list = sw_json_find(rule, "operations");
    const struct sw_json *versions = sw_json_find(rule, "apiVersions");
    struct sw_fpath at_ops = sw_fpath_str(path, "operations");
    struct sw_fpath at_versions = sw_fpath_str(path, "apiVersions");
    struct sw_fpath at_scope = sw_fpath_str(path, "scope");

    check_names(rule, path, e);
    check_star(rule, "operations", "operations", path, e);
    for (size_t i = 0; i < sw_json_len(list); i++) {
        struct sw_fpath at = sw_fpath_index(&at_ops, i);

        sw_field_one_of(sw_json_at(list, i), operations, &at, e);
    }
    check_star(rule, "apiGroups", "API groups", path, e);
    check_star(rule, "apiVersions", "API versions", path, e);
    for (size_t i = 0; i < sw_json_len(versions); i++) {
        struct sw_fpath at = sw_fpath_index(&at_versions, i);

        if (!sw_json_str(sw_json_at(versions, i)).n)
            sw_ferr_required(e, &at, NULL);
    }
    check_resources(rule, path, e);
    if (sw_json_find(rule, "scope"))
        sw_field_one_of(sw_json_find(rule, "scope"), scopes, &at_scope, e);
}
