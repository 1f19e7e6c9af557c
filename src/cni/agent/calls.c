/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin's socket. ADD is held until the pod is in the mesh, or known not to belong there, or
 * time is over: then the plugin gets the reason, and the runtime retries.
 */
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "cni/agent/agent_int.h"
#include "cni/agent/enrol.h"
#include "io/netns.h"
#include "io/sock.h"
#include "kube/client/kinds.h"

#define ANOTHER_POD "the API shows another pod of this name"
#define NEW_LABELS  "the agent has not seen the labels of the pod yet"

enum {
    AGAIN_MS = 50,
    NAME_MAX_LEN = 253,
    ASK_S = 2,
    ASK_AGAIN_S = 1,
    TELL_S = 1,        /* a call that waits longer is in the pod's events */
    OTHER_CONNS = 128, /* for DEL, CHECK, GC and STATUS while as many ADDs wait as may */
};

struct call {
    struct sw_list link;
    struct agent *agent;
    struct sw_http_resp *resp;
    struct sw_arena arena;
    struct sw_slice key; /* "namespace/name"; this and the next: in the arena, terminated */
    struct sw_slice uid; /* from the runtime, or the API where it does not give one */
    const char *netns;
    const char *container_id;
    uint64_t start_ns;
    uint64_t deadline_ns;
    char *pod_uid;              /* owned; attached to this pod */
    const char *waits_for;      /* a literal, as is the next */
    const char *told;           /* in the pod's events last */
    struct sw_kube_call *asked; /* for the pod, then its namespace, as they are now */
    uint64_t ask_ns;            /* not before */
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
    sw_metric_count(g->shard, SW_METRIC_CNI_ADDS, result);
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

struct sw_kube_obj *agent_pod_of(const struct agent *g, struct sw_slice key, struct sw_slice uid,
                                 const char **ret_waits)
{
    struct sw_kube_obj *o = sw_informer_get(g->pods_of_node, key);

    if (!g->synced)
        *ret_waits = "the agent waits for the API";
    else if (!o)
        *ret_waits = "the API does not show the pod on this node";
    else if (uid.n && !sw_enrol_has_uid(o->json, uid))
        *ret_waits = ANOTHER_POD;
    else if (!agent_namespace_of(g, o))
        *ret_waits = "the API does not show the pod's namespace";
    else
        return o;
    return NULL;
}

/*
 * An Event of a pod that the API may not have shown yet: the runtime knows its uid. Without one the
 * Event could not be found.
 */
static void record_event(struct agent *g, struct sw_slice key, struct sw_slice uid,
                         const char *text)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *about = sw_json_new_object(&a);
    struct sw_json *meta = sw_json_put_object(&a, about, "metadata");
    struct sw_slice name = key;

    if (uid.n == 0)
        return;
    sw_json_put_str(&a, meta, "namespace", sw_slice_cut(&name, '/'));
    sw_json_put_str(&a, meta, "name", name);
    sw_json_put_str(&a, meta, "uid", uid);
    sw_recorder_event(g->events, &(struct sw_event_about){about, "v1", "Pod"}, SW_EVENT_WARNING,
                      "WaitingForMesh", "Waiting for the node agent: %s", text);
}

static void tell(struct call *c, const char *waits_for)
{
    struct agent *g = c->agent;
    struct sw_kube_obj *o = sw_informer_get(g->pods_of_node, c->key);

    if (c->told && strcmp(c->told, waits_for) == 0)
        return;
    c->told = waits_for;
    sw_log_info("plugin", "ADD of %.*s waits: %s", SW_SLICE_ARG(c->key), waits_for);
    record_event(g, c->key, c->uid.n || !o ? c->uid : o->uid, waits_for);
}

