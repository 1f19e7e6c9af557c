/* SPDX-License-Identifier: Apache-2.0 */
/* Slices, UTF-8, hashes, maps, rounds, randomness. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/backoff.h"
#include "base/hash.h"
#include "base/hex.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/round.h"
#include "base/search.h"
#include "base/slice.h"
#include "base/utf8.h"

#define S(lit) SW_SLICE_LIT(lit)

static void slices_compare(void **state)
{
    assert_true(sw_slice_eq(S("abc"), S("abc")));
    assert_false(sw_slice_eq(S("abc"), S("abd")));
    assert_false(sw_slice_eq(S("abc"), S("ab")));
    assert_true(sw_slice_eq(sw_slice(NULL, 0), S("")));
    assert_true(sw_slice_ieq(S("HoSt"), S("hOsT")));
    assert_false(sw_slice_ieq(S("a@"), S("a`"))); /* 0x40 and 0x60 are no letters */
    assert_true(sw_slice_cmp(S("a"), S("b")) < 0);
    assert_true(sw_slice_cmp(S("ab"), S("a")) > 0);
    assert_true(sw_slice_cmp(S("a\xff"), S("a\x01")) > 0); /* bytes, not chars */
    assert_int_equal(sw_slice_cmp(S(""), sw_slice(NULL, 0)), 0);
    assert_true(sw_slice_has_prefix(S("abc"), S("ab")));
    assert_true(sw_slice_has_prefix(S("abc"), S("")));
    assert_false(sw_slice_has_prefix(S("ab"), S("abc")));
    assert_true(sw_slice_has_suffix(S("abc"), S("bc")));
    assert_false(sw_slice_has_suffix(S("abc"), S("ab")));
    assert_true(sw_slice_eq_str(sw_slice_str(NULL), ""));
}

static void slices_cut_and_search(void **state)
{
    struct sw_slice rest = S("a,,b,");
    char got[32] = "";

    while (rest.p) {
        struct sw_slice piece = sw_slice_cut(&rest, ',');
        size_t used = strlen(got);

        (void)snprintf(got + used, sizeof(got) - used, "[%.*s]", SW_SLICE_ARG(piece));
    }
    assert_string_equal(got, "[a][][b][]");
    assert_int_equal(sw_slice_find(S("abcb"), 'b'), 1);
    assert_int_equal(sw_slice_rfind(S("abcb"), 'b'), 3);
    assert_int_equal(sw_slice_find(S("abc"), 'x'), -1);
    assert_int_equal(sw_slice_rfind(S(""), 'x'), -1);
    assert_true(sw_slice_eq_str(sw_slice_trim(S(" \t a b\t ")), "a b"));
    assert_int_equal(sw_slice_trim(S(" \t ")).n, 0);
    assert_true(sw_slice_eq_str(sw_slice_from(S("abc"), 1), "bc"));
    assert_int_equal(sw_slice_from(S("abc"), 9).n, 0);
    assert_true(sw_slice_eq_str(sw_slice_head(S("abc"), 2), "ab"));
    assert_int_equal(sw_slice_head(S("abc"), 9).n, 3);
    char *copy = sw_slice_dup(S("abc"));
    assert_string_equal(copy, "abc");
    sw_free(copy);
}

static const struct {
    const char *in;
    uint64_t max;
    bool ok;
    uint64_t value;
} numbers[] = {
    {"0", 10, true, 0},
    {"10", 10, true, 10},
    {"11", 10, false, 0},
    {"007", 10, true, 7},
    {"", 10, false, 0},
    {"-1", 10, false, 0},
    {"+1", 10, false, 0},
    {" 1", 10, false, 0},
    {"1x", 10, false, 0},
    {"18446744073709551615", UINT64_MAX, true, UINT64_MAX},
    {"18446744073709551616", UINT64_MAX, false, 0},
    {"99999999999999999999999", UINT64_MAX, false, 0},
};

static void hex_is_written_small_and_read_whole(void **state)
{
    static const uint8_t bytes[] = {0x00, 0x9a, 0xff, 0x10};
    char text[9] = "........";
    uint8_t back[4] = {0};

    assert_ptr_equal(sw_hex_write(text, bytes, 4), text + 8);
    assert_string_equal(text, "009aff10");
    assert_true(sw_hex_read(S("009AfF10"), back, 4));
    assert_memory_equal(back, bytes, 4);
    assert_true(sw_hex_read(S(""), back, 0));
    assert_false(sw_hex_read(S("009aff1"), back, 4));
    assert_false(sw_hex_read(S("009aff100"), back, 4));
    assert_false(sw_hex_read(S("009aff"), back, 4));
    assert_false(sw_hex_read(S("009afg10"), back, 4));
    assert_false(sw_hex_read(S("00 aff10"), back, 4));
    assert_true(sw_hex_read_lower(S("009aff10"), back, 4));
    assert_false(sw_hex_read_lower(S("009Aff10"), back, 4));
    (void)state;
}

