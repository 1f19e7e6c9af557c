/* SPDX-License-Identifier: Apache-2.0 */
/* The records of a mesh's index. For the files of this room only. */
#pragma once

#include "base/arena.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "base/vec.h"
#include "control/mesh/read/text.h"
#include "control/mesh/types.h"
#include "io/addr.h"
#include "kube/select/selector.h"

enum {
    MESH_IPS_MAX = 16,         /* of one workload */
    MESH_PORTS_MAX = 1024,     /* of one service, container list or slice */
    MESH_HOSTS_MAX = 256,      /* of one ServiceEntry */
    MESH_ADDRESSES_MAX = 256,  /* of one service */
    MESH_ENDPOINTS_MAX = 2048, /* of one ServiceEntry or slice */
    MESH_LISTENERS_MAX = 64,   /* of one Gateway */
    MESH_TERMS_MAX = 1 << 18,  /* hosts times endpoints times ports of one ServiceEntry */
    MESH_LISTED_MAX = 8192,    /* ports of all services that select one workload */
};

/* A resource that was emitted, or waits for it. */
struct mesh_out {
    char *name; /* owned */
    uint64_t hash;
};
typedef SW_VEC(struct mesh_out) mesh_outs;

struct mesh_ns {
    struct mesh_text *name;
    struct mesh_text *labels;
    struct mesh_text *distribution;     /* annotation */
    struct mesh_text *canary_weight;    /* annotation */
    enum sw_mesh_visibility visibility; /* of its ServiceEntries */
    bool known;                         /* the Namespace object exists */
    struct sw_log_limit cut;            /* lines about services that were left out */
    struct sw_list groups;              /* mesh_group.in_ns */
    struct sw_list services;            /* mesh_svc.in_ns */
    struct sw_list slices;              /* mesh_slice.in_ns */
};

struct mesh_node {
    struct mesh_text *name;
    struct mesh_text *region;
    struct mesh_text *zone;
    struct mesh_text *subzone;
    bool known;
    struct sw_list pods; /* mesh_workload.in_node */
};

struct mesh_locality {
    struct sw_slice region;
    struct sw_slice zone;
    struct sw_slice subzone;
};

/* What only WorkloadEntries have. */
struct mesh_we {
    struct mesh_text *network;
    struct mesh_text *hostname;
    struct mesh_text *locality;
    uint32_t weight;
};

/*
 * Workloads of a namespace with equal labels: what selectors, waypoints and policies say is the
 * same for all of them and kept here once.
 */
struct mesh_group {
    struct mesh_ns *ns;
    struct mesh_text *labels; /* with ns the key in the index: keep together */
    struct sw_list in_ns;
    struct sw_list dirty;
    struct sw_list members; /* mesh_workload.in_group */
    struct mesh_offer **offers;
    uint32_t n_offers;
    bool fresh; /* the context was never computed */
    bool cut;   /* services beyond MESH_LISTED_MAX were left out */
    struct mesh_text *policies;
    uint64_t context; /* hash of everything the members take from here */
};

/* A Pod or a WorkloadEntry. There may be a million. */
struct mesh_workload {
    struct sw_list in_group;
    struct sw_list in_node;
    struct sw_list dirty;
    struct mesh_group *group;
    struct mesh_node *node; /* NULL: none named */
    struct mesh_we *we;     /* NULL: a Pod */
    struct mesh_text *account;
    struct mesh_text *workload_name;
    struct mesh_text *ports; /* named ones, see ports.h */
    uint64_t uid;            /* hash of metadata.uid; 0: none */
    uint64_t emitted;        /* hash of the resource; 0: there is none */
    uint16_t key_len;
    uint16_t ips_len; /* bytes: per address a family and the address */
    bool healthy : 1;
    bool host_network : 1;
    bool hbone : 1;
    bool native : 1;
    char key[]; /* "namespace/name", then the addresses */
};

