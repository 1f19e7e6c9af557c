/* SPDX-License-Identifier: Apache-2.0 */
/* The device half as a proxy of HTTP: what reaches an origin and what comes back. */
#include "qserve_rig.h"

static void a_request_reaches_its_origin_as_http(void **state)
{
    struct origin o;
    struct qrig *r = served(&o);
    struct call *c;
    char want[512];

    (void)state;
    c = request(r, &o, "GET",
                "accept: */*\r\nconnection: keep-alive, x-hop\r\nx-hop: 1\r\nte: trailers\r\n"
                "proxy-authorization: secret\r\ncookie: a=b\r\n");
    sw_qcall_finish(&c->q);
    origin_accept(r, &o);
    (void)snprintf(want, sizeof(want),
                   "GET /p?q=1 HTTP/1.1\r\nhost: 127.0.0.1:%u\r\naccept: */*\r\ncookie: a=b\r\n"
                   "\r\n",
                   o.at.port);
    READ_IS(r->loop, o.fd, want);
    origin_say(&o, "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"
                   "HTTP/1.1 200 Fine\r\ncontent-type: text/plain\r\nkeep-alive: 5\r\n"
                   "content-length: 5\r\n\r\nhel");
    RUN_UNTIL(r->loop, c->status == 200);
    assert_true(
        sw_slice_eq_str(sw_buf_slice(&c->head), "content-type=text/plain;content-length=5;"));
    origin_say(&o, "lo");
    RUN_UNTIL(r->loop, c->ended);
    assert_int_equal(c->fail, SW_QFAIL_NONE);
    assert_true(call_body_is(c, "hello"));
    assert_null(r->ended.reason);
    assert_int_equal(r->ended.bytes_out, 5);
    served_done(r, &o, c);
}

/* ---- connections between requests ---- */

#define OK_LENGTH "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"

/* Takes what came; true when a head is complete. */
static bool heard_request(const struct origin *o)
{
    static char got[1024];
    static size_t n;
    static int of = -1;
    ssize_t k;

    if (of != o->fd)
        n = 0;
    of = o->fd;
    k = read(o->fd, got + n, sizeof(got) - n);
    if (k > 0)
        n += (size_t)k;
    if (n < 4 || memcmp(got + n - 4, "\r\n\r\n", 4) != 0)
        return false;
    n = 0;
    return true;
}

/* One exchange from the request to the end; the origin's answer is sent as given. */
static void exchange(struct qrig *r, struct origin *o, const char *method, const char *lines,
                     const char *answer)
{
    struct call *c = request(r, o, method, lines);

    sw_qcall_finish(&c->q);
    if (o->fd < 0)
        origin_accept(r, o);
    RUN_UNTIL(r->loop, heard_request(o));
    origin_say(o, answer);
    RUN_UNTIL(r->loop, c->ended);
    assert_int_equal(c->fail, SW_QFAIL_NONE);
    assert_int_equal(c->status / 100, 2);
    call_free(c);
}

static uint64_t reused(const struct qrig *r)
{
    struct sw_qserve_stats st;

    sw_qserve_stats(r->serve, &st);
    return st.reused;
}

static void a_connection_serves_again(void **state)
{
    static const char *const answers[] = {
        OK_LENGTH, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok"};
    struct origin o;
    struct qrig *r = served(&o);

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(answers); i++)
        exchange(r, &o, "GET", "", answers[i]);
    assert_int_equal(reused(r), SW_ARRAY_LEN(answers) - 1);
    /* A request that must not be sent twice gets its own, and leaves it for others. */
    sw_sock_close(SW_TAKE_FD(o.fd));
    rig_settle(r->loop);
    exchange(r, &o, "POST", "content-length: 0\r\n", OK_LENGTH);
    exchange(r, &o, "GET", "", OK_LENGTH);
    assert_int_equal(reused(r), SW_ARRAY_LEN(answers));
    origin_done(&o);
    qrig_free(r);
}

static void what_may_not_be_kept_is_closed(void **state)
{
    static const struct {
        const char *lines;
        const char *answer;
    } cases[] = {
        {"", "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok"},
        {"", "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok"},
        {"", OK_LENGTH "HTTP/1.1 200 OK\r\n"},   /* an answer to nothing */
        {"", "HTTP/1.1 204 No Content\r\n\r\n"}, /* a body may still come, by mistake */
        {"authorization: NTLM abc\r\n", OK_LENGTH},
        {"authorization: negotiate abc\r\n", OK_LENGTH},
        {"", "HTTP/1.1 200 OK\r\nwww-authenticate: Negotiate x\r\ncontent-length: 2\r\n\r\nok"},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct qrig *r = qrig_new();
        struct origin o;

        qrig_start(r);
        origin_open(&o);
        exchange(r, &o, "GET", cases[i].lines, cases[i].answer);
        RUN_UNTIL(r->loop, at_eof(o.fd));
        origin_done(&o);
        qrig_free(r);
    }
}

