/* SPDX-License-Identifier: Apache-2.0 */
/* Our client against our server: what it learns, refuses, and remembers. */
#include "xds/client.h"

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
#include "telemetry/metrics.h"
#include "xds/server.h"

#include <proto/discovery.pb-c.h>

#define OWN SW_XDS_URL "spanwire.v1.Own"

struct world {
    struct sw_loop *loop;
    struct sw_xds_cache *cache;
    struct sw_xds_server *server;
    struct sw_addr at;
    struct sw_xds_client *client;
    struct sw_metrics *metrics;
    struct sw_metrics_shard *shard;
    char lines[32][256]; /* updates in order */
    size_t n_lines;
    bool refuse;
    const char *refuse_one; /* the resource of that name */
    const char *version;    /* of "a", as the user holds it; NULL: the client holds */
    bool hold;
    int ups;
    int downs;
};

static int on_update(void *arg, const struct sw_xds_update *u, struct sw_err *err)
{
    struct world *w = arg;
    char *out = w->lines[w->n_lines++ % 32];
    size_t n = (size_t)snprintf(out, 256, "%s", sw_slice_eq_str(u->type, OWN) ? "OWN" : "EDS");

    for (size_t i = 0; i < u->n_added; i++) {
        if (w->refuse_one && sw_slice_eq_str(u->added[i].name, w->refuse_one))
            sw_xds_client_refuse(w->client, OWN, u->added[i].name, "do not like this one");
    }
    for (size_t i = 0; i < u->n_added; i++)
        n += (size_t)snprintf(out + n, 256 - n, " +%.*s=%.*s", SW_SLICE_ARG(u->added[i].name),
                              SW_SLICE_ARG(u->added[i].value));
    for (size_t i = 0; i < u->n_removed; i++)
        n += (size_t)snprintf(out + n, 256 - n, " -%.*s", SW_SLICE_ARG(u->removed[i]));
    if (w->hold)
        sw_xds_client_hold_answer(w->client, OWN);
    return w->refuse ? sw_err_set(err, SW_EINVAL, "do not like it") : SW_OK;
}

static void on_state(void *arg, bool connected, const struct sw_err *err)
{
    struct world *w = arg;

    assert_true(connected || err);
    if (connected)
        w->ups++;
    else
        w->downs++;
}

static void set(struct world *w, const char *type, const char *name, const char *value)
{
    struct sw_xds_txn *t = sw_xds_txn_new();
    int rc = value ? sw_xds_txn_set(t, type, sw_slice_str(name), sw_slice_str(value), NULL)
                   : sw_xds_txn_del(t, type, sw_slice_str(name), NULL);

    assert_int_equal(rc, SW_OK);
    (void)sw_xds_cache_commit(w->cache, t);
}

static void serve(struct world *w)
{
    struct sw_addr at = w->at;
    int rc = SW_EAGAIN;

    at.ip = (struct sw_ip){.family = 4, .b = {127, 0, 0, 1}};
    w->server = sw_xds_server_new(
        w->loop, &(struct sw_xds_server_opts){.cache = w->cache, .metrics = w->shard}, NULL);
    /* Somebody on this machine may be using the port for a moment when it is taken again. */
    for (int i = 0; i < 4000 && rc != SW_OK; i++) {
        rc = sw_xds_server_listen(w->server, &at, &w->at, NULL);
        if (rc != SW_OK)
            sw_loop_turn(w->loop, 10);
    }
    assert_int_equal(rc, SW_OK);
}

