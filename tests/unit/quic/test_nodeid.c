/* SPDX-License-Identifier: Apache-2.0 */
/* Keys, NodeIDs and tickets against values that iroh made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "quic/id/nodeid.h"
#include "quic/id/ticket.h"

static struct sw_rawkey *key_of(int byte)
{
    uint8_t seed[SW_SEED_LEN];
    struct sw_rawkey *k;

    memset(seed, byte, sizeof(seed));
    k = sw_rawkey_from_seed(seed, NULL);
    assert_non_null(k);
    return k;
}

static const struct {
    int seed;
    const char *hex;
    const char *z32;
    const char *b32;
} ids[] = {
    {0x00, "3b6a27bcceb6a42d62a3a8d02a6f0d73653215771de243a63ac048a18b59da29",
     "8pinxxgqs41n4aididenw5apqp1urfmzdztr8jt4abrkdn435ewo",
     "hnvcppgow2sc2yvdvdicu3ynonsteflxdxrehjr2ybekdc2z3iuq"},
    {0x2a, "197f6b23e16c8532c6abc838facd5ea789be0c76b2920334039bfa8b3d368d61",
     "df9sse9bp1nuftim3yhxiuk6w6r5hddsskjygpydux7esxjstioo",
     "df7wwi7bnsctfrvlza4pvtk6u6e34ddwwkjagnadtp5iwpjwrvqq"},
};

static void text_forms_are_those_of_iroh(void **state)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(ids); i++) {
        struct sw_rawkey *k = key_of(ids[i].seed);
        const struct sw_nodeid *id = sw_rawkey_id(k);
        char hex[SW_NODEID_HEX];
        char b32[SW_NODEID_B32];
        char upper[SW_NODEID_B32];
        char small[SW_NODEID_SHORT];
        struct sw_nodeid back;

        assert_string_equal(sw_nodeid_hex(id, hex), ids[i].hex);
        assert_int_equal(sw_nodeid_parse(sw_slice_str(hex), &back, NULL), SW_OK);
        assert_true(sw_nodeid_eq(id, &back));
        assert_string_equal(sw_nodeid_z32(id, b32), ids[i].z32);
        memset(&back, 0, sizeof(back));
        assert_int_equal(sw_nodeid_parse_z32(sw_slice_str(b32), &back, NULL), SW_OK);
        assert_true(sw_nodeid_eq(id, &back));
        assert_string_equal(sw_nodeid_b32(id, b32), ids[i].b32);
        for (size_t j = 0; j < sizeof(upper); j++)
            upper[j] = b32[j] >= 'a' ? (char)(b32[j] - 32) : b32[j];
        memset(&back, 0, sizeof(back));
        assert_int_equal(sw_nodeid_parse(sw_slice_str(upper), &back, NULL), SW_OK);
        assert_true(sw_nodeid_eq(id, &back));
        assert_memory_equal(sw_nodeid_short(id, small), ids[i].hex, 10);
        assert_int_equal(strlen(small), 10);
        sw_rawkey_free(k);
    }
}

static void other_texts_are_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "197f",
        /* upper-case hex */
        "197F6B23E16C8532C6ABC838FACD5EA789BE0C76B2920334039BFA8B3D368D61",
        /* one digit more, one that is none */
        "197f6b23e16c8532c6abc838facd5ea789be0c76b2920334039bfa8b3d368d611",
        "197f6b23e16c8532c6abc838facd5ea789be0c76b2920334039bfa8b3d368d6g",
        /* z-base-32 where base32 belongs, and bits left over */
        "df9sse9bp1nuftim3yhxiuk6w6r5hddsskjygpydux7esxjstioo",
        "df7wwi7bnsctfrvlza4pvtk6u6e34ddwwkjagnadtp5iwpjwrvqr",
        /* no point of the curve */
        "0200000000000000000000000000000000000000000000000000000000000000",
    };
    struct sw_nodeid id;
    struct sw_err err;

    for (size_t i = 0; i < SW_ARRAY_LEN(bad); i++)
        assert_int_equal(sw_nodeid_parse(sw_slice_str(bad[i]), &id, &err), SW_EINVAL);
    assert_int_equal(sw_nodeid_parse_z32(sw_slice_str(ids[1].b32), &id, &err), SW_EINVAL);
}

