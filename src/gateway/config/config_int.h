/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the compilers of listeners, routes, clusters and secrets share. Message types appear by
 * their struct tags: only .c files include the generated headers.
 */
#pragma once

#include "base/vec.h"
#include "gateway/config/config.h"
#include "gateway/config/routes.h"
#include "gateway/upstream/cluster.h"
#include "gateway/xds/store.h"

struct Sw__AccessLog;
struct Sw__Address;
struct Sw__Any;
struct Sw__BoolValue;
struct Sw__Cluster;
struct Sw__CommonTlsContext;
struct Sw__DataSource;
struct Sw__DownstreamTlsContext;
struct Sw__Duration;
struct Sw__FilterConfigEntry;
struct Sw__HeaderValueOption;
struct Sw__Http2ProtocolOptions;
struct Sw__Listener;
struct Sw__Metadata;
struct Sw__RegexMatcher;
struct Sw__RouteConfiguration;
struct Sw__StringMatcher;
struct Sw__Struct;
struct Sw__TransportSocket;
struct Sw__UInt32Value;
struct ProtobufCBinaryData;
struct ProtobufCMessageDescriptor;

/* One thing an object needs; it waits while that is missing and is built again when it changes. */
struct sw_gw_dep {
    enum sw_gw_type type;
    struct sw_slice name; /* heap */
};

/* One compilation. */
struct sw_gw_build {
    struct sw_arena *arena; /* of the object being made */
    struct sw_arena *tmp;   /* decoded messages; gone afterwards */
    struct sw_err *err;
    struct sw_gw_store *store; /* NULL: nothing to look up */
    SW_VEC(struct sw_regex *) regexes;
    size_t regex_size; /* of all of them */
    bool known_bad;    /* what is wrong with a host was said when the same bytes came before */
    SW_VEC(struct sw_gw_dep) deps;
    SW_VEC(struct sw_gw_accesslog *) logs; /* references of the object */
    bool missing;                          /* something named is not there yet */
    bool give_up; /* it had its time: routes and endpoints that did not come count as empty */
};

/* Frees what was collected and not taken over. */
void sw_gw_build_done(struct sw_gw_build *b);

/* Copies into the object's arena. */
struct sw_slice sw_gw_text(struct sw_gw_build *b, const struct ProtobufCBinaryData *t);
struct sw_slice sw_gw_lower(struct sw_gw_build *b, struct sw_slice s);
/* Nanoseconds; 'otherwise' without a message. Negative and absurd values count as 0 and a century.
 */
uint64_t sw_gw_duration(const struct Sw__Duration *d, uint64_t otherwise);
/* The value; 'otherwise' without a message. */
bool sw_gw_bool(const struct Sw__BoolValue *v, bool otherwise);
uint32_t sw_gw_u32(const struct Sw__UInt32Value *v, uint32_t otherwise);
/* Refuses a number outside of least..most, saying which field it is of. Not set (NULL) is fine. */
SW_NODISCARD int sw_gw_check_u32(struct sw_gw_build *b, const struct Sw__UInt32Value *v,
                                 uint32_t least, uint32_t most, const char *field);
/* The same for a share of a hundred. */
SW_NODISCARD int sw_gw_check_percent(struct sw_gw_build *b, double v, const char *field);
/* The same for a duration that is not above 0. */
SW_NODISCARD int sw_gw_check_above_zero(struct sw_gw_build *b, const struct Sw__Duration *d,
                                        const char *field);
/* All return SW_OK or SW_EINVAL with b->err filled. */
SW_NODISCARD int sw_gw_build_regex(struct sw_gw_build *b, struct sw_slice pattern, bool whole,
                                   const struct sw_regex **ret);
SW_NODISCARD int sw_gw_build_str_match(struct sw_gw_build *b, const struct Sw__StringMatcher *m,
                                       struct sw_gw_str_match *ret);
SW_NODISCARD int sw_gw_build_addr(struct sw_gw_build *b, const struct Sw__Address *a, bool names,
                                  struct sw_gw_addr *ret, struct sw_slice *ret_host);
SW_NODISCARD int sw_gw_build_source(struct sw_gw_build *b, const struct Sw__DataSource *d,
                                    size_t max, struct sw_slice *ret);
/* {"ns": {...}} from filter_metadata; NULL without any. */
const struct sw_json *sw_gw_build_metadata(struct sw_gw_build *b, const struct Sw__Metadata *m);
const struct sw_json *sw_gw_build_struct(struct sw_gw_build *b, const struct Sw__Struct *m);
void sw_gw_build_h2(const struct Sw__Http2ProtocolOptions *o, struct sw_gw_h2_opts *ret);
/* The message inside an Any of the wanted type, in b->tmp; NULL with SW_EINVAL. */
void *sw_gw_open_any(struct sw_gw_build *b, const struct Sw__Any *any,
                     const struct ProtobufCMessageDescriptor *type);
SW_NODISCARD int sw_gw_build_headers(struct sw_gw_build *b, struct Sw__HeaderValueOption *const *in,
                                     size_t n, const struct sw_gw_header_add **ret, size_t *ret_n);

/* What a chain, or a listener for datagrams, ends in: config_hcm.c, config_l4.c. */
SW_NODISCARD int sw_gw_build_hcm(struct sw_gw_build *b, const struct Sw__Any *any,
                                 struct sw_gw_hcm *h);
