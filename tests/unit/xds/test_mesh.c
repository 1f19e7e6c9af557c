/* SPDX-License-Identifier: Apache-2.0 */
/* Large types: all of it or on demand, who comes back, what refers to what. */
#include "rig.h"

#include "xds/server_int.h"
#include "xds/table.h"

/* What is encoded, and what goes into responses. */
static struct {
    int encoded;
    const char *put[64];
    size_t n_put;
} seen;

struct sw_xds_res *__real_sw_xds_res_new(struct sw_slice type, struct sw_slice name,
                                         struct sw_slice value, const struct sw_xds_extra *x);
struct sw_xds_res *__wrap_sw_xds_res_new(struct sw_slice type, struct sw_slice name,
                                         struct sw_slice value, const struct sw_xds_extra *x);
void __real_xds_msg_put(struct xds_msg *r, struct sw_slice resource);
void __wrap_xds_msg_put(struct xds_msg *r, struct sw_slice resource);

struct sw_xds_res *__wrap_sw_xds_res_new(struct sw_slice type, struct sw_slice name,
                                         struct sw_slice value, const struct sw_xds_extra *x)
{
    seen.encoded++;
    return __real_sw_xds_res_new(type, name, value, x);
}

void __wrap_xds_msg_put(struct xds_msg *r, struct sw_slice resource)
{
    if (seen.n_put < SW_ARRAY_LEN(seen.put))
        seen.put[seen.n_put++] = resource.p;
    __real_xds_msg_put(r, resource);
}

/* A workload: one alias, a node and a service, each of which may be NULL. */
static void set_full(struct sw_xds_txn *t, const char *name, const char *value, const char *alias,
                     const char *node, const char *service)
{
    const struct sw_slice names[] = {sw_slice_str(alias ? alias : "")};
    const struct sw_slice services[] = {sw_slice_str(service ? service : "")};
    const struct sw_xds_extra x = {.aliases = names,
                                   .n_aliases = alias != NULL,
                                   .node = sw_slice_str(node ? node : ""),
                                   .services = services,
                                   .n_services = service != NULL};

    assert_int_equal(
        sw_xds_txn_set_extra(t, SW_TYPE_ADDRESS, sw_slice_str(name), sw_slice_str(value), &x, NULL),
        SW_OK);
}

static void workload(struct world *w, const char *name, const char *value, const char *alias,
                     const char *node, const char *service)
{
    struct sw_xds_txn *t = sw_xds_txn_new();

    set_full(t, name, value, alias, node, service);
    (void)sw_xds_cache_commit(w->cache, t);
}

static const char *version(struct world *w, const char *type, const char *name, char out[40])
{
    const struct xds_table *t = sw_xds_cache_table(w->cache, sw_slice_str(url_of(type)));
    const struct xds_rec *r = xds_table_get(t, sw_slice_str(name));

    assert_non_null(r);
    (void)snprintf(out, 40, "%.*s", SW_SLICE_ARG(r->res->version));
    return out;
}

static int set_up_mesh(void **state)
{
    struct world *w;
    int rc = set_up(state);

    memset(&seen, 0, sizeof(seen));

    w = *state;
    sw_xds_cache_offer(w->cache, SW_TYPE_ADDRESS);
    sw_xds_cache_offer(w->cache, SW_TYPE_AUTHORIZATION);
    return rc;
}

static void a_wildcard_gets_all_and_then_what_changes(void **state)
{
    struct world *w = *state;

    workload(w, "a", "1", "n/1", "x", NULL);
    workload(w, "b", "1", "n/2", "y", NULL);
    connect_delta(w);
    subscribe(w, "ADR", NULL);
    expect(w, "ADR +a=1 +b=1");
    workload(w, "b", "2", "n/2", "y", NULL);
    expect(w, "ADR +b=2");
    workload(w, "b", "2", "n/2", "y", NULL);
    expect_nothing(w);
    COMMIT(w, "ADR! a");
    expect(w, "ADR -a");
    workload(w, "a", "1", "n/1", "x", NULL);
    expect(w, "ADR +a=1");
    expect_nothing(w);
    assert_true(sw_xds_server_synced(w->server));
}

