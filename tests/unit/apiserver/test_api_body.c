/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies that do not come, beside requests of the same HTTP/2 connection. The clock is fake. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../http/web_cred.h"
#include "apiserver/front/front_int.h"
#include "base/time.h"
#include "http/h2conn.h"
#include "io/loop.h"
#include "io/sock.h"

enum { REQUESTS = 3, BODY = 60000, LARGE = 24 << 20 /* more than sockets hold */ };

static uint64_t now_ns = 1000 * SW_NS_PER_S;

static struct {
    struct sw_loop *loop;
    struct sw_loop *client;
    struct sw_front *front;
    struct sw_h2conn *conn;
    bool open;
    bool deaf; /* the client reads nothing */
    struct request {
        struct sw_h2stream *stream; /* NULL: closed */
        unsigned status;
        uint32_t code;
    } requests[REQUESTS];
} t;

static uint64_t fake_clock(void)
{
    return now_ns;
}

/* No two turns at one time: the front shares out the work of a turn. */
static void turn(void)
{
    now_ns++;
    sw_loop_turn(t.loop, 1);
    if (!t.deaf)
        sw_loop_turn(t.client, 1);
}

#define UNTIL(cond)                                                                                \
    do {                                                                                           \
        for (int i_ = 0; i_ < 5000 && !(cond); i_++)                                               \
            turn();                                                                                \
        assert_true(cond);                                                                         \
    } while (0)

static void pass(uint64_t s)
{
    now_ns += s * SW_NS_PER_S;
    for (int i = 0; i < 10; i++)
        turn();
}

/* ---- the server ---- */

static void on_gone(struct sw_xchg *x)
{
    (void)x;
}

static void handle(struct sw_xchg *x, void *arg)
{
    static const struct sw_xchg_stream_ops ops = {.on_gone = on_gone};
    static char large[LARGE];

    (void)arg;
    sw_xchg_identify(x, x->path, false);
    if (sw_slice_eq_str(x->path, "/watch"))
        assert_true(sw_xchg_stream(x, 200, "text/plain", &ops));
    else if (sw_slice_eq_str(x->path, "/large"))
        sw_xchg_send_slice(x, 200, "text/plain", sw_slice(large, LARGE));
    else
        sw_xchg_send_slice(x,
                           x->crowded     ? 429
                           : x->too_large ? 413
                                          : 201,
                           "text/plain", SW_SLICE_LIT("ok"));
}

/* ---- the client ---- */

static void on_open(struct sw_h2conn *c, void *arg)
{
    (void)c;
    (void)arg;
    t.open = true;
}

static void on_closed(struct sw_h2conn *c, const struct sw_err *err, void *arg)
{
    (void)c;
    (void)arg;
    (void)err;
    t.conn = NULL;
}

static void on_head(struct sw_h2stream *s, const struct sw_h2_head *head, void *arg)
{
    (void)s;
    ((struct request *)arg)->status = head->status;
}

static void on_close(struct sw_h2stream *s, uint32_t code, void *arg)
{
    struct request *r = arg;

    (void)s;
    r->stream = NULL;
    r->code = code;
}

static struct request *start(unsigned i, const char *method, const char *path)
{
    static const struct sw_h2stream_ops ops = {.on_head = on_head, .on_close = on_close};
    const struct sw_h2_header fields[] = {
        {SW_SLICE_LIT(":method"), sw_slice_str(method)},
        {SW_SLICE_LIT(":scheme"), SW_SLICE_LIT("https")},
        {SW_SLICE_LIT(":authority"), SW_SLICE_LIT("api")},
        {SW_SLICE_LIT(":path"), sw_slice_str(path)},
    };
    struct request *r = &t.requests[i];

    r->status = 0;
    r->stream = sw_h2stream_open(t.conn, fields, SW_ARRAY_LEN(fields), &ops, r, NULL);
    assert_non_null(r->stream);
    return r;
}

static void connect_client(struct sw_tls_cred *trust, const struct sw_addr *to)
{
    static const struct sw_h2conn_ops ops = {.on_open = on_open, .on_closed = on_closed};
    struct sw_h2conn_opts o = {.cred = trust,
                               .host = "127.0.0.1",
                               .ping_ns = 3600 * SW_NS_PER_S,
                               .pong_ns = 3600 * SW_NS_PER_S,
                               .stream_window = 2 * LARGE,
                               .ops = &ops};
    struct sw_sock_opts so = SW_SOCK_OPTS_INIT;
    int fd = -1;

    assert_int_equal(sw_sock_connect(to, NULL, &so, &fd, NULL), SW_OK);
    t.conn = sw_h2conn_new(t.client, fd, &o, NULL);
    assert_non_null(t.conn);
    UNTIL(t.open);
}

/* ---- tests ---- */

