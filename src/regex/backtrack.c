/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One way after another, with a bit for every instruction at every place: a way that comes where
 * one has been ends there, so the work is bounded by the bits. For short texts, where it is several
 * times faster than all ways at once.
 */
#include <string.h>

#include "regex/regex_int.h"

enum { BITS_MAX = 32768 };

/* An instruction at a place; or a slot to set back, when what was tried with it has failed. */
struct job {
    uint32_t id;
    bool restore;
    size_t at; /* or the old value */
};

struct tries {
    const struct re_prog *p;
    struct sw_slice text;
    size_t from, width;
    size_t nslots;
    size_t *slots;
    uint64_t visited[BITS_MAX / 64];
    uint64_t steps;
    SW_VEC(struct job) jobs;
};

/* True at the first visit. */
static bool visit(struct tries *t, uint32_t id, size_t at)
{
    size_t bit = id * t->width + (at - t->from);
    uint64_t mask = UINT64_C(1) << (bit % 64);

    if (t->visited[bit / 64] & mask)
        return false;
    t->visited[bit / 64] |= mask;
    t->steps++;
    return true;
}

static bool holds(const struct tries *t, uint32_t what, size_t at)
{
    unsigned next = at < t->text.n ? (unsigned char)t->text.p[at] : (unsigned)RE_EOF;

    return (re_holds(re_context(t->text, at), next) & what) != 0;
}

/* The instruction that follows, and where; 0: this way ends. Alternatives go to the jobs. */
static uint32_t follow(struct tries *t, uint32_t id, size_t *at)
{
    const struct re_inst *i = &t->p->inst.p[id];

    switch (i->op) {
    case RE_I_BYTE:
    case RE_I_RANGES:
        if (*at == t->text.n)
            return 0;
        return re_follow(t->p, i, (uint8_t)t->text.p[(*at)++]);
    case RE_I_SPLIT:
        sw_vec_push(&t->jobs, ((struct job){.id = i->alt, .at = *at}));
        return i->out;
    case RE_I_SAVE:
        if (i->alt < t->nslots) {
            sw_vec_push(&t->jobs,
                        ((struct job){.id = i->alt, .restore = true, .at = t->slots[i->alt]}));
            t->slots[i->alt] = *at;
        }
        return i->out;
    case RE_I_ASSERT:
        return holds(t, i->alt, *at) ? i->out : 0;
    default:
        return 0;
    }
}

static bool try_at(struct tries *t, size_t start)
{
    t->jobs.n = 0;
    sw_vec_push(&t->jobs, ((struct job){.id = t->p->start, .at = start}));
    while (t->jobs.n > 0) {
        struct job j = t->jobs.p[--t->jobs.n];

        if (j.restore) {
            t->slots[j.id] = j.at;
            continue;
        }
        for (uint32_t id = j.id; id && visit(t, id, j.at); id = follow(t, id, &j.at)) {
            if (t->p->inst.p[id].op == RE_I_MATCH) {
                t->slots[1] = j.at;
                return true;
            }
        }
    }
    return false;
}

bool re_backtrack_fits(const struct re_prog *p, size_t text)
{
    return p->inst.n * (text + 1) <= BITS_MAX;
}

int re_backtrack_run(const struct re_prog *p, struct sw_slice text, size_t from, size_t nslots,
                     size_t *slots, struct sw_budget *b)
{
    /* Only the bits that are used are cleared, below. */
    struct tries t __attribute__((uninitialized));
    bool found = false;

    t.p = p;
    t.text = text;
    t.from = from;
    t.width = text.n - from + 1;
    t.nslots = nslots;
    t.slots = slots;
    t.steps = 0;
    t.jobs.p = NULL;
    t.jobs.n = t.jobs.cap = 0;
    memset(t.visited, 0, (p->inst.n * t.width + 63) / 64 * sizeof(uint64_t));
    for (size_t at = from; at <= text.n && !found && (!p->anchored || at == 0); at++) {
        for (size_t i = 0; i < nslots; i++)
            slots[i] = SIZE_MAX;
        slots[0] = at;
        found = try_at(&t, at);
    }
    sw_vec_done(&t.jobs);
    return sw_budget_step(b, 10 + 4 * t.steps) ? found : SW_ELIMIT;
}