static void a_stale_connection_is_replaced_once(void **state)
{
    struct qrig *r = qrig_new();
    struct sw_qserve_stats st;
    struct origin o;
    struct call *c;
    int old;

    (void)state;
    qrig_start(r);
    origin_open(&o);
    exchange(r, &o, "GET", "", OK_LENGTH);
    /* The origin takes the next request and closes without a word. */
    c = request(r, &o, "GET", "");
    sw_qcall_finish(&c->q);
    RUN_UNTIL(r->loop, reused(r) == 1);
    old = o.fd;
    o.fd = -1;
    sw_sock_close(old);
    origin_accept(r, &o);
    RUN_UNTIL(r->loop, heard_request(&o));
    origin_say(&o, OK_LENGTH);
    RUN_UNTIL(r->loop, c->ended);
    assert_int_equal(c->status, 200);
    call_free(c);
    sw_qserve_stats(r->serve, &st);
    assert_int_equal(st.stale, 1);
    /* One that says something and then breaks off has seen the request: no second time. */
    c = request(r, &o, "GET", "");
    sw_qcall_finish(&c->q);
    RUN_UNTIL(r->loop, heard_request(&o));
    assert_int_equal(reused(r), 2);
    origin_say(&o, "HTTP/1.1 2");
    sw_sock_close(SW_TAKE_FD(o.fd));
    RUN_UNTIL(r->loop, c->ended);
    assert_int_equal(c->status, 502);
    served_done(r, &o, c);
}

static void few_connections_wait_and_not_for_long(void **state)
{
    enum { MANY = 12, KEPT = 8 };
    struct qrig *r = qrig_new();
    struct origin o[MANY];
    struct call *c[MANY];
    struct origin at;
    size_t open = 0;

    (void)state;
    qrig_start(r);
    origin_open(&at);
    for (size_t i = 0; i < MANY; i++) {
        o[i] = at;
        c[i] = request(r, &at, "GET", "");
        sw_qcall_finish(&c[i]->q);
        origin_accept(r, &o[i]);
    }
    for (size_t i = 0; i < MANY; i++) {
        RUN_UNTIL(r->loop, heard_request(&o[i]));
        origin_say(&o[i], OK_LENGTH);
        RUN_UNTIL(r->loop, c[i]->ended);
        call_free(c[i]);
    }
    rig_settle(r->loop);
    for (size_t i = 0; i < MANY; i++)
        open += !at_eof(o[i].fd);
    assert_int_equal(open, KEPT);
    sw_qserve_drain(r->serve);
    for (size_t i = 0; i < MANY; i++) {
        RUN_UNTIL(r->loop, at_eof(o[i].fd));
        sw_sock_close(o[i].fd);
    }
    sw_sock_close(at.listener);
    qrig_free(r);
}

static void answers_lose_their_framing(void **state)
{
    static const struct {
        const char *method;
        const char *answer;
        bool close;
        const char *body;
    } cases[] = {
        {"GET",
         "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n"
         "x-sum: t\r\n\r\n",
         false, "abcde"},
        {"GET", "HTTP/1.0 200 OK\r\n\r\nuntil the end", true, "until the end"},
        {"GET", "HTTP/1.1 204 No Content\r\n\r\n", false, ""},
        {"HEAD", "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n", false, ""},
        {"GET", "HTTP/1.1 304 Not Modified\r\ncontent-length: 10\r\n\r\n", false, ""},
        {"GET", "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", false, ""},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct qrig *r = qrig_new();
        struct origin o;
        struct call *c;

        qrig_start(r);
        origin_open(&o);
        c = request(r, &o, cases[i].method, "");
        sw_qcall_finish(&c->q);
        origin_accept(r, &o);
        rig_settle(r->loop);
        origin_say(&o, cases[i].answer);
        if (cases[i].close)
            sw_sock_shutdown_write(o.fd);
        RUN_UNTIL(r->loop, c->ended);
        assert_int_equal(c->fail, SW_QFAIL_NONE);
        assert_true(c->fin);
        assert_true(call_body_is(c, cases[i].body));
        assert_null(memmem(sw_buf_data(&c->head), sw_buf_len(&c->head), "transfer-", 9));
        served_done(r, &o, c);
    }
}

