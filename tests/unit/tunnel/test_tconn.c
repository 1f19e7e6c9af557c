/* SPDX-License-Identifier: Apache-2.0 */
/* Two ends of a TLS connection without HTTP/2: taken from sessions, first heads, then bytes. */
#include "rig.h"

#include "io/conn/conn.h"
#include "tunnel/tconn.h"

struct end {
    struct sw_session *session;
    struct sw_tconn *c;
    int app; /* the application's end of what it is joined to; -1: not joined */
    struct sw_buf got;
    size_t take; /* bytes on_bytes uses at a time; SIZE_MAX: all */
    bool eof;
    bool ready; /* HTTP/2 after all */
    bool leave; /* does not take the connection in on_other */
    int closed;
    int done;
    int rc;
    size_t up;
    size_t down;
    struct sw_loop *loop;
};

struct fix {
    struct sw_loop *loop;
    struct creds creds;
    struct end client;
    struct end server;
    bool tls12;
};

static size_t on_bytes(struct sw_tconn *c, struct sw_slice in, bool eof)
{
    struct end *e = sw_tconn_owner(c);
    size_t n = sw_min(in.n, e->take);

    e->eof = eof;
    assert_int_equal(sw_buf_append(&e->got, in.p, n), SW_OK);
    return n;
}

static void on_moved(struct sw_tconn *c, size_t up, size_t down)
{
    struct end *e = sw_tconn_owner(c);

    e->up += up;
    e->down += down;
}

static void on_done(struct sw_tconn *c, int rc, const struct sw_err *err)
{
    struct end *e = sw_tconn_owner(c);

    (void)err;
    e->done++;
    e->rc = rc;
    e->c = NULL;
}

static const struct sw_tconn_ops ops = {
    .on_bytes = on_bytes, .on_moved = on_moved, .on_done = on_done};

static void on_other(struct sw_session *s)
{
    struct end *e = sw_session_owner(s);
    struct sw_session_parts parts;
    struct sw_err err = {0};

    if (e->leave)
        return;
    sw_session_take(s, &parts);
    e->session = NULL;
    e->c = sw_tconn_new(e->loop, &parts, &ops, e, &err);
    assert_non_null(e->c);
    sw_tconn_start(e->c);
}

static void on_ready(struct sw_session *s)
{
    ((struct end *)sw_session_owner(s))->ready = true;
}

static void on_request(struct sw_session *s, int32_t id, const struct sw_h2_head *head)
{
    (void)head;
    sw_session_refuse(s, id, 404);
}

static void on_closed(struct sw_session *s, int rc, const struct sw_err *err, bool handshaken)
{
    struct end *e = sw_session_owner(s);

    (void)err;
    (void)handshaken;
    e->session = NULL;
    e->closed++;
    e->rc = rc;
}

static const struct sw_session_ops session_ops = {
    .on_ready = on_ready, .on_other = on_other, .on_request = on_request, .on_closed = on_closed};

static int any_leaf(void *arg, struct sw_slice der, struct sw_err *err)
{
    (void)arg;
    (void)der;
    (void)err;
    return SW_OK;
}

static void end_init(struct end *e, struct sw_loop *l)
{
    e->loop = l;
    e->app = -1;
    e->take = SIZE_MAX;
    sw_buf_init(&e->got, 1 << 20);
}

static struct fix *fix_new(void)
{
    struct fix *f = SW_NEW(struct fix);

    f->loop = rig_loop();
    creds_make(&f->creds);
    end_init(&f->client, f->loop);
    end_init(&f->server, f->loop);
    return f;
}

static void start(struct fix *f, const char *client_alpn)
{
    struct sw_session_config config = rig_config();
    struct sw_tls_params sp = {.server = true,
                               .web = true,
                               .need_client_cert = true,
                               .tls12 = true,
                               .cred = f->creds.server,
                               .alpn = "h2,http/1.1"};
    struct sw_tls_params cp = {.web = true,
                               .tls12 = true,
                               .tls12_only = f->tls12,
                               .cred = f->creds.client,
                               .leaf_ok = any_leaf,
                               .alpn = client_alpn};
    struct sw_err err = {0};
    int fds[2];

    tcp_pair(fds);
    f->server.session = sw_session_new(
        f->loop, fds[1], &(struct sw_session_setup){&sp, &config, &session_ops, &f->server}, &err);
    f->client.session = sw_session_new(
        f->loop, fds[0], &(struct sw_session_setup){&cp, &config, &session_ops, &f->client}, &err);
    assert_non_null(f->server.session);
    assert_non_null(f->client.session);
}

static struct fix *fix_open(bool tls12)
{
    struct fix *f = fix_new();

    f->tls12 = tls12;
    start(f, NULL);
    RUN_UNTIL(f->loop, f->client.c && f->server.c);
    return f;
}

static void join(struct end *e)
{
    int fds[2];

    tcp_pair(fds);
    e->app = fds[0];
    sw_tconn_join(e->c, fds[1]);
}

