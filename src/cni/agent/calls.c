/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin's socket. ADD is held until the pod is in the mesh, or known not to belong there, or
 * time is over: then the plugin gets the reason, and the runtime retries.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "cni/agent/agent_int.h"
#include "cni/agent/enrol.h"
#include "io/netns.h"
#include "io/sock.h"

enum { AGAIN_MS = 50, NAME_MAX_LEN = 253, ASK_S = 2, ASK_AGAIN_S = 1 };

static const struct sw_kube_gvr namespaces_gvr = {"", "v1", "namespaces", "Namespace", false};

struct call {
    struct sw_list link;
    struct agent *agent;
    struct sw_http_resp *resp;
    struct sw_arena arena;
    struct sw_slice key; /* "namespace/name"; this and the next: in the arena, terminated */
    struct sw_slice uid; /* as the runtime said; empty: it did not */
    const char *netns;
    const char *container_id;
    uint64_t deadline_ns;
    char *pod_uid; /* owned; attached to this pod */
    const char *waits_for;
    struct sw_kube_call *asked; /* for the namespace as it is now */
    uint64_t ask_ns;            /* not before */
    bool outside;               /* that says so, too */
};

static void call_free(struct call *c)
{
    sw_kube_call_cancel(c->asked);
    sw_list_unlink(&c->link);
    c->agent->n_calls--;
    sw_free(c->pod_uid);
    sw_arena_clear(&c->arena);
    sw_free(c);
}

static void count(struct agent *g, const char *result)
{
    sw_metric_add(sw_metric_get1(g->shard, SW_METRIC_CNI_ADDS, result), 1);
}

static void answer(struct call *c, int status, const char *result, const char *text)
{
    struct sw_http_resp *resp = c->resp;

    count(c->agent, result);
    if (status != 200)
        sw_log_warn("plugin", "ADD of %.*s answered %d: %s", SW_SLICE_ARG(c->key), status, text);
    call_free(c);
    sw_http_send_text(resp, status, "%s\n", text);
}

static void on_gone(void *arg)
{
    struct call *c = arg;

    count(c->agent, "gone");
    call_free(c);
}

/* ---- one ADD ---- */

/* The runtime's pod in the API's words; NULL with what is waited for. */
static struct sw_kube_obj *find_pod(const struct call *c, const char **ret_waits)
{
    struct sw_kube_obj *o = sw_informer_get(c->agent->pods_of_node, c->key);

    if (!c->agent->synced)
        *ret_waits = "the agent waits for the API";
    else if (!o)
        *ret_waits = "the API does not show the pod on this node";
    else if (c->uid.n && !sw_slice_eq(o->uid, c->uid))
        *ret_waits = "the API shows another pod of this name";
    else if (!agent_namespace_of(c->agent, o))
        *ret_waits = "the API does not show the pod's namespace";
    else
        return o;
    return NULL;
}

static void attach(struct call *c, struct sw_kube_obj *o)
{
    struct agent *g = c->agent;
    const char *path = sw_arena_printf(&c->arena, "%s%s", g->config->netns_prefix, c->netns);
    struct sw_err err = {0};
    int fd = -1;

    if (sw_netns_open(path, &fd, &err) != SW_OK) {
        answer(c, 500, "failed", err.msg);
        return;
    }
    c->pod_uid = sw_slice_dup(o->uid);
    if (!agent_pods_attach(g, o, fd, c->netns, c->container_id))
        answer(c, 503, "failed", "too many pods on this node");
}

static void on_namespace_now(void *arg, struct sw_kube_reply *r)
{
    struct call *c = arg;
    const struct sw_agent_config *conf = c->agent->config;
    const struct sw_json *ns =
        r->rc == SW_OK ? sw_json_at(sw_json_find(r->object, "items"), 0) : NULL;
    const struct sw_kube_obj *o = find_pod(c, &c->waits_for);

    c->asked = NULL;
    /* An API that does not answer must not keep others than the mesh's pods from starting. */
    c->outside =
        !ns || !o || sw_enrol_why_not(o->json, ns, conf->excluded.p, conf->excluded.n) != NULL;
    if (!c->outside)
        c->waits_for = "the agent has not seen the labels of the pod's namespace yet";
    agent_calls_step(c->agent);
}

