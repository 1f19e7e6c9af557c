/* SPDX-License-Identifier: Apache-2.0 */
#include "relay/relay.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/secret.h"
#include "base/time.h"
#include "base/trim.h"
#include "io/filewatch.h"
#include "io/sock.h"
#include "relay/relay_int.h"
#include "tls/cert/cred.h"
#include "tls/crypto/aead.h"

#define AT(field) .offset = offsetof(struct sw_relay_config, field)
#define PROCESS   offsetof(struct sw_relay_config, process)

static const struct sw_opt table[] = {
    {.type = SW_OPT_GROUP, .help = "Service"},
    {"listen", "SPANWIRE_RELAY_LISTEN", SW_OPT_ADDR, AT(listen),
     .help = "Plain HTTP: for tests, behind a proxy that ends TLS, and for captive portal checks."},
    {"tls-listen", "SPANWIRE_RELAY_TLS_LISTEN", SW_OPT_ADDR, AT(tls_listen), .help = "HTTPS."},
    {"cert", "SPANWIRE_RELAY_CERT", SW_OPT_STR, AT(cert), .arg = "FILE",
     .help = "Certificate chain (PEM) for HTTPS; read again when it changes."},
    {"key", "SPANWIRE_RELAY_KEY", SW_OPT_STR, AT(key), .arg = "FILE",
     .help = "Private key (PEM) of the certificate."},
    {"qad", "SPANWIRE_RELAY_QAD", SW_OPT_BOOL, AT(qad), .def = "true",
     .help = "Answer QUIC address discovery, so that clients learn their public address (UDP)."},
    {"qad-listen", "SPANWIRE_RELAY_QAD_LISTEN", SW_OPT_ADDR, AT(qad_listen),
     .help =
         "UDP address for it. By default port 7842 of --tls-listen, else that of --listen; when "
         "that is taken, any."},
    {.type = SW_OPT_GROUP,
     .help = "Access (at least one of --kubeconfig, --allow-file, --token-file, --access-url and "
             "--open; all that are given must agree)"},
    {"kubeconfig", "SPANWIRE_RELAY_KUBECONFIG", SW_OPT_STR, AT(kubeconfig), .arg = "FILE",
     .help = "Only the devices and gateways that this control plane knows."},
    {"allow-file", "SPANWIRE_RELAY_ALLOW_FILE", SW_OPT_STR, AT(allow_file), .arg = "FILE",
     .help = "Only the NodeIDs of this file, one per line; read again when it changes."},
    {"deny-file", "SPANWIRE_RELAY_DENY_FILE", SW_OPT_STR, AT(deny_file), .arg = "FILE",
     .help = "Not the NodeIDs of this file."},
    {"token-file", "SPANWIRE_RELAY_TOKEN_FILE", SW_OPT_STR, AT(token_file), .arg = "FILE",
     .help = "Only clients that show one of the bearer tokens of this file."},
    {"access-url", "SPANWIRE_RELAY_ACCESS_URL", SW_OPT_STR, AT(access_url), .arg = "URL",
     .help = "Asks there, by POST with the NodeID in X-Iroh-Endpoint-Id and X-Iroh-NodeId; only "
             "200 and 'true' admit."},
    {"open", "SPANWIRE_RELAY_OPEN", SW_OPT_BOOL, AT(open),
     .help = "Every client may use the relay, but for those that other rules reject."},
    {"access-token-file", "SPANWIRE_RELAY_ACCESS_TOKEN_FILE", SW_OPT_STR, AT(access_token_file),
     .arg = "FILE", .help = "Bearer token for that URL."},
    {.type = SW_OPT_GROUP, .help = "Limits"},
    {"max-clients", "SPANWIRE_RELAY_MAX_CLIENTS", SW_OPT_U32, AT(max_clients), .def = "65536",
     .min = 1, .arg = "N", .help = "Connections at once."},
    {"rate-limit", "SPANWIRE_RELAY_RATE_LIMIT", SW_OPT_U32, AT(rate), .def = "33554432",
     .arg = "BYTES",
     .help = "Bytes per second the connections of one key may send; reading waits, nothing is "
             "dropped. 0: no limit. "
             "Gateways that the control plane knows have none."},
    {"rate-burst", "SPANWIRE_RELAY_RATE_BURST", SW_OPT_U32, AT(burst), .def = "0", .arg = "BYTES",
     .help = "Bytes it may send at once; 0: a tenth of the rate."},
    {"qad-max", "SPANWIRE_RELAY_QAD_MAX", SW_OPT_U32, AT(qad_max), .def = "16384", .min = 1,
     .arg = "N", .help = "Connections of address discovery at once."},
    {"qad-rate", "SPANWIRE_RELAY_QAD_RATE", SW_OPT_U32, AT(qad_rate), .def = "20", .min = 1,
     .max = 1000000, .arg = "N",
     .help = "New ones per second and address (IPv6: per /64); five seconds' worth at once."},
    {"queue", "SPANWIRE_RELAY_QUEUE", SW_OPT_U32, AT(queue), .def = "512", .min = 1, .max = 65536,
     .arg = "FRAMES", .help = "Datagrams that may wait for one client; others are dropped."},
    {"write-timeout", "SPANWIRE_RELAY_WRITE_TIMEOUT", SW_OPT_DURATION, AT(write_timeout_ns),
     .def = "2s", .min = 10, .max = 600000,
     .help = "A client that takes nothing for so long is disconnected."},
    {"establish-timeout", "SPANWIRE_RELAY_ESTABLISH_TIMEOUT", SW_OPT_DURATION, AT(establish_ns),
     .def = "30s", .min = 10, .max = 600000,
     .help = "From the connection to the proof of the key."},
    {.type = SW_OPT_GROUP, .help = "Process"},
    {"workers", "SPANWIRE_WORKERS", SW_OPT_U32, AT(process.workers), .def = "1", .max = 256,
     .arg = "N",
     .help = "Worker threads; 0: one per processor. One carries 10 Gb/s and more; several cost "
             "more per byte, because packets cross between them, and pay when one is full."},
    {"drain-time", "SPANWIRE_DRAIN_TIME", SW_OPT_DURATION, AT(process.drain_ns), .def = "5s",
     .help = "How long clients may take to leave after SIGTERM."},
    {.type = SW_OPT_GROUP, .help = "Operation"},
    {"admin-addr", "SPANWIRE_ADMIN_ADDR", SW_OPT_ADDR, AT(process.admin_addr),
     .def = "127.0.0.1:15000", .help = "Admin pages: /logging, /quitquitquit."},
    SW_OPT_ADMIN(PROCESS + offsetof(struct sw_process_config, access)),
    {"stats-addr", "SPANWIRE_STATS_ADDR", SW_OPT_ADDR, AT(process.stats_addr),
     .def = "127.0.0.1:15020", .help = "Metrics."},
    {"ready-addr", "SPANWIRE_READY_ADDR", SW_OPT_ADDR, AT(process.ready_addr), .def = "[::]:15021",
     .help = "Readiness."},
    SW_OPT_LOG(PROCESS, "relay", "Form of the log lines."),
};

