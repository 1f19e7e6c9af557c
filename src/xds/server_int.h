/* SPDX-License-Identifier: Apache-2.0 */
/* What the server's files share. Not for others. */
#pragma once

#include "base/buf.h"
#include "base/list.h"
#include "base/map.h"
#include "http/grpc/grpc.h"
#include "telemetry/metrics.h"
#include "xds/server.h"

/*
 * What is known about a type beforehand; others get the defaults. Ranks order the responses of one
 * change: lower ones first, each acknowledged before the next, removals of those marked last.
 */
struct xds_kind {
    const char *url;
    unsigned rank;     /* 0: independent of the others */
    bool full;         /* state of the world: absence deletes, so every response is complete */
    bool named;        /* an empty list of names is not a wildcard */
    bool removed_last; /* others may still refer to what goes */
};
const struct xds_kind *xds_kind_of(struct sw_slice url);

struct xds_stream;

/* A name somebody subscribed to. */
struct xds_name {
    struct sw_slice name;     /* owned */
    struct sw_list forced;    /* linked: must be answered, whatever the client has */
    struct sw_xds_res *ahead; /* sent although base is older; NULL: as in base */
    bool owed;                /* state of the world: was to be answered when it did not exist */
};

/* One type on one stream. What the client has is 'base', but for the forced names. */
struct xds_sub {
    struct sw_list link; /* in the stream, by rank */
    struct xds_stream *stream;
    char *url;
    const struct xds_kind *kind;
    bool wildcard;
    bool explicit_seen;  /* names were requested: an empty list means none from now on */
    bool answer;         /* a response is due even if it is empty */
    struct sw_map names; /* name -> struct xds_name */
    struct sw_list forced;
    struct sw_list patient; /* struct xds_name: forced when it is this type's turn */
    size_t n_owed;          /* names that are */
    size_t n_ahead;         /* names of which something was sent ahead of base */
    struct sw_list gone;    /* struct xds_name: to be answered though not subscribed by name */
    size_t n_gone;
    struct sw_list leaving;     /* like gone, but when nothing refers to them any more */
    struct sw_map initial;      /* name -> version text, from a client that comes back */
    struct sw_xds_snap *base;   /* NULL: nothing */
    struct sw_xds_snap *stray;  /* delta: may have been sent, and base does not know; or NULL */
    struct sw_xds_snap *target; /* delta: being sent in pieces; NULL: nothing under way */
    size_t at_base;             /* how far the walk got */
    size_t at_target;
    bool pending; /* a response waits for its answer */
    uint64_t nonce;
    uint64_t sent_ns;
    char sent[SW_XDS_VERSION_LEN + 1];
    char acked[SW_XDS_VERSION_LEN + 1];
    uint64_t acks;
    uint64_t nacks;
    char *nack;   /* the last answer was a refusal: its text, cut; NULL: it was not */
    char *detail; /* the same, longer; for Listeners only */
    bool retries; /* the client goes on trying what it refused */
};

struct xds_stream {
    struct sw_list link;
    struct sw_xds_server *server;
    struct sw_grpc_call *call;
    const char *fixed; /* type of a service for one type; NULL: ADS */
    bool delta;
    bool shut_out; /* its client was revoked: it ends */
    bool waiting;  /* until 'allow' knows; nothing is read */
    bool known;    /* the first request was read */
    struct sw_addr addr;
    const struct sw_tls_peer *cert; /* as long as the connection */
    char *token;                    /* wiped at the end; NULL: none */
    struct sw_slice node_id;
    struct sw_slice node_cluster;
    bool resolves;              /* it looks names of clusters up itself */
    struct sw_xds_cache *cache; /* NULL until known, and when it was freed */
    char view[SW_XDS_VIEW_MAX]; /* of the cache; empty: all of it; "?": not known yet */
    bool looked;                /* it was known once */
    struct sw_xds_listener listener;
    struct sw_xds_snap *settled; /* Listeners of the last time nothing was under way; or NULL */
    struct sw_list subs;
    size_t n_subs;
    size_t n_names; /* of all types */
    size_t name_bytes;
    uint64_t last_nonce;
    uint64_t answered_ns; /* the last ACK of a type with a rank */
    uint64_t lingers_ns;  /* since when removals wait; 0: they do not */
    uint64_t since_ns;
    struct sw_defer again;
    struct sw_timer timer;  /* acknowledgements that do not come */
    struct sw_timer review; /* whether it may stay */
};