/*
 * The watch of namespaces may be behind that of pods: a pod that the mesh is to have would start
 * without it. By a list, for which the right is there anyway.
 */
static void ask_for_namespace(struct call *c, struct sw_slice ns)
{
    struct agent *g = c->agent;
    const char *selector = sw_arena_printf(&c->arena, "metadata.name=%.*s", SW_SLICE_ARG(ns));

    if (c->asked || sw_loop_now(g->loop) < c->ask_ns)
        return;
    c->ask_ns = sw_loop_now(g->loop) + ASK_AGAIN_S * SW_NS_PER_S;
    c->asked = sw_kube_do(g->client,
                          &(struct sw_kube_req){.verb = SW_KUBE_LIST,
                                                .gvr = &namespaces_gvr,
                                                .field_selector = selector,
                                                .timeout_ns = ASK_S * SW_NS_PER_S},
                          on_namespace_now, c);
}

static void look(struct call *c)
{
    struct agent *g = c->agent;
    const char *why;
    struct sw_kube_obj *o = find_pod(c, &c->waits_for);

    if (!o)
        return;
    if (g->uninstalling) {
        answer(c, 200, "passed", "the mesh is being uninstalled");
        return;
    }
    why = sw_enrol_why_not(o->json, agent_namespace_of(g, o), g->config->excluded.p,
                           g->config->excluded.n);
    if (!why)
        attach(c, o);
    else if (c->outside ||
             !sw_enrol_up_to_namespace(o->json, g->config->excluded.p, g->config->excluded.n))
        answer(c, 200, "passed", why);
    else
        ask_for_namespace(c, o->ns);
}

static void call_step(struct call *c)
{
    struct agent *g = c->agent;
    struct agent_pod *p = NULL;

    if (!c->pod_uid) {
        bool late = sw_loop_now(g->loop) >= c->deadline_ns;

        if (late)
            answer(c, 503, "timeout", c->waits_for ? c->waits_for : "the agent is busy");
        else
            look(c);
        return;
    }
    p = agent_pods_find(g, sw_slice_str(c->pod_uid));
    if (p && p->handed)
        answer(c, 200, "enrolled", "in the mesh");
    else if (!p || !p->wanted)
        answer(c, 503, "failed", "the pod left the mesh meanwhile");
    else if (sw_loop_now(g->loop) >= c->deadline_ns)
        answer(c, 503, "timeout", p->failures ? p->why.msg : "the pod is not in the mesh yet");
}

static void on_due(struct sw_defer *d);

static void on_again(struct sw_timer *t)
{
    struct agent *g = SW_CONTAINER_OF(t, struct agent, calls_again);

    sw_loop_defer(g->loop, &g->calls_due, on_due);
}

static void on_due(struct sw_defer *d)
{
    struct agent *g = SW_CONTAINER_OF(d, struct agent, calls_due);

    SW_LIST_FOREACH (it, &g->calls)
        call_step(SW_CONTAINER_OF(it, struct call, link));
    if (!sw_list_empty(&g->calls) && !sw_timer_running(&g->calls_again))
        sw_timer_start(g->loop, &g->calls_again, AGAIN_MS * SW_NS_PER_MS, on_again);
}

void agent_calls_step(struct agent *g)
{
    if (!sw_list_empty(&g->calls))
        sw_loop_defer(g->loop, &g->calls_due, on_due);
}

/* ---- requests ---- */

/* Member of the body, "" when absent; NULL when it is no text or does not belong here. */
static const char *text_of(struct sw_arena *a, const struct sw_json *body, const char *key,
                           size_t max)
{
    const struct sw_json *v = sw_json_find(body, key);
    struct sw_slice s = sw_json_str(v);

    if (!v)
        return "";
    if (!s.p || s.n > max || memchr(s.p, '\0', s.n))
        return NULL;
    return sw_arena_dup(a, s);
}

