/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to one host over HTTP/1.1: reuse, limits, ages, and the ends they meet. */
#include "gw_up.h"

#define OK "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"

/* The request with this number arrives at fd. */
static const char *hear_request(int fd, unsigned i)
{
    const char *text = gw_hear(up.worker.loop, fd, "\r\n\r\n");
    char path[16];

    (void)snprintf(path, sizeof(path), " /%u HTTP/1.1\r\n", i);
    assert_non_null(strstr(text, path));
    return text;
}

static void expect_ok(struct up_req *r)
{
    GW_UNTIL(up.worker.loop, !r->x);
    assert_int_equal(r->status, 200);
    assert_int_equal(r->n_body, 2);
    assert_memory_equal(r->body, "ok", 2);
    assert_true(r->ended);
    assert_false(r->aborted);
}

static void answer_ok(int fd, struct up_req *r)
{
    gw_say(fd, OK);
    expect_ok(r);
}

/* A whole request over a new connection, which is idle afterwards. */
static int one_idle(void)
{
    struct up_req *r = up_start(0, "GET", true);
    int fd = gw_accept(up.worker.loop, up.listener);

    (void)hear_request(fd, 0);
    answer_ok(fd, r);
    return fd;
}

static void a_connection_serves_one_request_after_the_other(void **state)
{
    int fd = one_idle();

    (void)state;
    for (unsigned i = 1; i < 4; i++) {
        struct up_req *r = up_start(i, "POST", true);

        assert_non_null(strstr(hear_request(fd, i), "content-length: 0\r\n"));
        answer_ok(fd, r);
    }
    gw_expect_no_conn(up.worker.loop, up.listener);
    assert_int_equal(up_cell()->cx, 1);
    sw_sock_close(fd);
}

/* Three at once need three; of those that are idle the last one used is first. */
static void the_one_used_last_is_used_first(void **state)
{
    struct up_req *r[3];
    int fd[3];
    unsigned at[3];

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        r[i] = up_start(i, "GET", true);
        assert_int_equal(up_pool()->n_dialling, i + 1);
    }
    for (unsigned i = 0; i < 3; i++) {
        const char *text;

        fd[i] = gw_accept(up.worker.loop, up.listener);
        text = gw_hear(up.worker.loop, fd[i], "\r\n\r\n");
        at[i] = (unsigned)(strchr(text, '/')[1] - '0');
    }
    assert_int_equal(up_cell()->cx, 3);
    answer_ok(fd[2], r[at[2]]);
    answer_ok(fd[0], r[at[0]]);
    answer_ok(fd[1], r[at[1]]);
    (void)up_start(3, "GET", true);
    (void)up_start(4, "GET", true);
    (void)up_start(5, "GET", true);
    (void)hear_request(fd[1], 3);
    (void)hear_request(fd[0], 4);
    (void)hear_request(fd[2], 5);
    for (unsigned i = 0; i < 3; i++)
        sw_sock_close(fd[i]);
}

static void connections_are_limited_and_requests_wait(void **state)
{
    struct up_req *r[3];
    int a;
    int b;

    (void)state;
    up.spec->limits.max_connections = 2;
    for (unsigned i = 0; i < 3; i++)
        r[i] = up_start(i, "GET", true);
    a = gw_accept(up.worker.loop, up.listener);
    b = gw_accept(up.worker.loop, up.listener);
    gw_expect_no_conn(up.worker.loop, up.listener);
    assert_int_equal(up_cell()->cx, 2);
    assert_int_equal(up_cell()->pending, 1);
    (void)hear_request(a, 0);
    (void)hear_request(b, 1);
    answer_ok(b, r[1]);
    (void)hear_request(b, 2);
    assert_int_equal(up_cell()->pending, 0);
    answer_ok(b, r[2]);
    answer_ok(a, r[0]);
    sw_sock_close(a);
    sw_sock_close(b);
}

