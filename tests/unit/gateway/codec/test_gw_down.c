/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's connection, HTTP/1.1 and HTTP/2: keep-alive, its limits, drain and what is refused.
 * The client is the test, answers are made by the routing call below, the clock is fake.
 */
#include "gw_peer.h"

#include "base/mem.h"
#include "gateway/codec/down.h"
#include "gateway/config/config.h"
#include "gateway/conn/abuse.h"
#include "gateway/conn/worker.h"
#include "gateway/exchange/exchange.h"
#include "gateway/observe/stats.h"
#include "gateway/upstream/hosts.h"
#include "http/h2.h"
#include "telemetry/metrics.h"

enum { HELD_MAX = 8 };

#define LISTENER                                                                                   \
    "{'name':'l','address':{'socket_address':{'address':'127.0.0.1','port_value':8080}},"          \
    "'filter_chains':[{'filters':[{'name':'hcm','typed_config':{'@type':'type.googleapis.com/"     \
    "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager',"          \
    "'stat_prefix':'s','request_headers_timeout':'5s','drain_timeout':'2s',"                       \
    "'common_http_protocol_options':{'idle_timeout':'60s','max_requests_per_connection':3},"       \
    "'http_protocol_options':{'accept_http_10':true},"                                             \
    "'route_config':{'name':'r','virtual_hosts':[]},"                                              \
    "'http_filters':[{'name':'envoy.filters.http.router','typed_config':{'@type':"                 \
    "'type.googleapis.com/envoy.extensions.filters.http.router.v3.Router'}}]}}]}]}"

static struct {
    struct sw_loop *loop;
    struct sw_gw_store *store;
    struct sw_metrics *metrics;
    struct sw_gw_worker worker;
    struct sw_gw_view *view;
    bool hold; /* requests wait for answer() */
    struct sw_exchange *held[HELD_MAX];
    int n_held;
    int routed;
    int left;             /* exchanges that ended */
    int fd;               /* the client's end; -1: none */
    struct sw_slice body; /* of answers; none: the path */
} t;

static const char zeros[60000];

static int route(struct sw_exchange *x)
{
    t.routed++;
    if (t.hold) {
        assert_true(t.n_held < HELD_MAX);
        t.held[t.n_held++] = x;
        return SW_EPENDING;
    }
    sw_exchange_reply(x, 200, t.body.n ? t.body : x->req.path, NULL);
    return SW_GW_REPLIED;
}

static void nothing(struct sw_exchange *x)
{
    (void)x;
}

static void leave(struct sw_exchange *x)
{
    (void)x;
    t.left++;
}

static const struct sw_gw_calls calls = {
    .route = route,
    .response = nothing,
    .more_body = nothing,
    .leave_filters = leave,
    .cancel = nothing,
};

static void answer(int i)
{
    sw_exchange_reply(t.held[i], 200, SW_SLICE_LIT("late"), NULL);
}

static int set_up(void **state)
{
    struct sw_err err = {0};

    (void)state;
    memset(&t, 0, sizeof(t));
    t.fd = -1;
    t.loop = gw_loop();
    t.store = gw_store(1);
    if (gw_put(t.store, SW_GW_TYPE_LISTENER, "l", LISTENER, &err) != SW_OK)
        fail_msg("%s", err.msg);
    t.metrics = sw_metrics_new(&(struct sw_metrics_opts){0});
    t.worker.shard = sw_metrics_shard_new(t.metrics);
    t.worker.abuse = sw_gw_abuse_new();
    t.worker.calls = &calls;
    t.worker.n_workers = 1;
    t.worker.loop = t.loop;
    sw_list_init(&t.worker.exchanges);
    sw_list_init(&t.worker.ended);
    sw_list_init(&t.worker.pools);
    sw_list_init(&t.worker.downs);
    t.view = SW_NEW(struct sw_gw_view);
    t.view->config = sw_gw_config_ref(gw_flush(t.store));
    t.view->refs = 1;
    t.worker.view = t.view;
    t.worker.hosts = sw_gw_hosts_new(&t.worker);
    return 0;
}

static struct down *the_down(void)
{
    assert_false(sw_list_empty(&t.worker.downs));
    return SW_CONTAINER_OF(SW_CONTAINER_OF(t.worker.downs.next, struct sw_gw_down, link),
                           struct down, life);
}

