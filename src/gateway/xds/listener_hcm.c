/* SPDX-License-Identifier: Apache-2.0 */
/* HttpConnectionManager -> what a chain needs to serve HTTP. */
#include <proto/core.pb-c.h>
#include <proto/google.pb-c.h>
#include <proto/httpfilter.pb-c.h>
#include <proto/listener.pb-c.h>
#include <proto/route.pb-c.h>

#include "base/time.h"
#include "gateway/config/build.h"
#include "gateway/filter/build.h"
#include "gateway/observe/accesslog.h"
#include "gateway/route/build.h"
#include "gateway/xds/listener.h"
#include "http/grammar.h"
#include "proto/pb.h"

static void build_upgrades(struct sw_gw_build *b, const Sw__HttpConnectionManager *in,
                           struct sw_gw_hcm *h)
{
    struct sw_slice *u = sw_arena_array(b->arena, in->n_upgrade_configs + 1, sizeof(*u));

    for (size_t i = 0; i < in->n_upgrade_configs; i++) {
        if (sw_gw_bool(in->upgrade_configs[i]->enabled, true))
            u[h->n_upgrades++] = sw_gw_lower(b, SW_PB_SLICE(in->upgrade_configs[i]->upgrade_type));
    }
    h->upgrades = u;
}

static int build_routes_of(struct sw_gw_build *b, const Sw__HttpConnectionManager *in,
                           struct sw_gw_hcm *h)
{
    if (in->route_specifier_case == SW__HTTP_CONNECTION_MANAGER__ROUTE_SPECIFIER_RDS) {
        h->rds = sw_gw_text(b, &in->rds->route_config_name);
        if (h->rds.n == 0)
            return SW_GW_BAD(b, "rds without route_config_name");
        (void)sw_gw_need_present(b, SW_GW_TYPE_ROUTES, h->rds);
        return SW_OK;
    }
    if (in->route_specifier_case == SW__HTTP_CONNECTION_MANAGER__ROUTE_SPECIFIER_ROUTE_CONFIG) {
        h->inline_routes = sw_gw_build_route_config(b, in->route_config);
        return h->inline_routes ? SW_OK : SW_EINVAL;
    }
    return SW_GW_BAD(b, "neither rds nor route_config");
}

static void build_timeouts(const Sw__HttpConnectionManager *in, struct sw_gw_hcm *h)
{
    const Sw__HttpProtocolOptions *o = in->common_http_protocol_options;

    h->timeouts.idle_ns = sw_gw_duration(o ? o->idle_timeout : NULL, 3600 * SW_NS_PER_S);
    h->timeouts.stream_idle_ns = sw_gw_duration(in->stream_idle_timeout, 300 * SW_NS_PER_S);
    h->timeouts.request_ns = sw_gw_duration(in->request_timeout, 0);
    h->timeouts.request_headers_ns = sw_gw_duration(in->request_headers_timeout, 0);
    h->timeouts.drain_ns = sw_gw_duration(in->drain_timeout, SW_NS_PER_S);
    h->timeouts.delayed_close_ns = sw_gw_duration(in->delayed_close_timeout, SW_NS_PER_S);
    h->max_headers_count = 100;
    if (!o)
        return;
    h->timeouts.max_connection_ns = sw_gw_duration(o->max_connection_duration, 0);
    h->timeouts.max_stream_ns = sw_gw_duration(o->max_stream_duration, 0);
    h->max_headers_count = sw_gw_u32(o->max_headers_count, 100);
    h->max_requests_per_connection = sw_gw_u32(o->max_requests_per_connection, 0);
    h->underscores = (enum sw_gw_underscores)o->headers_with_underscores_action;
}

