/* SPDX-License-Identifier: Apache-2.0 */
/* A skeleton that is always the same, and the parts that the user chose. */
#include "control/envoy/bootstrap.h"

#include <assert.h>

#include "base/arena.h"
#include "base/json.h"
#include "io/addr.h"
#include "yaml/yaml.h"

#define TYPE "\"@type\":\"type.googleapis.com/envoy."

/*
 * Envoy refuses regular expressions of more than 100 instructions unless configured otherwise, and
 * with one of them every route of the port; what is too large is refused in the route's status
 * instead.
 */
static const char skeleton[] =
    "{\"node\":{},"
    "\"layered_runtime\":{\"layers\":[{\"name\":\"spanwire\",\"static_layer\":{"
    "\"re2.max_program_size.error_level\":4294967295,"
    "\"re2.max_program_size.warn_level\":100000}}]},"
    "\"dynamic_resources\":{"
    "\"ads_config\":{\"api_type\":\"DELTA_GRPC\",\"transport_api_version\":\"V3\","
    "\"set_node_on_first_message_only\":true,"
    "\"grpc_services\":[{\"envoy_grpc\":{\"cluster_name\":\"xds_cluster\"}}]},"
    "\"lds_config\":{\"ads\":{},\"resource_api_version\":\"V3\",\"initial_fetch_timeout\":\"0s\"},"
    "\"cds_config\":{\"ads\":{},\"resource_api_version\":\"V3\",\"initial_fetch_timeout\":\"0s\"}},"
    "\"static_resources\":{\"clusters\":[{\"name\":\"xds_cluster\",\"connect_timeout\":\"10s\","
    "\"typed_extension_protocol_options\":{"
    "\"envoy.extensions.upstreams.http.v3.HttpProtocolOptions\":{" TYPE
    "extensions.upstreams.http.v3.HttpProtocolOptions\","
    "\"explicit_http_config\":{\"http2_protocol_options\":{\"connection_keepalive\":{"
    "\"interval\":\"30s\",\"timeout\":\"5s\"}}}}}}]},"
    "\"bootstrap_extensions\":[{\"name\":\"envoy.bootstrap.internal_listener\","
    "\"typed_config\":{" TYPE "extensions.bootstrap.internal_listener.v3.InternalListener\"}}]}";

static void set_text(struct sw_arena *a, struct sw_json *v, const char *key, struct sw_slice text)
{
    sw_json_set(a, v, sw_slice_str(key), sw_json_new_string(a, text));
}

/* An object put under a key, to be filled. */
static struct sw_json *set_object(struct sw_arena *a, struct sw_json *v, const char *key)
{
    struct sw_json *o = sw_json_new_object(a);

    sw_json_set(a, v, sw_slice_str(key), o);
    return o;
}

static struct sw_json *push_object(struct sw_arena *a, struct sw_json *list)
{
    struct sw_json *o = sw_json_new_object(a);

    sw_json_push(a, list, o);
    return o;
}

static struct sw_json *set_array(struct sw_arena *a, struct sw_json *v, const char *key)
{
    struct sw_json *o = sw_json_new_array(a);

    sw_json_set(a, v, sw_slice_str(key), o);
    return o;
}

static void set_address(struct sw_arena *a, struct sw_json *v, struct sw_slice host, uint16_t port)
{
    struct sw_json *at = set_object(a, set_object(a, v, "address"), "socket_address");

    set_text(a, at, "address", host);
    sw_json_set(a, at, SW_SLICE_LIT("port_value"),
                sw_json_new_number(a, sw_slice_str(sw_arena_printf(a, "%u", port))));
}

static bool is_ip(struct sw_slice s)
{
    struct sw_ip ip;

    return sw_ip_parse(s, &ip, NULL) == SW_OK;
}

static void set_file(struct sw_arena *a, struct sw_json *v, const char *key, struct sw_slice file)
{
    set_text(a, set_object(a, v, key), "filename", file);
}