static void escapes_have_two_digits(void **state)
{
    assert_int_equal(sw_hex_escape(S("%2f"), 0), '/');
    assert_int_equal(sw_hex_escape(S("a%fFb"), 1), 0xff);
    assert_int_equal(sw_hex_escape(S("%00"), 0), 0);
    assert_int_equal(sw_hex_escape(S("a2f"), 0), -1);
    assert_int_equal(sw_hex_escape(S("%2"), 0), -1);
    assert_int_equal(sw_hex_escape(sw_slice("%2f", 2), 0), -1); /* the digit is not the slice's */
    assert_int_equal(sw_hex_escape(S("%2x"), 0), -1);
    assert_int_equal(sw_hex_escape(S("%x2"), 0), -1);
    assert_int_equal(sw_hex_escape(S("%2f"), 3), -1);
    (void)state;
}

static void uuids_are_of_version_4(void **state)
{
    char a[SW_UUID_LEN];
    char b[SW_UUID_LEN];

    for (int i = 0; i < 100; i++) {
        assert_string_not_equal(sw_uuid(a), sw_uuid(b));
        assert_int_equal(strlen(a), 36);
        for (size_t k = 0; k < 36; k++) {
            bool dash = k == 8 || k == 13 || k == 18 || k == 23;

            assert_true(dash ? a[k] == '-' : strchr("0123456789abcdef", a[k]) != NULL);
        }
        assert_int_equal(a[14], '4');
        assert_non_null(strchr("89ab", a[19]));
    }
    (void)state;
}

static void numbers_are_decimal_and_bounded(void **state)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(numbers); i++) {
        uint64_t v = 0;

        assert_int_equal(sw_slice_to_u64(sw_slice_str(numbers[i].in), numbers[i].max, &v),
                         numbers[i].ok);
        assert_int_equal(v, numbers[i].value);
    }
}

/* Plain decoder after the table of the Unicode standard, to compare with. */
static bool slow_utf8(const unsigned char *p, size_t n)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};

    for (size_t i = 0; i < n;) {
        size_t len = p[i] < 0x80       ? 1
                     : p[i] >> 5 == 6  ? 2
                     : p[i] >> 4 == 14 ? 3
                     : p[i] >> 3 == 30 ? 4
                                       : 0;
        uint32_t c;

        if (len == 0 || i + len > n)
            return false;
        c = len == 1 ? p[i] : p[i] & (0xffU >> (len + 1));
        for (size_t k = 1; k < len; k++) {
            if (p[i + k] >> 6 != 2)
                return false;
            c = c << 6 | (p[i + k] & 0x3f);
        }
        if (c < least[len] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
            return false;
        i += len;
    }
    return true;
}

static void utf8_is_strict(void **state)
{
    unsigned char b[4];

    assert_true(sw_utf8_valid(S("")));
    for (uint32_t x = 0; x < 0x10000; x++) {
        b[0] = (unsigned char)(x >> 8);
        b[1] = (unsigned char)x;
        assert_int_equal(sw_utf8_valid(sw_slice(b, 2)), slow_utf8(b, 2));
        b[2] = 0x80;
        b[3] = 0xbf;
        assert_int_equal(sw_utf8_valid(sw_slice(b, 3)), slow_utf8(b, 3));
        assert_int_equal(sw_utf8_valid(sw_slice(b, 4)), slow_utf8(b, 4));
    }
    for (int i = 0; i < 200000; i++) {
        uint64_t r = sw_rand_u64();

        memcpy(b, &r, 4);
        b[0] |= 0xc0;
        assert_int_equal(sw_utf8_valid(sw_slice(b, 4)), slow_utf8(b, 4));
    }
}

static void utf8_is_strict_at_any_place(void **state)
{
    char text[40];

    (void)state;
    for (size_t n = 0; n <= sizeof(text); n++) {
        memset(text, 'a', sizeof(text));
        assert_true(sw_utf8_valid(sw_slice(text, n)));
        for (size_t i = 0; i < n; i++) {
            text[i] = (char)0xc3;
            assert_false(sw_utf8_valid(sw_slice(text, n)));
            if (i + 1 < n) {
                text[i + 1] = (char)0xa9;
                assert_true(sw_utf8_valid(sw_slice(text, n)));
                text[i + 1] = 'a';
            }
            text[i] = 'a';
        }
    }
}

