/* SPDX-License-Identifier: Apache-2.0 */
/* The connection on real sockets, plain and with TLS below it. */
#include "io/conn.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/time.h"
#include "io/sock.h"
#include "tls/cert/ca.h"
#include "tls/connfilter.h"
#include "tls/tls.h"

#include "test.h"

enum { TURNS = 4000, BIG = 1 << 20 };

static struct sw_loop *loop;
static struct sw_ca *ca;
static struct sw_tls_cred *cred;
static uint64_t now_ns;

static uint64_t fake_clock(void)
{
    return now_ns;
}

/* Lets time pass and everything that is due happen. */
static void pass_ms(uint64_t ms)
{
    now_ns += ms * SW_NS_PER_MS;
    for (int i = 0; i < 8; i++)
        sw_loop_turn(loop, 0);
}

enum callback { NONE, OPEN, BYTES, BATCH, END, DRAINED, FAIL };

/* An owner that notes what it is told. */
struct end {
    struct sw_conn conn;
    struct sw_buf got;
    struct sw_err why;
    struct sw_slice to_send; /* pumped with sw_conn_write */
    unsigned opens, eofs, drains, fails, frees, calls;
    size_t wire;
    size_t use_max;         /* bytes that on_bytes uses at most; 0: all */
    size_t least;           /* ... and nothing below this */
    enum callback close_in; /* closes the connection in this callback */
    bool linger_in;         /* ... with close_flushed */
    bool pause_in_bytes;
    bool hold;         /* on_ready says no */
    struct end *other; /* resumed in on_bytes */
    unsigned readies, batches;
};

static struct end *end_of(struct sw_conn *c)
{
    return SW_CONTAINER_OF(c, struct end, conn);
}

static void maybe_close(struct end *e, enum callback where)
{
    if (e->close_in != where)
        return;
    if (e->linger_in)
        sw_conn_close_flushed(&e->conn);
    else
        sw_conn_close(&e->conn, false);
}

static void pump(struct end *e)
{
    while (e->to_send.n) {
        size_t n = sw_conn_write(&e->conn, e->to_send);

        e->to_send = sw_slice_from(e->to_send, n);
        if (n == 0)
            return;
    }
}

static void on_open(struct sw_conn *c)
{
    end_of(c)->opens++;
    maybe_close(end_of(c), OPEN);
}

static bool on_ready(struct sw_conn *c)
{
    end_of(c)->readies++;
    return !end_of(c)->hold;
}

static size_t on_bytes(struct sw_conn *c, struct sw_slice in)
{
    struct end *e = end_of(c);
    size_t n = e->use_max ? sw_min(e->use_max, in.n) : in.n;

    e->calls++;
    if (e->other)
        sw_conn_resume_now(&e->other->conn);
    if (in.n < e->least)
        return 0;
    assert_int_equal(sw_buf_append(&e->got, in.p, n), SW_OK);
    if (e->pause_in_bytes)
        sw_conn_pause(c);
    maybe_close(e, BYTES);
    return n;
}

static void on_batch(struct sw_conn *c, size_t wire)
{
    end_of(c)->wire += wire;
    end_of(c)->batches++;
    maybe_close(end_of(c), BATCH);
}

static void on_eof(struct sw_conn *c)
{
    end_of(c)->eofs++;
    maybe_close(end_of(c), END);
}

static void on_drained(struct sw_conn *c)
{
    end_of(c)->drains++;
    pump(end_of(c));
    maybe_close(end_of(c), DRAINED);
}

static void on_fail(struct sw_conn *c, const struct sw_err *err)
{
    end_of(c)->fails++;
    end_of(c)->why = *err;
    maybe_close(end_of(c), FAIL);
}

static void on_free(struct sw_conn *c)
{
    end_of(c)->frees++;
}

static const struct sw_conn_ops ops = {
    .on_open = on_open,
    .on_ready = on_ready,
    .on_bytes = on_bytes,
    .on_batch = on_batch,
    .on_eof = on_eof,
    .on_drained = on_drained,
    .on_fail = on_fail,
    .on_free = on_free,
};

static struct sw_filter *tls_of_role(bool server)
{
    struct sw_tls_params p = {.server = server,
                              .web = true,
                              .cred = cred,
                              .host = server ? NULL : "localhost",
                              .sni = server ? NULL : "localhost"};
    struct sw_err err = {0};
    struct sw_tls *t = sw_tls_new(&p, &err);

