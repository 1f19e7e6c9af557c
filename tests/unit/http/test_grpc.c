/* SPDX-License-Identifier: Apache-2.0 */
/* Framing, and our client against our server over loopback. */
#include "http/grpc/grpc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/time.h"
#include "io/sock.h"
#include "web_cred.h"

/* --- framing --- */

static void messages_are_cut_at_any_place(void **state)
{
    static const char wire[] = "\0\0\0\0\3abc\0\0\0\0\0\0\0\0\0\1x";
    static const char *want[] = {"abc", "", "x"};

    (void)state;
    for (size_t step = 1; step < sizeof(wire); step++) {
        struct sw_grpc_reader r;
        struct sw_slice msg;
        size_t got = 0;

        sw_grpc_reader_init(&r, 3);
        for (size_t at = 0; at < sizeof(wire) - 1; at += step) {
            struct sw_slice in = sw_slice(wire + at, sw_min(step, sizeof(wire) - 1 - at));

            assert_int_equal(sw_grpc_reader_feed(&r, in, NULL), SW_OK);
            while (sw_grpc_reader_next(&r, &msg, NULL) == SW_OK)
                assert_true(sw_slice_eq_str(msg, want[got++]));
        }
        assert_int_equal(got, 3);
        assert_true(sw_grpc_reader_idle(&r));
        sw_grpc_reader_done(&r);
    }
}

static void bad_frames_are_refused(void **state)
{
    struct sw_grpc_reader r;
    struct sw_slice msg;

    (void)state;
    sw_grpc_reader_init(&r, 3);
    assert_int_equal(sw_grpc_reader_feed(&r, SW_SLICE_LIT("\0\0\0\0\4"), NULL), SW_OK);
    assert_int_equal(sw_grpc_reader_next(&r, &msg, NULL), SW_ELIMIT);
    sw_grpc_reader_done(&r);
    sw_grpc_reader_init(&r, 3);
    assert_int_equal(sw_grpc_reader_feed(&r, SW_SLICE_LIT("\1\0\0\0\1"), NULL), SW_OK);
    assert_int_equal(sw_grpc_reader_next(&r, &msg, NULL), SW_EPROTO);
    sw_grpc_reader_done(&r);
}

static void status_texts_survive_the_wire(void **state)
{
    static const struct {
        const char *text;
        const char *wire;
    } cases[] = {
        {"plain text", "plain text"},
        {"50% \n", "50%25 %0A"},
        {"\xc3\xa4", "%C3%A4"},
        {"", ""},
    };
    SW_BUF_AUTO out;

    (void)state;
    sw_buf_init(&out, 100);
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        sw_buf_clear(&out);
        sw_grpc_message_encode(sw_slice_str(cases[i].text), &out);
        assert_true(sw_slice_eq_str(sw_buf_slice(&out), cases[i].wire));
        sw_buf_clear(&out);
        sw_grpc_message_decode(sw_slice_str(cases[i].wire), &out);
        assert_true(sw_slice_eq_str(sw_buf_slice(&out), cases[i].text));
    }
    sw_buf_clear(&out);
    sw_grpc_message_decode(SW_SLICE_LIT("a%2gb%4"), &out);
    assert_true(sw_slice_eq_str(sw_buf_slice(&out), "a%2gb%4"));
}

/* --- calls --- */

struct world {
    struct sw_loop *loop;
    struct sw_grpc_server *server;
    struct sw_grpc_client *client;
    struct sw_ca *ca;
    struct sw_tls_cred *server_cred;
    struct sw_tls_cred *client_cred;
    struct sw_addr at;
    struct sw_grpc_call *open; /* on the server */
    size_t server_messages;
    size_t server_done;
    enum sw_grpc_status server_status;
    bool pause_server;
    uint32_t window; /* of the client */
    bool paused;
    size_t messages;
    size_t bytes;
    char last[64];
    int done;
    enum sw_grpc_status status;
    char text[128];
    bool cancel;
    char token[32];
};

