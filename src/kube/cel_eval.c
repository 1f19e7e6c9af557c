/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluation. Every step costs; an exhausted budget is an error that nothing absorbs. */
#include <math.h>
#include <stdio.h>

#include "kube/cel_fn.h"
#include "kube/regex.h"
#include "kube/text.h"

static const char cost_text[] = "operation cancelled: actual cost limit exceeded";

struct cel_val cel_error(struct cel_env *env, const char *fmt, ...)
{
    char msg[512];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(msg, sizeof(msg), fmt, ap);
    va_end(ap);
    return (struct cel_val){.k = CEL_ERROR, .s = sw_arena_slice(env->a, sw_slice_str(msg))};
}

static bool spent(struct cel_env *env, uint64_t more)
{
    env->cost += more;
    return env->cost > env->limit;
}

static struct cel_val no_overload(struct cel_env *env)
{
    return cel_error(env, "no such overload");
}

struct cel_val cel_string(struct sw_slice s)
{
    return (struct cel_val){.k = CEL_STRING, .s = s};
}

struct cel_val cel_bool(bool b)
{
    return (struct cel_val){.k = CEL_BOOL, .b = b};
}

struct cel_val cel_int(int64_t i)
{
    return (struct cel_val){.k = CEL_INT, .i = i};
}

/* ---- values from trees ---- */

static struct cel_val from_string(struct cel_env *env, const struct sw_json *v,
                                  const struct sw_schema *s)
{
    struct cel_val r = {.k = CEL_TIMESTAMP};

    if (!s || s->type != SW_T_STRING || !s->format.n)
        return cel_string(v->text);
    if (sw_slice_eq_str(s->format, "duration")) {
        r.k = CEL_DURATION;
        return cel_parse_duration(v->text, &r.i) ? r : cel_error(env, "Invalid duration");
    }
    if (sw_slice_eq_str(s->format, "date-time"))
        return cel_parse_time(v->text, &r.i, &r.ns) ? r : cel_error(env, "Invalid date-time");
    if (sw_slice_eq_str(s->format, "date")) {
        const char *full = sw_arena_printf(env->a, "%.*sT00:00:00Z", SW_SLICE_ARG(v->text));

        return cel_parse_time(sw_slice_str(full), &r.i, &r.ns) ? r : cel_error(env, "Invalid date");
    }
    if (sw_slice_eq_str(s->format, "byte"))
        return (struct cel_val){.k = CEL_BYTES, .s = v->text};
    return cel_string(v->text);
}

static struct cel_val from_number(const struct sw_json *v, const struct sw_schema *s)
{
    struct cel_val r = {.k = CEL_INT};

    if (s && s->type == SW_T_NUMBER) {
        r.k = CEL_DOUBLE;
        return sw_json_double(v, &r.d) ? r : (struct cel_val){.k = CEL_DOUBLE, .d = INFINITY};
    }
    if (sw_json_exact_i64(v, &r.i) && (sw_json_is_integer(v) || (s && s->type == SW_T_INTEGER)))
        return r;
    r.k = CEL_DOUBLE;
    return sw_json_double(v, &r.d) ? r : (struct cel_val){.k = CEL_DOUBLE, .d = INFINITY};
}

struct cel_val cel_from_json(struct cel_env *env, const struct sw_json *v,
                             const struct sw_schema *s)
{
    switch (v->type) {
    case SW_JSON_NULL:
        return (struct cel_val){.k = CEL_NULL};
    case SW_JSON_BOOL:
        return cel_bool(v->boolean);
    case SW_JSON_NUMBER:
        return from_number(v, s);
    case SW_JSON_STRING:
        return from_string(env, v, s);
    case SW_JSON_ARRAY:
        return (struct cel_val){.k = CEL_LIST, .json = v, .schema = s};
    case SW_JSON_OBJECT:
        break;
    }
    return (struct cel_val){
        .k = s && !s->additional ? CEL_OBJECT : CEL_MAP, .json = v, .schema = s};
}

size_t cel_len(const struct cel_val *v)
{
    if (v->json)
        return sw_json_len(v->json);
    return v->k == CEL_LIST ? v->lst->n : v->map->n;
}

struct cel_val cel_at(struct cel_env *env, const struct cel_val *list, size_t i)
{
    if (list->json)
        return cel_from_json(env, sw_json_at(list->json, i),
                             list->schema ? list->schema->items : NULL);
    return list->lst->p[i];
}

