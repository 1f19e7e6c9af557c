/* SPDX-License-Identifier: Apache-2.0 */
/* The device half, driven by the client half: heads, verdicts, tunnels and how they end. */
#include <errno.h>

#include "qserve_rig.h"

static void a_connect_carries_bytes_and_half_closes(void **state)
{
    struct origin o;
    struct qrig *r = served(&o);
    struct call *c;

    (void)state;
    c = call_connect(r, 1, &o.at);
    origin_accept(r, &o);
    RUN_UNTIL(r->loop, c->status == 200);
    assert_int_equal(sw_buf_len(&c->head), 0);
    assert_int_equal(sw_qcall_write(&c->q, "ping", 4), 4);
    READ_IS(r->loop, o.fd, "ping");
    sw_qcall_finish(&c->q);
    RUN_UNTIL(r->loop, at_eof(o.fd));
    origin_say(&o, "late answer");
    RUN_UNTIL(r->loop, call_body_is(c, "late answer"));
    assert_false(c->fin);
    sw_sock_shutdown_write(o.fd);
    RUN_UNTIL(r->loop, c->ended);
    assert_int_equal(c->fail, SW_QFAIL_NONE);
    assert_true(c->fin);
    RUN_UNTIL(r->loop, r->n_ended == 1);
    assert_null(r->ended.reason);
    assert_int_equal(r->ended.status, 200);
    assert_int_equal(r->ended.bytes_in, 4);
    assert_int_equal(r->ended.bytes_out, 11);
    served_done(r, &o, c);
}

static void what_came_with_the_head_is_not_lost(void **state)
{
    struct origin o;
    struct qrig *r = served(&o);
    struct call *c;

    (void)state;
    c = call_connect(r, 1, &o.at);
    RUN_UNTIL(r->loop, c->writables);
    assert_int_equal(sw_qcall_write(&c->q, "early", 5), 5);
    sw_qcall_finish(&c->q);
    origin_accept(r, &o);
    READ_IS(r->loop, o.fd, "early");
    RUN_UNTIL(r->loop, at_eof(o.fd));
    served_done(r, &o, c);
}

static void a_reset_travels_both_ways(void **state)
{
    struct origin o;
    struct qrig *r = served(&o);
    struct call *c;
    char byte;

    (void)state;
    c = call_connect(r, 1, &o.at);
    origin_accept(r, &o);
    RUN_UNTIL(r->loop, c->status == 200);
    sw_sock_set_reset(o.fd);
    sw_sock_close(SW_TAKE_FD(o.fd));
    RUN_UNTIL(r->loop, c->ended);
    assert_int_equal(c->fail, SW_QFAIL_RESET);
    call_free(c);
    c = call_connect(r, 1, &o.at);
    origin_accept(r, &o);
    RUN_UNTIL(r->loop, c->status == 200);
    call_free(c);
    RUN_UNTIL(r->loop, read(o.fd, &byte, 1) < 0 && errno == ECONNRESET);
    RUN_UNTIL(r->loop, r->n_ended == 2);
    assert_string_equal(r->ended.reason, "reset");
    origin_done(&o);
    qrig_free(r);
}

static void refusals_say_why(void **state)
{
    static const struct {
        struct sw_qserve_verdict verdict;
        const char *target;
        unsigned status;
        const char *reason;
    } cases[] = {
        {{.status = 403, .reason = "not_advertised"}, "127.0.0.1:9", 403, "not_advertised"},
        {{.status = 404}, "127.0.0.1:9", 404, "denied"},
        {{0}, "127.0.0.1:1", 502, "origin_unreachable"},
        {{0}, "no-such-host.invalid:80", 502, "origin_unknown"},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct qrig *r = qrig_new();
        char head[256];
        char want[64];
        struct call *c;

        r->verdict = cases[i].verdict;
        qrig_start(r);
        (void)snprintf(head, sizeof(head), "CONNECT %s HTTP/1.1\r\nhost: x\r\n\r\n",
                       cases[i].target);
        (void)snprintf(want, sizeof(want), "content-length=0;x-spanwire-reason=%s;",
                       cases[i].reason);
        c = call_text(r, 1, head);
        RUN_UNTIL(r->loop, c->fin);
        assert_int_equal(c->status, cases[i].status);
        assert_true(sw_slice_eq_str(sw_buf_slice(&c->head), want));
        assert_int_equal(r->n_begun, 1);
        assert_int_equal(r->asks, 1);
        sw_qcall_finish(&c->q);
        RUN_UNTIL(r->loop, c->ended && r->n_ended == 1);
        assert_int_equal(c->fail, SW_QFAIL_NONE);
        assert_string_equal(r->ended.reason, cases[i].reason);
        call_free(c);
        qrig_free(r);
    }
}

