/* SPDX-License-Identifier: Apache-2.0 */
/* Label selectors; field selectors are in fieldsel.c. */
#include "kube/select/selector.h"

#include <errno.h>
#include <stdlib.h>

#include "base/search.h"
#include "base/vec.h"
#include "kube/names.h"
#include "kube/text.h"

enum { VALUES_MAX = 4096, REQUIREMENTS_MAX = 1024 };

enum tok {
    TOK_ERROR,
    TOK_END,
    TOK_CLOSE,
    TOK_COMMA,
    TOK_NOT,
    TOK_OP, /* = == != > < */
    TOK_IN, /* in, notin */
    TOK_ID,
    TOK_OPEN,
};

struct lexer {
    struct sw_arena *a;
    struct sw_slice in;
    size_t pos;
    enum tok tok; /* current token */
    enum sw_sel_op op;
    struct sw_slice lit;
    const char *why;
};

static bool special(char c)
{
    return c && strchr("=!(),><", c);
}

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void lex_symbol(struct lexer *l)
{
    char c = l->in.p[l->pos];
    char next = l->pos + 1 < l->in.n ? l->in.p[l->pos + 1] : '\0';
    size_t len = (c == '=' || c == '!') && next == '=' ? 2 : 1;

    l->lit = sw_slice(l->in.p + l->pos, len);
    l->pos += len;
    switch (c) {
    case '(':
        l->tok = TOK_OPEN;
        break;
    case ')':
        l->tok = TOK_CLOSE;
        break;
    case ',':
        l->tok = TOK_COMMA;
        break;
    case '!':
        l->tok = len == 2 ? TOK_OP : TOK_NOT;
        l->op = SW_SEL_NE;
        break;
    case '=':
        l->tok = TOK_OP;
        l->op = len == 2 ? SW_SEL_DEQ : SW_SEL_EQ;
        break;
    default:
        l->tok = TOK_OP;
        l->op = c == '>' ? SW_SEL_GT : SW_SEL_LT;
    }
}

static void next(struct lexer *l)
{
    size_t start;

    while (l->pos < l->in.n && blank(l->in.p[l->pos]))
        l->pos++;
    l->lit = sw_slice("", 0);
    if (l->pos >= l->in.n || !l->in.p[l->pos]) {
        l->tok = TOK_END;
        return;
    }
    if (special(l->in.p[l->pos])) {
        lex_symbol(l);
        return;
    }
    start = l->pos;
    while (l->pos < l->in.n && l->in.p[l->pos] && !special(l->in.p[l->pos]) &&
           !blank(l->in.p[l->pos]))
        l->pos++;
    l->lit = sw_slice(l->in.p + start, l->pos - start);
    l->tok = TOK_ID;
    if (sw_slice_eq_str(l->lit, "in") || sw_slice_eq_str(l->lit, "notin")) {
        l->tok = TOK_IN;
        l->op = l->lit.n == 2 ? SW_SEL_IN : SW_SEL_NOTIN;
    }
}

static int found(struct lexer *l, struct sw_slice lit, const char *expected)
{
    l->why = sw_arena_printf(l->a, "found '%.*s'%s", SW_SLICE_ARG(lit), expected);
    return SW_EINVAL;
}

/* "in" and "notin" are names wherever a name or value may stand. */
static bool at_id(const struct lexer *l)
{
    return l->tok == TOK_ID || l->tok == TOK_IN;
}

struct values {
    struct sw_slice *p;
    size_t n;
    size_t cap;
};

static int add_value(struct lexer *l, struct values *v, struct sw_slice s)
{
    for (size_t i = 0; i < v->n; i++) {
        if (sw_slice_eq(v->p[i], s))
            return SW_OK;
    }
    if (v->n >= VALUES_MAX) {
        l->why = "too many values";
        return SW_EINVAL;
    }
    v->p = sw_arena_grow(l->a, v->p, v->n, &v->cap, sizeof(*v->p));
    v->p[v->n++] = s;
    return SW_OK;
}

