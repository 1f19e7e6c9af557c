/* SPDX-License-Identifier: Apache-2.0 */
#include "node/node.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "base/trim.h"
#include "node/dump/dump.h"
#include "node/identities.h"
#include "node/local/localconfig.h"
#include "node/main.h"
#include "node/pods/pods.h"
#include "tls/crypto/aead.h"

enum {
    CONFIG_MAX = 256 << 20,
    TICK_S = 5,
};

/* ---- configuration ---- */

static void warn(void *ctx, const char *text)
{
    sw_log_warn("config", "%s", text);
}

static int read_text(const struct sw_node *n, struct sw_slice *ret, struct sw_err *err)
{
    const struct sw_node_config *c = n->config;

    if (c->xds.local_path)
        return sw_file_read(c->xds.local_path, CONFIG_MAX, ret, err);
    *ret = sw_slice_str(sw_strdup(c->xds.local_inline ? c->xds.local_inline : "{}"));
    return SW_OK;
}

static int parse_text(const struct sw_node *n, struct sw_slice text, struct sw_state **ret,
                      struct sw_err *err)
{
    const struct sw_node_config *c = n->config;
    const struct sw_localconfig config = {
        .file = c->xds.local_path ? c->xds.local_path : "LOCAL_XDS",
        .text = text,
        .node = sw_slice_str(c->names.node ? c->names.node : ""),
        .warn = warn,
    };

    return sw_localconfig_parse(&config, ret, err);
}

/* ---- snapshots ---- */

/* A new snapshot, for all workers; the reference is ours. */
static void take_state(struct sw_node *n, struct sw_state *state)
{
    bool local = sw_state_local_version(n->state) != sw_state_local_version(state);

    (void)sw_state_unref(n->state);
    n->state = state;
    if (local)
        node_want_identities(n);
    if (n->mesh && !n->serving)
        return; /* workers that do not run yet would keep every snapshot in between */
    for (size_t w = 0; w < n->n_workers; w++)
        sw_worker_send_state(&n->workers[w], sw_state_ref(state));
    sw_dns_proxy_send_state(n->dns, sw_state_ref(state));
    if (local)
        node_send_creds(n, false);
}

static void count_reload(struct sw_node *n, const char *result)
{
    sw_metric_add(sw_metric_get1(n->process.shard, SW_METRIC_CONFIG_RELOADS, result), 1);
}

static void on_config_changed(void *arg)
{
    struct sw_node *n = arg;
    struct sw_slice text = {0};
    struct sw_state *state = NULL;
    struct sw_err err = {0};
    int rc = read_text(n, &text, &err);

    if (rc == SW_OK && sw_slice_eq(text, n->text)) {
        sw_slice_free(&text);
        return;
    }
    /* What a truncation or a full disk leaves behind; '{}' says it on purpose. */
    if (rc == SW_OK && sw_slice_trim(text).n == 0)
        rc = sw_err_set(&err, SW_EINVAL, "'%s' is empty", n->config->xds.local_path);
    if (rc == SW_OK)
        rc = parse_text(n, text, &state, &err);
    if (rc != SW_OK) {
        sw_log_error("config", "keeping the previous configuration: %s", err.msg);
        count_reload(n, "failed");
        sw_slice_free(&text);
        return;
    }
    sw_slice_free(&n->text);
    n->text = text;
    count_reload(n, "ok");
    sw_log_info("config", "reloaded: %zu workloads, %zu services, %zu policies",
                sw_state_workload_count(state), sw_state_service_count(state),
                sw_state_policy_count(state));
    take_state(n, state);
}

/* ---- the end ---- */

static void drain(void *arg)
{
    struct sw_node *n = arg;

    if (!n->serving)
        sw_loop_stop(n->process.loop); /* nothing is open yet */
    sw_crew_drain(&n->process.crew, n->config->drain.ns);
}

static void reload(void *arg)
{
    struct sw_node *n = arg;

    if (!n->mesh)
        on_config_changed(n);
}

