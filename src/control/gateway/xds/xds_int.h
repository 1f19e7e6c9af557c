/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that write Envoy resources share. Not for others. */
#pragma once

#include "control/gateway/xds/xds.h"

struct ProtobufCBinaryData;
struct ProtobufCMessage;
struct Sw__ClusterLoadAssignment;
struct Sw__LocalityLbEndpoints;
struct Sw__Any;
struct Sw__BoolValue;
struct Sw__Cluster;
struct Sw__LbEndpoint;
struct Sw__Listener;
struct Sw__UInt32Value;
struct Sw__Duration;
struct Sw__ConfigSource;
struct Sw__RegexMatcher;
struct Sw__RegexMatchAndSubstitute;
struct Sw__StringMatcher;
struct Sw__HeaderValueOption;
struct Sw__TransportSocket;
struct Sw__TcpProxy;
struct Sw__AccessLog;
struct Sw__Address;
struct Sw__CommonTlsContext;
struct Sw__SdsSecretConfig;
struct Sw__ExtAuthzHttpService;

/* One encoding in progress. */
struct enc {
    struct sw_arena *a;
    const struct sw_model_xds_conf *conf;
    struct sw_model_resource *res;
    size_t n;
    size_t cap;
    /* What plain clusters of a protocol have in common, encoded; empty: not made yet. */
    struct sw_slice plain_cluster[SW_MODEL_PROTO_UDP + 1];
    struct sw_slice ads; /* sw_gwx_ads, encoded */
};

/* Adds an encoded message to the result. */
void sw_gwx_enc_add(struct enc *e, const char *type, struct sw_slice name,
                    const struct ProtobufCMessage *m);
void sw_gwx_enc_add_bytes(struct enc *e, const char *type, struct sw_slice name,
                          struct sw_slice value);

/* --- small messages (xds_msg.c); all in the arena --- */

struct Sw__BoolValue *sw_gwx_bool(struct enc *e, bool v);
struct Sw__UInt32Value *sw_gwx_u32(struct enc *e, uint32_t v);
struct Sw__Duration *sw_gwx_duration(struct enc *e, uint64_t ms);
/* "Ask the same server": how every reference to another resource is written. */
struct Sw__ConfigSource *sw_gwx_ads(struct enc *e);
struct Sw__RegexMatcher *sw_gwx_regex(struct enc *e, struct sw_slice regex);
/* Replaces what the pattern matches by text that is taken literally. */
struct Sw__RegexMatchAndSubstitute *sw_gwx_substitute(struct enc *e, struct sw_slice pattern,
                                                      struct sw_slice literal);
struct Sw__StringMatcher *sw_gwx_string_match(struct enc *e, enum sw_model_match_kind kind,
                                              struct sw_slice value);
/* The text with everything quoted that means something in a regular expression (RE2). */
struct sw_slice sw_gwx_regex_quote(struct enc *e, struct sw_slice s);
struct Sw__TransportSocket *sw_gwx_socket(struct enc *e, const char *name,
                                          const struct ProtobufCMessage *config);
struct Sw__Address *sw_gwx_address(struct enc *e, struct sw_slice ip, uint16_t port, bool udp);
struct Sw__SdsSecretConfig *sw_gwx_sds(struct enc *e, struct sw_slice name);
/* The access loggers of a filter; *ret_n is 0 where they are off. */
/* Texts under one filter's name; those that are empty are left out. Given in order of name. */
struct Sw__Metadata *sw_gwx_text_metadata(struct enc *e, struct sw_slice filter,
                                          const struct sw_model_header *fields, size_t n);
struct Sw__AccessLog **sw_gwx_access_log(struct enc *e, size_t *ret_n);
/*
 * Options for headers to add: first those that overwrite, then those that append. Format
 * characters are escaped, since the model's values are literal.
 */
struct Sw__HeaderValueOption **
sw_gwx_header_options(struct enc *e, const struct sw_model_headers *h, size_t *ret_n);

/* Names of headers to remove. */
struct ProtobufCBinaryData *sw_gwx_header_removals(struct enc *e, const struct sw_model_headers *h,
                                                   size_t *ret_n);