/* The inside of (a,,b): empty pieces are empty values. */
static int parse_list(struct lexer *l, struct values *v)
{
    for (;;) {
        if (at_id(l)) {
            if (add_value(l, v, l->lit) < 0)
                return SW_EINVAL;
            next(l);
            if (l->tok == TOK_CLOSE)
                return SW_OK;
            if (l->tok != TOK_COMMA)
                return found(l, l->lit, ", expected: ',' or ')'");
        } else if (l->tok == TOK_COMMA) {
            if (!v->n && add_value(l, v, sw_slice("", 0)) < 0)
                return SW_EINVAL;
            next(l);
            if (l->tok == TOK_CLOSE)
                return add_value(l, v, sw_slice("", 0));
            if (l->tok == TOK_COMMA && add_value(l, v, sw_slice("", 0)) < 0)
                return SW_EINVAL;
        } else {
            return found(l, l->lit, ", expected: ',', or identifier");
        }
    }
}

static int parse_values(struct lexer *l, struct values *v)
{
    if (l->tok != TOK_OPEN)
        return found(l, l->lit, " expected: '('");
    next(l);
    if (l->tok == TOK_CLOSE) {
        next(l);
        return add_value(l, v, sw_slice("", 0));
    }
    if (!at_id(l) && l->tok != TOK_COMMA)
        return found(l, l->lit, ", expected: ',', ')' or identifier");
    if (parse_list(l, v) < 0)
        return SW_EINVAL;
    next(l);
    return SW_OK;
}

static int parse_exact(struct lexer *l, struct values *v)
{
    if (l->tok == TOK_END || l->tok == TOK_COMMA)
        return add_value(l, v, sw_slice("", 0));
    if (!at_id(l))
        return found(l, l->lit, ", expected: identifier");
    if (add_value(l, v, l->lit) < 0)
        return SW_EINVAL;
    next(l);
    return SW_OK;
}

static bool to_i64(struct sw_slice s, int64_t *ret)
{
    char text[32];
    char *end;

    if (s.n == 0 || s.n >= sizeof(text) || blank(s.p[0]))
        return false;
    memcpy(text, s.p, s.n);
    text[s.n] = 0;
    errno = 0;
    *ret = strtoll(text, &end, 10);
    return !errno && end == text + s.n && (s.p[s.n - 1] >= '0' && s.p[s.n - 1] <= '9');
}

/* Checks a complete requirement; the texts are those of field errors. */
static int check(struct sw_arena *a, const struct sw_requirement *r, const char **ret_why)
{
    struct sw_field_errs e;
    struct sw_fpath key = sw_fpath_str(NULL, "key");
    struct sw_fpath values = sw_fpath_str(NULL, "values");
    struct sw_name_msgs m = sw_name_label_key(r->key);
    const char *all = "";
    int64_t n;

    sw_field_errs_init(&e, a);
    if (m.n)
        sw_ferr_invalid_str(&e, &key, r->key, sw_name_join(a, m, "; "));
    for (size_t i = 0; i < r->n; i++) {
        struct sw_fpath at = sw_fpath_index(&values, i);
        struct sw_fpath of = sw_fpath_key(&at, r->key);

        if ((r->op == SW_SEL_GT || r->op == SW_SEL_LT) && !to_i64(r->values[i], &n))
            sw_ferr_invalid_str(&e, &at, r->values[i],
                                "for 'Gt', 'Lt' operators, the value must be an integer");
        m = sw_name_label_value(r->values[i]);
        if (m.n)
            sw_ferr_invalid_str(&e, &of, r->values[i], sw_name_join(a, m, "; "));
    }
    if (!e.n)
        return SW_OK;
    for (size_t i = 0; i < e.n; i++)
        all = sw_arena_printf(a, "%s%s%s: %s", all, i ? ", " : "", e.p[i].field, e.p[i].text);
    *ret_why = e.n > 1 ? sw_arena_printf(a, "[%s]", all) : all;
    return SW_EINVAL;
}

static int parse_requirement(struct lexer *l, struct sw_requirement *r)
{
    struct values v = {0};
    struct sw_name_msgs m;
    bool negate = l->tok == TOK_NOT;

    if (negate)
        next(l);
    if (!at_id(l))
        return found(l, l->lit, ", expected: identifier");
    r->key = l->lit;
    m = sw_name_label_key(r->key);
    if (m.n) {
        l->why = sw_arena_printf(l->a, "<nil>: Invalid value: %s: %s", sw_go_quote(l->a, r->key),
                                 sw_name_join(l->a, m, "; "));
        return SW_EINVAL;
    }
    next(l);
    if (negate || l->tok == TOK_END || l->tok == TOK_COMMA) {
        r->op = negate ? SW_SEL_NOT_EXISTS : SW_SEL_EXISTS;
        return SW_OK;
    }
    if (l->tok != TOK_OP && l->tok != TOK_IN)
        return found(l, l->lit, ", expected: in, notin, =, ==, !=, gt, lt");
    r->op = l->op;
    if (l->tok == TOK_IN) {
        next(l);
        if (parse_values(l, &v) < 0)
            return SW_EINVAL;
    } else {
        next(l);
        if (parse_exact(l, &v) < 0)
            return SW_EINVAL;
    }
    sw_slice_sort(v.p, v.n);
    r->values = v.p;
    r->n = v.n;
    return check(l->a, r, &l->why);
}

