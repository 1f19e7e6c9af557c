/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <stdio.h>

/* ---- names ---- */

static void names_go_to_wire_and_back(void **state)
{
    static const struct {
        const char *in;
        const char *out; /* NULL: refused */
    } cases[] = {
        {"a.example", "a.example"},
        {"a.example.", "a.example"},
        {".", "."},
        {"_iroh.X.y", "_iroh.X.y"},
        {"a\\.b.c", "a\\.b.c"},
        {"a\\000b", "a\\000b"},
        {"\\255", "\\255"},
        {"sp\\032ace", "sp\\032ace"},
        {"", NULL},
        {"a..b", NULL},
        {".a", NULL},
        {"..", NULL},
        {"a\\", NULL},
        {"a\\25", NULL},
        {"a\\256", NULL},
        {"0123456789012345678901234567890123456789012345678901234567890123", NULL},
        {"012345678901234567890123456789012345678901234567890123456789012",
         "012345678901234567890123456789012345678901234567890123456789012"},
    };
    char text[SW_DNS_NAME_TEXT];

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_dns_name n;
        int rc = sw_dns_name_parse(sw_slice_str(cases[i].in), &n, NULL);

        if (!cases[i].out) {
            assert_int_equal(rc, SW_EINVAL);
            continue;
        }
        assert_int_equal(rc, SW_OK);
        assert_string_equal(sw_dns_name_text(&n, text), cases[i].out);
    }
}

static void a_name_has_at_most_255_bytes(void **state)
{
    char text[600];
    struct sw_dns_name n;

    (void)state;
    for (size_t len = 240; len < 300; len++) {
        /* labels of one letter: "a.a.a..." takes len + 1 + 1 bytes on the wire for odd len */
        for (size_t i = 0; i < len; i++)
            text[i] = i % 2 ? '.' : 'a';
        if (len % 2 == 0)
            continue;
        assert_int_equal(sw_dns_name_parse(sw_slice(text, len), &n, NULL) == SW_OK,
                         len + 2 <= SW_DNS_NAME_MAX);
    }
}

static void names_compare_without_case(void **state)
{
    struct sw_dns_name a = name_of("Foo.Example");
    struct sw_dns_name b = name_of("foo.eXample");
    struct sw_dns_name zone = name_of("EXAMPLE");
    struct sw_dns_name other = name_of("xexample");
    struct sw_dns_name root = name_of(".");
    struct sw_dns_name up;

    (void)state;
    assert_true(sw_dns_name_eq(&a, &b));
    assert_true(sw_dns_name_under(&a, &zone));
    assert_true(sw_dns_name_under(&zone, &zone));
    assert_false(sw_dns_name_under(&other, &zone));
    assert_false(sw_dns_name_under(&zone, &a));
    assert_true(sw_dns_name_under(&a, &root));
    assert_true(sw_dns_name_parent(&a, &up) && sw_dns_name_eq(&up, &zone));
    assert_true(sw_dns_name_parent(&up, &up) && up.n == 1);
    assert_false(sw_dns_name_parent(&up, &up));
}

/* The list of RFC 4034, 6.1. */
static void names_have_a_canonical_order(void **state)
{
    static const char *const order[] = {"example",         "a.example",      "yljkjljk.a.example",
                                        "Z.a.example",     "zABC.a.EXAMPLE", "z.example",
                                        "\\001.z.example", "*.z.example",    "\\200.z.example"};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(order); i++)
        for (size_t k = 0; k < SW_ARRAY_LEN(order); k++) {
            struct sw_dns_name a = name_of(order[i]);
            struct sw_dns_name b = name_of(order[k]);
            int d = sw_dns_name_cmp(&a, &b);

            assert_true(i < k ? d < 0 : i > k ? d > 0 : d == 0);
        }
}

/* ---- reading ---- */

static int read_at(const char *bytes, size_t n, size_t at, struct sw_dns_name *ret, size_t *end)
{
    struct sw_dns_reader r = {.p = (const uint8_t *)bytes, .n = n, .at = at};
    int rc = sw_dns_read_name(&r, ret);

    *end = r.at;
    return rc;
}