static int set_up(void **state)
{
    struct world *w = SW_NEW(struct world);
    struct sw_xds_client_opts o = {.host = SW_SLICE_LIT("127.0.0.1"),
                                   .node_id = SW_SLICE_LIT("n"),
                                   .backoff_least_ns = 10 * SW_NS_PER_MS,
                                   .backoff_most_ns = 50 * SW_NS_PER_MS,
                                   .on_state = on_state,
                                   .arg = w};

    w->loop = sw_loop_new(NULL);
    w->metrics = sw_metrics_new(&(struct sw_metrics_opts){0});
    w->shard = sw_metrics_shard_new(w->metrics);
    o.metrics = w->shard;
    w->cache = sw_xds_cache_new();
    serve(w);
    o.port = w->at.port;
    w->client = sw_xds_client_new(w->loop, &o, NULL);
    sw_xds_client_type(w->client, OWN, on_update, w);
    sw_xds_client_type(w->client, SW_XDS_ENDPOINT, on_update, w);
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;

    sw_xds_client_free(w->client);
    sw_xds_server_free(w->server);
    sw_xds_cache_free(w->cache);
    sw_metrics_shard_free(w->shard);
    sw_metrics_free(w->metrics);
    sw_loop_turn(w->loop, 0);
    sw_loop_free(w->loop);
    sw_free(w);
    return 0;
}

#define RUN_UNTIL(w, cond)                                                                         \
    do {                                                                                           \
        for (int turns_ = 0; turns_ < 5000 && !(cond); turns_++)                                   \
            sw_loop_turn((w)->loop, 10);                                                           \
        assert_true(cond);                                                                         \
    } while (0)

static void expect(struct world *w, const char *line)
{
    RUN_UNTIL(w, w->n_lines > 0);
    assert_string_equal(w->lines[0], line);
    memmove(w->lines[0], w->lines[1], sizeof(w->lines) - sizeof(w->lines[0]));
    w->n_lines--;
}

static void expect_nothing(struct world *w)
{
    for (int i = 0; i < 15; i++)
        sw_loop_turn(w->loop, 3);
    assert_int_equal(w->n_lines, 0);
}

static void it_learns_what_it_wants(void **state)
{
    struct world *w = *state;

    set(w, OWN, "a", "1");
    set(w, SW_XDS_ENDPOINT, "e", "1");
    set(w, SW_XDS_ENDPOINT, "f", "1");
    sw_xds_client_wildcard(w->client, OWN, true);
    sw_xds_client_start(w->client);
    expect(w, "OWN +a=1");
    assert_true(sw_xds_client_connected(w->client));
    assert_true(sw_xds_client_ready(w->client, OWN));
    assert_false(sw_xds_client_ready(w->client, SW_XDS_ENDPOINT));
    assert_int_equal(w->ups, 1);
    assert_int_equal(sw_xds_client_subscribe(w->client, SW_XDS_ENDPOINT, SW_SLICE_LIT("e")), SW_OK);
    assert_int_equal(sw_xds_client_subscribe(w->client, SW_XDS_ENDPOINT, SW_SLICE_LIT("e")), SW_OK);
    expect(w, "EDS +e=1");
    assert_int_equal(sw_xds_client_subscribe(w->client, SW_XDS_ENDPOINT, SW_SLICE_LIT("g")), SW_OK);
    expect(w, "EDS -g");
    set(w, SW_XDS_ENDPOINT, "g", "2");
    expect(w, "EDS +g=2");
    sw_xds_client_unsubscribe(w->client, SW_XDS_ENDPOINT, SW_SLICE_LIT("e"));
    sw_xds_client_unsubscribe(w->client, SW_XDS_ENDPOINT, SW_SLICE_LIT("g"));
    assert_int_equal(sw_xds_client_subscribe(w->client, SW_XDS_ENDPOINT, SW_SLICE_LIT("g")), SW_OK);
    expect(w, "EDS +g=2");
    set(w, SW_XDS_ENDPOINT, "e", "3");
    expect_nothing(w);
    assert_int_equal(sw_xds_client_held(w->client, SW_XDS_ENDPOINT), 1);
    assert_int_equal(sw_xds_client_subscribe(w->client, "unknown", SW_SLICE_LIT("g")), SW_ENOENT);
    assert_true(sw_xds_server_synced(w->server));
}

