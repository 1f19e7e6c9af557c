/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The xDS server: aggregated (ADS) and per-type services, state of the world and delta, for any
 * type of resource in its cache. One response per type is outstanding at a time, changes go out
 * make-before-break, and what waits for a client is never more than one piece of a response.
 * Runs on the caller's loop.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "io/addr.h"
#include "io/loop.h"
#include "xds/cache.h"

struct sw_tls_cred;
struct sw_tls_peer;
struct sw_metrics_shard;
struct sw_grpc_server;
struct sw_xds_server;

/* The client of a stream. Lives for the call. */
struct sw_xds_client_id {
    struct sw_addr addr;
    const struct sw_tls_peer *cert; /* NULL: none */
    struct sw_slice token;          /* bearer token, empty: none */
    struct sw_slice node_id;        /* from the first request; empty in 'allow' */
    struct sw_slice node_cluster;
    struct sw_slice node_ns; /* of the metadata, NAMESPACE and SERVICE_ACCOUNT; may be empty */
    struct sw_slice node_sa;
    bool resolves; /* it has the feature SW_XDS_RESOLVES (limits.h); not known in 'allow' */
};

/* Zero in a field means the default in brackets. */
struct sw_xds_server_opts {
    struct sw_xds_cache *cache;       /* what is served, borrowed; may be NULL with 'select' */
    struct sw_tls_cred *cred;         /* NULL: plain HTTP/2, for loopback; a reference is taken */
    struct sw_metrics_shard *metrics; /* may be NULL; borrowed */
    /*
     * Before anything is read from a stream: SW_OK, or why not in err (goes to the client as
     * UNAUTHENTICATED; with SW_ENOENT, when it is known and nothing is for it, as
     * PERMISSION_DENIED; with SW_ETIME, when the authority that decides did not answer, as
     * UNAVAILABLE). SW_EPENDING: not known yet; the stream waits, unread, until
     * sw_xds_server_recheck calls again. NULL: every client is allowed.
     */
    int (*allow)(void *arg, const struct sw_xds_client_id *id, struct sw_err *err);
    /*
     * Called for open streams from time to time: true when the client has lost the right to the
     * stream, with the reason in err; it ends (UNAUTHENTICATED). False also when that is unknown:
     * open streams stay. NULL: streams are not reviewed.
     */
    bool (*revoked)(void *arg, const struct sw_xds_client_id *id, struct sw_err *err);
    /*
     * The cache for a client, once its first request identified it. NULL with err: refused
     * (PERMISSION_DENIED; INVALID_ARGUMENT with SW_EINVAL). No function: 'cache'.
     */
    struct sw_xds_cache *(*select)(void *arg, const struct sw_xds_client_id *id,
                                   struct sw_err *err);
    /*
     * Which part of the cache a client gets: SW_OK and the view its types are looked up under (""
     * for all of it, cache.h), or why not (as with 'allow'). Called before anything is sent, and
     * again by sw_xds_server_review; the stream then continues with another view. Until the type
     * SW_XDS_VIEW of the view has a resource nothing is sent. NULL: all of it.
     */
    int (*view)(void *arg, const struct sw_xds_client_id *id, char ret[SW_XDS_VIEW_MAX],
                struct sw_err *err);
    /* Clients came or went, or answered: see sw_xds_server_planes. From anywhere; may be NULL. */
    void (*on_change)(void *arg);
    void *arg;
    /*
     * A first request without names is for all there is of its type, also of Secrets and others
     * that have to be named.
     */
    bool bare_is_all;
    size_t max_conns;    /* [1024] */
    size_t max_streams;  /* over all connections [4096] */
    uint32_t conn_calls; /* of one connection at once, calls of other methods included [128] */
    size_t max_types;    /* per stream [32] */
    size_t max_names;    /* subscribed per stream [200000] */
    size_t max_request;  /* bytes of a request [16 MiB] */
    size_t max_initial; /* the same with what a client holds, once 'allow' accepted it [the same] */
    size_t piece;       /* a delta response is cut at about so many bytes [1 MiB] */
    size_t max_response;     /* of state of the world, which cannot be cut [64 MiB] */
    uint64_t ack_timeout_ns; /* then the next type goes out without the ACK [5 s] */
    uint64_t review_ns;      /* how often 'revoked' is called for a stream [1 min] */
};

