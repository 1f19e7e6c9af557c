/* SPDX-License-Identifier: Apache-2.0 */
/* Columns of built-in kinds and their cells, each made from a row and its column's argument. */
#pragma once

#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "kube/builtin/builtin.h"

struct table_row {
    struct sw_arena *a;
    const struct sw_json *obj;
    int64_t now_s;
};

typedef struct sw_json *(*table_cell_fn)(const struct table_row *r, const char *arg);

/* --- what the makers of cells use --- */

/* The value at a dotted path; NULL when there is none. */
const struct sw_json *table_at(const struct sw_json *obj, const char *path);
/* The string at a dotted path; empty when there is none. */
struct sw_slice table_text(const struct sw_json *obj, const char *path);
/* The integer at a dotted path; 0 when there is none. */
int64_t table_number(const struct sw_json *obj, const char *path);
/* A cell with s, or with other when s is empty. */
struct sw_json *table_or(const struct table_row *r, struct sw_slice s, const char *other);
/* The time between two moments, until now when there is no second one. */
const char *table_between(const struct table_row *r, struct sw_slice from, struct sw_slice to);
/* Whether the first condition of a type in status.conditions has the status True. */
bool table_condition_true(const struct sw_json *obj, struct sw_slice type);
/* Texts in order, each once, with commas between them. */
void table_put_sorted(struct sw_buf *b, struct sw_slice *p, size_t n);
/* Addresses and names of load balancers, in order, each once. */
void table_put_balancers(const struct table_row *r, struct sw_buf *b, const struct sw_json *in);

/* --- cells for any kind --- */

/* The string at a path; "path|other" has another text for one that is missing or empty. */
struct sw_json *table_cell(const struct table_row *r, const char *arg);
/* The integer at a path. */
struct sw_json *table_count(const struct table_row *r, const char *path);
/* How many items or members the value at a path has. */
struct sw_json *table_length(const struct table_row *r, const char *path);
/* Time since the creation. */
struct sw_json *table_age(const struct table_row *r, const char *none);
/* "path first second other": two texts of the object at a path with a slash between them. */
struct sw_json *table_pair(const struct table_row *r, const char *arg);
/* A LabelSelector at a path, and labels that work as one. */
struct sw_json *table_selector(const struct table_row *r, const char *path);
struct sw_json *table_labels(const struct table_row *r, const char *path);

/* --- event.c --- */
struct sw_json *table_event_last(const struct table_row *r, const char *none);
struct sw_json *table_event_first(const struct table_row *r, const char *none);
struct sw_json *table_event_object(const struct table_row *r, const char *none);
struct sw_json *table_event_sub(const struct table_row *r, const char *none);
struct sw_json *table_event_source(const struct table_row *r, const char *none);
struct sw_json *table_event_message(const struct table_row *r, const char *none);
struct sw_json *table_event_count(const struct table_row *r, const char *none);

/* --- service.c --- */
struct sw_json *table_service_external(const struct table_row *r, const char *none);
struct sw_json *table_service_ports(const struct table_row *r, const char *none);
struct sw_json *table_service_selector(const struct table_row *r, const char *none);
struct sw_json *table_slice_ports(const struct table_row *r, const char *none);
struct sw_json *table_slice_addresses(const struct table_row *r, const char *none);
struct sw_json *table_endpoints(const struct table_row *r, const char *none);

/* --- ingress.c --- */
struct sw_json *table_ingress_hosts(const struct table_row *r, const char *none);
struct sw_json *table_ingress_address(const struct table_row *r, const char *none);
struct sw_json *table_ingress_ports(const struct table_row *r, const char *none);
struct sw_json *table_class_parameters(const struct table_row *r, const char *none);

/* --- node.c --- */
struct sw_json *table_node_status(const struct table_row *r, const char *none);
struct sw_json *table_node_roles(const struct table_row *r, const char *none);
/* The first address of a type. */
struct sw_json *table_node_address(const struct table_row *r, const char *type);

/* --- workload.c --- */
struct sw_json *table_workload_ready(const struct table_row *r, const char *none);
/* Names or images of the containers of the template in the object at a path. */
struct sw_json *table_container_names(const struct table_row *r, const char *path);
struct sw_json *table_container_images(const struct table_row *r, const char *path);
struct sw_json *table_job_status(const struct table_row *r, const char *none);
struct sw_json *table_job_completions(const struct table_row *r, const char *none);
struct sw_json *table_job_duration(const struct table_row *r, const char *none);
struct sw_json *table_cron_suspend(const struct table_row *r, const char *none);
struct sw_json *table_cron_last(const struct table_row *r, const char *none);

/* --- volume.c --- */
struct sw_json *table_volume_phase(const struct table_row *r, const char *none);
struct sw_json *table_volume_class(const struct table_row *r, const char *none);
struct sw_json *table_volume_size(const struct table_row *r, const char *none);
struct sw_json *table_volume_access(const struct table_row *r, const char *none);
struct sw_json *table_claim_size(const struct table_row *r, const char *none);
struct sw_json *table_claim_access(const struct table_row *r, const char *none);
struct sw_json *table_scaler_targets(const struct table_row *r, const char *none);
struct sw_json *table_scaler_min(const struct table_row *r, const char *none);
/* Counts of a quota: names that begin with "limits." (arg is "limits."), or the others. */
struct sw_json *table_quota(const struct table_row *r, const char *arg);

/* --- pod.c --- */
struct sw_json *table_pod_ready(const struct table_row *r, const char *none);
struct sw_json *table_pod_status(const struct table_row *r, const char *none);
struct sw_json *table_pod_restarts(const struct table_row *r, const char *none);
struct sw_json *table_pod_ip(const struct table_row *r, const char *none);
struct sw_json *table_pod_gates(const struct table_row *r, const char *none);

/* --- columns.c --- */

enum table_flags {
    WIDE = 1, /* shown by "-o wide" only */
    INTEGER = 2,
    BOOLEAN = 4,
    DATE = 8,
};

struct table_column {
    const char *name; /* NULL behind the last one */
    table_cell_fn cell;
    const char *arg;
    unsigned flags;
};

/* Those of a kind; Name and Age for NULL and for a kind with no others. */
const struct table_column *table_columns_of(const struct sw_builtin *b);