static void compressed_names_are_read(void **state)
{
    static const char m[] = "\3abc\4test\0\2xy\xc0\0\xc0\x0a";
    struct sw_dns_name n;
    size_t end;
    char text[SW_DNS_NAME_TEXT];

    (void)state;
    assert_int_equal(read_at(m, sizeof(m) - 1, 10, &n, &end), SW_OK);
    assert_string_equal(sw_dns_name_text(&n, text), "xy.abc.test");
    assert_int_equal(end, 15);
    assert_int_equal(read_at(m, sizeof(m) - 1, 15, &n, &end), SW_OK);
    assert_string_equal(sw_dns_name_text(&n, text), "xy.abc.test");
    assert_int_equal(end, 17);
}

static void hostile_names_are_refused(void **state)
{
    static const struct {
        const char *m;
        size_t n;
        size_t at;
    } cases[] = {
        {"\xc0\0", 2, 0},        /* points to itself */
        {"\1a\xc0\2", 4, 2},     /* points to its own start */
        {"\xc0\2\xc0\0", 4, 2},  /* to one that points forward */
        {"\xc0\x02\1a\0", 5, 0}, /* forward */
        {"\3ab", 3, 0},          /* cut */
        {"\1a", 2, 0},           /* no end */
        {"\xc0", 1, 0},          /* half a pointer */
        {"\x40\0", 2, 0},        /* reserved kinds of labels */
        {"\x80\0", 2, 0},        {"", 0, 0},
    };
    struct sw_dns_name n;
    size_t end;

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        assert_int_equal(read_at(cases[i].m, cases[i].n, cases[i].at, &n, &end), SW_EPROTO);
        assert_int_equal(end, cases[i].at);
    }
}

static void a_chain_of_pointers_is_bounded_by_its_name(void **state)
{
    char m[4096];
    size_t at = 0;
    struct sw_dns_name n;
    size_t end;

    (void)state;
    /* 200 labels, each followed by a pointer to the one before: too long a name at some point */
    m[at++] = 0;
    for (size_t i = 0; i < 200; i++) {
        size_t before = i ? at - 4 : 0;

        m[at++] = 1;
        m[at++] = 'a';
        m[at++] = (char)(0xc0 | before >> 8);
        m[at++] = (char)before;
    }
    assert_int_equal(read_at(m, at, at - 4, &n, &end), SW_EPROTO);
    assert_int_equal(read_at(m, at, 1 + 4 * 100, &n, &end), SW_OK);
    assert_int_equal(n.n, 2 * 101 + 1);
}

/* ---- writing ---- */

static void names_are_compressed_with_their_case(void **state)
{
    struct sw_dns_name a = name_of("a.Zone.test");
    struct sw_dns_name b = name_of("b.Zone.test");
    struct sw_dns_name c = name_of("c.zone.test");
    uint8_t out[200];
    struct sw_dns_writer w;
    struct sw_dns_reader r;
    struct sw_dns_name n;

    (void)state;
    sw_dns_writer_init(&w, out, sizeof(out));
    sw_dns_put_header(&w, &(struct sw_dns_header){.id = 1});
    sw_dns_put_name(&w, &a, true);
    sw_dns_put_name(&w, &b, true);
    sw_dns_put_name(&w, &a, true);
    sw_dns_put_name(&w, &c, true);
    assert_int_equal(w.n, 12 + 13 + 4 + 2 + (2 + 5 + 2));
    r = (struct sw_dns_reader){.p = out, .n = w.n, .at = 12};
    assert_int_equal(sw_dns_read_name(&r, &n), SW_OK);
    assert_memory_equal(n.b, a.b, a.n);
    assert_int_equal(sw_dns_read_name(&r, &n), SW_OK);
    assert_memory_equal(n.b, b.b, b.n);
    assert_int_equal(sw_dns_read_name(&r, &n), SW_OK);
    assert_memory_equal(n.b, a.b, a.n);
    assert_int_equal(sw_dns_read_name(&r, &n), SW_OK);
    assert_memory_equal(n.b, c.b, c.n);
    assert_int_equal(r.at, r.n);
}

