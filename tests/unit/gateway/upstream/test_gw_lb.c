/* SPDX-License-Identifier: Apache-2.0 */
/* Load balancing, priorities, panic, limits, outlier ejection. */
#include "gw_help.h"

#include "base/time.h"
#include "gateway/config/config.h"
#include "gateway/upstream/aside.h"
#include "gateway/upstream/hosts.h"
#include "gateway/upstream/lb.h"
#include "gateway/upstream/outlier.h"
#include "gateway/upstream/pick.h"
#include "gateway/xds/store.h"

struct world {
    struct sw_gw_store *store;
    struct sw_gw_config *config; /* borrowed */
    struct sw_gw_hosts *hosts;
};

static void open_world(struct world *w, const char *cluster)
{
    struct sw_err err = {0};

    w->store = gw_store(1);
    if (gw_put(w->store, SW_GW_TYPE_CLUSTER, "c", cluster, &err) != SW_OK)
        fail_msg("%s", err.msg);
    w->config = gw_flush(w->store);
    w->hosts = sw_gw_hosts_new(NULL);
}

static void close_world(struct world *w)
{
    sw_gw_hosts_free(w->hosts);
    sw_gw_store_free(w->store);
}

#define EP(last, extra)                                                                            \
    "{'endpoint':{'address':{'socket_address':{'address':'10.0.0." last                            \
    "','port_value':80}}}" extra "}"
#define CLUSTER(extra, eps)                                                                        \
    "{'name':'c'" extra ",'load_assignment':{'cluster_name':'c','endpoints':[" eps "]}}"
#define PLACE(extra, eps) "{'lb_endpoints':[" eps "]" extra "}"

/* Last byte of the address chosen, 0: none. The request ends at once, well. */
static int pick(struct world *w, const struct sw_gw_pick *p)
{
    static const struct sw_gw_pick plain;
    struct sw_gw_host *h;
    int last;

    if (sw_gw_lb_pick(w->hosts, w->config, SW_SLICE_LIT("c"), p ? p : &plain, &h) != SW_OK)
        return 0;
    last = h->addr.ip.ip.b[3];
    sw_gw_lb_done(w->hosts, h, SW_GW_RESULT_OK, 200);
    return last;
}

static void spread(struct world *w, int n, int count[16])
{
    memset(count, 0, 16 * sizeof(*count));
    for (int i = 0; i < n; i++)
        count[pick(w, NULL) & 15]++;
}

static struct sw_gw_member *member(struct world *w, size_t place, size_t i)
{
    return sw_gw_config_cluster(w->config, SW_SLICE_LIT("c"))
        ->members->localities[place]
        .endpoints[i]
        .member;
}

static void set_failed(struct world *w, size_t place, size_t i, bool failed)
{
    struct sw_gw_cluster *c = sw_gw_config_cluster(w->config, SW_SLICE_LIT("c"));

    atomic_store(&member(w, place, i)->health, failed ? SW_GW_FAILED_ACTIVE : 0);
    atomic_fetch_add(&c->state->health_version, 1);
}

static void round_robin_is_even_and_weighted(void **state)
{
    struct world w;
    int n[16];

    (void)state;
    open_world(&w, CLUSTER("", PLACE("", EP("1", "") "," EP("2", "") "," EP("3", ""))));
    spread(&w, 300, n);
    assert_int_equal(n[1], 100);
    assert_int_equal(n[2], 100);
    assert_int_equal(n[3], 100);
    close_world(&w);
    open_world(&w, CLUSTER("", PLACE("", EP("1", ",'load_balancing_weight':3") "," EP("2", ""))));
    spread(&w, 400, n);
    assert_int_equal(n[1], 300);
    assert_int_equal(n[2], 100);
    close_world(&w);
}

