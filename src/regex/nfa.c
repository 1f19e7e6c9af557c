/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All ways through the program at once, in order of preference, each with the positions of its
 * groups (Pike's machine): for callers that need positions.
 */
#include <string.h>

#include "regex/regex_int.h"

enum { BYTES_MAX = 64 << 20 };

/* Something to follow, or a slot to set back once all that depends on it was followed. */
struct visit {
    uint32_t id;
    bool restore;
    size_t old;
};

struct nfa {
    const struct re_prog *p;
    struct sw_slice text;
    size_t nslots;
    struct re_list now, then;
    size_t *now_slots, *then_slots; /* nslots for each instruction in the list */
    struct visit *stack;
    size_t *slots; /* of the way being followed */
};

static uint32_t holds_at(const struct nfa *m, size_t at)
{
    unsigned next = at < m->text.n ? (unsigned char)m->text.p[at] : (unsigned)RE_EOF;

    return re_holds(re_context(m->text, at), next);
}

/* Adds a way to a list, with m->slots as they are. */
static void follow(struct nfa *m, struct re_list *l, size_t *slots, uint32_t id, size_t at)
{
    uint32_t holds = m->p->asserts ? holds_at(m, at) : 0;
    size_t n = 0;

    m->stack[n++] = (struct visit){.id = id};
    while (n > 0) {
        struct visit t = m->stack[--n];
        const struct re_inst *i = &m->p->inst.p[t.id];

        if (t.restore) {
            m->slots[i->alt] = t.old;
            continue;
        }
        if (t.id == 0 || re_list_has(l, t.id))
            continue;
        re_list_add(l, t.id);
        if (i->op == RE_I_SPLIT) {
            m->stack[n++] = (struct visit){.id = i->alt};
            m->stack[n++] = (struct visit){.id = i->out};
        } else if (i->op == RE_I_SAVE) {
            if (i->alt < m->nslots) {
                m->stack[n++] =
                    (struct visit){.id = t.id, .restore = true, .old = m->slots[i->alt]};
                m->slots[i->alt] = at;
            }
            m->stack[n++] = (struct visit){.id = i->out};
        } else if (i->op == RE_I_ASSERT) {
            if (holds & i->alt)
                m->stack[n++] = (struct visit){.id = i->out};
        } else {
            memcpy(slots + (l->n - 1) * m->nslots, m->slots, m->nslots * sizeof(size_t));
        }
    }
}

/* Takes all ways over the byte at 'at'; true when one ended before it, and is the best. */
static bool advance(struct nfa *m, size_t at, size_t *ret)
{
    m->then.n = 0;
    for (uint32_t i = 0; i < m->now.n; i++) {
        const struct re_inst *in = &m->p->inst.p[m->now.dense[i]];
        const size_t *slots = m->now_slots + i * m->nslots;
        uint32_t out = 0;

        if (in->op == RE_I_MATCH) {
            memcpy(ret, slots, m->nslots * sizeof(size_t));
            ret[1] = at;
            return true;
        }
        if (at < m->text.n && (in->op == RE_I_BYTE || in->op == RE_I_RANGES))
            out = re_follow(m->p, in, (uint8_t)m->text.p[at]);
        if (out) {
            memcpy(m->slots, slots, m->nslots * sizeof(size_t));
            follow(m, &m->then, m->then_slots, out, at + 1);
        }
    }
    return false;
}

static void swap(struct nfa *m)
{
    struct re_list l = m->now;
    size_t *slots = m->now_slots;

    m->now = m->then;
    m->then = l;
    m->now_slots = m->then_slots;
    m->then_slots = slots;
}

static int run(struct nfa *m, size_t from, size_t *ret, struct sw_budget *b)
{
    int found = 0;

    for (size_t at = from; at <= m->text.n; at++) {
        if (!found && (!m->p->anchored || at == 0)) {
            for (size_t i = 0; i < m->nslots; i++)
                m->slots[i] = SIZE_MAX;
            m->slots[0] = at;
            follow(m, &m->now, m->now_slots, m->p->start, at);
        }
        if (m->now.n == 0 && (found || m->p->anchored))
            break;
        if (!sw_budget_step(b, 10 + (uint64_t)m->now.n * (4 + m->nslots)))
            return SW_ELIMIT;
        if (advance(m, at, ret))
            found = 1;
        swap(m);
    }
    return found;
}

int re_nfa_run(const struct re_prog *p, struct sw_slice text, size_t from, size_t nslots,
               size_t *slots, struct sw_budget *b)
{
    size_t n = p->inst.n;
    struct nfa m = {.p = p, .text = text, .nslots = nslots};
    int rc;

    if (n * nslots * sizeof(size_t) > BYTES_MAX || (p->anchored && from > 0))
        return n * nslots * sizeof(size_t) > BYTES_MAX ? SW_ELIMIT : 0;
    re_list_init(&m.now, n);
    re_list_init(&m.then, n);
    m.now_slots = SW_NEW_ARRAY(size_t, n * nslots);
    m.then_slots = SW_NEW_ARRAY(size_t, n * nslots);
    m.slots = SW_NEW_ARRAY(size_t, nslots);
    m.stack = SW_NEW_ARRAY(struct visit, 2 * n + 2);
    rc = run(&m, from, slots, b);
    re_list_done(&m.now);
    re_list_done(&m.then);
    sw_free(m.now_slots);
    sw_free(m.then_slots);
    sw_free(m.slots);
    sw_free(m.stack);
    return rc;
}