struct cel_val cel_key_at(struct cel_env *env, const struct cel_val *map, size_t i)
{
    if (map->json)
        return cel_string(sw_json_member_at(map->json, i)->key);
    return map->map->keys[i];
}

bool cel_lookup(struct cel_env *env, const struct cel_val *map, const struct cel_val *key,
                struct cel_val *ret)
{
    if (map->json) {
        const struct sw_json *v = key->k == CEL_STRING ? sw_json_get(map->json, key->s) : NULL;

        if (!v)
            return false;
        *ret = cel_from_json(env, v, map->schema ? sw_schema_prop(map->schema, key->s) : NULL);
        return true;
    }
    for (size_t i = 0; i < map->map->n; i++) {
        if (cel_equal(env, &map->map->keys[i], key)) {
            *ret = map->map->vals[i];
            return true;
        }
    }
    return false;
}

struct cel_val cel_new_list(struct cel_env *env)
{
    return (struct cel_val){.k = CEL_LIST, .lst = SW_ARENA_NEW(env->a, struct cel_list)};
}

void cel_push(struct cel_env *env, struct cel_val *list, struct cel_val item)
{
    struct cel_list *l = list->lst;

    if (l->n == l->cap) {
        struct cel_val *p;

        l->cap = l->cap ? l->cap * 2 : 4;
        p = sw_arena_array(env->a, l->cap, sizeof(*p));
        if (l->n)
            memcpy(p, l->p, l->n * sizeof(*p));
        l->p = p;
    }
    l->p[l->n++] = item;
}

/* ---- comparing ---- */

static bool numeric(const struct cel_val *v)
{
    return v->k == CEL_INT || v->k == CEL_UINT || v->k == CEL_DOUBLE;
}

static int cmp_i64(int64_t x, int64_t y)
{
    return x < y ? -1 : x > y;
}

/* Compares an integer (as i128-like pair of sign and magnitude) with a double. */
static int cmp_int_double(const struct cel_val *x, double d)
{
    long double v = x->k == CEL_INT ? (long double)x->i : (long double)x->u;

    return v < (long double)d ? -1 : v > (long double)d;
}

static bool order_numbers(const struct cel_val *x, const struct cel_val *y, int *ret)
{
    if ((x->k == CEL_DOUBLE && isnan(x->d)) || (y->k == CEL_DOUBLE && isnan(y->d)))
        return false;
    if (x->k == CEL_DOUBLE && y->k == CEL_DOUBLE)
        *ret = x->d < y->d ? -1 : x->d > y->d;
    else if (y->k == CEL_DOUBLE)
        *ret = cmp_int_double(x, y->d);
    else if (x->k == CEL_DOUBLE)
        *ret = -cmp_int_double(y, x->d);
    else if (x->k == CEL_INT && y->k == CEL_INT)
        *ret = cmp_i64(x->i, y->i);
    else if (x->k == CEL_UINT && y->k == CEL_UINT)
        *ret = x->u < y->u ? -1 : x->u > y->u;
    else if (x->k == CEL_INT)
        *ret = x->i < 0 ? -1 : (uint64_t)x->i < y->u ? -1 : (uint64_t)x->i > y->u;
    else
        *ret = y->i < 0 ? 1 : x->u < (uint64_t)y->i ? -1 : x->u > (uint64_t)y->i;
    return true;
}

bool cel_order(const struct cel_val *x, const struct cel_val *y, int *ret)
{
    if (numeric(x) && numeric(y))
        return order_numbers(x, y, ret);
    if (x->k != y->k)
        return false;
    if (x->k == CEL_STRING || x->k == CEL_BYTES)
        *ret = sw_slice_cmp(x->s, y->s);
    else if (x->k == CEL_BOOL)
        *ret = x->b - y->b;
    else if (x->k == CEL_DURATION)
        *ret = cmp_i64(x->i, y->i);
    else if (x->k == CEL_QUANTITY)
        *ret = cel_quantity_cmp(x->qty, y->qty);
    else if (x->k == CEL_TIMESTAMP)
        *ret = x->i != y->i ? cmp_i64(x->i, y->i) : cmp_i64(x->ns, y->ns);
    else
        return false;
    return true;
}