static void broken_answers_become_502_or_a_reset(void **state)
{
    static const struct {
        const char *answer;
        unsigned status;
        enum sw_qfail fail;
    } cases[] = {
        {"", 502, SW_QFAIL_NONE},
        {"HTTP/1.1 200 OK\r\ncontent-le", 502, SW_QFAIL_NONE},
        {"nonsense\r\n\r\n", 502, SW_QFAIL_NONE},
        {"HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n", 502, SW_QFAIL_NONE},
        {"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort", 200, SW_QFAIL_RESET},
        {"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab", 200, SW_QFAIL_RESET},
        {"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", 200, SW_QFAIL_RESET},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct qrig *r = qrig_new();
        struct origin o;
        struct call *c;

        qrig_start(r);
        origin_open(&o);
        c = request(r, &o, "GET", "");
        sw_qcall_finish(&c->q);
        origin_accept(r, &o);
        rig_settle(r->loop);
        origin_say(&o, cases[i].answer);
        sw_sock_shutdown_write(o.fd);
        RUN_UNTIL(r->loop, c->ended);
        if (c->status || cases[i].fail != SW_QFAIL_RESET) /* a reset may overtake the head */
            assert_int_equal(c->status, cases[i].status);
        assert_int_equal(c->fail, cases[i].fail);
        RUN_UNTIL(r->loop, r->n_ended == 1);
        assert_non_null(r->ended.reason);
        served_done(r, &o, c);
    }
}