static void it_remembers_across_streams(void **state)
{
    struct world *w = *state;

    set(w, OWN, "a", "1");
    set(w, OWN, "b", "1");
    set(w, OWN, "c", "1");
    set(w, SW_XDS_ENDPOINT, "e", "1");
    sw_xds_client_wildcard(w->client, OWN, true);
    assert_int_equal(sw_xds_client_subscribe(w->client, SW_XDS_ENDPOINT, SW_SLICE_LIT("e")), SW_OK);
    sw_xds_client_start(w->client);
    expect(w, "EDS +e=1"); /* types with a rank go first */
    expect(w, "OWN +a=1 +b=1 +c=1");
    sw_xds_server_free(w->server);
    w->server = NULL;
    RUN_UNTIL(w, w->downs == 1);
    assert_false(sw_xds_client_connected(w->client));
    set(w, OWN, "b", "2");
    set(w, OWN, "c", NULL);
    expect_nothing(w);
    serve(w); /* the same port */
    expect(w, "OWN +b=2 -c");
    expect_nothing(w);
    assert_int_equal(w->ups, 2);
    assert_int_equal(sw_xds_client_held(w->client, OWN), 2);
    set(w, SW_XDS_ENDPOINT, "e", "2");
    expect(w, "EDS +e=2");
}

static void count_nacks(const struct sw_xds_status *st, void *arg)
{
    if (sw_slice_eq_str(st->nack, "do not like it"))
        *(int *)arg += (int)st->nacks;
}

static void find_nack(const struct sw_xds_status *st, void *arg)
{
    if (st->nack.n)
        (void)snprintf(arg, 128, "%.*s", SW_SLICE_ARG(st->nack));
}

static void it_refuses_single_resources(void **state)
{
    struct world *w = *state;
    char nack[128] = "";

    set(w, OWN, "a", "1");
    set(w, OWN, "b", "1");
    w->refuse_one = "b";
    sw_xds_client_wildcard(w->client, OWN, true);
    sw_xds_client_start(w->client);
    expect(w, "OWN +a=1 +b=1");
    assert_int_equal(sw_xds_client_held(w->client, OWN), 1);
    assert_true(sw_xds_client_ready(w->client, OWN));
    for (int i = 0; i < 5000 && !nack[0]; i++) {
        sw_loop_turn(w->loop, 10);
        sw_xds_server_status(w->server, find_nack, nack);
    }
    assert_string_equal(nack, "b: do not like this one");
    w->refuse_one = NULL;
    set(w, OWN, "b", "2");
    expect(w, "OWN +b=2");
    assert_int_equal(sw_xds_client_held(w->client, OWN), 2);
}

static void each_held(void *arg,
                      void (*fn)(void *ctx, struct sw_slice name, struct sw_slice version),
                      void *ctx)
{
    const struct world *w = arg;

    if (w->version)
        fn(ctx, SW_SLICE_LIT("a"), sw_slice_str(w->version));
}

static void versions_may_be_held_by_the_user(void **state)
{
    struct world *w = *state;

    set(w, OWN, "b", "1");
    w->version = "of something else";
    sw_xds_client_holder(w->client, OWN, each_held, w);
    sw_xds_client_wildcard(w->client, OWN, true);
    sw_xds_client_start(w->client);
    expect(w, "OWN +b=1 -a"); /* the server was told of "a" and has none */
    assert_int_equal(sw_xds_client_held(w->client, OWN), 0);
}

static void on_demand_is_nothing_but_what_is_named(void **state)
{
    struct world *w = *state;

    set(w, OWN, "a", "1");
    set(w, OWN, "b", "1");
    sw_xds_client_on_demand(w->client, OWN);
    sw_xds_client_start(w->client);
    RUN_UNTIL(w, w->ups == 1 || w->n_lines);
    if (w->n_lines)
        expect(w, "OWN"); /* an empty first answer is one */
    assert_int_equal(sw_xds_client_subscribe(w->client, OWN, SW_SLICE_LIT("b")), SW_OK);
    expect(w, "OWN +b=1");
    expect_nothing(w);
}

