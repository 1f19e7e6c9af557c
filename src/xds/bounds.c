/* SPDX-License-Identifier: Apache-2.0 */
#include "xds/bounds.h"

#include <proto/cluster.pb-c.h>
#include <proto/core.pb-c.h>
#include <proto/endpoint.pb-c.h>
#include <proto/hcm.pb-c.h>
#include <proto/l4.pb-c.h>
#include <proto/listener.pb-c.h>
#include <proto/route.pb-c.h>

/* The last members of a row: at least that many. */
#define AT_LEAST(n) n, UINT64_MAX

const struct sw_pb_bound sw_xds_bounds[] = {
    {&sw__cluster__descriptor, "connect_timeout", AT_LEAST(1)},
    {&sw__cluster__least_request_lb_config__descriptor, "choice_count", AT_LEAST(2)},
    {&sw__cluster__original_dst_lb_config__descriptor, "upstream_port_override", 0, 65535},
    {&sw__cluster_load_assignment__policy__descriptor, "overprovisioning_factor", AT_LEAST(1)},
    {&sw__filter_chain_match__descriptor, "destination_port", 1, 65535},
    {&sw__health_check__descriptor, "alt_port", 0, 65535},
    {&sw__health_check__descriptor, "interval", AT_LEAST(1)},
    {&sw__health_check__descriptor, "timeout", AT_LEAST(1)},
    {&sw__health_check__descriptor, "unhealthy_interval", AT_LEAST(1)},
    {&sw__http_connection_manager__descriptor, "max_request_headers_kb", 1, 8192},
    {&sw__http_protocol_options__descriptor, "max_headers_count", AT_LEAST(1)},
    {&sw__lb_endpoint__descriptor, "load_balancing_weight", AT_LEAST(1)},
    {&sw__lb_least_request__descriptor, "choice_count", AT_LEAST(2)},
    {&sw__locality_lb_endpoints__descriptor, "load_balancing_weight", AT_LEAST(1)},
    {&sw__locality_lb_endpoints__descriptor, "priority", 0, 128},
    {&sw__outlier_detection__descriptor, "base_ejection_time", AT_LEAST(1)},
    {&sw__outlier_detection__descriptor, "enforcing_consecutive_5xx", 0, 100},
    {&sw__outlier_detection__descriptor, "enforcing_consecutive_gateway_failure", 0, 100},
    {&sw__outlier_detection__descriptor, "interval", AT_LEAST(1)},
    {&sw__outlier_detection__descriptor, "max_ejection_percent", 0, 100},
    {&sw__percent__descriptor, "value", 0, 100},
    {&sw__retry_policy__retry_back_off__descriptor, "base_interval", AT_LEAST(1)},
    {&sw__route_action__descriptor, "cluster_not_found_response_code", 0, 2},
    {&sw__socket_address__descriptor, "port_value", 0, 65535},
    {&sw__tcp_proxy__descriptor, "max_connect_attempts", AT_LEAST(1)},
    {NULL, NULL, 0, 0},
};
