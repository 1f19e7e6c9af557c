/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the tree to a program over bytes. Each part is compiled with the instruction that follows it
 * already known, last parts first, so nothing needs to be patched. Characters of several bytes
 * become a tree of byte ranges whose equal parts are shared.
 */
#include <string.h>

#include "base/map.h"
#include "base/utf8.h"
#include "regex/regex_int.h"

/* A class as it was compiled, to be copied when a repeat asks for it again. */
struct block {
    const struct re_node *of;
    uint32_t inst, ninst, branch, nbranch;
    uint32_t start, next;
};

struct maker {
    struct re_prog *p;
    size_t max;
    bool bytes;
    bool full; /* too large; what is compiled does not matter any more */
    struct sw_arena arena;
    struct sw_map blocks; /* by the address of the node */
};

/* A character as ranges of bytes. */
struct seq {
    struct re_branch b[4];
    size_t n;
};

struct seqs {
    SW_VEC(struct seq) v;
};

static uint32_t emit(struct maker *m, struct re_inst i)
{
    if (m->p->inst.n + m->p->branch.n >= m->max) {
        m->full = true;
        return 0;
    }
    sw_vec_push(&m->p->inst, i);
    return (uint32_t)m->p->inst.n - 1;
}

static uint32_t emit_split(struct maker *m, bool lazy, uint32_t body, uint32_t skip)
{
    return emit(m, (struct re_inst){
                       .op = RE_I_SPLIT, .out = lazy ? skip : body, .alt = lazy ? body : skip});
}

static uint32_t emit_branches(struct maker *m, const struct re_branch *b, size_t n)
{
    uint32_t first = (uint32_t)m->p->branch.n;

    if (n == 1)
        return emit(
            m, (struct re_inst){
                   .op = RE_I_BYTE, .lo = (uint8_t)b->lo, .hi = (uint8_t)b->hi, .out = b->out});
    if (m->p->inst.n + m->p->branch.n + n >= m->max) {
        m->full = true;
        return 0;
    }
    for (size_t i = 0; i < n; i++)
        sw_vec_push(&m->p->branch, b[i]);
    return emit(m, (struct re_inst){.op = RE_I_RANGES, .out = first, .alt = (uint32_t)n});
}

/* ---- UTF-8 ---- */

static void put_seq(struct seqs *to, uint32_t lo, uint32_t hi)
{
    char a[4];
    char b[4];
    struct seq s = {.n = sw_utf8_put(a, lo)};

    (void)sw_utf8_put(b, hi);
    for (size_t i = 0; i < s.n; i++)
        s.b[i] = (struct re_branch){.lo = (uint8_t)a[i], .hi = (uint8_t)b[i]};
    sw_vec_push(&to->v, s);
}

/*
 * Splits lo..hi, of one length in bytes, where the bytes behind some place do not run over all of
 * their values. 'bits' are those of the bytes behind the first.
 */
static void split_range(struct seqs *to, uint32_t lo, uint32_t hi, unsigned bits)
{
    for (unsigned i = 6; i <= bits; i += 6) {
        uint32_t m = (UINT32_C(1) << i) - 1;

        if ((lo & ~m) == (hi & ~m))
            continue;
        if (lo & m) {
            split_range(to, lo, lo | m, bits);
            split_range(to, (lo | m) + 1, hi, bits);
            return;
        }
        if ((hi & m) != m) {
            split_range(to, lo, (hi & ~m) - 1, bits);
            split_range(to, hi & ~m, hi, bits);
            return;
        }
    }
    put_seq(to, lo, hi);
}

static void split_lengths(struct seqs *to, struct re_range r)
{
    static const struct {
        uint32_t last;
        unsigned bits;
    } lengths[] = {{0x7f, 0}, {0x7ff, 6}, {0xffff, 12}, {RE_RUNE_MAX, 18}};
    uint32_t lo = r.lo;

    for (size_t i = 0; i < SW_ARRAY_LEN(lengths) && lo <= r.hi; i++) {
        if (lo > lengths[i].last)
            continue;
        split_range(to, lo, (uint32_t)sw_min(r.hi, lengths[i].last), lengths[i].bits);
        lo = lengths[i].last + 1;
    }
}

struct level {
    struct maker *m;
    struct sw_arena *a;
    struct sw_map seen; /* numbers of instructions by their branches */
    uint32_t next;
};

