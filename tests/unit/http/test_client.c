/* SPDX-License-Identifier: Apache-2.0 */
/* The client against a server that says what the test tells it to. */
#include "http/client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/time.h"
#include "tls/cert/ca.h"
#include "tls/crypto/aead.h"

#include "io/resolver.h"

#include "fake.h"
#include "web_cred.h"

static uint64_t fake_now = 1000 * SW_NS_PER_S;

static uint64_t fake_clock(void)
{
    return fake_now;
}

struct world {
    struct sw_loop *loop;
    struct fake server;
    struct fake_conn *last; /* connection of the last request */
    struct sw_http_client *client;
    struct sw_ca *ca;
    const char *script; /* sent to every request; NULL: nothing */
    bool close_after;
    int done;
    int rc;
    int status;
    struct sw_err err;
    struct sw_buf body;
    struct sw_http_call *call;
    bool pause; /* at every piece */
    bool cancel;
    int pieces;
};

static void on_request(struct fake_conn *c, void *arg)
{
    struct world *w = arg;

    w->last = c;
    if (w->script) {
        fake_send(c, w->script);
        c->busy = false;
        if (w->close_after)
            fake_conn_free(c);
    }
}

static int set_up(void **state)
{
    struct world *w = SW_NEW(struct world);
    struct sw_http_client_opts o = {.host = SW_SLICE_LIT("127.0.0.1")};

    w->loop = sw_loop_new(NULL);
    sw_loop_set_clock(w->loop, fake_clock);
    sw_buf_init(&w->body, 64 << 20);
    fake_open(&w->server, w->loop, on_request, w);
    o.port = w->server.addr.port;
    w->client = sw_http_client_new(w->loop, &o, NULL);
    assert_non_null(w->client);
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;

    sw_http_client_free(w->client);
    fake_close(&w->server);
    sw_ca_free(w->ca);
    sw_buf_done(&w->body);
    sw_loop_free(w->loop);
    sw_free(w);
    return 0;
}

static void turns(struct world *w, int n)
{
    for (int i = 0; i < n; i++)
        sw_loop_turn(w->loop, 0);
}

static void on_head(struct sw_http_call *call, const struct sw_h1_msg *msg, void *arg)
{
    (void)call;
    ((struct world *)arg)->status = msg->status;
}

static void on_body(struct sw_http_call *call, struct sw_slice data, void *arg)
{
    struct world *w = arg;

    assert_int_equal(sw_buf_append_slice(&w->body, data), SW_OK);
    w->pieces++;
    if (w->pause)
        sw_http_call_pause(call);
    if (w->cancel)
        sw_http_call_cancel(call);
}

static void on_done(struct sw_http_call *call, int rc, const struct sw_err *err, void *arg)
{
    struct world *w = arg;

    (void)call;
    w->done++;
    w->rc = rc;
    w->err = *err;
    w->call = NULL;
}

static struct sw_http_call *start(struct world *w, const char *method, const char *body,
                                  bool stream)
{
    struct sw_http_call_opts o = {.method = sw_slice_str(method),
                                  .target = SW_SLICE_LIT("/x?y=1"),
                                  .body = sw_slice_str(body),
                                  .stream = stream,
                                  .silence_ns = 20 * SW_NS_PER_S,
                                  .timeout_ns = 5 * SW_NS_PER_S,
                                  .body_max = stream ? 0 : 1 << 20,
                                  .on_head = on_head,
                                  .on_body = on_body,
                                  .on_done = on_done,
                                  .arg = w};

    w->status = 0;
    sw_buf_clear(&w->body);
    w->call = sw_http_call_start(w->client, &o, NULL);
    assert_non_null(w->call);
    return w->call;
}

/* Runs until one more call is done. */
static void finish(struct world *w)
{
    int before = w->done;

    for (int i = 0; i < 20000 && w->done == before; i++)
        sw_loop_turn(w->loop, 1);
    assert_int_equal(w->done, before + 1);
}

static void body_is(struct world *w, const char *text)
{
    assert_int_equal(sw_buf_len(&w->body), strlen(text));
    assert_memory_equal(sw_buf_data(&w->body), text, strlen(text));
}

static void a_connection_serves_many_calls(void **state)
{
    struct world *w = *state;

    w->script = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    for (int i = 0; i < 5; i++) {
        start(w, i % 2 ? "POST" : "GET", i % 2 ? "body" : "", false);
        finish(w);
        assert_int_equal(w->rc, SW_OK);
        assert_int_equal(w->status, 200);
        body_is(w, "hello");
        assert_string_equal(w->last->body, i % 2 ? "body" : "");
    }
    assert_int_equal(w->server.accepted, 1);
    assert_non_null(strstr(w->last->head, "\r\nHost: 127.0.0.1:"));
}

