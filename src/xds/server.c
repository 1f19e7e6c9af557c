/* SPDX-License-Identifier: Apache-2.0 */
/* The services, their authorisation, and what can be seen from outside. */
#include "xds/server.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/share.h"
#include "base/time.h"
#include "xds/server_int.h"

enum { WAITING_MAX = 256 }; /* streams whose clients are being judged */

/* A service of one type (NULL: all), its two streams. */
static const struct service {
    const char *type;
    const char *sotw;
    const char *delta;
} services[] = {
    {NULL, "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources",
     "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"},
    {SW_XDS_LISTENER, "/envoy.service.listener.v3.ListenerDiscoveryService/StreamListeners",
     "/envoy.service.listener.v3.ListenerDiscoveryService/DeltaListeners"},
    {SW_XDS_ROUTE, "/envoy.service.route.v3.RouteDiscoveryService/StreamRoutes",
     "/envoy.service.route.v3.RouteDiscoveryService/DeltaRoutes"},
    {SW_XDS_SCOPED, "/envoy.service.route.v3.ScopedRoutesDiscoveryService/StreamScopedRoutes",
     "/envoy.service.route.v3.ScopedRoutesDiscoveryService/DeltaScopedRoutes"},
    {SW_XDS_VHOST, NULL, "/envoy.service.route.v3.VirtualHostDiscoveryService/DeltaVirtualHosts"},
    {SW_XDS_CLUSTER, "/envoy.service.cluster.v3.ClusterDiscoveryService/StreamClusters",
     "/envoy.service.cluster.v3.ClusterDiscoveryService/DeltaClusters"},
    {SW_XDS_ENDPOINT, "/envoy.service.endpoint.v3.EndpointDiscoveryService/StreamEndpoints",
     "/envoy.service.endpoint.v3.EndpointDiscoveryService/DeltaEndpoints"},
    {SW_XDS_SECRET, "/envoy.service.secret.v3.SecretDiscoveryService/StreamSecrets",
     "/envoy.service.secret.v3.SecretDiscoveryService/DeltaSecrets"},
    {SW_XDS_RUNTIME, "/envoy.service.runtime.v3.RuntimeDiscoveryService/StreamRuntime",
     "/envoy.service.runtime.v3.RuntimeDiscoveryService/DeltaRuntime"},
    {SW_XDS_EXTCONF,
     "/envoy.service.extension.v3.ExtensionConfigDiscoveryService/StreamExtensionConfigs",
     "/envoy.service.extension.v3.ExtensionConfigDiscoveryService/DeltaExtensionConfigs"},
};

/* The service of a path, NULL for another one, and whether it is the delta form. */
static const struct service *service_of(struct sw_slice path, bool *ret_delta)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(services); i++) {
        *ret_delta = sw_slice_eq_str(path, services[i].delta);
        if (*ret_delta || (services[i].sotw && sw_slice_eq_str(path, services[i].sotw)))
            return &services[i];
    }
    return NULL;
}

enum sw_grpc_status xds_refusal_status(int rc)
{
    if (rc == SW_ETIME)
        return SW_GRPC_UNAVAILABLE;
    return rc == SW_ENOENT ? SW_GRPC_PERMISSION_DENIED : SW_GRPC_UNAUTHENTICATED;
}

void xds_count_refusal(const struct sw_xds_server *s, enum sw_grpc_status status)
{
    const char *reason = status == SW_GRPC_PERMISSION_DENIED    ? "forbidden"
                         : status == SW_GRPC_UNIMPLEMENTED      ? "type"
                         : status == SW_GRPC_UNAVAILABLE        ? "unavailable"
                         : status == SW_GRPC_INVALID_ARGUMENT   ? "invalid"
                         : status == SW_GRPC_RESOURCE_EXHAUSTED ? "limit"
                                                                : "unauthenticated";

    if (s->o.metrics)
        sw_metric_add(sw_metric_get1(s->o.metrics, SW_METRIC_XDS_REFUSALS, reason), 1);
}

/* One client leaves places to wait for the others. */
static bool may_wait(const struct sw_xds_server *s, const struct sw_ip *from)
{
    size_t own = 0;

    SW_LIST_EACH (const struct xds_stream, st, &s->streams, link)
        own += st->waiting && sw_ip_same_client(&st->addr.ip, from);
    return sw_share_left(own, s->n_waiting, WAITING_MAX);
}

