/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our client against our server, at random: it wants this and that, refuses what it has used in
 * part, and loses its server again and again. Whenever all is quiet it has what the cache has of
 * all it wants. SW_RANDOM_RUNS says how many, SW_RANDOM_SEED which is first.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "xds/client.h"
#include "xds/server.h"

enum { NAMES = 6, TYPES = 3, STEPS = 60, RUNS = 20 };

static const char *const types[TYPES] = {SW_XDS_CLUSTER, SW_XDS_ENDPOINT,
                                         SW_XDS_URL "spanwire.v1.Own"};

struct world {
    struct sw_loop *loop;
    struct sw_xds_cache *cache;
    struct sw_xds_server *server;
    struct sw_addr at;
    struct sw_xds_client *client;
    uint64_t seed;
    bool wildcard[TYPES];
    bool named[TYPES][NAMES];
    char held[TYPES][NAMES]; /* 0: nothing */
    char trace[16384];
    size_t n;
};

static const char *const short_names[TYPES] = {"CDS", "EDS", "OWN"};

static void note(struct world *w, const char *what, size_t type, char name, char value)
{
    w->n += (size_t)snprintf(w->trace + w->n, sizeof(w->trace) - w->n, "%s %s %c %c; ", what,
                             short_names[type], name ? name : '-', value ? value : '-');
    w->n = sw_min(w->n, sizeof(w->trace) - 1);
}

static unsigned pick(struct world *w, unsigned n)
{
    w->seed = w->seed * 6364136223846793005 + 1442695040888963407;
    return (unsigned)(w->seed >> 33) % n;
}

static bool wants(const struct world *w, size_t type, size_t name)
{
    return w->wildcard[type] || w->named[type][name];
}

static void forget(struct world *w, size_t type)
{
    for (size_t i = 0; i < NAMES; i++) {
        if (!wants(w, type, i))
            w->held[type][i] = 0;
    }
}

/* What is refused has been used all the same, as data planes do with the good part. */
static int on_update(void *arg, const struct sw_xds_update *u, struct sw_err *err)
{
    struct world *w = arg;
    size_t type = 0;

    while (!sw_slice_eq_str(u->type, types[type]))
        type++;
    for (size_t i = 0; i < u->n_added; i++) {
        size_t name = (size_t)(u->added[i].name.p[0] - 'a');

        if (wants(w, type, name))
            w->held[type][name] = u->added[i].value.p[0];
        note(w, "<", type, u->added[i].name.p[0], u->added[i].value.p[0]);
    }
    for (size_t i = 0; i < u->n_removed; i++) {
        w->held[type][u->removed[i].p[0] - 'a'] = 0;
        note(w, "<", type, u->removed[i].p[0], 0);
    }
    if (pick(w, 4))
        return SW_OK;
    note(w, "refused", type, 0, 0);
    return sw_err_set(err, SW_EINVAL, "not today");
}

static void serve(struct world *w)
{
    struct sw_addr at = w->at;
    int rc = SW_EAGAIN;

    at.ip = (struct sw_ip){.family = 4, .b = {127, 0, 0, 1}};
    w->server = sw_xds_server_new(w->loop, &(struct sw_xds_server_opts){.cache = w->cache}, NULL);
    /* Somebody on this machine may be using the port for a moment when it is taken again. */
    for (int i = 0; i < 4000 && rc != SW_OK; i++) {
        rc = sw_xds_server_listen(w->server, &at, &w->at, NULL);
        if (rc != SW_OK)
            sw_loop_turn(w->loop, 10);
    }
    assert_int_equal(rc, SW_OK);
}

static void change(struct world *w)
{
    struct sw_xds_txn *t = sw_xds_txn_new();

    for (unsigned i = 1 + pick(w, 3); i > 0; i--) {
        size_t at = pick(w, TYPES);
        const char *type = types[at];
        char name = (char)('a' + pick(w, NAMES));
        char value = (char)('1' + pick(w, 3));
        bool gone = pick(w, 3) == 0;

        note(w, "commit", at, name, gone ? 0 : value);
        if (gone)
            assert_int_equal(sw_xds_txn_del(t, type, sw_slice(&name, 1), NULL), SW_OK);
        else
            assert_int_equal(sw_xds_txn_set(t, type, sw_slice(&name, 1), sw_slice(&value, 1), NULL),
                             SW_OK);
    }
    (void)sw_xds_cache_commit(w->cache, t);
}

