/* SPDX-License-Identifier: Apache-2.0 */
/* Packets of strangers, and a middleman who forwards, changes addresses and replays. */
#include <stdlib.h>

#include "bare.h"
#include "base/rand.h"
#include "io/sock.h"
#include "middle.h"
#include "rig.h"

/* What arrives at fd within ms: datagrams and bytes; the last one stays in buf. */
struct caught {
    size_t n;
    size_t bytes;
    size_t last;
    size_t biggest;
};

static struct caught catch_for(struct rig *r, int fd, uint8_t *buf, unsigned ms)
{
    uint64_t end = sw_now_ns() + ms * SW_NS_PER_MS;
    struct caught c = {0};

    for (int turns = 0; sw_now_ns() < end || turns < 5; turns++) {
        ssize_t n;

        sw_loop_turn(r->loop, 1);
        while ((n = sw_dgram_recv(fd, buf, SW_DGRAM_MAX, NULL)) > 0) {
            c.n++;
            c.bytes += (size_t)n;
            c.last = (size_t)n;
            c.biggest = sw_max(c.biggest, (size_t)n);
        }
    }
    return c;
}

/* ---- strangers ---- */

static void unknown_versions_are_negotiated_but_not_for_ever(void **state)
{
    static const uint8_t head[] = {0xc0, 0x0a, 0x1a, 0x2a, 0x3a, 8, 1, 2, 3, 4,
                                   5,    6,    7,    8,    4,    9, 9, 9, 9};
    uint8_t *p = sw_calloc(1, SW_DGRAM_MAX);
    struct rig r;
    struct sw_addr to;
    struct caught c;
    int fd = raw_socket();

    rig_start(&r, NULL, NULL);
    to = bound_of(r.b.q);
    memcpy(p, head, sizeof(head));
    assert_int_equal(sw_dgram_send(fd, p, 1199, &to), SW_OK);
    c = catch_for(&r, fd, p, 30);
    assert_int_equal(c.n, 0);
    assert_int_equal(sw_dgram_send(fd, p, 1200, &to), SW_OK);
    do
        c = catch_for(&r, fd, p, 50);
    while (c.n == 0);
    assert_int_equal(c.n, 1);
    assert_true(c.bytes < 100);
    /* Version 0, its IDs the other way round, and our version. */
    assert_true((p[0] & 0x80) && !(p[1] | p[2] | p[3] | p[4]));
    assert_int_equal(p[5], 4);
    assert_memory_equal(p + 6, "\x09\x09\x09\x09\x08\x01\x02\x03\x04\x05\x06\x07\x08\0\0\0\x01",
                        17);
    memset(p, 0, 1200);
    memcpy(p, head, sizeof(head));
    for (int i = 0; i < 300; i++)
        assert_int_equal(sw_dgram_send(fd, p, 1200, &to), SW_OK);
    c = catch_for(&r, fd, p, 100);
    assert_true(c.n <= 50);
    sw_sock_close(fd);
    rig_stop(&r);
    sw_free(p);
}

static void resets_are_smaller_than_their_cause(void **state)
{
    uint8_t *p = sw_calloc(1, SW_DGRAM_MAX);
    struct rig r;
    struct sw_addr to;
    int fd = raw_socket();
    size_t sum = 0;

    rig_start(&r, NULL, NULL);
    to = bound_of(r.b.q);
    for (size_t n = 1; n < 60; n++) {
        struct caught c;

        sw_rand_bytes(p, n);
        p[0] = 0x40;
        assert_int_equal(sw_dgram_send(fd, p, n, &to), SW_OK);
        c = catch_for(&r, fd, p, 2);
        assert_true(c.bytes < n);
        sum += c.n;
    }
    assert_true(sum > 10 && sum <= 50);
    sw_sock_close(fd);
    rig_stop(&r);
    sw_free(p);
}