static void unary(struct sw_grpc_call *c, struct sw_slice msg, void *arg)
{
    (void)arg;
    if (sw_slice_eq_str(msg, "fail"))
        sw_grpc_finish(c, SW_GRPC_NOT_FOUND, "no such thing: %s", "100%\n");
    else
        sw_grpc_reply(c, msg);
}

static void echo_message(struct sw_grpc_call *c, struct sw_slice msg, void *arg)
{
    struct world *w = arg;

    w->server_messages++;
    if (w->pause_server && !w->paused) {
        w->paused = true;
        sw_grpc_pause(c, true);
    }
    assert_int_equal(sw_grpc_send(c, msg), SW_OK);
}

static void echo_end(struct sw_grpc_call *c, void *arg)
{
    (void)arg;
    sw_grpc_finish(c, SW_GRPC_OK, "%s", "");
}

static void echo_done(struct sw_grpc_call *c, enum sw_grpc_status status, struct sw_slice text,
                      void *arg)
{
    struct world *w = arg;

    (void)c;
    (void)text;
    w->open = NULL;
    w->server_done++;
    w->server_status = status;
}

static const struct sw_grpc_ops echo_ops = {
    .on_message = echo_message, .on_end = echo_end, .on_done = echo_done};

static void open_echo(struct sw_grpc_call *c, const struct sw_grpc_request *req, void *arg)
{
    struct world *w = arg;

    w->open = c;
    memcpy(w->token, req->token.p ? req->token.p : "", sw_min(req->token.n, 31));
    sw_grpc_accept(c, &echo_ops, w);
}

static void on_message(struct sw_grpc_call *c, struct sw_slice msg, void *arg)
{
    struct world *w = arg;

    w->messages++;
    w->bytes += msg.n;
    memset(w->last, 0, sizeof(w->last));
    memcpy(w->last, msg.p, sw_min(msg.n, sizeof(w->last) - 1));
    if (w->cancel)
        sw_grpc_cancel(c);
}

static void on_done(struct sw_grpc_call *c, enum sw_grpc_status status, struct sw_slice text,
                    void *arg)
{
    struct world *w = arg;

    (void)c;
    w->done++;
    w->status = status;
    memset(w->text, 0, sizeof(w->text));
    memcpy(w->text, text.p, sw_min(text.n, sizeof(w->text) - 1));
}

static const struct sw_grpc_ops client_ops = {.on_message = on_message, .on_done = on_done};

static const char *const sans[] = {"127.0.0.1", NULL};

static void start(struct world *w)
{
    struct sw_grpc_method methods[] = {
        {.path = "/t.T/Unary", .unary = unary, .arg = w},
        {.path = "/t.T/Echo", .open = open_echo, .arg = w},
    };
    struct sw_addr any = {.ip = {.family = 4, .b = {127, 0, 0, 1}}};

    w->server = sw_grpc_server_new(
        w->loop, &(struct sw_grpc_server_opts){.cred = w->server_cred, .max_message = 3 << 20});
    sw_grpc_server_methods(w->server, methods, SW_ARRAY_LEN(methods));
    assert_int_equal(sw_grpc_server_listen(w->server, &any, &w->at, NULL), SW_OK);
    w->client = sw_grpc_client_new(w->loop,
                                   &(struct sw_grpc_client_opts){.host = SW_SLICE_LIT("127.0.0.1"),
                                                                 .port = w->at.port,
                                                                 .window = w->window,
                                                                 .cred = w->client_cred},
                                   NULL);
    assert_non_null(w->client);
}

static int set_up(void **state)
{
    struct world *w = SW_NEW(struct world);

    w->loop = sw_loop_new(NULL);
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;

    sw_grpc_client_free(w->client);
    sw_grpc_server_free(w->server);
    sw_tls_cred_unref(w->server_cred);
    sw_tls_cred_unref(w->client_cred);
    sw_ca_free(w->ca);
    sw_loop_turn(w->loop, 0);
    sw_loop_free(w->loop);
    sw_free(w);
    return 0;
}

