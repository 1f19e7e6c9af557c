/* SPDX-License-Identifier: Apache-2.0 */
/* The walks over typed values: field sets, comparison, merge, removal, type checks. */
#include "kube/smd.h"

#include <stdlib.h>

#include "kube/text.h"

/* How a value is treated at a place. */
enum shape { SHAPE_SCALAR, SHAPE_LIST, SHAPE_MAP };

/* A place in the schema; s == NULL: untyped, deduced from the value. */
struct place {
    const struct sw_schema *s;
    bool root; /* apiVersion, kind and metadata are known here */
};

struct kind {
    enum shape shape;
    bool atomic;
};

static enum shape shape_of(const struct sw_json *v)
{
    if (!v)
        return SHAPE_SCALAR;
    return v->type == SW_JSON_OBJECT  ? SHAPE_MAP
           : v->type == SW_JSON_ARRAY ? SHAPE_LIST
                                      : SHAPE_SCALAR;
}

static bool untyped(const struct sw_schema *s)
{
    return !s || (s->type == SW_T_NONE && !s->int_or_string);
}

static struct kind kind_of(struct place p, const struct sw_json *x, const struct sw_json *y)
{
    const struct sw_json *v = x && x->type != SW_JSON_NULL ? x : y;

    if (untyped(p.s)) {
        struct kind k = {shape_of(v), shape_of(v) == SHAPE_LIST};

        return k;
    }
    if (p.s->type == SW_T_OBJECT)
        return (struct kind){SHAPE_MAP, p.s->map_atomic};
    if (p.s->type == SW_T_ARRAY)
        return (struct kind){SHAPE_LIST, p.s->list_type == SW_LIST_ATOMIC};
    return (struct kind){SHAPE_SCALAR, false};
}

/* The place of a member; false when the schema does not know it. */
static bool child(const struct sw_smd *c, struct place p, struct sw_slice key, struct place *ret,
                  bool *ret_declared)
{
    const struct sw_schema *s;

    *ret = (struct place){0};
    *ret_declared = true;
    if (p.root) {
        if (sw_slice_eq_str(key, "metadata")) {
            ret->s = c->metadata;
            return true;
        }
        if (sw_slice_eq_str(key, "apiVersion") || sw_slice_eq_str(key, "kind"))
            return true;
    }
    s = untyped(p.s) ? NULL : sw_schema_declared(p.s, key);
    if (s) {
        ret->s = s;
        return true;
    }
    *ret_declared = false;
    if (untyped(p.s) || p.s->preserve || p.s->additional_any || p.s->embedded)
        return true;
    ret->s = p.s->additional;
    return p.s->additional;
}

static struct place item(struct place p)
{
    return (struct place){.s = untyped(p.s) ? NULL : p.s->items};
}

/* ---- list items ---- */

static struct sw_pe field_pe(struct sw_slice name)
{
    return (struct sw_pe){.kind = SW_PE_FIELD, .name = name};
}

static int by_name(const void *x, const void *y)
{
    const struct sw_slice *p = x;
    const struct sw_slice *q = y;

    return sw_slice_cmp(*p, *q);
}

/* Keys of a list-map item; missing ones take their default. NULL with *why on failure. */
static struct sw_json *key_of(const struct sw_smd *c, const struct sw_schema *s,
                              const struct sw_json *v, const char **why)
{
    struct sw_json *key = sw_json_new_object(c->arena);
    struct sw_slice names[16];
    size_t n = sw_min(s->nlist_keys, SW_ARRAY_LEN(names));

    if (!sw_json_is(v, SW_JSON_OBJECT)) {
        *why = v->type == SW_JSON_NULL ? "associative list with keys may not have a null element"
                                       : "associative list with keys may not have non-map elements";
        return NULL;
    }
    memcpy(names, s->list_keys, n * sizeof(*names));
    qsort(names, n, sizeof(*names), by_name);
    for (size_t i = 0; i < n; i++) {
        const struct sw_json *x = sw_json_get(v, names[i]);
        const struct sw_schema *p = sw_schema_declared(s->items, names[i]);

        if (!x && p)
            x = p->def;
        if (!x) {
            *why = sw_arena_printf(c->arena,
                                   "associative list with keys has an element that omits key field "
                                   "\"%.*s\" (and doesn't have default value)",
                                   SW_SLICE_ARG(names[i]));
            return NULL;
        }
        sw_json_set(c->arena, key, names[i], sw_json_copy(c->arena, x));
    }
    return key;
}