/* Lists of type set and map compare without their order. */
static bool unordered(const struct cel_val *v)
{
    return v->json && v->schema && v->schema->list_type != SW_LIST_ATOMIC;
}

static bool list_has(struct cel_env *env, const struct cel_val *list, const struct cel_val *x)
{
    for (size_t i = 0; i < cel_len(list); i++) {
        struct cel_val y = cel_at(env, list, i);

        if (spent(env, 1))
            return false;
        if (cel_equal(env, x, &y))
            return true;
    }
    return false;
}

static bool equal_lists(struct cel_env *env, const struct cel_val *x, const struct cel_val *y)
{
    size_t n = cel_len(x);

    if (n != cel_len(y))
        return false;
    for (size_t i = 0; i < n; i++) {
        struct cel_val p = cel_at(env, x, i);

        if (spent(env, 1))
            return false;
        if (unordered(x)) {
            if (!list_has(env, y, &p))
                return false;
        } else {
            struct cel_val q = cel_at(env, y, i);

            if (!cel_equal(env, &p, &q))
                return false;
        }
    }
    return true;
}

static bool equal_maps(struct cel_env *env, const struct cel_val *x, const struct cel_val *y)
{
    size_t n = cel_len(x);

    if (n != cel_len(y))
        return false;
    for (size_t i = 0; i < n; i++) {
        struct cel_val key = cel_key_at(env, x, i);
        struct cel_val p, q;

        if (spent(env, 1))
            return false;
        if (!cel_lookup(env, x, &key, &p) || !cel_lookup(env, y, &key, &q) ||
            !cel_equal(env, &p, &q))
            return false;
    }
    return true;
}

static bool mapping(const struct cel_val *v)
{
    return v->k == CEL_MAP || v->k == CEL_OBJECT;
}

bool cel_equal(struct cel_env *env, const struct cel_val *x, const struct cel_val *y)
{
    int c;

    if (cel_order(x, y, &c))
        return c == 0;
    if (mapping(x) && mapping(y))
        return equal_maps(env, x, y);
    /* An empty optional equals null: the format library is used that way. */
    if (x->k == CEL_OPTIONAL && y->k == CEL_NULL)
        return !x->opt;
    if (y->k == CEL_OPTIONAL && x->k == CEL_NULL)
        return !y->opt;
    if (x->k != y->k)
        return false;
    if (x->k == CEL_LIST)
        return equal_lists(env, x, y);
    if (x->k == CEL_OPTIONAL)
        return x->opt && y->opt ? cel_equal(env, x->opt, y->opt) : x->opt == y->opt;
    if (x->k == CEL_TYPE || x->k == CEL_FORMAT || x->k == CEL_URL)
        return sw_slice_eq(x->s, y->s);
    if (x->k == CEL_IP || x->k == CEL_CIDR)
        return cel_net_equal(x, y);
    return x->k == CEL_NULL;
}

/* ---- operators ---- */

static struct cel_val int_arith(struct cel_env *env, enum cel_op op, int64_t x, int64_t y)
{
    int64_t r = 0;
    bool over = false;

    if ((op == OP_DIV || op == OP_MOD) && y == 0)
        return cel_error(env, op == OP_DIV ? "division by zero" : "modulus by zero");
    if ((op == OP_DIV || op == OP_MOD) && x == INT64_MIN && y == -1)
        over = true;
    else if (op == OP_ADD)
        over = __builtin_add_overflow(x, y, &r);
    else if (op == OP_SUB)
        over = __builtin_sub_overflow(x, y, &r);
    else if (op == OP_MUL)
        over = __builtin_mul_overflow(x, y, &r);
    else
        r = op == OP_DIV ? x / y : x % y;
    return over ? cel_error(env, "integer overflow") : cel_int(r);
}

static struct cel_val uint_arith(struct cel_env *env, enum cel_op op, uint64_t x, uint64_t y)
{
    struct cel_val v = {.k = CEL_UINT};
    bool over = false;

    if ((op == OP_DIV || op == OP_MOD) && y == 0)
        return cel_error(env, op == OP_DIV ? "division by zero" : "modulus by zero");
    if (op == OP_ADD)
        over = __builtin_add_overflow(x, y, &v.u);
    else if (op == OP_SUB)
        over = __builtin_sub_overflow(x, y, &v.u);
    else if (op == OP_MUL)
        over = __builtin_mul_overflow(x, y, &v.u);
    else
        v.u = op == OP_DIV ? x / y : x % y;
    return over ? cel_error(env, "unsigned integer overflow") : v;
}

