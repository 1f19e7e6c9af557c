/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of HTTP messages: those the proxy knows by number, and lists of them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/slice.h"
#include "http/h1.h"

/* Fields the proxy itself looks at, recognised once when they arrive. */
#define SW_GW_HEADERS(X)                                                                           \
    X(CONNECTION, "connection")                                                                    \
    X(CONTENT_LENGTH, "content-length")                                                            \
    X(CONTENT_TYPE, "content-type")                                                                \
    X(DATE, "date")                                                                                \
    X(EXPECT, "expect")                                                                            \
    X(FORWARDED, "forwarded")                                                                      \
    X(GRPC_STATUS, "grpc-status")                                                                  \
    X(GRPC_TIMEOUT, "grpc-timeout")                                                                \
    X(HOST, "host")                                                                                \
    X(HTTP2_SETTINGS, "http2-settings")                                                            \
    X(KEEP_ALIVE, "keep-alive")                                                                    \
    X(PROXY_CONNECTION, "proxy-connection")                                                        \
    X(SERVER, "server")                                                                            \
    X(TE, "te")                                                                                    \
    X(TRAILER, "trailer")                                                                          \
    X(TRANSFER_ENCODING, "transfer-encoding")                                                      \
    X(UPGRADE, "upgrade")                                                                          \
    X(VIA, "via")                                                                                  \
    X(X_FORWARDED_CLIENT_CERT, "x-forwarded-client-cert")                                          \
    X(X_FORWARDED_FOR, "x-forwarded-for")                                                          \
    X(X_FORWARDED_HOST, "x-forwarded-host")                                                        \
    X(X_FORWARDED_PROTO, "x-forwarded-proto")                                                      \
    X(X_REQUEST_ID, "x-request-id")

enum sw_gw_hid {
    SW_GW_H_OTHER,
#define SW_GW_H_ENUM(id, name) SW_GW_H_##id,
    SW_GW_HEADERS(SW_GW_H_ENUM)
#undef SW_GW_H_ENUM
        SW_GW_H_COUNT
};

/*
 * Fields of a head or trailer in an arena, in order. Names as they came (HTTP/2 writers
 * lower them). Host, framing and hop-by-hop fields are not among them: codecs make their own.
 */
struct sw_gw_fields {
    struct sw_h1_field *p;
    uint8_t *hid; /* enum sw_gw_hid, parallel to p */
    uint32_t n;
    uint32_t cap;
};

/* Which of the known fields this name is; SW_GW_H_OTHER for the rest. */
enum sw_gw_hid sw_gw_hid(struct sw_slice name);
/* Of the framing or of one hop: codecs write their own. */
static inline bool sw_gw_hid_of_hop(uint8_t hid)
{
    return hid == SW_GW_H_CONNECTION || hid == SW_GW_H_KEEP_ALIVE ||
           hid == SW_GW_H_PROXY_CONNECTION || hid == SW_GW_H_TE ||
           hid == SW_GW_H_TRANSFER_ENCODING || hid == SW_GW_H_UPGRADE || hid == SW_GW_H_HOST ||
           hid == SW_GW_H_CONTENT_LENGTH || hid == SW_GW_H_EXPECT;
}

/* Empties f and makes room. */
void sw_gw_fields_init(struct sw_arena *a, struct sw_gw_fields *f, size_t cap);
/* Name and value are borrowed: memory that lives as long as the arena. */
void sw_gw_fields_add(struct sw_arena *a, struct sw_gw_fields *f, struct sw_slice name,
                      struct sw_slice value);
/* The same for a name whose number is known. */
void sw_gw_fields_add_known(struct sw_arena *a, struct sw_gw_fields *f, enum sw_gw_hid id,
                            struct sw_slice name, struct sw_slice value);
/* NULL: none. The first of several. */
struct sw_slice *sw_gw_fields_get(const struct sw_gw_fields *f, enum sw_gw_hid id);
struct sw_slice *sw_gw_fields_find(const struct sw_gw_fields *f, struct sw_slice name);
/* Whether content-type is that of gRPC, in any case of letters. */
bool sw_gw_fields_grpc(const struct sw_gw_fields *f);
/* Replaces all fields of that name by one. */
void sw_gw_fields_set(struct sw_arena *a, struct sw_gw_fields *f, struct sw_slice name,
                      struct sw_slice value);
void sw_gw_fields_remove(struct sw_gw_fields *f, struct sw_slice name);
/* Takes out those with an underscore in their name; true when there were any. */
bool sw_gw_fields_drop_underscored(struct sw_gw_fields *f);
