/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that wait for the control plane: what they ask for, and how the wait ends. */
#include "node/lookup.h"

#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "fixture.h"

static const char world_yaml[] =
    "workloads:\n"
    "- {uid: c, name: c, namespace: a, workloadIps: [10.0.0.1], services: {}}\n"
    "- {uid: s, name: s, namespace: a, workloadIps: [10.0.0.2], services: {},\n"
    "   waypoint: {destination: a/wp.a}}\n"
    "- {uid: t, name: t, namespace: a, workloadIps: [10.0.0.3], services: {},\n"
    "   waypoint: {destination: /10.0.0.9}}\n"
    "- {uid: m, name: m, namespace: a, workloadIps: [10.0.0.4], services: {a/later.a: {80: 80}}}\n"
    "services:\n"
    "- {name: v, namespace: a, hostname: v.a, vips: [/10.1.0.1], ports: {80: 80},\n"
    "   weightedWaypoints: [{destination: b/other, weight: 1}]}\n";

static uint64_t skew;

static uint64_t skewed_clock(void)
{
    return sw_now_ns() + skew;
}

struct rig {
    struct sw_lookup_book book;
    struct sw_metrics *metrics;
    struct sw_state *s;
    char asked[8][32];
    size_t n_asked;
};

struct waiter {
    struct sw_lookup l;
    int ends[3];       /* by enum sw_lookup_end */
    struct rig *chain; /* starts another wait from inside */
};

static void on_ask(void *arg, struct sw_slice key)
{
    struct rig *r = arg;

    assert_true(r->n_asked < 8 && key.n < 32);
    memcpy(r->asked[r->n_asked], key.p, key.n);
    r->asked[r->n_asked++][key.n] = '\0';
}

static void on_end(struct sw_lookup *l, enum sw_lookup_end end)
{
    struct waiter *w = SW_CONTAINER_OF(l, struct waiter, l);
    struct rig *again = w->chain;

    w->ends[end]++;
    w->chain = NULL;
    if (again)
        sw_lookup_start(&again->book, l, sw_strdup("next"), on_end);
}

static int set_up(void **state)
{
    struct rig *r = SW_NEW(struct rig);

    skew = 0;
    r->metrics = sw_metrics_new(&(struct sw_metrics_opts){0});
    r->book = (struct sw_lookup_book){.loop = sw_loop_new(NULL),
                                      .shard = sw_metrics_shard_new(r->metrics),
                                      .ask = on_ask,
                                      .arg = r};
    sw_list_init(&r->book.waiting);
    r->s = load(world_yaml);
    *state = r;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *r = *state;

    assert_true(sw_list_empty(&r->book.waiting));
    sw_lookup_book_done(&r->book);
    sw_loop_free(r->book.loop);
    sw_metrics_shard_free(r->book.shard);
    sw_metrics_free(r->metrics);
    (void)sw_state_unref(r->s);
    sw_free(r);
    return 0;
}

static void assert_missing(const struct rig *r, const char *dst, const char *want)
{
    struct sw_addr to = addr(dst);
    SW_AUTO_FREE char *key = sw_lookup_missing(&r->book, r->s, workload(r->s, "c"), &to);

    if (!want)
        assert_null(key);
    else
        assert_string_equal(key ? key : "(nothing)", want);
}

static void what_is_missing_is_asked_for(void **state)
{
    static const struct {
        const char *dst;
        const char *key;
    } cases[] = {
        {"10.0.0.1:80", NULL},        {"127.0.0.1:80", NULL},
        {"10.9.9.9:80", "/10.9.9.9"}, {"[2001:db8::1]:1", "/2001:db8::1"},
        {"10.0.0.2:80", "a/wp.a"},    {"10.0.0.3:80", "/10.0.0.9"},
        {"10.1.0.1:80", "b/other"},
    };
    struct rig *r = *state;

    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++)
        assert_missing(r, cases[i].dst, cases[i].key);
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        if (cases[i].key)
            sw_lookup_found(&r->book, sw_slice_str(cases[i].key), SW_LOOKUP_ANSWERED);
    }
    /* Answered means known, or known not to exist: nothing is asked twice. */
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++)
        assert_missing(r, cases[i].dst, NULL);
    /* Until answers are forgotten. */
    sw_lookup_forget(&r->book);
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++)
        assert_missing(r, cases[i].dst, cases[i].key);
}

static void an_answer_ends_all_waits_for_its_key(void **state)
{
    struct rig *r = *state;
    struct waiter w[4] = {{.l = {.of = NULL}}};

    w[1].chain = r;
    for (size_t i = 0; i < 3; i++)
        sw_lookup_start(&r->book, &w[i].l, sw_strdup("k"), on_end);
    sw_lookup_start(&r->book, &w[3].l, sw_strdup("other"), on_end);
    sw_lookup_cancel(&w[2].l);
    sw_lookup_cancel(&w[2].l); /* harmless */
    sw_lookup_found(&r->book, S("k"), SW_LOOKUP_ANSWERED);
    assert_int_equal(w[0].ends[SW_LOOKUP_ANSWERED], 1);
    assert_int_equal(w[1].ends[SW_LOOKUP_ANSWERED], 1);
    assert_int_equal(w[2].ends[SW_LOOKUP_ANSWERED] + w[3].ends[SW_LOOKUP_ANSWERED], 0);
    assert_string_equal(r->asked[4], "next"); /* from inside the answer */
    sw_lookup_found(&r->book, S("next"), SW_LOOKUP_LIMIT);
    assert_int_equal(w[1].ends[SW_LOOKUP_LIMIT], 1);
    sw_lookup_cancel(&w[3].l);
}

