/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the server share: a client that they script message by message. Responses
 * become lines such as "CDS +a=1 -b": a resource is name=value for delta, the value for state of
 * the world.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/time.h"
#include "http/grpc/grpc.h"
#include "proto/pb.h"
#include "proto/types.h"
#include "xds/server.h"

#include <proto/discovery.pb-c.h>

#define ADS "/envoy.service.discovery.v3.AggregatedDiscoveryService/"

static uint64_t skew;

static inline uint64_t skewed_clock(void)
{
    return sw_now_ns() + skew;
}

static const struct {
    const char *alias;
    const char *url;
} aliases[] = {
    {"CDS", SW_XDS_CLUSTER},  {"EDS", SW_XDS_ENDPOINT},       {"LDS", SW_XDS_LISTENER},
    {"RDS", SW_XDS_ROUTE},    {"SDS", SW_XDS_SECRET},         {"OWN", SW_XDS_URL "spanwire.v1.Own"},
    {"ADR", SW_TYPE_ADDRESS}, {"AUT", SW_TYPE_AUTHORIZATION},
};

static inline const char *url_of(const char *alias)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(aliases); i++) {
        if (strcmp(aliases[i].alias, alias) == 0)
            return aliases[i].url;
    }
    return alias;
}

static inline const char *alias_of(struct sw_slice url)
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
    const char *view; /* what clients may have of the cache; NULL: nothing */
    struct sw_xds_server_opts opts;
    struct sw_xds_server *server;
    uint16_t port; /* of the server */
    struct sw_grpc_client *client;
    struct sw_grpc_call *call;
    bool delta;
    bool node_sent;
    const char *node_name; /* NODE_NAME of the metadata; NULL: none */
    char lines[64][512];   /* responses not yet looked at */
    size_t n_lines;
    char nonces[64][32];
    int responses;
    int done;
    enum sw_grpc_status status;
};

/* --- the scripted client --- */

static const struct sw_pb_limits wide = {.bytes = 64 << 20, .memory = 128 << 20};

static inline size_t append(char *out, size_t at, const char *sign, struct sw_slice a,
                            struct sw_slice b)
{
    at += (size_t)snprintf(out + at, 512 - at, " %s%.*s%s%.*s", sign, (int)sw_min(a.n, 24), a.p,
                           b.p ? "=" : "", (int)sw_min(b.n, 24), b.p ? b.p : "");
    return sw_min(at, 511);
}

static inline void record(struct world *w, struct sw_slice type, const char *line,
                          ProtobufCBinaryData nonce)
{
    assert_true(w->n_lines < SW_ARRAY_LEN(w->lines));
    (void)snprintf(w->lines[w->n_lines], sizeof(w->lines[0]), "%s%s", alias_of(type), line);
    (void)snprintf(w->nonces[w->n_lines], sizeof(w->nonces[0]), "%.*s", (int)nonce.len,
                   (const char *)nonce.data);
    w->n_lines++;
    w->responses++;
}

