/* SPDX-License-Identifier: Apache-2.0 */
/* Functions on strings: sizes, searching, cutting, expressions, format(). */
#include <ctype.h>

#include "kube/cel/fn.h"
#include "kube/errs.h"
#include "kube/text.h"
#include "regex/regex.h"

/* ---- sizes and strings ---- */

FN(size)
{
    if (a[0].k == CEL_STRING) {
        charge(env, a[0].s.n);
        return cel_int((int64_t)sw_rune_count(a[0].s));
    }
    if (a[0].k == CEL_BYTES)
        return cel_int((int64_t)a[0].s.n);
    if (a[0].k == CEL_LIST || a[0].k == CEL_MAP || a[0].k == CEL_OBJECT)
        return cel_int((int64_t)cel_len(&a[0]));
    return cel_error(env, "no such overload");
}

FN(contains)
{
    NEED_STRINGS(2);
    return cel_bool(!a[1].s.n || (a[0].s.n && memmem(a[0].s.p, a[0].s.n, a[1].s.p, a[1].s.n)));
}

FN(starts)
{
    NEED_STRINGS(2);
    return cel_bool(sw_slice_has_prefix(a[0].s, a[1].s));
}

FN(ends)
{
    NEED_STRINGS(2);
    return cel_bool(sw_slice_has_suffix(a[0].s, a[1].s));
}

enum { BROKEN_STEPS = 2500000 }; /* of compiling what turns out to be no expression */

/* Work that no cost stands for has ended; nothing absorbs that. */
static struct cel_val out_of_work(struct cel_env *env)
{
    if (env->cost <= env->limit)
        env->cost = env->limit + 1;
    return cel_over_budget(env);
}

/* The node's own expression, the last one that was compiled, or a new one. */
static const struct sw_regex *regex_for(struct cel_env *env, const struct cel_node *n,
                                        struct sw_slice pattern, struct cel_val *ret_err)
{
    struct sw_err err = {0};

    env->cost += pattern.n / 4 + 1;
    if (n->re)
        return n->re;
    if (env->re && sw_slice_eq(env->re_text, pattern))
        return env->re;
    cel_env_done(env);
    if (sw_regex_new(pattern, &env->re, &err) < 0) {
        env->re = NULL;
        *ret_err = sw_budget_step(env->work, BROKEN_STEPS) ? cel_error(env, "%s", err.msg)
                                                           : out_of_work(env);
        return NULL;
    }
    env->re_text = pattern;
    if (!sw_budget_step(env->work, SW_REGEX_COMPILE_STEPS * (uint64_t)sw_regex_size(env->re))) {
        *ret_err = out_of_work(env);
        return NULL;
    }
    return env->re;
}

FN(matches)
{
    struct cel_val err;
    const struct sw_regex *re;
    int rc;

    NEED_STRINGS(2);
    re = regex_for(env, n, a[1].s, &err);
    if (!re)
        return err;
    env->cost += (a[0].s.n / 10 + 1) * (sw_regex_cost(re) / 4 + 1);
    rc = sw_regex_match(re, a[0].s, env->work);
    return rc < 0 ? out_of_work(env) : cel_bool(rc == 1);
}

FN(find)
{
    bool all = sw_slice_eq_str(n->name, "findAll");
    int64_t max = na > 2 && a[2].k == CEL_INT ? a[2].i : -1;
    struct cel_val list = cel_new_list(env);
    struct cel_val err;
    const struct sw_regex *re;
    size_t from = 0, at = 0, len = 0;
    int rc = 0;

    NEED_STRINGS(2);
    re = regex_for(env, n, a[1].s, &err);
    if (!re)
        return err;
    while (from <= a[0].s.n && max != 0 &&
           (rc = sw_regex_search(re, a[0].s, from, &at, &len, env->work)) == 1) {
        charge(env, a[0].s.n - from);
        cel_push(env, &list, cel_string(sw_slice(a[0].s.p + at, len)));
        from = at + (len ? len : 1);
        /* Stay on a character boundary behind an empty match. */
        while (from < a[0].s.n && ((unsigned char)a[0].s.p[from] & 0xc0) == 0x80)
            from++;
        if (max > 0)
            max--;
        if (!all || env->cost > env->limit)
            break;
    }
    if (rc < 0)
        return out_of_work(env);
    if (all)
        return list;
    return list.lst->n ? list.lst->p[0] : cel_string(sw_slice("", 0));
}

/* Byte offset of rune i; n + 1 when there is none. */
static size_t rune_at(struct sw_slice s, int64_t i)
{
    size_t at = 0;

    if (i < 0)
        return s.n + 1;
    for (; i > 0 && at < s.n; i--) {
        at++;
        while (at < s.n && ((unsigned char)s.p[at] & 0xc0) == 0x80)
            at++;
    }
    return i ? s.n + 1 : at;
}

