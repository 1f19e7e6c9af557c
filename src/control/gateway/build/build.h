/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gateway API objects (and Ingresses) into the model of model.h and their statuses. Pure: a view
 * and a configuration in, everything in one arena out, equal bytes for equal input. An error in
 * one section takes that section out and leaves the others serving.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "control/gateway/model.h"
#include "control/linkport.h"
#include "control/runtime.h"

/* Kinds of the view, by index. */
enum sw_model_kind {
    SW_MODEL_CLASS,
    SW_MODEL_GATEWAY,
    SW_MODEL_LISTENERSET,
    SW_MODEL_HTTPROUTE,
    SW_MODEL_GRPCROUTE,
    SW_MODEL_TLSROUTE,
    SW_MODEL_TCPROUTE,
    SW_MODEL_UDPROUTE,
    SW_MODEL_GRANT,
    SW_MODEL_BACKENDTLS,
    SW_MODEL_SERVICE,
    SW_MODEL_SECRET,
    SW_MODEL_CONFIGMAP,
    SW_MODEL_NAMESPACE,
    SW_MODEL_INGRESS,
    SW_MODEL_INGRESSCLASS,
    SW_MODEL_CRD,
    SW_MODEL_ACCOUNT, /* ServiceAccounts that carry what Gateways say of infrastructure */
    SW_MODEL_CONNECTOR,
    SW_MODEL_CONNECTORCLASS,
    SW_MODEL_CLAIM,     /* on keys */
    SW_MODEL_HOSTCLAIM, /* on host names */
    SW_MODEL_ADVERTISEMENT,
    SW_MODEL_BACKENDSLICE, /* EndpointSlices that belong to no Service */
    SW_MODEL_IMPORT,       /* services of other sites */
    SW_MODEL_KINDS,
};
extern const struct sw_control_kind sw_gateway_kinds[SW_MODEL_KINDS];

/* Kinds of the view that endpoints are made from. */
enum sw_model_ep_kind {
    SW_MODEL_EP_SERVICE,
    SW_MODEL_EP_SLICE,
    SW_MODEL_EP_ENDPOINTS, /* hand-written ones of the older kind; slices go first */
    SW_MODEL_EP_CONNECTOR,
    SW_MODEL_EP_CONNECTORCLASS,
    SW_MODEL_EP_CLAIM,
    SW_MODEL_EP_KINDS,
};
extern const struct sw_control_kind sw_gateway_endpoint_kinds[SW_MODEL_EP_KINDS];

/* The address for clients, and where the data plane binds for it. */
struct sw_model_address {
    struct sw_slice address; /* an IP address; a DNS name in lower case with 'hostname' */
    bool hostname;
    struct sw_slice bind;
};

/* Ports from first to last. */
struct sw_gateway_ports {
    uint16_t first;
    uint16_t last;
};

/* A backend that is not a Service: where requests for it go. */
struct sw_gateway_ref {
    struct sw_slice group; /* networking.datumapis.com, clusterlink.net */
    struct sw_slice kind;
    struct sw_slice ns;
    struct sw_slice name;
    uint16_t port; /* 0: none given */
};

struct sw_gateway_conf {
    struct sw_slice controller;         /* ["spanwire.dev/gateway"] */
    struct sw_slice ingress_controller; /* ["spanwire.dev/ingress"] */
    const struct sw_model_address *addrs;
    size_t n_addrs;
    uint16_t port_offset; /* added to ports below 1024; 0: they are bound as they are */
    const struct sw_gateway_ports *reserved; /* TCP ports where data planes may not listen */
    size_t n_reserved;
    size_t max_listeners;      /* of a Gateway and its ListenerSets [SW_GATEWAY_LISTENERS_MAX] */
    size_t max_sockets;        /* (address, transport, port) of all [SW_GATEWAY_SOCKETS_MAX] */
    bool ingress_shared_hosts; /* Ingresses of several namespaces may serve one host together */
    /* Where links have their objects [SW_LINK_NAMESPACE], and target ports never leased. */
    struct sw_slice link_ns;
    const struct sw_link_ports *link_reserved;
    size_t n_link_reserved;
};

/* Sets come from many hands, and each new port costs the data plane a descriptor per worker. */
enum {
    SW_GATEWAY_ADDRS_MAX = 4096,
    SW_GATEWAY_LISTENERS_MAX = 16384,
    SW_GATEWAY_SOCKETS_MAX = 4096,
};
/*
 * Reads "ADDRESS[=BIND]", "HOSTNAME=BIND", "ADDRESS/PREFIX" (each address of the range but the
 * first and, in IPv4, the last), several joined by commas. Gateways get an address of their own
 * while there are enough. SW_EINVAL, SW_ELIMIT.
 */
SW_NODISCARD int sw_gateway_addrs_parse(struct sw_arena *a, struct sw_slice in,
                                        struct sw_model_address **ret, size_t *ret_n,
                                        struct sw_err *err);

