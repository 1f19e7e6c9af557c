/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/agent/agent.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/dirs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "cni/agent/agent_int.h"
#include "cni/agent/enrol.h"
#include "cni/agent/netns.h"
#include "cni/agent/probes.h"
#include "cni/plugin/call.h"
#include "cni/plugin/plugin.h"
#include "io/netns.h"
#include "io/sock.h"
#include "kube/client/kinds.h"

enum {
    PROBES_MS = 50,
    PROBES_AGAIN_S = 2,
    PROBES_TEXT_MAX = 4 << 20,
    UNINSTALL_S = 15,
    ASK_S = 5,
    ASK_AGAIN_MS = 250,
    ASK_TURNS = 60, /* API servers take a token for 10 s after its account is gone */
    LAST_TURNS = 4,
};

/* ---- what the API shows ---- */

const struct sw_json *agent_namespace_of(const struct agent *g, const struct sw_kube_obj *pod)
{
    const struct sw_kube_obj *ns = sw_informer_get(g->namespaces, pod->ns);

    return ns ? ns->json : NULL;
}

/* ns empty: of all. */
static void consider_all(struct agent *g, struct sw_slice ns)
{
    struct sw_kube_obj **list = NULL;
    size_t n = sw_informer_list(g->pods_of_node, &list);

    for (size_t i = 0; i < n; i++) {
        if (ns.n == 0 || sw_slice_eq(list[i]->ns, ns))
            agent_pods_consider(g, list[i]);
        (void)sw_kube_obj_unref(list[i]);
    }
    sw_free(list);
    agent_calls_step(g);
}

static void on_pod(void *arg, struct sw_kube_obj *o)
{
    agent_pods_consider(arg, o);
    agent_calls_step(arg);
}

static void on_pod_changed(void *arg, struct sw_kube_obj *old, struct sw_kube_obj *o)
{
    /* Deleted and made again between two looks. */
    if (!sw_slice_eq(old->uid, o->uid))
        agent_pods_deleted(arg, old);
    on_pod(arg, o);
}

static void on_pod_deleted(void *arg, struct sw_kube_obj *o)
{
    agent_pods_deleted(arg, o);
}

static void on_namespace(void *arg, struct sw_kube_obj *o)
{
    consider_all(arg, o->name);
}

struct listed {
    struct sw_kube_obj **pods;
    size_t n;
};

static bool is_listed(const char *uid, void *arg)
{
    const struct listed *l = arg;

    for (size_t i = 0; i < l->n; i++) {
        if (sw_slice_eq_str(l->pods[i]->uid, uid))
            return true;
    }
    return false;
}

/* A pod without an address yet is not looked after, but its record counts when it has one. */
static void prune_records(struct agent *g)
{
    struct listed l = {0};

    l.n = sw_informer_list(g->pods_of_node, &l.pods);
    agent_record_prune(g->config, is_listed, &l);
    for (size_t i = 0; i < l.n; i++)
        (void)sw_kube_obj_unref(l.pods[i]);
    sw_free(l.pods);
}

static void on_synced(void *arg)
{
    struct agent *g = arg;

    if (g->synced || !sw_informer_synced(g->pods_of_node) || !sw_informer_synced(g->namespaces))
        return;
    g->synced = true;
    sw_ready_done(g->ready, "api");
    sw_log_info("agent", "%zu pods on node '%s'", sw_informer_count(g->pods_of_node),
                g->config->node_name);
    consider_all(g, sw_slice("", 0));
    prune_records(g);
    sw_zds_server_open(g->zds);
}

static int start_informers(struct agent *g, struct sw_err *err)
{
    static const struct sw_informer_cbs pod_cbs = {
        .add = on_pod, .update = on_pod_changed, .del = on_pod_deleted, .synced = on_synced};
    static const struct sw_informer_cbs ns_cbs = {
        .set = on_namespace, .del = on_namespace, .synced = on_synced};
    char *selector SW_AUTO_FREE = sw_asprintf("spec.nodeName=%s", g->config->node_name);
    struct sw_informer_opts pods = {
        .gvr = &sw_pods_gvr, .field_selector = selector, .slim = true, .eager = true};
    struct sw_informer_opts namespaces = {.gvr = &sw_namespaces_gvr, .slim = true, .eager = true};
    struct sw_kube_config cfg = {0};
    int rc = sw_kube_config_find(g->config->kubeconfig, g->config->context, &cfg, err);

    if (rc == SW_OK)
        g->client = sw_kube_client_new(g->loop, &cfg, NULL, err);
    sw_kube_config_done(&cfg);
    if (g->client) {
        g->events = sw_recorder_new(g->client, "spanwire-cni", g->config->node_name);
        g->pods_of_node = sw_informer_new(g->client, &pods, &pod_cbs, g);
        g->namespaces = sw_informer_new(g->client, &namespaces, &ns_cbs, g);
    }
    return g->client ? SW_OK : err->rc;
}