static void failed_members_are_passed_over_until_too_many_fail(void **state)
{
    struct world w;
    int n[16];

    (void)state;
    open_world(&w,
               CLUSTER("", PLACE("", EP("1", "") "," EP("2", "") "," EP("3", "") "," EP("4", ""))));
    set_failed(&w, 0, 0, true);
    spread(&w, 300, n);
    assert_int_equal(n[1], 0);
    assert_int_equal(n[2], 100);
    set_failed(&w, 0, 1, true);
    set_failed(&w, 0, 2, true);
    spread(&w, 400, n); /* one of four: panic, everybody serves */
    assert_int_equal(n[1], 100);
    assert_int_equal(n[4], 100);
    set_failed(&w, 0, 0, false);
    set_failed(&w, 0, 1, false);
    spread(&w, 300, n);
    assert_int_equal(n[3], 0);
    close_world(&w);

    open_world(&w, CLUSTER(",'common_lb_config':{'healthy_panic_threshold':{'value':0}}",
                           PLACE("", EP("1", "") "," EP("2", ""))));
    set_failed(&w, 0, 0, true);
    spread(&w, 10, n);
    assert_int_equal(n[2], 10);
    set_failed(&w, 0, 1, true);
    assert_int_equal(pick(&w, NULL), 0);
    close_world(&w);
}

static void eds_health_counts(void **state)
{
    struct world w;
    int n[16];

    (void)state;
    open_world(&w, CLUSTER("", PLACE("", EP("1", ",'health_status':'DRAINING'") "," EP(
                                             "2", "") "," EP("3", ""))));
    spread(&w, 100, n);
    assert_int_equal(n[1], 0);
    close_world(&w);
}

static void lower_priorities_take_over(void **state)
{
    struct world w;
    int n[16];

    (void)state;
    open_world(&w, CLUSTER("", PLACE("", EP("1", "") "," EP("2", "")) "," PLACE(",'priority':1",
                                                                                EP("3", ""))));
    spread(&w, 100, n);
    assert_int_equal(n[3], 0);
    set_failed(&w, 0, 0, true); /* half of it times 1.4: 70 % */
    spread(&w, 2000, n);
    assert_int_equal(n[1], 0);
    assert_in_range(n[2], 1250, 1550);
    assert_in_range(n[3], 450, 750);
    set_failed(&w, 0, 1, true);
    spread(&w, 100, n);
    assert_int_equal(n[3], 100);
    close_world(&w);
}

static void localities_share_by_weight(void **state)
{
    struct world w;
    int n[16];

    (void)state;
    open_world(&w, CLUSTER(",'common_lb_config':{'locality_weighted_lb_config':{}}",
                           PLACE(",'load_balancing_weight':1", EP("1", "")) "," PLACE(
                               ",'load_balancing_weight':3", EP("2", ""))));
    spread(&w, 2000, n);
    assert_in_range(n[1], 400, 600);
    close_world(&w);

    /* One without a weight gets nothing; none with a weight is as if nobody had asked. */
    open_world(
        &w, CLUSTER(",'common_lb_config':{'locality_weighted_lb_config':{}}",
                    PLACE("", EP("1", "")) "," PLACE(",'load_balancing_weight':3", EP("2", ""))));
    spread(&w, 100, n);
    assert_int_equal(n[2], 100);
    close_world(&w);
    open_world(&w, CLUSTER(",'common_lb_config':{'locality_weighted_lb_config':{}}",
                           PLACE("", EP("1", "")) "," PLACE("", EP("2", ""))));
    spread(&w, 100, n);
    assert_int_equal(n[1] + n[2], 100);
    assert_int_equal(n[1], 50);
    close_world(&w);
}

static void least_request_avoids_the_busy(void **state)
{
    static const struct sw_gw_pick plain;
    struct world w;
    struct sw_gw_host *busy[20];
    int n[16];
    int first;

    (void)state;
    open_world(&w,
               CLUSTER(",'lb_policy':'LEAST_REQUEST','least_request_lb_config':{'choice_count':8}",
                       PLACE("", EP("1", "") "," EP("2", ""))));
    assert_int_equal(sw_gw_lb_pick(w.hosts, w.config, SW_SLICE_LIT("c"), &plain, &busy[0]), SW_OK);
    first = busy[0]->addr.ip.ip.b[3];
    spread(&w, 1000, n);
    assert_true(n[first] < 30);
    sw_gw_lb_done(w.hosts, busy[0], SW_GW_RESULT_OK, 200);
    close_world(&w);
}