static struct cel_val double_arith(struct cel_env *env, enum cel_op op, double x, double y)
{
    struct cel_val v = {.k = CEL_DOUBLE};

    if (op == OP_MOD)
        return no_overload(env);
    v.d = op == OP_ADD ? x + y : op == OP_SUB ? x - y : op == OP_MUL ? x * y : x / y;
    return v;
}

static struct cel_val concat(struct cel_env *env, const struct cel_val *x, const struct cel_val *y)
{
    struct cel_val v = *x;
    char *p;

    if (spent(env, (x->s.n + y->s.n) / 10 + 1))
        return cel_error(env, "%s", cost_text);
    p = sw_arena_alloc(env->a, x->s.n + y->s.n + 1);
    if (x->s.n)
        memcpy(p, x->s.p, x->s.n);
    if (y->s.n)
        memcpy(p + x->s.n, y->s.p, y->s.n);
    v.s = sw_slice(p, x->s.n + y->s.n);
    return v;
}

static struct cel_val concat_lists(struct cel_env *env, const struct cel_val *x,
                                   const struct cel_val *y)
{
    struct cel_val v = cel_new_list(env);

    if (spent(env, cel_len(x) + cel_len(y)))
        return cel_error(env, "%s", cost_text);
    for (size_t i = 0; i < cel_len(x); i++)
        cel_push(env, &v, cel_at(env, x, i));
    for (size_t i = 0; i < cel_len(y); i++) {
        struct cel_val item = cel_at(env, y, i);

        if (!unordered(x) || !list_has(env, x, &item))
            cel_push(env, &v, item);
    }
    return v;
}

static struct cel_val time_arith(struct cel_env *env, enum cel_op op, const struct cel_val *x,
                                 const struct cel_val *y)
{
    struct cel_val r = {.k = CEL_DURATION};
    int64_t ns, d;

    if (x->k == CEL_DURATION && y->k == CEL_DURATION) {
        r = int_arith(env, op, x->i, y->i);
        r.k = r.k == CEL_INT ? CEL_DURATION : r.k;
        return r;
    }
    if (x->k == CEL_TIMESTAMP && y->k == CEL_TIMESTAMP && op == OP_SUB) {
        if (__builtin_sub_overflow(x->i, y->i, &d) ||
            __builtin_mul_overflow(d, INT64_C(1000000000), &d) ||
            __builtin_add_overflow(d, (int64_t)x->ns - y->ns, &r.i))
            return cel_error(env, "integer overflow");
        return r;
    }
    if (x->k == CEL_DURATION && op == OP_ADD)
        return time_arith(env, op, y, x);
    if (x->k != CEL_TIMESTAMP || y->k != CEL_DURATION)
        return no_overload(env);
    d = op == OP_ADD ? y->i : y->i == INT64_MIN ? INT64_MAX : -y->i;
    ns = x->ns + d % 1000000000;
    r = (struct cel_val){.k = CEL_TIMESTAMP, .i = x->i + d / 1000000000};
    if (ns < 0) {
        ns += 1000000000;
        r.i--;
    } else if (ns >= 1000000000) {
        ns -= 1000000000;
        r.i++;
    }
    r.ns = (int32_t)ns;
    return r;
}

static struct cel_val arith(struct cel_env *env, enum cel_op op, const struct cel_val *x,
                            const struct cel_val *y)
{
    bool time = x->k == CEL_DURATION || x->k == CEL_TIMESTAMP;

    if (time && (y->k == CEL_DURATION || y->k == CEL_TIMESTAMP) && (op == OP_ADD || op == OP_SUB))
        return time_arith(env, op, x, y);
    if (x->k != y->k)
        return no_overload(env);
    if (x->k == CEL_INT)
        return int_arith(env, op, x->i, y->i);
    if (x->k == CEL_UINT)
        return uint_arith(env, op, x->u, y->u);
    if (x->k == CEL_DOUBLE)
        return double_arith(env, op, x->d, y->d);
    if (op == OP_ADD && (x->k == CEL_STRING || x->k == CEL_BYTES))
        return concat(env, x, y);
    if (op == OP_ADD && x->k == CEL_LIST)
        return concat_lists(env, x, y);
    return no_overload(env);
}

