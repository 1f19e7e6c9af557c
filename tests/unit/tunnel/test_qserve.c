/* SPDX-License-Identifier: Apache-2.0 */
/* The device half, driven by the client half: what reaches an origin and what comes back. */
#include <errno.h>

#include "io/dgram.h"
#include "qrig.h"

struct origin {
    struct sw_addr at;
    int listener;
    int fd;
};

static void origin_open(struct origin *o)
{
    o->listener = tcp_listener(&o->at);
    o->fd = -1;
}

static void origin_accept(struct qrig *r, struct origin *o)
{
    struct sw_err err = {0};

    RUN_UNTIL(r->loop, sw_sock_accept(o->listener, &o->fd, NULL, &err) == SW_OK);
}

static void origin_done(struct origin *o)
{
    sw_sock_close(o->listener);
    sw_sock_close(o->fd);
}

static void origin_say(const struct origin *o, const char *s)
{
    assert_int_equal(write(o->fd, s, strlen(s)), strlen(s));
}

/* A request for "/p" with these further lines. */
static struct call *request(struct qrig *r, const struct origin *o, const char *method,
                            const char *lines)
{
    char head[1024];

    (void)snprintf(head, sizeof(head),
                   "%s http://127.0.0.1:%u/p?q=1 HTTP/1.1\r\nhost: 127.0.0.1:%u\r\n%s\r\n", method,
                   o->at.port, o->at.port, lines);
    return call_text(r, 1, head);
}

static void a_connect_carries_bytes_and_half_closes(void **state)
{
    struct qrig *r = qrig_new();
    struct origin o;
    struct call *c;

    (void)state;
    qrig_start(r);
    origin_open(&o);
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
    call_free(c);
    origin_done(&o);
    qrig_free(r);
}

static void what_came_with_the_head_is_not_lost(void **state)
{
    struct qrig *r = qrig_new();
    struct origin o;
    struct call *c;

    (void)state;
    qrig_start(r);
    origin_open(&o);
    c = call_connect(r, 1, &o.at);
    RUN_UNTIL(r->loop, c->writables);
    assert_int_equal(sw_qcall_write(&c->q, "early", 5), 5);
    sw_qcall_finish(&c->q);
    origin_accept(r, &o);
    READ_IS(r->loop, o.fd, "early");
    RUN_UNTIL(r->loop, at_eof(o.fd));
    call_free(c);
    origin_done(&o);
    qrig_free(r);
}

static void a_reset_travels_both_ways(void **state)
{
    struct qrig *r = qrig_new();
    struct origin o;
    struct call *c;
    char byte;

    (void)state;
    qrig_start(r);
    origin_open(&o);
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
    call_free(c);
    origin_done(&o);
    qrig_free(r);
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

static void a_request_reaches_its_origin_as_http(void **state)
{
    struct qrig *r = qrig_new();
    struct origin o;
    struct call *c;
    char want[512];

    (void)state;
    qrig_start(r);
    origin_open(&o);
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
    call_free(c);
    origin_done(&o);
    qrig_free(r);
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
    struct qrig *r = qrig_new();
    struct origin o;

    (void)state;
    qrig_start(r);
    origin_open(&o);
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
    call_free(c);
    origin_done(&o);
    qrig_free(r);
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
        call_free(c);
        origin_done(&o);
        qrig_free(r);
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
        call_free(c);
        origin_done(&o);
        qrig_free(r);
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
        call_free(c);
        origin_done(&o);
        qrig_free(r);
    }
}

/* Whether a GET has a body is not known before its first byte or its end: silence means none. */
static void a_get_that_does_not_end_is_sent_after_a_moment(void **state)
{
    struct qrig *r = qrig_new();
    struct origin o;
    struct call *c;
    char want[256];

    (void)state;
    qrig_start(r);
    origin_open(&o);
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
    call_free(c);
    origin_done(&o);
    qrig_free(r);
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
        call_free(c);
        origin_done(&o);
        qrig_free(r);
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
    call_free(c);
    origin_done(&o);
    qrig_free(r);
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
    call_free(c);
    origin_done(&o);
    qrig_free(r);
}

static void a_refused_upgrade_is_an_answer(void **state)
{
    struct qrig *r = qrig_new();
    struct origin o;
    struct call *c;

    (void)state;
    qrig_start(r);
    origin_open(&o);
    c = request(r, &o, "GET", "connection: upgrade\r\nupgrade: websocket\r\n");
    origin_accept(r, &o);
    rig_settle(r->loop);
    origin_say(&o, "HTTP/1.1 426 Upgrade Required\r\ncontent-length: 2\r\n\r\nno");
    RUN_UNTIL(r->loop, c->fin);
    assert_int_equal(c->status, 426);
    assert_true(call_body_is(c, "no"));
    call_free(c);
    origin_done(&o);
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
    call_free(c);
    origin_done(&o);
    qrig_free(r);
}

/* ---- UDP ---- */

static struct call *udp_call(struct qrig *r, const struct sw_addr *to, bool datagrams)
{
    SW_BUF_AUTO head = {.max = 1024};
    char ip[SW_IP_TEXT];

    assert_int_equal(
        sw_qhead_put_udp(&head, sw_slice_str(sw_ip_text(&to->ip, ip)), to->port, datagrams), SW_OK);
    return call_raw(r, 1, sw_buf_slice(&head), "GET");
}

static int udp_socket(struct sw_addr *ret)
{
    struct sw_addr at = {.ip = {.family = 4, .b = {127, 0, 0, 1}}};
    struct sw_err err = {0};
    int fd;

    assert_int_equal(sw_dgram_bind(&at, false, &fd, &err), SW_OK);
    *ret = sw_sock_local(fd);
    return fd;
}

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

/* ---- the owner changes its mind ---- */

static void what_is_refused_later_ends(void **state)
{
    struct qrig *r = qrig_new();
    struct origin o;
    struct call *c;

    (void)state;
    qrig_start(r);
    origin_open(&o);
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
    call_free(c);
    origin_done(&o);
    qrig_free(r);
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
        cmocka_unit_test(bulk_arrives_as_it_was_sent),
        cmocka_unit_test(udp_payloads_travel_in_capsules),
        cmocka_unit_test(udp_payloads_travel_in_datagrams),
        cmocka_unit_test(bad_capsules_end_the_stream),
        cmocka_unit_test(a_silent_flow_and_a_silent_tunnel_end),
        cmocka_unit_test(what_is_refused_later_ends),
        cmocka_unit_test(it_ends_in_the_middle_of_everything),
    };

    return cmocka_run_group_tests_name("qserve", tests, NULL, NULL);
}
