/* SPDX-License-Identifier: Apache-2.0 */
/* The process: start, the site's credential, snapshots to the workers, drain and end. */
#include "link/link.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "io/egress.h"
#include "io/filewatch.h"
#include "io/resolver.h"
#include "link/link_int.h"
#include "tls/cert/cred.h"
#include "tls/crypto/aead.h"

static const char *const site_files[3] = {"ca.pem", "dataplane.pem", "dataplane.key"};

/* ---- the end ---- */

static void drain(struct sw_link *l)
{
    sw_ready_add(l->ready, "draining");
    sw_crew_drain(&l->crew, l->config->drain_ns);
}

static void on_quit(void *arg)
{
    drain(arg);
}

/* ---- the site's credential ---- */

static struct sw_tls_cred *load_site(const struct sw_link_config *c, struct sw_err *err)
{
    struct sw_slice text[3] = {{0}};
    struct sw_tls_cred *cred = NULL;
    int rc = SW_OK;

    for (int i = 0; i < 3 && rc == SW_OK; i++) {
        SW_AUTO_FREE char *path = sw_asprintf("%s/%s", c->site, site_files[i]);

        rc = sw_file_read(path, SW_TLS_PEM_MAX, &text[i], err);
    }
    if (rc == SW_OK)
        cred = sw_tls_cred_new(
            &(struct sw_tls_cred_pem){
                .roots = text[0], .chain = text[1], .key = text[2], .any_identity = true},
            err);
    if (text[2].n)
        explicit_bzero((char *)(uintptr_t)text[2].p, text[2].n);
    for (int i = 0; i < 3; i++)
        sw_slice_free(&text[i]);
    if (!cred)
        (void)sw_err_prefix(err, "--site '%.80s'", c->site);
    return cred;
}

/* For the next connections; files that are no good leave what was read before. */
static void reload_site(struct sw_link *l)
{
    struct sw_err err = {0};
    struct sw_tls_cred *cred = load_site(l->config, &err);
    const char *result = cred ? "ok" : "failed";

    sw_metric_add(sw_metric_get1(l->shard, SW_METRIC_CONFIG_RELOADS, result), 1);
    if (!cred) {
        sw_log_error("link", "reload failed, keeping the previous site certificate: %s", err.msg);
        return;
    }
    (void)sw_tls_cred_unref(l->site);
    l->site = cred;
    link_xds_set_cred(l->xds, cred);
    for (size_t i = 0; i < l->n_workers; i++)
        link_worker_send_site(&l->workers[i], sw_tls_cred_ref(cred));
    sw_log_info("link", "site certificate reloaded");
}

static void on_reload(struct sw_timer *t)
{
    reload_site(SW_CONTAINER_OF(t, struct sw_link, reload));
}

/* Certificate and key change one after the other: both are awaited. */
static void on_file(void *arg)
{
    struct sw_link *l = arg;

    sw_timer_start(l->loop, &l->reload, 100 * SW_NS_PER_MS, on_reload);
}

static int watch_site(struct sw_link *l, struct sw_err *err)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(l->watches); i++) {
        SW_AUTO_FREE char *path = sw_asprintf("%s/%s", l->config->site, site_files[i]);

        l->watches[i] = sw_filewatch_new(l->loop, path, on_file, l, err);
        if (!l->watches[i])
            return err->rc;
    }
    return SW_OK;
}

static void on_signal(int signo, void *arg)
{
    struct sw_link *l = arg;

    if (signo == SIGHUP) {
        reload_site(l);
        return;
    }
    if (l->crew.draining && signo == SIGINT)
        sw_loop_stop(l->loop);
    drain(l);
}

/* ---- configuration ---- */

static void on_snap(void *arg, struct link_snap *s)
{
    struct sw_link *l = arg;

    for (size_t i = 0; i < l->n_workers; i++)
        link_worker_send_snap(&l->workers[i], link_snap_ref(s));
    if (s->complete && !l->served) {
        char at[SW_ADDR_TEXT];

        l->served = true;
        sw_ready_done(l->ready, "config");
        sw_log_info("link", "ready, listening on %s%s", sw_addr_text(&l->listen[0], at),
                    l->n_listen > 1 ? " and others" : "");
    }
    (void)link_snap_unref(s);
}

static int config_dump(struct sw_buf *out, void *arg)
{
    return link_dump(arg, out);
}

/* ---- the beginning ---- */

static int start_admin(struct sw_link *l, struct sw_err *err)
{
    struct sw_admin_opts o = {
        .title = "spanwire link",
        .admin = {l->config->admin_addr},
        .access = l->config->access,
        .stats = l->config->stats_addr,
        .ready_at = l->config->ready_addr,
        .share = l->port_group,
        .metrics = l->metrics,
        .ready = l->ready,
        .egress = l->egress,
        .log_filter = l->config->log_level,
        .config_dump = config_dump,
        .quit = on_quit,
        .arg = l,
    };

    l->admin = sw_admin_new(l->loop, &o, err);
    return l->admin ? SW_OK : err->rc;
}