struct cel_val cel_binary(struct cel_env *env, enum cel_op op, struct cel_val x, struct cel_val y)
{
    struct cel_val found;
    int c;

    if (x.k == CEL_ERROR || y.k == CEL_ERROR)
        return x.k == CEL_ERROR ? x : y;
    switch (op) {
    case OP_EQ:
        return cel_bool(cel_equal(env, &x, &y));
    case OP_NE:
        return cel_bool(!cel_equal(env, &x, &y));
    case OP_LT:
    case OP_LE:
    case OP_GT:
    case OP_GE:
        if (!cel_order(&x, &y, &c))
            return no_overload(env);
        return cel_bool(op == OP_LT ? c < 0 : op == OP_LE ? c <= 0 : op == OP_GT ? c > 0 : c >= 0);
    case OP_IN:
        if (y.k == CEL_LIST)
            return cel_bool(list_has(env, &y, &x));
        return mapping(&y) ? cel_bool(cel_lookup(env, &y, &x, &found)) : no_overload(env);
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
    case OP_DIV:
    case OP_MOD:
        break;
    }
    return arith(env, op, &x, &y);
}

/* ---- nodes ---- */

struct cel_val cel_some(struct cel_env *env, struct cel_val v)
{
    struct cel_val *copy = SW_ARENA_NEW(env->a, struct cel_val);

    *copy = v;
    return (struct cel_val){.k = CEL_OPTIONAL, .opt = copy};
}

static struct cel_val none(void)
{
    return (struct cel_val){.k = CEL_OPTIONAL};
}

static struct cel_val eval_select(struct cel_env *env, const struct cel_node *n)
{
    struct cel_val x = cel_eval(env, n->args[0]);
    struct cel_val key = cel_string(n->name);
    struct cel_val r;
    bool optional = n->optional;

    if (x.k == CEL_ERROR)
        return x;
    if (x.k == CEL_OPTIONAL) {
        if (!x.opt)
            return none();
        x = *x.opt;
        optional = true;
    }
    if (!mapping(&x))
        return no_overload(env);
    if (cel_lookup(env, &x, &key, &r))
        return optional ? cel_some(env, r) : r;
    return optional ? none() : cel_error(env, "no such key: %.*s", SW_SLICE_ARG(n->name));
}

static struct cel_val index_list(struct cel_env *env, const struct cel_val *x,
                                 const struct cel_val *i, bool optional)
{
    int64_t at = i->k == CEL_UINT ? (int64_t)i->u : i->i;

    if (i->k == CEL_DOUBLE)
        at = i->d == floor(i->d) && fabs(i->d) < 1e9 ? (int64_t)i->d : -1;
    else if (i->k != CEL_INT && i->k != CEL_UINT)
        return no_overload(env);
    if (at >= 0 && (uint64_t)at < cel_len(x))
        return optional ? cel_some(env, cel_at(env, x, (size_t)at)) : cel_at(env, x, (size_t)at);
    return optional ? none() : cel_error(env, "index out of bounds: %lld", (long long)at);
}

static struct cel_val eval_index(struct cel_env *env, const struct cel_node *n)
{
    struct cel_val x = cel_eval(env, n->args[0]);
    struct cel_val i = x.k == CEL_ERROR ? x : cel_eval(env, n->args[1]);
    struct cel_val r;
    bool optional = n->optional;

    if (i.k == CEL_ERROR)
        return i;
    if (x.k == CEL_OPTIONAL) {
        if (!x.opt)
            return none();
        x = *x.opt;
        optional = true;
    }
    if (x.k == CEL_LIST)
        return index_list(env, &x, &i, optional);
    if (!mapping(&x))
        return no_overload(env);
    if (cel_lookup(env, &x, &i, &r))
        return optional ? cel_some(env, r) : r;
    if (optional)
        return none();
    return i.k == CEL_STRING ? cel_error(env, "no such key: %.*s", SW_SLICE_ARG(i.s))
                             : cel_error(env, "no such key");
}

static struct cel_val eval_has(struct cel_env *env, const struct cel_node *n)
{
    struct cel_val x = cel_eval(env, n->args[0]);
    struct cel_val key = cel_string(n->name);
    struct cel_val r;

    if (x.k == CEL_OPTIONAL) {
        if (!x.opt)
            return cel_bool(false);
        x = *x.opt;
    }
    if (x.k == CEL_ERROR)
        return x;
    return mapping(&x) ? cel_bool(cel_lookup(env, &x, &key, &r)) : no_overload(env);
}

