/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects between the store and the API. A stored value is JSON that begins with {"metadata":{ and
 * has neither resourceVersion nor apiVersion and kind: those are known from elsewhere, and putting
 * them in front of the stored bytes is all a read has to do. Only where the versions of a CRD have
 * different schemas the apiVersion it was stored in comes last.
 */
#include <stdio.h>
#include <string.h>

#include "apiserver/api/api.h"
#include "base/rand.h"
#include "base/time.h"

static const struct sw_slice head = SW_SLICE_LIT("{\"metadata\":{");

struct sw_slice api_str(const struct sw_json *v, const char *key)
{
    struct sw_slice s = sw_json_str(sw_json_find(v, key));

    return s.p ? s : sw_slice("", 0);
}

struct sw_slice api_meta_str(const struct sw_json *obj, const char *key)
{
    return api_str(sw_json_find(obj, "metadata"), key);
}

struct sw_json *api_meta(struct sw_arena *a, struct sw_json *obj)
{
    return sw_json_need(a, obj, "metadata", SW_JSON_OBJECT);
}

void api_drop_type(struct sw_json *obj)
{
    (void)sw_json_remove(obj, SW_SLICE_LIT("kind"));
    (void)sw_json_remove(obj, SW_SLICE_LIT("apiVersion"));
}

bool api_is_going(const struct sw_json *obj)
{
    return sw_json_walk(obj, "metadata", "deletionTimestamp", NULL) != NULL;
}

bool api_set_condition(struct sw_arena *a, struct sw_json *status, const char *type, bool yes,
                       const char *reason, const char *message)
{
    struct sw_json *list = sw_json_find(status, "conditions");
    struct sw_json *c = sw_json_find_item(list, "type", sw_slice_str(type));
    const char *text = yes ? "True" : "False";

    if (sw_json_str_eq(sw_json_find(c, "status"), text) &&
        sw_json_str_eq(sw_json_find(c, "reason"), reason) &&
        sw_json_str_eq(sw_json_find(c, "message"), message))
        return false;
    if (!c) {
        c = SW_JSON_OF(a, {"type", .str = type});
        sw_json_push(a, sw_json_need(a, status, "conditions", SW_JSON_ARRAY), c);
    }
    if (!sw_json_str_eq(sw_json_find(c, "status"), text))
        sw_json_put_str(a, c, "lastTransitionTime", sw_slice_str(api_now(a)));
    sw_json_put_str(a, c, "status", sw_slice_str(text));
    sw_json_put_str(a, c, "reason", sw_slice_str(reason));
    sw_json_put_str(a, c, "message", sw_slice_str(message));
    return true;
}

const char *api_now(struct sw_arena *a)
{
    char text[SW_RFC3339_LEN];

    return sw_arena_dup(a, sw_slice_str(sw_rfc3339(sw_wall_ns(), 0, text)));
}

const char *api_uuid(struct sw_arena *a)
{
    char text[SW_UUID_LEN];

    return sw_arena_dup(a, sw_slice_str(sw_uuid(text)));
}

void api_set_rv(struct sw_arena *a, struct sw_json *obj, uint64_t revision)
{
    char text[24];

    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)revision);
    sw_json_put_str(a, api_meta(a, obj), "resourceVersion", sw_slice_str(text));
}

struct sw_slice api_prefix(struct sw_arena *a, const struct api_res *res, struct sw_slice ns)
{
    return sw_slice_str(ns.n ? sw_arena_printf(a, "%s%.*s/", res->prefix, SW_SLICE_ARG(ns))
                             : res->prefix);
}

void api_split_key(const struct api_res *res, struct sw_slice key, struct sw_slice *ret_ns,
                   struct sw_slice *ret_name)
{
    struct sw_slice rest = sw_slice_from(key, strlen(res->prefix));

    *ret_ns = sw_slice("", 0);
    if (res->namespaced)
        *ret_ns = sw_slice_cut(&rest, '/');
    *ret_name = rest.p ? rest : sw_slice("", 0);
}

/* Versions of a CRD with schemas of their own. */
static bool differs(const struct api_res *res)
{
    return res->crd && !res->crd->same_schemas;
}

static const struct api_res *storage_res(const struct api_res *res)
{
    for (size_t i = 0; res->crd && i < res->crd->n; i++) {
        if (res->crd->vers[i].storage)
            return &res->crd->vers[i];
    }
    return res;
}

