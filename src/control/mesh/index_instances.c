/* SPDX-License-Identifier: Apache-2.0 */
/* What the pods of a Gateway run as. */

#include "base/mem.h"
#include "base/search.h"
#include "control/mesh/index.h"
#include "control/mesh/model.h"
#include "control/mesh/names.h"

enum { ACCOUNTS_MAX = 64 }; /* of one Gateway: no deployment needs more */

static void add(struct sw_slice *list, size_t *n, struct sw_slice account)
{
    for (size_t i = 0; i < *n; i++) {
        if (sw_slice_eq(list[i], account))
            return;
    }
    if (*n < ACCOUNTS_MAX && account.n)
        list[(*n)++] = account;
}

static size_t gather(struct mesh_ns *ns, struct sw_slice gateway, struct sw_slice *list)
{
    size_t n = 0;

    SW_LIST_EACH (struct mesh_group, g, &ns->groups, in_ns) {
        if (!sw_slice_eq(mesh_labels_get(g->labels, MESH_GATEWAY_NAME), gateway))
            continue;
        SW_LIST_EACH (const struct mesh_workload, w, &g->members, in_group) {
            if (!w->we)
                add(list, &n, mesh_str(w->account));
        }
    }
    if (n > 1)
        sw_slice_sort(list, n);
    return n;
}

void sw_mesh_index_instances(struct sw_mesh_index *ix, sw_mesh_instances_fn fn, void *arg)
{
    SW_MAP_FOREACH (it, &ix->dirty_instances) {
        struct sw_slice list[ACCOUNTS_MAX];
        struct sw_slice name = it->key;
        struct sw_slice ns = sw_slice_cut(&name, '/');
        struct mesh_ns *space = sw_map_get(&ix->namespaces, ns);
        const struct sw_mesh_instances of = {
            .ns = ns, .name = name, .accounts = list, .n = space ? gather(space, name, list) : 0};
        char *key = it->value;

        fn(arg, &of);
        (void)sw_map_del(&ix->dirty_instances, it->key);
        sw_free(key);
    }
}
