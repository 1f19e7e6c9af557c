/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/mem.h"
#include "connector/inspect/history.h"
#include "connector/inspect/peek.h"

/* Everything told, as text: "GET a.example /x 200 5 ok;". */
static void on_observed(void *arg, const struct sw_peek_exchange *x)
{
    assert_int_equal(sw_buf_printf(arg, "%.*s %.*s %.*s %d %llu %s;", SW_SLICE_ARG(x->method),
                                   SW_SLICE_ARG(x->host), SW_SLICE_ARG(x->path), x->status,
                                   (unsigned long long)x->bytes_out, x->complete ? "ok" : "cut"),
                     SW_OK);
}

/* up and down are fed in pieces of 'piece' bytes, all of up first. */
static char *watch(const char *up, const char *down, size_t piece)
{
    struct sw_buf out;
    struct sw_peek *p;
    size_t n;

    sw_buf_init(&out, 1 << 20);
    p = sw_peek_new(on_observed, &out, NULL);
    n = strlen(up);
    for (size_t i = 0; i < n; i += piece)
        sw_peek_bytes(p, false, up + i, sw_min(piece, n - i), 1000);
    n = strlen(down);
    for (size_t i = 0; i < n; i += piece)
        sw_peek_bytes(p, true, down + i, sw_min(piece, n - i), 2000);
    sw_peek_end(p, 3000);
    sw_peek_free(p);
    return sw_buf_take_str(&out);
}

static const struct {
    const char *up;
    const char *down;
    const char *want;
} cases[] = {
    {"GET /x?y=1 HTTP/1.1\r\nHost: a.example\r\n\r\n",
     "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "GET a.example /x?y=1 200 5 ok;"},
    {"POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET /q HTTP/1.1\r\nHost: "
     "a\r\n\r\n",
     "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n"
     "3\r\nabc\r\n0\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
     "POST a /p 201 3 ok;GET a /q 404 0 ok;"},
    {"HEAD / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
     "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
     "HEAD a / 200 0 ok;GET a / 200 1 ok;"},
    {"GET / HTTP/1.0\r\nHost: a\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\nuntil the end",
     "GET a / 200 13 ok;"},
    {"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
     "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
     "\x81\x05hello",
     "GET a /ws 101 0 cut;"},
    {"GET /cut HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
     "GET a /cut 200 4 cut;"},
    {"GET /none HTTP/1.1\r\nHost: a\r\n\r\n", "", "GET a /none 0 0 cut;"},
    {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "", ""},
    {"\x16\x03\x01\x02", "\x16\x03\x03", ""},
    {"SSH-2.0-OpenSSH\r\n", "SSH-2.0-x\r\n", ""},
};

static void test_http2_is_recognised_however_the_bytes_are_cut(void **state)
{
    static const struct {
        const char *up;
        bool http2;
    } from[] = {
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", true},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x01\x02 more", true},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r", false},
        {"PRI * HTTP/2.0\r\n\r\nSN\r\n\r\n", false},
        {"GET /PRI HTTP/1.1\r\nHost: a\r\n\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", false},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(from); i++) {
        for (size_t piece = 1; piece < 40; piece += 3) {
            SW_BUF_AUTO out = {.max = 1 << 20};
            struct sw_peek *p = sw_peek_new(on_observed, &out, NULL);

            for (size_t k = 0; k < strlen(from[i].up); k += piece)
                sw_peek_bytes(p, false, from[i].up + k, sw_min(piece, strlen(from[i].up) - k),
                              1000);
            sw_peek_bytes(p, true, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24, 1000);
            assert_int_equal(sw_peek_http2(p), from[i].http2);
            sw_peek_free(p);
        }
    }
}

static void test_exchanges_are_told_however_the_bytes_are_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        for (size_t piece = 1; piece < 40; piece += 3) {
            SW_AUTO_FREE char *got = watch(cases[i].up, cases[i].down, piece);

            assert_string_equal(got, cases[i].want);
        }
    }
}

struct sizes {
    uint64_t in[8];
    size_t n;
};

static void on_size(void *arg, const struct sw_peek_exchange *x)
{
    struct sizes *s = arg;

    s->in[s->n++] = x->bytes_in;
}

