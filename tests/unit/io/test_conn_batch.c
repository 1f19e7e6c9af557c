/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that share system calls, and what their owners may ask of any connection. */
#include "base/mem.h"
#include "io/sock.h"

#include "conn_rig.h"

enum { MANY = 80, LARGE = 200000 };

static unsigned delivered;
static struct sw_conn_ops eager; /* those of the rig, without turns */

static void on_delivered(void *of)
{
    ++*(unsigned *)of;
}

static int shared_set_up(void **state)
{
    int rc = rig_set_up(state);

    eager = rig_ops;
    eager.on_ready = NULL;
    sw_conn_share_calls(loop, &(struct sw_conn_sharing){
                                  .ring = true,
                                  .on_delivered = on_delivered,
                                  .of = &delivered,
                              });
    return rc;
}

/* n open connections over Unix sockets, whose other sides are bare. */
static void open_many(struct end **e, int *peers, size_t n)
{
    int fds[2];

    for (size_t i = 0; i < n; i++) {
        unix_pair(fds);
        e[i] = end_new(fds[0], NULL, false, 0);
        e[i]->conn.ops = &eager;
        peers[i] = fds[1];
    }
    settle();
}

static void close_many(struct end **e, const int *peers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        end_free(e[i]);
        if (peers[i] >= 0)
            sw_sock_close(peers[i]);
    }
}

static void answer(struct end *e)
{
    sw_conn_put(&e->conn, "answer", 6);
    sw_conn_queue_flush(&e->conn);
}

static void test_many_are_read_and_answered(void **state)
{
    struct end *e[MANY];
    int peers[MANY];

    (void)state;
    open_many(e, peers, MANY);
    delivered = 0;
    for (int i = 0; i < MANY; i++) {
        e[i]->hook = answer;
        peer_write(peers[i], "question", 8);
    }
    settle();
    assert_int_equal(delivered, MANY);
    for (int i = 0; i < MANY; i++) {
        char buf[16];

        assert_int_equal(e[i]->calls, 1);
        assert_int_equal(e[i]->wire, 8);
        assert_memory_equal(sw_buf_data(&e[i]->got), "question", 8);
        assert_true(e[i]->conn.wrote);
        assert_int_equal(sw_conn_unsent(&e[i]->conn), 0);
        assert_int_equal(sw_sock_read(peers[i], buf, sizeof(buf)), 6);
    }
    assert_int_equal(sw_conn_loop_queued(loop), 0);
    close_many(e, peers, MANY);
}

static void test_many_are_sealed_together(void **state)
{
    struct end *a[MANY];
    struct end *b[MANY];
    int fds[2];

    (void)state;
    for (int i = 0; i < MANY; i++) {
        unix_pair(fds);
        a[i] = end_new(fds[0], tls_of_role(true), false, 0);
        b[i] = end_new(fds[1], tls_of_role(false), true, 0);
    }
    for (int i = 0; i < MANY; i++)
        UNTIL(a[i]->opens && b[i]->opens);
    settle();
    for (int i = 0; i < MANY; i++)
        answer(a[i]);
    for (int i = 0; i < MANY; i++) {
        UNTIL(sw_buf_len(&b[i]->got) == 6);
        assert_memory_equal(sw_buf_data(&b[i]->got), "answer", 6);
    }
    for (int i = 0; i < MANY; i++) {
        end_free(a[i]);
        end_free(b[i]);
    }
}

static struct end *victim;

static void close_victim(struct end *e)
{
    (void)e;
    sw_conn_close(&victim->conn, false);
}

static void test_what_was_read_is_dropped_when_another_closes_it(void **state)
{
    struct end *e[2];
    int peers[2];

    (void)state;
    open_many(e, peers, 2);
    for (int i = 0; i < 2; i++) {
        e[i]->hook = close_victim;
        peer_write(peers[i], "x", 1);
    }
    victim = e[1];
    settle();
    assert_int_equal(e[0]->calls, 1);
    assert_int_equal(e[1]->calls, 0);
    assert_int_equal(e[1]->frees, 1);
    assert_int_equal(e[0]->frees + e[0]->fails + e[1]->fails + e[1]->eofs, 0);
    close_many(e, peers, 2);
}

static void ask_for_news(struct end *e)
{
    (void)e;
    assert_true(sw_conn_has_news(&victim->conn));
}

static void test_what_was_read_ahead_is_news(void **state)
{
    struct end *e[2];
    int peers[2];

    (void)state;
    open_many(e, peers, 2);
    assert_false(sw_conn_has_news(&e[1]->conn));
    e[0]->hook = ask_for_news;
    victim = e[1];
    for (int i = 0; i < 2; i++)
        peer_write(peers[i], "x", 1);
    assert_true(sw_conn_has_news(&e[1]->conn)); /* not read yet */
    settle();
    assert_int_equal(e[0]->calls, 1);
    assert_int_equal(e[1]->calls, 1);
    assert_false(sw_conn_has_news(&e[1]->conn));
    e[0]->hook = NULL;
    close_many(e, peers, 2);
}

