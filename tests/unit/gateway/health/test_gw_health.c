/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Active health checks of members that the test plays: thresholds and intervals by a fake clock,
 * what each kind of check sends and accepts, and the end of a check under way.
 */
#include <stdlib.h>

#include "gw_peer.h"

#include "gateway/config/config.h"
#include "gateway/health/health.h"
#include "gateway/upstream/cluster.h"
#include "gateway/upstream/outlier.h"

enum { MEMBERS = 2 };

static struct {
    struct sw_loop *loop;
    struct sw_gw_store *store;
    struct sw_gw_cluster *cluster; /* a reference */
    struct sw_gw_health *health;
    struct sw_gw_check checks[2];
    struct sw_addr at[MEMBERS];
    int listener[MEMBERS];
    char json[1024];
} t;

/* Members by their ports, 0: none; a Unix socket's path in front. */
static struct sw_gw_cluster *build(unsigned a, unsigned b, const char *pipe, const char *more)
{
    char *at = t.json;
    size_t left = sizeof(t.json);
    int n = snprintf(
        at, left,
        "{'name':'c',%s'load_assignment':{'cluster_name':'c','endpoints':[{'lb_endpoints':[", more);
    struct sw_gw_config *config;
    struct sw_gw_cluster *c;
    struct sw_err err = {0};
    const unsigned ports[] = {a, b};
    const char *sep = "";

    for (int i = 0; i < 2; i++) {
        if (ports[i]) {
            n += snprintf(at + n, left - (size_t)n,
                          "%s{'endpoint':{'address':{'socket_address':{'address':'127.0.0.1',"
                          "'port_value':%u}}}}",
                          sep, ports[i]);
            sep = ",";
        }
    }
    if (pipe)
        n += snprintf(at + n, left - (size_t)n, "%s{'endpoint':{'address':{'pipe':{'path':'%s'}}}}",
                      sep, pipe);
    (void)snprintf(at + n, left - (size_t)n, "]}]}}");
    if (gw_put(t.store, SW_GW_TYPE_CLUSTER, "c", t.json, &err) != SW_OK)
        fail_msg("%s", err.msg);
    config = gw_flush(t.store);
    c = sw_gw_config_cluster(config, SW_SLICE_LIT("c"));
    assert_non_null(c);
    return sw_gw_cluster_ref(c);
}

static int set_up(void **state)
{
    (void)state;
    memset(&t, 0, sizeof(t));
    t.loop = gw_loop();
    t.store = gw_store(1);
    for (int i = 0; i < MEMBERS; i++)
        t.listener[i] = gw_listen(&t.at[i]);
    for (int i = 0; i < 2; i++) {
        t.checks[i] = (struct sw_gw_check){
            .kind = SW_GW_CHECK_HTTP,
            .timeout_ns = 2 * SW_NS_PER_S,
            .interval_ns = 8 * SW_NS_PER_S,
            .unhealthy_interval_ns = 8 * SW_NS_PER_S,
            .unhealthy_threshold = 3,
            .healthy_threshold = 2,
            .method = SW_SLICE_LIT("GET"),
            .path = SW_SLICE_LIT("/ready"),
        };
    }
    return 0;
}

static void stop(void)
{
    sw_gw_health_free(t.health);
    t.health = NULL;
    t.cluster = sw_gw_cluster_unref(t.cluster);
    gw_turns(t.loop, 3);
}

static int tear_down(void **state)
{
    (void)state;
    stop();
    for (int i = 0; i < MEMBERS; i++)
        sw_sock_close(t.listener[i]);
    sw_loop_free(t.loop);
    sw_gw_store_free(t.store);
    return 0;
}

static void use_checks(struct sw_gw_cluster *c, size_t n)
{
    c->spec->checks = t.checks;
    c->spec->n_checks = n;
}

/* The first check begins within an eighth of its interval. */
static void start_checks(size_t n)
{
    use_checks(t.cluster, n);
    t.health = sw_gw_health_new(t.loop, t.cluster);
    assert_non_null(t.health);
    gw_pass(t.loop, SW_NS_PER_S + 1);
}