static void a_full_writer_keeps_whole_records(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_dns_name n = name_of("a.test");
    struct sw_slice rdata = sw_dns_txt_rdata(&a, SW_SLICE_LIT("0123456789"));
    uint8_t out[100];

    (void)state;
    for (size_t cap = 12; cap <= sizeof(out); cap++) {
        struct sw_dns_writer w;
        unsigned put = 0;

        sw_dns_writer_init(&w, out, cap);
        sw_dns_put_header(&w, &(struct sw_dns_header){.id = 1});
        while (sw_dns_put_rr(&w, &n, SW_DNS_TXT, SW_DNS_IN, 1, rdata))
            put++;
        assert_false(w.full);
        assert_int_equal(w.n, put ? 12 + 29 + (put - 1) * 23 : 12);
    }
}

static void long_texts_are_cut_into_strings(void **state)
{
    SW_ARENA_AUTO a = {0};
    char text[700];
    struct sw_slice rdata;
    struct sw_slice back;

    (void)state;
    memset(text, 'x', sizeof(text));
    for (size_t n = 0; n <= sizeof(text); n += 5) {
        rdata = sw_dns_txt_rdata(&a, sw_slice(text, n));
        assert_int_equal(rdata.n, n + (n ? (n + 254) / 255 : 1));
        assert_int_equal(sw_dns_txt_join(&a, rdata, &back), SW_OK);
        assert_int_equal(back.n, n);
    }
    assert_int_equal(sw_dns_txt_join(&a, (struct sw_slice){0}, &back), SW_EPROTO);
    assert_int_equal(sw_dns_txt_join(&a, SW_SLICE_LIT("\5abc"), &back), SW_EPROTO);
}

/* ---- signatures; the codes were computed by another program ---- */

static const char key_text[] = "k.example:MDEyMzQ1Njc4OWFiY2RlZg==";

static size_t unhex(const char *hex, uint8_t *out)
{
    size_t n = strlen(hex) / 2;

    for (size_t i = 0; i < n; i++) {
        unsigned v;

        assert_int_equal(sscanf(hex + 2 * i, "%2x", &v), 1);
        out[i] = (uint8_t)v;
    }
    return n;
}

static const char signed_query[] =
    "123400000001000000000001076578616d706c6503636f6d0000010001016b076578616d706c650000fa00ff000000"
    "00003d0b686d61632d7368613235360000006553f100012c0020c839f2fb5b21a24c13b00533e527157dca975ece51"
    "584ddf36350b2e3727a446123400000000";
static const char second_mac[] = "3e81f61782f990dc02b01d3035ef6cab4145d1900489ddde4a45af28b005e522";

static void messages_are_signed_as_elsewhere(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_dns_key key;
    struct sw_dns_tsig_ctx c = {.now_s = 1700000000};
    struct sw_dns_question q = {.name = name_of("example.com"), .type = 1, .class = 1};
    struct sw_dns_writer w;
    uint8_t out[512];
    uint8_t want[512];
    size_t n = unhex(signed_query, want);

    (void)state;
    assert_int_equal(sw_dns_key_parse(&a, sw_slice_str(key_text), &key, NULL), SW_OK);
    sw_dns_writer_init(&w, out, sizeof(out));
    sw_dns_put_header(&w, &(struct sw_dns_header){.id = 0x1234, .qd = 1});
    sw_dns_put_question(&w, &q);
    assert_true(sw_dns_tsig_sign(&w, &key, 0, &c));
    assert_int_equal(w.n, n);
    assert_memory_equal(out, want, n);
    /* the second message of a transfer */
    c.timers_only = true;
    sw_dns_writer_init(&w, out, sizeof(out));
    sw_dns_put_header(&w, &(struct sw_dns_header){.id = 0x1234, .flags = 0x8400});
    assert_true(sw_dns_tsig_sign(&w, &key, 0, &c));
    (void)unhex(second_mac, want);
    assert_memory_equal(c.prior.b, want, 32);
}

