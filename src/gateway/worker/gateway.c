/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/worker/gateway.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "base/trim.h"
#include "gateway/config/config.h"
#include "gateway/conn/abuse.h"
#include "gateway/exchange/errorpage.h"
#include "gateway/observe/accesslog.h"
#include "gateway/observe/stats.h"
#include "gateway/worker/bind.h"
#include "gateway/worker/process.h"
#include "gateway/worker/ready.h"
#include "gateway/worker/worker.h"
#include "gateway/xds/dir.h"
#include "gateway/xds/store.h"
#include "gateway/xds/xds.h"
#include "io/batch.h"
#include "io/filewatch.h"
#include "tls/crypto/aead.h"

enum { CLUSTERS_MAX = 64 << 20 };

#define AT(field) .offset = offsetof(struct sw_gateway_config, field)

static const char *const aeads[] = {"auto", "imb", "gnutls", NULL};
static const char *const formats[] = {"plain", "json", NULL};

static const struct sw_opt table[] = {
    {.type = SW_OPT_GROUP, .help = "Configuration"},
    {"xds-addr", "SPANWIRE_XDS_ADDR", SW_OPT_STR, AT(xds_addr), .arg = "HOST:PORT",
     .help = "xDS server (delta ADS) to take resources from."},
    {"xds-ca", "SPANWIRE_XDS_CA", SW_OPT_STR, AT(xds_ca), .arg = "FILE",
     .help = "Certificates the xDS server's must come from; without it the connection is plain "
             "HTTP/2, which is allowed to loopback addresses only."},
    {"xds-server-name", "SPANWIRE_XDS_SERVER_NAME", SW_OPT_STR, AT(xds_server_name), .arg = "NAME",
     .help = "Name the xDS server's certificate must be for, and that is sent to it; the host of "
             "--xds-addr by default."},
    {"xds-cert", "SPANWIRE_XDS_CERT", SW_OPT_STR, AT(xds_cert), .arg = "FILE",
     .help = "Certificate chain shown to the xDS server, followed when it changes."},
    {"xds-key", "SPANWIRE_XDS_KEY", SW_OPT_STR, AT(xds_key), .arg = "FILE", .help = "Its key."},
    {"xds-token-file", "SPANWIRE_XDS_TOKEN_FILE", SW_OPT_STR, AT(xds_token_file), .arg = "FILE",
     .help = "Bearer token for the xDS server; read again for each stream."},
    {"xds-node-id", "SPANWIRE_XDS_NODE_ID", SW_OPT_STR, AT(xds_node_id), .arg = "ID",
     .help = "Name of this gateway toward the xDS server; the host name by default."},
    {"xds-node-cluster", "SPANWIRE_XDS_NODE_CLUSTER", SW_OPT_STR, AT(xds_node_cluster),
     .def = "spanwire-gateway", .arg = "NAME", .help = "Group of gateways this one belongs to."},
    {"xds-dir", "SPANWIRE_XDS_DIR", SW_OPT_STR, AT(xds_dir), .arg = "DIR",
     .help = "Directory with xDS resources as YAML or JSON files instead; followed while it "
             "changes."},
    SW_OPT_UPSTREAM(offsetof(struct sw_gateway_config, upstream)),
    {.type = SW_OPT_GROUP, .help = "Process"},
    {"workers", "SPANWIRE_WORKERS", SW_OPT_U32, AT(workers), .def = "0", .max = 256, .arg = "N",
     .help = "Worker threads; 0: one per processor."},
    {"drain-time", "SPANWIRE_DRAIN_TIME", SW_OPT_DURATION, AT(drain_ns), .def = "30s",
     .help = "How long connections may take to end after SIGTERM."},
    {"io-uring", "SPANWIRE_IO_URING", SW_OPT_BOOL, AT(io_uring), .def = "true", .arg = "BOOL",
     .help = "Read and write many connections with one system call (io_uring) where the kernel "
             "allows it; without, each has calls of its own."},
    {"aead", "SPANWIRE_AEAD", SW_OPT_ENUM, AT(aead), .def = "auto", .choices = aeads,
     .help = "Library that encrypts records."},
    {"port-group", "SPANWIRE_PORT_GROUP", SW_OPT_STR, AT(port_group), .arg = "NAME",
     .help =
         "Gateways with the same name may listen on the same ports at once, as a successor does "
         "before the old process drains; by default those with the same --xds-addr or "
         "--xds-dir."},
    {.type = SW_OPT_GROUP, .help = "Operation"},
    {"admin-addr", "SPANWIRE_ADMIN_ADDR", SW_OPT_ADDR, AT(admin_addr), .def = "127.0.0.1:15000",
     .help = "Admin pages: /config_dump, /clusters, /listeners, /logging, /quitquitquit."},
    SW_OPT_ADMIN(offsetof(struct sw_gateway_config, access)),
    {"stats-addr", "SPANWIRE_STATS_ADDR", SW_OPT_ADDR, AT(stats_addr), .def = "[::]:15020",
     .help = "Metrics."},
    {"ready-addr", "SPANWIRE_READY_ADDR", SW_OPT_ADDR, AT(ready_addr), .def = "[::]:15021",
     .help = "Readiness."},
    {"log-level", "SPANWIRE_LOG_LEVEL", SW_OPT_STR, AT(log_level), .def = "info", .arg = "FILTER",
     .help = "error, warn, info, debug or trace; per scope as in 'info,gateway=debug'."},
    {"log-format", "SPANWIRE_LOG_FORMAT", SW_OPT_ENUM, AT(log_format), .def = "plain",
     .choices = formats,
     .help = "Form of the log lines, and of access logs that xDS gives no format."},
    {"error-pages", "SPANWIRE_ERROR_PAGES", SW_OPT_STR, AT(error_pages), .arg = "DIR",
     .help = "Directory with error pages of your own: 404.html, 503.json, default.txt and so on; "
             "read again when it changes and on SIGHUP."},
};