static inline void on_message(struct sw_grpc_call *c, struct sw_slice msg, void *arg)
{
    struct world *w = arg;
    SW_ARENA_AUTO a = {0};
    char line[512] = "";
    size_t n = 0;

    (void)c;
    if (w->delta) {
        Sw__DeltaDiscoveryResponse *r = SW_PB_UNPACK(
            &a, Sw__DeltaDiscoveryResponse, sw__delta_discovery_response, msg, &wide, NULL);

        assert_non_null(r);
        for (size_t i = 0; i < r->n_resources; i++) {
            n = append(line, n, "+", SW_PB_SLICE(r->resources[i]->name),
                       SW_PB_SLICE(r->resources[i]->resource->value));
            for (size_t k = 0; k < r->resources[i]->n_aliases; k++)
                n = append(line, n, "@", SW_PB_SLICE(r->resources[i]->aliases[k]),
                           (struct sw_slice){0});
        }
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

static inline void on_done(struct sw_grpc_call *c, enum sw_grpc_status status, struct sw_slice text,
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

static inline size_t words(struct sw_arena *a, const char *text, ProtobufCBinaryData **ret)
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

static inline Sw__Struct *metadata(struct sw_arena *a, const char *key, const char *value)
{
    Sw__Struct *m = SW_PB_NEW(a, Sw__Struct, sw__struct);
    Sw__StructField *f = SW_PB_NEW(a, Sw__StructField, sw__struct_field);

    f->key = SW_PB_BYTES(sw_slice_str(key));
    f->value = SW_PB_NEW(a, Sw__Value, sw__value);
    f->value->kind_case = SW__VALUE__KIND_STRING_VALUE;
    f->value->string_value = SW_PB_BYTES(sw_slice_str(value));
    m->n_fields = 1;
    m->fields = sw_arena_array(a, 1, sizeof(struct Sw__StructField *));
    m->fields[0] = f;
    return m;
}

/* One request; every text may be NULL. held: "name version name version". */
static inline void ask(struct world *w, const char *type, const char *add, const char *drop,
                       const char *held, const char *nonce, const char *nack)
{
    SW_ARENA_AUTO a = {0};
    Sw__Status status = SW__STATUS__INIT;
    Sw__Node *node = SW_PB_NEW(&a, Sw__Node, sw__node);
    struct sw_slice bytes;

    status.message = SW_PB_BYTES(sw_slice_str(nack ? nack : ""));
    node->id = SW_PB_LIT("node-1");
    if (w->node_name)
        node->metadata = metadata(&a, "NODE_NAME", w->node_name);
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

static inline void subscribe(struct world *w, const char *type, const char *names)
{
    ask(w, type, names, NULL, NULL, NULL, NULL);
}

static inline void turns(struct world *w, int n)
{
    for (int i = 0; i < n; i++)
        sw_loop_turn(w->loop, 3);
}

/* The next response is this one, and is not answered. */
static inline void expect_open(struct world *w, const char *line)
{
    for (int i = 0; i < 5000 && w->n_lines == 0; i++)
        sw_loop_turn(w->loop, 10);
    assert_true(w->n_lines > 0);
    assert_string_equal(w->lines[0], line);
}

static inline void pop(struct world *w)
{
    w->n_lines--;
    memmove(w->lines[0], w->lines[1], sizeof(w->lines) - sizeof(w->lines[0]));
    memmove(w->nonces[0], w->nonces[1], sizeof(w->nonces) - sizeof(w->nonces[0]));
}

static inline void answer(struct world *w, const char *nack)
{
    char type[8];

    (void)snprintf(type, sizeof(type), "%.3s", w->lines[0]);
    ask(w, type, NULL, NULL, NULL, w->nonces[0], nack);
    pop(w);
}

/* SotW clients repeat their names with every answer. */
static inline void answer_names(struct world *w, const char *names)
{
    char type[8];

    (void)snprintf(type, sizeof(type), "%.3s", w->lines[0]);
    ask(w, type, names, NULL, NULL, w->nonces[0], NULL);
    pop(w);
}

static inline void expect(struct world *w, const char *line)
{
    expect_open(w, line);
    answer(w, NULL);
}

static inline void expect_nothing(struct world *w)
{
    turns(w, 12);
    assert_string_equal(w->n_lines ? w->lines[0] : "", "");
}

/* --- the server's side --- */

/* "CDS a=1 b=2" replaces, "EDS! a=1 b" changes one and removes another. */
static inline void commit(struct world *w, const char *const *sets)
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

static inline void new_client(struct world *w)
{
    w->client = sw_grpc_client_new(w->loop,
                                   &(struct sw_grpc_client_opts){.host = SW_SLICE_LIT("127.0.0.1"),
                                                                 .port = w->port,
                                                                 .max_message = 64 << 20},
                                   NULL);
}

static inline void start(struct world *w)
{
    struct sw_addr any = {.ip = {.family = 4, .b = {127, 0, 0, 1}}};
    struct sw_addr at;

    w->opts.cache = w->cache;
    w->server = sw_xds_server_new(w->loop, &w->opts, NULL);
    assert_int_equal(sw_xds_server_listen(w->server, &any, &at, NULL), SW_OK);
    w->port = at.port;
    new_client(w);
}

static inline void connect_to(struct world *w, const char *path)
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

static inline void connect_delta(struct world *w)
{
    connect_to(w, ADS "DeltaAggregatedResources");
}

static inline void connect_sotw(struct world *w)
{
    connect_to(w, ADS "StreamAggregatedResources");
}

/* Another client of the same server, by a connection of its own; to be left again. */
static inline void join(struct world *w, struct world *other)
{
    if (!w->server)
        start(w);
    *other =
        (struct world){.loop = w->loop, .cache = w->cache, .server = w->server, .port = w->port};
    new_client(other);
}

static inline void leave(struct world *other)
{
    if (other->call)
        sw_grpc_cancel(other->call);
    sw_grpc_client_free(other->client);
}

static inline int set_up(void **state)
{
    struct world *w = SW_NEW(struct world);

    skew = 0;
    w->loop = sw_loop_new(NULL);
    sw_loop_set_clock(w->loop, skewed_clock);
    w->cache = sw_xds_cache_new();
    *state = w;
    return 0;
}

static inline int tear_down(void **state)
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

static inline void wait_done(struct world *w)
{
    for (int i = 0; i < 5000 && !w->done; i++)
        sw_loop_turn(w->loop, 10);
    assert_int_equal(w->done, 1);
}

#define LIVE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
