/* SPDX-License-Identifier: Apache-2.0 */
/* Options of `spanwire control` (control_options.c has the table `sw_control_options`). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cmd/control/cluster.h"
#include "cmd/control/connector.h"
#include "cmd/control/dns.h"
#include "cmd/control/gateway.h"
#include "cmd/control/link.h"
#include "cmd/control/mesh.h"
#include "cmd/control/mesh_xds.h"
#include "io/addr.h"
#include "opts/opts.h"
#include "opts/upstream.h"

struct control_options {
    const char *data;
    struct sw_addr listen;
    const char *advertise;
    struct sw_opt_list names;
    const char *audit_log;
    bool relaxed_sync;
    uint32_t max_inflight;
    uint32_t max_watches;
    uint32_t max_conns;
    uint32_t max_conns_addr;
    uint32_t space_objects;
    uint32_t space_mib;
    uint64_t unread_timeout;
    uint64_t work_timeout;
    uint32_t keep_events;
    uint64_t keep_for;
    bool fabric_kinds;
    const char *device_account;
    bool loopback_endpoints;
    struct sw_upstream_opts upstream;
    const char *trust_roots;
    struct sw_control_cluster_opts cluster;
    bool gateway;
    struct sw_control_gateway_opts gw;
    bool connector;
    struct sw_control_connector_opts cn;
    struct sw_control_dns_opts dns;
    bool mesh;
    struct sw_control_mesh_opts ms;
    struct sw_control_mesh_xds_opts mx;
    struct sw_control_link_opts ln;
    uint64_t drain;
    const char *log_level;
    int log_format;
};

extern const struct sw_opts_cmd sw_control_options;
