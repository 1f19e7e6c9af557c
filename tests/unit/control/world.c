/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "control/gateway/build/build.h"
#include "control/objects.h"
#include "yaml/yaml.h"

/* ---- objects ---- */

void world_add(struct world *w, struct sw_json *v)
{
    struct sw_json *meta = sw_json_find(v, "metadata");

    if (sw_json_str_eq(sw_json_find(v, "kind"), "TestConfig")) {
        w->configure(w, v);
        return;
    }
    if (!sw_json_is(meta, SW_JSON_OBJECT))
        return;
    if (!sw_json_find(meta, "uid"))
        sw_json_put_str(&w->arena, meta, "uid",
                        sw_slice_str(sw_arena_printf(&w->arena, "uid-%u", ++w->made)));
    if (!sw_json_find(meta, "generation"))
        sw_json_put(&w->arena, meta, "generation", sw_json_new_i64(&w->arena, 1));
    if (w->n == w->cap) {
        w->cap = w->cap ? 2 * w->cap : 64;
        w->objs = sw_realloc(w->objs, w->cap * sizeof(struct sw_json *));
    }
    w->objs[w->n++] = v;
}

int world_load(struct world *w, struct sw_slice yaml, struct sw_err *err)
{
    struct sw_yaml_stream docs;
    int rc = sw_yaml_parse(&w->arena, yaml, NULL, &docs, err);

    for (size_t i = 0; rc == SW_OK && i < docs.n; i++)
        world_add(w, sw_json_copy(&w->arena, sw_yaml_to_json(&w->arena, docs.docs[i])));
    return rc;
}

static bool of_gvr(const struct sw_json *v, const struct sw_kube_gvr *gvr)
{
    char api[128];

    (void)snprintf(api, sizeof(api), "%s%s%s", gvr->group, gvr->group[0] ? "/" : "", gvr->version);
    return sw_json_str_eq(sw_json_find(v, "kind"), gvr->kind) &&
           sw_json_str_eq(sw_json_find(v, "apiVersion"), api);
}

static int by_key(const void *x, const void *y)
{
    const struct sw_kube_obj *const *p = x;
    const struct sw_kube_obj *const *q = y;

    return sw_slice_cmp((*p)->key, (*q)->key);
}

struct sw_view *world_view(struct world *w, const struct sw_control_kind *kinds, size_t n)
{
    struct view_kind *list[SW_CONTROL_KINDS_MAX];
    struct view_input *input = view_input_new(w->input);
    struct sw_view *v;

    for (size_t k = 0; k < n; k++) {
        struct sw_kube_obj **objs = sw_calloc(w->n + 1, sizeof(struct sw_kube_obj *));
        size_t count = 0;

        for (size_t i = 0; i < w->n; i++) {
            struct sw_kube_obj *o =
                of_gvr(w->objs[i], kinds[k].gvr) ? sw_kube_obj_new(w->objs[i]) : NULL;

            if (o && (!kinds[k].relevant || kinds[k].relevant(o)))
                objs[count++] = o;
            else
                sw_kube_obj_unref(o);
        }
        if (count > 1)
            qsort(objs, count, sizeof(void *), by_key);
        list[k] = view_kind_new(objs, count);
        sw_free(objs);
    }
    v = view_new(list, n, input);
    v->wall_ns = w->now;
    v->since_ns = w->since;
    for (size_t k = 0; k < n; k++) {
        v->revisions[k] = w->revision;
        view_kind_unref(list[k]);
    }
    view_input_unref(input);
    return v;
}

/* ---- what an API would do ---- */

static struct sw_json *find_object(struct world *w, const struct sw_control_kind *kinds,
                                   const struct out_write *o)
{
    for (size_t i = 0; i < w->n; i++) {
        const struct sw_json *m = sw_json_find(w->objs[i], "metadata");
        char key[600];
        struct sw_slice ns = js_or(m, "namespace", "");

        (void)snprintf(key, sizeof(key), "%.*s%s%.*s", SW_SLICE_ARG(ns), ns.n ? "/" : "",
                       SW_SLICE_ARG(js(m, "name")));
        if (of_gvr(w->objs[i], kinds[o->kind].gvr) && sw_slice_eq_str(o->key, key))
            return w->objs[i];
    }
    return NULL;
}

