/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/select/fieldsel.h"

#include "base/search.h"
#include "kube/errs.h"
#include "kube/text.h"

enum { TERMS_MAX = 256 };

/* Cuts the next term at an unescaped comma. */
static struct sw_slice cut_term(struct sw_slice *rest)
{
    struct sw_slice in = *rest;

    for (size_t i = 0; i < in.n; i++) {
        if (in.p[i] == '\\') {
            i++;
        } else if (in.p[i] == ',') {
            *rest = sw_slice(in.p + i + 1, in.n - i - 1);
            return sw_slice(in.p, i);
        }
    }
    *rest = sw_slice(NULL, 0);
    return in;
}

static bool split_term(struct sw_slice t, struct sw_field_term *ret)
{
    for (size_t i = 0; i < t.n; i++) {
        bool eq2 = i + 1 < t.n && t.p[i + 1] == '=';
        size_t len = t.p[i] == '!' ? (eq2 ? 2 : 0) : t.p[i] == '=' ? (eq2 ? 2 : 1) : 0;

        if (!len)
            continue;
        ret->path = sw_slice_head(t, i);
        ret->value = sw_slice_from(t, i + len);
        ret->negate = t.p[i] == '!';
        return true;
    }
    return false;
}

static int unescape(struct sw_arena *a, struct sw_slice *v, const char **ret_why)
{
    char *out = sw_arena_alloc(a, v->n + 1);
    size_t n = 0;

    for (size_t i = 0; i < v->n; i++) {
        char c = v->p[i];

        if (c == ',' || c == '=') {
            *ret_why =
                sw_arena_printf(a, "invalid field selector: unescaped character in value: %d", c);
            return SW_EINVAL;
        }
        if (c == '\\') {
            c = ++i < v->n ? v->p[i] : 0;
            if (c != '\\' && c != ',' && c != '=') {
                *ret_why = c ? sw_arena_printf(
                                   a, "invalid field selector: invalid escape sequence: \\%c", c)
                             : "invalid field selector: invalid escape sequence: \\";
                return SW_EINVAL;
            }
        }
        out[n++] = c;
    }
    *v = sw_slice(out, n);
    return SW_OK;
}

int sw_field_selector_parse(struct sw_arena *a, struct sw_slice in, struct sw_field_selector *ret,
                            const char **ret_why)
{
    struct sw_slice rest = sw_arena_slice(a, in);
    struct sw_slice all = rest;
    struct sw_field_term *p = NULL;
    size_t n = 0;
    size_t cap = 0;

    while (rest.p) {
        struct sw_slice term = cut_term(&rest);

        if (!term.n)
            continue;
        if (n == TERMS_MAX) {
            *ret_why = "too many terms in the field selector";
            return SW_EINVAL;
        }
        p = sw_arena_grow(a, p, n, &cap, sizeof(*p));
        if (!split_term(term, &p[n])) {
            *ret_why = sw_arena_printf(a, "invalid selector: '%.*s'; can't understand '%.*s'",
                                       SW_SLICE_ARG(all), SW_SLICE_ARG(term));
            return SW_EINVAL;
        }
        if (unescape(a, &p[n].value, ret_why) < 0)
            return SW_EINVAL;
        n++;
    }
    *ret = (struct sw_field_selector){p, n};
    return SW_OK;
}

/* The reporter of an event, in the old field or the new one. */
static struct sw_slice event_source(const struct sw_json *obj)
{
    struct sw_slice s = sw_json_str(sw_json_walk(obj, "source", "component", NULL));

    return s.n ? s : sw_json_str(sw_json_find(obj, "reportingComponent"));
}

struct sw_slice sw_field_value(const struct sw_json *obj, struct sw_slice path)
{
    if (sw_slice_eq_str(path, "source") && sw_json_find(obj, "involvedObject"))
        return event_source(obj);
    while (path.p && obj)
        obj = sw_json_get(obj, sw_slice_cut(&path, '.'));
    if (!obj)
        return sw_slice("", 0);
    switch (obj->type) {
    case SW_JSON_STRING:
    case SW_JSON_NUMBER:
        return obj->text;
    case SW_JSON_BOOL:
        return sw_slice_str(obj->boolean ? "true" : "false");
    case SW_JSON_NULL:
    case SW_JSON_ARRAY:
    case SW_JSON_OBJECT:
        break;
    }
    return sw_slice("", 0);
}

bool sw_field_selector_match(const struct sw_field_selector *s, const struct sw_json *obj)
{
    for (size_t i = 0; i < s->n; i++) {
        if (sw_slice_eq(sw_field_value(obj, s->p[i].path), s->p[i].value) == s->p[i].negate)
            return false;
    }
    return true;
}

int sw_field_selector_check(struct sw_arena *a, const struct sw_field_selector *s,
                            const char *const *known, bool strict_text, const char **ret_why)
{
    for (size_t i = 0; i < s->n; i++) {
        struct sw_slice path = s->p[i].path;
        const char *list = "";

        if (sw_word_in(path, known))
            continue;
        if (!strict_text) {
            *ret_why = sw_arena_printf(a, "field label not supported: %.*s", SW_SLICE_ARG(path));
            return SW_EINVAL;
        }
        for (size_t j = 0; known[j]; j++)
            list = sw_arena_printf(a, "%s%s\"%s\"", list, j ? ", " : "", known[j]);
        *ret_why = sw_arena_printf(a, "%s is not a known field selector: only %s",
                                   sw_go_quote(a, path), list);
        return SW_EINVAL;
    }
    return SW_OK;
}

bool sw_field_selector_exact(const struct sw_field_selector *s, const char *path,
                             struct sw_slice *ret)
{
    for (size_t i = 0; i < s->n; i++) {
        if (!s->p[i].negate && sw_slice_eq_str(s->p[i].path, path)) {
            *ret = s->p[i].value;
            return true;
        }
    }
    return false;
}

const char *sw_field_selector_text(struct sw_arena *a, const struct sw_field_selector *s)
{
    SW_BUF_AUTO b = {.max = 1 << 20};

    for (size_t i = 0; i < s->n; i++) {
        sw_tx_printf(&b, "%s%.*s%s", i ? "," : "", SW_SLICE_ARG(s->p[i].path),
                     s->p[i].negate ? "!=" : "=");
        for (size_t j = 0; j < s->p[i].value.n; j++) {
            char c = s->p[i].value.p[j];

            if (c == '\\' || c == ',' || c == '=')
                sw_tx_c(&b, '\\');
            sw_tx_c(&b, c);
        }
    }
    return sw_arena_dup(a, sw_buf_slice(&b));
}
