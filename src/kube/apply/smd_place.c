/* SPDX-License-Identifier: Apache-2.0 */
/* Where a value is in its schema, and the items of lists by what tells them apart. */
#include "kube/apply/smd_int.h"

#include <stdlib.h>

#include "base/search.h"

struct smd_kind smd_kind_of(struct smd_place p, const struct sw_json *x, const struct sw_json *y)
{
    const struct sw_json *v = x && x->type != SW_JSON_NULL ? x : y;

    if (smd_untyped(p.s)) {
        struct smd_kind k = {smd_shape_of(v), smd_shape_of(v) == SMD_LIST};

        return k;
    }
    if (p.s->type == SW_T_OBJECT)
        return (struct smd_kind){SMD_MAP, p.s->map_atomic};
    if (p.s->type == SW_T_ARRAY)
        return (struct smd_kind){SMD_LIST, p.s->list_type == SW_LIST_ATOMIC};
    return (struct smd_kind){SMD_SCALAR, false};
}

bool smd_child(const struct sw_smd *c, struct smd_place p, struct sw_slice key,
               struct smd_place *ret, bool *ret_declared)
{
    const struct sw_schema *s;

    *ret = (struct smd_place){0};
    *ret_declared = true;
    if (p.root) {
        if (sw_slice_eq_str(key, "metadata")) {
            ret->s = c->metadata;
            return true;
        }
        if (sw_slice_eq_str(key, "apiVersion") || sw_slice_eq_str(key, "kind"))
            return true;
    }
    s = smd_untyped(p.s) ? NULL : sw_schema_declared(p.s, key);
    if (s) {
        ret->s = s;
        return true;
    }
    *ret_declared = false;
    if (smd_untyped(p.s) || p.s->preserve || p.s->additional_any || p.s->embedded)
        return true;
    ret->s = p.s->additional;
    return p.s->additional;
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
    sw_slice_sort(names, n);
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

bool smd_item_pe(const struct sw_smd *c, const struct sw_schema *s, const struct sw_json *v,
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

static int by_pe(const void *x, const void *y)
{
    const struct smd_entry *p = x;
    const struct smd_entry *q = y;
    int c = sw_pe_cmp(&p->pe, &q->pe);

    return c ? c : (p->pe.index > q->pe.index) - (p->pe.index < q->pe.index);
}

static int only_pe(const void *x, const void *y)
{
    const struct smd_entry *p = x;
    const struct smd_entry *q = y;

    return sw_pe_cmp(&p->pe, &q->pe);
}

const struct smd_entry *smd_index_find(const struct smd_index *x, const struct sw_pe *pe)
{
    struct smd_entry key = {.pe = *pe};

    return x->n ? bsearch(&key, x->sorted, x->n, sizeof(key), only_pe) : NULL;
}

void smd_index_list(const struct sw_smd *c, const struct sw_schema *s, const struct sw_json *v,
                    struct smd_index *ret)
{
    size_t len = sw_json_is(v, SW_JSON_ARRAY) ? sw_json_len(v) : 0;
    struct smd_entry *all = sw_arena_array(c->arena, len + 1, sizeof(*all));
    bool *first = sw_arena_array(c->arena, len + 1, sizeof(*first));
    size_t n = 0;
    const char *why;

    for (size_t i = 0; i < len; i++) {
        struct smd_entry e = {.v = sw_json_at(v, i)};

        if (!smd_item_pe(c, s, e.v, &e.pe, &why))
            continue;
        e.pe.index = n;
        all[n++] = e;
    }
    *ret = (struct smd_index){.sorted = sw_arena_array(c->arena, n + 1, sizeof(*all))};
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

const struct sw_json_member **smd_sorted_members(const struct sw_smd *c, const struct sw_json *v)
{
    size_t n = sw_json_is(v, SW_JSON_OBJECT) ? sw_json_len(v) : 0;
    const struct sw_json_member **m = sw_arena_array(c->arena, n + 1, sizeof(const void *));

    for (size_t i = 0; i < n; i++)
        m[i] = sw_json_member_at(v, i);
    SW_SORT_POINTERS_BY(m, n, key);
    return m;
}
