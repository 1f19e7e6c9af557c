/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a connection: half-close, linger, stall, reset, and its socket handed on. */
#include "base/mem.h"
#include "io/sock.h"

#include "conn_rig.h"

static void test_half_closed_peer_is_answered(void **state)
{
    SW_BUF_AUTO got = {.max = BIG};
    struct end *e;
    int fds[2];

    (void)state;
    tcp_pair(fds);
    e = end_new(fds[0], NULL, false, 0);
    peer_write(fds[1], "question", 8);
    sw_sock_shutdown_write(fds[1]);
    UNTIL(e->eofs);
    assert_int_equal(sw_buf_len(&e->got), 8);
    sw_conn_put(&e->conn, "answer", 6);
    sw_conn_close_flushed(&e->conn);
    assert_int_equal(peer_read_all(fds[1], &got), SW_EOF);
    assert_int_equal(sw_buf_len(&got), 6);
    UNTIL(e->frees); /* the peer has ended its side: nothing to linger for */
    assert_int_equal(e->eofs, 1);
    end_free(e);
    sw_sock_close(fds[1]);
}

/* An owner that cannot use the end yet gets it again, once. */
static void test_the_end_is_repeated(void **state)
{
    struct end *e;
    int fds[2];

    (void)state;
    tcp_pair(fds);
    e = end_new(fds[0], NULL, false, 0);
    e->repeat_eof = true;
    sw_sock_shutdown_write(fds[1]);
    UNTIL(e->eofs == 1);
    settle();
    assert_int_equal(e->eofs, 1);
    e->repeat_eof = false;
    sw_conn_resume(&e->conn);
    UNTIL(e->eofs == 2);
    sw_conn_pause(&e->conn);
    sw_conn_resume(&e->conn);
    settle();
    assert_int_equal(e->eofs, 2);
    end_free(e);
    sw_sock_close(fds[1]);
}

/* Input that nobody reads must not turn the last answer into a reset. */
static void linger_saves_the_answer(bool tls)
{
    SW_BUF_AUTO got = {.max = BIG};
    char *text = pattern(BIG);
    struct end *e;
    struct end *peer = NULL;
    int fds[2];

    tcp_pair(fds);
    e = end_new(fds[0], tls ? tls_of_role(true) : NULL, false, 1000);
    if (tls) {
        peer = end_new(fds[1], tls_of_role(false), true, 1000);
        UNTIL(e->opens && peer->opens);
        sw_conn_put(&peer->conn, text, 300000);
    } else {
        peer_write(fds[1], text, 300000);
    }
    e->close_in = BYTES;
    e->linger_in = true;
    UNTIL(e->calls);
    sw_conn_put(&e->conn, "late", 4); /* nothing is taken behind it */
    if (tls) {
        UNTIL(peer->eofs);
        assert_false(peer->conn.truncated);
        assert_int_equal(peer->fails, 0);
        sw_conn_close(&peer->conn, false);
    } else {
        assert_int_equal(peer_read_all(fds[1], &got), SW_EOF);
        assert_int_equal(sw_buf_len(&got), 0);
        peer_write(fds[1], text, 1000); /* may be written still */
        settle();
        assert_int_equal(e->frees, 0);
        sw_sock_close(fds[1]);
    }
    UNTIL(e->frees);
    assert_int_equal(e->fails + e->eofs, 0);
    if (peer)
        end_free(peer);
    end_free(e);
    sw_free(text);
}

static void test_linger_saves_the_answer(void **state)
{
    (void)state;
    linger_saves_the_answer(false);
    linger_saves_the_answer(true);
}

static void test_linger_ends_by_time(void **state)
{
    struct end *e;
    int fds[2];

    (void)state;
    unix_pair(fds);
    e = end_new(fds[0], NULL, false, 0);
    settle();
    sw_conn_put(&e->conn, "answer", 6);
    sw_conn_close_flushed(&e->conn);
    pass_ms(SW_CONN_LINGER_MS - 10);
    peer_write(fds[1], "more", 4); /* what comes does not prolong it */
    pass_ms(0);
    assert_int_equal(e->frees, 0);
    pass_ms(20);
    assert_int_equal(e->frees, 1);
    end_free(e);
    sw_sock_close(fds[1]);
}

