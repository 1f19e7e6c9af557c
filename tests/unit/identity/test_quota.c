/* SPDX-License-Identifier: Apache-2.0 */
/* How many certificates a caller gets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/slice.h"
#include "base/time.h"
#include "identity/quota.h"

static size_t take(struct sw_quota *q, const char *caller, size_t n, uint64_t now_ns)
{
    size_t got = 0;

    for (size_t i = 0; i < n; i++)
        got += sw_quota_take(q, sw_slice_str(caller), now_ns);
    return got;
}

static void a_caller_has_a_burst_and_a_rate(void **state)
{
    struct sw_quota q = {{0}};
    uint64_t now = SW_NS_PER_S;

    (void)state;
    assert_int_equal(take(&q, "greedy", 10000, now), SW_QUOTA_BURST);
    assert_int_equal(take(&q, "other", 300, now), 300);
    assert_int_equal(take(&q, "greedy", 10000, now + SW_NS_PER_S), SW_QUOTA_PER_S);
    assert_int_equal(take(&q, "greedy", 10000, now + 1000 * SW_NS_PER_S), SW_QUOTA_BURST);
    sw_quota_done(&q);
}

/* Many others do not make a busy caller be forgotten. */
static void callers_are_remembered_within_bounds(void **state)
{
    struct sw_quota q = {{0}};
    uint64_t now = SW_NS_PER_S;
    char name[32];

    (void)state;
    (void)take(&q, "greedy", SW_QUOTA_BURST, now);
    for (int i = 0; i < SW_QUOTA_CALLERS + 500; i++) {
        (void)snprintf(name, sizeof(name), "c%d", i);
        assert_int_equal(take(&q, name, 1, now), 1);
        assert_true(q.callers.n <= SW_QUOTA_CALLERS);
    }
    assert_int_equal(take(&q, "greedy", 1, now), 0);
    sw_quota_done(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_caller_has_a_burst_and_a_rate),
        cmocka_unit_test(callers_are_remembered_within_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