static void test_large_messages_and_pauses_pass(void **state)
{
    char *text = pattern(LARGE);
    struct end *e[2];
    int peers[2];

    (void)state;
    open_many(e, peers, 2);
    for (int i = 0; i < 2; i++) {
        e[i]->pause_in_bytes = i;
        e[i]->use_max = 1000 * (size_t)i;
        for (size_t at = 0; at < LARGE;) {
            at += (size_t)sw_max(sw_sock_write(peers[i], text + at, LARGE - at), 0);
            settle();
            if (e[i]->conn.paused)
                sw_conn_resume(&e[i]->conn);
        }
        while (sw_buf_len(&e[i]->got) < LARGE) {
            sw_conn_resume(&e[i]->conn);
            sw_loop_turn(loop, 1);
        }
        assert_memory_equal(sw_buf_data(&e[i]->got), text, LARGE);
    }
    close_many(e, peers, 2);
    sw_free(text);
}

static void test_ends_are_told_after_what_was_read(void **state)
{
    struct end *e[2];
    int peers[2];

    (void)state;
    open_many(e, peers, 2);
    for (int i = 0; i < 2; i++) {
        peer_write(peers[i], "last", 4);
        sw_sock_close(peers[i]);
        peers[i] = -1;
    }
    settle();
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sw_buf_len(&e[i]->got), 4);
        assert_int_equal(e[i]->eofs, 1);
        answer(e[i]); /* nobody takes it */
    }
    settle();
    for (int i = 0; i < 2; i++) {
        assert_int_equal(e[i]->fails, 1);
        assert_int_equal(e[i]->why.rc, SW_ECLOSED);
        assert_int_equal(e[i]->frees, 1);
    }
    close_many(e, peers, 2);
}

static void test_a_full_socket_keeps_what_a_batch_left(void **state)
{
    char *text = pattern(LARGE);
    SW_BUF_AUTO got = {.max = BIG};
    struct end *e[1];
    int peers[1];

    (void)state;
    open_many(e, peers, 1);
    small_buffers(e[0]->conn.watch.fd);
    for (size_t at = 0; at < LARGE; at += 10000) {
        sw_conn_put(&e[0]->conn, text + at, 10000);
        sw_conn_queue_flush(&e[0]->conn);
        settle();
    }
    assert_true(sw_conn_blocked(&e[0]->conn));
    sw_conn_close_flushed(&e[0]->conn);
    assert_int_equal(peer_read_all(peers[0], &got), SW_EOF);
    assert_int_equal(sw_buf_len(&got), LARGE);
    assert_memory_equal(sw_buf_data(&got), text, LARGE);
    close_many(e, peers, 1);
    sw_free(text);
}

/* ---- any connection ---- */

/* Sent in place between what is put, through sockets that take little. */
static void sent_in_place_in_order(bool tls)
{
    char *text = pattern(BIG);
    char *own = sw_malloc(BIG + 1);
    struct end *a;
    struct end *b;

    faced(tls, &a, &b);
    memcpy(own, text, BIG); /* a filter overwrites it */
    for (size_t at = 0, i = 0; at < BIG; i++) {
        size_t n = sw_min(i % 3 == 0 ? 70000 : i % 3 == 1 ? 100 : 5000, BIG - at);

        if (i & 1)
            sw_conn_put(&a->conn, own + at, n);
        else
            sw_conn_send(&a->conn, sw_slice(own + at, n));
        at += n;
    }
    assert_true(sw_conn_blocked(&a->conn));
    UNTIL(sw_buf_len(&b->got) == BIG);
    assert_memory_equal(sw_buf_data(&b->got), text, BIG);
    UNTIL(a->drains == 1);
    assert_false(sw_conn_blocked(&a->conn));
    end_free(a);
    end_free(b);
    sw_free(own);
    sw_free(text);
}

static void test_sent_in_place_in_order(void **state)
{
    (void)state;
    sent_in_place_in_order(false);
    sent_in_place_in_order(true);
}

static void test_bytes_read_before_come_first(void **state)
{
    struct end *e;
    int fds[2];

    (void)state;
    unix_pair(fds);
    peer_write(fds[1], "two", 3);
    e = end_open(fds[0], (struct sw_conn_opts){.pre = SW_SLICE_LIT("one ")});
    assert_int_equal(e->calls, 0); /* never from inside a call of the owner */
    settle();
    assert_int_equal(sw_buf_len(&e->got), 7);
    assert_memory_equal(sw_buf_data(&e->got), "one two", 7);
    assert_true(e->batches > 0);
    end_free(e);
    sw_sock_close(fds[1]);
}

