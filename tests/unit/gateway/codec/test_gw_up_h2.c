/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2 toward an upstream: streams of one connection, its limits, GOAWAY, refusals, its ends. */
#include "gw_up.h"

#include "http/h2.h"

static int h2_set_up(void **state)
{
    int rc = up_set_up(state);

    up.spec->protocol = SW_GW_UP_H2;
    return rc;
}

static void serve(struct gw_h2peer *p)
{
    gw_h2_serve(p, up.worker.loop, gw_accept(up.worker.loop, up.listener));
}

/* The next frame is the head of a request on this stream. */
static void hear_head(struct gw_h2peer *p, uint32_t id)
{
    struct gw_frame f;

    gw_expect_frame(p, GW_HEADERS, id, &f);
}

static void expect(struct up_req *r, int status)
{
    GW_UNTIL(up.worker.loop, !r->x);
    assert_int_equal(r->status, status);
    assert_true(r->ended);
}

static void close_peer(struct gw_h2peer *p)
{
    sw_sock_close(p->fd);
}

/* Three at once, before anything is connected: one dial, three streams. */
static void one_connection_carries_all(void **state)
{
    struct gw_h2peer p;
    struct up_req *r[3];

    (void)state;
    for (unsigned i = 0; i < 3; i++)
        r[i] = up_start(i, "GET", true);
    assert_int_equal(up_pool()->n_dialling, 1);
    assert_int_equal(up_cell()->pending, 3);
    serve(&p);
    for (unsigned i = 0; i < 3; i++)
        hear_head(&p, 2 * i + 1);
    assert_int_equal(up_cell()->pending, 0);
    for (unsigned i = 3; i-- > 0;)
        gw_h2_answer(p.fd, 2 * i + 1, "204", true);
    for (unsigned i = 0; i < 3; i++)
        expect(r[i], 204);
    r[0] = up_start(3, "GET", true);
    hear_head(&p, 7);
    gw_h2_answer(p.fd, 7, "204", true);
    expect(r[0], 204);
    gw_expect_no_conn(up.worker.loop, up.listener);
    assert_int_equal(up_cell()->cx, 1);
    close_peer(&p);
}

/* What the server allows, where it allows less than the cluster. */
static void the_peers_limit_of_streams_holds(void **state)
{
    struct gw_h2peer p;
    struct up_req *r[3];

    (void)state;
    up.spec->limits.max_connections = 1;
    r[0] = up_start(0, "GET", true);
    p = (struct gw_h2peer){.loop = up.worker.loop, .fd = gw_accept(up.worker.loop, up.listener)};
    gw_settings(p.fd, 3, 1); /* MAX_CONCURRENT_STREAMS */
    hear_head(&p, 1);
    r[1] = up_start(1, "GET", true);
    r[2] = up_start(2, "GET", true);
    gw_expect_no_frame(&p);
    assert_int_equal(up_cell()->pending, 2);
    gw_h2_answer(p.fd, 1, "204", true);
    expect(r[0], 204);
    hear_head(&p, 3);
    gw_expect_no_frame(&p);
    gw_settings(p.fd, 3, 2); /* it may change its mind */
    hear_head(&p, 5);
    gw_h2_answer(p.fd, 3, "204", true);
    gw_h2_answer(p.fd, 5, "204", true);
    expect(r[1], 204);
    expect(r[2], 204);
    close_peer(&p);
}

/* What the cluster allows; beyond it a second connection is made. */
static void the_clusters_limit_of_streams_makes_a_second_connection(void **state)
{
    struct gw_h2peer p[2];

    (void)state;
    up.spec->h2.max_streams = 2;
    (void)up_start(0, "GET", true);
    (void)up_start(1, "GET", true);
    (void)up_start(2, "GET", true);
    serve(&p[0]);
    hear_head(&p[0], 1);
    hear_head(&p[0], 3);
    serve(&p[1]); /* for the third, while the others last */
    hear_head(&p[1], 1);
    (void)up_start(3, "GET", true);
    hear_head(&p[1], 3);
    gw_expect_no_frame(&p[0]);
    assert_int_equal(up_cell()->cx, 2);
    close_peer(&p[0]);
    close_peer(&p[1]);
}

