/* SPDX-License-Identifier: Apache-2.0 */
/* What makes a rule of a webhook or of a ValidatingAdmissionPolicy valid. */
#include "kube/admission/admission_rules.h"

#include <string.h>

#include "kube/fields.h"

/* A list that must not be empty, and in which a star stands alone. */
static void check_star(const struct sw_at *list, const char *what)
{
    if (sw_at_need(list, NULL) && sw_at_len(list) > 1 &&
        sw_field_list_has(list->v, SW_SLICE_LIT("*")))
        sw_at_invalid(list, sw_arena_printf(list->e->arena,
                                            "if '*' is present, must not specify other %s", what));
}

static void check_resources(const struct sw_at *list)
{
    bool plain = false;

    (void)sw_at_need(list, NULL);
    SW_AT_FOREACH (at, list) {
        struct sw_slice s = sw_at_text(&at);

        (void)sw_at_need(&at, NULL);
        plain = plain || (s.n && !memchr(s.p, '/', s.n) && !sw_slice_eq_str(s, "*"));
    }
    if (sw_at_len(list) > 1 && sw_field_list_has(list->v, SW_SLICE_LIT("*/*")))
        sw_at_invalid(list, "if '*/*' is present, must not specify other resources");
    if (sw_field_list_has(list->v, SW_SLICE_LIT("*")) && plain)
        sw_at_invalid(list,
                      "if '*' is present, must not specify other resources without subresources");
}

void sw_admission_rule_check(const struct sw_at *rule)
{
    /* Rules of policies have names of objects, too; those of webhooks do not. */
    const struct sw_at *names = SW_IN(rule, "resourceNames");
    const struct sw_at *ops = SW_IN(rule, "operations");
    const struct sw_at *versions = SW_IN(rule, "apiVersions");

    SW_AT_FOREACH (name, names)
        sw_at_set_name(&name, sw_name_path_segment);
    check_star(ops, "operations");
    SW_AT_FOREACH (op, ops)
        sw_at_one_of(&op, "* CONNECT CREATE DELETE UPDATE");
    check_star(SW_IN(rule, "apiGroups"), "API groups");
    check_star(versions, "API versions");
    SW_AT_FOREACH (version, versions)
        (void)sw_at_need(&version, NULL);
    check_resources(SW_IN(rule, "resources"));
    sw_at_set_one_of(SW_IN(rule, "scope"), "* Cluster Namespaced");
}