static struct sw_json *finalizers_of(struct sw_json *o)
{
    return sw_json_find(sw_json_find(o, "metadata"), "finalizers");
}

/* Where a finalizer is in the list; its length: nowhere. */
static size_t finalizer_at(struct sw_json *list, const struct sw_json *name)
{
    size_t i = 0;

    while (i < sw_json_len(list) && !sw_json_equal(sw_json_at(list, i), name, SW_JSON_EQ_VALUE))
        i++;
    return i;
}

static bool is_going(struct sw_json *o)
{
    return sw_json_walk(o, "metadata", "deletionTimestamp", NULL) != NULL;
}

bool world_done(struct world *w, const struct sw_control_kind *kinds, const struct out_write *o)
{
    struct sw_json *have = find_object(w, kinds, o);

    if (o->op == OUT_DELETE)
        return !have;
    if (o->op == OUT_FINALIZER) {
        struct sw_json *list = have ? finalizers_of(have) : NULL;

        return !have || (finalizer_at(list, o->json) < sw_json_len(list)) != o->drop ||
               (!o->drop && is_going(have));
    }
    if (o->op == OUT_STATUS)
        return have && json_within(o->json, sw_json_find(have, "status"));
    return have && json_within(o->json, have);
}

static void merge(struct sw_arena *a, struct sw_json *to, const struct sw_json *from)
{
    for (size_t i = 0; i < sw_json_len(from); i++) {
        const struct sw_json_member *m = sw_json_member_at(from, i);
        struct sw_json *have = sw_json_get(to, m->key);

        if (sw_json_is(m->value, SW_JSON_NULL))
            (void)sw_json_remove(to, m->key);
        else if (sw_json_is(have, SW_JSON_OBJECT) && sw_json_is(m->value, SW_JSON_OBJECT))
            merge(a, have, m->value);
        else
            sw_json_set(a, to, m->key, sw_json_copy(a, m->value));
    }
}

static void remove_object(struct world *w, const struct sw_json *o)
{
    for (size_t k = 0; k < w->n; k++) {
        if (w->objs[k] == o)
            w->objs[k] = w->objs[--w->n];
    }
}

/* Without its last finalizer what is being deleted is gone. */
static void set_finalizer(struct world *w, struct sw_json *have, const struct out_write *o)
{
    struct sw_json *list = finalizers_of(have);

    if (!o->drop) {
        if (!list) {
            list = sw_json_new_array(&w->arena);
            sw_json_put(&w->arena, sw_json_find(have, "metadata"), "finalizers", list);
        }
        sw_json_push(&w->arena, list, sw_json_copy(&w->arena, o->json));
        return;
    }
    (void)sw_json_remove_at(list, finalizer_at(list, o->json));
    if (is_going(have) && !sw_json_len(list))
        remove_object(w, have);
}

static void set_status(struct world *w, struct sw_json *have, const struct out_write *o)
{
    const struct sw_json *s = sw_gateway_stamp(&w->arena, o->json, w->now);
    struct sw_json *status = sw_json_find(have, "status");

    if (!sw_json_is(status, SW_JSON_OBJECT)) {
        status = sw_json_new_object(&w->arena);
        sw_json_put(&w->arena, have, "status", status);
    }
    merge(&w->arena, status, s);
}

static void do_write(struct world *w, struct sw_json *have, const struct out_write *o)
{
    switch (o->op) {
    case OUT_APPLY:
        if (have)
            merge(&w->arena, have, o->json);
        else
            world_add(w, sw_json_copy(&w->arena, o->json));
        break;
    case OUT_STATUS:
        assert(have);
        set_status(w, have, o);
        break;
    case OUT_FINALIZER:
        set_finalizer(w, have, o);
        break;
    case OUT_DELETE:
        remove_object(w, have);
        break;
    }
}

size_t world_obey(struct world *w, const struct sw_control_kind *kinds, const struct sw_output *out)
{
    size_t did = 0;

    for (size_t i = 0; i < out->writes.n; i++) {
        const struct out_write *o = out->writes.p[i];

        if (world_done(w, kinds, o))
            continue;
        did++;
        do_write(w, find_object(w, kinds, o), o);
    }
    return did;
}