/* One member, this many checks. */
static void start_one(size_t n)
{
    t.cluster = build(t.at[0].port, 0, NULL, "");
    start_checks(n);
}

static struct sw_gw_member *member(unsigned i)
{
    return t.cluster->members->localities[0].endpoints[i].member;
}

static bool is_down(unsigned i)
{
    return member(i)->health & SW_GW_FAILED_ACTIVE;
}

/* Nothing begins before 'ns' are over; then the next check does. */
static void next_check(uint64_t ns)
{
    gw_pass(t.loop, ns - SW_NS_PER_MS);
    gw_expect_no_conn(t.loop, t.listener[0]);
    gw_pass(t.loop, SW_NS_PER_MS);
}

/* A whole check by HTTP over a connection of its own. */
static void http_check(const char *answer)
{
    int fd = gw_accept(t.loop, t.listener[0]);

    (void)gw_hear(t.loop, fd, "\r\n\r\n");
    gw_say(fd, answer);
    GW_UNTIL(t.loop, gw_is_closed(fd));
    gw_turns(t.loop, 3);
    sw_sock_close(fd);
}

#define HEAD(status) "HTTP/1.1 " status " x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
#define GOOD         HEAD("200")
#define BAD          HEAD("503")

/* ---- results ---- */

static void members_go_out_and_come_back_by_the_thresholds(void **state)
{
    static const struct {
        const char *answer;
        bool down; /* afterwards */
    } steps[] = {
        {GOOD, false}, {BAD, false}, {BAD, false},  {GOOD, false}, {BAD, false},
        {BAD, false},  {BAD, true},  {GOOD, true},  {BAD, true},   {GOOD, true},
        {GOOD, false}, {BAD, false}, {GOOD, false},
    };

    (void)state;
    start_one(1);
    for (size_t i = 0; i < SW_ARRAY_LEN(steps); i++) {
        uint64_t version = t.cluster->state->health_version;
        bool before = is_down(0);

        http_check(steps[i].answer);
        assert_int_equal(is_down(0), steps[i].down);
        /* Workers look again when, and only when, something changed. */
        assert_int_equal(t.cluster->state->health_version,
                         version + (before != steps[i].down ? 1 : 0));
        gw_pass(t.loop, 8 * SW_NS_PER_S);
    }
}

/* A member that is dead from the start gets no requests until the threshold is reached. */
static void the_first_failure_counts_at_once(void **state)
{
    (void)state;
    start_one(1);
    http_check(BAD);
    assert_true(is_down(0));
    gw_pass(t.loop, 8 * SW_NS_PER_S);
    http_check(GOOD);
    assert_true(is_down(0));
    gw_pass(t.loop, 8 * SW_NS_PER_S);
    http_check(GOOD);
    assert_false(is_down(0));
}

static void a_member_is_out_as_long_as_one_of_its_checks_fails(void **state)
{
    int fd;

    (void)state;
    t.checks[0].unhealthy_threshold = t.checks[0].healthy_threshold = 1;
    t.checks[1] = t.checks[0];
    t.checks[1].kind = SW_GW_CHECK_TCP;
    t.checks[1].alt_port = t.at[1].port;
    t.cluster = build(t.at[0].port, 0, NULL, "");
    sw_sock_close(SW_TAKE_FD(t.listener[1])); /* the second check fails */
    start_checks(2);
    fd = gw_accept(t.loop, t.listener[0]);
    (void)gw_hear(t.loop, fd, "\r\n\r\n");
    GW_UNTIL(t.loop, is_down(0));
    gw_say(fd, BAD);
    GW_UNTIL(t.loop, gw_is_closed(fd));
    sw_sock_close(fd);
    gw_pass(t.loop, 8 * SW_NS_PER_S);
    http_check(GOOD); /* the first is well again, the second is not */
    assert_true(is_down(0));
}

/* ---- times ---- */

