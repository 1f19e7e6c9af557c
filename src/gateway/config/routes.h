/* SPDX-License-Identifier: Apache-2.0 */
/* A compiled route table. Made by route/build.h, read by workers. */
#pragma once

#include "gateway/config/filter.h"
#include "gateway/config/parts.h"

/* ---- matching ---- */

enum sw_gw_path_kind {
    SW_GW_PATH_EXACT,
    SW_GW_PATH_PREFIX,
    SW_GW_PATH_SEPARATED, /* prefix that ends at a '/' or at the end */
    SW_GW_PATH_REGEX,
    SW_GW_PATH_CONNECT,
};

struct sw_gw_query_match {
    struct sw_slice name;
    bool has_str;
    bool present;
    struct sw_gw_str_match str;
};

struct sw_gw_cookie_match {
    struct sw_slice name;
    struct sw_gw_str_match str;
    bool invert;
};

struct sw_gw_match {
    enum sw_gw_path_kind path_kind;
    bool icase;
    bool grpc;
    struct sw_slice path;
    const struct sw_regex *re;
    const struct sw_gw_header_match *headers;
    const struct sw_gw_query_match *queries;
    const struct sw_gw_cookie_match *cookies;
    uint16_t n_headers;
    uint16_t n_queries;
    uint16_t n_cookies;
    uint32_t millionths;  /* runtime_fraction; 1000000: always */
    int8_t tls_presented; /* -1: does not matter */
    int8_t tls_validated;
};

/* ---- acting ---- */

struct sw_gw_header_ops {
    const struct sw_gw_header_add *add;
    size_t n_add;
    const struct sw_slice *remove; /* lower case; "x-*" is not a pattern here */
    size_t n_remove;
};

struct sw_gw_regex_rewrite {
    const struct sw_regex *re;
    struct sw_slice substitution; /* \1 ... */
};

enum sw_gw_retry_on {
    SW_GW_RETRY_5XX = 1,
    SW_GW_RETRY_GATEWAY_ERROR = 2, /* 502, 503, 504 */
    SW_GW_RETRY_RESET = 4,
    SW_GW_RETRY_CONNECT_FAILURE = 8,
    SW_GW_RETRY_REFUSED_STREAM = 16,
    SW_GW_RETRY_STATUS_CODES = 32,
    SW_GW_RETRY_4XX = 64, /* 409 */
    SW_GW_RETRY_RESET_BEFORE_REQUEST = 128,
    SW_GW_RETRY_GRPC = 256,
};

struct sw_gw_retry {
    uint32_t on;
    uint32_t num;
    uint64_t per_try_timeout_ns;
    uint64_t base_ns;
    uint64_t max_ns;
    const uint16_t *codes;
    size_t n_codes;
    uint32_t grpc_codes; /* bit by code */
    bool avoid_previous;
};

struct sw_gw_mirror {
    struct sw_slice cluster;
    uint32_t millionths;
    bool keep_host;
    struct sw_slice host_rewrite;
};

enum sw_gw_hash_kind {
    SW_GW_HASH_HEADER,
    SW_GW_HASH_COOKIE,
    SW_GW_HASH_SOURCE_IP,
    SW_GW_HASH_QUERY,
};

struct sw_gw_hash_policy {
    enum sw_gw_hash_kind kind;
    struct sw_slice name;
    bool terminal;
    bool make_cookie; /* ttl was given: set the cookie when the client has none */
    uint64_t ttl_s;
    struct sw_slice path;
};

struct sw_gw_weight {
    struct sw_slice cluster;
    struct sw_slice cluster_header;
    uint32_t weight;
    struct sw_gw_header_ops req;
    struct sw_gw_header_ops resp;
    struct sw_slice host; /* host_rewrite_literal */
    const struct sw_gw_per_filter *filters;
    size_t n_filters;
};

enum sw_gw_action { SW_GW_FORWARD, SW_GW_REDIRECT, SW_GW_DIRECT };

struct sw_gw_forward {
    const struct sw_gw_weight *weights; /* one without weighted_clusters */
    size_t n_weights;
    uint64_t total_weight;
    uint16_t not_found_status;
    struct sw_slice prefix_rewrite;
    const struct sw_gw_regex_rewrite *regex_rewrite;
    struct sw_slice host;        /* literal */
    struct sw_slice host_header; /* value of that header */
    const struct sw_gw_regex_rewrite *host_path_regex;
    bool auto_host;
    bool append_host;
    uint64_t timeout_ns; /* [15 s] */
    bool idle_set;
    uint64_t idle_timeout_ns;
    uint64_t max_stream_ns;
    const struct sw_gw_retry *retry; /* NULL: of the virtual host */
    const struct sw_gw_mirror *mirrors;
    size_t n_mirrors;
    const struct sw_gw_hash_policy *hashes;
    size_t n_hashes;
    const struct sw_gw_upgrade {
        struct sw_slice type; /* lower case */
        bool enabled;
        bool terminate;
    } * upgrades;
    size_t n_upgrades;
};