static void the_owner_is_asked_for_what_is_meant(void **state)
{
    static const struct {
        const char *head;
        const char *asked;
    } cases[] = {
        {"CONNECT db.shop:5432 HTTP/1.1\r\nhost: db.shop:5432\r\n\r\n",
         "tcp CONNECT db.shop 5432 "},
        {"CONNECT [2001:db8::7]:22 HTTP/1.1\r\nhost: x\r\n\r\n", "tcp CONNECT 2001:db8::7 22 "},
        {"GET http://web/ HTTP/1.1\r\nhost: web\r\n\r\n", "http GET web 80 /"},
        {"GET http://[::1]?a HTTP/1.1\r\nhost: [::1]\r\n\r\n", "http GET ::1 80 ?a"},
        {"GET http://w:81/c HTTP/1.1\r\nhost: w:81\r\nconnection: upgrade\r\nupgrade: "
         "websocket\r\n\r\n",
         "upgrade GET w 81 /c"},
        {"GET http://[::1]:53/.well-known/masque/udp/%3A%3A1/53/ HTTP/1.1\r\nhost: [::1]:53\r\n"
         "connection: upgrade\r\nupgrade: connect-udp\r\n\r\n",
         "udp GET ::1 53 "},
    };
    struct qrig *r = qrig_new();

    (void)state;
    r->verdict.status = 403;
    qrig_start(r);
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct call *c = call_text(r, 1, cases[i].head);

        RUN_UNTIL(r->loop, c->status);
        assert_int_equal(c->status, 403);
        assert_string_equal(r->asked_text, cases[i].asked);
        call_free(c);
    }
    qrig_free(r);
}

/* Nothing of these reaches the owner; the connection goes on. */
static void heads_that_are_none_are_refused(void **state)
{
    static const struct {
        const char *head;
        unsigned status;
    } cases[] = {
        {"GET /origin-form HTTP/1.1\r\nhost: a\r\n\r\n", 400},
        {"OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n", 400},
        {"CONNECT host HTTP/1.1\r\nhost: a\r\n\r\n", 400},
        {"CONNECT host:0 HTTP/1.1\r\nhost: a\r\n\r\n", 400},
        {"CONNECT host:65536 HTTP/1.1\r\nhost: a\r\n\r\n", 400},
        {"CONNECT ::1:80 HTTP/1.1\r\nhost: a\r\n\r\n", 400},
        {"GET ftp://h/ HTTP/1.1\r\nhost: h\r\n\r\n", 400},
        {"GET http://u@h/ HTTP/1.1\r\nhost: h\r\n\r\n", 400},
        {"GET http://h/ HTTP/1.0\r\nhost: h\r\n\r\n", 400},
        {"GET http://h/ HTTP/1.1\r\nhost: other\r\n\r\n", 400},
        {"GET http://h/ HTTP/1.1\r\nhost: h\r\nx: a\rb\r\n\r\n", 400},
        {"GET http://h/ HTTP/1.1\r\nhost: h\r\n x: folded\r\n\r\n", 400},
        {"GET http://h:1/.well-known/masque/udp/other/1/ HTTP/1.1\r\nhost: h:1\r\n"
         "connection: upgrade\r\nupgrade: connect-udp\r\n\r\n",
         400},
        {"GET http://h:1/.well-known/masque/udp/h/2/ HTTP/1.1\r\nhost: h:1\r\n"
         "connection: upgrade\r\nupgrade: connect-udp\r\n\r\n",
         400},
        {"\x16\x03\x01\x02\r\n\r\n", 400},
        {"GET https://h/ HTTP/1.1\r\nhost: h\r\n\r\n", 501},
    };
    struct qrig *r = qrig_new();
    struct origin o;
    struct call *c;
    struct sw_qserve_stats st;

    (void)state;
    qrig_start(r);
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        c = call_text(r, 1, cases[i].head);
        RUN_UNTIL(r->loop, c->fin);
        assert_int_equal(c->status, cases[i].status);
        call_free(c);
    }
    assert_int_equal(r->asks, 0);
    sw_qserve_stats(r->serve, &st);
    assert_int_equal(st.malformed, SW_ARRAY_LEN(cases) - 1);
    assert_int_equal(st.conns, 1);
    origin_open(&o);
    c = call_connect(r, 1, &o.at);
    RUN_UNTIL(r->loop, c->status == 200);
    assert_int_equal(r->fake.dials, 1);
    served_done(r, &o, c);
}

