/* SPDX-License-Identifier: Apache-2.0 */
/* Strategic merge; see patch.h. */
#include "kube/patch.h"

#include "kube/errs.h"

#define ORDER_PREFIX  "$setElementOrder/"
#define DELETE_PREFIX "$deleteFromPrimitiveList/"

/* Merging lists takes time with the product of their lengths; ours are short. */
enum { MERGE_ITEMS_MAX = 2000 };

struct merger {
    struct sw_arena *a;
    const char *why;
};

static struct sw_json *merge_map(struct merger *m, const struct sw_schema *s, struct sw_json *doc,
                                 const struct sw_json *patch);

static bool directive(struct sw_slice key)
{
    return key.n && key.p[0] == '$';
}

/* A copy without directives; nulls inside a new value are dropped, as there is nothing to delete.
 */
static struct sw_json *plain(struct merger *m, const struct sw_json *v)
{
    struct sw_json *out;

    if (v->type == SW_JSON_ARRAY) {
        out = sw_json_new_array(m->a);
        for (size_t i = 0; i < sw_json_len(v); i++) {
            const struct sw_json *x = sw_json_at(v, i);

            if (!sw_json_is(sw_json_find(x, "$patch"), SW_JSON_STRING) || sw_json_len(x) > 1)
                sw_json_push(m->a, out, plain(m, x));
        }
        return out;
    }
    if (v->type != SW_JSON_OBJECT)
        return sw_json_copy(m->a, v);
    out = sw_json_new_object(m->a);
    for (size_t i = 0; i < sw_json_len(v); i++) {
        const struct sw_json_member *x = sw_json_member_at(v, i);

        if (!directive(x->key) && x->value->type != SW_JSON_NULL)
            sw_json_set(m->a, out, x->key, plain(m, x->value));
    }
    return out;
}

static void *unknown_directive(struct merger *m, const struct sw_json *patch, struct sw_slice what)
{
    m->why = sw_arena_printf(m->a, "unknown patch type: %.*s in map: %s", SW_SLICE_ARG(what),
                             sw_go_plain(m->a, patch));
    return NULL;
}

static ptrdiff_t find_item(const struct sw_json *list, struct sw_slice key,
                           const struct sw_json *value)
{
    for (size_t i = 0; i < sw_json_len(list); i++) {
        const struct sw_json *x =
            key.n ? sw_json_get(sw_json_at(list, i), key) : sw_json_at(list, i);

        if (x && sw_json_equal(x, value, SW_JSON_EQ_VALUE))
            return (ptrdiff_t)i;
    }
    return -1;
}

/* ---- order ---- */

/* Position of an item in the order list, or -1. */
static ptrdiff_t rank(const struct sw_json *order, struct sw_slice key, const struct sw_json *item)
{
    const struct sw_json *v = key.n ? sw_json_get(item, key) : item;

    return v ? find_item(order, key, v) : -1;
}

/*
 * Items of the order list come in its order; the others keep their place relative to the item that
 * stood before them in the live list.
 */
static struct sw_json *reorder(struct merger *m, const struct sw_json *list,
                               const struct sw_json *order, struct sw_slice key,
                               const struct sw_json *live)
{
    struct sw_json *out = sw_json_new_array(m->a);
    size_t n = sw_json_len(list);
    ptrdiff_t *at = sw_arena_array(m->a, n + 1, sizeof(*at));
    bool *placed = sw_arena_array(m->a, n + 1, sizeof(*placed));

    for (size_t i = 0; i < sw_json_len(order); i++) {
        const struct sw_json *o = sw_json_at(order, i);
        const struct sw_json *v = key.n ? sw_json_get(o, key) : o;
        ptrdiff_t found = v ? find_item(list, key, v) : -1;

        if (found < 0 || placed[found])
            continue;
        placed[found] = true;
        at[sw_json_len(out)] = rank(live, key, sw_json_at(list, (size_t)found));
        sw_json_push(m->a, out, sw_json_at(list, (size_t)found));
    }
    for (size_t i = 0; i < n; i++) {
        struct sw_json *x = sw_json_at(list, i);
        size_t len = sw_json_len(out);
        size_t pos = 0;
        ptrdiff_t mine;

        if (placed[i])
            continue;
        /* Before the first placed item that stood behind it in the live list. */
        mine = rank(live, key, x);
        while (pos < len && !(mine >= 0 && at[pos] > mine))
            pos++;
        memmove(&at[pos + 1], &at[pos], (len - pos) * sizeof(*at));
        at[pos] = mine;
        sw_json_insert_item(m->a, out, pos, x);
    }
    return out;
}