static void it_refuses_with_a_reason(void **state)
{
    struct world *w = *state;
    int nacks = 0;

    set(w, OWN, "a", "1");
    sw_xds_client_wildcard(w->client, OWN, true);
    sw_xds_client_start(w->client);
    expect(w, "OWN +a=1");
    w->refuse = true;
    set(w, OWN, "a", "2");
    expect(w, "OWN +a=2");
    expect_nothing(w);
    sw_xds_server_status(w->server, count_nacks, &nacks);
    assert_int_equal(nacks, 1);
    w->refuse = false;
    /* What was refused is not held: the next stream brings it again. */
    sw_xds_server_free(w->server);
    w->server = NULL;
    RUN_UNTIL(w, w->downs == 1);
    serve(w);
    expect(w, "OWN +a=2");
}

struct word {
    char nack[64];
    bool pending;
    uint64_t nacks;
};

static void take_word(const struct sw_xds_status *st, void *arg)
{
    struct word *k = arg;

    (void)snprintf(k->nack, sizeof(k->nack), "%.*s", SW_SLICE_ARG(st->nack));
    k->pending = st->pending;
    k->nacks = st->nacks;
}

static struct word word_of(struct world *w)
{
    struct word k = {0};

    sw_xds_server_status(w->server, take_word, &k);
    return k;
}

/* Accepted, and then it does not work after all: the server hears it, and that it works again. */
static void trouble_is_told_and_taken_back(void **state)
{
    struct world *w = *state;

    set(w, OWN, "a", "1");
    sw_xds_client_wildcard(w->client, OWN, true);
    sw_xds_client_start(w->client);
    expect(w, "OWN +a=1");
    RUN_UNTIL(w, sw_xds_server_synced(w->server));
    sw_xds_client_set_trouble(w->client, OWN, SW_SLICE_LIT("port taken"));
    RUN_UNTIL(w, strcmp(word_of(w).nack, "port taken") == 0);
    assert_false(sw_xds_server_synced(w->server));
    /* Nothing is sent again for it, and the next answer says it too. */
    expect_nothing(w);
    set(w, OWN, "b", "1");
    expect(w, "OWN +b=1");
    RUN_UNTIL(w, word_of(w).nacks == 2);
    w->refuse = true;
    set(w, OWN, "b", "2");
    expect(w, "OWN +b=2");
    RUN_UNTIL(w, strcmp(word_of(w).nack, "do not like it\nport taken") == 0);
    w->refuse = false;
    sw_xds_client_set_trouble(w->client, OWN, (struct sw_slice){0});
    RUN_UNTIL(w, strcmp(word_of(w).nack, "do not like it") == 0);
    set(w, OWN, "b", "3");
    expect(w, "OWN +b=3");
    RUN_UNTIL(w, sw_xds_server_synced(w->server));
    /* On the next stream the first answer says it. */
    sw_xds_client_set_trouble(w->client, OWN, SW_SLICE_LIT("again"));
    RUN_UNTIL(w, strcmp(word_of(w).nack, "again") == 0);
    sw_xds_server_free(w->server);
    w->server = NULL;
    RUN_UNTIL(w, w->downs == 1);
    set(w, OWN, "c", "1");
    serve(w);
    expect(w, "OWN +c=1");
    RUN_UNTIL(w, strcmp(word_of(w).nack, "again") == 0);
    sw_xds_client_set_trouble(w->client, OWN, (struct sw_slice){0});
    RUN_UNTIL(w, sw_xds_server_synced(w->server));
}