/* However many streams there are, and whatever their kind: all copy from the same bytes. */
static void a_resource_is_encoded_once_for_all_streams(void **state)
{
    enum { STREAMS = 6, ROUNDS = 4 };
    struct world *w = *state;
    struct world *all = sw_calloc(STREAMS, sizeof(*all));

    workload(w, "a", "0", "n/1", "x", NULL);
    workload(w, "b", "0", "n/2", "y", NULL);
    for (int i = 0; i < STREAMS; i++) {
        join(w, &all[i]);
        connect_delta(&all[i]);
        if (i < STREAMS / 2) {
            subscribe(&all[i], "ADR", NULL);
            expect(&all[i], "ADR +a=0 +b=0");
        } else {
            ask(&all[i], "ADR", "a", "*", NULL, NULL, NULL);
            expect(&all[i], "ADR +a=0 @n/1");
        }
    }
    assert_int_equal(seen.encoded, 2);
    seen.encoded = 0;
    for (int k = 1; k <= ROUNDS; k++) {
        char value[2] = {(char)('0' + k), 0};
        char line[32];

        seen.n_put = 0;
        workload(w, "a", value, "n/1", "x", NULL);
        for (int i = 0; i < STREAMS; i++) {
            (void)snprintf(line, sizeof(line), "ADR +a=%s%s", value,
                           i < STREAMS / 2 ? "" : " @n/1");
            expect(&all[i], line);
        }
        assert_int_equal(seen.encoded, k);
        assert_int_equal(seen.n_put, STREAMS);
        for (int i = 1; i < STREAMS; i++)
            assert_ptr_equal(seen.put[i], seen.put[0]);
    }
    for (int i = 0; i < STREAMS; i++)
        leave(&all[i]);
    sw_free(all);
}

static void the_clients_own_node_comes_first(void **state)
{
    struct world *w = *state;

    workload(w, "a", "1", NULL, "x", NULL);
    workload(w, "b", "1", NULL, "me", NULL);
    workload(w, "c", "1", NULL, "x", NULL);
    w->node_name = "me";
    connect_delta(w);
    subscribe(w, "ADR", NULL);
    expect(w, "ADR +b=1 +a=1 +c=1");
}

static void an_empty_type_is_answered(void **state)
{
    struct world *w = *state;

    connect_delta(w);
    subscribe(w, "ADR", NULL);
    expect(w, "ADR");
    subscribe(w, "AUT", NULL);
    expect(w, "AUT");
    expect_nothing(w);
}

static void changes_while_an_answer_is_due_go_out_together(void **state)
{
    struct world *w = *state;

    workload(w, "a", "1", NULL, NULL, NULL);
    connect_delta(w);
    subscribe(w, "ADR", NULL);
    expect_open(w, "ADR +a=1");
    workload(w, "b", "1", NULL, NULL, NULL);
    workload(w, "c", "1", NULL, NULL, NULL);
    workload(w, "b", "2", NULL, NULL, NULL);
    COMMIT(w, "ADR! c");
    turns(w, 10);
    assert_int_equal(w->n_lines, 1);
    answer(w, NULL);
    expect(w, "ADR +b=2 -c");
}

static void who_comes_back_gets_the_difference(void **state)
{
    struct world *w = *state;
    char a[40];
    char held[200];

    workload(w, "a", "1", NULL, NULL, NULL);
    workload(w, "b", "1", NULL, NULL, NULL);
    workload(w, "c", "1", NULL, NULL, NULL);
    (void)snprintf(held, sizeof(held), "a %s b old gone x", version(w, "ADR", "a", a));
    connect_delta(w);
    ask(w, "ADR", NULL, NULL, held, NULL, NULL);
    ask(w, "AUT", NULL, NULL, "p x", NULL, NULL);
    /* Policies first, but not their removals. */
    expect(w, "AUT");
    expect(w, "ADR +b=1 +c=1 -gone");
    expect(w, "AUT -p");
    expect_nothing(w);
    /* What it held changes later all the same. */
    workload(w, "a", "2", NULL, NULL, NULL);
    expect(w, "ADR +a=2");
    /* All the same: nothing but an empty answer. */
    (void)snprintf(held, sizeof(held), "a %s", version(w, "ADR", "a", a));
    COMMIT(w, "ADR! b c");
    expect(w, "ADR -b -c");
    connect_delta(w);
    ask(w, "ADR", NULL, NULL, held, NULL, NULL);
    skew += SW_NS_PER_S; /* it does not ask for policies */
    expect(w, "ADR");
    expect_nothing(w);
}

