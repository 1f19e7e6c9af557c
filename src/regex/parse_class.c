/* SPDX-License-Identifier: Apache-2.0 */
/* Classes: "[...]", Perl's, POSIX's, Unicode's. */
#include <string.h>

#include "regex/regex_int.h"

enum { WORK_MAX = 1000000 }; /* ranges that a pattern may add up */

static const struct re_range digits[] = {{'0', '9'}};
static const struct re_range spaces[] = {{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}};
static const struct re_range words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
static const struct re_range alnum[] = {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}};
static const struct re_range alpha[] = {{'A', 'Z'}, {'a', 'z'}};
static const struct re_range ascii[] = {{0, 0x7f}};
static const struct re_range blank[] = {{'\t', '\t'}, {' ', ' '}};
static const struct re_range cntrl[] = {{0, 0x1f}, {0x7f, 0x7f}};
static const struct re_range graph[] = {{'!', '~'}};
static const struct re_range lower[] = {{'a', 'z'}};
static const struct re_range print[] = {{' ', '~'}};
static const struct re_range punct[] = {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}};
static const struct re_range space[] = {{'\t', '\r'}, {' ', ' '}};
static const struct re_range upper[] = {{'A', 'Z'}};
static const struct re_range xdigit[] = {{'0', '9'}, {'A', 'F'}, {'a', 'f'}};
static const struct re_range any[] = {{0, RE_RUNE_MAX}};

#define TABLE(name, list)                                                                          \
    {                                                                                              \
        name, list, SW_ARRAY_LEN(list)                                                             \
    }
static const struct re_table posix[] = {
    TABLE("alnum", alnum), TABLE("alpha", alpha),  TABLE("ascii", ascii), TABLE("blank", blank),
    TABLE("cntrl", cntrl), TABLE("digit", digits), TABLE("graph", graph), TABLE("lower", lower),
    TABLE("print", print), TABLE("punct", punct),  TABLE("space", space), TABLE("upper", upper),
    TABLE("word", words),  TABLE("xdigit", xdigit)};
static const struct re_table perl[] = {TABLE("d", digits), TABLE("s", spaces), TABLE("w", words)};
static const struct re_table everything = TABLE("Any", any);

/* Adds a table, or what is not in it, with all cases where flags ask for them. */
static int add_table(struct re_parser *p, struct re_set *to, const struct re_table *t, bool negate)
{
    struct re_set s = {0};

    re_set_add_all(&s, t->p, t->n);
    if (p->flags & RE_FOLD)
        re_set_fold(&s);
    if (negate)
        re_set_negate(&s, RE_RUNE_MAX);
    re_set_add_all(to, s.r.p, s.r.n);
    p->work += s.work + s.r.n;
    re_set_done(&s);
    return p->work > WORK_MAX ? re_refuse(p, "expression too large", sw_slice("", 0)) : SW_OK;
}

/* \pN, \p{Name}, \p{^Name}, \P...: at the backslash. */
static int add_property(struct re_parser *p, struct re_set *to)
{
    size_t from = p->at;
    bool negate = p->p.p[p->at + 1] == 'P';
    struct sw_slice name;
    const struct re_table *t;

    p->at += 2;
    if (p->at == p->p.n)
        return re_refuse(p, "invalid character class range", re_since(p, from));
    if (p->p.p[p->at] == '{') {
        const char *end = memchr(p->p.p + p->at, '}', p->p.n - p->at);

        if (!end)
            return re_refuse(p, "invalid character class range", sw_slice_from(p->p, from));
        name = sw_slice(p->p.p + p->at + 1, (size_t)(end - p->p.p) - p->at - 1);
        p->at = (size_t)(end - p->p.p) + 1;
    } else {
        size_t start = p->at;

        (void)re_next(p);
        name = re_since(p, start);
    }
    if (name.n && name.p[0] == '^') {
        negate = !negate;
        name = sw_slice_from(name, 1);
    }
    t = sw_slice_eq_str(name, "Any") ? &everything : re_table_find(name);
    if (!t)
        return re_refuse(p, "invalid character class range", re_since(p, from));
    return add_table(p, to, t, negate);
}

static int add_perl(struct re_parser *p, struct re_set *to)
{
    char c = p->p.p[p->at + 1];

    p->at += 2;
    for (size_t i = 0; i < SW_ARRAY_LEN(perl); i++) {
        if ((c | 0x20) == perl[i].name[0])
            return add_table(p, to, &perl[i], c < 'a');
    }
    return SW_EINVAL;
}

/* An escape that stands for a set, at its backslash. */
static bool is_set(const struct re_parser *p)
{
    return p->at + 1 < p->p.n && p->p.p[p->at] == '\\' && p->p.p[p->at + 1] &&
           strchr("dDsSwWpP", p->p.p[p->at + 1]);
}

static int add_set(struct re_parser *p, struct re_set *to)
{
    return strchr("pP", p->p.p[p->at + 1]) ? add_property(p, to) : add_perl(p, to);
}

