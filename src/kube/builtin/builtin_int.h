/* SPDX-License-Identifier: Apache-2.0 */
/* What the validators of built-in kinds share. Not for others. */
#pragma once

#include "kube/builtin/builtin.h"
#include "kube/fields.h"

/* More lines for the table of types, see builtin_types.c. */
extern const char sw_builtin_pod_types[];
extern const char sw_builtin_work_types[];

/* 1 to 65535; a missing one counts as 0. */
void sw_b_port_number(const struct sw_json *v, const struct sw_fpath *at, struct sw_field_errs *e);
/* Any textual address; returns whether it is one. */
bool sw_b_ip(struct sw_slice ip, const struct sw_fpath *at, struct sw_field_errs *e);
/* Addresses that cannot be reached by others: unspecified, loopback, link-local. */
void sw_b_special_ip(struct sw_slice ip, const struct sw_fpath *at, struct sw_field_errs *e);
/* Host names that a resolver reads as an IPv4 address ("127.1") are none. */
void sw_b_not_numeric(struct sw_slice name, const struct sw_fpath *at, struct sw_field_errs *e);
/* Go's %#v of a list of strings of a type ("string", "core.IPFamily"). */
const char *sw_b_go_list(struct sw_arena *a, const struct sw_json *list, const char *type);
/* 'Invalid value' with a value already in Go's notation. */
void sw_b_invalid_go(struct sw_field_errs *e, const struct sw_fpath *at, const char *value,
                     const char *detail);

/* clusterIP, clusterIPs, ipFamilies and ipFamilyPolicy of a Service by themselves. */
void sw_b_check_cluster_ips(const struct sw_json *spec, struct sw_field_errs *e);

/* Defaults of a Pod, and what a new one gets besides. */
void sw_b_default_pod(struct sw_arena *a, struct sw_json *obj);
void sw_b_admit_pod(struct sw_arena *a, struct sw_json *obj);
/* The same for a spec wherever it stands: in a Pod or in a template. */
void sw_b_default_pod_spec(struct sw_arena *a, struct sw_json *spec);
void sw_b_check_pod_spec(const struct sw_json *spec, const struct sw_fpath *path,
                         struct sw_field_errs *e);

/* Those who make pods from a template. */
void sw_b_default_deployment(struct sw_arena *a, struct sw_json *obj);
void sw_b_default_replica_set(struct sw_arena *a, struct sw_json *obj);
void sw_b_default_daemon_set(struct sw_arena *a, struct sw_json *obj);
void sw_b_default_stateful_set(struct sw_arena *a, struct sw_json *obj);
void sw_b_default_replication_controller(struct sw_arena *a, struct sw_json *obj);
/* An object below v, made when it is missing; a number that is not there. */
struct sw_json *sw_b_object_in(struct sw_arena *a, struct sw_json *v, const char *key);
void sw_b_def_number(struct sw_arena *a, struct sw_json *v, const char *key, int64_t n);
void sw_b_def_str(struct sw_arena *a, struct sw_json *v, const char *key, const char *text);
/* A number that is negative. */
void sw_b_check_count(const struct sw_json *v, const char *key, const struct sw_fpath *path,
                      struct sw_field_errs *e);
/* The template at v.template: labels and pod spec. */
void sw_b_check_template(const struct sw_json *v, const struct sw_fpath *path,
                         struct sw_field_errs *e);

/* Jobs and CronJobs; a new Job selects its pods by its uid. */
void sw_b_default_job(struct sw_arena *a, struct sw_json *obj);
void sw_b_default_cron_job(struct sw_arena *a, struct sw_json *obj);
void sw_b_admit_job(struct sw_arena *a, struct sw_json *obj);
/* Volumes and claims. */
void sw_b_default_claim(struct sw_arena *a, struct sw_json *obj);
void sw_b_default_volume(struct sw_arena *a, struct sw_json *obj);
/* HorizontalPodAutoscalers of autoscaling/v2 and v1. */
void sw_b_default_autoscaler(struct sw_arena *a, struct sw_json *obj);
void sw_b_default_autoscaler_v1(struct sw_arena *a, struct sw_json *obj);

/* What a new Ingress does not have yet; defaults of an IngressClass. */
void sw_b_admit_ingress(struct sw_arena *a, struct sw_json *obj);
void sw_b_default_ingress_class(struct sw_arena *a, struct sw_json *obj);

/* One file each; old is NULL when the object is new. */
void sw_b_check_service(const struct sw_json *obj, const struct sw_json *old,
                        struct sw_field_errs *e);
void sw_b_check_endpoints(const struct sw_json *obj, const struct sw_json *old,
                          struct sw_field_errs *e);
void sw_b_check_endpoint_slice(const struct sw_json *obj, const struct sw_json *old,
                               struct sw_field_errs *e);
void sw_b_check_ingress(const struct sw_json *obj, const struct sw_json *old,
                        struct sw_field_errs *e);
void sw_b_check_ingress_class(const struct sw_json *obj, const struct sw_json *old,
                              struct sw_field_errs *e);
void sw_b_check_pod(const struct sw_json *obj, const struct sw_json *old, struct sw_field_errs *e);
void sw_b_check_deployment(const struct sw_json *obj, const struct sw_json *old,
                           struct sw_field_errs *e);
void sw_b_check_replica_set(const struct sw_json *obj, const struct sw_json *old,
                            struct sw_field_errs *e);
void sw_b_check_daemon_set(const struct sw_json *obj, const struct sw_json *old,
                           struct sw_field_errs *e);
void sw_b_check_stateful_set(const struct sw_json *obj, const struct sw_json *old,
                             struct sw_field_errs *e);
void sw_b_check_replication_controller(const struct sw_json *obj, const struct sw_json *old,
                                       struct sw_field_errs *e);
void sw_b_check_job(const struct sw_json *obj, const struct sw_json *old, struct sw_field_errs *e);
void sw_b_check_cron_job(const struct sw_json *obj, const struct sw_json *old,
                         struct sw_field_errs *e);
void sw_b_check_claim(const struct sw_json *obj, const struct sw_json *old,
                      struct sw_field_errs *e);
void sw_b_check_volume(const struct sw_json *obj, const struct sw_json *old,
                       struct sw_field_errs *e);
void sw_b_check_quota(const struct sw_json *obj, const struct sw_json *old,
                      struct sw_field_errs *e);
void sw_b_check_autoscaler(const struct sw_json *obj, const struct sw_json *old,
                           struct sw_field_errs *e);
void sw_b_check_event(const struct sw_json *obj, const struct sw_json *old,
                      struct sw_field_errs *e);
void sw_b_check_event_v1(const struct sw_json *obj, const struct sw_json *old,
                         struct sw_field_errs *e);
void sw_b_check_role(const struct sw_json *obj, const struct sw_json *old, struct sw_field_errs *e);
void sw_b_check_binding(const struct sw_json *obj, const struct sw_json *old,
                        struct sw_field_errs *e);
void sw_b_check_webhooks(const struct sw_json *obj, const struct sw_json *old,
                         struct sw_field_errs *e);
