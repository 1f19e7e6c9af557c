/* SPDX-License-Identifier: Apache-2.0 */
/* The worst case of an expression, node by node. */
#include "kube/cel/cost.h"

#include <math.h>

#include "kube/schema/schema.h"

enum { COST_READ = 1, COST_LIST = 10, COST_MAP = 30 };

static const double text_factor = 0.1;   /* of reading one rune */
static const double regex_factor = 0.25; /* of one byte of a pattern */

static const struct cel_span unknown = {0, UINT64_MAX};

struct entry {
    bool known;
    bool map;
    struct cel_span key, val;
};

static uint64_t cost(struct cel_coster *k, struct cel_x *x);

uint64_t cel_scale(uint64_t x, double factor)
{
    double r = ceil((double)x * factor);

    return r >= 0x1p64 ? UINT64_MAX : (uint64_t)r;
}

static struct cel_span span_add(struct cel_span x, struct cel_span y)
{
    return (struct cel_span){cel_add(x.min, y.min), cel_add(x.max, y.max)};
}

static struct cel_span span_union(struct cel_span x, struct cel_span y)
{
    return (struct cel_span){sw_min(x.min, y.min), sw_max(x.max, y.max)};
}

struct cel_path cel_path_add(struct sw_arena *a, const struct cel_path *path, struct sw_slice name)
{
    struct cel_path r = *path;

    if (r.n == r.cap) {
        r.cap = r.cap ? r.cap * 2 : 1;
        r.p = sw_arena_array(a, r.cap, sizeof(*r.p));
        for (size_t i = 0; i < r.n; i++)
            r.p[i] = path->p[i];
    }
    r.p[r.n++] = name;
    return r;
}

/* ---- what is known of a node ---- */

static const struct cel_local *find_local(const struct cel_coster *k, struct sw_slice name)
{
    const struct cel_local *l = k->locals;

    while (l && !sw_slice_eq(l->name, name))
        l = l->up;
    return l;
}

static struct cel_path path_of(const struct cel_coster *k, const struct cel_x *x)
{
    const struct cel_local *l = x->kind == X_IDENT ? find_local(k, x->name) : NULL;

    return l ? l->path : x->path;
}

static bool scalar(const struct cel_type *t)
{
    if (t->k == CEL_OPTIONAL)
        return scalar(t->elem);
    return t->k == CEL_BOOL || t->k == CEL_DOUBLE || t->k == CEL_DURATION || t->k == CEL_INT ||
           t->k == CEL_TIMESTAMP || t->k == CEL_UINT;
}

/* The size that is written in the expression. */
static bool written_size(const struct cel_x *x, struct cel_span *ret)
{
    uint64_t n = 1;

    if (x->kind == X_LIST)
        n = x->nargs;
    else if (x->kind == X_MAP)
        n = x->nargs / 2;
    else if (x->kind != X_LITERAL || !x->lit)
        return false;
    else if (x->lit->k == CEL_STRING)
        n = sw_rune_count(x->lit->s);
    else if (x->lit->k == CEL_BYTES)
        n = x->lit->s.n;
    *ret = (struct cel_span){n, n};
    return true;
}

static bool size_of(struct cel_coster *k, struct cel_x *x, struct cel_span *ret)
{
    struct cel_path path = path_of(k, x);
    const struct cel_local *l;

    if (x->has_size) {
        *ret = x->size;
        return true;
    }
    if (written_size(x, ret))
        return true;
    if (cel_decl_size(k->c, &path, ret)) {
        x->has_size = true;
        x->size = *ret;
        return true;
    }
    if (scalar(x->type)) {
        *ret = (struct cel_span){1, 1};
        return true;
    }
    l = x->kind == X_IDENT ? find_local(k, x->name) : NULL;
    if (l && l->has_size)
        *ret = l->size;
    return l && l->has_size;
}

static struct cel_span size_or_unknown(struct cel_coster *k, struct cel_x *x)
{
    struct cel_span s;

    return size_of(k, x, &s) ? s : unknown;
}

static struct entry entry_of(const struct cel_coster *k, const struct cel_x *x)
{
    const struct cel_local *l = x->kind == X_IDENT ? find_local(k, x->name) : NULL;

