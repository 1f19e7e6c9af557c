/* SPDX-License-Identifier: Apache-2.0 */
#include "control/mesh/read/read.h"

#include "control/objects.h"

enum { NAME_MAX_LEN = 253 };

bool mesh_read_is_name(struct sw_slice s)
{
    for (size_t i = 0; i < s.n; i++) {
        if ((uint8_t)s.p[i] <= ' ' || s.p[i] == '/' || s.p[i] == 0x7f)
            return false;
    }
    return s.n && s.n <= NAME_MAX_LEN;
}

bool mesh_read_meta(const struct sw_json *obj, bool namespaced, struct mesh_meta *ret)
{
    const struct sw_json *meta = sw_json_find(obj, "metadata");

    *ret = (struct mesh_meta){.ns = namespaced ? js_or(meta, "namespace", "") : sw_slice("", 0),
                              .name = js_or(meta, "name", ""),
                              .created = js_or(meta, "creationTimestamp", ""),
                              .labels = sw_json_find(meta, "labels"),
                              .annotations = sw_json_find(meta, "annotations")};
    return mesh_read_is_name(ret->name) && (!namespaced || mesh_read_is_name(ret->ns));
}

bool mesh_read_has_word(struct sw_slice list, const char *word)
{
    while (list.p) {
        if (sw_slice_eq_str(sw_slice_trim(sw_slice_cut(&list, ',')), word))
            return true;
    }
    return false;
}

struct mesh_locality mesh_read_locality(struct sw_slice text)
{
    struct mesh_locality l;

    l.region = sw_slice_cut(&text, '/');
    l.zone = text.p ? sw_slice_cut(&text, '/') : sw_slice("", 0);
    l.subzone = text.p ? sw_slice_cut(&text, '/') : sw_slice("", 0);
    return l;
}
