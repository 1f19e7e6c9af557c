/* SPDX-License-Identifier: Apache-2.0 */
/* Sending and receiving on a connection, plain and with TLS below it. */
#include "base/mem.h"
#include "io/sock.h"

#include "conn_rig.h"

static void much_passes_in_order(bool tls)
{
    char *text = pattern(BIG);
    struct end *a;
    struct end *b;

    faced(tls, &a, &b);
    a->to_send = sw_slice(text, BIG);
    pump(a);
    assert_true(a->to_send.n > 0); /* the socket is small */
    b->to_send = sw_slice(text, BIG);
    pump(b);
    UNTIL(sw_buf_len(&a->got) == BIG && sw_buf_len(&b->got) == BIG);
    assert_memory_equal(sw_buf_data(&a->got), text, BIG);
    assert_memory_equal(sw_buf_data(&b->got), text, BIG);
    assert_true(a->drains > 0);
    assert_int_equal(a->fails + b->fails, 0);
    assert_true(b->wire >= BIG);
    assert_int_equal(sw_conn_loop_queued(loop), 0);
    end_free(a);
    end_free(b);
    sw_free(text);
}

static void test_much_passes_in_order(void **state)
{
    (void)state;
    much_passes_in_order(false);
    much_passes_in_order(true);
}

/* What is put is taken whole, also when the socket takes a part. */
static void put_survives_partial_writes(bool tls)
{
    char *text = pattern(BIG);
    struct end *a;
    struct end *b;

    faced(tls, &a, &b);
    for (size_t at = 0; at < BIG; at += 777)
        sw_conn_put(&a->conn, text + at, sw_min(777, BIG - at));
    assert_true(a->conn.full);
    UNTIL(sw_buf_len(&b->got) == BIG);
    assert_memory_equal(sw_buf_data(&b->got), text, BIG);
    assert_int_equal(sw_conn_unsent(&a->conn), 0);
    UNTIL(a->drains == 1);
    end_free(a);
    end_free(b);
    sw_free(text);
}

static void test_put_survives_partial_writes(void **state)
{
    (void)state;
    put_survives_partial_writes(false);
    put_survives_partial_writes(true);
}

static void test_output_of_a_turn_leaves_together(void **state)
{
    char buf[64];
    struct end *e;
    int fds[2];

    (void)state;
    unix_pair(fds);
    e = end_new(fds[0], NULL, false, 0);
    sw_conn_put(&e->conn, "one ", 4);
    sw_conn_put(&e->conn, "two", 3);
    assert_int_equal(sw_sock_read(fds[1], buf, sizeof(buf)), SW_EAGAIN);
    settle();
    assert_int_equal(sw_sock_read(fds[1], buf, sizeof(buf)), 7);
    assert_memory_equal(buf, "one two", 7);
    assert_int_equal(e->drains, 0);
    end_free(e);
    sw_sock_close(fds[1]);
}

/* Output may grow while the socket takes nothing and then leave with one write. */
static void test_output_put_while_full_is_told_when_sent(void **state)
{
    char *text = pattern(SW_CONN_HIGH);
    struct end *e;
    int fds[2];

    (void)state;
    unix_pair(fds);
    e = end_new(fds[0], NULL, false, 0);
    while (!e->conn.full)
        sw_conn_put(&e->conn, text, 1000);
    assert_true(sw_conn_unsent(&e->conn) < SW_CONN_HIGH);
    sw_conn_put(&e->conn, text, SW_CONN_HIGH);
    assert_int_equal(e->drains, 0);
    for (ssize_t n = 1; n > 0;) {
        char buf[65536];

        n = sw_sock_read(fds[1], buf, sizeof(buf));
    }
    UNTIL(e->drains == 1);
    assert_int_equal(sw_conn_unsent(&e->conn), 0);
    end_free(e);
    sw_sock_close(fds[1]);
    sw_free(text);
}

static void test_too_much_output_fails(void **state)
{
    char *text = pattern(BIG);
    struct end *e;
    int fds[2];

    (void)state;
    unix_pair(fds);
    e = end_new(fds[0], NULL, false, 0);
    for (int i = 0; i < 10; i++)
        sw_conn_put(&e->conn, text, BIG);
    assert_int_equal(e->fails, 0); /* never from inside a call */
    UNTIL(e->frees);
    assert_int_equal(e->why.rc, SW_ELIMIT);
    assert_int_equal(sw_conn_loop_queued(loop), 0);
    end_free(e);
    sw_sock_close(fds[1]);
    sw_free(text);
}

