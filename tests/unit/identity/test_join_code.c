/* SPDX-License-Identifier: Apache-2.0 */
#include "identity/join/code.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/time.h"
#include "identity/join/throttle.h"

static void fill(struct sw_join_code *c, const char *address, const char *id)
{
    *c = (struct sw_join_code){.kind = SW_JOIN_DEVICE};
    (void)snprintf(c->address, sizeof(c->address), "%s", address);
    (void)snprintf(c->id, sizeof(c->id), "%s", id);
    for (size_t i = 0; i < SW_JOIN_SECRET; i++) {
        c->secret[i] = (uint8_t)(7 * i + 1);
        c->root[i] = (uint8_t)(255 - i);
    }
}

static void what_is_written_is_read(void **state)
{
    static const char *const addresses[] = {"10.0.0.1:15012", "[2001:db8::1]:443",
                                            "control.example.com:15012"};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(addresses); i++) {
        SW_BUF_AUTO text = {.max = SW_JOIN_CODE_MAX};
        struct sw_join_code in;
        struct sw_join_code out = {0};
        struct sw_err err = {0};

        fill(&in, addresses[i], "site/join-abc");
        assert_int_equal(sw_join_code_write(&in, &text, &err), SW_OK);
        assert_int_equal(sw_join_code_read(sw_buf_slice(&text), &out, &err), SW_OK);
        assert_memory_equal(&in, &out, sizeof(in));
    }
}

static void fields_that_no_code_can_have_are_refused(void **state)
{
    static const struct {
        const char *address;
        const char *id;
    } cases[] = {
        {"10.0.0.1", "site/join-a"},     {"10.0.0.1:0", "site/join-a"}, {"", "site/join-a"},
        {"10.0.0.1:1", "join-a"},        {"10.0.0.1:1", "site/"},       {"10.0.0.1:1", "Site/a"},
        {"10.0.0.1:1", "site/../admin"}, {"10.0.0.1:1", "a/b/c"}};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_BUF_AUTO text = {.max = SW_JOIN_CODE_MAX};
        struct sw_join_code c;

        fill(&c, cases[i].address, cases[i].id);
        assert_int_equal(sw_join_code_write(&c, &text, NULL), SW_EINVAL);
    }
}

/* Whatever is cut off is called so, and no change of a character passes. */
static void every_damage_is_noticed(void **state)
{
    SW_BUF_AUTO text = {.max = SW_JOIN_CODE_MAX};
    struct sw_join_code c;
    struct sw_join_code out;
    struct sw_slice s;

    (void)state;
    fill(&c, "10.0.0.1:15012", "site/join-abc");
    assert_int_equal(sw_join_code_write(&c, &text, NULL), SW_OK);
    s = sw_buf_slice(&text);
    for (size_t n = 8; n < s.n; n++) {
        struct sw_err err = {0};

        assert_int_equal(sw_join_code_read(sw_slice_head(s, n), &out, &err), SW_EINVAL);
        assert_non_null(strstr(err.msg, "cut off"));
    }
    for (size_t i = 0; i < s.n; i++) {
        char *copy = sw_slice_dup(s);

        copy[i] = copy[i] == 'A' ? 'B' : 'A';
        assert_int_equal(sw_join_code_read(sw_slice(copy, s.n), &out, NULL), SW_EINVAL);
        sw_free(copy);
    }
}

/* Also where it does not decode, or decodes to nothing. */
static void what_follows_a_code_is_refused(void **state)
{
    static const char *const tails[] = {"A", "AA", "AAA", "AAAA", "!", "!!", "!!!", "-----", "="};
    static const char *const ids[] = {"site/join-a", "site/join-ab", "site/join-abc"};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(ids) * SW_ARRAY_LEN(tails); i++) {
        SW_BUF_AUTO text = {.max = SW_JOIN_CODE_MAX};
        struct sw_join_code c;
        struct sw_join_code out;

        fill(&c, "10.0.0.1:15012", ids[i % SW_ARRAY_LEN(ids)]);
        assert_int_equal(sw_join_code_write(&c, &text, NULL), SW_OK);
        assert_int_equal(sw_buf_append_str(&text, tails[i / SW_ARRAY_LEN(ids)]), SW_OK);
        if (sw_join_code_read(sw_buf_slice(&text), &out, NULL) != SW_EINVAL)
            fail_msg("'%s' with '%s' behind it", ids[i % SW_ARRAY_LEN(ids)],
                     tails[i / SW_ARRAY_LEN(ids)]);
    }
}