/* A ClientHello that was looked at before the connection was made. */
static void test_records_read_before_are_opened(void **state)
{
    char hello[4096];
    struct end *client;
    struct end *server;
    ssize_t n = SW_EAGAIN;
    int fds[2];

    (void)state;
    unix_pair(fds);
    client = end_new(fds[1], tls_of_role(false), true, 0);
    for (int i = 0; i < TURNS && n == SW_EAGAIN; i++) {
        sw_loop_turn(loop, 1);
        n = sw_sock_read(fds[0], hello, sizeof(hello));
    }
    assert_true(n > 0);
    server = end_open(fds[0], (struct sw_conn_opts){
                                  .filter = tls_of_role(true),
                                  .pre = sw_slice(hello, (size_t)n),
                              });
    UNTIL(client->opens && server->opens);
    end_free(client);
    end_free(server);
}

static unsigned taken_over;

static size_t take_over(struct sw_conn *c, struct sw_slice in)
{
    (void)c;
    taken_over += (unsigned)in.n;
    return in.n;
}

static void no_fail(struct sw_conn *c, const struct sw_err *err)
{
    (void)c;
    fail_msg("%s", err->msg);
}

static void forget(struct sw_conn *c)
{
    (void)c;
}

static void test_another_owner_gets_what_was_not_used(void **state)
{
    static const struct sw_conn_ops others = {
        .on_bytes = take_over,
        .on_fail = no_fail,
        .on_free = forget,
    };
    struct end *e;
    int fds[2];

    (void)state;
    unix_pair(fds);
    e = end_new(fds[0], NULL, false, 0);
    e->least = 100;
    peer_write(fds[1], "for whom", 8);
    settle();
    assert_int_equal(sw_conn_unused(&e->conn), 8);
    sw_conn_set_ops(&e->conn, &others);
    settle();
    assert_int_equal(taken_over, 8);
    end_free(e);
    sw_sock_close(fds[1]);
}

static void test_a_peer_that_ends_first_broke_off_without_that(void **state)
{
    struct end *e;
    int fds[2];

    (void)state;
    for (int ends = 0; ends < 2; ends++) {
        unix_pair(fds);
        e = end_new(fds[0], NULL, false, 0);
        e->conn.ends_first = true;
        settle();
        if (ends) {
            sw_sock_shutdown_write(fds[1]);
            settle();
        }
        sw_sock_close(fds[1]);
        settle();
        assert_int_equal(e->eofs, ends);
        assert_int_equal(e->fails, !ends);
        if (!ends)
            assert_int_equal(e->why.rc, SW_ESYS);
        end_free(e);
    }
}

static void test_an_owner_can_fail_it(void **state)
{
    struct end *e;
    int fds[2];

    (void)state;
    unix_pair(fds);
    e = end_new(fds[0], NULL, false, 0);
    settle();
    sw_conn_fail(&e->conn, SW_EPROTO);
    assert_int_equal(e->fails, 0); /* from the loop */
    settle();
    assert_int_equal(e->why.rc, SW_EPROTO);
    assert_int_equal(e->frees, 1);
    end_free(e);
    sw_sock_close(fds[1]);
}

static void test_a_configured_time_to_linger(void **state)
{
    struct end *e;
    int fds[2];

    (void)state;
    unix_pair(fds);
    e = end_new(fds[0], NULL, false, 0);
    settle();
    e->conn.linger_ms = 500;
    sw_conn_put(&e->conn, "bye", 3);
    sw_conn_close_flushed(&e->conn);
    pass_ms(490);
    assert_int_equal(e->frees, 0);
    pass_ms(20);
    assert_int_equal(e->frees, 1);
    end_free(e);
    sw_sock_close(fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_are_read_and_answered),
        cmocka_unit_test(test_many_are_sealed_together),
        cmocka_unit_test(test_what_was_read_is_dropped_when_another_closes_it),
        cmocka_unit_test(test_what_was_read_ahead_is_news),
        cmocka_unit_test(test_large_messages_and_pauses_pass),
        cmocka_unit_test(test_ends_are_told_after_what_was_read),
        cmocka_unit_test(test_a_full_socket_keeps_what_a_batch_left),
        cmocka_unit_test(test_sent_in_place_in_order),
        cmocka_unit_test(test_bytes_read_before_come_first),
        cmocka_unit_test(test_records_read_before_are_opened),
        cmocka_unit_test(test_another_owner_gets_what_was_not_used),
        cmocka_unit_test(test_a_peer_that_ends_first_broke_off_without_that),
        cmocka_unit_test(test_an_owner_can_fail_it),
        cmocka_unit_test(test_a_configured_time_to_linger),
    };

    return cmocka_run_group_tests(tests, shared_set_up, rig_tear_down);
}
