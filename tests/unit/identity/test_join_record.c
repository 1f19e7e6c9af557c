/* SPDX-License-Identifier: Apache-2.0 */
#include "identity/join/record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/def.h"

#define HASH_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define HASH_B "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"

static struct sw_join_record sample(void)
{
    return (struct sw_join_record){.id = SW_SLICE_LIT("site/join-abc"),
                                   .ns = SW_SLICE_LIT("site"),
                                   .kind = SW_JOIN_NODE,
                                   .name = SW_SLICE_LIT("vm"),
                                   .account = SW_SLICE_LIT("legacy"),
                                   .network = SW_SLICE_LIT("net2"),
                                   .address = SW_SLICE_LIT("10.0.0.7"),
                                   .expires_s = 1000,
                                   .secret_hash = SW_SLICE_LIT(HASH_A)};
}

static void a_record_survives_the_api(void **state)
{
    SW_ARENA_AUTO a = {0};
    const struct sw_join_record in = sample();
    struct sw_json *secret = sw_join_record_new(&a, &in);
    struct sw_join_record out = {0};
    struct sw_err err = {0};

    (void)state;
    assert_int_equal(sw_join_record_read(&a, secret, &out, &err), SW_OK);
    assert_true(sw_slice_eq(out.id, in.id) && sw_slice_eq(out.name, in.name));
    assert_true(sw_slice_eq(out.account, in.account) && sw_slice_eq(out.address, in.address));
    assert_true(sw_slice_eq(out.network, in.network));
    assert_int_equal(out.expires_s, 1000);
    assert_int_equal(out.key.n, 0);
    assert_true(sw_slice_eq_str(out.secret_hash, HASH_A));
}

static void redeeming_adds_the_key_and_names_what_was_read(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_join_record r = sample();
    struct sw_json *secret = sw_join_record_new(&a, &r);
    struct sw_json *patch;
    struct sw_join_record out = {0};
    struct sw_json *done;

    (void)state;
    r.uid = SW_SLICE_LIT("u1");
    r.rv = SW_SLICE_LIT("17");
    r.key = SW_SLICE_LIT("spki");
    r.redeemed_at = SW_SLICE_LIT("2026-01-01T00:00:00Z");
    r.from = SW_SLICE_LIT("10.0.0.7");
    patch = sw_join_record_redeem(&a, &r);
    assert_true(sw_json_str_eq(sw_json_walk(patch, "metadata", "resourceVersion", NULL), "17"));
    assert_true(sw_json_str_eq(sw_json_walk(patch, "metadata", "uid", NULL), "u1"));
    done = sw_json_walk(patch, "data", "machine.json", NULL);
    sw_json_put(&a, sw_json_find(secret, "data"), "machine.json", done);
    assert_int_equal(sw_join_record_read(&a, secret, &out, NULL), SW_OK);
    assert_true(sw_slice_eq_str(out.key, "spki") && sw_slice_eq_str(out.from, "10.0.0.7"));
}

/* Who writes Secrets would make a WorkloadEntry of an address that is nobody's to give. */
static void special_addresses_are_refused(void **state)
{
    static const char *const special[] = {"127.0.0.1",     "0.0.0.0",         "169.254.169.254",
                                          "::1",           "fe80::1",         "224.0.0.1",
                                          "fd00:ec2::254", "::ffff:127.0.0.1"};
    SW_ARENA_AUTO a = {0};
    struct sw_join_record out;
    struct sw_err err = {0};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(special); i++) {
        struct sw_join_record r = sample();

        r.address = sw_slice_str(special[i]);
        if (sw_join_record_read(&a, sw_join_record_new(&a, &r), &out, &err) != SW_EDENIED)
            fail_msg("%s", special[i]);
    }
}

static void what_is_no_record_is_refused(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_join_record cases[6];
    struct sw_join_record out;
    struct sw_json *o;

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++)
        cases[i] = sample();
    cases[0].name = SW_SLICE_LIT("Not A Name");
    cases[1].account = SW_SLICE_LIT("../admin");
    cases[2].address = SW_SLICE_LIT("example.com");
    cases[3].secret_hash = SW_SLICE_LIT("short");
    cases[4].account = sw_slice("", 0);
    cases[5].network = SW_SLICE_LIT("a b");
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++)
        assert_int_equal(sw_join_record_read(&a, sw_join_record_new(&a, &cases[i]), &out, NULL),
                         SW_EINVAL);
    cases[0] = sample();
    o = sw_join_record_new(&a, &cases[0]);
    sw_json_put(&a, o, "type", sw_json_new_str(&a, "Opaque"));
    assert_int_equal(sw_join_record_read(&a, o, &out, NULL), SW_EINVAL);
    assert_int_equal(sw_join_record_read(&a, NULL, &out, NULL), SW_EINVAL);
}

static const struct {
    const char *hash;
    const char *stored_key;
    const char *key;
    uint64_t now;
    enum sw_join_verdict verdict;
} judgements[] = {
    {HASH_A, "", "k1", 999, SW_JOIN_FIRST},
    {HASH_A, "", "k1", 1000, SW_JOIN_EXPIRED},
    {HASH_B, "", "k1", 999, SW_JOIN_WRONG},
    {HASH_B, "", "k1", 1000, SW_JOIN_WRONG}, /* whoever has not the secret learns nothing else */
    {HASH_B, "k1", "k1", 999, SW_JOIN_WRONG},
    {HASH_A, "k1", "k1", 999, SW_JOIN_AGAIN},
    {HASH_A, "k1", "k1", 5000, SW_JOIN_AGAIN},
    {HASH_A, "k1", "k2", 999, SW_JOIN_USED},
    {HASH_A, "k1", "k2", 5000, SW_JOIN_USED},
    {HASH_A, "k1", "", 999, SW_JOIN_USED},
};

static void a_code_is_for_one_key(void **state)
{
    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(judgements); i++) {
        struct sw_join_record r = sample();

        r.key = sw_slice_str(judgements[i].stored_key);
        assert_int_equal(sw_join_judge(&r, judgements[i].hash, sw_slice_str(judgements[i].key),
                                       judgements[i].now),
                         judgements[i].verdict);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_survives_the_api),
        cmocka_unit_test(redeeming_adds_the_key_and_names_what_was_read),
        cmocka_unit_test(special_addresses_are_refused),
        cmocka_unit_test(what_is_no_record_is_refused),
        cmocka_unit_test(a_code_is_for_one_key),
    };

    return cmocka_run_group_tests_name("identity join record", tests, NULL, NULL);
}