static void policies_come_before_and_go_after(void **state)
{
    struct world *w = *state;

    COMMIT(w, "AUT old=1", "ADR w=old");
    connect_delta(w);
    subscribe(w, "ADR", NULL);
    subscribe(w, "AUT", NULL);
    expect(w, "AUT +old=1");
    expect(w, "ADR +w=old");
    COMMIT(w, "AUT! new=1 old", "ADR! w=new");
    expect_open(w, "AUT +new=1");
    turns(w, 10);
    assert_int_equal(w->n_lines, 1); /* not before the policy is acknowledged */
    answer(w, NULL);
    expect(w, "ADR +w=new");
    expect(w, "AUT -old");
    expect_nothing(w);
}

static void a_refusal_is_not_repeated(void **state)
{
    struct world *w = *state;

    COMMIT(w, "ADR a=1");
    connect_delta(w);
    subscribe(w, "ADR", NULL);
    expect_open(w, "ADR +a=1");
    answer(w, "a: bad address");
    expect_nothing(w);
    assert_false(sw_xds_server_synced(w->server));
    COMMIT(w, "ADR! b=1");
    expect(w, "ADR +b=1");
    expect_nothing(w);
}

static void a_stale_nonce_is_ignored(void **state)
{
    struct world *w = *state;
    char stale[32];

    COMMIT(w, "ADR a=1");
    connect_delta(w);
    subscribe(w, "ADR", NULL);
    expect_open(w, "ADR +a=1");
    (void)snprintf(stale, sizeof(stale), "%s", w->nonces[0]);
    answer(w, NULL);
    COMMIT(w, "ADR! a=2");
    expect_open(w, "ADR +a=2");
    ask(w, "ADR", NULL, NULL, NULL, stale, NULL);
    COMMIT(w, "ADR! a=3");
    turns(w, 10);
    assert_int_equal(w->n_lines, 1); /* the second is still not acknowledged */
    answer(w, NULL);
    expect(w, "ADR +a=3");
}

static void on_demand_begins_with_nothing(void **state)
{
    struct world *w = *state;

    workload(w, "uid", "1", "n/1", "x", NULL);
    connect_delta(w);
    ask(w, "ADR", "*", "*", NULL, NULL, NULL);
    expect(w, "ADR");
    workload(w, "uid", "2", "n/1", "x", NULL);
    expect_nothing(w);
    subscribe(w, "ADR", "uid");
    expect(w, "ADR +uid=2 @n/1");
    workload(w, "uid", "3", "n/1", "x", NULL);
    expect(w, "ADR +uid=3 @n/1");
    COMMIT(w, "ADR! uid");
    expect(w, "ADR -uid");
}

static void on_demand_finds_by_alias(void **state)
{
    struct world *w = *state;

    workload(w, "a", "1", "n/1", NULL, NULL);
    workload(w, "b", "1", "n/1", NULL, NULL); /* on the host's network, say */
    workload(w, "c", "1", "n/2", NULL, NULL);
    connect_delta(w);
    ask(w, "ADR", "*", "*", NULL, NULL, NULL);
    expect(w, "ADR");
    subscribe(w, "ADR", "n/1 n/9");
    expect(w, "ADR +a=1 @n/1 +b=1 @n/1 -n/9");
    workload(w, "b", "2", "n/1", NULL, NULL);
    expect(w, "ADR +b=2 @n/1");
    /* What did not exist when it was asked for is sent when it does. */
    workload(w, "d", "1", "n/9", NULL, NULL);
    expect(w, "ADR +d=1 @n/9");
    workload(w, "c", "2", "n/2", NULL, NULL);
    expect_nothing(w);
}

