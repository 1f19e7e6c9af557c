/* SPDX-License-Identifier: Apache-2.0 */
/* A session's life and how the ends of tunnels become each other. Moving bytes: test_flow.c. */
#include "pair.h"

static void connect_is_accepted_and_carries_bytes(void **state)
{
    struct pair *p = pair_start();
    struct tun *c = pair_tunnel(p);
    struct tun *s = &p->s[0];

    (void)state;
    assert_true(sw_slice_eq_str(sw_session_peer(p->server)->ids[0].uri, CLIENT_ID));
    assert_true(sw_slice_eq_str(sw_session_peer(p->client)->ids[0].uri, SERVER_ID));
    put(c->app, "hello");
    expect(p->loop, s->app, "hello");
    put(s->app, "welcome");
    expect(p->loop, c->app, "welcome");
    assert_int_equal(c->up, 5);
    assert_int_equal(c->down, 7);
    assert_int_equal(s->down, 5);
    assert_int_equal(s->up, 7);
    pair_done(p);
}

static void a_refusal_reaches_the_client_as_status(void **state)
{
    static const unsigned statuses[] = {400, 401, 503};
    struct pair *p = pair_start();

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(statuses); i++) {
        struct tun *c;

        p->answer = statuses[i];
        c = pair_request(p);
        RUN_UNTIL(p->loop, c->done);
        assert_int_equal(c->status, statuses[i]);
    }
    assert_int_equal(sw_session_streams(p->client), 0);
    assert_int_equal(sw_session_streams(p->server), 0);
    p->answer = 0;
    put(pair_tunnel(p)->app, "fine"); /* the connection is as good as new */
    expect(p->loop, p->s[0].app, "fine");
    pair_done(p);
}

static void an_attached_request_can_be_refused_later(void **state)
{
    struct pair *p = pair_start();
    struct tun *c;

    (void)state;
    p->answer = 1;
    c = pair_request(p);
    RUN_UNTIL(p->loop, p->ns == 1);
    sw_tstream_refuse(&p->s[0].stream, 503);
    RUN_UNTIL(p->loop, c->done);
    assert_int_equal(c->status, 503);
    assert_int_equal(p->s[0].done, 0);
    pair_done(p);
}

static void half_close_travels_in_both_directions(void **state)
{
    struct pair *p = pair_start();

    (void)state;
    for (int side = 0; side < 2; side++) {
        struct tun *c = pair_tunnel(p);
        struct tun *s = &p->s[p->ns - 1];
        struct tun *a = side ? s : c;
        struct tun *b = side ? c : s;

        put(a->app, "last words");
        sw_sock_shutdown_write(a->app);
        expect(p->loop, b->app, "last words");
        assert_int_equal(read_end(p->loop, b->app), SW_EOF);
        put(b->app, "still here");
        expect(p->loop, a->app, "still here");
        assert_int_equal(a->done + b->done, 0);
        sw_sock_shutdown_write(b->app);
        assert_int_equal(read_end(p->loop, a->app), SW_EOF);
        RUN_UNTIL(p->loop, a->done && b->done);
        assert_int_equal(a->rc, SW_OK);
        assert_int_equal(b->rc, SW_OK);
    }
    assert_int_equal(sw_session_streams(p->client), 0);
    assert_int_equal(sw_session_streams(p->server), 0);
    pair_done(p);
}

static void a_local_reset_resets_the_far_socket(void **state)
{
    struct pair *p = pair_new();

    (void)state;
    p->tcp = true;
    (void)pair_open(p);
    for (int side = 0; side < 2; side++) {
        struct tun *c = pair_tunnel(p);
        struct tun *s = &p->s[p->ns - 1];
        struct tun *a = side ? s : c;
        struct tun *b = side ? c : s;

        rig_settle(p->loop);
        sw_sock_set_reset(a->app);
        sw_sock_close(a->app);
        a->app = -1;
        assert_int_equal(read_end(p->loop, b->app), SW_ECLOSED);
        RUN_UNTIL(p->loop, a->done && b->done);
        assert_int_equal(a->rc, SW_ECLOSED);
        assert_int_equal(b->rc, SW_ECLOSED);
    }
    pair_done(p);
}