/* A connection that goes makes room for the next one. */
static void a_request_that_waits_gets_the_place_of_a_connection_that_goes(void **state)
{
    struct up_req *r[2];
    int a;
    int b;

    (void)state;
    up.spec->limits.max_connections = 1;
    r[0] = up_start(0, "GET", true);
    r[1] = up_start(1, "GET", true);
    a = gw_accept(up.worker.loop, up.listener);
    (void)hear_request(a, 0);
    gw_say(a, "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok");
    expect_ok(r[0]);
    b = gw_accept(up.worker.loop, up.listener);
    assert_true(gw_is_closed(a));
    (void)hear_request(b, 1);
    answer_ok(b, r[1]);
    assert_int_equal(up_cell()->cx, 1);
    sw_sock_close(a);
    sw_sock_close(b);
}

static void the_queue_is_limited(void **state)
{
    struct up_req *r;
    int fd;

    (void)state;
    up.spec->limits.max_connections = 1;
    up.spec->limits.max_pending = 2;
    (void)up_start(0, "GET", true);
    fd = gw_accept(up.worker.loop, up.listener);
    (void)hear_request(fd, 0);
    (void)up_start(1, "GET", true);
    (void)up_start(2, "GET", true);
    assert_int_equal(up_cell()->pending, 2);
    r = up_start(3, "GET", true);
    assert_null(r->x);
    assert_int_equal(r->status, 503);
    assert_true(r->flags & SW_GW_FLAG_UO);
    assert_int_equal(up_cell()->overflow, 1);
    assert_int_equal(up_cell()->pending, 2);
    sw_sock_close(fd);
}

/* Its client left: its connection comes all the same and serves another. */
static void a_request_leaves_the_queue(void **state)
{
    struct up_req *r = up_start(0, "GET", true);
    int fd;

    (void)state;
    assert_int_equal(up_cell()->pending, 1);
    sw_exchange_kill(SW_TAKE(r->x));
    assert_int_equal(up_cell()->pending, 0);
    assert_int_equal(up_pool()->n_queue, 0);
    fd = gw_accept(up.worker.loop, up.listener);
    GW_UNTIL(up.worker.loop, up_pool()->n_dialling == 0);
    r = up_start(1, "GET", true);
    (void)hear_request(fd, 1);
    answer_ok(fd, r);
    sw_sock_close(fd);
}

static void idle_connections_are_closed_after_their_time(void **state)
{
    int fd;

    (void)state;
    up.spec->idle_timeout_ns = 12 * SW_NS_PER_S;
    fd = one_idle();
    gw_pass(up.worker.loop, 10 * SW_NS_PER_S); /* the sweep comes every 5 s */
    assert_int_equal(up_cell()->cx, 1);
    assert_false(gw_is_closed(fd));
    gw_pass(up.worker.loop, SW_NS_PER_S);
    assert_int_equal(up_cell()->cx, 1);
    gw_pass(up.worker.loop, 4 * SW_NS_PER_S);
    assert_int_equal(up_cell()->cx, 0);
    assert_true(gw_is_closed(fd));
    sw_sock_close(fd);
}

/* Use counts as a new beginning. */
static void a_connection_in_use_is_not_idle(void **state)
{
    struct up_req *r;
    int fd;

    (void)state;
    up.spec->idle_timeout_ns = 12 * SW_NS_PER_S;
    fd = one_idle();
    gw_pass(up.worker.loop, 9 * SW_NS_PER_S);
    r = up_start(1, "GET", true);
    (void)hear_request(fd, 1);
    answer_ok(fd, r);
    gw_pass(up.worker.loop, 11 * SW_NS_PER_S);
    assert_int_equal(up_cell()->cx, 1);
    gw_pass(up.worker.loop, 6 * SW_NS_PER_S);
    assert_int_equal(up_cell()->cx, 0);
    sw_sock_close(fd);
}