static void on_demand_services_bring_their_endpoints(void **state)
{
    struct world *w = *state;

    workload(w, "ns/svc", "s1", "n/vip", NULL, NULL);
    workload(w, "w1", "1", "n/1", NULL, "ns/svc");
    workload(w, "w2", "1", "n/2", NULL, "ns/other");
    connect_delta(w);
    ask(w, "ADR", "*", "*", NULL, NULL, NULL);
    expect(w, "ADR");
    subscribe(w, "ADR", "n/vip");
    expect(w, "ADR +ns/svc=s1 @n/vip +w1=1 @n/1");
    workload(w, "w3", "1", "n/3", NULL, "ns/svc");
    expect(w, "ADR +w3=1 @n/3");
    workload(w, "w1", "2", "n/1", NULL, "ns/svc");
    workload(w, "w2", "2", "n/2", NULL, "ns/other");
    expect(w, "ADR +w1=2 @n/1");
    COMMIT(w, "ADR! w3");
    expect(w, "ADR -w3");
    expect_nothing(w);
}

/* In whatever order they come. */
static void on_demand_services_that_come_later_bring_their_endpoints(void **state)
{
    struct world *w = *state;

    workload(w, "w1", "1", "n/1", NULL, "ns/svc");
    connect_delta(w);
    ask(w, "ADR", "*", "*", NULL, NULL, NULL);
    expect(w, "ADR");
    subscribe(w, "ADR", "n/vip");
    expect(w, "ADR -n/vip");
    workload(w, "ns/svc", "s1", "n/vip", NULL, NULL);
    expect(w, "ADR +ns/svc=s1 @n/vip");
    expect(w, "ADR +w1=1 @n/1");
    expect_nothing(w);
}

static void on_demand_includes_the_clients_own_node(void **state)
{
    struct world *w = *state;

    workload(w, "mine", "1", "n/1", "me", NULL);
    workload(w, "other", "1", "n/2", "you", NULL);
    w->node_name = "me";
    connect_delta(w);
    ask(w, "ADR", "*", "*", NULL, NULL, NULL);
    expect(w, "ADR +mine=1 @n/1");
    workload(w, "mine2", "1", "n/3", "me", NULL);
    expect(w, "ADR +mine2=1 @n/3");
    workload(w, "other", "2", "n/2", "you", NULL);
    expect_nothing(w);
    COMMIT(w, "ADR! mine");
    expect(w, "ADR -mine");
}

static void on_demand_after_reconnecting(void **state)
{
    struct world *w = *state;
    char v[40];
    char held[100];

    workload(w, "a", "1", "n/1", NULL, NULL);
    workload(w, "b", "1", "n/2", NULL, NULL);
    workload(w, "c", "1", "n/3", NULL, NULL);
    (void)snprintf(held, sizeof(held), "a %s b old gone x", version(w, "ADR", "a", v));
    connect_delta(w);
    ask(w, "ADR", "*", "*", held, NULL, NULL);
    expect(w, "ADR +b=1 @n/2 -gone");
    workload(w, "a", "2", "n/1", NULL, NULL);
    workload(w, "c", "2", "n/3", NULL, NULL);
    expect(w, "ADR +a=2 @n/1");
}

/* A Service says nothing of its endpoints: it is the same, and they are not. */
static void endpoints_that_came_meanwhile_are_sent_on_demand(void **state)
{
    struct world *w = *state;
    char v[40];
    char a[40];
    char held[200];

    workload(w, "d/s", "1", "n/9", NULL, NULL);
    workload(w, "d/t", "1", "n/8", NULL, NULL);
    workload(w, "a", "1", "n/1", NULL, "d/s");
    workload(w, "b", "1", "n/2", NULL, "d/s");
    workload(w, "c", "1", "n/3", NULL, "d/t");
    version(w, "ADR", "a", a);
    (void)snprintf(held, sizeof(held), "gone x a %s d/s %s", a, version(w, "ADR", "d/s", v));
    connect_delta(w);
    ask(w, "ADR", "*", "*", held, NULL, NULL);
    expect(w, "ADR +b=1 @n/2 -gone");
    expect_nothing(w);
}