static bool item_pe(const struct sw_smd *c, const struct sw_schema *s, const struct sw_json *v,
                    struct sw_pe *ret, const char **why)
{
    *ret = (struct sw_pe){.kind = SW_PE_VALUE, .json = v};
    if (s->list_type == SW_LIST_MAP) {
        ret->kind = SW_PE_KEY;
        ret->json = key_of(c, s, v, why);
        return ret->json;
    }
    if (v->type == SW_JSON_OBJECT)
        *why = "associative list without keys has an element that's a map type";
    else if (v->type == SW_JSON_ARRAY)
        *why = "not supported: associative list with lists as elements";
    else if (v->type == SW_JSON_NULL)
        *why = "associative list without keys has an element that's an explicit null";
    else
        return true;
    return false;
}

struct entry {
    struct sw_pe pe; /* pe.index: position in the list, for these kinds not part of the order */
    const struct sw_json *v;
};

/* The items of a list by element; of equal ones the first counts. */
struct index {
    struct entry *p; /* in list order */
    size_t n;
    struct entry *sorted; /* by element; pe.index is the place in p */
};

static int by_pe(const void *x, const void *y)
{
    const struct entry *p = x;
    const struct entry *q = y;
    int c = sw_pe_cmp(&p->pe, &q->pe);

    return c ? c : (p->pe.index > q->pe.index) - (p->pe.index < q->pe.index);
}

static int only_pe(const void *x, const void *y)
{
    const struct entry *p = x;
    const struct entry *q = y;

    return sw_pe_cmp(&p->pe, &q->pe);
}

static const struct entry *index_find(const struct index *x, const struct sw_pe *pe)
{
    struct entry key = {.pe = *pe};

    return x->n ? bsearch(&key, x->sorted, x->n, sizeof(key), only_pe) : NULL;
}

static void index_list(const struct sw_smd *c, const struct sw_schema *s, const struct sw_json *v,
                       struct index *ret)
{
    size_t len = sw_json_is(v, SW_JSON_ARRAY) ? sw_json_len(v) : 0;
    struct entry *all = sw_arena_array(c->arena, len + 1, sizeof(*all));
    bool *first = sw_arena_array(c->arena, len + 1, sizeof(*first));
    size_t n = 0;
    const char *why;

    for (size_t i = 0; i < len; i++) {
        struct entry e = {.v = sw_json_at(v, i)};

        if (!item_pe(c, s, e.v, &e.pe, &why))
            continue;
        e.pe.index = n;
        all[n++] = e;
    }
    *ret = (struct index){.sorted = sw_arena_array(c->arena, n + 1, sizeof(*all))};
    ret->p = sw_arena_array(c->arena, n + 1, sizeof(*all));
    memcpy(ret->p, all, n * sizeof(*all));
    qsort(all, n, sizeof(*all), by_pe);
    for (size_t i = 0; i < n; i++)
        first[all[i].pe.index] = i == 0 || sw_pe_cmp(&all[i - 1].pe, &all[i].pe) != 0;
    /* Squeeze duplicates out of both orders; places are counted anew. */
    for (size_t i = 0; i < n; i++) {
        if (!first[i])
            continue;
        ret->p[ret->n] = ret->p[i];
        ret->p[ret->n].pe.index = ret->n;
        ret->n++;
    }
    memcpy(ret->sorted, ret->p, ret->n * sizeof(*all));
    qsort(ret->sorted, ret->n, sizeof(*all), by_pe);
}