static void on_tick(struct sw_timer *t)
{
    struct sw_node *n = SW_CONTAINER_OF(t, struct sw_node, tick);
    uint64_t dropped = sw_log_dropped();

    if (dropped > n->dropped_said)
        sw_metric_add(sw_metric_get1(n->process.shard, SW_METRIC_LOG_DROPPED, NULL),
                      dropped - n->dropped_said);
    n->dropped_said = dropped;
    if (!n->trimmed && n->serving) {
        n->trimmed = true; /* once more: the first certificates have come meanwhile */
        sw_trim_heap();
    }
    sw_timer_start(n->process.loop, t, TICK_S * SW_NS_PER_S, on_tick);
}

/* ---- the beginning ---- */

static int start_telemetry(struct sw_node *n, struct sw_err *err)
{
    const struct sw_node_config *c = n->config;
    struct sw_admin_opts o = {
        .title = "spanwire node",
        .access = c->admin.access,
        .stats = c->admin.stats_addr,
        .ready_at = c->admin.ready_addr,
        .no_ipv6 = !c->listen.ipv6,
        .share = c->listen.port_reuse ? NODE_PORT_GROUP : NULL,
        .egress = n->egress,
        .log_filter = c->log.level,
        .config_dump = node_config_dump,
        .arg = n,
    };

    if (!c->admin.is_default)
        o.admin[0] = c->admin.addr;
    return sw_process_open_admin(&n->process, &o, err);
}

/* NULL with SW_OK in err: workloads have no identity. */
static struct sw_issuer *make_issuer(struct sw_node *n, struct sw_err *err)
{
    const struct sw_node_config *c = n->config;
    struct sw_issuer_ca_opts o = {
        .address = c->ca.address,
        .root = c->ca.root_ca,
        .alt_name = c->ca.alt_hostname,
        .token = c->ca.auth_token,
        .machine = c->ca.machine_dir,
        .cluster_id = c->names.cluster_id,
        .mark = c->sockets.packet_mark,
        .impersonate = c->serve.mode == SW_NODE_SHARED,
    };

    if (c->ca.local)
        return sw_issuer_local_new(c->ca.local, err);
    return c->ca.address ? sw_issuer_ca_new(n->process.loop, &o, err) : NULL;
}

static int start_certs(struct sw_node *n, struct sw_err *err)
{
    struct sw_certs_opts o = {
        .issuer = make_issuer(n, err),
        .crl = n->config->ca.crl,
        .ttl_ns = n->config->ca.secret_ttl_ns,
        .shard = n->process.shard,
        .cb = node_take_cred,
        .arg = n,
    };

    if (err->rc != SW_OK)
        return err->rc;
    n->certs = sw_certs_new(n->process.loop, &o, err);
    return n->certs ? SW_OK : err->rc;
}

static void ask_mesh(void *arg, struct sw_slice key);

static int start_workers(struct sw_node *n, struct sw_err *err)
{
    const struct sw_worker_setup from = {
        .config = n->config,
        .crew = &n->process.crew,
        .metrics = n->process.metrics,
        .egress = n->egress,
        .state = n->state,
        .main = n->process.loop,
        .on_need = node_need_cred,
        .arg = n,
        .lookup = n->mesh && n->config->xds.on_demand ? ask_mesh : NULL,
        .lookup_arg = n,
    };
    int rc;

    n->workers = SW_NEW_ARRAY(struct sw_worker, n->config->cpu.workers);
    for (unsigned i = 0; i < n->config->cpu.workers; i++) {
        rc = sw_worker_init(&n->workers[i], &from, err);
        n->n_workers++;
        if (rc != SW_OK)
            return rc;
    }
    return SW_OK;
}

static void log_ready(struct sw_node *n);

static int start_dns(struct sw_node *n, struct sw_err *err)
{
    const struct sw_dns_proxy_setup from = {
        .config = n->config,
        .crew = &n->process.crew,
        .metrics = n->process.metrics,
        .state = n->state,
        .group = n->config->listen.port_reuse ? NODE_PORT_GROUP : NULL,
    };

    if (!n->config->dns.capture || !n->config->serve.proxy)
        return SW_OK;
    n->dns = sw_dns_proxy_new(&from, err);
    return n->dns ? SW_OK : err->rc;
}

