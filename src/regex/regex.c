/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Expressions and who runs them. The automaton of an expression changes while it runs, so a thread
 * takes one out of the expression's slots, or makes one, and puts it back; slots are chosen by
 * thread, and what all slots keep in the process is bounded.
 */
#include "regex/regex.h"

#include "regex/regex_int.h"

enum {
    SLOTS = 8,
    KEPT_MAX = 64 << 20, /* bytes in all slots of all expressions */
    SIZE_MAX_UTF8 = 500000,
    SIZE_MAX_BYTES = 200000,
};

struct sw_regex {
    struct re_prog prog;
    size_t cost;
    size_t work;
    _Atomic(struct re_dfa *) *slots; /* owned; what they hold is no part of the meaning */
};

static atomic_size_t kept;

/* The threads share the slots evenly. */
static unsigned slot_of_thread(void)
{
    static atomic_uint threads;
    static _Thread_local unsigned mine;

    if (!mine)
        mine = 1 + atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) % SLOTS;
    return mine - 1;
}

static struct re_dfa *take(const struct sw_regex *re, _Atomic(struct re_dfa *) *slot)
{
    struct re_dfa *d = atomic_exchange_explicit(slot, NULL, memory_order_acquire);

    if (!d)
        return re_dfa_new(&re->prog);
    atomic_fetch_sub_explicit(&kept, re_dfa_bytes(d), memory_order_relaxed);
    return d;
}

static void put_back(_Atomic(struct re_dfa *) *slot, struct re_dfa *d)
{
    struct re_dfa *none = NULL;
    size_t bytes = re_dfa_bytes(d);

    if (atomic_fetch_add_explicit(&kept, bytes, memory_order_relaxed) + bytes <= KEPT_MAX &&
        atomic_compare_exchange_strong_explicit(slot, &none, d, memory_order_release,
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
    for (size_t i = 0; i < SLOTS; i++) {
        struct re_dfa *d = atomic_load(&re->slots[i]);

        if (d)
            atomic_fetch_sub_explicit(&kept, re_dfa_bytes(d), memory_order_relaxed);
        re_dfa_free(d);
    }
    sw_free(re->slots);
    re_prog_done(&re->prog);
    sw_free(re);
}

static int find_end(const struct sw_regex *re, struct sw_slice text, size_t from, bool any,
                    struct sw_budget *b)
{
    _Atomic(struct re_dfa *) *slot = &re->slots[slot_of_thread()];
    struct re_dfa *d = take(re, slot);
    size_t end;
    int rc = re_dfa_run(d, text, from, any, &end, b);

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