static void state_of_the_world_is_sent_whole(void **state)
{
    struct world *w = *state;

    COMMIT(w, "ADR a=1 b=1");
    connect_sotw(w);
    subscribe(w, "ADR", NULL);
    expect(w, "ADR +1 +1");
    COMMIT(w, "ADR! b=2");
    expect(w, "ADR +1 +2");
    COMMIT(w, "ADR! a");
    expect(w, "ADR +2");
    expect_nothing(w);
}

static void types_that_are_not_offered_are_refused(void **state)
{
    struct world *w = *state;

    connect_delta(w);
    subscribe(w, "CDS", NULL);
    wait_done(w);
    assert_int_equal(w->status, SW_GRPC_UNIMPLEMENTED);
}

static void nobody_is_served_before_it_is_complete(void **state)
{
    struct world *w = *state;

    sw_xds_cache_hold(w->cache, true);
    connect_delta(w);
    ask(w, "ADR", NULL, NULL, "a x", NULL, NULL);
    wait_done(w);
    assert_int_equal(w->status, SW_GRPC_UNAVAILABLE);
}

static void a_type_that_is_awaited_is_served_after_its_first_commit(void **state)
{
    struct world *w = *state;

    sw_xds_cache_await(w->cache, SW_TYPE_ADDRESS);
    connect_delta(w);
    ask(w, "ADR", NULL, NULL, "a x", NULL, NULL);
    wait_done(w);
    assert_int_equal(w->status, SW_GRPC_UNAVAILABLE);
    COMMIT(w, "ADR"); /* complete, and empty */
    connect_delta(w);
    ask(w, "ADR", NULL, NULL, "a x", NULL, NULL);
    expect(w, "ADR -a");
}

static void many_resources_come_in_pieces(void **state)
{
    struct world *w = *state;
    struct sw_xds_txn *t = sw_xds_txn_new();
    char *big = sw_calloc(1, 3 << 20);
    char name[8] = "r0";

    memset(big, 'x', 3 << 20);
    for (int i = 0; i < 14; i++) {
        name[1] = (char)('a' + i);
        assert_int_equal(
            sw_xds_txn_set(t, url_of("ADR"), sw_slice_str(name), sw_slice(big, 3 << 20), NULL),
            SW_OK);
    }
    (void)sw_xds_cache_commit(w->cache, t);
    connect_delta(w);
    subscribe(w, "ADR", NULL);
    for (int i = 0; i < 5000 && w->n_lines == 0; i++)
        sw_loop_turn(w->loop, 10);
    assert_int_equal(w->responses, 1);
    assert_non_null(strstr(w->lines[0], "+rh="));
    assert_null(strstr(w->lines[0], "+ri="));
    /* One that goes before its turn is not sent. */
    COMMIT(w, "ADR! rm");
    answer(w, NULL);
    for (int i = 0; i < 5000 && w->n_lines == 0; i++)
        sw_loop_turn(w->loop, 10);
    assert_non_null(strstr(w->lines[0], "+rl="));
    assert_null(strstr(w->lines[0], "+rm="));
    assert_non_null(strstr(w->lines[0], "-rm"));
    answer(w, NULL);
    expect_nothing(w);
    sw_free(big);
}

static int let_in(void *arg, const struct sw_xds_client_id *id, struct sw_err *err)
{
    (void)arg;
    (void)err;
    return sw_slice_eq_str(id->token, "good") ? SW_OK : SW_EDENIED;
}

/* A request of some megabytes that says what the client holds. */
static void send_large(struct world *w)
{
    SW_BUF_AUTO b = {.max = 64 << 20};
    SW_BUF_AUTO e = {.max = 1024};

    assert_int_equal(sw_pb_put_bytes(&b, 2, SW_SLICE_LIT(SW_TYPE_ADDRESS)), SW_OK);
    for (int i = 0; i < 100000; i++) {
        char name[80];

        (void)snprintf(name, sizeof(name), "cluster1//v1/Pod/some-namespace/some-workload-%d", i);
        sw_buf_clear(&e);
        assert_int_equal(sw_pb_put_bytes(&e, 1, sw_slice_str(name)), SW_OK);
        assert_int_equal(sw_pb_put_bytes(&e, 2, SW_SLICE_LIT("0123456789abcdef")), SW_OK);
        assert_int_equal(sw_pb_put_bytes(&b, 5, sw_buf_slice(&e)), SW_OK);
    }
    assert_int_equal(sw_grpc_send(w->call, sw_buf_slice(&b)), SW_OK);
}

