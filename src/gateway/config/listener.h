/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiled listeners: filter chains, and what a chain ends in. Made by xds/listener.h.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/slice.h"
#include "gateway/config/parts.h"
#include "io/addr.h"

struct sw_gw_accesslog;
struct sw_gw_body_format;
struct sw_gw_filter;
struct sw_gw_routes;
struct sw_json;

/* Returns NULL. */
typedef struct sw_gw_accesslog *(*sw_gw_unref_log)(struct sw_gw_accesslog *l);

/* ---- HTTP connection manager ---- */

enum sw_gw_codec { SW_GW_CODEC_AUTO, SW_GW_CODEC_H1, SW_GW_CODEC_H2 };
enum sw_gw_server_header { SW_GW_SERVER_OVERWRITE, SW_GW_SERVER_IF_ABSENT, SW_GW_SERVER_PASS };
enum sw_gw_underscores {
    SW_GW_UNDERSCORES_ALLOW,
    SW_GW_UNDERSCORES_REJECT,
    SW_GW_UNDERSCORES_DROP
};
enum sw_gw_escaped_slash {
    SW_GW_SLASH_KEEP,
    SW_GW_SLASH_REJECT,
    SW_GW_SLASH_REDIRECT,
    SW_GW_SLASH_UNESCAPE,
};
enum sw_gw_xfcc {
    SW_GW_XFCC_SANITIZE,
    SW_GW_XFCC_FORWARD,
    SW_GW_XFCC_APPEND,
    SW_GW_XFCC_SET,
    SW_GW_XFCC_ALWAYS_FORWARD,
};

/* Durations in ns; 0 in a timeout: none. Values not configured hold Envoy's defaults. */
struct sw_gw_hcm {
    struct sw_slice stat_prefix;
    enum sw_gw_codec codec;
    struct sw_slice rds;                /* name of the route table; empty: inline_routes */
    struct sw_gw_routes *inline_routes; /* a reference */
    struct sw_slice server_name;        /* ["spanwire"] */
    enum sw_gw_server_header server_header;
    struct sw_slice via; /* appended to Via of requests and answers; empty: none */
    struct {
        bool use_remote_address; /* this is the edge: believe no X-Forwarded-* of clients */
        bool skip_append;
        uint32_t trusted_hops;
    } xff;
    struct {
        bool generate; /* [true] */
        bool preserve;
        bool in_response;
    } request_id;
    struct {
        enum sw_gw_xfcc mode;
        bool uri; /* adds the URI SANs of the client's certificate */
    } xfcc;
    struct {
        bool normalize;
        bool merge_slashes;
        enum sw_gw_escaped_slash escaped_slash;
    } path;
    struct { /* from the host of a request */
        bool any_port;
        bool matching_port;
        bool trailing_dot;
    } strip;
    bool suppress_envoy; /* of the router: no x-envoy- headers of its own */
    enum sw_gw_underscores underscores;
    struct {
        bool accept_http10;
        struct sw_slice host_http10; /* of HTTP/1.0 requests that name none; empty: refused */
        bool trailers;
    } h1;
    uint32_t max_headers_kb;    /* [60] */
    uint32_t max_headers_count; /* [100] */
    uint32_t max_requests_per_connection;
    struct {
        uint64_t idle_ns;            /* connection without request [1 h] */
        uint64_t stream_idle_ns;     /* [5 min] */
        uint64_t request_ns;         /* whole request received [off] */
        uint64_t request_headers_ns; /* [off; workers have a bound of their own] */
        uint64_t drain_ns;           /* [1 s] between both GOAWAY of a shutdown */
        uint64_t delayed_close_ns;   /* [1 s] */
        uint64_t max_connection_ns;
        uint64_t max_stream_ns;
    } timeouts;
    struct sw_gw_h2_opts h2;
    const struct sw_slice *upgrades; /* types allowed, lower case ("websocket", "connect") */
    size_t n_upgrades;
    const struct sw_gw_filter *filters; /* filter.h, in order, without the router at the end */
    size_t n_filters;
    struct sw_gw_accesslog *const *logs; /* accesslog.h */
    size_t n_logs;
    const struct sw_gw_body_format *local_body; /* of answers made here; NULL: error pages */
};

/* ---- TCP and UDP ---- */

struct sw_gw_weighted {
    struct sw_slice cluster;
    uint32_t weight;
};

struct sw_gw_tunneling {
    const struct sw_gw_format *hostname;
    const struct sw_gw_header_add *headers;
    size_t n_headers;
};

struct sw_gw_tcp_proxy {
    struct sw_slice stat_prefix;
    const struct sw_gw_weighted *clusters; /* one or more */
    size_t n_clusters;
    uint64_t total_weight;
    uint64_t idle_timeout_ns; /* [1 h] */
    uint64_t max_duration_ns;
    uint32_t max_connect_attempts; /* [1] */
    bool hash_source_ip;
    const struct sw_gw_tunneling *tunnel; /* NULL: plain */
    struct sw_gw_accesslog *const *logs;
    size_t n_logs;
};