/* RST_STREAM codes and what the socket at the other end sees. */
static void reset_codes_map_to_ends(void **state)
{
    static const struct {
        enum sw_h2_code code;
        ssize_t seen;
        int rc;
    } cases[] = {
        {SW_H2_NO_ERROR, SW_EOF, SW_OK},
        {SW_H2_CANCEL, SW_EOF, SW_OK},
        {SW_H2_CONNECT_ERROR, SW_ECLOSED, SW_ECLOSED},
        {SW_H2_INTERNAL_ERROR, SW_ECLOSED, SW_ECLOSED},
        {SW_H2_STREAM_CLOSED, SW_ECLOSED, SW_ECLOSED},
    };
    struct pair *p = pair_new();

    (void)state;
    p->tcp = true;
    (void)pair_open(p);
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct tun *c = pair_tunnel(p);
        struct tun *s = &p->s[p->ns - 1];

        rig_settle(p->loop);
        sw_tstream_abort(&s->stream, cases[i].code);
        assert_int_equal(read_end(p->loop, c->app), cases[i].seen);
        RUN_UNTIL(p->loop, c->done);
        assert_int_equal(c->rc, cases[i].rc);
        assert_int_equal(s->done, 0);
    }
    pair_done(p);
}

static void a_stream_cancelled_before_its_answer_ends_at_the_server(void **state)
{
    struct pair *p = pair_start();
    struct tun *c;

    (void)state;
    p->answer = 1;
    c = pair_request(p);
    RUN_UNTIL(p->loop, p->ns == 1);
    sw_tstream_abort(&c->stream, SW_H2_CANCEL);
    RUN_UNTIL(p->loop, p->s[0].done);
    assert_int_equal(p->s[0].rc, SW_ECLOSED);
    assert_int_equal(c->done, 0);
    assert_true(p->rooms >= 2); /* settings, and the stream that was given up */
    pair_done(p);
}

/* A cancel right behind the request, in the same flush. */
static void a_request_given_up_before_it_was_sent_leaves_nothing(void **state)
{
    struct pair *p = pair_start();
    struct tun *c;

    (void)state;
    p->answer = 1;
    c = pair_request(p);
    sw_tstream_abort(&c->stream, SW_H2_CANCEL);
    rig_settle(p->loop);
    assert_int_equal(sw_session_streams(p->client), 0);
    assert_int_equal(sw_session_streams(p->server), 0);
    pair_done(p);
}

static void draining_server_lets_streams_finish(void **state)
{
    struct pair *p = pair_start();
    struct tun *c = pair_tunnel(p);
    struct tun *s = &p->s[0];
    struct tun none = {.app = -1};

    (void)state;
    sw_session_drain(p->server);
    RUN_UNTIL(p->loop, p->goaways >= 2); /* the notice, then the one that names the last stream */
    assert_int_equal(sw_session_room(p->client, 100), 0);
    assert_int_equal(sw_tstream_open(p->client, &none.stream, &tun_ops, NULL, 0, NULL), SW_ECLOSED);
    put(c->app, "in flight");
    expect(p->loop, s->app, "in flight");
    put(s->app, "and back");
    expect(p->loop, c->app, "and back");
    assert_int_equal(p->client_closed + p->server_closed, 0);
    sw_sock_close(c->app);
    c->app = -1;
    assert_int_equal(read_end(p->loop, s->app), SW_EOF);
    sw_sock_close(s->app);
    s->app = -1;
    RUN_UNTIL(p->loop, p->client_closed && p->server_closed);
    assert_int_equal(p->client_rc, SW_OK);
    assert_int_equal(p->server_rc, SW_OK);
    assert_int_equal(c->rc, SW_OK);
    assert_int_equal(s->rc, SW_OK);
    pair_done(p);
}

