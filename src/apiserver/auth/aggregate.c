/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which aggregated cluster roles take over the rules of a role. Its labels decide that, so setting
 * a label grants as much as writing rules.
 */
#include "apiserver/api/api.h"
#include "apiserver/auth/auth_int.h"

struct aggregator {
    const struct sw_json *role; /* as stored */
    const struct sw_json *selectors;
    bool takes;
};

typedef SW_VEC(struct aggregator) aggregators;

static void read_aggregators(struct api_req *r, struct sw_store_snap *snap, aggregators *out)
{
    SW_STORE_EACH (o, snap, sw_slice_str(r->res->prefix)) {
        const struct sw_json *role = api_load(r->arena, r->res, o);
        const struct sw_json *selectors =
            sw_json_walk(role, "aggregationRule", "clusterRoleSelectors", NULL);

        if (selectors)
            sw_vec_push(out, ((struct aggregator){role, selectors, false}));
    }
}

static bool selects(struct sw_arena *a, const struct aggregator *g, const struct sw_json *role)
{
    const struct sw_json *labels = sw_json_walk(role, "metadata", "labels", NULL);

    if (sw_slice_eq(api_meta_str(g->role, "name"), api_meta_str(role, "name")))
        return false; /* no role takes from itself */
    SW_JSON_ITEMS (it, g->selectors) {
        struct sw_label_selector sel;
        const char *why;

        if (sw_label_selector_from_json(a, it, &sel, &why) == SW_OK &&
            sw_label_selector_match(&sel, labels))
            return true;
    }
    return false;
}

static bool takes_from(struct sw_arena *a, const aggregators *all, const struct aggregator *g,
                       const struct sw_json *role)
{
    if (selects(a, g, role))
        return true;
    SW_VEC_FOREACH (const struct aggregator, other, all) {
        if (other->takes && selects(a, g, other->role))
            return true;
    }
    return false;
}

size_t api_aggregators(struct api_req *r, const struct sw_json *role, struct sw_slice **ret)
{
    SW_STORE_SNAP_AUTO snap = sw_store_snapshot(r->api->store);
    aggregators all = {0};
    size_t n = 0;
    bool more = true;

    read_aggregators(r, snap, &all);
    *ret = sw_arena_array(r->arena, all.n + 1, sizeof(**ret));
    while (more) {
        more = false;
        SW_VEC_FOREACH (struct aggregator, g, &all) {
            if (g->takes || !takes_from(r->arena, &all, g, role))
                continue;
            g->takes = more = true;
            (*ret)[n++] = sw_arena_slice(r->arena, api_meta_str(g->role, "name"));
        }
    }
    sw_vec_done(&all);
    return n;
}