static void large_requests_are_for_those_who_were_let_in(void **state)
{
    struct world *w = *state;

    COMMIT(w, "ADR a=1", "AUT p=1");
    w->opts.max_request = 1 << 20;
    connect_delta(w);
    send_large(w);
    wait_done(w);
    assert_int_equal(w->status, SW_GRPC_RESOURCE_EXHAUSTED);
    sw_grpc_client_free(w->client);
    sw_xds_server_free(w->server);
    w->server = NULL;
    w->opts.max_initial = 64 << 20;
    w->opts.allow = let_in;
    connect_delta(w);
    send_large(w);
    skew += SW_NS_PER_S;
    for (int i = 0; i < 5000 && w->n_lines == 0; i++)
        sw_loop_turn(w->loop, 10);
    assert_non_null(strstr(w->lines[0], "ADR +a=1 -cluster1"));
}

/* --- a client that does everything at random --- */

enum { NAMES = 40 };

struct model {
    char value[NAMES][12]; /* what the client has; empty: nothing */
    char version[NAMES][40];
};

static void apply(struct model *m, struct sw_slice msg)
{
    SW_ARENA_AUTO a = {0};
    const Sw__DeltaDiscoveryResponse *r =
        SW_PB_UNPACK(&a, Sw__DeltaDiscoveryResponse, sw__delta_discovery_response, msg, NULL, NULL);

    assert_non_null(r);
    for (size_t i = 0; i < r->n_resources; i++) {
        uint64_t n;

        assert_true(
            sw_slice_to_u64(sw_slice_from(SW_PB_SLICE(r->resources[i]->name), 1), NAMES, &n));
        (void)snprintf(m->value[n], sizeof(m->value[n]), "%.*s",
                       (int)r->resources[i]->resource->value.len,
                       (const char *)r->resources[i]->resource->value.data);
        (void)snprintf(m->version[n], sizeof(m->version[n]), "%.*s",
                       (int)r->resources[i]->version.len,
                       (const char *)r->resources[i]->version.data);
    }
    for (size_t i = 0; i < r->n_removed_resources; i++) {
        uint64_t n;

        assert_true(
            sw_slice_to_u64(sw_slice_from(SW_PB_SLICE(r->removed_resources[i]), 1), NAMES, &n));
        m->value[n][0] = 0;
    }
}

static struct model model;
static char last_nonce[32];
static int received;

static void random_message(struct sw_grpc_call *c, struct sw_slice msg, void *arg)
{
    SW_ARENA_AUTO a = {0};
    const Sw__DeltaDiscoveryResponse *r =
        SW_PB_UNPACK(&a, Sw__DeltaDiscoveryResponse, sw__delta_discovery_response, msg, NULL, NULL);

    (void)c;
    (void)arg;
    apply(&model, msg);
    received++;
    (void)snprintf(last_nonce, sizeof(last_nonce), "%.*s", (int)r->nonce.len,
                   (const char *)r->nonce.data);
}

static void random_done(struct sw_grpc_call *c, enum sw_grpc_status status, struct sw_slice text,
                        void *arg)
{
    (void)c;
    (void)text;
    (void)arg;
    fail_msg("the stream ended: %d", (int)status);
}

static const struct sw_grpc_ops random_ops = {.on_message = random_message, .on_done = random_done};

static void reconnect(struct world *w)
{
    char held[NAMES * 60] = "";
    size_t n = 0;

    if (w->call)
        sw_grpc_cancel(w->call);
    w->delta = true;
    w->node_sent = false;
    w->call = sw_grpc_call(w->client, SW_SLICE_LIT(ADS "DeltaAggregatedResources"),
                           SW_SLICE_LIT("good"), 0, &random_ops, w);
    for (int i = 0; i < NAMES && i < 15; i++) {
        if (model.value[i][0])
            n += (size_t)snprintf(held + n, sizeof(held) - n, "%sr%d %s", n ? " " : "", i,
                                  model.version[i]);
    }
    /* The rig takes few words: the rest it does not hold any more. */
    for (int i = 15; i < NAMES; i++)
        model.value[i][0] = 0;
    last_nonce[0] = 0;
    ask(w, "ADR", NULL, NULL, held, NULL, NULL);
}