static void the_ring_moves_little(void **state)
{
    struct world w;
    int before[500];
    int moved = 0;
    int wrong = 0;

    (void)state;
    open_world(&w, CLUSTER(",'lb_policy':'RING_HASH'",
                           PLACE("", EP("1", "") "," EP("2", "") "," EP("3", "") "," EP("4", ""))));
    for (int i = 0; i < 500; i++) {
        struct sw_gw_pick p = {.has_hash = true,
                               .hash = (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15)};

        before[i] = pick(&w, &p);
        wrong += before[i] != pick(&w, &p);
    }
    assert_int_equal(wrong, 0);
    set_failed(&w, 0, 0, true);
    for (int i = 0; i < 500; i++) {
        struct sw_gw_pick p = {.has_hash = true,
                               .hash = (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15)};

        moved += before[i] != 1 && before[i] != pick(&w, &p);
    }
    assert_int_equal(moved, 0); /* only those of the failed host go elsewhere */
    close_world(&w);
}

static void sessions_and_retries_choose(void **state)
{
    struct world w;
    struct sw_gw_pick p = {.session = SW_SLICE_LIT("10.0.0.2:80")};

    (void)state;
    open_world(&w, CLUSTER("", PLACE("", EP("1", "") "," EP("2", "") "," EP("3", ""))));
    for (int i = 0; i < 5; i++)
        assert_int_equal(pick(&w, &p), 2);
    set_failed(&w, 0, 1, true);
    assert_int_not_equal(pick(&w, &p), 2);
    p.session_strict = true;
    assert_int_equal(pick(&w, &p), 0);
    p = (struct sw_gw_pick){.tried = {member(&w, 0, 0)}, .n_tried = 1};
    for (int i = 0; i < 20; i++)
        assert_int_equal(pick(&w, &p), 3);
    close_world(&w);
}

/* A host that fails at once has the fewest requests: chance alone would choose it again. */
static void retries_leave_an_idle_host_that_failed(void **state)
{
    static const char *const policies[] = {"LEAST_REQUEST", "RANDOM", "ROUND_ROBIN", "RING_HASH"};

    (void)state;
    for (size_t k = 0; k < SW_ARRAY_LEN(policies); k++) {
        struct world w;
        struct sw_gw_pick p = {.n_tried = 1};
        struct sw_gw_host *busy[3];
        char text[512];

        (void)snprintf(text, sizeof(text), "%s%s%s", "{'name':'c','lb_policy':'", policies[k],
                       "','load_assignment':{'cluster_name':'c','endpoints':[" PLACE(
                           "", EP("1", "") "," EP("2", "")) "]}}");
        open_world(&w, text);
        p.tried[0] = member(&w, 0, 0);
        for (size_t i = 0; i < SW_ARRAY_LEN(busy); i++)
            assert_int_equal(sw_gw_lb_pick(w.hosts, w.config, SW_SLICE_LIT("c"), &p, &busy[i]),
                             SW_OK);
        for (int i = 0; i < 2000; i++)
            assert_int_equal(pick(&w, &p), 2);
        p.tried[1] = member(&w, 0, 1); /* all were: any is better than none */
        p.n_tried = 2;
        assert_int_not_equal(pick(&w, &p), 0);
        for (size_t i = 0; i < SW_ARRAY_LEN(busy); i++)
            sw_gw_lb_done(w.hosts, busy[i], SW_GW_RESULT_OK, 200);
        close_world(&w);
    }
}

static void limits_hold(void **state)
{
    static const struct sw_gw_pick plain;
    struct world w;
    struct sw_gw_host *h[3];

    (void)state;
    open_world(&w,
               CLUSTER(",'circuit_breakers':{'thresholds':[{'max_requests':2,'max_retries':1}]}",
                       PLACE("", EP("1", ""))));
    assert_int_equal(sw_gw_lb_pick(w.hosts, w.config, SW_SLICE_LIT("c"), &plain, &h[0]), SW_OK);
    assert_int_equal(sw_gw_lb_pick(w.hosts, w.config, SW_SLICE_LIT("c"), &plain, &h[1]), SW_OK);
    assert_int_equal(sw_gw_lb_pick(w.hosts, w.config, SW_SLICE_LIT("c"), &plain, &h[2]), SW_ELIMIT);
    sw_gw_lb_done(w.hosts, h[0], SW_GW_RESULT_OK, 200);
    assert_int_equal(sw_gw_lb_pick(w.hosts, w.config, SW_SLICE_LIT("c"), &plain, &h[0]), SW_OK);
    assert_true(sw_gw_retry_take(w.hosts, SW_SLICE_LIT("c")));
    assert_false(sw_gw_retry_take(w.hosts, SW_SLICE_LIT("c")));
    sw_gw_retry_give(w.hosts, SW_SLICE_LIT("c"));
    assert_true(sw_gw_retry_take(w.hosts, SW_SLICE_LIT("c")));
    sw_gw_lb_done(w.hosts, h[0], SW_GW_RESULT_OK, 200);
    sw_gw_lb_done(w.hosts, h[1], SW_GW_RESULT_OK, 200);
    assert_int_equal(sw_gw_lb_pick(w.hosts, w.config, SW_SLICE_LIT("x"), &plain, &h[2]), SW_ENOENT);
    close_world(&w);
}

