/* SPDX-License-Identifier: Apache-2.0 */
/* The contract with the proxy in front, case by case. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "quic/id/nodeid.h"
#include "sidecar/request.h"
#include "tunnel/qhead.h"

#define ID  "d3aafc04c9dc9a9608ed9738f2b7c30d9834538e3147ef5f14fe8c725d6baf8f"
#define B32 "2ovpybgj3snjmchns44pfn6dbwmdiu4ogfd66xyu72ghexllv6hq"
#define Z32 "4qixabgj51pjcn8p1hhxfp6dbscdewhqgfd66zaw94g8rzmmi68o"

/* Fields as "name: value|name: value". */
static size_t split(const char *text, struct sw_h1_field *out)
{
    struct sw_slice rest = sw_slice_str(text);
    size_t n = 0;

    while (rest.p && rest.n) {
        struct sw_slice line = sw_slice_cut(&rest, '|');

        out[n].name = sw_slice_cut(&line, ':');
        out[n++].value = sw_slice_trim(line);
    }
    return n;
}

static const struct {
    const char *method;
    const char *authority;
    const char *path;
    const char *protocol;
    bool extended;
    const char *fields;
    /* Refused: */
    unsigned status;
    const char *reason;
    /* Passed on: */
    const char *head;
} cases[] = {
    {"CONNECT", "a:1", "", "", false, "x-iroh-endpoint-id: " ID, 0, NULL,
     "CONNECT a:1 HTTP/1.1|host: a:1||"},
    {"CONNECT", "[2001:db8::1]:443", "", "", false, "X-Iroh-Endpoint-Id: " B32, 0, NULL,
     "CONNECT [2001:db8::1]:443 HTTP/1.1|host: [2001:db8::1]:443||"},
    {"CONNECT", "a:1", "", "", false, "x-iroh-endpoint-id: " Z32, 400, "invalid_endpoint_id", NULL},
    {"CONNECT", "a:1", "", "", false, "", 400, "missing_header_node_id", NULL},
    {"CONNECT", "a:1", "", "", false, "datum-node-id: " ID, 400, "missing_header_node_id", NULL},
    {"CONNECT", "a:1", "", "", false, "x-alias: " ID, 0, NULL, "CONNECT a:1 HTTP/1.1|host: a:1||"},
    {"CONNECT", "a", "", "", false, "x-iroh-endpoint-id: " ID, 400, "invalid_target", NULL},
    {"CONNECT", "u@a:1", "", "", false, "x-iroh-endpoint-id: " ID, 400, "invalid_target", NULL},
    {"CONNECT", "::1:80", "", "", false, "x-iroh-endpoint-id: " ID, 400, "invalid_target", NULL},
    {"GET", "app", "/x?y", "", false,
     "x-iroh-endpoint-id: " ID "|x-datum-target-host: h|x-datum-target-port: 80|Accept: */*|te: a|"
     "proxy-authorization: p",
     0, NULL, "GET http://h:80/x?y HTTP/1.1|host: h:80|accept: */*|x-forwarded-host: app||"},
    {"GET", "app", "/", "", false,
     "datum-node-id: " ID
     "|datum-target-host: [::1]|datum-target-port: 8080|datum-target-proto: tcp",
     0, NULL, "GET http://[::1]:8080/ HTTP/1.1|host: [::1]:8080|x-forwarded-host: app||"},
    {"GET", "app", "/", "", false,
     "x-iroh-endpoint-id: " ID "|x-datum-target-host: ::1|x-datum-target-port: 8080", 0, NULL,
     "GET http://[::1]:8080/ HTTP/1.1|host: [::1]:8080|x-forwarded-host: app||"},
    {"GET", "app", "/", "", false, "x-iroh-endpoint-id: " ID "|x-datum-target-host: h", 400,
     "missing_header", NULL},
    {"GET", "app", "/", "", false,
     "x-iroh-endpoint-id: " ID "|x-datum-target-host: h:1|x-datum-target-port: 2", 400,
     "invalid_target_host", NULL},
    {"GET", "app", "/", "", false,
     "x-iroh-endpoint-id: " ID "|x-datum-target-host: h|x-datum-target-host: i|"
     "x-datum-target-port: 2",
     400, "invalid_target_host", NULL},
    {"GET", "app", "/", "", false,
     "x-iroh-endpoint-id: " ID "|x-datum-target-host: h|x-datum-target-port: 080x", 400,
     "invalid_target_port", NULL},
    {"GET", "app", "nonsense", "", false,
     "x-iroh-endpoint-id: " ID "|x-datum-target-host: h|x-datum-target-port: 80", 400,
     "bad_request", NULL},
    {"CONNECT", "app", "/chat", "websocket", true,
     "x-iroh-endpoint-id: " ID "|x-datum-target-host: h|x-datum-target-port: 80|"
     "sec-websocket-key: k",
     0, NULL,
     "GET http://h:80/chat HTTP/1.1|host: h:80|sec-websocket-key: k|x-forwarded-host: app|"
     "connection: upgrade|upgrade: websocket||"},
    {"CONNECT", "proxy", "/.well-known/masque/udp/%3A%3A1/53/", "connect-udp", true,
     "x-iroh-endpoint-id: " ID "|capsule-protocol: ?1", 0, NULL,
     "GET http://[::1]:53/.well-known/masque/udp/%3A%3A1/53/ HTTP/1.1|host: [::1]:53|"
     "connection: Upgrade|upgrade: connect-udp|capsule-protocol: ?1||"},
    {"CONNECT", "proxy", "/", "connect-udp", true, "x-iroh-endpoint-id: " ID, 404,
     "invalid_udp_path", NULL},
    /* One of each: two could be read differently by others. */
    {"CONNECT", "a:1", "", "", false, "x-iroh-endpoint-id: " ID "|x-iroh-endpoint-id: " ID, 400,
     "invalid_endpoint_id", NULL},
    {"CONNECT", "a:1", "", "", false, "x-iroh-endpoint-id: " ID "|x-alias: " ID, 400,
     "invalid_endpoint_id", NULL},
    {"GET", "app", "/", "", false,
     "x-iroh-endpoint-id: " ID "|x-datum-target-host: h|x-datum-target-port: 2|"
     "x-datum-target-port: 2",
     400, "invalid_target_port", NULL},
    {"GET", "app", "/", "", false,
     "x-iroh-endpoint-id: " ID "|x-datum-target-host: h|x-datum-target-port: 0", 400,
     "invalid_target_port", NULL},
    /* What a resolver would take for an address. */
    {"GET", "app", "/", "", false,
     "x-iroh-endpoint-id: " ID "|x-datum-target-host: 127.1|x-datum-target-port: 2", 400,
     "address_in_disguise", NULL},
    {"CONNECT", "0x7f000001:80", "", "", false, "x-iroh-endpoint-id: " ID, 400,
     "address_in_disguise", NULL},
    {"CONNECT", "proxy", "/.well-known/masque/udp/127.1/53/", "connect-udp", true,
     "x-iroh-endpoint-id: " ID, 400, "address_in_disguise", NULL},
    /* The device hears what a tunnel is for. */
    {"CONNECT", "a:1", "", "", false,
     "x-iroh-endpoint-id: " ID "|" SW_QHEAD_REQUEST_ID ": 7|other: x|" SW_QHEAD_REQUEST ": GET /",
     0, NULL,
     "CONNECT a:1 HTTP/1.1|host: a:1|" SW_QHEAD_REQUEST_ID ": 7|" SW_QHEAD_REQUEST ": GET /||"},
};