/* An operand that decides the result wins over errors of the others. */
static struct cel_val eval_logic(struct cel_env *env, const struct cel_node *n)
{
    bool decides = n->kind == N_OR;
    struct cel_val err = cel_bool(!decides);

    for (size_t i = 0; i < n->nargs; i++) {
        struct cel_val x = cel_eval(env, n->args[i]);

        if (x.k == CEL_BOOL && x.b == decides)
            return x;
        if (x.k != CEL_BOOL && err.k == CEL_BOOL)
            err = x.k == CEL_ERROR ? x : no_overload(env);
    }
    return err;
}

static struct cel_val eval_literal(struct cel_env *env, const struct cel_node *n)
{
    struct cel_val list = cel_new_list(env);
    struct cel_map *m;

    for (size_t i = 0; i < n->nargs; i++) {
        struct cel_val x = cel_eval(env, n->args[i]);

        if (x.k == CEL_ERROR)
            return x;
        cel_push(env, &list, x);
    }
    if (n->kind == N_LIST)
        return list;
    m = SW_ARENA_NEW(env->a, struct cel_map);
    m->n = n->nargs / 2;
    m->keys = sw_arena_array(env->a, m->n + 1, sizeof(*m->keys));
    m->vals = sw_arena_array(env->a, m->n + 1, sizeof(*m->vals));
    for (size_t i = 0; i < m->n; i++) {
        m->keys[i] = list.lst->p[2 * i];
        m->vals[i] = list.lst->p[2 * i + 1];
    }
    return (struct cel_val){.k = CEL_MAP, .map = m};
}

struct fold {
    struct cel_val err;  /* the first error seen, CEL_NULL when none */
    struct cel_val out;  /* filter, map */
    struct cel_val keys; /* transformMap */
    size_t hits;
};

static bool transforms(const struct cel_node *n)
{
    return n->kind == N_MAPPED || n->kind == N_MAPPED_MAP;
}

/* One element, or an index or key with its element; true when the macro's result is decided. */
static bool fold_step(struct cel_env *env, const struct cel_node *n, struct cel_val first,
                      struct cel_val second, struct fold *f)
{
    bool test = !transforms(n) || n->nargs == 3;
    struct cel_val b = cel_bool(true);

    env->slots[n->slot] = first;
    if (n->name2.p)
        env->slots[n->slot2] = second;
    if (test)
        b = cel_eval(env, n->args[1]);
    if (b.k != CEL_BOOL) {
        if (f->err.k == CEL_NULL)
            f->err = b.k == CEL_ERROR ? b : no_overload(env);
        return n->kind == N_FILTER || transforms(n) || n->kind == N_EXISTS_ONE;
    }
    f->hits += b.b;
    if (n->kind == N_FILTER && b.b)
        cel_push(env, &f->out, first);
    if (transforms(n) && b.b) {
        struct cel_val y = cel_eval(env, n->args[n->nargs - 1]);

        if (y.k == CEL_ERROR) {
            f->err = y;
            return true;
        }
        cel_push(env, &f->out, y);
        cel_push(env, &f->keys, first);
    }
    return (n->kind == N_ALL && !b.b) || (n->kind == N_EXISTS && b.b);
}

static bool fold_at(struct cel_env *env, const struct cel_node *n, const struct cel_val *range,
                    size_t i, struct fold *f)
{
    struct cel_val first = range->k == CEL_LIST ? cel_at(env, range, i) : cel_key_at(env, range, i);
    struct cel_val second = {.k = CEL_NULL};

    if (n->name2.p && range->k == CEL_LIST) {
        second = first;
        first = cel_int((int64_t)i);
    } else if (n->name2.p) {
        (void)cel_lookup(env, range, &first, &second);
    }
    return fold_step(env, n, first, second, f);
}

static struct cel_val fold_result(struct cel_env *env, const struct cel_node *n, struct fold *f,
                                  bool decided)
{
    struct cel_map *m;

    if (f->err.k != CEL_NULL && !(decided && (n->kind == N_ALL || n->kind == N_EXISTS)))
        return f->err;
    if (n->kind == N_FILTER || n->kind == N_MAPPED)
        return f->out;
    if (n->kind == N_EXISTS_ONE)
        return cel_bool(f->hits == 1);
    if (n->kind != N_MAPPED_MAP)
        return cel_bool(n->kind == N_ALL ? !decided : decided);
    m = SW_ARENA_NEW(env->a, struct cel_map);
    m->n = f->out.lst->n;
    m->keys = f->keys.lst->p;
    m->vals = f->out.lst->p;
    return (struct cel_val){.k = CEL_MAP, .map = m};
}