/* NULL with SW_EINVAL. */
SW_NODISCARD struct sw_xds_server *
sw_xds_server_new(struct sw_loop *l, const struct sw_xds_server_opts *o, struct sw_err *err);
/* Ends everything at once. NULL is fine. */
void sw_xds_server_free(struct sw_xds_server *s);
/* May be called several times. Port 0 takes a free one, returned in *ret_at (may be NULL). */
SW_NODISCARD int sw_xds_server_listen(struct sw_xds_server *s, const struct sw_addr *at,
                                      struct sw_addr *ret_at, struct sw_err *err);
/* A renewed certificate, for new connections. */
void sw_xds_server_set_cred(struct sw_xds_server *s, struct sw_tls_cred *cred);
/* No new streams, GOAWAY; those open end after deadline_ns, then on_done (may be NULL). */
void sw_xds_server_stop(struct sw_xds_server *s, uint64_t deadline_ns, void (*on_done)(void *arg),
                        void *arg);
/* The gRPC server below, to serve further methods on the same port. */
struct sw_grpc_server *sw_xds_server_grpc(struct sw_xds_server *s);

/* One line of 'spanwire status': a type that a client subscribed to. Slices live for the call. */
struct sw_xds_status {
    struct sw_slice node_id;
    struct sw_slice node_cluster;
    struct sw_addr addr;
    struct sw_slice type;
    bool delta;
    bool wildcard;
    size_t names;          /* subscribed by name */
    struct sw_slice sent;  /* version of the snapshot last sent, empty: none */
    struct sw_slice acked; /* and last accepted */
    bool pending;          /* a response waits for its ACK */
    uint64_t acks;
    uint64_t nacks;
    struct sw_slice nack;  /* text of the last refusal; empty when the last answer was an ACK */
    uint64_t pushed_ns;    /* since the last response was sent; 0: none was */
    uint64_t connected_ns; /* how long the stream has been open */
};
/* Calls fn for every type of every stream, oldest stream first. */
void sw_xds_server_status(const struct sw_xds_server *s,
                          void (*fn)(const struct sw_xds_status *st, void *arg), void *arg);
/* A client that takes Listeners. Everything lives for the call. */
struct sw_xds_plane {
    struct sw_slice node_id;
    struct sw_slice view; /* empty: it gets all there is */
    struct sw_addr addr;
    /* The Listeners it has answered for, with the routes and secrets they need; NULL: none yet. */
    const struct sw_xds_snap *settled;
    struct sw_slice
        refusal;  /* its last answer about Listeners, if it was a refusal; up to 64 KiB */
    bool retries; /* it keeps trying what it refused */
};
void sw_xds_server_planes(struct sw_xds_server *s,
                          void (*fn)(const struct sw_xds_plane *p, void *arg), void *arg);
/* Calls fn for every client that has identified itself. */
void sw_xds_server_clients(struct sw_xds_server *s,
                           void (*fn)(const struct sw_xds_client_id *id, void *arg), void *arg);
/* Sends a resource once more to the clients that refused its type and do not try again themselves.
 */
void sw_xds_server_repeat(struct sw_xds_server *s, const char *type, struct sw_slice name);
/* 'allow' may know more now: calls it again for the streams that wait. */
void sw_xds_server_recheck(struct sw_xds_server *s);
/* Rights may have changed: calls 'revoked' and 'view' for every open stream now. */
void sw_xds_server_review(struct sw_xds_server *s);
size_t sw_xds_server_streams(const struct sw_xds_server *s);
/* True when every stream has ACKed the cache's present state of all it subscribed to. */
bool sw_xds_server_synced(const struct sw_xds_server *s);
