/* SPDX-License-Identifier: Apache-2.0 */
/*
 * External authorisation (ext_authz): a service checks each request, over HTTP or gRPC, and its
 * answer allows the request, modifies it, or becomes the response. No answer denies, unless
 * failure_mode_allow is set.
 */
#pragma once

#include "gateway/config/config.h"
#include "gateway/exchange/exchange.h"

struct sw_gw_build;
struct Sw__Any;
struct sw_gw_per_filter;

/* Names of headers. */
struct sw_gw_names {
    const struct sw_gw_str_match *p;
    size_t n;
    bool given; /* a list, if an empty one */
};

/* The authorisation service. */
struct sw_gw_authz_service {
    bool grpc;
    struct sw_slice cluster; /* empty: not set here */
    struct sw_slice prefix;  /* HTTP: goes before the path */
    struct sw_slice authority;
    uint64_t timeout_ns;
    const struct sw_h1_field *add; /* fields of the question */
    size_t n_add;
    struct sw_gw_names copied;    /* of the answer into the request, replacing */
    struct sw_gw_names appended;  /* the same, added */
    struct sw_gw_names client;    /* of a refusal to the client; not given: all */
    struct sw_gw_names client_ok; /* of the answer into the response */
};

/* How much of the body to show. */
struct sw_gw_authz_body {
    uint32_t max; /* 0: none */
    bool partial; /* a longer one is cut, not refused */
    bool raw;     /* gRPC: as bytes */
};

/* Of a filter, or of a route where it differs. */
struct sw_gw_authz {
    struct sw_gw_authz_service service;
    struct sw_gw_authz_body body;
    bool no_body;                      /* route: whatever the filter sets */
    struct sw_gw_names shown;          /* of the request; not given: gRPC all, HTTP the least */
    const struct sw_h1_field *context; /* gRPC: context_extensions */
    size_t n_context;
    /* Filter only. */
    bool let_pass;    /* failure_mode_allow */
    uint16_t failure; /* status_on_error */
};

SW_NODISCARD int sw_gw_build_authz(struct sw_gw_build *b, const struct Sw__Any *any,
                                   const void **ret);
SW_NODISCARD int sw_gw_build_authz_route(struct sw_gw_build *b, const struct Sw__Any *any,
                                         struct sw_gw_per_filter *p);

/*
 * Sends the check. SW_EPENDING: the answer comes later, and sw_gw_route_continue with it;
 * SW_GW_REPLIED: the request was refused. route may be NULL.
 */
SW_NODISCARD int sw_gw_authz_request(struct sw_exchange *x, const struct sw_gw_authz *filter,
                                     const struct sw_gw_authz *route);
/* While it waits: more of the body is in x->kept, or its end came. */
void sw_gw_authz_body(struct sw_exchange *x);
/* Adds what the answer had for the response. */
void sw_gw_authz_response(struct sw_exchange *x);
/* The exchange is over: so is its question. */
void sw_gw_authz_gone(struct sw_exchange *x);
