/* SPDX-License-Identifier: Apache-2.0 */
/* A connection of a worker over a socket pair, with a fake clock: delivery, output, ends. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/time.h"
#include "gateway/conn/conn.h"
#include "gateway/conn/worker.h"
#include "io/batch.h"
#include "io/sock.h"

enum { TURNS = 8, FILL_MAX = 4096 };

static struct {
    struct sw_gw_worker worker;
    struct sw_gw_conn conn;
    int peer; /* -1: closed */
    /* What the owner was told. */
    char got[1 << 20];
    size_t n_got;
    size_t use; /* how many bytes on_bytes will still use */
    int calls;  /* of on_bytes */
    int batches;
    int eofs;
    int drained;
    int fails;
    int frees;
    bool close_in_bytes;
} t;

static uint64_t now_ns;

static uint64_t clock_ns(void)
{
    return now_ns;
}

static void on_open(struct sw_gw_conn *c)
{
    (void)c;
}

static size_t on_bytes(struct sw_gw_conn *c, struct sw_slice in)
{
    size_t n = sw_min(in.n, t.use);

    assert_int_equal(t.frees, 0);
    assert_false(c->closed);
    t.calls++;
    memcpy(t.got + t.n_got, in.p, n);
    t.n_got += n;
    t.use -= n;
    if (t.close_in_bytes)
        sw_gw_conn_close(c, false);
    return n;
}

static void on_batch(struct sw_gw_conn *c)
{
    assert_false(c->closed);
    t.batches++;
}

static void on_eof(struct sw_gw_conn *c)
{
    assert_false(c->closed);
    t.eofs++;
}

static void on_drained(struct sw_gw_conn *c)
{
    (void)c;
    t.drained++;
}

static void on_fail(struct sw_gw_conn *c, const struct sw_err *err)
{
    (void)err;
    t.fails++;
    sw_gw_conn_close(c, true);
}

static void on_free(struct sw_gw_conn *c)
{
    (void)c;
    t.frees++;
}

static const struct sw_gw_conn_ops ops = {
    .on_open = on_open,
    .on_bytes = on_bytes,
    .on_batch = on_batch,
    .on_eof = on_eof,
    .on_drained = on_drained,
    .on_fail = on_fail,
    .on_free = on_free,
};

static void reap(struct sw_gw_worker *w)
{
    (void)w;
}

static const struct sw_gw_calls calls = {.reap = reap};

static void turn(void)
{
    for (int i = 0; i < TURNS; i++)
        sw_loop_turn(t.worker.loop, 0);
}

static void pass_s(unsigned s)
{
    now_ns += s * SW_NS_PER_S;
    turn();
}

static int set_up(void **state)
{
    struct sw_gw_worker *w = &t.worker;
    struct sw_err err = {0};

    (void)state;
    memset(&t, 0, sizeof(t));
    t.use = SIZE_MAX;
    t.peer = -1;
    now_ns = 1000 * SW_NS_PER_S;
    w->calls = &calls;
    w->loop = sw_loop_new(&err);
    assert_non_null(w->loop);
    sw_loop_set_clock(w->loop, clock_ns);
    sw_list_init(&w->dirty);
    sw_list_init(&w->soon);
    sw_list_init(&w->ended);
    w->ahead = sw_gw_ahead_new(w);
    w->batch = sw_batch_new(SW_GW_BATCH, false);
    w->rx = sw_malloc(SW_GW_RX + 16);
    w->tx = sw_malloc(SW_GW_TX);
    return 0;
}

static int tear_down(void **state)
{
    struct sw_gw_worker *w = &t.worker;

    (void)state;
    sw_gw_conn_close(&t.conn, false);
    turn();
    assert_int_equal(t.frees, 1); /* once, whatever happened */
    assert_true(sw_list_empty(&w->dirty));
    assert_true(sw_list_empty(&w->soon));
    if (t.peer >= 0)
        (void)close(t.peer);
    SW_VEC_FOREACH (uint8_t *, it, &w->chunks)
        sw_free(*it);
    sw_vec_done(&w->chunks);
    sw_gw_ahead_free(w->ahead);
    sw_batch_free(w->batch);
    sw_free(w->rx);
    sw_free(w->tx);
    sw_loop_free(w->loop);
    return 0;
}