/* A head of n bytes in all. */
static struct call *sized(struct qrig *r, size_t n)
{
    SW_BUF_AUTO b = {.max = 1 << 20};

    assert_int_equal(sw_buf_append_str(&b, "CONNECT 127.0.0.1:1 HTTP/1.1\r\nhost: a\r\nx: "),
                     SW_OK);
    while (sw_buf_len(&b) < n - 4)
        assert_int_equal(sw_buf_putc(&b, 'a'), SW_OK);
    assert_int_equal(sw_buf_append_str(&b, "\r\n\r\n"), SW_OK);
    return call_raw(r, 1, sw_buf_slice(&b), "CONNECT");
}

static void heads_have_a_size(void **state)
{
    static const struct {
        size_t n;
        unsigned status;
    } cases[] = {{8192, 403}, {8193, 431}, {60000, 431}};
    SW_BUF_AUTO many = {.max = 1 << 16};
    struct qrig *r = qrig_new();
    struct call *c;

    (void)state;
    r->verdict.status = 403;
    r->fake.step = 1000; /* arrives in pieces */
    qrig_start(r);
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        c = sized(r, cases[i].n);
        RUN_UNTIL(r->loop, c->status);
        assert_int_equal(c->status, cases[i].status);
        call_free(c);
    }
    for (int n = 64; n <= 65; n++) {
        sw_buf_clear(&many);
        assert_int_equal(sw_buf_append_str(&many, "CONNECT a:1 HTTP/1.1\r\nhost: a\r\n"), SW_OK);
        for (int i = 1; i < n; i++)
            assert_int_equal(sw_buf_append_str(&many, "x: y\r\n"), SW_OK);
        assert_int_equal(sw_buf_append_str(&many, "\r\n"), SW_OK);
        c = call_raw(r, 1, sw_buf_slice(&many), "CONNECT");
        RUN_UNTIL(r->loop, c->status);
        assert_int_equal(c->status, n == 64 ? 403 : 431);
        call_free(c);
    }
    qrig_free(r);
}

static void a_slow_head_is_given_up(void **state)
{
    struct qrig *r = qrig_new();
    struct call *c;

    (void)state;
    qrig_start(r);
    c = call_raw(r, 1, SW_SLICE_LIT("CONNECT a:1 HT"), "CONNECT");
    RUN_UNTIL(r->loop, c->writables);
    rig_advance(r->loop, 11 * SW_NS_PER_S);
    RUN_UNTIL(r->loop, c->ended);
    assert_int_equal(c->fail, SW_QFAIL_RESET);
    call_free(c);
    c = call_raw(r, 1, SW_SLICE_LIT("CONNECT a:1 HT"), "CONNECT");
    RUN_UNTIL(r->loop, c->writables);
    sw_qcall_finish(&c->q);
    RUN_UNTIL(r->loop, c->ended);
    call_free(c);
    qrig_free(r);
}