static void the_interval_depends_on_the_state(void **state)
{
    (void)state;
    t.checks[0].unhealthy_interval_ns = 3 * SW_NS_PER_S;
    t.checks[0].unhealthy_threshold = 1;
    start_one(1);
    http_check(GOOD);
    next_check(8 * SW_NS_PER_S);
    http_check(BAD);
    next_check(3 * SW_NS_PER_S);
    http_check(GOOD); /* one is not enough: still out */
    next_check(3 * SW_NS_PER_S);
    http_check(GOOD);
    assert_false(is_down(0));
    next_check(8 * SW_NS_PER_S);
    http_check(GOOD);
}

static void the_no_traffic_interval_holds_until_the_first_request(void **state)
{
    (void)state;
    t.checks[0].no_traffic_interval_ns = 60 * SW_NS_PER_S;
    start_one(1);
    http_check(GOOD);
    next_check(60 * SW_NS_PER_S);
    http_check(BAD); /* whatever its state */
    next_check(60 * SW_NS_PER_S);
    t.cluster->state->cells[0].rq = 1;
    http_check(GOOD);
    next_check(8 * SW_NS_PER_S);
    http_check(GOOD);
}

static void jitter_only_adds(void **state)
{
    (void)state;
    t.checks[0].jitter_ns = 2 * SW_NS_PER_S;
    start_one(1);
    for (int i = 0; i < 4; i++) {
        http_check(GOOD);
        gw_pass(t.loop, 8 * SW_NS_PER_S - SW_NS_PER_MS);
        gw_expect_no_conn(t.loop, t.listener[0]);
        gw_pass(t.loop, 2 * SW_NS_PER_S + SW_NS_PER_MS);
    }
}

static void no_answer_in_time_is_a_failure(void **state)
{
    static const enum sw_gw_check_kind kinds[] = {SW_GW_CHECK_HTTP, SW_GW_CHECK_TCP,
                                                  SW_GW_CHECK_GRPC};
    static const struct sw_slice wants[] = {SW_SLICE_LIT("x")};

    (void)state;
    t.checks[0].receive = wants;
    t.checks[0].n_receive = 1;
    for (size_t i = 0; i < 2 * SW_ARRAY_LEN(kinds); i++) {
        int fd;

        t.checks[0].kind = kinds[i / 2];
        t.checks[0].h2 = i % 2;
        start_one(1);
        fd = gw_accept(t.loop, t.listener[0]);
        gw_pass(t.loop, 2 * SW_NS_PER_S - SW_NS_PER_MS);
        assert_false(is_down(0));
        gw_pass(t.loop, SW_NS_PER_MS);
        assert_true(is_down(0));
        if (kinds[i / 2] != SW_GW_CHECK_GRPC) /* which cancels its stream alone */
            GW_UNTIL(t.loop, gw_is_closed(fd));
        stop();
        sw_sock_close(fd);
    }
}

static void nobody_listens(void **state)
{
    (void)state;
    t.checks[0].kind = SW_GW_CHECK_TCP;
    t.cluster = build(t.at[0].port, 0, NULL, "");
    sw_sock_close(SW_TAKE_FD(t.listener[0]));
    start_checks(1);
    GW_UNTIL(t.loop, is_down(0));
}

/* ---- HTTP ---- */

static void the_request_is_as_configured(void **state)
{
    const char *text;
    int fd;

    (void)state;
    t.checks[0].method = SW_SLICE_LIT("HEAD");
    t.checks[0].path = SW_SLICE_LIT("/healthz?a=b");
    t.checks[0].host = SW_SLICE_LIT("shop.example");
    start_one(1);
    fd = gw_accept(t.loop, t.listener[0]);
    text = gw_hear(t.loop, fd, "\r\n\r\n");
    assert_memory_equal(text, "HEAD /healthz?a=b HTTP/1.1\r\n", 28);
    assert_non_null(strstr(text, "ost: shop.example\r\n"));
    assert_non_null(strstr(text, "user-agent: spanwire-health-check\r\n"));
    sw_sock_close(fd);
}

