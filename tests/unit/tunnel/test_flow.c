/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes under way: bulk, windows, slow readers and who waits for whom. */
#include "pair.h"

static size_t held(const struct tun *t)
{
    return t->stream.rest ? sw_buf_len(t->stream.rest) : 0;
}

/* Moves everything of 'sent' from one application to the other; at most 'sip' bytes per read. */
static void transfer(struct pair *p, struct tun *from, struct tun *to, struct feed *sent,
                     struct feed *got, size_t sip)
{
    for (int i = 0; i < 2000000 && got->at < sent->total; i++) {
        feed_write(sent, from->app);
        sw_loop_turn(p->loop, 0);
        (void)feed_read(got, to->app, sip);
    }
    assert_int_equal(got->at, sent->total);
}

static void bulk_both_ways(bool tcp, size_t total)
{
    struct pair *p = pair_new();
    struct feed up = {.total = total, .seed = 1};
    struct feed down = {.total = total, .seed = 2};
    struct feed got_up = {.seed = 1};
    struct feed got_down = {.seed = 2};
    struct tun *c;
    struct tun *s;

    p->tcp = tcp;
    (void)pair_open(p);
    c = pair_tunnel(p);
    s = &p->s[0];
    for (int i = 0; i < 2000000 && (got_up.at < total || got_down.at < total); i++) {
        feed_write(&up, c->app);
        feed_write(&down, s->app);
        sw_loop_turn(p->loop, 0);
        (void)feed_read(&got_up, s->app, SIZE_MAX);
        (void)feed_read(&got_down, c->app, SIZE_MAX);
    }
    assert_int_equal(got_up.at, total);
    assert_int_equal(got_down.at, total);
    sw_sock_shutdown_write(c->app);
    sw_sock_shutdown_write(s->app);
    RUN_UNTIL(p->loop, c->done && s->done);
    assert_int_equal(c->up, total);
    assert_int_equal(s->up, total);
    assert_int_equal(c->down, total);
    assert_int_equal(s->down, total);
    pair_done(p);
}

static void bulk_arrives_whole_over_tcp(void **state)
{
    (void)state;
    bulk_both_ways(true, 64 << 20);
}

static void bulk_arrives_whole_over_a_unix_pair(void **state)
{
    (void)state;
    bulk_both_ways(false, 16 << 20);
}

static void windows_of_any_size_work(void **state)
{
    static const struct {
        uint32_t stream;
        uint32_t connection;
        size_t total;
    } cases[] = {
        {1, 65535, 300},         {100, 65535, 20000},       {16384, 65535, 1 << 20},
        {65535, 65536, 4 << 20}, {100000, 131072, 4 << 20},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct pair *p = pair_new();
        struct feed sent = {.total = cases[i].total, .seed = 3};
        struct feed got = {.seed = 3};
        struct feed back = {.total = cases[i].total, .seed = 4};
        struct feed got_back = {.seed = 4};
        struct tun *c;

        p->config.stream_window = p->cconfig.stream_window = cases[i].stream;
        p->config.connection_window = p->cconfig.connection_window = cases[i].connection;
        p->config.max_frame = p->cconfig.max_frame = 16384;
        (void)pair_open(p);
        c = pair_tunnel(p);
        transfer(p, c, &p->s[0], &sent, &got, SIZE_MAX);
        transfer(p, &p->s[0], c, &back, &got_back, SIZE_MAX);
        pair_done(p);
    }
}

/* The peer may send 64 KiB before it knows our smaller window. */
static void a_small_window_survives_bytes_sent_before_it_was_known(void **state)
{
    struct pair *p = pair_new();
    struct feed sent = {.total = 60000, .seed = 3};
    struct feed got = {.seed = 3};
    struct tun *c;

    (void)state;
    p->config.stream_window = 1000;
    p->config.max_frame = 16384;
    p->answer = 1;
    (void)pair_open(p);
    c = pair_request(p);
    RUN_UNTIL(p->loop, p->ns == 1);
    p->answer = 0;
    tun_accept(&p->s[0]);
    RUN_UNTIL(p->loop, c->status == 200);
    transfer(p, c, &p->s[0], &sent, &got, SIZE_MAX);
    pair_done(p);
}

