/* SPDX-License-Identifier: Apache-2.0 */
/* Paths that change faster than they are validated, and what others can do to them. */
#include <stdlib.h>

#include "io/sock.h"
#include "middle.h"
#include "rig.h"

enum { BULK = 3000000 };

/* ---- many moves ---- */

/* ngtcp2 drops packets of a path that it has left, and the renewed one was taken for the present.
 */
static void a_move_after_a_renewal_still_hears_the_peer(void **state)
{
    struct rig_stream t;
    struct rig r;

    rig_start(&r, NULL, NULL);
    r.b.echo = true;
    rig_connect(&r);
    rig_while(&r, !sw_qpath_renew(r.a.c));
    rig_idle(&r, 20);
    sw_qpath_network_changed(r.a.c);
    rig_idle(&r, 20);
    rig_open(&r, &t, BULK);
    rig_until_true(&r, &t.closed);
    assert_true(t.fin && !t.mismatch);
    rig_stop(&r);
}

/* In every turn, at the dialler: each move would cost a connection ID, and there are six. */
static void a_storm_of_network_changes_does_not_use_up_connection_ids(void **state)
{
    struct rig_stream t;
    struct rig r;

    rig_start(&r, NULL, NULL);
    r.b.echo = true;
    rig_connect(&r);
    rig_open(&r, &t, BULK);
    for (int i = 0; i < 300 && !t.closed; i++) {
        sw_qpath_network_changed(r.a.c);
        if (i % 40 == 20)
            (void)sw_qpath_renew(r.a.c);
        sw_loop_turn(r.loop, 1);
    }
    rig_until_true(&r, &t.closed);
    assert_true(t.fin && !t.mismatch);
    assert_int_equal(r.a.closed + r.b.closed, 0);
    rig_stop(&r);
}

/* The endpoint acts on the first change, then on all that followed at once. */
static void changes_of_the_network_in_a_row_are_one(void **state)
{
    struct sw_quic_stats st;
    struct rig r;

    rig_start(&r, NULL, NULL);
    rig_connect(&r);
    for (int i = 0; i < 100; i++) {
        sw_quic_network_changed(r.a.q);
        rig_while(&r, r.a.c->dial->anew || r.a.c->dial->proving);
        if (!r.a.q->network.waits)
            break;
    }
    for (int i = 0; i < 100; i++)
        sw_quic_network_changed(r.a.q);
    assert_true(r.a.q->network.waits);
    rig_while(&r, r.a.q->network.waits);
    rig_while(&r, r.a.c->dial->anew || r.a.c->dial->proving);
    sw_quic_stats(r.a.q, &st);
    assert_int_equal(st.migrations, 2);
    rig_stop(&r);
}

/* A NAT gives the dialler another port while the dialler moves, again and again. */
static void a_new_port_in_the_middle_of_a_move_is_followed(void **state)
{
    struct rig_stream t;
    struct middle m;
    struct rig r;

    rig_start(&r, NULL, NULL);
    r.b.echo = true;
    middle_connect(&m, &r);
    rig_open(&r, &t, BULK);
    for (int i = 0; i < 60 && !t.closed; i++) {
        middle_rebind(&m);
        middle_turn(&m, &r);
        middle_turn(&m, &r);
        sw_qpath_network_changed(r.a.c);
        for (int j = 0; j < i % 4; j++)
            middle_turn(&m, &r);
        middle_rebind(&m);
        for (int j = 0; j < 1 + i % 3; j++)
            middle_turn(&m, &r);
    }
    middle_until(&m, &r, &t.closed);
    assert_true(t.fin && !t.mismatch);
    assert_int_equal(r.a.closed + r.b.closed, 0);
    middle_close(&m);
    rig_stop(&r);
}

static void turns(struct middle *m, struct rig *r, int n)
{
    for (int i = 0; i < n; i++)
        middle_turn(m, r);
}