    assert_non_null(t);
    return sw_tls_filter(t);
}

static struct end *end_new(int fd, struct sw_filter *f, bool dialled, uint32_t open_ms)
{
    struct end *e = SW_NEW(struct end);
    struct sw_conn_opts o = {.ops = &ops, .filter = f, .open_ms = open_ms, .dialled = dialled};
    struct sw_err err = {0};

    sw_buf_init(&e->got, 8 << 20);
    assert_int_equal(sw_conn_init(&e->conn, loop, fd, &o, &err), SW_OK);
    return e;
}

static void end_free(struct end *e)
{
    sw_conn_done(&e->conn);
    sw_buf_done(&e->got);
    sw_free(e);
}

/* One end ours, the other a bare descriptor. TCP, where a reset exists. */
static void tcp_pair(int fds[2])
{
    struct sw_addr at = {0};
    struct sw_sock_opts o = SW_SOCK_OPTS_INIT;
    struct sw_err err = {0};
    int l;

    assert_int_equal(sw_ip_parse(SW_SLICE_LIT("127.0.0.1"), &at.ip, &err), SW_OK);
    assert_int_equal(sw_sock_listen(&at, &o, &l, &err), SW_OK);
    at = sw_sock_local(l);
    assert_int_equal(sw_sock_connect(&at, NULL, &o, &fds[1], &err), SW_OK);
    for (int i = 0; i < TURNS && sw_sock_accept(l, &fds[0], NULL, &err) == SW_EAGAIN; i++)
        sw_loop_turn(loop, 1);
    for (int i = 0; i < TURNS && sw_sock_connect_result(fds[1], &err) == SW_EAGAIN; i++)
        sw_loop_turn(loop, 1);
    sw_sock_close(l);
}

static void unix_pair(int fds[2])
{
    struct sw_err err = {0};

    assert_int_equal(sw_sock_pair(fds, &err), SW_OK);
}

static void small_buffers(int fd)
{
    int n = 4096;

    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &n, sizeof(n)), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &n, sizeof(n)), 0);
}

#define UNTIL(cond)                                                                                \
    do {                                                                                           \
        int turns_ = 0;                                                                            \
        while (!(cond)) {                                                                          \
            sw_loop_turn(loop, 1);                                                                 \
            assert_true(++turns_ < TURNS);                                                         \
        }                                                                                          \
    } while (0)

/* Everything that is under way has happened. */
static void settle(void)
{
    for (int i = 0; i < 10; i++)
        sw_loop_turn(loop, 1);
}

static void peer_write(int fd, const void *p, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t k = sw_sock_write(fd, (const char *)p + at, n - at);

        if (k == SW_EAGAIN)
            sw_loop_turn(loop, 1);
        else
            assert_true(k > 0);
        at += k > 0 ? (size_t)k : 0;
    }
}

/* Reads to the end; the code that ended it. */
static int peer_read_all(int fd, struct sw_buf *got)
{
    for (int i = 0; i < 100 * TURNS; i++) {
        char buf[65536];
        ssize_t n = sw_sock_read(fd, buf, sizeof(buf));

        if (n > 0)
            assert_int_equal(sw_buf_append(got, buf, (size_t)n), SW_OK);
        else if (n != SW_EAGAIN)
            return (int)n;
        sw_loop_turn(loop, 0);
    }
    fail_msg("peer got no end");
    return 0;
}

static char *pattern(size_t n)
{
    char *p = sw_malloc(n);

    for (size_t i = 0; i < n; i++)
        p[i] = (char)((i * 7 + i / 251) & 0xff);
    return p;
}

/* Two connections that face each other. */
static void faced(bool tls, struct end **a, struct end **b)
{
    int fds[2];

    unix_pair(fds);
    small_buffers(fds[0]);
    small_buffers(fds[1]);
    *a = end_new(fds[0], tls ? tls_of_role(true) : NULL, false, 1000);
    *b = end_new(fds[1], tls ? tls_of_role(false) : NULL, true, 1000);
    UNTIL((*b)->opens && (!tls || (*a)->opens));
}

/* ---- sending and receiving ---- */

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

/* An owner that uses nothing, without a pause, is not flooded, and still learns of the end. */
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

