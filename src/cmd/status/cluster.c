/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/status/cluster.h"

#include "base/mem.h"
#include "control/gateway/controller.h"
#include "kube/client/client.h"

#define LABEL "app.kubernetes.io/name=spanwire-control" /* as in deploy/kubernetes */

enum { PAGES_PORT = 15021, REPLICAS_MAX = 64 };

static const struct sw_kube_gvr classes = {"gateway.networking.k8s.io", "v1", "gatewayclasses",
                                           "GatewayClass", false};
static const struct sw_kube_gvr gateways = {"gateway.networking.k8s.io", "v1", "gateways",
                                            "Gateway", true};
static const struct sw_kube_gvr pods = {"", "v1", "pods", "Pod", true};

/* One walk: classes, Gateways, pods, then each pod. */
struct walk {
    struct sw_kube_client *client;
    const char *ns;
    uint64_t timeout_ns;
    sw_status_cb cb;
    void *arg;
    struct sw_arena arena; /* of the answers, and of what is made of them */
    struct sw_json *status;
    struct sw_json *list[3]; /* gateways, replicas, clients */
    const struct sw_json *classes;
    const struct sw_json *pods;
    size_t next; /* pod */
    bool read;   /* Gateways or pods could be */
    struct sw_err err;
};

enum { GATEWAYS, REPLICAS, CLIENTS };

static void finish(struct walk *w)
{
    w->cb(w->arg, w->read ? w->status : NULL, &w->err);
    sw_arena_clear(&w->arena);
    sw_free(w);
}

static void ask(struct walk *w, const struct sw_kube_req *req, sw_kube_cb cb)
{
    struct sw_kube_req r = *req;

    r.timeout_ns = w->timeout_ns;
    (void)sw_kube_do(w->client, &r, cb, w);
}

static struct sw_slice meta(const struct sw_json *o, const char *key)
{
    return sw_json_str(sw_json_walk(o, "metadata", key, NULL));
}

/* The items of a list, kept; the first failure is remembered. */
static const struct sw_json *items_of(struct walk *w, const struct sw_kube_reply *r)
{
    if (r->rc == SW_OK)
        return sw_json_find(sw_json_copy(&w->arena, r->object), "items");
    if (w->err.rc == SW_OK)
        (void)sw_err_set(&w->err, r->rc, "%.*s", SW_SLICE_ARG(r->message));
    return NULL;
}

/* ---- control planes ---- */

static void ask_pod(struct walk *w);

static void add_clients(struct walk *w, const struct sw_json *from, struct sw_slice replica)
{
    for (size_t i = 0; sw_json_is(from, SW_JSON_ARRAY) && i < sw_json_len(from); i++) {
        struct sw_json *c = sw_json_copy(&w->arena, sw_json_at(from, i));

        if (!sw_json_is(c, SW_JSON_OBJECT))
            continue;
        sw_json_put_str(&w->arena, c, "replica", replica);
        sw_json_push(&w->arena, w->list[CLIENTS], c);
    }
}

static void on_pod(void *arg, struct sw_kube_reply *r)
{
    struct walk *w = arg;
    struct sw_slice name = meta(sw_json_at(w->pods, w->next), "name");
    struct sw_json *replica = sw_json_new_object(&w->arena);

    sw_json_put_str(&w->arena, replica, "name", name);
    if (r->rc == SW_OK) {
        const struct sw_json *controllers = sw_json_find(r->object, "controllers");

        if (controllers)
            sw_json_put(&w->arena, replica, "controllers", sw_json_copy(&w->arena, controllers));
        add_clients(w, sw_json_find(r->object, "clients"), name);
    } else {
        sw_json_put_str(&w->arena, replica, "error", sw_arena_slice(&w->arena, r->message));
    }
    sw_json_push(&w->arena, w->list[REPLICAS], replica);
    w->next++;
    ask_pod(w);
}

/* The port called "pages" of its containers. */
static int64_t pages_port(const struct sw_json *pod)
{
    const struct sw_json *containers = sw_json_walk(pod, "spec", "containers", NULL);
    int64_t port = PAGES_PORT;

    for (size_t i = 0; i < sw_json_len(containers); i++) {
        const struct sw_json *ports = sw_json_find(sw_json_at(containers, i), "ports");

        for (size_t k = 0; k < sw_json_len(ports); k++) {
            const struct sw_json *p = sw_json_at(ports, k);

            if (sw_json_str_eq(sw_json_find(p, "name"), "pages"))
                (void)!sw_json_i64(sw_json_find(p, "containerPort"), &port);
        }
    }
    return port;
}

/* Names go into a path: what the API server says is not taken on trust. */
static bool is_name(struct sw_slice s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];

        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '-' && c != '.')
            return false;
    }
    return s.n > 0 && s.p[0] != '.';
}