static int open_ports(struct sw_node *n, struct sw_err *err)
{
    int rc = start_dns(n, err);

    return rc == SW_OK ? node_pods_start(n, err) : rc;
}

/* Enough is known, and the ports are open. */
static int serve(struct sw_node *n, struct sw_err *err)
{
    int rc = SW_OK;

    node_want_identities(n);
    node_send_creds(n, false);
    if (n->config->serve.agent_socket)
        n->zds = node_zds_new(n, n->config->serve.agent_socket);
    for (size_t i = 0; i < n->n_workers && rc == SW_OK; i++)
        rc = sw_worker_start(&n->workers[i], err);
    if (rc == SW_OK && n->dns)
        rc = sw_dns_proxy_start(n->dns, err);
    n->serving = rc == SW_OK;
    if (n->serving)
        log_ready(n);
    return rc;
}

/* ---- the control plane ---- */

static void on_mesh_state(void *arg, struct sw_state *s)
{
    take_state(arg, s);
}

static void on_mesh_ready(void *arg)
{
    struct sw_node *n = arg;

    sw_ready_done(n->process.ready, "xds");
    if (n->process.crew.draining)
        return;
    for (size_t w = 0; w < n->n_workers; w++)
        sw_worker_send_state(&n->workers[w], sw_state_ref(n->state));
    if (open_ports(n, &n->fault) != SW_OK || serve(n, &n->fault) != SW_OK)
        sw_loop_stop(n->process.loop);
}

static void on_mesh_found(void *arg, struct sw_slice key, bool limit)
{
    struct sw_node *n = arg;

    for (size_t w = 0; w < n->n_workers; w++)
        sw_worker_send_found(&n->workers[w], key, limit ? SW_LOOKUP_LIMIT : SW_LOOKUP_ANSWERED);
}

static void on_mesh_forgotten(void *arg)
{
    struct sw_node *n = arg;

    for (size_t w = 0; w < n->n_workers; w++)
        sw_worker_send_forget(&n->workers[w]);
}

/* A worker's question on its way to the main thread. */
struct question {
    struct sw_msg msg;
    struct sw_node *node;
    size_t n;
    char key[];
};

static void on_question(struct sw_msg *m)
{
    struct question *q = SW_CONTAINER_OF(m, struct question, msg);

    /* NULL at the end: the loop hands over what is left when it is freed. */
    if (q->node->mesh)
        sw_mesh_lookup(q->node->mesh, sw_slice(q->key, q->n));
    sw_free(q);
}

static void ask_mesh(void *arg, struct sw_slice key)
{
    struct sw_node *n = arg;
    struct question *q = sw_calloc(1, sizeof(*q) + key.n);

    q->msg.cb = on_question;
    q->node = n;
    q->n = key.n;
    memcpy(q->key, key.p, key.n);
    sw_loop_post(n->process.loop, &q->msg);
}

static int start_mesh(struct sw_node *n, struct sw_err *err)
{
    struct sw_mesh_opts o = {.config = n->config,
                             .shard = n->process.shard,
                             .on_state = on_mesh_state,
                             .on_ready = on_mesh_ready,
                             .on_found = on_mesh_found,
                             .on_forgotten = on_mesh_forgotten,
                             .arg = n};

    sw_ready_add(n->process.ready, "xds");
    n->mesh = sw_mesh_new(n->process.loop, &o, err);
    return n->mesh ? SW_OK : err->rc;
}

/*
 * Workers begin with the empty state of a builder of its own: until they run they would hold the
 * control plane's first snapshot, and with it all that later ones replaced.
 */
static void begin_mesh(struct sw_node *n)
{
    (void)sw_state_unref(n->state);
    n->state = sw_state_ref(sw_mesh_state(n->mesh));
    sw_log_info("xds", "waiting for the control plane at %s", n->config->xds.address);
    sw_mesh_start(n->mesh);
}