static void a_body_gets_the_framing_it_needs(void **state)
{
    static const struct {
        const char *method;
        const char *lines;
        const char *body; /* NULL: none, and the end with the head */
        const char *framed;
    } cases[] = {
        {"POST", "content-length: 5\r\n", "hello", "content-length: 5\r\n|hello"},
        {"POST", "transfer-encoding: chunked\r\n", "hello",
         "transfer-encoding: chunked\r\n|5\r\nhello\r\n0\r\n\r\n"},
        {"PUT", "", "hello", "transfer-encoding: chunked\r\n|5\r\nhello\r\n0\r\n\r\n"},
        {"POST", "", NULL, "content-length: 0\r\n|"},
        {"GET", "", NULL, "|"},
        {"GET", "", "hello", "transfer-encoding: chunked\r\n|5\r\nhello\r\n0\r\n\r\n"},
        {"POST", "content-length: 0\r\nexpect: 100-continue\r\n", NULL, "content-length: 0\r\n|"},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct qrig *r = qrig_new();
        struct origin o;
        struct call *c;
        char want[512];
        const char *bar = strchr(cases[i].framed, '|');

        qrig_start(r);
        origin_open(&o);
        c = request(r, &o, cases[i].method, cases[i].lines);
        if (!cases[i].body)
            sw_qcall_finish(&c->q);
        RUN_UNTIL(r->loop, c->writables);
        if (cases[i].body) {
            (void)sw_qcall_write(&c->q, cases[i].body, strlen(cases[i].body));
            rig_settle(r->loop);
            sw_qcall_finish(&c->q);
        }
        origin_accept(r, &o);
        (void)snprintf(want, sizeof(want), "%s /p?q=1 HTTP/1.1\r\nhost: 127.0.0.1:%u\r\n%.*s\r\n%s",
                       cases[i].method, o.at.port, (int)(bar - cases[i].framed), cases[i].framed,
                       bar + 1);
        for (char *p = want; (p = strstr(p, "content-length")); p++) /* as our writer spells it */
            p[0] = 'C', p[8] = 'L';
        for (char *p = want; (p = strstr(p, "transfer-encoding")); p++)
            p[0] = 'T', p[9] = 'E';
        READ_IS(r->loop, o.fd, want);
        origin_say(&o, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
        RUN_UNTIL(r->loop, c->ended);
        assert_true(call_body_is(c, "ok"));
        served_done(r, &o, c);
    }
}

/* Whether a GET has a body is not known before its first byte or its end: silence means none. */
static void a_get_that_does_not_end_is_sent_after_a_moment(void **state)
{
    struct origin o;
    struct qrig *r = served(&o);
    struct call *c;
    char want[256];

    (void)state;
    c = request(r, &o, "GET", "");
    origin_accept(r, &o);
    rig_settle(r->loop);
    rig_advance(r->loop, SW_NS_PER_S);
    (void)snprintf(want, sizeof(want), "GET /p?q=1 HTTP/1.1\r\nhost: 127.0.0.1:%u\r\n\r\n",
                   o.at.port);
    READ_IS(r->loop, o.fd, want);
    origin_say(&o, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    RUN_UNTIL(r->loop, c->fin);
    assert_true(c->stopped);
    served_done(r, &o, c);
}

static void bodies_that_lie_about_their_length_are_given_up(void **state)
{
    static const char *const bodies[] = {"1234", "123456"};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(bodies); i++) {
        struct qrig *r = qrig_new();
        struct origin o;
        struct call *c;

        qrig_start(r);
        origin_open(&o);
        c = request(r, &o, "POST", "content-length: 5\r\n");
        RUN_UNTIL(r->loop, c->writables);
        (void)sw_qcall_write(&c->q, bodies[i], strlen(bodies[i]));
        sw_qcall_finish(&c->q);
        RUN_UNTIL(r->loop, c->ended);
        assert_int_equal(c->fail, SW_QFAIL_RESET);
        served_done(r, &o, c);
    }
}

static void count_tap(void *tag, bool from_origin, const uint8_t *p, size_t n)
{
    struct qrig *r = tag;

    assert_non_null(p);
    r->tapped[from_origin] += n;
}

static void an_upgrade_becomes_a_tunnel(void **state)
{
    struct qrig *r = qrig_new();
    struct origin o;
    struct call *c;
    char want[512];

    (void)state;
    r->verdict.tap = count_tap;
    r->verdict.tag = r;
    r->verdict.host_header = SW_SLICE_LIT("app.test");
    qrig_start(r);
    origin_open(&o);
    c = request(r, &o, "GET",
                "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: k\r\n");
    origin_accept(r, &o);
    (void)snprintf(want, sizeof(want),
                   "GET /p?q=1 HTTP/1.1\r\nhost: app.test\r\nsec-websocket-key: k\r\n"
                   "connection: Upgrade\r\nupgrade: websocket\r\n\r\n");
    READ_IS(r->loop, o.fd, want);
    origin_say(&o, "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: "
                   "Upgrade\r\nsec-websocket-accept: a\r\n\r\nfirst");
    RUN_UNTIL(r->loop, call_body_is(c, "first"));
    assert_int_equal(c->status, 101);
    assert_true(sw_slice_eq_str(sw_buf_slice(&c->head),
                                "sec-websocket-accept=a;connection=Upgrade;upgrade=websocket;"));
    (void)sw_qcall_write(&c->q, "second", 6);
    READ_IS(r->loop, o.fd, "second");
    assert_int_equal(r->tapped[0], 6);
    assert_int_equal(r->tapped[1], 5);
    sw_qcall_finish(&c->q);
    sw_sock_shutdown_write(o.fd);
    RUN_UNTIL(r->loop, c->ended && r->n_ended == 1);
    assert_int_equal(c->fail, SW_QFAIL_NONE);
    assert_int_equal(r->ended.bytes_out, 5);
    assert_int_equal(r->ended.bytes_in, 6);
    served_done(r, &o, c);
}

/* What the origin says right behind its 101 may find less room than it needs. */
static void an_upgrade_waits_for_room(void **state)
{
    static const char head[] = "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n"
                               "connection: Upgrade\r\n\r\n";
    static char text[5000];
    struct qrig *r = qrig_new();
    struct origin o;
    struct call *c;

    (void)state;
    r->fake.ring = 300;
    qrig_start(r);
    origin_open(&o);
    c = request(r, &o, "GET", "connection: upgrade\r\nupgrade: websocket\r\n");
    origin_accept(r, &o);
    memset(text, 'x', sizeof(text) - 1);
    memcpy(text, head, strlen(head));
    origin_say(&o, text);
    RUN_UNTIL(r->loop, sw_buf_len(&c->body) == strlen(text) - strlen(head));
    assert_int_equal(c->status, 101);
    served_done(r, &o, c);
}

static void a_refused_upgrade_is_an_answer(void **state)
{
    struct origin o;
    struct qrig *r = served(&o);
    struct call *c;

    (void)state;
    c = request(r, &o, "GET", "connection: upgrade\r\nupgrade: websocket\r\n");
    origin_accept(r, &o);
    rig_settle(r->loop);
    origin_say(&o, "HTTP/1.1 426 Upgrade Required\r\ncontent-length: 2\r\n\r\nno");
    RUN_UNTIL(r->loop, c->fin);
    assert_int_equal(c->status, 426);
    assert_true(call_body_is(c, "no"));
    served_done(r, &o, c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_reaches_its_origin_as_http),
        cmocka_unit_test(a_connection_serves_again),
        cmocka_unit_test(what_may_not_be_kept_is_closed),
        cmocka_unit_test(a_stale_connection_is_replaced_once),
        cmocka_unit_test(few_connections_wait_and_not_for_long),
        cmocka_unit_test(answers_lose_their_framing),
        cmocka_unit_test(broken_answers_become_502_or_a_reset),
        cmocka_unit_test(a_body_gets_the_framing_it_needs),
        cmocka_unit_test(a_get_that_does_not_end_is_sent_after_a_moment),
        cmocka_unit_test(bodies_that_lie_about_their_length_are_given_up),
        cmocka_unit_test(an_upgrade_becomes_a_tunnel),
        cmocka_unit_test(an_upgrade_waits_for_room),
        cmocka_unit_test(a_refused_upgrade_is_an_answer),
    };

    return cmocka_run_group_tests_name("qserve_http", tests, NULL, NULL);
}