const struct sw_opts_cmd sw_relay_options = {
    .name = "relay",
    .usage = "[options]",
    .summary = "Forwards packets between nodes that cannot reach each other directly. It cannot\n"
               "read them. Compatible with iroh.",
    .epilogue = "SIGTERM tells clients to reconnect and ends; SIGHUP reads the files again.\n"
                "See spanwire-relay(8).",
    .opts = table,
    .n = SW_ARRAY_LEN(table),
    .config_file = true,
};

int sw_relay_config_read(struct sw_relay_config *c, int argc, char **argv, struct sw_err *err)
{
    int rc;

    *c = (struct sw_relay_config){0};
    rc = sw_opts_parse(&sw_relay_options, c, &c->arena, (struct sw_args){argc, argv}, NULL, err);
    if (rc != SW_OK)
        return rc;
    if (!c->listen.ip.family && !c->tls_listen.ip.family)
        return sw_err_set(err, SW_EINVAL, "relay: one of --listen and --tls-listen is needed");
    if (c->tls_listen.ip.family && (!c->cert || !c->key))
        return sw_err_set(err, SW_EINVAL, "relay: --tls-listen needs --cert and --key");
    if (!c->open && !c->kubeconfig && !c->allow_file && !c->token_file && !c->access_url)
        return sw_err_set(
            err, SW_EINVAL,
            "relay: no access rule: one of --kubeconfig, --allow-file, "
            "--token-file and --access-url is needed, or --open to admit every client");
    if (!c->burst)
        c->burst = c->rate / 10;
    return SW_OK;
}

void sw_relay_config_done(struct sw_relay_config *c)
{
    sw_arena_clear(&c->arena);
}

/* ---- files ---- */

