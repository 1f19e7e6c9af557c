/* SPDX-License-Identifier: Apache-2.0 */
/* See jsonpath.h. */
#include "kube/select/jsonpath.h"

#include <ctype.h>
#include <stdlib.h>

enum step_kind { STEP_FIELD, STEP_INDEX, STEP_ALL, STEP_FILTER };

struct step {
    enum step_kind kind;
    struct sw_slice name;  /* field; filter: path inside the item */
    struct sw_slice value; /* filter: literal; p == NULL: existence */
    bool negate;
    bool quoted;
    int64_t index;
};

enum { STEPS_MAX = 32, ESCAPED_MAX = 512 };

struct path {
    struct step p[STEPS_MAX];
    size_t n;
    char text[ESCAPED_MAX]; /* names that had escapes, without them */
    size_t text_n;
};

static struct sw_slice trim(struct sw_slice s)
{
    return sw_slice_trim(s);
}

static bool unquote(struct sw_slice *s)
{
    if (s->n < 2 || (s->p[0] != '\'' && s->p[0] != '"') || s->p[s->n - 1] != s->p[0])
        return false;
    *s = sw_slice(s->p + 1, s->n - 2);
    return true;
}

/* ?(@.a.b=="v"), ?(@.a!="v"), ?(@.a) */
static bool parse_filter(struct sw_slice in, struct step *st)
{
    const char *op;
    bool eq;

    if (!sw_slice_has_prefix(in, SW_SLICE_LIT("?(")) || !sw_slice_has_suffix(in, SW_SLICE_LIT(")")))
        return false;
    in = trim(sw_slice(in.p + 2, in.n - 3));
    if (!sw_slice_has_prefix(in, SW_SLICE_LIT("@.")))
        return false;
    in = sw_slice_from(in, 2);
    st->kind = STEP_FILTER;
    op = memmem(in.p, in.n, "==", 2);
    eq = op;
    if (!op)
        op = memmem(in.p, in.n, "!=", 2);
    if (!op) {
        st->name = in;
        return in.n;
    }
    st->negate = !eq;
    st->name = trim(sw_slice(in.p, (size_t)(op - in.p)));
    st->value = trim(sw_slice(op + 2, in.n - (size_t)(op - in.p) - 2));
    st->quoted = unquote(&st->value);
    return st->name.n && (st->quoted || st->value.n);
}

static bool parse_bracket(struct sw_slice in, struct step *st)
{
    struct sw_slice t = trim(in);
    char buf[24];
    char *end;

    if (sw_slice_eq_str(t, "*")) {
        st->kind = STEP_ALL;
        return true;
    }
    if (unquote(&t)) {
        st->kind = STEP_FIELD;
        st->name = t;
        return true;
    }
    if (t.n && t.p[0] == '?')
        return parse_filter(t, st);
    if (!t.n || t.n >= sizeof(buf))
        return false;
    memcpy(buf, t.p, t.n);
    buf[t.n] = 0;
    st->kind = STEP_INDEX;
    st->index = strtoll(buf, &end, 10);
    return !*end && end != buf;
}

/* Length up to the ']' that closes what starts at in.p[0] == '['; 0 when there is none. */
static size_t bracket_len(struct sw_slice in)
{
    char quote = 0;
    int depth = 0;

    for (size_t i = 0; i < in.n; i++) {
        char c = in.p[i];

        if (quote) {
            quote = c == quote ? '\0' : quote;
        } else if (c == '\'' || c == '"') {
            quote = c;
        } else if (c == '[') {
            depth++;
        } else if (c == ']' && --depth == 0) {
            return i + 1;
        }
    }
    return 0;
}

/* Length of the field name at in.p[from]: a backslash takes the next byte as it is. 0: none ends.
 */
static size_t name_end(struct sw_slice in, size_t from)
{
    size_t at = from;

    while (at < in.n && in.p[at] != '.' && in.p[at] != '[') {
        if (isspace((unsigned char)in.p[at]) || (in.p[at] == '\\' && ++at == in.n))
            return 0;
        at++;
    }
    return at;
}

