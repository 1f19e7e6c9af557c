/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device half of the tunnel protocol (ALPN iroh-http-proxy/1): every stream a peer opens is one
 * HTTP exchange. CONNECT becomes a TCP connection, an absolute-form request an HTTP/1.1 request to
 * its origin, an upgrade to connect-udp a UDP socket (RFC 9298). The owner authorises each stream.
 *
 * One loop, one thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"
#include "io/addr.h"
#include "io/loop.h"
#include "quic/id/nodeid.h"
#include "tunnel/qhead.h"

struct sw_qconn;
struct sw_qclose;
struct sw_qserve;
struct sw_qstream;

/* A stream that wants something. Slices live for the call. */
struct sw_qserve_ask {
    const struct sw_nodeid *peer;
    enum sw_qkind kind;
    struct sw_slice host; /* a name, or an address without brackets */
    uint16_t port;
    struct sw_slice method;
    struct sw_slice path;       /* with query; empty for tcp and udp */
    struct sw_slice request_id; /* of the request that it is for; may be empty */
};

/*
 * The owner's answer. All zero allows the request. When a running exchange is reviewed, tag is
 * already what the first answer made it.
 */
struct sw_qserve_verdict {
    unsigned status;     /* 0: allowed; else what the peer gets: 403, 404, 503 */
    const char *reason;  /* one word for counters and logs, static: "not_advertised" */
    struct sw_addr dial; /* where to connect instead of resolving host; family 0: as requested */
    /* The Host field an origin gets, in place of the request's. Empty: unchanged. Copied. */
    struct sw_slice host_header;
    void *tag; /* comes back in the record and with the tap */
    /* Sees the bytes of a tunnel (tcp, upgrade) as they pass, both ways. NULL: no tap. */
    void (*tap)(void *tag, bool from_origin, const uint8_t *p, size_t n);
};

/* One exchange, for logs and a live view. Slices live for the call. */
struct sw_qserve_record {
    const struct sw_nodeid *peer;
    enum sw_qkind kind;
    struct sw_slice method;
    struct sw_slice host;
    uint16_t port;
    struct sw_slice path;
    struct sw_slice request_id; /* of the request that a tunnel is for; may be empty */
    struct sw_slice request;    /* "METHOD HOST PATH" of it, as the peer says; may be empty */
    unsigned status;            /* what the peer was answered; 0: nothing */
    const char *reason; /* NULL: ended well; else one word: "denied", "dial_failed", "reset" ... */
    uint64_t bytes_in;  /* from the peer to the origin */
    uint64_t bytes_out;
    uint64_t duration_ns; /* 0 in 'begun' */
    void *tag;
};

/* Zero in a field means the default in brackets. */
struct sw_qserve_config {
    size_t max_streams;       /* at once, over all connections; more are answered 503,
                                 far more reset [4096] */
    size_t max_udp;           /* of these, UDP flows [1024] */
    uint64_t head_timeout_ns; /* a head must be complete [10 s] */
    uint64_t dial_timeout_ns; /* name lookup and connect [10 s] */
    uint64_t idle_timeout_ns; /* a tunnel that moves nothing, either way [1 h]; UDP: udp_idle_ns */
    uint64_t udp_idle_ns;     /* [120 s], at least */
    bool no_udp;              /* answer connect-udp with 501 */
    /* May the peer have this? NULL refuses everything. */
    void (*authorise)(void *arg, const struct sw_qserve_ask *ask, struct sw_qserve_verdict *ret);
    /*
     * May the peer have this at an address that its host, a name, resolved to? Called before each
     * is dialled; 403 when none may be. NULL: any.
     */
    bool (*permit)(void *arg, const struct sw_qserve_ask *ask, const struct sw_addr *to);
    /* An answer was given (status set): for a live view. May be NULL. */
    void (*begun)(void *arg, const struct sw_qserve_record *r);
    /* The exchange is over: exactly once for each that the owner decided on. May be NULL. */
    void (*ended)(void *arg, const struct sw_qserve_record *r);
    /* An adopted connection is gone. May be NULL. */
    void (*conn_closed)(void *arg, struct sw_qconn *c, const struct sw_qclose *why);
    /* An adopted connection moved between relay and direct. May be NULL. */
    void (*conn_path)(void *arg, struct sw_qconn *c);
    void *arg;
};

struct sw_qserve_stats {
    uint64_t conns, streams, udp_flows;           /* now */
    uint64_t accepted, denied, failed, completed; /* exchanges */
    uint64_t malformed;                           /* heads that could not be read */
    uint64_t overflows;                           /* streams reset unheard: too many */
    uint64_t bytes_in, bytes_out;                 /* to and from origins */
    uint64_t datagrams_dropped;
    uint64_t reused, stale; /* connections to origins: used again, and closed before that helped */
};

SW_NODISCARD struct sw_qserve *sw_qserve_new(struct sw_loop *l, const struct sw_qserve_config *c);
/*
 * Ends every exchange at once and forgets the connections, which stay open: close or free the
 * endpoint after it. Not from one of the callbacks. NULL is fine.
 */
void sw_qserve_free(struct sw_qserve *v);
/* Takes a connection that is ready (from sw_quic_config.accepted): its ops are ours from now on. */
void sw_qserve_adopt(struct sw_qserve *v, struct sw_qconn *q);
/* New streams are answered 503; what runs continues. */
void sw_qserve_drain(struct sw_qserve *v);
/* Calls 'authorise' again for every running exchange and resets those that are refused now. */
void sw_qserve_recheck(struct sw_qserve *v);
/* Exchanges under way. */
size_t sw_qserve_active(const struct sw_qserve *v);
void sw_qserve_stats(const struct sw_qserve *v, struct sw_qserve_stats *ret);
