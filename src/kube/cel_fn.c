/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions. Signatures are letters: s string, i int, u uint, d double, b bool, y bytes,
 * D duration, T timestamp, l any list, L list of strings, n list of numbers, m map or object,
 * o optional, F named format, * anything; results also e (element of the first argument),
 * S (type of the first argument), O (optional of the first argument), t (type).
 */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/time.h"
#include "kube/cel_priv.h"
#include "kube/errs.h"
#include "kube/names.h"
#include "kube/regex.h"
#include "kube/text.h"

#define FN(name)                                                                                   \
    static struct cel_val name(struct cel_env *env, const struct cel_node *n, struct cel_val *a,   \
                               size_t na)

static void charge(struct cel_env *env, size_t bytes)
{
    env->cost += bytes / 10 + 1;
}

/* ---- sizes and strings ---- */

FN(fn_size)
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

static bool strings(const struct cel_val *a, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (a[i].k != CEL_STRING)
            return false;
    }
    return true;
}

#define NEED_STRINGS(count)                                                                        \
    do {                                                                                           \
        if (!strings(a, (count)))                                                                  \
            return cel_error(env, "no such overload");                                             \
        charge(env, a[0].s.n);                                                                     \
    } while (0)

FN(fn_contains)
{
    NEED_STRINGS(2);
    return cel_bool(!a[1].s.n || (a[0].s.n && memmem(a[0].s.p, a[0].s.n, a[1].s.p, a[1].s.n)));
}

FN(fn_starts)
{
    NEED_STRINGS(2);
    return cel_bool(sw_slice_has_prefix(a[0].s, a[1].s));
}

FN(fn_ends)
{
    NEED_STRINGS(2);
    return cel_bool(sw_slice_has_suffix(a[0].s, a[1].s));
}

/* The node's own expression, or one compiled for this call. */
static struct sw_regex *regex_for(struct cel_env *env, const struct cel_node *n,
                                  struct sw_slice pattern, struct cel_val *ret_err)
{
    struct sw_regex *re = n->re;
    struct sw_err err = {0};

    env->cost += pattern.n / 4 + 1;
    if (!re && sw_regex_new(pattern, &re, &err) < 0) {
        *ret_err = cel_error(env, "%s", err.msg);
        return NULL;
    }
    return re;
}

FN(fn_matches)
{
    struct cel_val err;
    struct sw_regex *re;
    int rc;

    NEED_STRINGS(2);
    re = regex_for(env, n, a[1].s, &err);
    if (!re)
        return err;
    env->cost += (a[0].s.n / 10 + 1) * (sw_regex_cost(re) / 4 + 1);
    rc = sw_regex_search(re, a[0].s, 0, NULL, NULL);
    if (re != n->re)
        sw_regex_free(re);
    return rc < 0 ? cel_error(env, "regular expression took too long") : cel_bool(rc == 1);
}