/* What the server did not take is sent again elsewhere, whatever it is; the rest is served. */
static void goaway_moves_what_was_not_taken(void **state)
{
    struct gw_h2peer p[2];
    struct up_req *r[2];

    (void)state;
    r[0] = up_start(0, "GET", true);
    r[1] = up_start(1, "POST", true);
    serve(&p[0]);
    hear_head(&p[0], 1);
    hear_head(&p[0], 3);
    gw_goaway(p[0].fd, 1, SW_H2_NO_ERROR);
    up_repeat(r[1]);
    serve(&p[1]);
    hear_head(&p[1], 1);
    gw_h2_answer(p[1].fd, 1, "201", true);
    expect(r[1], 201);
    assert_non_null(r[0]->x);
    assert_false(gw_is_closed(p[0].fd));
    gw_h2_answer(p[0].fd, 1, "204", true);
    expect(r[0], 204);
    GW_UNTIL(up.worker.loop, up_cell()->cx == 1); /* the last stream was its end */
    assert_true(gw_is_closed(p[0].fd));
    close_peer(&p[0]);
    close_peer(&p[1]);
}

static void no_new_streams_after_goaway(void **state)
{
    struct gw_h2peer p[2];

    (void)state;
    (void)up_start(0, "GET", true);
    serve(&p[0]);
    hear_head(&p[0], 1);
    gw_goaway(p[0].fd, 1, SW_H2_NO_ERROR);
    gw_turns(up.worker.loop, 6);
    (void)up_start(1, "GET", true);
    serve(&p[1]);
    hear_head(&p[1], 1);
    gw_expect_no_frame(&p[0]);
    close_peer(&p[0]);
    close_peer(&p[1]);
}

/* An idle connection that gets GOAWAY is closed. */
static void goaway_ends_an_idle_connection(void **state)
{
    struct gw_h2peer p;
    struct up_req *r = up_start(0, "GET", true);

    (void)state;
    serve(&p);
    hear_head(&p, 1);
    gw_h2_answer(p.fd, 1, "204", true);
    expect(r, 204);
    gw_goaway(p.fd, 1, SW_H2_NO_ERROR);
    GW_UNTIL(up.worker.loop, up_cell()->cx == 0);
    assert_true(gw_is_closed(p.fd));
    close_peer(&p);
}

/* REFUSED_STREAM: certainly not processed, so a POST goes again, once. */
static void a_refused_stream_is_repeated_once(void **state)
{
    struct gw_h2peer p;
    struct up_req *r = up_start(0, "POST", true);

    (void)state;
    serve(&p);
    hear_head(&p, 1);
    gw_rst(p.fd, 1, SW_H2_REFUSED_STREAM);
    up_repeat(r);
    hear_head(&p, 3);
    gw_rst(p.fd, 3, SW_H2_REFUSED_STREAM);
    expect(r, 503);
    assert_true(r->flags & SW_GW_FLAG_UR);
    gw_expect_no_frame(&p);
    assert_int_equal(up_cell()->cx, 1); /* the connection is as good as before */
    close_peer(&p);
}

static void a_stream_reset_otherwise_is_not_repeated(void **state)
{
    struct gw_h2peer p;
    struct up_req *r = up_start(0, "GET", true);

    (void)state;
    serve(&p);
    hear_head(&p, 1);
    gw_rst(p.fd, 1, SW_H2_INTERNAL_ERROR);
    expect(r, 503);
    assert_true(r->flags & SW_GW_FLAG_UC);
    gw_expect_no_frame(&p);
    r = up_start(1, "GET", true);
    hear_head(&p, 3);
    gw_h2_answer(p.fd, 3, "200", false);
    GW_UNTIL(up.worker.loop, r->status == 200);
    gw_rst(p.fd, 3, SW_H2_INTERNAL_ERROR);
    GW_UNTIL(up.worker.loop, !r->x);
    assert_true(r->aborted); /* its client is not told that this was all */
    assert_false(r->ended);
    close_peer(&p);
}

/* An answer while the body is on its way, then RST_STREAM(NO_ERROR): RFC 9113 8.1. */
static void a_server_may_refuse_before_the_body_ends(void **state)
{
    struct gw_h2peer p;
    struct gw_frame f;
    struct up_req *r = up_start(0, "POST", false);

    (void)state;
    sw_exchange_down_data(r->x, SW_SLICE_LIT("half"));
    serve(&p);
    hear_head(&p, 1);
    gw_expect_frame(&p, GW_DATA, 1, &f);
    assert_int_equal(f.n, 4);
    gw_h2_answer(p.fd, 1, "413", true);
    gw_rst(p.fd, 1, SW_H2_NO_ERROR);
    GW_UNTIL(up.worker.loop, r->ended);
    assert_int_equal(r->status, 413);
    assert_false(r->aborted);
    if (r->x)
        sw_exchange_kill(SW_TAKE(r->x));
    r = up_start(1, "GET", true);
    while (gw_try_frame(&p, &f, 200) && f.type != GW_HEADERS)
        assert_int_equal(f.type, GW_RST);
    assert_int_equal(f.id, 3);
    close_peer(&p);
}