static void requests_are_passed_on_or_refused(void **state)
{
    struct side_aliases aliases = {
        .p = {{SW_SLICE_LIT("x-iroh-endpoint-id"), SW_SLICE_LIT("x-alias")}}, .n = 1};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_h1_field fields[16];
        struct side_in in = {
            .method = sw_slice_str(cases[i].method),
            .authority = sw_slice_str(cases[i].authority),
            .path = sw_slice_str(cases[i].path),
            .protocol = sw_slice_str(cases[i].protocol),
            .extended = cases[i].extended,
            .fields = fields,
            .no_body = true,
        };
        struct side_out out;
        struct side_refusal why = {0};
        bool ok;

        in.n = split(cases[i].fields, fields);
        ok = side_request_read(&a, &aliases, &in, &out, &why);
        if (ok != (cases[i].head != NULL))
            fail_msg("case %zu: %s", i, ok ? "accepted" : why.reason);
        if (ok) {
            char want[1024];
            size_t n = 0;

            for (const char *p = cases[i].head; *p; p++) {
                if (*p == '|')
                    want[n++] = '\r';
                want[n++] = *p == '|' ? '\n' : *p;
            }
            want[n] = 0;
            assert_string_equal(out.head.p, want);
            assert_memory_equal(out.node.b, "\xd3\xaa\xfc\x04", 4);
        } else {
            assert_int_equal(why.status, cases[i].status);
            assert_string_equal(why.reason, cases[i].reason);
            assert_non_null(why.text);
        }
    }
}