/* The way back is open again, and the connection carries everything. */
static void echoes_again(struct middle *m, struct rig *r)
{
    struct rig_stream t;

    m->closed_back = false;
    r->b.echo = true;
    rig_open(r, &t, BULK);
    middle_until(m, r, &t.closed);
    assert_true(t.fin && !t.mismatch);
    assert_int_equal(r->a.closed + r->b.closed, 0);
}

/*
 * The dialler's NAT gives it another port, and before that path is validated the dialler moves.
 * ngtcp2 had one connection ID for two paths there, and retired it while one of them used it: the
 * connection was closed.
 */
static void a_move_before_a_new_port_is_validated_does_no_harm(void **state)
{
    static const uint8_t ping[] = "ping";
    struct middle m;
    struct rig r;

    rig_start(&r, &(struct sw_quic_config){.datagrams = true},
              &(struct sw_quic_config){.datagrams = true});
    middle_connect(&m, &r);
    turns(&m, &r, 20);
    m.closed_back = true;
    middle_rebind(&m);
    assert_int_equal(sw_qconn_datagram(r.a.c, ping, sizeof(ping)), SW_OK);
    turns(&m, &r, 5);
    middle_rebind(&m);
    sw_qpath_network_changed(r.a.c);
    turns(&m, &r, 3);
    assert_int_equal(sw_qconn_datagram(r.a.c, ping, sizeof(ping)), SW_OK);
    turns(&m, &r, 5);
    echoes_again(&m, &r);
    middle_close(&m);
    rig_stop(&r);
}

/*
 * Two ports in turn, none of them validated. ngtcp2 0.12 aborts the process when it sees the path
 * it would fall back to.
 */
static void a_port_that_comes_back_is_a_new_path(void **state)
{
    static const uint8_t ping[] = "ping";
    struct middle m;
    struct rig r;
    int other;

    rig_start(&r, &(struct sw_quic_config){.datagrams = true},
              &(struct sw_quic_config){.datagrams = true});
    middle_connect(&m, &r);
    turns(&m, &r, 20);
    other = raw_socket();
    m.closed_back = true;
    for (int i = 0; i < 7; i++) {
        int back = m.back;

        m.back = other;
        other = back;
        assert_int_equal(sw_qconn_datagram(r.a.c, ping, sizeof(ping)), SW_OK);
        turns(&m, &r, i % 3); /* several in one turn of b, too */
    }
    turns(&m, &r, 5);
    echoes_again(&m, &r);
    sw_sock_close(other);
    middle_close(&m);
    rig_stop(&r);
}

/* A silent path brings no new connection IDs, so the relay has to do without one. */
static void without_a_spare_id_the_relay_takes_over_the_path(void **state)
{
    struct sw_qrelay *relay;
    struct rig_stream t;
    struct sw_qroutes *d;
    struct middle m;
    struct rig r;

    rig_start(&r, NULL, NULL);
    middle_connect(&m, &r);
    turns(&m, &r, 20);
    sw_quic_set_home_relay(r.a.q, SW_SLICE_LIT("http://127.0.0.1:1/"));
    relay = SW_CONTAINER_OF(r.a.q->relays.next, struct sw_qrelay, link);
    d = r.a.c->dial;
    d->route[d->n++] = (struct sw_qroute){.relay = relay, .node = r.a.c->peer};
    m.closed = true;
    rig_open(&r, &t, 1000);
    for (int i = 0; i < 10; i++) {
        sw_qpath_network_changed(r.a.c);
        d->proving = 0; /* as if it had failed */
        turns(&m, &r, 2);
    }
    assert_true(d->anew); /* waits for an ID */
    assert_int_equal(sw_qconn_path(r.a.c), SW_QPATH_DIRECT);
    relay->up = true;
    r.a.c->heard.at_ns = 0;
    r.a.c->keepalive_at_ns = 0;
    sw_qconn_touch(r.a.c);
    rig_while(&r, sw_qconn_path(r.a.c) != SW_QPATH_RELAY);
    assert_int_equal(r.a.closed, 0);
    middle_close(&m);
    rig_stop(&r);
}