/* Of the request that is read, which is the last one, and of none that was answered before. */
static void test_request_bodies_are_counted(void **state)
{
    static const char up[] = "GET /1 HTTP/1.1\r\nHost: a\r\n\r\n"
                             "POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabcde"
                             "PUT /3 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                             "3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n"
                             "POST /4 HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nab";
    static const char down[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
                               "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
                               "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
                               "HTTP/1.1 413 Large\r\nContent-Length: 0\r\n\r\n";
    struct sizes got = {.n = 0};
    struct sw_peek *p = sw_peek_new(on_size, &got, NULL);

    (void)state;
    sw_peek_bytes(p, false, up, sizeof(up) - 1, 1000);
    sw_peek_bytes(p, true, down, sizeof(down) - 1, 2000);
    sw_peek_bytes(p, false, "cdefghi", 7, 3000);
    sw_peek_end(p, 4000);
    sw_peek_free(p);
    assert_int_equal(got.n, 4);
    assert_int_equal(got.in[0], 0);
    assert_int_equal(got.in[1], 5);
    assert_int_equal(got.in[2], 7);
    assert_int_equal(got.in[3], 2);
}

static void test_an_answer_to_nothing_ends_the_looking(void **state)
{
    SW_AUTO_FREE char *got = watch("", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 7);

    (void)state;
    assert_string_equal(got, "");
}

/* As large as gateways let through: a tunnel is used again, and what follows is to be seen, too. */
static void test_long_headers_are_seen(void **state)
{
    static char up[50000];
    static const char down[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
                               "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    int n = snprintf(up, sizeof(up), "GET /1 HTTP/1.1\r\nHost: a\r\nCookie: %040000d\r\n\r\n", 7);

    (void)state;
    assert_true(n > 40000);
    (void)snprintf(up + n, sizeof(up) - (size_t)n, "GET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
    for (size_t piece = 1000; piece <= sizeof(up); piece *= 7) {
        SW_AUTO_FREE char *got = watch(up, down, piece);

        assert_string_equal(got, "GET a /1 200 0 ok;GET a /2 200 0 ok;");
    }
}

static void test_heads_and_queues_are_bounded(void **state)
{
    struct sw_buf out;
    struct sw_peek *p;
    char junk[1024];

    (void)state;
    memset(junk, 'a', sizeof(junk));
    sw_buf_init(&out, 1 << 20);
    p = sw_peek_new(on_observed, &out, NULL);
    sw_peek_bytes(p, false, "GET /", 5, 1);
    for (int i = 0; i < 1000; i++)
        sw_peek_bytes(p, false, junk, sizeof(junk), 1);
    sw_peek_end(p, 2);
    assert_int_equal(sw_peek_reported(p), 0);
    sw_peek_free(p);
    p = sw_peek_new(on_observed, &out, NULL);
    for (int i = 0; i < 1000; i++)
        sw_peek_bytes(p, false, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 27, 1);
    sw_peek_end(p, 2);
    assert_true(sw_peek_reported(p) <= SW_PEEK_QUEUE);
    sw_peek_free(p);
    sw_buf_done(&out);
}

static void test_history_keeps_the_newest(void **state)
{
    struct sw_history h = {0};
    struct sw_inspect_request r = {.kind = "http"};
    SW_BUF_AUTO out = {.max = 4096};
    struct sw_jw w;

    (void)state;
    for (unsigned i = 0; i < SW_HISTORY_MAX + 50; i++) {
        r.status = i;
        sw_history_add(&h, &r);
    }
    assert_int_equal(sw_history_count(&h), SW_HISTORY_MAX);
    assert_int_equal(sw_history_at(&h, 0)->status, SW_HISTORY_MAX + 49);
    assert_int_equal(sw_history_at(&h, SW_HISTORY_MAX - 1)->status, 50);
    sw_request_text(r.path, sizeof(r.path), SW_SLICE_LIT("/a\x1b[31m\xff"));
    assert_string_equal(r.path, "/a?[31m?");
    sw_jw_begin(&w, &out, NULL);
    sw_request_json(&w, &r);
    assert_int_equal(sw_jw_end(&w), SW_OK);
    sw_history_done(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exchanges_are_told_however_the_bytes_are_cut),
        cmocka_unit_test(test_request_bodies_are_counted),
        cmocka_unit_test(test_http2_is_recognised_however_the_bytes_are_cut),
        cmocka_unit_test(test_an_answer_to_nothing_ends_the_looking),
        cmocka_unit_test(test_long_headers_are_seen),
        cmocka_unit_test(test_heads_and_queues_are_bounded),
        cmocka_unit_test(test_history_keeps_the_newest),
    };

    return cmocka_run_group_tests_name("connector_peek", tests, NULL, NULL);
}