static void bodies_decide_what_may_be_repeated(void **state)
{
    struct sw_h1_field fields[] = {{SW_SLICE_LIT("x-iroh-endpoint-id"), SW_SLICE_LIT(ID)},
                                   {SW_SLICE_LIT("x-datum-target-host"), SW_SLICE_LIT("h")},
                                   {SW_SLICE_LIT("x-datum-target-port"), SW_SLICE_LIT("1")}};
    static const struct {
        const char *method;
        bool no_body;
        bool safe;
    } c[] = {{"GET", true, true},   {"HEAD", true, true},  {"OPTIONS", true, true},
             {"GET", false, false}, {"POST", true, false}, {"DELETE", true, false},
             {"POST", false, false}};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(c); i++) {
        SW_ARENA_AUTO a = {0};
        struct side_aliases none = {0};
        struct side_in in = {.method = sw_slice_str(c[i].method),
                             .path = SW_SLICE_LIT("/"),
                             .fields = fields,
                             .n = SW_ARRAY_LEN(fields),
                             .no_body = c[i].no_body};
        struct side_out out;
        struct side_refusal why = {0};

        assert_true(side_request_read(&a, &none, &in, &out, &why));
        assert_int_equal(out.safe, c[i].safe);
        assert_int_equal(out.head_only, strcmp(c[i].method, "HEAD") == 0);
    }
}

static void a_head_may_be_too_large_for_a_node(void **state)
{
    static char big[SW_QHEAD_MAX];
    struct sw_h1_field fields[80] = {{SW_SLICE_LIT("x-iroh-endpoint-id"), SW_SLICE_LIT(ID)},
                                     {SW_SLICE_LIT("x-datum-target-host"), SW_SLICE_LIT("h")},
                                     {SW_SLICE_LIT("x-datum-target-port"), SW_SLICE_LIT("1")}};
    struct side_aliases none = {0};
    struct side_in in = {
        .method = SW_SLICE_LIT("GET"), .path = SW_SLICE_LIT("/"), .fields = fields};
    struct side_out out;
    struct side_refusal why = {0};
    SW_ARENA_AUTO a = {0};

    (void)state;
    memset(big, 'a', sizeof(big));
    fields[3] = (struct sw_h1_field){SW_SLICE_LIT("x"), sw_slice(big, sizeof(big))};
    in.n = 4;
    assert_false(side_request_read(&a, &none, &in, &out, &why));
    assert_int_equal(why.status, 431);
    for (size_t i = 3; i < SW_ARRAY_LEN(fields); i++)
        fields[i] = (struct sw_h1_field){SW_SLICE_LIT("x"), SW_SLICE_LIT("y")};
    in.n = 3 + SW_QHEAD_FIELDS - 1; /* Host is one more */
    assert_true(side_request_read(&a, &none, &in, &out, &why));
    in.n++;
    assert_false(side_request_read(&a, &none, &in, &out, &why));
    assert_int_equal(why.status, 431);
}