static int tear_down(void **state)
{
    (void)state;
    while (!sw_list_empty(&t.worker.downs)) {
        struct down *d = the_down();

        d->life.kill(&d->life);
        gw_turns(t.loop, 2);
    }
    sw_sock_close(t.fd);
    sw_exchange_reap(&t.worker);
    assert_int_equal(t.worker.n_exchanges, 0);
    assert_int_equal(t.worker.n_downs, 0);
    SW_VEC_FOREACH (struct sw_exchange *, it, &t.worker.spare) {
        sw_timer_stop(t.loop, &(*it)->clock.timer);
        sw_arena_clear(&(*it)->arena);
        sw_free(*it);
    }
    sw_vec_done(&t.worker.spare);
    for (int k = 0; k < 2; k++) {
        SW_VEC_FOREACH (struct sw_h1 *, it, &t.worker.parsers[k])
            sw_h1_free(*it);
        sw_vec_done(&t.worker.parsers[k]);
    }
    sw_gw_hosts_free(t.worker.hosts);
    (void)sw_gw_view_unref(t.view);
    sw_timer_stop(t.loop, &t.worker.failures.timer);
    sw_loop_free(t.loop);
    sw_gw_lstats_done(&t.worker);
    sw_metrics_shard_free(t.worker.shard);
    sw_metrics_free(t.metrics);
    sw_gw_abuse_free(t.worker.abuse);
    sw_gw_store_free(t.store);
    return 0;
}

/* Another client. */
static void connect_client(void)
{
    const struct sw_gw_listener *l = sw_gw_config_listener(t.view->config, SW_SLICE_LIT("l"));
    struct sw_gw_accepted a = {0};
    struct sw_err err = {0};
    int fds[2];

    assert_non_null(l);
    assert_int_equal(sw_sock_pair(fds, &err), SW_OK);
    sw_sock_close(t.fd);
    t.fd = fds[0];
    memcpy(&a.listener, &l, sizeof(l));
    a.chain = &l->chains[0];
    a.fd = fds[1];
    down_start(&t.worker, &a);
    gw_turns(t.loop, 2);
}

static void ask(unsigned i)
{
    char text[64];

    (void)snprintf(text, sizeof(text), "GET /%u HTTP/1.1\r\nhost: h\r\n\r\n", i);
    gw_say(t.fd, text);
}

static const char *hear(const char *end)
{
    return gw_hear(t.loop, t.fd, end);
}

static void expect_closed(void)
{
    GW_UNTIL(t.loop, gw_is_closed(t.fd));
    sw_sock_close(SW_TAKE_FD(t.fd));
    GW_UNTIL(t.loop, t.worker.n_downs == 0);
}

/* ---- HTTP/1.1 ---- */

static void a_connection_is_kept(void **state)
{
    (void)state;
    connect_client();
    for (unsigned i = 1; i < 3; i++) {
        const char *text;

        ask(i);
        text = hear(i == 1 ? "/1" : "/2");
        assert_memory_equal(text, "HTTP/1.1 200", 12);
        assert_null(strstr(text, "onnection: close"));
        gw_hear_nothing(t.loop, t.fd);
    }
}

/* The last of as many requests as are allowed says so. */
static void a_connection_serves_no_more_requests_than_allowed(void **state)
{
    (void)state;
    connect_client();
    ask(1);
    (void)hear("/1");
    ask(2);
    (void)hear("/2");
    ask(3);
    assert_non_null(strstr(hear("/3"), "onnection: close\r\n"));
    ask(4); /* too late: discarded */
    expect_closed();
    assert_int_equal(t.routed, 3);
}

static void pipelined_requests_are_served_in_order(void **state)
{
    (void)state;
    t.hold = true;
    connect_client();
    ask(1);
    ask(2);
    gw_turns(t.loop, 4);
    assert_int_equal(t.n_held, 1); /* the second waits for the answer to the first */
    answer(0);
    (void)hear("late");
    GW_UNTIL(t.loop, t.n_held == 2);
    assert_true(sw_slice_eq_str(t.held[1]->req.path, "/2"));
    answer(1);
    (void)hear("late");
}

static void a_client_that_wants_to_close_is_let_go(void **state)
{
    static const char *const asks[] = {
        "GET / HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n",
        "GET / HTTP/1.0\r\nhost: h\r\n\r\n",
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(asks); i++) {
        connect_client();
        gw_say(t.fd, asks[i]);
        (void)hear("\r\n\r\n/");
        expect_closed();
    }
}