static size_t push(struct pair *p, struct tun *from, struct feed *sent)
{
    size_t before = 0;

    for (int i = 0, same = 0; same < 20 && i < 20000; i++) {
        feed_write(sent, from->app);
        sw_loop_turn(p->loop, 0);
        same = sent->at == before ? same + 1 : 0;
        before = sent->at;
    }
    return sent->at;
}

static void a_reader_that_stops_stops_its_writer_and_resumes(void **state)
{
    struct pair *p = pair_start();
    struct feed sent = {.total = 64 << 20, .seed = 5};
    struct feed got = {.seed = 5};
    struct tun *c = pair_tunnel(p);
    size_t stuck;

    (void)state;
    stuck = push(p, c, &sent);
    assert_true(stuck < 12 << 20); /* window, frame and socket buffers */
    assert_true(held(&p->s[0]) <= 5 << 20);
    sent.total = 24 << 20;
    transfer(p, c, &p->s[0], &sent, &got, 3000);
    assert_int_equal(held(&p->s[0]), 0);
    pair_done(p);
}

/* Six withhold more than half of the connection's window: what is left is still given back. */
static void slow_readers_do_not_stop_the_others(void **state)
{
    enum { SLOW = 6 };
    struct pair *p = pair_start();
    struct tun *slow[SLOW];
    struct feed stuck[SLOW];

    (void)state;
    for (unsigned i = 0; i < SLOW; i++) {
        slow[i] = pair_tunnel(p);
        stuck[i] = (struct feed){.total = 64 << 20, .seed = i};
        (void)push(p, slow[i], &stuck[i]);
    }
    for (unsigned i = 0; i < 3; i++) {
        struct feed sent = {.total = 32 << 20, .seed = 40 + i};
        struct feed got = {.seed = 40 + i};
        struct tun *c = pair_tunnel(p);

        transfer(p, c, &p->s[p->ns - 1], &sent, &got, SIZE_MAX);
    }
    assert_false(sw_session_stalled(p->client));
    /* And the slow ones have lost nothing. */
    for (unsigned i = 0; i < SLOW; i++) {
        struct feed got = {.seed = i};

        stuck[i].total = stuck[i].at + 100000;
        transfer(p, slow[i], &p->s[i], &stuck[i], &got, SIZE_MAX);
    }
    pair_done(p);
}

/* The bound: beyond it either end can tell that one more tunnel would only wait. */
static void a_window_that_is_used_up_shows(void **state)
{
    (void)state;
    for (int from_server = 0; from_server < 2; from_server++) {
        struct pair *p = pair_start();
        struct tun *c[9];
        struct feed stuck;

        assert_false(sw_session_stalled(p->client));
        for (unsigned i = 0; i < 9; i++) {
            c[i] = pair_tunnel(p);
            stuck = (struct feed){.total = 64 << 20, .seed = i};
            (void)push(p, from_server ? &p->s[i] : c[i], &stuck);
        }
        assert_true(sw_session_stalled(p->client));
        assert_true(sw_session_stalled(p->server));
        for (unsigned i = 0; i < 9; i++)
            sw_tstream_abort(&c[i]->stream, SW_H2_CONNECT_ERROR);
        rig_settle(p->loop);
        assert_false(sw_session_stalled(p->client));
        pair_done(p);
    }
}

/* Credit that was held back for stuck streams returns when they are given up. */
static void credit_of_abandoned_streams_returns(void **state)
{
    struct pair *p = pair_start();

    (void)state;
    for (unsigned round = 0; round < 3; round++) {
        struct tun *c[8];
        struct feed f[8];
        size_t first = p->ns;
        struct feed sent = {.total = 20 << 20, .seed = 60};
        struct feed got = {.seed = 60};
        struct tun *fresh;

        for (unsigned i = 0; i < 8; i++) {
            c[i] = pair_tunnel(p);
            f[i] = (struct feed){.total = 64 << 20, .seed = i};
        }
        for (unsigned i = 0; i < 8; i++)
            (void)push(p, c[i], &f[i]);
        for (unsigned i = 0; i < 8; i++) {
            if (round % 2)
                sw_tstream_abort(&c[i]->stream, SW_H2_CONNECT_ERROR);
            else
                sw_tstream_abort(&p->s[first + i].stream, SW_H2_CONNECT_ERROR);
        }
        rig_settle(p->loop);
        assert_int_equal(sw_session_streams(p->server), 0);
        fresh = pair_tunnel(p);
        transfer(p, fresh, &p->s[p->ns - 1], &sent, &got, SIZE_MAX);
        sw_tstream_abort(&fresh->stream, SW_H2_CANCEL);
        rig_settle(p->loop);
    }
    pair_done(p);
}