/* CONNECT-UDP (RFC 9298) to the cluster instead of datagrams. */
struct sw_gw_udp_tunneling {
    const struct sw_gw_format *proxy_host; /* :authority */
    uint16_t proxy_port;                   /* 0: none */
    const struct sw_gw_format *target_host;
    uint16_t target_port;
    const struct sw_gw_header_add *headers;
    size_t n_headers;
    uint32_t max_datagrams; /* kept until the tunnel stands; 0: none */
    uint32_t max_bytes;     /* of these */
};

struct sw_gw_udp_proxy {
    struct sw_slice stat_prefix;
    struct sw_slice cluster;
    const struct sw_gw_udp_tunneling *tunnel; /* NULL: plain */
    uint64_t idle_timeout_ns;                 /* [60 s] */
    bool hash_source_ip;
    bool per_packet;
    struct sw_gw_accesslog *const *logs;
    size_t n_logs;
};

/* ---- listeners ---- */

struct sw_gw_chain_match {
    uint16_t port; /* 0: any */
    const struct sw_cidr *dst;
    size_t n_dst;
    const struct sw_slice *names; /* lower case; "*.x" as ".x" with the leading dot kept */
    size_t n_names;
    struct sw_slice transport; /* "tls", "raw_buffer" or empty */
    const struct sw_slice *alpn;
    size_t n_alpn;
    const struct sw_cidr *src;
    size_t n_src;
    const uint16_t *src_ports;
    size_t n_src_ports;
    uint8_t source_type; /* 0 any, 1 same IP or loopback, 2 external */
};

enum sw_gw_chain_kind { SW_GW_CHAIN_HTTP, SW_GW_CHAIN_TCP };

/* Lives in its listener; a connection holds the listener. */
struct sw_gw_chain {
    struct sw_slice name;
    struct sw_gw_chain_match match;
    /*
     * Of the chain's own configuration, secrets excluded: connections whose hash is in no chain of
     * the new listener of that name are drained, the others continue (certificates may rotate).
     */
    uint64_t hash;
    struct sw_gw_tls *tls;       /* NULL: plain */
    uint64_t connect_timeout_ns; /* TLS handshake; 0: worker's default */
    enum sw_gw_chain_kind kind;
    struct sw_gw_hcm hcm;       /* kind HTTP */
    struct sw_gw_tcp_proxy tcp; /* kind TCP */
};

enum sw_gw_listener_kind { SW_GW_LISTEN_TCP, SW_GW_LISTEN_UDP, SW_GW_LISTEN_INTERNAL };

struct sw_gw_listener {
    _Atomic uint32_t refs;
    struct sw_arena arena;
    struct sw_slice name;
    enum sw_gw_listener_kind kind;
    const struct sw_gw_addr *addrs; /* none for internal listeners */
    size_t n_addrs;
    bool bind;           /* [true] */
    bool tls_inspector;  /* look for a ClientHello before choosing a chain */
    bool proxy_protocol; /* expect a PROXY header */
    bool proxy_optional; /* ... and accept connections without one */
    bool original_dst;   /* the destination is where the client was going */
    bool transparent;
    bool freebind;
    struct {
        bool on;
        uint32_t time_s;
        uint32_t interval_s;
        uint32_t probes;
    } keepalive;                 /* of accepted connections */
    uint64_t filters_timeout_ns; /* [15 s] for what the inspectors wait for */
    bool continue_on_timeout;
    uint32_t backlog; /* 0: default */
    struct sw_gw_chain *chains;
    size_t n_chains;
    struct sw_gw_chain *default_chain; /* NULL: close */
    struct sw_gw_udp_proxy udp;        /* kind UDP */
    const struct sw_json *metadata;    /* NULL or {"filter": {...}} */
    struct sw_gw_accesslog *const *logs;
    size_t n_logs;
    uint64_t socket_hash; /* of the options of its sockets: a change means other ones */
    /* Owned by this object, released with it. */
    struct sw_regex **regexes;
    size_t n_regexes;
    struct sw_gw_accesslog **owned_logs;
    sw_gw_unref_log unref_log;
    size_t n_owned_logs;
};

struct sw_gw_listener *sw_gw_listener_ref(struct sw_gw_listener *l);
struct sw_gw_listener *sw_gw_listener_unref(struct sw_gw_listener *l);

/* What is known of a connection when its chain is chosen. */
struct sw_gw_chain_key {
    struct sw_addr dst;
    struct sw_addr src;
    struct sw_slice sni;         /* as sent; empty: none */
    bool tls;                    /* a ClientHello was seen */
    const struct sw_slice *alpn; /* offered by the client */
    size_t n_alpn;
};

/*
 * The chain for a connection: destination port, destination prefix, server name (exact, then
 * longest suffix), transport, ALPN, source type, source prefix, source port, most specific first at
 * each step, as Envoy. NULL: close the connection.
 */
const struct sw_gw_chain *sw_gw_chain_find(const struct sw_gw_listener *l,
                                           const struct sw_gw_chain_key *key);