/* An idle connection gets a packet every five seconds: no reason to leave its path for the relay.
 */
static void a_request_after_a_pause_stays_on_the_direct_path(void **state)
{
    struct sw_qrelay *relay;
    struct rig_stream t;
    struct sw_qroutes *d;
    struct middle m;
    struct rig r;

    rig_start(&r, NULL, NULL);
    middle_connect(&m, &r);
    turns(&m, &r, 20);
    sw_quic_set_home_relay(r.a.q, SW_SLICE_LIT("http://127.0.0.1:1/"));
    relay = SW_CONTAINER_OF(r.a.q->relays.next, struct sw_qrelay, link);
    relay->up = true;
    d = r.a.c->dial;
    d->route[d->n++] = (struct sw_qroute){.relay = relay, .node = r.a.c->peer};
    r.a.c->heard.at_ns = sw_quic_now(r.a.q) - 4 * SW_NS_PER_S;
    m.closed = true;
    rig_open(&r, &t, 1000);
    for (int i = 0; i < 5; i++) {
        sw_qconn_touch(r.a.c);
        turns(&m, &r, 2);
    }
    assert_int_equal(d->relay_tries, 0);
    /* No packet in the time of an answer: now there is one. */
    rig_while(&r, d->relay_tries == 0);
    assert_int_equal(r.a.closed, 0);
    middle_close(&m);
    rig_stop(&r);
}

/* ---- what others can do ---- */

/* Looks like a packet for a: its first bytes, and nothing that opens. */
static size_t forge(const struct middle *m, uint8_t ret[100])
{
    assert_true(m->last_n >= 1 + QUIC_CID_LEN);
    memset(ret, 0x5a, 100);
    memcpy(ret, m->last_to_a, 1 + QUIC_CID_LEN);
    return 100;
}

/* Who knows a connection ID, or has a packet, could keep a dead path alive. */
static void forged_and_copied_packets_do_not_count_as_heard(void **state)
{
    uint8_t p[100];
    struct rig_stream t;
    struct middle m;
    uint64_t heard;
    struct rig r;

    rig_start(&r, NULL, NULL);
    r.b.echo = true;
    middle_connect(&m, &r);
    rig_open(&r, &t, 100);
    middle_until(&m, &r, &t.closed);
    turns(&m, &r, 20);
    m.closed = true;
    turns(&m, &r, 5);
    heard = r.a.c->heard.at_ns;
    for (int i = 0; i < 20; i++) {
        assert_int_equal(sw_dgram_send(m.front, p, forge(&m, p), &m.a), SW_OK);
        assert_int_equal(sw_dgram_send(m.front, m.last_to_a, m.last_n, &m.a), SW_OK);
        rig_idle(&r, 2);
    }
    assert_true(r.a.c->heard.at_ns == heard);
    m.closed = false;
    rig_open(&r, &t, 1000);
    middle_until(&m, &r, &t.closed);
    assert_true(r.a.c->heard.at_ns > heard);
    middle_close(&m);
    rig_stop(&r);
}

static bool deny(void *arg, const struct sw_addr *a)
{
    return false;
}

/* A packet from another address while the path is silent: it was tried wherever that was. */
static void a_stray_packet_does_not_lead_to_denied_addresses(void **state)
{
    struct sw_addr other;
    struct sw_addr to;
    uint8_t p[100];
    struct middle m;
    struct rig r;
    int fd = -1;

    rig_start(&r, &(struct sw_quic_config){.probe_allowed = deny}, NULL);
    middle_connect(&m, &r);
    turns(&m, &r, 20);
    to = bound_of(r.a.q);
    assert_int_equal(sw_addr_parse(SW_SLICE_LIT("127.0.0.2:0"), &other, NULL), SW_OK);
    assert_int_equal(sw_dgram_bind(&other, NULL, &fd, NULL), SW_OK);
    for (int i = 0; i < 2; i++) {
        r.a.c->heard.at_ns = sw_quic_now(r.a.q) - 2 * SW_NS_PER_S;
        r.a.c->dial->stray_ns = 0;
        /* Of another host; then another port of the host it is connected to. */
        assert_int_equal(sw_dgram_send(i == 0 ? fd : m.back, p, forge(&m, p), &to), SW_OK);
        m.closed = true;
        r.a.c->dial->trying = UINT16_MAX; /* so that what was noted stays to be seen */
        r.a.c->dial->trying_ns = sw_quic_now(r.a.q);
        rig_idle(&r, 5);
        assert_true((r.a.c->dial->stray_ns != 0) == (i == 1));
    }
    sw_sock_close(fd);
    middle_close(&m);
    rig_stop(&r);
}