/* Received bytes wait in the stream until the server has its local connection. */
static void bytes_before_the_answer_are_kept(void **state)
{
    struct pair *p = pair_start();
    struct feed got = {.seed = 7};
    struct tun *c;

    (void)state;
    p->answer = 1;
    c = pair_request(p);
    /* A client that does not wait for the answer. */
    {
        struct feed sent = {.total = 1 << 20, .seed = 7};

        tun_relay(c);
        for (int i = 0; i < 2000; i++) {
            feed_write(&sent, c->app);
            sw_loop_turn(p->loop, 0);
        }
        assert_int_equal(sent.at, sent.total);
        sw_sock_shutdown_write(c->app);
        rig_settle(p->loop);
    }
    assert_int_equal(p->ns, 1);
    assert_int_equal(held(&p->s[0]), 1 << 20);
    sw_tstream_accept(&p->s[0].stream, NULL, 0);
    tun_relay(&p->s[0]);
    for (int i = 0; i < 5000 && got.at < 1 << 20; i++) {
        (void)feed_read(&got, p->s[0].app, SIZE_MAX);
        sw_loop_turn(p->loop, 0);
    }
    assert_int_equal(got.at, 1 << 20);
    assert_int_equal(read_end(p->loop, p->s[0].app), SW_EOF);
    sw_sock_close(c->app);
    c->app = -1;
    pair_done(p);
}

/* Everything arrived and the peer is gone: a slow reader still gets all of it. */
static void a_finished_stream_outlives_its_session(void **state)
{
    struct pair *p = pair_start();
    struct tun *c = pair_tunnel(p);
    struct tun *s = &p->s[0];
    struct feed sent = {.total = 3 << 20, .seed = 8};
    struct feed got = {.seed = 8};
    ssize_t n = 0;

    (void)state;
    sw_sock_shutdown_write(c->app); /* our side is done */
    assert_int_equal(read_end(p->loop, s->app), SW_EOF);
    (void)push(p, s, &sent);
    assert_int_equal(sent.at, sent.total);
    sw_sock_close(s->app);
    s->app = -1;
    RUN_UNTIL(p->loop, s->done);
    assert_true(held(c) > 0);
    sw_session_drain(p->server); /* it has no streams any more, so it goes */
    RUN_UNTIL(p->loop, p->server_closed);
    rig_settle(p->loop);
    assert_int_equal(c->done, 0);
    assert_int_equal(p->client_closed, 0);
    for (int i = 0; i < 100000 && n != SW_EOF; i++) {
        n = feed_read(&got, c->app, 10000);
        assert_true(n > 0 || n == SW_EAGAIN || n == SW_EOF);
        sw_loop_turn(p->loop, 0);
    }
    assert_int_equal(got.at, sent.total);
    assert_int_equal(c->rc, SW_OK);
    RUN_UNTIL(p->loop, p->client_closed);
    pair_done(p);
}

static void such_a_stream_ends_when_the_session_is_closed_by_us(void **state)
{
    struct pair *p = pair_start();
    struct tun *c = pair_tunnel(p);
    struct tun *s = &p->s[0];
    struct feed sent = {.total = 3 << 20, .seed = 8};

    (void)state;
    sw_sock_shutdown_write(c->app);
    assert_int_equal(read_end(p->loop, s->app), SW_EOF);
    (void)push(p, s, &sent);
    sw_sock_close(s->app);
    s->app = -1;
    RUN_UNTIL(p->loop, s->done);
    sw_session_close(p->server, SW_OK, NULL);
    rig_settle(p->loop);
    assert_int_equal(c->done, 0);
    assert_non_null(p->client);
    sw_session_close(p->client, SW_ETIME, NULL);
    assert_int_equal(c->done, 1);
    RUN_UNTIL(p->loop, p->client_closed);
    pair_done(p);
}

