/* SPDX-License-Identifier: Apache-2.0 */
/* Envoy Gateway's hooks, and the bootstrap: both for an Envoy that is not programmed by our model.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <proto/cluster.pb-c.h>
#include <proto/core.pb-c.h>
#include <proto/extension.pb-c.h>
#include <proto/google.pb-c.h>
#include <proto/listener.pb-c.h>
#include <proto/route.pb-c.h>

#include "base/buf.h"
#include "base/time.h"
#include "control/envoy/bootstrap.h"
#include "control/envoy/extension.h"
#include "control/lint/lint.h"
#include "http/grpc/grpc.h"
#include "io/addr.h"
#include "io/loop.h"
#include "proto/pb.h"
#include "proto/types.h"

static bool resolve(void *arg, const struct sw_json *object, struct sw_arena *a,
                    struct sw_slice *ret_target, struct sw_slice *ret_id)
{
    (void)arg;
    (void)a;
    if (!sw_slice_eq_str(sw_json_str(sw_json_find(object, "kind")), "Connector"))
        return false;
    *ret_target = SW_SLICE_LIT("localhost:8000");
    *ret_id = sw_json_str(sw_json_walk(object, "metadata", "name", NULL));
    return true;
}

static const struct sw_extension ext = {.resolve = resolve};

static Sw__Cluster *some_cluster(struct sw_arena *a)
{
    Sw__Cluster *c = SW_PB_NEW(a, Sw__Cluster, sw__cluster);

    c->name = SW_PB_LIT("httproute/x");
    c->cluster_discovery_type_case = SW__CLUSTER__CLUSTER_DISCOVERY_TYPE_TYPE;
    c->type = SW__CLUSTER__DISCOVERY_TYPE__EDS;
    return c;
}

static Sw__Cluster *call_cluster(struct sw_arena *a, const char *json)
{
    Sw__PostClusterModifyRequest *in =
        SW_PB_NEW(a, Sw__PostClusterModifyRequest, sw__post_cluster_modify_request);
    Sw__ExtensionResource *r = SW_PB_NEW(a, Sw__ExtensionResource, sw__extension_resource);
    Sw__PostClusterModifyResponse *out;
    struct sw_slice bytes;

    r->unstructured_bytes = SW_PB_BYTES(sw_slice_str(json));
    in->cluster = some_cluster(a);
    in->post_cluster_context =
        SW_PB_NEW(a, Sw__PostClusterExtensionContext, sw__post_cluster_extension_context);
    in->post_cluster_context->backend_extension_resources = &r;
    in->post_cluster_context->n_backend_extension_resources = 1;
    assert_int_equal(sw_extension_call(&ext, SW_EXTENSION_HOOK_CLUSTER, sw_pb_pack(a, &in->base), a,
                                       &bytes, NULL),
                     SW_OK);
    out = SW_PB_UNPACK(a, Sw__PostClusterModifyResponse, sw__post_cluster_modify_response, bytes,
                       NULL, NULL);
    assert_non_null(out);
    return out->cluster;
}

static void a_connector_makes_its_cluster_a_tunnel(void **state)
{
    SW_ARENA_AUTO a = {0};
    Sw__Cluster *c = call_cluster(&a, "{\"kind\":\"Connector\",\"metadata\":{\"name\":\"k\"}}");
    struct sw_model_resource r = {.type = SW_TYPE_CLUSTER, .name = SW_SLICE_LIT("httproute/x")};
    const Sw__LbEndpoint *e;

    (void)state;
    assert_non_null(c);
    r.value = sw_pb_pack(&a, &c->base);
    assert_int_equal(sw_xds_lint(&r, 1, NULL, NULL, NULL), 0);
    e = c->load_assignment->endpoints[0]->lb_endpoints[0];
    assert_true(sw_slice_eq_str(
        SW_PB_SLICE(e->endpoint->address->envoy_internal_address->server_listener_name),
        SW_MODEL_TUNNEL_LISTENER));
    assert_null(call_cluster(&a, "{\"kind\":\"Other\"}"));
    assert_null(call_cluster(&a, "not JSON"));
}

static Sw__PostTranslateModifyResponse *translate(struct sw_arena *a, Sw__Cluster *cluster)
{
    Sw__PostTranslateModifyRequest *in =
        SW_PB_NEW(a, Sw__PostTranslateModifyRequest, sw__post_translate_modify_request);
    Sw__RouteConfiguration *rc = SW_PB_NEW(a, Sw__RouteConfiguration, sw__route_configuration);
    struct sw_slice bytes;

    rc->name = SW_PB_LIT("routes");
    in->clusters = &cluster;
    in->n_clusters = 1;
    in->routes = &rc;
    in->n_routes = 1;
    assert_int_equal(sw_extension_call(&ext, SW_EXTENSION_HOOK_TRANSLATE, sw_pb_pack(a, &in->base),
                                       a, &bytes, NULL),
                     SW_OK);
    return SW_PB_UNPACK(a, Sw__PostTranslateModifyResponse, sw__post_translate_modify_response,
                        bytes, NULL, NULL);
}

static void translation_keeps_all_and_adds_what_tunnels_need(void **state)
{
    SW_ARENA_AUTO a = {0};
    Sw__PostTranslateModifyResponse *out = translate(&a, some_cluster(&a));

    (void)state;
    assert_int_equal(out->n_clusters, 1);
    assert_int_equal(out->n_listeners, 0);
    assert_int_equal(out->n_routes, 1);
    out = translate(&a, call_cluster(&a, "{\"kind\":\"Connector\",\"metadata\":{\"name\":\"k\"}}"));
    assert_int_equal(out->n_clusters, 2);
    assert_int_equal(out->n_listeners, 1);
    assert_int_equal(out->n_routes, 1);
    assert_true(sw_slice_eq_str(SW_PB_SLICE(out->clusters[1]->name), SW_MODEL_CONNECT_PROXY));
    assert_true(sw_slice_eq_str(SW_PB_SLICE(out->listeners[0]->name), SW_MODEL_TUNNEL_LISTENER));
}

static void fields_we_do_not_know_come_back(void **state)
{
    /* clusters[0] {name "c", field 1000 = 7} */
    static const char in[] = "\x12\x06\x0a\x01"
                             "c\xc0\x3e\x07";
    SW_ARENA_AUTO a = {0};
    struct sw_slice out;

    (void)state;
    assert_int_equal(
        sw_extension_call(&ext, SW_EXTENSION_HOOK_TRANSLATE, SW_SLICE_LIT(in), &a, &out, NULL),
        SW_OK);
    assert_true(sw_slice_eq(out, SW_SLICE_LIT("\x0a\x06\x0a\x01"
                                              "c\xc0\x3e\x07")));
}