static void a_cause_that_is_too_long_is_left_out(void **state)
{
    static char text[1025];
    struct sw_h1_field fields[] = {{SW_SLICE_LIT("x-iroh-endpoint-id"), SW_SLICE_LIT(ID)},
                                   {SW_SLICE_LIT(SW_QHEAD_REQUEST), SW_SLICE_LIT("")}};
    struct side_aliases none = {0};
    struct side_in in = {.method = SW_SLICE_LIT("CONNECT"),
                         .authority = SW_SLICE_LIT("a:1"),
                         .fields = fields,
                         .n = SW_ARRAY_LEN(fields)};

    (void)state;
    memset(text, 'x', sizeof(text));
    for (size_t n = 1024; n <= 1025; n++) {
        SW_ARENA_AUTO a = {0};
        struct side_out out;
        struct side_refusal why = {0};

        fields[1].value = sw_slice(text, n);
        assert_true(side_request_read(&a, &none, &in, &out, &why));
        assert_int_equal(out.head.n > 1024, n == 1024);
    }
}

static void every_failure_has_a_status(void **state)
{
    static const struct {
        enum sw_qfail why;
        unsigned status;
    } c[] = {
        {SW_QFAIL_UNKNOWN_NODE, 504}, {SW_QFAIL_LOOKUP, 504},        {SW_QFAIL_OFFLINE, 503},
        {SW_QFAIL_DIAL_TIMEOUT, 504}, {SW_QFAIL_DIAL_FAILED, 504},   {SW_QFAIL_IDENTITY, 502},
        {SW_QFAIL_NOT_ADMITTED, 403}, {SW_QFAIL_LIMIT, 503},         {SW_QFAIL_STREAM, 503},
        {SW_QFAIL_LOST, 502},         {SW_QFAIL_RESET, 502},         {SW_QFAIL_BAD_ANSWER, 502},
        {SW_QFAIL_DRAINING, 503},     {SW_QFAIL_ANSWER_TIMEOUT, 504}};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(c); i++) {
        SW_BUF_AUTO out = {.max = 4096};
        struct side_failure f = side_failure_of(c[i].why);
        struct sw_h1 *p = sw_h1_new(SW_H1_RESPONSE, NULL);
        struct sw_err err = {0};
        enum sw_h1_event event;
        size_t used;

        assert_int_equal(f.status, c[i].status);
        assert_int_equal(side_put_error(&out, f.status, sw_qfail_text(c[i].why), f.proxy_error,
                                        "a \"text\" \\ of\nothers", false),
                         SW_OK);
        assert_int_equal(sw_h1_next(p, sw_buf_slice(&out), &used, &event, &err), SW_OK);
        assert_int_equal(sw_h1_msg(p)->status, (int)c[i].status);
        assert_true(sw_slice_eq_str(*sw_h1_field(sw_h1_msg(p), "x-spanwire-reason"),
                                    sw_qfail_text(c[i].why)));
        assert_int_equal(sw_h1_field(sw_h1_msg(p), "retry-after") != NULL, c[i].status == 503);
        assert_true(sw_slice_has_suffix(*sw_h1_field(sw_h1_msg(p), "proxy-status"),
                                        SW_SLICE_LIT("details=\"a  text    of others\"")));
        sw_h1_free(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_passed_on_or_refused),
        cmocka_unit_test(bodies_decide_what_may_be_repeated),
        cmocka_unit_test(a_head_may_be_too_large_for_a_node),
        cmocka_unit_test(a_cause_that_is_too_long_is_left_out),
        cmocka_unit_test(every_failure_has_a_status),
    };

    return cmocka_run_group_tests_name("sidecar request", tests, NULL, NULL);
}