static int by_member(const void *x, const void *y)
{
    const struct sw_json_member *const *p = x;
    const struct sw_json_member *const *q = y;

    return sw_slice_cmp((*p)->key, (*q)->key);
}

/* Members in key order: sets are then built by appending. */
static const struct sw_json_member **sorted_members(const struct sw_smd *c, const struct sw_json *v)
{
    size_t n = sw_json_is(v, SW_JSON_OBJECT) ? sw_json_len(v) : 0;
    const struct sw_json_member **m = sw_arena_array(c->arena, n + 1, sizeof(const void *));

    for (size_t i = 0; i < n; i++)
        m[i] = sw_json_member_at(v, i);
    qsort(m, n, sizeof(const void *), by_member);
    return m;
}

/* ---- field sets ---- */

static void to_set(const struct sw_smd *c, struct place p, const struct sw_json *v,
                   struct sw_fset_node *self);

static struct sw_fset *kids(const struct sw_smd *c, struct sw_fset_node *n)
{
    if (!n->kids)
        n->kids = sw_fset_new(c->arena);
    return n->kids;
}

static void map_to_set(const struct sw_smd *c, struct place p, const struct sw_json *v,
                       struct sw_fset_node *self)
{
    const struct sw_json_member **all = sorted_members(c, v);

    for (size_t i = 0; i < sw_json_len(v); i++) {
        const struct sw_json_member *m = all[i];
        struct sw_pe pe = field_pe(m->key);
        struct sw_fset_node node = {.pe = pe};
        struct sw_fset_node *n;
        struct place q;
        bool declared;

        (void)child(c, p, m->key, &q, &declared);
        to_set(c, q, m->value, &node);
        if (!declared || m->value->type == SW_JSON_NULL ||
            (m->value->type == SW_JSON_OBJECT && !sw_json_len(m->value)))
            node.member = true;
        if (!node.member && sw_fset_empty(node.kids))
            continue;
        n = sw_fset_at(c->arena, kids(c, self), &pe);
        *n = node;
    }
}

static void list_to_set(const struct sw_smd *c, struct place p, const struct sw_json *v,
                        struct sw_fset_node *self)
{
    struct index x;

    index_list(c, p.s, v, &x);
    for (size_t i = 0; i < x.n; i++) {
        struct sw_fset_node node = {.pe = x.sorted[i].pe};

        to_set(c, item(p), x.sorted[i].v, &node);
        node.member = true;
        *sw_fset_at(c->arena, kids(c, self), &node.pe) = node;
    }
}

static void to_set(const struct sw_smd *c, struct place p, const struct sw_json *v,
                   struct sw_fset_node *self)
{
    struct kind k = kind_of(p, v, NULL);

    if (k.shape == SHAPE_SCALAR || k.atomic)
        self->member = true;
    else if (k.shape == SHAPE_MAP && v->type == SW_JSON_OBJECT)
        map_to_set(c, p, v, self);
    else if (k.shape == SHAPE_LIST && v->type == SW_JSON_ARRAY)
        list_to_set(c, p, v, self);
}

static struct place root_place(const struct sw_smd *c)
{
    return (struct place){.s = c->schema, .root = true};
}

struct sw_fset *sw_smd_fieldset(const struct sw_smd *ctx, const struct sw_json *v)
{
    struct sw_fset_node root = {0};

    to_set(ctx, root_place(ctx), v, &root);
    return root.kids ? root.kids : sw_fset_new(ctx->arena);
}

/* ---- compare ---- */

/* Three parallel trees, built as we descend. */
struct triple {
    struct sw_fset_node added, removed, modified;
};

static void compare(const struct sw_smd *c, struct place p, const struct sw_json *x,
                    const struct sw_json *y, struct triple *t);

static void keep(const struct sw_smd *c, struct sw_fset_node *up, struct sw_pe pe,
                 struct sw_fset_node *n)
{
    if (!n->member && sw_fset_empty(n->kids))
        return;
    n->pe = pe;
    *sw_fset_at(c->arena, kids(c, up), &pe) = *n;
}

