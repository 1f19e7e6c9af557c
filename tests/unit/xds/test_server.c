/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server against a client that the test scripts message by message. Responses become lines
 * such as "CDS +a=1 -b": a resource is name=value for delta, the value for state of the world.
 */
#include "xds/server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/time.h"
#include "http/grpc.h"
#include "proto/pb.h"

#include <proto/discovery.pb-c.h>

#define ADS "/envoy.service.discovery.v3.AggregatedDiscoveryService/"

static uint64_t skew;

static uint64_t skewed_clock(void)
{
    return sw_now_ns() + skew;
}

static const struct {
    const char *alias;
    const char *url;
} aliases[] = {
    {"CDS", SW_XDS_CLUSTER}, {"EDS", SW_XDS_ENDPOINT}, {"LDS", SW_XDS_LISTENER},
    {"RDS", SW_XDS_ROUTE},   {"SDS", SW_XDS_SECRET},   {"OWN", SW_XDS_URL "spanwire.v1.Own"},
};

static const char *url_of(const char *alias)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(aliases); i++) {
        if (strcmp(aliases[i].alias, alias) == 0)
            return aliases[i].url;
    }
    return alias;
}

static const char *alias_of(struct sw_slice url)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(aliases); i++) {
        if (sw_slice_eq_str(url, aliases[i].url))
            return aliases[i].alias;
    }
    return "?";
}

struct world {
    struct sw_loop *loop;
    struct sw_xds_cache *cache;
    struct sw_xds_cache *other;
    struct sw_xds_server_opts opts;
    struct sw_xds_server *server;
    struct sw_grpc_client *client;
    struct sw_grpc_call *call;
    bool delta;
    bool node_sent;
    char lines[64][512]; /* responses not yet looked at */
    size_t n_lines;
    char nonces[64][32];
    int responses;
    int done;
    enum sw_grpc_status status;
    int nacks;
};

/* --- the scripted client --- */

static size_t append(char *out, size_t at, const char *sign, struct sw_slice a, struct sw_slice b)
{
    at += (size_t)snprintf(out + at, 512 - at, " %s%.*s%s%.*s", sign, (int)sw_min(a.n, 24), a.p,
                           b.p ? "=" : "", (int)sw_min(b.n, 24), b.p ? b.p : "");
    return sw_min(at, 511);
}

static void record(struct world *w, struct sw_slice type, const char *line,
                   ProtobufCBinaryData nonce)
{
    assert_true(w->n_lines < SW_ARRAY_LEN(w->lines));
    (void)snprintf(w->lines[w->n_lines], sizeof(w->lines[0]), "%s%s", alias_of(type), line);
    (void)snprintf(w->nonces[w->n_lines], sizeof(w->nonces[0]), "%.*s", (int)nonce.len,
                   (const char *)nonce.data);
    w->n_lines++;
    w->responses++;
}

static void on_message(struct sw_grpc_call *c, struct sw_slice msg, void *arg)
{
    struct world *w = arg;
    SW_ARENA_AUTO a = {0};
    char line[512] = "";
    size_t n = 0;

    (void)c;
    if (w->delta) {
        Sw__DeltaDiscoveryResponse *r = SW_PB_UNPACK(&a, Sw__DeltaDiscoveryResponse,
                                                     sw__delta_discovery_response, msg, NULL, NULL);

        assert_non_null(r);
        for (size_t i = 0; i < r->n_resources; i++)
            n = append(line, n, "+", SW_PB_SLICE(r->resources[i]->name),
                       SW_PB_SLICE(r->resources[i]->resource->value));
        for (size_t i = 0; i < r->n_removed_resources; i++)
            n = append(line, n, "-", SW_PB_SLICE(r->removed_resources[i]), (struct sw_slice){0});
        record(w, SW_PB_SLICE(r->type_url), line, r->nonce);
    } else {
        Sw__DiscoveryResponse *r =
            SW_PB_UNPACK(&a, Sw__DiscoveryResponse, sw__discovery_response, msg, NULL, NULL);

        assert_non_null(r);
        for (size_t i = 0; i < r->n_resources; i++)
            n = append(line, n, "+", SW_PB_SLICE(r->resources[i]->value), (struct sw_slice){0});
        record(w, SW_PB_SLICE(r->type_url), line, r->nonce);
    }
}