static void draining_idle_sessions_end_at_once(void **state)
{
    struct pair *p = pair_start();

    (void)state;
    rig_settle(p->loop);
    sw_session_drain(p->client);
    RUN_UNTIL(p->loop, p->client_closed && p->server_closed);
    assert_int_equal(p->client_rc, SW_OK);
    assert_int_equal(p->server_rc, SW_OK);
    pair_done(p);
    p = pair_start();
    rig_settle(p->loop);
    sw_session_drain(p->server);
    RUN_UNTIL(p->loop, p->client_closed && p->server_closed);
    assert_int_equal(p->client_rc, SW_OK);
    assert_int_equal(p->server_rc, SW_OK);
    pair_done(p);
}

/* A request that crossed the GOAWAY comes back as "not looked at". */
static void requests_behind_a_goaway_may_be_tried_elsewhere(void **state)
{
    struct pair *p = pair_start();
    struct tun *c = pair_tunnel(p);
    struct tun *late;

    (void)state;
    rig_settle(p->loop);
    sw_session_drain(p->server);
    RUN_UNTIL(p->loop, p->goaways >= 1);
    assert_int_equal(c->done, 0);
    assert_int_equal(sw_session_room(p->client, 100), 0);
    /* The client knows, so the session itself refuses; a raw h2 client would get REFUSED_STREAM. */
    late = &p->c[p->nc];
    assert_int_equal(sw_tstream_open(p->client, &late->stream, &tun_ops, NULL, 0, NULL),
                     SW_ECLOSED);
    pair_done(p);
}

static void closing_tells_every_stream_and_then_the_owner(void **state)
{
    struct pair *p = pair_start();
    struct sw_err err = {0};

    (void)state;
    for (int i = 0; i < 5; i++)
        (void)pair_tunnel(p);
    (void)sw_err_set(&err, SW_EDENIED, "revoked");
    sw_session_close(p->server, SW_EDENIED, &err);
    assert_int_equal(p->server_closed, 0); /* from the loop only */
    for (int i = 0; i < 5; i++) {
        assert_int_equal(p->s[i].done, 1);
        assert_int_equal(p->s[i].rc, SW_EDENIED);
    }
    RUN_UNTIL(p->loop, p->server_closed && p->client_closed);
    assert_int_equal(p->server_rc, SW_EDENIED);
    assert_string_equal(p->server_err.msg, "revoked");
    for (int i = 0; i < 5; i++)
        assert_int_equal(p->c[i].done, 1);
    assert_true(p->client_handshaken);
    pair_done(p);
}

static void a_session_may_be_closed_from_a_request(void **state)
{
    struct pair *p = pair_start();
    struct tun *c;

    (void)state;
    p->close_on_request = true;
    c = pair_request(p);
    (void)pair_request(p);
    RUN_UNTIL(p->loop, p->server_closed && p->client_closed);
    assert_int_equal(p->server_rc, SW_EDENIED);
    assert_int_equal(c->done, 1);
    rig_advance(p->loop, 60 * SW_NS_PER_S); /* no timer of the dead may fire */
    pair_done(p);
}

static void a_silent_peer_fails_the_ping(void **state)
{
    struct pair *p = pair_new();
    int fds[2];
    int relay[2];
    char buf[65536];

    (void)state;
    /* A man in the middle that stops passing bytes on. */
    unix_pair(fds);
    unix_pair(relay);
    pair_serve(p, relay[1]);
    pair_connect(p, fds[0]);
    for (int i = 0; i < 200; i++) {
        ssize_t n = sw_sock_read(fds[1], buf, sizeof(buf));

        if (n > 0)
            assert_int_equal(sw_sock_write(relay[0], buf, (size_t)n), n);
        n = sw_sock_read(relay[0], buf, sizeof(buf));
        if (n > 0)
            assert_int_equal(sw_sock_write(fds[1], buf, (size_t)n), n);
        sw_loop_turn(p->loop, 0);
    }
    assert_true(p->client_ready && p->server_ready);
    rig_advance(p->loop, 9 * SW_NS_PER_S);
    assert_int_equal(p->client_closed, 0);
    rig_advance(p->loop, 2 * SW_NS_PER_S); /* the PING goes out */
    rig_advance(p->loop, 19 * SW_NS_PER_S);
    assert_int_equal(p->client_closed, 0);
    rig_advance(p->loop, 2 * SW_NS_PER_S);
    assert_int_equal(p->client_closed, 1);
    assert_int_equal(p->client_rc, SW_ETIME);
    sw_sock_close(fds[1]);
    sw_sock_close(relay[0]);
    rig_settle(p->loop);
    pair_done(p);
}