#define RUN_UNTIL(w, cond)                                                                         \
    do {                                                                                           \
        for (int turns = 0; turns < 5000 && !(cond); turns++)                                      \
            sw_loop_turn((w)->loop, 20);                                                           \
        assert_true(cond);                                                                         \
    } while (0)

static struct sw_grpc_call *call(struct world *w, const char *path)
{
    return sw_grpc_call(w->client, sw_slice_str(path), SW_SLICE_LIT("secret"), 0, &client_ops, w);
}

static void one_unary(struct world *w, const char *path, const char *msg)
{
    struct sw_grpc_call *c = call(w, path);

    w->done = 0;
    assert_int_equal(sw_grpc_send(c, sw_slice_str(msg)), SW_OK);
    sw_grpc_end(c);
    RUN_UNTIL(w, w->done);
}

static void unary_calls_are_answered(void **state)
{
    struct world *w = *state;

    start(w);
    one_unary(w, "/t.T/Unary", "hello");
    assert_int_equal(w->status, SW_GRPC_OK);
    assert_string_equal(w->last, "hello");
    one_unary(w, "/t.T/Unary", "fail");
    assert_int_equal(w->status, SW_GRPC_NOT_FOUND);
    assert_string_equal(w->text, "no such thing: 100%\n");
    one_unary(w, "/t.T/Nothing", "x");
    assert_int_equal(w->status, SW_GRPC_UNIMPLEMENTED);
    assert_int_equal(w->messages, 1);
    RUN_UNTIL(w, sw_grpc_server_calls(w->server) == 0);
}

static void echo_stream(struct world *w, size_t size, size_t n)
{
    struct sw_grpc_call *c = call(w, "/t.T/Echo");
    char *big = sw_calloc(1, size);

    w->messages = w->bytes = w->server_messages = w->server_done = 0;
    w->done = 0;
    for (size_t i = 0; i < n; i++)
        assert_int_equal(sw_grpc_send(c, sw_slice(big, size)), SW_OK);
    RUN_UNTIL(w, w->messages == n);
    assert_int_equal(w->bytes, n * size);
    assert_int_equal(w->done, 0);
    sw_grpc_end(c);
    RUN_UNTIL(w, w->done && w->server_done);
    assert_int_equal(w->status, SW_GRPC_OK);
    assert_int_equal(w->server_status, SW_GRPC_OK);
    sw_free(big);
}

static void streams_go_both_ways(void **state)
{
    struct world *w = *state;

    start(w);
    echo_stream(w, 10, 100);
    assert_string_equal(w->token, "secret");
    echo_stream(w, 2 << 20, 5); /* far beyond every window */
}

static void tls_carries_the_same(void **state)
{
    struct world *w = *state;

    w->ca = sw_ca_new(SW_SLICE_LIT("cluster.local"), 0, NULL);
    w->server_cred = web_cred(w->ca, sans);
    w->client_cred = web_cred(w->ca, NULL);
    start(w);
    one_unary(w, "/t.T/Unary", "hello");
    assert_int_equal(w->status, SW_GRPC_OK);
    echo_stream(w, 2 << 20, 3);
}

static void a_stranger_is_not_believed(void **state)
{
    struct world *w = *state;
    struct sw_ca *other = sw_ca_new(SW_SLICE_LIT("cluster.local"), 0, NULL);

    w->ca = sw_ca_new(SW_SLICE_LIT("cluster.local"), 0, NULL);
    w->server_cred = web_cred(w->ca, sans);
    w->client_cred = web_cred(other, NULL);
    sw_ca_free(other);
    start(w);
    one_unary(w, "/t.T/Unary", "hello");
    assert_int_equal(w->status, SW_GRPC_UNAVAILABLE);
    assert_int_equal(w->messages, 0);
}