static void an_answer_may_wait(void **state)
{
    struct world *w = *state;

    set(w, OWN, "a", "1");
    w->hold = true;
    sw_xds_client_wildcard(w->client, OWN, true);
    sw_xds_client_start(w->client);
    expect(w, "OWN +a=1");
    expect_nothing(w);
    assert_true(word_of(w).pending);
    /* What is learnt meanwhile is the answer. */
    sw_xds_client_set_trouble(w->client, OWN, SW_SLICE_LIT("port taken"));
    expect_nothing(w);
    assert_true(word_of(w).pending);
    sw_xds_client_send_held(w->client);
    RUN_UNTIL(w, strcmp(word_of(w).nack, "port taken") == 0);
    assert_int_equal(word_of(w).nacks, 1);
    sw_xds_client_send_held(w->client); /* once */
    sw_xds_client_set_trouble(w->client, OWN, (struct sw_slice){0});
    RUN_UNTIL(w, sw_xds_server_synced(w->server));
}

/* Of a refused response some may be in use: nothing of it counts as held, nor as unknown. */
static void it_does_not_know_what_a_refusal_left(void **state)
{
    struct world *w = *state;
    struct sw_xds_txn *t = sw_xds_txn_new();

    set(w, OWN, "a", "1");
    set(w, OWN, "gone", "1");
    sw_xds_client_wildcard(w->client, OWN, true);
    sw_xds_client_start(w->client);
    expect(w, "OWN +a=1 +gone=1");
    w->refuse = true;
    assert_int_equal(sw_xds_txn_set(t, OWN, SW_SLICE_LIT("a"), SW_SLICE_LIT("2"), NULL), SW_OK);
    assert_int_equal(sw_xds_txn_set(t, OWN, SW_SLICE_LIT("b"), SW_SLICE_LIT("1"), NULL), SW_OK);
    assert_int_equal(sw_xds_txn_del(t, OWN, SW_SLICE_LIT("gone"), NULL), SW_OK);
    (void)sw_xds_cache_commit(w->cache, t);
    expect(w, "OWN +a=2 +b=1 -gone");
    w->refuse = false;
    sw_xds_server_free(w->server);
    w->server = NULL;
    RUN_UNTIL(w, w->downs == 1);
    set(w, OWN, "a", "1"); /* as it was */
    set(w, OWN, "b", NULL);
    set(w, OWN, "gone", "1");
    serve(w);
    expect(w, "OWN +a=1 +gone=1 -b");
    assert_int_equal(sw_xds_client_held(w->client, OWN), 2);
}

/* --- what a server sees --- */

struct seen {
    char text[256]; /* requests in order: type and names, or "ack" */
    size_t n;
    struct sw_xds_client *client;
};

static void on_request(struct sw_grpc_call *call, struct sw_slice msg, void *arg)
{
    struct seen *s = arg;
    SW_ARENA_AUTO a = {0};
    const Sw__DeltaDiscoveryRequest *r =
        SW_PB_UNPACK(&a, Sw__DeltaDiscoveryRequest, sw__delta_discovery_request, msg, NULL, NULL);
    Sw__DeltaDiscoveryResponse out = SW__DELTA_DISCOVERY_RESPONSE__INIT;

    assert_non_null(r);
    s->n +=
        (size_t)snprintf(s->text + s->n, sizeof(s->text) - s->n, " %s%s",
                         sw_slice_eq_str(SW_PB_SLICE(r->type_url), SW_XDS_ENDPOINT) ? "EDS" : "OWN",
                         r->response_nonce.len ? " ack" : "");
    for (size_t i = 0; i < r->n_resource_names_subscribe; i++)
        s->n += (size_t)snprintf(s->text + s->n, sizeof(s->text) - s->n, " %.*s",
                                 SW_SLICE_ARG(SW_PB_SLICE(r->resource_names_subscribe[i])));
    if (r->response_nonce.len || sw_slice_eq_str(SW_PB_SLICE(r->type_url), SW_XDS_ENDPOINT))
        return;
    out.type_url = r->type_url;
    out.nonce = SW_PB_LIT("1");
    assert_int_equal(sw_grpc_send(call, sw_pb_pack(&a, &out.base)), SW_OK);
}

static void on_request_done(struct sw_grpc_call *call, enum sw_grpc_status status,
                            struct sw_slice message, void *arg)
{
    (void)call;
    (void)status;
    (void)message;
    (void)arg;
}