/* A slow peer gets everything; one that stands still is reset, so that a part looks like one. */
static void test_linger_waits_for_the_slow(void **state)
{
    char *text = pattern(BIG);
    char buf[65536];
    SW_BUF_AUTO got = {.max = 8 << 20};
    struct end *e;
    int fds[2];

    (void)state;
    for (int slow = 0; slow < 2; slow++) {
        tcp_pair(fds);
        e = end_new(fds[0], NULL, false, 0);
        sw_buf_clear(&got);
        for (int i = 0; i < 7; i++)
            sw_conn_put(&e->conn, text, BIG);
        assert_true(sw_conn_unsent(&e->conn) > 0);
        sw_conn_close_flushed(&e->conn);
        for (int i = 0; i < 5 && slow && sw_conn_unsent(&e->conn); i++) {
            pass_ms(SW_CONN_STUCK_MS - 1000);
            assert_int_equal(e->frees, 0);
            for (ssize_t n = 1; n > 0;) {
                n = sw_sock_read(fds[1], buf, sizeof(buf));
                if (n > 0)
                    assert_int_equal(sw_buf_append(&got, buf, (size_t)n), SW_OK);
            }
            settle();
        }
        if (slow) {
            assert_int_equal(peer_read_all(fds[1], &got), SW_EOF);
            assert_int_equal(sw_buf_len(&got), 7 * BIG);
        } else {
            pass_ms(SW_CONN_STUCK_MS + 10);
            assert_int_equal(e->frees, 1);
            assert_int_equal(peer_read_all(fds[1], &got), SW_ECLOSED);
        }
        end_free(e);
        sw_sock_close(fds[1]);
    }
    sw_free(text);
}

/* Both the output that waits and the wait for the peer have the time to linger, and no more. */
static void test_linger_bounds_the_output(void **state)
{
    char *text = pattern(BIG);
    struct end *e;
    int fds[2];

    (void)state;
    for (int much = 0; much < 2; much++) {
        unix_pair(fds);
        small_buffers(fds[0]);
        e = end_new(fds[0], NULL, false, 0);
        settle();
        sw_conn_put(&e->conn, text, much ? BIG : 3);
        sw_conn_close_within_linger(&e->conn);
        pass_ms(SW_CONN_LINGER_MS - 10);
        assert_int_equal(e->frees, 0);
        assert_int_equal(sw_conn_unsent(&e->conn) > 0, much);
        pass_ms(20);
        assert_int_equal(e->frees, 1);
        end_free(e);
        sw_sock_close(fds[1]);
    }
    sw_free(text);
}

static void test_stalled_peer_fails(void **state)
{
    char *text = pattern(BIG);
    char buf[65536];
    struct end *e;
    int fds[2];

    (void)state;
    unix_pair(fds);
    small_buffers(fds[0]);
    e = end_new(fds[0], NULL, false, 0);
    e->conn.stall_ms = 5000;
    sw_conn_put(&e->conn, text, BIG);
    settle();
    pass_ms(4990);
    assert_true(sw_sock_read(fds[1], buf, sizeof(buf)) > 0);
    settle();
    pass_ms(4990); /* progress: the time starts anew */
    assert_int_equal(e->fails, 0);
    pass_ms(20);
    assert_int_equal(e->frees, 1);
    assert_int_equal(e->why.rc, SW_ETIME);
    end_free(e);
    sw_sock_close(fds[1]);
    sw_free(text);
}

static void put(struct sw_conn *c, struct sw_slice data)
{
    sw_conn_put(c, data.p, data.n);
}

