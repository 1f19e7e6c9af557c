/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Expressions and their automata. The automaton of an expression changes while it runs, so a thread
 * takes one out of the expression's slots, or makes one and pays for it, and puts it back; slots
 * are chosen by thread. What all slots keep in the process is bounded: one more pushes out others,
 * in turn, so no expression keeps the room for good.
 */
#include "regex/regex.h"

#include <pthread.h>

#include "base/list.h"
#include "regex/regex_int.h"

enum {
    SLOTS = 8,
    KEPT_MAX = 64 << 20,    /* bytes in all slots of all expressions */
    KEPT_ONE_MAX = 4 << 20, /* in one slot */
    SIZE_MAX_UTF8 = 500000,
    SIZE_MAX_BYTES = 200000,
};

struct sw_regex {
    struct re_prog prog;
    size_t cost;
    size_t work;
    _Atomic(struct re_dfa *) *slots; /* owned; what they hold is no part of the meaning */
    struct sw_list link;             /* in 'all', under its lock */
};

static atomic_size_t kept;
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sw_list all = {&all, &all}; /* expressions; whose turn it is to make room first */

/* The threads share the slots evenly. */
static unsigned slot_of_thread(void)
{
    static atomic_uint threads;
    static _Thread_local unsigned mine;

    if (!mine)
        mine = 1 + atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) % SLOTS;
    return mine - 1;
}

/* What a slot kept; NULL: nothing. */
static struct re_dfa *empty(_Atomic(struct re_dfa *) *slot)
{
    struct re_dfa *d = atomic_exchange_explicit(slot, NULL, memory_order_acquire);

    if (d)
        atomic_fetch_sub_explicit(&kept, re_dfa_bytes(d), memory_order_relaxed);
    return d;
}

/* NULL: the budget could not pay for a new one. */
static struct re_dfa *take(const struct sw_regex *re, _Atomic(struct re_dfa *) *slot,
                           struct sw_budget *b)
{
    struct re_dfa *d = empty(slot);

    if (d)
        return d;
    return sw_budget_step(b, re->prog.inst.n / 4) ? re_dfa_new(&re->prog) : NULL;
}

/* Expressions lose what they keep, one after another, until there is room again. */
static void make_room(void)
{
    struct sw_list *last;

    (void)pthread_mutex_lock(&all_lock);
    last = all.prev;
    while (atomic_load_explicit(&kept, memory_order_relaxed) > KEPT_MAX) {
        struct sw_list *it = sw_list_pop_front(&all);
        struct sw_regex *re = SW_CONTAINER_OF(it, struct sw_regex, link);

        for (size_t i = 0; i < SLOTS; i++)
            re_dfa_free(empty(&re->slots[i]));
        sw_list_push_back(&all, it);
        if (it == last)
            break;
    }
    (void)pthread_mutex_unlock(&all_lock);
}

static void put_back(_Atomic(struct re_dfa *) *slot, struct re_dfa *d)
{
    struct re_dfa *none = NULL;
    size_t bytes = re_dfa_bytes(d);

    if (bytes > KEPT_ONE_MAX) {
        re_dfa_free(d);
        return;
    }
    if (atomic_fetch_add_explicit(&kept, bytes, memory_order_relaxed) + bytes > KEPT_MAX)
        make_room();
    if (atomic_compare_exchange_strong_explicit(slot, &none, d, memory_order_release,
                                                memory_order_relaxed))
        return;
    atomic_fetch_sub_explicit(&kept, bytes, memory_order_relaxed);
    re_dfa_free(d);
}

