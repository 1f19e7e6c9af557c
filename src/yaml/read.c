/* SPDX-License-Identifier: Apache-2.0 */
/* Typed reads from the tree, and the schema that gives a plain scalar its type. */
#include "base/hex.h"
#include "base/search.h"
#include "yaml/yaml.h"

#include <stdio.h>

#include "base/buf.h"

static struct sw_slice unsigned_part(struct sw_slice s)
{
    return s.n && (s.p[0] == '-' || s.p[0] == '+') ? sw_slice_from(s, 1) : s;
}

static size_t digits(struct sw_slice s)
{
    size_t n = 0;

    while (n < s.n && s.p[n] >= '0' && s.p[n] <= '9')
        n++;
    return n;
}

static bool all_in(struct sw_slice s, const char *set)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '\0' || !strchr(set, s.p[i]))
            return false;
    }
    return s.n > 0;
}

static bool is_int(struct sw_slice s)
{
    struct sw_slice u = unsigned_part(s);

    if (sw_slice_has_prefix(s, SW_SLICE_LIT("0x")))
        return all_in(sw_slice_from(s, 2), "0123456789abcdefABCDEF");
    if (sw_slice_has_prefix(s, SW_SLICE_LIT("0o")))
        return all_in(sw_slice_from(s, 2), "01234567");
    return u.n && digits(u) == u.n;
}

bool sw_yaml_decimal(struct sw_slice s)
{
    struct sw_slice u = unsigned_part(s);
    size_t whole = digits(u);
    size_t frac = 0;

    u = sw_slice_from(u, whole);
    if (u.n && u.p[0] == '.') {
        u = sw_slice_from(u, 1);
        frac = digits(u);
        u = sw_slice_from(u, frac);
    }
    if (whole + frac == 0)
        return false;
    if (u.n && (u.p[0] == 'e' || u.p[0] == 'E')) {
        u = unsigned_part(sw_slice_from(u, 1));
        return u.n && digits(u) == u.n;
    }
    return u.n == 0;
}

static bool is_float(struct sw_slice s)
{
    static const char *const inf[] = {".inf", ".Inf", ".INF", NULL};
    static const char *const nan[] = {".nan", ".NaN", ".NAN", NULL};

    return sw_word_in(unsigned_part(s), inf) || sw_word_in(s, nan) || sw_yaml_decimal(s);
}

enum sw_yaml_type sw_yaml_type(const struct sw_yaml *node)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const bools[] = {"true", "True", "TRUE", "false", "False", "FALSE", NULL};

    if (node->kind != SW_YAML_SCALAR || !node->plain)
        return SW_YAML_STR;
    if (sw_word_in(node->text, nulls))
        return SW_YAML_NULL;
    if (sw_word_in(node->text, bools))
        return SW_YAML_BOOL;
    if (is_int(node->text))
        return SW_YAML_INT;
    return is_float(node->text) ? SW_YAML_FLOAT : SW_YAML_STR;
}

const char *sw_yaml_describe(const struct sw_yaml *node)
{
    switch (node->kind) {
    case SW_YAML_SEQ:
        return "a list";
    case SW_YAML_MAP:
        return "a map";
    case SW_YAML_SCALAR:
        break;
    }
    switch (sw_yaml_type(node)) {
    case SW_YAML_NULL:
        return "nothing";
    case SW_YAML_BOOL:
        return "a boolean";
    case SW_YAML_INT:
    case SW_YAML_FLOAT:
        return "a number";
    case SW_YAML_STR:
        break;
    }
    return "a string";
}

int sw_yaml_error(const struct sw_yaml *at, struct sw_err *err, const char *fmt, ...)
{
    char text[160];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    return sw_err_set(err, SW_EINVAL, "line %u column %u: %s", at->line, at->column, text);
}

const struct sw_yaml *sw_yaml_get(const struct sw_yaml *map, const char *key)
{
    if (map->kind != SW_YAML_MAP)
        return NULL;
    SW_YAML_FOREACH (it, map) {
        if (sw_slice_eq_str(it->key->text, key))
            return it;
    }
    return NULL;
}

