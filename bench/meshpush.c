/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The xDS server under a large mesh: meshpush [--tls] RESOURCES STREAMS
 * The server with so many Addresses is one process, node proxies are another: one that takes
 * everything, one that comes back with all it holds, then STREAMS of them that see single changes.
 * Prints one JSON line: times, processor time and memory of the server.
 *
 * meshpush --serve ROOT WORKLOADS: the resources of meshaddress.c over TLS for a real node, until
 * standard input ends. Writes the root of its certificate to the file ROOT, prints one JSON line
 * with the port, and another when a node has acknowledged everything.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/time.h"
#include "http/grpc/grpc.h"
#include "io/loop.h"
#include "io/sock.h"
#include "proto/pb.h"
#include "proto/types.h"
#include "tls/cert/ca.h"
#include "xds/server.h"

#include "meshaddress.h"

enum {
    CHANGES = 40,
    WARM = 5,
    VALUE = 260,
    NODES = 1000,
    WILDCARD_MAX = 20000, /* with more, all but two streams are on demand */
};

static SW_NORETURN void die(const char *what)
{
    (void)fprintf(stderr, "meshpush: %s\n", what);
    exit(1);
}

static double cpu_ms(void)
{
    struct rusage u;

    (void)getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e3 +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e3;
}

static double rss_mb(void)
{
    char text[128] = "";
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    unsigned long pages = 0;

    if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
        die("statm");
    (void)close(fd);
    (void)sscanf(text, "%*u %lu", &pages);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1e6;
}

/* --- node proxies, in the other process --- */

struct node {
    struct sw_grpc_client *client;
    struct sw_grpc_call *call;
};

static struct {
    struct sw_loop *loop;
    struct sw_tls_cred *cred;
    uint16_t port;
    struct sw_buf held; /* initial_resource_versions, encoded */
    bool keep;          /* what comes into it */
    size_t resources;
    size_t responses;
    int out;
} self;

static void take(struct sw_slice resource)
{
    struct sw_slice name = {0};
    struct sw_slice version = {0};
    struct sw_pb_field f;
    size_t n;

    self.resources++;
    if (!self.keep)
        return;
    while (resource.n && sw_pb_next(&resource, &f) == SW_OK) {
        if (f.number == 3)
            name = f.bytes;
        if (f.number == 1)
            version = f.bytes;
    }
    n = sw_pb_bytes_size(1, name.n) + sw_pb_bytes_size(2, version.n);
    if (sw_pb_put_head(&self.held, 5, n) != SW_OK ||
        sw_pb_put_bytes(&self.held, 1, name) != SW_OK ||
        sw_pb_put_bytes(&self.held, 2, version) != SW_OK)
        die("too much held");
}

static void on_message(struct sw_grpc_call *c, struct sw_slice msg, void *arg)
{
    SW_BUF_AUTO ack = {.max = 4096};
    struct sw_pb_field f;

    (void)arg;
    self.responses++;
    if (sw_pb_put_bytes(&ack, 2, SW_SLICE_LIT(SW_TYPE_ADDRESS)) != SW_OK)
        die("ack");
    while (msg.n && sw_pb_next(&msg, &f) == SW_OK) {
        if (f.number == 2)
            take(f.bytes);
        if (f.number == 5 && sw_pb_put_bytes(&ack, 6, f.bytes) != SW_OK)
            die("ack");
    }
    if (sw_grpc_send(c, sw_buf_slice(&ack)) != SW_OK)
        die("cannot answer");
}

static void on_done(struct sw_grpc_call *c, enum sw_grpc_status status, struct sw_slice text,
                    void *arg)
{
    (void)c;
    (void)arg;
    (void)fprintf(stderr, "meshpush: stream ended: %d %.*s\n", (int)status, SW_SLICE_ARG(text));
    exit(1);
}

static const struct sw_grpc_ops ops = {.on_message = on_message, .on_done = on_done};

enum how { FRESH, HOLDS_ALL, ON_DEMAND };

static void name_of(size_t i, char out[96])
{
    (void)snprintf(out, 96, "Kubernetes//Pod/namespace-%zu/workload-%zu", i / 1000, i);
}