static int read_addresses(struct sw_link *l, struct sw_err *err)
{
    const struct sw_link_config *c = l->config;
    static const struct sw_addr all = {.ip = {.family = 6}, .port = 4443};
    int rc = SW_OK;

    if (c->listen.n > LINK_LISTEN_MAX || c->import_address.n > LINK_LISTEN_MAX)
        return sw_err_set(err, SW_ELIMIT, "more than %d addresses", LINK_LISTEN_MAX);
    for (size_t i = 0; i < c->listen.n && rc == SW_OK; i++) {
        rc = sw_addr_parse(sw_slice_str(c->listen.p[i]), &l->listen[l->n_listen++], err);
        if (rc != SW_OK)
            return sw_err_prefix(err, "--listen '%.60s'", c->listen.p[i]);
    }
    if (l->n_listen == 0)
        l->listen[l->n_listen++] = all;
    for (size_t i = 0; i < c->import_address.n && rc == SW_OK; i++) {
        rc = sw_ip_parse(sw_slice_str(c->import_address.p[i]), &l->import_ips[l->n_import_ips++],
                         err);
        if (rc != SW_OK)
            return sw_err_prefix(err, "--import-address '%.60s'", c->import_address.p[i]);
    }
    rc = sw_authority_split(sw_slice_str(c->control), &l->control_host, &l->control_port, err);
    return rc == SW_OK ? SW_OK : sw_err_prefix(err, "--control '%.80s'", c->control);
}

static void set_port_group(struct sw_link *l)
{
    const struct sw_link_config *c = l->config;

    if (c->port_group)
        (void)snprintf(l->port_group, sizeof(l->port_group), "link/%.48s", c->port_group);
    else
        (void)snprintf(l->port_group, sizeof(l->port_group), "link:%016" PRIx64,
                       sw_siphash13(0, 0, c->control, strlen(c->control)));
}

static int start_workers(struct sw_link *l, struct sw_err *err)
{
    unsigned n = sw_crew_size(l->config->workers);
    int rc = SW_OK;

    sw_crew_init(&l->crew, "link", l->loop);
    l->workers = SW_NEW_ARRAY(struct link_worker, n);
    for (unsigned i = 0; i < n && rc == SW_OK; i++) {
        l->n_workers++;
        rc = link_worker_init(&l->workers[i], l, err);
    }
    for (unsigned i = 0; i < n && rc == SW_OK; i++)
        rc = sw_crew_thread_start(&l->workers[i].thread, err);
    return rc;
}

static int start_xds(struct sw_link *l, struct sw_err *err)
{
    struct link_xds_opts o = {.loop = l->loop,
                              .config = l->config,
                              .cred = l->site,
                              .shard = l->shard,
                              .on_snap = on_snap,
                              .arg = l};

    l->xds = link_xds_new(&o, err);
    return l->xds ? SW_OK : err->rc;
}

/* As the gateway does: connections in the queue of a closing listener move to the successor. */
static void allow_migration(void)
{
    SW_AUTO_FD fd = open("/proc/sys/net/ipv4/tcp_migrate_req", O_WRONLY | O_CLOEXEC);

    if (fd >= 0)
        (void)!write(fd, "1\n", 2);
}

static int prepare(struct sw_link *l, struct sw_err *err)
{
    static const int signos[] = {SIGTERM, SIGINT, SIGHUP};
    int rc = sw_aead_init((enum sw_aead_choice)l->config->aead, err);

    if (rc == SW_OK)
        rc = read_addresses(l, err);
    if (rc != SW_OK)
        return rc;
    l->site = load_site(l->config, err);
    if (!l->site)
        return err->rc;
    allow_migration();
    set_port_group(l);
    l->loop = sw_loop_new(err);
    if (!l->loop)
        return err->rc;
    l->signals = sw_signals_new(l->loop, signos, SW_ARRAY_LEN(signos), on_signal, l, err);
    return l->signals ? SW_OK : err->rc;
}

static int start(struct sw_link *l, struct sw_err *err)
{
    int rc = prepare(l, err);

    if (rc != SW_OK)
        return rc;
    l->metrics = sw_metrics_new(&(struct sw_metrics_opts){.component = "link"});
    l->shard = sw_metrics_shard_new(l->metrics);
    l->ready = sw_ready_new();
    sw_ready_add(l->ready, "config");
    l->egress = sw_upstream_filter(l->loop, &l->config->upstream, false, err);
    rc = l->egress ? SW_OK : err->rc;
    if (rc == SW_OK)
        rc = start_workers(l, err);
    if (rc == SW_OK)
        rc = start_admin(l, err);
    if (rc == SW_OK)
        rc = start_xds(l, err);
    return rc == SW_OK ? watch_site(l, err) : rc;
}

static void stop(struct sw_link *l)
{
    sw_admin_free(l->admin);
    link_xds_free(l->xds);
    sw_crew_end(&l->crew);
    for (size_t i = 0; i < l->n_workers; i++)
        link_worker_done(&l->workers[i]);
    sw_free(l->workers);
    sw_resolver_stop();
    for (size_t i = 0; i < SW_ARRAY_LEN(l->watches); i++)
        sw_filewatch_free(l->watches[i]);
    sw_signals_free(l->signals);
    sw_egress_free(l->egress);
    if (l->loop)
        sw_timer_stop(l->loop, &l->reload);
    sw_loop_free(l->loop);
    if (l->shard)
        sw_metrics_shard_free(l->shard);
    sw_metrics_free(l->metrics);
    sw_ready_free(l->ready);
    (void)sw_tls_cred_unref(l->site);
}

int sw_link_run(const struct sw_link_config *c, struct sw_err *err)
{
    struct sw_link l = {.config = c};
    int rc = start(&l, err);

    if (rc == SW_OK)
        sw_loop_run(l.loop);
    stop(&l);
    return rc;
}