struct sw_gw_redirect {
    uint16_t status;
    struct sw_slice scheme;
    struct sw_slice host;
    uint16_t port;
    bool has_path;
    struct sw_slice path;
    bool has_prefix;
    struct sw_slice prefix;
    const struct sw_gw_regex_rewrite *regex;
    bool strip_query;
};

struct sw_gw_direct {
    uint16_t status;
    struct sw_slice body;
    const struct sw_gw_format *format; /* of the body; NULL: as it is */
    struct sw_slice content_type;
    /* From the route's metadata 'spanwire': it stands for an error, which gets a page. */
    struct sw_slice reason; /* empty: an answer like any other */
    struct sw_slice device; /* the connector that is missing; may be empty */
};

struct sw_gw_route {
    struct sw_slice name;
    struct sw_gw_match match;
    enum sw_gw_action action;
    union {
        struct sw_gw_forward forward;
        struct sw_gw_redirect redirect;
        struct sw_gw_direct direct;
    };
    struct sw_gw_header_ops req;
    struct sw_gw_header_ops resp;
    const struct sw_gw_per_filter *filters;
    size_t n_filters;
    uint32_t next; /* next route under the same key of an index + 1; 0: none */
};

/* Refcounted: a table takes over from the one before what did not change. */
struct sw_gw_vhost {
    _Atomic uint32_t refs;
    struct sw_arena arena;
    struct sw_regex **regexes; /* owned */
    size_t n_regexes;
    size_t regex_size;
    const char *invalid;      /* beyond a limit, which: everything is answered with an error */
    struct sw_slice bytes;    /* its message, for the next table to compare with; may be empty */
    struct sw_slice *domains; /* lower case */
    size_t n_domains;
    struct sw_slice name;
    struct sw_gw_route *routes; /* in order */
    uint32_t n_routes;
    /* Indexes, only for more than a handful of routes; values are route numbers + 1. */
    struct sw_map exact;
    struct sw_map prefix;
    uint32_t *prefix_lens; /* distinct, longest first */
    uint32_t n_prefix_lens;
    uint32_t *others; /* regex, connect, case-insensitive */
    uint32_t n_others;
    bool indexed;
    uint8_t require_tls;
    bool attempt_count;
    struct sw_gw_header_ops req;
    struct sw_gw_header_ops resp;
    const struct sw_gw_retry *retry;
    const struct sw_gw_mirror *mirrors;
    size_t n_mirrors;
    const struct sw_gw_per_filter *filters;
    size_t n_filters;
};

struct sw_gw_routes {
    _Atomic uint32_t refs;
    struct sw_arena arena;
    struct sw_slice name;
    bool ignore_port;
    bool specific_wins;          /* most_specific_header_mutations_wins */
    struct sw_gw_vhost **vhosts; /* a reference each */
    size_t n_vhosts;
    size_t n_invalid;      /* of them */
    size_t body_max;       /* of direct responses */
    struct sw_map exact;   /* domain -> vhost */
    struct sw_map suffix;  /* ".foo.com" of "*.foo.com" */
    struct sw_map prefix;  /* "foo." of "foo.*" */
    uint32_t *suffix_lens; /* distinct, longest first */
    uint32_t n_suffix_lens;
    uint32_t *prefix_lens;
    uint32_t n_prefix_lens;
    struct sw_gw_vhost *any;
    struct sw_gw_header_ops req;
    struct sw_gw_header_ops resp;
    const struct sw_gw_mirror *mirrors;
    size_t n_mirrors;
    const struct sw_gw_per_filter *filters;
    size_t n_filters;
    struct sw_regex **regexes; /* owned */
    size_t n_regexes;
};

/* ---- life ---- */

void sw_gw_vhost_unref(struct sw_gw_vhost *v);
struct sw_gw_routes *sw_gw_routes_ref(struct sw_gw_routes *r);
/* Accepts NULL, returns NULL. */
struct sw_gw_routes *sw_gw_routes_unref(struct sw_gw_routes *r);
