/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of the protocol between node agent and node proxy, as the reference writes them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "zds/zds.h"

#define BYTES(s) sw_slice((s), sizeof(s) - 1)

static const char add_bytes[] = "\x0a\x11\x0a\x01u\x12\x0c\x0a\x01n\x12\x02ns\x1a\x03sa1";

static void writes_and_reads_the_reference_bytes(void **state)
{
    static const struct {
        struct sw_zds_request r;
        struct sw_slice bytes;
    } cases[] = {
        {{SW_ZDS_ADD, SW_SLICE_LIT("u"), SW_SLICE_LIT("ns"), SW_SLICE_LIT("n"),
          SW_SLICE_LIT("sa1")},
         {add_bytes, sizeof(add_bytes) - 1}},
        {{.kind = SW_ZDS_DEL, .uid = SW_SLICE_LIT("u")}, SW_SLICE_LIT("\x12\x03\x12\x01u")},
        {{.kind = SW_ZDS_SNAPSHOT}, SW_SLICE_LIT("\x1a\x00")},
        {{.kind = SW_ZDS_KEEP, .uid = SW_SLICE_LIT("u")}, SW_SLICE_LIT("\x2a\x03\x0a\x01u")},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_zds_request back;
        struct sw_slice out;

        assert_int_equal(sw_zds_request_encode(&a, &cases[i].r, &out, NULL), SW_OK);
        assert_true(sw_slice_eq(out, cases[i].bytes));
        assert_int_equal(sw_zds_request_decode(&a, cases[i].bytes, &back, NULL), SW_OK);
        assert_int_equal(back.kind, cases[i].r.kind);
        assert_true(sw_slice_eq(back.uid, cases[i].r.uid));
        assert_true(sw_slice_eq(back.ns, cases[i].r.ns));
        assert_true(sw_slice_eq(back.name, cases[i].r.name));
        assert_true(sw_slice_eq(back.sa, cases[i].r.sa));
    }
}

static void refuses_what_is_no_request(void **state)
{
    static const struct {
        struct sw_slice bytes;
        int rc;
    } cases[] = {
        {SW_SLICE_LIT(""), SW_EPROTO},                      /* nothing */
        {SW_SLICE_LIT("\xff"), SW_EPROTO},                  /* garbage */
        {SW_SLICE_LIT("\x0a\x03\x0a\x01u"), SW_EPROTO},     /* no info */
        {SW_SLICE_LIT("\x12\x00"), SW_EPROTO},              /* no uid */
        {SW_SLICE_LIT("\x12\x03\x0a\x01u"), SW_EPROTO},     /* uid is 2 */
        {SW_SLICE_LIT("\x22\x00"), SW_EPROTO},              /* unknown */
        {SW_SLICE_LIT("\x12\x04\x12\x02u\x00"), SW_EINVAL}, /* NUL */
        {SW_SLICE_LIT("\x12\x04\x12\x02u\n"), SW_EINVAL},   /* control */
        {SW_SLICE_LIT("\x0a\x0c\x0a\x01u\x12\x07\x0a\x00\x12\x00\x1a\x01s"), SW_EINVAL}, /* empty */
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_zds_request r = {.kind = SW_ZDS_KEEP};
        struct sw_err err = {0};

        assert_int_equal(sw_zds_request_decode(&a, cases[i].bytes, &r, &err), cases[i].rc);
        assert_true(err.msg[0] != '\0');
        assert_int_equal(r.kind, SW_ZDS_KEEP); /* untouched */
    }
}

static void bounds_what_it_writes(void **state)
{
    SW_ARENA_AUTO a = {0};
    static char longer[SW_ZDS_PACKET_MAX];
    struct sw_zds_request r = {.kind = SW_ZDS_DEL};
    struct sw_slice out;
    struct sw_slice error;

    (void)state;
    memset(longer, 'x', sizeof(longer));
    r.uid = sw_slice(longer, sizeof(longer));
    assert_int_equal(sw_zds_request_encode(&a, &r, &out, NULL), SW_ELIMIT);
    out = sw_zds_response_encode(&a, sw_slice(longer, sizeof(longer)));
    assert_true(out.n <= SW_ZDS_PACKET_MAX);
    assert_int_equal(sw_zds_response_decode(&a, out, &error, NULL), SW_OK);
    assert_true(error.n > 0);
}

static void responses_and_hello(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice error = SW_SLICE_LIT("?");

    (void)state;
    assert_true(sw_slice_eq(sw_zds_response_encode(&a, sw_slice(NULL, 0)), BYTES("\x0a\x00")));
    assert_int_equal(sw_zds_response_decode(&a, BYTES("\x0a\x00"), &error, NULL), SW_OK);
    assert_int_equal(error.n, 0);
    assert_int_equal(sw_zds_response_decode(&a, BYTES("\x0a\x04\x0a\x02no"), &error, NULL), SW_OK);
    assert_true(sw_slice_eq_str(error, "no"));
    assert_int_equal(sw_zds_response_decode(&a, BYTES(""), &error, NULL), SW_EPROTO);
    assert_true(sw_slice_eq(sw_zds_hello_encode(&a), BYTES("\x08\x01")));
    assert_int_equal(sw_zds_hello_decode(&a, BYTES("\x08\x01"), NULL), SW_OK);
    assert_int_equal(sw_zds_hello_decode(&a, BYTES(""), NULL), SW_EPROTO);
    assert_int_equal(sw_zds_hello_decode(&a, BYTES("\x08\x02"), NULL), SW_EPROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_and_reads_the_reference_bytes),
        cmocka_unit_test(refuses_what_is_no_request),
        cmocka_unit_test(bounds_what_it_writes),
        cmocka_unit_test(responses_and_hello),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
