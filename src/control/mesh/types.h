/* SPDX-License-Identifier: Apache-2.0 */
/* What goes into the index of a mesh and comes out of it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/slice.h"
#include "control/mesh/policy/model.h"
#include "io/addr.h"
#include "kube/select/selector.h"

enum sw_mesh_kind {
    SW_MESH_NAMESPACE,
    SW_MESH_NODE,
    SW_MESH_CLASS, /* GatewayClass */
    SW_MESH_GATEWAY,
    SW_MESH_SERVICE,
    SW_MESH_SERVICE_ENTRY,
    SW_MESH_WORKLOAD_ENTRY,
    SW_MESH_SLICE, /* EndpointSlice */
    SW_MESH_POD,
    SW_MESH_KINDS
};

/* Who sees ServiceEntries; UNSET is PUBLIC, and no condition mentions it. */
enum sw_mesh_visibility {
    SW_MESH_VISIBILITY_UNSET,
    SW_MESH_VISIBILITY_PUBLIC,
    SW_MESH_VISIBILITY_NAMESPACE,
    SW_MESH_VISIBILITY_NONE, /* they are not published */
};

/* Who sees the ServiceEntries of namespaces that the selector matches. */
struct sw_mesh_visibility_rule {
    struct sw_label_selector namespaces;
    enum sw_mesh_visibility visibility;
};

/* Of which policies are asked for: workloads that have these labels. */
struct sw_mesh_subject {
    struct sw_slice ns;
    struct sw_slice labels; /* what mesh_labels_next of text.h reads */
    /* "namespace/name" of each that they or their services are bound to; sorted, each once. */
    const struct sw_slice *waypoints;
    size_t n_waypoints;
};
/*
 * The keys of the policies that the workloads list, in order, one per line in the arena. Called for
 * each set of labels; for each workload only where slices make pods endpoints.
 */
typedef struct sw_slice (*sw_mesh_policies_fn)(void *arg, const struct sw_mesh_subject *of,
                                               struct sw_arena *a);

/* Services that other clusters and networks see too: both selectors match. */
struct sw_mesh_scope {
    struct sw_label_selector services;
    struct sw_label_selector namespaces;
};

struct sw_mesh_index;

/* Texts are borrowed and must outlive the index. */
struct sw_mesh_conf {
    struct sw_slice cluster;            /* [Kubernetes] */
    struct sw_slice trust_domain;       /* [cluster.local] */
    struct sw_slice domain;             /* of Services [cluster.local] */
    struct sw_slice root_ns;            /* whose label names the network [istio-system] */
    struct sw_slice network;            /* where no label does */
    struct sw_slice revision;           /* of the Istio kinds that are read; empty: all */
    enum sw_mesh_visibility visibility; /* where no rule matches */
    const struct sw_mesh_visibility_rule *visibilities; /* the first that matches counts */
    size_t n_visibilities;
    sw_mesh_policies_fn policies; /* NULL: none */
    void *policies_arg;
    const struct sw_mesh_scope *scopes; /* GLOBAL is what one of them selects; others are LOCAL */
    size_t n_scopes;
    struct sw_mesh_index *home; /* of the mesh's own cluster; NULL: this is it */
};

/* What is to be known of a workload that is on another network than the own cluster. */
struct sw_mesh_far {
    struct sw_slice network;
    struct sw_slice identity; /* empty: none */
    uint32_t weight;          /* 0: not healthy */
    /* GLOBAL services, in whose split-horizon workloads it counts; not among its own any more. */
    const struct sw_slice *counted;
    size_t n_counted;
};

/* One resource that is new, different or gone (value.p == NULL). Borrowed during the call. */
struct sw_mesh_change {
    struct sw_slice name;
    struct sw_slice value; /* an encoded Address */
    const struct sw_slice *aliases;
    size_t n_aliases;
    struct sw_slice node;
    const struct sw_slice *services; /* keys of those whose endpoint a workload is */
    size_t n_services;
    const struct sw_mesh_far *far; /* of workloads; NULL: on the network of the own cluster */
    bool global;                   /* of services */
};
typedef void (*sw_mesh_emit_fn)(void *arg, const struct sw_mesh_change *c);

/* The pods labelled as instances of a Gateway. Borrowed during the call. */
struct sw_mesh_instances {
    struct sw_slice ns;
    struct sw_slice name;            /* of the Gateway, which need not exist */
    const struct sw_slice *accounts; /* that they run as, sorted, each once */
    size_t n;                        /* 0: there are none any more */
};
typedef void (*sw_mesh_instances_fn)(void *arg, const struct sw_mesh_instances *of);

/* Kinds of the view that statuses are made from. */
enum sw_mesh_status_kind {
    SW_MESH_ST_NAMESPACE,
    SW_MESH_ST_CLASS,
    SW_MESH_ST_GATEWAY,
    SW_MESH_ST_SERVICE,
    SW_MESH_ST_SERVICE_ENTRY,
    SW_MESH_ST_WORKLOAD_ENTRY,
    SW_MESH_ST_POLICY, /* AuthorizationPolicy */
    SW_MESH_ST_KINDS
};

struct sw_mesh_status_conf {
    struct sw_mesh_conf mesh;
    struct sw_mesh_policy_conf policy;
    bool allocate; /* give addresses to hosts of ServiceEntries */
    struct sw_cidr prefix4;
    struct sw_cidr prefix6;
};