    if (x->has_entry)
        return (struct entry){true, x->entry_map, x->entry_key, x->entry_val};
    if (l && l->has_entry)
        return (struct entry){true, l->entry_map, l->entry_key, l->entry_val};
    return (struct entry){0};
}

static void set_entry(struct cel_x *x, struct entry e)
{
    if (!e.known)
        return;
    x->has_entry = true;
    x->entry_map = e.map;
    x->entry_key = e.key;
    x->entry_val = e.val;
}

static struct entry entry_union(struct entry x, struct entry y)
{
    return (struct entry){x.known && y.known, x.map, span_union(x.key, y.key),
                          span_union(x.val, y.val)};
}

/* ---- variables ---- */

/* The element; or with 'value' the second variable, with 'key' the first of two. */
static void push_iter(struct cel_coster *k, struct cel_local *l, struct sw_slice name,
                      struct cel_x *range, bool key, bool value)
{
    struct entry e = entry_of(k, range);
    struct cel_path path = path_of(k, range);
    bool list = e.known ? !e.map : range->type->k == CEL_LIST;
    bool val = value || (!key && list);

    *l = (struct cel_local){.name = name, .up = k->locals, .has_size = e.known};
    l->size = val ? e.val : e.key;
    l->path = cel_path_add(k->a, &path,
                           sw_slice_str(val    ? list ? "@items" : "@values"
                                        : list ? "@indices"
                                               : "@keys"));
    k->locals = l;
}

static void push_value(struct cel_coster *k, struct cel_local *l, struct sw_slice name,
                       struct cel_x *x)
{
    struct entry e = entry_of(k, x);

    *l = (struct cel_local){.name = name, .up = k->locals, .path = path_of(k, x)};
    l->has_entry = e.known;
    l->entry_map = e.map;
    l->entry_key = e.key;
    l->entry_val = e.val;
    l->has_size = size_of(k, x, &l->size);
    k->locals = l;
}

/* ---- calls ---- */

static struct cel_span arg_size(const struct cel_arg *a)
{
    return a->has_size ? a->size : unknown;
}

static struct cel_arg to_arg(struct cel_coster *k, struct cel_x *x)
{
    struct cel_arg a = {.x = x, .path = path_of(k, x)};

    a.has_size = size_of(k, x, &a.size);
    return a;
}

static void sized(struct cel_call_cost *c, struct cel_span s)
{
    c->has_size = true;
    c->size = s;
}

static void add_cost(struct cel_coster *k, struct cel_x *x, enum cel_overload ov,
                     const struct cel_arg *a, struct cel_call_cost *c)
{
    struct cel_span sum = span_add(arg_size(&a[0]), arg_size(&a[1]));

    set_entry(x, entry_union(entry_of(k, a[0].x), entry_of(k, a[1].x)));
    sized(c, sum);
    c->max = ov == OV_ADD_LIST ? 1 : cel_scale(sum.max, text_factor);
}

/* Reading a text with a pattern. */
static uint64_t regex_cost(struct cel_span text, struct cel_span pattern)
{
    return cel_mul(cel_scale(cel_add(text.max, 1), text_factor),
                   cel_scale(pattern.max, regex_factor));
}

/* The price of an overload, arguments not included. */
static void overload_cost(struct cel_coster *k, struct cel_x *x, enum cel_overload ov,
                          const struct cel_arg *target, const struct cel_arg *a,
                          struct cel_call_cost *c)
{
    struct cel_span s = x->nargs ? arg_size(&a[0]) : unknown;
    struct cel_span t = x->target ? arg_size(target) : unknown;

