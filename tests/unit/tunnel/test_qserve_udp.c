/* SPDX-License-Identifier: Apache-2.0 */
/* The device half as a proxy of UDP: payloads in capsules and datagrams, and silence. */
#include "qserve_rig.h"

static void udp_payloads_travel_in_capsules(void **state)
{
    static uint8_t big[SW_UDP_PAYLOAD_MAX];
    struct qrig *r = qrig_new();
    struct sw_addr at;
    struct sw_addr from;
    int fd = udp_socket(&at);
    struct call *c;
    uint8_t buf[SW_DGRAM_MAX];
    ssize_t n = 0;
    struct sw_slice got = {0};
    struct sw_capsule_reader reader = {0};
    struct sw_err err = {0};
    size_t used = 0;

    (void)state;
    r->fake.ring = 1 << 20;
    qrig_start(r);
    c = udp_call(r, &at, true); /* asked for, but this endpoint has no datagrams */
    RUN_UNTIL(r->loop, c->status == 101);
    assert_true(sw_slice_eq_str(sw_buf_slice(&c->head),
                                "connection=Upgrade;upgrade=connect-udp;capsule-protocol=?1;"));
    /* An unknown capsule, an unknown context, then a payload. */
    (void)sw_qcall_write(&c->q, "\x17\x02zz\x00\x02\x04x\x00\x03\x00hi", 13);
    RUN_UNTIL(r->loop, (n = sw_dgram_recv(fd, buf, sizeof(buf), &from)) >= 0);
    assert_int_equal(n, 2);
    assert_memory_equal(buf, "hi", 2);
    /* A packet of somebody else does not reach the peer; the target's does. */
    assert_int_equal(sw_dgram_send(fd, "yo", 2, &from), SW_OK);
    RUN_UNTIL(r->loop, sw_buf_len(&c->body) == 5);
    assert_memory_equal(sw_buf_data(&c->body), "\x00\x03\x00yo", 5);
    sw_buf_clear(&c->body);
    for (size_t i = 0; i < sizeof(big); i++)
        big[i] = (uint8_t)(i * 3);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){1 << 20}, sizeof(int));
    assert_int_equal(sw_dgram_send(fd, big, 65507, &from), SW_OK);
    RUN_UNTIL(r->loop, sw_buf_len(&c->body) > 65507);
    assert_int_equal(sw_capsule_next(&reader, sw_buf_slice(&c->body), &used, &got, &err), SW_OK);
    assert_int_equal(sw_masque_udp_payload(got, &got), SW_OK);
    assert_int_equal(got.n, 65507);
    assert_memory_equal(got.p, big, got.n);
    sw_capsule_done(&reader);
    sw_qcall_finish(&c->q);
    RUN_UNTIL(r->loop, c->ended && r->n_ended == 1);
    assert_null(r->ended.reason);
    call_free(c);
    sw_sock_close(fd);
    qrig_free(r);
}

static void udp_payloads_travel_in_datagrams(void **state)
{
    struct qrig *r = qrig_new();
    struct sw_addr at;
    struct sw_addr from;
    int fd = udp_socket(&at);
    struct call *c[2];
    uint8_t buf[SW_DGRAM_MAX];
    ssize_t n = 0;
    struct sw_qserve_stats st;

    (void)state;
    r->fake.datagrams = true;
    qrig_start(r);
    c[0] = udp_call(r, &at, true);
    c[1] = udp_call(r, &at, true);
    RUN_UNTIL(r->loop, c[0]->status == 101 && c[1]->status == 101);
    assert_true(sw_qcall_datagram_max(&c[1]->q) > 1000);
    assert_int_equal(sw_qcall_datagram(&c[1]->q, (const uint8_t *)"hi", 2), SW_OK);
    RUN_UNTIL(r->loop, (n = sw_dgram_recv(fd, buf, sizeof(buf), &from)) >= 0);
    assert_int_equal(n, 2);
    assert_int_equal(sw_dgram_send(fd, "answer", 6, &from), SW_OK);
    RUN_UNTIL(r->loop, sw_buf_len(&c[1]->grams));
    assert_true(sw_slice_eq_str(sw_buf_slice(&c[1]->grams), "answer|"));
    assert_int_equal(sw_buf_len(&c[0]->grams), 0);
    /* Too large for a datagram: dropped, so that path MTU probes inside keep working. */
    assert_int_equal(sw_dgram_send(fd, buf, 5000, &from), SW_OK);
    rig_settle(r->loop);
    assert_int_equal(sw_buf_len(&c[1]->body), 0);
    sw_qserve_stats(r->serve, &st);
    assert_int_equal(st.datagrams_dropped, 1);
    assert_int_equal(st.udp_flows, 2);
    call_free(c[0]);
    call_free(c[1]);
    rig_settle(r->loop);
    sw_qserve_stats(r->serve, &st);
    assert_int_equal(st.udp_flows, 0);
    sw_sock_close(fd);
    qrig_free(r);
}

static void bad_capsules_end_the_stream(void **state)
{
    static const struct sw_slice cases[] = {
        SW_SLICE_LIT("\x00\x80\x01\x00\x00"), /* a datagram longer than UDP allows */
        SW_SLICE_LIT("\x00\x05\x00"),         /* cut by the end */
    };
    struct sw_addr at;
    int fd = udp_socket(&at);

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct qrig *r = qrig_new();
        struct call *c;

        qrig_start(r);
        c = udp_call(r, &at, false);
        RUN_UNTIL(r->loop, c->status == 101);
        (void)sw_qcall_write(&c->q, cases[i].p, cases[i].n);
        sw_qcall_finish(&c->q);
        RUN_UNTIL(r->loop, c->ended);
        assert_int_equal(c->fail, SW_QFAIL_RESET);
        call_free(c);
        qrig_free(r);
    }
    sw_sock_close(fd);
}

static void a_silent_flow_and_a_silent_tunnel_end(void **state)
{
    struct qrig *r = qrig_new();
    struct sw_addr at;
    int fd = udp_socket(&at);
    struct origin o;
    struct call *u;
    struct call *t;
    struct call *h;

    (void)state;
    r->sc.idle_timeout_ns = 300 * SW_NS_PER_S;
    qrig_start(r);
    origin_open(&o);
    u = udp_call(r, &at, false);
    t = call_connect(r, 1, &o.at);
    h = request(r, &o, "POST", "");
    RUN_UNTIL(r->loop, u->status == 101 && t->status == 200);
    rig_advance(r->loop, 100 * SW_NS_PER_S);
    assert_false(u->fin);
    rig_advance(r->loop, 30 * SW_NS_PER_S);
    assert_true(u->fin);
    assert_false(t->ended);
    rig_advance(r->loop, 200 * SW_NS_PER_S);
    assert_int_equal(t->ended, 1);
    assert_int_equal(h->status, 0);
    rig_advance(r->loop, 300 * SW_NS_PER_S);
    assert_int_equal(h->status, 502);
    call_free(u);
    call_free(t);
    call_free(h);
    origin_done(&o);
    sw_sock_close(fd);
    qrig_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(udp_payloads_travel_in_capsules),
        cmocka_unit_test(udp_payloads_travel_in_datagrams),
        cmocka_unit_test(bad_capsules_end_the_stream),
        cmocka_unit_test(a_silent_flow_and_a_silent_tunnel_end),
    };

    return cmocka_run_group_tests_name("qserve_udp", tests, NULL, NULL);
}