static void test_marks_fall_as_messages_leave(void **state)
{
    struct end *a;
    struct end *b;

    (void)state;
    faced(false, &a, &b);
    a->conn.lazy = true;
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

/* ---- the filter ---- */

static void test_records_in_single_bytes(void **state)
{
    struct end *a;
    struct end *b;
    int left[2];
    int right[2];
    size_t moved = 1;

    (void)state;
    unix_pair(left);
    unix_pair(right);
    a = end_new(left[0], tls_of_role(true), false, 1000);
    b = end_new(right[0], tls_of_role(false), true, 1000);
    sw_conn_put(&b->conn, "early", 5); /* waits for the handshake */
    for (int idle = 0; idle < 20; idle = moved ? 0 : idle + 1) {
        const int from[] = {left[1], right[1]};

        moved = 0;
        for (int i = 0; i < 2; i++) {
            char byte;

            if (sw_sock_read(from[i], &byte, 1) == 1) {
                moved++;
                peer_write(from[!i], &byte, 1);
            }
        }
        sw_loop_turn(loop, moved ? 0 : 1);
    }
    assert_int_equal(a->opens + b->opens, 2);
    assert_int_equal(sw_buf_len(&a->got), 5);
    assert_memory_equal(sw_buf_data(&a->got), "early", 5);
    end_free(a);
    end_free(b);
    sw_sock_close(left[1]);
    sw_sock_close(right[1]);
}

static void test_join_offers_records_together(void **state)
{
    char *text = pattern(60000);
    struct end *a;
    struct end *b;
    int fds[2];

    (void)state;
    for (int join = 0; join < 2; join++) {
        unix_pair(fds);
        a = end_new(fds[0], tls_of_role(true), false, 1000);
        b = end_new(fds[1], tls_of_role(false), true, 1000);
        UNTIL(a->opens && b->opens);
        settle();
        a->conn.join = join;
        a->calls = 0;
        sw_conn_pause(&a->conn);
        sw_conn_put(&b->conn, text, 60000);
        settle();
        sw_conn_resume(&a->conn);
        UNTIL(sw_buf_len(&a->got) == 60000);
        assert_memory_equal(sw_buf_data(&a->got), text, 60000);
        if (join)
            assert_int_equal(a->calls, 1);
        else
            assert_true(a->calls >= 4);
        end_free(a);
        end_free(b);
    }
    sw_free(text);
}

static void test_damaged_record_fails_with_an_alert(void **state)
{
    static const uint8_t junk[40] = {23, 3, 3, 0, 35};
    struct end *a;
    struct end *b;
    int fds[2];
    int also;

    (void)state;
    unix_pair(fds);
    also = dup(fds[1]);
    a = end_new(fds[0], tls_of_role(true), false, 1000);
    b = end_new(fds[1], tls_of_role(false), true, 1000);
    UNTIL(a->opens && b->opens);
    settle();
    peer_write(also, junk, sizeof(junk));
    UNTIL(a->frees && b->frees);
    assert_int_equal(a->why.rc, SW_EPROTO);
    assert_int_equal(b->why.rc, SW_EPROTO); /* told by the alert */
    sw_sock_close(also);
    end_free(a);
    end_free(b);
}

static void test_end_below_the_filter_is_told_apart(void **state)
{
    struct end *a;
    struct end *b;

    (void)state;
    faced(true, &a, &b);
    sw_conn_close(&b->conn, false);
    UNTIL(a->eofs);
    assert_true(a->conn.truncated);
    end_free(a);
    end_free(b);
    faced(true, &a, &b);
    sw_conn_put(&b->conn, "bye", 3);
    sw_conn_shutdown(&b->conn);
    UNTIL(a->eofs);
    assert_false(a->conn.truncated);
    assert_int_equal(sw_buf_len(&a->got), 3);
    end_free(a);
    end_free(b);
}

/* ---- opening ---- */

static void test_reset_in_the_handshake(void **state)
{
    struct end *e;
    int fds[2];

    (void)state;
    tcp_pair(fds);
    e = end_new(fds[0], tls_of_role(false), true, 1000);
    settle(); /* the first flight is out */
    sw_sock_set_reset(fds[1]);
    sw_sock_close(fds[1]);
    UNTIL(e->frees);
    assert_int_equal(e->fails, 1);
    assert_int_equal(e->why.rc, SW_ECLOSED);
    assert_int_equal(e->opens, 0);
    end_free(e);
}

static void test_end_in_the_handshake(void **state)
{
    struct end *e;
    int fds[2];

    (void)state;
    unix_pair(fds);
    e = end_new(fds[0], tls_of_role(true), false, 1000);
    peer_write(fds[1], "\x16\x03\x01", 3);
    sw_sock_close(fds[1]);
    UNTIL(e->frees);
    assert_int_equal(e->why.rc, SW_EOF);
    end_free(e);
}

static void test_handshake_has_a_deadline(void **state)
{
    struct end *e;
    int fds[2];

    (void)state;
    unix_pair(fds);
    e = end_new(fds[0], tls_of_role(true), false, 1000);
    pass_ms(990);
    assert_int_equal(e->fails, 0);
    pass_ms(20);
    assert_int_equal(e->frees, 1);
    assert_int_equal(e->why.rc, SW_ETIME);
    assert_string_equal(e->why.msg, "handshake timed out");
    end_free(e);
    sw_sock_close(fds[1]);
}

static void test_refused_connect_fails(void **state)
{
    struct sw_addr at = {0};
    struct sw_sock_opts o = SW_SOCK_OPTS_INIT;
    struct sw_err err = {0};
    struct end *e;
    int fd;

    (void)state;
    assert_int_equal(sw_ip_parse(SW_SLICE_LIT("127.0.0.1"), &at.ip, &err), SW_OK);
    assert_int_equal(sw_sock_listen(&at, &o, &fd, &err), SW_OK);
    at = sw_sock_local(fd);
    sw_sock_close(fd);
    assert_int_equal(sw_sock_connect(&at, NULL, &o, &fd, &err), SW_OK);
    e = end_new(fd, NULL, true, 1000);
    UNTIL(e->frees);
    assert_int_equal(e->why.sys_errno, ECONNREFUSED);
    end_free(e);
}

/* ---- ends ---- */

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

static int set_up(void **state)
{
    static const char *const sans[] = {"localhost", NULL};
    SW_BUF_AUTO chain = {.max = 65536};
    SW_BUF_AUTO key = {.max = 65536};
    struct sw_err err = {0};

    (void)state;
    now_ns = sw_now_ns();
    loop = sw_loop_new(&err);
    sw_loop_set_clock(loop, fake_clock);
    ca = sw_ca_new(SW_SLICE_LIT("cluster.local"), 0, &err);
    assert_int_equal(
        sw_ca_issue_web(ca,
                        &(struct sw_ca_web){.cn = "a", .sans = sans, .server = true, .ttl_s = 3600},
                        &chain, &key, &err),
        SW_OK);
    cred = sw_tls_cred_new(&(struct sw_tls_cred_pem){.chain = sw_buf_slice(&chain),
                                                     .key = sw_buf_slice(&key),
                                                     .roots = sw_ca_root_pem(ca),
                                                     .any_identity = true},
                           &err);
    assert_non_null(cred);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    sw_loop_free(loop);
    sw_tls_cred_unref(cred);
    sw_ca_free(ca);
    return 0;
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
        cmocka_unit_test(test_marks_fall_as_messages_leave),
        cmocka_unit_test(test_records_in_single_bytes),
        cmocka_unit_test(test_join_offers_records_together),
        cmocka_unit_test(test_damaged_record_fails_with_an_alert),
        cmocka_unit_test(test_end_below_the_filter_is_told_apart),
        cmocka_unit_test(test_reset_in_the_handshake),
        cmocka_unit_test(test_end_in_the_handshake),
        cmocka_unit_test(test_handshake_has_a_deadline),
        cmocka_unit_test(test_refused_connect_fails),
        cmocka_unit_test(test_half_closed_peer_is_answered),
        cmocka_unit_test(test_linger_saves_the_answer),
        cmocka_unit_test(test_linger_ends_by_time),
        cmocka_unit_test(test_linger_waits_for_the_slow),
        cmocka_unit_test(test_stalled_peer_fails),
        cmocka_unit_test(test_refusal_is_read_though_writing_failed),
        cmocka_unit_test(test_reset_is_told_once),
        cmocka_unit_test(test_close_in_every_callback),
        cmocka_unit_test(test_released_socket_is_anothers),
        cmocka_unit_test(test_moves_to_another_loop),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
