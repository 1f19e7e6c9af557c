/* SPDX-License-Identifier: Apache-2.0 */
/* What the server's files share. Not for others. */
#pragma once

#include "base/buf.h"
#include "base/list.h"
#include "base/log.h"
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
struct xds_table;
struct Sw__DeltaDiscoveryRequest;

/* A name in a subscription. */
struct xds_name {
    struct sw_slice name;     /* owned */
    struct sw_list forced;    /* linked: must be answered, whatever the client has */
    struct sw_xds_res *ahead; /* sent although base is older; NULL: as in base */
    bool owed;                /* state of the world: was to be answered when it did not exist */
    bool implied;             /* subscribed along with another: goes with its resource */
};

/* How far a client has followed a large type (table.h). */
struct xds_follow {
    const struct xds_table *table; /* borrowed */
    uint64_t at;         /* changes up to here were sent; of types removed last, additions only */
    uint64_t removed_at; /* of types removed last: removals up to here were sent */
    uint64_t since;      /* the client joined here: it misses no removal from before */
    uint8_t *held;       /* by slot: the client has the version of 'since'; NULL: none */
    size_t n_held;       /* bits */
    struct sw_buf gone;  /* names that a client holds and that do not exist, encoded; due */
    uint64_t patient_ns; /* the first answer waits till then for another type; 0: it does not */
    size_t charged;      /* of server->first_bytes */
    bool first;          /* all that was there at 'since' is still being sent */
    bool queued;         /* the first answer waits for others to be taken */
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
    struct sw_map initial;      /* name -> version text, from a client that reconnects */
    struct sw_xds_snap *base;   /* NULL: nothing */
    struct sw_xds_snap *stray;  /* delta: may have been sent, and base does not know; or NULL */
    struct sw_xds_snap *target; /* delta: being sent in pieces; NULL: nothing under way */
    size_t at_base;             /* how far the walk got */
    size_t at_target;
    struct xds_follow *follow; /* of large types: instead of base and target; else NULL */
    bool pending;              /* a response waits for its answer */
    uint64_t nonce;
    uint64_t sent_ns;
    char sent[SW_XDS_VERSION_LEN + 1];
    char acked[SW_XDS_VERSION_LEN + 1];
    uint64_t acks;
    uint64_t nacks;
    char *nack;   /* the last answer was a refusal: its text, cut; NULL: it was not */
    char *detail; /* the same, longer; for Listeners only */
    bool retries; /* the client keeps trying what it refused */
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
    struct sw_slice node_name; /* of the metadata: the machine it is on */
    struct sw_slice node_ns;
    struct sw_slice node_sa;
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
    size_t first_bytes;            /* of first answers of large types that are not taken yet */
    struct sw_log_limit strangers; /* lines about clients that 'allow' did not accept */
    struct sw_log_limit clients;   /* about those it did */
    struct sw_log_limit nacks;
    struct sw_metric *m_streams; /* NULL without metrics */
};

/* --- server.c --- */
/* The gRPC status of a refusal, by the code of 'allow' or 'view'. */
enum sw_grpc_status xds_refusal_status(int rc);
void xds_count_refusal(const struct sw_xds_server *s, enum sw_grpc_status status);

/* --- server_stream.c --- */
extern const struct sw_grpc_ops xds_stream_ops;
struct xds_stream *xds_stream_new(struct sw_xds_server *s, struct sw_grpc_call *call,
                                  const char *fixed, bool delta);
void xds_stream_free(struct xds_stream *st);
/* Sends what is due, from the loop. */
void xds_stream_wake(struct xds_stream *st);
/* Ends the stream, and returns false, when its client may not have it any more. */
bool xds_stream_judge(struct xds_stream *st);
/* Logs and counts why the client is not served any more, and ends the stream. Once. */
void xds_stream_close(struct xds_stream *st, enum sw_grpc_status status, const char *why);
/* Calls 'revoked' from time to time. */
void xds_stream_review(struct xds_stream *st);
/* What there is of a type for this client, borrowed until the next commit. */
struct sw_xds_snap *xds_stream_snap(const struct xds_stream *st, struct sw_slice type);
/* The client's view is not there yet: whatever was sent would be wrong. */
bool xds_stream_blind(const struct xds_stream *st);
/* Finds out which view the client has now; ends the stream, and returns false, when it has none. */
bool xds_stream_look(struct xds_stream *st);