static void noise_is_dropped_and_counted(void **state)
{
    uint8_t p[1500];
    struct rig r;
    struct sw_addr to;
    struct sw_quic_stats st;
    int fd = raw_socket();

    rig_start(&r, NULL, NULL);
    to = bound_of(r.b.q);
    for (int i = 0; i < 500; i++) {
        size_t n = 1 + sw_rand_below(sizeof(p));

        sw_rand_bytes(p, n);
        /* Some of it looks like a first packet. */
        if (i % 3 == 0)
            memcpy(p, "\xc3\0\0\0\x01\x08", sw_min(n, 6));
        assert_int_equal(sw_dgram_send(fd, p, n, &to), SW_OK);
        if (i % 50 == 0)
            rig_idle(&r, 2);
    }
    rig_idle(&r, 50);
    sw_quic_stats(r.b.q, &st);
    assert_true(st.rx_dropped > 100);
    assert_int_equal(st.accepted, 0);
    /* Whoever is honest is not harmed. */
    rig_connect(&r);
    sw_sock_close(fd);
    rig_stop(&r);
}

/* ngtcp2 0.12 would abort the process: anybody could end a device or a gateway with one packet. */
static void a_hello_without_transport_parameters_is_refused(void **state)
{
    uint8_t *buf = sw_malloc(SW_DGRAM_MAX);
    int fd = raw_socket();
    struct sw_quic_stats st;
    struct sw_addr to;
    struct rig r;

    rig_start(&r, NULL, NULL);
    to = bound_of(r.b.q);
    bare_hello(fd, &to, "test/1", r.a.key);
    assert_true(catch_for(&r, fd, buf, 50).n >= 1); /* the reason */
    sw_quic_stats(r.b.q, &st);
    assert_int_equal(st.accepted, 0);
    rig_connect(&r);
    sw_sock_close(fd);
    rig_stop(&r);
    sw_free(buf);
}

/* ---- a middleman ---- */

static void a_peer_that_gets_a_new_address_is_followed(void **state)
{
    struct rig r;
    struct middle m;
    struct rig_stream t;

    rig_start(&r, NULL, NULL);
    r.b.echo = true;
    middle_open(&m, &r);
    middle_dial(&m, &r);
    while (!r.a.ready)
        middle_turn(&m, &r);
    rig_open(&r, &t, 4000000);
    /* Three times, as a NAT that forgets would do it. */
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 5; j++)
            middle_turn(&m, &r);
        sw_sock_close(m.back);
        m.back = raw_socket();
    }
    middle_until(&m, &r, &t.closed);
    assert_true(t.fin && !t.mismatch);
    assert_int_equal(t.read, 4000000);
    assert_int_equal(sw_qconn_addr(r.b.c).port, sw_sock_local(m.back).port);
    assert_true(r.b.paths >= 1);
    middle_close(&m);
    rig_stop(&r);
}

static void an_unproved_address_gets_three_times_what_it_sent(void **state)
{
    struct rig r;
    struct middle m;
    uint64_t end;

    rig_start(&r, NULL, NULL);
    middle_open(&m, &r);
    middle_dial(&m, &r);
    m.closed_back = true;
    /* Only the first packet comes through. */
    while (sw_dgram_recv(m.front, m.buf, SW_DGRAM_MAX, &m.a) < 1200)
        sw_loop_turn(r.loop, 10);
    assert_int_equal(sw_dgram_send(m.back, m.buf, 1200, &m.b), SW_OK);
    end = sw_now_ns() + SW_NS_PER_S;
    while (sw_now_ns() < end || m.to_a == 0) {
        ssize_t n;

        sw_loop_turn(r.loop, 10);
        while ((n = sw_dgram_recv(m.back, m.buf, SW_DGRAM_MAX, NULL)) > 0)
            m.to_a += (size_t)n;
    }
    assert_true(m.to_a > 0);
    assert_true(m.to_a <= 3600);
    middle_close(&m);
    rig_stop(&r);
}

static void a_retry_token_is_good_for_one_address(void **state)
{
    struct sw_quic_stats st;
    struct rig r;
    struct middle m;

    rig_start(&r, NULL, NULL);
    r.b.q->cfg.max_half_open = 1;
    r.b.q->conn.half_open = 1;
    middle_open(&m, &r);
    middle_dial(&m, &r);
    do
        middle_turn(&m, &r);
    while (r.b.q->stats.retries == 0);
    /* The answer still goes out by the old socket; what follows comes from another. */
    do {
        ssize_t n;

        while ((n = sw_dgram_recv(m.back, m.buf, SW_DGRAM_MAX, NULL)) > 0) {
            assert_int_equal(sw_dgram_send(m.front, m.buf, (size_t)n, &m.a), SW_OK);
            m.to_a += (size_t)n;
        }
        rig_idle(&r, 5);
    } while (m.to_a == 0);
    sw_sock_close(m.back);
    m.back = raw_socket();
    do {
        for (int i = 0; i < 100; i++)
            middle_turn(&m, &r);
        sw_quic_stats(r.b.q, &st);
    } while (st.rx_dropped == 0);
    assert_int_equal(st.accepted, 0);
    assert_int_equal(r.a.ready, 0);
    assert_true(st.rx_dropped > 0);
    r.b.q->conn.half_open = 0;
    middle_close(&m);
    rig_stop(&r);
}

