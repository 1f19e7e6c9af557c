/* SPDX-License-Identifier: Apache-2.0 */
/* Recursive-descent parser; macros become nodes of their own here. */
#include "base/search.h"
#include "kube/cel/lex.h"

#include "base/utf8.h"

enum { PARSE_DEPTH_MAX = 96, ARGS_MAX = 4096, NODES_MAX = 50000, CHAIN_MAX = 200 };

/* What may begin an operand, as the grammar's own parser lists it. */
#define OPERANDS                                                                                   \
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, "       \
    "STRING, BYTES, IDENTIFIER}"

typedef SW_VEC(struct cel_node *) node_vec;

static bool is(const struct cel_parser *p, const char *punct)
{
    return p->tok == T_PUNCT && sw_slice_eq_str(p->text, punct);
}

static bool accept(struct cel_parser *p, const char *punct)
{
    if (!is(p, punct))
        return false;
    cel_advance(p);
    return true;
}

static bool expect(struct cel_parser *p, const char *punct)
{
    if (accept(p, punct))
        return true;
    if (p->tok == T_END)
        cel_fail(p->c, p->at, "Syntax error: mismatched input '<EOF>' expecting '%s'", punct);
    else
        cel_fail(p->c, p->at, "Syntax error: mismatched input '%.*s' expecting '%s'",
                 p->tok == T_PUNCT || p->tok == T_IDENT ? (int)p->text.n : 0, p->text.p, punct);
    return false;
}

static struct cel_node *parse_expr(struct cel_parser *p);

static struct cel_node *node(struct cel_parser *p, enum cel_node_kind kind, size_t pos,
                             size_t nargs)
{
    struct cel_node *n = SW_ARENA_NEW(&p->c->arena, struct cel_node);

    if (++p->nodes > NODES_MAX)
        cel_fail(p->c, pos, "expression is too large");
    n->kind = kind;
    n->pos = (uint32_t)pos;
    n->slot = -1;
    n->nargs = nargs;
    n->args = sw_arena_array(&p->c->arena, nargs + 1, sizeof(*n->args));
    return n;
}

/* Left-associative chains are deep trees: each operator counts. */
static struct cel_node *binary(struct cel_parser *p, enum cel_op op, size_t pos, struct cel_node *x,
                               struct cel_node *y)
{
    struct cel_node *n = node(p, N_BINARY, pos, 2);

    n->slot = x->kind == N_BINARY ? x->slot + 1 : 1; /* depth so far; unused later */
    if (n->slot > CHAIN_MAX)
        return cel_fail(p->c, pos, "expression is nested too deeply");

    n->op = op;
    n->args[0] = x;
    n->args[1] = y;
    return n;
}

/* Expressions up to 'close'; consumes it. */
static struct cel_node *parse_args(struct cel_parser *p, struct cel_node *n, const char *close,
                                   size_t first, struct cel_node *target)
{
    node_vec v = {0};

    while (!is(p, close) && !p->c->failed) {
        struct cel_node *x = parse_expr(p);

        if (!x)
            break;
        sw_vec_push(&v, x);
        if (v.n > ARGS_MAX)
            cel_fail(p->c, p->at, "too many arguments");
        if (!accept(p, ","))
            break;
    }
    if (!p->c->failed && expect(p, close)) {
        n->nargs = first + v.n;
        n->args = sw_arena_array(&p->c->arena, n->nargs + 1, sizeof(*n->args));
        if (first)
            n->args[0] = target;
        for (size_t i = 0; i < v.n; i++)
            n->args[first + i] = v.p[i];
    }
    sw_vec_done(&v);
    return p->c->failed ? NULL : n;
}

static struct cel_node *parse_map(struct cel_parser *p, size_t pos)
{
    node_vec v = {0};
    struct cel_node *n = node(p, N_MAP, pos, 0);

    while (!is(p, "}") && !p->c->failed) {
        struct cel_node *k = parse_expr(p);
        struct cel_node *x = k && expect(p, ":") ? parse_expr(p) : NULL;

        if (!x)
            break;
        sw_vec_push(&v, k);
        sw_vec_push(&v, x);
        if (v.n > ARGS_MAX)
            cel_fail(p->c, p->at, "too many entries");
        if (!accept(p, ","))
            break;
    }
    if (!p->c->failed && expect(p, "}")) {
        n->nargs = v.n;
        n->args = sw_arena_array(&p->c->arena, v.n + 1, sizeof(*n->args));
        for (size_t i = 0; i < v.n; i++)
            n->args[i] = v.p[i];
    }
    sw_vec_done(&v);
    return p->c->failed ? NULL : n;
}