const struct sw_opts_cmd sw_gateway_options = {
    .name = "gateway",
    .usage = "[options]",
    .summary = "Serves HTTP/1.1, HTTP/2, TLS, TCP and UDP as xDS resources (Envoy v3) say:\n"
               "listeners, routes, clusters, endpoints and secrets.",
    .epilogue = "SIGTERM drains; a second process started on the same ports takes over first.\n"
                "--sidecar-OPTION runs a sidecar in this process: spanwire-sidecar(8).\n"
                "See spanwire-gateway(8).",
    .opts = table,
    .n = SW_ARRAY_LEN(table),
    .config_file = true,
};

int sw_gateway_config_read(struct sw_gateway_config *c, int argc, char **argv, struct sw_err *err)
{
    *c = (struct sw_gateway_config){0};
    return sw_opts_parse(&sw_gateway_options, c, &c->arena, argc, argv, NULL, err);
}

void sw_gateway_config_done(struct sw_gateway_config *c)
{
    sw_arena_clear(&c->arena);
}

/* ---- the end ---- */

static void drain(struct sw_gateway *g)
{
    sw_ready_add(g->ready, "draining");
    sw_crew_drain(&g->crew, g->config->drain_ns);
}

static int load_pages(struct sw_gateway *g, struct sw_err *err)
{
    struct sw_gw_pages *p = sw_gw_pages_load(g->config->error_pages, err);

    if (!p)
        return err->rc;
    sw_log_info("gateway", "%zu error pages read from '%s'", sw_gw_pages_count(p),
                g->config->error_pages);
    sw_gw_pages_set(p);
    return SW_OK;
}

static void reload_pages(void *arg)
{
    struct sw_gateway *g = arg;
    struct sw_err err = {0};

    if (g->config->error_pages && load_pages(g, &err) != SW_OK)
        sw_log_error("gateway", "cannot read error pages, keeping the previous ones: %s", err.msg);
}

static int start_pages(struct sw_gateway *g, struct sw_err *err)
{
    SW_AUTO_FREE char *all = NULL;
    int rc;

    if (!g->config->error_pages)
        return SW_OK;
    rc = load_pages(g, err);
    if (rc != SW_OK)
        return rc;
    all = sw_asprintf("%s/", g->config->error_pages);
    g->pages_watch = sw_filewatch_new(g->loop, all, reload_pages, g, err);
    return g->pages_watch ? SW_OK : err->rc;
}

static void on_signal(int signo, void *arg)
{
    struct sw_gateway *g = arg;

    if (signo == SIGHUP) {
        sw_gw_accesslog_reopen();
        reload_pages(g);
        if (g->dir)
            (void)!sw_gw_dir_reload(g->dir);
        return;
    }
    if (g->crew.draining && signo == SIGINT)
        sw_loop_stop(g->loop);
    drain(g);
}

