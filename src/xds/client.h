/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A delta ADS client for any types of resources. What it learnt survives disconnects: the next
 * stream sends the versions it holds, and the server only what differs. Runs on the caller's loop.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"
#include "io/loop.h"

struct sw_grpc_call;
struct sw_grpc_ops;
struct sw_metrics_shard;
struct sw_tls_cred;
struct sw_xds_client;

struct sw_xds_item {
    struct sw_slice name;
    struct sw_slice version;
    struct sw_slice value; /* the message inside the Any */
    struct sw_slice type;  /* type URL of the Any */
    const struct sw_slice *aliases;
    size_t n_aliases;
};

/* One response. Everything lives for the call. */
struct sw_xds_update {
    struct sw_slice type;
    const struct sw_xds_item *added; /* new or changed */
    size_t n_added;
    const struct sw_slice *removed; /* also subscribed names that do not exist */
    size_t n_removed;
};

/*
 * Takes a response. SW_OK accepts; anything else refuses it all, with the reason in err, which the
 * NACK carries. Refused resources count as not held. May change subscriptions.
 */
typedef int (*sw_xds_on_update)(void *arg, const struct sw_xds_update *u, struct sw_err *err);

/* Starts a gRPC call as sw_grpc_call does, without a timeout. NULL with the reason. */
typedef struct sw_grpc_call *(*sw_xds_open)(void *arg, struct sw_slice path,
                                            const struct sw_grpc_ops *ops, void *call_arg,
                                            struct sw_err *err);

/* Zero in a field means the default in brackets. Texts are copied. */
struct sw_xds_client_opts {
    /* Opens streams, instead of host, port, cred, tls_name and token_file. May be NULL. */
    sw_xds_open open;
    void *open_arg;       /* borrowed */
    bool bare_wildcard;   /* "*" alone goes out as an empty list, the older form */
    struct sw_slice host; /* DNS name or IP address */
    uint16_t port;
    struct sw_tls_cred *cred; /* NULL: plain HTTP/2; a reference is taken */
    struct sw_slice tls_name; /* name the server's certificate must be for [host] */
    const char *token_file;   /* bearer token, read again for each stream; NULL: none */
    struct sw_slice node_id;
    struct sw_slice node_cluster;
    struct sw_slice user_agent;       /* [spanwire] */
    struct sw_slice node_metadata;    /* encoded google.protobuf.Struct, may be empty */
    struct sw_slice feature;          /* the one client feature to name, may be empty */
    struct sw_metrics_shard *metrics; /* may be NULL; borrowed */
    size_t max_response;              /* bytes of one [64 MiB] */
    size_t max_resources;             /* kept versions per type [1000000] */
    uint64_t backoff_least_ns;        /* [500 ms] */
    uint64_t backoff_most_ns;         /* [30 s] */
    uint64_t healthy_ns;              /* a stream that lasted so long resets the back-off [10 s] */
    /* The stream came up or went down. May be NULL. */
    void (*on_state)(void *arg, bool connected, const struct sw_err *err);
    void *arg; /* of on_state */
};

/* NULL with SW_EINVAL. Connects when started. */
SW_NODISCARD struct sw_xds_client *
sw_xds_client_new(struct sw_loop *l, const struct sw_xds_client_opts *o, struct sw_err *err);
/* Not from inside a callback. NULL is fine. */
void sw_xds_client_free(struct sw_xds_client *c);
void sw_xds_client_start(struct sw_xds_client *c);
/* True while a stream is up and the server answered on it. */
bool sw_xds_client_connected(const struct sw_xds_client *c);
/* A renewed credential, for the next connection. */
void sw_xds_client_set_cred(struct sw_xds_client *c, struct sw_tls_cred *cred);

/* A type this client wants; before any subscription to it. Requests go out in this order. */
void sw_xds_client_type(struct sw_xds_client *c, const char *type, sw_xds_on_update fn, void *arg);
/* Gives the name and version of each resource held to fn, which copies them. */
typedef void (*sw_xds_each_held)(
    void *arg, void (*fn)(void *ctx, struct sw_slice name, struct sw_slice version), void *ctx);
/*
 * The user holds what it accepted and knows the versions: the client keeps none itself, and reads
 * them from the user when a stream begins. Before the first stream.
 */
void sw_xds_client_holder(struct sw_xds_client *c, const char *type, sw_xds_each_held each,
                          void *arg);
/*
 * From inside on_update, for one resource of it: this one is refused, the others count. The server
 * gets "name: reason" of all of them, with "; " between, when on_update returns SW_OK.
 */
void sw_xds_client_refuse(struct sw_xds_client *c, const char *type, struct sw_slice name,
                          const char *reason);
/*
 * Nothing of that type but what is subscribed to by name: the first request subscribes to "*" and
 * unsubscribes from it, which the server understands. Before the first stream.
 */
void sw_xds_client_on_demand(struct sw_xds_client *c, const char *type);
/* Everything of that type ("*"). */
void sw_xds_client_wildcard(struct sw_xds_client *c, const char *type, bool on);
/*
 * Single names. Subscribing twice counts once; subscribing to a name that is held sends nothing.
 * SW_ELIMIT beyond max_resources, SW_ENOENT for a type not named before.
 */
SW_NODISCARD int sw_xds_client_subscribe(struct sw_xds_client *c, const char *type,
                                         struct sw_slice name);
void sw_xds_client_unsubscribe(struct sw_xds_client *c, const char *type, struct sw_slice name);
/*
 * From inside on_update: the answer to this response waits for sw_xds_client_send_held, because
 * what becomes of it is not known yet. A response of the type that comes meanwhile ends the wait.
 */
void sw_xds_client_hold_answer(struct sw_xds_client *c, const char *type);
/* Sends the answers that wait. */
void sw_xds_client_send_held(struct sw_xds_client *c);
/*
 * Something is wrong with resources of the type although they were accepted (copied; empty:
 * nothing is wrong any more). The server gets it at once as another answer to the last response,
 * with the code UNAVAILABLE, because the client keeps trying, and with every answer until it
 * changes, on later streams too.
 */
void sw_xds_client_set_trouble(struct sw_xds_client *c, const char *type, struct sw_slice text);
/* True once the type's first response on any stream was accepted. */
bool sw_xds_client_ready(const struct sw_xds_client *c, const char *type);
/* Resources held of a type. */
size_t sw_xds_client_held(const struct sw_xds_client *c, const char *type);
