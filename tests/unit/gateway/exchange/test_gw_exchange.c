/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exchange core alone: both sides are records of what they were told, routing and pool are the
 * calls below, clusters and clock are real and fake.
 */
#include "gw_help.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/time.h"
#include "gateway/config/config.h"
#include "gateway/conn/worker.h"
#include "gateway/exchange/exchange.h"
#include "gateway/exchange/side.h"
#include "gateway/exchange/state.h"
#include "gateway/upstream/hosts.h"
#include "gateway/upstream/pick.h"

enum { MEMBERS = 3 };

/* What a side was told: a letter each, and the bytes of the body. */
struct side {
    char told[128];
    size_t n;
    char body[70000];
    size_t n_body;
    bool blocked;
    int status;
    uint32_t flags; /* of the exchange when its answer was sent */
};

static struct {
    struct sw_gw_store *store;
    struct sw_gw_worker worker;
    struct sw_gw_view *view;
    struct side down;
    struct side up;
    struct sw_gw_plan plan;   /* of the next exchange */
    struct sw_gw_retry retry; /* on == 0: none */
    int route_rc;
    int connects;
    int hosts[16];
    struct sw_exchange *x;
} t;

static uint64_t now_ns;

static uint64_t clock_ns(void)
{
    return now_ns;
}

/* ---- sides ---- */

static void tell(struct side *s, char what)
{
    assert_true(s->n < sizeof(s->told) - 1);
    s->told[s->n++] = what;
    s->told[s->n] = '\0';
}

static void add_body(struct side *s, struct sw_slice data)
{
    assert_true(s->n_body + data.n <= sizeof(s->body));
    memcpy(s->body + s->n_body, data.p, data.n);
    s->n_body += data.n;
    if (s->n == 0 || s->told[s->n - 1] != 'd')
        tell(s, 'd');
}

static void down_head(struct sw_exchange *x, bool end)
{
    t.down.status = x->resp.status;
    t.down.flags = x->flags;
    tell(&t.down, end ? 'H' : 'h');
}

static void down_data(struct sw_exchange *x, struct sw_slice data)
{
    (void)x;
    add_body(&t.down, data);
}

static void down_end(struct sw_exchange *x)
{
    (void)x;
    tell(&t.down, 'e');
}

static void down_info(struct sw_exchange *x, int status)
{
    (void)x;
    tell(&t.down, status == 100 ? 'c' : 'i');
}

static void down_abort(struct sw_exchange *x)
{
    (void)gw_side_detach(&x->down);
    tell(&t.down, 'A');
}

static void down_done(struct sw_exchange *x)
{
    (void)gw_side_detach(&x->down);
    tell(&t.down, 'D');
}

static struct side *of(const struct sw_gw_side *s)
{
    return s == &t.x->down ? &t.down : &t.up;
}

static void flush_side(struct sw_gw_side *s)
{
    (void)s;
}

static bool blocked(const struct sw_gw_side *s)
{
    return of(s)->blocked;
}

static void pause_side(struct sw_gw_side *s)
{
    tell(of(s), 'p');
}

static void resume_side(struct sw_gw_side *s)
{
    tell(of(s), 'r');
}

static const struct sw_gw_side_ops down_ops = {
    .send_head = down_head,
    .send_data = down_data,
    .send_end = down_end,
    .flush = flush_side,
    .blocked = blocked,
    .pause = pause_side,
    .resume = resume_side,
    .abort = down_abort,
    .done = down_done,
    .send_info = down_info,
};

static void up_head(struct sw_exchange *x, bool end)
{
    (void)x;
    tell(&t.up, end ? 'H' : 'h');
}

static void up_data(struct sw_exchange *x, struct sw_slice data)
{
    (void)x;
    add_body(&t.up, data);
}

static void up_end(struct sw_exchange *x)
{
    (void)x;
    tell(&t.up, 'e');
}

static void up_abort(struct sw_exchange *x)
{
    (void)gw_side_detach(&x->up);
    tell(&t.up, 'A');
}

static void up_done(struct sw_exchange *x)
{
    (void)gw_side_detach(&x->up);
    tell(&t.up, 'D');
}

static const struct sw_gw_side_ops up_ops = {
    .send_head = up_head,
    .send_data = up_data,
    .send_end = up_end,
    .flush = flush_side,
    .blocked = blocked,
    .pause = pause_side,
    .resume = resume_side,
    .abort = up_abort,
    .done = up_done,
};

/* ---- what the core asks ---- */

