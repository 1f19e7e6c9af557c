/* SPDX-License-Identifier: Apache-2.0 */
/* What the stages of the build share. Not for others. */
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
    size_t number; /* in order of making */
    const struct sw_kube_obj *obj;
    enum sw_model_kind kind; /* SW_MODEL_GATEWAY or SW_MODEL_LISTENERSET */
    struct gateway *gw;
    struct listener *listeners;
    size_t n_listeners;
    struct verdict refused; /* a ListenerSet that may not attach */
    const char *refused_programmed;
};

struct gateway {
    struct parent parent;
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
void route_done(struct route *r);

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
    const struct sw_kube_obj *obj;
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

/* ---- objects.c ---- */

/* True when group and kind (or their defaults) are these. */
bool ref_is(const struct sw_json *ref, const char *def_group, const char *def_kind,
            const char *group, const char *kind);
/* Reads {from, selector}; an unreadable selector admits no namespace. */
struct ns_rule ns_rule_read(struct builder *b, const struct sw_json *namespaces,
                            enum from otherwise);
bool ns_rule_admits(const struct builder *b, const struct ns_rule *r, struct sw_slice own,
                    struct sw_slice other);
extern const char *const route_kind_names[RK_COUNT];
extern const enum sw_model_kind route_view_kinds[RK_COUNT];
/* printf into the arena as a slice. */
struct sw_slice gw_printf(struct builder *b, const char *fmt, ...) SW_PRINTF(2, 3);
/* The map's values in the order of their keys, in the arena. */
void **sorted_values(struct sw_arena *a, const struct sw_map *m);
void add_note(struct builder *b, struct sw_slice subject, struct sw_slice text);
/* Objects that refer to a class or a parent that does not exist: no controller writes their status.
 */
void notice_gateways(struct builder *b);
void notice_route(struct builder *b, const struct route *r);
void add_notice(struct builder *b, enum sw_model_kind kind, const struct sw_kube_obj *of,
                const char *reason, struct sw_slice text);

/* ---- hosts.c ---- */

/*
 * A name of lower-case labels, a star for the first allowed: what the API's definitions let
 * through. Anything else would make the data plane refuse the whole table, routes of other tenants
 * included.
 */
bool host_valid(struct sw_slice h);
/* Section 8 of the API's rules: what listener and route have in common. */
bool host_intersect(struct sw_slice listener, struct sw_slice route, struct sw_slice *ret);
/* The value for the most specific pattern in the map that covers all of 'host'. */
void *host_owner(const struct sw_map *hosts, struct sw_slice host);
/* The next wider pattern of "a.b.c": "*.b.c", "*.c", "*". False after "*". */
bool host_widen(struct builder *b, struct sw_slice *host);

/* True for what stands for all names or those of a whole top-level domain: it owns none of them. */
bool host_is_wide(struct sw_slice host);

/* ---- names.c ---- */

/* Reads what HTTPProxies and Ingresses have claimed. */
void names_init(struct builder *b);
/*
 * The earlier holder of the host, in words, when another namespace than the listener's and the
 * route's has claimed it; NULL: none. An Ingress's wildcard is a claim on what is below it, too, by
 * objects that are younger: 'since' is the creation time of the object that asks; empty: now.
 */
const char *name_claimed(struct builder *b, struct sw_slice host, const struct parent *p,
                         struct sw_slice route_ns, struct sw_slice since);
/* Says, once, that the object serves nothing under the host. */
void name_refused(struct builder *b, enum sw_model_kind kind, const struct sw_kube_obj *of,
                  struct sw_slice host);
/* True, and a condition, for a name of the route that another namespace has claimed. */
bool name_refuses_route(struct builder *b, const struct listener *l, const struct route *r,
                        struct sw_slice host);
/* Once routes are attached: what Gateways serve on the address that Ingresses share with them. */
void names_of_gateways(struct builder *b);
/* True when the Ingress may serve the host ("*" for all), which then is its namespace's. Oldest
 * first. */
bool name_for_ingress(struct builder *b, struct sw_slice host, const struct sw_kube_obj *o);

/* ---- held.c ---- */

/*
 * True when a route of another namespace serves a name that the listener, which has no record of
 * its place, would take from it. had_name: it has had its own name on another port, which excuses
 * nothing that is below it on this one.
 */
bool name_held(struct builder *b, const struct listener *l, bool had_name);

/* ---- ingress_claims.c ---- */

void ingress_claims_init(struct builder *b);
/* The namespace whose Ingresses have the host ("*" for all) on record; empty: none. *ret_since
 * (unless NULL): since when. */
struct sw_slice ingress_claimed(const struct builder *b, struct sw_slice host,
                                struct sw_slice *ret_since);
/* The Ingress serves the host: recorded, unless it is already. */
void ingress_claim(struct builder *b, struct sw_slice host, const struct sw_kube_obj *o);

/* ---- refs.c ---- */

void refs_init(struct builder *b);
void refs_done(struct builder *b);

/* An object of GW_GROUP with references. */
struct ref_from {
    const char *kind;
    struct sw_slice ns;
};
/* False: the object is in another namespace, where no ReferenceGrant permits the reference. */
bool ref_granted(const struct builder *b, const struct ref_from *from,
                 const struct sw_gateway_ref *to);
/* A certificate (Secret). Reason 'bad' or RefNotPermitted when it cannot be used. */
struct verdict resolve_cert(struct builder *b, const struct ref_from *from,
                            const struct sw_json *ref, const char *bad, struct sw_slice *ret_name);
/* The same without a reference: a Secret by name, for Ingresses. */
struct verdict cert_by_name(struct builder *b, struct sw_slice ns, struct sw_slice name,
                            const char *bad, struct sw_slice *ret_name);

struct ca_reasons {
    const char *ref;
    const char *kind;
    const char *denied; /* NULL: references stay in the namespace */
};
/*
 * A bundle of all usable references; false when there is none. *ret_verdict has the first that is
 * not usable.
 */
bool resolve_cas(struct builder *b, const struct ref_from *from, const struct sw_json *refs,
                 const struct ca_reasons *why, struct sw_slice *ret_name,
                 struct verdict *ret_verdict);
/* The certificates of a bundle that was resolved; empty: there is none of this name. */
struct sw_slice ca_bundle(const struct builder *b, struct sw_slice name);

/* ---- backends.c ---- */

struct backend_ctx {
    struct route *route;
    struct sw_slice client_cert;
    bool use_policies;
    bool http2; /* whatever the port says of itself */
};
/*
 * A BackendObjectReference as a cluster; NULL when it cannot be used, with the reason in *ret
 * (reason NULL: the reference is fine, but its policy is not).
 */
struct sw_model_cluster *resolve_backend(struct builder *b, const struct backend_ctx *ctx,
                                         const struct sw_json *ref, struct verdict *ret);
/* Clusters are made once for each set, protocol and TLS. */
struct sw_model_cluster *intern_cluster(struct builder *b, struct sw_slice endpoints,
                                        enum sw_model_proto proto,
                                        const struct sw_model_backend_tls *tls);
/* How to speak to a port with this appProtocol; false when it is not supported. */
bool app_proto(struct sw_slice app, enum route_kind kind, enum sw_model_proto *ret, bool *ret_tls);
/* A Service's port by number, or by name where number is 0; for Ingresses. */
struct sw_model_cluster *service_cluster(struct builder *b, struct sw_slice ns,
                                         struct sw_slice name, uint16_t number,
                                         struct sw_slice port_name, struct verdict *ret);
/* Keeps the first failure. */
void note_unresolved(struct route *r, struct verdict v);

/* ---- connectors.c ---- */

/* Names of endpoint sets that are no Services': these, then the rest; resolved.h has one more. */
#define SW_MODEL_CONNECTOR_SET "connector/" /* ns/name/target */
#define SW_MODEL_SLICE_SET     "slice/"     /* ns/name/port */
/* system namespace/ns/name/port; gateway/xds/store.c knows clusters by it, too */
#define SW_MODEL_IMPORT_SET "import/"
/* Of clusters of host names. */
#define SW_MODEL_DNS_CLUSTER "dns/" /* host/port */
/* Behind the port in names of Services' sets, "ns/service/port": TCP's and UDP's may differ. */
#define SW_MODEL_UDP_SET "+udp"

struct sw_model_cluster *connector_backend(struct builder *b, const struct backend_ctx *ctx,
                                           const struct sw_gateway_ref *r, struct verdict *ret);
struct sw_model_cluster *slice_backend(struct builder *b, const struct backend_ctx *ctx,
                                       const struct sw_gateway_ref *r, struct verdict *ret);
/* imports.c */
struct sw_model_cluster *import_backend(struct builder *b, const struct backend_ctx *ctx,
                                        const struct sw_gateway_ref *r, struct verdict *ret);
/* The CAs that EndpointSlices name, in every build: compiled routes that are kept need them too. */
void build_slice_cas(struct builder *b);
bool slices_have_cas(const struct sw_view *v);
/* The first backend, when none can serve now although all are fine; NULL: one can. */
const struct own_cluster *all_offline(const struct sw_model_backend *list, size_t n);
/* The route answers by itself until a connector is back. */
void respond_offline(struct builder *b, struct sw_model_route *to, const struct own_cluster *away);

/* ---- gateways.c ---- */

void build_classes(struct builder *b);
void build_gateways(struct builder *b);

/* ---- infra.c ---- */

void build_infrastructure(struct builder *b);

/* ---- listeners.c, conflicts.c ---- */

void read_listeners(struct builder *b, struct parent *p);
void claim_sockets(struct builder *b);
/* Its hostname, "*" without one. */
struct sw_slice listener_host(const struct listener *l);
/* Its place, as its status records it: port, protocol and hostname. */
const char *listener_place(struct builder *b, const struct listener *l);
/* The status says that the listener, as it is now, had its place. */
bool listener_recorded(struct builder *b, const struct listener *l);
#define LISTENER_CLAIMED "spanwire.dev/Claimed" /* the condition that does */
bool listener_served(const struct listener *l);

/* ---- overlaps.c ---- */

void mark_overlaps(struct builder *b, struct socket *s);

/* ---- attach.c ---- */

/* What a parentRef of a route in own_ns names; NULL: nothing of ours. */
struct parent *route_names_parent(const struct builder *b, const struct sw_json *ref,
                                  struct sw_slice own_ns);
bool route_names_listener(const struct listener *l, const struct sw_json *ref);

void build_routes(struct builder *b);

/* ---- httproute.c, filters.c, grpcroute.c, l4route.c ---- */

void compile_l4(struct builder *b, struct route *r, struct compiled *c, bool first);

/* What all matches of a rule have in common. */
struct rule {
    struct builder *b;
    struct route *route;
    const struct sw_json *json;
    struct backend_ctx backend;
    bool first; /* complaints count once */
    uint16_t index;
    struct sw_model_route proto; /* everything but name and match */
    bool local_redirect;
    bool fail_closed; /* matches stay and answer with an error */
    bool shut;        /* who is to judge requests cannot be asked: all get an error */
    unsigned seen;    /* filters of which there may be one, by type */
    struct verdict bad;
    uint64_t words; /* of its matches' regular expressions */
    /* Backends with filters that no list of clusters can express are routes of their own. */
    struct rule_share *shares; /* none: 'proto' is all */
    size_t n_shares;
};

struct rule_share {
    struct sw_model_route proto;
    uint32_t upto; /* struct sw_model_route.share */
    bool local_redirect;
};
void rule_filters(struct rule *r, const struct sw_json *filters);
void rule_backends(struct rule *r);
/*
 * Whether a rule may write a header of that name: a data plane would refuse it together with all
 * other routes of the port, so the rule is rejected here.
 */
void rule_header_name(struct rule *r, struct sw_slice name);
/* Settings of a rule besides filters: timeouts, retry, session. */
void rule_settings(struct rule *r);
void rule_bad(struct rule *r, const char *reason, const char *fmt, ...) SW_PRINTF(3, 4);
/* Header matches shared by HTTP and gRPC; false when one cannot be served. */
bool read_value_matches(struct rule *r, const struct sw_json *list, bool headers,
                        const struct sw_model_value_match **ret, size_t *ret_n);
/* A path as requests have it: from the first '/' on, without query. */
bool path_valid(struct sw_slice path);
bool regex_ok(struct rule *r, struct sw_slice pattern);
struct sw_slice lower_case(struct builder *b, struct sw_slice s);
/* Compile one rule: its routes are added to c. */
void http_rule(struct rule *r, struct compiled *c);
void grpc_rule(struct rule *r, struct compiled *c);
/* Ends a rule: its counters, and true when its matches shall be emitted. */
bool rule_finish(struct rule *r);
/* Adds the rule's routes for one match: 'like' has all of the entry but the route. */
void rule_emit(struct rule *r, struct compiled *c, const struct sw_model_match *m,
               const struct entry *like, const char *kind);

/* ---- budget.c ---- */

/* Bytes of the route as the data plane gets it; never too few. */
size_t route_size(const struct sw_model_route *r);
/* Adds the rule's entries from this one on to c's load; false: more than one object may have. */
bool load_rule(const struct rule *r, struct compiled *c, size_t from);
bool object_fits(struct load l);
/* The condition of an object that does not fit. */
struct sw_slice object_limits(struct builder *b, struct load l);
/* An answer for every path instead of an object's routes. */
struct sw_model_route *error_route(struct builder *b, struct sw_slice name, uint16_t status);
/* The route's entries become one that answers with an error. */
void refuse_object(struct builder *b, struct route *r, struct compiled *c);
/* To the log, and as an Event where the object has no conditions. */
void note_limit(struct builder *b, enum sw_model_kind kind, const struct sw_kube_obj *o,
                struct sw_slice text);
/* Leaves out what no table has room for; then the statuses of routes are known. */
void fit_tables(struct builder *b);

/* ---- policy.c ---- */

void build_policies(struct builder *b);
struct policy *policy_for(const struct builder *b, struct sw_slice ns, struct sw_slice service,
                          struct sw_slice port_name);
/* A route on this Gateway uses the Service. */
void policy_used(struct builder *b, struct sw_slice service_key, struct gateway *gw);

/* ---- ingress.c, tables.c ---- */

void build_ingress(struct builder *b);
struct socket *socket_get(struct builder *b, size_t addr, uint16_t port, enum proto proto);
/* reserved.c: true for a port of the fabric itself. */
bool port_reserved(const struct builder *b, uint16_t bind_port);
struct socket *socket_find(struct builder *b, size_t addr, uint16_t port, bool udp);
/* True when another port is bound where this one would be. */
bool socket_blocked(struct builder *b, size_t addr, uint16_t port);
void build_sockets(struct builder *b);

/* ---- status*.c ---- */

struct cond {
    const char *type;
    bool yes;
    const char *reason;
    const char *msg;
};
/* Merged with what is there: conditions of others stay as they are, of ours ('owned', ends with
 * NULL) only those of the list. */
struct sw_json *merge_conditions(struct builder *b, const struct sw_json *have,
                                 const char *const *owned, const struct cond *want, size_t n,
                                 int64_t generation);
bool same_conditions(const struct sw_json *have, const char *const *owned, const struct cond *want,
                     size_t n, int64_t generation);
/* Adds the status unless the object already has it. */
void put_status(struct builder *b, enum sw_model_kind kind, const struct sw_kube_obj *of,
                struct sw_json *status);
void status_class(struct builder *b, const struct sw_kube_obj *class, struct verdict accepted,
                  struct verdict version);
void status_gateways(struct builder *b);
void status_policies(struct builder *b);
/* The status wanted, in the arena; NULL when the object has it. */
struct sw_json *route_status(struct builder *b, const struct route *r,
                             const struct route_parent *parents, size_t n);

/* ---- build_cache.c ---- */

void cache_begin(struct builder *b);
/* Once Gateways and policies are built: what routes follow from besides objects. */
void cache_check(struct builder *b);
/* What is kept of the route; zeroed but for the object when it is new. Objects in order of key. */
struct kept *cache_route(struct builder *b, enum route_kind kind, const struct sw_kube_obj *o);
void cache_end(struct builder *b);
/* Certificates that were found good: parsing keys costs more than the rest of a build. */
bool cache_cert_known(const struct builder *b, const uint64_t hash[2]);
void cache_cert_add(struct builder *b, const uint64_t hash[2]);
/* For a route of the model that lives as long as r; NULL when nothing is kept. */
struct sw_model_memo *new_memo(const struct builder *b, const struct route *r);
