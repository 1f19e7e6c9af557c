/* SPDX-License-Identifier: Apache-2.0 */
/* The owners of fields: read from managedFields and written to it, and fields without an owner. */
#include "kube/apply/managed_int.h"

#include <stdlib.h>

void managed_add(struct managed_owners *o, struct managed_owner x)
{
    o->p = sw_arena_grow(o->a, o->p, o->n, &o->cap, sizeof(*o->p));
    o->p[o->n++] = x;
}

bool managed_same(const struct managed_owner *x, const struct managed_owner *y)
{
    return x->applied == y->applied && sw_slice_eq(x->manager, y->manager) &&
           sw_slice_eq(x->subresource, y->subresource) &&
           (x->applied || sw_slice_eq(x->api_version, y->api_version));
}

struct managed_owner *managed_find(const struct managed_owners *o, const struct managed_owner *x)
{
    for (size_t i = 0; i < o->n; i++) {
        if (managed_same(&o->p[i], x))
            return &o->p[i];
    }
    return NULL;
}

void managed_decode(struct sw_arena *a, const struct sw_json *list, struct managed_owners *ret)
{
    *ret = (struct managed_owners){.a = a};
    SW_JSON_ITEMS (e, list) {
        struct managed_owner x = {.manager = sw_field_text(e, "manager"),
                                  .api_version = sw_field_text(e, "apiVersion"),
                                  .subresource = sw_field_text(e, "subresource"),
                                  .time = sw_field_text(e, "time"),
                                  .applied = sw_json_str_eq(sw_json_find(e, "operation"), "Apply")};
        struct managed_owner *old;

        if (!sw_json_is(sw_json_find(e, "fieldsV1"), SW_JSON_OBJECT))
            continue;
        x.set = sw_fset_decode(a, sw_json_find(e, "fieldsV1"));
        old = managed_find(ret, &x);
        if (old)
            *old = x;
        else
            managed_add(ret, x);
    }
}

int managed_cmp(const void *x, const void *y)
{
    const struct managed_owner *p = x;
    const struct managed_owner *q = y;
    int c;

    if (p->applied != q->applied)
        return p->applied ? -1 : 1; /* "Apply" before "Update" */
    if ((c = sw_slice_cmp(p->time, q->time)))
        return c;
    if ((c = sw_slice_cmp(p->manager, q->manager)))
        return c;
    if ((c = sw_slice_cmp(p->api_version, q->api_version)))
        return c;
    return sw_slice_cmp(p->subresource, q->subresource);
}

static struct sw_json *encode_owners(struct managed_owners *o)
{
    struct sw_json *list = sw_json_new_array(o->a);

    qsort(o->p, o->n, o->n ? sizeof(*o->p) : 1, managed_cmp);
    for (size_t i = 0; i < o->n; i++) {
        const struct managed_owner *x = &o->p[i];
        struct sw_json *e = sw_json_new_object(o->a);

        sw_json_put_str(o->a, e, "manager", x->manager);
        sw_json_put(o->a, e, "operation", sw_json_new_str(o->a, x->applied ? "Apply" : "Update"));
        sw_json_put_str(o->a, e, "apiVersion", x->api_version);
        if (x->time.n)
            sw_json_put_str(o->a, e, "time", x->time);
        sw_json_put(o->a, e, "fieldsType", sw_json_new_str(o->a, "FieldsV1"));
        sw_json_put(o->a, e, "fieldsV1", sw_fset_encode(o->a, x->set));
        if (x->subresource.n)
            sw_json_put_str(o->a, e, "subresource", x->subresource);
        sw_json_push(o->a, list, e);
    }
    return list;
}

void managed_store(struct sw_arena *a, struct sw_json *obj, struct managed_owners *o)
{
    struct sw_json *meta = sw_json_need(a, obj, "metadata", SW_JSON_OBJECT);

    (void)sw_json_remove(meta, SW_SLICE_LIT("managedFields"));
    if (o->n)
        sw_json_put(a, meta, "managedFields", encode_owners(o));
}

void managed_drop_empty(struct managed_owners *o)
{
    size_t n = 0;

    for (size_t i = 0; i < o->n; i++) {
        if (!sw_fset_empty(o->p[i].set))
            o->p[n++] = o->p[i];
    }
    o->n = n;
}

struct sw_json *managed_strip(struct sw_arena *a, const struct sw_json *v)
{
    struct sw_json *out = sw_json_new_object(a);

    SW_JSON_MEMBERS (m, v) {
        struct sw_json *x = m->value;

        if (sw_slice_eq_str(m->key, "metadata") && x->type == SW_JSON_OBJECT) {
            x = sw_json_new_object(a);
            SW_JSON_MEMBERS (k, m->value) {
                if (!sw_slice_eq_str(k->key, "managedFields"))
                    sw_json_set(a, x, k->key, k->value);
            }
        }
        sw_json_set(a, out, m->key, x);
    }
    return out;
}

/* ---- sets that are never owned ---- */

static struct sw_fset *path_set(struct sw_arena *a, const char *const *paths)
{
    struct sw_fset *s = sw_fset_new(a);

    for (; *paths; paths++) {
        struct sw_slice rest = sw_slice_str(*paths);
        struct sw_fset *at = s;

        for (;;) {
            struct sw_pe pe = {.kind = SW_PE_FIELD, .name = sw_slice_cut(&rest, '.')};
            struct sw_fset_node *n = sw_fset_at(a, at, &pe);

            if (!rest.p) {
                n->member = true;
                break;
            }
            if (!n->kids)
                n->kids = sw_fset_new(a);
            at = n->kids;
        }
    }
    return s;
}

struct sw_fset *managed_never_owned(struct sw_arena *a)
{
    static const char *const paths[] = {"apiVersion",
                                        "kind",
                                        "metadata",
                                        "metadata.name",
                                        "metadata.namespace",
                                        "metadata.creationTimestamp",
                                        "metadata.selfLink",
                                        "metadata.uid",
                                        "metadata.clusterName",
                                        "metadata.generation",
                                        "metadata.managedFields",
                                        "metadata.resourceVersion",
                                        NULL};

    return path_set(a, paths);
}

const struct sw_fset *managed_without_reset(const struct sw_smd *c, const struct sw_fset *s)
{
    return c->reset ? sw_fset_minus_deep(c->arena, s, path_set(c->arena, c->reset)) : s;
}

struct sw_smd_diff managed_diff(const struct sw_smd *c, const struct sw_json *old,
                                const struct sw_json *new)
{
    struct sw_smd_diff d = sw_smd_compare(c, old, new);

    if (c->reset) {
        struct sw_fset *r = path_set(c->arena, c->reset);

        d.added = sw_fset_minus_deep(c->arena, d.added, r);
        d.removed = sw_fset_minus_deep(c->arena, d.removed, r);
        d.modified = sw_fset_minus_deep(c->arena, d.modified, r);
    }
    return d;
}