static void on_add(struct agent *g, const struct sw_json *body, struct sw_http_resp *resp)
{
    struct call *c;
    SW_ARENA_AUTO a = {0};
    const char *netns = text_of(&a, body, "Netns", 1024);
    const char *name = text_of(&a, body, "PodName", NAME_MAX_LEN);
    const char *ns = text_of(&a, body, "PodNamespace", NAME_MAX_LEN);
    const char *uid = text_of(&a, body, "PodUID", 128);
    const char *id = text_of(&a, body, "ContainerID", 255);

    if (!netns || netns[0] != '/' || !name || !name[0] || !ns || !ns[0] || !uid || !id) {
        sw_http_send_text(resp, 400, "Netns, PodName or PodNamespace is missing or malformed\n");
        return;
    }
    if (g->n_calls >= AGENT_CALLS_MAX) {
        sw_http_send_text(resp, 503, "too many pods start at once\n");
        return;
    }
    c = SW_NEW(struct call);
    c->agent = g;
    c->resp = resp;
    c->arena = a;
    a = (struct sw_arena){0};
    c->key = sw_slice_str(sw_arena_printf(&c->arena, "%s/%s", ns, name));
    c->uid = sw_slice_str(uid);
    c->netns = netns;
    c->container_id = id;
    c->deadline_ns = sw_loop_now(g->loop) + g->config->wait_ns;
    sw_list_push_back(&g->calls, &c->link);
    g->n_calls++;
    sw_http_on_gone(resp, on_gone, c);
    agent_calls_step(g);
}

static struct agent_pod *named_pod(struct agent *g, struct sw_arena *a, const struct sw_json *body)
{
    const char *name = text_of(a, body, "PodName", NAME_MAX_LEN);
    const char *ns = text_of(a, body, "PodNamespace", NAME_MAX_LEN);
    const char *uid = text_of(a, body, "PodUID", 128);
    struct sw_kube_obj *o;

    if (!name || !ns || !uid)
        return NULL;
    if (uid[0])
        return agent_pods_find(g, sw_slice_str(uid));
    o = sw_informer_get(g->pods_of_node, sw_slice_str(sw_arena_printf(a, "%s/%s", ns, name)));
    return o ? agent_pods_find(g, o->uid) : NULL;
}

/* Only of the sandbox we know: a DEL may come late, after the ADD of the next one. */
static void on_del(struct agent *g, const struct sw_json *body, struct sw_http_resp *resp)
{
    SW_ARENA_AUTO a = {0};
    const char *id = text_of(&a, body, "ContainerID", 255);

    SW_MAP_FOREACH (it, &g->pods) {
        struct agent_pod *p = it->value;

        if (id && id[0] && p->container_id && strcmp(p->container_id, id) == 0)
            agent_pods_detach(p);
    }
    sw_http_send_text(resp, 200, "ok\n");
}

static bool listed(const struct sw_json *list, const char *id)
{
    for (size_t i = 0; i < sw_json_len(list); i++) {
        if (sw_json_str_eq(sw_json_find(sw_json_at(list, i), "containerID"), id))
            return true;
    }
    return false;
}

static void on_gc(struct agent *g, const struct sw_json *body, struct sw_http_resp *resp)
{
    const struct sw_json *list = sw_json_find(body, "ValidAttachments");

    SW_MAP_FOREACH (it, &g->pods) {
        struct agent_pod *p = it->value;

        if (list && p->container_id && p->container_id[0] && !listed(list, p->container_id))
            agent_pods_detach(p);
    }
    sw_http_send_text(resp, 200, "ok\n");
}

struct check {
    struct sw_http_resp *resp; /* NULL: the client went away */
};

static void on_check_gone(void *arg)
{
    ((struct check *)arg)->resp = NULL;
}

static void on_checked(void *arg, int rc, const struct sw_err *err)
{
    struct check *c = arg;

    if (c->resp)
        sw_http_send_text(c->resp, rc == SW_OK ? 200 : 500, "%s\n", rc == SW_OK ? "ok" : err->msg);
    sw_free(c);
}

