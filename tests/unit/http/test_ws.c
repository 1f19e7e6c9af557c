/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "http/ws/ws.h"
#include "http/ws/wsconn.h"
#include "io/loop.h"
#include "io/sock.h"

enum { MAX = 70000, PATIENCE_MS = 60000 };

static void test_accept_key_of_the_rfc(void **state)
{
    char out[SW_WS_ACCEPT];
    char key[SW_WS_KEY];
    char other[SW_WS_KEY];

    (void)state;
    sw_ws_accept(SW_SLICE_LIT("dGhlIHNhbXBsZSBub25jZQ=="), out);
    assert_string_equal(out, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    sw_ws_new_key(key);
    sw_ws_new_key(other);
    assert_int_equal(strlen(key), 24);
    assert_string_not_equal(key, other);
}

static void test_frames_of_the_rfc_are_read(void **state)
{
    uint8_t masked[] = {0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58};
    uint8_t plain[] = {0x81, 0x05, 'H', 'e', 'l', 'l', 'o'};
    struct sw_ws w;
    struct sw_ws_event ev;
    struct sw_err err;
    size_t used;

    (void)state;
    sw_ws_init(&w, false, MAX);
    for (size_t n = 0; n < sizeof(masked); n++)
        assert_int_equal(sw_ws_next(&w, masked, n, &used, &ev, &err), SW_EAGAIN);
    assert_int_equal(sw_ws_next(&w, masked, sizeof(masked), &used, &ev, &err), SW_OK);
    assert_int_equal(used, sizeof(masked));
    assert_int_equal(ev.op, SW_WS_TEXT);
    assert_int_equal(ev.n, 5);
    assert_memory_equal(ev.p, "Hello", 5);
    sw_ws_done(&w);
    sw_ws_init(&w, true, MAX);
    assert_int_equal(sw_ws_next(&w, plain, sizeof(plain), &used, &ev, &err), SW_OK);
    assert_memory_equal(ev.p, "Hello", 5);
    sw_ws_done(&w);
}

static void test_what_is_written_is_read_back(void **state)
{
    static const size_t sizes[] = {0, 1, 31, 32, 33, 125, 126, 127, 65535, 65536, 69999};
    uint8_t *buf = sw_malloc(MAX + SW_WS_HEAD_MAX);
    uint8_t *want = sw_malloc(MAX);

    (void)state;
    for (size_t i = 0; i < MAX; i++)
        want[i] = (uint8_t)(i * 31 + (i >> 8));
    for (size_t i = 0; i < SW_ARRAY_LEN(sizes); i++) {
        for (int client = 0; client < 2; client++) {
            const uint8_t mask[4] = {1, 0x80, 0xfe, (uint8_t)i};
            size_t head = sw_ws_put_head(buf, SW_WS_BINARY, sizes[i], client ? mask : NULL);
            struct sw_ws_event ev;
            struct sw_err err;
            struct sw_ws w;
            size_t used;

            memcpy(buf + head, want, sizes[i]);
            if (client)
                sw_ws_mask(buf + head, sizes[i], mask);
            sw_ws_init(&w, !client, MAX);
            assert_int_equal(sw_ws_next(&w, buf, head + sizes[i], &used, &ev, &err), SW_OK);
            assert_int_equal(used, head + sizes[i]);
            assert_int_equal(ev.n, sizes[i]);
            assert_memory_equal(ev.p, want, sizes[i]);
            sw_ws_done(&w);
        }
    }
    sw_free(buf);
    sw_free(want);
}

static void test_fragments_become_one_message_with_control_between(void **state)
{
    uint8_t in[] = {0x02, 2, 'a', 'b', 0x89, 1, '!', 0x00, 0, 0x80, 1, 'c', 0x82, 1, 'd'};
    struct sw_ws_event ev;
    struct sw_err err;
    struct sw_ws w;
    size_t used;
    size_t at = 0;

    (void)state;
    sw_ws_init(&w, true, 3);
    assert_int_equal(sw_ws_next(&w, in, sizeof(in), &used, &ev, &err), SW_EAGAIN);
    at += used;
    assert_int_equal(sw_ws_next(&w, in + at, sizeof(in) - at, &used, &ev, &err), SW_OK);
    assert_int_equal(ev.op, SW_WS_PING);
    at += used;
    assert_int_equal(sw_ws_next(&w, in + at, sizeof(in) - at, &used, &ev, &err), SW_EAGAIN);
    at += used;
    assert_int_equal(sw_ws_next(&w, in + at, sizeof(in) - at, &used, &ev, &err), SW_OK);
    at += used;
    assert_int_equal(ev.op, SW_WS_BINARY);
    assert_int_equal(ev.n, 3);
    assert_memory_equal(ev.p, "abc", 3);
    assert_int_equal(sw_ws_next(&w, in + at, sizeof(in) - at, &used, &ev, &err), SW_OK);
    assert_memory_equal(ev.p, "d", 1);
    sw_ws_done(&w);
}

static void test_refusals(void **state)
{
    /* As a client receives them: without mask. */
    static const struct {
        const char *what;
        uint8_t in[12];
        size_t n;
        int rc;
        uint16_t code;
    } cases[] = {
        {"masked", {0x82, 0x81, 0, 0, 0, 0, 0}, 7, SW_EPROTO, SW_WS_PROTOCOL_ERROR},
        {"reserved bit", {0xc2, 0}, 2, SW_EPROTO, SW_WS_PROTOCOL_ERROR},
        {"unknown data", {0x83, 0}, 2, SW_EPROTO, SW_WS_PROTOCOL_ERROR},
        {"unknown control", {0x8b, 0}, 2, SW_EPROTO, SW_WS_PROTOCOL_ERROR},
        {"fragmented ping", {0x09, 0}, 2, SW_EPROTO, SW_WS_PROTOCOL_ERROR},
        {"long ping", {0x89, 126, 0, 126}, 4, SW_EPROTO, SW_WS_PROTOCOL_ERROR},
        {"fragment of nothing", {0x80, 0}, 2, SW_EPROTO, SW_WS_PROTOCOL_ERROR},
        {"short in two bytes", {0x82, 126, 0, 125}, 4, SW_EPROTO, SW_WS_PROTOCOL_ERROR},
        {"short in eight bytes",
         {0x82, 127, 0, 0, 0, 0, 0, 0, 0xff, 0xff},
         10,
         SW_EPROTO,
         SW_WS_PROTOCOL_ERROR},
        {"too large", {0x82, 127, 0, 0, 0, 0, 0, 2, 0, 0}, 10, SW_ELIMIT, SW_WS_TOO_LARGE},
        {"huge", {0x82, 127, 0xff, 0, 0, 0, 0, 0, 0, 0}, 10, SW_ELIMIT, SW_WS_TOO_LARGE},
        {"close of one byte", {0x88, 1, 3}, 3, SW_EPROTO, SW_WS_PROTOCOL_ERROR},
        {"close with 1005", {0x88, 2, 0x03, 0xed}, 4, SW_EPROTO, SW_WS_PROTOCOL_ERROR},
        {"close reason", {0x88, 3, 0x03, 0xe8, 0xff}, 5, SW_EPROTO, SW_WS_BAD_TEXT},
        {"bad text", {0x81, 1, 0xff}, 3, SW_EPROTO, SW_WS_BAD_TEXT},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        uint8_t in[12];
        struct sw_ws_event ev;
        struct sw_err err;
        struct sw_ws w;
        size_t used;

        memcpy(in, cases[i].in, sizeof(in));
        sw_ws_init(&w, true, MAX);
        if (sw_ws_next(&w, in, cases[i].n, &used, &ev, &err) != cases[i].rc ||
            w.refusal != cases[i].code)
            fail_msg("%s", cases[i].what);
        sw_ws_done(&w);
    }
}

static void test_a_server_wants_masks_and_nothing_follows_a_close(void **state)
{
    uint8_t plain[] = {0x82, 0};
    uint8_t close_then[] = {0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe8, 0x82, 0x80, 0, 0, 0, 0};
    struct sw_ws_event ev;
    struct sw_err err;
    struct sw_ws w;
    size_t used;

    (void)state;
    sw_ws_init(&w, false, MAX);
    assert_int_equal(sw_ws_next(&w, plain, 2, &used, &ev, &err), SW_EPROTO);
    assert_int_equal(sw_ws_next(&w, close_then, sizeof(close_then), &used, &ev, &err), SW_OK);
    assert_int_equal(ev.op, SW_WS_CLOSE);
    assert_int_equal(ev.code, 1000);
    assert_int_equal(sw_ws_next(&w, close_then + used, sizeof(close_then) - used, &used, &ev, &err),
                     SW_EPROTO);
    sw_ws_done(&w);
}

static void test_fragments_are_bounded(void **state)
{
    struct sw_ws w;
    struct sw_ws_event ev;
    struct sw_err err;
    size_t used;
    int rc = SW_EAGAIN;
    int n = 0;

    (void)state;
    sw_ws_init(&w, true, MAX);
    while (rc == SW_EAGAIN && n < 10000) {
        uint8_t frame[2] = {n ? 0x00 : 0x02, 0};

        rc = sw_ws_next(&w, frame, 2, &used, &ev, &err);
        n++;
    }
    assert_int_equal(rc, SW_ELIMIT);
    assert_int_equal(n, SW_WS_FRAGMENTS_MAX + 1);
    sw_ws_done(&w);
}

/* ---- connections ---- */

struct end {
    struct sw_wsconn ws;
    size_t messages;
    size_t bytes;
    size_t texts;
    bool ended;
    int why;
    bool freed;
    bool echo;
};

static struct end *end_of(struct sw_wsconn *c)
{
    return SW_CONTAINER_OF(c, struct end, ws);
}

static void on_open(struct sw_wsconn *c)
{
    (void)c;
}

static size_t on_bytes(struct sw_wsconn *c, struct sw_slice in)
{
    sw_wsconn_upgrade(c);
    return sw_min(in.n, 1); /* the rest is the first frame */
}

static void on_message(struct sw_wsconn *c, uint8_t *p, size_t n)
{
    struct end *e = end_of(c);

    e->messages++;
    e->bytes += n;
    if (e->echo) {
        uint8_t *out = sw_wsconn_room(c, SW_WS_BINARY, n, true);

        memcpy(out, p, n);
        sw_wsconn_commit(c, out, n);
    }
}

static void on_text(struct sw_wsconn *c, size_t n)
{
    end_of(c)->texts += n;
}

static void on_end(struct sw_wsconn *c, const struct sw_err *why)
{
    end_of(c)->ended = true;
    end_of(c)->why = why->rc;
}

static void on_free(struct sw_wsconn *c)
{
    end_of(c)->freed = true;
}

static const struct sw_wsconn_ops ops = {on_open, on_bytes, on_message, on_text,
                                         NULL,    on_end,   on_free};

/* The client's side says it is connecting, which a socket pair is at once. */
static struct sw_loop *open_pair(struct end *client, struct end *server)
{
    struct sw_wsconn_opts o = {
        .ops = &ops, .dialled = true, .message_max = MAX, .stall_ms = PATIENCE_MS};
    struct sw_err err = {0};
    struct sw_loop *l = sw_loop_new(&err);
    int fds[2];

    assert_non_null(l);
    assert_int_equal(sw_sock_pair(fds, &err), SW_OK);
    *client = *server = (struct end){0};
    assert_int_equal(sw_wsconn_init(&client->ws, l, fds[0], &o, &err), SW_OK);
    o.dialled = false;
    assert_int_equal(sw_wsconn_init(&server->ws, l, fds[1], &o, &err), SW_OK);
    for (int i = 0; i < 3; i++)
        sw_loop_turn(l, 0);
    sw_wsconn_put(&client->ws, "x", 1);
    sw_wsconn_upgrade(&client->ws);
    return l;
}

static void turns(struct sw_loop *l, int n)
{
    for (int i = 0; i < n; i++)
        sw_loop_turn(l, 0);
}

static void test_messages_go_both_ways_in_order(void **state)
{
    struct end c;
    struct end s;
    struct sw_loop *l = open_pair(&c, &s);
    static uint8_t big[SW_WSCONN_FRAME_MAX];

    (void)state;
    s.echo = true;
    for (size_t i = 0; i < 40; i++)
        sw_wsconn_send(&c.ws, SW_WS_BINARY, big, i * 1600);
    sw_wsconn_send(&c.ws, SW_WS_TEXT, "hello", 5);
    sw_wsconn_send(&c.ws, SW_WS_PING, "p", 1);
    turns(l, 200);
    assert_int_equal(s.messages, 40);
    assert_int_equal(c.messages, 40);
    assert_int_equal(c.bytes, 1600 * 39 * 40 / 2);
    assert_int_equal(s.texts, 5);
    assert_int_equal(sw_wsconn_unsent(&c.ws), 0);
    assert_int_equal(sw_wsconn_queued(&s.ws), 0);
    sw_wsconn_finish(&c.ws, SW_WS_NORMAL, "done");
    turns(l, 20);
    assert_true(s.ended && s.freed && c.freed);
    assert_int_equal(s.why, SW_EOF);
    assert_false(c.ended);
    sw_loop_free(l);
}

static void test_pause_and_move_lose_nothing(void **state)
{
    struct end c;
    struct end s;
    struct sw_err err = {0};
    struct sw_loop *l = open_pair(&c, &s);
    struct sw_loop *other = sw_loop_new(&err);

    (void)state;
    turns(l, 5);
    sw_conn_pause(&s.ws.io);
    for (int i = 0; i < 10; i++)
        sw_wsconn_send(&c.ws, SW_WS_BINARY, "0123456789", 10);
    turns(l, 10);
    assert_int_equal(s.messages, 0);
    sw_conn_detach(&s.ws.io);
    assert_int_equal(sw_conn_attach(&s.ws.io, other, &err), SW_OK);
    turns(other, 10);
    assert_int_equal(s.messages, 10);
    sw_wsconn_close(&s.ws);
    sw_wsconn_close(&c.ws);
    turns(other, 2);
    turns(l, 2);
    assert_true(s.freed && c.freed);
    sw_loop_free(other);
    sw_loop_free(l);
}

static void test_a_broken_frame_ends_with_its_code(void **state)
{
    struct end c;
    struct end s;
    struct sw_loop *l = open_pair(&c, &s);

    (void)state;
    sw_wsconn_put(&c.ws, "\xf2\x80\0\0\0\0", 6);
    turns(l, 20);
    assert_true(s.ended && s.freed);
    assert_int_equal(s.why, SW_EPROTO);
    assert_true(c.ended && c.freed);
    sw_loop_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accept_key_of_the_rfc),
        cmocka_unit_test(test_frames_of_the_rfc_are_read),
        cmocka_unit_test(test_what_is_written_is_read_back),
        cmocka_unit_test(test_fragments_become_one_message_with_control_between),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_a_server_wants_masks_and_nothing_follows_a_close),
        cmocka_unit_test(test_fragments_are_bounded),
        cmocka_unit_test(test_messages_go_both_ways_in_order),
        cmocka_unit_test(test_pause_and_move_lose_nothing),
        cmocka_unit_test(test_a_broken_frame_ends_with_its_code),
    };

    return cmocka_run_group_tests_name("ws", tests, NULL, NULL);
}