static int wrong(const struct sw_yaml *node, const char *wanted, struct sw_err *err)
{
    return sw_yaml_error(node, err, "expected %s, found %s", wanted, sw_yaml_describe(node));
}

int sw_yaml_expect(const struct sw_yaml *node, enum sw_yaml_kind kind, struct sw_err *err)
{
    if (node->kind == kind)
        return SW_OK;
    return wrong(node,
                 kind == SW_YAML_MAP   ? "a map"
                 : kind == SW_YAML_SEQ ? "a list"
                                       : "a single value",
                 err);
}

int sw_yaml_text(const struct sw_yaml *node, struct sw_slice *ret, struct sw_err *err)
{
    if (node->kind != SW_YAML_SCALAR || sw_yaml_is_null(node))
        return wrong(node, "a string", err);
    *ret = node->text;
    return SW_OK;
}

int sw_yaml_str(const struct sw_yaml *node, struct sw_slice *ret, struct sw_err *err)
{
    if (node->kind != SW_YAML_SCALAR || sw_yaml_type(node) != SW_YAML_STR)
        return wrong(node, "a string", err);
    *ret = node->text;
    return SW_OK;
}

int sw_yaml_bool(const struct sw_yaml *node, bool *ret, struct sw_err *err)
{
    if (node->kind != SW_YAML_SCALAR || sw_yaml_type(node) != SW_YAML_BOOL)
        return wrong(node, "true or false", err);
    *ret = node->text.p[0] == 't' || node->text.p[0] == 'T';
    return SW_OK;
}

static bool to_i64(struct sw_slice s, int64_t *ret)
{
    bool minus = s.n && s.p[0] == '-';
    unsigned base = 10;
    int64_t v = 0;

    s = unsigned_part(s);
    if (sw_slice_has_prefix(s, SW_SLICE_LIT("0x")) || sw_slice_has_prefix(s, SW_SLICE_LIT("0o"))) {
        base = s.p[1] == 'x' ? 16 : 8;
        s = sw_slice_from(s, 2);
    }
    for (size_t i = 0; i < s.n; i++) {
        int d = sw_hex_digit(s.p[i]);

        if (__builtin_mul_overflow(v, (int64_t)base, &v) ||
            __builtin_add_overflow(v, minus ? -d : d, &v))
            return false;
    }
    *ret = v;
    return true;
}

int sw_yaml_int(const struct sw_yaml *node, int64_t min, int64_t max, int64_t *ret,
                struct sw_err *err)
{
    int64_t v;

    if (node->kind != SW_YAML_SCALAR || sw_yaml_type(node) != SW_YAML_INT)
        return wrong(node, "a whole number", err);
    if (!to_i64(node->text, &v) || v < min || v > max)
        return sw_yaml_error(node, err, "%.*s is not between %lld and %lld",
                             (int)sw_min(node->text.n, 32), node->text.p, (long long)min,
                             (long long)max);
    *ret = v;
    return SW_OK;
}

int sw_yaml_enum(const struct sw_yaml *node, const char *const *names, int *ret, struct sw_err *err)
{
    struct sw_slice s = {0};
    SW_BUF_AUTO list = {.max = 96};
    int rc = sw_yaml_text(node, &s, err);

    if (rc != SW_OK)
        return rc;
    for (int i = 0; names[i]; i++) {
        if (sw_slice_eq_str(s, names[i])) {
            *ret = i;
            return SW_OK;
        }
    }
    for (int i = 0; names[i]; i++)
        (void)!sw_buf_printf(&list, "%s%s", i ? ", " : "", names[i]);
    return sw_yaml_error(node, err, "'%.*s' is not one of %.*s", (int)sw_min(s.n, 40), s.p,
                         SW_SLICE_ARG(sw_buf_slice(&list)));
}

int sw_yaml_known_keys(const struct sw_yaml *map, const char *const *known, struct sw_err *err)
{
    SW_YAML_FOREACH (it, map) {
        if (it->key && !sw_word_in(it->key->text, known))
            return sw_yaml_error(it->key, err, "unknown key '%.*s'",
                                 (int)sw_min(it->key->text.n, 64), it->key->text.p);
    }
    return SW_OK;
}