static void other_hooks_change_nothing_and_refuse_garbage(void **state)
{
    (void)state;
    for (int h = 0; h < SW_EXTENSION_HOOKS; h++) {
        SW_ARENA_AUTO a = {0};
        struct sw_slice out;
        struct sw_err err;

        assert_int_equal(
            sw_extension_call(&ext, (enum sw_extension_hook)h, SW_SLICE_LIT(""), &a, &out, &err),
            SW_OK);
        assert_int_equal(out.n, 0);
        assert_int_equal(sw_extension_call(&ext, (enum sw_extension_hook)h,
                                           SW_SLICE_LIT("\xff\xff"), &a, &out, &err),
                         SW_EPROTO);
    }
}

/* --- over the wire --- */

struct call {
    struct sw_loop *loop;
    int status;
    size_t answer; /* bytes */
};

static void on_message(struct sw_grpc_call *c, struct sw_slice msg, void *arg)
{
    (void)c;
    ((struct call *)arg)->answer = msg.n;
}

static void on_done(struct sw_grpc_call *c, enum sw_grpc_status status, struct sw_slice message,
                    void *arg)
{
    struct call *call = arg;

    (void)c;
    (void)message;
    call->status = (int)status;
    sw_loop_stop(call->loop);
}

static struct call call_server(struct sw_loop *l, struct sw_grpc_client *client, const char *method,
                               struct sw_slice request)
{
    static const struct sw_grpc_ops ops = {.on_message = on_message, .on_done = on_done};
    struct call call = {.loop = l, .status = -1};
    struct sw_grpc_call *c;
    SW_ARENA_AUTO a = {0};

    c = sw_grpc_call(client,
                     sw_slice_str(sw_arena_printf(
                         &a, "/envoygateway.extension.EnvoyGatewayExtension/%s", method)),
                     SW_SLICE_LIT(""), 10 * SW_NS_PER_S, &ops, &call);
    assert_non_null(c);
    assert_int_equal(sw_grpc_send(c, request), SW_OK);
    sw_grpc_end(c);
    sw_loop_run(l);
    return call;
}

static void hooks_answer_over_grpc(void **state)
{
    static const char *const methods[] = {"PostRouteModify",        "PostVirtualHostModify",
                                          "PostHTTPListenerModify", "PostClusterModify",
                                          "PostEndpointsModify",    "PostTranslateModify"};
    static const char cluster[] = "\x12\x03\x0a\x01"
                                  "c";
    struct sw_extension x = ext;
    struct sw_loop *l = sw_loop_new(NULL);
    struct sw_grpc_server_opts so = {0};
    struct sw_grpc_server *server = sw_grpc_server_new(l, &so);
    struct sw_addr at = {0};
    struct sw_grpc_client_opts co = {.host = SW_SLICE_LIT("127.0.0.1")};
    struct sw_grpc_client *client;
    struct call call;

    (void)state;
    assert_int_equal(sw_addr_parse(SW_SLICE_LIT("127.0.0.1:0"), &at, NULL), SW_OK);
    sw_extension_serve(server, &x);
    assert_int_equal(sw_grpc_server_listen(server, &at, &at, NULL), SW_OK);
    co.port = at.port;
    client = sw_grpc_client_new(l, &co, NULL);
    assert_non_null(client);
    for (size_t i = 0; i < SW_ARRAY_LEN(methods); i++) {
        call = call_server(l, client, methods[i], SW_SLICE_LIT(""));
        assert_int_equal(call.status, SW_GRPC_OK);
        call = call_server(l, client, methods[i], SW_SLICE_LIT("\xff"));
        assert_int_equal(call.status, SW_GRPC_INVALID_ARGUMENT);
    }
    call = call_server(l, client, "PostTranslateModify", SW_SLICE_LIT(cluster));
    assert_int_equal(call.status, SW_GRPC_OK);
    assert_int_equal(call.answer, sizeof(cluster) - 1);
    sw_grpc_client_free(client);
    sw_grpc_server_free(server);
    sw_loop_turn(l, 0);
    sw_loop_free(l);
}