/* The eight points of small order, and encodings of them that are not canonical. */
static void keys_that_prove_nothing_are_refused(void **state)
{
    static const char *const weak[] = {
        "0100000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000080",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0000000000000000000000000000000000000000000000000000000000000080",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    };
    struct sw_nodeid id;

    for (size_t i = 0; i < SW_ARRAY_LEN(weak); i++)
        assert_int_equal(sw_nodeid_parse(sw_slice_str(weak[i]), &id, NULL), SW_EINVAL);
}

/* About half of all strings are points; every key made from a seed is one. */
static void every_real_key_is_valid(void **state)
{
    int valid = 0;

    for (int i = 0; i < 256; i++) {
        struct sw_rawkey *k = key_of(i);
        struct sw_nodeid other = *sw_rawkey_id(k);

        assert_true(sw_nodeid_valid(&other));
        other.b[7] ^= 1;
        valid += sw_nodeid_valid(&other);
        sw_rawkey_free(k);
    }
    assert_in_range(valid, 80, 176);
}

static void signatures_are_those_of_iroh(void **state)
{
    static const uint8_t want[SW_ED25519_SIG] = {
        0x84, 0x43, 0xbb, 0x10, 0x07, 0x75, 0x74, 0xee, 0x76, 0x5d, 0x8b, 0x65, 0x85,
        0xcb, 0x59, 0x0b, 0x3a, 0x6f, 0x89, 0x51, 0x33, 0x6d, 0x37, 0x01, 0x8c, 0x56,
        0x46, 0xb5, 0x61, 0x8d, 0xf5, 0x02, 0x07, 0xbc, 0x2b, 0x45, 0x8d, 0xdc, 0xfa,
        0xee, 0x14, 0xca, 0x46, 0xf8, 0x9b, 0xb5, 0x81, 0xc4, 0xb8, 0x95, 0x12, 0x02,
        0xf6, 0xa0, 0xa8, 0x44, 0x20, 0x18, 0xdd, 0x58, 0x82, 0xaf, 0x63, 0x06};
    struct sw_rawkey *k = key_of(0x2a);
    struct sw_rawkey *other = key_of(0x11);
    uint8_t sig[SW_ED25519_SIG];

    assert_int_equal(sw_rawkey_sign(k, SW_SLICE_LIT("hello"), sig, NULL), SW_OK);
    assert_memory_equal(sig, want, sizeof(sig));
    assert_true(sw_rawkey_verify(sw_rawkey_id(k), SW_SLICE_LIT("hello"), sig));
    assert_false(sw_rawkey_verify(sw_rawkey_id(other), SW_SLICE_LIT("hello"), sig));
    assert_false(sw_rawkey_verify(sw_rawkey_id(k), SW_SLICE_LIT("hellp"), sig));
    sig[5] ^= 1;
    assert_false(sw_rawkey_verify(sw_rawkey_id(k), SW_SLICE_LIT("hello"), sig));
    sw_rawkey_free(k);
    sw_rawkey_free(other);
    sw_rawkey_free(NULL);
}

static void a_key_file_is_made_once_and_kept_private(void **state)
{
    char dir[] = "/tmp/sw-rawkey-XXXXXX";
    char path[64];
    struct sw_rawkey *a;
    struct sw_rawkey *b;
    struct sw_err err;
    struct stat st;
    FILE *f;

    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof(path), "%s/key", dir);
    a = sw_rawkey_open(path, &err);
    assert_non_null(a);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(st.st_size, SW_SEED_LEN);
    b = sw_rawkey_open(path, &err);
    assert_non_null(b);
    assert_true(sw_nodeid_eq(sw_rawkey_id(a), sw_rawkey_id(b)));
    assert_memory_equal(sw_rawkey_seed(a), sw_rawkey_seed(b), SW_SEED_LEN);
    assert_int_equal(chmod(path, 0640), 0);
    assert_null(sw_rawkey_open(path, &err));
    assert_int_equal(err.rc, SW_EINVAL);
    assert_int_equal(chmod(path, 0600), 0);
    f = fopen(path, "ae");
    assert_non_null(f);
    (void)fputc('x', f);
    (void)fclose(f);
    assert_null(sw_rawkey_open(path, &err));
    assert_int_equal(err.rc, SW_EINVAL);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
    sw_rawkey_free(a);
    sw_rawkey_free(b);
}

