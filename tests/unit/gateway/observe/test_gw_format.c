/* SPDX-License-Identifier: Apache-2.0 */
/* Format strings of headers, tunnels and access logs. */
#include "gw_help.h"

#include "gateway/observe/accesslog.h"

static void operators_expand(void **state)
{
    static const struct {
        const char *format;
        const char *want;
    } cases[] = {
        {"plain", "plain"},
        {"", ""},
        {"100%%", "100%"},
        {"%REQ(:METHOD)% %REQ(:path)%", "GET /a?b"},
        {"%REQ(x-a)%|%REQ(X-None?X-A)%|%REQ(none)%", "value|value|-"},
        {"%REQ(x-a):3%", "val"},
        {"%RESP(y)% %RESPONSE_CODE% %PROTOCOL%", "z 204 HTTP/2"},
        {"%DYNAMIC_METADATA(tunnel:address)%", "h:1"},
        {"%DYNAMIC_METADATA(tunnel:deep:n)% %DYNAMIC_METADATA(none:x)%", "7 -"},
        {"%DOWNSTREAM_REMOTE_ADDRESS% %DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
         "10.0.0.9:5 10.0.0.9"},
        {"%RESPONSE_FLAGS%", "UF,URX"},
        {"%DURATION% %BYTES_RECEIVED% %BYTES_SENT%", "1500 10 20"},
        {"[%START_TIME%]", "[2026-11-15T12:30:00.123Z]"},
        {"%START_TIME(%Y/%m/%d)%", "2026/11/15"},
        {"t=%START_TIME(%s.%3f)%", "t=1794745800.123"},
        {"%START_TIME(%H %f %9f %1f %%f)%", "12 123456789 123456789 1 %f"},
        {"%REQ_WITHOUT_QUERY(:path)% %CONNECTION_TERMINATION_DETAILS% %TRACE_ID%", "/a - -"},
        {"%UPSTREAM_HOST% %UPSTREAM_CLUSTER%", "- c"},
    };
    static const char *const bad[] = {"%NOPE%", "%REQ%",         "%REQ(x",
                                      "100%",   "%PROTOCOL(x)%", "%REQ(x):y%"};
    SW_ARENA_AUTO a = {0};
    struct sw_h1_field req_fields[] = {{SW_SLICE_LIT("X-A"), SW_SLICE_LIT("value")}};
    struct sw_h1_field resp_fields[] = {{SW_SLICE_LIT("y"), SW_SLICE_LIT("z")}};
    struct sw_gw_request req = {.method = SW_SLICE_LIT("GET"),
                                .path = SW_SLICE_LIT("/a?b"),
                                .version = SW_GW_HTTP2,
                                .fields = {.p = req_fields, .n = 1}};
    struct sw_gw_response resp = {.fields = {.p = resp_fields, .n = 1}};
    struct sw_gw_vars v = {.req = &req,
                           .resp = &resp,
                           .status = 204,
                           .http = true,
                           .cluster = SW_SLICE_LIT("c"),
                           .flags = SW_GW_FLAG_UF | SW_GW_FLAG_URX,
                           .start_wall_ns = UINT64_C(1794745800123456789),
                           .duration_ns = UINT64_C(1500000000),
                           .rx_bytes = 10,
                           .tx_bytes = 20};
    struct sw_json *meta;

    (void)state;
    assert_int_equal(
        sw_json_parse(&a, SW_SLICE_LIT("{\"tunnel\":{\"address\":\"h:1\",\"deep\":{\"n\":7}}}"),
                      NULL, &meta, NULL),
        SW_OK);
    v.metadata = meta;
    assert_int_equal(sw_addr_parse(SW_SLICE_LIT("10.0.0.9:5"), &v.peer, NULL), SW_OK);
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        const struct sw_gw_format *f;
        struct sw_err err = {0};
        SW_BUF_AUTO out;

        sw_buf_init(&out, 4096);
        if (sw_gw_format_parse(&a, sw_slice_str(cases[i].format), &f, &err) != SW_OK)
            fail_msg("%s: %s", cases[i].format, err.msg);
        assert_int_equal(sw_gw_format_write(f, &v, "-", false, &out), SW_OK);
        if (!sw_slice_eq_str(sw_buf_slice(&out), cases[i].want))
            fail_msg("%s: '%.*s' instead of '%s'", cases[i].format,
                     SW_SLICE_ARG(sw_buf_slice(&out)), cases[i].want);
    }
    for (size_t i = 0; i < SW_ARRAY_LEN(bad); i++) {
        const struct sw_gw_format *f;

        if (sw_gw_format_parse(&a, sw_slice_str(bad[i]), &f, NULL) != SW_EINVAL)
            fail_msg("accepted: %s", bad[i]);
    }
}

/* A line of text: what a peer sent ends neither its quotes nor its line; what we wrote stays. */
static void values_of_a_line_are_escaped(void **state)
{
    static const char format[] = "\"%REQ(a)%\" %REQ(a):2% \\ \"%REQ(b)%\" %DYNAMIC_METADATA(m)%\n";
    static const char want[] = "\"x\\\"y\\\\\\n\\r\\t\\u0001\\u007f\xc3\xa9\" x\\\" \\ \"\" "
                               "{\"k\":\"v\"}\n";
    SW_ARENA_AUTO a = {0};
    struct sw_h1_field fields[] = {
        {SW_SLICE_LIT("a"), SW_SLICE_LIT("x\"y\\\n\r\t\x01\x7f\xc3\xa9")},
        {SW_SLICE_LIT("b"), SW_SLICE_LIT("")}};
    struct sw_gw_request req = {.fields = {.p = fields, .n = 2}};
    struct sw_gw_vars v = {.req = &req, .http = true};
    const struct sw_gw_format *f;
    struct sw_json *meta;
    SW_BUF_AUTO out;
    SW_BUF_AUTO small;

    (void)state;
    sw_buf_init(&out, 4096);
    sw_buf_init(&small, 5);
    assert_int_equal(sw_json_parse(&a, SW_SLICE_LIT("{\"m\":{\"k\":\"v\"}}"), NULL, &meta, NULL),
                     SW_OK);
    v.metadata = meta;
    assert_int_equal(sw_gw_format_parse(&a, sw_slice_str(format), &f, NULL), SW_OK);
    assert_int_equal(sw_gw_format_write(f, &v, "-", true, &out), SW_OK);
    assert_string_equal(sw_arena_dup(&a, sw_buf_slice(&out)), want);
    assert_int_equal(sw_gw_format_write(f, &v, "-", true, &small), SW_ELIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(operators_expand),
                                       cmocka_unit_test(values_of_a_line_are_escaped)};

    return cmocka_run_group_tests_name("gateway format", tests, NULL, NULL);
}
