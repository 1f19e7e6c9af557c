/* SPDX-License-Identifier: Apache-2.0 */
#include "control/mesh/policy/labels.h"

#include "base/search.h"

/* No label has this value: it is longer than one may be, and begins with a hyphen. */
#define IMPOSSIBLE "----------------------------------------------------------------"

struct mesh_selector mesh_selector_read(struct sw_arena *a, const struct sw_json *spec)
{
    static const struct sw_mesh_label nobody = {{"-", 1}, {IMPOSSIBLE, sizeof(IMPOSSIBLE) - 1}};
    const struct sw_json *labels = sw_json_walk(spec, "selector", "matchLabels", NULL);
    size_t n = sw_json_is(labels, SW_JSON_OBJECT) ? sw_json_len(labels) : 0;
    struct sw_mesh_label *p = sw_arena_array(a, n, sizeof(*p));

    if (labels && labels->type != SW_JSON_OBJECT && labels->type != SW_JSON_NULL)
        return (struct mesh_selector){&nobody, 1};
    for (size_t i = 0; i < n; i++) {
        const struct sw_json_member *m = sw_json_member_at(labels, i);
        bool text = sw_json_is(m->value, SW_JSON_STRING);

        p[i].key = sw_arena_slice(a, m->key);
        p[i].value = text ? sw_arena_slice(a, sw_json_str(m->value)) : SW_SLICE_LIT(IMPOSSIBLE);
    }
    if (n > 1)
        SW_SORT_BY(p, n, key);
    return (struct mesh_selector){p, n};
}

static bool has(const struct sw_mesh_label *labels, size_t n, const struct sw_mesh_label *want)
{
    for (size_t i = 0; i < n; i++) {
        if (sw_slice_eq(labels[i].key, want->key))
            return sw_slice_eq(labels[i].value, want->value);
    }
    return false;
}

bool mesh_selector_match(const struct mesh_selector *s, const struct sw_mesh_label *labels,
                         size_t n)
{
    for (size_t i = 0; i < s->n; i++) {
        if (!has(labels, n, &s->p[i]))
            return false;
    }
    return true;
}

struct mesh_selector mesh_selector_copy(struct sw_arena *a, struct mesh_selector from)
{
    struct sw_mesh_label *p = sw_arena_array(a, from.n, sizeof(*p));

    for (size_t i = 0; i < from.n; i++) {
        p[i].key = sw_arena_slice(a, from.p[i].key);
        p[i].value = sw_arena_slice(a, from.p[i].value);
    }
    return (struct mesh_selector){p, from.n};
}