struct re_node *re_class_node(struct re_parser *p, struct re_set *s)
{
    struct re_node *n = re_node_new(p, RE_CLASS);
    uint32_t max = re_rune_max(p);

    re_set_clean(s);
    while (s->r.n && s->r.p[s->r.n - 1].lo > max)
        s->r.n--;
    if (s->r.n)
        s->r.p[s->r.n - 1].hi = (uint32_t)sw_min(s->r.p[s->r.n - 1].hi, max);
    n->nranges = (uint32_t)s->r.n;
    n->ranges = sw_arena_array(p->a, s->r.n + 1, sizeof(*n->ranges));
    if (s->r.n)
        memcpy(n->ranges, s->r.p, s->r.n * sizeof(*n->ranges));
    p->work += s->work;
    return n;
}

int re_class_escape(struct re_parser *p, struct re_node **ret, bool *ret_is)
{
    struct re_set s = {0};
    int rc;

    *ret_is = is_set(p);
    if (!*ret_is)
        return SW_OK;
    rc = add_set(p, &s);
    if (rc == SW_OK)
        *ret = re_class_node(p, &s);
    re_set_done(&s);
    return rc;
}

/* "[:name:]", "[:^name:]"; *ret_is: it looks like one. */
static int posix_class(struct re_parser *p, struct re_set *to, bool *ret_is)
{
    struct sw_slice rest = re_rest(p);
    const char *end = rest.n > 3 ? memmem(rest.p + 2, rest.n - 2, ":]", 2) : NULL;
    struct sw_slice name;
    bool negate;

    *ret_is = end != NULL;
    if (!end)
        return SW_OK;
    name = sw_slice(rest.p + 2, (size_t)(end - rest.p) - 2);
    negate = name.n && name.p[0] == '^';
    if (negate)
        name = sw_slice_from(name, 1);
    for (size_t i = 0; i < SW_ARRAY_LEN(posix); i++) {
        if (sw_slice_eq_str(name, posix[i].name)) {
            p->at += (size_t)(end - rest.p) + 2;
            return add_table(p, to, &posix[i], negate);
        }
    }
    return re_refuse(p, "invalid character class range",
                     sw_slice_head(rest, (size_t)(end - rest.p) + 2));
}

static int class_char(struct re_parser *p, size_t open, uint32_t *ret)
{
    if (p->at == p->p.n)
        return re_refuse(p, "missing closing ]", sw_slice_from(p->p, open));
    if (p->p.p[p->at] == '\\')
        return re_escape(p, ret);
    *ret = re_next(p);
    return SW_OK;
}

/* One item: a set, a character or a range of them. */
static int class_item(struct re_parser *p, size_t open, struct re_set *plain, struct re_set *sets)
{
    size_t from = p->at;
    bool is = false;
    uint32_t lo;
    uint32_t hi;
    int rc;

    if (sw_slice_has_prefix(re_rest(p), SW_SLICE_LIT("[:"))) {
        rc = posix_class(p, sets, &is);
        if (rc < 0 || is)
            return rc;
    }
    if (is_set(p))
        return add_set(p, sets);
    rc = class_char(p, open, &lo);
    if (rc < 0)
        return rc;
    hi = lo;
    if (p->at + 1 < p->p.n && p->p.p[p->at] == '-' && p->p.p[p->at + 1] != ']') {
        p->at++;
        rc = class_char(p, open, &hi);
        if (rc == SW_OK && hi < lo)
            rc = re_refuse(p, "invalid character class range", re_since(p, from));
        if (rc < 0)
            return rc;
    }
    re_set_add(plain, lo, hi);
    return SW_OK;
}

static int class_items(struct re_parser *p, size_t open, struct re_set *plain, struct re_set *sets)
{
    for (bool first = true;; first = false) {
        int rc;

        if (p->at == p->p.n)
            return re_refuse(p, "missing closing ]", sw_slice_from(p->p, open));
        if (p->p.p[p->at] == ']' && !first)
            break;
        rc = class_item(p, open, plain, sets);
        if (rc < 0)
            return rc;
    }
    p->at++;
    return SW_OK;
}

int re_class(struct re_parser *p, struct re_node **ret)
{
    size_t open = p->at++;
    struct re_set plain = {0}; /* those that cases are still added to */
    struct re_set sets = {0};
    bool negate = p->at < p->p.n && p->p.p[p->at] == '^';
    int rc;

    p->at += negate;
    rc = class_items(p, open, &plain, &sets);
    if (rc == SW_OK) {
        if (p->flags & RE_FOLD)
            re_set_fold(&plain);
        re_set_add_all(&sets, plain.r.p, plain.r.n);
        sets.work += plain.work;
        if (negate)
            re_set_negate(&sets, RE_RUNE_MAX);
        *ret = re_class_node(p, &sets);
        if (p->work > WORK_MAX)
            rc = re_refuse(p, "expression too large", sw_slice("", 0));
    }
    re_set_done(&plain);
    re_set_done(&sets);
    return rc;
}