/* Reads "6443,15000-15063"; empty is none. SW_EINVAL, SW_ELIMIT. */
SW_NODISCARD int sw_gateway_ports_parse(struct sw_arena *a, struct sw_slice in,
                                        struct sw_gateway_ports **ret, size_t *ret_n,
                                        struct sw_err *err);

/* A status to be written: it differs from what the view shows. */
struct sw_model_status {
    enum sw_model_kind kind;
    const struct sw_kube_obj *of;
    const struct sw_json *status; /* conditions without lastTransitionTime changed: see stamp */
};

/* Something an operator should read once. */
struct sw_model_note {
    struct sw_slice subject; /* "gateway/ns/name/listener" */
    struct sw_slice text;
    bool refused; /* a host name of others was asked for: counted */
};

/* Something an Event shall say about an object. */
struct sw_model_notice {
    enum sw_model_kind kind;
    const struct sw_kube_obj *of;
    const char *reason;
    struct sw_slice text;
};

/* Something that shall be so in the API, and is not as far as the view shows. */
enum sw_model_want_how {
    SW_MODEL_WANT_OBJECT, /* with at least these fields; also wanted while it is there */
    SW_MODEL_WANT_GONE,
    SW_MODEL_WANT_FINALIZER,
    SW_MODEL_WANT_NO_FINALIZER,
};

struct sw_model_want {
    enum sw_model_want_how how;
    enum sw_model_kind kind;
    const struct sw_kube_obj *of; /* OBJECT: because of whom */
    const struct sw_json *json;   /* OBJECT */
    struct sw_slice finalizer;
};

struct sw_model_result {
    const struct sw_model *model;
    const struct sw_model_status *statuses; /* by kind, namespace, name */
    size_t n_statuses;
    const struct sw_model_want *wants;
    size_t n_wants;
    const struct sw_model_note *notes; /* by subject */
    size_t n_notes;
    const struct sw_model_notice *notices; /* of objects that no status says anything about */
    size_t n_notices;
};

/* Objects of the view are borrowed by the result, which must not outlive it. */
void sw_gateway_build(const struct sw_view *v, const struct sw_gateway_conf *conf,
                      struct sw_arena *a, struct sw_model_result *ret);

/*
 * The same with memory of the build before, for a view that differs little from the last: equal
 * results for less work. The configuration must be the same each time. The result borrows from the
 * cache too and dies with the next call; one thread at a time.
 */
struct sw_gateway_cache *sw_gateway_cache_new(void);
void sw_gateway_cache_free(struct sw_gateway_cache *c);
/* How many routes were compiled and certificates parsed. */
struct sw_gateway_cache_stats {
    size_t compiled;
    size_t certs;
};
struct sw_gateway_cache_stats sw_gateway_cache_stats(const struct sw_gateway_cache *c);
void sw_gateway_rebuild(struct sw_gateway_cache *cache, const struct sw_view *v,
                        const struct sw_gateway_conf *conf, struct sw_arena *a,
                        struct sw_model_result *ret);

/* The endpoint sets of these names (from sw_model.endpoints); unknown ones are empty. */
void sw_gateway_endpoints(const struct sw_view *v, const struct sw_slice *names, size_t n,
                          struct sw_arena *a, struct sw_endpoint_model *ret);

/*
 * The part of a model that endpoints need, as text and back: equal parts give equal text, so that
 * changes elsewhere leave endpoints alone. The model read has endpoints, the clusters that are
 * tunnels or UDP, and the UDP listeners; it borrows the text.
 */
struct sw_slice sw_gateway_plan_write(struct sw_arena *a, const struct sw_model *m);
void sw_gateway_plan_read(struct sw_arena *a, struct sw_slice text, struct sw_model *ret);

/* The set of a host name's addresses, see resolved.h. */
struct sw_slice sw_resolved_name(struct sw_arena *a, struct sw_slice host, uint16_t port);
/* False: the set is of another kind. The results may be NULL. */
bool sw_resolved_parse(struct sw_slice set, struct sw_slice *ret_host, uint16_t *ret_port);
/* Calls fn for every such set that a plan names. */
void sw_resolved_wanted(struct sw_slice plan, void (*fn)(void *arg, struct sw_slice set),
                        void *arg);

/*
 * The part of a model that some Gateways ask for, as if there were no others and no Ingresses:
 * their chains and hosts, and the clusters, secrets and endpoints these refer to. Shares what it
 * can with the whole; new parts are in the arena.
 */
void sw_model_scope(const struct sw_model *m, const struct sw_slice *gateways, size_t n,
                    struct sw_arena *a, struct sw_model *ret);

/*
 * A copy of a status in which every condition without lastTransitionTime has the given one: the
 * build knows no clock and leaves it out where the condition's status changed.
 */
const struct sw_json *sw_gateway_stamp(struct sw_arena *a, const struct sw_json *status,
                                       uint64_t wall_ns);

/* Text of a model for people and golden tests; equal models give equal bytes. */
SW_NODISCARD int sw_model_dump(const struct sw_model *m, struct sw_buf *out);
SW_NODISCARD int sw_model_endpoints_dump(const struct sw_endpoint_model *m, struct sw_buf *out);