/* ---- the host's rules ---- */

static void on_probes(struct sw_timer *t);

static void on_probes_done(void *arg, int rc, const struct sw_err *err)
{
    struct agent *g = arg;

    g->host_jobs--;
    if (rc == SW_OK || g->ending)
        return;
    sw_log_error("agent", "probes may fail, cannot change the host's rules: %s; retrying in %d s",
                 err->msg, PROBES_AGAIN_S);
    sw_metric_count(g->shard, SW_METRIC_CNI_FAILURES, "ProbeRules");
    if (!g->uninstalling && !sw_timer_running(&g->probes))
        sw_timer_start(g->loop, &g->probes, PROBES_AGAIN_S * SW_NS_PER_S, on_probes);
}

static void change_host(struct agent *g, struct sw_slice script)
{
    g->host_jobs++;
    sw_jobs_add(g->jobs, &(struct sw_job){.kind = SW_JOB_NFT,
                                          .netns_fd = g->host_fd,
                                          .script = script,
                                          .cb = on_probes_done,
                                          .arg = g});
}

static size_t probe_targets(const struct agent_pod *p, struct sw_probe_target *ret)
{
    uint16_t ports[SW_ENROL_PORTS_MAX];
    struct sw_ip ips[SW_ENROL_IPS_MAX];
    size_t n_ports = sw_enrol_probe_ports(p->obj->json, ports);
    size_t n_ips = sw_enrol_ips(p->obj->json, ips);
    size_t n = 0;

    for (size_t i = 0; i < n_ips; i++) {
        for (size_t k = 0; k < n_ports; k++)
            ret[n++] = (struct sw_probe_target){ips[i], ports[k]};
    }
    return n;
}

static void on_probes(struct sw_timer *t)
{
    struct agent *g = SW_CONTAINER_OF(t, struct agent, probes);
    SW_VEC(struct sw_probe_target) all = {0};
    SW_BUF_AUTO text = {.max = PROBES_TEXT_MAX};

    SW_MAP_EACH (const struct agent_pod, p, &g->pods) {
        struct sw_probe_target some[SW_ENROL_IPS_MAX * SW_ENROL_PORTS_MAX];
        size_t n = p->wanted ? probe_targets(p, some) : 0;

        for (size_t i = 0; i < n; i++)
            sw_vec_push(&all, some[i]);
    }
    if (sw_probes_script(g->probe_uid, all.p, all.n, &text) == SW_OK)
        change_host(g, sw_buf_slice(&text));
    sw_vec_done(&all);
}

void agent_probes_changed(struct agent *g)
{
    if (g->config->probes && !g->uninstalling && !g->ending && !sw_timer_running(&g->probes))
        sw_timer_start(g->loop, &g->probes, PROBES_MS * SW_NS_PER_MS, on_probes);
}

static void on_verify(struct sw_timer *t)
{
    struct agent *g = SW_CONTAINER_OF(t, struct agent, verify);

    agent_pods_verify(g);
    agent_probes_changed(g); /* in one transaction: what is there already loses nothing */
    sw_timer_start(g->loop, t, g->config->verify_ns, on_verify);
}

/* ---- installing ---- */

static struct sw_install_opts install_opts(const struct sw_agent_config *c,
                                           const struct sw_json *plugin)
{
    return (struct sw_install_opts){.bin_dir = c->bin_dir,
                                    .conf_dir = c->conf_dir,
                                    .conf_name = c->conf_name,
                                    .program = c->plugin,
                                    .plugin = plugin};
}