/* Who is asked for leave over HTTP. */
struct Sw__ExtAuthzHttpService *sw_gwx_auth_service(struct enc *e, struct sw_slice cluster);

/* An array of one pointer. */
void *sw_gwx_one(struct enc *e, void *p);

/* --- parts --- */

/* A chain or listener whose traffic splits over several UDP clusters gets a cluster of its own. */
bool sw_gwx_udp_split(const struct sw_model_chain *c);
/* The name of a backend's cluster; of one that refuses when it has none. */
struct sw_slice sw_gwx_cluster_of(const struct sw_model_backend *b);
/* Orders struct sw_model_resource. */
int sw_gwx_by_name(const void *x, const void *y);
struct sw_slice sw_gwx_udp_cluster_name(struct sw_arena *a, const struct sw_model_chain *c);

void sw_gwx_encode_listener(struct enc *e, const struct sw_model_listener *l);
void sw_gwx_encode_table(struct enc *e, const struct sw_model_table *t);
void sw_gwx_encode_cluster(struct enc *e, const struct sw_model_cluster *c);
void sw_gwx_encode_udp_cluster(struct enc *e, const struct sw_model_chain *c);
void sw_gwx_encode_secret(struct enc *e, const struct sw_model_secret *s);

/* A list of one message: the field and its count. */
#define SW_GWX_ONE(e, to, field, item)                                                             \
    do {                                                                                           \
        (to)->field = sw_gwx_one((e), (item));                                                     \
        (to)->n_##field = 1;                                                                       \
    } while (0)
/* The name and configuration of an extension, in the message that its users have for it. */
#define SW_GWX_TYPED(e, to, label, with, config)                                                   \
    do {                                                                                           \
        (to)->name = SW_PB_BYTES(sw_slice_str(label));                                             \
        (to)->config_type_case = (with);                                                           \
        (to)->typed_config = sw_pb_any((e)->a, (config));                                          \
    } while (0)
/* What is done to the headers of requests and responses, to routes and shares alike. */
#define SW_GWX_HEADERS(e, to, from)                                                                \
    do {                                                                                           \
        (to)->request_headers_to_add =                                                             \
            sw_gwx_header_options((e), &(from)->request, &(to)->n_request_headers_to_add);         \
        (to)->response_headers_to_add =                                                            \
            sw_gwx_header_options((e), &(from)->response, &(to)->n_response_headers_to_add);       \
        (to)->request_headers_to_remove =                                                          \
            sw_gwx_header_removals((e), &(from)->request, &(to)->n_request_headers_to_remove);     \
        (to)->response_headers_to_remove =                                                         \
            sw_gwx_header_removals((e), &(from)->response, &(to)->n_response_headers_to_remove);   \
    } while (0)

/* An endpoint at an address, a locality with one endpoint, and a set with one locality. */
struct Sw__LbEndpoint *sw_gwx_lb_endpoint(struct enc *e, struct Sw__Address *address);
struct Sw__LocalityLbEndpoints *sw_gwx_locality(struct enc *e, struct Sw__LbEndpoint *lb);
struct Sw__ClusterLoadAssignment *sw_gwx_assignment(struct enc *e, struct sw_slice name,
                                                    struct Sw__LocalityLbEndpoints *lo);

/* --- tunnels; also for the extension server --- */

struct Sw__Listener *sw_gwx_tunnel_listener(struct enc *e);
struct Sw__Cluster *sw_gwx_connect_proxy(struct enc *e);
struct Sw__Cluster *sw_gwx_connect_proxy_udp(struct enc *e);
struct Sw__LbEndpoint *sw_gwx_tunnel_endpoint(struct enc *e, const struct sw_model_endpoint *ep);
/* TLS to a name, verified with the system's roots. */
struct Sw__TransportSocket *sw_gwx_tls_to(struct enc *e, struct sw_slice name);
/* Gives a cluster one connector as its only endpoint, whatever it had before. */
void sw_gwx_make_tunnel(struct enc *e, struct Sw__Cluster *to, const struct sw_model_endpoint *ep);