/* What nobody reads is not collected without end; what is below the bound may wait. */
static void test_unsent_output_is_bounded(void **state)
{
    char *text = pattern(BIG);
    struct end *e;
    int fds[2];

    (void)state;
    for (int received = 0; received < 2; received++) {
        void (*add)(struct sw_conn * c, struct sw_slice data) = received ? sw_conn_send : put;

        unix_pair(fds);
        small_buffers(fds[0]);
        e = end_new(fds[0], NULL, false, 0);
        e->conn.out_max = 2 * BIG;
        settle();
        add(&e->conn, sw_slice(text, BIG));
        add(&e->conn, sw_slice(text, BIG));
        settle();
        assert_int_equal(e->fails, 0);
        add(&e->conn, sw_slice(text, BIG));
        UNTIL(e->frees);
        assert_int_equal(e->fails, 1);
        assert_int_equal(e->why.rc, SW_ELIMIT);
        end_free(e);
        sw_sock_close(fds[1]);
    }
    /* At once, more than the bound, to a socket that takes something. */
    unix_pair(fds);
    small_buffers(fds[0]);
    e = end_new(fds[0], NULL, false, 0);
    e->conn.out_max = BIG / 2;
    settle();
    sw_conn_send(&e->conn, sw_slice(text, BIG));
    UNTIL(e->frees);
    assert_int_equal(e->why.rc, SW_ELIMIT);
    end_free(e);
    sw_sock_close(fds[1]);
    sw_free(text);
}

/* A server that refuses early and closes: what it said comes before the failure. */
static void test_refusal_is_read_though_writing_failed(void **state)
{
    char *text = pattern(BIG);
    struct end *e;
    int fds[2];

    (void)state;
    unix_pair(fds);
    small_buffers(fds[0]);
    e = end_new(fds[0], NULL, false, 0);
    settle();
    peer_write(fds[1], "refused", 7);
    sw_sock_close(fds[1]);
    e->to_send = sw_slice(text, BIG);
    pump(e); /* fails before anything was read */
    assert_int_equal(e->fails, 0);
    UNTIL(e->frees);
    assert_int_equal(sw_buf_len(&e->got), 7);
    assert_memory_equal(sw_buf_data(&e->got), "refused", 7);
    assert_int_equal(e->eofs, 1);
    assert_true(e->conn.truncated);
    assert_int_equal(e->why.rc, SW_ECLOSED);
    end_free(e);
    sw_free(text);
}

static void test_reset_is_told_once(void **state)
{
    struct end *e;
    int fds[2];

    (void)state;
    tcp_pair(fds);
    e = end_new(fds[0], NULL, false, 0);
    settle();
    sw_sock_set_reset(fds[1]);
    sw_sock_close(fds[1]);
    UNTIL(e->frees);
    assert_int_equal(e->fails, 1);
    assert_int_equal(e->eofs, 0);
    assert_int_equal(e->why.rc, SW_ECLOSED);
    end_free(e);
}

static void test_close_in_every_callback(void **state)
{
    static const enum callback where[] = {OPEN, BYTES, BATCH, END, DRAINED, FAIL};
    char *text = pattern(BIG);

    (void)state;
    for (size_t i = 0; i < 4 * SW_ARRAY_LEN(where); i++) {
        bool tls = i & 1;
        enum callback in = where[i / 4];
        struct end *e;
        struct end *peer;
        int fds[2];

        if (in == FAIL)
            tcp_pair(fds); /* a Unix socket knows no reset */
        else
            unix_pair(fds);
        e = end_new(fds[0], tls ? tls_of_role(false) : NULL, true, 1000);
        peer = end_new(fds[1], tls ? tls_of_role(true) : NULL, false, 1000);
        e->close_in = in;
        e->linger_in = i & 2;
        if (in != OPEN)
            UNTIL(e->opens && (!tls || peer->opens));
        if (in == BYTES || in == BATCH) {
            sw_conn_put(&peer->conn, text, BIG);
        } else if (in == END) {
            sw_conn_put(&peer->conn, text, 1000);
            sw_conn_shutdown(&peer->conn);
        } else if (in == DRAINED) {
            for (int k = 0; k < 6; k++)
                sw_conn_put(&e->conn, text, BIG);
        } else if (in == FAIL) {
            sw_conn_close(&peer->conn, true);
        }
        if (e->linger_in && in != FAIL) {
            UNTIL(e->conn.lingering || e->frees);
            settle();
            sw_conn_close(&peer->conn, false);
        }
        UNTIL(e->frees);
        assert_int_equal(e->frees, 1);
        assert_int_equal(e->fails, in == FAIL);
        end_free(e);
        end_free(peer);
    }
    sw_free(text);
}