/* --- server_subscription.c --- */
/* Finds or makes; NULL beyond the limit. */
struct xds_sub *xds_sub_get(struct xds_stream *st, struct sw_slice url, bool *ret_new);
/* The stream has a large type whose resources those of this one refer to. */
bool xds_sub_before(const struct xds_sub *u);
struct xds_sub *xds_sub_find(const struct xds_stream *st, struct sw_slice url);
void xds_sub_free(struct xds_sub *u);
/* SW_ELIMIT beyond the stream's number of names. */
int xds_sub_add(struct xds_sub *u, struct sw_slice name, bool force);
void xds_sub_drop(struct xds_sub *u, struct sw_slice name);
/* The name is subscribed to: it will be answered. */
void xds_sub_force(struct xds_sub *u, struct sw_slice name);
/* The same, but not before what it may refer to: the client has an older version to continue with.
 */
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
 * retries: the client keeps trying.
 */
void xds_sub_answered(struct xds_sub *u, const struct sw_slice *text, bool retries);

/* --- server_follow.c --- */
/* The table is borrowed, as long as the stream has its cache. */
struct xds_follow *xds_follow_new(const struct xds_table *table);
void xds_follow_free(struct xds_sub *u);
/* From now on all resources, or those subscribed to; what was sent before is sent again. */
void xds_follow_join(struct xds_sub *u, bool wildcard);
/* Answers with the name's resource and those that come along; SW_ELIMIT as xds_sub_add. */
int xds_follow_ask(struct xds_sub *u, struct sw_slice name, bool implied);
/* The client claims to hold this version. */
int xds_follow_holds(struct xds_sub *u, struct sw_slice name, struct sw_slice version);
/*
 * After the last of xds_follow_holds, on demand: asks for endpoints of services that it holds,
 * which appeared while it was disconnected. SW_ELIMIT as xds_sub_add.
 */
int xds_follow_resume(struct xds_sub *u);
/* As push_sub in server_response.c. */
bool xds_follow_push(struct xds_sub *u, bool held, bool removals);
bool xds_follow_settled(const struct xds_sub *u);
/* A response was answered, or the stream ends: others may have their first answer. */
void xds_follow_release(struct xds_sub *u);

/* --- server_request.c --- */
/* True when the message is a delta request for a large type. */
bool xds_request_is_large(struct sw_slice msg);
/* Copies a delta request without its initial_resource_versions. SW_ELIMIT, SW_EPROTO. */
int xds_request_strip(struct sw_slice msg, struct sw_buf *out);
/*
 * A delta request for a large type; req is what unpacked from the stripped message. SW_ELIMIT: the
 * client subscribes to too much; SW_EPROTO: msg is malformed.
 */
int xds_request_follow(struct xds_sub *u, const struct Sw__DeltaDiscoveryRequest *req,
                       struct sw_slice msg, bool fresh);

/* --- server_message.c --- */
struct xds_msg {
    const char *version; /* borrowed */
    struct sw_buf buf;
    struct sw_buf removed;  /* names, encoded; they come after the nonce */
    struct sw_map answered; /* delta: names answered ahead of the walk, which skips them */
    struct sw_list names;   /* struct xds_name: of 'answered', to be freed */
    size_t n;               /* resources and removals */
    bool full;              /* beyond the limit */
};

/* version is borrowed. */
void xds_msg_init(struct xds_msg *r, const char *version, size_t max);
void xds_msg_done(struct xds_msg *r);
/* A resource, encoded as the variant has it: Resource for delta, Any for state of the world. */
void xds_msg_put(struct xds_msg *r, struct sw_slice resource);
void xds_msg_remove(struct xds_msg *r, struct sw_slice name);
size_t xds_msg_size(const struct xds_msg *r);
/* False: it is too large, and the stream ended. */
bool xds_msg_send(struct xds_sub *u, struct xds_msg *r);

/* --- server_response.c --- */
/* Sends what is due and allowed on a stream. */
void xds_stream_push(struct xds_stream *st);
/* Sends what may go without an answer that did not come. */
void xds_stream_on_timer(struct sw_timer *t);
/* True when everything was sent and answered, be it with a refusal. */
bool xds_sub_settled(const struct xds_sub *u);
/* The same, and accepted. */
bool xds_sub_synced(const struct xds_sub *u);

/* --- server_planes.c --- */
/* Remembers which Listeners the client has answered for, if nothing is under way. */
void xds_stream_settle(struct xds_stream *st);
/* Streams or answers changed: calls on_change. */
void xds_server_changed(struct sw_xds_server *s);
/* The client of the stream; borrows from it. */
struct sw_xds_client_id xds_stream_id(const struct xds_stream *st);
