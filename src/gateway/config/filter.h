/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled HTTP filters of a connection manager, and what routes change of them. */
#pragma once

#include "gateway/config/parts.h"

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
    bool disabled;        /* unless a route enables it */
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
    struct sw_slice host; /* lower case; empty: the client's SNI */
};

/* Per-route configuration of a filter, by the filter's name. */
struct sw_gw_per_filter {
    struct sw_slice name;
    enum sw_gw_filter_kind kind;
    bool disabled;
    const void *config; /* as struct sw_gw_filter.config; NULL with disabled */
};