/* ---- lists ---- */

static bool replaces(const struct sw_json *patch)
{
    for (size_t i = 0; i < sw_json_len(patch); i++) {
        if (sw_json_str_eq(sw_json_find(sw_json_at(patch, i), "$patch"), "replace"))
            return true;
    }
    return false;
}

static struct sw_json *without_replace(struct merger *m, const struct sw_json *patch)
{
    struct sw_json *out = sw_json_new_array(m->a);

    for (size_t i = 0; i < sw_json_len(patch); i++) {
        if (!sw_json_find(sw_json_at(patch, i), "$patch"))
            sw_json_push(m->a, out, plain(m, sw_json_at(patch, i)));
    }
    return out;
}

static struct sw_json *merge_item(struct merger *m, const struct sw_schema *s, struct sw_json *list,
                                  const struct sw_json *item, size_t *added)
{
    struct sw_slice how = sw_json_str(sw_json_find(item, "$patch"));
    const struct sw_json *id = sw_json_get(item, s->merge_key);
    ptrdiff_t at;

    if (!id) {
        m->why = sw_arena_printf(m->a, "map: %s does not contain declared merge key: %.*s",
                                 sw_go_plain(m->a, item), SW_SLICE_ARG(s->merge_key));
        return NULL;
    }
    at = find_item(list, s->merge_key, id);
    if (sw_slice_eq_str(how, "delete")) {
        for (; at >= 0; at = find_item(list, s->merge_key, id))
            (void)sw_json_remove_at(list, (size_t)at);
        return list;
    }
    if (how.p && !sw_slice_eq_str(how, "merge"))
        return unknown_directive(m, item, how);
    if (at < 0) {
        /* New items come first unless an order says otherwise. */
        sw_json_insert_item(m->a, list, (*added)++, plain(m, item));
        return list;
    }
    return merge_map(m, s->items, sw_json_at(list, (size_t)at), item) ? list : NULL;
}

static bool too_long(const struct sw_json *v)
{
    return v && sw_json_len(v) > MERGE_ITEMS_MAX;
}

static struct sw_json *merge_list(struct merger *m, const struct sw_schema *s, struct sw_json *live,
                                  const struct sw_json *patch, const struct sw_json *order)
{
    struct sw_json *list;
    size_t added = 0;

    if (!live || live->type != SW_JSON_ARRAY)
        live = sw_json_new_array(m->a);
    if (s && s->patch_merge && (too_long(live) || too_long(patch) || too_long(order))) {
        m->why = "too many list items to merge";
        return NULL;
    }
    list = sw_json_copy(m->a, live);
    if (!s || !s->patch_merge || (patch && replaces(patch))) {
        return patch ? (patch && replaces(patch) ? without_replace(m, patch) : plain(m, patch))
                     : list;
    }
    for (size_t i = 0; i < sw_json_len(patch); i++) {
        const struct sw_json *item = sw_json_at(patch, i);

        if (!s->merge_key.n) {
            if (find_item(list, s->merge_key, item) < 0)
                sw_json_push(m->a, list, sw_json_copy(m->a, item));
        } else if (!sw_json_is(item, SW_JSON_OBJECT) || !merge_item(m, s, list, item, &added)) {
            if (!m->why)
                m->why = "cannot merge a list of maps with other values";
            return NULL;
        }
    }
    return order ? reorder(m, list, order, s->merge_key, live) : list;
}

/* ---- maps ---- */

static void retain_keys(struct sw_json *doc, const struct sw_json *keep)
{
    for (size_t i = 0; i < sw_json_len(doc);) {
        struct sw_slice key = sw_json_member_at(doc, i)->key;
        bool kept = false;

        for (size_t k = 0; k < sw_json_len(keep); k++)
            kept = kept || sw_slice_eq(sw_json_str(sw_json_at(keep, k)), key);
        if (kept)
            i++;
        else
            (void)sw_json_remove_at(doc, i);
    }
}

static void delete_primitives(struct sw_json *doc, struct sw_slice field,
                              const struct sw_json *values)
{
    struct sw_json *list = sw_json_get(doc, field);

    for (size_t i = 0; sw_json_is(list, SW_JSON_ARRAY) && i < sw_json_len(values); i++) {
        ptrdiff_t at;

        while ((at = find_item(list, sw_slice("", 0), sw_json_at(values, i))) >= 0)
            (void)sw_json_remove_at(list, (size_t)at);
    }
}