/* The carrier's reader stops: writers wait, memory stays bounded, all goes on afterwards. */
static void a_carrier_that_does_not_drain_holds_back_its_writers(void **state)
{
    struct pair *p = pair_new();
    struct feed sent = {.total = 64 << 20, .seed = 11};
    int fds[2];
    int relay[2];
    static char buf[1 << 20];
    struct tun *c;
    size_t before = 0;

    (void)state;
    unix_pair(fds);
    unix_pair(relay);
    p->cconfig.ping_interval_ns = 0;
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
    for (int i = 0, same = 0; same < 20; i++) {
        feed_write(&sent, c->app);
        sw_loop_turn(p->loop, 0);
        same = sent.at == before ? same + 1 : 0;
        before = sent.at;
    }
    assert_true(sent.at < 4 << 20);
    sw_session_drain(p->client); /* cannot say goodbye yet */
    rig_settle(p->loop);
    assert_int_equal(p->client_closed, 0);
    sw_sock_close(fds[1]);
    sw_sock_close(relay[0]);
    RUN_UNTIL(p->loop, p->client_closed && p->server_closed);
    pair_done(p);
}

/* More frames at once than one batch has room for. */
static void a_burst_of_requests_and_answers_passes(void **state)
{
    struct pair *p = pair_new();
    static char long_value[3000];
    struct sw_h2_header f[] = {
        {SW_SLICE_LIT(":method"), SW_SLICE_LIT("CONNECT")},
        {SW_SLICE_LIT(":authority"), SW_SLICE_LIT("10.0.0.1:80")},
        {SW_SLICE_LIT("baggage"), {long_value, sizeof(long_value)}},
    };

    (void)state;
    memset(long_value, 'x', sizeof(long_value));
    (void)pair_open(p);
    rig_settle(p->loop);
    for (int i = 0; i < 200; i++) {
        struct tun *x = &p->c[p->nc++];

        /* Different values, so that header compression does not make them small. */
        memset(long_value, 'a' + i % 26, (size_t)i + 1);
        *x = (struct tun){.app = -1};
        assert_int_equal(
            sw_tstream_open(p->client, &x->stream, &tun_ops, f, SW_ARRAY_LEN(f), &x->err), SW_OK);
    }
    RUN_UNTIL(p->loop, p->c[199].status);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(p->c[i].status, 200);
        put(p->c[i].app, "x");
    }
    for (int i = 0; i < 200; i++)
        expect(p->loop, p->s[i].app, "x");
    pair_done(p);
}

/* Many streams with small messages and a bulk stream beside them. */
static void small_streams_live_beside_bulk(void **state)
{
    struct pair *p = pair_start();
    struct tun *c[20];
    struct feed sent[20] = {0};
    struct feed got[20] = {0};
    size_t first = p->ns;

    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        c[i] = pair_tunnel(p);
        sent[i].seed = got[i].seed = i;
    }
    for (int round = 0; round < 300; round++) {
        for (unsigned i = 0; i < 20; i++) {
            sent[i].total += i == 0 ? 200000 : 1 + (size_t)round * 7 % 1500;
            feed_write(&sent[i], c[i]->app);
        }
        sw_loop_turn(p->loop, 0);
        for (unsigned i = 0; i < 20; i++)
            (void)feed_read(&got[i], p->s[first + i].app, SIZE_MAX);
    }
    for (unsigned i = 0; i < 20; i++)
        transfer(p, c[i], &p->s[first + i], &sent[i], &got[i], SIZE_MAX);
    pair_done(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bulk_arrives_whole_over_tcp),
        cmocka_unit_test(bulk_arrives_whole_over_a_unix_pair),
        cmocka_unit_test(windows_of_any_size_work),
        cmocka_unit_test(a_small_window_survives_bytes_sent_before_it_was_known),
        cmocka_unit_test(a_reader_that_stops_stops_its_writer_and_resumes),
        cmocka_unit_test(slow_readers_do_not_stop_the_others),
        cmocka_unit_test(a_window_that_is_used_up_shows),
        cmocka_unit_test(credit_of_abandoned_streams_returns),
        cmocka_unit_test(bytes_before_the_answer_are_kept),
        cmocka_unit_test(a_finished_stream_outlives_its_session),
        cmocka_unit_test(such_a_stream_ends_when_the_session_is_closed_by_us),
        cmocka_unit_test(a_carrier_that_does_not_drain_holds_back_its_writers),
        cmocka_unit_test(a_burst_of_requests_and_answers_passes),
        cmocka_unit_test(small_streams_live_beside_bulk),
    };

    return cmocka_run_group_tests_name("flow", tests, NULL, NULL);
}
