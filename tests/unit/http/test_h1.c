/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "h1_trace.h"
#include "http/grammar.h"

#define H "Host: a\r\n"

/* 0: accepted. */
static const struct {
    const char *in;
    int status;
} requests[] = {
    {"GET / HTTP/1.1\r\n" H "\r\n", 0},
    {"GET / HTTP/1.0\r\n\r\n", 0},
    {"\r\nGET / HTTP/1.1\r\n" H "\r\n", 0},
    {"OPTIONS * HTTP/1.1\r\n" H "\r\n", 0},
    {"CONNECT db.shop.svc:5432 HTTP/1.1\r\nHost: db.shop.svc:5432\r\n\r\n", 0},
    {"CONNECT [2001:db8::7]:443 HTTP/1.1\r\nHost: x\r\n\r\n", 0},
    {"GET http://a/x?y HTTP/1.1\r\n" H "\r\n", 0},
    {"GET http://a:80 HTTP/1.1\r\n" H "\r\n", 0},
    {"GET https://A:443/ HTTP/1.1\r\n" H "\r\n", 0},
    {"GET / HTTP/1.1\r\nHost:\r\n\r\n", 0},
    {"GET / HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n", 0},
    {"GET / HTTP/1.1\r\n" H "X: a\tb \xc3\xa9\t\r\n\r\n", 0},
    {"GET / HTTP/1.1\r\n" H "X:\r\n\r\n", 0},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\nhello", 0},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 0},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n"
     "5;x=\"y z\"\r\nhello\r\n00\r\nT: v\r\n\r\n",
     0},
    {"POST / HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 1\r\n\r\nx", 0},
    {"GET / HTTP/1.1\r\n" H "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n", 0},
    /* lines */
    {"GET / HTTP/1.1\n" H "\r\n", 400},
    {"GET / HTTP/1.1\r\nHost: a\n\r\n", 400},
    {"GET / HTTP/1.1\r\n" H "\n", 400},
    {"\r\n\r\nGET / HTTP/1.1\r\n" H "\r\n", 400},
    {"\nGET / HTTP/1.1\r\n" H "\r\n", 400},
    {"GET / HTTP/1.1\r\n" H "X: a\rb\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\r\n" H "\r\n", 400},
    /* start line */
    {"GET  / HTTP/1.1\r\n" H "\r\n", 400},
    {"GET /  HTTP/1.1\r\n" H "\r\n", 400},
    {"GET / HTTP/1.1 \r\n" H "\r\n", 400},
    {" GET / HTTP/1.1\r\n" H "\r\n", 400},
    {"GET\t/ HTTP/1.1\r\n" H "\r\n", 400},
    {"GET /\r\n" H "\r\n", 400},
    {"GE(T / HTTP/1.1\r\n" H "\r\n", 400},
    {"GET / http/1.1\r\n" H "\r\n", 400},
    {"GET / HTTP/1.10\r\n" H "\r\n", 400},
    {"GET / HTTP/11\r\n" H "\r\n", 400},
    {"GET / HTTP/1.2\r\n" H "\r\n", 505},
    {"GET / HTTP/0.9\r\n" H "\r\n", 505},
    {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
    {"GET /a b HTTP/1.1\r\n" H "\r\n", 400},
    {"GET /\x01 HTTP/1.1\r\n" H "\r\n", 400},
    {"GET /\xff HTTP/1.1\r\n" H "\r\n", 400},
    {"GET /#f HTTP/1.1\r\n" H "\r\n", 400},
    {"GET /\\x HTTP/1.1\r\n" H "\r\n", 400},
    /* targets */
    {"GET * HTTP/1.1\r\n" H "\r\n", 400},
    {"GET a HTTP/1.1\r\n" H "\r\n", 400},
    {"GET a:80 HTTP/1.1\r\n" H "\r\n", 400},
    {"GET http:///x HTTP/1.1\r\n" H "\r\n", 400},
    {"GET http://u@a/ HTTP/1.1\r\n" H "\r\n", 400},
    {"GET http://b/ HTTP/1.1\r\n" H "\r\n", 400},
    {"GET 1http://a/ HTTP/1.1\r\n" H "\r\n", 400},
    {"CONNECT / HTTP/1.1\r\n" H "\r\n", 400},
    {"CONNECT a HTTP/1.1\r\n" H "\r\n", 400},
    {"CONNECT a:0 HTTP/1.1\r\n" H "\r\n", 400},
    {"CONNECT a:65536 HTTP/1.1\r\n" H "\r\n", 400},
    {"CONNECT http://a:80/ HTTP/1.1\r\n" H "\r\n", 400},
    {"CONNECT a:80 HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nabc", 400},
    {"CONNECT a:80 HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
    /* fields */
    {"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\n" H "X\t: a\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\n" H " folded\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\n" H "X: a\r\n\tb\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\n" H "X: a\x01\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\n" H "X: a\x7f\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\n" H ": a\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\n" H "novalue\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\n" H "X(: a\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\n" H "\xc3\xa9: a\r\n\r\n", 400},
    /* host */
    {"GET / HTTP/1.1\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\n" H H "\r\n", 400},
    {"GET / HTTP/1.0\r\n" H H "\r\n", 400},
    {"GET / HTTP/1.1\r\nHost: a,b\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\nHost: a:\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\nHost: a:99999\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\nHost: :80\r\n\r\n", 400},
    /* framing */
    {"POST / HTTP/1.1\r\n" H "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     400},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
     400},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 400},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 5, 5\r\n\r\nhello", 400},
    {"POST / HTTP/1.1\r\n" H "Content-Length: +5\r\n\r\nhello", 400},
    {"POST / HTTP/1.1\r\n" H "Content-Length: -5\r\n\r\nhello", 400},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 0x5\r\n\r\nhello", 400},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 5 5\r\n\r\nhello", 400},
    {"POST / HTTP/1.1\r\n" H "Content-Length:\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 99999999999999999999\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 18446744073709551615\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: gzip\r\n\r\n", 501},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", 501},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked;x\r\n\r\n0\r\n\r\n", 501},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", 501},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding:\r\n\r\n", 501},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: \x0b"
     "chunked\r\n\r\n0\r\n\r\n",
     400},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n",
     400},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
     400},
    {"POST / HTTP/1.0\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" H "Expect: 200-maybe\r\n\r\n", 417},
};