static void open_conn(const char *pre)
{
    struct sw_err err = {0};
    int fd[2];

    assert_int_equal(sw_sock_pair(fd, &err), SW_OK);
    t.peer = fd[1];
    assert_int_equal(
        sw_gw_conn_init(&t.conn, &t.worker, fd[0], NULL, sw_slice_str(pre), 0, &ops, &err), SW_OK);
    t.conn.says_end = true;
    assert_int_equal(t.calls, 0); /* never from inside a call of the owner */
    turn();
}

static void peer_sends(const char *text)
{
    assert_int_equal(write(t.peer, text, strlen(text)), strlen(text));
    turn();
}

static void peer_closes(void)
{
    (void)close(t.peer);
    t.peer = -1;
    turn();
}

/* Everything the peer can read now; *ret_end: our end came. */
static size_t peer_reads(char *to, size_t cap, bool *ret_end)
{
    size_t n = 0;

    *ret_end = false;
    while (n < cap) {
        ssize_t k = read(t.peer, to + n, cap - n);

        if (k <= 0) {
            *ret_end = k == 0;
            break;
        }
        n += (size_t)k;
    }
    return n;
}

static void assert_got(const char *text)
{
    assert_int_equal(t.n_got, strlen(text));
    assert_memory_equal(t.got, text, strlen(text));
}

/* ---- delivery ---- */

static void test_bytes_that_were_read_before_come_first(void **state)
{
    (void)state;
    open_conn("one ");
    peer_sends("two");
    assert_got("one two");
    assert_true(t.batches > 0);
}

static void test_what_is_not_used_is_offered_again_with_what_follows(void **state)
{
    (void)state;
    open_conn("");
    t.use = 0;
    peer_sends("half ");
    assert_got("");
    t.use = SIZE_MAX;
    peer_sends("whole");
    assert_got("half whole");
}

static void test_resume_offers_again_without_new_bytes(void **state)
{
    (void)state;
    open_conn("");
    t.use = 2;
    peer_sends("abcd");
    assert_got("ab");
    t.use = SIZE_MAX;
    sw_gw_conn_resume(&t.conn);
    assert_got("ab"); /* from the loop */
    turn();
    assert_got("abcd");
}

static void test_a_paused_connection_delivers_nothing(void **state)
{
    (void)state;
    open_conn("");
    sw_gw_conn_pause(&t.conn);
    peer_sends("text");
    assert_got("");
    assert_int_equal(t.calls, 0);
    sw_gw_conn_resume(&t.conn);
    turn();
    assert_got("text");
}

static void test_the_end_is_told_once_and_after_the_bytes(void **state)
{
    (void)state;
    open_conn("");
    sw_gw_conn_pause(&t.conn);
    peer_sends("last");
    assert_int_equal(shutdown(t.peer, SHUT_WR), 0);
    turn();
    assert_int_equal(t.eofs, 0);
    sw_gw_conn_resume(&t.conn);
    turn();
    turn();
    assert_got("last");
    assert_int_equal(t.eofs, 1);
    assert_int_equal(t.fails, 0);
}

static void test_closing_inside_a_callback_ends_the_callbacks(void **state)
{
    (void)state;
    open_conn("");
    t.close_in_bytes = true;
    t.use = 1;
    peer_sends("abc");
    assert_int_equal(t.calls, 1);
    assert_int_equal(t.eofs, 0);
    assert_int_equal(t.frees, 1);
}

/* ---- output ---- */

static void test_output_leaves_at_the_end_of_the_turn(void **state)
{
    char in[16];
    bool end;

    (void)state;
    open_conn("");
    sw_gw_conn_put(&t.conn, "one ", 4);
    sw_gw_conn_put(&t.conn, "two", 3);
    assert_int_equal(peer_reads(in, sizeof(in), &end), 0);
    turn();
    assert_int_equal(peer_reads(in, sizeof(in), &end), 7);
    assert_memory_equal(in, "one two", 7);
    assert_false(end);
}