    c->max = 1;
    switch (ov) {
    case OV_EQUAL:
    case OV_ORDER:
        c->max = cel_scale(sw_min(s.max, arg_size(&a[1]).max), text_factor);
        break;
    case OV_ADD_TEXT:
    case OV_ADD_LIST:
        add_cost(k, x, ov, a, c);
        break;
    case OV_IN_LIST:
        c->max = cel_scale(arg_size(&a[1]).max, 1);
        break;
    case OV_LOGIC:
        c->max = 0;
        break;
    case OV_COND:
        c->max = 0;
        sized(c, span_union(arg_size(&a[1]), arg_size(&a[2])));
        set_entry(x, entry_union(entry_of(k, a[1].x), entry_of(k, a[2].x)));
        break;
    case OV_MATCHES:
        c->max = regex_cost(t, s);
        break;
    case OV_CONTAINS:
        c->max = cel_mul(cel_scale(t.max, text_factor), cel_scale(s.max, text_factor));
        break;
    case OV_AFFIX:
        c->max = cel_scale(s.max, text_factor);
        break;
    case OV_FORMAT:
        c->max = cel_scale(t.max, text_factor);
        break;
    case OV_TO_BYTES:
        c->max = cel_scale(s.max, text_factor);
        sized(c, (struct cel_span){s.min, s.max * 4});
        break;
    case OV_TO_STRING:
        c->max = cel_scale(s.max, text_factor);
        sized(c, (struct cel_span){s.min / 4, s.max});
        break;
    case OV_QUOTE:
        c->max = cel_scale(s.max, text_factor);
        sized(c, (struct cel_span){s.min + 2, s.max * 2 + 2});
        break;
    case OV_OTHER:
    case OV_INDEX_LIST:
    case OV_INDEX_MAP:
    case OV_NET_TEXT:
    case OV_SETS:
    case OV_SETS_TWICE:
        break;
    }
}

/* All arguments are evaluated, or the longer one of two branches. */
static uint64_t args_cost(enum cel_overload ov, const uint64_t *costs, size_t n)
{
    uint64_t sum = 0;

    if (ov == OV_COND)
        return cel_add(costs[0], sw_max(costs[1], costs[2]));
    for (size_t i = 0; i < n; i++)
        sum = cel_add(sum, costs[i]);
    return sum;
}

/* What an index makes known about the element it finds. */
static void note_index(struct cel_coster *k, struct cel_x *x, enum cel_overload ov,
                       struct cel_call_cost *c)
{
    struct cel_path path;
    struct entry e;

    if (ov != OV_INDEX_LIST && ov != OV_INDEX_MAP)
        return;
    path = path_of(k, x->args[0]);
    e = entry_of(k, x->args[0]);
    c->has_size = e.known;
    c->size = e.val;
    x->path = cel_path_add(k->a, &path, sw_slice_str(ov == OV_INDEX_LIST ? "@items" : "@values"));
}

static uint64_t cost_call(struct cel_coster *k, struct cel_x *x)
{
    struct cel_arg *args = sw_arena_array(k->a, x->nargs + 1, sizeof(*args));
    uint64_t *costs = sw_arena_array(k->a, x->nargs + 1, sizeof(*costs));
    struct cel_arg target = {0};
    struct cel_call_cost all = {0};
    uint64_t before = 0;

    for (size_t i = 0; i < x->nargs; i++) {
        costs[i] = cost(k, x->args[i]);
        args[i] = to_arg(k, x->args[i]);
    }
    if (x->target) {
        before = cost(k, x->target);
        target = to_arg(k, x->target);
    }
    for (size_t i = 0; i < x->nov; i++) {
        const struct cel_ask q = {k, x, x->ov[i], &target, args, x->nargs};
        struct cel_call_cost c = {0};

        if (!cel_cost_function(&q, &c))
            overload_cost(k, x, x->ov[i], &target, args, &c);
        all.max = sw_max(all.max, cel_add(c.max, args_cost(x->ov[i], costs, x->nargs)));
        if (c.has_size)
            sized(&all, all.has_size ? span_union(all.size, c.size) : c.size);
        note_index(k, x, x->ov[i], &all);
        if (!all.has_size)
            all.has_size = size_of(k, x, &all.size);
    }
    if (all.has_size) {
        x->has_size = true;
        x->size = all.size;
    }
    return cel_add(before, all.max);
}

static uint64_t cost_dyn(struct cel_coster *k, struct cel_x *x)
{
    uint64_t r = cost(k, x->args[0]);

    x->has_size = size_of(k, x->args[0], &x->size);
    set_entry(x, entry_of(k, x->args[0]));
    return cel_add(1, r);
}

/* ---- other nodes ---- */