/* SW_OK, SW_EPENDING, or the call was refused. */
static int judge(struct sw_xds_server *s, struct sw_grpc_call *c, const struct sw_xds_client_id *id)
{
    struct sw_err err = {0};
    char text[SW_ADDR_TEXT];
    int rc = s->o.allow ? s->o.allow(s->o.arg, id, &err) : SW_OK;

    if (rc == SW_EPENDING && !may_wait(s, &id->addr.ip))
        rc = sw_err_set(&err, SW_ETIME, "too many clients wait for their tokens to be reviewed");
    if (rc != SW_OK && rc != SW_EPENDING) {
        sw_log_limited(&s->strangers, sw_loop_now(s->loop), SW_LOG_INFO, "xds",
                       "client %s refused: %s", sw_addr_text(&id->addr, text), err.msg);
        xds_count_refusal(s, xds_refusal_status(rc));
        sw_grpc_finish(c, xds_refusal_status(rc), "%s", err.msg);
    }
    return rc;
}

/* An authorised client may name all that it holds. */
static void let_in(const struct sw_xds_server *s, struct sw_grpc_call *c)
{
    if (s->o.allow)
        sw_grpc_set_max(c, s->o.max_initial);
}

static void make_wait(struct xds_stream *st)
{
    st->waiting = true;
    st->server->n_waiting++;
    sw_grpc_pause(st->call, true);
}

void sw_xds_server_recheck(struct sw_xds_server *s)
{
    SW_LIST_EACH (struct xds_stream, st, &s->streams, link) {
        struct sw_xds_client_id id = {
            .addr = st->addr, .cert = st->cert, .token = sw_slice_str(st->token)};

        if (!st->waiting)
            continue;
        s->n_waiting--; /* do not count the stream against itself */
        st->waiting = false;
        sw_grpc_pause(st->call, false); /* delivers from the loop, and not to refused streams */
        switch (judge(s, st->call, &id)) {
        case SW_OK:
            let_in(s, st->call);
            break;
        case SW_EPENDING:
            make_wait(st);
            break;
        default:
            break;
        }
    }
}

void sw_xds_server_review(struct sw_xds_server *s)
{
    if (!s->o.revoked && !s->o.view)
        return;
    SW_LIST_EACH (struct xds_stream, st, &s->streams, link)
        xds_stream_judge(st);
}

static void open_stream(struct sw_grpc_call *c, const struct sw_grpc_request *req, void *arg)
{
    struct sw_xds_server *s = arg;
    struct sw_xds_client_id id = {.addr = req->addr, .cert = req->cert, .token = req->token};
    struct xds_stream *st;
    const struct service *service;
    bool delta = false;
    int rc = judge(s, c, &id);

    if (rc != SW_OK && rc != SW_EPENDING)
        return;
    if (s->n_streams >= s->o.max_streams) {
        sw_log_limited(&s->clients, sw_loop_now(s->loop), SW_LOG_WARN, "xds",
                       "limit of %zu streams reached: refusing a new stream", s->o.max_streams);
        xds_count_refusal(s, SW_GRPC_RESOURCE_EXHAUSTED);
        sw_grpc_finish(c, SW_GRPC_RESOURCE_EXHAUSTED, "too many streams");
        return;
    }
    service = service_of(req->head->path, &delta);
    st = xds_stream_new(s, c, service ? service->type : NULL, delta);
    st->addr = req->addr;
    st->cert = req->cert;
    if (req->token.n)
        st->token = sw_slice_dup(req->token);
    sw_grpc_accept(c, &xds_stream_ops, st);
    xds_stream_review(st);
    if (rc == SW_EPENDING)
        make_wait(st);
    else
        let_in(s, c);
}

/*
 * Other services on the same port need the same authorisation. open_stream authorises streams of
 * xDS, since it can wait for an answer.
 */
static int guard(void *arg, const struct sw_grpc_request *req, struct sw_err *err)
{
    struct sw_xds_server *s = arg;
    const struct sw_xds_client_id id = {.addr = req->addr, .cert = req->cert, .token = req->token};
    char view[SW_XDS_VIEW_MAX] = "";
    int rc = SW_OK;
    bool delta;

    if (service_of(req->head->path, &delta))
        return SW_OK;
    if (s->o.allow)
        rc = s->o.allow(s->o.arg, &id, err);
    /* The others know no views: they are for clients that may have everything. */
    if (rc == SW_OK && s->o.view)
        rc = s->o.view(s->o.arg, &id, view, err);
    if (rc == SW_OK && view[0])
        rc = sw_err_set(err, SW_EDENIED, "not for clients of some Gateways only");
    return rc == SW_EPENDING ? sw_err_set(err, SW_EDENIED, "not known yet, ask again") : rc;
}

static void add_methods(struct sw_xds_server *s)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(services); i++) {
        const char *paths[] = {services[i].sotw, services[i].delta};

        for (size_t k = 0; k < SW_ARRAY_LEN(paths); k++) {
            struct sw_grpc_method m = {.path = paths[k], .open = open_stream, .arg = s};

            if (m.path)
                sw_grpc_server_methods(s->grpc, &m, 1);
        }
    }
}

