/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP filters of a connection manager. They run in order, never block (but may wait), and end in
 * the router. */
#pragma once

#include "gateway/config/config.h"
#include "gateway/exchange/exchange.h"

enum sw_gw_filter_kind {
    SW_GW_FILTER_CORS,
    SW_GW_FILTER_SESSION,
    SW_GW_FILTER_AUTHZ,
    SW_GW_FILTER_HEALTH,
    SW_GW_FILTER_DIRECTED,
    SW_GW_FILTER_GZIP,
    SW_GW_FILTER_UNKNOWN, /* one we do not have, off unless a route switches it on */
    SW_GW_FILTER_NAMED,   /* of a route: on or off for the filter of this name, whatever it is */
};

/* One filter of a connection manager. */
struct sw_gw_filter {
    enum sw_gw_filter_kind kind;
    struct sw_slice name; /* key of per-route configuration */
    bool disabled;        /* unless a route says otherwise */
    const void
        *config; /* struct sw_gw_cors, _session, _authz, _alive, ...; NULL: only routes have one */
};

struct sw_gw_cors {
    const struct sw_gw_str_match *origins;
    size_t n_origins;
    struct sw_slice methods; /* as they are sent; empty: not */
    struct sw_slice headers;
    struct sw_slice expose;
    struct sw_slice max_age;
    bool credentials;
    bool private_network;
    bool forward_preflights; /* forward_not_matching_preflights [true] */
    uint32_t millionths;     /* filter_enabled */
};

struct sw_gw_session {
    bool header; /* else cookie */
    bool strict;
    struct sw_slice name;
    struct sw_slice path;       /* cookie */
    uint64_t ttl_s;             /* cookie; 0: session */
    struct sw_slice attributes; /* cookie: "; Secure; SameSite=Lax" */
};

/* health_check: requests that match all of these are answered with 200. */
struct sw_gw_alive {
    const struct sw_gw_header_match *headers;
    size_t n_headers;
};

/* A request for another host than this is answered with 421. */
struct sw_gw_directed {
    struct sw_slice host; /* lower case; empty: the server name the client asked for in TLS */
};

struct sw_gw_build;
struct Sw__Any;
struct Sw__HttpFilter;
struct Sw__FilterConfigEntry;
struct sw_gw_per_filter;

/* The filters of a connection manager, the router excluded (it must be last). */
SW_NODISCARD int sw_gw_build_filters(struct sw_gw_build *b, struct Sw__HttpFilter *const *in,
                                     size_t n, const struct sw_gw_filter **ret, size_t *ret_n);
/* typed_per_filter_config; unknown types are refused. */
SW_NODISCARD int sw_gw_build_per_filter(struct sw_gw_build *b,
                                        struct Sw__FilterConfigEntry *const *in, size_t n,
                                        const struct sw_gw_per_filter **ret, size_t *ret_n);

/* SW_OK: go on; SW_ECLOSED: sw_exchange_reply was called; SW_EAGAIN: sw_gw_route_go_on comes later,
 * and calling it again then goes on behind the filter that waited. */
SW_NODISCARD int sw_gw_filters_request(struct sw_exchange *x);
/* A request without a route: true when a filter has the better answer, which it then gave. */
bool sw_gw_filters_misdirected(struct sw_exchange *x);
void sw_gw_filters_response(struct sw_exchange *x);