/* The version an object was stored in; objects of older releases do not say it. */
static const struct api_res *stored_res(const struct api_res *res, const struct sw_json *said)
{
    for (size_t i = 0; said && i < res->crd->n; i++) {
        if (sw_json_str_eq(said, res->crd->vers[i].api_version))
            return &res->crd->vers[i];
    }
    return storage_res(res);
}

static void prune_to(struct sw_json *obj, const struct sw_schema *s)
{
    sw_schema_prune(obj, s, NULL);
    sw_schema_drop_nulls(obj, s);
}

/* From the storage version to the requested one: conversion changes nothing else. */
static void convert_read(struct sw_arena *a, const struct api_res *from, const struct api_res *to,
                         struct sw_json *obj)
{
    prune_to(obj, api_res_schema(from));
    sw_schema_default(a, obj, api_res_schema(from));
    if (from != to)
        prune_to(obj, api_res_schema(to));
}

struct sw_json *api_to_storage(struct sw_arena *a, const struct api_res *res, struct sw_json *obj)
{
    struct sw_json *stored;

    if (!differs(res))
        return obj;
    stored = sw_json_copy(a, obj);
    prune_to(stored, api_res_schema(storage_res(res)));
    *obj = *sw_json_copy(a, stored);
    convert_read(a, storage_res(res), res, obj);
    return stored;
}

struct sw_json *api_convert(struct sw_arena *a, const struct api_res *from,
                            const struct api_res *to, struct sw_json *obj)
{
    if (from == to || !sw_json_is(obj, SW_JSON_OBJECT))
        return obj;
    sw_json_put(a, obj, "apiVersion", sw_json_new_str(a, to->api_version));
    if (to->crd)
        prune_to(obj, api_res_schema(to));
    return obj;
}

struct sw_slice api_encode(struct sw_arena *a, const struct api_res *res, struct sw_json *obj)
{
    static const struct sw_json_write_opts sorted = {.flags = SW_JSON_SORT_KEYS};
    const struct sw_json *meta = api_meta(a, obj);
    SW_BUF_AUTO b = {.max = (size_t)64 << 20};
    struct sw_json *top = sw_json_new_object(a);
    struct sw_json *m = sw_json_new_object(a);
    struct sw_slice text;
    int rc;

    if (differs(res))
        sw_json_put_str(a, top, "apiVersion", sw_slice_str(storage_res(res)->api_version));
    SW_JSON_MEMBERS (x, meta) {
        if (!sw_slice_eq_str(x->key, "resourceVersion") && !sw_slice_eq_str(x->key, "selfLink"))
            sw_json_set(a, m, x->key, x->value);
    }
    SW_JSON_MEMBERS (x, obj) {
        if (!sw_slice_eq_str(x->key, "metadata") && !sw_slice_eq_str(x->key, "apiVersion") &&
            !sw_slice_eq_str(x->key, "kind"))
            sw_json_set(a, top, x->key, x->value);
    }
    rc = sw_buf_append_str(&b, "{\"metadata\":");
    if (rc == SW_OK)
        rc = sw_json_write(&b, m, &sorted);
    if (rc == SW_OK && sw_json_len(top)) {
        text = sw_json_text(a, top, &sorted);
        rc = sw_buf_putc(&b, ',');
        if (rc == SW_OK)
            rc = sw_buf_append_slice(&b, sw_slice_from(text, 1));
    } else if (rc == SW_OK) {
        rc = sw_buf_putc(&b, '}');
    }
    return rc == SW_OK ? sw_arena_slice(a, sw_buf_slice(&b)) : sw_slice(NULL, 0);
}

/* True when the stored bytes are what the resource shows: no CRD changed since they were written.
 */
static bool is_fresh(const struct api_res *res, const struct sw_store_obj *o)
{
    return !res->crd || (o->revision > res->crd->revision && res->crd->same_schemas);
}

static bool is_new_event(const struct api_res *res)
{
    return strcmp(res->group, "events.k8s.io") == 0;
}

static bool is_view(const struct api_res *res)
{
    return res->builtin && !res->storage;
}

static void show_as(struct sw_arena *a, const struct api_res *res, struct sw_json *obj);

struct sw_json *api_load(struct sw_arena *a, const struct api_res *res,
                         const struct sw_store_obj *o)
{
    struct sw_json *obj = api_parse_stored(a, o);
    const struct sw_json *said;

    if (!obj)
        return NULL; /* it was valid when written, and the store checks its rows */
    said = sw_json_remove(obj, SW_SLICE_LIT("apiVersion"));
    api_set_rv(a, obj, o->revision);
    sw_json_insert(a, obj, 0, SW_SLICE_LIT("kind"), sw_json_new_str(a, res->kind));
    sw_json_insert(a, obj, 1, SW_SLICE_LIT("apiVersion"), sw_json_new_str(a, res->api_version));
    if (!is_fresh(res, o))
        convert_read(a, stored_res(res, said), res, obj);
    if (is_view(res))
        show_as(a, res, obj);
    return obj;
}

