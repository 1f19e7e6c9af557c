/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meshbuild: what the control plane's index of a mesh costs. Feeds N pods of a cluster of ordinary
 * shape (30 pods a node, 10 a Deployment, a Service for each Deployment, 50 Deployments a
 * namespace), flushes them into an xDS cache or into nothing, changes single objects, and prints
 * CPU seconds, microseconds and bytes. Reading the JSON text is timed apart.
 *
 *     meshbuild [--cache] PODS...
 */
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "base/time.h"
#include "control/mesh/index.h"
#include "proto/types.h"
#include "xds/cache.h"

enum { PER_NODE = 30, PER_APP = 10, APPS_PER_NS = 50, CHANGES = 2000 };

struct bench {
    struct sw_mesh_index *ix;
    struct sw_xds_cache *cache; /* NULL: resources are only counted */
    struct sw_xds_txn *txn;
    uint64_t resources;
    uint64_t bytes;
    uint64_t parse_ns;
    uint64_t apply_ns;
};

/* Of this process: other load on the machine does not count. */
static uint64_t cpu_ns(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * SW_NS_PER_S + (uint64_t)ts.tv_nsec;
}

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

static size_t rss_kib(void)
{
    char text[256] = "";
    FILE *f = fopen("/proc/self/statm", "re");
    unsigned long pages = 0;

    if (f && fgets(text, sizeof(text), f)) {
        char *space = strchr(text, ' ');

        pages = space ? strtoul(space, NULL, 10) : 0;
    }
    if (f)
        (void)fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE) / 1024;
}

static void on_change(void *arg, const struct sw_mesh_change *c)
{
    struct bench *b = arg;
    const struct sw_xds_extra x = {.aliases = c->aliases,
                                   .n_aliases = c->n_aliases,
                                   .node = c->node,
                                   .services = c->services,
                                   .n_services = c->n_services};
    struct sw_err err;

    b->resources++;
    b->bytes += c->value.n;
    if (!b->cache || !c->value.p)
        return;
    if (!b->txn)
        b->txn = sw_xds_txn_new();
    if (sw_xds_txn_set_extra(b->txn, SW_TYPE_ADDRESS, c->name, c->value, &x, &err) != SW_OK)
        (void)fprintf(stderr, "%s\n", err.msg);
}

static void flush(struct bench *b)
{
    while (!sw_mesh_index_flush(b->ix, 4096, on_change, b)) {
    }
    if (b->txn)
        (void)sw_xds_cache_commit(b->cache, b->txn);
    b->txn = NULL;
}

static void apply(struct bench *b, enum sw_mesh_kind kind, const char *text)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *v = NULL;
    struct sw_err err;
    uint64_t t0 = cpu_ns();
    uint64_t t1;

    if (sw_json_parse(&a, sw_slice_str(text), NULL, &v, &err) != SW_OK) {
        (void)fprintf(stderr, "%s\n", err.msg);
        exit(1);
    }
    t1 = cpu_ns();
    sw_mesh_index_set(b->ix, kind, v, NULL);
    b->parse_ns += t1 - t0;
    b->apply_ns += cpu_ns() - t1;
}

static void set_pod(struct bench *b, size_t i, unsigned round)
{
    size_t app = i / PER_APP;
    char text[4096];

    (void)snprintf(
        text, sizeof(text),
        "{\"metadata\":{\"namespace\":\"team-%zu\",\"name\":\"app-%zu-7d4b9c5f6d-%05zu\","
        "\"generateName\":\"app-%zu-7d4b9c5f6d-\",\"uid\":\"5e7c8f2a-1b3d-4c6e-9f80-%012zu\","
        "\"labels\":{\"app\":\"app-%zu\",\"version\":\"v1\",\"pod-template-hash\":\"7d4b9c5f6d\","
        "\"tier\":\"backend\"},\"annotations\":{\"ambient.istio.io/redirection\":\"enabled\"},"
        "\"ownerReferences\":[{\"apiVersion\":\"apps/v1\",\"kind\":\"ReplicaSet\",\"name\":"
        "\"app-%zu-7d4b9c5f6d\",\"uid\":\"x\",\"controller\":true}]},\"spec\":{\"nodeName\":"
        "\"node-%zu\",\"serviceAccountName\":\"app-%zu\",\"containers\":[{\"name\":\"main\","
        "\"image\":"
        "\"registry/"
        "app:1\",\"ports\":[{\"name\":\"http\",\"containerPort\":8080,\"protocol\":\"TCP\"},"
        "{\"name\":\"metrics\",\"containerPort\":9090}]}]},\"status\":{\"phase\":\"Running\","
        "\"podIP\":\"10.%zu.%zu.%zu\",\"podIPs\":[{\"ip\":\"10.%zu.%zu.%zu\"}],\"conditions\":[{"
        "\"type\":\"Initialized\",\"status\":\"True\"},{\"type\":\"Ready\",\"status\":\"%s\"}]}}",
        app / APPS_PER_NS, app, i % 100000, app, i, app, app, i / PER_NODE, app, i >> 16 & 255,
        i >> 8 & 255, i & 255, i >> 16 & 255, i >> 8 & 255, i & 255, round % 2 ? "False" : "True");
    apply(b, SW_MESH_POD, text);
}

