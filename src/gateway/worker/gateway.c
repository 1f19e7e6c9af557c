/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/worker/gateway.h"

#include <limits.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "gateway/config/config.h"
#include "gateway/conn/abuse.h"
#include "gateway/exchange/errorpage.h"
#include "gateway/observe/accesslog.h"
#include "gateway/worker/bind.h"
#include "gateway/worker/process.h"
#include "gateway/worker/worker.h"
#include "gateway/xds/dir.h"
#include "gateway/xds/store.h"
#include "gateway/xds/xds.h"
#include "io/batch.h"
#include "io/filewatch.h"
#include "tls/crypto/aead.h"

enum { CLUSTERS_MAX = 64 << 20 };

#define AT(field) .offset = offsetof(struct sw_gateway_config, field)
#define PROCESS   offsetof(struct sw_gateway_config, process)

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
    SW_OPT_WORKERS(PROCESS),
    {"drain-time", "SPANWIRE_DRAIN_TIME", SW_OPT_DURATION, AT(process.drain_ns), .def = "30s",
     .help = "How long connections may take to end after SIGTERM."},
    {"io-uring", "SPANWIRE_IO_URING", SW_OPT_BOOL, AT(io_uring), .def = "true", .arg = "BOOL",
     .help = "Read and write many connections with one system call (io_uring) where the kernel "
             "allows it; without, each has calls of its own."},
    SW_OPT_AEAD(offsetof(struct sw_gateway_config, aead)),
    {"port-group", "SPANWIRE_PORT_GROUP", SW_OPT_STR, AT(port_group), .arg = "NAME",
     .help =
         "Gateways with the same name may listen on the same ports at once, as a successor does "
         "before the old process drains; by default those with the same --xds-addr or "
         "--xds-dir."},
    {.type = SW_OPT_GROUP, .help = "Operation"},
    {"admin-addr", "SPANWIRE_ADMIN_ADDR", SW_OPT_ADDR, AT(process.admin_addr),
     .def = "127.0.0.1:15000",
     .help = "Admin pages: /config_dump, /clusters, /listeners, /logging, /quitquitquit."},
    SW_OPT_ADMIN(PROCESS + offsetof(struct sw_process_config, access)),
    {"stats-addr", "SPANWIRE_STATS_ADDR", SW_OPT_ADDR, AT(process.stats_addr), .def = "[::]:15020",
     .help = "Metrics."},
    {"ready-addr", "SPANWIRE_READY_ADDR", SW_OPT_ADDR, AT(process.ready_addr), .def = "[::]:15021",
     .help = "Readiness."},
    SW_OPT_LOG(PROCESS, "gateway",
               "Form of the log lines, and of access logs that xDS gives no format."),
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
    return sw_opts_parse(&sw_gateway_options, c, &c->arena, (struct sw_args){argc, argv}, NULL,
                         err);
}

void sw_gateway_config_done(struct sw_gateway_config *c)
{
    sw_arena_clear(&c->arena);
}

/* ---- files ---- */

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
    g->pages_watch = sw_filewatch_new(g->process.loop, all, reload_pages, g, err);
    return g->pages_watch ? SW_OK : err->rc;
}

static void reload(void *arg)
{
    struct sw_gateway *g = arg;

    sw_gw_accesslog_reopen();
    reload_pages(g);
    if (g->dir)
        (void)!sw_gw_dir_reload(g->dir);
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
    sw_metric_set(sw_metric_get1(g->process.shard, SW_METRIC_GW_UNBOUND, NULL),
                  sw_gw_bind_count(g->bind));
}

/* ---- the beginning ---- */

static int start_admin(struct sw_gateway *g, struct sw_err *err)
{
    const struct sw_admin_opts o = {
        .title = "spanwire gateway",
        .share = g->port_group,
        .on_scrape = on_scrape,
        .egress = g->egress,
        .config_dump = config_dump,
        .extra = extra_page,
        .arg = g,
    };

    return sw_process_open_admin(&g->process, &o, err);
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
    sw_port_group_name(g->port_group, "gateway", c->port_group, from);
}

static int start_workers(struct sw_gateway *g, struct sw_err *err)
{
    unsigned n = sw_crew_size(g->config->process.workers);
    int rc = SW_OK;

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
        .loop = g->process.loop,
        .n_workers = (unsigned)g->n_workers,
        .shard = g->process.shard,
        .egress = g->egress,
        .on_config = on_config,
        .arg = g,
    };

    if (!g->config->xds_dir == !g->config->xds_addr)
        return sw_err_set(err, SW_EINVAL, "one of --xds-addr and --xds-dir is needed");
    g->store = sw_gw_store_new(&o);
    if (g->config->xds_addr) {
        g->xds = sw_gw_xds_open(g->store, g->process.loop, g->config, g->process.shard, err);
        return g->xds ? SW_OK : err->rc;
    }
    g->dir = sw_gw_dir_new(g->store, g->process.loop, g->config->xds_dir, err);
    return g->dir ? SW_OK : err->rc;
}

/* Logs once how sockets are read and written: it decides the throughput of a core. */
static void log_ring(struct sw_gateway *g)
{
    struct sw_err why = {0};
    bool ring = g->config->io_uring && sw_batch_try_ring(&why) == SW_OK;

    if (ring)
        sw_log_info("gateway", "io_uring batching enabled");
    else
        sw_log_info("gateway", "io_uring batching disabled: %s",
                    g->config->io_uring ? why.msg : "--io-uring is false");
    sw_metric_set(sw_metric_get1(g->process.shard, SW_METRIC_GW_IO_URING, NULL), ring);
}

static int start(struct sw_gateway *g, struct sw_err *err)
{
    const struct sw_process_opts process = {.name = "gateway",
                                            .config = &g->config->process,
                                            .awaits = "config",
                                            .reload = reload,
                                            .arg = g};
    int rc = sw_aead_init((enum sw_aead_choice)g->config->aead, err);

    if (rc == SW_OK)
        rc = sw_process_open(&g->process, &process, err);
    if (rc != SW_OK)
        return rc;
    sw_port_allow_migration();
    log_ring(g);
    set_port_group(g);
    sw_gw_accesslog_default_json(g->config->process.log_format == SW_LOG_JSON);
    rc = start_pages(g, err);
    if (rc == SW_OK) {
        /* Files of a directory are the operator's, resources of a server may be a tenant's. */
        g->egress =
            sw_upstream_filter(g->process.loop, &g->config->upstream, !g->config->xds_addr, err);
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
    sw_process_close_admin(&g->process);
    sw_gw_store_free(g->store);
    sw_crew_end(&g->process.crew);
    for (size_t i = 0; i < g->n_workers; i++)
        sw_gw_worker_done(&g->workers[i]);
    sw_free(g->workers);
    sw_gw_abuse_free(g->abuse);
    sw_gw_accesslog_stop();
    sw_filewatch_free(g->pages_watch);
    sw_gw_pages_set(NULL);
    sw_gw_bind_stop(g->bind);
    sw_egress_free(g->egress);
    sw_process_close(&g->process);
    sw_gw_bind_free(g->bind);
}

int sw_gateway_run(const struct sw_gateway_config *c, struct sw_err *err)
{
    struct sw_gateway g = {.config = c};
    int rc = start(&g, err);

    if (rc == SW_OK)
        sw_loop_run(g.process.loop);
    stop(&g);
    return rc;
}