static void want(struct world *w)
{
    size_t type = pick(w, TYPES);
    size_t i = pick(w, NAMES);
    char name = (char)('a' + i);
    unsigned what = pick(w, 5);

    if (what == 0) {
        w->wildcard[type] = !w->wildcard[type];
        note(w, w->wildcard[type] ? "add" : "drop", type, '*', 0);
        sw_xds_client_wildcard(w->client, types[type], w->wildcard[type]);
    } else if (what < 4) {
        note(w, "add", type, name, 0);
        w->named[type][i] = true;
        assert_int_equal(sw_xds_client_subscribe(w->client, types[type], sw_slice(&name, 1)),
                         SW_OK);
    } else {
        note(w, "drop", type, name, 0);
        w->named[type][i] = false;
        sw_xds_client_unsubscribe(w->client, types[type], sw_slice(&name, 1));
    }
    forget(w, type);
}

static void step(struct world *w)
{
    switch (pick(w, 12)) {
    case 0:
    case 1:
    case 2:
    case 3:
        change(w);
        break;
    case 4:
    case 5:
    case 6:
        want(w);
        break;
    case 7:
        if (pick(w, 4) == 0 && w->server) {
            note(w, "server goes", 0, 0, 0);
            sw_xds_server_free(w->server);
            w->server = NULL;
        }
        break;
    case 8:
        if (!w->server)
            serve(w);
        break;
    default:
        sw_loop_turn(w->loop, 1 + (int)pick(w, 4));
        break;
    }
    sw_loop_turn(w->loop, 0);
}

/* The client's view is the cache's. */
static bool agrees(const struct world *w)
{
    for (size_t t = 0; t < TYPES; t++) {
        const struct sw_xds_snap *s = sw_xds_cache_get(w->cache, sw_slice_str(types[t]));

        for (size_t i = 0; i < NAMES; i++) {
            char name = (char)('a' + i);
            const struct sw_xds_res *r = sw_xds_snap_get(s, sw_slice(&name, 1));

            if (wants(w, t, i) && w->held[t][i] != (r ? r->value.p[0] : 0))
                return false;
        }
    }
    return true;
}

static void run(unsigned seed)
{
    struct world *w = SW_NEW(struct world);
    struct sw_xds_client_opts o = {.host = SW_SLICE_LIT("127.0.0.1"),
                                   .node_id = SW_SLICE_LIT("n"),
                                   .backoff_least_ns = 2 * SW_NS_PER_MS,
                                   .backoff_most_ns = 5 * SW_NS_PER_MS};

    w->seed = seed;
    w->loop = sw_loop_new(NULL);
    w->cache = sw_xds_cache_new();
    serve(w);
    o.port = w->at.port;
    w->client = sw_xds_client_new(w->loop, &o, NULL);
    for (size_t i = 0; i < TYPES; i++)
        sw_xds_client_type(w->client, types[i], on_update, w);
    sw_xds_client_start(w->client);
    for (int i = 0; i < STEPS; i++)
        step(w);
    if (!w->server)
        serve(w);
    for (int i = 0; i < 6000 && !agrees(w); i++)
        sw_loop_turn(w->loop, 10);
    if (!agrees(w)) {
        (void)fprintf(stderr, "%s\n", w->trace); /* longer than a message may be */
        fail_msg("seed %u: the client has something else than the cache", seed);
    }
    sw_xds_client_free(w->client);
    sw_xds_server_free(w->server);
    sw_xds_cache_free(w->cache);
    sw_loop_turn(w->loop, 0);
    sw_loop_free(w->loop);
    sw_free(w);
}

static unsigned number_of(const char *name, unsigned other)
{
    const char *text = getenv(name);

    return text ? (unsigned)strtoul(text, NULL, 10) : other;
}

static void whatever_happens_it_ends_up_with_the_cache(void **state)
{
    unsigned first = number_of("SW_RANDOM_SEED", 1);
    unsigned runs = number_of("SW_RANDOM_RUNS", RUNS);

    (void)state;
    assert_int_equal(sw_log_filter(SW_SLICE_LIT("off"), true, NULL), SW_OK);
    for (unsigned i = 0; i < runs; i++)
        run(first + i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_happens_it_ends_up_with_the_cache),
    };

    return cmocka_run_group_tests_name("xds client random", tests, NULL, NULL);
}
