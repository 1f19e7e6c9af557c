/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "connector/inspect/capture.h"

static const struct sw_h1_field fields[] = {
    {SW_SLICE_LIT("Host"), SW_SLICE_LIT("a.example")},
    {SW_SLICE_LIT("X-Empty"), SW_SLICE_LIT("")},
    {SW_SLICE_LIT("Cookie"), SW_SLICE_LIT("sid=1")},
};

static struct sw_capture *begin(struct sw_capture_store *s)
{
    struct sw_capture *c = sw_capture_new(s);
    struct sw_h1_msg m = {.method = SW_SLICE_LIT("POST"),
                          .target = SW_SLICE_LIT("/x?y"),
                          .path_query = SW_SLICE_LIT("/x?y"),
                          .authority = SW_SLICE_LIT("a.example"),
                          .fields = fields,
                          .nfields = SW_ARRAY_LEN(fields)};

    if (c)
        sw_capture_head(c, false, &m);
    return c;
}

static void test_an_exchange_is_kept_as_it_was(void **state)
{
    struct sw_capture_store s;
    struct sw_capture *c;
    const struct sw_capture *found;
    struct sw_h1_field f;
    size_t at = 0;

    (void)state;
    sw_captures_init(&s);
    c = begin(&s);
    sw_capture_body(c, false, SW_SLICE_LIT("he"));
    sw_capture_body(c, false, SW_SLICE_LIT("llo"));
    sw_capture_end(c, false);
    sw_capture_head(c, true, &(struct sw_h1_msg){.status = 204});
    found = sw_captures_find(&s, sw_capture_keep(c));
    assert_ptr_equal(found, c);
    assert_true(sw_slice_eq_str(sw_buf_slice(&c->target), "/x?y"));
    assert_true(sw_slice_eq_str(sw_buf_slice(&c->req.body), "hello"));
    assert_true(c->req.complete && !c->resp.complete && !c->req.cut_body && c->status == 204);
    for (size_t i = 0; i < SW_ARRAY_LEN(fields); i++) {
        assert_true(sw_captured_next(&c->req, &at, &f));
        assert_true(sw_slice_eq(f.name, fields[i].name) && sw_slice_eq(f.value, fields[i].value));
    }
    assert_false(sw_captured_next(&c->req, &at, &f));
    assert_null(sw_captures_find(&s, 2));
    sw_captures_done(&s);
    assert_int_equal(s.bytes, 0);
}

static void test_bounds_of_one(void **state)
{
    static char big[SW_CAPTURE_BODY + 10];
    struct sw_h1_field large = {SW_SLICE_LIT("X-Large"), sw_slice(big, SW_CAPTURE_HEAD)};
    struct sw_h1_msg m = {.method = SW_SLICE_LIT("GET"),
                          .path_query = sw_slice(big, SW_CAPTURE_TARGET + 1),
                          .fields = &large,
                          .nfields = 1};
    struct sw_capture_store s;
    struct sw_capture *c;

    (void)state;
    sw_captures_init(&s);
    c = sw_capture_new(&s);
    sw_capture_head(c, false, &m);
    assert_true(c->cut_target && c->req.cut_head);
    assert_int_equal(sw_buf_len(&c->req.head), 0); /* no half field */
    sw_capture_body(c, false, sw_slice(big, SW_CAPTURE_BODY - 1));
    assert_false(c->req.cut_body);
    sw_capture_body(c, false, SW_SLICE_LIT("ab"));
    sw_capture_body(c, false, SW_SLICE_LIT("c"));
    assert_true(c->req.cut_body);
    assert_int_equal(sw_buf_len(&c->req.body), SW_CAPTURE_BODY);
    assert_int_equal(c->req.body_bytes, SW_CAPTURE_BODY + 2);
    sw_capture_drop(c);
    assert_int_equal(s.bytes, 0);
}

