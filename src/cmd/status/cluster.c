/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/status/cluster.h"

#include "control/gateway/controller.h"

#define LABEL "app.kubernetes.io/name=spanwire-control" /* as in deploy/kubernetes */

enum { PAGES_PORT = 15021, REPLICAS_MAX = 64 };

static const struct sw_kube_gvr classes = {"gateway.networking.k8s.io", "v1", "gatewayclasses",
                                           "GatewayClass", false};
static const struct sw_kube_gvr gateways = {"gateway.networking.k8s.io", "v1", "gateways",
                                            "Gateway", true};
static const struct sw_kube_gvr pods = {"", "v1", "pods", "Pod", true};

/* One walk: classes, Gateways, pods, then each pod. */
struct walk {
    struct sw_cmd_api *api;
    const char *ns;
    uint64_t timeout_ns;
    struct sw_json *status;
    struct sw_json *list[3]; /* gateways, replicas, clients */
    struct sw_err *err;      /* the first failure */
};

enum { GATEWAYS, REPLICAS, CLIENTS };

static int ask(struct walk *w, struct sw_kube_req req, struct sw_cmd_reply *ret)
{
    req.timeout_ns = w->timeout_ns;
    return sw_cmd_api_do(w->api, &req, ret);
}

static struct sw_slice meta(const struct sw_json *o, const char *key)
{
    return sw_json_str(sw_json_walk(o, "metadata", key, NULL));
}

/* The items of a list. *ret_message, which may be NULL, is set when it cannot be had. */
static const struct sw_json *list(struct walk *w, struct sw_kube_req req,
                                  struct sw_slice *ret_message)
{
    struct sw_cmd_reply r;

    req.verb = SW_KUBE_LIST;
    if (ask(w, req, &r) == SW_OK)
        return sw_json_find(r.object, "items");
    if (w->err->rc == SW_OK)
        (void)sw_err_set(w->err, r.rc, "%.*s", SW_SLICE_ARG(r.message));
    if (ret_message)
        *ret_message = r.message;
    return NULL;
}

/* ---- control planes ---- */

static void add_clients(struct walk *w, const struct sw_json *from, struct sw_slice replica)
{
    for (size_t i = 0; sw_json_is(from, SW_JSON_ARRAY) && i < sw_json_len(from); i++) {
        struct sw_json *c = sw_json_copy(&w->api->arena, sw_json_at(from, i));

        if (!sw_json_is(c, SW_JSON_OBJECT))
            continue;
        sw_json_put_str(&w->api->arena, c, "replica", replica);
        sw_json_push(&w->api->arena, w->list[CLIENTS], c);
    }
}

/* The port called "pages" of its containers. */
static int64_t pages_port(const struct sw_json *pod)
{
    const struct sw_json *containers = sw_json_walk(pod, "spec", "containers", NULL);
    int64_t port = PAGES_PORT;

    for (size_t i = 0; i < sw_json_len(containers); i++) {
        const struct sw_json *ports = sw_json_find(sw_json_at(containers, i), "ports");

        SW_JSON_ITEMS (p, ports) {
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

static void add_replica(struct walk *w, const struct sw_json *pod)
{
    struct sw_arena *a = &w->api->arena;
    struct sw_slice name = meta(pod, "name");
    struct sw_json *replica = sw_json_new_object(a);
    struct sw_kube_req req = {.verb = SW_KUBE_GET, .once = true};
    struct sw_cmd_reply r;

    if (!is_name(name))
        return;
    req.path = sw_arena_printf(a, "/api/v1/namespaces/%s/pods/%.*s:%lld/proxy/debug/xds", w->ns,
                               SW_SLICE_ARG(name), (long long)pages_port(pod));
    sw_json_put_str(a, replica, "name", name);
    if (ask(w, req, &r) == SW_OK) {
        struct sw_json *controllers = sw_json_find(r.object, "controllers");

        if (controllers)
            sw_json_put(a, replica, "controllers", controllers);
        add_clients(w, sw_json_find(r.object, "clients"), name);
    } else {
        sw_json_put_str(a, replica, "error", r.message);
    }
    sw_json_push(a, w->list[REPLICAS], replica);
}

/* False: there are none, or they cannot be listed. */
static bool add_replicas(struct walk *w)
{
    struct sw_slice error = {0};
    const struct sw_json *found = list(
        w, (struct sw_kube_req){.gvr = &pods, .ns = sw_slice_str(w->ns), .label_selector = LABEL},
        &error);

    if (error.n)
        sw_json_put_str(&w->api->arena, w->status, "error", error);
    for (size_t i = 0; i < sw_min(sw_json_len(found), REPLICAS_MAX); i++)
        add_replica(w, sw_json_at(found, i));
    return sw_json_len(found) > 0;
}

/* ---- Gateways ---- */

static bool is_ours(const struct sw_json *known, struct sw_slice class)
{
    SW_JSON_ITEMS (c, known) {
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
    struct sw_arena *a = &w->api->arena;
    struct sw_json *o = sw_json_new_object(a);
    const struct sw_json *addresses = sw_json_walk(gateway, "status", "addresses", NULL);
    const struct sw_json *state = programmed(gateway);

    sw_json_put_str(a, o, "namespace", meta(gateway, "namespace"));
    sw_json_put_str(a, o, "name", meta(gateway, "name"));
    sw_json_put_str(a, o, "address", sw_json_str(sw_json_find(sw_json_at(addresses, 0), "value")));
    sw_json_put_str(a, o, "programmed", sw_json_str(sw_json_find(state, "status")));
    sw_json_put_str(a, o, "reason", sw_json_str(sw_json_find(state, "reason")));
    sw_json_put_str(a, o, "message", sw_json_str(sw_json_find(state, "message")));
    sw_json_push(a, w->list[GATEWAYS], o);
}

/* False: they or their classes cannot be listed. */
static bool add_gateways(struct walk *w)
{
    const struct sw_json *known = list(w, (struct sw_kube_req){.gvr = &classes}, NULL);
    const struct sw_json *found = list(w, (struct sw_kube_req){.gvr = &gateways}, NULL);

    SW_JSON_ITEMS (g, found) {
        if (is_ours(known, sw_json_str(sw_json_walk(g, "spec", "gatewayClassName", NULL))))
            add_gateway(w, g);
    }
    return known && found;
}

struct sw_json *sw_status_cluster(struct sw_cmd_api *api, const char *ns, uint64_t timeout_ns,
                                  struct sw_err *err)
{
    static const char *const names[] = {
        [GATEWAYS] = "gateways", [REPLICAS] = "replicas", [CLIENTS] = "clients"};
    struct walk w = {.api = api, .ns = ns, .timeout_ns = timeout_ns, .err = err};
    bool read;

    w.status = sw_json_new_object(&api->arena);
    for (size_t i = 0; i < SW_ARRAY_LEN(names); i++) {
        w.list[i] = sw_json_new_array(&api->arena);
        sw_json_put(&api->arena, w.status, names[i], w.list[i]);
    }
    read = add_gateways(&w);
    return add_replicas(&w) || read ? w.status : NULL;
}