#define C "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
static const struct {
    const char *in;
    int status;
} chunks[] = {
    {C "A\r\n0123456789\r\n0\r\n\r\n", 0},
    {C "0000000000000001\r\nx\r\n0\r\n\r\n", 0},
    {C "00000000000000001\r\nx\r\n0\r\n\r\n", 400},
    {C "ffffffffffffffff\r\nx", 413},
    {C "10000000000000000\r\nx", 400},
    {C "\r\nx\r\n0\r\n\r\n", 400},
    {C "0x1\r\nx\r\n0\r\n\r\n", 400},
    {C "+1\r\nx\r\n0\r\n\r\n", 400},
    {C "-1\r\nx\r\n0\r\n\r\n", 400},
    {C " 1\r\nx\r\n0\r\n\r\n", 400},
    {C "1 \r\nx\r\n0\r\n\r\n", 400},
    {C "1 ;a\r\nx\r\n0\r\n\r\n", 400},
    {C "1\nx\r\n0\r\n\r\n", 400},
    {C "1\r\nx\n0\r\n\r\n", 400},
    {C "1\r\nx\r0\r\n\r\n", 400},
    {C "1\r\nxy\r\n0\r\n\r\n", 400},
    {C "1;a\x01\r\nx\r\n0\r\n\r\n", 400},
    {C "1;a\rb\r\nx\r\n0\r\n\r\n", 400},
    {C "0\r\nX : v\r\n\r\n", 400},
    {C "0\r\n folded\r\n\r\n", 400},
    {C "0\r\nContent-Length: 5\r\n\r\n", 400},
    {C "0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
    {C "0\r\nHost: b\r\n\r\n", 400},
    {C "0\r\nX: 1\n\r\n", 400},
    {C "0\r\n\n", 400},
    {C "5\r\nhel", 400}, /* cut */
    {C "0\r\n", 400},
};

static const struct {
    const char *answers;
    const char *in;
    const char *want; /* beginning of the trace; NULL = refused */
} responses[] = {
    {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "200 OK 1.1 length 2 keep"},
    {"GET", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", "200  1.1 length 0 keep"},
    {"GET", "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", "200  1.1 length 0 keep"},
    {"GET", "HTTP/1.1 200 OK\r\n\r\nuntil close", "200 OK 1.1 close 0"},
    {"GET", "HTTP/1.0 200 OK\r\n\r\nuntil close", "200 OK 1.0 close 0"},
    {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", "200 OK 1.1 none 2 keep"},
    {"HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "200 OK 1.1 none 0 keep"},
    {"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", "304 Not Modified 1.1 none"},
    {"GET", "HTTP/1.1 204 No Content\r\n\r\n", "204 No Content 1.1 none"},
    {"GET", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 x\r\n\r\n", "100 Continue 1.1 none"},
    {"GET", "HTTP/1.1 101 x\r\nConnection: upgrade\r\nUpgrade: ws\r\n\r\nraw",
     "101 x 1.1 tunnel 0 upgrade=ws"},
    {"CONNECT", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nraw", "200 OK 1.1 tunnel"},
    {"CONNECT", "HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno", "403 No 1.1 length 2"},
    {"GET", "HTTP/1.1 204 x\r\nContent-Length: 5\r\n\r\n", NULL},
    {"GET", "HTTP/1.1 204 x\r\nTransfer-Encoding: chunked\r\n\r\n", NULL},
    {"GET", "HTTP/1.1 20 x\r\n\r\n", NULL},
    {"GET", "HTTP/1.1 2000 x\r\n\r\n", NULL},
    {"GET", "HTTP/1.1 099 x\r\n\r\n", NULL},
    {"GET", "HTTP/1.1  200 x\r\n\r\n", NULL},
    {"GET", "HTTP/2.0 200 x\r\n\r\n", NULL},
    {"GET", "HTTP/1.1 200 a\x01\r\n\r\n", NULL},
    {"GET", "ICY 200 OK\r\n\r\n", NULL},
    {"GET", "\r\nHTTP/1.1 200 OK\r\n\r\n", NULL},
    {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", NULL},
};

static const struct sw_h1_limits body_limit = {.body = 1000};

/* Runs whole and cut in every size up to the length; all must agree. Returns the whole one. */
static struct trace run_cuts(enum sw_h1_kind kind, const struct sw_h1_limits *limits,
                             const char *answers, struct sw_slice in)
{
    struct trace whole;

    trace_run(&whole, kind, limits, sw_slice_str(answers), in, in.n);
    for (size_t step = 1; step < in.n; step = step < 8 ? step + 1 : step * 2) {
        struct trace cut;

        trace_run(&cut, kind, limits, sw_slice_str(answers), in, step);
        if (!sw_slice_eq(sw_buf_slice(&whole.out), sw_buf_slice(&cut.out)))
            fail_msg("cut by %zu differs for '%.*s':\n%.*s---\n%.*s", step, SW_SLICE_ARG(in),
                     SW_SLICE_ARG(sw_buf_slice(&whole.out)), SW_SLICE_ARG(sw_buf_slice(&cut.out)));
        trace_done(&cut);
    }
    return whole;
}

static void check_request(const char *in, int status)
{
    struct trace t = run_cuts(SW_H1_REQUEST, &body_limit, "", sw_slice_str(in));

    if (t.status != status)
        fail_msg("'%s': status %d instead of %d", in, t.status, status);
    if (status == 0)
        assert_int_equal(t.messages, 1);
    trace_done(&t);
}

static void requests_are_judged(void **state)
{
    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(requests); i++)
        check_request(requests[i].in, requests[i].status);
}

static void chunks_are_judged(void **state)
{
    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(chunks); i++)
        check_request(chunks[i].in, chunks[i].status);
}

static void responses_are_judged(void **state)
{
    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(responses); i++) {
        struct trace t = run_cuts(SW_H1_RESPONSE, &body_limit, responses[i].answers,
                                  sw_slice_str(responses[i].in));
        struct sw_slice out = sw_buf_slice(&t.out);

        if (!responses[i].want) {
            assert_int_equal(t.status, 502);
        } else if (!sw_slice_has_prefix(out, sw_slice_str(responses[i].want)) || t.status) {
            fail_msg("'%s': %.*s", responses[i].in, SW_SLICE_ARG(out));
        }
        trace_done(&t);
    }
}

/* A NUL anywhere must be refused, wherever it stands in an otherwise good message. */
static void nul_is_refused_everywhere_in_the_head(void **state)
{
    static const char good[] = "GET /x HTTP/1.1\r\nHost: a\r\nX-Y: z\r\n\r\n";

    (void)state;
    for (size_t i = 0; i < sizeof(good) - 1; i++) {
        char bad[sizeof(good)];
        struct trace t;

        memcpy(bad, good, sizeof(good));
        bad[i] = '\0';
        trace_run(&t, SW_H1_REQUEST, NULL, sw_slice(NULL, 0), sw_slice(bad, sizeof(good) - 1), 64);
        assert_int_equal(t.status, 400);
        trace_done(&t);
    }
}

static void head_is_described(void **state)
{
    struct trace t = run_cuts(SW_H1_REQUEST, NULL, "",
                              SW_SLICE_LIT("POST http://a/p?q=1 HTTP/1.1\r\nhost:\t a \r\n"
                                           "Connection: x, close\r\nContent-Length: 3\r\n\r\nabc"));
    char *out = sw_buf_take_str(&t.out);

    (void)state;
    assert_string_equal(out, "POST http://a/p?q=1 absolute scheme=http authority=a path=/p?q=1 1.1 "
                             "length 3 close upgrade=\n"
                             "field host=a\nfield Connection=x, close\nfield Content-Length=3\n"
                             "body abc\nend\n");
    sw_free(out);
    trace_done(&t);
}

static void pipelined_messages_come_one_by_one(void **state)
{
    struct trace t = run_cuts(
        SW_H1_REQUEST, NULL, "",
        SW_SLICE_LIT("POST /1 HTTP/1.1\r\n" H "Content-Length: 2\r\n\r\nhi\r\n" /* forgiven CRLF */
                     "POST /2 HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n"
                     "1\r\na\r\n2;e\r\nbc\r\n0\r\nT: 1\r\n\r\n"
                     "GET /3 HTTP/1.1\r\n" H "\r\n"));
    char *out = sw_buf_take_str(&t.out);

    (void)state;
    assert_int_equal(t.messages, 3);
    assert_int_equal(t.rc, SW_OK);
    assert_non_null(strstr(out, "body hi\nend\n"));
    assert_non_null(strstr(out, "trailer T=1\nbody abc\nend\n"));
    sw_free(out);
    trace_done(&t);
}

static void check_limit(const struct sw_h1_limits *l, const char *in, int status)
{
    struct trace t = run_cuts(SW_H1_REQUEST, l, "", sw_slice_str(in));

    if (t.status != status)
        fail_msg("'%s': status %d instead of %d", in, t.status, status);
    trace_done(&t);
}

static void limits_hold_to_the_byte(void **state)
{
    const struct sw_h1_limits line = {.line = 16};
    const struct sw_h1_limits head = {.head = 40};
    const struct sw_h1_limits count = {.headers = 2};
    const struct sw_h1_limits body = {.body = 3};
    const struct sw_h1_limits ext = {.chunk_ext = 6};

    (void)state;
    check_limit(&line, "GET /12 HTTP/1.1\r\n" H "\r\n", 0);
    check_limit(&line, "GET /123 HTTP/1.1\r\n" H "\r\n", 414);
    check_limit(&line, "GET /12 HTTP/1.1\r\n" H "X: 4567890123456\r\n\r\n", 0);
    check_limit(&line, "GET /12 HTTP/1.1\r\n" H "X: 45678901234567\r\n\r\n", 431);
    check_limit(&head, "GET / HTTP/1.1\r\n" H "X: 456789ab\r\n\r\n", 0);
    check_limit(&head, "GET / HTTP/1.1\r\n" H "X: 456789abc\r\n\r\n", 431);
    check_limit(&count, "GET / HTTP/1.1\r\n" H "X: 1\r\n\r\n", 0);
    check_limit(&count, "GET / HTTP/1.1\r\n" H "X: 1\r\nY: 1\r\n\r\n", 431);
    check_limit(&count, C "0\r\nX: 1\r\nY: 1\r\n\r\n", 0);
    check_limit(&count, C "0\r\nX: 1\r\nY: 1\r\nZ: 1\r\n\r\n", 431);
    check_limit(&body, "POST / HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nabc", 0);
    check_limit(&body, "POST / HTTP/1.1\r\n" H "Content-Length: 4\r\n\r\nabcd", 413);
    check_limit(&body, C "2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", 0);
    check_limit(&body, C "2\r\nab\r\n2\r\ncd\r\n0\r\n\r\n", 413);
    check_limit(&ext, C "1;ab\r\na\r\n1;cd\r\nb\r\n0\r\n\r\n", 0);
    check_limit(&ext, C "1;ab\r\na\r\n1;cde\r\nb\r\n0\r\n\r\n", 400);
}

static void until_close_body_is_bounded(void **state)
{
    const struct sw_h1_limits body = {.body = 3};
    struct trace t =
        run_cuts(SW_H1_RESPONSE, &body, "GET", SW_SLICE_LIT("HTTP/1.1 200 OK\r\n\r\nabcd"));

    (void)state;
    assert_int_equal(t.rc, SW_ELIMIT);
    trace_done(&t);
}

static void refusal_and_end_are_repeated(void **state)
{
    struct sw_h1 *p = sw_h1_new(SW_H1_REQUEST, NULL);
    enum sw_h1_event ev;
    size_t used;
    struct sw_err err;

    (void)state;
    assert_int_equal(sw_h1_next(p, SW_SLICE_LIT("bad\r\n"), &used, &ev, &err), SW_EPROTO);
    assert_int_equal(sw_h1_next(p, SW_SLICE_LIT("GET / HTTP/1.0\r\n\r\n"), &used, &ev, &err),
                     SW_EPROTO);
    assert_int_equal(sw_h1_eof(p, &err), SW_EPROTO);
    assert_int_equal(sw_h1_error_status(p), 400);
    sw_h1_reset(p);
    assert_true(sw_h1_idle(p));
    assert_int_equal(sw_h1_next(p, SW_SLICE_LIT("GET / HTTP/1.0\r\n\r\n"), &used, &ev, &err),
                     SW_OK);
    assert_int_equal(used, 18);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sw_h1_next(p, SW_SLICE_LIT("x"), &used, &ev, &err), SW_OK);
        assert_int_equal(ev, SW_H1_END);
        assert_int_equal(used, 0);
    }
    sw_h1_free(p);
}

static void hop_by_hop_fields_are_known(void **state)
{
    struct sw_h1 *p = sw_h1_new(SW_H1_REQUEST, NULL);
    SW_ARENA_AUTO a = {0};
    enum sw_h1_event ev;
    const struct sw_h1_msg *m;
    size_t used;

    (void)state;
    assert_int_equal(
        sw_h1_next(p,
                   SW_SLICE_LIT("GET / HTTP/1.1\r\n" H
                                "x-one: 1\r\nX-Two: 2\r\nx-three: 3\r\nX-ONE: 4\r\n"
                                "Connection: X-One, host, absent\r\nConnection: x-two\r\n\r\n"),
                   &used, &ev, NULL),
        SW_OK);
    m = sw_h1_msg_dup(&a, sw_h1_msg(p));
    sw_h1_free(p);
    assert_true(sw_h1_is_hop_by_hop(m, SW_SLICE_LIT("x-one")));
    assert_true(sw_h1_is_hop_by_hop(m, SW_SLICE_LIT("X-Two")));
    assert_true(sw_h1_is_hop_by_hop(m, SW_SLICE_LIT("Transfer-Encoding")));
    assert_false(sw_h1_is_hop_by_hop(m, SW_SLICE_LIT("Host")));
    assert_false(sw_h1_is_hop_by_hop(m, SW_SLICE_LIT("x-three")));
    assert_true(sw_h1_has_token(m, "connection", "X-TWO"));
    assert_true(sw_slice_eq_str(*sw_h1_field(m, "HOST"), "a"));
    assert_null(sw_h1_field(m, "nothing"));
}

static void writers_refuse_injection(void **state)
{
    SW_BUF_AUTO b = {.max = 64};

    (void)state;
    assert_int_equal(sw_h1_put_field(&b, SW_SLICE_LIT("X"), SW_SLICE_LIT("a\r\nY: b")), SW_EINVAL);
    assert_int_equal(sw_h1_put_field(&b, SW_SLICE_LIT("X"), SW_SLICE_LIT("a\nY: b")), SW_EINVAL);
    assert_int_equal(sw_h1_put_field(&b, SW_SLICE_LIT("X\r\n"), SW_SLICE_LIT("a")), SW_EINVAL);
    assert_int_equal(sw_h1_put_field(&b, SW_SLICE_LIT("X Y"), SW_SLICE_LIT("a")), SW_EINVAL);
    assert_int_equal(sw_h1_put_field(&b, SW_SLICE_LIT(""), SW_SLICE_LIT("a")), SW_EINVAL);
    assert_int_equal(sw_h1_put_field(&b, SW_SLICE_LIT("X"), SW_SLICE_LIT("a\0b")), SW_EINVAL);
    assert_int_equal(sw_h1_put_request(&b, SW_SLICE_LIT("GET"), SW_SLICE_LIT("/ x"), 1), SW_EINVAL);
    assert_int_equal(sw_h1_put_request(&b, SW_SLICE_LIT("GET"), SW_SLICE_LIT(""), 1), SW_EINVAL);
    assert_int_equal(sw_h1_put_request(&b, SW_SLICE_LIT("G T"), SW_SLICE_LIT("/"), 1), SW_EINVAL);
    assert_int_equal(sw_h1_put_status(&b, 200, SW_SLICE_LIT("O\rK"), 1), SW_EINVAL);
    assert_int_equal(sw_h1_put_status(&b, 99, SW_SLICE_LIT("x"), 1), SW_EINVAL);
    assert_int_equal(sw_buf_len(&b), 0);
    assert_int_equal(sw_h1_put_status(&b, 404, SW_SLICE_LIT(""), 1), SW_OK);
    assert_int_equal(sw_h1_put_field_str(&b, "X", "0123456789012345678901234567890123456789"),
                     SW_ELIMIT);
    assert_true(sw_slice_eq_str(sw_buf_slice(&b), "HTTP/1.1 404 Not Found\r\n"));
    assert_int_equal(sw_h1_put_chunk(&b, SW_SLICE_LIT("")), SW_OK);
    assert_int_equal(sw_h1_put_chunk(&b, SW_SLICE_LIT("0123456789")), SW_OK);
    assert_int_equal(sw_h1_put_last_chunk(&b), SW_OK);
    assert_true(
        sw_slice_has_suffix(sw_buf_slice(&b), SW_SLICE_LIT("\na\r\n0123456789\r\n0\r\n\r\n")));
}

static void messages_are_written_as_they_were_understood(void **state)
{
    static const struct {
        const char *answers; /* NULL: a request */
        const char *in;
        const char *out;
    } cases[] = {
        {NULL, "GET /x HTTP/1.1\r\nx: 1\r\nhost:  a \r\n\r\n",
         "GET /x HTTP/1.1\r\nHost: a\r\nx: 1\r\n\r\n"},
        {NULL, "GET /x HTTP/1.0\r\n\r\n", "GET /x HTTP/1.0\r\n\r\n"},
        {NULL, "CONNECT b:1 HTTP/1.1\r\nHost: other\r\n\r\n",
         "CONNECT b:1 HTTP/1.1\r\nHost: b:1\r\n\r\n"},
        {NULL, "POST / HTTP/1.1\r\n" H "Content-Length: 007\r\n\r\n",
         "POST / HTTP/1.1\r\n" H "Content-Length: 7\r\n\r\n"},
        {NULL, "POST / HTTP/1.1\r\nTransfer-Encoding: CHUNKED\r\n" H "\r\n",
         "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n"},
        {"GET", "HTTP/1.1 200\r\nContent-Length: 2\r\nX: y\r\n\r\n",
         "HTTP/1.1 200 OK\r\nX: y\r\nContent-Length: 2\r\n\r\n"},
        {"HEAD", "HTTP/1.1 200 Fine\r\nContent-Length: 2\r\n\r\n",
         "HTTP/1.1 200 Fine\r\nContent-Length: 2\r\n\r\n"},
        {"CONNECT", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"},
        {"GET", "HTTP/1.0 299 \r\n\r\n", "HTTP/1.0 299 Status\r\n\r\n"},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_h1 *p = sw_h1_new(cases[i].answers ? SW_H1_RESPONSE : SW_H1_REQUEST, NULL);
        SW_BUF_AUTO out = {.max = 1000};
        SW_BUF_AUTO tight = {.max = strlen(cases[i].out) - 1};
        enum sw_h1_event ev;
        size_t used;

        sw_h1_answer_to(p, sw_slice_str(cases[i].answers));
        assert_int_equal(sw_h1_next(p, sw_slice_str(cases[i].in), &used, &ev, NULL), SW_OK);
        assert_int_equal(sw_h1_put_msg(&out, sw_h1_msg(p)), SW_OK);
        if (!sw_slice_eq_str(sw_buf_slice(&out), cases[i].out))
            fail_msg("'%s' became '%.*s'", cases[i].in, SW_SLICE_ARG(sw_buf_slice(&out)));
        assert_int_equal(sw_h1_put_msg(&tight, sw_h1_msg(p)), SW_ELIMIT);
        assert_int_equal(sw_buf_len(&tight), 0);
        sw_h1_free(p);
    }
}

static void dates_are_read(void **state)
{
    static const struct {
        const char *in;
        uint64_t s; /* 0: refused */
    } cases[] = {
        {"Sun, 06 Nov 1994 08:49:37 GMT", 784111777},
        {"Thu, 01 Jan 1970 00:00:01 GMT", 1},
        {"Thu, 29 Feb 2024 23:59:59 GMT", 1709251199},
        {"Fri, 01 Mar 2024 00:00:00 GMT", 1709251200},
        {"Sun, 15 Nov 2026 12:00:00 GMT", 1794744000},
        {"Sunday, 06-Nov-94 08:49:37 GMT", 0},
        {"Sun Nov  6 08:49:37 1994", 0},
        {"Sun, 06 Nov 1994 08:49:37 UTC", 0},
        {"Sun, 00 Nov 1994 08:49:37 GMT", 0},
        {"Sun, 32 Nov 1994 08:49:37 GMT", 0},
        {"Sun, 06 nov 1994 08:49:37 GMT", 0},
        {"Sun, 06 Nov 1969 08:49:37 GMT", 0},
        {"Sun, 06 Nov 1994 24:00:00 GMT", 0},
        {"Sun, 06 Nov 1994 08:60:00 GMT", 0},
        {"Sun, +6 Nov 1994 08:49:37 GMT", 0},
        {"Sun, 06 Nov 1994 08:49:37 GMT ", 0},
        {"", 0},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        uint64_t got = 0;

        assert_int_equal(sw_http_date_parse(sw_slice_str(cases[i].in), &got), cases[i].s != 0);
        assert_int_equal(got, cases[i].s);
    }
}

static void dates_are_written_as_they_are_read(void **state)
{
    char text[SW_HTTP_DATE_LEN];

    (void)state;
    assert_string_equal(sw_http_date(784111777, text), "Sun, 06 Nov 1994 08:49:37 GMT");
    assert_string_equal(sw_http_date(0, text), "Thu, 01 Jan 1970 00:00:00 GMT");
    for (uint64_t s = 951782399; s < UINT64_C(4102444800); s += 86399 * 7) {
        uint64_t back = 0;

        assert_true(sw_http_date_parse(sw_slice_str(sw_http_date(s, text)), &back));
        assert_int_equal(back, s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_judged),
        cmocka_unit_test(chunks_are_judged),
        cmocka_unit_test(responses_are_judged),
        cmocka_unit_test(nul_is_refused_everywhere_in_the_head),
        cmocka_unit_test(head_is_described),
        cmocka_unit_test(pipelined_messages_come_one_by_one),
        cmocka_unit_test(limits_hold_to_the_byte),
        cmocka_unit_test(until_close_body_is_bounded),
        cmocka_unit_test(refusal_and_end_are_repeated),
        cmocka_unit_test(hop_by_hop_fields_are_known),
        cmocka_unit_test(writers_refuse_injection),
        cmocka_unit_test(messages_are_written_as_they_were_understood),
        cmocka_unit_test(dates_are_read),
        cmocka_unit_test(dates_are_written_as_they_are_read),
    };

    return cmocka_run_group_tests_name("h1", tests, NULL, NULL);
}