static void ask_pod(struct walk *w)
{
    const struct sw_json *pod;
    struct sw_kube_req req = {.verb = SW_KUBE_GET, .once = true};

    while (w->next < sw_json_len(w->pods) && !is_name(meta(sw_json_at(w->pods, w->next), "name")))
        w->next++;
    if (w->next >= sw_min(sw_json_len(w->pods), REPLICAS_MAX)) {
        finish(w);
        return;
    }
    pod = sw_json_at(w->pods, w->next);
    req.path = sw_arena_printf(&w->arena, "/api/v1/namespaces/%s/pods/%.*s:%lld/proxy/debug/xds",
                               w->ns, SW_SLICE_ARG(meta(pod, "name")), (long long)pages_port(pod));
    ask(w, &req, on_pod);
}

static void on_pods(void *arg, struct sw_kube_reply *r)
{
    struct walk *w = arg;

    w->pods = items_of(w, r);
    w->read |= sw_json_len(w->pods) > 0;
    if (r->rc != SW_OK)
        sw_json_put_str(&w->arena, w->status, "error", sw_arena_slice(&w->arena, r->message));
    ask_pod(w);
}

/* ---- Gateways ---- */

static bool is_ours(const struct walk *w, struct sw_slice class)
{
    for (size_t i = 0; i < sw_json_len(w->classes); i++) {
        const struct sw_json *c = sw_json_at(w->classes, i);

        if (sw_slice_eq(meta(c, "name"), class))
            return sw_json_str_eq(sw_json_walk(c, "spec", "controllerName", NULL),
                                  SW_GATEWAY_CONTROLLER_NAME);
    }
    return false;
}

static const struct sw_json *programmed(const struct sw_json *gateway)
{
    return sw_json_find_item(sw_json_walk(gateway, "status", "conditions", NULL), "type",
                             SW_SLICE_LIT("Programmed"));
}

static void add_gateway(struct walk *w, const struct sw_json *gateway)
{
    struct sw_json *o = sw_json_new_object(&w->arena);
    const struct sw_json *addresses = sw_json_walk(gateway, "status", "addresses", NULL);
    const struct sw_json *state = programmed(gateway);

    sw_json_put_str(&w->arena, o, "namespace", meta(gateway, "namespace"));
    sw_json_put_str(&w->arena, o, "name", meta(gateway, "name"));
    sw_json_put_str(&w->arena, o, "address",
                    sw_json_str(sw_json_find(sw_json_at(addresses, 0), "value")));
    sw_json_put_str(&w->arena, o, "programmed", sw_json_str(sw_json_find(state, "status")));
    sw_json_put_str(&w->arena, o, "reason", sw_json_str(sw_json_find(state, "reason")));
    sw_json_put_str(&w->arena, o, "message", sw_json_str(sw_json_find(state, "message")));
    sw_json_push(&w->arena, w->list[GATEWAYS], o);
}

static void on_gateways(void *arg, struct sw_kube_reply *r)
{
    struct walk *w = arg;
    const struct sw_json *items = items_of(w, r);
    const struct sw_kube_req req = {
        .verb = SW_KUBE_LIST, .gvr = &pods, .ns = sw_slice_str(w->ns), .label_selector = LABEL};

    w->read |= r->rc == SW_OK && w->classes;
    for (size_t i = 0; i < sw_json_len(items); i++) {
        const struct sw_json *g = sw_json_at(items, i);

        if (is_ours(w, sw_json_str(sw_json_walk(g, "spec", "gatewayClassName", NULL))))
            add_gateway(w, g);
    }
    ask(w, &req, on_pods);
}

static void on_classes(void *arg, struct sw_kube_reply *r)
{
    struct walk *w = arg;
    const struct sw_kube_req req = {.verb = SW_KUBE_LIST, .gvr = &gateways};

    w->classes = items_of(w, r);
    ask(w, &req, on_gateways);
}

void sw_status_cluster(struct sw_kube_client *c, const char *ns, uint64_t timeout_ns,
                       sw_status_cb cb, void *arg)
{
    static const char *const names[] = {
        [GATEWAYS] = "gateways", [REPLICAS] = "replicas", [CLIENTS] = "clients"};
    const struct sw_kube_req req = {.verb = SW_KUBE_LIST, .gvr = &classes};
    struct walk *w = SW_NEW(struct walk);

    w->client = c;
    w->ns = ns;
    w->timeout_ns = timeout_ns;
    w->cb = cb;
    w->arg = arg;
    w->status = sw_json_new_object(&w->arena);
    for (size_t i = 0; i < SW_ARRAY_LEN(names); i++) {
        w->list[i] = sw_json_new_array(&w->arena);
        sw_json_put(&w->arena, w->status, names[i], w->list[i]);
    }
    ask(w, &req, on_classes);
}
