/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of requests and responses as both sides of an exchange know them, whatever the wire format.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "gateway/message/fields.h"

struct sw_budget;

enum sw_gw_protocol { SW_GW_HTTP10, SW_GW_HTTP11, SW_GW_HTTP2 };

enum sw_gw_length {                       /* what is known of a body before it arrived */
                    SW_GW_LENGTH_NONE,    /* there is none */
                    SW_GW_LENGTH_KNOWN,   /* content_length bytes */
                    SW_GW_LENGTH_UNKNOWN, /* chunked, HTTP/2 without content-length, until close */
                    SW_GW_LENGTH_TUNNEL,  /* CONNECT or an upgrade: not HTTP any more */
};

struct sw_gw_request {
    struct sw_slice method;
    struct sw_slice scheme;    /* "http" or "https": of the connection the request came on */
    struct sw_slice authority; /* Host or :authority as the client sent it */
    struct sw_slice path;      /* with query, begins with '/'; "*" for OPTIONS *; CONNECT: empty */
    struct sw_slice upgrade;   /* "websocket" ... : Upgrade or :protocol; empty: none */
    struct sw_gw_fields fields;
    struct sw_gw_fields trailers;
    struct sw_budget *work; /* what matching and rewriting it may cost; NULL: each its own */
    uint64_t content_length;
    uint8_t length;  /* enum sw_gw_length */
    uint8_t version; /* enum sw_gw_protocol */
    bool te_trailers;
    bool expect_continue;
    bool head;    /* method is HEAD */
    bool connect; /* method is CONNECT without :protocol */
    bool grpc;    /* content-type application/grpc* */
};

struct sw_gw_response {
    uint16_t status;
    uint8_t length;
    uint8_t version;
    bool local;      /* made here */
    bool has_length; /* HEAD, 304: content_length is what it would have been */
    uint64_t content_length;
    struct sw_gw_fields fields;
    struct sw_gw_fields trailers;
};

/* Envoy's %RESPONSE_FLAGS%, as bits; sw_gw_flags_text writes them. */
#define SW_GW_FLAGS(X)                                                                             \
    X(UF)                                                                                          \
    X(UC)                                                                                          \
    X(UT)                                                                                          \
    X(UH)                                                                                          \
    X(UO)                                                                                          \
    X(NR)                                                                                          \
    X(NC)                                                                                          \
    X(DC)                                                                                          \
    X(UR)                                                                                          \
    X(URX)                                                                                         \
    X(UPE)                                                                                         \
    X(DPE)                                                                                         \
    X(SI)                                                                                          \
    X(DT)                                                                                          \
    X(RL)                                                                                          \
    X(UAEX)
enum {
#define SW_GW_FLAG_BIT(name) SW_GW_FLAG_BIT_##name,
    SW_GW_FLAGS(SW_GW_FLAG_BIT)
#undef SW_GW_FLAG_BIT
};
enum sw_gw_flag {
#define SW_GW_FLAG_ENUM(name) SW_GW_FLAG_##name = 1 << SW_GW_FLAG_BIT_##name,
    SW_GW_FLAGS(SW_GW_FLAG_ENUM)
#undef SW_GW_FLAG_ENUM
};
