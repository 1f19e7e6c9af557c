/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/control/gateway.h"

#include "apiserver/server.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "cmd/control/access.h"
#include "cmd/control/views.h"
#include "cmd/control/xds_status.h"
#include "control/connector/controller.h"
#include "control/envoy/extension.h"
#include "control/gateway/controller.h"
#include "control/gateway/plane_watch.h"
#include "http/grammar.h"
#include "http/grpc/grpc.h"
#include "io/loop.h"
#include "telemetry/metrics.h"
#include "xds/server.h"

enum { HOOK_MAX = 64 << 20 }; /* bytes of one request: the whole translation */

struct sw_control_gateway {
    struct sw_arena arena;
    struct sw_api *api; /* NULL: 'access' judges */
    struct sw_control_access *access;
    struct sw_control_views *views;
    struct sw_xds_cache *cache;
    struct sw_xds_server *server;
    struct sw_grpc_server *hooks; /* may be NULL */
    struct sw_gateway_controller *controller;
    struct sw_plane_watch *planes;
    struct sw_extension extension;
    struct sw_metrics_shard *shard; /* borrowed */
    struct sw_addr bound;
    uint64_t deadline_ns;
    void (*done)(void *arg);
    void *done_arg;
};

static int allow(void *arg, const struct sw_xds_client_id *id, struct sw_err *err)
{
    struct sw_control_gateway *g = arg;

    return sw_control_views_allow(g->views, id, err);
}

static int view(void *arg, const struct sw_xds_client_id *id, char ret[SW_XDS_VIEW_MAX],
                struct sw_err *err)
{
    struct sw_control_gateway *g = arg;

    return sw_control_views_view(g->views, id, ret, err);
}

static void on_gateways(void *arg, struct sw_slice names)
{
    struct sw_control_gateway *g = arg;

    sw_control_views_gateways(g->views, names);
}

static struct sw_slice gateways_of(void *arg, struct sw_slice of)
{
    struct sw_control_gateway *g = arg;

    return sw_control_views_of(g->views, of);
}

static void on_answer(void *arg, bool changed)
{
    struct sw_control_gateway *g = arg;

    if (!g->server)
        return;
    sw_xds_server_recheck(g->server);
    if (changed)
        sw_control_views_changed(g->views);
}

static void on_planes(void *arg)
{
    struct sw_control_gateway *g = arg;

    sw_plane_watch_changed(g->planes);
}

/* ---- status ---- */

static void put_runtime(struct sw_jw *w, const char *name, const struct sw_control *c)
{
    struct sw_control_stats s = sw_control_stats(c);

    sw_jw_put_object(w, name);
    sw_jw_put_bool(w, "synced", sw_control_synced(c));
    sw_jw_put_bool(w, "leading", sw_control_leading(c));
    sw_jw_put_u64(w, "builds", s.builds);
    sw_jw_put_u64(w, "lastBuildMicroseconds", s.build_ns / SW_NS_PER_US);
    sw_jw_put_u64(w, "published", s.published);
    sw_jw_put_u64(w, "writes", s.writes);
    sw_jw_put_u64(w, "conflicts", s.conflicts);
    sw_jw_put_u64(w, "events", s.events);
    sw_jw_put_u64(w, "eventsDropped", s.events_dropped);
    sw_jw_put_u64(w, "heldBack", s.held_back);
    sw_jw_put_u64(w, "failures", s.failures);
    sw_jw_object_end(w);
}

void sw_control_gateway_put_status(const struct sw_control_gateway *g, struct sw_jw *w)
{
    sw_jw_put_bool(w, "synced", sw_xds_server_synced(g->server));
    sw_jw_put_object(w, "controllers");
    put_runtime(w, "gateway", sw_gateway_controller_main(g->controller));
    put_runtime(w, "endpoints", sw_gateway_controller_endpoints(g->controller));
    sw_jw_object_end(w);
}

void sw_control_gateway_put_clients(const struct sw_control_gateway *g, struct sw_jw *w)
{
    sw_control_put_clients(w, g->server);
}

/* ---- life ---- */

/* This also finds what no event reports, such as the expiry of a token. */
static const uint64_t review_ns = 5 * SW_NS_PER_S;

static int start_server(struct sw_control_gateway *g, struct sw_loop *l,
                        const struct sw_control_gateway_opts *o, struct sw_err *err)
{
    struct sw_xds_server_opts so = {
        .cache = g->cache,
        .cred = g->api ? sw_api_cred(g->api) : o->cred,
        .metrics = g->shard,
        .allow = allow,
        .view = view,
        .review_ns = g->api ? review_ns : o->review_ns,
        .on_change = on_planes,
        .arg = g,
    };

    g->server = sw_xds_server_new(l, &so, err);
    if (!g->server)
        return err->rc;
    return sw_xds_server_listen(g->server, &o->listen, &g->bound, err);
}