static void waits_have_a_deadline(void **state)
{
    struct rig *r = *state;
    struct waiter w = {.l = {.of = NULL}};

    sw_loop_set_clock(r->book.loop, skewed_clock);
    sw_lookup_start(&r->book, &w.l, sw_strdup("k"), on_end);
    sw_loop_turn(r->book.loop, 0);
    assert_int_equal(w.ends[SW_LOOKUP_TIMEOUT], 0);
    skew = 6 * SW_NS_PER_S;
    sw_loop_turn(r->book.loop, 0);
    assert_int_equal(w.ends[SW_LOOKUP_TIMEOUT], 1);
    sw_lookup_found(&r->book, S("k"), SW_LOOKUP_ANSWERED); /* too late for it */
    assert_int_equal(w.ends[SW_LOOKUP_ANSWERED], 0);
}

/* ---- tunnels that arrive ---- */

static void check_inbound(struct rig *r, const char *uid, const char *peer, const char *authority,
                          const char *expected)
{
    struct sw_lookup_inbound q = {.local = sw_state_workload_by_uid(r->s, sw_slice_str(uid)),
                                  .authority = sw_slice_str(authority)};
    SW_AUTO_FREE char *key = NULL;

    assert_non_null(q.local);
    q.conn_dst = sw_workload_ip(q.local, 0);
    if (peer)
        assert_int_equal(sw_ip_parse(sw_slice_str(peer), &q.peer, NULL), SW_OK);
    key = sw_lookup_missing_inbound(&r->book, r->s, &q);
    if (!expected)
        assert_null(key);
    else
        assert_string_equal(key ? key : "nothing", expected);
}

static void a_tunnel_asks_for_what_its_judgement_needs(void **state)
{
    struct rig *r = *state;

    check_inbound(r, "c", "10.0.0.2", "10.0.0.1:80", NULL);
    check_inbound(r, "c", "10.0.0.77", "10.0.0.1:80", "/10.0.0.77");
    check_inbound(r, "c", NULL, "10.0.0.1:80", NULL);
    check_inbound(r, "s", "10.0.0.2", "10.0.0.2:80", "a/wp.a");
    check_inbound(r, "t", "10.0.0.2", "10.0.0.3:80", "/10.0.0.9");
    check_inbound(r, "c", "10.0.0.2", "10.2.0.1:80", "/10.2.0.1");
    check_inbound(r, "m", "10.0.0.2", "later.a:80", "a/later.a");
    check_inbound(r, "m", "10.0.0.2", "elsewhere.b:80", NULL);
    check_inbound(r, "m", "10.0.0.2", "no authority", NULL);
}

/* Whoever may choose addresses may not fill the subscription with them. */
static void chosen_addresses_are_asked_for_up_to_a_bound(void **state)
{
    struct rig *r = *state;
    char at[2][32];

    for (unsigned i = 0; i < 4096; i += 2) {
        (void)snprintf(at[0], sizeof(at[0]), "/10.9.%u.%u", i / 250, i % 250);
        (void)snprintf(at[1], sizeof(at[1]), "10.8.%u.%u:80", i / 250, i % 250);
        check_inbound(r, "c", at[0] + 1, "10.0.0.1:80", at[0]);
        (void)snprintf(at[0], sizeof(at[0]), "/10.8.%u.%u", i / 250, i % 250);
        check_inbound(r, "c", "10.0.0.2", at[1], at[0]);
    }
    check_inbound(r, "c", "10.9.99.99", "10.0.0.1:80", NULL);
    check_inbound(r, "c", "10.0.0.2", "10.8.99.99:80", NULL);
    check_inbound(r, "c", "10.9.0.0", "10.0.0.1:80", "/10.9.0.0");
}

static void many_tunnels_of_one_caller_count_once(void **state)
{
    struct rig *r = *state;

    for (int i = 0; i < 5000; i++)
        check_inbound(r, "c", "10.9.99.98", "10.0.0.1:80", "/10.9.99.98");
    check_inbound(r, "c", "10.9.99.99", "10.0.0.1:80", "/10.9.99.99");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_missing_is_asked_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_answer_ends_all_waits_for_its_key, set_up, tear_down),
        cmocka_unit_test_setup_teardown(waits_have_a_deadline, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_tunnel_asks_for_what_its_judgement_needs, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(chosen_addresses_are_asked_for_up_to_a_bound, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(many_tunnels_of_one_caller_count_once, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("lookup", tests, NULL, NULL);
}