/* Computed with another implementation of SipHash-1-3: key 00 01 .. 0f, message 00 01 .. n-1. */
static const struct {
    size_t n;
    uint64_t hash;
} sip[] = {
    {0, UINT64_C(0xabac0158050fc4dc)},  {1, UINT64_C(0xc9f49bf37d57ca93)},
    {2, UINT64_C(0x82cb9b024dc7d44d)},  {3, UINT64_C(0x8bf80ab8e7ddf7fb)},
    {4, UINT64_C(0xcf75576088d38328)},  {5, UINT64_C(0xdef9d52f49533b67)},
    {6, UINT64_C(0xc50d2b50c59f22a7)},  {7, UINT64_C(0xd3927d989bb11140)},
    {8, UINT64_C(0x369095118d299a8e)},  {9, UINT64_C(0x25a48eb36c063de4)},
    {10, UINT64_C(0x79de85ee92ff097f)}, {11, UINT64_C(0x70c118c1f94dc352)},
    {12, UINT64_C(0x78a384b157b4d9a2)}, {13, UINT64_C(0x306f760c1229ffa7)},
    {14, UINT64_C(0x605aa111c0f95d34)}, {15, UINT64_C(0xd320d86d2a519956)},
    {16, UINT64_C(0xcc4fdd1a7d908b66)}, {17, UINT64_C(0x9cf2689063dbd80c)},
};

/* The same, 128 bits. */
static const struct {
    size_t n;
    uint64_t hash[2];
} sip_128[] = {
    {0, {UINT64_C(0xbea58827b2bc7ee7), UINT64_C(0x013030dd6adb62fd)}},
    {1, {UINT64_C(0xa8edd36004376ffc), UINT64_C(0x63f02f2bcc73055e)}},
    {7, {UINT64_C(0xc3e0aaf223b98410), UINT64_C(0x77ab4808c82e2fa6)}},
    {8, {UINT64_C(0xb4dae3d5e1fe12aa), UINT64_C(0x99c7f935ab164f72)}},
    {15, {UINT64_C(0x6c52bdb205557ec1), UINT64_C(0x09017e1eeccd2129)}},
    {16, {UINT64_C(0xeb8e511557d9a8d0), UINT64_C(0x93179e3df8b013b5)}},
    {17, {UINT64_C(0x8d66bb3ff9264123), UINT64_C(0xecf7bdfee8125197)}},
};

static void siphash_matches_vectors(void **state)
{
    unsigned char msg[300];

    for (size_t i = 0; i < sizeof(msg); i++)
        msg[i] = (unsigned char)i;
    for (size_t i = 0; i < SW_ARRAY_LEN(sip); i++)
        assert_int_equal(
            sw_siphash13(UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908), msg, sip[i].n),
            sip[i].hash);
    for (size_t i = 0; i < SW_ARRAY_LEN(sip_128); i++) {
        uint64_t got[2];

        sw_siphash13_128(UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908), msg,
                         sip_128[i].n, got);
        assert_int_equal(got[0], sip_128[i].hash[0]);
        assert_int_equal(got[1], sip_128[i].hash[1]);
    }
    assert_int_equal(sw_siphash13(0, 0, "the quick brown fox", 19), UINT64_C(0x5a17575ad3449cba));
    assert_int_equal(sw_siphash13(1, 2, msg, sizeof(msg)), UINT64_C(0x7d15a48ab68c1f2d));
    assert_int_equal(sw_hash("abc", 3), sw_hash("abc", 3));
    assert_int_not_equal(sw_hash("abc", 3), sw_hash("abd", 3));
}

