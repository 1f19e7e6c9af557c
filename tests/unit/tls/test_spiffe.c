/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/cert/spiffe.h"

#include "test.h"

static void parses_the_one_form(void **state)
{
    struct sw_spiffe id;

    (void)state;
    assert_int_equal(
        sw_spiffe_parse(SW_SLICE_LIT("spiffe://cluster.local/ns/shop/sa/cart"), &id, NULL), SW_OK);
    assert_true(sw_slice_eq_str(id.trust_domain, "cluster.local"));
    assert_true(sw_slice_eq_str(id.ns, "shop"));
    assert_true(sw_slice_eq_str(id.sa, "cart"));
}

static void refuses_everything_else(void **state)
{
    static const struct {
        const char *in;
        size_t offset;
    } cases[] = {
        {"", 0},
        {"spiffe:/td/ns/a/sa/b", 0},
        {"SPIFFE://td/ns/a/sa/b", 0},
        {"https://td/ns/a/sa/b", 0},
        {"spiffe://", 9},
        {"spiffe://td", 12},
        {"spiffe:///ns/a/sa/b", 9},
        {"spiffe://td/n/a/sa/b", 12},
        {"spiffe://td/NS/a/sa/b", 12},
        {"spiffe://td/ns//sa/b", 15},
        {"spiffe://td/ns/a/so/b", 17},
        {"spiffe://td/ns/a/sa", 20},
        {"spiffe://td/ns/a/sa/", 20},
        {"spiffe://td/ns/a/sa/b/", 21},
        {"spiffe://td/ns/a/sa/b/c", 21},
        {"spiffe://td/ns/a/sa/b c", 21},
        {"spiffe://t\xc3\xa4/ns/a/sa/b", 10},
        {"spiffe://td/ns/a/sa/b\n", 21},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_spiffe id = {0};
        struct sw_err err = {0};

        assert_int_equal(sw_spiffe_parse(sw_slice_str(cases[i].in), &id, &err), SW_EINVAL);
        assert_int_equal(err.offset, cases[i].offset);
        assert_null(id.ns.p);
    }
}

static void refuses_embedded_nul(void **state)
{
    struct sw_spiffe id;

    (void)state;
    assert_int_equal(sw_spiffe_parse(SW_SLICE_LIT("spiffe://td/ns/a/sa/b\0evil"), &id, NULL),
                     SW_EINVAL);
    assert_int_equal(sw_spiffe_parse(SW_SLICE_LIT("spiffe://td\0/ns/a/sa/b"), &id, NULL),
                     SW_EINVAL);
}

static void bounds_lengths(void **state)
{
    struct sw_spiffe id;
    char uri[2048];
    int n;

    (void)state;
    n = snprintf(uri, sizeof(uri), "spiffe://td/ns/a/sa/%0253d", 1);
    assert_int_equal(sw_spiffe_parse(sw_slice(uri, (size_t)n), &id, NULL), SW_OK);
    n = snprintf(uri, sizeof(uri), "spiffe://td/ns/a/sa/%0254d", 1);
    assert_int_equal(sw_spiffe_parse(sw_slice(uri, (size_t)n), &id, NULL), SW_EINVAL);
    n = snprintf(uri, sizeof(uri), "spiffe://%0256d/ns/a/sa/b", 1);
    assert_int_equal(sw_spiffe_parse(sw_slice(uri, (size_t)n), &id, NULL), SW_EINVAL);
    n = snprintf(uri, sizeof(uri), "spiffe://%01500d/ns/a/sa/b", 1);
    assert_int_equal(sw_spiffe_parse(sw_slice(uri, (size_t)n), &id, NULL), SW_EINVAL);
}

static void formats_what_it_parses(void **state)
{
    struct sw_slice uri = SW_SLICE_LIT("spiffe://td.example/ns/a-b/sa/c.d");
    struct sw_spiffe id;
    SW_BUF_AUTO out = {0};

    (void)state;
    sw_buf_init(&out, 100);
    assert_int_equal(sw_spiffe_parse(uri, &id, NULL), SW_OK);
    assert_int_equal(sw_spiffe_format(&id, &out, NULL), SW_OK);
    assert_true(sw_slice_eq(sw_buf_slice(&out), uri));
    id.ns = SW_SLICE_LIT("a/b");
    assert_int_equal(sw_spiffe_format(&id, &out, NULL), SW_EINVAL);
    id.ns = SW_SLICE_LIT("");
    assert_int_equal(sw_spiffe_format(&id, &out, NULL), SW_EINVAL);
    id.ns = SW_SLICE_LIT("a");
    id.trust_domain = SW_SLICE_LIT("x y");
    assert_int_equal(sw_spiffe_format(&id, &out, NULL), SW_EINVAL);
    id.trust_domain = SW_SLICE_LIT("td");
    id.sa = SW_SLICE_LIT("s/");
    assert_int_equal(sw_spiffe_format(&id, &out, NULL), SW_EINVAL);
    sw_buf_clear(&out);
    out.max = 10;
    id.sa = SW_SLICE_LIT("s");
    assert_int_equal(sw_spiffe_format(&id, &out, NULL), SW_ELIMIT);
}

static void compares_all_parts(void **state)
{
    struct sw_spiffe a;
    struct sw_spiffe b;

    (void)state;
    assert_int_equal(sw_spiffe_parse(SW_SLICE_LIT("spiffe://td/ns/a/sa/b"), &a, NULL), SW_OK);
    b = a;
    assert_true(sw_spiffe_eq(&a, &b));
    b.sa = SW_SLICE_LIT("c");
    assert_false(sw_spiffe_eq(&a, &b));
    b = a;
    b.trust_domain = SW_SLICE_LIT("TD");
    assert_false(sw_spiffe_eq(&a, &b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parses_the_one_form),    cmocka_unit_test(refuses_everything_else),
        cmocka_unit_test(refuses_embedded_nul),   cmocka_unit_test(bounds_lengths),
        cmocka_unit_test(formats_what_it_parses), cmocka_unit_test(compares_all_parts),
    };

    return cmocka_run_group_tests_name("spiffe", tests, NULL, NULL);
}
