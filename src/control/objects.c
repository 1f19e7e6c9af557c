/* SPDX-License-Identifier: Apache-2.0 */
#include "control/objects.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct sw_slice js(const struct sw_json *v, const char *key)
{
    return sw_json_str(sw_json_find(v, key));
}

struct sw_slice js_or(const struct sw_json *v, const char *key, const char *other)
{
    struct sw_slice s = js(v, key);

    return s.p ? s : sw_slice_str(other);
}

int64_t js_int(const struct sw_json *v, const char *key, int64_t max, int64_t other)
{
    int64_t n;

    if (!sw_json_exact_i64(sw_json_find(v, key), &n) || n < 0 || n > max)
        return other;
    return n;
}

struct sw_slice created_of(const struct sw_kube_obj *o)
{
    return sw_json_str(sw_json_walk(o->json, "metadata", "creationTimestamp", NULL));
}

int64_t generation_of(const struct sw_kube_obj *o)
{
    return js_int(sw_json_find(o->json, "metadata"), "generation", INT64_MAX, 0);
}

/* Timestamps are RFC 3339 in UTC without fractions: their texts order as they do. */
int by_age(const struct sw_kube_obj *x, const struct sw_kube_obj *y)
{
    int d = sw_slice_cmp(created_of(x), created_of(y));

    return d ? d : sw_slice_cmp(x->key, y->key);
}

int cn_oldest_first(const void *x, const void *y)
{
    const struct sw_kube_obj *const *p = x;
    const struct sw_kube_obj *const *q = y;

    return by_age(*p, *q);
}

int cn_oldest_holder_first(const void *x, const void *y)
{
    const struct sw_kube_obj *const *const *p = x;
    const struct sw_kube_obj *const *const *q = y;

    return by_age(**p, **q);
}

struct sw_slice cn_meta_of(const struct sw_kube_obj *o, const char *what, const char *key)
{
    return sw_json_str(sw_json_walk(o->json, "metadata", what, key, NULL));
}

bool cn_deleting(const struct sw_kube_obj *o)
{
    return sw_json_walk(o->json, "metadata", "deletionTimestamp", NULL) != NULL;
}

bool cn_has_finalizer(const struct sw_kube_obj *o, struct sw_slice name)
{
    SW_JSON_ITEMS (f, sw_json_walk(o->json, "metadata", "finalizers", NULL)) {
        if (sw_slice_eq(sw_json_str(f), name))
            return true;
    }
    return false;
}

const struct sw_json *cn_port(const struct sw_json *ports, uint16_t number, struct sw_slice name,
                              const char *proto)
{
    SW_JSON_ITEMS (p, ports) {
        if (sw_slice_eq_str(js_or(p, "protocol", "TCP"), proto) &&
            (!number || js_int(p, "port", UINT16_MAX, 0) == number) &&
            (!name.p || sw_slice_eq(js_or(p, "name", ""), name)))
            return p;
    }
    return NULL;
}

const struct sw_json *cn_conditions(const struct sw_kube_obj *o)
{
    return o ? sw_json_walk(o->json, "status", "conditions", NULL) : NULL;
}

const struct sw_json *cn_condition(const struct sw_json *conditions, const char *type)
{
    return sw_json_find_item(conditions, "type", sw_slice_str(type));
}

bool cn_is_true(const struct sw_json *conditions, const char *type)
{
    return sw_json_str_eq(sw_json_find(cn_condition(conditions, type), "status"), "True");
}

struct sw_slice cn_printf(struct sw_arena *a, const char *fmt, ...)
{
    char text[4096];
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    return sw_arena_slice(a, sw_slice(text, n < 0 ? 0 : sw_min((size_t)n, sizeof(text) - 1)));
}

struct sw_json *cn_object(struct sw_arena *a, const char *api, const char *kind, struct sw_slice ns,
                          struct sw_slice name)
{
    struct sw_json *meta = SW_JSON_OF(a, {"name", .text = name}, {"namespace", .some = ns});

    return SW_JSON_OF(a, {"apiVersion", .str = api}, {"kind", .str = kind},
                      {"metadata", .json = meta});
}

struct sw_json *cn_put_item(struct sw_arena *a, struct sw_json *to, const char *key)
{
    struct sw_json *list = sw_json_new_array(a);
    struct sw_json *o = sw_json_new_object(a);

    sw_json_push(a, list, o);
    sw_json_put(a, to, key, list);
    return o;
}

void cn_meta(struct sw_arena *a, struct sw_json *obj, const char *what, const char *key,
             struct sw_slice value)
{
    struct sw_json *meta = sw_json_find(obj, "metadata");
    struct sw_json *map = sw_json_find(meta, what);

    if (!map) {
        map = sw_json_new_object(a);
        sw_json_put(a, meta, what, map);
    }
    sw_json_put_str(a, map, key, value);
}

void *cn_copy(struct sw_arena *a, const void *p, size_t n, size_t size)
{
    void *out = sw_arena_array(a, n + 1, size);

    if (n)
        memcpy(out, p, n * size);
    return out;
}
