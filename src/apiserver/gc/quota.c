/* SPDX-License-Identifier: Apache-2.0 */
/* status.used of ResourceQuotas. Limits are kept by quota.c, which needs no status. */
#include <string.h>

#include "apiserver/admission/quota.h"
#include "apiserver/gc/gc_int.h"

static const struct api_res *quota_res(struct sw_api *api)
{
    return api_registry_core(&api->reg, "resourcequotas");
}

void gc_quota_changed(struct api_gc *g, struct sw_slice key)
{
    SW_ARENA_AUTO a = {0};
    const struct api_res *res = quota_res(g->api);
    SW_STORE_SNAP_AUTO snap = NULL;
    struct sw_slice rest = key;
    struct sw_slice space;

    (void)sw_slice_cut(&rest, '/');
    if (rest.p)
        (void)sw_slice_cut(&rest, '/');
    space = rest.p ? sw_slice_cut(&rest, '/') : sw_slice("", 0);
    if (!rest.p || !g->api->quota || !api_quota_count(g->api->quota, res, space))
        return;
    snap = sw_store_snapshot(g->api->store);
    SW_STORE_EACH (o, snap, api_prefix(&a, res, space))
        gc_queue(g, GC_QUOTA, o->key);
}

/* What is used of each limit, by the counters. */
static struct sw_json *used(struct sw_api *api, struct sw_arena *a, const struct sw_json *hard,
                            struct sw_slice ns)
{
    struct sw_json *out = sw_json_new_object(a);

    SW_JSON_MEMBERS (m, hard) {
        struct sw_slice name = m->key;
        struct sw_slice group;
        struct sw_slice plural = sw_quota_counts(name, &group);
        const char *prefix =
            sw_arena_printf(a, "%.*s/%.*s/", SW_SLICE_ARG(group), SW_SLICE_ARG(plural));
        struct api_res res = {.prefix = prefix};
        uint64_t n = plural.n ? api_quota_count(api->quota, &res, ns) : 0;

        sw_json_set(a, out, name,
                    sw_json_new_str(a, sw_arena_printf(a, "%llu", (unsigned long long)n)));
    }
    return out;
}

void gc_run_quota(struct gc_task *t)
{
    SW_ARENA_AUTO a = {0};
    struct sw_api *api = t->gc->api;
    struct gc_at at = gc_resolve(api, t->key);
    struct sw_json *obj = gc_load(api, &a, &at);
    const struct sw_json *hard = sw_json_walk(obj, "spec", "hard", NULL);
    struct sw_json *status;

    if (!hard)
        return;
    status = SW_JSON_OF(&a, {"hard", .json = sw_json_copy(&a, hard)},
                        {"used", .json = used(api, &a, hard, at.ns)});
    if (sw_json_equal(status, sw_json_find(obj, "status"), SW_JSON_EQ_VALUE))
        return;
    sw_json_put(&a, obj, "status", status);
    gc_request(t, API_UPDATE, &at, "status", obj);
}