/*
 * Envoy Gateway has no tokens to show, and names its server "host:port" in TLS, which GnuTLS does
 * not let pass: plain, and therefore never over a network.
 */
static int start_hooks(struct sw_control_gateway *g, struct sw_loop *l,
                       const struct sw_control_gateway_opts *o, struct sw_err *err)
{
    struct sw_addr bound;
    char text[SW_ADDR_TEXT];
    int rc;

    if (o->hooks.ip.family == 0)
        return SW_OK;
    if (!sw_ip_is_loopback(&o->hooks.ip))
        return sw_err_set(err, SW_EINVAL, "--extension-listen: '%s' is not a loopback address",
                          sw_addr_text(&o->hooks, text));
    g->hooks = sw_grpc_server_new(
        l, &(struct sw_grpc_server_opts){.scope = "extension", .max_message = HOOK_MAX});
    sw_extension_serve(g->hooks, &g->extension);
    rc = sw_grpc_server_listen(g->hooks, &o->hooks, &bound, err);
    if (rc == SW_OK)
        sw_log_info("extension", "hooks of Envoy Gateway on %s", sw_addr_text(&bound, text));
    return rc == SW_OK ? SW_OK : sw_err_prefix(err, "--extension-listen");
}

/*
 * With the embedded API the data planes are on this machine, and opening a port to the network is
 * for its owner to decide; in a cluster they are in pods, where no client can reach loopback.
 */
static struct sw_slice gateway_addresses(const struct sw_control_gateway *g,
                                         const struct sw_control_gateway_opts *o)
{
    if (o->addresses)
        return sw_slice_str(o->addresses);
    return g->api ? SW_SLICE_LIT("127.0.0.1") : SW_SLICE_LIT("127.0.0.1=0.0.0.0");
}

/* Whether a data plane may be asked to listen where we do. */
static bool is_shared(const struct sw_gateway_conf *conf, const struct sw_addr *ours)
{
    char text[SW_IP_TEXT];
    struct sw_slice own = sw_slice_str(sw_ip_text(&ours->ip, text));

    for (size_t i = 0; i < conf->n_addrs; i++) {
        if (sw_ip_is_any(&ours->ip) || sw_slice_eq(conf->addrs[i].bind, own) ||
            sw_slice_eq_str(conf->addrs[i].bind, "0.0.0.0") ||
            sw_slice_eq_str(conf->addrs[i].bind, "::"))
            return true;
    }
    return false;
}

/* Ports that no listener gets: those of --gateway-reserved-ports, and ours on this machine. */
static int reserve_ports(struct sw_control_gateway *g, const struct sw_control_gateway_opts *o,
                         struct sw_gateway_conf *conf, struct sw_err *err)
{
    const struct sw_addr ours[] = {o->api, g->bound};
    struct sw_slice list = sw_slice_str(o->reserved ? o->reserved : "");
    struct sw_gateway_ports *p;

    for (size_t i = 0; g->api && i < SW_ARRAY_LEN(ours); i++) {
        if (ours[i].port && is_shared(conf, &ours[i]))
            list = sw_slice_str(sw_arena_printf(&g->arena, "%.*s%s%u", SW_SLICE_ARG(list),
                                                list.n ? "," : "", ours[i].port));
    }
    if (sw_gateway_ports_parse(&g->arena, list, &p, &conf->n_reserved, err) != SW_OK)
        return sw_err_prefix(err, "--gateway-reserved-ports");
    conf->reserved = p;
    return SW_OK;
}