static bool same_branch(const struct re_branch *a, const struct re_branch *b)
{
    return a->lo == b->lo && a->hi == b->hi;
}

/* Joins neighbours that lead to the same place. */
static void add_branch(struct re_branch *to, size_t *n, struct re_branch b)
{
    if (*n && to[*n - 1].out == b.out && to[*n - 1].hi + 1 == b.lo)
        to[*n - 1].hi = b.hi;
    else
        to[(*n)++] = b;
}

/* The instruction for byte 'at' of these sequences, which are sorted and agree before it. */
static uint32_t compile_level(struct level *l, const struct seq *s, size_t n, size_t at)
{
    struct re_branch *b = sw_arena_array(l->a, n, sizeof(*b));
    struct sw_slice key;
    uint32_t *have;
    size_t k = 0;

    for (size_t i = 0; i < n && !l->m->full;) {
        size_t end = i + 1;
        struct re_branch x = s[i].b[at];

        while (end < n && at + 1 < s[i].n && same_branch(&s[end].b[at], &x))
            end++;
        x.out = at + 1 < s[i].n ? compile_level(l, s + i, end - i, at + 1) : l->next;
        add_branch(b, &k, x);
        i = end;
    }
    key = sw_slice((const char *)b, k * sizeof(*b));
    have = sw_map_get(&l->seen, key);
    if (!have) {
        have = SW_ARENA_NEW(l->a, uint32_t);
        *have = emit_branches(l->m, b, k);
        (void)sw_map_put(&l->seen, key, have);
    }
    return *have;
}

/* Where a copy of a block leads: inside of it, or to what follows. */
static uint32_t moved(const struct block *b, uint32_t to, uint32_t by, uint32_t next)
{
    if (to == b->next)
        return next;
    return to >= b->inst && to < b->inst + b->ninst ? to + by : to;
}

static uint32_t copy_block(struct maker *m, const struct block *b, uint32_t next)
{
    uint32_t by = (uint32_t)m->p->inst.n - b->inst;
    uint32_t by_branch = (uint32_t)m->p->branch.n - b->branch;

    if (m->p->inst.n + m->p->branch.n + b->ninst + b->nbranch >= m->max) {
        m->full = true;
        return 0;
    }
    for (uint32_t i = 0; i < b->ninst; i++) {
        struct re_inst x = m->p->inst.p[b->inst + i];

        x.out = x.op == RE_I_RANGES ? x.out + by_branch : moved(b, x.out, by, next);
        sw_vec_push(&m->p->inst, x);
    }
    for (uint32_t i = 0; i < b->nbranch; i++) {
        struct re_branch x = m->p->branch.p[b->branch + i];

        x.out = moved(b, x.out, by, next);
        sw_vec_push(&m->p->branch, x);
    }
    return b->start + by;
}

static uint32_t new_class(struct maker *m, const struct re_node *n, uint32_t next)
{
    SW_ARENA_AUTO a = {0};
    struct level l = {.m = m, .a = &a, .next = next};
    struct seqs s = {0};
    uint32_t id = 0;

    for (uint32_t i = 0; i < n->nranges; i++) {
        struct re_range r = n->ranges[i];

        if (m->bytes)
            sw_vec_push(&s.v,
                        ((struct seq){.b[0] = {.lo = (uint8_t)r.lo, .hi = (uint8_t)r.hi}, .n = 1}));
        else
            split_lengths(&s, r);
    }
    if (s.v.n)
        id = compile_level(&l, s.v.p, s.v.n, 0);
    sw_map_done(&l.seen);
    sw_vec_done(&s.v);
    return id;
}

static uint32_t compile_class(struct maker *m, const struct re_node *n, uint32_t next)
{
    struct sw_slice key = sw_slice((const char *)&n, sizeof(n));
    struct block *b = sw_map_get(&m->blocks, key);

    if (n->nranges == 0)
        return 0;
    if (b)
        return copy_block(m, b, next);
    b = SW_ARENA_NEW(&m->arena, struct block);
    *b = (struct block){
        .of = n, .inst = (uint32_t)m->p->inst.n, .branch = (uint32_t)m->p->branch.n, .next = next};
    b->start = new_class(m, n, next);
    b->ninst = (uint32_t)m->p->inst.n - b->inst;
    b->nbranch = (uint32_t)m->p->branch.n - b->branch;
    (void)sw_map_put(&m->blocks, sw_slice((const char *)&b->of, sizeof(b->of)), b);
    return b->start;
}