static int route(struct sw_exchange *x)
{
    x->rs = SW_ARENA_NEW(&x->arena, struct sw_gw_route_state);
    x->rs->cluster = SW_SLICE_LIT("c");
    x->rs->retry = t.retry.on ? &t.retry : NULL;
    x->plan = t.plan;
    return t.route_rc;
}

static void response(struct sw_exchange *x)
{
    (void)x;
}

static void connect_up(struct sw_exchange *x)
{
    t.hosts[t.connects++ & 15] = x->host->addr.ip.ip.b[3];
}

static void cancel_up(struct sw_exchange *x)
{
    sw_list_unlink(&x->queue);
}

static const struct sw_gw_calls calls = {
    .route = route,
    .response = response,
    .connect = connect_up,
    .cancel = cancel_up,
};

/* ---- the world ---- */

static int set_up(void **state)
{
    struct sw_err err = {0};

    (void)state;
    memset(&t, 0, sizeof(t));
    now_ns = 1000 * SW_NS_PER_S;
    t.store = gw_store(1);
    assert_int_equal(
        gw_put(t.store, SW_GW_TYPE_CLUSTER, "c",
               "{'name':'c','load_assignment':{'cluster_name':'c','endpoints':[{'lb_endpoints':["
               "{'endpoint':{'address':{'socket_address':{'address':'10.0.0.1','port_value':80}}}},"
               "{'endpoint':{'address':{'socket_address':{'address':'10.0.0.2','port_value':80}}}},"
               "{'endpoint':{'address':{'socket_address':{'address':'10.0.0.3','port_value':80}}}}"
               "]}]}}",
               &err),
        SW_OK);
    t.worker.calls = &calls;
    t.worker.loop = sw_loop_new(&err);
    assert_non_null(t.worker.loop);
    sw_loop_set_clock(t.worker.loop, clock_ns);
    sw_list_init(&t.worker.exchanges);
    sw_list_init(&t.worker.ended);
    t.view = SW_NEW(struct sw_gw_view);
    t.view->config = sw_gw_config_ref(gw_flush(t.store));
    t.view->refs = 1;
    t.worker.view = t.view;
    t.worker.hosts = sw_gw_hosts_new(&t.worker);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (t.worker.n_exchanges)
        sw_exchange_kill(t.x);
    assert_int_equal(t.worker.n_exchanges, 0);
    sw_exchange_reap(&t.worker);
    assert_true(sw_list_empty(&t.worker.ended));
    assert_int_equal(t.view->refs, 1); /* every exchange gave its own back */
    SW_VEC_FOREACH (struct sw_exchange *, it, &t.worker.spare) {
        sw_timer_stop(t.worker.loop, &(*it)->clock.timer);
        sw_arena_clear(&(*it)->arena);
        sw_free(*it);
    }
    sw_vec_done(&t.worker.spare);
    sw_gw_hosts_free(t.worker.hosts);
    (void)sw_gw_view_unref(t.view);
    sw_loop_free(t.worker.loop);
    sw_gw_store_free(t.store);
    return 0;
}

/* Requests that all workers count at the cluster's members. */
static uint32_t active(void)
{
    return sw_gw_config_cluster(t.view->config, SW_SLICE_LIT("c"))->state->cells[0].active;
}

static void pass_ms(unsigned ms)
{
    now_ns += ms * SW_NS_PER_MS;
    sw_loop_turn(t.worker.loop, 0);
    sw_loop_turn(t.worker.loop, 0);
}

static void start(const char *method, bool end)
{
    struct sw_exchange *x = sw_exchange_new(&t.worker);

    x->req.method = sw_slice_str(method);
    x->req.path = SW_SLICE_LIT("/");
    x->req.authority = SW_SLICE_LIT("h");
    x->req.version = SW_GW_HTTP11;
    x->req.length = end ? SW_GW_LENGTH_NONE : SW_GW_LENGTH_UNKNOWN;
    x->down.ops = &down_ops;
    t.x = x;
    sw_exchange_start(x, end);
}

/* The pool has a connection. */
static void ready(void)
{
    t.up.n = 0;
    t.up.told[0] = '\0';
    t.x->up.ops = &up_ops;
    sw_exchange_up_ready(t.x);
}

static void answer(int status, bool end)
{
    t.x->resp.status = (uint16_t)status;
    t.x->resp.length = end ? SW_GW_LENGTH_NONE : SW_GW_LENGTH_UNKNOWN;
    sw_exchange_up_head(t.x, end);
}

