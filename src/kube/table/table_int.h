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

/* Makes a cell of a row; arg is the column's. */
typedef struct sw_json *table_cell_fn(const struct table_row *r, const char *arg);

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
table_cell_fn table_cell;
/* The integer at a path; how many items or members the value there has. */
table_cell_fn table_count, table_length;
/* Time since the creation. */
table_cell_fn table_age;
/* "path first second other": two texts of the object at a path with a slash between them. */
table_cell_fn table_pair;
/* A LabelSelector at a path, and labels that work as one. */
table_cell_fn table_selector, table_labels;

/* --- cells of certain kinds, by their files --- */

table_cell_fn table_event_last, table_event_first, table_event_object, table_event_sub,
    table_event_source, table_event_message, table_event_count;
table_cell_fn table_service_external, table_service_ports, table_service_selector,
    table_slice_ports, table_slice_addresses, table_endpoints;
table_cell_fn table_ingress_hosts, table_ingress_address, table_ingress_ports,
    table_class_parameters;
table_cell_fn table_node_status, table_node_roles;
/* The first address of a type. */
table_cell_fn table_node_address;
table_cell_fn table_workload_ready, table_job_status, table_job_completions, table_job_duration,
    table_cron_suspend, table_cron_last;
/* Names or images of the containers of the template in the object at a path. */
table_cell_fn table_container_names, table_container_images;
table_cell_fn table_volume_phase, table_volume_class, table_volume_size, table_volume_access,
    table_claim_size, table_claim_access, table_scaler_targets, table_scaler_min;
/* Counts of a quota: names that begin with "limits." (arg is "limits."), or the others. */
table_cell_fn table_quota;
table_cell_fn table_pod_ready, table_pod_status, table_pod_restarts, table_pod_ip, table_pod_gates;

/* --- columns.c --- */

enum table_flags {
    WIDE = 1, /* shown by "-o wide" only */
    INTEGER = 2,
    BOOLEAN = 4,
    DATE = 8,
};

struct table_column {
    const char *name; /* NULL behind the last one */
    table_cell_fn *cell;
    const char *arg;
    unsigned flags;
};

/* Those of a kind; Name and Age for NULL and for a kind with no others. */
const struct table_column *table_columns_of(const struct sw_builtin *b);