static uint32_t compile_rune(struct maker *m, uint32_t c, uint32_t next)
{
    char b[4] = {(char)c};
    size_t n = m->bytes ? 1 : sw_utf8_put(b, c);

    for (; n > 0; n--)
        next = emit(
            m, (struct re_inst){
                   .op = RE_I_BYTE, .lo = (uint8_t)b[n - 1], .hi = (uint8_t)b[n - 1], .out = next});
    return next;
}

/* ---- the tree ---- */

static uint32_t compile_node(struct maker *m, const struct re_node *n, uint32_t next);

/* One time or more. */
static uint32_t compile_loop(struct maker *m, const struct re_node *n, uint32_t next)
{
    uint32_t loop = emit_split(m, n->lazy, 0, next);
    uint32_t body = compile_node(m, n->sub, loop);

    if (!m->full)
        *(n->lazy ? &m->p->inst.p[loop].alt : &m->p->inst.p[loop].out) = body;
    return body;
}

static uint32_t compile_repeat(struct maker *m, const struct re_node *n, uint32_t next)
{
    uint32_t at = next;
    uint32_t copies = n->min;

    if (n->max == RE_INF && n->min == 0) {
        uint32_t loop;

        /* A body that may be empty: (x+)?, so that the way out is tried in the right order. */
        if (n->sub->nullable)
            return emit_split(m, n->lazy, compile_loop(m, n, next), next);
        loop = emit_split(m, n->lazy, 0, next);
        at = compile_node(m, n->sub, loop);
        if (!m->full)
            *(n->lazy ? &m->p->inst.p[loop].alt : &m->p->inst.p[loop].out) = at;
        return loop;
    }
    if (n->max == RE_INF) {
        at = compile_loop(m, n, next);
        copies--;
    } else {
        for (uint32_t i = n->min; i < n->max && !m->full; i++)
            at = emit_split(m, n->lazy, compile_node(m, n->sub, at), next);
    }
    for (; copies > 0 && !m->full; copies--)
        at = compile_node(m, n->sub, at);
    return at;
}

static const struct re_node **children(struct sw_arena *a, const struct re_node *n, size_t *ret_n)
{
    const struct re_node **list;
    size_t k = 0;

    for (const struct re_node *i = n->sub; i; i = i->next)
        k++;
    list = sw_arena_array(a, k, sizeof(*list));
    *ret_n = k;
    k = 0;
    for (const struct re_node *i = n->sub; i; i = i->next)
        list[k++] = i;
    return list;
}

static uint32_t compile_list(struct maker *m, const struct re_node *n, uint32_t next)
{
    SW_ARENA_AUTO a = {0};
    size_t k;
    const struct re_node **list = children(&a, n, &k);
    uint32_t at = n->op == RE_CONCAT ? next : compile_node(m, list[--k], next);

    while (k > 0 && !m->full) {
        k--;
        at = n->op == RE_CONCAT ? compile_node(m, list[k], at)
                                : emit_split(m, false, compile_node(m, list[k], next), at);
    }
    return at;
}

static uint32_t compile_node(struct maker *m, const struct re_node *n, uint32_t next)
{
    uint32_t at;

    if (m->full)
        return 0;
    switch (n->op) {
    case RE_EMPTY:
        return next;
    case RE_LIT:
        return compile_rune(m, n->rune, next);
    case RE_CLASS:
        return compile_class(m, n, next);
    case RE_ASSERT:
        m->p->asserts |= n->rune;
        return emit(m, (struct re_inst){.op = RE_I_ASSERT, .out = next, .alt = n->rune});
    case RE_CAP:
        at = emit(m, (struct re_inst){.op = RE_I_SAVE, .out = next, .alt = 2 * n->rune + 1});
        at = compile_node(m, n->sub, at);
        return emit(m, (struct re_inst){.op = RE_I_SAVE, .out = at, .alt = 2 * n->rune});
    case RE_REPEAT:
        return compile_repeat(m, n, next);
    case RE_CONCAT:
    case RE_ALT:
        return compile_list(m, n, next);
    }
    return 0;
}

/* ---- what is known before a match ---- */