static struct cel_val eval_macro(struct cel_env *env, const struct cel_node *n)
{
    struct cel_val range = cel_eval(env, n->args[0]);
    struct fold f = {.err = {.k = CEL_NULL}, .out = cel_new_list(env), .keys = cel_new_list(env)};
    struct cel_val saved = env->slots[n->slot];
    struct cel_val saved2 = n->name2.p ? env->slots[n->slot2] : saved;
    bool decided = false;

    if (range.k == CEL_ERROR)
        return range;
    if (range.k != CEL_LIST && !mapping(&range))
        return no_overload(env);
    for (size_t i = 0; i < cel_len(&range) && !decided; i++) {
        if (spent(env, 1))
            return cel_error(env, "%s", cost_text);
        decided = fold_at(env, n, &range, i, &f);
    }
    env->slots[n->slot] = saved;
    if (n->name2.p)
        env->slots[n->slot2] = saved2;
    if (env->cost > env->limit)
        return cel_error(env, "%s", cost_text);
    return fold_result(env, n, &f, decided);
}

static struct cel_val eval_call(struct cel_env *env, const struct cel_node *n)
{
    struct cel_val args[8];

    if (n->nargs > SW_ARRAY_LEN(args))
        return no_overload(env);
    for (size_t i = 0; i < n->nargs; i++) {
        args[i] = cel_eval(env, n->args[i]);
        if (args[i].k == CEL_ERROR)
            return args[i];
    }
    return n->fn->call(env, n, args, n->nargs);
}

static struct cel_val eval_bind(struct cel_env *env, const struct cel_node *n)
{
    struct cel_val x = cel_eval(env, n->args[0]);
    struct cel_val saved = env->slots[n->slot];

    if (x.k == CEL_ERROR)
        return x;
    if (n->kind != N_BIND) {
        if (x.k != CEL_OPTIONAL)
            return no_overload(env);
        if (!x.opt)
            return x;
        x = *x.opt;
    }
    env->slots[n->slot] = x;
    x = cel_eval(env, n->args[1]);
    env->slots[n->slot] = saved;
    return n->kind == N_OPT_MAP && x.k != CEL_ERROR ? cel_some(env, x) : x;
}

static struct cel_val eval_unary(struct cel_env *env, const struct cel_node *n)
{
    struct cel_val x = cel_eval(env, n->args[0]);

    if (x.k == CEL_ERROR)
        return x;
    if (n->kind == N_NOT)
        return x.k == CEL_BOOL ? cel_bool(!x.b) : no_overload(env);
    if (x.k == CEL_DOUBLE)
        return (struct cel_val){.k = CEL_DOUBLE, .d = -x.d};
    return x.k == CEL_INT ? int_arith(env, OP_SUB, 0, x.i) : no_overload(env);
}

static struct cel_val eval_cond(struct cel_env *env, const struct cel_node *n)
{
    struct cel_val x = cel_eval(env, n->args[0]);

    if (x.k != CEL_BOOL)
        return x.k == CEL_ERROR ? x : no_overload(env);
    return cel_eval(env, n->args[x.b ? 1 : 2]);
}

struct cel_val cel_eval(struct cel_env *env, const struct cel_node *n)
{
    struct cel_val x;

    if (spent(env, 1))
        return cel_error(env, "%s", cost_text);
    switch (n->kind) {
    case N_CONST:
        return n->value;
    case N_IDENT:
        return env->slots[n->slot];
    case N_SELECT:
        return eval_select(env, n);
    case N_INDEX:
        return eval_index(env, n);
    case N_CALL:
        return eval_call(env, n);
    case N_LIST:
    case N_MAP:
        return eval_literal(env, n);
    case N_HAS:
        return eval_has(env, n);
    case N_AND:
    case N_OR:
        return eval_logic(env, n);
    case N_NOT:
    case N_NEG:
        return eval_unary(env, n);
    case N_COND:
        return eval_cond(env, n);
    case N_BINARY:
        x = cel_eval(env, n->args[0]);
        return x.k == CEL_ERROR ? x : cel_binary(env, n->op, x, cel_eval(env, n->args[1]));
    case N_ALL:
    case N_EXISTS:
    case N_EXISTS_ONE:
    case N_FILTER:
    case N_MAPPED:
    case N_MAPPED_MAP:
        return eval_macro(env, n);
    case N_BIND:
    case N_OPT_MAP:
    case N_OPT_FLAT_MAP:
        return eval_bind(env, n);
    }
    return no_overload(env);
}