static void test_a_queued_flush_needs_staged_output(void **state)
{
    char in[16];
    bool end;

    (void)state;
    open_conn("");
    sw_gw_conn_queue_flush(&t.conn);
    assert_int_equal(t.worker.n_soon, 0);
    sw_gw_conn_put(&t.conn, "x", 1);
    sw_gw_conn_queue_flush(&t.conn);
    assert_int_equal(t.worker.n_soon, 1);
    turn();
    assert_int_equal(t.worker.n_soon, 0);
    assert_int_equal(peer_reads(in, sizeof(in), &end), 1);
}

static size_t fill_output(void)
{
    static const char piece[4096] = {'x'};
    size_t n = 0;

    for (int i = 0; i < FILL_MAX && !sw_gw_conn_blocked(&t.conn); i++) {
        sw_gw_conn_put(&t.conn, piece, sizeof(piece));
        n += sizeof(piece);
        turn();
    }
    assert_true(sw_gw_conn_blocked(&t.conn));
    return n;
}

static void test_drained_is_told_when_all_of_a_full_output_is_sent(void **state)
{
    static char in[4 << 20];
    size_t all;
    size_t n = 0;
    bool end;

    (void)state;
    open_conn("");
    all = fill_output();
    assert_int_equal(t.drained, 0);
    for (int i = 0; i < FILL_MAX && n < all; i++) {
        n += peer_reads(in, sizeof(in), &end);
        turn();
    }
    assert_int_equal(n, all);
    assert_int_equal(t.drained, 1);
    assert_false(sw_gw_conn_blocked(&t.conn));
}

/* ---- ends ---- */

static void test_a_flushed_close_sends_all_and_waits_for_the_peer(void **state)
{
    char in[16];
    bool end;

    (void)state;
    open_conn("");
    sw_gw_conn_put(&t.conn, "bye", 3);
    sw_gw_conn_close_flushed(&t.conn);
    turn();
    assert_int_equal(peer_reads(in, sizeof(in), &end), 3);
    assert_true(end);
    assert_int_equal(t.frees, 0);
    peer_closes();
    assert_int_equal(t.frees, 1);
    assert_int_equal(t.eofs, 0); /* no callbacks any more */
}

static void test_a_peer_that_stays_is_waited_for_a_second(void **state)
{
    (void)state;
    open_conn("");
    sw_gw_conn_put(&t.conn, "bye", 3);
    sw_gw_conn_close_flushed(&t.conn);
    turn();
    assert_int_equal(t.frees, 0);
    pass_s(2);
    pass_s(2);
    assert_int_equal(t.frees, 1);
}

static void test_a_peer_that_takes_nothing_has_a_minute(void **state)
{
    (void)state;
    open_conn("");
    (void)fill_output();
    sw_gw_conn_close_flushed(&t.conn);
    for (int i = 0; i < 50; i++)
        pass_s(1);
    assert_int_equal(t.frees, 0);
    for (int i = 0; i < 20; i++)
        pass_s(1);
    assert_int_equal(t.frees, 1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(test_bytes_that_were_read_before_come_first),
        T(test_what_is_not_used_is_offered_again_with_what_follows),
        T(test_resume_offers_again_without_new_bytes),
        T(test_a_paused_connection_delivers_nothing),
        T(test_the_end_is_told_once_and_after_the_bytes),
        T(test_closing_inside_a_callback_ends_the_callbacks),
        T(test_output_leaves_at_the_end_of_the_turn),
        T(test_a_queued_flush_needs_staged_output),
        T(test_drained_is_told_when_all_of_a_full_output_is_sent),
        T(test_a_flushed_close_sends_all_and_waits_for_the_peer),
        T(test_a_peer_that_stays_is_waited_for_a_second),
        T(test_a_peer_that_takes_nothing_has_a_minute),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
