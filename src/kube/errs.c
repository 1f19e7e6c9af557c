/* SPDX-License-Identifier: Apache-2.0 */
/* Field errors, their texts, and the Go notations inside them. */
#include "kube/errs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/search.h"
#include "base/utf8.h"
#include "kube/text.h"

enum { TEXT_MAX = 16 << 20 };

static void put_path(struct sw_buf *b, const struct sw_fpath *p)
{
    if (p->up)
        put_path(b, p->up);
    if (!p->name.p)
        sw_tx_printf(b, "[%zu]", p->index);
    else if (p->key)
        sw_tx_printf(b, "[%.*s]", SW_SLICE_ARG(p->name));
    else
        sw_tx_printf(b, "%s%.*s", p->up ? "." : "", SW_SLICE_ARG(p->name));
}

const char *sw_fpath_text(struct sw_arena *a, const struct sw_fpath *path)
{
    SW_BUF_AUTO b = {.max = TEXT_MAX};

    if (!path)
        return "<nil>";
    put_path(&b, path);
    return sw_arena_dup(a, sw_buf_slice(&b));
}

void sw_ferr(struct sw_field_errs *e, enum sw_cause cause, const struct sw_fpath *path,
             const char *text)
{
    if (e->n >= SW_FIELD_ERRS_MAX)
        return;
    e->p = sw_arena_grow(e->arena, e->p, e->n, &e->cap, sizeof(*e->p));
    e->p[e->n++] = (struct sw_field_err){cause, sw_fpath_text(e->arena, path), text};
}

void sw_ferr_append(struct sw_field_errs *to, const struct sw_field_errs *from)
{
    for (size_t i = 0; i < from->n; i++) {
        struct sw_fpath at = sw_fpath_str(NULL, from->p[i].field);

        sw_ferr(to, from->p[i].cause, &at, from->p[i].text);
    }
}

void sw_ferr_required(struct sw_field_errs *e, const struct sw_fpath *path, const char *detail)
{
    sw_ferr(e, SW_CAUSE_REQUIRED, path,
            detail && *detail ? sw_arena_printf(e->arena, "Required value: %s", detail)
                              : "Required value");
}

void sw_ferr_forbidden(struct sw_field_errs *e, const struct sw_fpath *path, const char *detail)
{
    sw_ferr(e, SW_CAUSE_FORBIDDEN, path,
            detail && *detail ? sw_arena_printf(e->arena, "Forbidden: %s", detail) : "Forbidden");
}

/* value is in Go's notation. */
static void invalid(struct sw_field_errs *e, enum sw_cause cause, const struct sw_fpath *path,
                    const char *value, const char *detail)
{
    sw_ferr(e, cause, path, sw_arena_printf(e->arena, "Invalid value: %s: %s", value, detail));
}

void sw_ferr_invalid(struct sw_field_errs *e, const struct sw_fpath *path,
                     const struct sw_json *value, const char *detail)
{
    invalid(e, SW_CAUSE_INVALID, path, sw_go_value(e->arena, value), detail);
}

void sw_ferr_invalid_str(struct sw_field_errs *e, const struct sw_fpath *path,
                         struct sw_slice value, const char *detail)
{
    invalid(e, SW_CAUSE_INVALID, path, sw_go_quote(e->arena, value), detail);
}

void sw_ferr_type(struct sw_field_errs *e, const struct sw_fpath *path, struct sw_slice value,
                  const char *detail)
{
    invalid(e, SW_CAUSE_TYPE_INVALID, path, sw_go_quote(e->arena, value), detail);
}

void sw_ferr_duplicate(struct sw_field_errs *e, const struct sw_fpath *path,
                       const struct sw_json *value)
{
    sw_ferr(e, SW_CAUSE_DUPLICATE, path,
            sw_arena_printf(e->arena, "Duplicate value: %s", sw_go_value(e->arena, value)));
}