static void spaces_around_it_are_passed_over(void **state)
{
    SW_BUF_AUTO text = {.max = SW_JOIN_CODE_MAX};
    struct sw_join_code c;
    struct sw_join_code out;

    (void)state;
    fill(&c, "10.0.0.1:15012", "site/join-abc");
    assert_int_equal(sw_buf_append_str(&text, " \t"), SW_OK);
    assert_int_equal(sw_join_code_write(&c, &text, NULL), SW_OK);
    assert_int_equal(sw_buf_append_str(&text, " \r\n"), SW_OK);
    assert_int_equal(sw_join_code_read(sw_buf_slice(&text), &out, NULL), SW_OK);
}

static const struct {
    const char *text;
    const char *says;
} strangers[] = {
    {"", "is empty"},
    {"hello", "not a join code"},
    {"sw2-AAAAAAAA", "newer version"},
    {"sw1-", "cut off"},
    {"sw1-A", "cut off"},
    {"sw1-????", "checksum"},
    {"sw1-AAAAAAAAAAAAAAAAAAAAAAAAAAAA", "checksum"},
};

static void strangers_are_told_what_they_are(void **state)
{
    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(strangers); i++) {
        struct sw_join_code out;
        struct sw_err err = {0};

        assert_int_equal(sw_join_code_read(sw_slice_str(strangers[i].text), &out, &err), SW_EINVAL);
        if (!strstr(err.msg, strangers[i].says))
            fail_msg("'%s': %s", strangers[i].text, err.msg);
    }
}

static void refusals_lock_out_their_address_alone(void **state)
{
    struct sw_join_throttle t = {0};
    struct sw_ip bad;
    struct sw_ip good;
    struct sw_ip near;
    uint64_t now = SW_NS_PER_S;

    (void)state;
    assert_int_equal(sw_ip_parse(SW_SLICE_LIT("2001:db8::1"), &bad, NULL), SW_OK);
    assert_int_equal(sw_ip_parse(SW_SLICE_LIT("2001:db8::ffff"), &near, NULL), SW_OK);
    assert_int_equal(sw_ip_parse(SW_SLICE_LIT("2001:db8:1::1"), &good, NULL), SW_OK);
    for (int i = 0; i < SW_JOIN_BURST; i++) {
        assert_true(sw_join_throttle_ok(&t, &bad, now));
        sw_join_throttle_refused(&t, &bad, now);
    }
    assert_false(sw_join_throttle_ok(&t, &bad, now));
    assert_false(sw_join_throttle_ok(&t, &near, now)); /* of the same /64 */
    assert_true(sw_join_throttle_ok(&t, &good, now));
    assert_true(sw_join_throttle_ok(&t, &bad, now + 2 * SW_NS_PER_S));
    sw_join_throttle_done(&t);
}

static void addresses_are_remembered_within_bounds(void **state)
{
    struct sw_join_throttle t = {0};

    (void)state;
    for (unsigned i = 0; i < SW_JOIN_ADDRESSES + 500; i++) {
        struct sw_ip ip = {.family = 4,
                           .b = {10, (uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i}};

        sw_join_throttle_refused(&t, &ip, i + 1);
        assert_true(t.refusals.callers.n <= SW_JOIN_ADDRESSES);
    }
    sw_join_throttle_done(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(fields_that_no_code_can_have_are_refused),
        cmocka_unit_test(every_damage_is_noticed),
        cmocka_unit_test(what_follows_a_code_is_refused),
        cmocka_unit_test(spaces_around_it_are_passed_over),
        cmocka_unit_test(strangers_are_told_what_they_are),
        cmocka_unit_test(refusals_lock_out_their_address_alone),
        cmocka_unit_test(addresses_are_remembered_within_bounds),
    };

    return cmocka_run_group_tests_name("identity join code", tests, NULL, NULL);
}