static const struct {
    const char *name;
    enum cel_node_kind kind;
    size_t nargs;
    size_t vars;
} macros[] = {
    {"all", N_ALL, 2, 1},
    {"all", N_ALL, 3, 2},
    {"exists", N_EXISTS, 2, 1},
    {"exists", N_EXISTS, 3, 2},
    {"exists_one", N_EXISTS_ONE, 2, 1},
    {"existsOne", N_EXISTS_ONE, 3, 2},
    {"exists_one", N_EXISTS_ONE, 3, 2},
    {"filter", N_FILTER, 2, 1},
    {"map", N_MAPPED, 2, 1},
    {"map", N_MAPPED, 3, 1},
    {"transformList", N_MAPPED, 3, 2},
    {"transformList", N_MAPPED, 4, 2},
    {"transformMap", N_MAPPED_MAP, 3, 2},
    {"transformMap", N_MAPPED_MAP, 4, 2},
    {"transformMapEntry", N_MAPPED_MAP, 3, 2},
    {"transformMapEntry", N_MAPPED_MAP, 4, 2},
    {"optMap", N_OPT_MAP, 2, 1},
    {"optFlatMap", N_OPT_FLAT_MAP, 2, 1},
};

/* target.all(x, body) and its kind: args become {range, body...}, name the variable. */
static struct cel_node *expand_macro(struct cel_parser *p, struct cel_node *call)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(macros); i++) {
        struct cel_node *n;
        size_t given = call->nargs - 1;
        size_t vars = macros[i].vars;

        if (!sw_slice_eq_str(call->name, macros[i].name) || given != macros[i].nargs)
            continue;
        for (size_t j = 1; j <= vars; j++) {
            if (call->args[j]->kind != N_IDENT)
                return cel_fail(p->c, call->args[j]->pos, "argument must be a simple name");
        }
        n = node(p, macros[i].kind, call->pos, given - vars + 1);
        n->name = call->args[1]->name;
        n->entry = sw_slice_eq_str(call->name, "transformMapEntry");
        if (vars == 2)
            n->name2 = call->args[2]->name;
        n->args[0] = call->args[0];
        for (size_t j = vars + 1; j <= given; j++)
            n->args[j - vars] = call->args[j];
        return n;
    }
    if ((p->c->flags & SW_CEL_STORED) && call->args[0]->kind == N_IDENT &&
        sw_slice_eq_str(call->args[0]->name, "cel") && sw_slice_eq_str(call->name, "bind") &&
        call->nargs == 4) {
        struct cel_node *n = node(p, N_BIND, call->pos, 2);

        if (call->args[1]->kind != N_IDENT)
            return cel_fail(p->c, call->args[1]->pos, "variable name must be a simple identifier");
        n->name = call->args[1]->name;
        n->args[0] = call->args[2];
        n->args[1] = call->args[3];
        return n;
    }
    return call;
}

static struct cel_node *expand_has(struct cel_parser *p, struct cel_node *call)
{
    struct cel_node *x = call->nargs == 1 ? call->args[0] : NULL;

    if (!x || x->kind != N_SELECT)
        return cel_fail(p->c, x ? x->pos : call->pos, "invalid argument to has() macro");
    call->kind = N_HAS;
    call->name = x->name;
    call->args[0] = x->args[0];
    return call;
}

bool cel_reserved(struct sw_slice s)
{
    static const char *const words[] = {"as",   "break",    "const",     "continue", "else",
                                        "for",  "function", "if",        "import",   "let",
                                        "loop", "package",  "namespace", "return",   "var",
                                        "void", "while",    "in",        NULL};

    return sw_word_in(s, words);
}

static struct cel_node *parse_ident(struct cel_parser *p)
{
    struct sw_slice name = p->text;
    size_t pos = p->at;
    struct cel_node *n;