struct sw_json *api_stored(struct sw_api *api, struct sw_arena *a, const struct api_res *res,
                           struct sw_slice ns, struct sw_slice name)
{
    struct sw_store_obj *o = res ? sw_store_get(api->store, api_key(a, res, ns, name)) : NULL;
    struct sw_json *obj = o ? api_load(a, res, o) : NULL;

    if (obj)
        obj = sw_json_copy(a, obj);
    if (o)
        sw_store_obj_unref(o);
    return obj;
}

struct sw_json *api_in_snap(const struct api_req *r, const struct api_res *res, struct sw_slice ns,
                            struct sw_slice name)
{
    const struct sw_store_obj *o = sw_store_snap_get(r->snap, api_key(r->arena, res, ns, name));

    return o ? api_load(r->arena, res, o) : NULL;
}

struct sw_json *api_parse_stored(struct sw_arena *a, const struct sw_store_obj *o)
{
    struct sw_json *v = NULL;

    return sw_json_parse(a, o->value, &(struct sw_json_opts){.borrow = true}, &v, NULL) == SW_OK
               ? v
               : NULL;
}

/* --- events and autoscalers: one set of objects, two shapes --- */

static const char *const event_names[][2] = {
    {"involvedObject", "regarding"},
    {"message", "note"},
    {"source", "deprecatedSource"},
    {"count", "deprecatedCount"},
    {"firstTimestamp", "deprecatedFirstTimestamp"},
    {"lastTimestamp", "deprecatedLastTimestamp"},
    {"reportingComponent", "reportingController"},
};

static void rename_members(struct sw_arena *a, struct sw_json *obj, int from, int to)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(event_names); i++) {
        struct sw_json *v = sw_json_remove(obj, sw_slice_str(event_names[i][from]));

        if (v)
            sw_json_put(a, obj, event_names[i][to], v);
    }
}

/* The older shape always has these two, the newer one only with something in them. */
static const char *const event_texts[] = {"reportingController", "reportingInstance"};

static void events_view(struct sw_arena *a, struct sw_json *obj)
{
    rename_members(a, obj, 0, 1);
    for (size_t i = 0; i < SW_ARRAY_LEN(event_texts); i++) {
        if (!api_str(obj, event_texts[i]).n)
            (void)sw_json_remove(obj, sw_slice_str(event_texts[i]));
    }
}

static void event_to_core(struct sw_arena *a, struct sw_json *obj)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(event_texts); i++) {
        if (!sw_json_find(obj, event_texts[i]))
            sw_json_put_str(a, obj, event_texts[i], SW_SLICE_LIT(""));
    }
    rename_members(a, obj, 1, 0);
}

static void show_as(struct sw_arena *a, const struct api_res *res, struct sw_json *obj)
{
    if (is_new_event(res))
        events_view(a, obj);
    else
        sw_hpa_to_v1(a, obj);
}

struct sw_json *api_unview(struct sw_arena *a, const struct api_res *res, struct sw_json *obj)
{
    struct sw_json *stored;

    if (!is_view(res))
        return obj;
    stored = sw_json_copy(a, obj);
    if (is_new_event(res))
        event_to_core(a, stored);
    else
        sw_hpa_from_v1(a, stored);
    return stored;
}

int api_write_obj(struct sw_buf *out, const struct api_res *res, const struct sw_store_obj *o,
                  bool with_type)
{
    int rc;

    if (!is_fresh(res, o) || is_view(res) || !sw_slice_has_prefix(o->value, head)) {
        SW_ARENA_AUTO a = {0};
        struct sw_json *obj = api_load(&a, res, o);

        if (!obj)
            return SW_EINVAL;
        if (!with_type)
            api_drop_type(obj);
        return sw_json_write(out, obj, NULL);
    }
    rc = with_type ? sw_buf_printf(out, "{\"kind\":\"%s\",\"apiVersion\":\"%s\",\"metadata\":{",
                                   res->kind, res->api_version)
                   : sw_buf_append_slice(out, head);
    if (rc == SW_OK)
        rc = sw_buf_printf(out, "\"resourceVersion\":\"%llu\",", (unsigned long long)o->revision);
    return rc == SW_OK ? sw_buf_append_slice(out, sw_slice_from(o->value, head.n)) : rc;
}
