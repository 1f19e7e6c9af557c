/* SPDX-License-Identifier: Apache-2.0 */
/* Views and outputs: what goes into a build and what comes out of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "control/runtime_int.h"

/* --- views --- */

struct view_kind *view_kind_new(struct sw_kube_obj **objs, size_t n)
{
    struct view_kind *k = sw_calloc(1, sizeof(*k) + n * sizeof(void *));

    atomic_init(&k->refs, 1);
    k->n = n;
    if (n)
        memcpy(k->objs, objs, n * sizeof(void *));
    return k;
}

void view_kind_unref(struct view_kind *k)
{
    if (!k || atomic_fetch_sub_explicit(&k->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < k->n; i++)
        sw_kube_obj_unref(k->objs[i]);
    sw_free(k);
}

struct view_input *view_input_new(struct sw_slice s)
{
    struct view_input *i = sw_calloc(1, sizeof(*i) + s.n + 1);

    atomic_init(&i->refs, 1);
    i->n = s.n;
    if (s.n)
        memcpy(i->text, s.p, s.n);
    return i;
}

void view_input_unref(struct view_input *i)
{
    if (i && atomic_fetch_sub_explicit(&i->refs, 1, memory_order_acq_rel) == 1)
        sw_free(i);
}

struct sw_view *view_new(struct view_kind *const *kinds, size_t n, struct view_input *input)
{
    struct sw_view *v = sw_calloc(1, sizeof(*v) + n * sizeof(void *));

    atomic_init(&v->refs, 1);
    v->n = n;
    for (size_t i = 0; i < n; i++) {
        atomic_fetch_add_explicit(&kinds[i]->refs, 1, memory_order_relaxed);
        v->kinds[i] = kinds[i];
    }
    atomic_fetch_add_explicit(&input->refs, 1, memory_order_relaxed);
    v->input = input;
    return v;
}

struct sw_view *view_ref(struct sw_view *v)
{
    atomic_fetch_add_explicit(&v->refs, 1, memory_order_relaxed);
    return v;
}

void view_unref(struct sw_view *v)
{
    if (!v || atomic_fetch_sub_explicit(&v->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < v->n; i++)
        view_kind_unref(v->kinds[i]);
    view_input_unref(v->input);
    sw_free(v);
}

size_t sw_view_count(const struct sw_view *v, size_t kind)
{
    return kind < v->n ? v->kinds[kind]->n : 0;
}

const struct sw_kube_obj *sw_view_at(const struct sw_view *v, size_t kind, size_t i)
{
    return i < sw_view_count(v, kind) ? v->kinds[kind]->objs[i] : NULL;
}

const struct sw_kube_obj *const *sw_view_all(const struct sw_view *v, size_t kind)
{
    return kind < v->n ? (const struct sw_kube_obj *const *)v->kinds[kind]->objs : NULL;
}

const struct sw_kube_obj *sw_view_find(const struct sw_view *v, size_t kind, struct sw_slice ns,
                                       struct sw_slice name)
{
    char text[2048];
    struct sw_slice key = name;
    size_t lo = 0;
    size_t hi = sw_view_count(v, kind);

    if (ns.n + name.n + 2 > sizeof(text))
        return NULL;
    if (ns.n) {
        int n = snprintf(text, sizeof(text), "%.*s/%.*s", SW_SLICE_ARG(ns), SW_SLICE_ARG(name));

        key = sw_slice(text, (size_t)n);
    }
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const struct sw_kube_obj *o = v->kinds[kind]->objs[mid];
        int d = sw_slice_cmp(key, o->key);

        if (d == 0)
            return o;
        if (d < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return NULL;
}

uint64_t sw_view_revision(const struct sw_view *v, size_t kind)
{
    return kind < v->n ? v->revisions[kind] : 0;
}

bool sw_view_served(const struct sw_view *v, size_t kind)
{
    return !(v->absent >> kind & 1);
}

struct sw_slice sw_view_input(const struct sw_view *v)
{
    return sw_slice(v->input->text, v->input->n);
}

uint64_t sw_view_wall_ns(const struct sw_view *v)
{
    return v->wall_ns;
}

uint64_t sw_view_since_ns(const struct sw_view *v)
{
    return v->since_ns;
}

/* --- outputs --- */

struct sw_output *output_new(void)
{
    return SW_NEW(struct sw_output);
}

void output_free(struct sw_output *o)
{
    if (!o)
        return;
    sw_map_done(&o->published);
    sw_map_done(&o->by_id);
    sw_map_done(&o->notices);
    sw_vec_done(&o->writes);
    sw_arena_clear(&o->arena);
    sw_free(o);
}

struct sw_arena *sw_out_arena(struct sw_output *out)
{
    return &out->arena;
}

static void publish(struct sw_output *out, const char *kind, const char *reason,
                    struct sw_slice name, struct sw_slice bytes)
{
    const char *head = sw_arena_printf(&out->arena, "%s|%s|", kind, reason);
    size_t n = strlen(head);
    char *text = sw_arena_alloc(&out->arena, n + name.n + 1);
    struct sw_slice key = sw_slice(text, n + name.n);
    struct sw_change *c;

    memcpy(text, head, n);
    if (name.n)
        memcpy(text + n, name.p, name.n);
    if (sw_map_get(&out->published, key))
        return;
    c = SW_ARENA_NEW(&out->arena, struct sw_change);
    c->kind = kind;
    c->reason = reason;
    c->name = sw_slice_from(key, n);
    c->bytes = sw_arena_slice(&out->arena, bytes);
    (void)sw_map_put(&out->published, key, c);
}

void sw_out_publish(struct sw_output *out, const char *kind, struct sw_slice name,
                    struct sw_slice bytes)
{
    publish(out, kind, "", name, bytes);
}

void sw_out_note(struct sw_output *out, const char *reason, struct sw_slice subject,
                 struct sw_slice text)
{
    publish(out, SW_OUT_NOTE, reason, subject, text);
}

static void add_write(struct sw_output *out, const struct out_write *w, struct sw_slice ns,
                      struct sw_slice name)
{
    struct sw_arena *a = &out->arena;
    struct out_write *copy;
    const char *key;

    if (!name.n)
        return;
    key = ns.n ? sw_arena_printf(a, "%.*s/%.*s", SW_SLICE_ARG(ns), SW_SLICE_ARG(name))
               : sw_arena_dup(a, name);
    copy = SW_ARENA_NEW(a, struct out_write);
    *copy = *w;
    copy->key = sw_slice_str(key);
    copy->id = sw_slice_str(sw_arena_printf(a, "%d|%zu|%s", (int)w->op, w->kind, key));
    if (sw_map_get(&out->by_id, copy->id))
        return;
    (void)sw_map_put(&out->by_id, copy->id, copy);
    sw_vec_push(&out->writes, copy);
}

void sw_out_apply(struct sw_output *out, size_t kind, const struct sw_json *obj)
{
    const struct sw_json *m = sw_json_find(obj, "metadata");

    add_write(out, &(struct out_write){.op = OUT_APPLY, .kind = kind, .json = obj},
              sw_json_str(sw_json_find(m, "namespace")), sw_json_str(sw_json_find(m, "name")));
}

void sw_out_status(struct sw_output *out, size_t kind, const struct sw_kube_obj *of,
                   const struct sw_json *status)
{
    add_write(out,
              &(struct out_write){.op = OUT_STATUS,
                                  .kind = kind,
                                  .json = status,
                                  .uid = sw_arena_slice(&out->arena, of->uid)},
              of->ns, of->name);
}

void sw_out_finalizer(struct sw_output *out, size_t kind, const struct sw_kube_obj *of,
                      struct sw_slice finalizer, bool wanted)
{
    add_write(out,
              &(struct out_write){.op = OUT_FINALIZER,
                                  .kind = kind,
                                  .json = sw_json_new_string(&out->arena, finalizer),
                                  .drop = !wanted,
                                  .uid = sw_arena_slice(&out->arena, of->uid)},
              of->ns, of->name);
}

void sw_out_delete(struct sw_output *out, size_t kind, const struct sw_kube_obj *obj)
{
    add_write(out,
              &(struct out_write){
                  .op = OUT_DELETE, .kind = kind, .uid = sw_arena_slice(&out->arena, obj->uid)},
              obj->ns, obj->name);
}

void sw_out_expires(struct sw_output *out, uint64_t wall_ns)
{
    if (!out->expires_ns || wall_ns < out->expires_ns)
        out->expires_ns = wall_ns;
}

static int by_name(const void *a, const void *b)
{
    const struct sw_change *x = a;
    const struct sw_change *y = b;

    int order = strcmp(x->kind, y->kind);

    if (order == 0)
        order = strcmp(x->reason, y->reason);
    return order ? order : sw_slice_cmp(x->name, y->name);
}

struct sw_change *output_diff(const struct sw_output *old, const struct sw_output *now,
                              size_t *ret_n)
{
    SW_VEC(struct sw_change) list = {0};

    SW_MAP_FOREACH (it, &now->published) {
        const struct sw_change *c = it->value;
        const struct sw_change *before = old ? sw_map_get(&old->published, it->key) : NULL;

        if (!before || !sw_slice_eq(before->bytes, c->bytes))
            sw_vec_push(&list, *c);
    }
    if (old) {
        SW_MAP_FOREACH (it, &old->published) {
            const struct sw_change *c = it->value;

            if (!sw_map_get(&now->published, it->key))
                sw_vec_push(&list, (struct sw_change){
                                       .kind = c->kind, .reason = c->reason, .name = c->name});
        }
    }
    if (list.n)
        qsort(list.p, list.n, sizeof(*list.p), by_name);
    *ret_n = list.n;
    return list.p;
}

bool json_within(const struct sw_json *want, const struct sw_json *have)
{
    if (!want || !have)
        return want == have;
    if (want->type == SW_JSON_ARRAY && have->type == SW_JSON_ARRAY) {
        bool same = want->arr.n == have->arr.n;

        for (size_t i = 0; i < want->arr.n && same; i++)
            same = json_within(want->arr.items[i], have->arr.items[i]);
        return same;
    }
    if (want->type != SW_JSON_OBJECT)
        return sw_json_equal(want, have, SW_JSON_EQ_VALUE);
    if (have->type != SW_JSON_OBJECT)
        return false;
    for (size_t i = 0; i < sw_json_len(want); i++) {
        const struct sw_json_member *m = sw_json_member_at(want, i);

        if (!json_within(m->value, sw_json_get(have, m->key)))
            return false;
    }
    return true;
}