static void an_idle_connection_is_closed_after_its_time(void **state)
{
    (void)state;
    connect_client();
    ask(1);
    (void)hear("/1");
    gw_pass(t.loop, 60 * SW_NS_PER_S - SW_NS_PER_MS);
    assert_false(gw_is_closed(t.fd));
    gw_pass(t.loop, SW_NS_PER_MS);
    expect_closed();
}

/* Half a head: answered, where silence is not. */
/* max_connection_duration, whatever idle_timeout is. */
static void set_age(uint64_t ns)
{
    const struct sw_gw_listener *l = sw_gw_config_listener(t.view->config, SW_SLICE_LIT("l"));
    struct sw_gw_chain *chain;

    memcpy(&chain, &l->chains, sizeof(chain));
    chain->hcm.timeouts.max_connection_ns = ns;
}

static void a_connection_beyond_its_age_is_closed(void **state)
{
    (void)state;
    set_age(30 * SW_NS_PER_S);
    connect_client();
    ask(1);
    (void)hear("/1");
    gw_pass(t.loop, 29 * SW_NS_PER_S);
    gw_hear_nothing(t.loop, t.fd);
    gw_pass(t.loop, SW_NS_PER_S);
    expect_closed();
}

static void a_request_outlives_the_age_of_its_connection(void **state)
{
    (void)state;
    set_age(30 * SW_NS_PER_S);
    t.hold = true;
    connect_client();
    ask(1);
    GW_UNTIL(t.loop, t.n_held == 1);
    gw_pass(t.loop, 40 * SW_NS_PER_S);
    gw_hear_nothing(t.loop, t.fd);
    answer(0);
    assert_non_null(strstr(hear("late"), "onnection: close"));
    expect_closed();
}

static void a_head_that_takes_too_long_is_refused(void **state)
{
    (void)state;
    connect_client();
    gw_say(t.fd, "GET / HT");
    gw_turns(t.loop, 3);
    gw_pass(t.loop, 3 * SW_NS_PER_S);
    gw_say(t.fd, "TP/1.1\r\n"); /* a trickle does not begin anew */
    gw_turns(t.loop, 3);
    gw_pass(t.loop, 2 * SW_NS_PER_S - SW_NS_PER_MS);
    gw_hear_nothing(t.loop, t.fd);
    gw_pass(t.loop, SW_NS_PER_MS);
    assert_memory_equal(hear("\r\n\r\n"), "HTTP/1.1 408", 12);
    expect_closed();
    assert_int_equal(t.routed, 0);
}

static void malformed_heads_are_refused(void **state)
{
    static const struct {
        const char *ask;
        const char *status;
    } cases[] = {
        {"GET / HTTP/1.1\r\nhost: h\r\nbad name: x\r\n\r\n", "HTTP/1.1 400"},
        {"GET / HTTP/1.1\r\nhost: h\r\nhost: i\r\n\r\n", "HTTP/1.1 400"},
        {"GET / HTTP/1.1\r\nhost: h\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
         "HTTP/1.1 400"},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        connect_client();
        gw_say(t.fd, cases[i].ask);
        assert_memory_equal(hear("\r\n\r\n"), cases[i].status, 12);
        expect_closed();
    }
    assert_int_equal(t.routed, 0);
}

/* The body is malformed while the request waits: its exchange ends, and the client is told why. */
static void a_malformed_body_ends_the_exchange(void **state)
{
    (void)state;
    t.hold = true;
    connect_client();
    gw_say(t.fd, "POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n");
    GW_UNTIL(t.loop, t.n_held == 1);
    gw_say(t.fd, "zz\r\n");
    assert_memory_equal(hear("\r\n\r\n"), "HTTP/1.1 400", 12);
    expect_closed();
    assert_int_equal(t.worker.n_exchanges, 0);
}

static void a_client_that_leaves_cancels_its_request(void **state)
{
    (void)state;
    t.hold = true;
    connect_client();
    ask(1);
    GW_UNTIL(t.loop, t.n_held == 1);
    assert_int_equal(t.worker.n_exchanges, 1);
    sw_sock_close(SW_TAKE_FD(t.fd));
    GW_UNTIL(t.loop, t.worker.n_exchanges == 0);
    GW_UNTIL(t.loop, t.worker.n_downs == 0);
}

