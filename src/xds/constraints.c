/* SPDX-License-Identifier: Apache-2.0 */
#include "xds/constraints.h"

#include <proto/cluster.pb-c.h>
#include <proto/core.pb-c.h>
#include <proto/httpfilter.pb-c.h>
#include <proto/listener.pb-c.h>
#include <proto/route.pb-c.h>
#include <proto/tls.pb-c.h>

const struct sw_pb_constraint sw_xds_constraints[] = {
    /* core */
    SW_PB_ROW_SET(envoy_internal_address, server_listener_name),
    SW_PB_ROW_WITHIN(health_check, alt_port, 0, 65535),
    SW_PB_ROW_CHOSEN(health_check, http_health_check, "has no checker"),
    SW_PB_ROW_SET(health_check, healthy_threshold),
    SW_PB_ROW_SET(health_check, interval),
    SW_PB_ROW_AT_LEAST(health_check, interval, 1),
    SW_PB_ROW_SET(health_check, timeout),
    SW_PB_ROW_AT_LEAST(health_check, timeout, 1),
    SW_PB_ROW_AT_LEAST(health_check, unhealthy_interval, 1),
    SW_PB_ROW_SET(health_check, unhealthy_threshold),
    SW_PB_ROW_AT_LEAST(http_protocol_options, max_headers_count, 1),
    SW_PB_ROW_WITHIN(percent, value, 0, 100),
    SW_PB_ROW_FILLED(pipe, path),
    SW_PB_ROW_SET(regex_match_and_substitute, pattern),
    SW_PB_ROW_CHOSEN(socket_address, port_value, NULL),
    SW_PB_ROW_WITHIN(socket_address, port_value, 0, 65535),
    /* listeners */
    SW_PB_ROW_WITHIN(filter_chain_match, destination_port, 1, 65535),
    SW_PB_ROW_FILLED(listener, name),
    /* connection managers and their filters */
    SW_PB_ROW_DEFINED(http_connection_manager, codec_type),
    SW_PB_ROW_DEFINED(http_connection_manager, forward_client_cert_details),
    SW_PB_ROW_WITHIN(http_connection_manager, max_request_headers_kb, 1, 8192),
    SW_PB_ROW_CHOSEN(http_connection_manager, rds, "has no routes"),
    SW_PB_ROW_DEFINED(http_connection_manager, path_with_escaped_slashes_action),
    SW_PB_ROW_DEFINED(http_connection_manager, server_header_transformation),
    SW_PB_ROW_FILLED(http_filter, name),
    SW_PB_ROW_SET(compressor, compressor_library),
    SW_PB_ROW_SET(cookie_based_session_state, cookie),
    SW_PB_ROW_WITHIN(gzip_compressor, memory_level, 1, 9),
    SW_PB_ROW_WITHIN(gzip_compressor, window_bits, 9, 15),
    /* bytes */
    SW_PB_ROW_CHOSEN(tcp_proxy, cluster, "has no cluster"),
    SW_PB_ROW_AT_LEAST(tcp_proxy, max_connect_attempts, 1),
    SW_PB_ROW_FILLED(tcp_proxy__tunneling_config, hostname),
    SW_PB_ROW_FILLED(tcp_proxy__weighted_cluster, clusters),
    SW_PB_ROW_FILLED(tcp_proxy__weighted_cluster__cluster_weight, name),
    SW_PB_ROW_CHOSEN(udp_proxy_config, cluster, "has no cluster"),
    /* routes */
    SW_PB_ROW_WITHIN(direct_response_action, status, 200, 599),
    SW_PB_ROW_FILLED(query_parameter_matcher, name),
    SW_PB_ROW_DEFINED(redirect_action, response_code),
    SW_PB_ROW_AT_LEAST(retry_policy__retry_back_off, base_interval, 1),
    SW_PB_ROW_CHOSEN(route, route, "has no action"),
    SW_PB_ROW_SET(route, match),
    SW_PB_ROW_CHOSEN(route_action, cluster, "has no cluster"),
    SW_PB_ROW_WITHIN(route_action, cluster_not_found_response_code, 0, 2),
    SW_PB_ROW_CHOSEN(route_match, prefix, "has no path"),
    SW_PB_ROW_FILLED(virtual_host, domains),
    SW_PB_ROW_FILLED(virtual_host, name),
    SW_PB_ROW_FILLED(weighted_cluster, clusters),
    /* clusters and endpoints */
    SW_PB_ROW_AT_LEAST(cluster, connect_timeout, 1),
    SW_PB_ROW_FILLED(cluster, name),
    SW_PB_ROW_DEFINED(cluster, type),
    SW_PB_ROW_AT_LEAST(cluster__least_request_lb_config, choice_count, 2),
    SW_PB_ROW_WITHIN(cluster__original_dst_lb_config, upstream_port_override, 0, 65535),
    SW_PB_ROW_AT_LEAST(cluster_load_assignment__policy, overprovisioning_factor, 1),
    SW_PB_ROW_AT_LEAST(lb_endpoint, load_balancing_weight, 1),
    SW_PB_ROW_AT_LEAST(lb_least_request, choice_count, 2),
    SW_PB_ROW_AT_LEAST(locality_lb_endpoints, load_balancing_weight, 1),
    SW_PB_ROW_WITHIN(locality_lb_endpoints, priority, 0, 128),
    SW_PB_ROW_AT_LEAST(outlier_detection, base_ejection_time, 1),
    SW_PB_ROW_WITHIN(outlier_detection, enforcing_consecutive_5xx, 0, 100),
    SW_PB_ROW_WITHIN(outlier_detection, enforcing_consecutive_gateway_failure, 0, 100),
    SW_PB_ROW_AT_LEAST(outlier_detection, interval, 1),
    SW_PB_ROW_WITHIN(outlier_detection, max_ejection_percent, 0, 100),
    /* TLS */
    SW_PB_ROW_FILLED(sds_secret_config, name),
    SW_PB_ROW_END,
};