/* A response whose end cannot be passed on is not complete. */
static void trailers_beyond_the_bound_cut_the_answer(void **state)
{
    struct gw_h2peer p;
    struct gw_frame f;
    struct up_req *r = up_start(0, "GET", true);

    (void)state;
    serve(&p);
    hear_head(&p, 1);
    gw_h2_answer(p.fd, 1, "200", false);
    gw_frame(p.fd, GW_DATA, 0, 1, "part", 4);
    gw_h2_trailers_too_many(p.fd, 1);
    GW_UNTIL(up.worker.loop, !r->x);
    assert_true(r->aborted);
    assert_false(r->ended);
    r = up_start(1, "GET", true);
    while (gw_try_frame(&p, &f, 200) && f.type != GW_HEADERS)
        assert_int_equal(f.type, GW_RST);
    assert_int_equal(f.id, 3); /* the connection is as good as before */
    close_peer(&p);
}

/* A client that leaves resets its stream; the others stay. */
static void a_client_that_leaves_resets_its_stream(void **state)
{
    struct gw_h2peer p;
    struct gw_frame f;
    struct up_req *r[2];

    (void)state;
    r[0] = up_start(0, "GET", true);
    r[1] = up_start(1, "GET", true);
    serve(&p);
    hear_head(&p, 1);
    hear_head(&p, 3);
    sw_exchange_kill(SW_TAKE(r[0]->x));
    gw_expect_frame(&p, GW_RST, 1, &f);
    assert_int_equal(f.p[3], SW_H2_CANCEL);
    gw_h2_answer(p.fd, 3, "204", true);
    expect(r[1], 204);
    close_peer(&p);
}

static void a_connection_beyond_its_age_takes_no_stream(void **state)
{
    struct gw_h2peer p[2];
    struct up_req *r[2];

    (void)state;
    up.spec->max_connection_duration_ns = 30 * SW_NS_PER_S;
    up.spec->h2.ping_interval_ns = 3600 * SW_NS_PER_S;
    r[0] = up_start(0, "GET", true);
    serve(&p[0]);
    hear_head(&p[0], 1);
    gw_pass(up.worker.loop, 30 * SW_NS_PER_S);
    r[1] = up_start(1, "GET", true);
    serve(&p[1]);
    hear_head(&p[1], 1);
    gw_expect_no_frame(&p[0]);
    gw_h2_answer(p[0].fd, 1, "204", true); /* what it has ends as it would */
    expect(r[0], 204);
    GW_UNTIL(up.worker.loop, gw_is_closed(p[0].fd));
    assert_int_equal(up_cell()->cx, 1);
    gw_h2_answer(p[1].fd, 1, "204", true);
    expect(r[1], 204);
    close_peer(&p[0]);
    close_peer(&p[1]);
}

static void idle_connections_are_closed_after_their_time(void **state)
{
    struct gw_h2peer p;
    struct up_req *r;

    (void)state;
    up.spec->idle_timeout_ns = 20 * SW_NS_PER_S;
    up.spec->h2.ping_interval_ns = 3600 * SW_NS_PER_S;
    r = up_start(0, "GET", true);
    serve(&p);
    hear_head(&p, 1);
    for (int i = 0; i < 6; i++)
        gw_pass(up.worker.loop, 5 * SW_NS_PER_S);
    assert_false(gw_is_closed(p.fd)); /* in use */
    gw_h2_answer(p.fd, 1, "204", true);
    expect(r, 204);
    for (int i = 0; i < 3; i++)
        gw_pass(up.worker.loop, 5 * SW_NS_PER_S);
    assert_false(gw_is_closed(p.fd));
    for (int i = 0; i < 2; i++)
        gw_pass(up.worker.loop, 5 * SW_NS_PER_S);
    GW_UNTIL(up.worker.loop, gw_is_closed(p.fd));
    assert_int_equal(up_cell()->cx, 0);
    close_peer(&p);
}