void sw_ferr_unsupported(struct sw_field_errs *e, const struct sw_fpath *path,
                         const struct sw_json *value, const char *const *supported)
{
    SW_BUF_AUTO b = {.max = TEXT_MAX};

    sw_tx_printf(&b, "Unsupported value: %s", sw_go_value(e->arena, value));
    for (size_t i = 0; supported && supported[i]; i++) {
        sw_tx_str(&b, i ? ", " : ": supported values: ");
        sw_tx_str(&b, sw_go_quote(e->arena, sw_slice_str(supported[i])));
    }
    sw_ferr(e, SW_CAUSE_NOT_SUPPORTED, path, sw_arena_dup(e->arena, sw_buf_slice(&b)));
}

void sw_ferr_too_long(struct sw_field_errs *e, const struct sw_fpath *path, uint64_t max)
{
    sw_ferr(e, SW_CAUSE_TOO_LONG, path,
            sw_arena_printf(e->arena, "Too long: may not be more than %llu byte%s",
                            (unsigned long long)max, max == 1 ? "" : "s"));
}

void sw_ferr_too_many(struct sw_field_errs *e, const struct sw_fpath *path, uint64_t n,
                      uint64_t max)
{
    sw_ferr(e, SW_CAUSE_TOO_MANY, path,
            sw_arena_printf(e->arena, "Too many: %llu: must have at most %llu item%s",
                            (unsigned long long)n, (unsigned long long)max, max == 1 ? "" : "s"));
}

const char *sw_cause_reason(enum sw_cause cause)
{
    static const char *const reasons[] = {
        [SW_CAUSE_REQUIRED] = "FieldValueRequired",
        [SW_CAUSE_INVALID] = "FieldValueInvalid",
        [SW_CAUSE_TYPE_INVALID] = "FieldValueTypeInvalid",
        [SW_CAUSE_NOT_SUPPORTED] = "FieldValueNotSupported",
        [SW_CAUSE_DUPLICATE] = "FieldValueDuplicate",
        [SW_CAUSE_TOO_LONG] = "FieldValueTooLong",
        [SW_CAUSE_TOO_MANY] = "FieldValueTooMany",
        [SW_CAUSE_FORBIDDEN] = "FieldValueForbidden",
        [SW_CAUSE_NOT_FOUND] = "FieldValueNotFound",
        [SW_CAUSE_INTERNAL] = "InternalError",
    };

    return reasons[cause];
}

static bool seen_before(const struct sw_field_errs *e, size_t i)
{
    for (size_t j = 0; j < i; j++) {
        if (strcmp(e->p[j].field, e->p[i].field) == 0 && strcmp(e->p[j].text, e->p[i].text) == 0)
            return true;
    }
    return false;
}

const char *sw_invalid_message(struct sw_arena *a, const char *kind, const char *group,
                               struct sw_slice name, const struct sw_field_errs *e)
{
    SW_BUF_AUTO b = {.max = TEXT_MAX};
    size_t distinct = 0;

    sw_tx_printf(&b, "%s%s%s %s is invalid: ", kind, *group ? "." : "", group,
                 sw_go_quote(a, name));
    for (size_t i = 0; i < e->n; i++)
        distinct += !seen_before(e, i);
    if (distinct != 1)
        sw_tx_c(&b, '[');
    for (size_t i = 0, put = 0; i < e->n; i++) {
        if (seen_before(e, i))
            continue;
        sw_tx_printf(&b, "%s%s: %s", put++ ? ", " : "", e->p[i].field, e->p[i].text);
    }
    if (distinct != 1)
        sw_tx_c(&b, ']');
    return sw_arena_dup(a, sw_buf_slice(&b));
}

struct sw_json *sw_invalid_causes(struct sw_arena *a, const struct sw_field_errs *e)
{
    struct sw_json *list = sw_json_new_array(a);

    for (size_t i = 0; i < e->n; i++)
        sw_json_push(a, list,
                     SW_JSON_OF(a, {"reason", .str = sw_cause_reason(e->p[i].cause)},
                                {"message", .str = e->p[i].text}, {"field", .str = e->p[i].field}));
    return list;
}

/* ---- Go's notations ---- */