/* Everything that was ever said is said again, to both. */
static void replayed_packets_change_nothing(void **state)
{
    struct rig r;
    struct middle m;
    struct rig_stream t;
    uint8_t *kept = sw_malloc(200 * 20000);
    size_t len[200];
    size_t n_kept = 0;

    rig_start(&r, NULL, NULL);
    r.b.echo = true;
    middle_open(&m, &r);
    middle_dial(&m, &r);
    while (!r.a.ready || n_kept < 20) {
        ssize_t n;

        sw_loop_turn(r.loop, 1);
        while ((n = sw_dgram_recv(m.front, m.buf, SW_DGRAM_MAX, &m.a)) > 0) {
            if (n_kept < 200 && n < 20000) {
                memcpy(kept + 20000 * n_kept, m.buf, (size_t)n);
                len[n_kept++] = (size_t)n;
            }
            (void)sw_dgram_send(m.back, m.buf, (size_t)n, &m.b);
        }
        while ((n = sw_dgram_recv(m.back, m.buf, SW_DGRAM_MAX, NULL)) > 0)
            (void)sw_dgram_send(m.front, m.buf, (size_t)n, &m.a);
        if (r.a.ready && n_kept < 20 && sw_qconn_streams(r.a.c) == 0)
            rig_open(&r, &t, 500000);
    }
    for (size_t i = 0; i < n_kept; i++)
        (void)sw_dgram_send(m.back, kept + 20000 * i, len[i], &m.b);
    middle_until(&m, &r, &t.closed);
    assert_true(t.fin && !t.mismatch);
    assert_int_equal(r.b.accepted, 1);
    assert_int_equal(r.a.closed + r.b.closed, 0);
    middle_close(&m);
    rig_stop(&r);
    sw_free(kept);
}

/* One packet in seven is lost, both ways. */
static void losses_are_made_good(void **state)
{
    struct rig r;
    struct middle m;
    struct rig_stream t;
    unsigned i = 0;

    rig_start(&r, NULL, NULL);
    r.b.echo = true;
    middle_open(&m, &r);
    middle_dial(&m, &r);
    while (!r.a.ready)
        middle_turn(&m, &r);
    rig_open(&r, &t, 1000000);
    while (!t.closed) {
        ssize_t n;

        sw_loop_turn(r.loop, 1);
        while ((n = sw_dgram_recv(m.front, m.buf, SW_DGRAM_MAX, &m.a)) > 0)
            if (++i % 7)
                (void)sw_dgram_send(m.back, m.buf, (size_t)n, &m.b);
        while ((n = sw_dgram_recv(m.back, m.buf, SW_DGRAM_MAX, NULL)) > 0)
            if (++i % 7)
                (void)sw_dgram_send(m.front, m.buf, (size_t)n, &m.a);
    }
    assert_true(t.fin && !t.mismatch && !t.lost);
    assert_int_equal(t.read, 1000000);
    middle_close(&m);
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_versions_are_negotiated_but_not_for_ever),
        cmocka_unit_test(resets_are_smaller_than_their_cause),
        cmocka_unit_test(noise_is_dropped_and_counted),
        cmocka_unit_test(a_hello_without_transport_parameters_is_refused),
        cmocka_unit_test(a_peer_that_gets_a_new_address_is_followed),
        cmocka_unit_test(an_unproved_address_gets_three_times_what_it_sent),
        cmocka_unit_test(a_retry_token_is_good_for_one_address),
        cmocka_unit_test(replayed_packets_change_nothing),
        cmocka_unit_test(losses_are_made_good),
    };

    return cmocka_run_group_tests_name("quic hostile", tests, NULL, NULL);
}