static void on_open(struct sw_grpc_call *c, const struct sw_grpc_request *req, void *arg)
{
    static const struct sw_grpc_ops ops = {.on_message = on_request, .on_done = on_request_done};

    (void)req;
    sw_grpc_accept(c, &ops, arg);
}

static int needs_endpoints(void *arg, const struct sw_xds_update *u, struct sw_err *err)
{
    struct seen *s = arg;

    (void)u;
    (void)err;
    return sw_xds_client_subscribe(s->client, SW_XDS_ENDPOINT, SW_SLICE_LIT("new"));
}

/* The acknowledgement lets a server go on to those who refer to it. */
static void what_a_response_needs_is_asked_for_before_it_is_acknowledged(void **state)
{
    struct world *w = *state;
    struct seen s = {0};
    struct sw_grpc_method m = {.path = "/envoy.service.discovery.v3.AggregatedDiscoveryService/"
                                       "DeltaAggregatedResources",
                               .open = on_open,
                               .arg = &s};
    struct sw_grpc_server *g = sw_grpc_server_new(w->loop, &(struct sw_grpc_server_opts){0});
    struct sw_addr at = {.ip = {.family = 4, .b = {127, 0, 0, 1}}};
    struct sw_xds_client_opts o = {.host = SW_SLICE_LIT("127.0.0.1"), .node_id = SW_SLICE_LIT("n")};

    sw_grpc_server_methods(g, &m, 1);
    assert_int_equal(sw_grpc_server_listen(g, &at, &at, NULL), SW_OK);
    o.port = at.port;
    s.client = sw_xds_client_new(w->loop, &o, NULL);
    sw_xds_client_type(s.client, OWN, needs_endpoints, &s);
    sw_xds_client_type(s.client, SW_XDS_ENDPOINT, on_update, w);
    sw_xds_client_wildcard(s.client, OWN, true);
    assert_int_equal(sw_xds_client_subscribe(s.client, SW_XDS_ENDPOINT, SW_SLICE_LIT("old")), 0);
    sw_xds_client_start(s.client);
    RUN_UNTIL(w, strstr(s.text, "ack") && strstr(s.text, "new"));
    assert_non_null(strstr(s.text, " EDS new OWN ack"));
    sw_xds_client_free(s.client);
    sw_grpc_server_free(g);
}

static uint64_t fake_ns;

static uint64_t fake_clock(void)
{
    return fake_ns;
}

/* One good answer, then one that is cut short. */
static void on_request_of_a_broken_server(struct sw_grpc_call *call, struct sw_slice msg, void *arg)
{
    unsigned *streams = arg;
    SW_ARENA_AUTO a = {0};
    Sw__DeltaDiscoveryResponse out = SW__DELTA_DISCOVERY_RESPONSE__INIT;
    const Sw__DeltaDiscoveryRequest *r =
        SW_PB_UNPACK(&a, Sw__DeltaDiscoveryRequest, sw__delta_discovery_request, msg, NULL, NULL);
    struct sw_slice bytes;

    assert_non_null(r);
    if (r->response_nonce.len)
        return;
    (*streams)++;
    out.type_url = r->type_url;
    out.nonce = SW_PB_LIT("1");
    bytes = sw_pb_pack(&a, &out.base);
    assert_int_equal(sw_grpc_send(call, bytes), SW_OK);
    assert_int_equal(sw_grpc_send(call, sw_slice_head(bytes, bytes.n - 1)), SW_OK);
}

static void on_open_broken(struct sw_grpc_call *c, const struct sw_grpc_request *req, void *arg)
{
    static const struct sw_grpc_ops ops = {.on_message = on_request_of_a_broken_server,
                                           .on_done = on_request_done};

    (void)req;
    sw_grpc_accept(c, &ops, arg);
}

