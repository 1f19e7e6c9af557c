/* SPDX-License-Identifier: Apache-2.0 */
/* What the client's files share. Not for others. */
#pragma once

#include "base/arena.h"
#include "base/backoff.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/map.h"
#include "base/vec.h"
#include "http/grpc/grpc.h"
#include "telemetry/metrics.h"
#include "xds/client.h"

/* A resource the client holds. */
struct xc_held {
    struct sw_slice name;    /* owned */
    struct sw_slice version; /* owned */
};

struct xc_type {
    struct sw_list link;
    char *url;
    sw_xds_on_update fn;
    void *arg;
    bool wildcard;
    bool on_demand;        /* say "*" and take it back */
    sw_xds_each_held each; /* the user holds; NULL: 'held' has them */
    void *each_arg;
    struct sw_map names; /* name -> its own copy (char *), subscribed */
    struct sw_map held;  /* name -> struct xc_held */
    /* Changes not sent to the server yet; owned names. Never both at once. */
    SW_VEC(struct sw_slice) add;
    SW_VEC(struct sw_slice) drop;
    /* The last response of the present stream, and the verdict on it. */
    struct sw_slice nonce;       /* owned; empty: no response yet */
    struct sw_err refusal;       /* rc 0: accepted */
    struct sw_buf refused;       /* "name: reason; ..." of single resources */
    struct sw_map refused_names; /* -> its own copy, during on_update */
    bool hold;                   /* its answer waits for sw_xds_client_send_held */
    struct sw_slice trouble;     /* owned; survives streams */
    bool announced;              /* on the present stream */
    bool ready;
};

struct sw_xds_client {
    struct sw_loop *loop;
    struct sw_xds_client_opts o;
    char *token_file;
    struct sw_slice node_id;
    struct sw_slice node_cluster;
    struct sw_slice user_agent;
    struct sw_slice node_metadata;
    struct sw_slice feature;
    struct sw_grpc_client *grpc;
    struct sw_grpc_call *call; /* NULL: no stream */
    struct sw_list types;
    bool started;
    bool connected;
    bool node_sent;
    uint64_t since_ns; /* of the stream */
    struct sw_backoff backoff;
    struct sw_timer retry;
    struct sw_timer silent; /* runs until the first response of a stream */
    struct sw_defer flush;
};

/* A response whose contents lie in the message. */
struct xc_update {
    struct sw_xds_update u;
    struct sw_slice nonce;
};

/* --- client_update.c --- */
/*
 * Reads a DeltaDiscoveryResponse; 'a' gets the lists, of at most 'memory' bytes. SW_EPROTO or
 * SW_ELIMIT with the reason.
 */
SW_NODISCARD int xc_update_read(struct sw_arena *a, struct sw_slice msg, size_t memory,
                                struct xc_update *ret, struct sw_err *err);

/* --- client_types.c --- */
struct xc_type *xc_type_find(const struct sw_xds_client *c, struct sw_slice url);
void xc_type_free(struct xc_type *t);
/* Forgets changes that are waiting: the first request of the next stream contains all names. */
void xc_type_forget_changes(struct xc_type *t);
/* Forgets the last response: its stream is gone. */
void xc_type_forget_response(struct xc_type *t);
void xc_type_hold(struct xc_type *t, struct sw_slice name, struct sw_slice version);
void xc_type_release(struct xc_type *t, struct sw_slice name);
void xc_type_forget_refused(struct xc_type *t);

/* --- client.c --- */
/* Sends changes of subscriptions now. */
void xc_flush_type(struct sw_xds_client *c, struct xc_type *t);
/* The same for all types, from the loop. */
void xc_flush_later(struct sw_xds_client *c);