/* A request that never ends is reset after its time, whatever the connection carries besides. */
static void a_body_is_late_beside_a_watch(void **state)
{
    struct request *watch;
    struct request *first;
    struct request *second;

    (void)state;
    watch = start(0, "GET", "/watch");
    sw_h2stream_end(watch->stream, NULL, 0);
    UNTIL(watch->status == 200);
    first = start(1, "POST", "/body");
    assert_int_equal(sw_h2stream_send(first->stream, SW_SLICE_LIT("x")), SW_OK);
    pass(0);
    pass(50);
    second = start(2, "POST", "/body"); /* does not give the first more time */
    assert_int_equal(sw_h2stream_send(second->stream, SW_SLICE_LIT("x")), SW_OK);
    pass(0);
    pass(9);
    assert_non_null(first->stream);
    pass(1);
    UNTIL(!first->stream);
    assert_int_equal(first->code, SW_H2_CANCEL);
    sw_h2stream_end(second->stream, NULL, 0);
    UNTIL(second->status == 201);
    assert_non_null(watch->stream);
    assert_non_null(t.conn);
    sw_h2stream_reset(watch->stream, SW_H2_CANCEL);
    UNTIL(!watch->stream);
}

/* What one client has begun and does not end leaves room for another user. */
static void unfinished_bodies_fill_the_share_of_their_client(void **state)
{
    static char body[BODY];
    struct request *r[REQUESTS];

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        r[i] = start(i, "POST", "/a");
        assert_int_equal(sw_h2stream_send(r[i]->stream, sw_slice(body, BODY)), SW_OK);
        pass(0);
    }
    sw_h2stream_end(r[1]->stream, NULL, 0);
    UNTIL(r[1]->status == 429);
    r[1] = start(1, "GET", "/b"); /* the connection is another user's from now on */
    sw_h2stream_end(r[1]->stream, NULL, 0);
    UNTIL(r[1]->status == 201);
    r[1] = start(1, "POST", "/b");
    assert_int_equal(sw_h2stream_send(r[1]->stream, sw_slice(body, BODY)), SW_OK);
    pass(0);
    r[2] = start(2, "POST", "/b");
    assert_int_equal(sw_h2stream_send(r[2]->stream, sw_slice(body, BODY)), SW_OK);
    sw_h2stream_end(r[2]->stream, NULL, 0);
    UNTIL(r[2]->status == 429);
    sw_h2stream_end(r[1]->stream, NULL, 0); /* its own body counts no more */
    UNTIL(r[1]->status == 201);
    r[2] = start(2, "POST", "/b");
    assert_int_equal(sw_h2stream_send(r[2]->stream, sw_slice(body, BODY)), SW_OK);
    sw_h2stream_end(r[2]->stream, NULL, 0);
    UNTIL(r[2]->status == 201);
    sw_h2stream_end(r[0]->stream, NULL, 0);
    UNTIL(r[0]->status == 201);
}

/* A reset that cannot leave is queued once: nothing is done again until the client reads. */
static void a_late_body_is_reset_once_while_the_client_reads_nothing(void **state)
{
    struct front_conn *c = SW_CONTAINER_OF(t.front->conns.next, struct front_conn, link);
    struct request *bodies[2];
    struct request *large;

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        bodies[i] = start(i, "POST", "/body");
        assert_int_equal(sw_h2stream_send(bodies[i]->stream, SW_SLICE_LIT("x")), SW_OK);
        pass(0);
        pass(10);
    }
    large = start(2, "GET", "/large");
    sw_h2stream_end(large->stream, NULL, 0);
    UNTIL(large->status == 200);
    t.deaf = true;
    UNTIL(sw_conn_unsent(&c->io) > 64 * 1024);
    pass(40); /* the first reset takes the room that is left */
    pass(10);
    assert_int_equal(c->nxchgs, 2);
    for (int i = 0; i < 20; i++) {
        now_ns += SW_NS_PER_MS;
        sw_loop_turn(t.loop, 1);
        assert_false(sw_timer_running(&c->timer));
    }
    t.deaf = false;
    UNTIL(!bodies[0]->stream && !bodies[1]->stream && !large->stream);
    assert_int_equal(bodies[0]->code, SW_H2_CANCEL);
    assert_int_equal(bodies[1]->code, SW_H2_CANCEL);
    assert_int_equal(large->code, SW_H2_NO_ERROR);
    assert_non_null(t.conn);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_is_late_beside_a_watch),
        cmocka_unit_test(unfinished_bodies_fill_the_share_of_their_client),
        cmocka_unit_test(a_late_body_is_reset_once_while_the_client_reads_nothing),
    };
    static const char *const names[] = {"127.0.0.1", NULL};
    struct sw_addr at = {.ip = {.family = 4, .b = {127, 0, 0, 1}}};
    struct sw_ca *ca = sw_ca_new(SW_SLICE_LIT("td"), 3600, NULL);
    struct sw_front_opts o = {.handler = handle, .max_bodies = (size_t)8 * 100000};
    struct sw_tls_cred *trust = web_cred(ca, NULL);
    int rc;

    o.cred = web_cred(ca, names);
    t.loop = sw_loop_new(NULL);
    t.client = sw_loop_new(NULL);
    sw_loop_set_clock(t.loop, fake_clock);
    sw_loop_set_clock(t.client, fake_clock);
    t.front = sw_front_new(t.loop, &o);
    (void)!sw_front_listen(t.front, &at, &at, NULL);
    connect_client(trust, &at);
    rc = cmocka_run_group_tests_name("api_body", tests, NULL, NULL);
    sw_h2conn_free(t.conn);
    sw_front_free(t.front);
    sw_loop_free(t.client);
    sw_loop_free(t.loop);
    (void)sw_tls_cred_unref(o.cred);
    (void)sw_tls_cred_unref(trust);
    sw_ca_free(ca);
    return rc;
}