SW_NODISCARD int sw_gw_build_tcp(struct sw_gw_build *b, const struct Sw__Any *any,
                                 struct sw_gw_tcp_proxy *t);
SW_NODISCARD int sw_gw_build_udp(struct sw_gw_build *b, const struct Sw__Listener *in,
                                 struct sw_gw_udp_proxy *u);

/* Notes that the object needs this. */
void sw_gw_need(struct sw_gw_build *b, enum sw_gw_type t, struct sw_slice name);
/* Encoded bytes of a secret, noting the need; p == NULL (and b->missing) when there is none. */
struct sw_slice sw_gw_need_secret(struct sw_gw_build *b, struct sw_slice name);
/* True when the resource is there, noting the need; otherwise b->missing is set. */
bool sw_gw_need_present(struct sw_gw_build *b, enum sw_gw_type t, struct sw_slice name);

/* The TLS of a transport socket. *ret is NULL for raw_buffer (and while a secret is missing). */
SW_NODISCARD int sw_gw_build_tls_down(struct sw_gw_build *b, const struct Sw__TransportSocket *s,
                                      struct sw_gw_tls **ret);
SW_NODISCARD int sw_gw_build_tls_up(struct sw_gw_build *b, const struct Sw__TransportSocket *s,
                                    struct sw_gw_cluster_spec *spec, struct sw_gw_tls **ret);
/*
 * config_tls_match.c: where sockets are chosen by a member's metadata, *tls (the one for the rest,
 * or NULL) becomes one of several; see sw_gw_tls_for. The reference moves.
 */
SW_NODISCARD int sw_gw_build_tls_matches(struct sw_gw_build *b, const struct Sw__Cluster *in,
                                         struct sw_gw_cluster_spec *spec, struct sw_gw_tls **tls);
/* cluster_build_lb.c: load balancing. After the discovery type. */
SW_NODISCARD int sw_gw_build_lb(struct sw_gw_build *b, const struct Sw__Cluster *in,
                                struct sw_gw_cluster_spec *s);
/* config_ticket.c: what is said of session tickets; then, when all chains are made, their keys. */
SW_NODISCARD int sw_gw_build_tickets(struct sw_gw_build *b,
                                     const struct Sw__DownstreamTlsContext *in,
                                     struct sw_gw_tls *t);
SW_NODISCARD int sw_gw_seal_tickets(struct sw_gw_listener *l, struct sw_err *err);
/* Refuses a secret that could never be used. */
SW_NODISCARD int sw_gw_check_secret(struct sw_slice bytes, struct sw_slice *ret_name,
                                    struct sw_arena *a, struct sw_err *err);

/* Whole resources. The object comes with one reference. */
struct sw_gw_listener *sw_gw_build_listener(struct sw_gw_build *b, struct sw_slice bytes);
/* 'old' (or NULL): the table it replaces; hosts whose bytes are the same are shared with it. */
struct sw_gw_routes *sw_gw_build_routes(struct sw_gw_build *b, struct sw_slice bytes,
                                        const struct sw_gw_routes *old);
struct sw_gw_routes *sw_gw_build_route_config(struct sw_gw_build *b,
                                              const struct Sw__RouteConfiguration *rc);
struct sw_gw_cluster_spec *sw_gw_build_cluster(struct sw_gw_build *b, struct sw_slice bytes,
                                               struct sw_gw_tls **ret_tls,
                                               struct sw_slice *ret_inline_members);
/*
 * Members of a cluster from a ClusterLoadAssignment; those of 'old' with the same key are kept.
 * names: host names are allowed (DNS clusters); they become members without an IP.
 */
struct sw_gw_members *sw_gw_build_members(struct sw_gw_build *b, struct sw_slice bytes, bool names,
                                          const struct sw_gw_members *old, unsigned n_workers);
struct sw_gw_members *sw_gw_members_empty(void);
struct sw_gw_cluster_state *sw_gw_cluster_state_new(unsigned n_workers);
/* A cluster from its parts, each of which gets another reference. */
struct sw_gw_cluster *sw_gw_cluster_new(struct sw_gw_cluster_spec *spec, struct sw_gw_members *m,
                                        struct sw_gw_cluster_state *st, struct sw_gw_tls *tls);

/* ---- cluster_dns.c ---- */

struct sw_gw_dns;
/* The members resolved so far, with a reference for the callee; called again after every change. */
typedef void (*sw_gw_dns_cb)(struct sw_gw_members *m, void *arg);
/*
 * Keeps the host names among 'base' resolved. NULL when there are none. The first answer, or
 * failure, is always reported.
 */
struct sw_gw_dns *sw_gw_dns_new(struct sw_loop *l, const struct sw_gw_cluster_spec *spec,
                                struct sw_gw_members *base, unsigned n_workers, sw_gw_dns_cb cb,
                                void *arg);
void sw_gw_dns_free(struct sw_gw_dns *d);

/* ---- health.c ---- */

struct sw_gw_health;
/* Checks the members of a cluster and lets ejected ones back. NULL when there is nothing to do. */
struct sw_gw_health *sw_gw_health_new(struct sw_loop *l, struct sw_gw_cluster *c);
/* A new version of the same cluster; checks of members that stay go on. */
void sw_gw_health_update(struct sw_gw_health *h, struct sw_gw_cluster *c);
void sw_gw_health_free(struct sw_gw_health *h);

/* ---- routes ---- */

struct sw_slice sw_gw_routes_name(const struct sw_gw_routes *r);