/* Subscribes to all that will change. */
static int put_names(struct sw_buf *req)
{
    int rc = sw_pb_put_bytes(req, 3, SW_SLICE_LIT("*"));

    for (size_t i = 0; i < CHANGES + WARM && rc == SW_OK; i++) {
        char name[96];

        name_of(i, name);
        rc = sw_pb_put_bytes(req, 3, sw_slice_str(name));
    }
    return rc == SW_OK ? sw_pb_put_bytes(req, 4, SW_SLICE_LIT("*")) : rc;
}

static void join(struct node *n, enum how how)
{
    SW_BUF_AUTO req = {.max = 512 << 20};

    n->client =
        sw_grpc_client_new(self.loop,
                           &(struct sw_grpc_client_opts){.host = SW_SLICE_LIT("127.0.0.1"),
                                                         .port = self.port,
                                                         .cred = self.cred,
                                                         .tls_name = SW_SLICE_LIT("localhost"),
                                                         .max_queue = 512 << 20,
                                                         .max_message = 200 << 20},
                           NULL);
    n->call = sw_grpc_call(
        n->client,
        SW_SLICE_LIT(
            "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"),
        SW_SLICE_LIT("t"), 0, &ops, n);
    if (sw_pb_put_bytes(&req, 2, SW_SLICE_LIT(SW_TYPE_ADDRESS)) != SW_OK ||
        (how == HOLDS_ALL && sw_buf_append_slice(&req, sw_buf_slice(&self.held)) != SW_OK) ||
        (how == ON_DEMAND && put_names(&req) != SW_OK) ||
        sw_grpc_send(n->call, sw_buf_slice(&req)) != SW_OK)
        die("cannot ask");
}

static void tell(void)
{
    if (write(self.out, "x", 1) != 1)
        die("pipe");
}

static void await_command(int in)
{
    char c;

    while (read(in, &c, 1) != 1)
        sw_loop_turn(self.loop, 0);
}

static SW_NORETURN void be_nodes(int in, size_t resources, size_t streams)
{
    struct node first;
    struct node *all = SW_NEW_ARRAY(struct node, streams);

    self.loop = sw_loop_new(NULL);
    sw_buf_init(&self.held, 512 << 20);
    self.keep = true;
    await_command(in);
    join(&first, FRESH);
    while (self.resources < resources)
        sw_loop_turn(self.loop, 10);
    tell();
    self.keep = false;
    await_command(in);
    self.responses = 0;
    join(&all[0],
         true); /* one with everything it holds; for all of them that is the machine's memory */
    while (self.responses < 1)
        sw_loop_turn(self.loop, 10);
    tell();
    await_command(in);
    for (size_t i = 1; i < streams; i++)
        join(&all[i], resources > WILDCARD_MAX ? ON_DEMAND : HOLDS_ALL);
    while (self.responses < streams)
        sw_loop_turn(self.loop, 10);
    tell();
    for (;;) {
        /* One change: every stream, the first one included, has a response. */
        self.responses = 0;
        while (self.responses < streams + 1)
            sw_loop_turn(self.loop, 10);
        tell();
    }
}

/* --- the server --- */

static int allow(void *arg, const struct sw_xds_client_id *id, struct sw_err *err)
{
    (void)arg;
    (void)id;
    (void)err;
    return SW_OK;
}

static void set(struct sw_xds_txn *t, size_t i, unsigned round)
{
    char name[96];
    char address[64];
    char node[32];
    char service[96];
    char value[VALUE];
    struct sw_slice aliases[1];
    struct sw_slice services[1];

    name_of(i, name);
    (void)snprintf(address, sizeof(address), "network/10.%zu.%zu.%zu", i >> 16 & 255, i >> 8 & 255,
                   i & 255);
    (void)snprintf(node, sizeof(node), "node-%zu", i % NODES);
    (void)snprintf(service, sizeof(service), "namespace-%zu/service-%zu.namespace.svc", i / 1000,
                   i / 10);
    memset(value, 'v', sizeof(value));
    (void)snprintf(value, sizeof(value), "%zu %u %s", i, round, name);
    aliases[0] = sw_slice_str(address);
    services[0] = sw_slice_str(service);
    if (sw_xds_txn_set_extra(t, SW_TYPE_ADDRESS, sw_slice_str(name), sw_slice(value, sizeof(value)),
                             &(struct sw_xds_extra){.aliases = aliases,
                                                    .n_aliases = 1,
                                                    .node = sw_slice_str(node),
                                                    .services = services,
                                                    .n_services = 1},
                             NULL) != SW_OK)
        die("cannot set");
}

