/* SPDX-License-Identifier: Apache-2.0 */
/* Judging Leases, and the API's clock where ours is wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/time.h"
#include "connector/hold.h"

#define S          SW_NS_PER_S
#define EPOCH      UINT64_C(1794744000) /* 2026-11-15T12:00:00Z */
#define MONO       (1000 * S)           /* our monotonic clock at that moment */
#define WALL(diff) ((uint64_t)((int64_t)(EPOCH * S) + (diff) * (int64_t)S))

static void our_clock_counts_while_it_agrees(void **state)
{
    struct sw_api_clock c = {0};

    (void)state;
    assert_int_equal(sw_api_clock_now(&c, MONO, WALL(-3600)), WALL(-3600)); /* nothing known */
    sw_api_clock_note(&c, EPOCH, MONO, MONO);
    assert_int_equal(sw_api_clock_now(&c, MONO, WALL(0) + 7), WALL(0) + 7);
    assert_int_equal(sw_api_clock_now(&c, MONO, WALL(2)), WALL(2));
    assert_int_equal(sw_api_clock_now(&c, MONO, WALL(-1)), WALL(-1));
}

static void a_wrong_clock_is_not_used(void **state)
{
    static const int64_t wrong[] = {-86400, -31, -3, 4, 31, 3600, 86400 * 365};
    struct sw_api_clock c = {0};

    (void)state;
    sw_api_clock_note(&c, EPOCH, MONO, MONO);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        uint64_t now = sw_api_clock_now(&c, MONO + 10 * S, WALL(wrong[i] + 10));

        assert_true(now >= WALL(10) && now <= WALL(11));
    }
}

static void a_clock_that_is_set_while_we_run_changes_nothing(void **state)
{
    struct sw_api_clock c = {0};
    uint64_t before, after;

    (void)state;
    sw_api_clock_note(&c, EPOCH, MONO, MONO);
    before = sw_api_clock_now(&c, MONO + S, WALL(-3600));
    after = sw_api_clock_now(&c, MONO + 2 * S, WALL(7200));
    assert_int_equal(after - before, S);
}

static void half_of_the_time_under_way_is_given(void **state)
{
    struct sw_api_clock c = {0};
    uint64_t now;

    (void)state;
    sw_api_clock_note(&c, EPOCH, MONO - 4 * S, MONO);
    now = sw_api_clock_now(&c, MONO, WALL(3600));
    assert_int_equal(now, WALL(2) + S / 2);
    sw_api_clock_note(&c, 0, MONO, MONO); /* an answer without a date */
    assert_int_equal(sw_api_clock_now(&c, MONO, WALL(3600)), now);
    sw_api_clock_note(&c, UINT64_MAX, MONO, MONO);
    assert_int_equal(sw_api_clock_now(&c, MONO, WALL(3600)), now);
}

static void an_api_that_is_away_is_asked_often(void **state)
{
    static const struct {
        unsigned failures;
        uint32_t duration_s;
        bool answered;
        uint64_t most_ms;
    } cases[] = {
        {1, 30, false, 500},       {2, 30, false, 1000},
        {3, 30, false, 2000},      {4, 30, false, 3000},
        {999999, 30, false, 3000}, {9, 2, false, 1000},
        {1, 30, true, 2000},       {2, 30, true, 4000},
        {9, 30, true, 15000},      {UINT32_MAX, 86400, true, 30000},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t most = cases[i].most_ms * SW_NS_PER_MS;

        for (uint64_t random = 0; random < 100; random++) {
            uint64_t wait = sw_hold_retry_ns(cases[i].failures, cases[i].duration_s,
                                             cases[i].answered, random * (most / 99));

            assert_true(wait >= most / 2 && wait <= most);
        }
        assert_int_equal(
            sw_hold_retry_ns(cases[i].failures, cases[i].duration_s, cases[i].answered, most / 2),
            most);
        assert_int_not_equal(
            sw_hold_retry_ns(cases[i].failures, cases[i].duration_s, cases[i].answered, 1),
            sw_hold_retry_ns(cases[i].failures, cases[i].duration_s, cases[i].answered, 2));
    }
}

static const struct sw_json *lease(struct sw_arena *a, const char *holder, uint64_t renewed_ns)
{
    struct sw_json *o = sw_json_new_object(a);
    struct sw_json *spec = sw_json_new_object(a);
    char text[SW_RFC3339_LEN];

    sw_json_put(a, spec, "holderIdentity", sw_json_new_str(a, holder));
    sw_json_put(a, spec, "renewTime", sw_json_new_str(a, sw_rfc3339(renewed_ns, 1, text)));
    sw_json_put(a, spec, "leaseDurationSeconds", sw_json_new_i64(a, 30));
    sw_json_put(a, o, "spec", spec);
    return o;
}

static void a_lease_is_foreign_while_it_is_fresh(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice me = SW_SLICE_LIT("me");

    (void)state;
    assert_false(sw_hold_foreign(lease(&a, "me", WALL(0)), me, WALL(1)));
    assert_false(sw_hold_foreign(lease(&a, "", WALL(0)), me, WALL(1)));
    assert_true(sw_hold_foreign(lease(&a, "you", WALL(0)), me, WALL(44)));
    assert_false(sw_hold_foreign(lease(&a, "you", WALL(0)), me, WALL(47)));
    assert_true(sw_hold_foreign(lease(&a, "you", WALL(3600)), me, WALL(0)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(our_clock_counts_while_it_agrees),
        cmocka_unit_test(a_wrong_clock_is_not_used),
        cmocka_unit_test(a_clock_that_is_set_while_we_run_changes_nothing),
        cmocka_unit_test(half_of_the_time_under_way_is_given),
        cmocka_unit_test(an_api_that_is_away_is_asked_often),
        cmocka_unit_test(a_lease_is_foreign_while_it_is_fresh),
    };

    return cmocka_run_group_tests_name("hold", tests, NULL, NULL);
}