static void test_released_socket_is_anothers(void **state)
{
    struct sw_watch watch = {0};
    char buf[8];
    struct end *e;
    int fds[2];

    (void)state;
    unix_pair(fds);
    e = end_new(fds[0], NULL, false, 0);
    sw_conn_put(&e->conn, "last", 4);
    assert_true(sw_conn_flush(&e->conn));
    sw_conn_release(&e->conn, &watch);
    assert_int_equal(sw_sock_read(fds[1], buf, sizeof(buf)), 4);
    peer_write(fds[1], "x", 1);
    sw_watch_stop(&watch);
    settle();
    assert_int_equal(e->calls + e->fails + e->frees, 0);
    assert_int_equal(sw_sock_read(fds[0], buf, sizeof(buf)), 1); /* open, and not read by us */
    end_free(e);
    sw_sock_close(fds[0]);
    sw_sock_close(fds[1]);
}

static void test_moves_to_another_loop(void **state)
{
    SW_BUF_AUTO got = {.max = BIG};
    char *text = pattern(200000);
    struct sw_loop *first = loop;
    struct sw_err err = {0};
    struct end *e;
    int fds[2];

    (void)state;
    unix_pair(fds);
    small_buffers(fds[0]);
    e = end_new(fds[0], NULL, false, 0);
    settle();
    sw_conn_pause(&e->conn);
    sw_conn_put(&e->conn, text, 200000);
    peer_write(fds[1], "hello", 5);
    settle();
    assert_true(sw_conn_loop_queued(loop) > 0);
    sw_conn_detach(&e->conn);
    assert_int_equal(sw_conn_loop_queued(loop), 0);
    assert_int_equal(sw_buf_len(&e->got), 0);
    loop = sw_loop_new(&err);
    assert_int_equal(sw_conn_attach(&e->conn, loop, &err), SW_OK);
    assert_true(sw_conn_loop_queued(loop) > 0);
    sw_conn_shutdown(&e->conn);
    assert_int_equal(peer_read_all(fds[1], &got), SW_EOF);
    assert_int_equal(sw_buf_len(&got), 200000);
    assert_memory_equal(sw_buf_data(&got), text, 200000);
    assert_int_equal(sw_buf_len(&e->got), 5);
    /* Instead of a second move: what is detached can be given up. */
    sw_conn_pause(&e->conn);
    sw_conn_detach(&e->conn);
    end_free(e);
    sw_loop_free(loop);
    loop = first;
    sw_sock_close(fds[1]);
    sw_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_half_closed_peer_is_answered),
        cmocka_unit_test(test_the_end_is_repeated),
        cmocka_unit_test(test_linger_saves_the_answer),
        cmocka_unit_test(test_linger_ends_by_time),
        cmocka_unit_test(test_linger_waits_for_the_slow),
        cmocka_unit_test(test_linger_bounds_the_output),
        cmocka_unit_test(test_stalled_peer_fails),
        cmocka_unit_test(test_unsent_output_is_bounded),
        cmocka_unit_test(test_refusal_is_read_though_writing_failed),
        cmocka_unit_test(test_reset_is_told_once),
        cmocka_unit_test(test_close_in_every_callback),
        cmocka_unit_test(test_released_socket_is_anothers),
        cmocka_unit_test(test_moves_to_another_loop),
    };

    return cmocka_run_group_tests(tests, rig_set_up, rig_tear_down);
}