/* The attempt ended; the codec lets go first. */
static void fails(enum sw_gw_outcome how)
{
    t.x->up.ops = NULL;
    sw_exchange_up_failed(t.x, how, "test");
}

/* ---- tests ---- */

static void test_a_request_and_its_answer_pass(void **state)
{
    (void)state;
    start("GET", true);
    assert_int_equal(t.connects, 1);
    assert_int_equal(active(), 1);
    ready();
    assert_string_equal(t.up.told, "H");
    answer(200, false);
    sw_exchange_up_data(t.x, SW_SLICE_LIT("body"));
    sw_exchange_up_end(t.x);
    assert_string_equal(t.down.told, "hdeD");
    assert_string_equal(t.up.told, "HD");
    assert_int_equal(t.down.status, 200);
    assert_int_equal(active(), 0);
    assert_int_equal(t.worker.n_exchanges, 0);
}

static void test_a_body_that_comes_before_the_connection_is_kept(void **state)
{
    (void)state;
    start("POST", false);
    sw_exchange_down_data(t.x, SW_SLICE_LIT("one "));
    sw_exchange_down_data(t.x, SW_SLICE_LIT("two"));
    assert_int_equal(t.up.n_body, 0);
    ready();
    assert_string_equal(t.up.told, "hd");
    sw_exchange_down_data(t.x, SW_SLICE_LIT(" three"));
    sw_exchange_down_end(t.x);
    assert_string_equal(t.up.told, "hde");
    assert_memory_equal(t.up.body, "one two three", 13);
    assert_int_equal(t.up.n_body, 13);
}

static void test_a_client_that_sends_too_early_is_paused(void **state)
{
    static char much[64 * 1024];

    (void)state;
    start("POST", false);
    sw_exchange_down_data(t.x, sw_slice(much, sizeof(much) - 1));
    assert_string_equal(t.down.told, "");
    sw_exchange_down_data(t.x, SW_SLICE_LIT("x"));
    assert_string_equal(t.down.told, "p");
    ready();
    assert_string_equal(t.down.told, "pr");
    assert_int_equal(t.up.n_body, sizeof(much));
}

static void test_back_pressure_goes_both_ways(void **state)
{
    (void)state;
    start("POST", false);
    ready();
    t.up.blocked = true;
    sw_exchange_down_data(t.x, SW_SLICE_LIT("x"));
    sw_exchange_down_data(t.x, SW_SLICE_LIT("y"));
    assert_string_equal(t.down.told, "p"); /* once */
    sw_exchange_up_drained(t.x);
    assert_string_equal(t.down.told, "p"); /* it still is */
    t.up.blocked = false;
    sw_exchange_up_drained(t.x);
    assert_string_equal(t.down.told, "pr");
    answer(200, false);
    t.down.blocked = true;
    sw_exchange_up_data(t.x, SW_SLICE_LIT("z"));
    assert_string_equal(t.up.told, "hdp");
    t.down.blocked = false;
    sw_exchange_down_drained(t.x);
    assert_string_equal(t.up.told, "hdpr");
}

static void test_a_stale_connection_is_repeated_once_where_that_is_harmless(void **state)
{
    (void)state;
    start("GET", true);
    ready();
    fails(SW_GW_STALE);
    pass_ms(1);
    assert_int_equal(t.connects, 2);
    assert_int_equal(t.x->attempts, 1); /* not one that counts */
    ready();
    fails(SW_GW_STALE);
    pass_ms(1);
    assert_int_equal(t.connects, 2);
    assert_int_equal(t.down.status, 503);
    assert_int_equal(active(), 0);
}

static void test_a_post_is_repeated_only_when_nothing_was_sent(void **state)
{
    (void)state;
    start("POST", true);
    ready();
    fails(SW_GW_STALE);
    assert_int_equal(t.down.status, 503);
    assert_int_equal(t.connects, 1);
    sw_exchange_reap(&t.worker);
    memset(&t.down, 0, sizeof(t.down));
    start("POST", true);
    ready();
    fails(SW_GW_UNSENT);
    pass_ms(1);
    assert_int_equal(t.connects, 3);
    assert_int_equal(t.down.n, 0);
}

