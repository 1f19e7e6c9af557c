/* SPDX-License-Identifier: Apache-2.0 */
/* What the stages of the build work on: Gateways, listeners, routes, policies, sockets. */
#pragma once

#include "base/map.h"
#include "base/vec.h"
#include "control/device/keys.h"
#include "control/gateway/build/build.h"
#include "control/gateway/planes.h"
#include "control/objects.h"
#include "kube/select/selector.h"

#define GW_GROUP "gateway.networking.k8s.io"

enum route_kind {
    RK_HTTP,
    RK_GRPC,
    RK_TLS,
    RK_TCP,
    RK_UDP,
    RK_COUNT,
};

enum proto {
    PROTO_HTTP,
    PROTO_HTTPS,
    PROTO_TLS,
    PROTO_TCP,
    PROTO_UDP,
    PROTO_UNKNOWN,
};

/* A condition's outcome: reason NULL means all is well. */
struct verdict {
    const char *reason;
    const char *msg;
};
/* One whose message is printed into the build's arena. */
#define VERDICT(b, reason, ...) ((struct verdict){(reason), sw_arena_printf((b)->a, __VA_ARGS__)})

struct gateway;
struct listener;

/* What routes take of a table: encoded bytes, at most, and words of regular expressions. */
struct load {
    uint64_t bytes;
    uint64_t words;
};

/* One parentRef's worth of a route on a listener. */
struct attached {
    struct attached *next;
    /* Where it is, in terms that the next build understands too; the route's next. */
    size_t parent;
    size_t listener;
    struct attached *also;
    const struct route *route;
    const struct compiled *compiled;
    struct sw_slice *hosts; /* effective; one "" for routes without hosts */
    size_t n_hosts;
    /* In this build: what is served of it, and why not all; see budget.c. */
    const struct compiled *use;
    struct verdict limit;
    bool guard; /* the route is not accepted; what it would guard is refused */
};

enum from {
    FROM_SAME,
    FROM_ALL,
    FROM_SELECTOR,
    FROM_NONE,
};

struct ns_rule {
    enum from from;
    struct sw_label_selector selector;
};

struct listener {
    struct parent *parent;
    const struct sw_json *spec;
    struct sw_slice name;
    struct sw_slice host; /* empty: all */
    uint16_t port;
    uint16_t bind_port;
    enum proto proto;
    enum sw_model_tls_mode tls;
    unsigned kinds;            /* bits of enum route_kind that may attach */
    struct sw_json *supported; /* supportedKinds */
    struct ns_rule ns;
    struct verdict accepted;
    struct verdict resolved;
    struct verdict conflict; /* beats accepted and programmed */
    const char *broken;      /* cannot be served although accepted */
    bool overlapping;        /* its hostname with another's on the socket */
    bool overlapping_certs;  /* a certificate of its covers a name that another's does too */
    const char *note;
    struct sw_slice *certs;
    size_t n_certs;
    enum sw_model_client_mode client_mode;
    struct sw_slice client_ca;
    bool refuse;                 /* no handshake may succeed */
    bool claimed;                /* has its place on the sockets */
    bool no_socket;              /* would need one more than there may be */
    const struct route *counted; /* the route that attached last */
    size_t attached;
    struct attached *routes; /* newest first */
};

/* What a route may name as its parent. */
struct parent {
    const struct sw_kube_obj *obj; /* first: cn_oldest_holder_first */
    size_t number;                 /* in order of making */
    enum sw_model_kind kind;       /* SW_MODEL_GATEWAY or SW_MODEL_LISTENERSET */
    struct gateway *gw;
    struct listener *listeners;
    size_t n_listeners;
    struct verdict refused; /* a ListenerSet that may not attach */
    const char *refused_programmed;
};

struct gateway {
    struct parent parent; /* first */
    const struct sw_json *spec;
    size_t *addrs; /* indexes into the configuration's */
    size_t n_addrs;
    struct verdict accepted;     /* before its listeners are looked at */
    struct verdict programmed;   /* addresses */
    struct verdict resolved;     /* backend client certificate */
    struct sw_slice client_cert; /* a secret's name */
    struct ns_rule sets_ns;
    struct parent **sets; /* in order of precedence */
    size_t n_sets;
    size_t attached_sets;
    size_t n_claimed; /* listeners with a place, its sets' among them */
    bool full_noted;  /* that one of them got none */
};

/* A route of an L7 kind ready for a table, with what decides its place there. */
struct entry {
    const struct sw_model_route *r;
    const struct route *route;
    bool grpc;
    uint8_t rank;  /* of the path's kind, small first */
    uint32_t len1; /* path; gRPC: service */
    uint32_t len2; /* gRPC: method */
    uint16_t rule;
    uint16_t match;
    uint16_t share;      /* of the rule's backends, in order */
    bool low;            /* Ingress: behind everything else */
    bool local_redirect; /* the redirect's port depends on the listener */
};

/* A route's rules for Gateways with one and the same client certificate. */
struct compiled {
    struct sw_slice client_cert;
    struct entry *entries;
    size_t n_entries;
    size_t cap_entries;
    const struct sw_model_backend *plain; /* L4: as they are */
    const struct sw_model_backend *tls;   /* TLSRoute, terminated: with BackendTLSPolicies */
    size_t n_backends;
    struct load load; /* of all entries, for one host */
    struct compiled *next;
};