static int start_controller(struct sw_control_gateway *g, struct sw_kube_client *client,
                            const struct sw_control_gateway_opts *o, struct sw_err *err)
{
    struct sw_gateway_controller_opts co = {
        .conf = {.controller = sw_slice_str(o->controller),
                 .port_offset = (uint16_t)o->port_offset,
                 .ingress_shared_hosts = o->ingress_shared_hosts,
                 .link_ns = sw_slice_str(o->link_ns ? o->link_ns : ""),
                 .link_reserved = o->link_reserved,
                 .n_link_reserved = o->n_link_reserved},
        .xds = {.access_log = o->access_log,
                .gzip = o->gzip,
                .http10 = o->http10,
                .clients_resolve = o->envoy_resolves,
                .via = sw_slice_str(o->via ? o->via : "")},
        .cache = g->cache,
        .metrics = g->shard,
        .egress = o->egress,
        .threaded = true,
        .election = sw_control_election(o->lease_ns, "spanwire-gateway", o->identity),
        .on_gateways = on_gateways,
        .arg = g,
    };
    struct sw_model_address *addrs;
    int rc =
        sw_gateway_addrs_parse(&g->arena, gateway_addresses(g, o), &addrs, &co.conf.n_addrs, err);

    if (rc != SW_OK)
        return rc;
    if (co.xds.via.n && !sw_http_value_valid(co.xds.via))
        return sw_err_set(err, SW_EINVAL, "--gateway-via is not a header value");
    co.conf.addrs = addrs;
    rc = reserve_ports(g, o, &co.conf, err);
    if (rc != SW_OK)
        return rc;
    if (o->connect_proxy && o->connect_proxy[0] == '/') {
        co.xds.connect_proxy = sw_slice_str(o->connect_proxy);
    } else if (o->connect_proxy) {
        struct sw_addr at;

        rc = sw_addr_parse(sw_slice_str(o->connect_proxy), &at, err);
        if (rc != SW_OK)
            return rc;
        co.xds.connect_proxy =
            sw_slice_str(sw_ip_text(&at.ip, sw_arena_alloc(&g->arena, SW_IP_TEXT)));
        co.xds.connect_proxy_port = at.port;
    }
    g->extension.conf = co.xds;
    g->extension.static_parts = o->static_tunnel;
    g->controller = sw_gateway_controller_new(client, &co, err);
    if (!g->controller)
        return err->rc;
    g->planes =
        sw_plane_watch_new(&(struct sw_plane_watch_opts){.loop = sw_kube_client_loop(client),
                                                         .server = g->server,
                                                         .cache = g->cache,
                                                         .controller = g->controller,
                                                         .client = client,
                                                         .lease_ns = co.election.ns,
                                                         .identity = co.election.identity,
                                                         .gateways_of = gateways_of,
                                                         .arg = g});
    sw_control_views_start(g->views, g->server, g->controller);
    sw_gateway_controller_start(g->controller);
    return SW_OK;
}

struct sw_control_gateway *sw_control_gateway_new(struct sw_loop *l, struct sw_api *api,
                                                  struct sw_kube_client *client,
                                                  const struct sw_control_gateway_opts *o,
                                                  struct sw_err *err)
{
    struct sw_control_gateway *g = SW_NEW(struct sw_control_gateway);

    g->api = api;
    g->access = o->access;
    if (g->access)
        sw_control_access_on_answer(g->access, on_answer, g);
    g->shard = o->metrics;
    g->cache = sw_xds_cache_new();
    g->views = sw_control_views_new(l, api, g->access);
    if (start_server(g, l, o, err) != SW_OK || start_controller(g, client, o, err) != SW_OK ||
        start_hooks(g, l, o, err) != SW_OK) {
        sw_control_gateway_free(g);
        return NULL;
    }
    sw_extension_serve(sw_xds_server_grpc(g->server), &g->extension);
    if (api)
        sw_api_on_revoke(api, sw_control_views_changed, g->views);
    return g;
}

struct sw_xds_cache *sw_control_gateway_cache(const struct sw_control_gateway *g)
{
    return g->cache;
}

bool sw_control_gateway_ready(const struct sw_control_gateway *g)
{
    return sw_gateway_controller_ready(g->controller);
}

void sw_control_gateway_set_cred(struct sw_control_gateway *g, struct sw_tls_cred *cred)
{
    sw_xds_server_set_cred(g->server, cred);
}

void sw_control_gateway_rules(struct sw_control_gateway *g, struct sw_connector_controller *c)
{
    g->extension.resolve = sw_connector_resolve;
    g->extension.arg = c;
    g->extension.rule = sw_connector_controller_rule;
    g->extension.rule_arg = c;
}

struct sw_addr sw_control_gateway_addr(const struct sw_control_gateway *g)
{
    return g->bound;
}

static void on_controller_stopped(void *arg)
{
    struct sw_control_gateway *g = arg;

    sw_xds_server_stop(g->server, g->deadline_ns, g->done, g->done_arg);
}

void sw_control_gateway_stop(struct sw_control_gateway *g, uint64_t deadline_ns,
                             void (*done)(void *arg), void *arg)
{
    g->deadline_ns = deadline_ns;
    g->done = done;
    g->done_arg = arg;
    sw_plane_watch_leave(g->planes);
    sw_gateway_controller_stop(g->controller, on_controller_stopped, g);
}

void sw_control_gateway_free(struct sw_control_gateway *g)
{
    if (!g)
        return;
    if (g->access)
        sw_control_access_on_answer(g->access, NULL, NULL);
    if (g->api)
        sw_api_on_revoke(g->api, NULL, NULL);
    sw_grpc_server_free(g->hooks);
    sw_xds_server_free(g->server);
    sw_plane_watch_free(g->planes);
    sw_gateway_controller_free(g->controller);
    sw_control_views_free(g->views);
    sw_xds_cache_free(g->cache);
    sw_arena_clear(&g->arena);
    sw_free(g);
}
