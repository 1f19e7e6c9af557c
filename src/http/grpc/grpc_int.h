/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of gRPC share. Not for others. */
#pragma once

#include "base/list.h"
#include "http/grpc/grpc.h"

struct sw_grpc_call {
    struct sw_list link;
    struct sw_h2stream *stream; /* NULL: waits for the connection, or is gone */
    struct sw_loop *loop;
    const struct sw_grpc_ops *ops; /* NULL: no owner */
    void *arg;
    struct sw_grpc_reader reader;
    struct sw_defer again; /* deliver after a pause */
    size_t owed;           /* bytes taken from the stream without credit, while paused */
    bool paused;
    bool delivering;
    bool remote_end;   /* the other side sends no more */
    bool end_reported; /* on_end was called */
    bool finished;     /* we sent all */
    bool broken;       /* what still comes is thrown away */
    /* server */
    struct sw_grpc_server *server;
    const struct sw_grpc_method *method;
    struct sw_buf request; /* unary */
    bool has_request;
    bool responded;
    size_t accounted; /* our part of server->in_total */
    /* client */
    struct sw_grpc_client *client;
    struct sw_buf early; /* queued before there was a stream */
    bool early_end;
    char *path;
    char *token;
    uint64_t timeout_ns;
    struct sw_timer deadline;
    bool cancelled; /* freed when the delivery under way returns */
    bool has_status;
    enum sw_grpc_status status;
    struct sw_buf message; /* of the status; server: why it ended without its owner */
};

enum { GRPC_TEXT_MAX = 2048 }; /* of a status' message on the wire */

/* Takes bytes from the stream and delivers what is complete. */
void grpc_call_data(struct sw_grpc_call *c, struct sw_slice data);
/* The other side sends no more. */
void grpc_call_end(struct sw_grpc_call *c);
/* The reader found something it cannot accept. */
void grpc_call_bad(struct sw_grpc_call *c, int rc, const struct sw_err *err);
/* Frees what both sides have. */
void grpc_call_done(struct sw_grpc_call *c);

/* --- grpc_server.c --- */
void grpc_server_account(struct sw_grpc_call *c);
/* Ends a call whose owner did not; on_done gets the reason. */
void grpc_server_bad(struct sw_grpc_call *c, enum sw_grpc_status status, const char *why);
/* --- grpc_client.c --- */
void grpc_client_fail(struct sw_grpc_call *c, enum sw_grpc_status status, const char *why);
/* The server sends no more and all of it was delivered. */
void grpc_client_ended(struct sw_grpc_call *c);
void grpc_client_release(struct sw_grpc_call *c);