static void a_connection_beyond_its_age_takes_no_request(void **state)
{
    struct up_req *r;
    int fd;
    int next;

    (void)state;
    up.spec->max_connection_duration_ns = 30 * SW_NS_PER_S;
    fd = one_idle();
    gw_now_ns += 29 * SW_NS_PER_S;
    r = up_start(1, "GET", true);
    (void)hear_request(fd, 1);
    gw_now_ns += 2 * SW_NS_PER_S;
    gw_turns(up.worker.loop, 2);
    answer_ok(fd, r); /* begun in time: it is served, and the connection goes */
    GW_UNTIL(up.worker.loop, up_cell()->cx == 0);
    assert_true(gw_is_closed(fd));
    r = up_start(2, "GET", true);
    next = gw_accept(up.worker.loop, up.listener);
    (void)hear_request(next, 2);
    answer_ok(next, r);
    assert_int_equal(up_cell()->cx, 1);
    /* Idle beyond it: closed when it would be used, or by the sweep. */
    gw_now_ns += 31 * SW_NS_PER_S;
    sw_timer_stop(up.worker.loop, &up_pool()->sweep);
    gw_turns(up.worker.loop, 2);
    assert_false(gw_is_closed(next));
    (void)up_start(3, "GET", true);
    sw_sock_close(fd);
    fd = gw_accept(up.worker.loop, up.listener);
    (void)hear_request(fd, 3);
    assert_true(gw_is_closed(next));
    sw_sock_close(fd);
    sw_sock_close(next);
}

static void the_sweep_closes_idle_connections_beyond_their_age(void **state)
{
    int fd;

    (void)state;
    up.spec->idle_timeout_ns = 0;
    up.spec->max_connection_duration_ns = 8 * SW_NS_PER_S;
    fd = one_idle();
    gw_pass(up.worker.loop, 5 * SW_NS_PER_S);
    assert_int_equal(up_cell()->cx, 1);
    gw_pass(up.worker.loop, 5 * SW_NS_PER_S);
    assert_int_equal(up_cell()->cx, 0);
    assert_true(gw_is_closed(fd));
    sw_sock_close(fd);
}

static void a_connection_carries_no_more_requests_than_allowed(void **state)
{
    struct up_req *r;
    int fd;
    int next;

    (void)state;
    up.spec->max_requests_per_connection = 2;
    fd = one_idle();
    r = up_start(1, "GET", true);
    (void)hear_request(fd, 1);
    answer_ok(fd, r);
    GW_UNTIL(up.worker.loop, up_cell()->cx == 0);
    assert_true(gw_is_closed(fd));
    (void)up_start(2, "GET", true);
    next = gw_accept(up.worker.loop, up.listener);
    (void)hear_request(next, 2);
    sw_sock_close(fd);
    sw_sock_close(next);
}

/* The host leaves the configuration: idle ones go at once, others when they are done. */
static void a_released_pool_drains(void **state)
{
    struct up_req *r[2];
    int fd[2];

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        r[i] = up_start(i, "GET", true);
        fd[i] = gw_accept(up.worker.loop, up.listener);
        (void)hear_request(fd[i], i);
    }
    answer_ok(fd[0], r[0]);
    sw_gw_hosts_free(up.worker.hosts); /* the exchange holds its host */
    up.worker.hosts = sw_gw_hosts_new(&up.worker);
    assert_true(up_pool()->released);
    gw_turns(up.worker.loop, 4);
    assert_true(gw_is_closed(fd[0]));
    assert_false(gw_is_closed(fd[1]));
    assert_int_equal(up_cell()->cx, 1);
    answer_ok(fd[1], r[1]);
    GW_UNTIL(up.worker.loop, up_cell()->cx == 0);
    assert_true(gw_is_closed(fd[1]));
    assert_true(sw_list_empty(&up.worker.pools));
    sw_sock_close(fd[0]);
    sw_sock_close(fd[1]);
}

/* ---- ends ---- */

static void an_idle_connection_that_the_server_closes_is_forgotten(void **state)
{
    int fd = one_idle();
    int next;

    (void)state;
    sw_sock_close(fd);
    GW_UNTIL(up.worker.loop, up_cell()->cx == 0);
    (void)up_start(1, "POST", true);
    next = gw_accept(up.worker.loop, up.listener);
    (void)hear_request(next, 1);
    sw_sock_close(next);
}