/* --- the bootstrap --- */

static const struct sw_envoy_bootstrap plain = {.node_id = {.p = "edge-1", .n = 6},
                                                .node_cluster = {.p = "spanwire", .n = 8},
                                                .xds_host = {.p = "127.0.0.1", .n = 9},
                                                .xds_port = 15012};

/* The text goes to SW_XDS_OUT for the check against Envoy's own definitions. */
static void keep_bootstrap(const char *name, struct sw_slice text)
{
    const char *dir = getenv("SW_XDS_OUT");
    SW_ARENA_AUTO a = {0};
    FILE *f;

    if (!dir)
        return;
    f = fopen(sw_arena_printf(&a, "%s/%s.yaml", dir, name), "we");
    assert_non_null(f);
    assert_int_equal(fwrite(text.p, 1, text.n, f), text.n);
    assert_int_equal(fclose(f), 0);
}

static void the_bootstrap_says_what_was_asked(void **state)
{
    struct sw_envoy_bootstrap tls = plain;
    SW_BUF_AUTO out = {.max = 1 << 20};
    struct sw_err err;

    (void)state;
    assert_int_equal(sw_envoy_bootstrap_write(&plain, &out, &err), SW_OK);
    assert_non_null(memmem(sw_buf_data(&out), sw_buf_len(&out), "DELTA_GRPC", 10));
    assert_non_null(
        memmem(sw_buf_data(&out), sw_buf_len(&out), "envoy.bootstrap.internal_listener", 33));
    assert_null(memmem(sw_buf_data(&out), sw_buf_len(&out), "transport_socket", 16));
    keep_bootstrap("plain", sw_buf_slice(&out));
    sw_buf_clear(&out);
    tls.xds_host = SW_SLICE_LIT("control.example");
    tls.ca = SW_SLICE_LIT("/etc/ca.pem");
    tls.cert = SW_SLICE_LIT("/etc/c.pem");
    tls.key = SW_SLICE_LIT("/etc/k.pem");
    tls.token = SW_SLICE_LIT("abc");
    tls.admin_host = SW_SLICE_LIT("::1");
    tls.admin_port = 19000;
    assert_int_equal(sw_envoy_bootstrap_write(&tls, &out, &err), SW_OK);
    assert_non_null(memmem(sw_buf_data(&out), sw_buf_len(&out), "STRICT_DNS", 10));
    assert_non_null(memmem(sw_buf_data(&out), sw_buf_len(&out), "Bearer abc", 10));
    keep_bootstrap("tls", sw_buf_slice(&out));
}

static void a_bootstrap_that_cannot_work_is_refused(void **state)
{
    struct sw_envoy_bootstrap b = plain;
    SW_BUF_AUTO out = {.max = 1 << 20};
    struct sw_err err;

    (void)state;
    b.cert = SW_SLICE_LIT("/c");
    assert_int_equal(sw_envoy_bootstrap_write(&b, &out, &err), SW_EINVAL);
    b.key = SW_SLICE_LIT("/k");
    assert_int_equal(sw_envoy_bootstrap_write(&b, &out, &err), SW_EINVAL);
    b = plain;
    b.xds_port = 0;
    assert_int_equal(sw_envoy_bootstrap_write(&b, &out, &err), SW_EINVAL);
    b = plain;
    b.node_id.n = 0;
    assert_int_equal(sw_envoy_bootstrap_write(&b, &out, &err), SW_EINVAL);
    assert_int_equal(sw_buf_len(&out), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_connector_makes_its_cluster_a_tunnel),
        cmocka_unit_test(translation_keeps_all_and_adds_what_tunnels_need),
        cmocka_unit_test(fields_we_do_not_know_come_back),
        cmocka_unit_test(other_hooks_change_nothing_and_refuse_garbage),
        cmocka_unit_test(hooks_answer_over_grpc),
        cmocka_unit_test(the_bootstrap_says_what_was_asked),
        cmocka_unit_test(a_bootstrap_that_cannot_work_is_refused),
    };

    return cmocka_run_group_tests_name("gateway extension", tests, NULL, NULL);
}