static int cmp_requirement(const void *x, const void *y)
{
    const struct sw_requirement *p = x;
    const struct sw_requirement *q = y;

    return sw_slice_cmp(p->key, q->key);
}

/* Stable, because requirements on the same key keep their order. */
static void sort_requirements(struct sw_requirement *p, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        struct sw_requirement r = p[i];
        size_t j = i;

        for (; j > 0 && cmp_requirement(&p[j - 1], &r) > 0; j--)
            p[j] = p[j - 1];
        p[j] = r;
    }
}

struct requirements {
    struct sw_requirement *p;
    size_t n;
    size_t cap;
};

static int parse_all(struct lexer *l, struct requirements *v)
{
    next(l);
    for (;;) {
        struct sw_requirement r = {0};

        if (l->tok == TOK_END)
            return SW_OK;
        if (!at_id(l) && l->tok != TOK_NOT)
            return found(l, l->lit, ", expected: !, identifier, or 'end of string'");
        if (v->n >= REQUIREMENTS_MAX)
            return found(l, sw_slice("", 0), ", too many requirements");
        if (parse_requirement(l, &r) < 0) {
            l->why = sw_arena_printf(l->a, "unable to parse requirement: %s", l->why);
            return SW_EINVAL;
        }
        sw_vec_push(v, r);
        if (l->tok == TOK_END)
            return SW_OK;
        if (l->tok != TOK_COMMA)
            return found(l, l->lit, ", expected: ',' or 'end of string'");
        next(l);
        if (!at_id(l) && l->tok != TOK_NOT)
            return found(l, l->lit, ", expected: identifier after ','");
    }
}

static void store(struct sw_arena *a, struct requirements *v, struct sw_label_selector *ret)
{
    *ret = (struct sw_label_selector){.n = v->n};
    if (v->n) {
        sort_requirements(v->p, v->n);
        ret->p = sw_arena_array(a, v->n, sizeof(*ret->p));
        memcpy(ret->p, v->p, v->n * sizeof(*ret->p));
    }
}

int sw_label_selector_parse(struct sw_arena *a, struct sw_slice in, struct sw_label_selector *ret,
                            const char **ret_why)
{
    struct lexer l = {.a = a, .in = sw_arena_slice(a, in)};
    struct requirements v = {0};
    int rc = parse_all(&l, &v);

    if (rc < 0)
        *ret_why = l.why;
    else
        store(a, &v, ret);
    sw_vec_done(&v);
    return rc;
}

static bool op_of(struct sw_slice s, enum sw_sel_op *ret)
{
    static const struct {
        const char *name;
        enum sw_sel_op op;
    } ops[] = {{"In", SW_SEL_IN},
               {"NotIn", SW_SEL_NOTIN},
               {"Exists", SW_SEL_EXISTS},
               {"DoesNotExist", SW_SEL_NOT_EXISTS}};

    for (size_t i = 0; i < SW_ARRAY_LEN(ops); i++) {
        if (sw_slice_eq_str(s, ops[i].name)) {
            *ret = ops[i].op;
            return true;
        }
    }
    return false;
}

static int from_expression(struct sw_arena *a, const struct sw_json *x, struct sw_requirement *r,
                           const char **ret_why)
{
    const struct sw_json *values = sw_json_find(x, "values");
    struct sw_slice op = sw_json_str(sw_json_find(x, "operator"));

    r->key = sw_json_str(sw_json_find(x, "key"));
    if (!r->key.p || !op_of(op, &r->op)) {
        *ret_why =
            sw_arena_printf(a, "%s is not a valid label selector operator", sw_go_quote(a, op));
        return SW_EINVAL;
    }
    r->n = sw_json_len(values);
    r->values = sw_arena_array(a, r->n + 1, sizeof(*r->values));
    for (size_t i = 0; i < r->n; i++)
        r->values[i] = sw_json_is(sw_json_at(values, i), SW_JSON_STRING)
                           ? sw_json_str(sw_json_at(values, i))
                           : sw_slice("", 0);
    sw_slice_sort(r->values, r->n);
    if ((r->op == SW_SEL_IN || r->op == SW_SEL_NOTIN) != (r->n > 0)) {
        *ret_why = r->n ? "values: Invalid value: values set must be empty for exists and does not "
                          "exist"
                        : "values: Invalid value: []: for 'in', 'notin' operators, values set "
                          "can't be empty";
        return SW_EINVAL;
    }
    return check(a, r, ret_why);
}

