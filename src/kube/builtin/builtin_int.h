/* SPDX-License-Identifier: Apache-2.0 */
/* What the validators of built-in kinds share. Not for others. */
#pragma once

#include "kube/at.h"
#include "kube/builtin/builtin.h"
#include "kube/fields.h"

/* More lines for the table of types, see builtin_types.c. */
extern const char sw_builtin_pod_types[];
extern const char sw_builtin_work_types[];

#define SW_B_PROTOCOLS "SCTP TCP UDP"

/* 1 to 65535; a missing one counts as 0. */
void sw_b_port_number(const struct sw_at *at);
/* Any textual address; returns whether it is one. */
bool sw_b_ip(const struct sw_at *ip);
/* Addresses that cannot be reached by others: unspecified, loopback, link-local. */
void sw_b_special_ip(const struct sw_at *ip);
/* A host name that is none. */
void sw_b_no_ip(const struct sw_at *host);
/*
 * A domain, with a trailing dot or not, with two_labels of two labels at least. Names that a
 * resolver reads as an IPv4 address ("127.1") are none.
 */
void sw_b_domain(const struct sw_at *at, bool two_labels);
/* Go's %#v of a list of strings of a type ("string", "core.IPFamily"). */
const char *sw_b_go_list(struct sw_arena *a, const struct sw_json *list, const char *type);
/* 'Invalid value' with a value already in Go's notation, and with the list at a place. */
void sw_b_invalid_go(const struct sw_at *at, const char *value, const char *detail);
void sw_b_invalid_list(const struct sw_at *at, const char *type, const char *detail);
/* Equal but for the members named, with spaces between them. */
bool sw_b_equal_but(struct sw_arena *a, const struct sw_json *x, const struct sw_json *y,
                    const char *keys);
/* A stored spec that stays is not judged again; old is the stored object or NULL. */
bool sw_b_kept(const struct sw_at *spec, const struct sw_json *old);

/* clusterIP, clusterIPs, ipFamilies and ipFamilyPolicy of a Service by themselves. */
void sw_b_check_cluster_ips(const struct sw_at *spec);

/* Defaults of an object by its kind; what the server adds to a new one. */
typedef void sw_b_fill_fn(struct sw_arena *a, struct sw_json *obj);
sw_b_fill_fn sw_b_default_pod, sw_b_default_workload, sw_b_default_deployment,
    sw_b_default_daemon_set, sw_b_default_stateful_set, sw_b_default_replication_controller,
    sw_b_default_job, sw_b_default_cron_job, sw_b_default_autoscaler, sw_b_default_ingress_class;
sw_b_fill_fn sw_b_admit_pod, sw_b_admit_job;
/* A pod's spec wherever it stands: in a Pod or in a template. */
void sw_b_default_pod_spec(struct sw_arena *a, struct sw_json *spec);
void sw_b_check_pod_spec(const struct sw_at *spec);
/* An object below v, made when it is missing. */
struct sw_json *sw_b_object_in(struct sw_arena *a, struct sw_json *v, const char *key);
/*
 * Fills members of v, which may be no object, that are missing, or are texts and empty: "key=value"
 * with spaces between them, where a value is a number, true, false, null, {} or a text; null[] also
 * takes the place of an empty list. A key may be a path: "spec.ports[].protocol=TCP" is for every
 * item, "spec!.replicas=1" makes the object on the way where it is missing.
 */
void sw_b_defaults(struct sw_arena *a, struct sw_json *v, const char *list);
/* Numbers that must not be negative: their keys with spaces between them. */
void sw_b_check_counts(const struct sw_at *at, const char *keys);
/* Labels and pod spec of a template. */
void sw_b_check_template(const struct sw_at *template);
/*
 * The selector must select what the template makes. An empty one would take every pod there is:
 * that is refused for a 'what', which is NULL when it is not.
 */
void sw_b_check_selector(const struct sw_at *spec, const char *what);

/* What a PersistentVolumeClaim at a path ("", or one that ends with a dot) gets. */
#define SW_B_CLAIM_DEFAULTS(at)                                                                    \
    at "spec!.resources={} " at "spec.volumeMode=Filesystem " at "status!.phase=Pending"

/* Checks of an object by its kind; old is NULL when it is new. */
typedef void sw_b_check_fn(const struct sw_at *obj, const struct sw_json *old);
sw_b_check_fn sw_b_check_service, sw_b_check_endpoints, sw_b_check_endpoint_slice,
    sw_b_check_ingress, sw_b_check_ingress_class, sw_b_check_pod, sw_b_check_deployment,
    sw_b_check_replica_set, sw_b_check_daemon_set, sw_b_check_stateful_set,
    sw_b_check_replication_controller, sw_b_check_job, sw_b_check_cron_job, sw_b_check_claim,
    sw_b_check_volume, sw_b_check_quota, sw_b_check_autoscaler, sw_b_check_event,
    sw_b_check_event_v1, sw_b_check_role, sw_b_check_binding, sw_b_check_webhooks;