struct sw_xds_server *sw_xds_server_new(struct sw_loop *l, const struct sw_xds_server_opts *o,
                                        struct sw_err *err)
{
    struct sw_xds_server *s;

    if (!o->cache && !o->select) {
        (void)sw_err_set(err, SW_EINVAL, "an xDS server needs a cache");
        return NULL;
    }
    s = SW_NEW(struct sw_xds_server);
    s->loop = l;
    s->o = *o;
    s->o.max_streams = o->max_streams ? o->max_streams : 4096;
    s->o.max_types = o->max_types ? o->max_types : 32;
    s->o.max_names = o->max_names ? o->max_names : 200000;
    s->o.max_request = o->max_request ? o->max_request : (size_t)16 << 20;
    s->o.max_initial = o->max_initial ? o->max_initial : s->o.max_request;
    s->o.piece = o->piece ? o->piece : (size_t)1 << 20;
    s->o.max_response = o->max_response ? o->max_response : (size_t)64 << 20;
    s->o.ack_timeout_ns = o->ack_timeout_ns ? o->ack_timeout_ns : 5 * SW_NS_PER_S;
    s->o.review_ns = o->review_ns ? o->review_ns : 60 * SW_NS_PER_S;
    sw_list_init(&s->streams);
    if (o->metrics)
        s->m_streams = sw_metric_get(o->metrics, SW_METRIC_XDS_STREAMS, NULL);
    s->grpc = sw_grpc_server_new(
        l, &(struct sw_grpc_server_opts){.scope = "xds",
                                         .cred = o->cred,
                                         .max_conns = o->max_conns,
                                         .conn_calls = o->conn_calls,
                                         .allow = guard,
                                         .arg = s,
                                         .max_message = s->o.max_request,
                                         .max_in = sw_max((size_t)256 << 20, 5 * s->o.max_initial),
                                         .max_queue = s->o.max_response + 2 * s->o.piece});
    add_methods(s);
    return s;
}

void sw_xds_server_free(struct sw_xds_server *s)
{
    if (!s)
        return;
    sw_grpc_server_free(s->grpc); /* ends the streams */
    sw_free(s);
}

int sw_xds_server_listen(struct sw_xds_server *s, const struct sw_addr *at, struct sw_addr *ret_at,
                         struct sw_err *err)
{
    return sw_grpc_server_listen(s->grpc, at, ret_at, err);
}

void sw_xds_server_set_cred(struct sw_xds_server *s, struct sw_tls_cred *cred)
{
    sw_grpc_server_set_cred(s->grpc, cred);
}

void sw_xds_server_stop(struct sw_xds_server *s, uint64_t deadline_ns, void (*on_done)(void *arg),
                        void *arg)
{
    SW_LIST_EACH (struct xds_stream, st, &s->streams, link)
        sw_grpc_finish(st->call, SW_GRPC_UNAVAILABLE, "server stops");
    sw_grpc_server_stop(s->grpc, deadline_ns, on_done, arg);
}

struct sw_grpc_server *sw_xds_server_grpc(struct sw_xds_server *s)
{
    return s->grpc;
}

void sw_xds_server_status(const struct sw_xds_server *s,
                          void (*fn)(const struct sw_xds_status *st, void *arg), void *arg)
{
    uint64_t now = sw_loop_now(s->loop);

    SW_LIST_EACH (const struct xds_stream, st, &s->streams, link) {
        SW_LIST_EACH (const struct xds_sub, u, &st->subs, link) {
            struct sw_xds_status out = {.node_id = st->node_id,
                                        .node_cluster = st->node_cluster,
                                        .addr = st->addr,
                                        .type = sw_slice_str(u->url),
                                        .delta = st->delta,
                                        .wildcard = u->wildcard,
                                        .names = u->names.n,
                                        .sent = sw_slice_str(u->sent),
                                        .acked = sw_slice_str(u->acked),
                                        .pending = u->pending,
                                        .acks = u->acks,
                                        .nacks = u->nacks,
                                        .nack = sw_slice_str(u->nack),
                                        .pushed_ns = u->sent_ns ? now - u->sent_ns : 0,
                                        .connected_ns = now - st->since_ns};

            fn(&out, arg);
        }
    }
}

size_t sw_xds_server_streams(const struct sw_xds_server *s)
{
    return s->n_streams;
}

bool sw_xds_server_synced(const struct sw_xds_server *s)
{
    SW_LIST_EACH (const struct xds_stream, st, &s->streams, link) {
        if (!st->cache)
            return false;
        SW_LIST_EACH (const struct xds_sub, u, &st->subs, link) {
            if (!xds_sub_synced(u))
                return false;
        }
    }
    return true;
}