FN(fn_find)
{
    bool all = sw_slice_eq_str(n->name, "findAll");
    int64_t max = na > 2 && a[2].k == CEL_INT ? a[2].i : -1;
    struct cel_val list = cel_new_list(env);
    struct cel_val err;
    struct sw_regex *re;
    size_t from = 0, at = 0, len = 0;

    NEED_STRINGS(2);
    re = regex_for(env, n, a[1].s, &err);
    if (!re)
        return err;
    while (from <= a[0].s.n && max != 0 && sw_regex_search(re, a[0].s, from, &at, &len) == 1) {
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
    if (re != n->re)
        sw_regex_free(re);
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

FN(fn_substring)
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

FN(fn_char_at)
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

FN(fn_index_of)
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

FN(fn_case)
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

FN(fn_trim)
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

FN(fn_split)
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

FN(fn_replace)
{
    SW_BUF_AUTO b = {0};
    int64_t max = na > 3 && a[3].k == CEL_INT ? a[3].i : -1;
    struct sw_slice rest;

    NEED_STRINGS(3);
    rest = a[0].s;
    sw_buf_init(&b, 4 << 20);
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

FN(fn_join)
{
    SW_BUF_AUTO b = {0};
    struct sw_slice sep = na > 1 && a[1].k == CEL_STRING ? a[1].s : sw_slice("", 0);

    if (a[0].k != CEL_LIST)
        return cel_error(env, "no such overload");
    sw_buf_init(&b, 4 << 20);
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

FN(fn_quote)
{
    NEED_STRINGS(1);
    return cel_string(sw_slice_str(sw_go_quote(env->a, a[0].s)));
}

FN(fn_reverse)
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

/* ---- lists ---- */

FN(fn_is_sorted)
{
    for (size_t i = 1; i < cel_len(&a[0]); i++) {
        struct cel_val x = cel_at(env, &a[0], i - 1);
        struct cel_val y = cel_at(env, &a[0], i);
        int c;

        env->cost++;
        if (!cel_order(&x, &y, &c))
            return cel_error(env, "no such overload");
        if (c > 0)
            return cel_bool(false);
    }
    return cel_bool(true);
}

FN(fn_sum)
{
    struct cel_val r = cel_int(0);

    for (size_t i = 0; i < cel_len(&a[0]); i++) {
        struct cel_val x = cel_at(env, &a[0], i);

        env->cost++;
        r = i ? cel_binary(env, OP_ADD, r, x) : x;
        if (r.k == CEL_ERROR)
            return r;
    }
    return r;
}

FN(fn_min_max)
{
    bool max = sw_slice_eq_str(n->name, "max");
    struct cel_val r;

    if (!cel_len(&a[0]))
        return cel_error(env, "%s called on empty list", max ? "max" : "min");
    r = cel_at(env, &a[0], 0);
    for (size_t i = 1; i < cel_len(&a[0]); i++) {
        struct cel_val x = cel_at(env, &a[0], i);
        int c;

        env->cost++;
        if (!cel_order(&x, &r, &c))
            return cel_error(env, "no such overload");
        if (max ? c > 0 : c < 0)
            r = x;
    }
    return r;
}

/* How many items of x are in y. */
static size_t overlap(struct cel_env *env, const struct cel_val *x, const struct cel_val *y)
{
    size_t hits = 0;

    for (size_t i = 0; i < cel_len(x) && env->cost <= env->limit; i++) {
        struct cel_val item = cel_at(env, x, i);
        struct cel_val in = cel_binary(env, OP_IN, item, *y);

        hits += in.k == CEL_BOOL && in.b;
    }
    return hits;
}

FN(fn_sets)
{
    if (sw_slice_has_suffix(n->name, SW_SLICE_LIT("intersects")))
        return cel_bool(overlap(env, &a[0], &a[1]) > 0);
    if (overlap(env, &a[1], &a[0]) != cel_len(&a[1]))
        return cel_bool(false);
    if (sw_slice_has_suffix(n->name, SW_SLICE_LIT("contains")))
        return cel_bool(true);
    return cel_bool(overlap(env, &a[0], &a[1]) == cel_len(&a[0]));
}

/* ---- conversions ---- */

static bool to_text(struct sw_slice s, char *buf, size_t cap)
{
    if (!s.n || s.n >= cap || isspace((unsigned char)s.p[0]))
        return false;
    memcpy(buf, s.p, s.n);
    buf[s.n] = 0;
    return strlen(buf) == s.n;
}

FN(fn_int)
{
    char buf[64];
    char *end;
    struct cel_val r = cel_int(0);

    switch ((int)a[0].k) {
    case CEL_INT:
        return a[0];
    case CEL_TIMESTAMP:
        return cel_int(a[0].i);
    case CEL_UINT:
        r.i = (int64_t)a[0].u;
        return a[0].u > INT64_MAX ? cel_error(env, "integer overflow") : r;
    case CEL_DOUBLE:
        if (!(a[0].d > -9.2233720368547758e18 && a[0].d < 9.2233720368547758e18))
            return cel_error(env, "integer overflow");
        r.i = (int64_t)a[0].d;
        return r;
    case CEL_STRING:
        errno = 0;
        if (to_text(a[0].s, buf, sizeof(buf))) {
            r.i = strtoll(buf, &end, 10);
            if (!errno && !*end)
                return r;
        }
        return cel_error(env, "type conversion error from 'string' to 'int'");
    default:
        return cel_error(env, "no such overload");
    }
}

FN(fn_uint)
{
    char buf[64];
    char *end;
    struct cel_val r = {.k = CEL_UINT};

    switch ((int)a[0].k) {
    case CEL_UINT:
        return a[0];
    case CEL_INT:
        r.u = (uint64_t)a[0].i;
        return a[0].i < 0 ? cel_error(env, "unsigned integer overflow") : r;
    case CEL_DOUBLE:
        if (!(a[0].d >= 0 && a[0].d < 1.8446744073709551e19))
            return cel_error(env, "unsigned integer overflow");
        r.u = (uint64_t)a[0].d;
        return r;
    case CEL_STRING:
        errno = 0;
        if (to_text(a[0].s, buf, sizeof(buf)) && buf[0] != '-') {
            r.u = strtoull(buf, &end, 10);
            if (!errno && !*end)
                return r;
        }
        return cel_error(env, "type conversion error from 'string' to 'uint'");
    default:
        return cel_error(env, "no such overload");
    }
}

FN(fn_double)
{
    char buf[64];
    char *end;
    struct cel_val r = {.k = CEL_DOUBLE};

    switch ((int)a[0].k) {
    case CEL_DOUBLE:
        return a[0];
    case CEL_INT:
        r.d = (double)a[0].i;
        return r;
    case CEL_UINT:
        r.d = (double)a[0].u;
        return r;
    case CEL_STRING:
        if (to_text(a[0].s, buf, sizeof(buf))) {
            r.d = strtod(buf, &end);
            if (!*end)
                return r;
        }
        return cel_error(env, "type conversion error from 'string' to 'double'");
    default:
        return cel_error(env, "no such overload");
    }
}

FN(fn_bool)
{
    static const char *const yes[] = {"1", "t", "true", "TRUE", "True", "T"};
    static const char *const no[] = {"0", "f", "false", "FALSE", "False", "F"};

    if (a[0].k == CEL_BOOL)
        return a[0];
    if (a[0].k != CEL_STRING)
        return cel_error(env, "no such overload");
    for (size_t i = 0; i < SW_ARRAY_LEN(yes); i++) {
        if (sw_slice_eq_str(a[0].s, yes[i]))
            return cel_bool(true);
        if (sw_slice_eq_str(a[0].s, no[i]))
            return cel_bool(false);
    }
    return cel_error(env, "type conversion error from 'string' to 'bool'");
}

static const char *time_text(struct cel_env *env, const struct cel_val *v)
{
    char out[SW_RFC3339_LEN];

    if (v->i < 0)
        return sw_arena_printf(env->a, "%lld", (long long)v->i);
    return sw_arena_dup(
        env->a,
        sw_slice_str(sw_rfc3339((uint64_t)v->i * SW_NS_PER_S + (uint64_t)v->ns, v->ns != 0, out)));
}

FN(fn_string)
{
    const char *p;

    switch ((int)a[0].k) {
    case CEL_STRING:
        return a[0];
    case CEL_BYTES:
        return sw_utf8_valid(a[0].s)
                   ? cel_string(a[0].s)
                   : cel_error(env, "invalid UTF-8 in bytes, cannot convert to string");
    case CEL_BOOL:
        p = a[0].b ? "true" : "false";
        break;
    case CEL_INT:
        p = sw_arena_printf(env->a, "%lld", (long long)a[0].i);
        break;
    case CEL_UINT:
        p = sw_arena_printf(env->a, "%llu", (unsigned long long)a[0].u);
        break;
    case CEL_DOUBLE:
        p = sw_go_float(env->a, a[0].d);
        break;
    case CEL_DURATION:
        p = sw_arena_printf(env->a, "%ss", sw_go_float(env->a, (double)a[0].i / 1e9));
        break;
    case CEL_TIMESTAMP:
        p = time_text(env, &a[0]);
        break;
    default:
        return cel_error(env, "no such overload");
    }
    return cel_string(sw_slice_str(p));
}

FN(fn_bytes)
{
    if (a[0].k != CEL_STRING && a[0].k != CEL_BYTES)
        return cel_error(env, "no such overload");
    return (struct cel_val){.k = CEL_BYTES, .s = a[0].s};
}

FN(fn_dyn)
{
    return a[0];
}

FN(fn_type)
{
    static const char *const names[] = {"dyn",
                                        "null_type",
                                        "bool",
                                        "int",
                                        "uint",
                                        "double",
                                        "string",
                                        "bytes",
                                        "list",
                                        "map",
                                        "map",
                                        "google.protobuf.Duration",
                                        "google.protobuf.Timestamp",
                                        "type",
                                        "optional_type",
                                        "kubernetes.NamedFormat",
                                        "error"};

    return (struct cel_val){.k = CEL_TYPE, .s = sw_slice_str(names[a[0].k])};
}

FN(fn_duration)
{
    struct cel_val r = {.k = CEL_DURATION};

    if (a[0].k == CEL_DURATION)
        return a[0];
    if (a[0].k != CEL_STRING)
        return cel_error(env, "no such overload");
    if (!cel_parse_duration(a[0].s, &r.i))
        return cel_error(env, "time: invalid duration %s", sw_go_quote(env->a, a[0].s));
    return r;
}

FN(fn_timestamp)
{
    struct cel_val r = {.k = CEL_TIMESTAMP};

    if (a[0].k == CEL_TIMESTAMP)
        return a[0];
    if (a[0].k == CEL_INT) {
        r.i = a[0].i;
        return r;
    }
    if (a[0].k != CEL_STRING)
        return cel_error(env, "no such overload");
    if (!cel_parse_time(a[0].s, &r.i, &r.ns))
        return cel_error(env, "parsing time %s: invalid", sw_go_quote(env->a, a[0].s));
    return r;
}

/* Days since the epoch to a civil date. */
static void civil(int64_t days, int64_t *y, int *m, int *d)
{
    int64_t z = days + 719468;
    int64_t era = (z >= 0 ? z : z - 146096) / 146097;
    int64_t doe = z - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    int64_t mp = (5 * doy + 2) / 153;

    *d = (int)(doy - (153 * mp + 2) / 5 + 1);
    *m = (int)(mp < 10 ? mp + 3 : mp - 9);
    *y = yoe + era * 400 + (*m <= 2);
}

static int64_t from_civil(int64_t y, int m, int d)
{
    int64_t era, yoe, doy, doe;

    y -= m <= 2;
    era = (y >= 0 ? y : y - 399) / 400;
    yoe = y - era * 400;
    doy = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
    doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
    return era * 146097 + doe - 719468;
}

static int64_t date_part(struct sw_slice name, int64_t sec, int32_t ns)
{
    int64_t days = sec / 86400 - (sec % 86400 < 0);
    int64_t in_day = sec - days * 86400;
    int64_t y;
    int m, d;

    civil(days, &y, &m, &d);
    if (sw_slice_eq_str(name, "getFullYear"))
        return y;
    if (sw_slice_eq_str(name, "getMonth"))
        return m - 1;
    if (sw_slice_eq_str(name, "getDate"))
        return d;
    if (sw_slice_eq_str(name, "getDayOfMonth"))
        return d - 1;
    if (sw_slice_eq_str(name, "getDayOfWeek"))
        return ((days % 7) + 11) % 7;
    if (sw_slice_eq_str(name, "getDayOfYear"))
        return days - from_civil(y, 1, 1);
    if (sw_slice_eq_str(name, "getHours"))
        return in_day / 3600;
    if (sw_slice_eq_str(name, "getMinutes"))
        return in_day / 60 % 60;
    if (sw_slice_eq_str(name, "getSeconds"))
        return in_day % 60;
    return ns / 1000000;
}

FN(fn_time_part)
{
    if (a[0].k == CEL_TIMESTAMP)
        return cel_int(date_part(n->name, a[0].i, a[0].ns));
    if (a[0].k != CEL_DURATION)
        return cel_error(env, "no such overload");
    if (sw_slice_eq_str(n->name, "getHours"))
        return cel_int(a[0].i / INT64_C(3600000000000));
    if (sw_slice_eq_str(n->name, "getMinutes"))
        return cel_int(a[0].i / INT64_C(60000000000));
    if (sw_slice_eq_str(n->name, "getSeconds"))
        return cel_int(a[0].i / INT64_C(1000000000));
    return cel_int(a[0].i / 1000000);
}

/* Two digits the format check has already seen. */
static int two(const char *p)
{
    return (p[0] - '0') * 10 + (p[1] - '0');
}

bool cel_parse_time(struct sw_slice s, int64_t *ret_sec, int32_t *ret_ns)
{
    char b[48];
    size_t i = 19;
    int64_t zone = 0;
    int32_t ns = 0;

    /* Afterwards every digit is where it belongs: YYYY-MM-DDTHH:MM:SS[.f](Z|+HH:MM). */
    if (!sw_format_ok(SW_SLICE_LIT("date-time"), s) || !to_text(s, b, sizeof(b)))
        return false;
    if (b[i] == '.') {
        int32_t unit = 100000000;

        for (i++; isdigit((unsigned char)b[i]); i++, unit /= 10)
            ns += (b[i] - '0') * unit;
    }
    if (b[i] == '+' || b[i] == '-')
        zone = (b[i] == '-' ? -60 : 60) * ((int64_t)two(b + i + 1) * 60 + two(b + i + 4));
    *ret_sec = from_civil(two(b) * 100 + two(b + 2), two(b + 5), two(b + 8)) * 86400 +
               (int64_t)two(b + 11) * 3600 + (int64_t)two(b + 14) * 60 + two(b + 17) - zone;
    *ret_ns = ns;
    return true;
}

bool cel_parse_duration(struct sw_slice s, int64_t *ret_ns)
{
    static const struct {
        const char *unit;
        double ns;
    } units[] = {{"ns", 1},   {"us", 1e3},   {"\xc2\xb5s", 1e3}, {"\xce\xbcs", 1e3},
                 {"ms", 1e6}, {"h", 3.6e12}, {"m", 6e10},        {"s", 1e9}};
    long double total = 0;
    bool neg = false;

    if (s.n && (s.p[0] == '-' || s.p[0] == '+')) {
        neg = s.p[0] == '-';
        s = sw_slice_from(s, 1);
    }
    if (sw_slice_eq_str(s, "0")) {
        *ret_ns = 0;
        return true;
    }
    if (!s.n)
        return false;
    while (s.n) {
        char num[32];
        size_t k = 0;
        size_t u = 0;

        while (k < s.n && k < sizeof(num) - 1 && (isdigit((unsigned char)s.p[k]) || s.p[k] == '.'))
            k++;
        if (!to_text(sw_slice_head(s, k), num, sizeof(num)) ||
            strchr(num, '.') != strrchr(num, '.') || (k == 1 && num[0] == '.'))
            return false;
        s = sw_slice_from(s, k);
        while (u < SW_ARRAY_LEN(units) && !sw_slice_has_prefix(s, sw_slice_str(units[u].unit)))
            u++;
        if (u == SW_ARRAY_LEN(units))
            return false;
        s = sw_slice_from(s, strlen(units[u].unit));
        total += strtold(num, NULL) * (long double)units[u].ns;
    }
    if (total > 9.223372036854775e18L)
        return false;
    *ret_ns = neg ? -(int64_t)total : (int64_t)total;
    return true;
}

/* ---- Kubernetes extensions ---- */

FN(fn_is_ip)
{
    NEED_STRINGS(1);
    return cel_bool(sw_is_ipv4(a[0].s) || sw_is_ipv6(a[0].s));
}

FN(fn_is_cidr)
{
    NEED_STRINGS(1);
    return cel_bool(sw_is_cidr(a[0].s));
}

FN(fn_is_quantity)
{
    static const char re[] = "^[+-]?([0-9]+(\\.[0-9]*)?|\\.[0-9]+)"
                             "([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?$";
    struct sw_regex *r;
    bool ok;

    NEED_STRINGS(1);
    if (sw_regex_new(sw_slice_str(re), &r, NULL) < 0)
        return cel_bool(false);
    ok = sw_regex_search(r, a[0].s, 0, NULL, NULL) == 1;
    sw_regex_free(r);
    return cel_bool(ok);
}

static struct sw_name_msgs date_msgs(struct sw_slice s)
{
    struct sw_name_msgs m = {0};

    if (!sw_format_ok(SW_SLICE_LIT("date"), s))
        m.p[m.n++] = "invalid date";
    return m;
}

#define FORMAT_CHECK(fn, name, text)                                                               \
    static struct sw_name_msgs fn(struct sw_slice s)                                               \
    {                                                                                              \
        struct sw_name_msgs m = {0};                                                               \
                                                                                                   \
        if (!sw_format_ok(SW_SLICE_LIT(name), s))                                                  \
            m.p[m.n++] = text;                                                                     \
        return m;                                                                                  \
    }
FORMAT_CHECK(uri_msgs, "uri", "invalid URI reference")
FORMAT_CHECK(uuid_msgs, "uuid", "does not match the UUID format")
FORMAT_CHECK(byte_msgs, "byte", "invalid base64")
FORMAT_CHECK(datetime_msgs, "date-time", "invalid datetime")

static const struct {
    const char *name;
    sw_name_fn check;
} formats[] = {
    {"format.dns1123Label", sw_name_dns1123_label},
    {"format.dns1123Subdomain", sw_name_dns1123_subdomain},
    {"format.dns1035Label", sw_name_dns1035_label},
    {"format.qualifiedName", sw_name_label_key},
    {"format.labelValue", sw_name_label_value},
    {"format.uri", uri_msgs},
    {"format.uuid", uuid_msgs},
    {"format.byte", byte_msgs},
    {"format.date", date_msgs},
    {"format.datetime", datetime_msgs},
};

FN(fn_format)
{
    return (struct cel_val){.k = CEL_FORMAT, .s = n->name};
}

FN(fn_validate)
{
    struct cel_val list = cel_new_list(env);
    struct cel_val *copy;

    if (a[0].k != CEL_FORMAT || a[1].k != CEL_STRING)
        return cel_error(env, "no such overload");
    charge(env, a[1].s.n);
    for (size_t i = 0; i < SW_ARRAY_LEN(formats); i++) {
        struct sw_name_msgs m = {0};

        if (sw_slice_eq_str(a[0].s, formats[i].name))
            m = formats[i].check(a[1].s);
        for (size_t j = 0; j < m.n; j++)
            cel_push(env, &list, cel_string(sw_slice_str(m.p[j])));
    }
    if (!list.lst->n)
        return (struct cel_val){.k = CEL_OPTIONAL};
    copy = SW_ARENA_NEW(env->a, struct cel_val);
    *copy = list;
    return (struct cel_val){.k = CEL_OPTIONAL, .opt = copy};
}

/* ---- optionals ---- */

static bool zero_value(const struct cel_val *v)
{
    switch (v->k) {
    case CEL_NULL:
        return true;
    case CEL_BOOL:
        return !v->b;
    case CEL_INT:
    case CEL_DURATION:
        return !v->i;
    case CEL_UINT:
        return !v->u;
    case CEL_DOUBLE:
        return v->d == 0;
    case CEL_STRING:
    case CEL_BYTES:
        return !v->s.n;
    case CEL_LIST:
    case CEL_MAP:
    case CEL_OBJECT:
        return !cel_len(v);
    case CEL_OPTIONAL:
        return !v->opt;
    case CEL_DYN:
    case CEL_TIMESTAMP:
    case CEL_TYPE:
    case CEL_FORMAT:
    case CEL_ERROR:
        break;
    }
    return false;
}

FN(fn_optional)
{
    struct cel_val *copy;

    if (sw_slice_eq_str(n->name, "optional.none") ||
        (sw_slice_eq_str(n->name, "optional.ofNonZeroValue") && zero_value(&a[0])))
        return (struct cel_val){.k = CEL_OPTIONAL};
    copy = SW_ARENA_NEW(env->a, struct cel_val);
    *copy = a[0];
    return (struct cel_val){.k = CEL_OPTIONAL, .opt = copy};
}

FN(fn_opt_access)
{
    if (a[0].k != CEL_OPTIONAL)
        return cel_error(env, "no such overload");
    if (sw_slice_eq_str(n->name, "hasValue"))
        return cel_bool(a[0].opt);
    if (sw_slice_eq_str(n->name, "or"))
        return a[0].opt ? a[0] : a[1];
    if (a[0].opt)
        return *a[0].opt;
    return na > 1 ? a[1] : cel_error(env, "optional.none() dereference");
}

/* ---- the table ---- */

static const struct cel_fn table[] = {
    {"size", "s:i", true, fn_size},
    {"size", "y:i", true, fn_size},
    {"size", "l:i", true, fn_size},
    {"size", "m:i", true, fn_size},
    {"size", "s:i", false, fn_size},
    {"size", "y:i", false, fn_size},
    {"size", "l:i", false, fn_size},
    {"size", "m:i", false, fn_size},
    {"contains", "ss:b", true, fn_contains},
    {"startsWith", "ss:b", true, fn_starts},
    {"endsWith", "ss:b", true, fn_ends},
    {"matches", "ss:b", true, fn_matches},
    {"matches", "ss:b", false, fn_matches},
    {"find", "ss:s", true, fn_find},
    {"findAll", "ss:L", true, fn_find},
    {"findAll", "ssi:L", true, fn_find},
    {"substring", "si:s", true, fn_substring},
    {"substring", "sii:s", true, fn_substring},
    {"charAt", "si:s", true, fn_char_at},
    {"indexOf", "ss:i", true, fn_index_of},
    {"indexOf", "ssi:i", true, fn_index_of},
    {"indexOf", "l*:i", true, fn_index_of},
    {"lastIndexOf", "ss:i", true, fn_index_of},
    {"lastIndexOf", "ssi:i", true, fn_index_of},
    {"lastIndexOf", "l*:i", true, fn_index_of},
    {"lowerAscii", "s:s", true, fn_case},
    {"upperAscii", "s:s", true, fn_case},
    {"trim", "s:s", true, fn_trim},
    {"split", "ss:L", true, fn_split},
    {"split", "ssi:L", true, fn_split},
    {"replace", "sss:s", true, fn_replace},
    {"replace", "sssi:s", true, fn_replace},
    {"join", "L:s", true, fn_join},
    {"join", "Ls:s", true, fn_join},
    {"strings.quote", "s:s", false, fn_quote},
    {"reverse", "s:s", true, fn_reverse},
    {"isSorted", "l:b", true, fn_is_sorted},
    {"sum", "n:e", true, fn_sum},
    {"min", "l:e", true, fn_min_max},
    {"max", "l:e", true, fn_min_max},
    {"sets.contains", "ll:b", false, fn_sets},
    {"sets.equivalent", "ll:b", false, fn_sets},
    {"sets.intersects", "ll:b", false, fn_sets},
    {"int", "i:i", false, fn_int},
    {"int", "u:i", false, fn_int},
    {"int", "d:i", false, fn_int},
    {"int", "s:i", false, fn_int},
    {"int", "T:i", false, fn_int},
    {"uint", "u:u", false, fn_uint},
    {"uint", "i:u", false, fn_uint},
    {"uint", "d:u", false, fn_uint},
    {"uint", "s:u", false, fn_uint},
    {"double", "d:d", false, fn_double},
    {"double", "i:d", false, fn_double},
    {"double", "u:d", false, fn_double},
    {"double", "s:d", false, fn_double},
    {"bool", "b:b", false, fn_bool},
    {"bool", "s:b", false, fn_bool},
    {"string", "s:s", false, fn_string},
    {"string", "b:s", false, fn_string},
    {"string", "i:s", false, fn_string},
    {"string", "u:s", false, fn_string},
    {"string", "d:s", false, fn_string},
    {"string", "y:s", false, fn_string},
    {"string", "D:s", false, fn_string},
    {"string", "T:s", false, fn_string},
    {"bytes", "s:y", false, fn_bytes},
    {"bytes", "y:y", false, fn_bytes},
    {"dyn", "*:*", false, fn_dyn},
    {"type", "*:t", false, fn_type},
    {"duration", "s:D", false, fn_duration},
    {"duration", "D:D", false, fn_duration},
    {"timestamp", "s:T", false, fn_timestamp},
    {"timestamp", "T:T", false, fn_timestamp},
    {"timestamp", "i:T", false, fn_timestamp},
    {"getFullYear", "T:i", true, fn_time_part},
    {"getMonth", "T:i", true, fn_time_part},
    {"getDate", "T:i", true, fn_time_part},
    {"getDayOfMonth", "T:i", true, fn_time_part},
    {"getDayOfWeek", "T:i", true, fn_time_part},
    {"getDayOfYear", "T:i", true, fn_time_part},
    {"getHours", "T:i", true, fn_time_part},
    {"getHours", "D:i", true, fn_time_part},
    {"getMinutes", "T:i", true, fn_time_part},
    {"getMinutes", "D:i", true, fn_time_part},
    {"getSeconds", "T:i", true, fn_time_part},
    {"getSeconds", "D:i", true, fn_time_part},
    {"getMilliseconds", "T:i", true, fn_time_part},
    {"getMilliseconds", "D:i", true, fn_time_part},
    {"isIP", "s:b", false, fn_is_ip},
    {"isCIDR", "s:b", false, fn_is_cidr},
    {"isQuantity", "s:b", false, fn_is_quantity},
    {"format.dns1123Label", ":F", false, fn_format},
    {"format.dns1123Subdomain", ":F", false, fn_format},
    {"format.dns1035Label", ":F", false, fn_format},
    {"format.qualifiedName", ":F", false, fn_format},
    {"format.labelValue", ":F", false, fn_format},
    {"format.uri", ":F", false, fn_format},
    {"format.uuid", ":F", false, fn_format},
    {"format.byte", ":F", false, fn_format},
    {"format.date", ":F", false, fn_format},
    {"format.datetime", ":F", false, fn_format},
    {"validate", "Fs:V", true, fn_validate},
    {"optional.of", "*:O", false, fn_optional},
    {"optional.ofNonZeroValue", "*:O", false, fn_optional},
    {"optional.none", ":o", false, fn_optional},
    {"hasValue", "o:b", true, fn_opt_access},
    {"value", "o:e", true, fn_opt_access},
    {"orValue", "o*:e", true, fn_opt_access},
    {"or", "oo:S", true, fn_opt_access},
};

static const struct cel_type t_dyn = {.k = CEL_DYN};
static const struct cel_type t_string = {.k = CEL_STRING};
static const struct cel_type t_strings = {.k = CEL_LIST, .elem = &t_string};
static const struct cel_type t_maybe = {.k = CEL_OPTIONAL, .elem = &t_dyn};
static const struct cel_type t_messages = {.k = CEL_OPTIONAL, .elem = &t_strings};

static enum cel_kind letter_kind(char c)
{
    static const char letters[] = "siudbyDTFt";
    static const enum cel_kind kinds[] = {CEL_STRING, CEL_INT,   CEL_UINT,     CEL_DOUBLE,
                                          CEL_BOOL,   CEL_BYTES, CEL_DURATION, CEL_TIMESTAMP,
                                          CEL_FORMAT, CEL_TYPE};
    const char *p = strchr(letters, c);

    return p && *p ? kinds[p - letters] : CEL_DYN;
}

static bool arg_fits(char c, const struct cel_type *t)
{
    if (c == '*' || t->k == CEL_DYN)
        return true;
    if (c == 'o')
        return t->k == CEL_OPTIONAL;
    if (c == 'm')
        return t->k == CEL_MAP;
    if (c == 'l')
        return t->k == CEL_LIST;
    if (c == 'L')
        return t->k == CEL_LIST && (t->elem->k == CEL_STRING || t->elem->k == CEL_DYN);
    if (c == 'n')
        return t->k == CEL_LIST &&
               (t->elem->k == CEL_INT || t->elem->k == CEL_UINT || t->elem->k == CEL_DOUBLE ||
                t->elem->k == CEL_DURATION || t->elem->k == CEL_DYN);
    return t->k == letter_kind(c);
}

const struct cel_fn *cel_fn_find(struct sw_slice name, bool member,
                                 const struct cel_type *const *args, size_t nargs, bool *ret_any)
{
    *ret_any = false;
    for (size_t i = 0; i < SW_ARRAY_LEN(table); i++) {
        const char *sig = table[i].sig;
        size_t k = 0;

        if (!sw_slice_eq_str(name, table[i].name))
            continue;
        *ret_any = true;
        if (table[i].member != member)
            continue;
        while (k < nargs && sig[k] != ':' && arg_fits(sig[k], args[k]))
            k++;
        if (k == nargs && sig[k] == ':')
            return &table[i];
    }
    return NULL;
}

bool cel_fn_exists(struct sw_slice name)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(table); i++) {
        if (sw_slice_eq_str(name, table[i].name))
            return true;
    }
    return false;
}

const struct cel_type *cel_fn_result(struct sw_arena *a, const struct cel_fn *fn,
                                     const struct cel_type *const *args, size_t nargs)
{
    char c = strchr(fn->sig, ':')[1];
    struct cel_type *t;

    if (c == '*' || (c == 'e' && (!nargs || !args[0]->elem)))
        return &t_dyn;
    if (c == 'e')
        return args[0]->elem;
    if (c == 'S')
        return args[0];
    if (c == 'L')
        return &t_strings;
    if (c == 'V')
        return &t_messages;
    if (c == 'o')
        return &t_maybe;
    t = SW_ARENA_NEW(a, struct cel_type);
    t->k = c == 'O' ? CEL_OPTIONAL : letter_kind(c);
    if (c == 'O')
        t->elem = args[0];
    return t;
}