/* The request in progress is served, says that it is the last, and the connection ends. */
static void a_busy_connection_drains_behind_its_answer(void **state)
{
    struct down *d;

    (void)state;
    t.hold = true;
    connect_client();
    ask(1);
    GW_UNTIL(t.loop, t.n_held == 1);
    d = the_down();
    d->life.drain(&d->life);
    gw_pass(t.loop, 5 * SW_NS_PER_S);
    gw_hear_nothing(t.loop, t.fd);
    answer(0);
    assert_non_null(strstr(hear("late"), "onnection: close\r\n"));
    expect_closed();
}

/* A request may be on its way: the connection stays for a second. */
static void an_idle_connection_drains_after_a_second(void **state)
{
    struct down *d;

    (void)state;
    connect_client();
    ask(1);
    (void)hear("/1");
    d = the_down();
    d->life.drain(&d->life);
    gw_pass(t.loop, SW_NS_PER_S - SW_NS_PER_MS);
    assert_false(gw_is_closed(t.fd));
    gw_pass(t.loop, SW_NS_PER_MS);
    expect_closed();
}

static void only_an_idle_connection_is_evicted(void **state)
{
    struct down *d;

    (void)state;
    t.hold = true;
    connect_client();
    d = the_down();
    ask(1);
    assert_false(d->life.evict(&d->life)); /* bytes are there that nobody has read */
    GW_UNTIL(t.loop, t.n_held == 1);
    assert_false(d->life.evict(&d->life));
    answer(0);
    (void)hear("late");
    gw_say(t.fd, "GET");
    gw_turns(t.loop, 3);
    assert_false(d->life.evict(&d->life));
    connect_client();
    gw_turns(t.loop, 3);
    d = the_down();
    assert_true(d->life.evict(&d->life));
    expect_closed();
}

/* ---- HTTP/2 ---- */

static struct gw_h2peer peer;

static void connect_h2(void)
{
    connect_client();
    gw_say(t.fd, GW_PREFACE);
    gw_h2_serve(&peer, t.loop, t.fd);
}

static void h2_ask(uint32_t id, bool end)
{
    uint8_t b[128];
    size_t n = gw_hpack(b, 0, ":method", end ? "GET" : "POST");

    n = gw_hpack(b, n, ":scheme", "http");
    n = gw_hpack(b, n, ":path", "/h2");
    n = gw_hpack(b, n, ":authority", "h");
    gw_frame(t.fd, GW_HEADERS, GW_END_HEADERS | (end ? GW_END_STREAM : 0), id, b, n);
}

/* A head and the body "/h2" or "late". */
static void h2_expect_answer(uint32_t id, const char *body)
{
    struct gw_frame f;

    gw_expect_frame(&peer, GW_HEADERS, id, &f);
    assert_int_equal(f.p[0], 0x88); /* :status 200 */
    gw_expect_frame(&peer, GW_DATA, id, &f);
    assert_int_equal(f.n, strlen(body));
    assert_memory_equal(f.p, body, f.n);
    if (!(f.flags & GW_END_STREAM)) {
        gw_expect_frame(&peer, GW_DATA, id, &f);
        assert_true(f.n == 0 && f.flags & GW_END_STREAM);
    }
}

static uint32_t last_of(const struct gw_frame *f)
{
    return (uint32_t)f->p[0] << 24 | (uint32_t)f->p[1] << 16 | (uint32_t)f->p[2] << 8 | f->p[3];
}

static void streams_are_answered_in_any_order(void **state)
{
    (void)state;
    t.hold = true;
    connect_h2();
    h2_ask(1, true);
    h2_ask(3, true);
    GW_UNTIL(t.loop, t.n_held == 2);
    answer(1);
    h2_expect_answer(3, "late");
    answer(0);
    h2_expect_answer(1, "late");
    gw_expect_no_frame(&peer);
}

static void a_stream_that_is_reset_cancels_its_request_alone(void **state)
{
    (void)state;
    t.hold = true;
    connect_h2();
    h2_ask(1, true);
    h2_ask(3, true);
    GW_UNTIL(t.loop, t.n_held == 2);
    gw_rst(t.fd, 1, SW_H2_CANCEL);
    GW_UNTIL(t.loop, t.worker.n_exchanges == 1);
    answer(1);
    h2_expect_answer(3, "late");
}