static void test_another_host_is_asked_when_none_accepts(void **state)
{
    (void)state;
    start("POST", true);
    for (int i = 0; i < SW_GW_HOSTS_MAX - 1; i++) {
        fails(SW_GW_CONNECT_FAILED);
        assert_int_equal(t.down.n, 0);
        pass_ms(1);
    }
    assert_int_equal(t.connects, SW_GW_HOSTS_MAX);
    assert_int_not_equal(t.hosts[0], t.hosts[1]);
    assert_int_not_equal(t.hosts[0], t.hosts[2]);
    assert_int_not_equal(t.hosts[1], t.hosts[2]);
    fails(SW_GW_CONNECT_FAILED);
    assert_int_equal(t.down.status, 503);
    assert_true(t.down.flags & SW_GW_FLAG_UF);
    assert_int_equal(active(), 0);
}

static void test_a_retry_policy_is_followed_to_its_number(void **state)
{
    (void)state;
    t.retry = (struct sw_gw_retry){
        .on = SW_GW_RETRY_5XX, .num = 2, .base_ns = SW_NS_PER_MS, .max_ns = SW_NS_PER_MS};
    t.plan.retries = true;
    start("POST", false);
    sw_exchange_down_data(t.x, SW_SLICE_LIT("body"));
    sw_exchange_down_end(t.x);
    for (int i = 0; i < 3; i++) {
        t.up.n_body = 0;
        ready();
        assert_string_equal(t.up.told, "hde");
        assert_memory_equal(t.up.body, "body", 4);
        assert_int_equal(t.up.n_body, 4);
        answer(503, true);
        pass_ms(2);
    }
    assert_int_equal(t.connects, 3);
    assert_int_equal(t.down.status, 503);
    assert_true(t.down.flags & SW_GW_FLAG_URX);
}

static void test_a_body_that_is_not_kept_is_not_sent_again(void **state)
{
    static char much[64 * 1024 + 1];

    (void)state;
    t.retry = (struct sw_gw_retry){
        .on = SW_GW_RETRY_5XX, .num = 2, .base_ns = SW_NS_PER_MS, .max_ns = SW_NS_PER_MS};
    t.plan.retries = true;
    start("POST", false);
    ready();
    sw_exchange_down_data(t.x, sw_slice(much, sizeof(much)));
    sw_exchange_down_end(t.x);
    answer(503, true);
    assert_int_equal(t.connects, 1);
    assert_int_equal(t.down.status, 503);
}

static void test_a_whole_request_has_its_time(void **state)
{
    (void)state;
    t.plan.timeout_ns = 100 * SW_NS_PER_MS;
    start("GET", true);
    ready();
    pass_ms(99);
    assert_int_equal(t.down.n, 0);
    pass_ms(2);
    assert_int_equal(t.down.status, 504);
    assert_string_equal(t.up.told, "HA");
    assert_int_equal(active(), 0);
}

static void test_the_time_begins_when_the_request_is_complete(void **state)
{
    (void)state;
    t.plan.timeout_ns = 100 * SW_NS_PER_MS;
    start("POST", false);
    ready();
    pass_ms(500);
    assert_int_equal(t.down.n, 0);
    sw_exchange_down_end(t.x);
    pass_ms(101);
    assert_int_equal(t.down.status, 504);
}

static void test_bytes_put_the_idle_limit_off(void **state)
{
    (void)state;
    t.plan.idle_timeout_ns = 100 * SW_NS_PER_MS;
    start("POST", false);
    ready();
    pass_ms(90);
    sw_exchange_down_data(t.x, SW_SLICE_LIT("x"));
    pass_ms(90);
    assert_int_equal(t.down.n, 0);
    pass_ms(11);
    assert_int_equal(t.down.status, 408);
    assert_true(t.down.flags & SW_GW_FLAG_SI);
}

static void test_an_attempt_has_its_time(void **state)
{
    (void)state;
    t.retry = (struct sw_gw_retry){
        .on = SW_GW_RETRY_5XX, .num = 1, .base_ns = SW_NS_PER_MS, .max_ns = SW_NS_PER_MS};
    t.plan.retries = true;
    t.plan.try_timeout_ns = 50 * SW_NS_PER_MS;
    start("GET", true);
    ready();
    pass_ms(51);
    assert_string_equal(t.up.told, "HA");
    pass_ms(2);
    assert_int_equal(t.connects, 2);
    ready();
    answer(200, true);
    assert_int_equal(t.down.status, 200);
    assert_string_equal(t.down.told, "HD");
}

static void test_an_upstream_that_breaks_off_aborts_the_answer(void **state)
{
    (void)state;
    start("GET", true);
    ready();
    answer(200, false);
    sw_exchange_up_data(t.x, SW_SLICE_LIT("half"));
    fails(SW_GW_RESET_BEFORE);
    assert_string_equal(t.down.told, "hdA"); /* never an end: it would look complete */
    assert_int_equal(active(), 0);
}

