/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of field paths; see fieldset.h. */
#include "kube/apply/fieldset.h"

#include <stdlib.h>

#include "kube/errs.h"

enum { DECODE_DEPTH_MAX = 200 };

/* ---- elements ---- */

/* numbers, strings, booleans, lists, maps, null */
static int rank(const struct sw_json *v)
{
    switch (v->type) {
    case SW_JSON_NUMBER:
        return 0;
    case SW_JSON_STRING:
        return 1;
    case SW_JSON_BOOL:
        return 2;
    case SW_JSON_ARRAY:
        return 3;
    case SW_JSON_OBJECT:
        return 4;
    case SW_JSON_NULL:
        break;
    }
    return 5;
}

static int cmp_value(const struct sw_json *x, const struct sw_json *y)
{
    size_t n;
    int c = rank(x) - rank(y);

    if (c)
        return c;
    switch (x->type) {
    case SW_JSON_NUMBER:
        return sw_json_number_cmp(x->text, y->text);
    case SW_JSON_STRING:
        return sw_slice_cmp(x->text, y->text);
    case SW_JSON_BOOL:
        return x->boolean - y->boolean;
    case SW_JSON_ARRAY:
    case SW_JSON_OBJECT:
        n = sw_min(sw_json_len(x), sw_json_len(y));
        for (size_t i = 0; i < n && !c; i++) {
            if (x->type == SW_JSON_ARRAY) {
                c = cmp_value(sw_json_at(x, i), sw_json_at(y, i));
            } else {
                c = sw_slice_cmp(x->obj.members[i].key, y->obj.members[i].key);
                if (!c)
                    c = cmp_value(x->obj.members[i].value, y->obj.members[i].value);
            }
        }
        if (c)
            return c;
        return (sw_json_len(x) > sw_json_len(y)) - (sw_json_len(x) < sw_json_len(y));
    case SW_JSON_NULL:
        break;
    }
    return 0;
}

int sw_pe_cmp(const struct sw_pe *x, const struct sw_pe *y)
{
    if (x->kind != y->kind)
        return (int)x->kind - (int)y->kind;
    switch (x->kind) {
    case SW_PE_FIELD:
        return sw_slice_cmp(x->name, y->name);
    case SW_PE_KEY:
    case SW_PE_VALUE:
        return cmp_value(x->json, y->json);
    case SW_PE_INDEX:
        break;
    }
    return (x->index > y->index) - (x->index < y->index);
}

static const char *value_text(struct sw_arena *a, const struct sw_json *v)
{
    return v->type == SW_JSON_STRING ? sw_go_quote(a, v->text) : sw_json_text(a, v, NULL).p;
}

const char *sw_pe_text(struct sw_arena *a, const struct sw_pe *pe)
{
    const char *out = "";

    switch (pe->kind) {
    case SW_PE_FIELD:
        return sw_arena_printf(a, ".%.*s", SW_SLICE_ARG(pe->name));
    case SW_PE_KEY:
        for (size_t i = 0; i < sw_json_len(pe->json); i++) {
            const struct sw_json_member *m = sw_json_member_at(pe->json, i);

            out = sw_arena_printf(a, "%s%s%.*s=%s", out, i ? "," : "", SW_SLICE_ARG(m->key),
                                  value_text(a, m->value));
        }
        return sw_arena_printf(a, "[%s]", out);
    case SW_PE_VALUE:
        return sw_arena_printf(a, "[=%s]", value_text(a, pe->json));
    case SW_PE_INDEX:
        break;
    }
    return sw_arena_printf(a, "[%llu]", (unsigned long long)pe->index);
}

/* ---- sets ---- */

struct sw_fset *sw_fset_new(struct sw_arena *a)
{
    return SW_ARENA_NEW(a, struct sw_fset);
}