static void outliers_are_ejected_and_come_back(void **state)
{
    struct world w;
    struct sw_gw_cluster *c;
    int n[16];

    (void)state;
    open_world(&w, CLUSTER(",'outlier_detection':{'consecutive_5xx':3,'base_ejection_time':'10s',"
                           "'max_ejection_percent':50}",
                           PLACE("", EP("1", "") "," EP("2", "") "," EP("3", ""))));
    c = sw_gw_config_cluster(w.config, SW_SLICE_LIT("c"));
    for (int i = 0; i < 2; i++)
        sw_gw_outlier_report(c, member(&w, 0, 0), SW_GW_RESULT_OK, 500, 1000);
    sw_gw_outlier_report(c, member(&w, 0, 0), SW_GW_RESULT_OK, 200, 1000); /* starts over */
    for (int i = 0; i < 2; i++)
        sw_gw_outlier_report(c, member(&w, 0, 0), SW_GW_RESULT_OK, 500, 1000);
    spread(&w, 90, n);
    assert_int_equal(n[1], 30);
    for (int i = 0; i < 3; i++)
        sw_gw_outlier_report(c, member(&w, 0, 0), SW_GW_RESULT_BROKEN, 0, 1000);
    spread(&w, 90, n);
    assert_int_equal(n[1], 0);
    for (int i = 0; i < 9; i++) /* two of three would be above the limit */
        sw_gw_outlier_report(c, member(&w, 0, 1), SW_GW_RESULT_OK, 503, 1000);
    spread(&w, 90, n);
    assert_int_equal(n[2], 45);
    assert_true(sw_gw_outlier_sweep(c, UINT64_C(9000000000)));
    assert_false(sw_gw_outlier_sweep(c, UINT64_C(10000002000)));
    spread(&w, 90, n);
    assert_int_equal(n[1], 30);
    for (int i = 0; i < 3; i++) /* the first is back: the limit has room for another */
        sw_gw_outlier_report(c, member(&w, 0, 1), SW_GW_RESULT_OK, 503, UINT64_C(10000003000));
    spread(&w, 90, n);
    assert_int_equal(n[2], 0);
    close_world(&w);
}

static const uint64_t S = UINT64_C(1000000000);

static void refuse(struct world *w, size_t place, size_t i, int times, uint64_t now)
{
    const struct sw_gw_cluster *c = sw_gw_config_cluster(w->config, SW_SLICE_LIT("c"));

    for (int n = 0; n < times; n++)
        sw_gw_aside_failed(c, member(w, place, i), now, "refused");
}

/* As pick, but nothing is learned from it. */
static int choose(struct world *w)
{
    static const struct sw_gw_pick plain;
    struct sw_gw_wcluster *wc = sw_gw_wcluster_get(w->hosts, w->config, SW_SLICE_LIT("c"));

    return sw_gw_lb_choose(wc, &plain)->addr.ip.ip.b[3];
}

/* Which member a request at that time is to try, 0: none in particular. */
static int due(struct world *w, uint64_t now, const struct sw_gw_pick *p)
{
    static const struct sw_gw_pick plain;
    const struct sw_gw_cluster *c = sw_gw_config_cluster(w->config, SW_SLICE_LIT("c"));
    const struct sw_gw_member *m = sw_gw_aside_due(c, p ? p : &plain, now);

    return m ? m->addr.ip.ip.b[3] : 0;
}

