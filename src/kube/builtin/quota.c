/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ResourceQuotas. Counts of objects are kept ("count/<resource>.<group>" and the older names of
 * core kinds); what pods would use (cpu, memory, storage) is accepted and not counted: nothing runs
 * here.
 */
#include <string.h>

#include "kube/builtin/builtin_int.h"
#include "kube/cel/cel_priv.h"
#include "kube/names.h"

/* Names without a domain that a quota may have, and what they count. */
static const struct {
    const char *name;
    bool counted;
} standard[] = {
    {"configmaps", true},
    {"persistentvolumeclaims", true},
    {"pods", true},
    {"replicationcontrollers", true},
    {"resourcequotas", true},
    {"secrets", true},
    {"services", true},
    {"cpu", false},
    {"memory", false},
    {"ephemeral-storage", false},
    {"requests.cpu", false},
    {"requests.memory", false},
    {"requests.storage", false},
    {"requests.ephemeral-storage", false},
    {"limits.cpu", false},
    {"limits.memory", false},
    {"limits.ephemeral-storage", false},
    {"services.nodeports", false},
    {"services.loadbalancers", false},
};

struct sw_slice sw_quota_counts(struct sw_slice name, struct sw_slice *ret_group)
{
    struct sw_slice rest = name;
    struct sw_slice first = sw_slice_cut(&rest, '/');

    *ret_group = sw_slice("", 0);
    if (sw_slice_eq_str(first, "count") && rest.p) {
        struct sw_slice plural = sw_slice_cut(&rest, '.');

        if (rest.p)
            *ret_group = rest;
        return plural;
    }
    for (size_t i = 0; i < SW_ARRAY_LEN(standard); i++) {
        if (standard[i].counted && sw_slice_eq_str(name, standard[i].name))
            return name;
    }
    return sw_slice("", 0);
}

static bool is_standard(struct sw_slice name)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(standard); i++) {
        if (sw_slice_eq_str(name, standard[i].name))
            return true;
    }
    return false;
}

static void check_name(struct sw_slice name, const struct sw_at *at)
{
    struct sw_name_msgs why = sw_name_label_key(name);

    sw_name_report(at->e, &at->path, name, why);
    if (!why.n && sw_slice_find(name, '/') < 0 && !is_standard(name))
        sw_ferr_invalid_str(at->e, &at->path, name, "must be a standard resource for quota");
}

static void check_value(struct sw_slice name, const struct sw_at *at)
{
    struct sw_slice text = at->v->type == SW_JSON_STRING ? sw_json_str(at->v) : at->v->text;
    struct sw_slice group;
    uint64_t n;

    if (!cel_quantity_parse(at->e->arena, text))
        sw_at_invalid(at, "quantities must match the regular expression "
                          "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'");
    else if (text.n && text.p[0] == '-')
        sw_at_invalid(at, "must be greater than or equal to 0");
    else if (sw_quota_counts(name, &group).n && !sw_quota_number(at->v, &n))
        sw_at_invalid(at, "must be an integer");
}

bool sw_quota_number(const struct sw_json *v, uint64_t *ret)
{
    static const struct {
        char letter;
        uint64_t times;
    } units[] = {{'k', 1000}, {'M', 1000000}, {'G', 1000000000}};
    struct sw_slice text = v->type == SW_JSON_STRING ? sw_json_str(v) : v->text;
    uint64_t times = 1;

    for (size_t i = 0; text.n && i < SW_ARRAY_LEN(units); i++) {
        if (text.p[text.n - 1] == units[i].letter)
            times = units[i].times;
    }
    if (times > 1)
        text = sw_slice_head(text, text.n - 1);
    if (!sw_slice_to_u64(text, INT64_MAX / 1000000000, ret))
        return false;
    *ret *= times;
    return true;
}

void sw_b_check_quota(const struct sw_at *obj, const struct sw_json *old)
{
    static const char *const parts[] = {"spec.hard", "status.hard", "status.used"};
    const struct sw_at *scopes = SW_IN(obj, "spec.scopes");
    const struct sw_json *was = sw_json_walk(old, "spec", "scopes", NULL);

    for (size_t i = 0; i < SW_ARRAY_LEN(parts); i++) {
        const struct sw_at *map = SW_IN(obj, parts[i]);

        SW_JSON_MEMBERS (m, map->v) {
            check_name(m->key, SW_KEY(map, m->key));
            check_value(m->key, SW_KEY(map, m->key));
        }
    }
    if (old && (sw_at_len(scopes) || sw_json_len(was)))
        sw_at_same(scopes, was);
}
