/* SPDX-License-Identifier: Apache-2.0 */
#include "control/roles.h"

#include "control/objects.h"
#include "kube/schema/bundled.h"

/* Single quotes to double ones, and read; our own text. */
static struct sw_json *rules_json(struct sw_arena *a, const char *rules_text)
{
    char *text = sw_arena_dup(a, sw_slice_str(rules_text ? rules_text : "[]"));
    struct sw_json *rules = NULL;

    for (char *p = text; *p; p++) {
        if (*p == '\'')
            *p = '"';
    }
    return sw_json_parse(a, sw_slice_str(text), NULL, &rules, NULL) == SW_OK ? rules
                                                                             : sw_json_new_array(a);
}

void sw_role_want(const struct sw_view *v, size_t kind, struct sw_output *out,
                  const struct sw_role *role)
{
    struct sw_arena *a = sw_out_arena(out);
    struct sw_slice name = sw_slice_str(role->name);
    const struct sw_kube_obj *have = sw_view_find(v, kind, sw_slice("", 0), name);
    struct sw_json *bundled = rules_json(a, role->rules);
    struct sw_json *rules = bundled;
    struct sw_json *obj =
        cn_object(a, "rbac.authorization.k8s.io/v1", "ClusterRole", sw_slice("", 0), name);

    if (have) {
        rules = sw_bundled_rules(a, have->json, bundled, rules_json(a, role->before));
        if (sw_bundled_hands_off(have->json) || sw_bundled_current(a, have->json, rules, bundled))
            return;
    }
    cn_meta(a, obj, "labels", "app.kubernetes.io/managed-by", SW_SLICE_LIT("spanwire"));
    cn_meta(a, obj, "annotations", SW_BUNDLED_AUTOUPDATE, SW_SLICE_LIT("true"));
    cn_meta(a, obj, "annotations", SW_BUNDLED_RULES, sw_bundled_note(a, bundled));
    sw_json_put(a, obj, "rules", rules);
    sw_out_apply(out, kind, obj);
}
