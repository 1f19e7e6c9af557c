/* SPDX-License-Identifier: Apache-2.0 */
/* The syntax of Go's regexp/syntax with its Perl flags; recursion only into groups, and counted. */
#include <string.h>

#include "base/hex.h"
#include "base/utf8.h"
#include "regex/regex_int.h"

int re_refuse(struct re_parser *p, const char *what, struct sw_slice shown)
{
    size_t at = shown.n ? (size_t)(shown.p - p->p.p) : p->at;

    if (strcmp(what, "expression too large") == 0)
        return sw_err_at(p->err, SW_EINVAL, at, "error parsing regexp: %s", what);
    return sw_err_at(p->err, SW_EINVAL, at, "error parsing regexp: %s: `%.*s`", what,
                     SW_SLICE_ARG(sw_slice_head(shown, 100)));
}

struct sw_slice re_rest(const struct re_parser *p)
{
    return sw_slice_from(p->p, p->at);
}

struct sw_slice re_since(const struct re_parser *p, size_t from)
{
    return sw_slice(p->p.p + from, p->at - from);
}

uint32_t re_rune_max(const struct re_parser *p)
{
    return p->bytes ? 0xff : RE_RUNE_MAX;
}

uint32_t re_next(struct re_parser *p)
{
    const unsigned char *s = (const unsigned char *)p->p.p + p->at;
    size_t n = p->bytes ? 1 : sw_utf8_len(p->p.p + p->at, p->p.n - p->at);
    uint32_t c = s[0];

    if (n > 1)
        c &= 0x7fu >> n;
    for (size_t i = 1; i < n; i++)
        c = c << 6 | (s[i] & 0x3f);
    p->at += n;
    return c;
}

struct re_node *re_node_new(struct re_parser *p, enum re_op op)
{
    struct re_node *n = SW_ARENA_NEW(p->a, struct re_node);

    n->op = op;
    n->product = 1;
    n->nullable = op == RE_EMPTY || op == RE_ASSERT;
    return n;
}

/* ---- characters ---- */

/* Behind "\x{": digits up to '}'. */
static bool hex_braces(struct re_parser *p, uint32_t *ret)
{
    uint32_t v = 0;
    size_t n = 0;

    for (; p->at < p->p.n; p->at++, n++) {
        int d = sw_hex_digit(p->p.p[p->at]);

        if (p->p.p[p->at] == '}') {
            p->at++;
            *ret = v;
            return n > 0;
        }
        if (d < 0)
            break;
        v = v * 16 + (uint32_t)d;
        if (v > RE_RUNE_MAX)
            break;
    }
    return false;
}

static bool hex_escape(struct re_parser *p, uint32_t *ret)
{
    struct sw_slice rest = re_rest(p);
    uint8_t v;

    if (rest.n && rest.p[0] == '{') {
        p->at++;
        return hex_braces(p, ret);
    }
    if (!sw_hex_read(sw_slice_head(rest, 2), &v, 1))
        return false;
    *ret = v;
    p->at += 2;
    return true;
}

static bool octal_at(const struct re_parser *p)
{
    return p->at < p->p.n && p->p.p[p->at] >= '0' && p->p.p[p->at] <= '7';
}

/* One to three digits; a single one above 0 would be a back-reference. */
static bool octal_escape(struct re_parser *p, char first, uint32_t *ret)
{
    uint32_t v = (uint32_t)(first - '0');

    if (first > '7' || (first != '0' && !octal_at(p)))
        return false;
    for (int i = 0; i < 2 && octal_at(p); i++)
        v = v * 8 + (uint32_t)(p->p.p[p->at++] - '0');
    *ret = v;
    return true;
}