static void who_refuses_is_set_aside_longer_each_time(void **state)
{
    static const uint64_t waits[] = {1, 2, 4, 8, 16, 30, 30};
    const uint64_t far = sw_now_ns() + 3600 * S; /* the balancer's own clock does not get there */
    uint64_t now = far;
    struct world w;
    int n[16];

    (void)state;
    open_world(&w, CLUSTER("", PLACE("", EP("1", "") "," EP("2", "") "," EP("3", ""))));
    refuse(&w, 0, 0, 2, now);
    spread(&w, 90, n);
    assert_int_equal(n[1], 30);
    refuse(&w, 0, 0, 1, now);
    spread(&w, 90, n);
    assert_int_equal(n[1], 0);
    for (size_t i = 0; i < SW_ARRAY_LEN(waits); i++) {
        refuse(&w, 0, 0, 5, now); /* of connections begun before: they count once */
        assert_int_equal(due(&w, now + waits[i] * S - 1, NULL), 0);
        now += waits[i] * S;
        assert_int_equal(due(&w, now, NULL), 1);
        assert_int_equal(due(&w, now, NULL), 0); /* one request is enough to see */
        refuse(&w, 0, 0, 1, now);
    }
    sw_gw_aside_connected(sw_gw_config_cluster(w.config, SW_SLICE_LIT("c")), member(&w, 0, 0), now);
    spread(&w, 90, n);
    assert_int_equal(n[1], 30);
    refuse(&w, 0, 0, 3, now); /* starts over */
    assert_int_equal(due(&w, now + S, NULL), 1);
    close_world(&w);
}

static void a_probe_that_is_lost_is_followed_by_another(void **state)
{
    uint64_t now = sw_now_ns() + 3600 * S;
    struct world w;

    (void)state;
    open_world(&w, CLUSTER(",'connect_timeout':'2s'", PLACE("", EP("1", "") "," EP("2", ""))));
    refuse(&w, 0, 0, 3, now);
    now += S;
    assert_int_equal(due(&w, now, NULL), 1);
    assert_int_equal(due(&w, now + 2 * S, NULL), 0);
    assert_int_equal(due(&w, now + 3 * S, NULL), 1);
    close_world(&w);
}

static void those_set_aside_serve_when_nobody_else_does(void **state)
{
    uint64_t now = sw_now_ns() + 3600 * S;
    struct world w;
    int n[16];

    (void)state;
    /* No panic: two of three refuse, the third gets everything. */
    open_world(&w, CLUSTER("", PLACE("", EP("1", "") "," EP("2", "") "," EP("3", ""))));
    refuse(&w, 0, 0, 3, now);
    refuse(&w, 0, 1, 3, now);
    spread(&w, 90, n);
    assert_int_equal(n[3], 90);
    refuse(&w, 0, 2, 3, now);
    memset(n, 0, sizeof(n));
    for (int i = 0; i < 90; i++)
        n[choose(&w)]++;
    assert_int_equal(n[1], 30);
    assert_int_equal(n[3], 30);
    close_world(&w);

    /* One that failed its health check does not serve for those set aside. */
    open_world(&w, CLUSTER(",'common_lb_config':{'healthy_panic_threshold':{'value':0}}",
                           PLACE("", EP("1", "") "," EP("2", ""))));
    set_failed(&w, 0, 1, true);
    refuse(&w, 0, 0, 3, now);
    spread(&w, 10, n);
    assert_int_equal(n[1], 10);
    close_world(&w);

    /* The next priority takes over, and is asked when the first accepts no connection. */
    open_world(&w, CLUSTER("", PLACE("", EP("1", "")) "," PLACE(",'priority':1", EP("2", ""))));
    for (int i = 0; i < 20; i++)
        assert_int_equal(pick(&w, &(struct sw_gw_pick){.tried = {member(&w, 0, 0)}, .n_tried = 1}),
                         2);
    refuse(&w, 0, 0, 3, now);
    spread(&w, 10, n);
    assert_int_equal(n[2], 10);
    close_world(&w);

    /* Alone, or with rules of its own, nobody is set aside. */
    open_world(&w, CLUSTER("", PLACE("", EP("1", ""))));
    refuse(&w, 0, 0, 9, now);
    assert_int_equal(atomic_load(&member(&w, 0, 0)->health), 0);
    close_world(&w);
    open_world(&w, CLUSTER(",'outlier_detection':{}", PLACE("", EP("1", "") "," EP("2", ""))));
    refuse(&w, 0, 0, 9, now);
    assert_int_equal(atomic_load(&member(&w, 0, 0)->health), 0);
    close_world(&w);
}