FN(substring)
{
    size_t from, to;

    NEED_STRINGS(1);
    if (a[1].k != CEL_INT || (na > 2 && a[2].k != CEL_INT))
        return cel_error(env, "no such overload");
    from = rune_at(a[0].s, a[1].i);
    to = na > 2 ? rune_at(a[0].s, a[2].i) : a[0].s.n;
    if (from > a[0].s.n)
        return cel_error(env, "index out of range: %lld", (long long)a[1].i);
    if (to > a[0].s.n)
        return cel_error(env, "index out of range: %lld", (long long)a[2].i);
    if (to < from)
        return cel_error(env, "invalid substring range. start: %lld, end: %lld", (long long)a[1].i,
                         (long long)a[2].i);
    return cel_string(sw_slice(a[0].s.p + from, to - from));
}

FN(char_at)
{
    size_t from, to;

    NEED_STRINGS(1);
    if (a[1].k != CEL_INT)
        return cel_error(env, "no such overload");
    from = rune_at(a[0].s, a[1].i);
    if (from > a[0].s.n)
        return cel_error(env, "index out of range: %lld", (long long)a[1].i);
    to = from < a[0].s.n ? rune_at(a[0].s, a[1].i + 1) : from;
    return cel_string(sw_slice(a[0].s.p + from, to - from));
}

static struct cel_val list_index_of(struct cel_env *env, const struct cel_val *a, bool last)
{
    int64_t r = -1;

    for (size_t i = 0; i < cel_len(&a[0]) && (last || r < 0); i++) {
        struct cel_val x = cel_at(env, &a[0], i);

        env->cost++;
        if (cel_equal(env, &x, &a[1]))
            r = (int64_t)i;
    }
    return cel_int(r);
}

FN(index_of)
{
    bool last = sw_slice_eq_str(n->name, "lastIndexOf");
    size_t from = 0;
    int64_t r = -1;

    if (a[0].k == CEL_LIST)
        return list_index_of(env, a, last);
    NEED_STRINGS(2);
    if (na > 2) {
        from = a[2].k == CEL_INT ? rune_at(a[0].s, a[2].i) : a[0].s.n + 1;
        if (from > a[0].s.n)
            return cel_error(env, "index out of range");
    }
    for (size_t i = last ? 0 : from; i + a[1].s.n <= a[0].s.n; i++) {
        if (last && na > 2 && i > from)
            break;
        if (memcmp(a[0].s.p + i, a[1].s.p, a[1].s.n) == 0) {
            r = (int64_t)sw_rune_count(sw_slice_head(a[0].s, i));
            if (!last)
                break;
        }
        if ((i & 15) == 0)
            env->cost++;
    }
    return cel_int(r);
}

FN(case)
{
    bool up = sw_slice_eq_str(n->name, "upperAscii");
    char *p;

    NEED_STRINGS(1);
    p = sw_arena_dup(env->a, a[0].s);
    for (size_t i = 0; i < a[0].s.n; i++) {
        if (up ? p[i] >= 'a' && p[i] <= 'z' : p[i] >= 'A' && p[i] <= 'Z')
            p[i] ^= 0x20;
    }
    return cel_string(sw_slice(p, a[0].s.n));
}

FN(trim)
{
    struct sw_slice s;

    NEED_STRINGS(1);
    s = a[0].s;
    while (s.n && isspace((unsigned char)s.p[0]))
        s = sw_slice(s.p + 1, s.n - 1);
    while (s.n && isspace((unsigned char)s.p[s.n - 1]))
        s.n--;
    return cel_string(s);
}

/* Next occurrence of sep in s, or s.n. An empty sep cuts behind each rune. */
static size_t next_sep(struct sw_slice s, struct sw_slice sep)
{
    const char *p;

    if (!sep.n)
        return sw_min(rune_at(s, 1), s.n);
    p = s.n ? memmem(s.p, s.n, sep.p, sep.n) : NULL;
    return p ? (size_t)(p - s.p) : s.n;
}

FN(split)
{
    struct cel_val out = cel_new_list(env);
    int64_t max = na > 2 && a[2].k == CEL_INT ? a[2].i : -1;
    struct sw_slice rest;

    NEED_STRINGS(2);
    rest = a[0].s;
    if (max == 0 || (!a[1].s.n && !rest.n))
        return out;
    for (;;) {
        size_t cut = next_sep(rest, a[1].s);

        env->cost++;
        if (cut >= rest.n || (max > 0 && (int64_t)out.lst->n + 1 >= max) || env->cost > env->limit)
            break;
        cel_push(env, &out, cel_string(sw_slice_head(rest, cut)));
        rest = sw_slice_from(rest, cut + a[1].s.n);
    }
    cel_push(env, &out, cel_string(rest));
    return out;
}