/* The oldest go, by number and by bytes; what is under way counts, too, and goes on without. */
static void test_bounds_of_all(void **state)
{
    static char big[SW_CAPTURE_BODY];
    struct sw_capture *under_way[600] = {0};
    struct sw_capture_store s;
    size_t n = 0;

    (void)state;
    sw_captures_init(&s);
    for (size_t i = 0; i < SW_CAPTURES_MAX + 5; i++)
        (void)sw_capture_keep(begin(&s));
    assert_int_equal(s.n, SW_CAPTURES_MAX);
    assert_null(sw_captures_find(&s, 5));
    assert_non_null(sw_captures_find(&s, 6));
    while (n < SW_ARRAY_LEN(under_way) && (under_way[n] = begin(&s))) {
        sw_capture_body(under_way[n], true, sw_slice(big, sizeof(big)));
        assert_true(s.bytes <= SW_CAPTURE_TOTAL);
        n++;
    }
    assert_int_equal(s.n, 0); /* what was kept made room */
    assert_true(under_way[n - 1]->resp.cut_body);
    while (n--)
        sw_capture_drop(under_way[n]);
    assert_int_equal(s.bytes, 0);
}

/* The store is full of what is under way, and the oldest kept one is what is to be sent again. */
static void test_a_copy_does_not_drop_its_original(void **state)
{
    static char big[SW_CAPTURE_BODY];
    struct sw_h1_field f = {SW_SLICE_LIT("X-Large"), sw_slice(big, SW_CAPTURE_HEAD - 100)};
    struct sw_h1_msg m = {
        .method = SW_SLICE_LIT("PUT"), .target = SW_SLICE_LIT("/a"), .fields = &f, .nfields = 1};
    struct sw_capture *under_way[600] = {0};
    struct sw_h1_field again[1];
    struct sw_capture_store s;
    struct sw_capture *x;
    struct sw_capture *copy;
    size_t at = 0;
    size_t n = 0;

    (void)state;
    memset(big, 'b', sizeof(big));
    sw_captures_init(&s);
    x = sw_capture_new(&s);
    sw_capture_head(x, false, &m);
    sw_capture_body(x, false, sw_slice(big, sizeof(big)));
    (void)sw_capture_keep(x);
    assert_true(sw_captured_next(&x->req, &at, &again[0]));
    while (s.bytes + 2 * sizeof(big) < SW_CAPTURE_TOTAL) {
        under_way[n] = begin(&s);
        sw_capture_body(under_way[n++], true, sw_slice(big, sizeof(big)));
    }
    assert_null(sw_capture_copy(x, again, 1)); /* half a request is another one */
    assert_ptr_equal(sw_captures_find(&s, 1), x);
    while (n--)
        sw_capture_drop(under_way[n]);
    copy = sw_capture_copy(x, again, 1);
    assert_true(sw_slice_eq(sw_buf_slice(&copy->req.head), sw_buf_slice(&x->req.head)));
    assert_true(sw_slice_eq(sw_buf_slice(&copy->req.body), sw_buf_slice(&x->req.body)));
    assert_true(copy->replay_of == 1 && copy->req.complete);
    sw_capture_drop(copy);
    sw_captures_done(&s);
    assert_int_equal(s.bytes, 0);
}

static void test_secrets(void **state)
{
    static const char *const hidden[] = {"Authorization",
                                         "proxy-authorization",
                                         "Cookie",
                                         "Set-Cookie",
                                         "X-Api-Key",
                                         "X-CSRF-Token",
                                         "X-Hub-Signature",
                                         "x-session-id",
                                         "Client-Secret",
                                         "X-Functions-Key",
                                         "aws_access_key_id",
                                         "X-Auth",
                                         "X-Goog-IAP-JWT-Assertion"};
    static const char *const shown[] = {"Host", "Accept", "X-Request-Id", "Author", "Content-Type"};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(hidden); i++)
        assert_true(sw_capture_secret(sw_slice_str(hidden[i])));
    for (size_t i = 0; i < SW_ARRAY_LEN(shown); i++)
        assert_false(sw_capture_secret(sw_slice_str(shown[i])));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_exchange_is_kept_as_it_was),
        cmocka_unit_test(test_bounds_of_one),
        cmocka_unit_test(test_bounds_of_all),
        cmocka_unit_test(test_a_copy_does_not_drop_its_original),
        cmocka_unit_test(test_secrets),
    };

    return cmocka_run_group_tests_name("connector_capture", tests, NULL, NULL);
}