static void signatures_are_checked(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_dns_key key;
    struct sw_dns_tsig_found f;
    uint8_t m[512];
    size_t n = unhex(signed_query, m);

    (void)state;
    assert_int_equal(sw_dns_key_parse(&a, sw_slice_str(key_text), &key, NULL), SW_OK);
    for (size_t i = 0; i <= n; i++) {
        struct sw_dns_tsig_ctx c = {.now_s = 1700000100};
        uint8_t old = i < n ? m[i] : 0;
        int rc;

        if (i < n)
            m[i] ^= 1;
        rc = sw_dns_tsig_verify(sw_slice(m, n), &key, 1, &c, &f);
        /* The id may be changed on the way (bytes 0 and 1), everything else may not. The name
         * of key and algorithm has no case. */
        if (i == n || i < 2)
            assert_int_equal(rc, SW_OK);
        else
            assert_int_not_equal(rc, SW_OK);
        if (i < n)
            m[i] = old;
    }
    for (uint64_t t = 1700000000 - 302; t <= 1700000000 + 302; t += 1) {
        struct sw_dns_tsig_ctx c = {.now_s = t};
        int rc = sw_dns_tsig_verify(sw_slice(m, n), &key, 1, &c, &f);

        if (t >= 1700000000 - 300 && t <= 1700000000 + 300) {
            assert_int_equal(rc, SW_OK);
        } else {
            assert_int_equal(rc, SW_EDENIED);
            assert_int_equal(f.error, SW_DNS_BADTIME);
        }
    }
}

static void keys_are_read_in_both_forms(void **state)
{
    static const struct {
        const char *text;
        int rc;
    } cases[] = {
        {"k.example:MDEyMzQ1Njc4OWFiY2RlZg==", SW_OK},
        {"hmac-sha256:K.example.:MDEyMzQ1Njc4OWFiY2RlZg==\n", SW_OK},
        {"key \"k.example\" {\n\talgorithm hmac-sha256;\n\tsecret "
         "\"MDEyMzQ1Njc4OWFiY2RlZg==\";\n};\n",
         SW_OK},
        {"key k.example { secret \"MDEyMzQ1Njc4OWFiY2RlZg==\"; algorithm HMAC-SHA256; };", SW_OK},
        {"hmac-md5:k.example:MDEyMzQ1Njc4OWFiY2RlZg==", SW_EINVAL},
        {"key k.example { algorithm hmac-sha512; secret \"MDEyMzQ1Njc4OWFiY2RlZg==\"; };",
         SW_EINVAL},
        {"k.example", SW_EINVAL},
        {"k.example:!", SW_EINVAL},
        {"k.example:MDE=", SW_EINVAL},
        {":MDEyMzQ1Njc4OWFiY2RlZg==", SW_EINVAL},
        {"", SW_EINVAL},
        {"key {", SW_EINVAL},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_dns_key k;
        struct sw_dns_name want = name_of("k.example");
        struct sw_err err;

        assert_int_equal(sw_dns_key_parse(&a, sw_slice_str(cases[i].text), &k, &err), cases[i].rc);
        if (cases[i].rc != SW_OK)
            continue;
        assert_true(sw_dns_name_eq(&k.name, &want));
        assert_true(sw_slice_eq_str(k.secret, "0123456789abcdef"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_go_to_wire_and_back),
        cmocka_unit_test(a_name_has_at_most_255_bytes),
        cmocka_unit_test(names_compare_without_case),
        cmocka_unit_test(names_have_a_canonical_order),
        cmocka_unit_test(compressed_names_are_read),
        cmocka_unit_test(hostile_names_are_refused),
        cmocka_unit_test(a_chain_of_pointers_is_bounded_by_its_name),
        cmocka_unit_test(names_are_compressed_with_their_case),
        cmocka_unit_test(a_full_writer_keeps_whole_records),
        cmocka_unit_test(long_texts_are_cut_into_strings),
        cmocka_unit_test(messages_are_signed_as_elsewhere),
        cmocka_unit_test(signatures_are_checked),
        cmocka_unit_test(keys_are_read_in_both_forms),
    };

    return cmocka_run_group_tests_name("dns wire", tests, NULL, NULL);
}