static void test_unused_bytes_come_again(void **state)
{
    struct end *e;
    int fds[2];

    (void)state;
    unix_pair(fds);
    e = end_new(fds[0], NULL, false, 0);
    e->least = 6;
    peer_write(fds[1], "abc", 3);
    settle();
    assert_int_equal(sw_conn_unused(&e->conn), 3);
    assert_int_equal(e->calls, 1); /* not again without news */
    peer_write(fds[1], "def", 3);
    UNTIL(sw_buf_len(&e->got) == 6);
    assert_memory_equal(sw_buf_data(&e->got), "abcdef", 6);
    peer_write(fds[1], "gh", 2);
    settle();
    e->least = 0;
    sw_conn_resume(&e->conn);
    UNTIL(sw_buf_len(&e->got) == 8);
    end_free(e);
    sw_sock_close(fds[1]);
}

static void test_pause_stops_the_peer(void **state)
{
    char *text = pattern(BIG);
    size_t sent = 0;
    struct end *e;
    ssize_t n;
    int fds[2];

    (void)state;
    unix_pair(fds);
    small_buffers(fds[0]);
    small_buffers(fds[1]);
    e = end_new(fds[0], NULL, false, 0);
    e->pause_in_bytes = true;
    e->use_max = 1;
    for (int i = 0; i < 200; i++) {
        n = sw_sock_write(fds[1], text + sent, BIG - sent);
        sent += n > 0 ? (size_t)n : 0;
        sw_loop_turn(loop, 0);
    }
    assert_true(sent < BIG / 2);
    assert_int_equal(sw_buf_len(&e->got), 1);
    e->pause_in_bytes = false;
    e->use_max = 0;
    sw_conn_resume(&e->conn);
    peer_write(fds[1], text + sent, BIG - sent);
    UNTIL(sw_buf_len(&e->got) == BIG);
    assert_memory_equal(sw_buf_data(&e->got), text, BIG);
    end_free(e);
    sw_sock_close(fds[1]);
    sw_free(text);
}

/* Turns are the owner's to give: nothing is read before, and all from inside then. */
static void test_input_waits_for_its_turn(void **state)
{
    struct end *e;
    int fds[2];

    (void)state;
    unix_pair(fds);
    e = end_new(fds[0], NULL, false, 0);
    settle();
    e->hold = true;
    e->use_max = 2;
    e->pause_in_bytes = true;
    e->readies = 0;
    peer_write(fds[1], "abcd", 4);
    settle();
    peer_write(fds[1], "ef", 2);
    settle();
    assert_int_equal(e->readies, 1); /* held: not asked again */
    assert_int_equal(sw_buf_len(&e->got), 0);
    sw_conn_resume_now(&e->conn);
    assert_int_equal(sw_buf_len(&e->got), 2);
    assert_int_equal(e->wire, 6);
    assert_int_equal(e->batches, 1);
    settle(); /* paused by on_bytes */
    assert_int_equal(sw_buf_len(&e->got), 2);
    sw_conn_resume(&e->conn); /* asks, and is told no */
    settle();
    assert_int_equal(e->readies, 2);
    assert_int_equal(sw_buf_len(&e->got), 2);
    e->pause_in_bytes = false;
    sw_conn_resume_now(&e->conn); /* what was kept counts as a batch */
    assert_memory_equal(sw_buf_data(&e->got), "abcdef", 6);
    assert_int_equal(e->batches, 2);
    assert_int_equal(e->wire, 6);
    end_free(e);
    sw_sock_close(fds[1]);
}

static void test_resumed_in_anothers_callback(void **state)
{
    struct end *a;
    struct end *b;
    int to_a[2];
    int to_b[2];

    (void)state;
    unix_pair(to_a);
    unix_pair(to_b);
    a = end_new(to_a[0], NULL, false, 0);
    b = end_new(to_b[0], NULL, false, 0);
    settle();
    b->hold = true;
    peer_write(to_b[1], "bbbb", 4);
    settle();
    b->hold = false;
    a->other = b;
    peer_write(to_a[1], "aaaa", 4);
    UNTIL(sw_buf_len(&b->got) == 4);
    assert_memory_equal(sw_buf_data(&a->got), "aaaa", 4); /* not what b read meanwhile */
    assert_memory_equal(sw_buf_data(&b->got), "bbbb", 4);
    end_free(a);
    end_free(b);
    sw_sock_close(to_a[1]);
    sw_sock_close(to_b[1]);
}