static void answered_pings_keep_a_session(void **state)
{
    struct pair *p = pair_start();

    (void)state;
    for (int i = 0; i < 20; i++)
        rig_advance(p->loop, 7 * SW_NS_PER_S);
    assert_int_equal(p->client_closed + p->server_closed, 0);
    pair_done(p);
}

static void a_handshake_has_a_deadline(void **state)
{
    struct pair *p = pair_new();
    int c[2];
    int s[2];

    (void)state;
    unix_pair(c);
    unix_pair(s);
    pair_connect(p, c[0]);
    pair_serve(p, s[0]);
    rig_advance(p->loop, 9 * SW_NS_PER_S);
    assert_int_equal(p->client_closed + p->server_closed, 0);
    rig_advance(p->loop, 2 * SW_NS_PER_S);
    assert_int_equal(p->client_rc, SW_ETIME);
    assert_int_equal(p->server_rc, SW_ETIME);
    assert_false(p->client_handshaken);
    sw_sock_close(c[1]);
    sw_sock_close(s[1]);
    pair_done(p);
}

static void rubbish_instead_of_tls_fails_the_handshake(void **state)
{
    struct pair *p = pair_new();
    int s[2];

    (void)state;
    unix_pair(s);
    pair_serve(p, s[0]);
    put(s[1], "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    RUN_UNTIL(p->loop, p->server_closed);
    assert_int_equal(p->server_rc, SW_EPROTO);
    sw_sock_close(s[1]);
    pair_done(p);
}

static void an_unexpected_identity_is_refused(void **state)
{
    static const struct sw_slice expected = SW_SLICE_LIT("spiffe://td/ns/a/sa/other");
    struct pair *p = pair_new();
    struct sw_tls_params cp = {
        .cred = p->creds.client, .alpn = "h2", .expect = &expected, .n_expect = 1};
    int fds[2];

    (void)state;
    unix_pair(fds);
    pair_serve(p, fds[1]);
    p->client = sw_session_new(p->loop, fds[0],
                               &(struct sw_session_setup){&cp, &p->cconfig, &client_ops, p},
                               &p->client_err);
    RUN_UNTIL(p->loop, p->client_closed && p->server_closed);
    assert_int_equal(p->client_rc, SW_EDENIED);
    assert_false(p->client_handshaken);
    pair_done(p);
}

/* The carrier breaks in the middle of a record, or is cut off without a goodbye. */
static void a_broken_carrier_resets_the_tunnels(void **state)
{
    (void)state;
    for (int how = 0; how < 2; how++) {
        struct pair *p = pair_new();
        int fds[2];
        int relay[2];
        char buf[65536];
        struct tun *c;

        unix_pair(fds);
        unix_pair(relay);
        pair_serve(p, relay[1]);
        pair_connect(p, fds[0]);
        for (int i = 0; i < 300 && (p->nc == 0 || p->c[0].status == 0); i++) {
            ssize_t n = sw_sock_read(fds[1], buf, sizeof(buf));

            if (n > 0)
                assert_int_equal(sw_sock_write(relay[0], buf, (size_t)n), n);
            n = sw_sock_read(relay[0], buf, sizeof(buf));
            if (n > 0)
                assert_int_equal(sw_sock_write(fds[1], buf, (size_t)n), n);
            sw_loop_turn(p->loop, 0);
            if (p->client_ready && p->nc == 0)
                (void)pair_request(p);
        }
        c = &p->c[0];
        assert_int_equal(c->status, 200);
        put(c->app, "some bytes that make a record");
        rig_settle(p->loop);
        if (how == 0) { /* half a record, then the end */
            ssize_t n = sw_sock_read(fds[1], buf, sizeof(buf));

            assert_true(n > 10);
            assert_int_equal(sw_sock_write(relay[0], buf, (size_t)n / 2), n / 2);
        }
        sw_sock_close(relay[0]);
        sw_sock_close(fds[1]);
        RUN_UNTIL(p->loop, p->client_closed && p->server_closed);
        assert_int_equal(p->server_rc, SW_ECLOSED);
        assert_int_equal(p->client_rc, SW_ECLOSED);
        assert_int_equal(c->rc, SW_ECLOSED);
        assert_int_equal(p->s[0].rc, SW_ECLOSED);
        pair_done(p);
    }
}

static void many_streams_open_and_close(void **state)
{
    struct pair *p = pair_start();

    (void)state;
    for (int i = 0; i < 100; i++)
        (void)pair_request(p);
    RUN_UNTIL(p->loop, p->ns == 100 && p->c[99].app >= 0);
    for (int i = 0; i < 100; i++) {
        char text[32];

        assert_int_equal(p->c[i].status, 200);
        (void)snprintf(text, sizeof(text), "stream %d", i);
        put(p->c[i].app, text);
    }
    for (int i = 0; i < 100; i++) {
        char text[32];

        (void)snprintf(text, sizeof(text), "stream %d", i);
        expect(p->loop, p->s[i].app, text);
        put(p->s[i].app, text);
        expect(p->loop, p->c[i].app, text);
    }
    for (int i = 0; i < 100; i++) {
        sw_sock_close(p->c[i].app);
        sw_sock_close(p->s[i].app);
        p->c[i].app = -1;
        p->s[i].app = -1;
    }
    RUN_UNTIL(p->loop, sw_session_streams(p->client) == 0 && sw_session_streams(p->server) == 0);
    for (int i = 0; i < 100; i++)
        assert_int_equal(p->c[i].done, 1);
    pair_done(p);
}

static void the_peers_stream_limit_is_respected(void **state)
{
    struct pair *p = pair_new();

    (void)state;
    p->config.max_streams = 3;
    (void)pair_open(p);
    rig_settle(p->loop);
    assert_int_equal(sw_session_room(p->client, 100), 3);
    assert_int_equal(sw_session_room(p->client, 2), 2);
    (void)pair_tunnel(p);
    (void)pair_tunnel(p);
    assert_int_equal(sw_session_room(p->client, 100), 1);
    pair_done(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connect_is_accepted_and_carries_bytes),
        cmocka_unit_test(a_refusal_reaches_the_client_as_status),
        cmocka_unit_test(an_attached_request_can_be_refused_later),
        cmocka_unit_test(half_close_travels_in_both_directions),
        cmocka_unit_test(a_local_reset_resets_the_far_socket),
        cmocka_unit_test(reset_codes_map_to_ends),
        cmocka_unit_test(a_stream_cancelled_before_its_answer_ends_at_the_server),
        cmocka_unit_test(a_request_given_up_before_it_was_sent_leaves_nothing),
        cmocka_unit_test(draining_server_lets_streams_finish),
        cmocka_unit_test(draining_idle_sessions_end_at_once),
        cmocka_unit_test(requests_behind_a_goaway_may_be_tried_elsewhere),
        cmocka_unit_test(closing_tells_every_stream_and_then_the_owner),
        cmocka_unit_test(a_session_may_be_closed_from_a_request),
        cmocka_unit_test(a_silent_peer_fails_the_ping),
        cmocka_unit_test(answered_pings_keep_a_session),
        cmocka_unit_test(a_handshake_has_a_deadline),
        cmocka_unit_test(rubbish_instead_of_tls_fails_the_handshake),
        cmocka_unit_test(an_unexpected_identity_is_refused),
        cmocka_unit_test(a_broken_carrier_resets_the_tunnels),
        cmocka_unit_test(many_streams_open_and_close),
        cmocka_unit_test(the_peers_stream_limit_is_respected),
    };

    return cmocka_run_group_tests_name("session", tests, NULL, NULL);
}