/* Short waits are normal: the watch is behind the runtime, rules take a moment. */
static void tell_long_wait(struct call *c, const char *waits_for)
{
    if (sw_loop_now(c->agent->loop) - c->start_ns >= TELL_S * SW_NS_PER_S)
        tell(c, waits_for);
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

/* ---- a pod that seems to be outside ---- */

/*
 * The watches may be behind, or silent while the API is unreachable: a pod that the mesh is to have
 * would start without it. Only present answers of the API let a pod pass: of the pod, whose own
 * labels come first, and of its namespace. By lists, for which the rights are there anyway.
 */
static void ask(struct call *c, const struct sw_kube_gvr *gvr, struct sw_slice ns,
                struct sw_slice name, sw_kube_cb cb)
{
    const char *selector = sw_arena_printf(&c->arena, "metadata.name=%.*s", SW_SLICE_ARG(name));

    c->asked = sw_kube_do(c->agent->client,
                          &(struct sw_kube_req){.verb = SW_KUBE_LIST,
                                                .gvr = gvr,
                                                .ns = ns,
                                                .field_selector = selector,
                                                .timeout_ns = ASK_S * SW_NS_PER_S},
                          cb, c);
}

/* What was asked for; NULL: asked again by a later step. */
static const struct sw_json *answered(struct call *c, const struct sw_kube_reply *r)
{
    c->asked = NULL;
    return r->rc == SW_OK ? sw_json_at(sw_json_find(r->object, "items"), 0) : NULL;
}

static void on_namespace_now(void *arg, struct sw_kube_reply *r)
{
    struct call *c = arg;
    const struct sw_json *ns = answered(c, r);
    const struct sw_kube_obj *seen;

    if (!ns) {
        c->waits_for = "the API does not say whether the pod's namespace is in the mesh";
        return;
    }
    if (!sw_enrol_by_namespace(ns)) {
        answer(c, 200, "passed", "neither the pod nor its namespace is in the mesh");
        return;
    }
    seen = sw_informer_get(c->agent->namespaces,
                           sw_json_str(sw_json_walk(ns, "metadata", "name", NULL)));
    c->waits_for = seen && sw_enrol_by_namespace(seen->json)
                       ? NEW_LABELS
                       : "the agent has not seen the labels of the pod's namespace yet";
    agent_calls_step(c->agent);
}

static void judge_pod(struct call *c, const struct sw_json *pod)
{
    const struct sw_opt_list *excluded = &c->agent->config->excluded;
    const char *why = sw_enrol_why_not(pod, NULL, excluded->p, excluded->n);
    struct sw_slice ns = sw_json_str(sw_json_walk(pod, "metadata", "namespace", NULL));

    if (why && sw_enrol_up_to_namespace(pod, excluded->p, excluded->n)) {
        ask(c, &sw_namespaces_gvr, sw_slice("", 0), ns, on_namespace_now);
    } else if (why) {
        answer(c, 200, "passed", why);
    } else {
        c->waits_for = NEW_LABELS;
        agent_calls_step(c->agent);
    }
}

static void on_pod_now(void *arg, struct sw_kube_reply *r)
{
    struct call *c = arg;
    const struct sw_json *pod = answered(c, r);
    struct sw_slice uid = sw_json_str(sw_json_walk(pod, "metadata", "uid", NULL));

    if (!pod || uid.n == 0) {
        c->waits_for = "the API does not say whether the pod is in the mesh";
        return;
    }
    if (c->uid.n == 0)
        c->uid = sw_arena_slice(&c->arena, uid);
    if (sw_enrol_has_uid(pod, c->uid))
        judge_pod(c, pod);
    else
        c->waits_for = ANOTHER_POD;
}

static void ask_for_pod(struct call *c)
{
    struct sw_slice name = c->key;
    struct sw_slice ns = sw_slice_cut(&name, '/');

    if (c->asked || sw_loop_now(c->agent->loop) < c->ask_ns)
        return;
    c->ask_ns = sw_loop_now(c->agent->loop) + ASK_AGAIN_S * SW_NS_PER_S;
    ask(c, &sw_pods_gvr, ns, name, on_pod_now);
}

/* By the call alone: these pods start without the API, which may be one of them. */
static bool excluded(const struct call *c)
{
    const struct sw_opt_list *list = &c->agent->config->excluded;
    struct sw_slice name = c->key;
    struct sw_slice ns = sw_slice_cut(&name, '/');

    for (size_t i = 0; i < list->n; i++) {
        if (sw_slice_eq_str(ns, list->p[i]))
            return true;
    }
    return false;
}

static void look(struct call *c)
{
    struct agent *g = c->agent;
    const struct sw_opt_list *no = &g->config->excluded;
    struct sw_kube_obj *o;

    if (g->uninstalling || excluded(c)) {
        answer(c, 200, "passed",
               g->uninstalling ? "the mesh is being uninstalled" : "the namespace is excluded");
        return;
    }
    o = agent_pod_of(g, c->key, c->uid, &c->waits_for);
    if (!o)
        return;
    if (c->uid.n && !sw_enrol_why_not(o->json, agent_namespace_of(g, o), no->p, no->n))
        attach(c, o);
    else
        ask_for_pod(c);
}

/* Before it is known whether the pod belongs to the mesh. */
static void step_unknown(struct call *c)
{
    const char *waits_for = c->waits_for ? c->waits_for : "the agent is busy";

    if (sw_loop_now(c->agent->loop) >= c->deadline_ns) {
        tell(c, waits_for);
        answer(c, 503, "timeout", waits_for);
        return;
    }
    if (c->waits_for)
        tell_long_wait(c, waits_for);
    look(c);
}

/* Of a pod that has not failed so far: failures have Events of their own. */
static const char *waits_for_step(const struct agent_pod *p)
{
    if (!p->rules)
        return "the redirection rules are not written yet";
    return "the node proxy has not acknowledged the pod yet";
}

static void call_step(struct call *c)
{
    struct agent *g = c->agent;
    struct agent_pod *p = NULL;

    if (!c->pod_uid) {
        step_unknown(c);
        return;
    }
    p = agent_pods_find(g, sw_slice_str(c->pod_uid));
    if (p && p->handed) {
        answer(c, 200, "enrolled", "in the mesh");
    } else if (!p || !p->wanted) {
        answer(c, 503, "failed", "the pod left the mesh meanwhile");
    } else {
        if (!p->failures)
            tell_long_wait(c, waits_for_step(p));
        if (sw_loop_now(g->loop) >= c->deadline_ns)
            answer(c, 503, "timeout", p->failures ? p->why.msg : waits_for_step(p));
    }
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

    SW_LIST_EACH (struct call, c, &g->calls, link)
        call_step(c);
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

bool agent_add_parse(struct sw_arena *a, const struct sw_json *body, struct agent_add *ret)
{
    *ret = (struct agent_add){.netns = text_of(a, body, "Netns", 1024),
                              .name = text_of(a, body, "PodName", NAME_MAX_LEN),
                              .ns = text_of(a, body, "PodNamespace", NAME_MAX_LEN),
                              .uid = text_of(a, body, "PodUID", 128),
                              .container_id = text_of(a, body, "ContainerID", 255)};
    return ret->netns && ret->netns[0] == '/' && ret->name && ret->name[0] && ret->ns &&
           ret->ns[0] && ret->uid && ret->container_id;
}

static void on_add(struct agent *g, const struct sw_json *body, struct sw_http_resp *resp)
{
    struct call *c;
    struct agent_add add;
    SW_ARENA_AUTO a = {0};

    if (!agent_add_parse(&a, body, &add)) {
        sw_http_send_text(resp, 400, "Netns, PodName or PodNamespace is missing or malformed\n");
        return;
    }
    if (g->n_calls >= AGENT_CALLS_MAX) {
        record_event(g, sw_slice_str(sw_arena_printf(&a, "%s/%s", add.ns, add.name)),
                     sw_slice_str(add.uid), "too many pods start at once");
        sw_http_send_text(resp, 503, "too many pods start at once\n");
        return;
    }
    c = SW_NEW(struct call);
    c->agent = g;
    c->resp = resp;
    c->arena = a;
    a = (struct sw_arena){0};
    c->key = sw_slice_str(sw_arena_printf(&c->arena, "%s/%s", add.ns, add.name));
    c->uid = sw_slice_str(add.uid);
    c->netns = add.netns;
    c->container_id = add.container_id;
    c->start_ns = sw_loop_now(g->loop);
    c->deadline_ns = c->start_ns + g->config->wait_ns;
    sw_list_push_back(&g->calls, &c->link);
    g->n_calls++;
    sw_http_on_gone(resp, on_gone, c);
    agent_calls_step(g);
}

/* Only of the known sandbox: a DEL may come late, after the ADD of the next one. */
static void on_del(struct agent *g, const struct sw_json *body, struct sw_http_resp *resp)
{
    SW_ARENA_AUTO a = {0};
    const char *id = text_of(&a, body, "ContainerID", 255);

    SW_MAP_EACH (struct agent_pod, p, &g->pods) {
        if (id && id[0] && p->container_id && strcmp(p->container_id, id) == 0)
            agent_pods_detach(p);
    }
    sw_http_send_text(resp, 200, "ok\n");
}

static void on_gc(struct agent *g, const struct sw_json *body, struct sw_http_resp *resp)
{
    const struct sw_json *list = sw_json_find(body, "ValidAttachments");

    if (list && !sw_json_is(list, SW_JSON_ARRAY)) {
        sw_http_send_text(resp, 400, "ValidAttachments is not a list\n");
        return;
    }
    SW_MAP_EACH (struct agent_pod, p, &g->pods) {
        if (list && p->container_id && p->container_id[0] &&
            !sw_json_find_item(list, "containerID", sw_slice_str(p->container_id)))
            agent_pods_detach(p);
    }
    sw_http_send_text(resp, 200, "ok\n");
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

int agent_body_parse(struct sw_arena *a, struct sw_slice text, struct sw_json **ret,
                     struct sw_err *err)
{
    static const struct sw_json_opts opts = {.max_depth = 16, .max_nodes = 100000};
    struct sw_json *body = NULL;
    int rc = sw_json_parse(a, text, &opts, &body, err);

    if (rc == SW_OK && !sw_json_is(body, SW_JSON_OBJECT))
        rc = sw_err_set(err, SW_EINVAL, "%s", "");
    if (rc == SW_OK)
        *ret = body;
    return rc;
}

static void handle(struct sw_http_req *req, struct sw_http_resp *resp, void *arg)
{
    struct agent *g = arg;
    struct sw_json *body = NULL;
    struct sw_err err = {0};

    if (!sw_slice_eq_str(req->msg->method, "POST")) {
        sw_http_send_not_allowed(resp, "POST");
    } else if (agent_body_parse(req->arena, req->body, &body, &err) != SW_OK) {
        sw_http_send_text(resp, 400, "not a JSON object: %s\n", err.msg);
    } else if (sw_slice_eq_str(req->path, "/cmdadd")) {
        on_add(g, body, resp);
    } else if (sw_slice_eq_str(req->path, "/cmddel")) {
        on_del(g, body, resp);
    } else if (sw_slice_eq_str(req->path, "/cmdcheck")) {
        agent_check(g, body, resp);
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
    sw_http_server_adopt(SW_CONTAINER_OF(a, struct agent, plugin_acceptor)->plugin_http, fd);
}

int agent_calls_start(struct agent *g, struct sw_err *err)
{
    const struct sw_http_server_opts o = {
        .scope = "plugin", .max_conns = AGENT_CALLS_MAX + OTHER_CONNS, .handler = handle, .arg = g};
    int fd = -1;
    int rc = sw_sock_listen_unix(SOCK_STREAM, g->config->plugin_socket, 0600, &fd, err);

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
    SW_LIST_EACH (struct call, c, &g->calls, link)
        call_free(c);
    sw_defer_cancel(&g->calls_due);
}
