/* SPDX-License-Identifier: Apache-2.0 */
/* In which order types go out, and the protocol that sends whole states. */
#include "rig.h"

/* --- order --- */

/* The next response is this one, and nothing follows until it is answered. */
static void expect_alone(struct world *w, const char *line)
{
    expect_open(w, line);
    turns(w, 10);
    assert_int_equal(w->n_lines, 1);
}

static void a_change_is_made_before_anything_breaks(void **state)
{
    struct world *w = *state;

    COMMIT(w, "CDS old=1", "EDS old=1", "LDS l=1", "RDS r=1", "SDS s=1");
    connect_delta(w);
    subscribe(w, "CDS", "*");
    expect(w, "CDS +old=1");
    subscribe(w, "EDS", "old new");
    expect(w, "EDS +old=1 -new");
    subscribe(w, "LDS", "*");
    expect(w, "LDS +l=1");
    subscribe(w, "RDS", "r");
    expect(w, "RDS +r=1");
    subscribe(w, "SDS", "s");
    expect(w, "SDS +s=1");
    turns(w, 5);

    COMMIT(w, "CDS new=1", "EDS new=1", "LDS l=2", "RDS r=2", "SDS s=2");
    expect(w, "SDS +s=2");
    expect_open(w, "CDS +new=1");
    answer(w, NULL);
    expect_open(w, "EDS +new=1"); /* the cluster is new: its endpoints follow at once */
    turns(w, 10);
    answer(w, NULL);
    expect_alone(w, "LDS +l=2");
    answer(w, NULL);
    expect_alone(w, "RDS +r=2");
    answer(w, NULL);
    expect_open(w, "CDS -old");
    turns(w, 10);
    answer(w, NULL);
    expect(w, "EDS -old");
    expect_nothing(w);
}

static void state_of_the_world_breaks_last_too(void **state)
{
    struct world *w = *state;

    COMMIT(w, "CDS old=c1", "RDS r=r1");
    connect_sotw(w);
    subscribe(w, "CDS", NULL);
    expect(w, "CDS +c1");
    subscribe(w, "RDS", "r");
    expect_open(w, "RDS +r1");
    answer_names(w, "r");
    turns(w, 5);
    COMMIT(w, "CDS new=c2", "RDS r=r2");
    expect(w, "CDS +c2 +c1"); /* sorted by name: new, old */
    expect_open(w, "RDS +r2");
    turns(w, 5);
    answer_names(w, "r");
    expect(w, "CDS +c2");
    expect_nothing(w);
}

/* gRPC: the new cluster is asked for when the route is there, the old one is used until then. */
static void who_names_clusters_keeps_the_old_one_for_a_while(void **state)
{
    struct world *w = *state;

    COMMIT(w, "CDS old=c1", "RDS r=r1");
    connect_sotw(w);
    subscribe(w, "RDS", "r");
    expect_open(w, "RDS +r1");
    answer_names(w, "r");
    subscribe(w, "CDS", "old");
    expect_open(w, "CDS +c1");
    answer_names(w, "old");
    turns(w, 5);
    COMMIT(w, "CDS new=c2", "RDS r=r2");
    expect_open(w, "RDS +r2");
    answer_names(w, "r");
    expect_nothing(w);
    subscribe(w, "CDS", "old new");
    expect_open(w, "CDS +c2 +c1");
    answer_names(w, "new");
    expect_nothing(w);
    skew += 2 * SW_NS_PER_S;
    expect_nothing(w);
    /* Who goes on asking for it hears that it is gone. */
    COMMIT(w, "CDS next=c3", "RDS r=r3");
    expect_open(w, "RDS +r3");
    answer_names(w, "r");
    expect_nothing(w);
    skew += 2 * SW_NS_PER_S;
    expect_open(w, "CDS");
    answer_names(w, "next");
    expect_open(w, "CDS +c3");
}

static void a_silent_client_does_not_stop_the_order_for_ever(void **state)
{
    struct world *w = *state;

    COMMIT(w, "CDS a=1", "LDS l=1");
    connect_delta(w);
    subscribe(w, "CDS", "*");
    expect(w, "CDS +a=1");
    subscribe(w, "LDS", "*");
    expect(w, "LDS +l=1");
    turns(w, 5);
    COMMIT(w, "CDS a=2", "LDS l=2");
    expect_open(w, "CDS +a=2");
    pop(w);
    expect_nothing(w);
    skew += 6 * SW_NS_PER_S;
    expect(w, "LDS +l=2");
    COMMIT(w, "CDS a=3");
    expect(w, "CDS +a=3");
}