int re_escape(struct re_parser *p, uint32_t *ret)
{
    static const char names[] = "afnrtv";
    static const char values[] = "\a\f\n\r\t\v";
    size_t from = p->at++;
    const char *s;
    char c;
    bool ok;

    if (p->at == p->p.n)
        return re_refuse(p, "trailing backslash at end of expression", sw_slice("", 0));
    c = p->p.p[p->at];
    if ((unsigned char)c & 0x80) {
        (void)re_next(p);
        return re_refuse(p, "invalid escape sequence", re_since(p, from));
    }
    p->at++;
    s = c ? strchr(names, c) : NULL;
    if (s) {
        *ret = (uint32_t)values[s - names];
        return SW_OK;
    }
    if (c == 'x')
        ok = hex_escape(p, ret);
    else if (c >= '0' && c <= '9')
        ok = octal_escape(p, c, ret);
    else {
        ok = !((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
        *ret = (uint32_t)c;
    }
    if (!ok)
        return re_refuse(p, "invalid escape sequence", re_since(p, from));
    if (*ret > re_rune_max(p))
        return re_refuse(p, "a character above \\x{FF}", re_since(p, from));
    return SW_OK;
}

static struct re_node *literal(struct re_parser *p, uint32_t c)
{
    struct re_node *n;

    if (p->flags & RE_FOLD) {
        struct re_set s = {0};

        re_set_add(&s, c, c);
        re_set_fold(&s);
        n = re_class_node(p, &s);
        re_set_done(&s);
        if (n->nranges != 1 || n->ranges[0].lo != n->ranges[0].hi)
            return n;
    }
    n = re_node_new(p, RE_LIT);
    n->rune = c;
    return n;
}

static struct re_node *assertion(struct re_parser *p, uint32_t what)
{
    struct re_node *n = re_node_new(p, RE_ASSERT);

    n->rune = what;
    return n;
}

static struct re_node *dot(struct re_parser *p)
{
    struct re_set s = {0};
    struct re_node *n;

    if (p->flags & RE_DOT_ALL) {
        re_set_add(&s, 0, RE_RUNE_MAX);
    } else {
        re_set_add(&s, 0, '\n' - 1);
        re_set_add(&s, '\n' + 1, RE_RUNE_MAX);
    }
    n = re_class_node(p, &s);
    re_set_done(&s);
    return n;
}

/* ---- sequences ---- */

/* A sequence that is being read; last points to the pointer to its last item. */
struct seq {
    struct re_node *first;
    struct re_node **last;
    size_t repeat_from; /* where the repeats of the last item began */
    bool repeated;
};

static void seq_add(struct seq *s, struct re_node *n)
{
    struct re_node **to = s->last ? &(*s->last)->next : &s->first;

    *to = n;
    s->last = to;
}

static int parse_alternatives(struct re_parser *p, struct re_node **ret);

/* "{n}", "{n,}", "{n,m}" at the brace; false: it is a literal. Counts are cut above the limit. */
static bool read_count(struct re_parser *p, uint32_t *ret)
{
    size_t from = p->at;
    uint32_t v = 0;

    while (p->at < p->p.n && p->p.p[p->at] >= '0' && p->p.p[p->at] <= '9') {
        v = (uint32_t)sw_min(v * 10 + (uint32_t)(p->p.p[p->at] - '0'), RE_REPEAT_MAX + 1);
        p->at++;
    }
    *ret = v;
    /* Leading zeros make it a literal, as in Go. */
    return p->at > from && !(p->at - from > 1 && p->p.p[from] == '0');
}

static bool read_repeat(struct re_parser *p, uint32_t *ret_min, uint32_t *ret_max)
{
    size_t from = p->at++;
    bool ok = read_count(p, ret_min);

    *ret_max = *ret_min;
    if (ok && p->at < p->p.n && p->p.p[p->at] == ',') {
        p->at++;
        if (p->at < p->p.n && p->p.p[p->at] == '}')
            *ret_max = RE_INF;
        else
            ok = read_count(p, ret_max);
    }
    if (ok && p->at < p->p.n && p->p.p[p->at] == '}') {
        p->at++;
        return true;
    }
    p->at = from;
    return false;
}

/* The largest product of repeats, as RE2 bounds it. */
static bool product_ok(struct re_node *n)
{
    uint32_t times = n->max == RE_INF ? n->min : n->max;

    if ((n->min < 2 && (n->max < 2 || n->max == RE_INF)) || times == 0) {
        n->product = times == 0 && n->max != RE_INF ? 1 : n->sub->product;
        return true;
    }
    n->product = n->sub->product * times;
    return n->product <= RE_REPEAT_MAX;
}

/* Wraps the last item; p->at is behind the operator that began at 'from'. */
static int add_repeat(struct re_parser *p, struct seq *s, size_t from, uint32_t min, uint32_t max)
{
    struct sw_slice op = re_since(p, from);
    struct re_node *n;

    if (!s->last)
        return re_refuse(p, "missing argument to repetition operator", op);
    if (max != RE_INF && (max > RE_REPEAT_MAX || min > max))
        return re_refuse(p, "invalid repeat count", op);
    if (min > RE_REPEAT_MAX)
        return re_refuse(p, "invalid repeat count", op);
    n = re_node_new(p, RE_REPEAT);
    n->lazy = (p->flags & RE_SWAP) != 0;
    if (p->at < p->p.n && p->p.p[p->at] == '?') {
        p->at++;
        n->lazy = !n->lazy;
    }
    if (s->repeated)
        return re_refuse(p, "invalid nested repetition operator", re_since(p, s->repeat_from));
    n->min = min;
    n->max = max;
    n->sub = *s->last;
    n->nullable = min == 0 || n->sub->nullable;
    if (!product_ok(n))
        return re_refuse(p, "invalid repeat count", op);
    *s->last = n;
    s->repeated = true;
    s->repeat_from = from;
    return SW_OK;
}

static int bad_perl(struct re_parser *p, size_t from)
{
    if (p->at < p->p.n)
        (void)re_next(p);
    return re_refuse(p, "invalid or unsupported Perl syntax", re_since(p, from));
}

/* The name of a group, behind "(?P<" or "(?<". */
static int group_name(struct re_parser *p, size_t open)
{
    const char *end = memchr(p->p.p + p->at, '>', p->p.n - p->at);
    struct sw_slice name;

    if (!end)
        return re_refuse(p, "invalid named capture", sw_slice_from(p->p, open));
    name = sw_slice(p->p.p + p->at, (size_t)(end - p->p.p) - p->at);
    p->at += name.n + 1;
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];

        if (!(c == '_' || (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z')))
            return re_refuse(p, "invalid named capture", re_since(p, open));
    }
    if (name.n == 0)
        return re_refuse(p, "invalid named capture", re_since(p, open));
    for (size_t i = 0; i < p->names.n; i++) {
        if (sw_slice_eq(p->names.p[i], name))
            return re_refuse(p, "duplicate capture group name", name);
    }
    sw_vec_push(&p->names, name);
    return SW_OK;
}

enum group { GROUP_CAPTURE, GROUP_PLAIN, GROUP_FLAGS };

/* Flags behind "(?", up to ':' or ')'. */
static int group_flags(struct re_parser *p, size_t open, enum group *ret)
{
    static const char letters[] = "ismU";
    static const unsigned bits[] = {RE_FOLD, RE_DOT_ALL, RE_MULTI, RE_SWAP};
    unsigned flags = p->flags;
    bool off = false;
    bool saw = false;

    while (p->at < p->p.n) {
        char c = p->p.p[p->at];
        const char *l = c ? strchr(letters, c) : NULL;

        if (l && off) {
            flags &= ~bits[l - letters];
        } else if (l) {
            flags |= bits[l - letters];
        } else if (c == '-' && !off) {
            off = true;
            saw = false;
            p->at++;
            continue;
        } else if ((c == ':' || c == ')') && (!off || saw)) {
            p->at++;
            p->flags = flags;
            *ret = c == ':' ? GROUP_PLAIN : GROUP_FLAGS;
            return SW_OK;
        } else {
            return bad_perl(p, open);
        }
        saw = true;
        p->at++;
    }
    return re_refuse(p, "missing closing )", p->p);
}

/* The head of a group, at its parenthesis. */
static int group_head(struct re_parser *p, enum group *ret)
{
    size_t open = p->at++;
    struct sw_slice rest = re_rest(p);

    *ret = GROUP_CAPTURE;
    if (!rest.n || rest.p[0] != '?')
        return SW_OK;
    p->at++;
    if (sw_slice_has_prefix(rest, SW_SLICE_LIT("?P<"))) {
        p->at += 2;
        return group_name(p, open);
    }
    if (sw_slice_has_prefix(rest, SW_SLICE_LIT("?<")) && rest.n > 2 && rest.p[2] != '=' &&
        rest.p[2] != '!') {
        p->at++;
        return group_name(p, open);
    }
    return group_flags(p, open, ret);
}

static int parse_group(struct re_parser *p, struct seq *s)
{
    unsigned flags = p->flags;
    enum group kind;
    struct re_node *n = NULL;
    struct re_node *inner = NULL;
    uint32_t number = p->groups;
    int rc = group_head(p, &kind);

    if (rc < 0 || kind == GROUP_FLAGS)
        return rc;
    if (kind == GROUP_CAPTURE)
        p->groups++;
    if (++p->depth > RE_NEST_MAX)
        return re_refuse(p, "expression nests too deeply", p->p);
    rc = parse_alternatives(p, &inner);
    if (rc < 0)
        return rc;
    if (p->at == p->p.n)
        return re_refuse(p, "missing closing )", p->p);
    p->at++;
    p->depth--;
    p->flags = flags;
    n = inner;
    if (kind == GROUP_CAPTURE) {
        n = re_node_new(p, RE_CAP);
        n->rune = number;
        n->sub = inner;
        n->nullable = inner->nullable;
        n->product = inner->product;
    }
    seq_add(s, n);
    return SW_OK;
}

/* \Q...\E: every character as it is. */
static void parse_quoted(struct re_parser *p, struct seq *s)
{
    struct sw_slice rest;
    const char *end;
    size_t stop;

    p->at += 2;
    rest = re_rest(p);
    end = rest.n ? memmem(rest.p, rest.n, "\\E", 2) : NULL;
    stop = end ? (size_t)(end - p->p.p) : p->p.n;
    while (p->at < stop)
        seq_add(s, literal(p, re_next(p)));
    if (end)
        p->at += 2;
}

/* A backslash and what it makes of the next character. */
static int parse_backslash(struct re_parser *p, struct seq *s)
{
    static const char letters[] = "AzbB";
    static const uint32_t asserts[] = {RE_BEGIN_TEXT, RE_END_TEXT, RE_WORD, RE_NOT_WORD};
    char c = p->at + 1 < p->p.n ? p->p.p[p->at + 1] : '\0';
    const char *l = c ? strchr(letters, c) : NULL;
    struct re_node *n = NULL;
    uint32_t rune;
    bool is;
    int rc;

    if (c == 'Q') {
        parse_quoted(p, s);
        return SW_OK;
    }
    if (l) {
        p->at += 2;
        seq_add(s, assertion(p, c == 'B' && !p->bytes ? RE_NOT_WORD_UTF8 : asserts[l - letters]));
        return SW_OK;
    }
    rc = re_class_escape(p, &n, &is);
    if (rc == SW_OK && !is) {
        rc = re_escape(p, &rune);
        if (rc == SW_OK)
            n = literal(p, rune);
    }
    if (rc == SW_OK)
        seq_add(s, n);
    return rc;
}

/* One item of a sequence that is no group, and no repeat. */
static int parse_atom(struct re_parser *p, struct seq *s)
{
    bool multi = (p->flags & RE_MULTI) != 0;
    struct re_node *n = NULL;
    int rc = SW_OK;

    switch (p->p.p[p->at]) {
    case '^':
        p->at++;
        n = assertion(p, multi ? RE_BEGIN_LINE : RE_BEGIN_TEXT);
        break;
    case '$':
        p->at++;
        n = assertion(p, multi ? RE_END_LINE : RE_END_TEXT);
        break;
    case '.':
        p->at++;
        n = dot(p);
        break;
    case '[':
        rc = re_class(p, &n);
        break;
    case '\\':
        return parse_backslash(p, s);
    default:
        n = literal(p, re_next(p));
        break;
    }
    if (rc == SW_OK)
        seq_add(s, n);
    return rc;
}

static int parse_item(struct re_parser *p, struct seq *s)
{
    size_t from = p->at;
    uint32_t min;
    uint32_t max;
    char c = p->p.p[p->at];

    if (c == '*' || c == '+' || c == '?') {
        p->at++;
        return add_repeat(p, s, from, c == '+', c == '?' ? 1 : RE_INF);
    }
    if (c == '{' && read_repeat(p, &min, &max))
        return add_repeat(p, s, from, min, max);
    s->repeated = false;
    return c == '(' ? parse_group(p, s) : parse_atom(p, s);
}

static struct re_node *seq_node(struct re_parser *p, const struct seq *s)
{
    struct re_node *n;

    if (!s->first)
        return re_node_new(p, RE_EMPTY);
    if (!s->first->next)
        return s->first;
    n = re_node_new(p, RE_CONCAT);
    n->sub = s->first;
    n->nullable = true;
    for (const struct re_node *i = s->first; i; i = i->next) {
        n->nullable = n->nullable && i->nullable;
        n->product = (uint32_t)sw_max(n->product, i->product);
    }
    return n;
}

/* Up to the end, or a parenthesis that closes. */
static int parse_alternatives(struct re_parser *p, struct re_node **ret)
{
    struct seq all = {0};
    struct seq s = {0};
    struct re_node *n;
    int rc = SW_OK;

    while (p->at < p->p.n && p->p.p[p->at] != ')' && rc == SW_OK) {
        if (p->p.p[p->at] != '|') {
            rc = parse_item(p, &s);
            continue;
        }
        p->at++;
        seq_add(&all, seq_node(p, &s));
        s = (struct seq){0};
    }
    if (rc < 0)
        return rc;
    seq_add(&all, seq_node(p, &s));
    *ret = all.first;
    if (!all.first->next)
        return SW_OK;
    n = re_node_new(p, RE_ALT);
    n->sub = all.first;
    for (const struct re_node *i = all.first; i; i = i->next) {
        n->nullable = n->nullable || i->nullable;
        n->product = (uint32_t)sw_max(n->product, i->product);
    }
    *ret = n;
    return SW_OK;
}

static int check_utf8(struct re_parser *p)
{
    for (size_t i = 0; i < p->p.n;) {
        size_t n = sw_utf8_len(p->p.p + i, p->p.n - i);

        if (n == 0)
            return sw_err_at(p->err, SW_EINVAL, i, "error parsing regexp: invalid UTF-8");
        i += n;
    }
    return SW_OK;
}

int re_parse(struct sw_arena *a, struct sw_slice pattern, bool bytes, struct re_tree *ret,
             struct sw_err *err)
{
    struct re_parser p = {.a = a, .p = pattern, .bytes = bytes, .groups = 1, .err = err};
    int rc = bytes ? SW_OK : check_utf8(&p);

    if (rc == SW_OK)
        rc = parse_alternatives(&p, &ret->root);
    if (rc == SW_OK && p.at < p.p.n)
        rc = re_refuse(&p, "unexpected )", p.p);
    ret->groups = p.groups;
    ret->work = p.work;
    sw_vec_done(&p.names);
    return rc;
}
