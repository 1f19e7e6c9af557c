/* SPDX-License-Identifier: Apache-2.0 */
/* The server over socketpairs and loopback, with a clock the test moves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "http/server.h"
#include "io/sock.h"

static uint64_t fake_now = 1000 * SW_NS_PER_S;

static uint64_t fake_clock(void)
{
    return fake_now;
}

struct world {
    struct sw_loop *loop;
    struct sw_http_server *server;
    struct sw_http_resp *late; /* request kept by the handler */
    int gone;
    int calls;
    int stopped;
    size_t big; /* size of /big */
};

static void on_gone(void *arg)
{
    ((struct world *)arg)->gone++;
}

static void send_big(struct world *w, struct sw_http_resp *r)
{
    struct sw_buf b;
    char *p;

    sw_buf_init(&b, w->big);
    p = sw_buf_reserve(&b, w->big);
    memset(p, 'x', w->big);
    sw_buf_commit(&b, w->big);
    sw_http_send_buf(r, 200, "text/plain", &b);
}

static void handler(struct sw_http_req *req, struct sw_http_resp *r, void *arg)
{
    struct world *w = arg;

    w->calls++;
    if (sw_slice_eq_str(req->path, "/echo")) {
        sw_http_set(r, "X-Query", req->query);
        sw_http_set(r, "X-Bad", SW_SLICE_LIT("a\r\nb: c"));
        sw_http_send(r, 200, "text/plain", req->body);
    } else if (sw_slice_eq_str(req->path, "/late")) {
        w->late = r;
        sw_http_on_gone(r, on_gone, w);
    } else if (sw_slice_eq_str(req->path, "/zombie")) {
        w->late = r;
    } else if (sw_slice_eq_str(req->path, "/stream")) {
        w->late = r;
        sw_http_stream_begin(r, 200, "text/plain", on_gone, w);
    } else if (sw_slice_eq_str(req->path, "/big")) {
        send_big(w, r);
    } else if (sw_http_only_get(req, r)) {
        sw_http_send_text(r, 200, "path %.*s\n", SW_SLICE_ARG(req->path));
    }
}

static void world_open(struct world *w, const struct sw_http_server_opts *extra)
{
    struct sw_http_server_opts o = {0};

    *w = (struct world){.big = 100000};
    if (extra)
        o = *extra;
    o.handler = handler;
    o.arg = w;
    w->loop = sw_loop_new(NULL);
    assert_non_null(w->loop);
    sw_loop_set_clock(w->loop, fake_clock);
    w->server = sw_http_server_new(w->loop, &o);
}

static void world_close(struct world *w)
{
    sw_http_server_free(w->server);
    sw_loop_free(w->loop);
}

static int client(struct world *w)
{
    int fd[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd), 0);
    sw_http_server_adopt(w->server, fd[1]);
    return fd[0];
}

static void turns(struct world *w)
{
    for (int i = 0; i < 20; i++)
        sw_loop_turn(w->loop, 0);
}

static void say(struct world *w, int fd, const char *text)
{
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    turns(w);
}

/* All that came so far; *ret_eof when the server closed. Caller frees. */
static char *hear(struct world *w, int fd, bool *ret_eof)
{
    struct sw_buf b;
    bool eof = false;

    sw_buf_init(&b, 1 << 24);
    turns(w);
    for (;;) {
        char *to = sw_buf_reserve(&b, 65536);
        ssize_t n = read(fd, to, 65536);

        if (n <= 0) {
            eof = n == 0;
            break;
        }
        sw_buf_commit(&b, (size_t)n);
        turns(w);
    }
    if (ret_eof)
        *ret_eof = eof;
    return sw_buf_take_str(&b);
}

static void expect(struct world *w, int fd, const char *start, const char *part, bool eof)
{
    bool closed;
    char *got = hear(w, fd, &closed);

    if (strncmp(got, start, strlen(start)) != 0 || !strstr(got, part) || closed != eof)
        fail_msg("wanted '%s' with '%s'%s, got '%s'%s", start, part, eof ? " and end" : "", got,
                 closed ? " and end" : "");
    sw_free(got);
}