static void endpoints_are_repeated_for_a_changed_cluster(void **state)
{
    struct world *w = *state;
    struct sw_xds_txn *t = sw_xds_txn_new();

    COMMIT(w, "CDS a=1 b=1", "EDS a=1 svc=1");
    connect_delta(w);
    subscribe(w, "CDS", "*");
    expect(w, "CDS +a=1 +b=1");
    subscribe(w, "EDS", "a svc");
    expect(w, "EDS +a=1 +svc=1");
    turns(w, 5);
    COMMIT(w, "CDS a=2 b=1");
    expect(w, "CDS +a=2");
    expect(w, "EDS +a=1");
    /* eds_cluster_config.service_name names another. */
    assert_int_equal(sw_xds_txn_set(t, SW_XDS_CLUSTER, SW_SLICE_LIT("b"),
                                    SW_SLICE_LIT("\x1a\x05\x12\x03svc"), NULL),
                     SW_OK);
    (void)sw_xds_cache_commit(w->cache, t);
    expect(w, "CDS +b=\x1a\x05\x12\x03svc");
    expect(w, "EDS +svc=1");
    expect_nothing(w);
}

/* --- state of the world --- */

static void full_types_are_always_complete(void **state)
{
    struct world *w = *state;

    COMMIT(w, "LDS a=1 b=2");
    connect_sotw(w);
    subscribe(w, "LDS", NULL);
    expect(w, "LDS +1 +2");
    COMMIT(w, "LDS! b=3");
    expect(w, "LDS +1 +3");
    COMMIT(w, "LDS! a");
    expect(w, "LDS +3");
    COMMIT(w, "LDS");
    expect(w, "LDS");
    expect_nothing(w);
}

static void other_types_carry_what_changed(void **state)
{
    struct world *w = *state;

    COMMIT(w, "EDS a=1 b=2");
    connect_sotw(w);
    subscribe(w, "EDS", "a ghost");
    expect_open(w, "EDS +1");
    answer_names(w, "a ghost b"); /* an ACK that asks for more */
    expect_open(w, "EDS +2");
    answer_names(w, "a ghost b");
    turns(w, 5);
    COMMIT(w, "EDS! ghost=3");
    expect_open(w, "EDS +3");
    answer_names(w, "b");
    turns(w, 5);
    COMMIT(w, "EDS! a=4 ghost=4 b=4");
    expect_open(w, "EDS +4");
    answer_names(w, "b");
    expect_nothing(w);
}

/* Envoy: a cluster is acknowledged when its endpoints are there. */
static void what_was_asked_for_before_it_existed_waits_for_nobody(void **state)
{
    struct world *w = *state;

    COMMIT(w, "CDS a=1", "EDS a=1");
    connect_sotw(w);
    subscribe(w, "CDS", NULL);
    expect(w, "CDS +1");
    subscribe(w, "EDS", "a");
    expect_open(w, "EDS +1");
    answer_names(w, "a");
    turns(w, 5);
    COMMIT(w, "CDS", "EDS");
    expect(w, "CDS");
    turns(w, 5);
    COMMIT(w, "CDS a=2", "EDS");
    expect_open(w, "CDS +2");
    pop(w); /* not answered */
    expect_nothing(w);
    COMMIT(w, "CDS a=2", "EDS a=2");
    expect_open(w, "EDS +2");
    answer_names(w, "a");
    expect_nothing(w);
    /* Once: after that it is a change like any other. */
    COMMIT(w, "CDS a=2", "EDS a=3");
    expect_nothing(w);
}

/* The response behind the first, which stays open, is this one. */
static void expect_second(struct world *w, const char *line)
{
    char type[8];

    for (int i = 0; i < 5000 && w->n_lines < 2; i++)
        sw_loop_turn(w->loop, 10);
    assert_int_equal(w->n_lines, 2);
    assert_string_equal(w->lines[1], line);
    (void)snprintf(type, sizeof(type), "%.3s", line);
    ask(w, type, NULL, NULL, NULL, w->nonces[1], NULL);
    w->n_lines = 1;
}