/* $setElementOrder of a field the patch does not touch otherwise. */
static bool order_alone(struct merger *m, const struct sw_schema *s, struct sw_json *doc,
                        const struct sw_json *patch, const struct sw_json_member *d)
{
    struct sw_slice field = sw_slice_from(d->key, sizeof(ORDER_PREFIX) - 1);
    struct sw_json *live = sw_json_get(doc, field);
    struct sw_json *list;

    if (sw_json_get(patch, field) || !sw_json_is(live, SW_JSON_ARRAY))
        return true;
    list = merge_list(m, sw_schema_prop(s, field), live, NULL, d->value);
    if (list)
        sw_json_set(m->a, doc, field, list);
    return list;
}

static bool apply_directives(struct merger *m, const struct sw_schema *s, struct sw_json *doc,
                             const struct sw_json *patch)
{
    const struct sw_json *keep = sw_json_find(patch, "$retainKeys");

    if (sw_json_is(keep, SW_JSON_ARRAY))
        retain_keys(doc, keep);
    for (size_t i = 0; i < sw_json_len(patch); i++) {
        const struct sw_json_member *d = sw_json_member_at(patch, i);

        if (sw_slice_has_prefix(d->key, SW_SLICE_LIT(DELETE_PREFIX)))
            delete_primitives(doc, sw_slice_from(d->key, sizeof(DELETE_PREFIX) - 1), d->value);
        else if (sw_slice_has_prefix(d->key, SW_SLICE_LIT(ORDER_PREFIX)) &&
                 !order_alone(m, s, doc, patch, d))
            return false;
    }
    return true;
}

static struct sw_json *merge_value(struct merger *m, const struct sw_schema *s,
                                   struct sw_json *live, const struct sw_json *v,
                                   const struct sw_json *order)
{
    if (v->type == SW_JSON_ARRAY)
        return merge_list(m, s, live, v, order);
    if (v->type != SW_JSON_OBJECT)
        return sw_json_copy(m->a, v);
    if (!sw_json_is(live, SW_JSON_OBJECT))
        live = sw_json_new_object(m->a);
    return merge_map(m, s, live, v);
}

/* Merges in place; returns doc, or NULL on error. */
static struct sw_json *merge_map(struct merger *m, const struct sw_schema *s, struct sw_json *doc,
                                 const struct sw_json *patch)
{
    struct sw_slice how = sw_json_str(sw_json_find(patch, "$patch"));

    if (sw_slice_eq_str(how, "replace") || sw_slice_eq_str(how, "delete")) {
        *doc = how.p[0] == 'r' ? *plain(m, patch) : *sw_json_new_object(m->a);
        return doc;
    }
    if (how.p && !sw_slice_eq_str(how, "merge"))
        return unknown_directive(m, patch, how);
    if (!apply_directives(m, s, doc, patch))
        return NULL;
    for (size_t i = 0; i < sw_json_len(patch); i++) {
        const struct sw_json_member *x = sw_json_member_at(patch, i);
        const struct sw_json *order;
        struct sw_json *v;

        if (directive(x->key))
            continue;
        if (x->value->type == SW_JSON_NULL) {
            (void)sw_json_remove(doc, x->key);
            continue;
        }
        order = sw_json_get(
            patch, sw_slice_str(sw_arena_printf(m->a, ORDER_PREFIX "%.*s", SW_SLICE_ARG(x->key))));
        v = merge_value(m, s ? sw_schema_prop(s, x->key) : NULL, sw_json_get(doc, x->key), x->value,
                        order);
        if (!v)
            return NULL;
        sw_json_set(m->a, doc, x->key, v);
    }
    return doc;
}

int sw_strategic_patch(struct sw_arena *a, const struct sw_schema *s, const struct sw_json *doc,
                       const struct sw_json *patch, struct sw_json **ret, const char **ret_why)
{
    struct merger m = {.a = a};
    struct sw_json *out = sw_json_copy(a, doc);

    if (!sw_json_is(patch, SW_JSON_OBJECT)) {
        *ret_why = "a strategic merge patch must be an object";
        return SW_EINVAL;
    }
    out = merge_map(&m, s, out, patch);
    if (!out) {
        *ret_why = m.why;
        return SW_EINVAL;
    }
    *ret = out;
    return SW_OK;
}