static int compile(struct sw_slice pattern, bool bytes, struct sw_regex **ret, struct sw_err *err)
{
    SW_ARENA_AUTO a = {0};
    struct re_tree tree = {0};
    struct sw_regex *re;
    int rc;

    if (pattern.n > SW_REGEX_PATTERN_MAX)
        return sw_err_set(err, SW_ELIMIT, "expression longer than %d bytes", SW_REGEX_PATTERN_MAX);
    rc = re_parse(&a, pattern, bytes, &tree, err);
    if (rc < 0)
        return rc;
    re = SW_NEW(struct sw_regex);
    re->slots = SW_NEW_ARRAY(_Atomic(struct re_dfa *), SLOTS);
    re->cost = pattern.n;
    re->work = tree.work;
    (void)pthread_mutex_lock(&all_lock);
    sw_list_push_back(&all, &re->link);
    (void)pthread_mutex_unlock(&all_lock);
    rc = re_compile(&tree, bytes, bytes ? SIZE_MAX_BYTES : SIZE_MAX_UTF8, &re->prog);
    if (rc < 0) {
        sw_regex_free(re);
        return sw_err_set(err, SW_EINVAL, "error parsing regexp: expression too large");
    }
    *ret = re;
    return SW_OK;
}

int sw_regex_new(struct sw_slice pattern, struct sw_regex **ret, struct sw_err *err)
{
    return compile(pattern, false, ret, err);
}

int sw_regex_new_bytes(struct sw_slice pattern, struct sw_regex **ret, struct sw_err *err)
{
    return compile(pattern, true, ret, err);
}

void sw_regex_free(struct sw_regex *re)
{
    if (!re)
        return;
    (void)pthread_mutex_lock(&all_lock);
    sw_list_unlink(&re->link);
    (void)pthread_mutex_unlock(&all_lock);
    for (size_t i = 0; i < SLOTS; i++)
        re_dfa_free(empty(&re->slots[i]));
    sw_free(re->slots);
    re_prog_done(&re->prog);
    sw_free(re);
}

static int find_end(const struct sw_regex *re, struct sw_slice text, size_t from, bool any,
                    struct sw_budget *b)
{
    _Atomic(struct re_dfa *) *slot = &re->slots[slot_of_thread()];
    struct re_dfa *d = take(re, slot, b);
    size_t end;
    int rc;

    if (!d)
        return SW_ELIMIT;
    rc = re_dfa_run(d, text, from, any, &end, b);
    put_back(slot, d);
    return rc;
}

int sw_regex_match(const struct sw_regex *re, struct sw_slice text, struct sw_budget *b)
{
    struct sw_budget own = {.steps = SW_REGEX_STEPS};

    return find_end(re, text, 0, true, b ? b : &own);
}

int sw_regex_groups(const struct sw_regex *re, struct sw_slice text, size_t from, size_t max,
                    struct sw_slice *ret, struct sw_budget *b)
{
    struct sw_budget own = {.steps = SW_REGEX_STEPS};
    size_t n = sw_min(max, re->prog.groups);
    size_t *at;
    int rc;

    b = b ? b : &own;
    rc = from > text.n ? 0 : find_end(re, text, from, true, b);
    if (rc != 1 || n == 0)
        return rc;
    at = SW_NEW_ARRAY(size_t, 2 * n);
    rc = re_backtrack_fits(&re->prog, text.n - from)
             ? re_backtrack_run(&re->prog, text, from, 2 * n, at, b)
             : re_nfa_run(&re->prog, text, from, 2 * n, at, b);
    for (size_t i = 0; i < n && rc == 1; i++) {
        ret[i] = sw_slice(NULL, 0);
        if (at[2 * i] != SIZE_MAX && at[2 * i + 1] != SIZE_MAX)
            ret[i] = sw_slice((text.p ? text.p : "") + at[2 * i], at[2 * i + 1] - at[2 * i]);
    }
    sw_free(at);
    return rc == 1 ? (int)n : rc;
}

int sw_regex_search(const struct sw_regex *re, struct sw_slice text, size_t from, size_t *ret_at,
                    size_t *ret_len, struct sw_budget *b)
{
    struct sw_slice whole;
    struct sw_slice t = text.p ? text : sw_slice("", 0);
    int rc = sw_regex_groups(re, t, from, 1, &whole, b);

    if (rc != 1)
        return rc;
    *ret_at = (size_t)(whole.p - t.p);
    *ret_len = whole.n;
    return 1;
}

size_t sw_regex_cost(const struct sw_regex *re)
{
    return re->cost;
}

size_t sw_regex_size(const struct sw_regex *re)
{
    return re->prog.inst.n + re->prog.branch.n + re->work;
}
