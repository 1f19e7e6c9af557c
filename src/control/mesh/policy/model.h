/* SPDX-License-Identifier: Apache-2.0 */
/* What goes into an index of policies (policy.h) and comes out of it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"

/* Texts are borrowed and must outlive the index. Empty ones mean the default in brackets. */
struct sw_mesh_policy_conf {
    struct sw_slice root_ns;      /* whose policies are for all namespaces [istio-system] */
    struct sw_slice trust_domain; /* of waypoints [cluster.local] */
    struct sw_slice revision;     /* of the objects that are read; empty: all */
    bool dry_run;                 /* policies annotated as dry-run are sent, marked as such */
    bool allow_waypoints; /* workloads behind a waypoint accept only the waypoint by default */
};

struct sw_mesh_label {
    struct sw_slice key;
    struct sw_slice value;
};

/* Workloads whose list of keys may have changed. */
struct sw_mesh_policy_scope {
    struct sw_slice ns;                 /* empty: all namespaces */
    const struct sw_mesh_label *labels; /* only those that have all of these */
    size_t n;
    struct sw_slice waypoint; /* "namespace/name": only those behind it; empty: not so */
};

/* A condition of an AuthorizationPolicy. */
struct sw_mesh_condition {
    const char *type;
    bool status;
    const char *reason;
    struct sw_slice message;
};

/* Where flush() puts what changed. Arguments are borrowed during the call; NULL: not wanted. */
struct sw_mesh_policy_sink {
    /* An encoded Authorization; value.p == NULL: it is gone. */
    void (*resource)(void *arg, struct sw_slice key, struct sw_slice value);
    void (*affected)(void *arg, const struct sw_mesh_policy_scope *scope);
    /* An AuthorizationPolicy was set; c == NULL: it is not for nodes, no condition of theirs. */
    void (*status)(void *arg, struct sw_slice ns, struct sw_slice name,
                   const struct sw_mesh_condition *c);
    void *arg;
};