FN(replace)
{
    SW_BUF_AUTO b = {.max = 4 << 20};
    int64_t max = na > 3 && a[3].k == CEL_INT ? a[3].i : -1;
    struct sw_slice rest;

    NEED_STRINGS(3);
    rest = a[0].s;
    while (rest.n && max != 0) {
        size_t cut = next_sep(rest, a[1].s);

        if (cut >= rest.n || env->cost > env->limit)
            break;
        sw_tx_slice(&b, sw_slice_head(rest, cut));
        sw_tx_slice(&b, a[2].s);
        charge(env, cut + a[2].s.n);
        rest = sw_slice_from(rest, cut + a[1].s.n);
        max -= max > 0;
    }
    sw_tx_slice(&b, rest);
    return cel_string(sw_arena_slice(env->a, sw_buf_slice(&b)));
}

FN(join)
{
    SW_BUF_AUTO b = {.max = 4 << 20};
    struct sw_slice sep = na > 1 && a[1].k == CEL_STRING ? a[1].s : sw_slice("", 0);

    if (a[0].k != CEL_LIST)
        return cel_error(env, "no such overload");
    for (size_t i = 0; i < cel_len(&a[0]) && env->cost <= env->limit; i++) {
        struct cel_val x = cel_at(env, &a[0], i);

        if (x.k != CEL_STRING)
            return cel_error(env, "no such overload");
        if (i)
            sw_tx_slice(&b, sep);
        sw_tx_slice(&b, x.s);
        charge(env, sep.n + x.s.n);
    }
    return cel_string(sw_arena_slice(env->a, sw_buf_slice(&b)));
}

FN(quote)
{
    NEED_STRINGS(1);
    return cel_string(sw_slice_str(sw_go_quote(env->a, a[0].s)));
}

FN(reverse)
{
    char *p;

    NEED_STRINGS(1);
    p = sw_arena_alloc(env->a, a[0].s.n + 1);
    for (size_t i = 0, end = a[0].s.n; i < a[0].s.n;) {
        size_t len = rune_at(sw_slice_from(a[0].s, i), 1);

        end -= len;
        memcpy(p + end, a[0].s.p + i, len);
        i += len;
    }
    return cel_string(sw_slice(p, a[0].s.n));
}

/* ---- format() ---- */

enum { PRECISION_MAX = 100 };

static void put_value(struct cel_env *env, struct sw_buf *b, const struct cel_val *v, bool inside)
{
    struct cel_val t;

    if (v->k == CEL_LIST) {
        sw_tx_c(b, '[');
        for (size_t i = 0; i < cel_len(v) && env->cost <= env->limit; i++) {
            struct cel_val x = cel_at(env, v, i);

            env->cost++;
            sw_tx_str(b, i ? ", " : "");
            put_value(env, b, &x, true);
        }
        sw_tx_c(b, ']');
    } else if (v->k == CEL_MAP || v->k == CEL_OBJECT) {
        sw_tx_c(b, '{');
        for (size_t i = 0; i < cel_len(v) && env->cost <= env->limit; i++) {
            struct cel_val key = cel_key_at(env, v, i);
            struct cel_val x = {.k = CEL_NULL};

            env->cost++;
            (void)cel_lookup(env, v, &key, &x);
            sw_tx_str(b, i ? ", " : "");
            put_value(env, b, &key, true);
            sw_tx_str(b, ":");
            put_value(env, b, &x, true);
        }
        sw_tx_c(b, '}');
    } else if (v->k == CEL_NULL) {
        sw_tx_str(b, "null");
    } else if (v->k == CEL_STRING && inside) {
        sw_tx_str(b, sw_go_quote(env->a, v->s));
    } else {
        t = v->k == CEL_TYPE ? cel_string(v->s) : cel_to_string(env, v);
        sw_tx_slice(b, t.s);
        charge(env, t.s.n);
    }
}

static void put_binary(struct sw_buf *b, uint64_t v)
{
    int top = 63;

    while (top > 0 && !(v >> top & 1))
        top--;
    for (; top >= 0; top--)
        sw_tx_c(b, v >> top & 1 ? '1' : '0');
}

/* Integers for d, b, o, x and X. */
static bool put_integer(struct sw_buf *b, char verb, const struct cel_val *v)
{
    bool neg = v->k == CEL_INT && v->i < 0;
    uint64_t u = v->k == CEL_UINT ? v->u : neg ? 0 - (uint64_t)v->i : (uint64_t)v->i;

    if (v->k != CEL_INT && v->k != CEL_UINT)
        return false;
    if (neg)
        sw_tx_c(b, '-');
    if (verb == 'b')
        put_binary(b, u);
    else if (verb == 'o')
        sw_tx_printf(b, "%llo", (unsigned long long)u);
    else if (verb == 'x')
        sw_tx_printf(b, "%llx", (unsigned long long)u);
    else if (verb == 'X')
        sw_tx_printf(b, "%llX", (unsigned long long)u);
    else
        sw_tx_printf(b, "%llu", (unsigned long long)u);
    return true;
}

