/* SPDX-License-Identifier: Apache-2.0 */
/* Counted, immutable objects. */
#include "base/mem.h"
#include "kube/client/informer.h"

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

/* A shallow copy in which 'key' is left out, or replaced where there is something to take its
 * place.
 */
static struct sw_json *with(struct sw_arena *a, const struct sw_json *json, const char *key,
                            struct sw_json *instead)
{
    struct sw_json *out = sw_json_new_object(a);

    SW_JSON_MEMBERS (m, json) {
        if (!sw_slice_eq_str(m->key, key))
            sw_json_set(a, out, m->key, m->value);
        else if (instead)
            sw_json_set(a, out, m->key, instead);
    }
    return out;
}

struct sw_kube_obj *sw_kube_obj_slim(const struct sw_json *json)
{
    SW_ARENA_AUTO tmp = {0};
    const struct sw_json *meta = sw_json_find(json, "metadata");

    if (!sw_json_find(meta, "managedFields"))
        return sw_kube_obj_new(json);
    return sw_kube_obj_new(with(&tmp, json, "metadata", with(&tmp, meta, "managedFields", NULL)));
}

struct sw_kube_obj *sw_kube_obj_stub(const struct sw_json *json)
{
    static const char *const kept[] = {"name", "namespace", "uid", "resourceVersion"};
    SW_ARENA_AUTO tmp = {0};
    const struct sw_json *meta = sw_json_find(json, "metadata");
    struct sw_json *few = sw_json_new_object(&tmp);

    for (size_t i = 0; i < SW_ARRAY_LEN(kept); i++) {
        struct sw_slice text = sw_json_str(sw_json_find(meta, kept[i]));

        if (text.p)
            sw_json_put_str(&tmp, few, kept[i], text);
    }
    return sw_kube_obj_new(SW_JSON_OF(&tmp, {"metadata", .json = few}));
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
