/* SPDX-License-Identifier: Apache-2.0 */
/* Cells of Nodes. */
#include "base/search.h"
#include "kube/table/table_int.h"

static struct sw_json *or_else(const struct table_row *r, struct sw_slice s, const char *other)
{
    return s.n ? sw_json_new_string(r->a, s) : sw_json_new_str(r->a, other);
}

struct sw_json *table_node_status(const struct table_row *r)
{
    const struct sw_json *conds = sw_json_walk(r->obj, "status", "conditions", NULL);
    const struct sw_json *off = sw_json_walk(r->obj, "spec", "unschedulable", NULL);
    const char *s = "Unknown";

    for (size_t i = 0; i < sw_json_len(conds); i++) {
        const struct sw_json *c = sw_json_at(conds, i);

        if (sw_json_str_eq(sw_json_find(c, "type"), "Ready"))
            s = sw_json_str_eq(sw_json_find(c, "status"), "True") ? "Ready" : "NotReady";
    }
    if (sw_json_is(off, SW_JSON_BOOL) && off->boolean)
        s = sw_arena_printf(r->a, "%s,SchedulingDisabled", s);
    return sw_json_new_str(r->a, s);
}

struct sw_json *table_node_roles(const struct table_row *r)
{
    const struct sw_json *labels = sw_json_walk(r->obj, "metadata", "labels", NULL);
    const struct sw_slice prefix = SW_SLICE_LIT("node-role.kubernetes.io/");
    struct sw_slice *p = sw_arena_array(r->a, sw_json_len(labels) + 1, sizeof(*p));
    const char *s = "";
    size_t n = 0;

    for (size_t i = 0; sw_json_is(labels, SW_JSON_OBJECT) && i < sw_json_len(labels); i++) {
        const struct sw_json_member *m = sw_json_member_at(labels, i);

        if (sw_slice_has_prefix(m->key, prefix))
            p[n] = sw_slice_from(m->key, prefix.n);
        else if (sw_slice_eq_str(m->key, "kubernetes.io/role"))
            p[n] = sw_json_str(m->value);
        else
            continue;
        n += p[n].n > 0;
    }
    sw_slice_sort(p, n);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || !sw_slice_eq(p[i], p[i - 1]))
            s = sw_arena_printf(r->a, "%s%s%.*s", s, i ? "," : "", SW_SLICE_ARG(p[i]));
    }
    return or_else(r, sw_slice_str(s), "<none>");
}

struct sw_json *table_node_version(const struct table_row *r)
{
    return sw_json_new_string(r->a, table_text(r->obj, "status.nodeInfo.kubeletVersion"));
}

static struct sw_json *address(const struct table_row *r, const char *type)
{
    const struct sw_json *list = sw_json_walk(r->obj, "status", "addresses", NULL);

    for (size_t i = 0; i < sw_json_len(list); i++) {
        if (sw_json_str_eq(sw_json_find(sw_json_at(list, i), "type"), type))
            return sw_json_new_string(r->a, table_text(sw_json_at(list, i), "address"));
    }
    return sw_json_new_str(r->a, "<none>");
}

struct sw_json *table_node_internal(const struct table_row *r)
{
    return address(r, "InternalIP");
}

struct sw_json *table_node_external(const struct table_row *r)
{
    return address(r, "ExternalIP");
}

struct sw_json *table_node_os(const struct table_row *r)
{
    return or_else(r, table_text(r->obj, "status.nodeInfo.osImage"), "<unknown>");
}

struct sw_json *table_node_kernel(const struct table_row *r)
{
    return or_else(r, table_text(r->obj, "status.nodeInfo.kernelVersion"), "<unknown>");
}

struct sw_json *table_node_runtime(const struct table_row *r)
{
    return or_else(r, table_text(r->obj, "status.nodeInfo.containerRuntimeVersion"), "<unknown>");
}