static void compare_child(const struct sw_smd *c, struct place p, struct sw_pe pe,
                          const struct sw_json *x, const struct sw_json *y, struct triple *up)
{
    struct triple t = {0};

    compare(c, p, x, y, &t);
    keep(c, &up->added, pe, &t.added);
    keep(c, &up->removed, pe, &t.removed);
    keep(c, &up->modified, pe, &t.modified);
}

static void compare_maps(const struct sw_smd *c, struct place p, const struct sw_json *x,
                         const struct sw_json *y, struct triple *t)
{
    const struct sw_json_member **l = sorted_members(c, x);
    const struct sw_json_member **r = sorted_members(c, y);
    size_t nl = sw_json_is(x, SW_JSON_OBJECT) ? sw_json_len(x) : 0;
    size_t nr = sw_json_is(y, SW_JSON_OBJECT) ? sw_json_len(y) : 0;

    for (size_t i = 0, j = 0; i < nl || j < nr;) {
        int d = i == nl ? 1 : j == nr ? -1 : sw_slice_cmp(l[i]->key, r[j]->key);
        const struct sw_json_member *m = d <= 0 ? l[i] : r[j];
        struct place q;
        bool declared;

        (void)child(c, p, m->key, &q, &declared);
        compare_child(c, q, field_pe(m->key), d <= 0 ? l[i]->value : NULL,
                      d >= 0 ? r[j]->value : NULL, t);
        i += d <= 0;
        j += d >= 0;
    }
}

static void compare_lists(const struct sw_smd *c, struct place p, const struct sw_json *x,
                          const struct sw_json *y, struct triple *t)
{
    struct index l, r;

    index_list(c, p.s, x, &l);
    index_list(c, p.s, y, &r);
    for (size_t i = 0, j = 0; i < l.n || j < r.n;) {
        int d = i == l.n ? 1 : j == r.n ? -1 : sw_pe_cmp(&l.sorted[i].pe, &r.sorted[j].pe);

        compare_child(c, item(p), d <= 0 ? l.sorted[i].pe : r.sorted[j].pe,
                      d <= 0 ? l.sorted[i].v : NULL, d >= 0 ? r.sorted[j].v : NULL, t);
        i += d <= 0;
        j += d >= 0;
    }
}

static void compare_leaf(const struct sw_json *x, const struct sw_json *y, struct triple *t)
{
    if (!x)
        t->added.member = true;
    else if (!y)
        t->removed.member = true;
    else if (!sw_json_equal(x, y, SW_JSON_EQ_VALUE))
        t->modified.member = true;
}

/* Containers with nothing in them on both sides count as leaves: null and {} stay different. */
static bool empty(const struct sw_json *v, enum shape shape)
{
    return shape_of(v) != shape || !sw_json_len(v);
}

static void compare(const struct sw_smd *c, struct place p, const struct sw_json *x,
                    const struct sw_json *y, struct triple *t)
{
    struct kind k = kind_of(p, x, y);

    /* Untyped values that change their shape are one leaf. */
    if (untyped(p.s) && x && y && shape_of(x) != shape_of(y) && x->type != SW_JSON_NULL &&
        y->type != SW_JSON_NULL)
        k.shape = SHAPE_SCALAR;
    if (k.shape == SHAPE_SCALAR || k.atomic || (empty(x, k.shape) && empty(y, k.shape))) {
        compare_leaf(x, y, t);
        return;
    }
    if (k.shape == SHAPE_MAP)
        compare_maps(c, p, x, y, t);
    else
        compare_lists(c, p, x, y, t);
    if (!x)
        t->added.member = true;
    else if (!y)
        t->removed.member = true;
}

struct sw_smd_diff sw_smd_compare(const struct sw_smd *ctx, const struct sw_json *old,
                                  const struct sw_json *new)
{
    struct triple t = {0};
    struct sw_smd_diff d;

    compare(ctx, root_place(ctx), old, new, &t);
    d.added = t.added.kids ? t.added.kids : sw_fset_new(ctx->arena);
    d.removed = t.removed.kids ? t.removed.kids : sw_fset_new(ctx->arena);
    d.modified = t.modified.kids ? t.modified.kids : sw_fset_new(ctx->arena);
    return d;
}