static struct sw_tls_cred *load_cred(const struct sw_relay_config *c, struct sw_err *err)
{
    struct sw_slice chain = {0};
    struct sw_slice key = {0};
    struct sw_tls_cred *cred = NULL;
    int rc = sw_file_read(c->cert, SW_TLS_PEM_MAX, &chain, err);

    if (rc == SW_OK)
        rc = sw_file_read(c->key, SW_TLS_PEM_MAX, &key, err);
    if (rc == SW_OK)
        cred = sw_tls_cred_new(
            &(struct sw_tls_cred_pem){
                .chain = chain, .key = key, .any_identity = true, .trust_nobody = true},
            err);
    sw_slice_free_secret(&key);
    sw_slice_free(&chain);
    return cred;
}

static int reload_cred(struct sw_relay *r, struct sw_err *err)
{
    struct sw_tls_cred *cred;

    if (!r->config->tls_listen.ip.family)
        return SW_OK;
    cred = load_cred(r->config, err);
    if (!cred)
        return err->rc;
    sw_metric_set(sw_metric_get1(r->process.shard, SW_METRIC_CERT_EXPIRY, "relay"),
                  (int64_t)sw_tls_cred_not_after(cred));
    for (size_t i = 0; i < r->n_workers; i++)
        relay_worker_send_cred(&r->workers[i], sw_tls_cred_ref(cred));
    if (r->qad)
        relay_qad_send_cred(r->qad, sw_tls_cred_ref(cred));
    (void)sw_tls_cred_unref(cred);
    return SW_OK;
}

static int reload_access(struct sw_relay *r, struct sw_err *err)
{
    struct sw_relay_access *a =
        sw_relay_access_load(&(struct sw_relay_access_files){.allow = r->config->allow_file,
                                                             .deny = r->config->deny_file,
                                                             .tokens = r->config->token_file},
                             err);

    if (!a)
        return err->rc;
    for (size_t i = 0; i < r->n_workers; i++)
        relay_worker_send_access(&r->workers[i], sw_relay_access_ref(a));
    (void)sw_relay_access_unref(a);
    return SW_OK;
}

/* From the control plane. */
static void on_roster(void *arg, struct relay_roster *roster, bool complete)
{
    struct sw_relay *r = arg;
    size_t devices = relay_roster_count(roster, RELAY_DEVICE);
    size_t gateways = relay_roster_count(roster, RELAY_GATEWAY);

    for (size_t i = 0; i < r->n_workers; i++)
        relay_worker_send_roster(&r->workers[i], relay_roster_ref(roster));
    (void)relay_roster_unref(roster);
    sw_metric_set(sw_metric_get1(r->process.shard, SW_METRIC_RELAY_ROSTER, "device"),
                  (int64_t)devices);
    sw_metric_set(sw_metric_get1(r->process.shard, SW_METRIC_RELAY_ROSTER, "gateway"),
                  (int64_t)gateways);
    if (!complete || r->roster_read)
        return;
    r->roster_read = true;
    sw_ready_done(r->process.ready, "roster");
    sw_log_info("relay", "control plane read: %zu devices and %zu gateways may connect", devices,
                gateways);
}

static int follow_roster(struct sw_relay *r, struct sw_err *err)
{
    if (!r->config->kubeconfig)
        return SW_OK;
    sw_ready_add(r->process.ready, "roster");
    r->roster = relay_roster_follow(r->process.loop, r->config->kubeconfig, on_roster, r, err);
    return r->roster ? SW_OK : sw_err_prefix(err, "--kubeconfig");
}

static int reload(struct sw_relay *r, struct sw_err *err)
{
    int rc = reload_cred(r, err);

    return rc == SW_OK ? reload_access(r, err) : rc;
}

/* What was read before stays in force when the new files are no good. */
static void reload_now(void *arg)
{
    struct sw_relay *r = arg;
    struct sw_err err = {0};
    bool ok = reload(r, &err) == SW_OK;

    if (ok)
        sw_log_info("relay", "configuration files reloaded");
    else
        sw_log_error("relay", "reload failed, keeping the previous files: %s", err.msg);
    sw_metric_add(sw_metric_get1(r->process.shard, SW_METRIC_CONFIG_RELOADS, ok ? "ok" : "failed"),
                  1);
}

static void on_reload(struct sw_timer *t)
{
    reload_now(SW_CONTAINER_OF(t, struct sw_relay, reload));
}