static int start_install(struct agent *g, struct sw_err *err)
{
    const struct sw_agent_config *c = g->config;
    struct sw_json *entry = sw_json_new_object(&g->arena);
    struct sw_json *excluded;
    struct sw_install_opts o;

    if (!c->install)
        return SW_OK;
    sw_json_put_text(&g->arena, entry, "type", SW_CNI_PLUGIN);
    sw_json_put_text(&g->arena, entry, "name", SW_CNI_PLUGIN);
    sw_json_put_text(&g->arena, entry, "agentSocket", c->plugin_socket);
    excluded = sw_json_put_array(&g->arena, entry, "excludeNamespaces");
    for (size_t i = 0; i < c->excluded.n; i++)
        sw_json_push(&g->arena, excluded, sw_json_new_str(&g->arena, c->excluded.p[i]));
    o = install_opts(c, entry);
    g->install = sw_install_new(g->loop, &o, err);
    return g->install ? SW_OK : err->rc;
}

/*
 * What the control plane sent last. A node proxy that still runs cannot write it again: its
 * directory is no more. Names as in node/mesh/store.c; whatever else is there stays.
 */
static void remove_node_state(const struct sw_agent_config *c)
{
    static const char *const names[] = {"mesh.state", "mesh.state.new"};
    SW_ARENA_AUTO a = {0};

    if (!c->node_state_dir)
        return;
    for (size_t i = 0; i < SW_ARRAY_LEN(names); i++)
        (void)unlink(sw_arena_printf(&a, "%s/%s", c->node_state_dir, names[i]));
    if (rmdir(c->node_state_dir) != 0 && errno != ENOENT)
        sw_log_warn("agent", "cannot remove '%s': %s", c->node_state_dir, sw_errno_text(errno));
}

static void finish_uninstall(struct agent *g)
{
    struct sw_install_opts o = install_opts(g->config, NULL);
    struct sw_err err = {0};
    size_t left = g->pods.n;
    struct sw_http_resp *resp = SW_TAKE(g->uninstall_resp);

    sw_install_free(SW_TAKE(g->install));
    if (g->config->install && sw_install_remove(&o, &err) != SW_OK)
        sw_log_error("install", "%s", err.msg);
    remove_node_state(g->config);
    sw_log_info("agent", "uninstalled; %zu pods could not leave the mesh", left);
    if (resp && (left || err.rc != SW_OK))
        sw_http_send_text(resp, 500, "%zu pods could not leave the mesh; %s\n", left, err.msg);
    else if (resp)
        sw_http_send_text(resp, 200, "uninstalled\n");
    sw_loop_stop(g->loop);
}

static void on_uninstall(struct sw_timer *t)
{
    struct agent *g = SW_CONTAINER_OF(t, struct agent, uninstall);

    if ((g->pods.n || g->host_jobs) && g->uninstall_turns++ < UNINSTALL_S * 10)
        sw_timer_start(g->loop, t, 100 * SW_NS_PER_MS, on_uninstall);
    else
        finish_uninstall(g);
}

static void on_requester_gone(void *arg)
{
    ((struct agent *)arg)->uninstall_resp = NULL;
}

void agent_uninstall(struct agent *g, struct sw_http_resp *resp)
{
    if (g->uninstalling) {
        sw_http_send_text(resp, 503, "under way already\n");
        return;
    }
    g->uninstalling = true;
    g->uninstall_resp = resp;
    if (resp)
        sw_http_on_gone(resp, on_requester_gone, g);
    sw_log_info("agent", "uninstalling: all pods leave the mesh");
    /* The entry first, or new pods would wait for an agent that goes. */
    sw_install_free(SW_TAKE(g->install));
    if (g->config->install) {
        struct sw_install_opts o = install_opts(g->config, NULL);

        (void)!sw_install_remove(&o, NULL);
    }
    sw_timer_stop(g->loop, &g->probes);
    if (g->config->probes)
        change_host(g, sw_probes_removal());
    agent_pods_leave(g);
    sw_timer_start(g->loop, &g->uninstall, 100 * SW_NS_PER_MS, on_uninstall);
}

/* ---- without a running agent ---- */

static void clean_pod(int netns_fd, void *arg)
{
    struct sw_err err = {0};

    if (sw_redirect_remove(netns_fd, &err) != SW_OK)
        (void)fprintf(stderr, "spanwire: %s\n", err.msg);
}

/* Pods that ran before they joined are in no record: nothing but their processes shows them. */
static void clean_found(int netns_fd, void *arg)
{
    if (sw_redirect_verify(netns_fd, NULL) == SW_OK)
        clean_pod(netns_fd, arg);
}