static void end_done(struct end *e)
{
    if (e->c)
        sw_tconn_close(e->c, false);
    if (e->session)
        sw_session_close(e->session, SW_OK, NULL);
    if (e->app >= 0)
        sw_sock_close(e->app);
    sw_buf_done(&e->got);
}

static void fix_free(struct fix *f)
{
    end_done(&f->client);
    end_done(&f->server);
    rig_settle(f->loop);
    creds_done(&f->creds);
    rig_loop_done(f->loop);
    sw_free(f);
}

static void got(struct fix *f, struct end *e, const char *text)
{
    RUN_UNTIL(f->loop, sw_buf_len(&e->got) >= strlen(text));
    assert_memory_equal(sw_buf_data(&e->got), text, strlen(text));
    sw_buf_clear(&e->got);
}

/* ---- tests ---- */

static void sessions_agree_on_http2_or_give_the_connection_away(void **state)
{
    struct fix *f = fix_new();

    (void)state;
    start(f, "h2,http/1.1");
    RUN_UNTIL(f->loop, f->client.ready && f->server.ready);
    fix_free(f);
    f = fix_new();
    start(f, "http/1.1");
    RUN_UNTIL(f->loop, f->client.c && f->server.c);
    fix_free(f);
}

static void a_connection_nobody_takes_fails(void **state)
{
    struct fix *f = fix_new();

    (void)state;
    f->server.leave = true;
    start(f, NULL);
    RUN_UNTIL(f->loop, f->server.closed == 1);
    assert_int_equal(f->server.rc, SW_EPROTO);
    fix_free(f);
}

static void heads_then_bytes(bool tls12)
{
    struct fix *f = fix_open(tls12);

    sw_tconn_send(f->client.c, SW_SLICE_LIT("question"));
    got(f, &f->server, "question");
    sw_tconn_send(f->server.c, SW_SLICE_LIT("answer"));
    got(f, &f->client, "answer");
    join(&f->client);
    join(&f->server);
    put(f->client.app, "ping");
    expect(f->loop, f->server.app, "ping");
    put(f->server.app, "pong");
    expect(f->loop, f->client.app, "pong");
    assert_int_equal(f->client.up, 4);
    assert_int_equal(f->client.down, 4);
    fix_free(f);
}

static void heads_then_bytes_tls13(void **state)
{
    (void)state;
    heads_then_bytes(false);
}

static void heads_then_bytes_tls12(void **state)
{
    (void)state;
    heads_then_bytes(true);
}

static void what_the_owner_does_not_use_goes_to_the_socket(void **state)
{
    struct fix *f = fix_open(false);

    (void)state;
    f->server.take = 4;
    sw_tconn_send(f->client.c, SW_SLICE_LIT("HEADearly bytes"));
    RUN_UNTIL(f->loop, sw_buf_len(&f->server.got) >= 4);
    f->server.take = 0;
    join(&f->server);
    expect(f->loop, f->server.app, "early bytes");
    fix_free(f);
}

static void an_end_before_the_join_reaches_the_socket(void **state)
{
    struct fix *f = fix_open(false);

    (void)state;
    f->server.take = 0;
    join(&f->client);
    put(f->client.app, "all there is");
    sw_sock_shutdown_write(f->client.app);
    RUN_UNTIL(f->loop, f->server.eof);
    join(&f->server);
    expect(f->loop, f->server.app, "all there is");
    assert_int_equal(read_end(f->loop, f->server.app), SW_EOF);
    put(f->server.app, "still heard");
    expect(f->loop, f->client.app, "still heard");
    fix_free(f);
}

static void bulk(bool tls12)
{
    struct fix *f = fix_open(tls12);
    struct feed w[2] = {{.total = 8 << 20, .seed = 1}, {.total = 8 << 20, .seed = 2}};
    struct feed r[2] = {{.seed = 1}, {.seed = 2}};

    join(&f->client);
    join(&f->server);
    for (int i = 0; i < 200000 && (r[0].at < w[0].total || r[1].at < w[1].total); i++) {
        feed_write(&w[0], f->client.app);
        feed_write(&w[1], f->server.app);
        sw_loop_turn(f->loop, 0);
        (void)feed_read(&r[0], f->server.app, 1 << 20);
        (void)feed_read(&r[1], f->client.app, 100000);
    }
    assert_int_equal(r[0].at, w[0].total);
    assert_int_equal(r[1].at, w[1].total);
    sw_sock_shutdown_write(f->client.app);
    assert_int_equal(read_end(f->loop, f->server.app), SW_EOF);
    assert_int_equal(f->client.done, 0);
    sw_sock_shutdown_write(f->server.app);
    assert_int_equal(read_end(f->loop, f->client.app), SW_EOF);
    RUN_UNTIL(f->loop, f->client.done == 1 && f->server.done == 1);
    assert_int_equal(f->client.rc, SW_OK);
    assert_int_equal(f->server.rc, SW_OK);
    assert_int_equal(f->client.up, w[0].total);
    assert_int_equal(f->client.down, w[1].total);
    fix_free(f);
}

