/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One HTTP/2 connection to one server, made when it is wanted: the host is resolved and its
 * addresses are tried in turn within one deadline. What travels on the connection is the owner's
 * business (gRPC: http/grpc/grpc.h, requests: http/h2client.h). Embedded in the owner.
 */
#pragma once

#include "http/h2conn.h"
#include "io/resolver.h"

struct sw_egress;
struct sw_h2origin;

/* Zero in a field means the default in brackets. Texts are copied. */
struct sw_h2origin_opts {
    /*
     * Of the connection; server, host, ops and arg are set here, of cred a reference is taken, and
     * open_timeout_ns is for name, connection and handshake together.
     */
    struct sw_h2conn_opts conn;
    struct sw_slice host; /* DNS name or IP address, without brackets */
    uint16_t port;
    struct sw_slice tls_name;  /* name the certificate must be for [host] */
    struct sw_slice authority; /* to send [host and port] */
    uint32_t mark;             /* SO_MARK of its sockets; 0: none */
    bool need_alpn;            /* a server that does not agree on HTTP/2 gets no request */
    struct sw_egress *egress;  /* borrowed: judges the addresses of host; NULL: any will do */
    /* Streams may be opened. From the loop. */
    void (*on_open)(struct sw_h2origin *o);
    /* The connection ended, or there will be none; wanted again, it is made again. From the loop.
     */
    void (*on_down)(struct sw_h2origin *o, const char *why);
};

struct sw_h2origin {
    struct sw_loop *loop; /* borrowed */
    struct sw_h2origin_opts o;
    char *host; /* this and the next two are owned */
    char *tls_name;
    char *authority;
    struct sw_h2conn *conn; /* NULL: none */
    struct sw_h2conn *old;  /* retired: its streams end, no new ones */
    bool open;
    bool disagreed; /* need_alpn: the last server did not agree */
    struct sw_resolve *resolve;
    struct sw_addr addrs[SW_RESOLVE_MAX];
    size_t n_addrs;
    size_t at_addr;
    struct sw_timer timer; /* of connecting */
};

/* SW_EINVAL: no host, or no port. */
SW_NODISCARD int sw_h2origin_init(struct sw_h2origin *r, struct sw_loop *l,
                                  const struct sw_h2origin_opts *o, struct sw_err *err);
/* Closes at once; streams get on_close. Not from a callback. */
void sw_h2origin_done(struct sw_h2origin *r);
/* Connects unless it is connected or connecting. Not from a callback of the connection. */
void sw_h2origin_want(struct sw_h2origin *r);
/* The next stream gets a new connection; streams of this one may end. Not from a callback of it. */
void sw_h2origin_retire(struct sw_h2origin *r);
/* Another credential for the next connection. */
void sw_h2origin_set_cred(struct sw_h2origin *r, struct sw_tls_cred *cred);