    if (cel_reserved(name))
        return cel_fail(p->c, pos, "reserved identifier: %.*s", SW_SLICE_ARG(name));
    cel_advance(p);
    if (sw_slice_eq_str(name, "true") || sw_slice_eq_str(name, "false")) {
        n = node(p, N_CONST, pos, 0);
        n->value = (struct cel_val){.k = CEL_BOOL, .b = name.p[0] == 't'};
        return n;
    }
    if (sw_slice_eq_str(name, "null")) {
        n = node(p, N_CONST, pos, 0);
        n->value = (struct cel_val){.k = CEL_NULL};
        return n;
    }
    n = node(p, N_IDENT, pos, 0);
    n->name = name;
    pos = p->at;
    if (!accept(p, "("))
        return n;
    n->kind = N_CALL;
    n->pos = (uint32_t)pos; /* calls are found at their parenthesis */
    n = parse_args(p, n, ")", 0, NULL);
    return n && sw_slice_eq_str(name, "has") ? expand_has(p, n) : n;
}

static struct cel_node *parse_primary(struct cel_parser *p)
{
    size_t pos = p->at;
    struct cel_node *n;

    switch (p->tok) {
    case T_INT:
        if (p->value.i == INT64_MIN)
            return cel_fail(p->c, pos, "invalid int literal");
        __attribute__((fallthrough));
    case T_UINT:
    case T_DOUBLE:
    case T_STRING:
    case T_BYTES:
        n = node(p, N_CONST, pos, 0);
        n->value = p->value;
        cel_advance(p);
        return n;
    case T_IDENT:
        return parse_ident(p);
    case T_PUNCT:
        if (accept(p, "(")) {
            n = parse_expr(p);
            return n && expect(p, ")") ? n : NULL;
        }
        if (accept(p, "["))
            return parse_args(p, node(p, N_LIST, pos, 0), "]", 0, NULL);
        if (accept(p, "{"))
            return parse_map(p, pos);
        if (accept(p, ".") && p->tok == T_IDENT)
            return parse_ident(p);
        break;
    case T_END:
        return cel_fail(p->c, pos, "Syntax error: mismatched input '<EOF>' expecting " OPERANDS);
    }
    return cel_fail(p->c, pos, "Syntax error: extraneous input '%.*s' expecting " OPERANDS,
                    SW_SLICE_ARG(p->text));
}

static struct cel_node *parse_select(struct cel_parser *p, struct cel_node *operand, size_t pos)
{
    bool optional = accept(p, "?");
    struct sw_slice name = p->text;
    struct cel_node *n;

    if (p->tok != T_IDENT)
        return cel_fail(p->c, p->at, "Syntax error: no viable alternative at input '.'");
    if (sw_slice_eq_str(name, "in") || sw_slice_eq_str(name, "true") ||
        sw_slice_eq_str(name, "false") || sw_slice_eq_str(name, "null"))
        return cel_fail(p->c, p->at, "Syntax error: no viable alternative at input '.%.*s'",
                        SW_SLICE_ARG(name));
    cel_advance(p);
    if (is(p, "(") && !optional) {
        pos = p->at;
        cel_advance(p);
        n = node(p, N_CALL, pos, 0);
        n->name = name;
        n->has_target = true;
        n = parse_args(p, n, ")", 1, operand);
        return n ? expand_macro(p, n) : NULL;
    }
    n = node(p, N_SELECT, pos, 1);
    n->name = name;
    n->optional = optional;
    n->args[0] = operand;
    return n;
}

static struct cel_node *parse_member(struct cel_parser *p)
{
    struct cel_node *n = parse_primary(p);
    unsigned chain = 0;

    while (n && !p->c->failed) {
        size_t pos = p->at;

        if (++chain > 200)
            return cel_fail(p->c, pos, "expression is nested too deeply");
        if (accept(p, ".")) {
            n = parse_select(p, n, pos);
        } else if (accept(p, "[")) {
            struct cel_node *x = node(p, N_INDEX, pos, 2);

            x->optional = accept(p, "?");
            x->args[0] = n;
            x->args[1] = parse_expr(p);
            n = x->args[1] && expect(p, "]") ? x : NULL;
        } else if (is(p, "{") && (n->kind == N_IDENT || n->kind == N_SELECT)) {
            return cel_fail(p->c, pos, "message literals are not supported");
        } else {
            break;
        }
    }
    return p->c->failed ? NULL : n;
}

static struct cel_node *parse_unary(struct cel_parser *p)
{
    size_t pos = p->at;
    struct cel_node *n;
    bool neg = is(p, "-");