static void a_message_too_large_ends_the_call(void **state)
{
    struct world *w = *state;
    struct sw_grpc_call *c;
    char *big = sw_calloc(1, (3 << 20) + 1);

    start(w);
    c = call(w, "/t.T/Echo");
    assert_int_equal(sw_grpc_send(c, sw_slice(big, (3 << 20) + 1)), SW_OK);
    RUN_UNTIL(w, w->done);
    assert_int_equal(w->status, SW_GRPC_RESOURCE_EXHAUSTED);
    sw_free(big);
    one_unary(w, "/t.T/Unary", "still there");
    assert_int_equal(w->status, SW_GRPC_OK);
}

static void a_reader_that_pauses_stops_the_writer(void **state)
{
    struct world *w = *state;
    struct sw_grpc_call *c;
    char *big = sw_calloc(1, 100000);

    start(w);
    w->pause_server = true;
    c = call(w, "/t.T/Echo");
    for (int i = 0; i < 100; i++)
        assert_int_equal(sw_grpc_send(c, sw_slice(big, 100000)), SW_OK);
    RUN_UNTIL(w, w->paused);
    for (int i = 0; i < 50; i++)
        sw_loop_turn(w->loop, 2);
    assert_int_equal(w->server_messages, 1);
    assert_true(sw_grpc_queued(c) > 8000000); /* what the window and the buffers took is little */
    sw_grpc_pause(w->open, false);
    RUN_UNTIL(w, w->messages == 100);
    sw_grpc_cancel(c);
    RUN_UNTIL(w, w->server_done);
    assert_int_equal(w->server_status, SW_GRPC_CANCELLED);
    sw_free(big);
}

/* A client that reads nothing holds up the server behind its window, whatever that is. */
static void a_window_is_as_large_as_the_client_says(void **state)
{
    struct world *w = *state;
    char *big = sw_calloc(1, 100000);
    struct sw_grpc_call *c;

    w->window = 4 << 20;
    start(w);
    c = call(w, "/t.T/Echo");
    sw_grpc_pause(c, true);
    for (int i = 0; i < 20; i++)
        assert_int_equal(sw_grpc_send(c, sw_slice(big, 100000)), SW_OK);
    RUN_UNTIL(w, w->server_messages == 20 && sw_grpc_queued(w->open) == 0);
    assert_int_equal(w->messages, 0);
    sw_grpc_pause(c, false);
    RUN_UNTIL(w, w->messages == 20);
    sw_grpc_cancel(c);
    RUN_UNTIL(w, w->server_done);
    sw_free(big);
}

static void cancelling_in_a_callback_is_safe(void **state)
{
    struct world *w = *state;
    struct sw_grpc_call *c;

    start(w);
    w->cancel = true;
    c = call(w, "/t.T/Echo");
    assert_int_equal(sw_grpc_send(c, SW_SLICE_LIT("1")), SW_OK);
    assert_int_equal(sw_grpc_send(c, SW_SLICE_LIT("2")), SW_OK);
    RUN_UNTIL(w, w->server_done);
    assert_int_equal(w->messages, 1);
    assert_int_equal(w->done, 0);
}

static void deadlines_pass(void **state)
{
    struct world *w = *state;

    start(w);
    (void)!sw_grpc_call(w->client, SW_SLICE_LIT("/t.T/Echo"), (struct sw_slice){0},
                        50 * SW_NS_PER_MS, &client_ops, w);
    RUN_UNTIL(w, w->done);
    assert_int_equal(w->status, SW_GRPC_DEADLINE_EXCEEDED);
    RUN_UNTIL(w, w->server_done);
}

static void nobody_listens(void **state)
{
    struct world *w = *state;

    start(w);
    sw_grpc_server_free(w->server);
    w->server = NULL;
    one_unary(w, "/t.T/Unary", "hello");
    assert_int_equal(w->status, SW_GRPC_UNAVAILABLE);
}

/* --- strangers --- */

