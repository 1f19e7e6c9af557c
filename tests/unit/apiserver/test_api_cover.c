/* SPDX-License-Identifier: Apache-2.0 */
/* Rules that cover rules: cases of the reference, and random rules against single rights. */
#include "apiserver/auth/cover.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* Rules in JSON with single quotes. */
static struct api_rule *rules(struct sw_arena *a, const char *text, size_t *ret_n)
{
    char *json = sw_arena_dup(a, sw_slice_str(text));
    struct sw_json *v = NULL;
    struct api_rule *p;

    for (char *c = json; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    assert_int_equal(sw_json_parse(a, sw_slice_str(json), NULL, &v, NULL), SW_OK);
    api_rules_read(a, v, &p, ret_n);
    return p;
}

static int find(struct sw_arena *a, const char *held, const char *wanted, struct api_lacks *ret)
{
    struct sw_budget b = {.steps = 100000000};
    struct api_holder h;
    size_t n;
    const struct api_rule *w = rules(a, wanted, &n);
    int rc;

    h.rules = h.urls = rules(a, held, &h.nrules);
    h.nurls = h.nrules;
    *ret = (struct api_lacks){.arena = a};
    rc = api_lacks_find(ret, &h, w, n, &b);
    api_lacks_done(ret);
    return rc;
}

#define R(g, r, v) "{'apiGroups':[" g "],'resources':[" r "],'verbs':[" v "]}"
#define N(g, r, n, v)                                                                              \
    "{'apiGroups':[" g "],'resources':[" r "],'resourceNames':[" n "],'verbs':[" v "]}"
#define U(u, v) "{'nonResourceURLs':[" u "],'verbs':[" v "]}"

static void rights_are_covered_as_in_the_reference(void **state)
{
    static const struct {
        const char *held, *wanted;
        size_t lacks;
    } cases[] = {
        {"[" R("'v1'", "'pods'", "'get'") "]", "[" R("'v1'", "'pods'", "'get'") "]", 0},
        {"[" R("'v1'", "'pods'", "'get'") "]", "[" R("'v1'", "'pods'", "'get','list'") "]", 1},
        {"[" R("'*'", "'*'", "'*'") "]", "[" R("'a','b'", "'x','y/z'", "'get','*'") "]", 0},
        {"[" R("'a'", "'x'", "'get'") "]", "[" R("'*'", "'x'", "'get'") "]", 1},
        {"[" R("'a'", "'x'", "'get'") "]", "[" R("'a'", "'*'", "'get'") "]", 1},
        {"[" R("'a'", "'x'", "'get'") "]", "[" R("'a'", "'x'", "'*'") "]", 1},
        /* together, by single rights */
        {"[" R("'a'", "'x'", "'get'") "," R("'a'", "'y'", "'get'") "]",
         "[" R("'a'", "'x','y'", "'get'") "]", 0},
        {"[" R("'a'", "'x'", "'get'") "," R("'b'", "'x'", "'list'") "]",
         "[" R("'a','b'", "'x'", "'get','list'") "]", 2},
        /* subresources */
        {"[" R("'a'", "'*/scale'", "'get'") "]", "[" R("'a'", "'x/scale'", "'get'") "]", 0},
        {"[" R("'a'", "'*/scale'", "'get'") "]", "[" R("'a'", "'*/scale'", "'get'") "]", 0},
        {"[" R("'a'", "'*/scale'", "'get'") "]", "[" R("'a'", "'x'", "'get'") "]", 1},
        {"[" R("'a'", "'x'", "'get'") "]", "[" R("'a'", "'x/scale'", "'get'") "]", 1},
        {"[" R("'a'", "'x/*'", "'get'") "]", "[" R("'a'", "'x/scale'", "'get'") "]", 1},
        {"[" R("'a'", "'*'", "'get'") "]", "[" R("'a'", "'x/scale'", "'get'") "]", 0},
        /* names */
        {"[" R("'a'", "'x'", "'get'") "]", "[" N("'a'", "'x'", "'n'", "'get'") "]", 0},
        {"[" N("'a'", "'x'", "'n'", "'get'") "]", "[" R("'a'", "'x'", "'get'") "]", 1},
        {"[" N("'a'", "'x'", "'n'", "'get'") "]", "[" N("'a'", "'x'", "'n','m'", "'get'") "]", 1},
        {"[" N("'a'", "'x'", "'*'", "'get'") "]", "[" N("'a'", "'x'", "'n'", "'get'") "]", 1},
        {"[" N("'a'", "'x'", "''", "'get'") "]", "[" N("'a'", "'x'", "''", "'get'") "]", 1},
        /* URLs, a resource rule grants none */
        {"[" U("'/a/*'", "'get'") "]", "[" U("'/a/b','/a/*','/a/'", "'get'") "]", 0},
        {"[" U("'/a/*'", "'get'") "]", "[" U("'/a','/b'", "'get'") "]", 2},
        {"[" U("'*'", "'*'") "]", "[" U("'/a','*'", "'get','*'") "]", 0},
        {"[" R("'*'", "'*'", "'*'") "]", "[" U("'/a'", "'get'") "]", 1},
        {"[]", "[" R("'a'", "'x','x'", "'get','get'") "]", 1},
        {"[]", "[]", 0},
        {"[]", "[{}]", 0},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        struct api_lacks l;

        assert_int_equal(find(&a, cases[i].held, cases[i].wanted, &l), SW_OK);
        if (l.n != cases[i].lacks)
            print_message("%s < %s\n", cases[i].held, cases[i].wanted);
        assert_int_equal(l.n, cases[i].lacks);
        assert_false(l.cut);
    }
}

/* --- against single rights --------------------------------------------------------------- */

static bool listed(const struct sw_json *v, struct sw_slice x)
{
    for (size_t i = 0; i < sw_json_len(v); i++) {
        struct sw_slice s = sw_json_str(sw_json_at(v, i));

        if (sw_slice_eq_str(s, "*") || sw_slice_eq(s, x))
            return true;
    }
    return false;
}

static bool covers_resource(const struct sw_json *v, struct sw_slice x)
{
    SW_ARENA_AUTO a = {0};
    ptrdiff_t slash = sw_slice_find(x, '/');

    return listed(v, x) ||
           (slash >= 0 &&
            listed(v, sw_slice_str(sw_arena_printf(
                          &a, "*%.*s", SW_SLICE_ARG(sw_slice_from(x, (size_t)slash))))));
}

/* The reference's own rule for a right with one verb, group, resource and name (NULL: all). */
static bool right_held(const struct api_rule *p, size_t n, const struct sw_slice right[4])
{
    for (size_t i = 0; i < n; i++) {
        bool name = sw_json_len(p[i].names) == 0;

        for (size_t k = 0; k < sw_json_len(p[i].names) && right[3].p && right[3].n; k++)
            name = name || sw_slice_eq(sw_json_str(sw_json_at(p[i].names, k)), right[3]);
        if (name && listed(p[i].verbs, right[0]) && listed(p[i].groups, right[1]) &&
            covers_resource(p[i].resources, right[2]))
            return true;
    }
    return false;
}

/* Counts the rights of one rule that are not held. */
static size_t naive_lacks(const struct api_rule *held, size_t n, const struct api_rule *w)
{
    size_t names = sw_json_len(w->names);
    size_t lacks = 0;

    for (size_t v = 0; v < sw_json_len(w->verbs); v++) {
        for (size_t g = 0; g < sw_json_len(w->groups); g++) {
            for (size_t r = 0; r < sw_json_len(w->resources); r++) {
                for (size_t k = 0; k < sw_max(names, 1); k++) {
                    const struct sw_slice right[4] = {
                        sw_json_str(sw_json_at(w->verbs, v)), sw_json_str(sw_json_at(w->groups, g)),
                        sw_json_str(sw_json_at(w->resources, r)),
                        names ? sw_json_str(sw_json_at(w->names, k)) : sw_slice(NULL, 0)};

                    lacks += !right_held(held, n, right);
                }
            }
        }
    }
    return lacks;
}

static uint32_t rnd(uint64_t *seed, uint32_t below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % below;
}

/* Each word at most once, so that rights are not counted twice. */
static const char *random_list(struct sw_arena *a, uint64_t *seed, const char *const *words,
                               size_t n, bool empty)
{
    const char *text = "";

    for (size_t i = 0; i < n; i++) {
        if (rnd(seed, 3) == 0)
            text = sw_arena_printf(a, "%s%s'%s'", text, *text ? "," : "", words[i]);
    }
    return *text || empty ? text : sw_arena_printf(a, "'%s'", words[rnd(seed, (uint32_t)n)]);
}

static const char *random_rules(struct sw_arena *a, uint64_t *seed, size_t n)
{
    static const char *const verbs[] = {"get", "list", "watch", "*"};
    static const char *const groups[] = {"", "apps", "x.io", "*"};
    static const char *const res[] = {"pods", "pods/log", "jobs/log", "jobs", "*/log", "*"};
    static const char *const names[] = {"n1", "n2", "n3"};
    const char *text = "";

    for (size_t i = 0; i < n; i++)
        text = sw_arena_printf(
            a, "%s%s{'apiGroups':[%s],'resources':[%s],'verbs':[%s],'resourceNames':[%s]}", text,
            i ? "," : "", random_list(a, seed, groups, 4, false),
            random_list(a, seed, res, 6, false), random_list(a, seed, verbs, 4, false),
            rnd(seed, 2) ? random_list(a, seed, names, 3, true) : "");
    return sw_arena_printf(a, "[%s]", text);
}

static void random_rules_agree_with_single_rights(void **state)
{
    uint64_t seed = 7;

    (void)state;
    for (int round = 0; round < 4000; round++) {
        SW_ARENA_AUTO a = {0};
        const char *held = random_rules(&a, &seed, rnd(&seed, 6));
        const char *wanted = random_rules(&a, &seed, 1);
        size_t nh;
        size_t nw;
        const struct api_rule *h = rules(&a, held, &nh);
        const struct api_rule *w = rules(&a, wanted, &nw);
        struct api_lacks l;
        size_t lacks = 0;

        assert_int_equal(find(&a, held, wanted, &l), SW_OK);
        for (size_t i = 0; i < l.n; i++)
            lacks += l.p[i].nverbs;
        if (lacks != naive_lacks(h, nh, w))
            print_message("%s < %s\n", held, wanted);
        assert_int_equal(lacks, naive_lacks(h, nh, w));
    }
}

/* --- large ones -------------------------------------------------------------------------- */

static const char *many(struct sw_arena *a, char letter, size_t n)
{
    SW_BUF_AUTO b = {.max = 1 << 20};

    for (size_t i = 0; i < n; i++)
        assert_int_equal(sw_buf_printf(&b, "%s'%c%zu'", i ? "," : "", letter, i), SW_OK);
    return sw_arena_dup(a, sw_buf_slice(&b));
}

static void products_are_not_written_out(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct api_lacks l;
    const char *cube = sw_arena_printf(&a, "[" R("%s", "%s", "%s") "]", many(&a, 'g', 4000),
                                       many(&a, 'r', 4000), many(&a, 'v', 4000));

    (void)state;
    assert_int_equal(find(&a, "[" R("'*'", "'*'", "'*'") "]", cube, &l), SW_OK);
    assert_int_equal(l.n, 0);
    assert_int_equal(find(&a, cube, cube, &l), SW_OK);
    assert_int_equal(l.n, 0);
    assert_int_equal(find(&a, "[" R("'g1'", "'r1'", "'v1'") "]", cube, &l), SW_OK);
    assert_true(l.n > 0 && l.n <= API_LACKS_MAX && l.cut);
    assert_int_equal(find(&a, "[]", cube, &l), SW_OK);
    assert_true(l.n > 0 && l.cut);
}

static void an_exhausted_budget_is_no_permission(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct api_holder h;
    size_t n;
    const struct api_rule *w;
    int refused = 0;

    (void)state;
    w = h.rules = h.urls = rules(&a, random_rules(&a, &(uint64_t){3}, 20), &h.nrules);
    n = h.nurls = h.nrules;
    for (uint64_t steps = 0; steps < 200000; steps += 97) {
        struct sw_budget b = {.steps = steps};
        struct api_lacks l = {.arena = &a};
        int rc = api_lacks_find(&l, &h, w, n, &b);

        api_lacks_done(&l);
        assert_int_equal(l.n, 0);
        assert_int_equal(rc, b.spent ? SW_ELIMIT : SW_OK);
        refused += rc != SW_OK;
    }
    assert_true(refused > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rights_are_covered_as_in_the_reference),
        cmocka_unit_test(random_rules_agree_with_single_rights),
        cmocka_unit_test(products_are_not_written_out),
        cmocka_unit_test(an_exhausted_budget_is_no_permission),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