/* GOAWAY twice: the notice, then the last stream that was taken; what is open is served. */
static void a_connection_drains_in_two_steps(void **state)
{
    struct gw_frame f;
    struct down *d;

    (void)state;
    t.hold = true;
    connect_h2();
    h2_ask(1, true);
    GW_UNTIL(t.loop, t.n_held == 1);
    d = the_down();
    d->life.drain(&d->life);
    gw_expect_frame(&peer, GW_GOAWAY, 0, &f);
    assert_int_equal(last_of(&f), 0x7fffffff);
    h2_ask(3, true); /* was on its way */
    GW_UNTIL(t.loop, t.n_held == 2);
    gw_pass(t.loop, 2 * SW_NS_PER_S - SW_NS_PER_MS);
    gw_expect_no_frame(&peer);
    gw_pass(t.loop, SW_NS_PER_MS);
    gw_expect_frame(&peer, GW_GOAWAY, 0, &f);
    assert_int_equal(last_of(&f), 3);
    answer(0);
    h2_expect_answer(1, "late");
    answer(1);
    h2_expect_answer(3, "late");
    expect_closed();
}

static void an_idle_connection_gets_goaway_after_its_time(void **state)
{
    struct gw_frame f;

    (void)state;
    connect_h2();
    h2_ask(1, true);
    h2_expect_answer(1, "/h2");
    gw_pass(t.loop, 60 * SW_NS_PER_S - SW_NS_PER_MS);
    gw_expect_no_frame(&peer);
    gw_pass(t.loop, SW_NS_PER_MS);
    gw_expect_frame(&peer, GW_GOAWAY, 0, &f);
    gw_pass(t.loop, 2 * SW_NS_PER_S);
    gw_expect_frame(&peer, GW_GOAWAY, 0, &f);
    assert_int_equal(last_of(&f), 1);
    expect_closed();
}

/* GOAWAY at the age of the connection; a stream goes on. */
static void a_busy_connection_beyond_its_age_gets_goaway(void **state)
{
    struct gw_frame f;

    (void)state;
    set_age(30 * SW_NS_PER_S);
    t.hold = true;
    connect_h2();
    h2_ask(1, true);
    GW_UNTIL(t.loop, t.n_held == 1);
    gw_pass(t.loop, 29 * SW_NS_PER_S);
    gw_expect_no_frame(&peer);
    gw_pass(t.loop, SW_NS_PER_S);
    gw_expect_frame(&peer, GW_GOAWAY, 0, &f);
    gw_pass(t.loop, 2 * SW_NS_PER_S);
    gw_expect_frame(&peer, GW_GOAWAY, 0, &f);
    gw_pass(t.loop, 60 * SW_NS_PER_S);
    answer(0);
    h2_expect_answer(1, "late");
    expect_closed();
}

static void trailers_beyond_the_bound_are_refused(void **state)
{
    struct gw_frame f;

    (void)state;
    t.hold = true;
    connect_h2();
    h2_ask(1, false);
    GW_UNTIL(t.loop, t.n_held == 1);
    gw_h2_trailers_too_many(t.fd, 1);
    gw_expect_frame(&peer, GW_HEADERS, 1, &f);
    assert_int_not_equal(f.p[0], 0x88); /* :status 200 */
    GW_UNTIL(t.loop, t.worker.n_exchanges == 0);
}

/* The answer is complete while the body is not: the rest is not wanted (RFC 9113 8.1). */
static void an_early_answer_ends_the_body(void **state)
{
    struct gw_frame f;

    (void)state;
    t.hold = true;
    connect_h2();
    h2_ask(1, false);
    GW_UNTIL(t.loop, t.n_held == 1);
    answer(0);
    h2_expect_answer(1, "late");
    gw_expect_frame(&peer, GW_RST, 1, &f);
    assert_int_equal(f.p[3], SW_H2_NO_ERROR);
    h2_ask(3, true); /* the connection is as good as before */
    GW_UNTIL(t.loop, t.n_held == 2);
    answer(1);
    h2_expect_answer(3, "late");
}

