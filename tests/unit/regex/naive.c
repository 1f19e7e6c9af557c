/* SPDX-License-Identifier: Apache-2.0 */
#include "naive.h"

#include "base/utf8.h"

/* What remains to be matched, innermost first. */
struct rest {
    enum { REST_NODE, REST_LOOP, REST_CLOSE } kind;
    const struct re_node *n;
    const struct rest *up;
    uint32_t count; /* of a loop */
    size_t from;    /* where its last round began */
};

static bool go(struct naive *m, const struct rest *r, size_t at);

static bool rune_at(const struct naive *m, size_t at, uint32_t *ret, size_t *ret_n)
{
    const unsigned char *s = (const unsigned char *)m->text.p + at;

    if (at >= m->text.n)
        return false;
    *ret_n = m->bytes ? 1 : sw_utf8_len(m->text.p + at, m->text.n - at);
    *ret = s[0];
    if (*ret_n > 1)
        *ret &= 0x7fu >> *ret_n;
    for (size_t i = 1; i < *ret_n; i++)
        *ret = *ret << 6 | (s[i] & 0x3f);
    return *ret_n > 0;
}

static bool in_class(const struct re_node *n, uint32_t c)
{
    for (uint32_t i = 0; i < n->nranges; i++) {
        if (c >= n->ranges[i].lo && c <= n->ranges[i].hi)
            return true;
    }
    return false;
}

