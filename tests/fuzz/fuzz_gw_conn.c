/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole connection of a client, HTTP/1.1 or HTTP/2, through a real worker to an origin in the
 * same process (an internal listener that answers by itself). The first byte chooses both protocols
 * and how the rest is cut into pieces. Properties: whatever comes, what the client gets is
 * well-formed; when the client has said all, the connection ends within its time limits and nothing
 * of it is left behind.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "gateway/config/config.h"
#include "gateway/upstream/cluster.h"
#include "gateway/worker/listen.h"
#include "gateway/worker/process.h"
#include "gateway/worker/worker.h"
#include "gateway/xds/store.h"
#include "http/h1.h"
#include "proto/json.h"
#include "proto/types.h"
#include "telemetry/metrics.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { OUT_MAX = 4 << 20, FRAME_HEAD = 9, FRAME_MAX = 16384, FRAME_SETTINGS = 4 };

#define TYPE "type.googleapis.com/envoy.extensions.filters."
#define HCM(routes, more)                                                                          \
    "'filter_chains': [{'filters': [{'name': 'hcm', 'typed_config': {'@type': '" TYPE              \
    "network.http_connection_manager.v3.HttpConnectionManager', 'stat_prefix': 's', "              \
    "'http2_protocol_options': {'allow_connect': true}, 'http_protocol_options': "                 \
    "{'accept_http_10': true, 'enable_trailers': true}, " more                                     \
    "'route_config': {'name': 'r', 'virtual_hosts': [{'name': 'v', 'domains': ['*'], "             \
    "'routes': [" routes "]}]}, 'http_filters': [{'name': 'router', 'typed_config': "              \
    "{'@type': '" TYPE "http.router.v3.Router'}}]}}]}]"
#define FRONT(cluster)                                                                             \
    "'internal_listener': {}, " HCM(                                                               \
        "{'match': {'prefix': '/here'}, 'direct_response': {'status': 200, 'body': "               \
        "{'inline_string': 'here'}}}, {'match': {'prefix': '/'}, 'route': {'cluster': '" cluster   \
        "', 'retry_policy': {'retry_on': '5xx'}}}",                                                \
        "'use_remote_address': true, ")
#define BACK                                                                                       \
    "'internal_listener': {}, " HCM(                                                               \
        "{'match': {'prefix': '/no'}, 'direct_response': {'status': 503}}, {'match': {'prefix': "  \
        "'/go'}, 'redirect': {'path_redirect': '/gone'}}, {'match': {'prefix': '/'}, "             \
        "'direct_response': {'status': 200, 'body': {'inline_string': 'from behind'}}}",           \
        "")
#define CLUSTER(name, more)                                                                        \
    "{'name': '" name "', 'type': 'STATIC', " more "'load_assignment': {'cluster_name': '" name    \
    "', 'endpoints': [{'lb_endpoints': [{'endpoint': {'address': {'envoy_internal_address': "      \
    "{'server_listener_name': 'back'}}}}]}]}}"

static const struct {
    enum sw_gw_type type;
    const char *name;
    const char *json;
} resources[] = {
    {SW_GW_TYPE_CLUSTER, "c1", CLUSTER("c1", "")},
    {SW_GW_TYPE_CLUSTER, "c2",
     CLUSTER("c2", "'typed_extension_protocol_options': "
                   "{'envoy.extensions.upstreams.http.v3.HttpProtocolOptions': {'@type': "
                   "'type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions', "
                   "'explicit_http_config': {'http2_protocol_options': {}}}}, ")},
    {SW_GW_TYPE_LISTENER, "back", "{'name': 'back', " BACK "}"},
    {SW_GW_TYPE_LISTENER, "f1", "{'name': 'f1', " FRONT("c1") "}"},
    {SW_GW_TYPE_LISTENER, "f2", "{'name': 'f2', " FRONT("c2") "}"},
};

static struct sw_gateway gateway;
static struct sw_gw_worker worker;
static struct sw_gw_store *store; /* lives as long as the process */
static uint64_t now_ns = 1000 * SW_NS_PER_S;
static uint8_t out[OUT_MAX];

static void check(bool ok)
{
    if (!ok)
        abort();
}

static uint64_t clock_ns(void)
{
    return now_ns;
}

static void turn(int times)
{
    for (int i = 0; i < times; i++) {
        now_ns += SW_NS_PER_MS;
        sw_loop_turn(worker.loop, 0);
    }
}

/* ---- the world, made once ---- */

static void put(struct sw_gw_store *s, enum sw_gw_type t, const char *name, const char *json)
{
    SW_ARENA_AUTO a = {0};
    char *text = sw_arena_dup(&a, sw_slice_str(json));
    struct sw_gw_resource r = {.name = sw_slice_str(name)};
    struct sw_gw_delta d = {.type = t, .changed = &r, .n_changed = 1};
    struct sw_json *v;

    for (char *p = text; *p; p++) {
        if (*p == '\'')
            *p = '"';
    }
    check(sw_json_parse(&a, sw_slice_str(text), NULL, &v, NULL) == SW_OK);
    check(sw_pb_from_json(&a, sw_pb_type_find(sw_slice_str(sw_gw_type_names[t].url)), v, &r.bytes,
                          NULL) == SW_OK);
    check(sw_gw_store_update(s, &d, NULL) == SW_OK);
}

