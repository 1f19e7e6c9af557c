/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2 connections that face each other over a socket pair with little room. */
#include "http/h2conn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/time.h"
#include "io/sock.h"
#include "web_cred.h"

enum { BIG = 3 << 20, TURNS = 20000 };

static struct sw_loop *loop;
static uint64_t now_ns;

static uint64_t fake_clock(void)
{
    return now_ns;
}

static void pass(uint64_t ns)
{
    now_ns += ns;
    for (int i = 0; i < 8; i++)
        sw_loop_turn(loop, 0);
}

#define UNTIL(cond)                                                                                \
    do {                                                                                           \
        int turns_ = 0;                                                                            \
        while (!(cond)) {                                                                          \
            sw_loop_turn(loop, 1);                                                                 \
            assert_true(++turns_ < TURNS);                                                         \
        }                                                                                          \
    } while (0)

/* One side, and what it was told. */
struct side {
    struct sw_h2conn *conn;
    struct sw_buf got;
    struct sw_slice answer; /* server: to each request */
    struct sw_err why;
    unsigned closes, ends, stream_closes;
    bool ask; /* client: as soon as it is open */
};

static void on_head(struct sw_h2stream *s, const struct sw_h2_head *head, void *arg)
{
    (void)s;
    (void)arg;
    assert_int_equal(head->status, 200);
}

static void on_data(struct sw_h2stream *s, struct sw_slice data, void *arg)
{
    struct side *e = arg;

    assert_int_equal(sw_buf_append_slice(&e->got, data), SW_OK);
    sw_h2stream_took(s, data.n);
}

static void on_end(struct sw_h2stream *s, void *arg)
{
    (void)s;
    ((struct side *)arg)->ends++;
}

static void on_stream_close(struct sw_h2stream *s, uint32_t code, void *arg)
{
    (void)s;
    (void)code;
    ((struct side *)arg)->stream_closes++;
}

static const struct sw_h2stream_ops stream_ops = {
    .on_head = on_head,
    .on_data = on_data,
    .on_end = on_end,
    .on_close = on_stream_close,
};

static void on_request(struct sw_h2conn *c, struct sw_h2stream *s, const struct sw_h2_head *head,
                       void *arg)
{
    static const struct sw_h2_header ok[] = {{SW_SLICE_LIT(":status"), SW_SLICE_LIT("200")}};
    struct side *e = arg;

    (void)c;
    (void)head;
    sw_h2stream_own(s, &stream_ops, e);
    sw_h2stream_respond(s, ok, 1, false);
    assert_int_equal(sw_h2stream_send(s, e->answer), SW_OK);
    sw_h2stream_end(s, NULL, 0);
}

static void ask(struct side *e)
{
    static const struct sw_h2_header get[] = {
        {SW_SLICE_LIT(":method"), SW_SLICE_LIT("GET")},
        {SW_SLICE_LIT(":scheme"), SW_SLICE_LIT("http")},
        {SW_SLICE_LIT(":path"), SW_SLICE_LIT("/")},
        {SW_SLICE_LIT(":authority"), SW_SLICE_LIT("localhost")},
    };
    struct sw_h2stream *s = sw_h2stream_open(e->conn, get, SW_ARRAY_LEN(get), &stream_ops, e, NULL);

    assert_non_null(s);
    sw_h2stream_end(s, NULL, 0);
}

static void on_open(struct sw_h2conn *c, void *arg)
{
    struct side *e = arg;

    e->conn = c;
    if (e->ask)
        ask(e);
}

static void on_closed(struct sw_h2conn *c, const struct sw_err *err, void *arg)
{
    struct side *e = arg;

    (void)c;
    e->closes++;
    e->why = *err;
    e->conn = NULL;
}

static const struct sw_h2conn_ops conn_ops = {
    .on_open = on_open, .on_request = on_request, .on_closed = on_closed};

static void side_start(struct side *e, int fd, struct sw_h2conn_opts *o)
{
    o->ops = &conn_ops;
    o->arg = e;
    sw_buf_init(&e->got, 2 * BIG);
    e->conn = sw_h2conn_new(loop, fd, o, NULL);
    assert_non_null(e->conn);
}

static void side_done(struct side *e)
{
    sw_h2conn_free(e->conn);
    sw_buf_done(&e->got);
}

static void small_pair(int fds[2])
{
    int n = 4096;

    assert_int_equal(sw_sock_pair(fds, NULL), SW_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &n, sizeof(n)), 0);
}

static char *pattern(size_t n)
{
    char *p = sw_malloc(n);

    for (size_t i = 0; i < n; i++)
        p[i] = (char)((i * 7 + i / 251) & 0xff);
    return p;
}