static void change(struct sw_xds_cache *cache, size_t from, size_t to, unsigned round)
{
    struct sw_xds_txn *t = sw_xds_txn_new();

    for (size_t i = from; i < to; i++)
        set(t, i, round);
    (void)sw_xds_cache_commit(cache, t);
}

/* Serves until the other side says that it has it. */
static double serve_until(struct sw_loop *l, int in, double *peak)
{
    uint64_t from = sw_now_ns();
    char c;

    while (read(in, &c, 1) != 1) {
        sw_loop_turn(l, 1);
        if (peak)
            *peak = rss_mb() > *peak ? rss_mb() : *peak;
    }
    return (double)(sw_now_ns() - from) / 1e6;
}

static void command(int out)
{
    if (write(out, "x", 1) != 1)
        die("pipe");
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static struct sw_xds_server *start(struct sw_loop *l, struct sw_xds_cache *cache,
                                   struct sw_tls_cred *cred, uint16_t *ret_port)
{
    struct sw_addr any = {.ip = {.family = 4, .b = {127, 0, 0, 1}}};
    struct sw_addr at;
    struct sw_xds_server *s =
        sw_xds_server_new(l,
                          &(struct sw_xds_server_opts){.cache = cache,
                                                       .cred = cred,
                                                       .allow = allow,
                                                       .max_conns = 8192,
                                                       .max_streams = 8192,
                                                       .max_initial = 200 << 20},
                          NULL);

    if (!s || sw_xds_server_listen(s, &any, &at, NULL) != SW_OK)
        die("cannot listen");
    *ret_port = at.port;
    return s;
}

static pid_t child;

static void be_server(int in, int out, size_t resources, size_t streams, struct sw_tls_cred *cred)
{
    struct sw_loop *l = sw_loop_new(NULL);
    struct sw_xds_cache *cache = sw_xds_cache_new();
    double took[CHANGES];
    double empty = rss_mb();
    uint64_t from = sw_now_ns();
    struct sw_xds_server *s;
    double full;
    double peak;
    double cpu;
    uint16_t port;

    sw_xds_cache_offer(cache, SW_TYPE_ADDRESS);
    s = start(l, cache, cred, &port);
    if (write(out, &port, sizeof(port)) != sizeof(port))
        die("pipe");
    change(cache, 0, resources, 0);
    full = rss_mb();
    (void)printf("{\"resources\": %zu, \"streams\": %zu, \"tls\": %s, \"load_ms\": %.0f, "
                 "\"load_cpu_ms\": %.0f, "
                 "\"cache_mb\": %.0f",
                 resources, streams, cred ? "true" : "false", (double)(sw_now_ns() - from) / 1e6,
                 cpu_ms(), full - empty);
    peak = full;
    cpu = cpu_ms();
    command(out);
    (void)printf(", \"first_push_ms\": %.0f", serve_until(l, in, &peak));
    (void)printf(", \"first_push_cpu_ms\": %.0f, \"first_push_mb\": %.0f", cpu_ms() - cpu,
                 peak - full);
    peak = rss_mb();
    full = peak;
    command(out);
    (void)printf(", \"reconnect_ms\": %.0f", serve_until(l, in, &peak));
    (void)printf(", \"reconnect_mb\": %.0f", peak - full);
    command(out);
    (void)serve_until(l, in, NULL);
    full = rss_mb();
    for (unsigned i = 0; i < CHANGES + WARM; i++) {
        if (i == WARM)
            cpu = cpu_ms();
        change(cache, i % resources, i % resources + 1, i + 1);
        took[i < WARM ? 0 : i - WARM] = serve_until(l, in, NULL);
    }
    qsort(took, CHANGES, sizeof(*took), by_size);
    (void)printf(", \"change_ms\": %.2f, \"change_worst_ms\": %.2f, \"change_cpu_ms\": %.2f, "
                 "\"rss_mb\": %.0f}\n",
                 took[CHANGES / 2], took[CHANGES - 1], (cpu_ms() - cpu) / CHANGES, rss_mb());
    (void)kill(child, SIGKILL); /* it would complain that the server went */
    sw_xds_server_free(s);
    sw_xds_cache_free(cache);
    sw_loop_free(l);
}

static struct sw_tls_cred *make_cred(struct sw_ca *ca, bool server)
{
    const char *names[] = {"localhost", NULL};
    SW_BUF_AUTO chain = {.max = 1 << 16};
    SW_BUF_AUTO key = {.max = 1 << 16};
    struct sw_ca_web web = {.cn = "localhost", .sans = names, .server = server, .ttl_s = 86400};

    if (sw_ca_issue_web(ca, &web, &chain, &key, NULL) != SW_OK)
        die("certificate");
    return sw_tls_cred_new(&(struct sw_tls_cred_pem){.chain = sw_buf_slice(&chain),
                                                     .key = sw_buf_slice(&key),
                                                     .roots = sw_ca_root_pem(ca),
                                                     .any_identity = true},
                           NULL);
}

/* --- for real nodes --- */

static void write_file(const char *path, struct sw_slice text)
{
    FILE *f = fopen(path, "we");

    if (!f || fwrite(text.p, 1, text.n, f) != text.n || fclose(f) != 0)
        die("cannot write the root");
}

static void count_type(const struct sw_xds_status *st, void *arg)
{
    size_t *n = arg;

    *n += st->acked.n != 0;
}

/* A node has both types, whole. */
static bool all_held(const struct sw_xds_server *s)
{
    size_t types = 0;

    sw_xds_server_status(s, count_type, &types);
    return types == 2 && sw_xds_server_synced(s);
}

static void serve_real(const char *root, size_t workloads)
{
    struct sw_ca *ca = sw_ca_new(SW_SLICE_LIT("bench"), 86400, NULL);
    struct sw_tls_cred *cred = make_cred(ca, true);
    struct sw_loop *l = sw_loop_new(NULL);
    struct sw_xds_cache *cache = sw_xds_cache_new();
    struct sw_xds_server *s;
    bool told = false;
    uint16_t port;
    char c;

    sw_xds_cache_offer(cache, SW_TYPE_ADDRESS);
    sw_xds_cache_offer(cache, SW_TYPE_AUTHORIZATION);
    if (mesh_address_fill(cache, workloads) != SW_OK)
        die("cannot set");
    s = start(l, cache, cred, &port);
    write_file(root, sw_ca_root_pem(ca));
    (void)printf("{\"port\": %u}\n", port);
    (void)fflush(stdout);
    (void)fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
    while (read(STDIN_FILENO, &c, 1) != 0) {
        sw_loop_turn(l, 100);
        if (told || !all_held(s))
            continue;
        told = true;
        (void)printf("{\"held\": true}\n");
        (void)fflush(stdout);
    }
    sw_xds_server_free(s);
    sw_xds_cache_free(cache);
    sw_loop_free(l);
    (void)sw_tls_cred_unref(cred);
    sw_ca_free(ca);
}

int main(int argc, char **argv)
{
    bool tls = argc > 1 && strcmp(argv[1], "--tls") == 0;
    struct sw_ca *ca;
    size_t resources;
    size_t streams;
    int down[2];
    int up[2];

    if (argc == 4 && strcmp(argv[1], "--serve") == 0) {
        serve_real(argv[2], strtoul(argv[3], NULL, 10));
        return 0;
    }
    ca = sw_ca_new(SW_SLICE_LIT("bench"), 86400, NULL);
    argc -= tls;
    argv += tls;
    if (argc != 3)
        die("meshpush [--tls] RESOURCES STREAMS, or meshpush --serve ROOT WORKLOADS");
    resources = strtoul(argv[1], NULL, 10);
    streams = strtoul(argv[2], NULL, 10);
    (void)sw_sock_raise_fd_limit();
    if (pipe2(down, O_CLOEXEC) != 0 || pipe2(up, O_CLOEXEC) != 0)
        die("pipe");
    child = fork();
    if (child < 0)
        die("fork");
    if (child == 0) {
        self.cred = tls ? make_cred(ca, false) : NULL;
        self.out = up[1];
        (void)close(down[1]);
        if (read(down[0], &self.port, sizeof(self.port)) != sizeof(self.port))
            die("pipe");
        (void)fcntl(down[0], F_SETFL, O_NONBLOCK);
        be_nodes(down[0], resources, streams);
    }
    (void)close(up[1]);
    (void)fcntl(up[0], F_SETFL, O_NONBLOCK);
    be_server(up[0], down[1], resources, streams, tls ? make_cred(ca, true) : NULL);
    sw_ca_free(ca);
    return 0;
}
