/* SPDX-License-Identifier: Apache-2.0 */
/* What the server's files share. Not for others. */
#pragma once

#include "base/list.h"
#include "http/server.h"
#include "io/accept.h"
#include "io/conn/conn.h"

struct sw_http_resp {
    struct sw_buf fields; /* added by the handler */
    bool has_encoding;    /* the handler chose a Content-Encoding itself */
    bool chunked;         /* stream to an HTTP/1.1 client */
    void (*on_gone)(void *arg);
    void *gone_arg;
};

enum conn_state {
    CONN_READ,   /* waiting for a request, or inside one */
    CONN_HANDLE, /* the handler has it */
    CONN_STREAM, /* the handler is writing */
    CONN_FLUSH,  /* the whole response is queued */
    CONN_LINGER, /* all is sent: io ends it */
    CONN_ZOMBIE, /* socket closed, but the handler still holds the response */
    CONN_DEAD,
};

struct conn {
    struct sw_conn io;
    struct sw_list link;
    struct sw_http_server *server; /* borrowed */
    enum conn_state state;
    struct sw_timer timer; /* for the request, or the response, as a whole */
    struct sw_defer again; /* continue, or free */
    struct sw_h1 *h1;
    struct sw_buf out;     /* heads and streamed bytes, not given to io yet */
    struct sw_buf payload; /* body of the response, behind out */
    size_t accounted;      /* our part of server->out_total */
    bool in_step;
    bool eof;
    bool begun;   /* bytes of a request came */
    bool io_gone; /* io's memory is ours again */
    bool fresh;   /* no request was finished yet */
    bool close_after;
    bool no_payload; /* HEAD */
    struct sw_arena arena;
    struct sw_buf body;
    struct sw_http_req req;
    struct sw_http_resp resp;
};

struct sw_http_server {
    struct sw_loop *loop; /* borrowed */
    struct sw_http_server_opts opts;
    struct sw_accept_group accept;
    struct sw_list conns;
    struct sw_list dead; /* to be freed by the loop */
    size_t nconns;
    size_t out_total;
    bool stopping;
    bool full_logged;
    struct sw_timer stop_timer;
    struct sw_defer stop_defer;
    void (*on_done)(struct sw_http_server *s, void *arg);
    void *done_arg;
};

static inline struct conn *conn_of(struct sw_http_resp *r)
{
    return SW_CONTAINER_OF(r, struct conn, resp);
}

/* The queues changed: keeps the server's total right. */
void conn_account(struct conn *c);
/* Something to write or to do next: continues, from the loop when called from outside. */
void conn_wake(struct conn *c);
/* Queues a complete answer and moves to CONN_FLUSH. Takes body's storage. */
void conn_respond(struct conn *c, int status, const char *content_type, struct sw_buf *body);