static void on_config(struct sw_gw_config *c, void *arg)
{
    (void)arg;
    sw_gw_worker_send_config(&worker, c);
}

static void make_world(void)
{
    struct sw_gw_store_opts o = {.n_workers = 1, .no_io = true, .on_config = on_config};
    struct sw_err err = {0};

    (void)!sw_log_filter(SW_SLICE_LIT("off"), true, NULL);
    gateway.n_workers = 2; /* nobody asks when all of them serve */
    gateway.process.metrics = sw_metrics_new(&(struct sw_metrics_opts){.component = "gateway"});
    gateway.process.loop = sw_loop_new(&err);
    check(gateway.process.loop);
    sw_crew_init(&gateway.process.crew, "gateway", gateway.process.loop);
    check(sw_gw_worker_init(&worker, &gateway, &err) == SW_OK);
    sw_loop_set_clock(worker.loop, clock_ns);
    o.loop = gateway.process.loop;
    store = sw_gw_store_new(&o);
    for (size_t i = 0; i < SW_ARRAY_LEN(resources); i++)
        put(store, resources[i].type, resources[i].name, resources[i].json);
    sw_gw_store_flush(store);
    turn(4);
    check(worker.view && sw_gw_config_listener(worker.view->config, SW_SLICE_LIT("f2")));
}

/* ---- what the client sees ---- */

static size_t receive(int fd, size_t have, bool *ret_end)
{
    while (have < OUT_MAX) {
        ssize_t n = read(fd, out + have, OUT_MAX - have);

        if (n == 0 || (n < 0 && errno != EAGAIN))
            *ret_end = true;
        if (n <= 0)
            return have;
        have += (size_t)n;
    }
    check(false); /* more than any input of this size could ask for */
    return have;
}

static void check_h1(struct sw_slice in)
{
    struct sw_h1 *p = sw_h1_new(SW_H1_RESPONSE, NULL);
    size_t at = 0;
    int rc = SW_OK;

    while (rc == SW_OK && at < in.n) {
        enum sw_h1_event event;
        size_t used = 0;

        rc = sw_h1_next(p, sw_slice_from(in, at), &used, &event, NULL);
        at += used;
        if (rc == SW_OK && event == SW_H1_END)
            sw_h1_reset(p);
    }
    check(rc == SW_OK || rc == SW_EAGAIN);
    sw_h1_free(p);
}

static void check_h2(const uint8_t *p, size_t n)
{
    bool first = true;

    while (n >= FRAME_HEAD) {
        size_t len = (size_t)p[0] << 16 | (size_t)p[1] << 8 | p[2];
        uint32_t id = (uint32_t)p[5] << 24 | (uint32_t)p[6] << 16 | (uint32_t)p[7] << 8 | p[8];

        check(len <= FRAME_MAX && p[3] <= 9 && p[3] != 2 && p[3] != 5);
        check(!first || p[3] == FRAME_SETTINGS);
        check(p[3] > 1 || (id & 1)); /* DATA and HEADERS belong to a stream of the client's */
        first = false;
        if (n < FRAME_HEAD + len)
            return;
        p += FRAME_HEAD + len;
        n -= FRAME_HEAD + len;
    }
}

/* ---- one connection ---- */

static size_t say(int fd, const uint8_t *p, size_t n, size_t piece, size_t have, bool *ret_end)
{
    while (n && !*ret_end) {
        size_t k = sw_min(n, piece);
        ssize_t done = send(fd, p, k, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (done < 0 && errno != EAGAIN)
            break;
        turn(2);
        have = receive(fd, have, ret_end);
        p += done > 0 ? done : 0;
        n -= done > 0 ? (size_t)done : 0;
    }
    return have;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char hello[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
    struct sw_gw_accepted a = {.peer = {.ip = {.family = 4, .b = {192, 0, 2, 1}}, .port = 1}};
    const struct sw_gw_listener *l;
    struct sw_gw_listener *held;
    bool end = false;
    size_t have = 0;
    int fd[2];

    if (n < 1 || n > 65536)
        return 0;
    if (!worker.loop)
        make_world();
    l = sw_gw_config_listener(worker.view->config,
                              data[0] & 2 ? SW_SLICE_LIT("f2") : SW_SLICE_LIT("f1"));
    memcpy(&held, &l, sizeof(held));
    check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd) == 0);
    a.listener = held;
    a.fd = fd[0];
    sw_gw_accept_fd(&worker, &a);
    if (data[0] & 1)
        have = say(fd[1], (const uint8_t *)hello, sizeof(hello), sizeof(hello), have, &end);
    have = say(fd[1], data + 1, n - 1, data[0] & 4 ? 7 : data[0] & 8 ? 300 : 65536, have, &end);
    turn(8);
    (void)shutdown(fd[1], SHUT_WR);
    for (int i = 0; i < 64 && !end; i++) {
        turn(2);
        have = receive(fd[1], have, &end);
        now_ns += 120 * SW_NS_PER_S;
    }
    check(end);
    (void)close(fd[1]);
    turn(8);
    check(worker.n_exchanges == 0);
    if (data[0] & 1)
        check_h2(out, have);
    else if (!memmem(data, n, "HEAD", 4))
        check_h1(sw_slice(out, have));
    /* Connections to the origin end in their own time, before the next input. */
    for (int i = 0; i < 8; i++) {
        now_ns += 1800 * SW_NS_PER_S;
        turn(4);
    }
    check(worker.n_downs == 0);
    return 0;
}
