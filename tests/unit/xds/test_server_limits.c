/* SPDX-License-Identifier: Apache-2.0 */
/* Slow clients, bounds, who may be served and with what, and the end. */
#include <fcntl.h>
#include <unistd.h>

#include "rig.h"

#include "base/log.h"

static void a_slow_client_costs_little(void **state)
{
    struct world *w = *state;
    char *big = sw_calloc(1, 3 << 20);

    memset(big, 'x', 3 << 20);
    COMMIT(w, "OWN a=1");
    connect_delta(w);
    subscribe(w, "OWN", "*");
    expect(w, "OWN +a=1");
    turns(w, 5);
    sw_grpc_pause(w->call, true);
    for (int i = 0; i < 30; i++) {
        struct sw_xds_txn *t = sw_xds_txn_new();

        big[0] = (char)('a' + i % 26);
        assert_int_equal(
            sw_xds_txn_set(t, url_of("OWN"), SW_SLICE_LIT("a"), sw_slice(big, 3 << 20), NULL),
            SW_OK);
        (void)sw_xds_cache_commit(w->cache, t);
        turns(w, 1);
    }
    COMMIT(w, "OWN! a=end");
    w->responses = 0;
    sw_grpc_pause(w->call, false);
    for (int i = 0; i < 5000 && w->n_lines == 0; i++)
        sw_loop_turn(w->loop, 10);
    answer(w, NULL); /* whichever was on its way */
    expect(w, "OWN +a=end");
    assert_int_equal(w->responses, 2);
    sw_free(big);
}

/* One node reads nothing while resources larger than its buffers change: another gets each. */
static void a_slow_node_never_delays_the_others(void **state)
{
    struct world *w = *state;
    struct world *good = SW_NEW(struct world);
    char *big = sw_calloc(1, 3 << 20);
    char line[64];

    memset(big, 'x', 3 << 20);
    COMMIT(w, "ADR a=0");
    connect_delta(w);
    subscribe(w, "ADR", NULL);
    expect(w, "ADR +a=0");
    join(w, good);
    connect_delta(good);
    subscribe(good, "ADR", NULL);
    expect(good, "ADR +a=0");
    turns(w, 5);
    sw_grpc_pause(w->call, true);
    for (int i = 0; i < 12; i++) {
        struct sw_xds_txn *t = sw_xds_txn_new();

        big[0] = (char)('a' + i);
        assert_int_equal(
            sw_xds_txn_set(t, url_of("ADR"), SW_SLICE_LIT("a"), sw_slice(big, 3 << 20), NULL),
            SW_OK);
        (void)sw_xds_cache_commit(w->cache, t);
        (void)snprintf(line, sizeof(line), "ADR +a=%.24s", big);
        expect(good, line);
    }
    assert_int_equal(good->responses, 13);
    assert_int_equal(w->n_lines, 0);
    COMMIT(w, "ADR! a=end");
    expect(good, "ADR +a=end");
    w->responses = 0;
    sw_grpc_pause(w->call, false);
    for (int i = 0; i < 5000 && w->n_lines == 0; i++)
        sw_loop_turn(w->loop, 10);
    answer(w, NULL); /* the change that was under way when it stopped reading */
    expect(w, "ADR +a=end");
    assert_int_equal(w->responses, 2);
    leave(good);
    sw_free(good);
    sw_free(big);
}

static void streams_are_bounded(void **state)
{
    struct world *w = *state;

    w->opts.max_types = 2;
    w->opts.max_names = 3;
    connect_delta(w);
    subscribe(w, "EDS", "a b c");
    expect(w, "EDS -a -b -c");
    subscribe(w, "EDS", "a");
    expect(w, "EDS -a");
    subscribe(w, "RDS", "d");
    wait_done(w);
    assert_int_equal(w->status, SW_GRPC_RESOURCE_EXHAUSTED);
    w->done = 0;
    connect_delta(w);
    subscribe(w, "CDS", NULL);
    subscribe(w, "LDS", NULL);
    subscribe(w, "OWN", NULL);
    wait_done(w);
    assert_int_equal(w->status, SW_GRPC_RESOURCE_EXHAUSTED);
    w->done = 0;
    connect_delta(w);
    assert_int_equal(sw_grpc_send(w->call, SW_SLICE_LIT("\xff\xff")), SW_OK);
    wait_done(w);
    assert_int_equal(w->status, SW_GRPC_INVALID_ARGUMENT);
    for (int i = 0; i < 5000 && sw_xds_server_streams(w->server); i++)
        sw_loop_turn(w->loop, 5);
    assert_int_equal(sw_xds_server_streams(w->server), 0);
}

