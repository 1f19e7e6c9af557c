/* SPDX-License-Identifier: Apache-2.0 */
/* Counted, immutable objects. */
#include "base/mem.h"
#include "kube/informer.h"

static void fill(struct sw_kube_obj *o, const struct sw_json *json)
{
    const struct sw_json *meta = sw_json_find(json, "metadata");

    atomic_init(&o->refs, 1);
    o->json = json;
    o->name = sw_json_str(sw_json_find(meta, "name"));
    o->ns = sw_json_str(sw_json_find(meta, "namespace"));
    o->uid = sw_json_str(sw_json_find(meta, "uid"));
    o->rv = sw_json_str(sw_json_find(meta, "resourceVersion"));
    o->key = o->name;
    if (o->ns.n)
        o->key = sw_slice_str(
            sw_arena_printf(&o->arena, "%.*s/%.*s", SW_SLICE_ARG(o->ns), SW_SLICE_ARG(o->name)));
}

static bool has_name(const struct sw_json *json)
{
    struct sw_slice name = sw_json_str(sw_json_walk(json, "metadata", "name", NULL));

    return name.n && name.n <= 1024;
}

struct sw_kube_obj *sw_kube_obj_new(const struct sw_json *json)
{
    struct sw_kube_obj *o;

    if (!has_name(json))
        return NULL;
    o = SW_NEW(struct sw_kube_obj);
    fill(o, sw_json_copy(&o->arena, json));
    return o;
}

struct sw_kube_obj *sw_kube_obj_take(struct sw_arena *arena, const struct sw_json *json)
{
    struct sw_kube_obj *o;

    if (!has_name(json))
        return NULL;
    o = SW_NEW(struct sw_kube_obj);
    o->arena = *arena;
    *arena = (struct sw_arena){0};
    fill(o, json);
    return o;
}

struct sw_kube_obj *sw_kube_obj_ref(struct sw_kube_obj *o)
{
    atomic_fetch_add_explicit(&o->refs, 1, memory_order_relaxed);
    return o;
}

struct sw_kube_obj *sw_kube_obj_unref(struct sw_kube_obj *o)
{
    if (o && atomic_fetch_sub_explicit(&o->refs, 1, memory_order_acq_rel) == 1) {
        sw_arena_clear(&o->arena);
        sw_free(o);
    }
    return NULL;
}