/* It came as an answer, ahead of its turn, and was gone when its turn came. */
static void what_was_told_early_is_taken_back(void **state)
{
    struct world *w = *state;

    w->opts.ack_timeout_ns = 600 * SW_NS_PER_S;
    COMMIT(w, "CDS a=1", "EDS a=1", "RDS q=1");
    connect_delta(w);
    subscribe(w, "CDS", NULL);
    expect(w, "CDS +a=1");
    subscribe(w, "EDS", "a");
    expect(w, "EDS +a=1");
    subscribe(w, "RDS", "q");
    expect(w, "RDS +q=1");
    COMMIT(w, "CDS a=2", "EDS a=1 n=1", "RDS q=1 r=1");
    expect_open(w, "CDS +a=2");
    expect_second(w, "EDS +a=1"); /* the changed cluster waits for it */
    subscribe(w, "RDS", "r");
    expect_second(w, "RDS +r=1");
    subscribe(w, "EDS", "n");
    expect_second(w, "EDS +n=1");
    COMMIT(w, "EDS a=1", "RDS q=1");
    turns(w, 5);
    assert_int_equal(w->n_lines, 1);
    answer(w, NULL);
    expect(w, "RDS -r");
    expect(w, "EDS -n");
    expect_nothing(w);
    COMMIT(w, "EDS a=1 n=2", "RDS q=1 r=2");
    expect(w, "EDS +n=2");
    expect(w, "RDS +r=2");
    expect_nothing(w);
}

/* It has routes to serve with; the new ones wait until it has what they name. */
static void who_comes_back_is_brought_up_to_date_in_order(void **state)
{
    struct world *w = *state;

    w->opts.ack_timeout_ns = 600 * SW_NS_PER_S;
    COMMIT(w, "CDS old=1 new=1", "EDS old=1 new=1", "RDS r=2");
    connect_delta(w);
    ask(w, "CDS", "*", NULL, "old 0", NULL, NULL);
    ask(w, "RDS", "r gone q", NULL, "r 0 gone 0", NULL, NULL);
    expect_open(w, "CDS +new=1 +old=1");
    expect_second(w, "RDS -q"); /* it has nothing of q: told at once */
    turns(w, 10);
    assert_int_equal(w->n_lines, 1);
    subscribe(w, "EDS", "old new");
    answer(w, NULL);
    expect_alone(w, "EDS +old=1 +new=1");
    answer(w, NULL);
    expect(w, "RDS +r=2 -gone");
    expect_nothing(w);
    COMMIT(w, "RDS r=3");
    expect(w, "RDS +r=3");
}

/* Its routes name what is gone until they are brought up to date. */
static void what_is_gone_is_told_last_to_who_comes_back(void **state)
{
    struct world *w = *state;

    w->opts.ack_timeout_ns = 600 * SW_NS_PER_S;
    COMMIT(w, "CDS new=1", "EDS new=1", "RDS r=2");
    connect_delta(w);
    ask(w, "CDS", "*", NULL, "old 0", NULL, NULL);
    ask(w, "RDS", "r", NULL, "r 0", NULL, NULL);
    expect_alone(w, "CDS +new=1");
    subscribe(w, "EDS", "new");
    answer(w, NULL);
    expect(w, "EDS +new=1");
    expect_alone(w, "RDS +r=2");
    answer(w, NULL);
    expect(w, "CDS -old");
    expect_nothing(w);
}

/* A listener may name clusters itself. */
static void listeners_of_who_comes_back_wait_too(void **state)
{
    struct world *w = *state;

    w->opts.ack_timeout_ns = 600 * SW_NS_PER_S;
    COMMIT(w, "CDS new=1", "EDS new=1", "LDS l=2");
    connect_delta(w);
    ask(w, "CDS", "*", NULL, "new 0", NULL, NULL);
    ask(w, "LDS", "*", NULL, "l 0 gone 0", NULL, NULL);
    expect_alone(w, "CDS +new=1");
    subscribe(w, "EDS", "new");
    answer(w, NULL);
    expect(w, "EDS +new=1");
    expect(w, "LDS +l=2 -gone");
    expect_nothing(w);
}