static void on_quit(void *arg)
{
    drain(arg);
}

/* ---- configuration ---- */

static void on_config(struct sw_gw_config *c, void *arg)
{
    struct sw_gateway *g = arg;

    if (c->listeners != g->listeners)
        sw_gw_bind_sent(g->bind, c->version);
    g->listeners = c->listeners;
    for (size_t i = 0; i < g->n_workers; i++)
        sw_gw_worker_send_config(&g->workers[i], sw_gw_config_ref(c));
    (void)sw_gw_config_unref(c);
}

static int config_dump(struct sw_buf *out, void *arg)
{
    struct sw_gateway *g = arg;

    return sw_gw_store_dump(g->store, out);
}

static bool extra_page(struct sw_http_req *req, struct sw_http_resp *resp, void *arg)
{
    struct sw_gateway *g = arg;
    bool listeners = sw_slice_eq_str(req->path, "/listeners");
    struct sw_buf text;

    if (!listeners && !sw_slice_eq_str(req->path, "/clusters"))
        return false;
    sw_buf_init(&text, CLUSTERS_MAX);
    if ((listeners ? sw_gw_bind_page(g->bind, &text) : sw_gw_store_clusters(g->store, &text)) ==
        SW_OK)
        sw_http_send(resp, 200, "text/plain", sw_buf_slice(&text));
    else
        sw_http_send_text(resp, 500, "too large\n");
    sw_buf_done(&text);
    return true;
}

static void on_scrape(void *arg)
{
    struct sw_gateway *g = arg;

    if (g->store)
        sw_gw_stats_scrape(g->store);
    sw_metric_set(sw_metric_get1(g->shard, SW_METRIC_GW_UNBOUND, NULL), sw_gw_bind_count(g->bind));
}

/* ---- the beginning ---- */

static int start_admin(struct sw_gateway *g, struct sw_err *err)
{
    struct sw_admin_opts o = {
        .title = "spanwire gateway",
        .admin = {g->config->admin_addr},
        .access = g->config->access,
        .stats = g->config->stats_addr,
        .ready_at = g->config->ready_addr,
        .share = g->port_group,
        .metrics = g->metrics,
        .on_scrape = on_scrape,
        .ready = g->ready,
        .egress = g->egress,
        .log_filter = g->config->log_level,
        .config_dump = config_dump,
        .quit = on_quit,
        .extra = extra_page,
        .arg = g,
    };

    g->admin = sw_admin_new(g->loop, &o, err);
    return g->admin ? SW_OK : err->rc;
}

/*
 * A successor with the same configuration may take over: the same xDS server or directory, unless
 * --port-group is set.
 */
static void set_port_group(struct sw_gateway *g)
{
    const struct sw_gateway_config *c = g->config;
    const char *from = c->xds_addr ? c->xds_addr : c->xds_dir ? c->xds_dir : "";
    char real[PATH_MAX];

    if (!c->xds_addr && c->xds_dir && realpath(c->xds_dir, real))
        from = real;
    if (c->port_group)
        (void)snprintf(g->port_group, sizeof(g->port_group), "gateway/%.48s", c->port_group);
    else
        (void)snprintf(g->port_group, sizeof(g->port_group), "gateway:%016" PRIx64,
                       sw_siphash13(0, 0, from, strlen(from)));
}

static int start_workers(struct sw_gateway *g, struct sw_err *err)
{
    unsigned n = sw_crew_size(g->config->workers);
    int rc = SW_OK;

    sw_crew_init(&g->crew, "gateway", g->loop);
    g->abuse = sw_gw_abuse_new();
    g->workers = SW_NEW_ARRAY(struct sw_gw_worker, n);
    for (unsigned i = 0; i < n && rc == SW_OK; i++) {
        g->n_workers++;
        rc = sw_gw_worker_init(&g->workers[i], g, err);
    }
    g->bind = sw_gw_bind_new(g);
    for (unsigned i = 0; i < n && rc == SW_OK; i++) {
        g->workers[i].n_workers = n;
        rc = sw_crew_thread_start(&g->workers[i].thread, err);
    }
    return rc;
}

