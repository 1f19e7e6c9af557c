/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A deterministic automaton, made while it runs: a state is the ordered list of instructions that
 * wait for a byte. A step that is not known yet costs one walk over that list, later ones a lookup.
 * The memory is bounded: when it is full, all states are forgotten.
 *
 * Assertions look at the byte behind, so they wait in the list until it is known; for the same
 * reason a match is noticed one byte late.
 */
#include <string.h>

#include "regex/regex_int.h"

enum {
    BYTES_MAX = 256 << 10, /* of states and their steps */
    BUCKETS = 512,
    UNKNOWN = 0, /* a step not taken before */
    DEAD = 1,    /* the state that nothing leads out of */
    CONTEXTS = 8,
};
#define MATCHED UINT32_C(0x80000000) /* on a step: there was a match before its byte */

struct state {
    uint32_t first, n; /* instructions, in the pool */
    uint32_t chain;    /* next of its bucket */
    uint8_t ctx;
    bool asserts; /* some wait */
};

struct re_dfa {
    const struct re_prog *prog;
    uint32_t stride; /* steps of a state: one for each class of bytes, and the end */
    SW_VEC(uint32_t) next;
    SW_VEC(struct state) states;
    SW_VEC(uint32_t) pool;
    uint32_t buckets[BUCKETS];
    uint32_t start[CONTEXTS];
    unsigned epoch; /* how often the states were forgotten */
    unsigned ctx_used;
    struct re_list now, then;
    uint32_t *stack;
    size_t fixed; /* bytes that do not depend on the states */
};

void re_list_init(struct re_list *l, size_t n)
{
    l->dense = SW_NEW_ARRAY(uint32_t, n);
    l->sparse = SW_NEW_ARRAY(uint32_t, n);
    l->n = 0;
}

void re_list_done(struct re_list *l)
{
    sw_free(l->dense);
    sw_free(l->sparse);
}

static void forget(struct re_dfa *d)
{
    d->next.n = 0;
    d->states.n = 0;
    d->pool.n = 0;
    memset(d->buckets, 0, sizeof(d->buckets));
    memset(d->start, 0, sizeof(d->start));
    d->epoch++;
    /* Numbers 0 and 1 are no states that run. */
    for (int i = 0; i < 2; i++) {
        sw_vec_push(&d->states, (struct state){0});
        for (uint32_t k = 0; k < d->stride; k++)
            sw_vec_push(&d->next, (uint32_t)DEAD);
    }
}

struct re_dfa *re_dfa_new(const struct re_prog *p)
{
    struct re_dfa *d = SW_NEW(struct re_dfa);
    size_t n = p->inst.n;

    d->prog = p;
    d->stride = p->ncls + 1u;
    re_list_init(&d->now, n);
    re_list_init(&d->then, n);
    d->stack = SW_NEW_ARRAY(uint32_t, 2 * n + 2);
    d->fixed = sizeof(*d) + (6 * n + 2) * sizeof(uint32_t);
    if (p->asserts & (RE_BEGIN_TEXT | RE_BEGIN_LINE))
        d->ctx_used |= RE_CTX_BEGIN;
    if (p->asserts & RE_BEGIN_LINE)
        d->ctx_used |= RE_CTX_NEWLINE;
    if (p->asserts & RE_WORDS)
        d->ctx_used |= RE_CTX_WORD;
    forget(d);
    return d;
}

void re_dfa_free(struct re_dfa *d)
{
    if (!d)
        return;
    sw_vec_done(&d->next);
    sw_vec_done(&d->states);
    sw_vec_done(&d->pool);
    re_list_done(&d->now);
    re_list_done(&d->then);
    sw_free(d->stack);
    sw_free(d);
}

static size_t used(const struct re_dfa *d)
{
    return d->next.n * sizeof(uint32_t) + d->pool.n * sizeof(uint32_t) +
           d->states.n * sizeof(struct state);
}

size_t re_dfa_bytes(const struct re_dfa *d)
{
    return d->fixed + 2 * used(d); /* arrays grow by doubling */
}

/* Follows what needs no byte, in order of preference. */
static void close_over(struct re_dfa *d, struct re_list *l, uint32_t id, uint32_t holds)
{
    const struct re_inst *inst = d->prog->inst.p;
    size_t n = 0;

    d->stack[n++] = id;
    while (n > 0) {
        const struct re_inst *i;

        id = d->stack[--n];
        if (re_list_has(l, id))
            continue;
        re_list_add(l, id);
        i = &inst[id];
        if (i->op == RE_I_SPLIT) {
            d->stack[n++] = i->alt;
            d->stack[n++] = i->out;
        } else if (i->op == RE_I_SAVE || (i->op == RE_I_ASSERT && (holds & i->alt))) {
            d->stack[n++] = i->out;
        }
    }
}

static uint32_t hash_ids(const uint32_t *p, size_t n, unsigned ctx)
{
    uint64_t h = 0x9e3779b97f4a7c15u + ctx;

    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x9fb21c651e98df25u;
    return (uint32_t)((h ^ h >> 29) % BUCKETS);
}

/* Keeps of a list what waits for a byte, an assertion or the match; what is behind that is idle. */
static size_t keep_waiting(const struct re_prog *p, struct re_list *l)
{
    size_t n = 0;

    for (uint32_t i = 0; i < l->n; i++) {
        uint32_t id = l->dense[i];
        uint8_t op = p->inst.p[id].op;

        if (op == RE_I_BYTE || op == RE_I_RANGES || op == RE_I_ASSERT || op == RE_I_MATCH)
            l->dense[n++] = id;
        if (op == RE_I_MATCH)
            break;
    }
    return n;
}

