/* SPDX-License-Identifier: Apache-2.0 */
/* Rules and selectors of admission. */
#include "kube/admission/admission_match.h"

#include "base/def.h"
#include "kube/admission/admission.h"
#include "kube/select/selector.h"

bool sw_match_rule(const struct sw_json *rule, const struct sw_match_attrs *at,
                   struct sw_slice version)
{
    struct sw_admit_target t = {.operation = at->operation,
                                .group = at->group,
                                .version = version,
                                .resource = at->resource,
                                .sub = at->sub,
                                .cluster_scoped = !at->ns.n || at->is_namespace};

    return sw_admit_rule_matches(rule, &t);
}

static bool name_fits(const struct sw_json *rule, struct sw_slice name)
{
    const struct sw_json *names = sw_json_find(rule, "resourceNames");

    SW_JSON_ITEMS (item, names) {
        if (sw_slice_eq(sw_json_str(item), name))
            return true;
    }
    return !sw_json_len(names);
}

static bool rules_match(const struct sw_json *rules, const struct sw_match_attrs *at,
                        bool equivalent, struct sw_slice *ret_version)
{
    SW_JSON_ITEMS (r, rules) {
        if (sw_match_rule(r, at, at->version) && name_fits(r, at->name)) {
            *ret_version = at->version;
            return true;
        }
    }
    for (size_t i = 0; equivalent && i < sw_json_len(rules); i++) {
        const struct sw_json *r = sw_json_at(rules, i);

        for (size_t k = 0; k < at->nversions; k++) {
            if (sw_slice_eq(at->versions[k], at->version) ||
                !sw_match_rule(r, at, at->versions[k]) || !name_fits(r, at->name))
                continue;
            *ret_version = at->versions[k];
            return true;
        }
    }
    return false;
}

static const struct sw_json *labels_of(const struct sw_json *obj)
{
    return sw_json_walk(obj, "metadata", "labels", NULL);
}

/* A selector against the labels of up to two objects; an empty one matches everything. */
static bool selects(struct sw_arena *a, const struct sw_json *sel, const struct sw_json *x,
                    const struct sw_json *y, const char **ret_why)
{
    struct sw_label_selector s;

    if (!sw_json_len(sel))
        return true;
    if (sw_label_selector_from_json(a, sel, &s, ret_why) != SW_OK)
        return true; /* the reason is there: the policy decides */
    return (x && sw_label_selector_match(&s, labels_of(x))) ||
           (y && sw_label_selector_match(&s, labels_of(y)));
}

bool sw_match_selectors(struct sw_arena *a, const struct sw_json *m,
                        const struct sw_match_attrs *at, const char **ret_why)
{
    const struct sw_json *ns_sel = sw_json_find(m, "namespaceSelector");
    const struct sw_json *ns = at->ns_object;

    /* Namespaces are selected by their own labels, other cluster-scoped objects not at all. */
    if (at->is_namespace)
        ns = at->object ? at->object : at->old;
    if (ns && !selects(a, ns_sel, ns, NULL, ret_why))
        return false;
    return selects(a, sw_json_find(m, "objectSelector"), at->object, at->old, ret_why);
}

bool sw_match_resources(struct sw_arena *a, const struct sw_json *m,
                        const struct sw_match_attrs *at, struct sw_slice *ret_version,
                        const char **ret_why)
{
    bool equivalent = !sw_json_str_eq(sw_json_find(m, "matchPolicy"), "Exact");
    const struct sw_json *rules = sw_json_find(m, "resourceRules");
    struct sw_slice version = at->version;
    const char *why = NULL;

    if (!sw_match_selectors(a, m, at, &why) ||
        rules_match(sw_json_find(m, "excludeResourceRules"), at, equivalent, &version) ||
        (sw_json_len(rules) && !rules_match(rules, at, equivalent, &version)))
        return false;
    *ret_version = version;
    *ret_why = why;
    return true;
}