struct mesh_port {
    uint16_t port;
    uint16_t target; /* 0: named */
    uint8_t app;     /* AppProtocol */
    struct sw_slice name;
    struct sw_slice target_name;
};

enum mesh_distribution {
    MESH_DISTRIBUTION_NONE, /* not set */
    MESH_DISTRIBUTION_ANY,  /* set, and means any */
    MESH_DISTRIBUTION_ZONE,
    MESH_DISTRIBUTION_NODE,
};

enum mesh_resolution {
    MESH_RESOLUTION_NONE,
    MESH_RESOLUTION_STATIC,
    MESH_RESOLUTION_DNS,
    MESH_RESOLUTION_DYNAMIC,
};

/* An endpoint inside a ServiceEntry. */
struct mesh_endpoint {
    struct sw_slice address; /* as written */
    struct sw_ip ip;         /* family 0: address is a host name */
    struct mesh_text *labels;
    struct sw_slice network;
    struct sw_slice account;
    struct mesh_locality locality;
    uint32_t weight;
    struct mesh_text *ports;
};

/* A service that asks for a waypoint that it does not get. */
enum mesh_missing {
    MESH_MISSING_NONE,
    MESH_MISSING_PASSED, /* traffic goes past it */
    MESH_MISSING_HELD,   /* traffic is refused */
    MESH_MISSING_STATES,
};

/* One host of a service. */
struct mesh_offer {
    struct mesh_svc *of;
    struct mesh_host *host;
    struct sw_slice key; /* "namespace/hostname" */
    const struct sw_cidr *addresses;
    size_t n_addresses;
    bool won; /* not hidden by another service of this host in its namespace */
    bool canonical;
    enum mesh_missing missing;
    uint64_t
        bound; /* hash of its waypoints as of the last renewal; workloads list policies by it */
    uint64_t emitted;
};

/* A Service or a ServiceEntry. */
struct mesh_svc {
    struct sw_arena arena; /* slices and arrays below */
    struct sw_list in_ns;
    struct sw_list dirty; /* endpoints of a ServiceEntry */
    struct mesh_ns *ns;
    struct sw_slice key; /* "namespace/name" */
    struct sw_slice name;
    struct sw_slice created;
    struct mesh_text *labels;
    struct mesh_text *selector; /* NULL: none */
    struct mesh_port *ports;
    size_t n_ports;
    struct mesh_offer *offers; /* one for a Service */
    size_t n_offers;
    struct sw_slice canary_weight; /* annotation; p == NULL: none */
    enum mesh_distribution distribution;
    uint64_t shape; /* hash of what endpoints take from here */
    bool entry;
    bool global;          /* as of the last renewal of its hosts */
    bool gateway_managed; /* a waypoint's or east-west gateway's own */
    /* Services */
    bool local_only; /* internalTrafficPolicy: Local */
    bool publish_not_ready;
    uint8_t families; /* IPFamilies */
    /* ServiceEntries */
    bool wildcard;
    bool hbone; /* of its endpoints */
    bool native;
    bool racing; /* connect strategy */
    enum mesh_resolution resolution;
    const struct sw_slice *sans;
    size_t n_sans;
    struct mesh_endpoint *endpoints;
    size_t n_endpoints;
    mesh_outs outs;
};

/* All services of one host name. */
struct mesh_host {
    struct sw_list dirty;
    SW_VEC(struct mesh_offer *) offers;
    struct mesh_text *name;
};

/* An endpoint of a slice that is no pod. */
struct mesh_foreign {
    struct sw_ip *ips;
    size_t n_ips;
    bool ready;
};

/* The slices of one Service, which need not exist. */
struct mesh_backing {
    struct sw_slice key;   /* "namespace/name" of the Service, owned */
    struct sw_list slices; /* mesh_slice.in_backing; never empty */
};