struct route {
    struct sw_arena *arena; /* where what is compiled from it lives */
    const struct sw_kube_obj *obj;
    enum route_kind kind;
    const struct sw_json *spec;
    const struct sw_json *refs; /* parentRefs */
    struct sw_slice created;
    struct sw_slice *hosts;
    size_t n_hosts;
    bool bad_host; /* one of them is none */
    struct compiled *compiled;
    struct verdict resolved;
    struct verdict bad_rule; /* the first rule that cannot be served */
    size_t n_rules;
    size_t n_bad_rules;
    bool fail_closed;          /* one of the bad ones keeps its matches and answers with an error */
    bool too_large;            /* beyond what one object may have */
    bool left_out;             /* an Ingress, in this build: the table is full */
    struct attached *attached; /* everywhere it is */
    SW_VEC(struct sw_slice) services;         /* "ns/name" of Services, for policies' ancestors */
    SW_VEC(struct sw_model_cluster *) sticky; /* that it keeps sessions on */
    SW_VEC(struct sw_slice) looked_at;        /* "ns/name" of Services, there or not */
    bool crossing;                            /* refers to other namespaces: grants matter */
    bool importing;                           /* refers to Imports: their leases matter */
};

/* A route's conditions for one parentRef. */
struct route_parent {
    const struct sw_json *ref;
    struct verdict accepted;
    size_t parent; /* its number */
};

/* A route from build to build. */
struct kept {
    struct sw_arena arena;
    struct route route;
    bool built; /* what follows is filled in */
    struct route_parent *parents;
    size_t n_parents;
    struct sw_json *status; /* NULL: none is wanted */
};

struct policy {
    const struct sw_kube_obj *obj;   /* first */
    struct sw_model_backend_tls tls; /* without the client certificate */
    struct verdict accepted;
    struct verdict resolved;
    struct gateway **ancestors;
    size_t n_ancestors;
};

/* A cluster and what the build has to know of it besides. */
struct own_cluster {
    struct sw_model_cluster c;
    bool used;              /* by something that is served */
    const char *offline;    /* why the tunnel's connector is offline; NULL: it is not */
    struct sw_slice device; /* of a tunnel: its connector's name */
};

static inline struct own_cluster *own_cluster(const struct sw_model_cluster *c)
{
    /* All clusters of a build are made by it. */
    return (struct own_cluster *)((uintptr_t)c - offsetof(struct own_cluster, c));
}

struct ingress_entry {
    struct sw_slice host; /* "*" for all */
    const struct entry *entry;
    struct route *of;
};

/* (bind address, transport, port): who shares a socket. */
struct socket {
    struct sw_slice key;
    size_t addr;
    uint16_t port;
    uint16_t bind_port;
    enum proto proto;                    /* HTTP, HTTPS (with TLS), TCP, UDP */
    struct sw_map hosts;                 /* hostname ("*" for all) -> struct listener */
    SW_VEC(struct listener *) listeners; /* in order of claim */
    struct sw_map ingress_tls;           /* host -> struct sw_slice: the certificate's secret */
    SW_VEC(struct ingress_entry) ingress;
};

struct builder {
    const struct sw_view *v;
    const struct sw_gateway_conf *conf;
    struct sw_arena *a;
    struct sw_arena *keep;          /* of clusters, which routes from earlier builds may name */
    struct sw_gateway_cache *cache; /* NULL: nothing is kept */
    struct sw_map classes;          /* name -> object of ours */
    struct sw_map parents;          /* "gateway|ns/name", "set|ns/name" -> struct parent */
    struct sw_map grants;           /* namespace -> struct grant_range */
    struct sw_map policies;         /* "ns/service|port name" -> struct policy */
    struct sw_map targets;          /* "ns/service" -> struct policy_link: all that name it */
    struct sw_map clusters;
    struct sw_map secrets; /* name -> struct sw_model_secret */
    struct sw_map sockets;
    struct sw_map bound;          /* (bind, transport, bind port) -> struct socket */
    struct sw_map recorded;       /* places that statuses say are taken; see conflicts.c */
    struct sw_map claimed;        /* host -> struct sw_slice: namespace of the HTTPProxy */
    struct sw_map ingress_claims; /* host -> struct ingress_claim; see ingress_claims.c */
    struct sw_map ingress_new;    /* hosts that are claimed by this build */
    struct sw_map ingress_tally;  /* namespace -> struct tally */
    struct sw_map held;           /* host -> struct held; see held.c */
    bool held_read;
    struct sw_map names;                 /* host -> struct name; see names.c */
    struct sw_map refused;               /* subjects of notes on names of others */
    SW_VEC(struct parent *) parent_list; /* by number */
    SW_VEC(struct gateway *) gateways;   /* oldest first */
    SW_VEC(struct socket *) socket_list;
    SW_VEC(struct policy *) policy_list;
    SW_VEC(struct sw_model_status) statuses;
    SW_VEC(struct sw_model_want) wants;
    SW_VEC(struct sw_model_note) notes;
    SW_VEC(struct sw_model_notice) notices;
    SW_VEC(const struct kept *) l7; /* HTTPRoutes and GRPCRoutes: their statuses come last */
    SW_VEC(struct sw_model_listener *) out_listeners;
    SW_VEC(struct sw_model_table *) out_tables;
    const struct sw_planes *planes; /* NULL: data planes are not asked */
    struct sw_map out_names;        /* of out_listeners, while there are planes */
    struct sw_connector_keys keys;
    struct sw_map leases; /* "ns/name" of an Import -> struct sw_link_lease; see imports.c */
    bool leases_read;
};

/* What a backend is resolved for. */
struct backend_ctx {
    struct route *route;
    struct sw_slice client_cert;
    bool use_policies;
    bool http2; /* whatever the port says of itself */
};

/* A condition that a status shall have. */
struct cond {
    const char *type;
    bool yes;
    const char *reason;
    const char *msg;
};
