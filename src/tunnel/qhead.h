/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The heads of the tunnel protocol: one HTTP/1.1 head per direction of a stream, then raw bytes
 * until FIN. Reads and writes them; no I/O.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "http/h1.h"

#define SW_QTUNNEL_ALPN "iroh-http-proxy/1"
/*
 * Offers (request) and confirms (101) UDP payloads in QUIC datagrams: quarter stream id, context 0,
 * payload. Capsules stay possible; without the answer only they are used.
 */
#define SW_QTUNNEL_DATAGRAMS "spanwire-datagrams"

struct sw_map;

enum {
    SW_QHEAD_MAX = 8192, /* bytes of a head, the empty line included */
    SW_QHEAD_FIELDS = 64,
};

enum sw_qkind {
    SW_QKIND_TCP,     /* CONNECT host:port */
    SW_QKIND_UDP,     /* upgrade to connect-udp */
    SW_QKIND_HTTP,    /* a request in absolute form */
    SW_QKIND_UPGRADE, /* the same with Upgrade: websocket and the like */
};

/* "tcp", "udp", "http", "upgrade". */
const char *sw_qkind_text(enum sw_qkind k);

/* What a request wants. Slices point into the message. */
struct sw_qhead {
    enum sw_qkind kind;
    struct sw_slice host; /* without brackets */
    uint16_t port;
    struct sw_slice path; /* with query, "/" at least; empty for tcp and udp */
    bool https;           /* the scheme was https: the origin wants TLS */
};

/* The limits a parser of such heads is made with (sw_h1_new). */
extern const struct sw_h1_limits sw_qhead_limits;

/*
 * Reads on in a head that arrives in pieces: what is not understood yet is kept in 'in', whose
 * maximum is SW_QHEAD_MAX. As sw_h1_next, and *ret_used counts bytes of 'data'.
 */
SW_NODISCARD int sw_qhead_feed(struct sw_h1 *parser, struct sw_buf *in, struct sw_slice data,
                               size_t *ret_used, struct sw_err *err);
/*
 * Understands a request head. SW_EPROTO: not of this protocol (origin form, no port where one is
 * needed, userinfo, a masque path that contradicts the authority).
 */
SW_NODISCARD int sw_qhead_read(const struct sw_h1_msg *m, struct sw_qhead *ret, struct sw_err *err);

/* "host:port", an IPv6 host in brackets. SW_ELIMIT when out is full. */
SW_NODISCARD int sw_qhead_put_authority(struct sw_buf *out, struct sw_slice host, uint16_t port);
/*
 * "CONNECT host:port" with its Host field; the caller adds fields and sw_h1_put_end. SW_EINVAL,
 * SW_ELIMIT.
 */
SW_NODISCARD int sw_qhead_put_connect(struct sw_buf *out, struct sw_slice host, uint16_t port);
/*
 * Which request a tunnel is for, where the gateway says so: its id, and "METHOD HOST PATH". Both
 * are for logs and views only.
 */
#define SW_QHEAD_REQUEST_ID "x-request-id"
#define SW_QHEAD_REQUEST    "x-spanwire-request"
/* The upgrade to connect-udp. datagrams: offer QUIC datagrams. */
SW_NODISCARD int sw_qhead_put_udp(struct sw_buf *out, struct sw_slice host, uint16_t port,
                                  bool datagrams);
/*
 * "METHOD http://host:port/path" and its Host field; the caller adds fields and sw_h1_put_end.
 * path: with query, begins with '/' (or is "*" for OPTIONS).
 */
SW_NODISCARD int sw_qhead_put_request(struct sw_buf *out, struct sw_slice method,
                                      struct sw_slice host, uint16_t port, struct sw_slice path);
/*
 * The flow that a QUIC datagram belongs to, of a map whose keys are stream ids (int64_t). The
 * quarter stream id is cut off *datagram then. NULL: malformed, or there is none.
 */
void *sw_qhead_flow(const struct sw_map *flows, struct sw_slice *datagram);