/* Bytes of the UTF-8 sequence at p and its code point; 0 when it is not one. */
static size_t decode_rune(const char *s, size_t n, uint32_t *ret)
{
    unsigned char c = (unsigned char)s[0];
    size_t len = c < 0x80 ? 1 : (c & 0xe0) == 0xc0 ? 2 : (c & 0xf0) == 0xe0 ? 3 : 4;
    uint32_t r;

    if (len > n || !sw_utf8_valid(sw_slice(s, len)))
        return 0;
    r = len == 1 ? c : len == 2 ? c & 0x1fu : len == 3 ? c & 0x0fu : c & 0x07u;
    for (size_t i = 1; i < len; i++)
        r = (r << 6) | ((unsigned char)s[i] & 0x3fu);
    *ret = r;
    return len;
}

/* Close to Go's unicode.IsPrint: controls, format characters, separators and private use are not.
 */
static bool printable(uint32_t r)
{
    static const uint32_t ranges[][2] = {
        {0x7f, 0xa0},     {0xad, 0xad},        {0x600, 0x605},   {0x61c, 0x61c},   {0x6dd, 0x6dd},
        {0x70f, 0x70f},   {0x1680, 0x1680},    {0x180e, 0x180e}, {0x2000, 0x200f}, {0x2028, 0x202f},
        {0x205f, 0x206f}, {0x3000, 0x3000},    {0xd800, 0xf8ff}, {0xfeff, 0xfeff}, {0xfff0, 0xfffb},
        {0xfffe, 0xffff}, {0xe0000, 0x10ffff},
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(ranges); i++) {
        if (r >= ranges[i][0] && r <= ranges[i][1])
            return false;
    }
    return r >= 0x20;
}

static void quote_rune(struct sw_buf *b, uint32_t r, const char *s, size_t len)
{
    static const char special[] = "\a\b\f\n\r\t\v";
    static const char letters[] = "abfnrtv";
    const char *at = r && r < 0x20 ? strchr(special, (int)r) : NULL;

    if (r == '"' || r == '\\')
        sw_tx_printf(b, "\\%c", (char)r);
    else if (at)
        sw_tx_printf(b, "\\%c", letters[at - special]);
    else if (printable(r))
        sw_tx_slice(b, sw_slice(s, len));
    else if (r < 0x80)
        sw_tx_printf(b, "\\x%02x", r);
    else
        sw_tx_printf(b, r > 0xffff ? "\\U%08x" : "\\u%04x", r);
}

const char *sw_go_quote(struct sw_arena *a, struct sw_slice s)
{
    SW_BUF_AUTO b = {.max = TEXT_MAX};

    sw_tx_c(&b, '"');
    for (size_t i = 0; i < s.n;) {
        uint32_t r = 0;
        size_t len = decode_rune(s.p + i, s.n - i, &r);

        if (!len)
            sw_tx_printf(&b, "\\x%02x", (unsigned char)s.p[i]);
        else
            quote_rune(&b, r, s.p + i, len);
        i += len ? len : 1;
    }
    sw_tx_c(&b, '"');
    return sw_arena_dup(a, sw_buf_slice(&b));
}

const char *sw_go_float(struct sw_arena *a, double d)
{
    char text[SW_JSON_DOUBLE_LEN];

    if (isnan(d))
        return "NaN";
    if (isinf(d))
        return d > 0 ? "+Inf" : "-Inf";
    /* %v writes exponents from 1e+21 on, as JSON does, but small numbers already from 1e-05. */
    if (d != 0 && fabs(d) < 1e-4) {
        for (int prec = 0; prec < 18; prec++) {
            (void)snprintf(text, sizeof(text), "%.*e", prec, d);
            if (strtod(text, NULL) == d)
                break;
        }
        return sw_arena_dup(a, sw_slice_str(text));
    }
    return sw_arena_dup(a, sw_slice(text, sw_json_format_double(d, text)));
}

static void put_go(struct sw_arena *a, struct sw_buf *b, const struct sw_json *v);