/* ---- merge ---- */

static struct sw_json *merge(const struct sw_smd *c, struct place p, const struct sw_json *x,
                             const struct sw_json *y);

static struct sw_json *merge_maps(const struct sw_smd *c, struct place p, const struct sw_json *x,
                                  const struct sw_json *y)
{
    struct sw_json *out = sw_json_new_object(c->arena);

    for (size_t i = 0; i < sw_json_len(x); i++) {
        const struct sw_json_member *m = sw_json_member_at(x, i);
        struct place q;
        bool declared;

        (void)child(c, p, m->key, &q, &declared);
        sw_json_set(c->arena, out, m->key, merge(c, q, m->value, sw_json_get(y, m->key)));
    }
    for (size_t i = 0; i < sw_json_len(y); i++) {
        const struct sw_json_member *m = sw_json_member_at(y, i);
        struct place q;
        bool declared;

        if (sw_json_get(x, m->key))
            continue;
        (void)child(c, p, m->key, &q, &declared);
        sw_json_set(c->arena, out, m->key, merge(c, q, NULL, m->value));
    }
    return out;
}

/* The next item of r that l has too, from i on; r->n when there is none. */
static size_t next_shared(const struct index *l, const struct index *r, size_t i)
{
    while (i < r->n && !index_find(l, &r->p[i].pe))
        i++;
    return i;
}

/*
 * Items only in the live list keep their place, shared items follow the configuration's order, new
 * ones go where the configuration has them.
 */
static struct sw_json *merge_lists(const struct sw_smd *c, struct place p, const struct sw_json *x,
                                   const struct sw_json *y)
{
    struct sw_json *out = sw_json_new_array(c->arena);
    struct index l, r;
    size_t i = 0, j = 0, shared;

    index_list(c, p.s, x, &l);
    index_list(c, p.s, y, &r);
    shared = next_shared(&l, &r, 0);
    while (i < l.n || j < r.n) {
        if (i < l.n && j < r.n && sw_pe_cmp(&l.p[i].pe, &r.p[j].pe) == 0) {
            sw_json_push(c->arena, out, merge(c, item(p), l.p[i].v, r.p[j].v));
            shared = next_shared(&l, &r, j + 1);
            i++;
            j++;
            continue;
        }
        if (i < l.n && j < r.n && index_find(&r, &l.p[i].pe) && shared < r.n &&
            sw_pe_cmp(&r.p[shared].pe, &l.p[i].pe) != 0) {
            i++; /* shared, but its turn comes where the configuration has it */
            continue;
        }
        if (i < l.n && !index_find(&r, &l.p[i].pe)) {
            sw_json_push(c->arena, out, merge(c, item(p), l.p[i].v, NULL));
            i++;
            continue;
        }
        if (j < r.n) {
            const struct entry *e = index_find(&l, &r.p[j].pe);

            sw_json_push(c->arena, out, merge(c, item(p), e ? e->v : NULL, r.p[j].v));
            if (shared == j)
                shared = next_shared(&l, &r, j + 1);
            j++;
        } else {
            i++; /* already placed */
        }
    }
    return out;
}

static struct sw_json *merge(const struct sw_smd *c, struct place p, const struct sw_json *x,
                             const struct sw_json *y)
{
    struct kind k = kind_of(p, y ? y : x, x);

    if (k.shape == SHAPE_SCALAR || k.atomic || (empty(x, k.shape) && empty(y, k.shape)) ||
        (y && shape_of(y) != k.shape))
        return sw_json_copy(c->arena, y ? y : x);
    if (x && shape_of(x) != k.shape)
        x = NULL;
    return k.shape == SHAPE_MAP ? merge_maps(c, p, x, y) : merge_lists(c, p, x, y);
}