static const char ticket[] =
    "endpointaamx62zd4fwikmwgvpedr6wnl2tytpqmo2zjeazuaon7vcz5g2gwcayadjuhi5dqom5c6l3smvwgc6jomv4gc"
    "3lqnrss4y3pnuxqcad7aaaaduqjaeasaainxaaaaaaaaaaaaaaaaaaadoyd";

static void tickets_are_those_of_iroh(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_rawkey *k = key_of(0x2a);
    struct sw_addr addrs[3];
    struct sw_quic_target t = {.id = *sw_rawkey_id(k),
                               .relay = SW_SLICE_LIT("https://relay.example.com/"),
                               .addrs = addrs,
                               .n_addrs = 3};
    struct sw_quic_target back;
    struct sw_slice text;

    /* Not in order, and one twice. */
    assert_int_equal(sw_addr_parse(SW_SLICE_LIT("[2001:db8::1]:443"), &addrs[0], NULL), SW_OK);
    assert_int_equal(sw_addr_parse(SW_SLICE_LIT("127.0.0.1:1234"), &addrs[1], NULL), SW_OK);
    addrs[2] = addrs[0];
    text = sw_ticket_write(&a, &t);
    assert_int_equal(text.n, strlen(ticket));
    assert_memory_equal(text.p, ticket, text.n);

    assert_int_equal(sw_ticket_parse(&a, sw_slice_str(ticket), &back, NULL), SW_OK);
    assert_true(sw_nodeid_eq(&back.id, &t.id));
    assert_true(sw_slice_eq(back.relay, t.relay));
    assert_int_equal(back.n_addrs, 2);
    assert_true(sw_addr_eq(&back.addrs[0], &addrs[1]));
    assert_true(sw_addr_eq(&back.addrs[1], &addrs[0]));
    sw_rawkey_free(k);
}

static void broken_tickets_are_refused(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_quic_target t;
    char longer[sizeof(ticket) + 8];
    struct sw_err err;

    assert_int_equal(sw_ticket_parse(&a, SW_SLICE_LIT("blobaaaa"), &t, &err), SW_EINVAL);
    assert_int_equal(sw_ticket_parse(&a, SW_SLICE_LIT("endpoint"), &t, &err), SW_EINVAL);
    for (size_t n = 8; n < strlen(ticket); n++)
        assert_int_equal(sw_ticket_parse(&a, sw_slice(ticket, n), &t, &err), SW_EINVAL);
    (void)snprintf(longer, sizeof(longer), "%saaaaaaaa", ticket);
    assert_int_equal(sw_ticket_parse(&a, sw_slice(longer, strlen(longer)), &t, &err), SW_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_forms_are_those_of_iroh),
        cmocka_unit_test(other_texts_are_refused),
        cmocka_unit_test(keys_that_prove_nothing_are_refused),
        cmocka_unit_test(every_real_key_is_valid),
        cmocka_unit_test(signatures_are_those_of_iroh),
        cmocka_unit_test(a_key_file_is_made_once_and_kept_private),
        cmocka_unit_test(tickets_are_those_of_iroh),
        cmocka_unit_test(broken_tickets_are_refused),
    };

    return cmocka_run_group_tests_name("quic nodeid", tests, NULL, NULL);
}
