/* SPDX-License-Identifier: Apache-2.0 */
/* The stages of the build and what they offer each other. Not for others. */
#pragma once

#include "control/gateway/build/build_core.h"

struct rule;

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
/* The protocol of backends that name none. */
extern const enum sw_model_proto route_protos[RK_COUNT];
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
bool host_widen(struct sw_arena *a, struct sw_slice *host);

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

void route_done(struct route *r);

/* What a parentRef of a route in own_ns names; NULL: nothing of ours. */
struct parent *route_names_parent(const struct builder *b, const struct sw_json *ref,
                                  struct sw_slice own_ns);
bool route_names_listener(const struct listener *l, const struct sw_json *ref);

void build_routes(struct builder *b);

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

/* Merged with what is there: conditions of others stay as they are, of ours ('owned', ends with
 * NULL) only those of the list. */
struct sw_json *merge_conditions(struct sw_arena *a, const struct sw_json *have,
                                 const char *const *owned, const struct cond *want, size_t n,
                                 int64_t generation);
/* A new status with the conditions of an object so merged. */
struct sw_json *status_with(struct sw_arena *a, const struct sw_kube_obj *o,
                            const char *const *owned, const struct cond *want, size_t n);
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