static bool word_at(const struct naive *m, size_t at)
{
    unsigned char c = at < m->text.n ? (unsigned char)m->text.p[at] : 0;

    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool holds(const struct naive *m, uint32_t what, size_t at)
{
    bool edge = (at > 0 && word_at(m, at - 1)) != word_at(m, at);

    switch (what) {
    case RE_BEGIN_TEXT:
        return at == 0;
    case RE_END_TEXT:
        return at == m->text.n;
    case RE_BEGIN_LINE:
        return at == 0 || m->text.p[at - 1] == '\n';
    case RE_END_LINE:
        return at == m->text.n || m->text.p[at] == '\n';
    case RE_NOT_WORD_UTF8:
        return !edge && (at == m->text.n || ((unsigned char)m->text.p[at] & 0xc0) != 0x80);
    default:
        return edge == (what == RE_WORD);
    }
}

static bool go_concat(struct naive *m, const struct re_node *child, const struct rest *up,
                      size_t at)
{
    /* The rest of a sequence is its next sibling; a copy of the head alone would lose it. */
    struct rest tail[64];
    size_t n = 0;

    for (const struct re_node *i = child; i; i = i->next)
        n++;
    if (n > SW_ARRAY_LEN(tail)) {
        m->steps = NAIVE_STEPS;
        return false;
    }
    for (const struct re_node *i = child; i; i = i->next) {
        n--;
        tail[n] = (struct rest){.kind = REST_NODE, .n = i, .up = n ? &tail[n - 1] : up};
    }
    n = 0;
    for (const struct re_node *i = child; i; i = i->next)
        n++;
    return go(m, &tail[n - 1], at);
}

static bool go_loop(struct naive *m, const struct rest *r, size_t at)
{
    const struct re_node *n = r->n;
    bool stuck = r->count > n->min && at == r->from;
    bool more = r->count < n->max && !stuck && !(r->count >= n->min && r->count && at == r->from);
    struct rest again = {.kind = REST_LOOP, .n = n, .up = r->up, .count = r->count + 1, .from = at};
    struct rest body = {.kind = REST_NODE, .n = n->sub, .up = &again};

    if (r->count < n->min)
        return go(m, &body, at);
    if (n->lazy)
        return go(m, r->up, at) || (more && go(m, &body, at));
    return (more && go(m, &body, at)) || go(m, r->up, at);
}

static bool go_node(struct naive *m, const struct rest *r, size_t at)
{
    const struct re_node *n = r->n;
    struct rest next = {.kind = REST_LOOP, .n = n, .up = r->up, .from = SIZE_MAX};
    uint32_t c;
    size_t len;
    size_t old;

    switch (n->op) {
    case RE_EMPTY:
        return go(m, r->up, at);
    case RE_LIT:
        return rune_at(m, at, &c, &len) && c == n->rune && go(m, r->up, at + len);
    case RE_CLASS:
        return rune_at(m, at, &c, &len) && in_class(n, c) && go(m, r->up, at + len);
    case RE_ASSERT:
        return holds(m, n->rune, at) && go(m, r->up, at);
    case RE_CAP:
        if (n->rune >= NAIVE_GROUPS) {
            next.n = n->sub;
            next.kind = REST_NODE;
            return go(m, &next, at);
        }
        next.kind = REST_CLOSE;
        old = m->at[2 * n->rune];
        m->at[2 * n->rune] = at;
        if (go(m, &(struct rest){.kind = REST_NODE, .n = n->sub, .up = &next}, at))
            return true;
        m->at[2 * n->rune] = old;
        return false;
    case RE_REPEAT:
        return go(m, &next, at);
    case RE_CONCAT:
        return go_concat(m, n->sub, r->up, at);
    case RE_ALT:
        for (const struct re_node *i = n->sub; i; i = i->next) {
            if (go(m, &(struct rest){.kind = REST_NODE, .n = i, .up = r->up}, at))
                return true;
        }
        return false;
    }
    return false;
}

static bool go(struct naive *m, const struct rest *r, size_t at)
{
    size_t old;

    if (m->steps >= NAIVE_STEPS)
        return false;
    m->steps++;
    if (!r) {
        m->at[1] = at;
        return true;
    }
    if (r->kind == REST_NODE)
        return go_node(m, r, at);
    if (r->kind == REST_LOOP)
        return go_loop(m, r, at);
    old = m->at[2 * r->n->rune + 1];
    m->at[2 * r->n->rune + 1] = at;
    if (go(m, r->up, at))
        return true;
    m->at[2 * r->n->rune + 1] = old;
    return false;
}

int naive_search(struct naive *m, const struct re_tree *t, size_t from)
{
    m->steps = 0;
    for (; from <= m->text.n; from++) {
        for (size_t i = 0; i < SW_ARRAY_LEN(m->at); i++)
            m->at[i] = SIZE_MAX;
        m->at[0] = from;
        if (go(m, &(struct rest){.kind = REST_NODE, .n = t->root}, from))
            return 1;
        if (m->steps >= NAIVE_STEPS)
            return -1;
    }
    return 0;
}

bool naive_loops(const struct re_node *n)
{
    if (n->op == RE_REPEAT && n->max == RE_INF && n->sub->nullable)
        return true;
    if (n->op == RE_REPEAT || n->op == RE_CAP)
        return naive_loops(n->sub);
    for (const struct re_node *i = n->op == RE_CONCAT || n->op == RE_ALT ? n->sub : NULL; i;
         i = i->next) {
        if (naive_loops(i))
            return true;
    }
    return false;
}

bool naive_nfa_agrees(const struct re_tree *t, bool bytes, struct sw_slice text,
                      const struct sw_slice *got, int n)
{
    struct sw_budget b = {.steps = UINT64_MAX};
    size_t at[2 * NAIVE_GROUPS];
    size_t groups = n > 0 ? (size_t)n : 1;
    struct re_prog p;
    bool ok = re_compile(t, bytes, 1000000, &p) == SW_OK;
    int found = ok ? re_nfa_run(&p, text, 0, 2 * groups, at, &b) : -1;

    ok = ok && found == (n > 0);
    for (int i = 0; i < n && ok; i++) {
        bool set = at[2 * i] != SIZE_MAX && at[2 * i + 1] != SIZE_MAX;

        ok = set == (got[i].p != NULL) &&
             (!set || (got[i].p == text.p + at[2 * i] && got[i].n == at[2 * i + 1] - at[2 * i]));
    }
    re_prog_done(&p);
    return ok;
}

static int write_repeat(struct sw_buf *to, const struct re_node *n)
{
    int rc = sw_buf_append_str(to, "(?:");

    if (rc == SW_OK)
        rc = naive_write(to, n->sub);
    if (rc == SW_OK && n->max == RE_INF)
        rc = sw_buf_printf(to, "){%u,}%s", n->min, n->lazy ? "?" : "");
    else if (rc == SW_OK)
        rc = sw_buf_printf(to, "){%u,%u}%s", n->min, n->max, n->lazy ? "?" : "");
    return rc;
}

static int write_class(struct sw_buf *to, const struct re_node *n)
{
    int rc = sw_buf_append_str(to, n->nranges ? "[" : "[^\\x{0}-\\x{10FFFF}");

    for (uint32_t i = 0; i < n->nranges && rc == SW_OK; i++)
        rc = sw_buf_printf(to, "\\x{%X}-\\x{%X}", n->ranges[i].lo, n->ranges[i].hi);
    return rc < 0 ? rc : sw_buf_append_str(to, "]");
}

static int write_list(struct sw_buf *to, const struct re_node *n)
{
    int rc = SW_OK;

    for (const struct re_node *i = n->sub; i && rc == SW_OK; i = i->next) {
        bool group = n->op == RE_CONCAT && (i->op == RE_ALT || i->op == RE_CONCAT);

        rc = sw_buf_append_str(to, group ? "(?:" : "");
        if (rc == SW_OK)
            rc = naive_write(to, i);
        if (rc == SW_OK)
            rc = sw_buf_append_str(to, group ? ")" : i->next && n->op == RE_ALT ? "|" : "");
    }
    return rc;
}

int naive_write(struct sw_buf *to, const struct re_node *n)
{
    static const struct {
        uint32_t what;
        const char *text;
    } asserts[] = {{RE_BEGIN_TEXT, "\\A"},   {RE_END_TEXT, "\\z"}, {RE_BEGIN_LINE, "(?m:^)"},
                   {RE_END_LINE, "(?m:$)"},  {RE_WORD, "\\b"},     {RE_NOT_WORD, "\\B"},
                   {RE_NOT_WORD_UTF8, "\\B"}};
    int rc;

    switch (n->op) {
    case RE_EMPTY:
        return sw_buf_append_str(to, "(?:)");
    case RE_LIT:
        return sw_buf_printf(to, "\\x{%X}", n->rune);
    case RE_CLASS:
        return write_class(to, n);
    case RE_ASSERT:
        for (size_t i = 0; i < SW_ARRAY_LEN(asserts); i++) {
            if (asserts[i].what == n->rune)
                return sw_buf_append_str(to, asserts[i].text);
        }
        return SW_EINVAL;
    case RE_CAP:
        rc = sw_buf_append_str(to, "(");
        if (rc == SW_OK)
            rc = naive_write(to, n->sub);
        return rc < 0 ? rc : sw_buf_append_str(to, ")");
    case RE_REPEAT:
        return write_repeat(to, n);
    case RE_CONCAT:
    case RE_ALT:
        return write_list(to, n);
    }
    return SW_EINVAL;
}