static void all_framings_are_understood(void **state)
{
    static const char *const scripts[] = {
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello",
        "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    };
    struct world *w = *state;

    for (size_t i = 0; i < SW_ARRAY_LEN(scripts); i++) {
        w->script = scripts[i];
        w->close_after = i == 2;
        start(w, "GET", "", false);
        finish(w);
        if (w->rc != SW_OK)
            fail_msg("%zu: %s", i, w->err.msg);
        body_is(w, "hello");
    }
    assert_int_equal(sw_http_client_conns(w->client), 0);
}

static void cut_answers_are_errors(void **state)
{
    static const char *const scripts[] = {
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Le",
        "garbage\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    };
    struct world *w = *state;

    for (size_t i = 0; i < SW_ARRAY_LEN(scripts); i++) {
        w->script = scripts[i];
        w->close_after = true;
        start(w, "GET", "", false);
        finish(w);
        if (w->rc != SW_EPROTO)
            fail_msg("%zu: %d %s", i, w->rc, w->err.msg);
    }
}

/* A kept connection may be closed by the server at any moment. */
static void stale_connections_are_not_failures(void **state)
{
    struct world *w = *state;

    w->script = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    start(w, "GET", "", false);
    finish(w);
    /* Seen closing while idle: dropped. */
    fake_drop_conns(&w->server);
    turns(w, 20);
    assert_int_equal(sw_http_client_conns(w->client), 0);
    start(w, "POST", "x", false);
    finish(w);
    assert_int_equal(w->rc, SW_OK);
    /* Closed under the request: safe methods are repeated, others are not. */
    w->script = NULL;
    start(w, "GET", "", false);
    w->server.requests = 0;
    for (int i = 0; i < 20000 && w->server.requests == 0; i++)
        sw_loop_turn(w->loop, 1);
    fake_drop_conns(&w->server);
    w->script = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    finish(w);
    assert_int_equal(w->rc, SW_OK);
    w->script = NULL;
    start(w, "POST", "x", false);
    w->server.requests = 0;
    for (int i = 0; i < 20000 && w->server.requests == 0; i++)
        sw_loop_turn(w->loop, 1);
    fake_drop_conns(&w->server);
    finish(w);
    assert_int_equal(w->rc, SW_ECLOSED);
}

/* As many idle connections as n. */
static void make_idle(struct world *w, int n)
{
    w->script = NULL;
    for (int i = 0; i < n; i++)
        start(w, "GET", "", false);
    for (int i = 0; i < 20000 && w->server.requests < n; i++)
        sw_loop_turn(w->loop, 1);
    SW_LIST_FOREACH (it, &w->server.conns)
        fake_reply(SW_CONTAINER_OF(it, struct fake_conn, link), 200, NULL, "ok");
    for (int i = 0; i < 20000 && w->done < n; i++)
        sw_loop_turn(w->loop, 1);
    assert_int_equal(w->done, n);
    assert_int_equal(sw_http_client_conns(w->client), n);
    w->server.requests = 0;
}

/* Closed under the request every time: it is repeated once, however many connections are kept. */
static void a_call_is_repeated_once(void **state)
{
    struct world *w = *state;

    make_idle(w, 4);
    w->script = "";
    w->close_after = true;
    start(w, "GET", "", false);
    finish(w);
    assert_int_equal(w->rc, SW_ECLOSED);
    assert_int_equal(w->server.requests, 2);
    assert_int_equal(sw_http_client_conns(w->client), 2);
}

/* A part of an answer is news about the request. */
static void a_call_that_was_answered_in_part_is_not_repeated(void **state)
{
    struct world *w = *state;

    make_idle(w, 2);
    w->script = "HTTP/1.1 200 OK\r\nContent-Le";
    w->close_after = true;
    start(w, "GET", "", false);
    finish(w);
    assert_int_equal(w->rc, SW_EPROTO);
    assert_int_equal(w->server.requests, 1);
}

/* Bytes behind an answer belong to no call. */
static void a_connection_with_more_than_the_answer_is_closed(void **state)
{
    struct world *w = *state;

    w->script = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n"
                "Content-Length: 6\r\n\r\nforged";
    for (int i = 0; i < 3; i++) {
        start(w, "GET", "", false);
        finish(w);
        assert_int_equal(w->rc, SW_OK);
        body_is(w, "ok");
    }
    assert_int_equal(w->server.accepted, 3);
    assert_int_equal(sw_http_client_conns(w->client), 0);
}

static void interim_answers_are_not_the_answer(void **state)
{
    struct world *w = *state;

    w->script = "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n"
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    for (int i = 0; i < 2; i++) {
        start(w, "GET", "", false);
        finish(w);
        assert_int_equal(w->status, 200);
        body_is(w, "ok");
    }
    assert_int_equal(w->server.accepted, 1);
}

static void deadlines(void **state)
{
    struct world *w = *state;

    start(w, "GET", "", false);
    turns(w, 50);
    assert_int_equal(w->done, 0);
    fake_now += 6 * SW_NS_PER_S;
    finish(w);
    assert_int_equal(w->rc, SW_ETIME);
    /* A stream may last, but not fall silent. */
    start(w, "GET", "", true);
    turns(w, 50);
    fake_stream_begin(w->last);
    for (int i = 0; i < 10; i++) {
        fake_now += 15 * SW_NS_PER_S;
        fake_chunk(w->last, "tick");
        turns(w, 10);
    }
    assert_int_equal(w->done, 1);
    assert_int_equal(sw_buf_len(&w->body), 40);
    fake_now += 21 * SW_NS_PER_S;
    finish(w);
    assert_int_equal(w->rc, SW_ETIME);
    /* Idle connections are not kept for ever. */
    w->script = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    start(w, "GET", "", false);
    finish(w);
    assert_int_equal(sw_http_client_conns(w->client), 1);
    fake_now += 61 * SW_NS_PER_S;
    turns(w, 5);
    assert_int_equal(sw_http_client_conns(w->client), 0);
}

/* A reader that pauses stops the sender, and loses nothing. */
static void back_pressure(void **state)
{
    struct world *w = *state;
    const size_t total = 24 << 20;
    char *big = sw_malloc(1 << 20);
    char head[100];

    memset(big, 'x', 1 << 20);
    w->pause = true;
    start(w, "GET", "", true);
    turns(w, 50);
    (void)snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", total);
    fake_send(w->last, head);
    for (size_t i = 0; i < total >> 20; i++)
        fake_send_n(w->last, big, 1 << 20);
    turns(w, 200);
    assert_int_equal(w->pieces, 1);
    assert_true(sw_buf_len(&w->last->out) > 1 << 20); /* stuck at the sender */
    fake_now += 3600 * SW_NS_PER_S;
    turns(w, 5);
    assert_int_equal(w->done, 0); /* a pause of ours is not a silence of theirs */
    w->pause = false;
    sw_http_call_resume(w->call);
    finish(w);
    assert_int_equal(w->rc, SW_OK);
    assert_int_equal(sw_buf_len(&w->body), total);
    sw_free(big);
}

static void limits(void **state)
{
    struct world *w = *state;
    char *big = sw_calloc(1, 200001);

    memset(big, 'a', 200000);
    w->script = "HTTP/1.1 200 OK\r\nContent-Length: 1048577\r\n\r\n";
    start(w, "GET", "", false);
    for (int i = 0; i < 20000 && w->status == 0; i++)
        sw_loop_turn(w->loop, 1);
    for (int i = 0; i < 6; i++)
        fake_send_n(w->last, big, 200000);
    finish(w);
    assert_int_equal(w->rc, SW_ELIMIT);
    w->script = NULL;
    start(w, "GET", "", false);
    turns(w, 50);
    fake_send(w->last, "HTTP/1.1 200 OK\r\nX: ");
    fake_send(w->last, big);
    finish(w);
    assert_int_equal(w->rc, SW_ELIMIT);
    sw_free(big);
    assert_null(sw_http_call_start(
        w->client,
        &(struct sw_http_call_opts){.method = SW_SLICE_LIT("GET"), .target = SW_SLICE_LIT("/a b")},
        &w->err));
}

static void cancelled_calls_say_nothing(void **state)
{
    struct world *w = *state;

    start(w, "GET", "", false);
    sw_http_call_cancel(w->call);
    turns(w, 20);
    w->script = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel";
    w->cancel = true;
    start(w, "GET", "", false);
    for (int i = 0; i < 20000 && w->pieces == 0; i++)
        sw_loop_turn(w->loop, 1);
    turns(w, 20);
    assert_int_equal(w->pieces, 1);
    assert_int_equal(w->done, 0);
    assert_int_equal(sw_http_client_conns(w->client), 0);
    /* And the end of the client is the end of its calls. */
    w->cancel = false;
    start(w, "GET", "", false);
    turns(w, 3);
    sw_http_client_free(w->client);
    w->client = NULL;
    assert_int_equal(w->done, 1);
    assert_int_equal(w->rc, SW_ECANCELED);
}

static void refused_connections(void **state)
{
    struct world *w = *state;

    fake_down(&w->server);
    start(w, "POST", "x", false);
    assert_false(sw_http_call_sent(w->call));
    finish(w);
    assert_int_equal(w->rc, SW_ESYS);
    assert_int_equal(w->err.sys_errno, 111);
}

static void tls_client(struct world *w, struct sw_tls_cred *cred, const char *host,
                       const char *name)
{
    struct sw_http_client_opts o = {.host = sw_slice_str(host),
                                    .port = w->server.addr.port,
                                    .tls = true,
                                    .cred = cred,
                                    .tls_name = sw_slice_str(name)};

    sw_http_client_free(w->client);
    w->client = sw_http_client_new(w->loop, &o, NULL);
    assert_non_null(w->client);
}

static void over_tls(void **state)
{
    static const char *const sans[] = {"127.0.0.1", "kube.example", NULL};
    struct world *w = *state;
    struct sw_tls_cred *trust;
    struct sw_tls_cred *wrong;
    struct sw_ca *other = sw_ca_new(SW_SLICE_LIT("cluster.local"), 0, NULL);

    w->ca = sw_ca_new(SW_SLICE_LIT("cluster.local"), 0, NULL);
    w->server.cred = web_cred(w->ca, sans);
    trust = web_cred(w->ca, NULL);
    wrong = web_cred(other, NULL);
    w->script = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    tls_client(w, trust, "127.0.0.1", NULL);
    for (int i = 0; i < 3; i++) {
        start(w, "POST", "over tls", false);
        finish(w);
        if (w->rc != SW_OK)
            fail_msg("%s", w->err.msg);
        assert_string_equal(w->last->body, "over tls");
    }
    assert_int_equal(w->server.accepted, 1);
    tls_client(w, trust, "127.0.0.1", "kube.example");
    start(w, "GET", "", false);
    finish(w);
    assert_int_equal(w->rc, SW_OK);
    tls_client(w, trust, "127.0.0.1", "other.example");
    start(w, "GET", "", false);
    finish(w);
    assert_int_equal(w->rc, SW_EDENIED);
    tls_client(w, wrong, "127.0.0.1", NULL);
    start(w, "GET", "", false);
    finish(w);
    assert_int_equal(w->rc, SW_EDENIED);
    assert_non_null(strstr(w->err.msg, "trusted root"));
    /* A new credential takes effect on the next connection. */
    sw_http_client_set_cred(w->client, trust);
    start(w, "GET", "", false);
    finish(w);
    assert_int_equal(w->rc, SW_OK);
    /* Much data, with pauses. */
    w->script = NULL;
    w->pause = true;
    start(w, "GET", "", true);
    turns(w, 50);
    fake_stream_begin(w->last);
    for (int i = 0; i < 2000; i++)
        fake_chunk(w->last, "0123456789012345678901234567890123456789");
    fake_stream_end(w->last);
    for (int i = 0; i < 20000 && w->call; i++) {
        sw_loop_turn(w->loop, 0);
        if (w->call)
            sw_http_call_resume(w->call);
    }
    assert_int_equal(w->rc, SW_OK);
    assert_int_equal(sw_buf_len(&w->body), 80000);
    sw_tls_cred_unref(trust);
    sw_tls_cred_unref(wrong);
    sw_ca_free(other);
}

static void a_tls_body_cut_short_is_noticed(void **state)
{
    static const char *const sans[] = {"127.0.0.1", NULL};
    struct world *w = *state;
    struct sw_tls_cred *trust;

    w->ca = sw_ca_new(SW_SLICE_LIT("cluster.local"), 0, NULL);
    w->server.cred = web_cred(w->ca, sans);
    trust = web_cred(w->ca, NULL);
    tls_client(w, trust, "127.0.0.1", NULL);
    w->script = "HTTP/1.1 200 OK\r\n\r\nhello";
    w->close_after = true; /* without close_notify */
    start(w, "GET", "", false);
    finish(w);
    assert_int_equal(w->rc, SW_EPROTO);
    sw_tls_cred_unref(trust);
}

/* A connection that was made with the old credential ends with its call. */
static void a_new_credential_is_used_from_the_next_call_on(void **state)
{
    static const char *const sans[] = {"127.0.0.1", NULL};
    struct world *w = *state;
    struct sw_tls_cred *first;
    struct sw_tls_cred *second;

    w->ca = sw_ca_new(SW_SLICE_LIT("cluster.local"), 0, NULL);
    w->server.cred = web_cred(w->ca, sans);
    first = web_cred(w->ca, NULL);
    second = web_cred(w->ca, NULL);
    tls_client(w, first, "127.0.0.1", NULL);
    start(w, "GET", "", false);
    for (int i = 0; i < 20000 && w->server.requests == 0; i++)
        sw_loop_turn(w->loop, 1);
    sw_http_client_set_cred(w->client, second);
    w->script = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    fake_send(w->last, w->script);
    w->last->busy = false;
    finish(w);
    assert_int_equal(w->rc, SW_OK);
    assert_int_equal(sw_http_client_conns(w->client), 0);
    for (int i = 0; i < 2; i++) {
        start(w, "GET", "", false);
        finish(w);
        assert_int_equal(w->rc, SW_OK);
    }
    assert_int_equal(w->server.accepted, 2);
    /* An idle one goes at once. */
    sw_http_client_set_cred(w->client, first);
    assert_int_equal(sw_http_client_conns(w->client), 0);
    sw_tls_cred_unref(first);
    sw_tls_cred_unref(second);
}

/* More calls than connections: they wait for their turn. */
static void calls_queue(void **state)
{
    struct world *w = *state;
    struct sw_http_client_opts o = {.host = SW_SLICE_LIT("localhost"),
                                    .port = w->server.addr.port,
                                    .max_conns = 2,
                                    .max_waiting = 10};

    sw_http_client_free(w->client);
    w->client = sw_http_client_new(w->loop, &o, NULL);
    w->script = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    for (int i = 0; i < 10; i++)
        start(w, "GET", "", false);
    assert_null(sw_http_call_start(
        w->client,
        &(struct sw_http_call_opts){.method = SW_SLICE_LIT("GET"), .target = SW_SLICE_LIT("/")},
        &w->err));
    assert_int_equal(w->err.rc, SW_ELIMIT);
    for (int i = 0; i < 20000 && w->done < 10; i++)
        sw_loop_turn(w->loop, 1);
    assert_int_equal(w->done, 10);
    assert_int_equal(w->rc, SW_OK);
    assert_true(w->server.accepted <= 2);
}

/* Endless answers leave room for ordinary ones. */
static void streams_do_not_starve_calls(void **state)
{
    struct world *w = *state;
    struct sw_http_client_opts o = {.host = SW_SLICE_LIT("127.0.0.1"),
                                    .port = w->server.addr.port,
                                    .max_conns = 1,
                                    .max_streams = 3};

    sw_http_client_free(w->client);
    w->client = sw_http_client_new(w->loop, &o, NULL);
    w->script = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (int i = 0; i < 5; i++)
        start(w, "GET", "", true);
    turns(w, 100);
    assert_int_equal(w->server.requests, 3);
    w->script = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    for (int i = 0; i < 3; i++) {
        start(w, "GET", "", false);
        finish(w);
        assert_int_equal(w->rc, SW_OK);
    }
    assert_int_equal(w->server.accepted, 4);
    /* When streams end, those that wait have their turn. */
    w->script = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    fake_drop_conns(&w->server);
    w->server.requests = 0;
    for (int i = 0; i < 20000 && w->server.requests < 2; i++)
        sw_loop_turn(w->loop, 1);
    assert_int_equal(w->server.requests, 2);
    w->script = NULL;
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_connection_serves_many_calls),
        T(all_framings_are_understood),
        T(cut_answers_are_errors),
        T(stale_connections_are_not_failures),
        T(a_call_is_repeated_once),
        T(a_call_that_was_answered_in_part_is_not_repeated),
        T(a_connection_with_more_than_the_answer_is_closed),
        T(interim_answers_are_not_the_answer),
        T(deadlines),
        T(back_pressure),
        T(limits),
        T(cancelled_calls_say_nothing),
        T(refused_connections),
        T(over_tls),
        T(a_tls_body_cut_short_is_noticed),
        T(a_new_credential_is_used_from_the_next_call_on),
        T(calls_queue),
        T(streams_do_not_starve_calls),
    };
    int rc;

    if (sw_aead_init(SW_AEAD_AUTO, NULL) != SW_OK)
        return 1;
    rc = cmocka_run_group_tests_name("client", tests, NULL, NULL);
    sw_resolver_stop();
    return rc;
}
