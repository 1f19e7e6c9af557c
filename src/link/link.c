/* SPDX-License-Identifier: Apache-2.0 */
/* The process: start, the site's credential, snapshots to the workers, drain and end. */
#include "link/link.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "io/egress.h"
#include "io/filewatch.h"
#include "io/port.h"
#include "io/resolver.h"
#include "link/link_int.h"
#include "tls/cert/cred.h"
#include "tls/crypto/aead.h"

static const char *const site_files[3] = {"ca.pem", "dataplane.pem", "dataplane.key"};

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
static void reload_site(void *arg)
{
    struct sw_link *l = arg;
    struct sw_err err = {0};
    struct sw_tls_cred *cred = load_site(l->config, &err);
    const char *result = cred ? "ok" : "failed";

    sw_metric_count(l->process.shard, SW_METRIC_CONFIG_RELOADS, result);
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

    sw_timer_start(l->process.loop, &l->reload, 100 * SW_NS_PER_MS, on_reload);
}

static int watch_site(struct sw_link *l, struct sw_err *err)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(l->watches); i++) {
        SW_AUTO_FREE char *path = sw_asprintf("%s/%s", l->config->site, site_files[i]);

        l->watches[i] = sw_filewatch_new(l->process.loop, path, on_file, l, err);
        if (!l->watches[i])
            return err->rc;
    }
    return SW_OK;
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
        sw_ready_done(l->process.ready, "config");
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
    const struct sw_admin_opts o = {
        .title = "spanwire link",
        .share = l->port_group,
        .egress = l->egress,
        .config_dump = config_dump,
        .arg = l,
    };

    return sw_process_open_admin(&l->process, &o, err);
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

static int start_workers(struct sw_link *l, struct sw_err *err)
{
    unsigned n = sw_crew_size(l->config->process.workers);
    int rc = SW_OK;

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
    struct link_xds_opts o = {.loop = l->process.loop,
                              .config = l->config,
                              .cred = l->site,
                              .shard = l->process.shard,
                              .on_snap = on_snap,
                              .arg = l};

    l->xds = link_xds_new(&o, err);
    return l->xds ? SW_OK : err->rc;
}

static int prepare(struct sw_link *l, struct sw_err *err)
{
    const struct sw_process_opts process = {.name = "link",
                                            .config = &l->config->process,
                                            .awaits = "config",
                                            .reload = reload_site,
                                            .arg = l};
    int rc = sw_aead_init((enum sw_aead_choice)l->config->aead, err);

    if (rc == SW_OK)
        rc = read_addresses(l, err);
    if (rc != SW_OK)
        return rc;
    l->site = load_site(l->config, err);
    if (!l->site)
        return err->rc;
    sw_port_allow_migration();
    sw_port_group_name(l->port_group, "link", l->config->port_group, l->config->control);
    return sw_process_open(&l->process, &process, err);
}

static int start(struct sw_link *l, struct sw_err *err)
{
    int rc = prepare(l, err);

    if (rc != SW_OK)
        return rc;
    l->egress = sw_upstream_filter(l->process.loop, &l->config->upstream, false, err);
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
    sw_process_close_admin(&l->process);
    link_xds_free(l->xds);
    sw_crew_end(&l->process.crew);
    for (size_t i = 0; i < l->n_workers; i++)
        link_worker_done(&l->workers[i]);
    sw_free(l->workers);
    sw_resolver_stop();
    for (size_t i = 0; i < SW_ARRAY_LEN(l->watches); i++)
        sw_filewatch_free(l->watches[i]);
    sw_egress_free(l->egress);
    if (l->process.loop)
        sw_timer_stop(l->process.loop, &l->reload);
    sw_process_close(&l->process);
    (void)sw_tls_cred_unref(l->site);
}

int sw_link_run(const struct sw_link_config *c, struct sw_err *err)
{
    struct sw_link l = {.config = c};
    int rc = start(&l, err);

    if (rc == SW_OK)
        sw_loop_run(l.process.loop);
    stop(&l);
    return rc;
}