static void on_done(struct sw_grpc_call *c, enum sw_grpc_status status, struct sw_slice text,
                    void *arg)
{
    struct world *w = arg;

    (void)c;
    (void)text;
    w->call = NULL;
    w->done++;
    w->status = status;
}

static const struct sw_grpc_ops ops = {.on_message = on_message, .on_done = on_done};

static size_t words(struct sw_arena *a, const char *text, ProtobufCBinaryData **ret)
{
    struct sw_slice rest = sw_slice_str(text);
    size_t n = 0;

    *ret = sw_arena_array(a, 64, sizeof(**ret));
    while (text && *text && rest.p) {
        struct sw_slice w = sw_slice_cut(&rest, ' ');

        (*ret)[n++] = SW_PB_BYTES(w);
    }
    return n;
}

/* One request; every text may be NULL. held: "name version name version". */
static void ask(struct world *w, const char *type, const char *add, const char *drop,
                const char *held, const char *nonce, const char *nack)
{
    SW_ARENA_AUTO a = {0};
    Sw__Status status = SW__STATUS__INIT;
    Sw__Node *node = SW_PB_NEW(&a, Sw__Node, sw__node);
    struct sw_slice bytes;

    status.message = SW_PB_BYTES(sw_slice_str(nack ? nack : ""));
    node->id = SW_PB_LIT("node-1");
    if (w->delta) {
        Sw__DeltaDiscoveryRequest r = SW__DELTA_DISCOVERY_REQUEST__INIT;
        ProtobufCBinaryData *v;

        r.node = w->node_sent ? NULL : node;
        r.type_url = SW_PB_BYTES(sw_slice_str(url_of(type)));
        r.n_resource_names_subscribe = words(&a, add, &r.resource_names_subscribe);
        r.n_resource_names_unsubscribe = words(&a, drop, &r.resource_names_unsubscribe);
        r.n_initial_resource_versions = words(&a, held, &v) / 2;
        r.initial_resource_versions = sw_arena_array(&a, 32, sizeof(void *));
        for (size_t i = 0; i < r.n_initial_resource_versions; i++) {
            Sw__ResourceVersion *e = SW_PB_NEW(&a, Sw__ResourceVersion, sw__resource_version);

            e->key = v[2 * i];
            e->value = v[2 * i + 1];
            r.initial_resource_versions[i] = e;
        }
        r.response_nonce = SW_PB_BYTES(sw_slice_str(nonce ? nonce : ""));
        r.error_detail = nack ? &status : NULL;
        bytes = sw_pb_pack(&a, &r.base);
    } else {
        Sw__DiscoveryRequest r = SW__DISCOVERY_REQUEST__INIT;

        r.node = w->node_sent ? NULL : node;
        r.type_url = SW_PB_BYTES(sw_slice_str(url_of(type)));
        r.n_resource_names = words(&a, add, &r.resource_names);
        r.response_nonce = SW_PB_BYTES(sw_slice_str(nonce ? nonce : ""));
        r.error_detail = nack ? &status : NULL;
        bytes = sw_pb_pack(&a, &r.base);
    }
    w->node_sent = true;
    assert_int_equal(sw_grpc_send(w->call, bytes), SW_OK);
}

static void subscribe(struct world *w, const char *type, const char *names)
{
    ask(w, type, names, NULL, NULL, NULL, NULL);
}

static void turns(struct world *w, int n)
{
    for (int i = 0; i < n; i++)
        sw_loop_turn(w->loop, 3);
}

/* The next response is this one, and is not answered. */
static void expect_open(struct world *w, const char *line)
{
    for (int i = 0; i < 500 && w->n_lines == 0; i++)
        sw_loop_turn(w->loop, 10);
    assert_true(w->n_lines > 0);
    assert_string_equal(w->lines[0], line);
}

static void pop(struct world *w)
{
    w->n_lines--;
    memmove(w->lines[0], w->lines[1], sizeof(w->lines) - sizeof(w->lines[0]));
    memmove(w->nonces[0], w->nonces[1], sizeof(w->nonces) - sizeof(w->nonces[0]));
}