/*
 * All that b sends is lost, so its congestion window is full. The challenge by which a validates
 * another path must be answered all the same.
 */
static void a_challenge_is_answered_with_a_full_congestion_window(void **state)
{
    struct rig_stream t;
    struct middle m;
    struct middle other;
    struct rig r;

    rig_start(&r, NULL, NULL);
    r.b.echo = true;
    middle_connect(&m, &r);
    middle_open(&other, &r);
    rig_open(&r, &t, 10 * BULK);
    rig_while(&r, (middle_forward(&m), t.read < 10000));
    m.closed_back = true;
    for (int i = 0; i < 100; i++)
        middle_turn(&m, &r);
    m.closed = true;
    /* As a packet from there in a silence would have it. */
    r.a.c->dial->stray = (struct sw_qroute){.remote = sw_sock_local(other.front)};
    r.a.c->dial->stray_ns = sw_quic_now(r.a.q);
    sw_qconn_touch(r.a.c);
    while (!t.closed) {
        middle_turn(&other, &r);
        middle_forward(&m);
    }
    assert_true(t.fin && !t.mismatch);
    assert_int_equal(r.a.closed + r.b.closed, 0);
    assert_int_equal(sw_qconn_addr(r.a.c).port, sw_sock_local(other.front).port);
    middle_close(&m);
    middle_close(&other);
    rig_stop(&r);
}

/* Nothing arrives for seconds: that says nothing about the size of packets. */
static void an_outage_does_not_make_packets_small_for_good(void **state)
{
    struct rig_stream t;
    struct middle m;
    struct rig r;

    rig_start(&r, NULL, NULL);
    r.b.echo = true;
    middle_connect(&m, &r);
    rig_open(&r, &t, 10 * BULK);
    rig_while(&r, (middle_forward(&m), t.read < 10000));
    m.closed = true;
    rig_while(&r, (middle_forward(&m), !r.a.c->hole.found));
    m.closed = false;
    middle_until(&m, &r, &t.closed);
    assert_true(t.fin && !t.mismatch);
    assert_false(r.a.c->hole.found);
    assert_true(sw_qconn_packet_max(r.a.c, QUIC_MTU) == QUIC_MTU);
    middle_close(&m);
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_move_after_a_renewal_still_hears_the_peer),
        cmocka_unit_test(a_storm_of_network_changes_does_not_use_up_connection_ids),
        cmocka_unit_test(changes_of_the_network_in_a_row_are_one),
        cmocka_unit_test(a_new_port_in_the_middle_of_a_move_is_followed),
        cmocka_unit_test(a_port_that_comes_back_is_a_new_path),
        cmocka_unit_test(a_move_before_a_new_port_is_validated_does_no_harm),
        cmocka_unit_test(without_a_spare_id_the_relay_takes_over_the_path),
        cmocka_unit_test(a_request_after_a_pause_stays_on_the_direct_path),
        cmocka_unit_test(forged_and_copied_packets_do_not_count_as_heard),
        cmocka_unit_test(a_stray_packet_does_not_lead_to_denied_addresses),
        cmocka_unit_test(a_challenge_is_answered_with_a_full_congestion_window),
        cmocka_unit_test(an_outage_does_not_make_packets_small_for_good),
    };

    return cmocka_run_group_tests_name("quic paths", tests, NULL, NULL);
}