static void sessions_and_hashes_leave_who_refuses(void **state)
{
    uint64_t now = sw_now_ns() + 3600 * S;
    struct sw_gw_pick p = {.session = SW_SLICE_LIT("10.0.0.1:80")};
    struct world w;
    int before[64];

    (void)state;
    open_world(&w, CLUSTER("", PLACE("", EP("1", "") "," EP("2", ""))));
    refuse(&w, 0, 0, 3, now);
    assert_int_equal(pick(&w, &p), 2);
    p.session_strict = true;
    assert_int_equal(pick(&w, &p), 1); /* no other will do */
    close_world(&w);

    open_world(&w, CLUSTER(",'lb_policy':'RING_HASH'",
                           PLACE("", EP("1", "") "," EP("2", "") "," EP("3", ""))));
    for (uint64_t i = 0; i < 64; i++)
        before[i] = pick(&w, &(struct sw_gw_pick){.has_hash = true, .hash = i << 58});
    refuse(&w, 0, 0, 3, now);
    for (uint64_t i = 0; i < 64; i++) {
        int at = pick(&w, &(struct sw_gw_pick){.has_hash = true, .hash = i << 58});

        assert_true(before[i] == 1 ? at != 1 : at == before[i]);
    }
    /* Nobody else's client is sent to see whether it is back. */
    assert_int_equal(due(&w, now + S, &(struct sw_gw_pick){.has_hash = true, .hash = 1}), 0);
    for (uint64_t i = 0; i < 64; i++)
        assert_int_equal(pick(&w, &(struct sw_gw_pick){.has_hash = true, .hash = i << 58}),
                         before[i]);
    refuse(&w, 0, 0, 1, now + S); /* once is enough now */
    assert_true(atomic_load(&member(&w, 0, 0)->health) & SW_GW_SET_ASIDE);
    close_world(&w);
}

static void hosts_survive_updates(void **state)
{
    static const struct sw_gw_pick plain;
    struct world w;
    struct sw_gw_host *h;
    struct sw_gw_host *again;

    (void)state;
    open_world(&w, CLUSTER("", PLACE("", EP("1", ""))));
    assert_int_equal(sw_gw_lb_pick(w.hosts, w.config, SW_SLICE_LIT("c"), &plain, &h), SW_OK);
    /* Settings changed: another host, while the old one lives on for its request. */
    assert_int_equal(gw_put(w.store, SW_GW_TYPE_CLUSTER, "c",
                            CLUSTER(",'connect_timeout':'9s'", PLACE("", EP("1", ""))), NULL),
                     SW_OK);
    w.config = gw_flush(w.store);
    sw_gw_hosts_apply(w.hosts, w.config);
    assert_true(h->gone);
    assert_int_equal(sw_gw_lb_pick(w.hosts, w.config, SW_SLICE_LIT("c"), &plain, &again), SW_OK);
    assert_ptr_not_equal(h, again);
    sw_gw_lb_done(w.hosts, h, SW_GW_RESULT_OK, 200);
    sw_gw_lb_done(w.hosts, again, SW_GW_RESULT_OK, 200);
    gw_remove(w.store, SW_GW_TYPE_CLUSTER, "c");
    w.config = gw_flush(w.store);
    sw_gw_hosts_apply(w.hosts, w.config);
    assert_int_equal(sw_gw_lb_pick(w.hosts, w.config, SW_SLICE_LIT("c"), &plain, &h), SW_ENOENT);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_robin_is_even_and_weighted),
        cmocka_unit_test(failed_members_are_passed_over_until_too_many_fail),
        cmocka_unit_test(eds_health_counts),
        cmocka_unit_test(lower_priorities_take_over),
        cmocka_unit_test(localities_share_by_weight),
        cmocka_unit_test(least_request_avoids_the_busy),
        cmocka_unit_test(the_ring_moves_little),
        cmocka_unit_test(sessions_and_retries_choose),
        cmocka_unit_test(retries_leave_an_idle_host_that_failed),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(outliers_are_ejected_and_come_back),
        cmocka_unit_test(who_refuses_is_set_aside_longer_each_time),
        cmocka_unit_test(a_probe_that_is_lost_is_followed_by_another),
        cmocka_unit_test(those_set_aside_serve_when_nobody_else_does),
        cmocka_unit_test(sessions_and_hashes_leave_who_refuses),
        cmocka_unit_test(hosts_survive_updates),
    };

    return cmocka_run_group_tests_name("gateway lb", tests, NULL, NULL);
}
