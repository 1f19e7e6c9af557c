/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract with the proxy in front: which node, which target, and the head that the node gets.
 * Pure: from a request's fields to bytes, or to a refusal.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/slice.h"
#include "http/h1.h"
#include "tls/cert/rawkey.h"
#include "tunnel/qdial.h"

#define SIDE_REASON "x-spanwire-reason"

enum { SIDE_ALIASES_MAX = 16 };

/* Another name for one of the contract's fields. */
struct side_alias {
    struct sw_slice name;  /* the field of the contract */
    struct sw_slice alias; /* what a proxy may call it */
};

struct side_aliases {
    struct side_alias p[SIDE_ALIASES_MAX];
    size_t n;
};

enum side_kind {
    SIDE_CONNECT,
    SIDE_ORIGIN,  /* an ordinary request */
    SIDE_UPGRADE, /* websocket and the like */
    SIDE_UDP,
};

/* "connect", "origin", "upgrade", "connect_udp". */
const char *side_kind_text(enum side_kind k);

/* A request as both protocols have it. */
struct side_in {
    struct sw_slice method;
    struct sw_slice authority; /* CONNECT target; else Host */
    struct sw_slice path;      /* with query; empty for CONNECT */
    struct sw_slice protocol;  /* of an upgrade or an extended CONNECT; empty: none */
    bool extended;             /* HTTP/2's CONNECT with :protocol */
    const struct sw_h1_field *fields;
    size_t n;
    const struct sw_h1_msg *msg; /* HTTP/1: for what its Connection lists; may be NULL */
    bool length_known;
    uint64_t length; /* of the body */
    bool no_body;    /* it is known to have none */
    bool datagrams;  /* offer QUIC datagrams for UDP */
};

struct side_out {
    enum side_kind kind;
    struct sw_nodeid node;
    struct sw_slice head;     /* what the node gets; in the arena */
    struct sw_slice target;   /* host:port, for logs; in the arena */
    struct sw_slice id;       /* x-request-id, for logs; borrowed from side_in; empty: none */
    struct sw_slice protocol; /* of an upgrade; as in side_in */
    bool safe;
    bool head_only; /* the method is HEAD */
};

/* Why a request was not passed on. reason is the counter's label. */
struct side_refusal {
    unsigned status;
    const char *reason;
    const char *text;
};

/* True: *ret is filled. False: *why is. */
bool side_request_read(struct sw_arena *a, const struct side_aliases *aliases,
                       const struct side_in *in, struct side_out *ret, struct side_refusal *why);

/* The call of the node; 'method' and 'timeout_ns', for its answer, apply to some kinds alone. */
struct sw_qcall_spec side_call_spec(const struct side_out *o, struct sw_slice method,
                                    uint64_t timeout_ns);

/* What a failure of the way to the node means to the proxy in front. */
struct side_failure {
    unsigned status;
    const char *proxy_error; /* RFC 9209 */
};
struct side_failure side_failure_of(enum sw_qfail why);

/*
 * An answer of our own: status, reason fields and a small text. h1: as HTTP/1.1 bytes, closing the
 * connection when 'close' is set.
 */
SW_NODISCARD int side_put_error(struct sw_buf *out, unsigned status, const char *reason,
                                const char *proxy_error, const char *text, bool close);
/* "spanwire; error=E; details=\"T\"", as a value of Proxy-Status. */
struct sw_slice side_proxy_status(struct sw_arena *a, const char *proxy_error, const char *text);