static void the_expected_statuses_are_half_open_ranges(void **state)
{
    static const struct {
        const char *answer;
        bool ranges;
        bool good;
    } cases[] = {
        {HEAD("200"), false, true}, {HEAD("204"), false, false}, {HEAD("200"), true, false},
        {HEAD("204"), true, true},  {HEAD("205"), true, false},  {HEAD("404"), true, true},
        {HEAD("403"), true, false}, {HEAD("405"), true, false},  {HEAD("301"), false, false},
    };
    SW_ARENA_AUTO a = {0};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        if (cases[i].ranges) {
            t.checks[0].expected = sw_arena_array(&a, 2, sizeof(*t.checks[0].expected));
            t.checks[0].expected[0].from = 201;
            t.checks[0].expected[0].to = 205;
            t.checks[0].expected[1].from = 404;
            t.checks[0].expected[1].to = 405;
        }
        t.checks[0].n_expected = cases[i].ranges ? 2 : 0;
        start_one(1);
        http_check(cases[i].answer);
        assert_int_equal(is_down(0), !cases[i].good);
        stop();
    }
}

static void an_alternative_port_is_where_the_check_goes(void **state)
{
    int fd;

    (void)state;
    t.checks[0].alt_port = t.at[1].port;
    start_one(1);
    fd = gw_accept(t.loop, t.listener[1]);
    assert_non_null(strstr(gw_hear(t.loop, fd, "\r\n\r\n"), "/ready"));
    gw_expect_no_conn(t.loop, t.listener[0]);
    sw_sock_close(fd);
}

static void http2_is_spoken_where_asked_for(void **state)
{
    static const struct {
        const char *status;
        bool good;
    } cases[] = {{"200", true}, {"503", false}, {"reset", false}, {"closed", false}};

    (void)state;
    for (size_t i = 0; i < 2 * SW_ARRAY_LEN(cases); i++) {
        bool by_check = i % 2;
        struct gw_h2peer p;
        struct gw_frame f;

        t.cluster = build(t.at[0].port, 0, NULL, "");
        t.checks[0].h2 = by_check; /* ... or the cluster speaks it */
        t.cluster->spec->protocol = by_check ? SW_GW_UP_H1 : SW_GW_UP_H2;
        start_checks(1);
        gw_h2_serve(&p, t.loop, gw_accept(t.loop, t.listener[0]));
        gw_expect_frame(&p, GW_HEADERS, 1, &f);
        gw_expect_frame(&p, GW_DATA, 1, &f);
        assert_true(f.n == 0 && f.flags & GW_END_STREAM);
        if (strcmp(cases[i / 2].status, "reset") == 0)
            gw_rst(p.fd, 1, 2);
        else if (strcmp(cases[i / 2].status, "closed") == 0)
            sw_sock_close(SW_TAKE_FD(p.fd));
        else
            gw_h2_answer(p.fd, 1, cases[i / 2].status, true);
        if (cases[i / 2].good) {
            GW_UNTIL(t.loop, gw_is_closed(p.fd));
            assert_false(is_down(0));
        } else { /* at once, not after the time for an answer */
            GW_UNTIL(t.loop, is_down(0));
        }
        stop();
        sw_sock_close(p.fd);
    }
}

/* ---- bytes ---- */

/* A check that sends PING and wants "+PO" and "NG" behind it, with anything around. */
static void start_tcp(void)
{
    static const struct sw_slice wants[] = {SW_SLICE_LIT("+PO"), SW_SLICE_LIT("NG")};

    t.checks[0].kind = SW_GW_CHECK_TCP;
    t.checks[0].send = SW_SLICE_LIT("PING\r\n");
    t.checks[0].receive = wants;
    t.checks[0].n_receive = 2;
    t.checks[0].unhealthy_threshold = 1;
    start_one(1);
}

static void payloads_are_sent_and_found_in_order(void **state)
{
    static const struct {
        const char *pieces[3];
        bool good;
    } cases[] = {
        {{"+PONG\r\n"}, true},         {{"noise +PO noise NG"}, true}, {{"+P", "O", "NG"}, true},
        {{"NG +PO", "closed"}, false}, {{"+PO", "closed"}, false},     {{"+PON", "closed"}, false},
        {{"closed"}, false},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        int fd;

        start_tcp();
        fd = gw_accept(t.loop, t.listener[0]);
        (void)gw_hear(t.loop, fd, "PING\r\n");
        for (int k = 0; k < 3 && cases[i].pieces[k]; k++) {
            assert_false(is_down(0));
            if (strcmp(cases[i].pieces[k], "closed") == 0)
                sw_sock_shutdown_write(fd);
            else
                gw_say(fd, cases[i].pieces[k]);
            gw_turns(t.loop, 4);
        }
        GW_UNTIL(t.loop, gw_is_closed(fd));
        assert_int_equal(is_down(0), !cases[i].good);
        stop();
        sw_sock_close(fd);
    }
}