static int allow_good(void *arg, const struct sw_xds_client_id *id, struct sw_err *err)
{
    const char *want = *(const char **)arg;

    return sw_slice_eq_str(id->token, want) ? SW_OK : sw_err_set(err, SW_EDENIED, "bad token");
}

static void strangers_are_refused(void **state)
{
    struct world *w = *state;
    const char *want = "other";

    w->opts.allow = allow_good;
    w->opts.arg = &want;
    connect_delta(w);
    subscribe(w, "CDS", NULL);
    wait_done(w);
    assert_int_equal(w->status, SW_GRPC_UNAUTHENTICATED);
    want = "good";
    w->done = 0;
    connect_delta(w);
    subscribe(w, "CDS", NULL);
    expect(w, "CDS");
}

static void capture(int fds[2])
{
    assert_int_equal(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
    sw_log_start(fds[1], SW_LOG_PLAIN);
}

/* Later lines go to the last descriptor. */
static void uncapture(const int fds[2])
{
    sw_log_stop();
    sw_log_start(STDERR_FILENO, SW_LOG_PLAIN);
    sw_log_stop();
    (void)close(fds[0]);
    (void)close(fds[1]);
}

static size_t count_lines(int fd, const char *what)
{
    size_t n = 0;
    char text[65536];
    ssize_t got = read(fd, text, sizeof(text) - 1);

    text[got > 0 ? got : 0] = '\0';
    for (const char *at = text; (at = strstr(at, what)); at++)
        n++;
    return n;
}

static void a_flood_of_refusals_is_not_a_flood_of_lines(void **state)
{
    struct world *w = *state;
    const char *want = "other";
    int fds[2];

    w->opts.allow = allow_good;
    w->opts.arg = &want;
    capture(fds);
    for (int i = 0; i < 200; i++) {
        connect_delta(w);
        subscribe(w, "CDS", NULL);
        wait_done(w);
        assert_int_equal(w->status, SW_GRPC_UNAUTHENTICATED);
        w->done = 0;
    }
    sw_log_flush();
    assert_in_range(count_lines(fds[0], "refused: bad token"), 1, 100);
    /* A known client still has a line. */
    want = "good";
    connect_delta(w);
    assert_int_equal(sw_grpc_send(w->call, SW_SLICE_LIT("\xff\xff")), SW_OK);
    wait_done(w);
    sw_log_flush();
    assert_int_equal(count_lines(fds[0], "closing the stream of client"), 1);
    uncapture(fds);
}

/* Each refusal quotes something else. */
static void a_flood_of_nacks_is_not_a_flood_of_lines(void **state)
{
    struct world *w = *state;
    char text[64];
    int fds[2];

    capture(fds);
    COMMIT(w, "OWN a=1");
    connect_delta(w);
    subscribe(w, "OWN", "*");
    for (int i = 0; i < 200; i++) {
        expect_open(w, i % 2 ? "OWN +a=2" : "OWN +a=1");
        (void)snprintf(text, sizeof(text), "no good %d", i);
        answer(w, text);
        turns(w, 1);
        if (i % 2)
            COMMIT(w, "OWN! a=1");
        else
            COMMIT(w, "OWN! a=2");
    }
    sw_log_flush();
    assert_in_range(count_lines(fds[0], "client refused a response"), 1, 100);
    uncapture(fds);
}

static int allow_as_told(void *arg, const struct sw_xds_client_id *id, struct sw_err *err)
{
    int rc = *(const int *)arg;

    assert_true(sw_slice_eq_str(id->token, "good"));
    return rc == SW_EDENIED ? sw_err_set(err, rc, "bad token") : rc;
}

/* Nobody knows the token yet: nothing is read, until somebody does. */
static void a_client_waits_while_it_is_judged(void **state)
{
    struct world *w = *state;
    int rc = SW_EPENDING;

    w->opts.allow = allow_as_told;
    w->opts.arg = &rc;
    COMMIT(w, "CDS a=1");
    connect_delta(w);
    subscribe(w, "CDS", NULL);
    expect_nothing(w);
    sw_xds_server_recheck(w->server); /* somebody else's answer */
    expect_nothing(w);
    assert_int_equal(w->done, 0);
    rc = SW_OK;
    sw_xds_server_recheck(w->server);
    expect(w, "CDS +a=1");
    rc = SW_EDENIED; /* it is in */
    sw_xds_server_recheck(w->server);
    expect_nothing(w);
    assert_int_equal(w->done, 0);
}

static void count_done(struct sw_grpc_call *c, enum sw_grpc_status status, struct sw_slice text,
                       void *arg)
{
    (void)c;
    (void)text;
    *(size_t *)arg += status == SW_GRPC_UNAVAILABLE;
}

/* Half of the places to wait are for others. */
static void one_client_does_not_wait_in_all_places(void **state)
{
    static const struct sw_grpc_ops count_ops = {.on_done = count_done};
    struct world *w = *state;
    struct world *more = SW_NEW(struct world);
    struct sw_grpc_call *calls[200];
    size_t refused = 0;
    int rc = SW_EPENDING;

    w->opts.allow = allow_as_told;
    w->opts.arg = &rc;
    join(w, more);
    for (size_t i = 0; i < SW_ARRAY_LEN(calls); i++) {
        calls[i] = sw_grpc_call(i % 2 ? w->client : more->client,
                                SW_SLICE_LIT(ADS "DeltaAggregatedResources"), SW_SLICE_LIT("good"),
                                0, &count_ops, &refused);
        assert_int_equal(sw_grpc_send(calls[i], sw_slice("", 0)), SW_OK);
    }
    for (int i = 0; i < 5000 && refused < 200 - 128; i++)
        sw_loop_turn(w->loop, 2);
    turns(w, 10);
    assert_int_equal(refused, 200 - 128);
    assert_int_equal(sw_xds_server_streams(w->server), 128);
    leave(more);
    sw_free(more);
}

static void a_client_that_waited_may_be_refused(void **state)
{
    struct world *w = *state;
    int rc = SW_EPENDING;

    w->opts.allow = allow_as_told;
    w->opts.arg = &rc;
    connect_delta(w);
    subscribe(w, "CDS", NULL);
    expect_nothing(w);
    rc = SW_EDENIED;
    sw_xds_server_recheck(w->server);
    wait_done(w);
    assert_int_equal(w->status, SW_GRPC_UNAUTHENTICATED);
    for (int i = 0; i < 5000 && sw_xds_server_streams(w->server); i++)
        sw_loop_turn(w->loop, 5);
    assert_int_equal(sw_xds_server_streams(w->server), 0);
}

struct revocation {
    bool is;
    int asked;
};

static bool revoked_as_told(void *arg, const struct sw_xds_client_id *id, struct sw_err *err)
{
    struct revocation *r = arg;

    assert_true(sw_slice_eq_str(id->token, "good"));
    assert_true(sw_slice_eq_str(id->node_id, "node-1"));
    r->asked++;
    return r->is && sw_err_set(err, SW_EDENIED, "the token has expired") != SW_OK;
}

static void a_client_that_loses_its_right_loses_its_stream(void **state)
{
    struct world *w = *state;
    struct revocation r = {0};

    w->opts.revoked = revoked_as_told;
    w->opts.review_ns = 2 * SW_NS_PER_S;
    w->opts.arg = &r;
    COMMIT(w, "CDS a=1");
    connect_delta(w);
    subscribe(w, "CDS", NULL);
    expect(w, "CDS +a=1");
    turns(w, 5);
    skew += 3 * SW_NS_PER_S;
    COMMIT(w, "CDS a=2");
    expect(w, "CDS +a=2");
    assert_in_range(r.asked, 1, 9);
    assert_int_equal(w->done, 0);
    r.is = true;
    skew += 3 * SW_NS_PER_S;
    wait_done(w);
    assert_int_equal(w->status, SW_GRPC_UNAUTHENTICATED);
    for (int i = 0; i < 5000 && sw_xds_server_streams(w->server); i++)
        sw_loop_turn(w->loop, 5);
    assert_int_equal(sw_xds_server_streams(w->server), 0);
}

/* The answer to a review came later than the review: the next one is an hour away. */
static void a_late_no_ends_the_stream_when_it_comes(void **state)
{
    struct world *w = *state;
    struct revocation r = {0};

    w->opts.revoked = revoked_as_told;
    w->opts.review_ns = 3600 * SW_NS_PER_S;
    w->opts.arg = &r;
    COMMIT(w, "CDS a=1");
    connect_delta(w);
    subscribe(w, "CDS", NULL);
    expect(w, "CDS +a=1");
    sw_xds_server_review(w->server);
    assert_int_equal(r.asked, 1);
    turns(w, 5);
    assert_int_equal(w->done, 0);
    r.is = true;
    sw_xds_server_review(w->server);
    sw_xds_server_review(w->server);
    assert_int_equal(r.asked, 2); /* it ends already */
    wait_done(w);
    assert_int_equal(w->status, SW_GRPC_UNAUTHENTICATED);
}

static struct sw_xds_cache *by_node(void *arg, const struct sw_xds_client_id *id,
                                    struct sw_err *err)
{
    struct world *w = arg;

    if (w->other && sw_slice_eq_str(id->node_id, "node-1"))
        return w->other;
    (void)sw_err_set(err, SW_EDENIED, "who are you");
    return NULL;
}

static void clients_are_served_from_their_own_cache(void **state)
{
    struct world *w = *state;
    struct sw_xds_txn *t = sw_xds_txn_new();

    w->opts.select = by_node;
    w->opts.arg = w;
    COMMIT(w, "CDS a=1");
    connect_delta(w);
    subscribe(w, "CDS", NULL);
    wait_done(w);
    assert_int_equal(w->status, SW_GRPC_PERMISSION_DENIED);
    w->done = 0;
    w->other = sw_xds_cache_new();
    assert_int_equal(sw_xds_txn_put(t, SW_XDS_CLUSTER, SW_SLICE_LIT("o"), SW_SLICE_LIT("1"), NULL),
                     SW_OK);
    (void)sw_xds_cache_commit(w->other, t);
    connect_delta(w);
    subscribe(w, "CDS", NULL);
    expect(w, "CDS +o=1");
    sw_xds_cache_free(w->other);
    w->other = NULL;
    wait_done(w);
    assert_int_equal(w->status, SW_GRPC_UNAVAILABLE);
}

static int by_right(void *arg, const struct sw_xds_client_id *id, char ret[SW_XDS_VIEW_MAX],
                    struct sw_err *err)
{
    const struct world *w = arg;

    (void)id;
    if (!w->view)
        return sw_err_set(err, SW_ENOENT, "nothing for you");
    if (strcmp(w->view, "later") == 0)
        return SW_EPENDING;
    (void)snprintf(ret, SW_XDS_VIEW_MAX, "%s", w->view);
    return SW_OK;
}

static void put_in(struct world *w, const char *type, const char *name)
{
    struct sw_xds_txn *t = sw_xds_txn_new();

    assert_int_equal(sw_xds_txn_set(t, type, sw_slice_str(name), SW_SLICE_LIT("1"), NULL), SW_OK);
    (void)sw_xds_cache_commit(w->cache, t);
}

static void clients_have_views_of_the_cache(void **state)
{
    struct world *w = *state;

    w->opts.view = by_right;
    w->opts.arg = w;
    w->view = "later"; /* nobody knows: it is told nothing, rather than all */
    put_in(w, SW_XDS_CLUSTER, "everybody");
    connect_delta(w);
    subscribe(w, "CDS", NULL);
    for (int i = 0; i < 5; i++)
        sw_loop_turn(w->loop, 1);
    w->view = "one"; /* not complete: the same */
    sw_xds_server_review(w->server);
    put_in(w, "one#" SW_XDS_CLUSTER, "a");
    for (int i = 0; i < 5; i++)
        sw_loop_turn(w->loop, 1);
    put_in(w, "one#" SW_XDS_VIEW, "x");
    expect(w, "CDS +a=1");
    put_in(w, "two#" SW_XDS_CLUSTER, "b");
    put_in(w, "two#" SW_XDS_VIEW, "x");
    w->view = "two";
    sw_xds_server_review(w->server);
    expect(w, "CDS +b=1");
    w->view = NULL;
    sw_xds_server_review(w->server);
    wait_done(w);
    assert_int_equal(w->status, SW_GRPC_PERMISSION_DENIED);
}

static void stopped(void *arg)
{
    *(bool *)arg = true;
}

static void a_stopping_server_tells_its_clients(void **state)
{
    struct world *w = *state;
    bool is_stopped = false;

    connect_delta(w);
    subscribe(w, "CDS", NULL);
    expect(w, "CDS");
    sw_xds_server_stop(w->server, 5 * SW_NS_PER_S, stopped, &is_stopped);
    wait_done(w);
    assert_int_equal(w->status, SW_GRPC_UNAVAILABLE);
    for (int i = 0; i < 5000 && !is_stopped; i++)
        sw_loop_turn(w->loop, 10);
    assert_true(is_stopped);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LIVE(a_slow_client_costs_little),
        LIVE(a_slow_node_never_delays_the_others),
        LIVE(streams_are_bounded),
        LIVE(strangers_are_refused),
        LIVE(a_flood_of_refusals_is_not_a_flood_of_lines),
        LIVE(a_flood_of_nacks_is_not_a_flood_of_lines),
        LIVE(a_client_waits_while_it_is_judged),
        LIVE(a_client_that_waited_may_be_refused),
        LIVE(one_client_does_not_wait_in_all_places),
        LIVE(a_client_that_loses_its_right_loses_its_stream),
        LIVE(a_late_no_ends_the_stream_when_it_comes),
        LIVE(clients_are_served_from_their_own_cache),
        LIVE(clients_have_views_of_the_cache),
        LIVE(a_stopping_server_tells_its_clients),
    };

    return cmocka_run_group_tests_name("xds server limits", tests, NULL, NULL);
}