static void answer(struct world *w, const char *nack)
{
    char type[8];

    (void)snprintf(type, sizeof(type), "%.3s", w->lines[0]);
    ask(w, type, NULL, NULL, NULL, w->nonces[0], nack);
    pop(w);
}

/* SotW clients repeat their names with every answer. */
static void answer_names(struct world *w, const char *names)
{
    char type[8];

    (void)snprintf(type, sizeof(type), "%.3s", w->lines[0]);
    ask(w, type, names, NULL, NULL, w->nonces[0], NULL);
    pop(w);
}

static void expect(struct world *w, const char *line)
{
    expect_open(w, line);
    answer(w, NULL);
}

static void expect_nothing(struct world *w)
{
    turns(w, 12);
    assert_string_equal(w->n_lines ? w->lines[0] : "", "");
}

/* --- the server's side --- */

/* "CDS a=1 b=2" replaces, "EDS! a=1 b" changes one and removes another. */
static void commit(struct world *w, const char *const *sets)
{
    struct sw_xds_txn *t = sw_xds_txn_new();

    for (; *sets; sets++) {
        struct sw_slice rest = sw_slice_str(*sets);
        struct sw_slice head = sw_slice_cut(&rest, ' ');
        bool single = head.p[head.n - 1] == '!';
        char alias[8];
        const char *url;

        (void)snprintf(alias, sizeof(alias), "%.3s", head.p);
        url = url_of(alias);
        if (!single)
            sw_xds_txn_clear(t, url);
        while (rest.p) {
            struct sw_slice value = sw_slice_cut(&rest, ' ');
            struct sw_slice name = sw_slice_cut(&value, '=');
            int rc;

            if (single && !value.p)
                rc = sw_xds_txn_del(t, url, name, NULL);
            else if (single)
                rc = sw_xds_txn_set(t, url, name, value, NULL);
            else
                rc = sw_xds_txn_put(t, url, name, value, NULL);
            assert_int_equal(rc, SW_OK);
        }
    }
    (void)sw_xds_cache_commit(w->cache, t);
}
#define COMMIT(w, ...) commit((w), (const char *const[]){__VA_ARGS__, NULL})

static void start(struct world *w)
{
    struct sw_addr any = {.ip = {.family = 4, .b = {127, 0, 0, 1}}};
    struct sw_addr at;

    w->opts.cache = w->cache;
    w->server = sw_xds_server_new(w->loop, &w->opts, NULL);
    assert_int_equal(sw_xds_server_listen(w->server, &any, &at, NULL), SW_OK);
    w->client = sw_grpc_client_new(w->loop,
                                   &(struct sw_grpc_client_opts){.host = SW_SLICE_LIT("127.0.0.1"),
                                                                 .port = at.port,
                                                                 .max_message = 64 << 20},
                                   NULL);
}

static void connect_to(struct world *w, const char *path)
{
    if (!w->server)
        start(w);
    if (w->call)
        sw_grpc_cancel(w->call);
    w->delta = strstr(path, "/Delta") != NULL;
    w->node_sent = false;
    w->n_lines = 0;
    w->call = sw_grpc_call(w->client, sw_slice_str(path), SW_SLICE_LIT("good"), 0, &ops, w);
}

static void connect_delta(struct world *w)
{
    connect_to(w, ADS "DeltaAggregatedResources");
}

static void connect_sotw(struct world *w)
{
    connect_to(w, ADS "StreamAggregatedResources");
}

static int set_up(void **state)
{
    struct world *w = SW_NEW(struct world);

    skew = 0;
    w->loop = sw_loop_new(NULL);
    sw_loop_set_clock(w->loop, skewed_clock);
    w->cache = sw_xds_cache_new();
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;

    if (w->call)
        sw_grpc_cancel(w->call);
    sw_grpc_client_free(w->client);
    sw_xds_server_free(w->server);
    sw_xds_cache_free(w->cache);
    sw_xds_cache_free(w->other);
    sw_loop_turn(w->loop, 0);
    sw_loop_free(w->loop);
    sw_free(w);
    return 0;
}

static void wait_done(struct world *w)
{
    for (int i = 0; i < 500 && !w->done; i++)
        sw_loop_turn(w->loop, 10);
    assert_int_equal(w->done, 1);
}