static int start(struct sw_node *n, struct sw_err *err)
{
    const struct sw_process_opts process = {.name = "node",
                                            .component = "ztunnel",
                                            .awaits = "proxy",
                                            .reload = reload,
                                            .drain = drain,
                                            .arg = n};
    int rc = sw_aead_init((enum sw_aead_choice)n->config->crypto.aead, err);

    if (rc == SW_OK)
        rc = read_text(n, &n->text, err);
    if (rc == SW_OK)
        rc = parse_text(n, n->text, &n->state, err);
    if (rc == SW_OK)
        rc = sw_process_open(&n->process, &process, err);
    if (rc != SW_OK)
        return rc;
    n->egress = sw_upstream_filter(n->process.loop, &n->config->upstream, false, err);
    if (!n->egress)
        return err->rc;
    if (n->config->dns.capture && n->config->serve.proxy)
        sw_ready_add(n->process.ready, "dns proxy");
    if (n->config->xds.address)
        rc = start_mesh(n, err);
    if (rc == SW_OK)
        rc = start_certs(n, err);
    if (rc == SW_OK)
        rc = start_workers(n, err);
    if (rc == SW_OK && !n->mesh)
        rc = open_ports(n, err);
    if (rc == SW_OK)
        rc = start_telemetry(n, err);
    if (rc == SW_OK && n->config->xds.local_path) {
        n->watch =
            sw_filewatch_new(n->process.loop, n->config->xds.local_path, on_config_changed, n, err);
        rc = n->watch ? SW_OK : err->rc;
    }
    if (rc != SW_OK)
        return rc;
    if (!n->mesh)
        return serve(n, err);
    begin_mesh(n);
    return SW_OK;
}

static void stop(struct sw_node *n)
{
    /* No more messages once the workers are gone: what sends them goes first. */
    node_zds_free(n->zds);
    sw_filewatch_free(n->watch);
    sw_mesh_free(n->mesh);
    n->mesh = NULL;
    sw_process_close_admin(&n->process);
    sw_defer_cancel(&n->refresh);
    sw_certs_free(n->certs);
    n->certs = NULL;
    sw_crew_end(&n->process.crew);
    for (size_t i = 0; i < n->n_workers; i++)
        sw_worker_done(&n->workers[i]);
    sw_free(n->workers);
    sw_dns_proxy_free(n->dns);
    node_pods_done(n);
    sw_egress_free(n->egress);
    if (n->process.loop)
        sw_timer_stop(n->process.loop, &n->tick);
    sw_process_close(&n->process);
    (void)sw_state_unref(n->state);
    sw_slice_free(&n->text);
}

static void log_ready(struct sw_node *n)
{
    struct sw_log_line l;

    if (!n->config->ca.local && !n->config->ca.address)
        sw_log_warn("certs", "neither --local-ca nor --ca-address: workloads have no identity, "
                             "HBONE is refused");
    SW_VEC_FOREACH (struct node_pod, p, &n->pods) {
        if (!sw_pod_workload(n->state, p->pod))
            sw_log_warn("config",
                        "no workload '%s' on node '%s' in the configuration: its "
                        "connections wait for one",
                        p->pod->uid, n->config->names.node);
    }
    sw_ready_done(n->process.ready, "proxy");
    sw_ready_done(n->process.ready, "dns proxy");
    sw_log_begin(&l, SW_LOG_INFO, "node", "ready");
    sw_log_u64(&l, "pods", n->pods.n);
    sw_log_u64(&l, "workers", n->n_workers);
    sw_log_u64(&l, "workloads", sw_state_workload_count(n->state));
    sw_log_end(&l);
    sw_trim_heap();
    sw_trim_text(NULL);
}

int sw_node_run(const struct sw_node_config *c, struct sw_err *err)
{
    struct sw_node n = {.config = c};
    int rc;

    sw_trim_on_free();
    rc = start(&n, err);
    if (rc == SW_OK) {
        sw_timer_start(n.process.loop, &n.tick, TICK_S * SW_NS_PER_S, on_tick);
        sw_loop_run(n.process.loop);
        rc = n.fault.rc;
        if (rc != SW_OK)
            *err = n.fault;
    }
    stop(&n);
    return rc;
}
