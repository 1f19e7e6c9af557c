/* SPDX-License-Identifier: Apache-2.0 */
/* The delta protocol: subscriptions, differences, refusals, pieces. */
#include "rig.h"

static void a_wildcard_hears_of_differences_only(void **state)
{
    struct world *w = *state;

    COMMIT(w, "OWN a=1 b=1 c=1");
    connect_delta(w);
    subscribe(w, "OWN", NULL); /* the older form */
    expect(w, "OWN +a=1 +b=1 +c=1");
    expect_nothing(w);
    COMMIT(w, "OWN a=1 b=2 d=1");
    expect(w, "OWN +b=2 +d=1 -c");
    COMMIT(w, "CDS x=1");
    expect_nothing(w);
    COMMIT(w, "OWN! a=3");
    expect(w, "OWN +a=3");
    subscribe(w, "CDS", "*");
    expect(w, "CDS +x=1");
    turns(w, 5);
    assert_true(sw_xds_server_synced(w->server));
}

static void an_empty_wildcard_is_answered(void **state)
{
    struct world *w = *state;

    connect_delta(w);
    subscribe(w, "CDS", "*");
    expect(w, "CDS");
    subscribe(w, "LDS", NULL);
    expect(w, "LDS");
    COMMIT(w, "CDS a=1");
    expect(w, "CDS +a=1");
}

static void names_are_followed(void **state)
{
    struct world *w = *state;

    COMMIT(w, "EDS a=1 b=1");
    connect_delta(w);
    subscribe(w, "EDS", "a ghost");
    expect(w, "EDS +a=1 -ghost");
    COMMIT(w, "EDS! b=2");
    expect_nothing(w);
    COMMIT(w, "EDS! ghost=1 a=2");
    expect(w, "EDS +a=2 +ghost=1");
    /* It may have forgotten it. */
    subscribe(w, "EDS", "a");
    expect(w, "EDS +a=2");
    ask(w, "EDS", NULL, "a", NULL, NULL, NULL);
    turns(w, 5);
    COMMIT(w, "EDS! a=3 ghost");
    expect(w, "EDS -ghost");
    /* Unsubscribing from what was never asked for is nothing. */
    ask(w, "EDS", NULL, "b", NULL, NULL, NULL);
    expect_nothing(w);
}

static void names_and_wildcard_go_together(void **state)
{
    struct world *w = *state;

    COMMIT(w, "OWN a=1 b=1");
    connect_delta(w);
    subscribe(w, "OWN", "* a ghost");
    expect(w, "OWN +a=1 +b=1 -ghost");
}

static void a_name_the_wildcard_covers_is_told_again(void **state)
{
    struct world *w = *state;

    COMMIT(w, "OWN a=1 b=1");
    connect_delta(w);
    subscribe(w, "OWN", "a");
    expect(w, "OWN +a=1");
    subscribe(w, "OWN", "*");
    expect(w, "OWN +a=1 +b=1");
    ask(w, "OWN", NULL, "a", NULL, NULL, NULL);
    expect(w, "OWN +a=1");
    COMMIT(w, "OWN a=2 b=2");
    expect(w, "OWN +a=2 +b=2");
    subscribe(w, "OWN", "b");
    expect(w, "OWN +b=2");
    ask(w, "OWN", NULL, "*", NULL, NULL, NULL);
    turns(w, 5);
    COMMIT(w, "OWN a=3 b=3");
    expect(w, "OWN +b=3");
}