static void build_switches(struct sw_gw_build *b, const Sw__HttpConnectionManager *in,
                           struct sw_gw_hcm *h)
{
    h->server_name =
        in->server_name.len ? sw_gw_text(b, &in->server_name) : SW_SLICE_LIT("spanwire");
    h->via = sw_gw_text(b, &in->via);
    h->server_header = (enum sw_gw_server_header)in->server_header_transformation;
    h->xff.use_remote_address = sw_gw_bool(in->use_remote_address, false);
    h->xff.skip_append = in->skip_xff_append;
    h->xff.trusted_hops = in->xff_num_trusted_hops;
    h->request_id.generate = sw_gw_bool(in->generate_request_id, true);
    h->request_id.preserve = in->preserve_external_request_id;
    h->request_id.in_response = in->always_set_request_id_in_response;
    h->xfcc.mode = (enum sw_gw_xfcc)in->forward_client_cert_details;
    h->xfcc.uri = in->set_current_client_cert_details && in->set_current_client_cert_details->uri;
    h->path.normalize = sw_gw_bool(in->normalize_path, false);
    h->path.merge_slashes = in->merge_slashes;
    h->path.escaped_slash =
        in->path_with_escaped_slashes_action
            ? (enum sw_gw_escaped_slash)(in->path_with_escaped_slashes_action - 1)
            : SW_GW_SLASH_KEEP;
    h->strip.any_port = in->strip_port_mode_case ==
                            SW__HTTP_CONNECTION_MANAGER__STRIP_PORT_MODE_STRIP_ANY_HOST_PORT &&
                        in->strip_any_host_port;
    h->strip.matching_port = in->strip_matching_host_port;
    h->strip.trailing_dot = in->strip_trailing_host_dot;
    if (in->http_protocol_options) {
        h->h1.accept_http10 = in->http_protocol_options->accept_http_10;
        h->h1.host_http10 = sw_gw_text(b, &in->http_protocol_options->default_host_for_http_10);
        h->h1.trailers = in->http_protocol_options->enable_trailers;
    }
    h->max_headers_kb = sw_gw_u32(in->max_request_headers_kb, 60);
    sw_gw_build_h2(in->http2_protocol_options, &h->h2);
}

static int check_values(struct sw_gw_build *b, const Sw__HttpConnectionManager *in)
{
    const Sw__HttpProtocolOptions *o = in->common_http_protocol_options;

    if (o && (unsigned)o->headers_with_underscores_action > 2)
        return SW_GW_BAD(b, "headers_with_underscores_action is not defined");
    if ((unsigned)in->codec_type > 2)
        return SW_GW_BAD(b, "codec_type %d is not supported", (int)in->codec_type);
    if (in->server_name.len && !sw_http_value_valid(SW_PB_SLICE(in->server_name)))
        return SW_GW_BAD(b, "server_name is not a header value");
    if (in->via.len && !sw_http_value_valid(SW_PB_SLICE(in->via)))
        return SW_GW_BAD(b, "via is not a header value");
    if (in->http_protocol_options && in->http_protocol_options->default_host_for_http_10.len &&
        !sw_http_host_valid(SW_PB_SLICE(in->http_protocol_options->default_host_for_http_10)))
        return SW_GW_BAD(b, "default_host_for_http_10 is not a host");
    return SW_OK;
}

/* The filters, and the settings of the last of them, the router. */
static int build_filters(struct sw_gw_build *b, const Sw__HttpConnectionManager *in,
                         struct sw_gw_hcm *h)
{
    const Sw__Router *router;
    int rc =
        sw_gw_build_filters(b, in->http_filters, in->n_http_filters, &h->filters, &h->n_filters);

    if (rc < 0)
        return rc;
    router = sw_gw_open_any(b, in->http_filters[in->n_http_filters - 1]->typed_config,
                            &sw__router__descriptor);
    if (!router)
        return SW_EINVAL;
    h->suppress_envoy = router->suppress_envoy_headers;
    return SW_OK;
}

int sw_gw_build_hcm(struct sw_gw_build *b, const struct Sw__Any *any, struct sw_gw_hcm *h)
{
    const Sw__HttpConnectionManager *in =
        sw_gw_open_any(b, any, &sw__http_connection_manager__descriptor);
    int rc;

    if (!in)
        return SW_EINVAL;
    h->stat_prefix = sw_gw_text(b, &in->stat_prefix);
    if (h->stat_prefix.n == 0)
        return SW_GW_BAD(b, "stat_prefix missing");
    h->codec = (enum sw_gw_codec)in->codec_type;
    rc = check_values(b, in);
    if (rc < 0)
        return rc;
    build_switches(b, in, h);
    build_timeouts(in, h);
    build_upgrades(b, in, h);
    rc = build_filters(b, in, h);
    if (rc == SW_OK)
        rc = sw_gw_build_logs(b, in->access_log, in->n_access_log, &h->logs, &h->n_logs);
    if (rc == SW_OK && in->local_reply_config && in->local_reply_config->body_format)
        rc = sw_gw_build_body(b, in->local_reply_config->body_format, &h->local_body);
    if (rc == SW_OK)
        rc = build_routes_of(b, in, h);
    return rc;
}