static void an_answer_without_end_is_a_failure(void **state)
{
    static char noise[8 << 10];
    size_t sent = 0;
    int fd;

    (void)state;
    memset(noise, 'x', sizeof(noise));
    start_tcp();
    fd = gw_accept(t.loop, t.listener[0]);
    for (int i = 0; i < 5000 && !is_down(0); i++) {
        ssize_t n = sw_sock_write(fd, noise, sizeof(noise));

        if (n > 0)
            sent += (size_t)n;
        sw_loop_turn(t.loop, 1);
    }
    assert_true(is_down(0));
    assert_true(sent >= 64 << 10);
    sw_sock_close(fd);
}

/* Nothing to receive: that a connection is made is all. */
static void a_connection_alone_may_be_the_check(void **state)
{
    int fd;

    (void)state;
    t.checks[0].kind = SW_GW_CHECK_TCP;
    t.checks[0].send = SW_SLICE_LIT("bye");
    t.checks[0].healthy_threshold = 1;
    start_one(1);
    fd = gw_accept(t.loop, t.listener[0]);
    (void)gw_hear(t.loop, fd, "bye");
    GW_UNTIL(t.loop, gw_is_closed(fd));
    assert_false(is_down(0));
    sw_sock_close(fd);
    next_check(8 * SW_NS_PER_S); /* a result was noted: not again before its time */
    sw_sock_close(gw_accept(t.loop, t.listener[0]));
}

/* ---- gRPC ---- */

/* The head and, when there is one, the body of the answer, and the status. */
static void grpc_answer(struct gw_h2peer *p, const uint8_t *msg, size_t n, const char *status)
{
    uint8_t b[128];
    uint8_t data[16] = {0};
    size_t k = gw_hpack(b, 0, ":status", "200");

    k = gw_hpack(b, k, "content-type", "application/grpc");
    gw_frame(p->fd, GW_HEADERS, GW_END_HEADERS, 1, b, k);
    if (msg) {
        data[4] = (uint8_t)n;
        memcpy(data + 5, msg, n);
        gw_frame(p->fd, GW_DATA, 0, 1, data, 5 + n);
    }
    k = gw_hpack(b, 0, "grpc-status", status);
    gw_frame(p->fd, GW_HEADERS, GW_END_HEADERS | GW_END_STREAM, 1, b, k);
}

static void grpc_asks_for_the_service_and_wants_serving(void **state)
{
    static const struct {
        uint8_t msg[2];
        size_t n;
        const char *status;
        bool good;
    } cases[] = {
        {{0x08, 1}, 2, "0", true},   /* SERVING */
        {{0x08, 2}, 2, "0", false},  /* NOT_SERVING */
        {{0}, 0, "0", false},        /* UNKNOWN, the default */
        {{0x08, 1}, 2, "14", false}, /* UNAVAILABLE */
        {{0}, 0, "5", false},        /* NOT_FOUND: an unknown service */
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        static const uint8_t asked[] = "\0\0\0\0\x06\x0a\x04shop";
        struct gw_h2peer p;
        struct gw_frame f;

        t.checks[0].kind = SW_GW_CHECK_GRPC;
        t.checks[0].service = SW_SLICE_LIT("shop");
        start_one(1);
        gw_h2_serve(&p, t.loop, gw_accept(t.loop, t.listener[0]));
        gw_expect_frame(&p, GW_HEADERS, 1, &f);
        gw_expect_frame(&p, GW_DATA, 1, &f);
        assert_int_equal(f.n, sizeof(asked) - 1);
        assert_memory_equal(f.p, asked, f.n);
        grpc_answer(&p, cases[i].n ? cases[i].msg : NULL, cases[i].n, cases[i].status);
        if (cases[i].good) {
            gw_turns(t.loop, 10);
            gw_pass(t.loop, 2 * SW_NS_PER_S);
            assert_false(is_down(0)); /* it did not wait for its deadline */
        } else {
            GW_UNTIL(t.loop, is_down(0));
        }
        stop();
        sw_sock_close(p.fd);
    }
}