static void set_tls(struct sw_arena *a, struct sw_json *cluster, const struct sw_envoy_bootstrap *b)
{
    struct sw_slice name = b->sni.n ? b->sni : b->xds_host;
    struct sw_json *socket = set_object(a, cluster, "transport_socket");
    struct sw_json *config;
    struct sw_json *common;
    struct sw_json *validation;
    struct sw_json *san;

    set_text(a, socket, "name", SW_SLICE_LIT("envoy.transport_sockets.tls"));
    config = set_object(a, socket, "typed_config");
    set_text(a, config, "@type",
             SW_SLICE_LIT("type.googleapis.com/"
                          "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"));
    if (!is_ip(name))
        set_text(a, config, "sni", name);
    common = set_object(a, config, "common_tls_context");
    sw_json_push(a, set_array(a, common, "alpn_protocols"),
                 sw_json_new_string(a, SW_SLICE_LIT("h2")));
    if (b->cert.n) {
        struct sw_json *pair = push_object(a, set_array(a, common, "tls_certificates"));

        set_file(a, pair, "certificate_chain", b->cert);
        set_file(a, pair, "private_key", b->key);
    }
    validation = set_object(a, common, "validation_context");
    set_file(a, validation, "trusted_ca", b->ca);
    san = push_object(a, set_array(a, validation, "match_typed_subject_alt_names"));
    set_text(a, san, "san_type", is_ip(name) ? SW_SLICE_LIT("IP_ADDRESS") : SW_SLICE_LIT("DNS"));
    set_text(a, set_object(a, san, "matcher"), "exact", name);
}

static void set_server(struct sw_arena *a, struct sw_json *root, const struct sw_envoy_bootstrap *b)
{
    struct sw_json *cluster =
        sw_json_at(sw_json_walk(root, "static_resources", "clusters", NULL), 0);
    struct sw_json *load;
    struct sw_json *locality;

    set_text(a, cluster, "type",
             is_ip(b->xds_host) ? SW_SLICE_LIT("STATIC") : SW_SLICE_LIT("STRICT_DNS"));
    load = set_object(a, cluster, "load_assignment");
    set_text(a, load, "cluster_name", SW_SLICE_LIT("xds_cluster"));
    locality = push_object(a, set_array(a, load, "endpoints"));
    set_address(a,
                set_object(a, push_object(a, set_array(a, locality, "lb_endpoints")), "endpoint"),
                b->xds_host, b->xds_port);
    if (b->ca.n)
        set_tls(a, cluster, b);
}

static void set_token(struct sw_arena *a, struct sw_json *root, struct sw_slice token)
{
    struct sw_json *service =
        sw_json_at(sw_json_walk(root, "dynamic_resources", "ads_config", "grpc_services", NULL), 0);
    struct sw_json *header = push_object(a, set_array(a, service, "initial_metadata"));

    set_text(a, header, "key", SW_SLICE_LIT("authorization"));
    set_text(a, header, "value",
             sw_slice_str(sw_arena_printf(a, "Bearer %.*s", SW_SLICE_ARG(token))));
}

static int check(const struct sw_envoy_bootstrap *b, struct sw_err *err)
{
    if (b->node_id.n == 0 || b->node_cluster.n == 0)
        return sw_err_set(err, SW_EINVAL, "a node needs an id and a cluster");
    if (b->xds_host.n == 0 || b->xds_port == 0)
        return sw_err_set(err, SW_EINVAL, "the server needs an address and a port");
    if ((b->cert.n == 0) != (b->key.n == 0))
        return sw_err_set(err, SW_EINVAL, "certificate and key belong together");
    if (b->cert.n && b->ca.n == 0)
        return sw_err_set(err, SW_EINVAL, "a certificate needs roots for the server's");
    if (b->admin_host.n && (!is_ip(b->admin_host) || b->admin_port == 0))
        return sw_err_set(err, SW_EINVAL, "the admin interface needs an IP address and a port");
    return SW_OK;
}

int sw_envoy_bootstrap_write(const struct sw_envoy_bootstrap *b, struct sw_buf *out,
                             struct sw_err *err)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *root = NULL;
    int rc = check(b, err);

    if (rc != SW_OK)
        return rc;
    rc = sw_json_parse(&a, sw_slice_str(skeleton), NULL, &root, err);
    assert(rc == SW_OK); /* our own text */
    set_text(&a, sw_json_find(root, "node"), "id", b->node_id);
    set_text(&a, sw_json_find(root, "node"), "cluster", b->node_cluster);
    set_server(&a, root, b);
    if (b->token.n)
        set_token(&a, root, b->token);
    if (b->admin_host.n)
        set_address(&a, set_object(&a, root, "admin"), b->admin_host, b->admin_port);
    return sw_yaml_write(out, root);
}
