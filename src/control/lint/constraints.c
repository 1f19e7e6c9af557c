/* SPDX-License-Identifier: Apache-2.0 */
/* Constraints of Envoy that our gateway does without: xds/constraints.c has those of both. */
#include <proto/cluster.pb-c.h>
#include <proto/core.pb-c.h>
#include <proto/httpfilter.pb-c.h>
#include <proto/listener.pb-c.h>
#include <proto/route.pb-c.h>
#include <proto/tls.pb-c.h>

#include "control/lint/lint_int.h"

const struct sw_pb_constraint sw_lint_constraints[] = {
    /* core */
    SW_PB_ROW_CHOSEN(address, socket_address, "has no address"),
    SW_PB_ROW_CHOSEN(config_source, ads, "names no source"),
    SW_PB_ROW_DEFINED(config_source, resource_api_version),
    SW_PB_ROW_CHOSEN(data_source, inline_bytes, "has no source"),
    SW_PB_ROW_FILLED(data_source, filename),
    SW_PB_ROW_DEFINED(fractional_percent, denominator),
    SW_PB_ROW_FILLED(grpc_service__envoy_grpc, cluster_name),
    SW_PB_ROW_FILLED(health_check__http_health_check, path),
    SW_PB_ROW_WITHIN(http2_protocol_options, initial_connection_window_size, 65535, INT32_MAX),
    SW_PB_ROW_WITHIN(http2_protocol_options, initial_stream_window_size, 65535, INT32_MAX),
    SW_PB_ROW_WITHIN(http2_protocol_options, max_concurrent_streams, 1, INT32_MAX),
    SW_PB_ROW_DEFINED(http_protocol_options, headers_with_underscores_action),
    SW_PB_ROW_SET(http_uri, cluster),
    SW_PB_ROW_FILLED(http_uri, cluster),
    SW_PB_ROW_SET(http_uri, timeout),
    SW_PB_ROW_FILLED(http_uri, uri),
    SW_PB_ROW_SET(runtime_fractional_percent, default_value),
    SW_PB_ROW_FILLED(socket_address, address),
    SW_PB_ROW_DEFINED(socket_address, protocol),
    SW_PB_ROW_CHOSEN(string_matcher, exact, "has no pattern"),
    SW_PB_ROW_FILLED(string_matcher, contains),
    SW_PB_ROW_FILLED(string_matcher, prefix),
    SW_PB_ROW_FILLED(string_matcher, suffix),
    SW_PB_ROW_FILLED(transport_socket, name),
    SW_PB_ROW_CHOSEN(transport_socket, typed_config, NULL),
    SW_PB_ROW_FILLED(typed_extension_config, name),
    SW_PB_ROW_SET(typed_extension_config, typed_config),
    /* listeners */
    SW_PB_ROW_CHOSEN(access_log, typed_config, NULL),
    SW_PB_ROW_FILLED(filter, name),
    SW_PB_ROW_CHOSEN(filter, typed_config, NULL),
    SW_PB_ROW_FILLED(listener_filter, name),
    SW_PB_ROW_CHOSEN(listener_filter, typed_config, NULL),
    SW_PB_ROW_CHOSEN(matcher__on_match, action, "does nothing"),
    /* connection managers and their filters */
    SW_PB_ROW_FILLED(http_connection_manager, stat_prefix),
    SW_PB_ROW_CHOSEN(http_filter, typed_config, NULL),
    SW_PB_ROW_SET(rds, config_source),
    SW_PB_ROW_DEFINED(ext_authz, transport_api_version),
    SW_PB_ROW_AT_LEAST(ext_authz_buffer_settings, max_request_bytes, 1),
    SW_PB_ROW_WITHIN(gzip_compressor, chunk_size, 4096, 65536),
    SW_PB_ROW_FILLED(header_based_session_state, name),
    SW_PB_ROW_FILLED(session_cookie, name),
    SW_PB_ROW_CHOSEN(stateful_session_per_route, disabled, "neither disables nor sets anything"),
    /* bytes */
    SW_PB_ROW_FILLED(tcp_proxy, stat_prefix),
    SW_PB_ROW_AT_LEAST(tcp_proxy__weighted_cluster__cluster_weight, weight, 1),
    SW_PB_ROW_FILLED(udp_proxy_config, stat_prefix),
    SW_PB_ROW_FILLED(udp_proxy_config__session_filter, name),
    SW_PB_ROW_CHOSEN(udp_proxy_config__session_filter, typed_config, NULL),
    SW_PB_ROW_WITHIN(udp_proxy_config__udp_tunneling_config, default_target_port, 1, 65535),
    SW_PB_ROW_FILLED(udp_proxy_config__udp_tunneling_config, proxy_host),
    SW_PB_ROW_FILLED(udp_proxy_config__udp_tunneling_config, target_host),
    SW_PB_ROW_SET(udp_route, cluster),
    SW_PB_ROW_FILLED(udp_route, cluster),
    /* routes */
    SW_PB_ROW_FILLED(cookie_matcher, name),
    SW_PB_ROW_SET(cookie_matcher, string_match),
    SW_PB_ROW_FILLED(filter_config_entry, key),
    SW_PB_ROW_SET(retry_policy__retry_back_off, base_interval),
    SW_PB_ROW_FILLED(retry_policy__retry_host_predicate, name),
    SW_PB_ROW_CHOSEN(retry_policy__retry_host_predicate, typed_config, NULL),
    SW_PB_ROW_FILLED(route_action, cluster),
    SW_PB_ROW_FILLED(route_action__upgrade_config, upgrade_type),
    SW_PB_ROW_SET(weighted_cluster__cluster_weight, weight),
    /* clusters and endpoints */
    SW_PB_ROW_DEFINED(cluster, lb_policy),
    SW_PB_ROW_FILLED(cluster_load_assignment, cluster_name),
    SW_PB_ROW_SET(internal_upstream_transport, transport_socket),
    SW_PB_ROW_FILLED(internal_upstream_transport__metadata_value_source, name),
    SW_PB_ROW_CHOSEN(upstream_protocol_options, explicit_http_config, "chooses no protocol"),
    SW_PB_ROW_CHOSEN(upstream_protocol_options__explicit_http_config, http_protocol_options,
                     "chooses no protocol"),
    /* TLS */
    SW_PB_ROW_SET(common_tls_context__combined_certificate_validation_context,
                  default_validation_context),
    SW_PB_ROW_SET(common_tls_context__combined_certificate_validation_context,
                  validation_context_sds_secret_config),
    SW_PB_ROW_DEFINED(certificate_validation_context, trust_chain_verification),
    SW_PB_ROW_FILLED(secret, name),
    SW_PB_ROW_CHOSEN(secret, tls_certificate, "holds nothing"),
    SW_PB_ROW_SET(subject_alt_name_matcher, matcher),
    SW_PB_ROW_AT_LEAST(subject_alt_name_matcher, san_type, 1),
    SW_PB_ROW_DEFINED(subject_alt_name_matcher, san_type),
    SW_PB_ROW_SET(tls_certificate, certificate_chain),
    SW_PB_ROW_SET(tls_certificate, private_key),
    SW_PB_ROW_END,
};