/* The loop has not seen it yet: a request that may be sent once only is not sent there. */
static void a_post_is_not_sent_where_the_server_has_closed(void **state)
{
    int fd = one_idle();
    struct up_req *r;
    int next;

    (void)state;
    sw_sock_close(fd);
    r = up_start(1, "POST", true);
    next = gw_accept(up.worker.loop, up.listener);
    (void)hear_request(next, 1);
    answer_ok(next, r);
    assert_int_equal(r->attempts, 1);
    sw_sock_close(next);
}

/* Nobody asked: they would be taken for the next answer. */
static void bytes_without_a_request_end_the_connection(void **state)
{
    int fd = one_idle();

    (void)state;
    gw_say(fd, OK);
    GW_UNTIL(up.worker.loop, up_cell()->cx == 0);
    assert_true(gw_is_closed(fd));
    sw_sock_close(fd);
    fd = one_idle();
    gw_say(fd, "x"); /* not seen by the loop yet */
    (void)up_start(1, "POST", true);
    sw_sock_close(gw_accept(up.worker.loop, up.listener));
    sw_sock_close(fd);
}

static void bytes_behind_an_answer_end_the_connection(void **state)
{
    struct up_req *r = up_start(0, "GET", true);
    int fd = gw_accept(up.worker.loop, up.listener);

    (void)state;
    (void)hear_request(fd, 0);
    gw_say(fd, OK "HTTP/1.1 200 OK\r\n");
    expect_ok(r);
    GW_UNTIL(up.worker.loop, up_cell()->cx == 0);
    sw_sock_close(fd);
}

/* It was reused and ended before a byte of the answer: a GET is sent again, once. */
static void a_get_on_a_stale_connection_is_repeated_on_a_new_one(void **state)
{
    int fd = one_idle();
    struct up_req *r = up_start(1, "GET", true);
    int next;

    (void)state;
    (void)hear_request(fd, 1);
    sw_sock_close(fd);
    up_repeat(r);
    next = gw_accept(up.worker.loop, up.listener);
    (void)hear_request(next, 1);
    sw_sock_close(next);
    GW_UNTIL(up.worker.loop, !r->x);
    assert_int_equal(r->status, 503);
    assert_true(r->flags & SW_GW_FLAG_UC);
    gw_expect_no_conn(up.worker.loop, up.listener);
}

static void a_post_that_was_written_is_not_repeated(void **state)
{
    int fd = one_idle();
    struct up_req *r = up_start(1, "POST", true);

    (void)state;
    (void)hear_request(fd, 1);
    sw_sock_close(fd);
    GW_UNTIL(up.worker.loop, !r->x);
    assert_int_equal(r->status, 503);
    gw_expect_no_conn(up.worker.loop, up.listener);
}

/* The repeated request does not go to another idle connection, which may have ended alike. */
static void a_repeated_request_gets_a_new_connection(void **state)
{
    struct up_req *r[2];
    int fd[2];
    int next;

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        r[i] = up_start(i, "GET", true);
        fd[i] = gw_accept(up.worker.loop, up.listener);
        (void)hear_request(fd[i], i);
    }
    answer_ok(fd[0], r[0]);
    answer_ok(fd[1], r[1]);
    r[0] = up_start(2, "GET", true);
    (void)hear_request(fd[1], 2);
    sw_sock_close(fd[1]);
    up_repeat(r[0]);
    next = gw_accept(up.worker.loop, up.listener);
    (void)hear_request(next, 2);
    answer_ok(next, r[0]);
    sw_sock_close(fd[0]);
    sw_sock_close(next);
}

static void an_answer_that_ends_the_connection_ends_it(void **state)
{
    static const char *const answers[] = {
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(answers); i++) {
        struct up_req *r = up_start(0, "GET", true);
        int fd = gw_accept(up.worker.loop, up.listener);

        (void)hear_request(fd, 0);
        gw_say(fd, answers[i]);
        expect_ok(r);
        GW_UNTIL(up.worker.loop, up_cell()->cx == 0);
        assert_true(gw_is_closed(fd));
        sw_sock_close(fd);
    }
}