static void on_check(struct agent *g, const struct sw_json *body, struct sw_http_resp *resp)
{
    SW_ARENA_AUTO a = {0};
    struct agent_pod *p = named_pod(g, &a, body);
    struct check *c;

    if (!p || !p->wanted) {
        sw_http_send_text(resp, 200, "not in the mesh\n");
        return;
    }
    if (!p->handed || p->netns_fd < 0) {
        sw_http_send_text(resp, 503, "%s\n", p->why.msg[0] ? p->why.msg : "not in the mesh yet");
        return;
    }
    c = SW_NEW(struct check);
    c->resp = resp;
    sw_http_on_gone(resp, on_check_gone, c);
    sw_jobs_add(g->jobs,
                &(struct sw_job){
                    .kind = SW_JOB_CHECK, .netns_fd = p->netns_fd, .cb = on_checked, .arg = c});
}

static void on_status(struct agent *g, struct sw_http_resp *resp)
{
    if (!g->synced)
        sw_http_send_text(resp, 503, "the agent waits for the API\n");
    else if (!sw_zds_server_newest(g->zds))
        sw_http_send_text(resp, 503, "the node proxy is not connected\n");
    else
        sw_http_send_text(resp, 200, "ok\n");
}

static void handle(struct sw_http_req *req, struct sw_http_resp *resp, void *arg)
{
    static const struct sw_json_opts opts = {.max_depth = 16, .max_nodes = 100000};
    struct agent *g = arg;
    struct sw_json *body = NULL;
    struct sw_err err = {0};

    if (!sw_slice_eq_str(req->msg->method, "POST")) {
        sw_http_send_not_allowed(resp, "POST");
    } else if (sw_json_parse(req->arena, req->body, &opts, &body, &err) != SW_OK ||
               !sw_json_is(body, SW_JSON_OBJECT)) {
        sw_http_send_text(resp, 400, "not a JSON object: %s\n", err.msg);
    } else if (sw_slice_eq_str(req->path, "/cmdadd")) {
        on_add(g, body, resp);
    } else if (sw_slice_eq_str(req->path, "/cmddel")) {
        on_del(g, body, resp);
    } else if (sw_slice_eq_str(req->path, "/cmdcheck")) {
        on_check(g, body, resp);
    } else if (sw_slice_eq_str(req->path, "/cmdgc")) {
        on_gc(g, body, resp);
    } else if (sw_slice_eq_str(req->path, "/status")) {
        on_status(g, resp);
    } else if (sw_slice_eq_str(req->path, "/uninstall")) {
        agent_uninstall(g, resp);
    } else {
        sw_http_send_text(resp, 404, "no such command\n");
    }
}

/* ---- life ---- */

static void on_accept(struct sw_acceptor *a, int fd, const struct sw_addr *peer)
{
    (void)peer;
    sw_http_server_adopt(SW_CONTAINER_OF(a, struct agent, plugin_acceptor)->plugin_http, fd);
}

int agent_calls_start(struct agent *g, struct sw_err *err)
{
    const struct sw_http_server_opts o = {
        .scope = "plugin", .max_conns = AGENT_CALLS_MAX, .handler = handle, .arg = g};
    int fd = -1;
    int rc = sw_sock_listen_unix(g->config->plugin_socket, 0600, &fd, err);

    if (rc != SW_OK)
        return rc;
    g->plugin_http = sw_http_server_new(g->loop, &o);
    sw_accept_init(&g->plugin_group, g->loop, "plugin");
    return sw_accept_open(&g->plugin_group, &g->plugin_acceptor, fd, on_accept, err);
}

void agent_calls_done(struct agent *g)
{
    if (!g->plugin_http)
        return;
    (void)unlink(g->config->plugin_socket);
    sw_accept_done(&g->plugin_group);
    sw_timer_stop(g->loop, &g->calls_again);
    sw_http_server_free(g->plugin_http);
    SW_LIST_FOREACH (it, &g->calls)
        call_free(SW_CONTAINER_OF(it, struct call, link));
    sw_defer_cancel(&g->calls_due);
}
