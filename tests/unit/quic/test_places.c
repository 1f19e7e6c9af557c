/* SPDX-License-Identifier: Apache-2.0 */
/* Which of several direct paths is preferred. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/time.h"
#include "quic/path_places.h"

#define T0 (1000 * SW_NS_PER_S)

static struct sw_qroute route(const char *addr)
{
    struct sw_qroute r = {0};

    assert_int_equal(sw_addr_parse(sw_slice_str(addr), &r.remote, NULL), SW_OK);
    r.sock = r.remote.ip.family == 6;
    return r;
}

/* A place that answered after that time. */
static void answers(struct sw_qplaces *s, const char *addr, uint64_t rtt_ns, uint64_t now_ns)
{
    struct sw_qroute r = route(addr);
    struct sw_qplace *k = sw_qplaces_find(s, &r);

    if (!k)
        k = sw_qplaces_learn(s, &r, now_ns);
    assert_non_null(k);
    sw_qplace_begin(k, now_ns - rtt_ns);
    k->sent_ns[0] = now_ns - rtt_ns;
    k->sent = 1;
    assert_true(sw_qplace_answered(k, k->tx, now_ns));
}

static void a_better_path_is_one_with_a_shorter_round_trip(void **state)
{
    enum { MS = 1000000 };
    static const struct {
        const char *what;
        const char *on; /* "": a relay */
        bool urgent;
        uint64_t rtt[3]; /* of 10.0.0.1, 10.0.0.2 and [2001:db8::1]; 0: does not answer */
        const char *best;
    } cases[] = {
        {"the first that answers, from a relay", "", false, {80 * MS, 0, 0}, "10.0.0.1:1"},
        {"the nearest, from a relay", "", false, {80 * MS, 20 * MS, 0}, "10.0.0.2:1"},
        {"IPv6 of about the same", "", false, {20 * MS, 0, 22 * MS}, "[2001:db8::1]:1"},
        {"IPv4 when IPv6 is farther", "", false, {20 * MS, 0, 24 * MS}, "10.0.0.1:1"},
        {"none answers", "", false, {0, 0, 0}, NULL},
        {"a gain of 5 ms", "10.0.0.1:1", false, {25 * MS, 20 * MS, 0}, "10.0.0.2:1"},
        {"not for less", "10.0.0.1:1", false, {25 * MS, 21 * MS, 0}, NULL},
        {"nor for the same", "10.0.0.1:1", false, {20 * MS, 20 * MS, 0}, NULL},
        {"not away from the best", "10.0.0.1:1", false, {5 * MS, 20 * MS, 90 * MS}, NULL},
        {"nothing is known of the present one", "10.0.0.1:1", false, {0, 1 * MS, 0}, NULL},
        {"any that answers, from a silent one",
         "10.0.0.1:1",
         true,
         {5 * MS, 90 * MS, 0},
         "10.0.0.2:1"},
        {"never the silent one itself", "10.0.0.1:1", true, {5 * MS, 0, 0}, NULL},
    };
    static const char *const addrs[] = {"10.0.0.1:1", "10.0.0.2:1", "[2001:db8::1]:1"};

    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_qplaces s = {0};
        struct sw_qroute on = route(cases[i].on[0] ? cases[i].on : "10.9.9.9:9");
        struct sw_qplaces_now now = {.on = cases[i].on[0] ? &on : NULL,
                                     .urgent = cases[i].urgent,
                                     .heard_ns = T0 - SW_NS_PER_S,
                                     .now_ns = T0};
        const struct sw_qroute *best;

        for (size_t j = 0; j < 3; j++)
            if (cases[i].rtt[j])
                answers(&s, addrs[j], cases[i].rtt[j], T0);
        best = sw_qplaces_best(&s, &now);
        if (!cases[i].best != !best)
            fail_msg("%s: %s", cases[i].what, best ? "a path was chosen" : "none was chosen");
        if (best) {
            struct sw_qroute want = route(cases[i].best);

            if (!sw_qroute_eq(best, &want))
                fail_msg("%s: another one was chosen", cases[i].what);
        }
    }
}