struct sw_json *sw_smd_merge(const struct sw_smd *ctx, const struct sw_json *live,
                             const struct sw_json *config)
{
    return merge(ctx, root_place(ctx), live, config);
}

/* ---- remove ---- */

static struct sw_json *remove_items(const struct sw_smd *c, struct place p, const struct sw_json *v,
                                    const struct sw_fset *set);

static struct sw_json *remove_from_map(const struct sw_smd *c, struct place p,
                                       const struct sw_json *v, const struct sw_fset *set)
{
    struct sw_json *out = sw_json_new_object(c->arena);

    for (size_t i = 0; i < sw_json_len(v); i++) {
        const struct sw_json_member *m = sw_json_member_at(v, i);
        struct sw_pe pe = field_pe(m->key);
        const struct sw_fset_node *n = sw_fset_get(set, &pe);
        struct sw_json *x;
        struct place q;
        bool declared;

        if (n && n->member)
            continue;
        (void)child(c, p, m->key, &q, &declared);
        x = n && n->kids ? remove_items(c, q, m->value, n->kids) : sw_json_copy(c->arena, m->value);
        if (x)
            sw_json_set(c->arena, out, m->key, x);
    }
    return sw_json_len(out) ? out : NULL;
}

static struct sw_json *remove_from_list(const struct sw_smd *c, struct place p,
                                        const struct sw_json *v, const struct sw_fset *set)
{
    struct sw_json *out = sw_json_new_array(c->arena);
    const char *why;

    for (size_t i = 0; i < sw_json_len(v); i++) {
        const struct sw_fset_node *n = NULL;
        struct sw_json *x = sw_json_at(v, i);
        struct sw_pe pe;

        if (item_pe(c, p.s, x, &pe, &why))
            n = sw_fset_get(set, &pe);
        if (n && n->member)
            continue;
        x = n && n->kids ? remove_items(c, item(p), x, n->kids) : sw_json_copy(c->arena, x);
        if (x)
            sw_json_push(c->arena, out, x);
    }
    return sw_json_len(out) ? out : NULL;
}

static struct sw_json *remove_items(const struct sw_smd *c, struct place p, const struct sw_json *v,
                                    const struct sw_fset *set)
{
    struct kind k = kind_of(p, v, NULL);

    if (k.atomic || k.shape == SHAPE_SCALAR || shape_of(v) != k.shape || !sw_json_len(v))
        return sw_json_copy(c->arena, v);
    return k.shape == SHAPE_MAP ? remove_from_map(c, p, v, set) : remove_from_list(c, p, v, set);
}

struct sw_json *sw_smd_remove(const struct sw_smd *ctx, const struct sw_json *v,
                              const struct sw_fset *set)
{
    return remove_items(ctx, root_place(ctx), v, set);
}

/* ---- named fields ---- */

static struct sw_fset *named(const struct sw_smd *c, struct place p, const struct sw_fset *set)
{
    struct sw_fset *out = sw_fset_new(c->arena);

    for (size_t i = 0; set && i < set->n; i++) {
        const struct sw_fset_node *n = &set->p[i];
        struct sw_fset_node *m = sw_fset_at(c->arena, out, &n->pe);
        struct place q = item(p);
        bool declared = false;

        if (n->pe.kind == SW_PE_FIELD)
            (void)child(c, p, n->pe.name, &q, &declared);
        m->member = n->member || (declared && n->kids && n->pe.kind == SW_PE_FIELD);
        m->kids = n->kids ? named(c, q, n->kids) : NULL;
    }
    return out;
}

struct sw_fset *sw_smd_named(const struct sw_smd *ctx, const struct sw_fset *set)
{
    return named(ctx, root_place(ctx), set);
}

/* ---- type checks ---- */

struct typed {
    const struct sw_smd *c;
    struct sw_texts out;
};

static void typed_error(struct typed *t, const char *path, const char *text)
{
    if (t->out.n < 50)
        sw_texts_add(&t->out, sw_arena_printf(t->c->arena, "%s: %s", path, text));
}