static void map_agrees_with_a_table(void **state)
{
    enum { KEYS = 500 };
    struct sw_map m = {0};
    static char keys[KEYS][12];
    void *model[KEYS] = {0};
    size_t live = 0;

    assert_null(sw_map_get(&m, S("x")));
    assert_null(sw_map_del(&m, S("x")));
    assert_null(sw_map_next(&m, NULL));
    for (size_t i = 0; i < KEYS; i++)
        (void)snprintf(keys[i], sizeof(keys[i]), "key%zu", i);
    for (int round = 0; round < 50000; round++) {
        size_t k = sw_rand_below(KEYS);
        struct sw_slice key = sw_slice_str(keys[k]);

        if (sw_rand_below(2)) {
            void *value = &keys[sw_rand_below(KEYS)];

            assert_ptr_equal(sw_map_put(&m, key, value), model[k]);
            live += model[k] == NULL;
            model[k] = value;
        } else {
            assert_ptr_equal(sw_map_del(&m, key), model[k]);
            live -= model[k] != NULL;
            model[k] = NULL;
        }
        assert_ptr_equal(sw_map_get(&m, key), model[k]);
        assert_int_equal(m.n, live);
    }
    assert_true(m.cap <= 4096); /* deleted entries do not grow it for ever */
    SW_MAP_FOREACH (it, &m) {
        size_t k = (size_t)(it->key.p - keys[0]) / sizeof(keys[0]);

        assert_ptr_equal(it->value, model[k]);
        assert_ptr_equal(sw_map_del(&m, it->key), model[k]);
        live--;
    }
    assert_int_equal(live, 0);
    assert_int_equal(m.n, 0);
    sw_map_done(&m);
}

static void map_keeps_what_it_has_when_room_is_made(void **state)
{
    static char keys[1000][8];
    struct sw_map m = {0};
    struct sw_map_slot *slots;

    (void)state;
    (void)sw_map_put(&m, SW_SLICE_LIT("x"), keys);
    sw_map_reserve(&m, SW_ARRAY_LEN(keys));
    assert_ptr_equal(sw_map_get(&m, SW_SLICE_LIT("x")), keys);
    slots = m.slots;
    for (size_t i = 1; i < SW_ARRAY_LEN(keys); i++) {
        (void)snprintf(keys[i], sizeof(keys[i]), "%zu", i);
        (void)sw_map_put(&m, sw_slice_str(keys[i]), keys[i]);
    }
    assert_ptr_equal(m.slots, slots); /* it was enough */
    sw_map_reserve(&m, 10);
    assert_ptr_equal(m.slots, slots);
    assert_int_equal(m.n, SW_ARRAY_LEN(keys));
    assert_ptr_equal(sw_map_get(&m, SW_SLICE_LIT("999")), keys[999]);
    sw_map_done(&m);
}

static void map_takes_the_empty_key(void **state)
{
    struct sw_map m = {0};
    int v;

    assert_null(sw_map_put(&m, S(""), &v));
    assert_ptr_equal(sw_map_get(&m, sw_slice(NULL, 0)), &v);
    assert_ptr_equal(sw_map_del(&m, S("")), &v);
    sw_map_done(&m);
}

static void random_numbers_spread(void **state)
{
    unsigned hits[10] = {0};
    unsigned char bytes[64] = {0};
    unsigned zero = 0;

    for (int i = 0; i < 100000; i++) {
        uint64_t r = sw_rand_below(10);

        assert_true(r < 10);
        hits[r]++;
    }
    for (int i = 0; i < 10; i++)
        assert_in_range(hits[i], 9000, 11000);
    assert_int_equal(sw_rand_below(1), 0);
    assert_int_not_equal(sw_rand_u64(), sw_rand_u64());
    sw_rand_bytes(bytes, sizeof(bytes));
    for (size_t i = 0; i < sizeof(bytes); i++)
        zero += bytes[i] == 0;
    assert_true(zero < 10);
    sw_rand_bytes(bytes, 0);
}

static void waits_double_up_to_a_bound(void **state)
{
    struct sw_backoff b = {0};
    uint64_t longest = 100;
    uint64_t least = UINT64_MAX;
    uint64_t most = 0;

    for (int i = 0; i < 100; i++) {
        uint64_t wait = sw_backoff_next(&b, 100, 1000);

        assert_in_range(wait, longest / 2, longest);
        longest = longest * 2 > 1000 ? 1000 : longest * 2;
        if (longest == 1000) {
            least = wait < least ? wait : least;
            most = wait > most ? wait : most;
        }
    }
    assert_true(least < 650 && most > 850); /* spread */
    sw_backoff_reset(&b);
    assert_in_range(sw_backoff_next(&b, 100, 1000), 50, 100);
    sw_backoff_reset(&b);
    assert_in_range(sw_backoff_next(&b, 100, 30), 15, 30);
    b.ns = UINT64_MAX - 1;
    assert_true(sw_backoff_next(&b, 1, UINT64_MAX) >= UINT64_MAX / 2);
    (void)state;
}