static int clean_host(const struct sw_agent_config *c, struct sw_err *err)
{
    struct sw_install_opts o = install_opts(c, NULL);
    SW_AUTO_FD host = -1;
    int rc = c->install ? sw_install_remove(&o, err) : SW_OK;

    agent_record_each(c, clean_pod, NULL);
    sw_pod_netns_each(c->host_proc, clean_found, NULL);
    (void)unlink(c->plugin_socket); /* of an agent that was killed */
    (void)unlink(c->zds_socket);
    remove_node_state(c);
    if (rc == SW_OK && c->host_netns)
        rc = sw_netns_open(c->host_netns, &host, err);
    if (rc == SW_OK && c->probes)
        rc = sw_redirect_run(host, sw_probes_removal(), err);
    return rc;
}

int sw_agent_uninstall(const struct sw_agent_config *c, struct sw_err *err)
{
    const struct sw_cni_post post = {.socket = c->plugin_socket,
                                     .path = "/uninstall",
                                     .body = SW_SLICE_LIT("{}"),
                                     .deadline_ns = sw_now_ns() + 2 * UNINSTALL_S * SW_NS_PER_S};
    SW_BUF_AUTO answer = {.max = 1024};
    int status = 0;
    int rc = sw_cni_call(&post, &status, &answer, err);

    if (rc == SW_EUNAVAIL)
        return clean_host(c, err);
    if (rc == SW_OK && status != 200)
        return sw_err_set(err, SW_EDENIED, "agent: %.*s",
                          SW_SLICE_ARG(sw_slice_head(sw_buf_slice(&answer), 150)));
    return rc;
}

/* ---- life ---- */

static void leave_all(struct agent *g)
{
    sw_log_info("agent", "ending; pods stay in the mesh");
    sw_loop_stop(g->loop);
}

static void ask_for_daemonset(struct agent *g);

static void on_ask_again(struct sw_timer *t)
{
    ask_for_daemonset(SW_CONTAINER_OF(t, struct agent, ask));
}

/*
 * Gone, going, or gone with our account: an uninstallation. Anything else is an upgrade. Who
 * uninstalls takes the rights away before the account, as a rule: it is waited for.
 */
static void on_daemonset(void *arg, struct sw_kube_reply *r)
{
    struct agent *g = arg;
    bool going = r->rc == SW_ENOENT || r->code == 401;

    if (r->rc == SW_OK)
        going = sw_json_walk(r->object, "metadata", "deletionTimestamp", NULL) != NULL;
    if (g->ending || g->uninstalling)
        return;
    if (going)
        agent_uninstall(g, NULL);
    else if (r->code == 403 && g->ask_turns++ < ASK_TURNS)
        sw_timer_start(g->loop, &g->ask, ASK_AGAIN_MS * SW_NS_PER_MS, on_ask_again);
    else
        leave_all(g);
}

static void ask_for_daemonset(struct agent *g)
{
    const struct sw_agent_config *c = g->config;
    const struct sw_kube_req req = {
        .verb = SW_KUBE_GET,
        .gvr = &sw_daemonsets_gvr,
        .ns = sw_slice_str(c->pod_namespace ? c->pod_namespace : "default"),
        .name = sw_slice_str(c->daemonset),
        .timeout_ns = ASK_S * SW_NS_PER_S,
    };

    (void)sw_kube_do(g->client, &req, on_daemonset, g);
}

/* The next agent continues with everything, unless there will be none. */
static void on_signal(int signo, void *arg)
{
    struct agent *g = arg;

    if (g->uninstalling && signo == SIGTERM)
        return; /* it ends by itself */
    if (!g->config->daemonset || g->asking) {
        leave_all(g);
        return;
    }
    g->asking = true;
    ask_for_daemonset(g);
}

static bool pending(void *arg, struct sw_buf *out)
{
    const struct agent *g = arg;

    if (!g->install || sw_install_done(g->install))
        return false;
    (void)!sw_buf_append_str(out, "plugin");
    return true;
}

static int start_admin(struct agent *g, struct sw_err *err)
{
    const struct sw_admin_opts o = {
        .title = "spanwire cni agent",
        .admin = {g->config->admin_addr},
        .one_port = true,
        .pages = g->config->pages_addr,
        .access = g->config->access,
        .metrics = g->metrics,
        .ready = g->ready,
        .pending = pending,
        .log_filter = g->config->log_level,
        .arg = g,
    };

    g->admin = sw_admin_new(g->loop, &o, err);
    return g->admin ? SW_OK : err->rc;
}