/* --- delta --- */

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
}

static void find_nack(const struct sw_xds_status *st, void *arg)
{
    char *out = arg;

    assert_true(sw_slice_eq_str(st->node_id, "node-1"));
    (void)snprintf(out, 256, "%s sent %d acked %d acks %d nacks %d: %.*s", alias_of(st->type),
                   st->sent.n > 0, sw_slice_eq(st->sent, st->acked), (int)st->acks, (int)st->nacks,
                   SW_SLICE_ARG(st->nack));
}

static void on_nack(void *arg, struct sw_slice node, struct sw_slice type, struct sw_slice text)
{
    struct world *w = arg;

    (void)node;
    (void)type;
    (void)text;
    w->nacks++;
}

static void refusals_are_seen_and_not_repeated(void **state)
{
    struct world *w = *state;
    char seen[256] = "";

    w->opts.on_nack = on_nack;
    w->opts.arg = w;
    COMMIT(w, "OWN a=1 b=1");
    connect_delta(w);
    subscribe(w, "OWN", "*");
    expect(w, "OWN +a=1 +b=1");
    COMMIT(w, "OWN! a=bad");
    expect_open(w, "OWN +a=bad");
    answer(w, "no good");
    expect_nothing(w);
    assert_int_equal(w->nacks, 1);
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
        for (int i = 0; i < 500 && w->n_lines == 0; i++)
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

/* --- order --- */

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
    expect_open(w, "LDS +l=2");
    turns(w, 10);
    assert_int_equal(w->n_lines, 1);
    answer(w, NULL);
    expect_open(w, "RDS +r=2");
    turns(w, 10);
    assert_int_equal(w->n_lines, 1);
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

/* --- limits and refusals --- */

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
    for (int i = 0; i < 500 && w->n_lines == 0; i++)
        sw_loop_turn(w->loop, 10);
    answer(w, NULL); /* whichever was on its way */
    expect(w, "OWN +a=end");
    assert_int_equal(w->responses, 2);
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
    for (int i = 0; i < 100 && sw_xds_server_streams(w->server); i++)
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
    int rc = SW_EAGAIN;

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

static void a_client_that_waited_may_be_refused(void **state)
{
    struct world *w = *state;
    int rc = SW_EAGAIN;

    w->opts.allow = allow_as_told;
    w->opts.arg = &rc;
    connect_delta(w);
    subscribe(w, "CDS", NULL);
    expect_nothing(w);
    rc = SW_EDENIED;
    sw_xds_server_recheck(w->server);
    wait_done(w);
    assert_int_equal(w->status, SW_GRPC_UNAUTHENTICATED);
    for (int i = 0; i < 100 && sw_xds_server_streams(w->server); i++)
        sw_loop_turn(w->loop, 5);
    assert_int_equal(sw_xds_server_streams(w->server), 0);
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
    for (int i = 0; i < 500 && !is_stopped; i++)
        sw_loop_turn(w->loop, 10);
    assert_true(is_stopped);
}

#define LIVE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

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
        LIVE(a_change_is_made_before_anything_breaks),
        LIVE(state_of_the_world_breaks_last_too),
        LIVE(who_names_clusters_keeps_the_old_one_for_a_while),
        LIVE(a_silent_client_does_not_stop_the_order_for_ever),
        LIVE(endpoints_are_repeated_for_a_changed_cluster),
        LIVE(full_types_are_always_complete),
        LIVE(other_types_carry_what_changed),
        LIVE(what_was_asked_for_before_it_existed_waits_for_nobody),
        LIVE(a_stale_nonce_is_ignored),
        LIVE(listeners_can_be_asked_for_by_name),
        LIVE(services_of_one_type_know_it),
        LIVE(a_slow_client_costs_little),
        LIVE(streams_are_bounded),
        LIVE(strangers_are_refused),
        LIVE(a_client_waits_while_it_is_judged),
        LIVE(a_client_that_waited_may_be_refused),
        LIVE(clients_are_served_from_their_own_cache),
        LIVE(a_stopping_server_tells_its_clients),
    };

    return cmocka_run_group_tests_name("xds server", tests, NULL, NULL);
}