void world_reverse(struct world *w)
{
    for (size_t i = 0; i < w->n / 2; i++) {
        struct sw_json *t = w->objs[i];

        w->objs[i] = w->objs[w->n - 1 - i];
        w->objs[w->n - 1 - i] = t;
    }
}

bool world_distinct(const struct world *w)
{
    for (size_t i = 0; i < w->n; i++) {
        for (size_t k = 0; k < i; k++) {
            const struct sw_json *x = sw_json_find(w->objs[i], "metadata");
            const struct sw_json *y = sw_json_find(w->objs[k], "metadata");

            if (sw_slice_eq(js_or(x, "name", ""), js_or(y, "name", "")) &&
                sw_slice_eq(js_or(x, "namespace", ""), js_or(y, "namespace", "")) &&
                sw_slice_eq(js_or(w->objs[i], "kind", ""), js_or(w->objs[k], "kind", "")))
                return false;
            if (sw_slice_eq(js_or(x, "uid", ""), js_or(y, "uid", "")))
                return false;
        }
    }
    return true;
}

bool output_same(const struct sw_output *x, const struct sw_output *y)
{
    if (x->writes.n != y->writes.n || x->expires_ns != y->expires_ns)
        return false;
    for (size_t i = 0; i < x->writes.n; i++) {
        if (!sw_slice_eq(x->writes.p[i]->id, y->writes.p[i]->id) ||
            !sw_json_equal(x->writes.p[i]->json, y->writes.p[i]->json, SW_JSON_EQ_TEXT))
            return false;
    }
    return true;
}

void world_end(struct world *w)
{
    sw_free(w->objs);
    sw_arena_clear(&w->arena);
}

/* ---- text ---- */

/* The buffer has no limit that a test reaches. */
#define PUT(...)                                                                                   \
    do {                                                                                           \
        if (sw_buf_printf(__VA_ARGS__) != SW_OK)                                                   \
            abort();                                                                               \
    } while (0)

static void put_body(struct sw_buf *out, const struct sw_json *v)
{
    SW_BUF_AUTO yaml = {.max = 1 << 20};
    struct sw_slice rest;

    if (sw_yaml_write(&yaml, v) != SW_OK)
        abort();
    rest = sw_buf_slice(&yaml);
    while (rest.p && rest.n) {
        struct sw_slice line = sw_slice_cut(&rest, '\n');

        PUT(out, "  %.*s\n", SW_SLICE_ARG(line));
    }
}

void world_put_writes(struct world *w, const struct sw_control_kind *kinds,
                      const struct sw_output *o, struct sw_buf *out)
{
    static const char *const ops[] = {[OUT_APPLY] = "apply",
                                      [OUT_STATUS] = "status",
                                      [OUT_DELETE] = "delete",
                                      [OUT_FINALIZER] = "finalizer"};

    for (size_t i = 0; i < o->writes.n; i++) {
        const struct out_write *x = o->writes.p[i];

        if (world_done(w, kinds, x))
            continue;
        PUT(out, "%s %s %.*s\n", ops[x->op], kinds[x->kind].gvr->kind, SW_SLICE_ARG(x->key));
        if (x->op == OUT_FINALIZER)
            PUT(out, "  %s %.*s\n", x->drop ? "drop" : "put", SW_SLICE_ARG(sw_json_str(x->json)));
        else if (x->json)
            put_body(out, x->json);
    }
}

static int by_name(const void *x, const void *y)
{
    const struct sw_change *p = x;
    const struct sw_change *q = y;

    int order = strcmp(p->kind, q->kind);

    if (order == 0)
        order = strcmp(p->reason, q->reason);
    return order ? order : sw_slice_cmp(p->name, q->name);
}

struct sw_change *world_published(const struct sw_output *o, size_t *ret_n)
{
    struct sw_change *list = output_diff(NULL, o, ret_n);

    if (*ret_n)
        qsort(list, *ret_n, sizeof(*list), by_name);
    return list;
}