static const struct re_node *leftmost(const struct re_node *n)
{
    while (n->op == RE_CONCAT || n->op == RE_CAP)
        n = n->sub;
    return n;
}

static bool asserts_begin(const struct re_node *n)
{
    return n->op == RE_ASSERT && n->rune == RE_BEGIN_TEXT;
}

/* True when every match begins at the start of the text; false when that is not seen easily. */
static bool is_anchored(const struct re_node *n)
{
    n = leftmost(n);
    if (n->op != RE_ALT)
        return asserts_begin(n);
    for (const struct re_node *i = n->sub; i; i = i->next) {
        if (!asserts_begin(leftmost(i)))
            return false;
    }
    return true;
}

static bool is_word(unsigned c)
{
    return c < 0x80 &&
           (c == '_' || (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z'));
}

static void mark(bool *edge, unsigned lo, unsigned hi)
{
    edge[lo] = true;
    edge[hi + 1] = true;
}

static void find_classes(struct re_prog *p)
{
    bool edge[257] = {true};
    unsigned n = 0;

    for (size_t i = 0; i < p->inst.n; i++) {
        if (p->inst.p[i].op == RE_I_BYTE)
            mark(edge, p->inst.p[i].lo, p->inst.p[i].hi);
    }
    for (size_t i = 0; i < p->branch.n; i++)
        mark(edge, p->branch.p[i].lo, p->branch.p[i].hi);
    if (p->asserts & (RE_BEGIN_LINE | RE_END_LINE))
        mark(edge, '\n', '\n');
    for (unsigned c = 1; c < 256 && p->asserts & RE_WORDS; c++)
        edge[c] = edge[c] || is_word(c) != is_word(c - 1);
    if (p->asserts & RE_NOT_WORD_UTF8)
        mark(edge, 0x80, 0xbf);
    for (unsigned c = 0; c < 256; c++) {
        if (edge[c])
            p->rep[n++] = (uint8_t)c;
        p->cls[c] = (uint8_t)(n - 1);
    }
    p->ncls = (uint16_t)n;
}

int re_compile(const struct re_tree *t, bool bytes, size_t max, struct re_prog *ret)
{
    struct maker m = {.p = ret, .max = max, .bytes = bytes};
    uint32_t loop;
    uint32_t any;

    *ret = (struct re_prog){.groups = t->groups};
    (void)emit(&m, (struct re_inst){.op = RE_I_FAIL});
    ret->start = compile_node(&m, t->root, emit(&m, (struct re_inst){.op = RE_I_MATCH}));
    ret->anchored = is_anchored(t->root);
    sw_map_done(&m.blocks);
    sw_arena_clear(&m.arena);
    loop = emit_split(&m, false, ret->start, 0);
    any = emit(&m, (struct re_inst){.op = RE_I_BYTE, .lo = 0, .hi = 0xff, .out = loop});
    if (m.full)
        return SW_ELIMIT;
    ret->inst.p[loop].alt = any;
    ret->search = ret->anchored ? ret->start : loop;
    find_classes(ret);
    return SW_OK;
}

void re_prog_done(struct re_prog *p)
{
    sw_vec_done(&p->inst);
    sw_vec_done(&p->branch);
}

unsigned re_context(struct sw_slice text, size_t at)
{
    if (at == 0)
        return RE_CTX_BEGIN;
    return (text.p[at - 1] == '\n' ? RE_CTX_NEWLINE : 0u) |
           (is_word((unsigned char)text.p[at - 1]) ? RE_CTX_WORD : 0u);
}

uint32_t re_holds(unsigned ctx, unsigned next)
{
    bool word = next != RE_EOF && is_word(next);
    uint32_t inside = next >= 0x80 && next <= 0xbf ? 0 : RE_NOT_WORD_UTF8;

    return (ctx & RE_CTX_BEGIN ? RE_BEGIN_TEXT | RE_BEGIN_LINE : 0u) |
           (ctx & RE_CTX_NEWLINE ? RE_BEGIN_LINE : 0u) |
           (next == RE_EOF ? RE_END_TEXT | RE_END_LINE : 0u) | (next == '\n' ? RE_END_LINE : 0u) |
           (word != ((ctx & RE_CTX_WORD) != 0) ? RE_WORD : RE_NOT_WORD | inside);
}