/* ---- programs ---- */

static const char *explain(struct sw_arena *a, const struct sw_cel *c)
{
    size_t at = sw_min(c->why_pos, c->src.n);
    size_t start = at;
    size_t end = at;
    size_t line = 1;
    size_t col;
    SW_BUF_AUTO b = {0};

    while (start > 0 && c->src.p[start - 1] != '\n')
        start--;
    while (end < c->src.n && c->src.p[end] != '\n')
        end++;
    for (size_t i = 0; i < start; i++)
        line += c->src.p[i] == '\n';
    col = sw_rune_count(sw_slice(c->src.p + start, at - start));
    sw_buf_init(&b, 65536);
    sw_tx_printf(&b, "ERROR: <input>:%zu:%zu: %s\n | %.*s\n | ", line, col + 1, c->why,
                 (int)(end - start), c->src.p + start);
    for (size_t i = 0; i < col; i++)
        sw_tx_c(&b, '.');
    sw_tx_c(&b, '^');
    return sw_arena_dup(a, sw_buf_slice(&b));
}

int sw_cel_compile(struct sw_arena *a, struct sw_slice src, const struct sw_schema *self,
                   unsigned flags, struct sw_cel **ret, const char **ret_why)
{
    struct sw_cel *c;

    if (src.n > SW_CEL_SOURCE_MAX) {
        *ret_why = "expression is too long";
        return SW_EINVAL;
    }
    c = SW_NEW(struct sw_cel);
    c->src = sw_arena_slice(&c->arena, src);
    c->flags = flags;
    c->self = self;
    cel_parse(c);
    if (!c->failed)
        cel_check(c);
    if (c->failed) {
        *ret_why = c->unplaced ? sw_arena_dup(a, sw_slice_str(c->why)) : explain(a, c);
        sw_cel_free(c);
        return SW_EINVAL;
    }
    *ret = c;
    return SW_OK;
}

void sw_cel_free(struct sw_cel *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->regexes.n; i++)
        sw_regex_free(c->regexes.p[i]);
    sw_vec_done(&c->regexes);
    sw_arena_clear(&c->arena);
    sw_free(c);
}

bool sw_cel_uses_old(const struct sw_cel *c)
{
    return c->uses_old;
}

struct sw_cel_result sw_cel_eval(const struct sw_cel *c, struct sw_arena *a,
                                 const struct sw_json *self, const struct sw_json *old,
                                 uint64_t limit)
{
    struct cel_env env = {.a = a, .limit = limit};
    struct sw_cel_result r = {.outcome = SW_CEL_ERROR};
    struct cel_val v;

    env.slots = sw_arena_array(a, (size_t)c->slots + 1, sizeof(*env.slots));
    env.slots[SLOT_SELF] = cel_from_json(&env, self, c->self);
    if (c->flags & SW_CEL_OPTIONAL_OLD)
        env.slots[SLOT_OLD] = old ? cel_some(&env, cel_from_json(&env, old, c->self)) : none();
    else if (old)
        env.slots[SLOT_OLD] = cel_from_json(&env, old, c->self);
    else
        env.slots[SLOT_OLD] = cel_error(&env, "oldSelf is not available");
    v = cel_eval(&env, c->root);
    r.cost = env.cost;
    if (env.cost > env.limit) {
        r.outcome = SW_CEL_COST;
        r.text = sw_slice_str(cost_text);
    } else if (v.k == CEL_BOOL) {
        r.outcome = v.b ? SW_CEL_TRUE : SW_CEL_FALSE;
    } else if (v.k == CEL_STRING) {
        r.outcome = SW_CEL_STRING;
        r.text = v.s;
    } else {
        r.text = v.k == CEL_ERROR ? v.s : SW_SLICE_LIT("no such overload");
    }
    return r;
}