static uint64_t cost_aggregate(struct cel_coster *k, struct cel_x *x)
{
    struct cel_span key = {x->nargs ? UINT64_MAX : 0, 0};
    struct entry e = {true, x->kind == X_MAP, key, key};
    uint64_t sum = 0;

    for (size_t i = 0; i < x->nargs; i++) {
        struct cel_span *s = e.map && i % 2 == 0 ? &e.key : &e.val;

        sum = cel_add(sum, cost(k, x->args[i]));
        *s = span_union(*s, size_or_unknown(k, x->args[i]));
    }
    if (!e.map)
        e.key = (struct cel_span){1, 1};
    set_entry(x, e);
    return cel_add(sum, e.map ? COST_MAP : COST_LIST);
}

static uint64_t cost_bind(struct cel_coster *k, struct cel_x *x)
{
    const struct cel_local *outer = k->locals;
    struct cel_local named;
    uint64_t sum = cel_add(cost(k, x->args[0]), cost(k, x->args[1]));

    push_value(k, &named, x->accu, x->args[1]);
    sum = cel_add(sum, cost(k, x->args[4]));
    k->locals = outer;
    x->has_size = size_of(k, x->args[4], &x->size);
    set_entry(x, entry_of(k, x->args[4]));
    return sum;
}

/* What the loop makes: a fixed value, or a container of at most one element per turn. */
static void loop_result(struct cel_coster *k, struct cel_x *x, struct cel_span turns)
{
    const struct cel_x *start = x->args[1];

    x->has_size = true;
    x->size = turns;
    if (start->kind == X_LITERAL)
        x->size = (struct cel_span){1, 1};
    else
        set_entry(x, entry_of(k, x->args[3]));
}

static uint64_t cost_loop(struct cel_coster *k, struct cel_x *x)
{
    const struct cel_local *outer = k->locals;
    struct cel_local accu, first, second;
    uint64_t sum = cel_add(cost(k, x->args[0]), cost(k, x->args[1]));
    struct cel_span turns;
    uint64_t turn;

    push_value(k, &accu, x->accu, x->args[1]);
    push_iter(k, &first, x->name, x->args[0], x->name2.p, false);
    if (x->name2.p)
        push_iter(k, &second, x->name2, x->args[0], false, true);
    turn = cost(k, x->args[2]);
    turn = cel_add(cost(k, x->args[3]), turn);
    k->locals = &accu;
    sum = cel_add(sum, cost(k, x->args[4]));
    k->locals = outer;
    turns = size_or_unknown(k, x->args[0]);
    loop_result(k, x, turns);
    return cel_add(sum, cel_mul(turns.max, turn));
}

static uint64_t cost_select(struct cel_coster *k, struct cel_x *x)
{
    const struct cel_type *t = x->args[0]->type;
    uint64_t r = cost(k, x->args[0]);
    struct cel_path path;

    if (x->kind == X_TEST)
        return r;
    path = path_of(k, x->args[0]);
    x->path = cel_path_add(k->a, &path, x->name);
    return cel_add(r, t->k == CEL_MAP || t->k == CEL_OBJECT ? COST_READ : 0);
}

static uint64_t cost_ident(struct cel_coster *k, struct cel_x *x)
{
    const struct cel_local *l = find_local(k, x->name);
    struct cel_path none = {0};

    x->path = l ? l->path : cel_path_add(k->a, &none, x->name);
    return COST_READ;
}

static uint64_t cost(struct cel_coster *k, struct cel_x *x)
{
    switch (x->kind) {
    case X_LITERAL:
        break;
    case X_IDENT:
        return cost_ident(k, x);
    case X_SELECT:
    case X_TEST:
        return cost_select(k, x);
    case X_CALL:
        return sw_slice_eq_str(x->name, "dyn") && !x->target ? cost_dyn(k, x) : cost_call(k, x);
    case X_LIST:
    case X_MAP:
        return cost_aggregate(k, x);
    case X_LOOP:
        return x->bind ? cost_bind(k, x) : cost_loop(k, x);
    }
    return 0;
}

uint64_t sw_cel_cost(const struct sw_cel *c)
{
    SW_ARENA_AUTO tmp = {0};
    struct cel_coster k = {.a = &tmp, .c = c};
    struct cel_x *x = cel_expand(&tmp, c);

    return x ? cost(&k, x) : UINT64_MAX;
}
