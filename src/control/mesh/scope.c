/* SPDX-License-Identifier: Apache-2.0 */
#include "control/mesh/scope.h"

bool mesh_labels_match(struct sw_arena *a, const struct sw_label_selector *s,
                       const struct mesh_text *labels)
{
    struct sw_json *v = sw_json_new_object(a);
    struct sw_slice rest = mesh_str(labels);
    struct sw_mesh_label pair;

    while (mesh_labels_next(&rest, &pair))
        sw_json_set(a, v, pair.key, sw_json_new_string(a, pair.value));
    return sw_label_selector_match(s, v);
}

enum sw_mesh_visibility mesh_visibility(struct sw_mesh_index *ix, const struct mesh_text *labels)
{
    for (size_t i = 0; i < ix->conf.n_visibilities; i++) {
        const struct sw_mesh_visibility_rule *r = &ix->conf.visibilities[i];

        if (mesh_labels_match(&ix->tmp, &r->namespaces, labels))
            return r->visibility;
    }
    return ix->conf.visibility;
}

bool mesh_is_hidden(const struct mesh_svc *s)
{
    return s->entry && s->ns->visibility == SW_MESH_VISIBILITY_NONE;
}

bool mesh_is_global(struct sw_mesh_index *ix, const struct mesh_svc *s)
{
    for (size_t i = 0; i < ix->conf.n_scopes; i++) {
        const struct sw_mesh_scope *c = &ix->conf.scopes[i];

        if (mesh_labels_match(&ix->tmp, &c->services, s->labels) &&
            mesh_labels_match(&ix->tmp, &c->namespaces, s->ns->labels))
            return true;
    }
    return false;
}
