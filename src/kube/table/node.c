/* SPDX-License-Identifier: Apache-2.0 */
/* Cells of Nodes. */
#include "kube/table/table_int.h"

struct sw_json *table_node_status(const struct table_row *r, const char *none)
{
    const struct sw_json *conds = sw_json_walk(r->obj, "status", "conditions", NULL);
    const struct sw_json *off = sw_json_walk(r->obj, "spec", "unschedulable", NULL);
    const char *s = "Unknown";

    SW_JSON_ITEMS (c, conds) {
        if (sw_json_str_eq(sw_json_find(c, "type"), "Ready"))
            s = sw_json_str_eq(sw_json_find(c, "status"), "True") ? "Ready" : "NotReady";
    }
    if (sw_json_is(off, SW_JSON_BOOL) && off->boolean)
        s = sw_arena_printf(r->a, "%s,SchedulingDisabled", s);
    return sw_json_new_str(r->a, s);
}

struct sw_json *table_node_roles(const struct table_row *r, const char *none)
{
    const struct sw_json *labels = sw_json_walk(r->obj, "metadata", "labels", NULL);
    const struct sw_slice prefix = SW_SLICE_LIT("node-role.kubernetes.io/");
    struct sw_slice *p = sw_arena_array(r->a, sw_json_len(labels) + 1, sizeof(*p));
    size_t n = 0;
    SW_BUF_AUTO b = {.max = 65536};

    SW_JSON_MEMBERS (m, labels) {
        if (sw_slice_has_prefix(m->key, prefix))
            p[n] = sw_slice_from(m->key, prefix.n);
        else if (sw_slice_eq_str(m->key, "kubernetes.io/role"))
            p[n] = sw_json_str(m->value);
        else
            continue;
        n += p[n].n > 0;
    }
    table_put_sorted(&b, p, n);
    return table_or(r, sw_buf_slice(&b), "<none>");
}

struct sw_json *table_node_address(const struct table_row *r, const char *type)
{
    const struct sw_json *list = sw_json_walk(r->obj, "status", "addresses", NULL);
    const struct sw_json *found = sw_json_find_item(list, "type", sw_slice_str(type));

    return found ? sw_json_new_string(r->a, table_text(found, "address"))
                 : sw_json_new_str(r->a, "<none>");
}
