/* SPDX-License-Identifier: Apache-2.0 */
/* Strategic merge; see patch.h. */
#include "kube/apply/patch.h"

#include "kube/errs.h"
#include "kube/fields.h"

#define ORDER_PREFIX  "$setElementOrder/"
#define DELETE_PREFIX "$deleteFromPrimitiveList/"

/* Merging lists takes time with the product of their lengths; ours are short. */
enum { MERGE_ITEMS_MAX = 2000 };

struct merger {
    struct sw_arena *a;
    const char *why;
    bool malformed; /* a directive of a wrong form, not one that does not fit the object */
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
        SW_JSON_ITEMS (x, v) {
            if (!sw_json_find(x, "$patch"))
                sw_json_push(m->a, out, plain(m, x));
        }
        return out;
    }
    if (v->type != SW_JSON_OBJECT)
        return sw_json_copy(m->a, v);
    out = sw_json_new_object(m->a);
    SW_JSON_MEMBERS (x, v) {
        if (!directive(x->key) && x->value->type != SW_JSON_NULL &&
            !sw_json_find(x->value, "$patch"))
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

/* The value an item of a list is found by. */
static const struct sw_json *item_id(struct sw_slice key, const struct sw_json *item)
{
    return key.n ? sw_json_get(item, key) : item;
}

/* Position of an item in another list, or -1. */
static ptrdiff_t rank(const struct sw_json *list, struct sw_slice key, const struct sw_json *item)
{
    const struct sw_json *id = item_id(key, item);

    return id ? find_item(list, key, id) : -1;
}

/* The items of list that 'order' names (or not), by their rank in 'by'; equal ranks keep their
 * order. */
static struct sw_json *sorted_items(struct merger *m, const struct sw_json *list,
                                    const struct sw_json *order, bool named,
                                    const struct sw_json *by, struct sw_slice key)
{
    struct sw_json *out = sw_json_new_array(m->a);
    ptrdiff_t *ranks = sw_arena_array(m->a, sw_json_len(list) + 1, sizeof(*ranks));

    SW_JSON_ITEMS (x, list) {
        ptrdiff_t mine = rank(by, key, x);
        size_t pos = sw_json_len(out);

        if ((rank(order, key, x) >= 0) != named)
            continue;
        mine = mine < 0 ? PTRDIFF_MAX : mine;
        for (; pos > 0 && ranks[pos - 1] > mine; pos--)
            ranks[pos] = ranks[pos - 1];
        ranks[pos] = mine;
        sw_json_insert_item(m->a, out, pos, x);
    }
    return out;
}

/*
 * Items that 'order' names come in its order. An item only the server has stays before a named one
 * that stood behind it in the live list; new items come before it.
 */
static struct sw_json *reorder(struct merger *m, const struct sw_json *list,
                               const struct sw_json *order, struct sw_slice key,
                               const struct sw_json *live)
{
    struct sw_json *out = sw_json_new_array(m->a);
    struct sw_json *named = sorted_items(m, list, order, true, order, key);
    struct sw_json *rest = sorted_items(m, list, order, false, live, key);
    size_t i = 0;
    size_t j = 0;

    while (i < sw_json_len(rest) || j < sw_json_len(named)) {
        bool take_rest = j >= sw_json_len(named);

        if (!take_rest && i < sw_json_len(rest))
            take_rest =
                rank(live, key, sw_json_at(rest, i)) < rank(live, key, sw_json_at(named, j));
        sw_json_push(m->a, out, take_rest ? sw_json_at(rest, i++) : sw_json_at(named, j++));
    }
    return out;
}

/* The items of a patch must come in the order that its $setElementOrder list has. */
static bool order_fits(struct merger *m, const struct sw_json *patch, const struct sw_json *order,
                       struct sw_slice key)
{
    size_t at = 0;

    if (!sw_json_len(order))
        return true;
    SW_JSON_ITEMS (x, patch) {
        const struct sw_json *id = item_id(key, x);

        if (sw_json_find(x, "$patch") || !id)
            continue;
        while (at < sw_json_len(order)) {
            const struct sw_json *o = item_id(key, sw_json_at(order, at++));

            if (o && sw_json_equal(o, id, SW_JSON_EQ_VALUE))
                id = NULL;
            if (!id)
                break;
        }
        if (id) {
            m->why =
                sw_arena_printf(m->a,
                                "The order in patch list:\n%s\n doesn't match $setElementOrder "
                                "list:\n%s\n",
                                sw_go_plain(m->a, patch), sw_go_plain(m->a, order));
            return false;
        }
    }
    return true;
}

/* ---- lists ---- */

static bool replaces(const struct sw_json *patch)
{
    SW_JSON_ITEMS (item, patch) {
        if (sw_json_str_eq(sw_json_find(item, "$patch"), "replace"))
            return true;
    }
    return false;
}

static bool merge_item(struct merger *m, const struct sw_schema *s, struct sw_json *list,
                       const struct sw_json *item)
{
    const struct sw_json *how = sw_json_find(item, "$patch");
    const struct sw_json *id = sw_json_get(item, s->merge_key);
    ptrdiff_t at;

    if (how && sw_json_str_eq(how, "merge")) {
        m->why = "merging lists cannot yet be specified in the patch";
        return false;
    }
    if (how && !sw_json_str_eq(how, "delete"))
        return unknown_directive(m, item, sw_json_str(how));
    if (!id) {
        m->why = sw_arena_printf(m->a, "map: %s does not contain declared merge key: %.*s",
                                 sw_go_plain(m->a, item), SW_SLICE_ARG(s->merge_key));
        return false;
    }
    at = find_item(list, s->merge_key, id);
    if (how) {
        for (; at >= 0; at = find_item(list, s->merge_key, id))
            (void)sw_json_remove_at(list, (size_t)at);
        return true;
    }
    if (at >= 0)
        return merge_map(m, s->items, sw_json_at(list, (size_t)at), item);
    sw_json_push(m->a, list, plain(m, item));
    return true;
}

static bool too_long(const struct sw_json *v)
{
    return v && sw_json_len(v) > MERGE_ITEMS_MAX;
}

/* All items of both lists are maps, or none is. */
static bool same_types(struct merger *m, const struct sw_json *live, const struct sw_json *patch,
                       bool maps)
{
    const struct sw_json *both[] = {live, patch};

    for (size_t k = 0; k < SW_ARRAY_LEN(both); k++) {
        SW_JSON_ITEMS (item, both[k]) {
            if (sw_json_is(item, SW_JSON_OBJECT) == maps)
                continue;
            m->why = sw_arena_printf(m->a, "list element types are not identical: [%s %s]",
                                     sw_go_plain(m->a, live), sw_go_plain(m->a, patch));
            return false;
        }
    }
    return true;
}

/* The items of live with those of the patch merged in, or appended. */
static struct sw_json *merge_items(struct merger *m, const struct sw_schema *s,
                                   const struct sw_json *live, const struct sw_json *patch)
{
    struct sw_json *list = sw_json_copy(m->a, live);

    if (!same_types(m, live, patch, s->merge_key.n > 0))
        return NULL;
    SW_JSON_ITEMS (item, patch) {
        if (s->merge_key.n) {
            if (!merge_item(m, s, list, item))
                return NULL;
        } else if (find_item(list, s->merge_key, item) < 0) {
            sw_json_push(m->a, list, sw_json_copy(m->a, item));
        }
    }
    return list;
}

/* patch is NULL when only the order is given, order when only items are. */
static struct sw_json *merge_list(struct merger *m, const struct sw_schema *s, struct sw_json *live,
                                  const struct sw_json *patch, const struct sw_json *order)
{
    struct sw_json *list = live;

    if (!s || !s->patch_merge)
        return patch ? plain(m, patch) : live;
    if (too_long(live) || too_long(patch) || too_long(order)) {
        m->why = "too many list items to merge";
        return NULL;
    }
    if (order && !order_fits(m, patch, order, s->merge_key))
        return NULL;
    if (patch && (!sw_json_is(live, SW_JSON_ARRAY) || replaces(patch))) {
        list = plain(m, patch);
        live = list;
    } else if (patch) {
        list = merge_items(m, s, live, patch);
        if (list)
            list = reorder(m, list, patch, s->merge_key, live);
    }
    return list && order ? reorder(m, list, order, s->merge_key, live) : list;
}

/* ---- maps ---- */

/* Returns false, with the reason kept. */
static bool malformed(struct merger *m, const char *why)
{
    m->malformed = true;
    m->why = why;
    return false;
}

/* Only the listed keys stay; a patch that sets another one contradicts itself. */
static bool retain_keys(struct merger *m, struct sw_json *doc, const struct sw_json *patch,
                        const struct sw_json *keep)
{
    static const char why[] = "invalid patch format of retainKeys";

    if (!sw_json_is(keep, SW_JSON_ARRAY))
        return malformed(m, why);
    SW_JSON_MEMBERS (x, patch) {
        if (x->value->type != SW_JSON_NULL && !directive(x->key) &&
            !sw_field_list_has(keep, x->key))
            return malformed(m, why);
    }
    for (size_t i = 0; i < sw_json_len(doc);) {
        if (sw_field_list_has(keep, sw_json_member_at(doc, i)->key))
            i++;
        else
            (void)sw_json_remove_at(doc, i);
    }
    return true;
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

/* $setElementOrder/x, with the items of x that the patch has. */
static bool merge_ordered(struct merger *m, const struct sw_schema *s, struct sw_json *doc,
                          const struct sw_json *patch, const struct sw_json_member *d)
{
    struct sw_slice field = sw_slice_from(d->key, sizeof(ORDER_PREFIX) - 1);
    struct sw_json *live = sw_json_get(doc, field);
    struct sw_json *items = sw_json_get(patch, field);
    const struct sw_json *lists[] = {d->value, live, items};
    struct sw_json *list;

    for (size_t i = 0; i < SW_ARRAY_LEN(lists); i++) {
        if (lists[i] && lists[i]->type != SW_JSON_ARRAY) {
            m->why = sw_arena_printf(m->a, "expected a []interface {}, but received a %s",
                                     sw_json_type_name(lists[i]->type));
            return false;
        }
    }
    if (!live && !items)
        return true;
    list = merge_list(m, s ? sw_schema_prop(s, field) : NULL, live, items, d->value);
    if (list)
        sw_json_set(m->a, doc, field, list);
    return list;
}

/* $retainKeys and the lists that come with an order; what they touch is not merged again. */
static bool apply_directives(struct merger *m, const struct sw_schema *s, struct sw_json *doc,
                             const struct sw_json *patch)
{
    const struct sw_json *keep = sw_json_find(patch, "$retainKeys");

    if (keep && !retain_keys(m, doc, patch, keep))
        return false;
    SW_JSON_MEMBERS (d, patch) {
        if (sw_slice_has_prefix(d->key, SW_SLICE_LIT(ORDER_PREFIX)) &&
            !merge_ordered(m, s, doc, patch, d))
            return false;
    }
    return true;
}

static bool has_order(struct merger *m, const struct sw_json *patch, struct sw_slice field)
{
    return sw_json_get(
        patch, sw_slice_str(sw_arena_printf(m->a, ORDER_PREFIX "%.*s", SW_SLICE_ARG(field))));
}

static struct sw_json *merge_value(struct merger *m, const struct sw_schema *s,
                                   struct sw_json *live, const struct sw_json *v)
{
    if (v->type == SW_JSON_ARRAY)
        return merge_list(m, s, live, v, NULL);
    if (v->type != SW_JSON_OBJECT)
        return sw_json_copy(m->a, v);
    return sw_json_is(live, SW_JSON_OBJECT) ? merge_map(m, s, live, v) : plain(m, v);
}

/* One member of a patch; false: m->why says what is wrong with it. */
static bool merge_member(struct merger *m, const struct sw_schema *s, struct sw_json *doc,
                         const struct sw_json *patch, const struct sw_json_member *x)
{
    struct sw_json *live = sw_json_get(doc, x->key);
    struct sw_json *v;

    if (sw_slice_has_prefix(x->key, SW_SLICE_LIT(DELETE_PREFIX)))
        delete_primitives(doc, sw_slice_from(x->key, sizeof(DELETE_PREFIX) - 1), x->value);
    if (directive(x->key) || has_order(m, patch, x->key))
        return true;
    if (x->value->type == SW_JSON_NULL ||
        (!sw_json_is(live, SW_JSON_OBJECT) && sw_json_find(x->value, "$patch"))) {
        (void)sw_json_remove(doc, x->key);
        return true;
    }
    v = merge_value(m, s ? sw_schema_prop(s, x->key) : NULL, live, x->value);
    if (v)
        sw_json_set(m->a, doc, x->key, v);
    return v;
}

/* Merges in place; returns doc, or NULL on error. */
static struct sw_json *merge_map(struct merger *m, const struct sw_schema *s, struct sw_json *doc,
                                 const struct sw_json *patch)
{
    const struct sw_json *how = sw_json_find(patch, "$patch");

    if (how && sw_json_str_eq(how, "replace")) {
        struct sw_json *rest = sw_json_copy(m->a, patch);

        (void)sw_json_remove(rest, SW_SLICE_LIT("$patch"));
        *doc = *plain(m, rest);
        return doc;
    }
    if (how && sw_json_str_eq(how, "delete")) {
        *doc = *sw_json_new_object(m->a);
        return doc;
    }
    if (how)
        return unknown_directive(m, patch, sw_json_str(how));
    if (!apply_directives(m, s, doc, patch))
        return NULL;
    SW_JSON_MEMBERS (x, patch) {
        if (!merge_member(m, s, doc, patch, x))
            return NULL;
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
        return m.malformed ? SW_EPROTO : SW_EINVAL;
    }
    *ret = out;
    return SW_OK;
}