static void check_typed(struct typed *t, struct place p, const struct sw_json *v, const char *path);

static void check_typed_list(struct typed *t, struct place p, const struct sw_json *v,
                             const char *path)
{
    bool atomic = untyped(p.s) || p.s->list_type == SW_LIST_ATOMIC;
    struct index x = {0};

    if (!atomic)
        index_list(t->c, p.s, v, &x);

    for (size_t i = 0; i < sw_json_len(v); i++) {
        struct sw_pe pe = {.kind = SW_PE_INDEX, .index = i};
        const char *why = NULL;

        if (!atomic && !item_pe(t->c, p.s, sw_json_at(v, i), &pe, &why)) {
            typed_error(t, path, sw_arena_printf(t->c->arena, "element %zu: %s", i, why));
            continue;
        }
        /* The index keeps the first of equal items: another value pointer is a repetition. */
        if (!atomic && index_find(&x, &pe)->v != sw_json_at(v, i))
            typed_error(t, path,
                        sw_arena_printf(t->c->arena, "duplicate entries for key %s",
                                        sw_pe_text(t->c->arena, &pe)));
        check_typed(t, item(p), sw_json_at(v, i),
                    sw_arena_printf(t->c->arena, "%s%s", path, sw_pe_text(t->c->arena, &pe)));
    }
}

static void check_typed_map(struct typed *t, struct place p, const struct sw_json *v,
                            const char *path)
{
    for (size_t i = 0; i < sw_json_len(v); i++) {
        const struct sw_json_member *m = sw_json_member_at(v, i);
        const char *at = sw_arena_printf(t->c->arena, "%s.%.*s", path, SW_SLICE_ARG(m->key));
        struct place q;
        bool declared;

        if (child(t->c, p, m->key, &q, &declared))
            check_typed(t, q, m->value, at);
        else
            typed_error(t, at, "field not declared in schema");
    }
}

static void check_typed(struct typed *t, struct place p, const struct sw_json *v, const char *path)
{
    const char *want = NULL;

    if (v->type == SW_JSON_NULL)
        return;
    if (untyped(p.s)) {
        if (v->type == SW_JSON_OBJECT)
            check_typed_map(t, p, v, path);
        return;
    }
    if (p.s->type == SW_T_OBJECT && v->type == SW_JSON_OBJECT) {
        check_typed_map(t, p, v, path);
        return;
    }
    if (p.s->type == SW_T_ARRAY && v->type == SW_JSON_ARRAY) {
        check_typed_list(t, p, v, path);
        return;
    }
    if (p.s->type == SW_T_OBJECT)
        want = "map";
    else if (p.s->type == SW_T_ARRAY)
        want = "list";
    else if (p.s->int_or_string)
        want = v->type == SW_JSON_OBJECT || v->type == SW_JSON_ARRAY ? "scalar" : NULL;
    else if (p.s->type == SW_T_STRING && v->type != SW_JSON_STRING)
        want = "string";
    else if (p.s->type == SW_T_BOOLEAN && v->type != SW_JSON_BOOL)
        want = "boolean";
    else if ((p.s->type == SW_T_INTEGER || p.s->type == SW_T_NUMBER) && v->type != SW_JSON_NUMBER)
        want = "numeric (int or float)";
    if (want)
        typed_error(t, path,
                    sw_arena_printf(t->c->arena,
                                    "expected %s, got &value.valueUnstructured{Value:%s}", want,
                                    sw_go_value(t->c->arena, v)));
}

const char *sw_smd_typed_errors(const struct sw_smd *ctx, const struct sw_json *v)
{
    struct typed t = {.c = ctx, .out = {.arena = ctx->arena}};
    const char *all = "errors:";

    check_typed(&t, root_place(ctx), v, "");
    if (!t.out.n)
        return NULL;
    if (t.out.n == 1)
        return t.out.p[0];
    for (size_t i = 0; i < t.out.n; i++)
        all = sw_arena_printf(ctx->arena, "%s\n  %s", all, t.out.p[i]);
    return all;
}