static void two_paths_that_take_turns_at_being_better_cause_few_moves(void **state)
{
    struct sw_qplaces s = {0};
    struct sw_qroute a = route("10.0.0.1:1");
    struct sw_qroute b = route("10.0.0.2:1");
    const struct sw_qroute *on = &a;
    size_t moves = 0;

    /* Every second for a minute: now one is 20 ms nearer, now the other. */
    for (uint64_t t = 0; t < 60; t++) {
        struct sw_qplaces_now now = {.on = on, .heard_ns = T0, .now_ns = T0 + t * SW_NS_PER_S};

        answers(&s, "10.0.0.1:1", (t % 2 ? 10 : 30) * SW_NS_PER_MS, now.now_ns);
        answers(&s, "10.0.0.2:1", (t % 2 ? 30 : 10) * SW_NS_PER_MS, now.now_ns);
        if (sw_qplaces_best(&s, &now)) {
            on = on == &a ? &b : &a;
            moves++;
        }
    }
    assert_true(moves >= 1 && moves <= 12);
}

static void an_answer_counts_for_a_while_and_not_where_quic_failed(void **state)
{
    struct sw_qplaces s = {0};
    struct sw_qplaces_now now = {.now_ns = T0};
    struct sw_qroute a = route("10.0.0.1:1");

    answers(&s, "10.0.0.1:1", SW_NS_PER_MS, T0);
    assert_non_null(sw_qplaces_best(&s, &now));
    sw_qplaces_find(&s, &a)->barred_ns = T0 + SW_NS_PER_S;
    assert_null(sw_qplaces_best(&s, &now));
    now.now_ns = T0 + SW_NS_PER_S;
    assert_non_null(sw_qplaces_best(&s, &now));
    now.now_ns = T0 + PLACE_FRESH_NS;
    assert_null(sw_qplaces_best(&s, &now));
}

/* Each would get its own pings. */
static void an_address_that_is_named_often_is_one_place(void **state)
{
    struct sw_qplaces s = {0};
    struct sw_qroute named[SW_QUIC_ADDRS_MAX];

    for (size_t i = 0; i < SW_QUIC_ADDRS_MAX; i++)
        named[i] = route(i == 7 ? "10.0.0.2:1" : "10.0.0.1:1");
    sw_qplaces_name(&s, named, SW_QUIC_ADDRS_MAX);
    assert_int_equal(s.n, 2);
    assert_int_equal(s.named, 2);
}

static void a_new_list_keeps_what_is_known_of_its_places(void **state)
{
    struct sw_qplaces s = {0};
    struct sw_qroute named[] = {route("10.0.0.2:1"), route("10.0.0.1:1")};

    answers(&s, "10.0.0.1:1", 7, T0);
    answers(&s, "10.0.0.3:1", 7, T0);
    sw_qplaces_name(&s, named, 2);
    assert_int_equal(s.n, 2);
    assert_int_equal(s.at[0].rtt_ns, 0);
    assert_int_equal(s.at[1].rtt_ns, 7);
}

/* Whoever sends copies of pings from everywhere fills the table, but does not keep others out. */
static void places_that_never_answered_make_room(void **state)
{
    struct sw_qplaces s = {0};
    struct sw_qroute named = route("10.0.0.1:1");
    struct sw_qroute last = route("10.0.0.9:9");
    char text[32];

    sw_qplaces_name(&s, &named, 1);
    answers(&s, "10.0.0.2:1", 7, T0);
    for (unsigned i = 0; i < 1000; i++) {
        struct sw_qroute r;

        (void)snprintf(text, sizeof(text), "10.1.%u.%u:1", i / 250, i % 250);
        r = route(text);
        assert_non_null(sw_qplaces_learn(&s, &r, T0 + i));
    }
    assert_int_equal(s.n, PLACES_MAX);
    assert_non_null(sw_qplaces_learn(&s, &last, T0 + 1000));
    assert_non_null(sw_qplaces_find(&s, &last));
    assert_non_null(sw_qplaces_find(&s, &named));
    assert_int_equal(s.at[1].rtt_ns, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_better_path_is_one_with_a_shorter_round_trip),
        cmocka_unit_test(two_paths_that_take_turns_at_being_better_cause_few_moves),
        cmocka_unit_test(an_answer_counts_for_a_while_and_not_where_quic_failed),
        cmocka_unit_test(an_address_that_is_named_often_is_one_place),
        cmocka_unit_test(a_new_list_keeps_what_is_known_of_its_places),
        cmocka_unit_test(places_that_never_answered_make_room),
    };

    return cmocka_run_group_tests_name("quic places", tests, NULL, NULL);
}
