/* SPDX-License-Identifier: Apache-2.0 */
/* Cells of tables that take more than a look at one field. */
#pragma once

#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"

struct table_row {
    struct sw_arena *a;
    const struct sw_json *obj;
    int64_t now_s;
};

/* The string at a dotted path; empty when there is none. */
struct sw_slice table_text(const struct sw_json *obj, const char *path);
/* The same as a cell. */
struct sw_json *table_cell(const struct table_row *r, const char *path);

/* The time between two moments, until now when there is no second one. */
const char *table_between(const struct table_row *r, struct sw_slice from, struct sw_slice to);

/* --- table_event.c --- */
struct sw_json *table_event_last(const struct table_row *r);
struct sw_json *table_event_first(const struct table_row *r);
struct sw_json *table_event_type(const struct table_row *r);
struct sw_json *table_event_reason(const struct table_row *r);
struct sw_json *table_event_object(const struct table_row *r);
struct sw_json *table_event_sub(const struct table_row *r);
struct sw_json *table_event_source(const struct table_row *r);
struct sw_json *table_event_message(const struct table_row *r);
struct sw_json *table_event_count(const struct table_row *r);

/* --- table_service.c --- */
struct sw_json *table_service_ip(const struct table_row *r);
struct sw_json *table_service_type(const struct table_row *r);
struct sw_json *table_service_external(const struct table_row *r);
struct sw_json *table_service_ports(const struct table_row *r);
struct sw_json *table_service_selector(const struct table_row *r);
struct sw_json *table_slice_type(const struct table_row *r);
struct sw_json *table_slice_ports(const struct table_row *r);
struct sw_json *table_slice_addresses(const struct table_row *r);
struct sw_json *table_endpoints(const struct table_row *r);
/* Addresses and names of load balancers, in order, each once. */
void table_put_balancers(const struct table_row *r, struct sw_buf *b, const struct sw_json *in);

/* --- table_ingress.c --- */
struct sw_json *table_ingress_class(const struct table_row *r);
struct sw_json *table_ingress_hosts(const struct table_row *r);
struct sw_json *table_ingress_address(const struct table_row *r);
struct sw_json *table_ingress_ports(const struct table_row *r);
struct sw_json *table_class_controller(const struct table_row *r);
struct sw_json *table_class_parameters(const struct table_row *r);

/* --- table_node.c --- */
struct sw_json *table_node_status(const struct table_row *r);
struct sw_json *table_node_roles(const struct table_row *r);
struct sw_json *table_node_version(const struct table_row *r);
struct sw_json *table_node_internal(const struct table_row *r);
struct sw_json *table_node_external(const struct table_row *r);
struct sw_json *table_node_os(const struct table_row *r);
struct sw_json *table_node_kernel(const struct table_row *r);
struct sw_json *table_node_runtime(const struct table_row *r);
/* --- table_workload.c --- */
struct sw_json *table_deployment_ready(const struct table_row *r);
struct sw_json *table_deployment_updated(const struct table_row *r);
struct sw_json *table_deployment_available(const struct table_row *r);
struct sw_json *table_replicas_desired(const struct table_row *r);
struct sw_json *table_replicas_current(const struct table_row *r);
struct sw_json *table_replicas_ready(const struct table_row *r);
struct sw_json *table_daemons_desired(const struct table_row *r);
struct sw_json *table_daemons_current(const struct table_row *r);
struct sw_json *table_daemons_ready(const struct table_row *r);
struct sw_json *table_daemons_updated(const struct table_row *r);
struct sw_json *table_daemons_available(const struct table_row *r);
struct sw_json *table_daemons_nodes(const struct table_row *r);
struct sw_json *table_workload_containers(const struct table_row *r);
struct sw_json *table_workload_images(const struct table_row *r);
struct sw_json *table_workload_selector(const struct table_row *r);
struct sw_json *table_controller_selector(const struct table_row *r);
struct sw_json *table_job_status(const struct table_row *r);
struct sw_json *table_job_completions(const struct table_row *r);
struct sw_json *table_job_duration(const struct table_row *r);
struct sw_json *table_cron_schedule(const struct table_row *r);
struct sw_json *table_cron_zone(const struct table_row *r);
struct sw_json *table_cron_suspend(const struct table_row *r);
struct sw_json *table_cron_active(const struct table_row *r);
struct sw_json *table_cron_last(const struct table_row *r);
struct sw_json *table_cron_containers(const struct table_row *r);
struct sw_json *table_cron_images(const struct table_row *r);
struct sw_json *table_cron_selector(const struct table_row *r);
/* --- table_volume.c --- */
struct sw_json *table_volume_phase(const struct table_row *r);
struct sw_json *table_volume_class(const struct table_row *r);
struct sw_json *table_volume_attributes(const struct table_row *r);
struct sw_json *table_volume_mode(const struct table_row *r);
struct sw_json *table_volume_size(const struct table_row *r);
struct sw_json *table_volume_access(const struct table_row *r);
struct sw_json *table_volume_policy(const struct table_row *r);
struct sw_json *table_volume_claim(const struct table_row *r);
struct sw_json *table_volume_reason(const struct table_row *r);
struct sw_json *table_claim_volume(const struct table_row *r);
struct sw_json *table_claim_size(const struct table_row *r);
struct sw_json *table_claim_access(const struct table_row *r);
struct sw_json *table_scaler_reference(const struct table_row *r);
struct sw_json *table_scaler_targets(const struct table_row *r);
struct sw_json *table_scaler_min(const struct table_row *r);
struct sw_json *table_scaler_max(const struct table_row *r);
struct sw_json *table_scaler_replicas(const struct table_row *r);
struct sw_json *table_quota_request(const struct table_row *r);
struct sw_json *table_quota_limit(const struct table_row *r);
/* --- table_pod.c --- */
struct sw_json *table_pod_ready(const struct table_row *r);
struct sw_json *table_pod_status(const struct table_row *r);
struct sw_json *table_pod_restarts(const struct table_row *r);
struct sw_json *table_pod_ip(const struct table_row *r);
struct sw_json *table_pod_node(const struct table_row *r);
struct sw_json *table_pod_nominated(const struct table_row *r);
struct sw_json *table_pod_gates(const struct table_row *r);