int sw_label_selector_from_json(struct sw_arena *a, const struct sw_json *v,
                                struct sw_label_selector *ret, const char **ret_why)
{
    const struct sw_json *labels = sw_json_find(v, "matchLabels");
    const struct sw_json *exprs = sw_json_find(v, "matchExpressions");
    struct requirements out = {0};
    int rc = SW_OK;

    if (!v) {
        *ret = (struct sw_label_selector){.nothing = true};
        return SW_OK;
    }
    for (size_t i = 0; rc == SW_OK && i < sw_json_len(labels); i++) {
        const struct sw_json_member *m = sw_json_member_at(labels, i);
        struct sw_requirement r = {.op = SW_SEL_EQ, .n = 1};

        if (!m)
            break;
        r.key = m->key;
        r.values = SW_ARENA_NEW(a, struct sw_slice);
        *r.values = sw_json_is(m->value, SW_JSON_STRING) ? sw_json_str(m->value) : sw_slice("", 0);
        rc = check(a, &r, ret_why);
        sw_vec_push(&out, r);
    }
    for (size_t i = 0; rc == SW_OK && i < sw_json_len(exprs); i++) {
        struct sw_requirement r = {0};

        rc = from_expression(a, sw_json_at(exprs, i), &r, ret_why);
        sw_vec_push(&out, r);
    }
    if (rc == SW_OK)
        store(a, &out, ret);
    sw_vec_done(&out);
    return rc;
}

static bool has_value(const struct sw_requirement *r, struct sw_slice v)
{
    for (size_t i = 0; i < r->n; i++) {
        if (sw_slice_eq(r->values[i], v))
            return true;
    }
    return false;
}

static bool match_one(const struct sw_requirement *r, const struct sw_json *labels)
{
    const struct sw_json *v = sw_json_get(labels, r->key);
    int64_t x, y;

    switch (r->op) {
    case SW_SEL_EQ:
    case SW_SEL_DEQ:
    case SW_SEL_IN:
        return v && has_value(r, sw_json_str(v));
    case SW_SEL_NE:
    case SW_SEL_NOTIN:
        return !v || !has_value(r, sw_json_str(v));
    case SW_SEL_EXISTS:
        return v;
    case SW_SEL_NOT_EXISTS:
        return !v;
    case SW_SEL_GT:
    case SW_SEL_LT:
        if (!v || !to_i64(sw_json_str(v), &x) || r->n != 1 || !to_i64(r->values[0], &y))
            return false;
        return r->op == SW_SEL_GT ? x > y : x < y;
    }
    return false;
}

bool sw_label_selector_match(const struct sw_label_selector *s, const struct sw_json *labels)
{
    if (s->nothing)
        return false;
    for (size_t i = 0; i < s->n; i++) {
        if (!match_one(&s->p[i], labels))
            return false;
    }
    return true;
}

const char *sw_label_selector_text(struct sw_arena *a, const struct sw_label_selector *s)
{
    static const char *const ops[] = {"=", "==", "!=", " in (", " notin (", "", "", ">", "<"};
    SW_BUF_AUTO b = {.max = 1 << 20};

    for (size_t i = 0; i < s->n; i++) {
        const struct sw_requirement *r = &s->p[i];

        sw_tx_printf(&b, "%s%s%.*s%s", i ? "," : "", r->op == SW_SEL_NOT_EXISTS ? "!" : "",
                     SW_SLICE_ARG(r->key), ops[r->op]);
        for (size_t j = 0; j < r->n; j++)
            sw_tx_printf(&b, "%s%.*s", j ? "," : "", SW_SLICE_ARG(r->values[j]));
        if (r->op == SW_SEL_IN || r->op == SW_SEL_NOTIN)
            sw_tx_c(&b, ')');
    }
    return sw_arena_dup(a, sw_buf_slice(&b));
}