/* Both directions, larger than every buffer on the way, small steps, slow reader. */
static void bulk_arrives_as_it_was_sent(void **state)
{
    enum { TOTAL = 3 << 20 };
    struct qrig *r = qrig_new();
    struct origin o;
    struct call *c;
    size_t sent = 0;
    size_t back = 0;
    size_t at = 0;
    static uint8_t buf[1 << 16];

    (void)state;
    r->fake.ring = 10000;
    r->fake.step = 777;
    qrig_start(r);
    origin_open(&o);
    c = call_connect(r, 1, &o.at);
    c->take = 500;
    origin_accept(r, &o);
    RUN_UNTIL(r->loop, c->status == 200);
    for (int turn = 0; turn < 200000 && (at < TOTAL || sw_buf_len(&c->body) < TOTAL); turn++) {
        for (size_t i = 0; i < sizeof(buf); i++)
            buf[i] = (uint8_t)((sent + i) * 7);
        if (sent < TOTAL)
            sent += sw_qcall_write(&c->q, buf, sw_min(sizeof(buf), TOTAL - sent));
        if (back < TOTAL) {
            ssize_t k;

            for (size_t i = 0; i < sizeof(buf); i++)
                buf[i] = (uint8_t)((back + i) * 11);
            k = write(o.fd, buf, sw_min(sizeof(buf), TOTAL - back));
            back += k > 0 ? (size_t)k : 0;
        }
        for (ssize_t k; (k = read(o.fd, buf, sizeof(buf))) > 0; at += (size_t)k) {
            for (size_t i = 0; i < (size_t)k; i++)
                assert_int_equal(buf[i], (uint8_t)((at + i) * 7));
        }
        sw_loop_turn(r->loop, 0);
        sw_qcall_resume(&c->q);
    }
    assert_int_equal(at, TOTAL);
    assert_int_equal(sw_buf_len(&c->body), TOTAL);
    for (size_t i = 0; i < TOTAL; i += 997)
        assert_int_equal((uint8_t)sw_buf_data(&c->body)[i], (uint8_t)(i * 11));
    served_done(r, &o, c);
}

/* ---- the owner changes its mind ---- */

static void what_is_refused_later_ends(void **state)
{
    struct origin o;
    struct qrig *r = served(&o);
    struct call *c;

    (void)state;
    c = call_connect(r, 1, &o.at);
    RUN_UNTIL(r->loop, c->status == 200);
    sw_qserve_recheck(r->serve);
    rig_settle(r->loop);
    assert_false(c->ended);
    r->verdict.status = 403;
    sw_qserve_recheck(r->serve);
    RUN_UNTIL(r->loop, c->ended && r->n_ended == 1);
    assert_string_equal(r->ended.reason, "revoked");
    call_free(c);
    r->verdict.status = 0;
    sw_qserve_drain(r->serve);
    c = call_connect(r, 1, &o.at);
    RUN_UNTIL(r->loop, c->status);
    assert_int_equal(c->status, 503);
    served_done(r, &o, c);
}

static void it_ends_in_the_middle_of_everything(void **state)
{
    struct qrig *r = qrig_new();
    struct sw_addr at;
    int fd = udp_socket(&at);
    struct origin o;
    struct call *c[6];

    (void)state;
    r->fake.datagrams = true;
    qrig_start(r);
    origin_open(&o);
    c[0] = call_connect(r, 1, &o.at);
    c[1] = udp_call(r, &at, true);
    c[2] = request(r, &o, "POST", "");
    c[3] = call_text(r, 1, "CONNECT a:1 HT");
    RUN_UNTIL(r->loop, c[0]->status == 200 && c[1]->status == 101 && c[2]->writables);
    c[4] = call_text(r, 1, "CONNECT example.invalid:1 HTTP/1.1\r\nhost: a\r\n\r\n");
    c[5] = call_connect(r, 1, &o.at);
    sw_loop_turn(r->loop, 0);
    for (size_t i = 0; i < SW_ARRAY_LEN(c); i++)
        call_free(c[i]);
    sw_sock_close(fd);
    qrig_free(r);
    origin_done(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_connect_carries_bytes_and_half_closes),
        cmocka_unit_test(what_came_with_the_head_is_not_lost),
        cmocka_unit_test(a_reset_travels_both_ways),
        cmocka_unit_test(refusals_say_why),
        cmocka_unit_test(the_owner_is_asked_for_what_is_meant),
        cmocka_unit_test(heads_that_are_none_are_refused),
        cmocka_unit_test(heads_have_a_size),
        cmocka_unit_test(a_slow_head_is_given_up),
        cmocka_unit_test(bulk_arrives_as_it_was_sent),
        cmocka_unit_test(what_is_refused_later_ends),
        cmocka_unit_test(it_ends_in_the_middle_of_everything),
    };

    return cmocka_run_group_tests_name("qserve", tests, NULL, NULL);
}