/* The state of a list (which is used up), made if there is none. */
static uint32_t intern(struct re_dfa *d, struct re_list *l, unsigned ctx)
{
    size_t n = keep_waiting(d->prog, l);
    uint32_t bucket;
    struct state s = {.n = (uint32_t)n, .ctx = (uint8_t)(ctx & d->ctx_used)};

    if (n == 0)
        return DEAD;
    for (size_t i = 0; i < n; i++)
        s.asserts = s.asserts || d->prog->inst.p[l->dense[i]].op == RE_I_ASSERT;
    if (!s.asserts)
        s.ctx = 0; /* not used any more */
    bucket = hash_ids(l->dense, n, s.ctx);
    for (uint32_t at = d->buckets[bucket]; at; at = d->states.p[at].chain) {
        const struct state *o = &d->states.p[at];

        if (o->n == n && o->ctx == s.ctx &&
            memcmp(d->pool.p + o->first, l->dense, n * sizeof(uint32_t)) == 0)
            return at;
    }
    if (used(d) > BYTES_MAX)
        forget(d);
    s.first = (uint32_t)d->pool.n;
    s.chain = d->buckets[bucket];
    d->buckets[bucket] = (uint32_t)d->states.n;
    for (size_t i = 0; i < n; i++)
        sw_vec_push(&d->pool, l->dense[i]);
    for (uint32_t k = 0; k < d->stride; k++)
        sw_vec_push(&d->next, (uint32_t)UNKNOWN);
    sw_vec_push(&d->states, s);
    return (uint32_t)d->states.n - 1;
}

/* Fills 'then' with what follows the instructions of 'now' on a byte; true when one is the match.
 */
static bool advance(struct re_dfa *d, unsigned byte)
{
    d->then.n = 0;
    for (uint32_t i = 0; i < d->now.n; i++) {
        const struct re_inst *in = &d->prog->inst.p[d->now.dense[i]];
        uint32_t out;

        if (in->op == RE_I_MATCH)
            return true;
        if (byte == RE_EOF || (in->op != RE_I_BYTE && in->op != RE_I_RANGES))
            continue;
        out = re_follow(d->prog, in, (uint8_t)byte);
        if (out)
            close_over(d, &d->then, out, 0);
    }
    return false;
}

/* The step of a state on a class that has none yet; *b pays for it. 0: it could not. */
static uint32_t step(struct re_dfa *d, uint32_t from, uint32_t cls, struct sw_budget *b)
{
    struct state s = d->states.p[from];
    unsigned byte = cls == d->prog->ncls ? RE_EOF : d->prog->rep[cls];
    char c = (char)byte;
    unsigned epoch = d->epoch;
    uint32_t to;
    bool matched;

    d->now.n = 0;
    for (uint32_t i = 0; i < s.n; i++) {
        uint32_t id = d->pool.p[s.first + i];

        if (s.asserts)
            close_over(d, &d->now, id, re_holds(s.ctx, byte));
        else
            re_list_add(&d->now, id);
    }
    matched = advance(d, byte);
    if (!sw_budget_step(b, 20 + (uint64_t)d->now.n * 2 + (uint64_t)d->then.n * 4))
        return 0;
    to = intern(d, &d->then, byte == RE_EOF ? 0 : re_context(sw_slice(&c, 1), 1));
    to |= matched ? MATCHED : 0;
    if (epoch == d->epoch)
        d->next.p[(size_t)from * d->stride + cls] = to;
    return to;
}

/* 0: *b could not pay for it. */
static uint32_t start_state(struct re_dfa *d, struct sw_slice text, size_t from,
                            struct sw_budget *b)
{
    unsigned ctx = re_context(text, from);
    uint32_t *s = &d->start[ctx & d->ctx_used];
    uint32_t to;

    if (!*s) {
        d->then.n = 0;
        close_over(d, &d->then, d->prog->search, 0);
        if (!sw_budget_step(b, (uint64_t)d->then.n * 4))
            return 0;
        to = intern(d, &d->then, ctx); /* may forget all states */
        *s = to;
    }
    return *s;
}

/* Passes over text while steps are known; the place of the first that is not, or is special. */
static size_t run_known(const struct re_dfa *d, struct sw_slice text, size_t i, uint32_t *s)
{
    const uint32_t *next = d->next.p;
    const uint8_t *cls = d->prog->cls;
    uint32_t stride = d->stride;
    uint32_t at = *s;

    for (; i < text.n; i++) {
        uint32_t e = next[(size_t)at * stride + cls[(unsigned char)text.p[i]]];

        if (e - 2 >= MATCHED - 2)
            break;
        at = e;
    }
    *s = at;
    return i;
}

int re_dfa_run(struct re_dfa *d, struct sw_slice text, size_t from, bool any, size_t *ret_end,
               struct sw_budget *b)
{
    uint32_t s;
    int found = 0;

    if (d->prog->anchored && from > 0)
        return 0;
    if (!sw_budget_step(b, text.n - from + 1))
        return SW_ELIMIT;
    s = start_state(d, text, from, b);
    if (!s)
        return SW_ELIMIT;
    for (size_t i = run_known(d, text, from, &s); i <= text.n; i = run_known(d, text, i + 1, &s)) {
        uint32_t cls = i < text.n ? d->prog->cls[(unsigned char)text.p[i]] : d->prog->ncls;
        uint32_t e = d->next.p[(size_t)s * d->stride + cls];

        if (e == UNKNOWN) {
            e = step(d, s, cls, b);
            if (e == UNKNOWN)
                return SW_ELIMIT;
        }
        if (e & MATCHED) {
            found = 1;
            *ret_end = i;
            if (any)
                break;
        }
        s = e & ~MATCHED;
        if (s == DEAD)
            break;
    }
    return found;
}