/* Without a length the end of the connection is that of the answer. */
static void an_answer_until_the_end_is_complete(void **state)
{
    struct up_req *r = up_start(0, "GET", true);
    int fd = gw_accept(up.worker.loop, up.listener);

    (void)state;
    (void)hear_request(fd, 0);
    gw_say(fd, "HTTP/1.1 200 OK\r\n\r\no");
    GW_UNTIL(up.worker.loop, r->n_body == 1);
    assert_false(r->ended);
    gw_say(fd, "k");
    sw_sock_close(fd);
    expect_ok(r);
}

static void an_answer_cut_short_is_not_passed_as_complete(void **state)
{
    struct up_req *r = up_start(0, "GET", true);
    int fd = gw_accept(up.worker.loop, up.listener);

    (void)state;
    (void)hear_request(fd, 0);
    gw_say(fd, "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok");
    GW_UNTIL(up.worker.loop, r->n_body == 2);
    sw_sock_close(fd);
    GW_UNTIL(up.worker.loop, !r->x);
    assert_true(r->aborted);
    assert_false(r->ended);
}

static void a_server_that_breaks_the_protocol_is_a_bad_gateway(void **state)
{
    static const char *const answers[] = {
        "ICY 200 OK\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok",
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(answers); i++) {
        struct up_req *r = up_start(0, "GET", true);
        int fd = gw_accept(up.worker.loop, up.listener);

        (void)hear_request(fd, 0);
        gw_say(fd, answers[i]);
        GW_UNTIL(up.worker.loop, !r->x);
        assert_int_equal(r->status, 502);
        assert_true(r->flags & SW_GW_FLAG_UPE);
        GW_UNTIL(up.worker.loop, up_cell()->cx == 0);
        sw_sock_close(fd);
    }
}

/* 413 while the body is on its way: passed on, and the connection is not used again. */
static void a_server_may_refuse_before_the_body_ends(void **state)
{
    struct up_req *r = up_start(0, "POST", false);
    int fd = gw_accept(up.worker.loop, up.listener);
    const char *text;

    (void)state;
    sw_exchange_down_data(r->x, SW_SLICE_LIT("half"));
    text = gw_hear(up.worker.loop, fd, "half\r\n");
    assert_non_null(strstr(text, "transfer-encoding: chunked\r\n"));
    gw_say(fd, "HTTP/1.1 413 Content Too Large\r\ncontent-length: 2\r\n\r\nno");
    GW_UNTIL(up.worker.loop, r->ended);
    assert_int_equal(r->status, 413);
    assert_false(r->aborted);
    GW_UNTIL(up.worker.loop, up_cell()->cx == 0);
    (void)up_start(1, "GET", true);
    sw_sock_close(fd);
    fd = gw_accept(up.worker.loop, up.listener);
    (void)hear_request(fd, 1);
    sw_sock_close(fd);
}

/* The write takes the error from the socket: what follows the bytes that came looks like an end. */
static void a_reset_that_a_write_meets_is_no_end(void **state)
{
    static char body[8192];
    struct up_req *r = up_start(0, "POST", false);
    int fd = gw_accept(up.worker.loop, up.listener);

    (void)state;
    sw_exchange_down_data(r->x, SW_SLICE_LIT("half"));
    (void)gw_hear(up.worker.loop, fd, "half\r\n");
    gw_say(fd, "HTTP/1.1 200 OK\r\n\r\nok");
    GW_UNTIL(up.worker.loop, r->n_body == 2);
    sw_sock_set_reset(fd);
    sw_sock_close(fd);
    sw_exchange_down_data(r->x, sw_slice(body, sizeof(body) - 1));
    GW_UNTIL(up.worker.loop, !r->x);
    assert_true(r->aborted);
    assert_string_equal(r->failure, "connection was reset");
}