static void lower_bounds(void **state)
{
    static const struct {
        int other;
        struct sw_slice name;
    } list[] = {{1, SW_SLICE_LIT("b")},
                {2, SW_SLICE_LIT("d")},
                {3, SW_SLICE_LIT("d")},
                {4, SW_SLICE_LIT("f")}};
    static const struct {
        const char *key;
        size_t at;
    } cases[] = {{"", 0}, {"a", 0}, {"b", 0}, {"c", 1}, {"d", 1}, {"e", 3}, {"f", 3}, {"g", 4}};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++)
        assert_int_equal(sw_lower_bound(list, SW_ARRAY_LEN(list), sizeof(list[0]),
                                        (size_t)((const char *)&list[0].name - (const char *)list),
                                        sw_slice_str(cases[i].key)),
                         cases[i].at);
    assert_int_equal(sw_lower_bound(NULL, 0, 8, 0, SW_SLICE_LIT("a")), 0);
}

static void owners_take_turns(void **state)
{
    struct sw_list owners;
    struct sw_round many;
    struct sw_round few;
    struct sw_list of_many[3] = {0};
    struct sw_list of_few = {0};

    sw_list_init(&owners);
    sw_round_init(&many);
    sw_round_init(&few);
    assert_null(sw_round_next(&owners));
    for (size_t i = 0; i < 3; i++)
        sw_round_add(&owners, &many, &of_many[i]);
    sw_round_add(&owners, &few, &of_few);
    assert_ptr_equal(sw_round_next(&owners), &of_many[0]);
    assert_ptr_equal(sw_round_next(&owners), &of_few);
    sw_round_add(&owners, &few, &of_few);
    sw_list_unlink(&of_many[1]); /* went meanwhile */
    assert_ptr_equal(sw_round_next(&owners), &of_many[2]);
    sw_list_unlink(&of_few);
    assert_null(sw_round_next(&owners)); /* an owner whose queue became empty */
    assert_false(sw_list_linked(&few.turn));
    (void)state;
}

struct named {
    int id;
    struct sw_slice ns;
    struct sw_slice name;
};

static void arrays_sort_by_members(void **state)
{
    struct named v[] = {{1, SW_SLICE_LIT("b"), SW_SLICE_LIT("x")},
                        {2, SW_SLICE_LIT("a"), SW_SLICE_LIT("y")},
                        {3, SW_SLICE_LIT("a"), SW_SLICE_LIT("x")},
                        {4, SW_SLICE_LIT(""), SW_SLICE_LIT("z")}};
    const struct named *p[] = {&v[0], &v[1], &v[2], &v[3]};
    const char *texts[] = {"b", "", "ab"};
    static const int by_both[] = {4, 3, 2, 1};
    static const int by_ns[] = {4, 2, 3, 1};
    static const int by_name[] = {3, 1, 2, 4};

    SW_SORT_POINTERS_BY2(p, SW_ARRAY_LEN(p), ns, name);
    for (size_t i = 0; i < SW_ARRAY_LEN(p); i++)
        assert_int_equal(p[i]->id, by_both[i]);
    SW_SORT_BY(v, SW_ARRAY_LEN(v), ns); /* equal ones keep their order */
    for (size_t i = 0; i < SW_ARRAY_LEN(v); i++)
        assert_int_equal(v[i].id, by_ns[i]);
    SW_SORT_BY2(v, SW_ARRAY_LEN(v), name, ns);
    for (size_t i = 0; i < SW_ARRAY_LEN(v); i++)
        assert_int_equal(v[i].id, by_name[i]);
    sw_text_sort(texts, SW_ARRAY_LEN(texts));
    assert_string_equal(texts[1], "ab");
    sw_sort_by(NULL, 0, 8, &(struct sw_sort_order){0});
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_compare),
        cmocka_unit_test(slices_cut_and_search),
        cmocka_unit_test(hex_is_written_small_and_read_whole),
        cmocka_unit_test(escapes_have_two_digits),
        cmocka_unit_test(uuids_are_of_version_4),
        cmocka_unit_test(numbers_are_decimal_and_bounded),
        cmocka_unit_test(utf8_is_strict),
        cmocka_unit_test(utf8_is_strict_at_any_place),
        cmocka_unit_test(siphash_matches_vectors),
        cmocka_unit_test(map_agrees_with_a_table),
        cmocka_unit_test(map_keeps_what_it_has_when_room_is_made),
        cmocka_unit_test(map_takes_the_empty_key),
        cmocka_unit_test(random_numbers_spread),
        cmocka_unit_test(waits_double_up_to_a_bound),
        cmocka_unit_test(lower_bounds),
        cmocka_unit_test(arrays_sort_by_members),
        cmocka_unit_test(owners_take_turns),
    };

    return cmocka_run_group_tests_name("slice_map", tests, NULL, NULL);
}