static void a_connection_carries_no_more_requests_than_allowed(void **state)
{
    struct gw_h2peer p[2];
    struct up_req *r[3];

    (void)state;
    up.spec->max_requests_per_connection = 2;
    for (unsigned i = 0; i < 3; i++)
        r[i] = up_start(i, "GET", true);
    serve(&p[0]);
    hear_head(&p[0], 1);
    hear_head(&p[0], 3);
    serve(&p[1]);
    hear_head(&p[1], 1);
    gw_h2_answer(p[0].fd, 1, "204", true);
    gw_h2_answer(p[0].fd, 3, "204", true);
    expect(r[0], 204);
    expect(r[1], 204);
    GW_UNTIL(up.worker.loop, gw_is_closed(p[0].fd));
    gw_h2_answer(p[1].fd, 1, "204", true);
    expect(r[2], 204);
    close_peer(&p[0]);
    close_peer(&p[1]);
}

/* Extended CONNECT answered with 403: the stream must not stay open for want of an end. */
static void a_refused_tunnel_leaves_no_stream(void **state)
{
    struct gw_h2peer p;
    struct gw_frame f;
    struct up_req *r = up_start_upgrade(0, SW_SLICE_LIT("websocket"));

    (void)state;
    serve(&p);
    hear_head(&p, 1);
    gw_h2_answer(p.fd, 1, "403", true);
    expect(r, 403);
    gw_expect_frame(&p, GW_RST, 1, &f);
    assert_int_equal(f.p[3], SW_H2_CANCEL);
    close_peer(&p);
}

/* use_downstream_protocol_config: each request in the protocol in which it came. */
static void requests_keep_their_protocol(void **state)
{
    struct gw_h2peer p;
    struct up_req *r[3];
    int h1;

    (void)state;
    up.spec->protocol = SW_GW_UP_DOWNSTREAM;
    r[0] = up_start(0, "GET", true);
    h1 = gw_accept(up.worker.loop, up.listener);
    assert_memory_equal(gw_hear(up.worker.loop, h1, "\r\n\r\n"), "GET /0 HTTP/1.1\r\n", 17);
    for (unsigned i = 1; i < 3; i++) {
        r[i] = up_prepare(i, "GET");
        r[i]->x->req.version = SW_GW_HTTP2;
        sw_exchange_start(r[i]->x, true);
    }
    serve(&p);
    hear_head(&p, 1);
    hear_head(&p, 3);
    gw_say(h1, "HTTP/1.1 204 No Content\r\n\r\n");
    expect(r[0], 204);
    gw_h2_answer(p.fd, 1, "204", true);
    gw_h2_answer(p.fd, 3, "204", true);
    expect(r[1], 204);
    expect(r[2], 204);
    r[0] = up_start(0, "GET", true);
    assert_memory_equal(gw_hear(up.worker.loop, h1, "\r\n\r\n"), "GET /0 HTTP/1.1\r\n", 17);
    gw_expect_no_conn(up.worker.loop, up.listener);
    sw_sock_close(h1);
    close_peer(&p);
}

static void a_released_pool_drains(void **state)
{
    struct gw_h2peer p;
    struct up_req *r = up_start(0, "GET", true);

    (void)state;
    serve(&p);
    hear_head(&p, 1);
    sw_gw_hosts_free(up.worker.hosts);
    up.worker.hosts = sw_gw_hosts_new(&up.worker);
    gw_turns(up.worker.loop, 4);
    assert_false(gw_is_closed(p.fd));
    gw_h2_answer(p.fd, 1, "204", true);
    expect(r, 204);
    GW_UNTIL(up.worker.loop, gw_is_closed(p.fd));
    assert_true(sw_list_empty(&up.worker.pools));
    close_peer(&p);
}

static void a_server_that_does_not_answer_pings_is_gone(void **state)
{
    struct gw_h2peer p;
    struct up_req *r = up_start(0, "GET", true);

    (void)state;
    up.spec->h2.ping_interval_ns = 10 * SW_NS_PER_S;
    up.spec->h2.ping_timeout_ns = 2 * SW_NS_PER_S;
    serve(&p);
    hear_head(&p, 1);
    gw_pass(up.worker.loop, 10 * SW_NS_PER_S);
    gw_expect_no_frame(&p); /* answers it */
    assert_int_equal(p.pings, 1);
    gw_pass(up.worker.loop, 2 * SW_NS_PER_S);
    assert_non_null(r->x);
    p.mute = true;
    gw_pass(up.worker.loop, 10 * SW_NS_PER_S);
    gw_expect_no_frame(&p);
    assert_int_equal(p.pings, 2);
    gw_pass(up.worker.loop, SW_NS_PER_S);
    assert_non_null(r->x);
    gw_pass(up.worker.loop, SW_NS_PER_S);
    expect(r, 503);
    assert_string_equal(r->failure, "upstream does not answer pings");
    assert_true(gw_is_closed(p.fd));
    close_peer(&p);
}