/* ---- members that are no addresses, or not to be checked ---- */

static void a_unix_socket_is_there_or_not(void **state)
{
    char path[] = "/tmp/gw-health-XXXXXX";
    char sock[64];
    struct sw_err err = {0};
    int fd = -1;

    (void)state;
    assert_non_null(mkdtemp(path));
    (void)snprintf(sock, sizeof(sock), "%s/s", path);
    t.checks[0].healthy_threshold = 1;
    t.cluster = build(0, 0, sock, "");
    start_checks(1);
    assert_true(is_down(0));
    assert_int_equal(sw_sock_listen_unix(SOCK_STREAM, sock, 0600, &fd, &err), SW_OK);
    gw_pass(t.loop, 8 * SW_NS_PER_S);
    assert_false(is_down(0));
    sw_sock_close(fd);
    (void)unlink(sock);
    (void)rmdir(path);
}

static void a_member_that_asks_for_none_is_not_checked(void **state)
{
    (void)state;
    t.cluster = build(t.at[0].port, 0, NULL, "");
    member(0)->no_active_check = true;
    start_checks(1);
    gw_pass(t.loop, 8 * SW_NS_PER_S);
    gw_expect_no_conn(t.loop, t.listener[0]);
}

/* ---- changes ---- */

static void update(struct sw_gw_cluster *c)
{
    use_checks(c, 1);
    sw_gw_health_update(t.health, c);
    (void)sw_gw_cluster_unref(t.cluster);
    t.cluster = c;
}

/* For each kind of check: its member goes, or everything does, while it waits for an answer. */
static void a_member_may_go_during_its_check(void **state)
{
    static const struct {
        enum sw_gw_check_kind kind;
        bool h2;
        bool accepted;
    } cases[] = {
        {SW_GW_CHECK_HTTP, false, true}, {SW_GW_CHECK_HTTP, true, true},
        {SW_GW_CHECK_TCP, false, true},  {SW_GW_CHECK_GRPC, false, true},
        {SW_GW_CHECK_HTTP, true, false}, {SW_GW_CHECK_TCP, false, false},
    };
    static const struct sw_slice wants[] = {SW_SLICE_LIT("x")};

    (void)state;
    for (size_t i = 0; i < 2 * SW_ARRAY_LEN(cases); i++) {
        bool all = i % 2;
        int fd[2];

        t.checks[0].kind = cases[i / 2].kind;
        t.checks[0].h2 = cases[i / 2].h2;
        t.checks[0].receive = wants;
        t.checks[0].n_receive = 1;
        t.cluster = build(t.at[0].port, t.at[1].port, NULL, "");
        start_checks(1);
        fd[0] = gw_accept(t.loop, t.listener[0]);
        fd[1] = gw_accept(t.loop, t.listener[1]);
        gw_turns(t.loop, cases[i / 2].accepted ? 6 : 0);
        if (all)
            stop();
        else
            update(build(0, t.at[1].port, NULL, ""));
        gw_turns(t.loop, 3);
        GW_UNTIL(t.loop, gw_is_closed(fd[0]));
        assert_int_equal(gw_is_closed(fd[1]), all); /* the other check goes on */
        gw_say(fd[0], "x");
        gw_pass(t.loop, 2 * SW_NS_PER_S); /* the deadline of a check that is gone */
        if (!all)
            assert_true(is_down(0));
        stop();
        sw_sock_close(fd[0]);
        sw_sock_close(fd[1]);
    }
}