static void a_random_client_ends_with_what_there_is(void **state)
{
    struct world *w = *state;
    const struct xds_table *t = sw_xds_cache_table(w->cache, SW_SLICE_LIT(SW_TYPE_ADDRESS));
    uint32_t seed = 1;

    memset(&model, 0, sizeof(model));
    w->opts.piece = 64;
    start(w);
    reconnect(w);
    for (int round = 0; round < 3000; round++) {
        struct sw_xds_txn *x = sw_xds_txn_new();
        uint32_t n = 1 + (seed >> 10) % 4;

        for (uint32_t i = 0; i < n; i++) {
            char name[12];
            char value[12];

            seed = seed * 1664525 + 1013904223;
            (void)snprintf(name, sizeof(name), "r%u", (seed >> 8) % NAMES);
            (void)snprintf(value, sizeof(value), "%u", (seed >> 16) % 5);
            if (seed >> 30 == 0)
                assert_int_equal(sw_xds_txn_del(x, SW_TYPE_ADDRESS, sw_slice_str(name), NULL),
                                 SW_OK);
            else
                set_full(x, name, value, NULL, NULL, NULL);
        }
        (void)sw_xds_cache_commit(w->cache, x);
        skew += 20 * SW_NS_PER_MS;
        turns(w, (int)(seed >> 20 & 3));
        if (last_nonce[0] && (seed >> 21 & 3)) {
            ask(w, "ADR", NULL, NULL, NULL, last_nonce, NULL);
            last_nonce[0] = 0;
        }
        if ((seed >> 5) % 100 == 0)
            reconnect(w);
    }
    for (int i = 0; i < 3000 && !sw_xds_server_synced(w->server); i++) {
        sw_loop_turn(w->loop, 3);
        skew += 50 * SW_NS_PER_MS;
        if (last_nonce[0])
            ask(w, "ADR", NULL, NULL, NULL, last_nonce, NULL);
        last_nonce[0] = 0;
    }
    assert_true(sw_xds_server_synced(w->server));
    assert_true(received > 100);
    for (int i = 0; i < NAMES; i++) {
        char name[12];
        const struct xds_rec *r;

        (void)snprintf(name, sizeof(name), "r%d", i);
        r = xds_table_get(t, sw_slice_str(name));
        if (r)
            assert_true(sw_slice_eq_str(r->res->value, model.value[i]));
        else
            assert_string_equal(model.value[i], "");
    }
}

#define MESH(f) cmocka_unit_test_setup_teardown(f, set_up_mesh, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        MESH(a_wildcard_gets_all_and_then_what_changes),
        MESH(a_resource_is_encoded_once_for_all_streams),
        MESH(the_clients_own_node_comes_first),
        MESH(an_empty_type_is_answered),
        MESH(changes_while_an_answer_is_due_go_out_together),
        MESH(who_comes_back_gets_the_difference),
        MESH(policies_come_before_and_go_after),
        MESH(a_refusal_is_not_repeated),
        MESH(a_stale_nonce_is_ignored),
        MESH(on_demand_begins_with_nothing),
        MESH(on_demand_finds_by_alias),
        MESH(on_demand_services_bring_their_endpoints),
        MESH(on_demand_includes_the_clients_own_node),
        MESH(on_demand_after_reconnecting),
        MESH(on_demand_services_that_come_later_bring_their_endpoints),
        MESH(endpoints_that_came_meanwhile_are_sent_on_demand),
        MESH(state_of_the_world_is_sent_whole),
        MESH(types_that_are_not_offered_are_refused),
        MESH(nobody_is_served_before_it_is_complete),
        MESH(a_type_that_is_awaited_is_served_after_its_first_commit),
        MESH(many_resources_come_in_pieces),
        MESH(large_requests_are_for_those_who_were_let_in),
        MESH(a_random_client_ends_with_what_there_is),
    };

    return cmocka_run_group_tests_name("xds mesh", tests, NULL, NULL);
}