struct mesh_slice {
    struct sw_list in_ns;
    struct sw_list in_backing;
    struct sw_list dirty;
    struct mesh_ns *ns;
    struct mesh_backing *backing;
    struct mesh_text *service; /* name */
    struct mesh_text *ports;
    char *pods; /* owned: of each that is an endpoint uid hash, length, name */
    size_t pods_len;
    bool bound; /* the pods are in the index's targets */
    struct sw_arena arena;
    struct mesh_foreign *foreign;
    size_t n_foreign;
    mesh_outs outs;
    struct sw_slice key;
    struct sw_slice name;
};

/* Slices of Services without a selector that name a pod. */
struct mesh_target_ref {
    struct mesh_slice *slice;
    uint64_t uid; /* that the slice says the pod has; 0: none */
};
struct mesh_target {
    struct sw_slice key; /* of the pod, owned */
    SW_VEC(struct mesh_target_ref) refs;
};

enum mesh_from {
    MESH_FROM_SAME,
    MESH_FROM_ALL,
    MESH_FROM_SELECTOR,
};

struct mesh_listener {
    uint16_t port;
    bool hbone;
    bool proxy;
    bool terminates; /* TLS */
    enum mesh_from from;
    struct sw_label_selector selector;
};

struct mesh_gateway {
    struct sw_arena arena;
    struct sw_slice key; /* "namespace/name" */
    struct sw_slice ns;
    struct sw_slice name;
    struct sw_slice class;
    struct sw_slice traffic; /* label; p == NULL: not set */
    struct sw_slice binding; /* annotation; p == NULL: not set */
    struct sw_slice network; /* label; p == NULL: not set */
    struct sw_slice account;
    struct mesh_locality locality;
    struct sw_slice far; /* "cluster/namespace/name" where it is another's; p == NULL: our own */
    struct mesh_listener *listeners;
    size_t n_listeners;
    struct sw_slice hostname;      /* first of the status; empty: none */
    struct sw_ip ip;               /* first of the status; family 0: none */
    const struct sw_slice *status; /* all addresses, as written */
    size_t n_status;
    uint64_t digest; /* of everything above */
};

struct mesh_class {
    struct sw_slice name; /* owned */
    struct mesh_text *traffic;
    struct mesh_text *binding;
};

/* How another network is reached; a workload of its own. */
struct mesh_netgw {
    struct sw_slice network;
    struct sw_slice address; /* as written */
    struct sw_ip ip;         /* family 0: a host name */
    uint16_t port;
    const struct mesh_gateway *gateway;
};

struct sw_mesh_index {
    struct sw_mesh_conf conf;
    struct mesh_pool pool;
    struct sw_map namespaces;
    struct sw_map nodes;
    struct sw_map pods;
    struct sw_map workload_entries;
    struct sw_map services;
    struct sw_map service_entries;
    struct sw_map slices;
    struct sw_map backings; /* mesh_backing by key */
    struct sw_map hosts;
    struct sw_map groups;
    struct sw_map gateways;
    struct sw_map far_gateways; /* of other clusters, that lead into their networks */
    struct sw_map classes;
    struct sw_map targets;
    struct sw_map gone;            /* name -> mesh_out: was emitted, and has no owner now */
    struct sw_map dirty_instances; /* "namespace/name" of Gateways -> itself, owned */
    struct sw_list dirty_hosts;
    struct sw_list dirty_slices;
    struct sw_list dirty_groups;
    struct sw_list dirty_entries;
    struct sw_list dirty_workloads;
    bool dirty_networks;
    bool closing; /* nothing is remembered any more */
    struct mesh_text *network;
    SW_VEC(struct mesh_netgw) netgws; /* by network; within one the preferred first */
    uint64_t netgws_renewed;
    mesh_outs netgw_outs;
    struct sw_arena tmp; /* of one resource */
    sw_mesh_emit_fn emit;
    void *emit_arg;
    uint64_t computed;
    uint64_t work; /* about bytes that were encoded or compared; only ever grows */
    uint64_t emitted;
    size_t missing[MESH_MISSING_STATES]; /* offers in each; the first does not count */
};
