/* SPDX-License-Identifier: Apache-2.0 */
/* Health checks by HTTP/1.1, HTTP/2 and gRPC. */
#include "gateway/config/tls.h"
#include "gateway/health/h2.h"
#include "gateway/health/health_int.h"
#include "http/client.h"
#include "http/grpc/grpc.h"

enum { SERVICE_MAX = 1024 };

static bool status_expected(const struct sw_gw_check *c, int status)
{
    for (size_t i = 0; i < c->n_expected; i++) {
        if (status >= c->expected[i].from && status < c->expected[i].to)
            return true;
    }
    return c->n_expected == 0 && status == 200;
}

static void on_http_head(struct sw_http_call *call, const struct sw_h1_msg *msg, void *arg)
{
    struct checker *k = arg;

    k->status = msg->status;
}

static void on_http_body(struct sw_http_call *call, struct sw_slice data, void *arg)
{
}

static void on_http_done(struct sw_http_call *call, int rc, const struct sw_err *err, void *arg)
{
    struct checker *k = arg;

    k->call = NULL;
    checker_finish(k, rc == SW_OK && status_expected(k->check, k->status),
                   rc == SW_OK ? "unexpected status" : err->msg);
}

void checker_begin_http(struct checker *k)
{
    const struct sw_gw_tls *t = k->want.tls;
    struct sw_err err = {0};
    struct sw_h1_field fields[] = {
        {SW_SLICE_LIT("user-agent"), SW_SLICE_LIT("spanwire-health-check")}};
    struct sw_http_call_opts o = {
        .method = k->check->method,
        .target = k->check->path,
        .fields = fields,
        .nfields = SW_ARRAY_LEN(fields),
        .timeout_ns = k->check->timeout_ns,
        .body_max = 1 << 20,
        .on_head = on_http_head,
        .on_body = on_http_body,
        .on_done = on_http_done,
        .arg = k,
    };

    if (!k->http) {
        struct sw_addr to = checker_target(k);
        char ip[SW_IP_TEXT];
        struct sw_http_client_opts c = {
            .scope = "health",
            .host = sw_slice_str(sw_ip_text(&to.ip, ip)),
            .port = to.port,
            .host_header = checker_host(k),
            .tls = t != NULL,
            .cred = t ? t->creds[0] : NULL,
            .tls_name = k->want.host ? sw_slice_str(k->want.host) : sw_slice(NULL, 0),
            .insecure_skip_verify = t && (t->skip_verify || t->pins_only),
            .leaf_ok = t && !t->skip_verify ? sw_gw_tls_leaf_ok : NULL,
            .leaf_arg = &k->want,
            .max_conns = 1,
            .connect_timeout_ns = k->check->timeout_ns,
        };

        k->http = sw_http_client_new(k->health->loop, &c, &err);
    }
    k->call = k->http ? sw_http_call_start(k->http, &o, &err) : NULL;
    if (!k->call)
        checker_finish(k, false, err.msg);
}

static void on_probed(int status, const char *why, void *arg)
{
    struct checker *k = arg;

    checker_finish(k, status && status_expected(k->check, status),
                   status ? "unexpected status" : why);
}

void checker_begin_h2(struct checker *k)
{
    struct sw_err err = {0};
    struct sw_addr to = checker_target(k);
    struct sw_gw_probe_opts o = {
        .to = to,
        .want = k->want.tls ? &k->want : NULL,
        .method = k->check->method,
        .authority = checker_host(k),
        .path = k->check->path,
        .timeout_ns = k->check->timeout_ns,
        .on_done = on_probed,
        .arg = k,
    };

    k->probe = sw_gw_probe_new(k->health->loop, &o, &err);
    if (!k->probe)
        checker_finish(k, false, err.msg);
}

/* ---- gRPC: grpc.health.v1.Health/Check ---- */

static void on_rpc_message(struct sw_grpc_call *c, struct sw_slice msg, void *arg)
{
    struct checker *k = arg;

    /* HealthCheckResponse{status = 1}: SERVING is 1. */
    k->grpc_serving = msg.n >= 2 && msg.p[0] == 0x08 && msg.p[1] == 0x01;
}

static void on_rpc_end(struct sw_grpc_call *c, void *arg)
{
}

static void on_rpc_done(struct sw_grpc_call *c, enum sw_grpc_status status, struct sw_slice message,
                        void *arg)
{
    struct checker *k = arg;

    k->rpc = NULL;
    checker_finish(k, status == 0 && k->grpc_serving, "not serving");
}

static const struct sw_grpc_ops rpc_ops = {
    .on_message = on_rpc_message,
    .on_end = on_rpc_end,
    .on_done = on_rpc_done,
};

/* HealthCheckRequest{service = 1}; nothing for the whole server. */
static int put_service(struct sw_buf *msg, struct sw_slice name)
{
    uint8_t head[] = {0x0a, (uint8_t)(name.n & 0x7f), (uint8_t)(name.n >> 7)};
    int rc;

    if (name.n == 0)
        return SW_OK;
    if (name.n > SERVICE_MAX)
        return SW_ELIMIT;
    if (head[2])
        head[1] |= 0x80;
    rc = sw_buf_append(msg, head, head[2] ? 3 : 2);
    return rc < 0 ? rc : sw_buf_append(msg, name.p, name.n);
}

void checker_begin_grpc(struct checker *k)
{
    const struct sw_gw_tls *t = k->want.tls;
    struct sw_err err = {0};
    SW_BUF_AUTO msg = {0};

    sw_buf_init(&msg, SERVICE_MAX + 8);
    if (!k->grpc) {
        struct sw_addr to = checker_target(k);
        char ip[SW_IP_TEXT];
        struct sw_grpc_client_opts o = {
            .host = sw_slice_str(sw_ip_text(&to.ip, ip)),
            .port = to.port,
            .authority = checker_host(k),
            .cred = t ? t->creds[0] : NULL,
            .tls_name = k->want.host ? sw_slice_str(k->want.host) : sw_slice(NULL, 0),
            .insecure_skip = t && (t->skip_verify || t->pins_only),
            .leaf_ok = t && !t->skip_verify ? sw_gw_tls_leaf_ok : NULL,
            .leaf_arg = &k->want,
        };

        k->grpc = sw_grpc_client_new(k->health->loop, &o, &err);
    }
    k->grpc_serving = false;
    if (k->grpc)
        k->rpc = sw_grpc_call(k->grpc, SW_SLICE_LIT("/grpc.health.v1.Health/Check"),
                              sw_slice(NULL, 0), k->check->timeout_ns, &rpc_ops, k);
    if (!k->rpc || put_service(&msg, k->check->service) < 0) {
        checker_finish(k, false, k->rpc ? "name of the service too long" : err.msg);
        return;
    }
    (void)!sw_grpc_send(k->rpc, sw_buf_slice(&msg));
    sw_grpc_end(k->rpc);
}
