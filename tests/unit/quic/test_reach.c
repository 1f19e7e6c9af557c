/* SPDX-License-Identifier: Apache-2.0 */
/* Probes of a peer, of those who copy them, and how many answers they get. */
#include <stdlib.h>

#include "base/rand.h"
#include "io/sock.h"
#include "middle.h"
#include "quic/path.h"
#include "quic/path_places.h"
#include "rig.h"

enum { PONGS_PER_SECOND = 20 }; /* as in reach.c */

static bool deny_second(void *arg, const struct sw_addr *a)
{
    struct sw_addr second;

    assert_int_equal(sw_addr_parse(SW_SLICE_LIT("127.0.0.2:1"), &second, NULL), SW_OK);
    return !sw_ip_eq(&a->ip, &second.ip);
}

/* a does not speak for itself: the test is the peer that b exchanges addresses with. */
struct talk {
    struct rig r;
    struct sw_reach b; /* what b says of itself */
    struct sw_addr to; /* b's socket */
    int named;         /* where a is, by its list */
};

static void talk_start(struct talk *k)
{
    struct sw_reach m = {.want = true, .seq = 1, .n = 1};
    uint8_t buf[REACH_MAX];

    rig_start(&k->r, &(struct sw_quic_config){.datagrams = true, .no_probes = true},
              &(struct sw_quic_config){.datagrams = true, .probe_allowed = deny_second});
    rig_connect(&k->r);
    k->to = bound_of(k->r.b.q);
    sw_quic_set_candidates(k->r.b.q, &k->to, 1);
    k->named = raw_socket();
    m.addrs[0] = sw_sock_local(k->named);
    sw_rand_bytes(m.tag, sizeof(m.tag));
    sw_rand_bytes(m.key, sizeof(m.key));
    assert_int_equal(sw_qconn_datagram(k->r.a.c, buf, sw_reach_write(&m, buf)), SW_OK);
    rig_until(&k->r, &k->r.a.dgrams, 1);
    assert_int_equal(sw_reach_read(k->r.a.dgram, k->r.a.dgram_n, &k->b, NULL), SW_OK);
}

static void talk_stop(struct talk *k)
{
    sw_sock_close(k->named);
    rig_stop(&k->r);
}

static void make_ping(const struct talk *k, uint8_t ret[PROBE_LEN])
{
    struct sw_probe m = {.kind = SW_PROBE_PING};

    memcpy(m.tag, k->b.tag, sizeof(m.tag));
    sw_rand_bytes(m.tx, sizeof(m.tx));
    sw_probe_write(&m, k->b.key, ret);
}

static void ping(struct talk *k, int fd, const uint8_t p[PROBE_LEN])
{
    uint8_t own[PROBE_LEN];

    make_ping(k, own);
    assert_int_equal(sw_dgram_send(fd, p ? p : own, PROBE_LEN, &k->to), SW_OK);
}

/* Datagrams of one kind that are there. */
static size_t count(int fd, uint8_t kind)
{
    uint8_t buf[2000];
    size_t n = 0;
    ssize_t got;

    while ((got = sw_dgram_recv(fd, buf, sizeof(buf), NULL)) > 0)
        n += got == PROBE_LEN && buf[0] == kind;
    return n;
}

static void a_ping_is_answered_and_its_sender_pinged(void **state)
{
    struct talk k;
    int fd = raw_socket();
    size_t pongs = 0;
    size_t pings = 0;
    uint8_t buf[2000];
    ssize_t n;

    talk_start(&k);
    ping(&k, fd, NULL);
    while (pongs == 0 || pings == 0) {
        sw_loop_turn(k.r.loop, 10);
        while ((n = sw_dgram_recv(fd, buf, sizeof(buf), NULL)) > 0) {
            pongs += buf[0] == SW_PROBE_PONG;
            pings += buf[0] == SW_PROBE_PING;
        }
    }
    assert_int_equal(pongs, 1);
    sw_sock_close(fd);
    talk_stop(&k);
}

/* Who can read pings sends them from elsewhere: no answers to others, and no places for them. */
static void copies_of_a_ping_are_not_answered(void **state)
{
    uint8_t p[PROBE_LEN];
    size_t pongs = 0;
    struct talk k;
    int fd[20];

    talk_start(&k);
    make_ping(&k, p);
    for (size_t i = 0; i < SW_ARRAY_LEN(fd); i++) {
        fd[i] = raw_socket();
        ping(&k, fd[i], p);
        rig_idle(&k.r, 1);
    }
    rig_idle(&k.r, 50);
    for (size_t i = 0; i < SW_ARRAY_LEN(fd); i++) {
        pongs += count(fd[i], SW_PROBE_PONG);
        sw_sock_close(fd[i]);
    }
    assert_int_equal(pongs, 1);
    talk_stop(&k);
}

static void answers_to_strangers_are_limited_and_leave_room_for_known_places(void **state)
{
    uint64_t began = sw_now_ns();
    int fd = raw_socket();
    int other = raw_socket();
    struct talk k;
    size_t n;

    talk_start(&k);
    /* From two sockets in turn, and the first becomes a place: the budgets are apart. */
    for (int i = 0; i < 400; i++) {
        ping(&k, i % 2 ? fd : other, NULL);
        if (i % 20 == 0)
            rig_idle(&k.r, 1);
    }
    rig_idle(&k.r, 20);
    n = count(fd, SW_PROBE_PONG) + count(other, SW_PROBE_PONG);
    assert_true(n >= 1);
    assert_true(n <= 3 * PONGS_PER_SECOND * (2 + (sw_now_ns() - began) / SW_NS_PER_S));
    (void)count(k.named, SW_PROBE_PONG);
    ping(&k, k.named, NULL);
    rig_while(&k.r, count(k.named, SW_PROBE_PONG) == 0);
    sw_sock_close(fd);
    sw_sock_close(other);
    talk_stop(&k);
}

/* The answer to a forged source would go where the operator allows nothing to go. */
static void denied_addresses_get_no_answer(void **state)
{
    struct sw_addr second;
    struct talk k;
    int fd = -1;

    assert_int_equal(sw_addr_parse(SW_SLICE_LIT("127.0.0.2:0"), &second, NULL), SW_OK);
    assert_int_equal(sw_dgram_bind(&second, NULL, &fd, NULL), SW_OK);
    talk_start(&k);
    ping(&k, fd, NULL);
    ping(&k, k.named, NULL);
    rig_while(&k.r, count(k.named, SW_PROBE_PONG) == 0);
    assert_int_equal(count(fd, SW_PROBE_PONG), 0);
    assert_true(k.r.b.q->stats.probes_dropped >= 1);
    sw_sock_close(fd);
    talk_stop(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ping_is_answered_and_its_sender_pinged),
        cmocka_unit_test(copies_of_a_ping_are_not_answered),
        cmocka_unit_test(answers_to_strangers_are_limited_and_leave_room_for_known_places),
        cmocka_unit_test(denied_addresses_get_no_answer),
    };

    return cmocka_run_group_tests_name("quic reach", tests, NULL, NULL);
}