    if (!neg && !is(p, "!"))
        return parse_member(p);
    if (++p->depth > PARSE_DEPTH_MAX)
        return cel_fail(p->c, pos, "expression is nested too deeply");
    cel_advance(p);
    if (is(p, neg ? "-" : "!")) { /* two of a kind cancel each other */
        cel_advance(p);
        n = parse_unary(p);
        p->depth--;
        return n;
    }
    if (neg && p->tok == T_INT) {
        p->value.i = p->value.i == INT64_MIN ? INT64_MIN : -p->value.i;
        n = node(p, N_CONST, pos, 0);
        n->value = p->value;
        cel_advance(p);
        p->depth--;
        return n;
    }
    n = node(p, neg ? N_NEG : N_NOT, pos, 1);
    n->args[0] = parse_unary(p);
    p->depth--;
    return n->args[0] ? n : NULL;
}

/* Operators by how tightly they bind, the loosest first. */
enum { LEVEL_RELATION, LEVEL_ADD, LEVEL_MUL, LEVEL_UNARY };

static bool operator_of(const struct cel_parser *p, int level, enum cel_op *ret)
{
    static const struct {
        const char *text;
        enum cel_op op;
        int level;
    } ops[] = {
        {"==", OP_EQ, LEVEL_RELATION}, {"!=", OP_NE, LEVEL_RELATION}, {"<", OP_LT, LEVEL_RELATION},
        {"<=", OP_LE, LEVEL_RELATION}, {">", OP_GT, LEVEL_RELATION},  {">=", OP_GE, LEVEL_RELATION},
        {"+", OP_ADD, LEVEL_ADD},      {"-", OP_SUB, LEVEL_ADD},      {"*", OP_MUL, LEVEL_MUL},
        {"/", OP_DIV, LEVEL_MUL},      {"%", OP_MOD, LEVEL_MUL},
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(ops); i++) {
        if (ops[i].level == level && is(p, ops[i].text)) {
            *ret = ops[i].op;
            return true;
        }
    }
    *ret = OP_IN;
    return level == LEVEL_RELATION && p->tok == T_IDENT && sw_slice_eq_str(p->text, "in");
}

/* Operands of a level and the operators between them, which bind to the left. */
static struct cel_node *parse_level(struct cel_parser *p, int level)
{
    struct cel_node *n;
    enum cel_op op;

    if (level == LEVEL_UNARY)
        return parse_unary(p);
    n = parse_level(p, level + 1);
    while (n && operator_of(p, level, &op)) {
        size_t pos = p->at;
        struct cel_node *y;

        cel_advance(p);
        y = parse_level(p, level + 1);
        n = y ? binary(p, op, pos, n, y) : NULL;
    }
    return n;
}

/* a && b && c as one flat node: depth must not grow with the number of terms. */
static struct cel_node *parse_chain(struct cel_parser *p, bool or)
{
    const char *punct = or ? "||" : "&&";
    struct cel_node *first = or ? parse_chain(p, false) : parse_level(p, LEVEL_RELATION);
    struct cel_node *n;
    node_vec v = {0};
    size_t pos = p->at;

    if (!first || !is(p, punct))
        return first;
    sw_vec_push(&v, first);
    while (accept(p, punct)) {
        struct cel_node *y = or ? parse_chain(p, false) : parse_level(p, LEVEL_RELATION);

        if (!y)
            break;
        sw_vec_push(&v, y);
    }
    n = node(p, or ? N_OR : N_AND, pos, v.n);
    for (size_t i = 0; i < v.n; i++)
        n->args[i] = v.p[i];
    sw_vec_done(&v);
    return p->c->failed ? NULL : n;
}

static struct cel_node *parse_expr(struct cel_parser *p)
{
    struct cel_node *n;
    size_t pos;

    if (++p->depth > PARSE_DEPTH_MAX)
        return cel_fail(p->c, p->at, "expression is nested too deeply");
    n = parse_chain(p, true);
    pos = p->at;
    if (n && accept(p, "?")) {
        struct cel_node *c = node(p, N_COND, pos, 3);

        c->args[0] = n;
        c->args[1] = parse_chain(p, true);
        c->args[2] = c->args[1] && expect(p, ":") ? parse_expr(p) : NULL;
        n = c->args[2] ? c : NULL;
    }
    p->depth--;
    return p->c->failed ? NULL : n;
}

void cel_parse(struct sw_cel *c)
{
    struct cel_parser p = {.c = c};

    if (!sw_utf8_valid(c->src)) {
        cel_fail(c, 0, "Syntax error: not UTF-8");
        return;
    }
    cel_advance(&p);
    c->root = parse_expr(&p);
    if (!c->failed && p.tok != T_END)
        cel_fail(c, p.at, "Syntax error: extraneous input '%.*s' expecting <EOF>",
                 SW_SLICE_ARG(p.text));
}