/* A member that comes back is not out for what a check of long ago found. */
static void a_member_that_goes_loses_its_mark(void **state)
{
    struct sw_gw_member *m;

    (void)state;
    t.cluster = build(t.at[0].port, t.at[1].port, NULL, "");
    start_checks(1);
    http_check(BAD);
    assert_true(is_down(0));
    m = sw_gw_member_ref(member(0));
    update(build(0, t.at[1].port, NULL, ""));
    assert_int_equal(m->health & SW_GW_FAILED_ACTIVE, 0);
    (void)sw_gw_member_unref(m);
}

/* Checks with other settings begin with what the ones before found out. */
static void new_settings_keep_the_state(void **state)
{
    struct sw_gw_check other = t.checks[0];

    (void)state;
    start_one(1);
    http_check(BAD);
    assert_true(is_down(0));
    t.cluster->spec->checks = &other; /* stands for a version of the cluster with another check */
    sw_gw_health_update(t.health, t.cluster);
    t.cluster->spec->checks = &other;
    gw_pass(t.loop, SW_NS_PER_S + 1);
    http_check(GOOD);
    gw_pass(t.loop, 8 * SW_NS_PER_S);
    http_check(GOOD);
    assert_false(is_down(0));
    stop();
}

/* The same timer lets ejected members back. */
static void ejected_members_come_back(void **state)
{
    (void)state;
    t.cluster = build(t.at[0].port, t.at[1].port, NULL,
                      "'outlier_detection':{'consecutive_5xx':1,'max_ejection_percent':100,"
                      "'interval':'10s','base_ejection_time':'30s'},");
    t.health = sw_gw_health_new(t.loop, t.cluster);
    assert_non_null(t.health);
    gw_turns(t.loop, 2);
    sw_gw_outlier_report(t.cluster, member(0), SW_GW_RESULT_OK, 500, gw_now_ns);
    assert_int_equal(member(0)->health, SW_GW_FAILED_OUTLIER);
    for (int i = 0; i < 2; i++) {
        gw_pass(t.loop, 10 * SW_NS_PER_S + 1);
        assert_int_equal(member(0)->health, SW_GW_FAILED_OUTLIER);
    }
    gw_pass(t.loop, 20 * SW_NS_PER_S);
    assert_int_equal(member(0)->health, 0);
}

static void a_cluster_without_checks_needs_none(void **state)
{
    (void)state;
    t.cluster = build(t.at[0].port, 0, NULL, "");
    assert_null(sw_gw_health_new(t.loop, t.cluster));
}

#define HEALTH_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HEALTH_TEST(members_go_out_and_come_back_by_the_thresholds),
        HEALTH_TEST(the_first_failure_counts_at_once),
        HEALTH_TEST(a_member_is_out_as_long_as_one_of_its_checks_fails),
        HEALTH_TEST(the_interval_depends_on_the_state),
        HEALTH_TEST(the_no_traffic_interval_holds_until_the_first_request),
        HEALTH_TEST(jitter_only_adds),
        HEALTH_TEST(no_answer_in_time_is_a_failure),
        HEALTH_TEST(nobody_listens),
        HEALTH_TEST(the_request_is_as_configured),
        HEALTH_TEST(the_expected_statuses_are_half_open_ranges),
        HEALTH_TEST(an_alternative_port_is_where_the_check_goes),
        HEALTH_TEST(http2_is_spoken_where_asked_for),
        HEALTH_TEST(payloads_are_sent_and_found_in_order),
        HEALTH_TEST(an_answer_without_end_is_a_failure),
        HEALTH_TEST(a_connection_alone_may_be_the_check),
        HEALTH_TEST(grpc_asks_for_the_service_and_wants_serving),
        HEALTH_TEST(a_unix_socket_is_there_or_not),
        HEALTH_TEST(a_member_that_asks_for_none_is_not_checked),
        HEALTH_TEST(a_member_may_go_during_its_check),
        HEALTH_TEST(a_member_that_goes_loses_its_mark),
        HEALTH_TEST(new_settings_keep_the_state),
        HEALTH_TEST(ejected_members_come_back),
        HEALTH_TEST(a_cluster_without_checks_needs_none),
    };

    return cmocka_run_group_tests_name("gw_health", tests, NULL, NULL);
}