static void test_an_answer_before_the_end_of_the_request_ends_the_sending(void **state)
{
    (void)state;
    start("POST", false);
    ready();
    answer(413, true);
    assert_string_equal(t.down.told, "HD");
    assert_string_equal(t.up.told, "hA");
}

static void test_a_client_that_leaves_is_not_the_hosts_fault(void **state)
{
    const struct sw_gw_cluster *c = sw_gw_config_cluster(t.view->config, SW_SLICE_LIT("c"));

    (void)state;
    start("GET", true);
    ready();
    (void)gw_side_detach(&t.x->down);
    sw_exchange_down_gone(t.x);
    assert_string_equal(t.up.told, "HA");
    assert_true(t.x->flags & SW_GW_FLAG_DC);
    assert_int_equal(active(), 0);
    for (size_t i = 0; i < MEMBERS; i++)
        assert_int_equal(c->members->localities[0].endpoints[i].member->cells[0].rq_err, 0);
}

static void test_a_filter_that_waits_holds_the_request(void **state)
{
    static const struct sw_gw_hcm hcm = {.timeouts.stream_idle_ns = SW_NS_PER_S};
    struct sw_exchange *x;

    (void)state;
    t.route_rc = SW_EPENDING;
    x = sw_exchange_new(&t.worker);
    t.x = x;
    x->req.method = SW_SLICE_LIT("GET");
    x->req.version = SW_GW_HTTP11;
    x->hcm = &hcm;
    x->down.ops = &down_ops;
    sw_exchange_start(x, true);
    assert_int_equal(t.connects, 0);
    sw_exchange_continue(x);
    assert_int_equal(t.connects, 1);
    sw_exchange_continue(x); /* once only */
    assert_int_equal(t.connects, 1);
}

static void test_interim_responses_are_bounded(void **state)
{
    (void)state;
    start("GET", true);
    ready();
    sw_exchange_up_info(t.x, 100); /* was answered here */
    for (int i = 0; i < 20; i++)
        sw_exchange_up_info(t.x, 103);
    assert_int_equal(t.down.n, SW_GW_INFOS_MAX);
}

static void test_a_local_reply_frees_the_attempt(void **state)
{
    (void)state;
    start("GET", true);
    sw_exchange_reply(t.x, 403, SW_SLICE_LIT("no"), "denied");
    assert_int_equal(t.down.status, 403);
    assert_string_equal(t.down.told, "hdeD");
    assert_memory_equal(t.down.body, "no", 2);
    assert_int_equal(active(), 0);
    sw_exchange_reply(t.x, 500, SW_SLICE_LIT("late"), "late"); /* over: nothing */
    assert_string_equal(t.down.told, "hdeD");
}

static void test_an_unknown_cluster_is_answered(void **state)
{
    (void)state;
    gw_remove(t.store, SW_GW_TYPE_CLUSTER, "c");
    (void)sw_gw_config_unref(t.view->config);
    t.view->config = sw_gw_config_ref(gw_flush(t.store));
    start("GET", true);
    assert_int_equal(t.down.status, 503);
    assert_true(t.down.flags & SW_GW_FLAG_NC);
    assert_string_equal(t.x->detail, "cluster_not_found");
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(test_a_request_and_its_answer_pass),
        T(test_a_body_that_comes_before_the_connection_is_kept),
        T(test_a_client_that_sends_too_early_is_paused),
        T(test_back_pressure_goes_both_ways),
        T(test_a_stale_connection_is_repeated_once_where_that_is_harmless),
        T(test_a_post_is_repeated_only_when_nothing_was_sent),
        T(test_another_host_is_asked_when_none_accepts),
        T(test_a_retry_policy_is_followed_to_its_number),
        T(test_a_body_that_is_not_kept_is_not_sent_again),
        T(test_a_whole_request_has_its_time),
        T(test_the_time_begins_when_the_request_is_complete),
        T(test_bytes_put_the_idle_limit_off),
        T(test_an_attempt_has_its_time),
        T(test_an_upstream_that_breaks_off_aborts_the_answer),
        T(test_an_answer_before_the_end_of_the_request_ends_the_sending),
        T(test_a_client_that_leaves_is_not_the_hosts_fault),
        T(test_a_filter_that_waits_holds_the_request),
        T(test_interim_responses_are_bounded),
        T(test_a_local_reply_frees_the_attempt),
        T(test_an_unknown_cluster_is_answered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