/* Certificate and key change one after the other: both are awaited. */
static void on_file(void *arg)
{
    struct sw_relay *r = arg;

    sw_timer_start(r->process.loop, &r->reload, 100 * SW_NS_PER_MS, on_reload);
}

/* ---- the beginning ---- */

static int start_workers(struct sw_relay *r, struct sw_err *err)
{
    unsigned n = sw_crew_size(r->config->process.workers);
    int rc = SW_OK;

    r->workers = SW_NEW_ARRAY(struct relay_worker, n);
    for (unsigned i = 0; i < n && rc == SW_OK; i++) {
        r->n_workers++;
        rc = relay_worker_init(&r->workers[i], r, err);
    }
    if (rc == SW_OK && r->config->qad)
        rc = relay_qad_new(r, &r->qad, err);
    /* Posted before the threads run: no client is accepted without a credential and the lists. */
    if (rc == SW_OK)
        rc = follow_roster(r, err);
    if (rc == SW_OK)
        rc = reload(r, err);
    for (unsigned i = 0; i < n && rc == SW_OK; i++)
        rc = relay_worker_start(&r->workers[i], err);
    if (rc == SW_OK && r->qad)
        rc = relay_qad_start(r->qad, err);
    return rc;
}

static int watch_files(struct sw_relay *r, struct sw_err *err)
{
    const struct sw_relay_config *c = r->config;
    const char *const files[] = {c->tls_listen.ip.family ? c->cert : NULL,
                                 c->tls_listen.ip.family ? c->key : NULL, c->allow_file,
                                 c->deny_file, c->token_file};

    for (size_t i = 0; i < SW_ARRAY_LEN(files); i++) {
        if (!files[i])
            continue;
        r->watches[i] = sw_filewatch_new(r->process.loop, files[i], on_file, r, err);
        if (!r->watches[i])
            return err->rc;
    }
    return SW_OK;
}

static void log_ready(struct sw_relay *r)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(r->workers[0].listeners); i++) {
        const struct relay_listener *l = &r->workers[0].listeners[i];
        char text[SW_ADDR_TEXT];
        struct sw_addr at;

        if (l->acceptor.fd < 0)
            continue;
        at = sw_sock_local(l->acceptor.fd);
        sw_log_info("relay", "listening on %s (%s)", sw_addr_text(&at, text),
                    l->tls ? "https" : "http");
    }
    if (r->config->open)
        sw_log_warn("relay", "open relay (--open): clients need no permission");
    sw_ready_done(r->process.ready, "start");
    sw_log_info("relay", "ready");
    sw_trim_heap();
}

static int start(struct sw_relay *r, struct sw_err *err)
{
    const struct sw_process_opts process = {.name = "relay",
                                            .config = &r->config->process,
                                            .awaits = "start",
                                            .reload = reload_now,
                                            .arg = r};
    const struct sw_admin_opts admin = {.title = "spanwire relay", .share = RELAY_PORT_GROUP};
    int rc = sw_aead_init(SW_AEAD_AUTO, err);

    sw_rand_bytes(r->hash_key, sizeof(r->hash_key));
    if (rc == SW_OK)
        rc = sw_process_open(&r->process, &process, err);
    if (rc == SW_OK)
        rc = start_workers(r, err);
    if (rc == SW_OK)
        rc = watch_files(r, err);
    if (rc == SW_OK)
        rc = sw_process_open_admin(&r->process, &admin, err);
    if (rc == SW_OK)
        log_ready(r);
    return rc;
}

static void stop(struct sw_relay *r)
{
    sw_process_close_admin(&r->process);
    relay_roster_unfollow(r->roster);
    for (size_t i = 0; i < SW_ARRAY_LEN(r->watches); i++)
        sw_filewatch_free(r->watches[i]);
    sw_crew_end(&r->process.crew);
    relay_qad_free(r->qad);
    for (size_t i = 0; i < r->n_workers; i++)
        relay_worker_stop(&r->workers[i]);
    for (size_t i = 0; i < r->n_workers; i++)
        relay_worker_done(&r->workers[i]);
    sw_free(r->workers);
    if (r->process.loop)
        sw_timer_stop(r->process.loop, &r->reload);
    sw_process_close(&r->process);
}

int sw_relay_run(const struct sw_relay_config *c, struct sw_err *err)
{
    struct sw_relay r = {.config = c};
    int rc = start(&r, err);

    if (rc == SW_OK)
        sw_loop_run(r.process.loop);
    stop(&r);
    return rc;
}