/* The name without its escapes; false: there are too many of them. */
static bool unescape(struct sw_slice *name, struct path *in)
{
    char *to = in->text + in->text_n;
    size_t n = 0;

    if (sw_slice_find(*name, '\\') < 0)
        return true;
    if (in->text_n + name->n > sizeof(in->text))
        return false;
    for (size_t i = 0; i < name->n; i++) {
        if (name->p[i] != '\\')
            to[n++] = name->p[i];
    }
    *name = sw_slice(to, n);
    in->text_n += n;
    return true;
}

static bool parse(struct sw_slice in, struct path *ret)
{
    ret->n = 0;
    ret->text_n = 0;
    in = trim(in);
    if (in.n >= 2 && in.p[0] == '{' && in.p[in.n - 1] == '}')
        in = sw_slice(in.p + 1, in.n - 2);
    if (in.n && in.p[0] == '$')
        in = sw_slice_from(in, 1);
    while (in.n) {
        struct step *st = &ret->p[ret->n];
        size_t len;

        if (ret->n == STEPS_MAX)
            return false;
        *st = (struct step){0};
        if (in.p[0] == '[') {
            len = bracket_len(in);
            if (!len || !parse_bracket(sw_slice(in.p + 1, len - 2), st))
                return false;
        } else {
            size_t from = in.p[0] == '.';

            if (!from && ret->n)
                return false;
            len = name_end(in, from);
            if (!len)
                return false;
            st->name = sw_slice(in.p + from, len - from);
            if (!unescape(&st->name, ret))
                return false;
            if (!st->name.n && !(from && len == in.n) && !(len < in.n && in.p[len] == '['))
                return false;
            if (sw_slice_eq_str(st->name, "*"))
                st->kind = STEP_ALL;
        }
        in = sw_slice_from(in, len);
        if (st->kind != STEP_FIELD || st->name.n)
            ret->n++;
    }
    return true;
}

static bool matches(const struct step *st, const struct sw_json *item)
{
    struct sw_slice rest = st->name;
    const struct sw_json *v = item;
    bool same;

    while (rest.p && v)
        v = sw_json_get(v, sw_slice_cut(&rest, '.'));
    if (!v)
        return false;
    if (!st->value.p)
        return true;
    if (st->quoted)
        same = sw_slice_eq(sw_json_str(v), st->value);
    else if (v->type == SW_JSON_BOOL)
        same = sw_slice_eq_str(st->value, v->boolean ? "true" : "false");
    else
        same = v->type == SW_JSON_NUMBER && sw_json_number_valid(st->value) &&
               sw_json_number_cmp(v->text, st->value) == 0;
    return same != st->negate;
}

static void walk(const struct path *p, size_t at, const struct sw_json *v,
                 struct sw_jsonpath_results *out)
{
    const struct step *st;
    int64_t i;

    if (!v || out->n >= SW_JSONPATH_RESULTS_MAX)
        return;
    if (at == p->n) {
        out->p[out->n++] = v;
        return;
    }
    st = &p->p[at];
    switch (st->kind) {
    case STEP_FIELD:
        walk(p, at + 1, sw_json_get(v, st->name), out);
        return;
    case STEP_INDEX:
        i = st->index < 0 ? st->index + (int64_t)sw_json_len(v) : st->index;
        if (i >= 0)
            walk(p, at + 1, sw_json_at(v, (size_t)i), out);
        return;
    case STEP_ALL:
    case STEP_FILTER:
        for (size_t k = 0; k < sw_json_len(v); k++) {
            const struct sw_json *item =
                v->type == SW_JSON_ARRAY ? sw_json_at(v, k) : sw_json_member_at(v, k)->value;

            if (st->kind == STEP_ALL || matches(st, item))
                walk(p, at + 1, item, out);
        }
        return;
    }
}

int sw_jsonpath(struct sw_arena *a, struct sw_slice path, const struct sw_json *v,
                struct sw_jsonpath_results *ret)
{
    struct path p;

    if (!parse(path, &p))
        return SW_EINVAL;
    *ret = (struct sw_jsonpath_results){
        .p = sw_arena_array(a, SW_JSONPATH_RESULTS_MAX, sizeof(const void *))};
    walk(&p, 0, v, ret);
    return SW_OK;
}
