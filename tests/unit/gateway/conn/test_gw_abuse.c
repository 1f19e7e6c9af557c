/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/time.h"
#include "gateway/conn/abuse.h"

static struct sw_ip ip(const char *text)
{
    struct sw_ip out;
    struct sw_err err;

    assert_int_equal(sw_ip_parse(sw_slice_str(text), &out, &err), SW_OK);
    return out;
}

static void the_allowance_is_used_up_and_comes_back(void **state)
{
    struct sw_gw_abuse *a = sw_gw_abuse_new();
    struct sw_ip bad = ip("192.0.2.1");
    struct sw_ip good = ip("192.0.2.2");
    uint64_t now = 5 * SW_NS_PER_S;

    (void)state;
    for (int i = 0; i < SW_GW_ABUSE_BURST - 1; i++)
        assert_false(sw_gw_abuse_note(a, &bad, 1, now));
    assert_true(sw_gw_abuse_note(a, &bad, 1, now));
    assert_false(sw_gw_abuse_note(a, &good, 1, now));
    now += 2 * SW_NS_PER_S / SW_GW_ABUSE_PER_S;
    assert_false(sw_gw_abuse_note(a, &bad, 1, now));
    /* However many resets: trusted again after the time of two allowances. */
    assert_true(sw_gw_abuse_note(a, &bad, 1000000, now));
    now += 2 * SW_NS_PER_S * SW_GW_ABUSE_BURST / SW_GW_ABUSE_PER_S;
    assert_false(sw_gw_abuse_note(a, &bad, 1, now));
    sw_gw_abuse_free(a);
}

/* What comes back between two resets is not lost, however close together they are. */
static void the_rate_is_exact_however_close_the_resets(void **state)
{
    const uint64_t interval_ns = SW_NS_PER_S / SW_GW_ABUSE_PER_S;

    (void)state;
    for (unsigned at_once = 1; at_once <= 3; at_once++) {
        struct sw_gw_abuse *a = sw_gw_abuse_new();
        struct sw_ip cdn = ip("192.0.2.1");
        uint64_t now = SW_NS_PER_S;

        /* Just below 100 a second for ten minutes, in groups 9 ms apart. */
        for (int i = 0; i < 60000; i++, now += interval_ns * at_once + 1)
            for (unsigned k = 0; k < at_once; k++)
                assert_false(sw_gw_abuse_note(a, &cdn, 1, now + k * 9 * SW_NS_PER_MS));
        sw_gw_abuse_free(a);
    }
}

static void a_64_is_one_address(void **state)
{
    struct sw_gw_abuse *a = sw_gw_abuse_new();
    struct sw_ip one = ip("2001:db8:0:1::1");
    struct sw_ip two = ip("2001:db8:0:1:ffff::2");
    struct sw_ip other = ip("2001:db8:0:2::1");

    (void)state;
    assert_true(sw_gw_abuse_note(a, &one, SW_GW_ABUSE_BURST, 1));
    assert_true(sw_gw_abuse_note(a, &two, 1, 1));
    assert_false(sw_gw_abuse_note(a, &other, 1, 1));
    sw_gw_abuse_free(a);
}

/* More addresses than there is room for: the bad one is not pushed out by many small ones. */
static void the_worst_stays(void **state)
{
    struct sw_gw_abuse *a = sw_gw_abuse_new();
    struct sw_ip bad = ip("198.51.100.1");
    char text[32];

    (void)state;
    (void)sw_gw_abuse_note(a, &bad, SW_GW_ABUSE_BURST + 100, 1);
    for (int i = 0; i < 20 * SW_GW_ABUSE_SLOTS; i++) {
        struct sw_ip some;

        (void)snprintf(text, sizeof(text), "10.%d.%d.%d", i >> 16, (i >> 8) & 255, i & 255);
        some = ip(text);
        (void)sw_gw_abuse_note(a, &some, 1, 1);
    }
    assert_true(sw_gw_abuse_note(a, &bad, 0, 1));
    sw_gw_abuse_free(a);
}

static void *misuse(void *a)
{
    struct sw_ip bad = ip("198.51.100.1");

    for (int i = 0; i < SW_GW_ABUSE_BURST / 4; i++)
        (void)sw_gw_abuse_note(a, &bad, 1, 1);
    return NULL;
}

/* Spreading over the workers gains nothing. */
static void workers_share_one_allowance(void **state)
{
    struct sw_gw_abuse *a = sw_gw_abuse_new();
    struct sw_ip bad = ip("198.51.100.1");
    pthread_t threads[4];

    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, misuse, a), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_true(sw_gw_abuse_note(a, &bad, 0, 1));
    sw_gw_abuse_free(a);
}

static void nobody_is_remembered_without_a_table(void **state)
{
    struct sw_ip bad = ip("198.51.100.1");

    (void)state;
    assert_false(sw_gw_abuse_note(NULL, &bad, SW_GW_ABUSE_BURST, 1));
    sw_gw_abuse_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_allowance_is_used_up_and_comes_back),
        cmocka_unit_test(the_rate_is_exact_however_close_the_resets),
        cmocka_unit_test(a_64_is_one_address),
        cmocka_unit_test(the_worst_stays),
        cmocka_unit_test(workers_share_one_allowance),
        cmocka_unit_test(nobody_is_remembered_without_a_table),
    };

    return cmocka_run_group_tests_name("gw_abuse", tests, NULL, NULL);
}