static void test_handshakes_wait_for_their_turn(void **state)
{
    struct end *server;
    struct end *client;
    int fds[2];

    (void)state;
    unix_pair(fds);
    server = end_new(fds[0], tls_of_role(true), false, 1000);
    server->hold = true;
    client = end_new(fds[1], tls_of_role(false), true, 1000);
    settle();
    assert_int_equal(server->readies, 1);
    assert_true(server->conn.opening && client->conn.opening);
    for (unsigned steps = 0; server->conn.opening; steps++) {
        sw_conn_resume_now(&server->conn);
        settle();
        assert_true(steps < 4);
    }
    assert_int_equal(server->opens + client->opens, 2);
    end_free(server);
    end_free(client);
}

/* An owner that uses nothing, without a pause, is not flooded. */
static void test_unused_input_is_bounded(void **state)
{
    char *text = pattern(BIG);
    size_t sent = 0;
    struct end *e;
    int fds[2];

    (void)state;
    unix_pair(fds);
    e = end_new(fds[0], NULL, false, 0);
    e->conn.in_max = 8192;
    e->conn.read_max = 4096;
    e->least = BIG + 1;
    for (int i = 0; i < 200; i++) {
        ssize_t n = sw_sock_write(fds[1], text + sent, BIG - sent);

        sent += n > 0 ? (size_t)n : 0;
        sw_loop_turn(loop, 0);
    }
    assert_true(sent < BIG);
    assert_in_range(sw_conn_unused(&e->conn), 8192, 8192 + 4096);
    end_free(e);
    sw_sock_close(fds[1]);
    sw_free(text);
}

static void test_a_turn_reads_no_more_than_allowed(void **state)
{
    char *text = pattern(65536);
    struct end *e;
    int fds[2];

    (void)state;
    unix_pair(fds);
    e = end_new(fds[0], NULL, false, 0);
    e->conn.read_max = 1000;
    peer_write(fds[1], text, 65536);
    UNTIL(sw_buf_len(&e->got) == 65536);
    assert_int_equal(e->wire, 65536);
    assert_true(e->batches >= 66);
    assert_memory_equal(sw_buf_data(&e->got), text, 65536);
    end_free(e);
    sw_sock_close(fds[1]);
    sw_free(text);
}

static void test_marks_fall_as_messages_leave(void **state)
{
    struct end *a;
    struct end *b;

    (void)state;
    faced(false, &a, &b);
    a->conn.deferred_output = true;
    for (int i = 0; i < 20; i++) {
        uint8_t *to = sw_conn_room(&a->conn, 20000);

        memset(to, i, 20000);
        sw_conn_mark(&a->conn);
        sw_conn_commit(&a->conn, 20000);
    }
    assert_true(a->conn.marks > 0);
    UNTIL(sw_buf_len(&b->got) == 20 * 20000);
    assert_int_equal(a->conn.marks, 0);
    for (size_t i = 0; i < 20; i++)
        assert_int_equal((uint8_t)sw_buf_data(&b->got)[i * 20000 + 19999], i);
    end_free(a);
    end_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_much_passes_in_order),
        cmocka_unit_test(test_put_survives_partial_writes),
        cmocka_unit_test(test_output_of_a_turn_leaves_together),
        cmocka_unit_test(test_output_put_while_full_is_told_when_sent),
        cmocka_unit_test(test_too_much_output_fails),
        cmocka_unit_test(test_unused_bytes_come_again),
        cmocka_unit_test(test_pause_stops_the_peer),
        cmocka_unit_test(test_input_waits_for_its_turn),
        cmocka_unit_test(test_resumed_in_anothers_callback),
        cmocka_unit_test(test_handshakes_wait_for_their_turn),
        cmocka_unit_test(test_unused_input_is_bounded),
        cmocka_unit_test(test_a_turn_reads_no_more_than_allowed),
        cmocka_unit_test(test_marks_fall_as_messages_leave),
    };

    return cmocka_run_group_tests(tests, rig_set_up, rig_tear_down);
}