static int make_dirs(const struct sw_agent_config *c, struct sw_err *err)
{
    SW_ARENA_AUTO a = {0};
    const char *paths[] = {sw_arena_printf(&a, "%s/pods", c->run_dir), c->zds_socket,
                           c->plugin_socket};
    int rc = sw_make_dirs(paths[0], err);

    for (size_t i = 1; i < SW_ARRAY_LEN(paths) && rc == SW_OK; i++) {
        struct sw_slice s = sw_slice_str(paths[i]);
        ptrdiff_t end = sw_slice_rfind(s, '/');

        if (end > 0)
            rc = sw_make_dirs(sw_arena_dup(&a, sw_slice_head(s, (size_t)end)), err);
    }
    return rc;
}

static int start_host(struct agent *g, struct sw_err *err)
{
    const struct sw_agent_config *c = g->config;
    uint64_t uid = 0;
    int rc = make_dirs(c, err);

    if (rc == SW_OK && c->host_netns)
        rc = sw_netns_open(c->host_netns, &g->host_fd, err);
    if (c->probe_uid_text)
        (void)!sw_slice_to_u64(sw_slice_str(c->probe_uid_text), UINT32_MAX - 1, &uid);
    g->probe_uid = c->probe_uid_text ? (unsigned)uid : sw_kubelet_uid(c->host_proc);
    return rc;
}

static int start(struct agent *g, struct sw_err *err)
{
    static const int signos[] = {SIGTERM, SIGINT};
    int rc;

    g->loop = sw_loop_new(err);
    if (!g->loop)
        return err->rc;
    g->signals = sw_signals_new(g->loop, signos, SW_ARRAY_LEN(signos), on_signal, g, err);
    if (!g->signals)
        return err->rc;
    (void)sw_sock_raise_fd_limit(); /* one for each pod, and one more while it is handed over */
    g->metrics = sw_metrics_new(&(struct sw_metrics_opts){.component = "cni"});
    g->shard = sw_metrics_shard_new(g->metrics);
    g->ready = sw_ready_new();
    sw_ready_add(g->ready, "api");
    rc = start_host(g, err);
    if (rc == SW_OK) {
        g->jobs = sw_jobs_new(g->loop, err);
        rc = g->jobs ? SW_OK : err->rc;
    }
    rc = rc == SW_OK ? start_informers(g, err) : rc;
    if (rc == SW_OK) {
        g->zds = sw_zds_server_new(g->loop, g->config->zds_socket, &agent_pods_zds, g, err);
        rc = g->zds ? SW_OK : err->rc;
    }
    rc = rc == SW_OK ? agent_calls_start(g, err) : rc;
    rc = rc == SW_OK ? start_admin(g, err) : rc;
    rc = rc == SW_OK ? start_install(g, err) : rc;
    if (rc != SW_OK)
        return rc;
    sw_informer_start(g->namespaces);
    sw_informer_start(g->pods_of_node);
    sw_timer_start(g->loop, &g->verify, g->config->verify_ns, on_verify);
    return SW_OK;
}

static void stop(struct agent *g)
{
    g->ending = true;
    if (g->loop) {
        sw_timer_stop(g->loop, &g->probes);
        sw_timer_stop(g->loop, &g->verify);
        sw_timer_stop(g->loop, &g->uninstall);
        sw_timer_stop(g->loop, &g->ask);
    }
    sw_install_free(g->install);
    sw_admin_free(g->admin);
    agent_calls_done(g);
    sw_zds_server_free(g->zds);
    sw_jobs_free(g->jobs);
    sw_informer_free(g->pods_of_node);
    sw_informer_free(g->namespaces);
    if (g->events)
        sw_recorder_free(g->events);
    if (g->client)
        sw_kube_client_free(g->client);
    for (int i = 0; g->loop && i < LAST_TURNS; i++)
        sw_loop_turn(g->loop, 0);
    agent_pods_done(g);
    sw_signals_free(g->signals);
    sw_loop_free(g->loop);
    sw_sock_close(g->host_fd);
    if (g->shard)
        sw_metrics_shard_free(g->shard);
    sw_metrics_free(g->metrics);
    sw_ready_free(g->ready);
    sw_arena_clear(&g->arena);
}

int sw_agent_run(const struct sw_agent_config *c, struct sw_err *err)
{
    struct agent g = {.config = c, .host_fd = -1};
    int rc;

    sw_list_init(&g.calls);
    rc = start(&g, err);
    if (rc == SW_OK)
        sw_loop_run(g.loop);
    stop(&g);
    return rc;
}