static int start_config(struct sw_gateway *g, struct sw_err *err)
{
    struct sw_gw_store_opts o = {
        .loop = g->loop,
        .n_workers = (unsigned)g->n_workers,
        .shard = g->shard,
        .egress = g->egress,
        .on_config = on_config,
        .arg = g,
    };

    if (!g->config->xds_dir == !g->config->xds_addr)
        return sw_err_set(err, SW_EINVAL, "one of --xds-addr and --xds-dir is needed");
    g->store = sw_gw_store_new(&o);
    if (g->config->xds_addr) {
        g->xds = sw_gw_xds_open(g->store, g->loop, g->config, g->shard, err);
        return g->xds ? SW_OK : err->rc;
    }
    g->dir = sw_gw_dir_new(g->store, g->loop, g->config->xds_dir, err);
    return g->dir ? SW_OK : err->rc;
}

/*
 * When a listener of a port shared with a successor closes, connections in its queue move to the
 * successor instead of being reset. Best effort: /proc may be read-only.
 */
static void allow_migration(void)
{
    SW_AUTO_FD fd = open("/proc/sys/net/ipv4/tcp_migrate_req", O_WRONLY | O_CLOEXEC);

    if (fd >= 0)
        (void)!write(fd, "1\n", 2);
}

/* Logs once how sockets are read and written: it decides the throughput of a core. */
static void tell_ring(struct sw_gateway *g)
{
    struct sw_err why = {0};
    bool ring = g->config->io_uring && sw_batch_try_ring(&why) == SW_OK;

    if (ring)
        sw_log_info("gateway", "io_uring batching enabled");
    else
        sw_log_info("gateway", "io_uring batching disabled: %s",
                    g->config->io_uring ? why.msg : "--io-uring is false");
    sw_metric_set(sw_metric_get1(g->shard, SW_METRIC_GW_IO_URING, NULL), ring);
}

static int start(struct sw_gateway *g, struct sw_err *err)
{
    static const int signos[] = {SIGTERM, SIGINT, SIGHUP};
    int rc = sw_aead_init((enum sw_aead_choice)g->config->aead, err);

    if (rc != SW_OK)
        return rc;
    allow_migration();
    g->loop = sw_loop_new(err);
    if (!g->loop)
        return err->rc;
    g->signals = sw_signals_new(g->loop, signos, SW_ARRAY_LEN(signos), on_signal, g, err);
    if (!g->signals)
        return err->rc;
    g->metrics = sw_metrics_new(&(struct sw_metrics_opts){.component = "gateway"});
    g->shard = sw_metrics_shard_new(g->metrics);
    g->ready = sw_ready_new();
    sw_ready_add(g->ready, "config");
    tell_ring(g);
    set_port_group(g);
    sw_gw_accesslog_default_json(g->config->log_format == SW_LOG_JSON);
    rc = start_pages(g, err);
    if (rc == SW_OK) {
        /* Files of a directory are the operator's, resources of a server may be a tenant's. */
        g->egress = sw_upstream_filter(g->loop, &g->config->upstream, !g->config->xds_addr, err);
        rc = g->egress ? SW_OK : err->rc;
    }
    if (rc == SW_OK)
        rc = start_workers(g, err);
    if (rc == SW_OK)
        rc = start_admin(g, err);
    if (rc == SW_OK)
        rc = start_config(g, err);
    return rc;
}

static void stop(struct sw_gateway *g)
{
    sw_gw_dir_free(g->dir);
    sw_gw_xds_free(g->xds);
    sw_admin_free(g->admin);
    sw_gw_store_free(g->store);
    sw_crew_end(&g->crew);
    for (size_t i = 0; i < g->n_workers; i++)
        sw_gw_worker_done(&g->workers[i]);
    sw_free(g->workers);
    sw_gw_abuse_free(g->abuse);
    sw_gw_accesslog_stop();
    sw_filewatch_free(g->pages_watch);
    sw_gw_pages_set(NULL);
    sw_signals_free(g->signals);
    sw_gw_bind_stop(g->bind);
    sw_egress_free(g->egress);
    sw_loop_free(g->loop);
    sw_gw_bind_free(g->bind);
    if (g->shard)
        sw_metrics_shard_free(g->shard);
    sw_metrics_free(g->metrics);
    sw_ready_free(g->ready);
}

int sw_gateway_run(const struct sw_gateway_config *c, struct sw_err *err)
{
    struct sw_gateway g = {.config = c};
    int rc = start(&g, err);

    if (rc == SW_OK)
        sw_loop_run(g.loop);
    stop(&g);
    return rc;
}