/* The members of an object by their keys, as Go prints maps. */
static const struct sw_json_member **sorted(struct sw_arena *a, const struct sw_json *v)
{
    const struct sw_json_member **m = sw_arena_array(a, sw_json_len(v) + 1, sizeof(const void *));
    size_t n = 0;

    SW_JSON_MEMBERS (x, v)
        m[n++] = x;
    SW_SORT_POINTERS_BY(m, n, key);
    return m;
}

static void put_go_map(struct sw_arena *a, struct sw_buf *b, const struct sw_json *v)
{
    const struct sw_json_member **m = sorted(a, v);

    sw_tx_str(b, "map[string]interface {}{");
    for (size_t i = 0; i < sw_json_len(v); i++) {
        sw_tx_printf(b, "%s%s:", i ? ", " : "", sw_go_quote(a, m[i]->key));
        put_go(a, b, m[i]->value);
    }
    sw_tx_c(b, '}');
}

static void put_go(struct sw_arena *a, struct sw_buf *b, const struct sw_json *v)
{
    double d;

    switch (v->type) {
    case SW_JSON_NULL:
        sw_tx_str(b, "interface {}(nil)");
        break;
    case SW_JSON_BOOL:
        sw_tx_str(b, v->boolean ? "true" : "false");
        break;
    case SW_JSON_NUMBER:
        if (sw_json_is_integer(v) || !sw_json_double(v, &d))
            sw_tx_slice(b, v->text);
        else
            sw_tx_str(b, sw_go_float(a, d));
        break;
    case SW_JSON_STRING:
        sw_tx_str(b, sw_go_quote(a, v->text));
        break;
    case SW_JSON_ARRAY:
        sw_tx_str(b, "[]interface {}{");
        for (size_t i = 0; i < sw_json_len(v); i++) {
            sw_tx_str(b, i ? ", " : "");
            put_go(a, b, sw_json_at(v, i));
        }
        sw_tx_c(b, '}');
        break;
    case SW_JSON_OBJECT:
        put_go_map(a, b, v);
        break;
    }
}

const char *sw_go_value(struct sw_arena *a, const struct sw_json *v)
{
    SW_BUF_AUTO b = {.max = TEXT_MAX};

    if (!v || v->type == SW_JSON_NULL)
        return "\"null\"";
    put_go(a, &b, v);
    return sw_arena_dup(a, sw_buf_slice(&b));
}

static void put_plain(struct sw_arena *a, struct sw_buf *b, const struct sw_json *v);

static void put_plain_map(struct sw_arena *a, struct sw_buf *b, const struct sw_json *v)
{
    const struct sw_json_member **m = sorted(a, v);

    sw_tx_str(b, "map[");
    for (size_t i = 0; i < sw_json_len(v); i++) {
        sw_tx_str(b, i ? " " : "");
        sw_tx_slice(b, m[i]->key);
        sw_tx_c(b, ':');
        put_plain(a, b, m[i]->value);
    }
    sw_tx_c(b, ']');
}

static void put_plain(struct sw_arena *a, struct sw_buf *b, const struct sw_json *v)
{
    if (v->type == SW_JSON_OBJECT) {
        put_plain_map(a, b, v);
    } else if (v->type == SW_JSON_ARRAY) {
        sw_tx_c(b, '[');
        for (size_t i = 0; i < sw_json_len(v); i++) {
            sw_tx_str(b, i ? " " : "");
            put_plain(a, b, sw_json_at(v, i));
        }
        sw_tx_c(b, ']');
    } else if (v->type == SW_JSON_STRING) {
        sw_tx_slice(b, v->text);
    } else if (v->type == SW_JSON_NULL) {
        sw_tx_str(b, "<nil>");
    } else {
        put_go(a, b, v);
    }
}

const char *sw_go_plain(struct sw_arena *a, const struct sw_json *v)
{
    SW_BUF_AUTO b = {.max = TEXT_MAX};

    put_plain(a, &b, v);
    return sw_arena_dup(a, sw_buf_slice(&b));
}