static void bulk_tls13(void **state)
{
    (void)state;
    bulk(false);
}

static void bulk_tls12(void **state)
{
    (void)state;
    bulk(true);
}

static void a_slow_reader_stops_the_sender(void **state)
{
    struct fix *f = fix_open(false);
    struct feed w = {.total = 64 << 20};

    (void)state;
    join(&f->client);
    join(&f->server);
    for (int i = 0; i < 2000; i++) {
        feed_write(&w, f->client.app);
        sw_loop_turn(f->loop, 0);
    }
    assert_true(w.at < w.total); /* sockets and buffers are full, and nothing grows */
    fix_free(f);
}

static void a_reset_becomes_a_reset(void **state)
{
    struct fix *f = fix_open(false);

    (void)state;
    join(&f->client);
    join(&f->server);
    put(f->client.app, "x");
    expect(f->loop, f->server.app, "x");
    sw_sock_set_reset(f->server.app);
    sw_sock_close(f->server.app);
    f->server.app = -1;
    RUN_UNTIL(f->loop, f->server.done == 1 && f->client.done == 1);
    assert_int_equal(f->server.rc, SW_ECLOSED);
    assert_int_equal(f->client.rc, SW_ECLOSED);
    assert_int_equal(read_end(f->loop, f->client.app), SW_ECLOSED);
    fix_free(f);
}

static void a_cut_without_close_notify_is_no_end(void **state)
{
    struct fix *f = fix_open(false);

    (void)state;
    join(&f->server);
    sw_tconn_close(f->client.c, false); /* FIN, no close_notify */
    f->client.c = NULL;
    RUN_UNTIL(f->loop, f->server.done == 1);
    assert_int_equal(f->server.rc, SW_ECLOSED);
    assert_int_equal(read_end(f->loop, f->server.app), SW_ECLOSED);
    fix_free(f);
}

static void an_answer_is_sent_before_the_end(void **state)
{
    struct fix *f = fix_open(false);

    (void)state;
    sw_tconn_send(f->server.c, SW_SLICE_LIT("403"));
    sw_tconn_finish(f->server.c);
    got(f, &f->client, "403");
    RUN_UNTIL(f->loop, f->client.eof);
    sw_tconn_finish(f->client.c);
    RUN_UNTIL(f->loop, f->client.done == 1 && f->server.done == 1);
    assert_int_equal(f->server.rc, SW_OK);
    fix_free(f);
}

static void a_peer_that_does_not_end_is_not_waited_for(void **state)
{
    struct fix *f = fix_open(false);

    (void)state;
    sw_tconn_finish(f->server.c);
    rig_settle(f->loop);
    assert_int_equal(f->server.done, 0);
    rig_advance(f->loop, SW_CONN_LINGER_MS * SW_NS_PER_MS - SW_NS_PER_MS);
    assert_int_equal(f->server.done, 0);
    rig_advance(f->loop, SW_NS_PER_MS);
    assert_int_equal(f->server.done, 1);
    fix_free(f);
}

static void a_client_without_a_certificate_is_refused(void **state)
{
    struct fix *f = fix_new();
    const struct sw_tls_cert_info *roots = NULL;
    struct sw_err err = {0};
    struct sw_tls_cred *bare;

    (void)state;
    assert_true(sw_tls_cred_roots(f->creds.client, &roots) > 0);
    bare = sw_tls_cred_new(&(struct sw_tls_cred_pem){.roots = roots[0].pem}, &err);
    assert_non_null(bare);
    (void)sw_tls_cred_unref(f->creds.client);
    f->creds.client = bare;
    start(f, NULL);
    RUN_UNTIL(f->loop, f->server.closed == 1);
    assert_int_equal(f->server.rc, SW_EDENIED);
    fix_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sessions_agree_on_http2_or_give_the_connection_away),
        cmocka_unit_test(a_connection_nobody_takes_fails),
        cmocka_unit_test(heads_then_bytes_tls13),
        cmocka_unit_test(heads_then_bytes_tls12),
        cmocka_unit_test(what_the_owner_does_not_use_goes_to_the_socket),
        cmocka_unit_test(an_end_before_the_join_reaches_the_socket),
        cmocka_unit_test(bulk_tls13),
        cmocka_unit_test(bulk_tls12),
        cmocka_unit_test(a_slow_reader_stops_the_sender),
        cmocka_unit_test(a_reset_becomes_a_reset),
        cmocka_unit_test(a_cut_without_close_notify_is_no_end),
        cmocka_unit_test(an_answer_is_sent_before_the_end),
        cmocka_unit_test(a_peer_that_does_not_end_is_not_waited_for),
        cmocka_unit_test(a_client_without_a_certificate_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