static void a_server_whose_answers_end_each_stream_is_not_stormed(void **state)
{
    struct world *w = *state;
    unsigned streams = 0;
    struct sw_grpc_method m = {.path = "/envoy.service.discovery.v3.AggregatedDiscoveryService/"
                                       "DeltaAggregatedResources",
                               .open = on_open_broken,
                               .arg = &streams};
    struct sw_grpc_server *g = sw_grpc_server_new(w->loop, &(struct sw_grpc_server_opts){0});
    struct sw_addr at = {.ip = {.family = 4, .b = {127, 0, 0, 1}}};
    struct sw_xds_client_opts o = {.host = SW_SLICE_LIT("127.0.0.1"),
                                   .node_id = SW_SLICE_LIT("n"),
                                   .backoff_least_ns = 10 * SW_NS_PER_MS,
                                   .backoff_most_ns = 15 * SW_NS_PER_S,
                                   .healthy_ns = 1};
    struct sw_xds_client *c;

    fake_ns = sw_now_ns();
    sw_loop_set_clock(w->loop, fake_clock);
    sw_grpc_server_methods(g, &m, 1);
    assert_int_equal(sw_grpc_server_listen(g, &at, &at, NULL), SW_OK);
    o.port = at.port;
    c = sw_xds_client_new(w->loop, &o, NULL);
    sw_xds_client_type(c, OWN, on_update, w);
    sw_xds_client_wildcard(c, OWN, true);
    sw_xds_client_start(c);
    /* 20 s: with each pause at least 3/4 of the one that is twice as long, a dozen streams. */
    for (int i = 0; i < 20000; i++) {
        fake_ns += SW_NS_PER_MS;
        sw_loop_turn(w->loop, 0);
    }
    assert_in_range(streams, 5, 14);
    sw_xds_client_free(c);
    sw_grpc_server_free(g);
    sw_loop_set_clock(w->loop, sw_now_ns);
}

static void numbers_tell_what_happened(void **state)
{
    static const char *const want[] = {
        "spanwire_xds_streams 1",
        "spanwire_xds_connected 1",
        "spanwire_xds_responses_total{url=\"" OWN "\"} 2",
        "spanwire_xds_answers_total{url=\"" OWN "\",result=\"ack\"} 1",
        "spanwire_xds_answers_total{url=\"" OWN "\",result=\"nack\"} 1",
        "istio_xds_message_total{url=\"" OWN "\"} 2",
        "spanwire_xds_refused_total{url=\"" OWN "\"} 1",
    };
    struct world *w = *state;
    SW_BUF_AUTO out;
    char *text;

    set(w, OWN, "a", "1");
    sw_xds_client_wildcard(w->client, OWN, true);
    sw_xds_client_start(w->client);
    expect(w, "OWN +a=1");
    w->refuse = true;
    set(w, OWN, "a", "2");
    expect(w, "OWN +a=2");
    expect_nothing(w);
    sw_buf_init(&out, 1 << 20);
    assert_int_equal(sw_metrics_write(w->metrics, SW_METRICS_PROMETHEUS, &out), SW_OK);
    text = sw_buf_take_str(&out);
    for (size_t i = 0; i < SW_ARRAY_LEN(want); i++) {
        if (!strstr(text, want[i]))
            fail_msg("%s is not in:\n%s", want[i], text);
    }
    sw_free(text);
}

#define LIVE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LIVE(it_learns_what_it_wants),
        LIVE(it_remembers_across_streams),
        LIVE(it_refuses_with_a_reason),
        LIVE(it_refuses_single_resources),
        LIVE(versions_may_be_held_by_the_user),
        LIVE(on_demand_is_nothing_but_what_is_named),
        LIVE(trouble_is_told_and_taken_back),
        LIVE(an_answer_may_wait),
        LIVE(it_does_not_know_what_a_refusal_left),
        LIVE(what_a_response_needs_is_asked_for_before_it_is_acknowledged),
        LIVE(a_server_whose_answers_end_each_stream_is_not_stormed),
        LIVE(numbers_tell_what_happened),
    };

    return cmocka_run_group_tests_name("xds client", tests, NULL, NULL);
}
