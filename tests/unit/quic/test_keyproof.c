/* SPDX-License-Identifier: Apache-2.0 */
/* What proves a key for a Connector, and what does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/arena.h"
#include "quic/id/keyproof.h"

static const uint8_t seed[SW_SEED_LEN] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                          1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
/* Signed by another implementation, with this seed, for the object below at 100. */
static const char vector[] =
    "v1.100.25a04adad747699fc6852088382e5b7638ea99c4deb369e69a5b214464a009ee9b8363ad3cbcba4dd7ebd6"
    "22d19aea8bee2faa0379e6d1c1b8fecf36736ff60d";
#define KEY   "8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c"
#define OTHER "8139770ea87d175f56a35466c34c7ecccb8d8a91b4ee37a25df60f5b8fc9b394"

static const struct {
    const char *uid;
    const char *ns;
    const char *name;
    const char *rv;
    const char *key;
    const char *text; /* NULL: no annotation */
    enum sw_keyproof want;
} cases[] = {
    {"u-genuine", "a", "genuine", "100", KEY, vector, SW_KEYPROOF_VALID},
    {"u-genuine", "a", "genuine", "18446744073709551615", KEY, vector, SW_KEYPROOF_VALID},
    {"u-genuine", "a", "genuine", "99", KEY, vector, SW_KEYPROOF_AHEAD},
    {"u-genuine", "a", "genuine", "", KEY, vector, SW_KEYPROOF_AHEAD},
    {"u-genuine", "a", "genuine", "0x100", KEY, vector, SW_KEYPROOF_AHEAD},
    {"u-genuine", "a", "genuine", "100", OTHER, vector, SW_KEYPROOF_WRONG},
    {"u-other", "a", "genuine", "100", KEY, vector, SW_KEYPROOF_WRONG},
    {"u-genuine", "b", "genuine", "100", KEY, vector, SW_KEYPROOF_WRONG},
    {"u-genuine", "a", "other", "100", KEY, vector, SW_KEYPROOF_WRONG},
    {"", "a", "genuine", "100", KEY, vector, SW_KEYPROOF_WRONG},
    /* The same bytes in a row, cut in another place. */
    {"u-genuin", "ea", "genuine", "100", KEY, vector, SW_KEYPROOF_WRONG},
    {"u-genuine", "a", "genuine", "100", "", vector, SW_KEYPROOF_NO_KEY},
    {"u-genuine", "a", "genuine", "100", "8A88", vector, SW_KEYPROOF_NO_KEY},
    /* A point of small order: its "signatures" fit many messages. */
    {"u-genuine", "a", "genuine", "100",
     "0100000000000000000000000000000000000000000000000000000000000000", vector,
     SW_KEYPROOF_NO_KEY},
    {"u-genuine", "a", "genuine", "100", KEY, NULL, SW_KEYPROOF_MISSING},
    {"u-genuine", "a", "genuine", "100", KEY, "", SW_KEYPROOF_MALFORMED},
    {"u-genuine", "a", "genuine", "100", KEY, "v1", SW_KEYPROOF_MALFORMED},
    {"u-genuine", "a", "genuine", "100", KEY, "v1.100", SW_KEYPROOF_MALFORMED},
    {"u-genuine", "a", "genuine", "100", KEY, "v1.100.", SW_KEYPROOF_MALFORMED},
};

static struct sw_json *connector(struct sw_arena *a, size_t i)
{
    struct sw_json *obj = NULL;
    char *text = sw_arena_printf(
        a,
        "{\"metadata\":{\"uid\":\"%s\",\"namespace\":\"%s\",\"name\":\"%s\",\"resourceVersion\":"
        "\"%s\",\"annotations\":{\"%s\":\"%s\"}},\"status\":{\"connectionDetails\":{\"publicKey\":"
        "{\"id\":\"%s\"}}}}",
        cases[i].uid, cases[i].ns, cases[i].name, cases[i].rv,
        cases[i].text ? SW_KEYPROOF : "something.else", cases[i].text ? cases[i].text : "",
        cases[i].key);

    assert_int_equal(sw_json_parse(a, sw_slice_str(text), NULL, &obj, NULL), SW_OK);
    return obj;
}

static void judges(void **state)
{
    SW_ARENA_AUTO a = {0};

    (void)state;
    for (int round = 0; round < 2; round++) { /* the second from memory */
        for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
            uint64_t version = 7;

            assert_int_equal(sw_keyproof_check(connector(&a, i), &version), cases[i].want);
            assert_int_equal(version, cases[i].want == SW_KEYPROOF_VALID ? 100 : 0);
        }
    }
}

static void signs_one_way(void **state)
{
    struct sw_err err = {0};
    struct sw_rawkey *key = sw_rawkey_from_seed(seed, &err);
    struct sw_keyproof_of of = {SW_SLICE_LIT("u-genuine"), SW_SLICE_LIT("a"),
                                SW_SLICE_LIT("genuine"), 100};
    char text[SW_KEYPROOF_TEXT];

    (void)state;
    assert_non_null(key);
    assert_int_equal(sw_keyproof_sign(key, &of, text, &err), SW_OK);
    assert_string_equal(text, vector);
    of.version = UINT64_MAX;
    assert_int_equal(sw_keyproof_sign(key, &of, text, &err), SW_OK);
    assert_int_equal(strlen(text), SW_KEYPROOF_TEXT - 1);
    of.uid = sw_slice("", 0);
    assert_int_equal(sw_keyproof_sign(key, &of, text, &err), SW_EINVAL);
    sw_rawkey_free(key);
}

/* Every text but the one that is written is refused. */
static void reads_one_form(void **state)
{
    char text[sizeof(vector)];
    uint8_t sig[SW_ED25519_SIG];
    uint64_t version;

    (void)state;
    for (size_t i = 0; i < sizeof(vector) - 1; i++) {
        memcpy(text, vector, sizeof(vector));
        text[i] = i < 7 ? '0' : 'A';
        if (vector[i] != text[i])
            assert_int_equal(sw_keyproof_parse(sw_slice_str(text), &version, sig), SW_EINVAL);
        assert_int_equal(sw_keyproof_parse(sw_slice(vector, i), &version, sig), SW_EINVAL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(judges),
        cmocka_unit_test(signs_one_way),
        cmocka_unit_test(reads_one_form),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