/* Integers and booleans for b. */
static bool put_bits(struct sw_buf *b, const struct cel_val *v)
{
    if (v->k != CEL_BOOL)
        return put_integer(b, 'b', v);
    sw_tx_c(b, v->b ? '1' : '0');
    return true;
}

/* Integers, texts and bytes for x and X. */
static bool put_hex(struct sw_buf *b, char verb, const struct cel_val *v)
{
    if (v->k != CEL_STRING && v->k != CEL_BYTES)
        return put_integer(b, verb, v);
    for (size_t i = 0; i < v->s.n; i++)
        sw_tx_printf(b, verb == 'X' ? "%02X" : "%02x", (unsigned char)v->s.p[i]);
    return true;
}

/* Numbers for f and e. */
static bool put_real(struct sw_buf *b, char verb, int precision, const struct cel_val *v)
{
    double d = v->k == CEL_DOUBLE ? v->d : v->k == CEL_INT ? (double)v->i : (double)v->u;

    if (v->k != CEL_DOUBLE && v->k != CEL_INT && v->k != CEL_UINT)
        return false;
    if (precision < 0)
        precision = 6;
    if (verb == 'f')
        sw_tx_printf(b, "%.*f", precision, d);
    else
        sw_tx_printf(b, "%.*e", precision, d);
    return true;
}

/* One clause; NULL, or what is wrong with it. */
static const char *put_clause(struct cel_env *env, struct sw_buf *b, char verb, int precision,
                              const struct cel_val *v)
{
    const char *only;
    bool done;

    switch (verb) {
    case 's':
        put_value(env, b, v, false);
        return NULL;
    case 'd':
        only = "decimal clause can only be used on integers";
        done = put_integer(b, verb, v);
        break;
    case 'f':
        only = "fixed-point clause can only be used on doubles";
        done = put_real(b, verb, precision, v);
        break;
    case 'e':
        only = "scientific clause can only be used on doubles";
        done = put_real(b, verb, precision, v);
        break;
    case 'b':
        only = "only integers and bools can be formatted as binary";
        done = put_bits(b, v);
        break;
    case 'o':
        only = "octal clause can only be used on integers";
        done = put_integer(b, verb, v);
        break;
    case 'x':
    case 'X':
        only = "only integers, byte buffers, and strings can be formatted as hex";
        done = put_hex(b, verb, v);
        break;
    default:
        return sw_arena_printf(
            env->a, "could not parse formatting clause: unrecognized formatting clause \"%c\"",
            verb);
    }
    return done ? NULL
                : sw_arena_printf(env->a, "%s, was given %s", only,
                                  v->k == CEL_TYPE ? "type" : cel_kind_name(v->k));
}

/* ".3" of "%.3f"; moves *i behind it. */
static int take_precision(struct sw_slice s, size_t *i)
{
    int p = 0;

    if (*i >= s.n || s.p[*i] != '.')
        return -1;
    for ((*i)++; *i < s.n && isdigit((unsigned char)s.p[*i]); (*i)++)
        p = p < PRECISION_MAX ? p * 10 + (s.p[*i] - '0') : PRECISION_MAX;
    return p;
}

FN(format_string)
{
    SW_BUF_AUTO b = {.max = 4 << 20};
    size_t next = 0;

    NEED_STRINGS(1);
    if (a[1].k != CEL_LIST)
        return cel_error(env, "no such overload");
    for (size_t i = 0; i < a[0].s.n && env->cost <= env->limit; i++) {
        struct cel_val v;
        const char *why;
        int precision;

        if (a[0].s.p[i] != '%') {
            sw_tx_c(&b, a[0].s.p[i]);
            continue;
        }
        if (++i >= a[0].s.n)
            return cel_error(env, "could not parse formatting clause: unexpected end of format "
                                  "string");
        if (a[0].s.p[i] == '%') {
            sw_tx_c(&b, '%');
            continue;
        }
        precision = take_precision(a[0].s, &i);
        if (next >= cel_len(&a[1]))
            return cel_error(env, "index %zu out of range", next);
        if (i >= a[0].s.n)
            return cel_error(env, "could not parse formatting clause: unexpected end of format "
                                  "string");
        v = cel_at(env, &a[1], next++);
        why = put_clause(env, &b, a[0].s.p[i], precision, &v);
        if (why)
            return cel_error(env, "error during formatting: %s", why);
        charge(env, 10);
    }
    return cel_string(sw_arena_slice(env->a, sw_buf_slice(&b)));
}