/* A connection that had served and broke: what had no answer yet is repeated where it may be. */
static void a_broken_connection_loses_its_streams(void **state)
{
    struct gw_h2peer p[2];
    struct up_req *r[3];

    (void)state;
    r[0] = up_start(0, "GET", true);
    serve(&p[0]);
    hear_head(&p[0], 1);
    gw_h2_answer(p[0].fd, 1, "204", true);
    expect(r[0], 204);
    r[0] = up_start(1, "GET", true);
    r[1] = up_start(2, "POST", true);
    r[2] = up_start(3, "GET", true);
    for (uint32_t id = 3; id <= 7; id += 2)
        hear_head(&p[0], id);
    gw_h2_answer(p[0].fd, 7, "200", false);
    GW_UNTIL(up.worker.loop, r[2]->status == 200);
    close_peer(&p[0]);
    up_repeat(r[0]);
    serve(&p[1]);
    hear_head(&p[1], 1);
    gw_h2_answer(p[1].fd, 1, "204", true);
    expect(r[0], 204);
    expect(r[1], 503);
    GW_UNTIL(up.worker.loop, !r[2]->x);
    assert_true(r[2]->aborted);
    gw_expect_no_frame(&p[1]);
    close_peer(&p[1]);
}

static void a_server_that_breaks_the_protocol_loses_its_connection(void **state)
{
    struct gw_h2peer p;
    struct up_req *r = up_start(0, "GET", true);

    (void)state;
    serve(&p);
    hear_head(&p, 1);
    gw_frame(p.fd, GW_DATA, 0, 0, "x", 1); /* data without a stream */
    expect(r, 503);
    GW_UNTIL(up.worker.loop, up_cell()->cx == 0);
    assert_true(gw_is_closed(p.fd));
    close_peer(&p);
}

/* All that waited for the one connection share its fate. */
static void all_that_wait_fail_with_the_dial(void **state)
{
    struct up_req *r[3];

    (void)state;
    sw_sock_close(SW_TAKE_FD(up.listener));
    for (unsigned i = 0; i < 3; i++)
        r[i] = up_start(i, "GET", true);
    for (unsigned i = 0; i < 3; i++) {
        expect(r[i], 503);
        assert_true(r[i]->flags & SW_GW_FLAG_UF);
    }
    assert_int_equal(up_cell()->cx_fail, 1);
}

#define H2_TEST(f) cmocka_unit_test_setup_teardown(f, h2_set_up, up_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        H2_TEST(one_connection_carries_all),
        H2_TEST(the_peers_limit_of_streams_holds),
        H2_TEST(the_clusters_limit_of_streams_makes_a_second_connection),
        H2_TEST(goaway_moves_what_was_not_taken),
        H2_TEST(no_new_streams_after_goaway),
        H2_TEST(goaway_ends_an_idle_connection),
        H2_TEST(a_refused_stream_is_repeated_once),
        H2_TEST(a_stream_reset_otherwise_is_not_repeated),
        H2_TEST(a_server_may_refuse_before_the_body_ends),
        H2_TEST(trailers_beyond_the_bound_cut_the_answer),
        H2_TEST(a_client_that_leaves_resets_its_stream),
        H2_TEST(a_connection_beyond_its_age_takes_no_stream),
        H2_TEST(idle_connections_are_closed_after_their_time),
        H2_TEST(a_connection_carries_no_more_requests_than_allowed),
        H2_TEST(a_refused_tunnel_leaves_no_stream),
        H2_TEST(requests_keep_their_protocol),
        H2_TEST(a_released_pool_drains),
        H2_TEST(a_server_that_does_not_answer_pings_is_gone),
        H2_TEST(a_broken_connection_loses_its_streams),
        H2_TEST(a_server_that_breaks_the_protocol_loses_its_connection),
        H2_TEST(all_that_wait_fail_with_the_dial),
    };

    return cmocka_run_group_tests_name("gw_up_h2", tests, NULL, NULL);
}