static void request_is_answered_and_kept_alive(void **state)
{
    struct world w;
    int fd;

    (void)state;
    world_open(&w, NULL);
    fd = client(&w);
    for (int i = 0; i < 3; i++) {
        say(&w, fd, "GET /a?b HTTP/1.1\r\nHost: x\r\n\r\n");
        expect(&w, fd, "HTTP/1.1 200 OK\r\nDate: ", "Content-Length: 8\r\n\r\npath /a\n", false);
    }
    say(&w, fd, "GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    expect(&w, fd, "HTTP/1.1 200 OK\r\n", "Connection: close\r\n", true);
    (void)close(fd);
    turns(&w);
    assert_int_equal(sw_http_server_conns(w.server), 0);
    world_close(&w);
}

static void old_clients_are_closed_unless_they_ask(void **state)
{
    struct world w;
    int fd;

    (void)state;
    world_open(&w, NULL);
    fd = client(&w);
    say(&w, fd, "GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    expect(&w, fd, "HTTP/1.1 200 OK\r\n", "Connection: keep-alive\r\n", false);
    say(&w, fd, "GET /a HTTP/1.0\r\n\r\n");
    expect(&w, fd, "HTTP/1.1 200 OK\r\n", "Connection: close\r\n", true);
    (void)close(fd);
    world_close(&w);
}

static void pipelined_requests_are_answered_in_order(void **state)
{
    struct world w;
    char *got;
    char *second;
    int fd;

    (void)state;
    world_open(&w, NULL);
    fd = client(&w);
    say(&w, fd,
        "GET /late HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\n"
        "POST /echo?q HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nthird");
    assert_int_equal(w.calls, 1);
    sw_http_send_text(w.late, 200, "first");
    got = hear(&w, fd, NULL);
    second = strstr(got, "path /2");
    assert_non_null(strstr(got, "first"));
    assert_non_null(second);
    assert_true(strstr(got, "first") < second);
    assert_non_null(strstr(second, "X-Query: q\r\n"));
    assert_null(strstr(second, "b: c"));
    assert_non_null(strstr(second, "third"));
    assert_int_equal(w.gone, 0);
    sw_free(got);
    (void)close(fd);
    world_close(&w);
}

static void head_has_the_length_but_no_body(void **state)
{
    struct world w;
    char *got;
    int fd;

    (void)state;
    world_open(&w, NULL);
    fd = client(&w);
    say(&w, fd, "HEAD /a HTTP/1.1\r\nHost: x\r\n\r\n");
    got = hear(&w, fd, NULL);
    assert_non_null(strstr(got, "Content-Length: 8\r\n"));
    assert_string_equal(strstr(got, "\r\n\r\n"), "\r\n\r\n");
    sw_free(got);
    say(&w, fd, "DELETE /a HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(&w, fd, "HTTP/1.1 405 Method Not Allowed\r\n", "Allow: GET, HEAD\r\n", false);
    say(&w, fd, "CONNECT a:1 HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(&w, fd, "HTTP/1.1 405 ", "not a proxy", true);
    (void)close(fd);
    world_close(&w);
}

static void bad_requests_are_answered_and_closed(void **state)
{
    static const struct {
        const char *in;
        const char *start;
    } cases[] = {
        {"GET / HTTP/1.1\nHost: x\n\n", "HTTP/1.1 400 Bad Request\r\n"},
        {"GET / HTTP/3.0\r\n", "HTTP/1.1 505 "},
        {"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\n", "HTTP/1.1 413 "},
        {"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: x\r\n\r\n", "HTTP/1.1 501 "},
    };
    struct world w;

    (void)state;
    world_open(&w, NULL);
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        int fd = client(&w);

        say(&w, fd, cases[i].in);
        expect(&w, fd, cases[i].start, "Connection: close\r\n", true);
        (void)close(fd);
    }
    assert_int_equal(w.calls, 0);
    world_close(&w);
}

static void oversized_head_is_refused(void **state)
{
    struct world w;
    char *big;
    int fd;

    (void)state;
    world_open(&w, NULL);
    fd = client(&w);
    big = sw_asprintf("GET / HTTP/1.1\r\nHost: x\r\nX: %08000d\r\nY: %0400d\r\n\r\n", 1, 1);
    say(&w, fd, big);
    expect(&w, fd, "HTTP/1.1 431 ", "head larger than 8192 bytes", true);
    sw_free(big);
    (void)close(fd);
    world_close(&w);
}

static void expectation_is_met_before_the_body(void **state)
{
    struct world w;
    int fd;

    (void)state;
    world_open(&w, NULL);
    fd = client(&w);
    say(&w, fd,
        "POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nTransfer-Encoding: "
        "chunked\r\n\r\n");
    expect(&w, fd, "HTTP/1.1 100 Continue\r\n\r\n", "", false);
    say(&w, fd, "2\r\nab\r\n1\r\nc\r\n0\r\n\r\n");
    expect(&w, fd, "HTTP/1.1 200 OK\r\n", "\r\n\r\nabc", false);
    (void)close(fd);
    world_close(&w);
}

static void slow_requests_time_out(void **state)
{
    struct world w;
    int silent;
    int slow;
    int idle;

    (void)state;
    world_open(&w, NULL);
    silent = client(&w);
    slow = client(&w);
    idle = client(&w);
    say(&w, slow, "GET / HT");
    say(&w, idle, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(&w, idle, "HTTP/1.1 200 OK\r\n", "", false);
    fake_now += 1900 * SW_NS_PER_MS;
    say(&w, slow, "TP"); /* dripping does not help */
    assert_int_equal(sw_http_server_conns(w.server), 3);
    fake_now += 200 * SW_NS_PER_MS;
    expect(&w, slow, "HTTP/1.1 408 ", "Connection: close", true);
    expect(&w, silent, "", "", true);
    expect(&w, idle, "", "", false);
    fake_now += 60 * SW_NS_PER_S;
    expect(&w, idle, "", "", true);
    (void)close(slow);
    (void)close(silent);
    (void)close(idle);
    turns(&w);
    assert_int_equal(sw_http_server_conns(w.server), 0);
    world_close(&w);
}

static void client_that_does_not_read_is_dropped(void **state)
{
    struct world w;
    int fd;

    (void)state;
    world_open(&w, NULL);
    w.big = 4 << 20;
    fd = client(&w);
    say(&w, fd, "GET /big HTTP/1.1\r\nHost: x\r\n\r\n");
    for (int i = 0; i < 31; i++) {
        char some[100];

        fake_now += SW_NS_PER_S;
        (void)!read(fd, some, sizeof(some)); /* a trickle must not keep it */
        turns(&w);
    }
    assert_int_equal(sw_http_server_conns(w.server), 0);
    (void)close(fd);
    world_close(&w);
}

static void slow_clients_cannot_hold_more_than_the_bound(void **state)
{
    const struct sw_http_server_opts o = {.max_out = 3 << 20};
    struct world w;
    int fd[2];

    (void)state;
    world_open(&w, &o);
    w.big = 2 << 20;
    for (int i = 0; i < 2; i++) {
        fd[i] = client(&w);
        say(&w, fd[i], "GET /big HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    expect(&w, fd[1], "HTTP/1.1 503 ", "Content-Length: 0\r\n", false);
    expect(&w, fd[0], "HTTP/1.1 200 ", "Content-Length: 2097152\r\n", false);
    say(&w, fd[1], "GET /big HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(&w, fd[1], "HTTP/1.1 200 ", "", false);
    (void)close(fd[0]);
    (void)close(fd[1]);
    world_close(&w);
}

static void large_bodies_are_compressed_when_asked(void **state)
{
    struct world w;
    char *got;
    int fd;

    (void)state;
    world_open(&w, NULL);
    fd = client(&w);
    say(&w, fd, "GET /big HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n");
    got = hear(&w, fd, NULL);
    assert_non_null(strstr(got, "Content-Encoding: gzip\r\n"));
    assert_non_null(strstr(got, "Vary: Accept-Encoding\r\n"));
    assert_null(strstr(got, "Content-Length: 100000\r\n"));
    sw_free(got);
    say(&w, fd, "GET /small HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n");
    expect(&w, fd, "HTTP/1.1 200 OK\r\n", "\r\n\r\npath /small\n", false);
    say(&w, fd, "GET /big HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(&w, fd, "HTTP/1.1 200 OK\r\n", "Content-Length: 100000\r\n", false);
    (void)close(fd);
    world_close(&w);
}

static void idle_connections_make_room(void **state)
{
    const struct sw_http_server_opts o = {.max_conns = 2};
    struct world w;
    int fd[4];

    (void)state;
    world_open(&w, &o);
    fd[0] = client(&w);
    say(&w, fd[0], "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(&w, fd[0], "HTTP/1.1 200 ", "", false);
    fd[1] = client(&w);
    say(&w, fd[1], "GET /late HTTP/1.1\r\nHost: x\r\n\r\n");
    fd[2] = client(&w); /* takes the place of 0 */
    expect(&w, fd[0], "", "", true);
    fd[3] = client(&w); /* nobody is idle enough */
    expect(&w, fd[3], "", "", true);
    say(&w, fd[2], "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(&w, fd[2], "HTTP/1.1 200 ", "", false);
    assert_int_equal(sw_http_server_conns(w.server), 2);
    for (int i = 0; i < 4; i++)
        (void)close(fd[i]);
    turns(&w);
    world_close(&w);
}

static void handler_learns_that_the_client_went(void **state)
{
    struct world w;
    int fd;

    (void)state;
    world_open(&w, NULL);
    fd = client(&w);
    say(&w, fd, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_int_equal(sw_http_stream_write(w.late, SW_SLICE_LIT("hello")), SW_OK);
    assert_int_equal(sw_http_stream_write(w.late, SW_SLICE_LIT("")), SW_OK);
    expect(&w, fd, "HTTP/1.1 200 OK\r\n", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
           false);
    assert_int_equal(sw_http_stream_pending(w.late), 0);
    (void)close(fd);
    turns(&w);
    assert_int_equal(w.gone, 1);
    fd = client(&w);
    say(&w, fd, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
    sw_http_stream_end(w.late);
    expect(&w, fd, "HTTP/1.1 200 OK\r\n", "\r\n\r\n0\r\n\r\n", false);
    say(&w, fd, "GET /stream HTTP/1.0\r\n\r\n");
    assert_int_equal(sw_http_stream_write(w.late, SW_SLICE_LIT("plain")), SW_OK);
    sw_http_stream_end(w.late);
    expect(&w, fd, "HTTP/1.1 200 OK\r\n", "\r\n\r\nplain", true);
    (void)close(fd);
    assert_int_equal(w.gone, 1);
    world_close(&w);
}

static void late_answer_to_a_dead_client_is_harmless(void **state)
{
    struct world w;
    int fd;

    (void)state;
    world_open(&w, NULL);
    fd = client(&w);
    say(&w, fd, "GET /zombie HTTP/1.1\r\nHost: x\r\n\r\nGET / HTT");
    sw_sock_set_reset(fd);
    (void)close(fd);
    turns(&w);
    sw_http_send_text(w.late, 200, "nobody hears this");
    turns(&w);
    fd = client(&w); /* half-closed after the request: still answered */
    say(&w, fd, "GET /zombie HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    turns(&w);
    sw_http_send_text(w.late, 200, "heard");
    expect(&w, fd, "HTTP/1.1 200 OK\r\n", "heard", true);
    (void)close(fd);
    world_close(&w);
}

static void on_stopped(struct sw_http_server *s, void *arg)
{
    (void)s;
    ((struct world *)arg)->stopped++;
}

static void stop_lets_begun_requests_finish(void **state)
{
    struct world w;
    int busy;
    int idle;

    (void)state;
    world_open(&w, NULL);
    busy = client(&w);
    idle = client(&w);
    say(&w, idle, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(&w, idle, "HTTP/1.1 200 ", "", false);
    say(&w, busy, "GET /late HTTP/1.1\r\nHost: x\r\n\r\n");
    sw_http_server_stop(w.server, 5 * SW_NS_PER_S, on_stopped, &w);
    expect(&w, idle, "", "", true);
    assert_int_equal(w.stopped, 0);
    sw_http_send_text(w.late, 200, "done");
    expect(&w, busy, "HTTP/1.1 200 ", "done", true);
    (void)close(busy);
    turns(&w);
    assert_int_equal(w.stopped, 1);
    (void)close(idle);
    world_close(&w);
}

static void stop_ends_at_its_deadline(void **state)
{
    struct world w;
    int fd;

    (void)state;
    world_open(&w, NULL);
    fd = client(&w);
    say(&w, fd, "GET /late HTTP/1.1\r\nHost: x\r\n\r\n");
    sw_http_server_stop(w.server, 5 * SW_NS_PER_S, on_stopped, &w);
    fake_now += 6 * SW_NS_PER_S;
    turns(&w);
    assert_int_equal(w.stopped, 1);
    assert_int_equal(w.gone, 1);
    (void)close(fd);
    world_close(&w);
}

static void listeners_share_a_port_when_told(void **state)
{
    const struct sw_http_server_opts shared = {.share = "test"};
    struct sw_addr at = {.ip = {.family = 4, .b = {127, 0, 0, 1}}};
    struct sw_sock_opts so = SW_SOCK_OPTS_INIT;
    struct world a;
    struct world b;
    struct sw_err err;
    int fd;

    (void)state;
    world_open(&a, &shared);
    world_open(&b, &shared);
    assert_int_equal(sw_http_server_listen(a.server, &at, &err), SW_OK);
    at = sw_http_server_addr(a.server, 0);
    assert_int_not_equal(at.port, 0);
    assert_int_equal(sw_http_server_listen(b.server, &at, &err), SW_OK);
    sw_http_server_free(a.server); /* the successor serves alone */
    a.server = NULL;
    assert_int_equal(sw_sock_connect(&at, NULL, &so, &fd, &err), SW_OK);
    turns(&b);
    say(&b, fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(&b, fd, "HTTP/1.1 200 ", "", false);
    (void)close(fd);
    world_close(&a);
    world_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(request_is_answered_and_kept_alive),
        cmocka_unit_test(old_clients_are_closed_unless_they_ask),
        cmocka_unit_test(pipelined_requests_are_answered_in_order),
        cmocka_unit_test(head_has_the_length_but_no_body),
        cmocka_unit_test(bad_requests_are_answered_and_closed),
        cmocka_unit_test(oversized_head_is_refused),
        cmocka_unit_test(expectation_is_met_before_the_body),
        cmocka_unit_test(slow_requests_time_out),
        cmocka_unit_test(client_that_does_not_read_is_dropped),
        cmocka_unit_test(slow_clients_cannot_hold_more_than_the_bound),
        cmocka_unit_test(large_bodies_are_compressed_when_asked),
        cmocka_unit_test(idle_connections_make_room),
        cmocka_unit_test(handler_learns_that_the_client_went),
        cmocka_unit_test(late_answer_to_a_dead_client_is_harmless),
        cmocka_unit_test(stop_lets_begun_requests_finish),
        cmocka_unit_test(stop_ends_at_its_deadline),
        cmocka_unit_test(listeners_share_a_port_when_told),
    };

    (void)!sw_log_filter(SW_SLICE_LIT("off"), true, NULL);
    return cmocka_run_group_tests_name("server", tests, NULL, NULL);
}