static void a_client_that_comes_back_gets_what_differs(void **state)
{
    struct world *w = *state;
    char held[256];
    const struct sw_xds_snap *s;

    COMMIT(w, "OWN a=1 b=1 c=1", "EDS x=1 y=1");
    s = sw_xds_cache_get(w->cache, sw_slice_str(url_of("OWN")));
    (void)snprintf(held, sizeof(held), "a %.*s b stale gone 1", SW_SLICE_ARG(s->res[0]->version));
    connect_delta(w);
    ask(w, "OWN", "*", NULL, held, NULL, NULL);
    expect(w, "OWN +b=1 +c=1 -gone");
    s = sw_xds_cache_get(w->cache, SW_SLICE_LIT(SW_XDS_ENDPOINT));
    (void)snprintf(held, sizeof(held), "x %.*s y stale z 1", SW_SLICE_ARG(s->res[0]->version));
    ask(w, "EDS", "x y z", NULL, held, NULL, NULL);
    expect(w, "EDS +y=1 -z");
    COMMIT(w, "EDS! x=2");
    expect(w, "EDS +x=2");
    /* All as it was: one empty answer to the wildcard. */
    connect_delta(w);
    s = sw_xds_cache_get(w->cache, sw_slice_str(url_of("OWN")));
    (void)snprintf(held, sizeof(held), "a %.*s b %.*s c %.*s", SW_SLICE_ARG(s->res[0]->version),
                   SW_SLICE_ARG(s->res[1]->version), SW_SLICE_ARG(s->res[2]->version));
    ask(w, "OWN", NULL, NULL, held, NULL, NULL);
    expect(w, "OWN");
    COMMIT(w, "OWN! b=9");
    expect(w, "OWN +b=9");
    /* A name beside the wildcard is held like any other. */
    connect_delta(w);
    s = sw_xds_cache_get(w->cache, sw_slice_str(url_of("OWN")));
    (void)snprintf(held, sizeof(held), "a %.*s b %.*s c stale", SW_SLICE_ARG(s->res[0]->version),
                   SW_SLICE_ARG(s->res[1]->version));
    ask(w, "OWN", "* a c", NULL, held, NULL, NULL);
    expect(w, "OWN +c=1");
    expect_nothing(w);
}

static void find_nack(const struct sw_xds_status *st, void *arg)
{
    char *out = arg;

    assert_true(sw_slice_eq_str(st->node_id, "node-1"));
    (void)snprintf(out, 256, "%s sent %d acked %d acks %d nacks %d: %.*s", alias_of(st->type),
                   st->sent.n > 0, sw_slice_eq(st->sent, st->acked), (int)st->acks, (int)st->nacks,
                   SW_SLICE_ARG(st->nack));
}

static void refusals_are_seen_and_not_repeated(void **state)
{
    struct world *w = *state;
    char seen[256] = "";

    COMMIT(w, "OWN a=1 b=1");
    connect_delta(w);
    subscribe(w, "OWN", "*");
    expect(w, "OWN +a=1 +b=1");
    COMMIT(w, "OWN! a=bad");
    expect_open(w, "OWN +a=bad");
    answer(w, "no good");
    expect_nothing(w);
    sw_xds_server_status(w->server, find_nack, seen);
    assert_string_equal(seen, "OWN sent 1 acked 0 acks 1 nacks 1: no good");
    assert_false(sw_xds_server_synced(w->server));
    COMMIT(w, "OWN! b=2");
    expect(w, "OWN +b=2");
    COMMIT(w, "OWN! a=good");
    expect(w, "OWN +a=good");
    turns(w, 5);
    sw_xds_server_status(w->server, find_nack, seen);
    assert_string_equal(seen, "OWN sent 1 acked 1 acks 3 nacks 1: ");
}

static void find_ends(const struct sw_xds_status *st, void *arg)
{
    (void)snprintf(arg, 64, "%.*s|%.*s|%d", 8, st->nack.p, 8, st->nack.p + st->nack.n - 8,
                   st->nack.n <= 1100);
}

/* Envoy quotes the resource before it says what is wrong. */
static void of_a_long_refusal_both_ends_are_kept(void **state)
{
    struct world *w = *state;
    char text[4000];
    char seen[64] = "";

    memset(text, 'x', sizeof(text));
    memcpy(text, "Listener", 8);
    memcpy(text + sizeof(text) - 10, " too big.", 10);
    COMMIT(w, "OWN a=1");
    connect_delta(w);
    subscribe(w, "OWN", "*");
    expect_open(w, "OWN +a=1");
    answer(w, text);
    turns(w, 5);
    sw_xds_server_status(w->server, find_ends, seen);
    assert_string_equal(seen, "Listener|too big.|1");
}