static void a_stale_nonce_is_ignored(void **state)
{
    struct world *w = *state;
    char old[32];

    COMMIT(w, "LDS a=1");
    connect_sotw(w);
    subscribe(w, "LDS", NULL);
    expect_open(w, "LDS +1");
    memcpy(old, w->nonces[0], sizeof(old));
    answer(w, NULL);
    turns(w, 5);
    COMMIT(w, "LDS a=2");
    expect_open(w, "LDS +2");
    ask(w, "LDS", NULL, NULL, NULL, old, NULL);
    COMMIT(w, "LDS a=3");
    turns(w, 10);
    assert_int_equal(w->n_lines, 1);
    answer(w, NULL);
    expect(w, "LDS +3");
}

static void listeners_can_be_asked_for_by_name(void **state)
{
    struct world *w = *state;

    COMMIT(w, "LDS a=1 b=2");
    connect_sotw(w);
    subscribe(w, "LDS", "b");
    expect_open(w, "LDS +2");
    answer_names(w, "b");
    COMMIT(w, "LDS a=9 b=2");
    expect_nothing(w);
    COMMIT(w, "LDS a=9");
    expect_open(w, "LDS");
    answer_names(w, "b");
    turns(w, 5);
    /* After a name an empty list means nothing at all. */
    ask(w, "LDS", NULL, NULL, NULL, NULL, NULL);
    turns(w, 5);
    COMMIT(w, "LDS a=10 b=10");
    expect_nothing(w);
}

static void secrets_have_to_be_named(void **state)
{
    struct world *w = *state;

    COMMIT(w, "SDS a=1 b=2");
    connect_sotw(w);
    subscribe(w, "SDS", NULL);
    expect_nothing(w);
}

static void a_server_may_give_all_secrets_to_who_names_none(void **state)
{
    struct world *w = *state;

    w->opts.bare_is_all = true;
    COMMIT(w, "SDS a=1 b=2");
    connect_sotw(w);
    subscribe(w, "SDS", NULL);
    expect(w, "SDS +1 +2");
    COMMIT(w, "SDS a=1 b=3");
    expect(w, "SDS +3");
    connect_delta(w);
    subscribe(w, "SDS", NULL);
    expect(w, "SDS +a=1 +b=3");
    /* Who named one, and then none, wants none. */
    connect_sotw(w);
    subscribe(w, "SDS", "b");
    expect_open(w, "SDS +3");
    answer_names(w, "b");
    turns(w, 5);
    ask(w, "SDS", NULL, NULL, NULL, NULL, NULL);
    turns(w, 5);
    COMMIT(w, "SDS a=4 b=4");
    expect_nothing(w);
}

static void services_of_one_type_know_it(void **state)
{
    struct world *w = *state;

    COMMIT(w, "CDS a=1");
    connect_to(w, "/envoy.service.cluster.v3.ClusterDiscoveryService/DeltaClusters");
    ask(w, "", NULL, NULL, NULL, NULL, NULL);
    expect(w, "CDS +a=1");
    ask(w, "LDS", NULL, NULL, NULL, NULL, NULL);
    wait_done(w);
    assert_int_equal(w->status, SW_GRPC_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LIVE(a_change_is_made_before_anything_breaks),
        LIVE(state_of_the_world_breaks_last_too),
        LIVE(who_names_clusters_keeps_the_old_one_for_a_while),
        LIVE(a_silent_client_does_not_stop_the_order_for_ever),
        LIVE(endpoints_are_repeated_for_a_changed_cluster),
        LIVE(full_types_are_always_complete),
        LIVE(other_types_carry_what_changed),
        LIVE(what_was_asked_for_before_it_existed_waits_for_nobody),
        LIVE(what_was_told_early_is_taken_back),
        LIVE(who_comes_back_is_brought_up_to_date_in_order),
        LIVE(what_is_gone_is_told_last_to_who_comes_back),
        LIVE(listeners_of_who_comes_back_wait_too),
        LIVE(a_stale_nonce_is_ignored),
        LIVE(listeners_can_be_asked_for_by_name),
        LIVE(secrets_have_to_be_named),
        LIVE(a_server_may_give_all_secrets_to_who_names_none),
        LIVE(services_of_one_type_know_it),
    };

    return cmocka_run_group_tests_name("xds server order", tests, NULL, NULL);
}