/* max_stream_duration of the cluster: before the head a 504, behind it the answer is cut. */
static void an_attempt_lasts_no_longer_than_the_cluster_allows(void **state)
{
    struct up_req *r;
    int fd;

    (void)state;
    up.spec->max_stream_ns = 10 * SW_NS_PER_S;
    r = up_start(0, "GET", true);
    fd = gw_accept(up.worker.loop, up.listener);
    (void)gw_hear(up.worker.loop, fd, "\r\n\r\n");
    gw_pass(up.worker.loop, 9 * SW_NS_PER_S);
    assert_non_null(r->x);
    gw_pass(up.worker.loop, SW_NS_PER_S);
    assert_null(r->x);
    assert_int_equal(r->status, 504);
    assert_true(r->flags & SW_GW_FLAG_UT);
    assert_true(gw_is_closed(fd));
    sw_sock_close(fd);
    r = up_start(1, "GET", true);
    fd = gw_accept(up.worker.loop, up.listener);
    (void)gw_hear(up.worker.loop, fd, "\r\n\r\n");
    gw_say(fd, "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\npart");
    GW_UNTIL(up.worker.loop, r->n_body == 4);
    gw_pass(up.worker.loop, 10 * SW_NS_PER_S);
    assert_null(r->x);
    assert_true(r->aborted);
    sw_sock_close(fd);
}

static void interim_answers_do_not_end_the_wait(void **state)
{
    struct up_req *r = up_start(0, "GET", true);
    int fd = gw_accept(up.worker.loop, up.listener);

    (void)state;
    (void)hear_request(fd, 0);
    gw_say(fd, "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n");
    gw_turns(up.worker.loop, 4);
    assert_int_equal(r->status, 0);
    answer_ok(fd, r);
    sw_sock_close(fd);
}

static void nobody_listens(void **state)
{
    struct up_req *r;

    (void)state;
    sw_sock_close(SW_TAKE_FD(up.listener));
    r = up_start(0, "GET", true);
    GW_UNTIL(up.worker.loop, !r->x);
    assert_int_equal(r->status, 503);
    assert_true(r->flags & SW_GW_FLAG_UF);
    assert_int_equal(up_cell()->cx_fail, 1);
    assert_int_equal(up_cell()->pending, 0);
    GW_UNTIL(up.worker.loop, up_cell()->cx == 0);
}

#define POOL_TEST(f) cmocka_unit_test_setup_teardown(f, up_set_up, up_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        POOL_TEST(a_connection_serves_one_request_after_the_other),
        POOL_TEST(the_one_used_last_is_used_first),
        POOL_TEST(connections_are_limited_and_requests_wait),
        POOL_TEST(a_request_that_waits_gets_the_place_of_a_connection_that_goes),
        POOL_TEST(the_queue_is_limited),
        POOL_TEST(a_request_leaves_the_queue),
        POOL_TEST(idle_connections_are_closed_after_their_time),
        POOL_TEST(a_connection_in_use_is_not_idle),
        POOL_TEST(a_connection_beyond_its_age_takes_no_request),
        POOL_TEST(the_sweep_closes_idle_connections_beyond_their_age),
        POOL_TEST(a_connection_carries_no_more_requests_than_allowed),
        POOL_TEST(a_released_pool_drains),
        POOL_TEST(an_idle_connection_that_the_server_closes_is_forgotten),
        POOL_TEST(a_post_is_not_sent_where_the_server_has_closed),
        POOL_TEST(bytes_without_a_request_end_the_connection),
        POOL_TEST(bytes_behind_an_answer_end_the_connection),
        POOL_TEST(a_get_on_a_stale_connection_is_repeated_on_a_new_one),
        POOL_TEST(a_post_that_was_written_is_not_repeated),
        POOL_TEST(a_repeated_request_gets_a_new_connection),
        POOL_TEST(an_answer_that_ends_the_connection_ends_it),
        POOL_TEST(an_answer_until_the_end_is_complete),
        POOL_TEST(an_answer_cut_short_is_not_passed_as_complete),
        POOL_TEST(a_server_that_breaks_the_protocol_is_a_bad_gateway),
        POOL_TEST(a_server_may_refuse_before_the_body_ends),
        POOL_TEST(a_reset_that_a_write_meets_is_no_end),
        POOL_TEST(an_attempt_lasts_no_longer_than_the_cluster_allows),
        POOL_TEST(interim_answers_do_not_end_the_wait),
        POOL_TEST(nobody_listens),
    };

    return cmocka_run_group_tests_name("gw_pool", tests, NULL, NULL);
}