/* Where pe stands or would stand. */
static size_t locate(const struct sw_fset *s, const struct sw_pe *pe, bool *ret_found)
{
    size_t lo = 0;
    size_t hi = s->n;

    *ret_found = false;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        int c = sw_pe_cmp(&s->p[mid].pe, pe);

        if (c == 0) {
            *ret_found = true;
            return mid;
        }
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

struct sw_fset_node *sw_fset_get(const struct sw_fset *s, const struct sw_pe *pe)
{
    bool found = false;
    size_t i = s ? locate(s, pe, &found) : 0;

    return found ? &s->p[i] : NULL;
}

struct sw_fset_node *sw_fset_at(struct sw_arena *a, struct sw_fset *s, const struct sw_pe *pe)
{
    bool found;
    size_t i = locate(s, pe, &found);

    if (found)
        return &s->p[i];
    s->p = sw_arena_grow(a, s->p, s->n, &s->cap, sizeof(*s->p));
    memmove(&s->p[i + 1], &s->p[i], (s->n - i) * sizeof(*s->p));
    s->p[i] = (struct sw_fset_node){.pe = *pe};
    s->n++;
    return &s->p[i];
}

bool sw_fset_empty(const struct sw_fset *s)
{
    for (size_t i = 0; s && i < s->n; i++) {
        if (s->p[i].member || !sw_fset_empty(s->p[i].kids))
            return false;
    }
    return true;
}

static void put(struct sw_arena *a, struct sw_fset *s, struct sw_pe pe, bool member,
                struct sw_fset *kids)
{
    if (!member && sw_fset_empty(kids))
        return;
    s->p = sw_arena_grow(a, s->p, s->n, &s->cap, sizeof(*s->p));
    s->p[s->n++] = (struct sw_fset_node){
        .pe = pe, .member = member, .kids = sw_fset_empty(kids) ? NULL : kids};
}

enum op { OP_UNION, OP_INTERSECT, OP_MINUS, OP_MINUS_DEEP };

static struct sw_fset *combine(struct sw_arena *a, enum op op, struct sw_fset *x, struct sw_fset *y)
{
    struct sw_fset *out = sw_fset_new(a);
    size_t i = 0, j = 0;
    size_t nx = x ? x->n : 0;
    size_t ny = y ? y->n : 0;

    while (i < nx || j < ny) {
        int c = i == nx ? 1 : j == ny ? -1 : sw_pe_cmp(&x->p[i].pe, &y->p[j].pe);
        const struct sw_fset_node *p = c <= 0 ? &x->p[i] : NULL;
        const struct sw_fset_node *q = c >= 0 ? &y->p[j] : NULL;

        i += p != NULL;
        j += q != NULL;
        if (p && q) {
            bool member = op == OP_UNION       ? p->member || q->member
                          : op == OP_INTERSECT ? p->member && q->member
                                               : p->member && !q->member;
            struct sw_fset *kids =
                op == OP_MINUS_DEEP && q->member ? NULL : combine(a, op, p->kids, q->kids);

            put(a, out, p->pe, member, kids);
        } else if (p && op != OP_INTERSECT) {
            put(a, out, p->pe, p->member, p->kids);
        } else if (q && op == OP_UNION) {
            put(a, out, q->pe, q->member, q->kids);
        }
    }
    return out;
}

/* Operands are only read; the cast is inside the persistent structure. */
static struct sw_fset *ro(const struct sw_fset *s)
{
    union {
        const struct sw_fset *c;
        struct sw_fset *m;
    } u = {.c = s};

    return u.m;
}

struct sw_fset *sw_fset_union(struct sw_arena *a, const struct sw_fset *x, const struct sw_fset *y)
{
    return combine(a, OP_UNION, ro(x), ro(y));
}

struct sw_fset *sw_fset_intersect(struct sw_arena *a, const struct sw_fset *x,
                                  const struct sw_fset *y)
{
    return combine(a, OP_INTERSECT, ro(x), ro(y));
}

struct sw_fset *sw_fset_minus(struct sw_arena *a, const struct sw_fset *x, const struct sw_fset *y)
{
    return combine(a, OP_MINUS, ro(x), ro(y));
}

struct sw_fset *sw_fset_minus_deep(struct sw_arena *a, const struct sw_fset *x,
                                   const struct sw_fset *y)
{
    return combine(a, OP_MINUS_DEEP, ro(x), ro(y));
}

bool sw_fset_equal(const struct sw_fset *x, const struct sw_fset *y)
{
    size_t nx = x ? x->n : 0;
    size_t ny = y ? y->n : 0;

    if (nx != ny)
        return false;
    for (size_t i = 0; i < nx; i++) {
        if (sw_pe_cmp(&x->p[i].pe, &y->p[i].pe) != 0 || x->p[i].member != y->p[i].member ||
            !sw_fset_equal(x->p[i].kids, y->p[i].kids))
            return false;
    }
    return true;
}

void sw_fset_each(struct sw_arena *a, const struct sw_fset *s, const char *prefix,
                  void (*f)(void *arg, const char *path), void *arg)
{
    for (size_t i = 0; s && i < s->n; i++) {
        if (s->p[i].member)
            f(arg, sw_arena_printf(a, "%s%s", prefix, sw_pe_text(a, &s->p[i].pe)));
    }
    for (size_t i = 0; s && i < s->n; i++) {
        if (s->p[i].kids)
            sw_fset_each(a, s->p[i].kids,
                         sw_arena_printf(a, "%s%s", prefix, sw_pe_text(a, &s->p[i].pe)), f, arg);
    }
}

/* ---- FieldsV1 ---- */

static bool decode_pe(struct sw_arena *a, struct sw_slice key, struct sw_pe *ret)
{
    struct sw_slice rest = sw_slice_from(key, 2);
    struct sw_json *v;

    if (key.n < 2 || key.p[1] != ':')
        return false;
    *ret = (struct sw_pe){.kind = SW_PE_FIELD, .name = rest};
    switch (key.p[0]) {
    case 'f':
        return true;
    case 'k':
    case 'v':
        if (sw_json_parse(a, rest, NULL, &v, NULL) < 0)
            return false;
        ret->kind = key.p[0] == 'k' ? SW_PE_KEY : SW_PE_VALUE;
        if (ret->kind == SW_PE_KEY && (v->type != SW_JSON_OBJECT || !sw_json_len(v)))
            return false;
        if (v->type == SW_JSON_OBJECT)
            sw_json_sort_members(v);
        ret->json = v;
        return true;
    case 'i':
        ret->kind = SW_PE_INDEX;
        return sw_slice_to_u64(rest, UINT64_MAX, &ret->index);
    default:
        return false;
    }
}

static int by_pe(const void *x, const void *y)
{
    const struct sw_fset_node *p = x;
    const struct sw_fset_node *q = y;

    return sw_pe_cmp(&p->pe, &q->pe);
}

static struct sw_fset *decode(struct sw_arena *a, const struct sw_json *v, unsigned depth)
{
    struct sw_fset *s = sw_fset_new(a);
    size_t n = 0;

    if (!sw_json_is(v, SW_JSON_OBJECT) || depth >= DECODE_DEPTH_MAX)
        return s;
    s->cap = sw_json_len(v) + 1;
    s->p = sw_arena_array(a, s->cap, sizeof(*s->p));
    SW_JSON_MEMBERS (m, v) {
        struct sw_fset_node node = {0};

        if (!decode_pe(a, m->key, &node.pe))
            continue;
        node.kids = decode(a, m->value, depth + 1);
        if (sw_fset_empty(node.kids))
            node.kids = NULL;
        node.member = !node.kids || sw_json_find(m->value, ".");
        s->p[n++] = node;
    }
    qsort(s->p, n, sizeof(*s->p), by_pe);
    /* Two spellings of one element ("k:" objects) become one node. */
    for (size_t i = 0; i < n; i++) {
        struct sw_fset_node *last = s->n ? &s->p[s->n - 1] : NULL;

        if (last && sw_pe_cmp(&last->pe, &s->p[i].pe) == 0) {
            last->member = last->member || s->p[i].member;
            if (s->p[i].kids)
                last->kids = sw_fset_union(a, last->kids, s->p[i].kids);
        } else {
            s->p[s->n++] = s->p[i];
        }
    }
    return s;
}

struct sw_fset *sw_fset_decode(struct sw_arena *a, const struct sw_json *v)
{
    return decode(a, v, 0);
}

static struct sw_slice encode_pe(struct sw_arena *a, const struct sw_pe *pe)
{
    const char *text = NULL;

    switch (pe->kind) {
    case SW_PE_FIELD:
        text = sw_arena_printf(a, "f:%.*s", SW_SLICE_ARG(pe->name));
        return sw_slice(text, pe->name.n + 2);
    case SW_PE_KEY:
        text = sw_arena_printf(a, "k:%s", sw_json_text(a, pe->json, NULL).p);
        break;
    case SW_PE_VALUE:
        text = sw_arena_printf(a, "v:%s", sw_json_text(a, pe->json, NULL).p);
        break;
    case SW_PE_INDEX:
        text = sw_arena_printf(a, "i:%llu", (unsigned long long)pe->index);
        break;
    }
    return sw_slice_str(text);
}

struct sw_json *sw_fset_encode(struct sw_arena *a, const struct sw_fset *s)
{
    struct sw_json *v = sw_json_new_object(a);

    for (size_t i = 0; s && i < s->n; i++) {
        const struct sw_fset_node *n = &s->p[i];
        struct sw_json *kids = sw_fset_encode(a, n->kids);

        if (n->member && sw_json_len(kids))
            sw_json_insert(a, kids, 0, SW_SLICE_LIT("."), sw_json_new_object(a));
        sw_json_set(a, v, encode_pe(a, &n->pe), kids);
    }
    return v;
}
