/* SPDX-License-Identifier: Apache-2.0 */
/* Values of expressions: made from trees and by literals, measured, compared. */
#include <math.h>
#include <stdio.h>

#include "kube/cel/fn.h"

struct cel_val cel_error(struct cel_env *env, const char *fmt, ...)
{
    char msg[512];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(msg, sizeof(msg), fmt, ap);
    va_end(ap);
    return (struct cel_val){.k = CEL_ERROR, .s = sw_arena_slice(env->a, sw_slice_str(msg))};
}

struct cel_val cel_no_overload(struct cel_env *env)
{
    return cel_error(env, "no such overload");
}

struct cel_val cel_over_budget(struct cel_env *env)
{
    return cel_error(env, "%s", CEL_OVER_BUDGET);
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

    l->p = sw_arena_grow(env->a, l->p, l->n, &l->cap, sizeof(*l->p));
    l->p[l->n++] = item;
}

struct cel_val cel_some(struct cel_env *env, struct cel_val v)
{
    struct cel_val *copy = SW_ARENA_NEW(env->a, struct cel_val);

    *copy = v;
    return (struct cel_val){.k = CEL_OPTIONAL, .opt = copy};
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

bool cel_unordered(const struct cel_val *v)
{
    return v->json && v->schema && v->schema->list_type != SW_LIST_ATOMIC;
}

bool cel_list_has(struct cel_env *env, const struct cel_val *list, const struct cel_val *x)
{
    for (size_t i = 0; i < cel_len(list); i++) {
        struct cel_val y = cel_at(env, list, i);

        if (cel_spent(env, 1))
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

        if (cel_spent(env, 1))
            return false;
        if (cel_unordered(x)) {
            if (!cel_list_has(env, y, &p))
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

        if (cel_spent(env, 1))
            return false;
        if (!cel_lookup(env, x, &key, &p) || !cel_lookup(env, y, &key, &q) ||
            !cel_equal(env, &p, &q))
            return false;
    }
    return true;
}

bool cel_equal(struct cel_env *env, const struct cel_val *x, const struct cel_val *y)
{
    int c;

    if (cel_order(x, y, &c))
        return c == 0;
    if (cel_is_mapping(x) && cel_is_mapping(y))
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
