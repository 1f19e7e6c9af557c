/* SPDX-License-Identifier: Apache-2.0 */
/* The walks over typed values: field sets, comparison, merge, removal. */
#include "kube/apply/smd_int.h"

static struct smd_place member_place(const struct sw_smd *c, struct smd_place p,
                                     struct sw_slice key)
{
    struct smd_place q;
    bool declared;

    (void)smd_child(c, p, key, &q, &declared);
    return q;
}

/* ---- field sets ---- */

static void to_set(const struct sw_smd *c, struct smd_place p, const struct sw_json *v,
                   struct sw_fset_node *self);

static struct sw_fset *kids(const struct sw_smd *c, struct sw_fset_node *n)
{
    if (!n->kids)
        n->kids = sw_fset_new(c->arena);
    return n->kids;
}

static void map_to_set(const struct sw_smd *c, struct smd_place p, const struct sw_json *v,
                       struct sw_fset_node *self)
{
    const struct sw_json_member **all = smd_sorted_members(c, v);

    for (size_t i = 0; i < sw_json_len(v); i++) {
        const struct sw_json_member *m = all[i];
        struct sw_pe pe = smd_field_pe(m->key);
        struct sw_fset_node node = {.pe = pe};
        struct sw_fset_node *n;
        struct smd_place q;
        bool declared;

        (void)smd_child(c, p, m->key, &q, &declared);
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

static void list_to_set(const struct sw_smd *c, struct smd_place p, const struct sw_json *v,
                        struct sw_fset_node *self)
{
    struct smd_index x;

    smd_index_list(c, p.s, v, &x);
    for (size_t i = 0; i < x.n; i++) {
        struct sw_fset_node node = {.pe = x.sorted[i].pe};

        to_set(c, smd_item(p), x.sorted[i].v, &node);
        node.member = true;
        *sw_fset_at(c->arena, kids(c, self), &node.pe) = node;
    }
}

static void to_set(const struct sw_smd *c, struct smd_place p, const struct sw_json *v,
                   struct sw_fset_node *self)
{
    struct smd_kind k = smd_kind_of(p, v, NULL);

    if (k.shape == SMD_SCALAR || k.atomic)
        self->member = true;
    else if (k.shape == SMD_MAP && v->type == SW_JSON_OBJECT)
        map_to_set(c, p, v, self);
    else if (k.shape == SMD_LIST && v->type == SW_JSON_ARRAY)
        list_to_set(c, p, v, self);
}

struct sw_fset *sw_smd_fieldset(const struct sw_smd *ctx, const struct sw_json *v)
{
    struct sw_fset_node root = {0};

    to_set(ctx, smd_root(ctx), v, &root);
    return root.kids ? root.kids : sw_fset_new(ctx->arena);
}

/* ---- compare ---- */

/* Three parallel trees, built as we descend. */
struct triple {
    struct sw_fset_node added, removed, modified;
};

static void compare(const struct sw_smd *c, struct smd_place p, const struct sw_json *x,
                    const struct sw_json *y, struct triple *t);

static void keep(const struct sw_smd *c, struct sw_fset_node *up, struct sw_pe pe,
                 struct sw_fset_node *n)
{
    if (!n->member && sw_fset_empty(n->kids))
        return;
    n->pe = pe;
    *sw_fset_at(c->arena, kids(c, up), &pe) = *n;
}

static void compare_child(const struct sw_smd *c, struct smd_place p, struct sw_pe pe,
                          const struct sw_json *x, const struct sw_json *y, struct triple *up)
{
    struct triple t = {0};

    compare(c, p, x, y, &t);
    keep(c, &up->added, pe, &t.added);
    keep(c, &up->removed, pe, &t.removed);
    keep(c, &up->modified, pe, &t.modified);
}

static void compare_maps(const struct sw_smd *c, struct smd_place p, const struct sw_json *x,
                         const struct sw_json *y, struct triple *t)
{
    const struct sw_json_member **l = smd_sorted_members(c, x);
    const struct sw_json_member **r = smd_sorted_members(c, y);
    size_t nl = sw_json_is(x, SW_JSON_OBJECT) ? sw_json_len(x) : 0;
    size_t nr = sw_json_is(y, SW_JSON_OBJECT) ? sw_json_len(y) : 0;

    for (size_t i = 0, j = 0; i < nl || j < nr;) {
        int d = i == nl ? 1 : j == nr ? -1 : sw_slice_cmp(l[i]->key, r[j]->key);
        const struct sw_json_member *m = d <= 0 ? l[i] : r[j];

        compare_child(c, member_place(c, p, m->key), smd_field_pe(m->key),
                      d <= 0 ? l[i]->value : NULL, d >= 0 ? r[j]->value : NULL, t);
        i += d <= 0;
        j += d >= 0;
    }
}

static void compare_lists(const struct sw_smd *c, struct smd_place p, const struct sw_json *x,
                          const struct sw_json *y, struct triple *t)
{
    struct smd_index l, r;

    smd_index_list(c, p.s, x, &l);
    smd_index_list(c, p.s, y, &r);
    for (size_t i = 0, j = 0; i < l.n || j < r.n;) {
        int d = i == l.n ? 1 : j == r.n ? -1 : sw_pe_cmp(&l.sorted[i].pe, &r.sorted[j].pe);

        compare_child(c, smd_item(p), d <= 0 ? l.sorted[i].pe : r.sorted[j].pe,
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
static bool empty(const struct sw_json *v, enum smd_shape shape)
{
    return smd_shape_of(v) != shape || !sw_json_len(v);
}

static void compare(const struct sw_smd *c, struct smd_place p, const struct sw_json *x,
                    const struct sw_json *y, struct triple *t)
{
    struct smd_kind k = smd_kind_of(p, x, y);

    /* Untyped values that change their shape are one leaf. */
    if (smd_untyped(p.s) && x && y && smd_shape_of(x) != smd_shape_of(y) &&
        x->type != SW_JSON_NULL && y->type != SW_JSON_NULL)
        k.shape = SMD_SCALAR;
    if (k.shape == SMD_SCALAR || k.atomic || (empty(x, k.shape) && empty(y, k.shape))) {
        compare_leaf(x, y, t);
        return;
    }
    if (k.shape == SMD_MAP)
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

    compare(ctx, smd_root(ctx), old, new, &t);
    d.added = t.added.kids ? t.added.kids : sw_fset_new(ctx->arena);
    d.removed = t.removed.kids ? t.removed.kids : sw_fset_new(ctx->arena);
    d.modified = t.modified.kids ? t.modified.kids : sw_fset_new(ctx->arena);
    return d;
}

/* ---- merge ---- */

static struct sw_json *merge(const struct sw_smd *c, struct smd_place p, const struct sw_json *x,
                             const struct sw_json *y);

static struct sw_json *merge_maps(const struct sw_smd *c, struct smd_place p,
                                  const struct sw_json *x, const struct sw_json *y)
{
    struct sw_json *out = sw_json_new_object(c->arena);

    SW_JSON_MEMBERS (m, x) {
        struct smd_place q = member_place(c, p, m->key);

        sw_json_set(c->arena, out, m->key, merge(c, q, m->value, sw_json_get(y, m->key)));
    }
    SW_JSON_MEMBERS (m, y) {
        if (!sw_json_get(x, m->key))
            sw_json_set(c->arena, out, m->key,
                        merge(c, member_place(c, p, m->key), NULL, m->value));
    }
    return out;
}

/* The next item of r that l has too, from i on; r->n when there is none. */
static size_t next_shared(const struct smd_index *l, const struct smd_index *r, size_t i)
{
    while (i < r->n && !smd_index_find(l, &r->p[i].pe))
        i++;
    return i;
}

/*
 * Items only in the live list keep their place, shared items follow the configuration's order, new
 * ones go where the configuration has them.
 */
static struct sw_json *merge_lists(const struct sw_smd *c, struct smd_place p,
                                   const struct sw_json *x, const struct sw_json *y)
{
    struct sw_json *out = sw_json_new_array(c->arena);
    struct smd_index l, r;
    size_t i = 0, j = 0, shared;

    smd_index_list(c, p.s, x, &l);
    smd_index_list(c, p.s, y, &r);
    shared = next_shared(&l, &r, 0);
    while (i < l.n || j < r.n) {
        if (i < l.n && j < r.n && sw_pe_cmp(&l.p[i].pe, &r.p[j].pe) == 0) {
            sw_json_push(c->arena, out, merge(c, smd_item(p), l.p[i].v, r.p[j].v));
            shared = next_shared(&l, &r, j + 1);
            i++;
            j++;
            continue;
        }
        if (i < l.n && j < r.n && smd_index_find(&r, &l.p[i].pe) && shared < r.n &&
            sw_pe_cmp(&r.p[shared].pe, &l.p[i].pe) != 0) {
            i++; /* shared, but its turn comes where the configuration has it */
            continue;
        }
        if (i < l.n && !smd_index_find(&r, &l.p[i].pe)) {
            sw_json_push(c->arena, out, merge(c, smd_item(p), l.p[i].v, NULL));
            i++;
            continue;
        }
        if (j < r.n) {
            const struct smd_entry *e = smd_index_find(&l, &r.p[j].pe);

            sw_json_push(c->arena, out, merge(c, smd_item(p), e ? e->v : NULL, r.p[j].v));
            if (shared == j)
                shared = next_shared(&l, &r, j + 1);
            j++;
        } else {
            i++; /* already placed */
        }
    }
    return out;
}

static struct sw_json *merge(const struct sw_smd *c, struct smd_place p, const struct sw_json *x,
                             const struct sw_json *y)
{
    struct smd_kind k = smd_kind_of(p, y ? y : x, x);

    if (k.shape == SMD_SCALAR || k.atomic || (empty(x, k.shape) && empty(y, k.shape)) ||
        (y && smd_shape_of(y) != k.shape))
        return sw_json_copy(c->arena, y ? y : x);
    if (x && smd_shape_of(x) != k.shape)
        x = NULL;
    return k.shape == SMD_MAP ? merge_maps(c, p, x, y) : merge_lists(c, p, x, y);
}

struct sw_json *sw_smd_merge(const struct sw_smd *ctx, const struct sw_json *live,
                             const struct sw_json *config)
{
    return merge(ctx, smd_root(ctx), live, config);
}

/* ---- remove ---- */

static struct sw_json *remove_items(const struct sw_smd *c, struct smd_place p,
                                    const struct sw_json *v, const struct sw_fset *set);

static struct sw_json *remove_from_map(const struct sw_smd *c, struct smd_place p,
                                       const struct sw_json *v, const struct sw_fset *set)
{
    struct sw_json *out = sw_json_new_object(c->arena);

    SW_JSON_MEMBERS (m, v) {
        struct sw_pe pe = smd_field_pe(m->key);
        const struct sw_fset_node *n = sw_fset_get(set, &pe);
        struct sw_json *x;

        if (n && n->member)
            continue;
        x = n && n->kids ? remove_items(c, member_place(c, p, m->key), m->value, n->kids)
                         : sw_json_copy(c->arena, m->value);
        if (x)
            sw_json_set(c->arena, out, m->key, x);
    }
    return sw_json_len(out) ? out : NULL;
}

static struct sw_json *remove_from_list(const struct sw_smd *c, struct smd_place p,
                                        const struct sw_json *v, const struct sw_fset *set)
{
    struct sw_json *out = sw_json_new_array(c->arena);
    const char *why;

    SW_JSON_ITEMS (x, v) {
        const struct sw_fset_node *n = NULL;
        struct sw_pe pe;

        if (smd_item_pe(c, p.s, x, &pe, &why))
            n = sw_fset_get(set, &pe);
        if (n && n->member)
            continue;
        x = n && n->kids ? remove_items(c, smd_item(p), x, n->kids) : sw_json_copy(c->arena, x);
        if (x)
            sw_json_push(c->arena, out, x);
    }
    return sw_json_len(out) ? out : NULL;
}

static struct sw_json *remove_items(const struct sw_smd *c, struct smd_place p,
                                    const struct sw_json *v, const struct sw_fset *set)
{
    struct smd_kind k = smd_kind_of(p, v, NULL);

    if (k.atomic || k.shape == SMD_SCALAR || smd_shape_of(v) != k.shape || !sw_json_len(v))
        return sw_json_copy(c->arena, v);
    return k.shape == SMD_MAP ? remove_from_map(c, p, v, set) : remove_from_list(c, p, v, set);
}

struct sw_json *sw_smd_remove(const struct sw_smd *ctx, const struct sw_json *v,
                              const struct sw_fset *set)
{
    return remove_items(ctx, smd_root(ctx), v, set);
}

/* ---- named fields ---- */

static struct sw_fset *named(const struct sw_smd *c, struct smd_place p, const struct sw_fset *set)
{
    struct sw_fset *out = sw_fset_new(c->arena);

    for (size_t i = 0; set && i < set->n; i++) {
        const struct sw_fset_node *n = &set->p[i];
        struct sw_fset_node *m = sw_fset_at(c->arena, out, &n->pe);
        struct smd_place q = smd_item(p);
        bool declared = false;

        if (n->pe.kind == SW_PE_FIELD)
            (void)smd_child(c, p, n->pe.name, &q, &declared);
        m->member = n->member || (declared && n->kids && n->pe.kind == SW_PE_FIELD);
        m->kids = n->kids ? named(c, q, n->kids) : NULL;
    }
    return out;
}

struct sw_fset *sw_smd_named(const struct sw_smd *ctx, const struct sw_fset *set)
{
    return named(ctx, smd_root(ctx), set);
}