/* Raw bytes on a connection of their own; true when the server hung up. */
static bool hangs_up(struct world *w, const char *bytes, size_t n)
{
    int fds[2];
    char waste[4096];
    ssize_t got = SW_EAGAIN;

    assert_int_equal(sw_sock_pair(fds, NULL), SW_OK);
    sw_grpc_server_adopt(w->server, fds[0]);
    for (int i = 0; i < 100 && (got >= 0 || got == SW_EAGAIN); i++) {
        if (i == 0)
            assert_int_equal(sw_sock_write(fds[1], bytes, n), (ssize_t)n);
        sw_loop_turn(w->loop, 2);
        got = sw_sock_read(fds[1], waste, sizeof(waste));
    }
    sw_sock_close(fds[1]);
    return got == SW_EOF || got == SW_ECLOSED;
}

#define PREFACE          "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define HANGS_UP(w, lit) hangs_up((w), (lit), sizeof(lit) - 1)

static void garbage_ends_a_connection(void **state)
{
    struct world *w = *state;

    start(w);
    assert_true(HANGS_UP(w, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
    /* DATA on stream 0, and a frame larger than allowed. */
    assert_true(HANGS_UP(w, PREFACE "\0\0\0\4\0\0\0\0\0"
                                    "\0\0\1\0\0\0\0\0\0x"));
    assert_true(HANGS_UP(w, PREFACE "\0\0\0\4\0\0\0\0\0"
                                    "\xff\xff\xff\0\0\0\0\0\1"));
    one_unary(w, "/t.T/Unary", "still there");
    assert_int_equal(w->status, SW_GRPC_OK);
}

static uint64_t late;

static uint64_t late_clock(void)
{
    return sw_now_ns() + late;
}

static void silence_ends_a_connection(void **state)
{
    struct world *w = *state;
    struct sw_grpc_call *c;
    int fds[2];
    char waste[256];

    late = 0;
    sw_loop_set_clock(w->loop, late_clock);
    w->ca = sw_ca_new(SW_SLICE_LIT("cluster.local"), 0, NULL);
    w->server_cred = web_cred(w->ca, sans);
    w->client_cred = web_cred(w->ca, NULL);
    start(w);
    /* A handshake that never begins. */
    assert_int_equal(sw_sock_pair(fds, NULL), SW_OK);
    sw_grpc_server_adopt(w->server, fds[0]);
    sw_loop_turn(w->loop, 2);
    late = 11 * SW_NS_PER_S;
    for (int i = 0; i < 5; i++)
        sw_loop_turn(w->loop, 2);
    assert_int_equal(sw_sock_read(fds[1], waste, sizeof(waste)), SW_EOF);
    sw_sock_close(fds[1]);
    /* One that answers pings may be quiet for as long as it likes. */
    c = call(w, "/t.T/Echo");
    assert_int_equal(sw_grpc_send(c, SW_SLICE_LIT("1")), SW_OK);
    RUN_UNTIL(w, w->messages == 1);
    for (int i = 0; i < 40; i++) {
        late += 5 * SW_NS_PER_S;
        for (int k = 0; k < 4; k++)
            sw_loop_turn(w->loop, 1);
    }
    assert_int_equal(w->done, 0);
    assert_int_equal(sw_grpc_send(c, SW_SLICE_LIT("2")), SW_OK);
    RUN_UNTIL(w, w->messages == 2);
    sw_grpc_cancel(c);
}

/* Frames of this type without flags among the bytes that wait; they are read. */
static size_t frames_of(int fd, uint8_t type)
{
    char buf[4096];
    size_t found = 0;
    ssize_t n = sw_sock_read(fd, buf, sizeof(buf));

    for (ssize_t at = 0; n > 0 && at + 9 <= n;) {
        found += (uint8_t)buf[at + 3] == type && buf[at + 4] == 0;
        at += 9 + ((uint8_t)buf[at + 1] << 8) + (uint8_t)buf[at + 2];
    }
    return found;
}

static void pass(struct world *w, uint64_t s)
{
    late += s * SW_NS_PER_S;
    for (int i = 0; i < 5; i++)
        sw_loop_turn(w->loop, 1);
}

/* As when the machine of a control plane is gone: the connection stays open, nothing comes. */
static void a_silent_server_is_given_up(void **state)
{
    const struct sw_slice settings = SW_SLICE_LIT("\0\0\0\4\0\0\0\0\0");
    const struct sw_addr any = {.ip = {.family = 4, .b = {127, 0, 0, 1}}};
    struct world *w = *state;
    struct sw_addr at;
    char waste[4096];
    int listener;
    int peer = -1;

    late = 0;
    sw_loop_set_clock(w->loop, late_clock);
    assert_int_equal(sw_sock_listen(&any, &(struct sw_sock_opts)SW_SOCK_OPTS_INIT, &listener, NULL),
                     SW_OK);
    at = sw_sock_local(listener);
    w->client = sw_grpc_client_new(
        w->loop, &(struct sw_grpc_client_opts){.host = SW_SLICE_LIT("127.0.0.1"), .port = at.port},
        NULL);
    (void)call(w, "/t.T/Echo");
    RUN_UNTIL(w, peer >= 0 || sw_sock_accept(listener, &peer, &at, NULL) == SW_OK);
    assert_int_equal(sw_sock_write(peer, settings.p, settings.n), (ssize_t)settings.n);
    pass(w, 0);
    while (sw_sock_read(peer, waste, sizeof(waste)) > 0)
        pass(w, 0);
    for (int s = 0; s < 25; s += 5)
        pass(w, 5);
    assert_int_equal(frames_of(peer, 6), 0);
    pass(w, 5);
    pass(w, 5);
    assert_int_equal(frames_of(peer, 6), 1); /* PING */
    assert_int_equal(w->done, 0);
    pass(w, 5);
    pass(w, 5);
    assert_int_equal(w->done, 1);
    assert_int_equal(w->status, SW_GRPC_UNAVAILABLE);
    sw_sock_close(peer);
    sw_sock_close(listener);
}

static void stopped(void *arg)
{
    *(bool *)arg = true;
}

static void a_stopping_server_lets_calls_finish(void **state)
{
    struct world *w = *state;
    struct sw_grpc_call *c;
    bool is_stopped = false;

    start(w);
    c = call(w, "/t.T/Echo");
    assert_int_equal(sw_grpc_send(c, SW_SLICE_LIT("1")), SW_OK);
    RUN_UNTIL(w, w->messages == 1);
    sw_grpc_server_stop(w->server, 10 * SW_NS_PER_S, stopped, &is_stopped);
    assert_int_equal(sw_grpc_send(c, SW_SLICE_LIT("2")), SW_OK);
    RUN_UNTIL(w, w->messages == 2);
    assert_false(is_stopped);
    sw_grpc_end(c);
    RUN_UNTIL(w, w->done);
    assert_int_equal(w->status, SW_GRPC_OK);
    RUN_UNTIL(w, is_stopped);
    one_unary(w, "/t.T/Unary", "hello");
    assert_int_equal(w->status, SW_GRPC_UNAVAILABLE);
}

#define LIVE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_are_cut_at_any_place),
        cmocka_unit_test(bad_frames_are_refused),
        cmocka_unit_test(status_texts_survive_the_wire),
        LIVE(unary_calls_are_answered),
        LIVE(streams_go_both_ways),
        LIVE(tls_carries_the_same),
        LIVE(a_stranger_is_not_believed),
        LIVE(a_message_too_large_ends_the_call),
        LIVE(a_reader_that_pauses_stops_the_writer),
        LIVE(a_window_is_as_large_as_the_client_says),
        LIVE(cancelling_in_a_callback_is_safe),
        LIVE(deadlines_pass),
        LIVE(nobody_listens),
        LIVE(garbage_ends_a_connection),
        LIVE(silence_ends_a_connection),
        LIVE(a_silent_server_is_given_up),
        LIVE(a_stopping_server_lets_calls_finish),
    };

    return cmocka_run_group_tests_name("grpc", tests, NULL, NULL);
}