static void copy_nack(const struct sw_xds_status *st, void *arg)
{
    (void)snprintf(arg, 128, "%.*s", SW_SLICE_ARG(st->nack));
}

/* Envoy quotes what it refuses. */
static void a_refusal_shows_no_key(void **state)
{
    static const struct {
        const char *said;
        const char *kept;
    } cases[] = {
        {"name: \"x\"\nprivate_key {\n  inline_bytes: \"raw\"\n}\n: password is required\n",
         ": password is required"},
        {"x { inline_bytes: \"raw\" }: password is required",
         "the reason quotes a secret and is not kept"},
        {"cannot load", "cannot load"},
        {"", ""},
    };
    struct world *w = *state;

    COMMIT(w, "SDS a=0");
    connect_delta(w);
    subscribe(w, "SDS", "a");
    expect(w, "SDS +a=0");
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        char change[16];
        char line[16];
        char seen[128] = "";

        (void)snprintf(change, sizeof(change), "SDS a=%zu", i + 1);
        (void)snprintf(line, sizeof(line), "SDS +a=%zu", i + 1);
        turns(w, 5);
        COMMIT(w, change);
        expect_open(w, line);
        answer(w, cases[i].said);
        turns(w, 5);
        sw_xds_server_status(w->server, copy_nack, seen);
        assert_string_equal(seen, cases[i].kept);
    }
}

static void one_response_is_outstanding(void **state)
{
    struct world *w = *state;

    COMMIT(w, "OWN a=1");
    connect_delta(w);
    subscribe(w, "OWN", "*");
    expect_open(w, "OWN +a=1");
    for (int i = 0; i < 5; i++) {
        COMMIT(w, "OWN a=x", "EDS e=1");
        COMMIT(w, "OWN a=y b=1");
    }
    turns(w, 10);
    assert_int_equal(w->n_lines, 1);
    answer(w, NULL);
    expect(w, "OWN +a=y +b=1");
    expect_nothing(w);
}

static void large_states_come_in_pieces(void **state)
{
    struct world *w = *state;
    struct sw_xds_txn *t = sw_xds_txn_new();
    char *big = sw_calloc(1, 100000);
    int pieces = 0;
    size_t got = 0;

    memset(big, 'x', 100000);
    for (int i = 0; i < 50; i++) {
        char name[8];

        (void)snprintf(name, sizeof(name), "n%02d", i);
        assert_int_equal(
            sw_xds_txn_put(t, url_of("OWN"), sw_slice_str(name), sw_slice(big, 100000), NULL),
            SW_OK);
    }
    (void)sw_xds_cache_commit(w->cache, t);
    sw_free(big);
    connect_delta(w);
    subscribe(w, "OWN", "*");
    while (got < 50) {
        for (int i = 0; i < 5000 && w->n_lines == 0; i++)
            sw_loop_turn(w->loop, 10);
        assert_int_equal(w->n_lines, 1);
        for (const char *p = w->lines[0]; (p = strstr(p, " +n")); p++)
            got++;
        pieces++;
        answer(w, NULL);
        if (pieces == 2)
            COMMIT(w, "OWN! n00=small zz=1");
    }
    assert_int_equal(got, 50);
    assert_true(pieces >= 4 && pieces <= 6);
    expect(w, "OWN +n00=small +zz=1");
    expect_nothing(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LIVE(a_wildcard_hears_of_differences_only),
        LIVE(an_empty_wildcard_is_answered),
        LIVE(names_are_followed),
        LIVE(names_and_wildcard_go_together),
        LIVE(a_name_the_wildcard_covers_is_told_again),
        LIVE(a_client_that_comes_back_gets_what_differs),
        LIVE(refusals_are_seen_and_not_repeated),
        LIVE(of_a_long_refusal_both_ends_are_kept),
        LIVE(a_refusal_shows_no_key),
        LIVE(one_response_is_outstanding),
        LIVE(large_states_come_in_pieces),
    };

    return cmocka_run_group_tests_name("xds server", tests, NULL, NULL);
}