/* The request is over and its answer waits for a window that never opens, but once. */
static void an_answer_that_is_not_taken_is_reset(void **state)
{
    struct gw_frame f;

    (void)state;
    connect_h2();
    gw_settings(t.fd, 4, 0); /* INITIAL_WINDOW_SIZE */
    h2_ask(1, true);
    gw_expect_frame(&peer, GW_HEADERS, 1, &f);
    GW_UNTIL(t.loop, t.worker.n_exchanges == 0);
    gw_pass(t.loop, 50 * SW_NS_PER_S);
    gw_u32_frame(t.fd, GW_WINDOW, 1, 1);
    gw_expect_frame(&peer, GW_DATA, 1, &f);
    assert_int_equal(f.n, 1);
    gw_pass(t.loop, 10 * SW_NS_PER_S);
    gw_expect_no_frame(&peer);
    gw_pass(t.loop, 60 * SW_NS_PER_S);
    gw_expect_frame(&peer, GW_RST, 1, &f);
    assert_int_equal(f.p[3], SW_H2_CANCEL);
    gw_pass(t.loop, 60 * SW_NS_PER_S); /* idle_timeout */
    gw_expect_frame(&peer, GW_GOAWAY, 0, &f);
}

/* The same, and the client does not even read: it is disconnected. */
static void a_client_that_reads_nothing_is_disconnected(void **state)
{
    (void)state;
    connect_h2();
    t.body = sw_slice(zeros, sizeof(zeros));
    for (uint32_t id = 1; id < 41; id += 2)
        h2_ask(id, true);
    GW_UNTIL(t.loop, t.routed == 20 && t.worker.n_exchanges == 0);
    gw_u32_frame(t.fd, GW_WINDOW, 0, 8 << 20);
    GW_UNTIL(t.loop, sw_conn_blocked(&the_down()->conn));
    gw_pass(t.loop, 60 * SW_NS_PER_S);
    gw_pass(t.loop, 60 * SW_NS_PER_S);
    GW_UNTIL(t.loop, t.worker.n_downs == 0);
}

static void a_client_that_breaks_the_protocol_gets_goaway(void **state)
{
    struct gw_frame f;

    (void)state;
    t.hold = true;
    connect_h2();
    h2_ask(1, true);
    GW_UNTIL(t.loop, t.n_held == 1);
    gw_frame(t.fd, GW_DATA, 0, 0, "x", 1); /* data without a stream */
    gw_expect_frame(&peer, GW_GOAWAY, 0, &f);
    assert_int_equal(f.p[7], 1); /* PROTOCOL_ERROR */
    expect_closed();
    assert_int_equal(t.worker.n_exchanges, 0);
}

static void a_preface_that_is_none_is_not_answered_as_http2(void **state)
{
    (void)state;
    connect_client();
    gw_say(t.fd, "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n");
    assert_memory_equal(hear("\r\n\r\n"), "HTTP/1.1 505", 12);
    expect_closed();
}

#define DOWN_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        DOWN_TEST(a_connection_is_kept),
        DOWN_TEST(a_connection_serves_no_more_requests_than_allowed),
        DOWN_TEST(pipelined_requests_are_served_in_order),
        DOWN_TEST(a_client_that_wants_to_close_is_let_go),
        DOWN_TEST(an_idle_connection_is_closed_after_its_time),
        DOWN_TEST(a_connection_beyond_its_age_is_closed),
        DOWN_TEST(a_request_outlives_the_age_of_its_connection),
        DOWN_TEST(a_head_that_takes_too_long_is_refused),
        DOWN_TEST(malformed_heads_are_refused),
        DOWN_TEST(a_malformed_body_ends_the_exchange),
        DOWN_TEST(a_client_that_leaves_cancels_its_request),
        DOWN_TEST(a_busy_connection_drains_behind_its_answer),
        DOWN_TEST(an_idle_connection_drains_after_a_second),
        DOWN_TEST(only_an_idle_connection_is_evicted),
        DOWN_TEST(streams_are_answered_in_any_order),
        DOWN_TEST(a_stream_that_is_reset_cancels_its_request_alone),
        DOWN_TEST(a_connection_drains_in_two_steps),
        DOWN_TEST(an_idle_connection_gets_goaway_after_its_time),
        DOWN_TEST(a_busy_connection_beyond_its_age_gets_goaway),
        DOWN_TEST(trailers_beyond_the_bound_are_refused),
        DOWN_TEST(an_early_answer_ends_the_body),
        DOWN_TEST(an_answer_that_is_not_taken_is_reset),
        DOWN_TEST(a_client_that_reads_nothing_is_disconnected),
        DOWN_TEST(a_client_that_breaks_the_protocol_gets_goaway),
        DOWN_TEST(a_preface_that_is_none_is_not_answered_as_http2),
    };

    return cmocka_run_group_tests_name("gw_down", tests, NULL, NULL);
}