static void set_service(struct bench *b, size_t app, unsigned port)
{
    char text[1024];

    (void)snprintf(text, sizeof(text),
                   "{\"metadata\":{\"namespace\":\"team-%zu\",\"name\":\"app-%zu\"},\"spec\":{"
                   "\"clusterIP\":\"10.96.%zu.%zu\",\"selector\":{\"app\":\"app-%zu\"},\"ports\":[{"
                   "\"name\":\"http\",\"port\":%u,\"targetPort\":\"http\"}]}}",
                   app / APPS_PER_NS, app, app >> 8 & 255, app & 255, app, port);
    apply(b, SW_MESH_SERVICE, text);
}

static void set_node(struct bench *b, size_t i)
{
    char text[512];

    (void)snprintf(
        text, sizeof(text),
        "{\"metadata\":{\"name\":\"node-%zu\",\"labels\":{"
        "\"topology.kubernetes.io/region\":\"r1\",\"topology.kubernetes.io/zone\":\"z%zu\"}"
        "}}",
        i, i % 3);
    apply(b, SW_MESH_NODE, text);
}

static void run(size_t pods, bool cached)
{
    struct bench b = {.ix = sw_mesh_index_new(&(struct sw_mesh_conf){.policies = NULL}),
                      .cache = cached ? sw_xds_cache_new() : NULL};
    size_t before = rss_kib();
    uint64_t t0;
    uint64_t flush_ns;
    uint64_t change_ns;

    for (size_t i = 0; i < pods; i++)
        set_pod(&b, i, 0);
    for (size_t i = 0; i * PER_APP < pods; i++)
        set_service(&b, i, 80);
    for (size_t i = 0; i * PER_NODE < pods; i++)
        set_node(&b, i);
    t0 = cpu_ns();
    flush(&b);
    flush_ns = cpu_ns() - t0;
    (void)malloc_trim(0);
    printf("%zu pods, %s: JSON %.2f s, apply %.2f s, flush %.2f s, %.1f MiB (%zu bytes a pod), "
           "resources %llu of %.1f bytes\n",
           pods, cached ? "index and cache" : "index", seconds(b.parse_ns), seconds(b.apply_ns),
           seconds(flush_ns), (double)(rss_kib() - before) / 1024,
           (rss_kib() - before) * 1024 / pods, (unsigned long long)b.resources,
           (double)b.bytes / (double)b.resources);
    b.parse_ns = b.apply_ns = 0;
    t0 = cpu_ns();
    for (unsigned i = 0; i < CHANGES; i++) {
        set_pod(&b, (size_t)i * 7919 % pods, 1);
        flush(&b);
    }
    change_ns = cpu_ns() - t0 - b.parse_ns;
    printf("  one pod's readiness: %.2f us", (double)change_ns / 1e3 / CHANGES);
    b.parse_ns = 0;
    t0 = cpu_ns();
    for (unsigned i = 0; i < CHANGES; i++) {
        set_service(&b, (size_t)i * 7919 % (pods / PER_APP), 81 + i % 2);
        flush(&b);
    }
    change_ns = cpu_ns() - t0 - b.parse_ns;
    printf(", one Service of %d pods: %.2f us\n", PER_APP, (double)change_ns / 1e3 / CHANGES);
    sw_mesh_index_free(b.ix);
    sw_xds_cache_free(b.cache);
    (void)malloc_trim(0);
}

int main(int argc, char **argv)
{
    bool cached = argc > 1 && strcmp(argv[1], "--cache") == 0;

    for (int i = 1 + cached; i < argc; i++)
        run(strtoul(argv[i], NULL, 10), cached);
    return 0;
}