struct sw_xds_server {
    struct sw_loop *loop;
    struct sw_xds_server_opts o;
    struct sw_grpc_server *grpc;
    struct sw_list streams;
    size_t n_streams;
    size_t n_waiting;
    struct sw_metric *m_streams; /* NULL without metrics */
};

/* --- server.c --- */
/* How a refusal is told, by the code of 'allow' or 'view'. */
enum sw_grpc_status xds_refusal_status(int rc);
void xds_count_refusal(const struct sw_xds_server *s, enum sw_grpc_status status);

/* --- stream.c --- */
extern const struct sw_grpc_ops xds_stream_ops;
struct xds_stream *xds_stream_new(struct sw_xds_server *s, struct sw_grpc_call *call,
                                  const char *fixed, bool delta);
void xds_stream_free(struct xds_stream *st);
/* Sends what is due, from the loop. */
void xds_stream_wake(struct xds_stream *st);
/* Ends the stream, and returns false, when its client may not have it any more. */
bool xds_stream_judge(struct xds_stream *st);
/* Asks from time to time whether it may stay. */
void xds_stream_review(struct xds_stream *st);
/* What there is of a type for this client, borrowed until the next commit. */
struct sw_xds_snap *xds_stream_snap(const struct xds_stream *st, struct sw_slice type);
/* The client's view is not there yet: whatever was sent would be wrong. */
bool xds_stream_blind(const struct xds_stream *st);
/* Finds out which view the client has now; ends the stream, and returns false, when it has none. */
bool xds_stream_look(struct xds_stream *st);

/* --- subscription.c --- */
/* Finds or makes; NULL beyond the limit. */
struct xds_sub *xds_sub_get(struct xds_stream *st, struct sw_slice url, bool *ret_new);
struct xds_sub *xds_sub_find(const struct xds_stream *st, struct sw_slice url);
void xds_sub_free(struct xds_sub *u);
/* SW_ELIMIT beyond the stream's number of names. */
int xds_sub_add(struct xds_sub *u, struct sw_slice name, bool force);
void xds_sub_drop(struct xds_sub *u, struct sw_slice name);
/* The name is subscribed to: it will be answered. */
void xds_sub_force(struct xds_sub *u, struct sw_slice name);
/* The same, but not before what it may refer to: the client has an older version to go on with. */
void xds_sub_await(struct xds_sub *u, struct sw_slice name);
/* To be answered though it is not subscribed to by name. */
void xds_sub_echo(struct xds_sub *u, struct sw_slice name);
/* The same, but with the removals of its type. */
void xds_sub_leave(struct xds_sub *u, struct sw_slice name);
void xds_sub_set_wildcard(struct xds_sub *u, bool on);
/* The client may have these, or be about to get them, and no walk from base tells when they go. */
void xds_sub_stray(struct xds_sub *u, struct sw_xds_snap *s);
bool xds_sub_wants(const struct xds_sub *u, struct sw_slice name);
/* Frees the list of names to be echoed. */
void xds_names_done(struct sw_list *l);
void xds_initial_done(struct xds_sub *u);
/* For metrics: types of the clients' own invention are counted together. */
const char *xds_sub_label(const struct xds_sub *u);
/*
 * An answer to the outstanding response, or another one to the last. text is NULL for an ACK;
 * retries: the client goes on trying.
 */
void xds_sub_answered(struct xds_sub *u, const struct sw_slice *text, bool retries);

/* --- response.c --- */
/* Sends what is due and allowed on a stream. */
void xds_stream_push(struct xds_stream *st);
/* True when everything was sent and answered, be it with a refusal. */
bool xds_sub_settled(const struct xds_sub *u);
/* The same, and accepted. */
bool xds_sub_synced(const struct xds_sub *u);

/* --- planes.c --- */
/* Remembers which Listeners the client has answered for, if nothing is under way. */
void xds_stream_settle(struct xds_stream *st);
/* Streams or answers changed: tells the user. */
void xds_server_changed(struct sw_xds_server *s);
/* Who opened the stream; borrows from it. */
struct sw_xds_client_id xds_stream_id(const struct xds_stream *st);
