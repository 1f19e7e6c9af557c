/* SPDX-License-Identifier: Apache-2.0 */
/* The resources are those we serve over xDS, as JSON, put where Envoy looks for them. */
#include "control/envoy/tunnel.h"

#include <assert.h>

#include <proto/cluster.pb-c.h>
#include <proto/listener.pb-c.h>

#include "base/json.h"
#include "control/gateway/xds/xds_int.h"
#include "io/addr.h"
#include "proto/json.h"
#include "yaml/yaml.h"

static const char extension[] =
    "[{\"name\":\"envoy.bootstrap.internal_listener\",\"typed_config\":{"
    "\"@type\":\"type.googleapis.com/envoy.extensions.bootstrap.internal_listener.v3."
    "InternalListener\"}}]";

static struct sw_json *own_text(struct sw_arena *a, const char *text)
{
    struct sw_json *v = NULL;
    int rc = sw_json_parse(a, sw_slice_str(text), NULL, &v, NULL);

    assert(rc == SW_OK);
    return v;
}

static struct sw_json *listener_json(struct sw_arena *a, const struct sw_model_xds_conf *conf)
{
    struct enc e = {.a = a, .conf = conf};

    return sw_pb_to_json(a, &sw_gwx_tunnel_listener(&e)->base, true);
}

static struct sw_json *proxy_json(struct sw_arena *a, const struct sw_model_xds_conf *conf)
{
    struct enc e = {.a = a, .conf = conf};

    return sw_pb_to_json(a, &sw_gwx_connect_proxy(&e)->base, true);
}

/* ---- Envoy Gateway ---- */

static void add_patch(struct sw_arena *a, struct sw_json *list, const char *path,
                      struct sw_json *value)
{
    struct sw_json *p = sw_json_new_object(a);

    sw_json_put(a, p, "op", sw_json_new_str(a, "add"));
    sw_json_put(a, p, "path", sw_json_new_str(a, path));
    sw_json_put(a, p, "value", value);
    sw_json_push(a, list, p);
}

int sw_envoy_patch_write(const struct sw_model_xds_conf *conf, struct sw_slice ns,
                         struct sw_slice name, struct sw_buf *out, struct sw_err *err)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *obj =
        own_text(&a, "{\"apiVersion\":\"gateway.envoyproxy.io/v1alpha1\",\"kind\":\"EnvoyProxy\","
                     "\"metadata\":{},\"spec\":{\"bootstrap\":{\"type\":\"JSONPatch\","
                     "\"jsonPatches\":[]}}}");
    struct sw_json *list = sw_json_walk(obj, "spec", "bootstrap", "jsonPatches", NULL);

    sw_json_put_str(&a, sw_json_find(obj, "metadata"), "name", name);
    sw_json_put_str(&a, sw_json_find(obj, "metadata"), "namespace", ns);
    add_patch(&a, list, "/bootstrap_extensions", own_text(&a, extension));
    /* Envoy Gateway's bootstrap has both lists. */
    add_patch(&a, list, "/static_resources/listeners/-", listener_json(&a, conf));
    add_patch(&a, list, "/static_resources/clusters/-", proxy_json(&a, conf));
    return sw_yaml_write(out, obj) == SW_OK ? SW_OK : sw_err_set(err, SW_ELIMIT, "no room");
}

/* ---- an Envoy for one connector ---- */

/* '%' begins an operator of Envoy's formats. */
static struct sw_slice literal(struct sw_arena *a, struct sw_slice s)
{
    char *out = sw_arena_alloc(a, 2 * s.n + 1);
    size_t n = 0;

    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '%')
            out[n++] = '%';
        out[n++] = s.p[i];
    }
    return sw_slice(out, n);
}

static void set_listener(struct sw_arena *a, struct sw_json *l, const struct sw_envoy_tunnel *t)
{
    struct sw_json *filter =
        sw_json_at(sw_json_find(sw_json_at(sw_json_find(l, "filter_chains"), 0), "filters"), 0);
    struct sw_json *tunnel = sw_json_walk(filter, "typed_config", "tunneling_config", NULL);
    struct sw_json *id =
        sw_json_find(sw_json_at(sw_json_find(tunnel, "headers_to_add"), 0), "header");
    struct sw_json *address = sw_json_new_object(a);
    struct sw_json *socket = sw_json_new_object(a);

    /* Nothing comes with the connection here: both are fixed. */
    sw_json_put_str(a, tunnel, "hostname", literal(a, t->target));
    sw_json_put_str(a, id, "value", literal(a, t->id));
    (void)sw_json_remove(l, SW_SLICE_LIT("internal_listener"));
    sw_json_put_str(a, socket, "address", t->listen);
    sw_json_put(a, socket, "port_value", sw_json_new_i64(a, t->port));
    sw_json_put(a, address, "socket_address", socket);
    sw_json_put(a, l, "address", address);
}

int sw_envoy_tunnel_write(const struct sw_envoy_tunnel *t, struct sw_buf *out, struct sw_err *err)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *root =
        own_text(&a, "{\"static_resources\":{\"listeners\":[],\"clusters\":[]}}");
    struct sw_json *l = listener_json(&a, &t->conf);
    struct sw_slice host;
    struct sw_ip ip;
    uint16_t port;
    int rc = sw_authority_split(t->target, &host, &port, err);

    if (rc != SW_OK)
        return sw_err_prefix(err, "the target");
    if (!t->id.n || !t->port || sw_ip_parse(t->listen, &ip, NULL) != SW_OK)
        return sw_err_set(err, SW_EINVAL, "a tunnel needs an id, an IP address and a port");
    set_listener(&a, l, t);
    sw_json_push(&a, sw_json_walk(root, "static_resources", "listeners", NULL), l);
    sw_json_push(&a, sw_json_walk(root, "static_resources", "clusters", NULL),
                 proxy_json(&a, &t->conf));
    return sw_yaml_write(out, root) == SW_OK ? SW_OK : sw_err_set(err, SW_ELIMIT, "no room");
}