/* More than a connection may have unsent, than its window and than the socket takes. */
static void much_passes(struct sw_tls_cred *server_cred, struct sw_tls_cred *client_cred)
{
    struct side server = {0};
    struct side client = {.ask = true};
    char *text = pattern(BIG);
    int fds[2];

    small_pair(fds);
    server.answer = sw_slice(text, BIG);
    side_start(&server, fds[0], &(struct sw_h2conn_opts){.server = true, .cred = server_cred});
    side_start(&client, fds[1], &(struct sw_h2conn_opts){.cred = client_cred, .host = "localhost"});
    UNTIL(client.ends == 1 && server.stream_closes == 1);
    assert_int_equal(sw_buf_len(&client.got), BIG);
    assert_memory_equal(sw_buf_data(&client.got), text, BIG);
    /* And the connection serves on. */
    sw_buf_clear(&client.got);
    ask(&client);
    UNTIL(client.ends == 2);
    assert_int_equal(sw_buf_len(&client.got), BIG);
    assert_int_equal(server.closes + client.closes, 0);
    side_done(&client);
    side_done(&server);
    sw_free(text);
}

static void test_much_passes_through_little_room(void **state)
{
    static const char *const names[] = {"localhost", NULL};
    struct sw_ca *ca = sw_ca_new(SW_SLICE_LIT("cluster.local"), 0, NULL);
    struct sw_tls_cred *server = web_cred(ca, names);
    struct sw_tls_cred *client = web_cred(ca, NULL);

    (void)state;
    much_passes(NULL, NULL);
    much_passes(server, client);
    sw_tls_cred_unref(server);
    sw_tls_cred_unref(client);
    sw_ca_free(ca);
}

static void test_goaway_ends_both_sides_when_the_last_stream_did(void **state)
{
    struct side server = {.answer = SW_SLICE_LIT("x")};
    struct side client = {.ask = true};
    int fds[2];

    (void)state;
    small_pair(fds);
    side_start(&server, fds[0], &(struct sw_h2conn_opts){.server = true});
    side_start(&client, fds[1], &(struct sw_h2conn_opts){0});
    UNTIL(client.ends == 1);
    sw_h2conn_goaway(server.conn);
    UNTIL(server.closes == 1 && client.closes == 1);
    assert_int_equal(server.why.rc, SW_EOF);
    side_done(&client);
    side_done(&server);
}

/* A peer that asks and does not read. */
static void test_peer_that_takes_nothing_is_given_up(void **state)
{
    struct side server = {0};
    struct side client = {.ask = true};
    char *text = pattern(BIG);
    char buf[256];
    int fds[2];
    int raw[2];

    (void)state;
    small_pair(fds);
    small_pair(raw);
    server.answer = sw_slice(text, BIG);
    side_start(&server, fds[0],
               &(struct sw_h2conn_opts){.server = true, .write_timeout_ns = 5 * SW_NS_PER_S});
    side_start(&client, raw[0], &(struct sw_h2conn_opts){0});
    /* What the client says reaches the server, and nothing comes back. */
    for (int i = 0; i < 100; i++) {
        ssize_t n = sw_sock_read(raw[1], buf, sizeof(buf));

        if (n > 0)
            assert_int_equal(sw_sock_write(fds[1], buf, (size_t)n), n);
        sw_loop_turn(loop, 0);
    }
    assert_int_equal(sw_h2conn_streams(server.conn), 1);
    pass(4 * SW_NS_PER_S);
    assert_int_equal(server.closes, 0);
    pass(2 * SW_NS_PER_S);
    assert_int_equal(server.closes, 1);
    assert_int_equal(server.why.rc, SW_ETIME);
    assert_int_equal(server.stream_closes, 1);
    side_done(&client);
    side_done(&server);
    sw_sock_close(fds[1]);
    sw_sock_close(raw[1]);
    sw_free(text);
}

static void test_rubbish_is_answered_by_goaway(void **state)
{
    /* The preface, SETTINGS, and DATA of no stream. */
    static const uint8_t rubbish[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                                     "\0\0\0\4\0\0\0\0\0"
                                     "\0\0\1\0\0\0\0\0\0";
    struct side server = {0};
    uint8_t last = 0;
    char buf[4096];
    ssize_t n;
    int fds[2];

    (void)state;
    small_pair(fds);
    side_start(&server, fds[0], &(struct sw_h2conn_opts){.server = true});
    assert_int_equal(sw_sock_write(fds[1], rubbish, sizeof(rubbish)), sizeof(rubbish));
    for (int i = 0; i < 2000 && last != 7; i++) {
        sw_loop_turn(loop, 1);
        n = sw_sock_read(fds[1], buf, sizeof(buf));
        for (ssize_t at = 0; n > 0 && at + 9 <= n;) { /* whole frames: they are short */
            last = (uint8_t)buf[at + 3];
            at += 9 + ((uint8_t)buf[at + 1] << 8) + (uint8_t)buf[at + 2];
        }
    }
    assert_int_equal(last, 7); /* GOAWAY */
    assert_int_equal(server.closes, 0);
    sw_sock_close(fds[1]);
    UNTIL(server.closes == 1);
    side_done(&server);
}

static int set_up(void **state)
{
    (void)state;
    loop = sw_loop_new(NULL);
    now_ns = 1000 * SW_NS_PER_S;
    sw_loop_set_clock(loop, fake_clock);
    return loop ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    sw_loop_free(loop);
    return 0;
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(test_much_passes_through_little_room),
        T(test_goaway_ends_both_sides_when_the_last_stream_did),
        T(test_peer_that_takes_nothing_is_given_up),
        T(test_rubbish_is_answered_by_goaway),
    };
#undef T

    return cmocka_run_group_tests_name("h2conn", tests, NULL, NULL);
}
