/* SPDX-License-Identifier: Apache-2.0 */
/* What the two files of h2conn share. Not for others. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/list.h"
#include "http/h2conn.h"
#include "io/conn/conn.h"

enum h2c_state {
    H2C_OPENING, /* connect and handshake */
    H2C_OPEN,
    H2C_LINGERING, /* io lingers */
    H2C_DEAD,
};

struct sw_h2conn {
    struct sw_conn io;
    struct sw_loop *loop; /* borrowed */
    struct sw_h2conn_opts o;
    enum h2c_state state;
    char *host;
    struct sw_timer timer; /* while open */
    struct sw_defer again;
    struct sw_h2 *h2;
    struct sw_list streams;
    size_t n_streams;
    uint64_t read_ns; /* when bytes last came */
    uint64_t idle_ns; /* since when there is no stream */
    struct sw_err why;
    bool in_step;
    bool feeding; /* streams that end now are ended by the peer */
    bool broken;  /* close as soon as the engine is left */
    bool goaway;
    bool pinged;
    bool stuck; /* a stream had bytes when there was no room for a frame */
};

enum { H2STREAM_TRAILERS = 8 };

struct sw_h2stream {
    struct sw_list link;
    struct sw_h2conn *conn;
    int32_t id;
    const struct sw_h2stream_ops *ops; /* NULL: no owner */
    void *arg;
    struct sw_buf out;
    struct sw_arena arena; /* trailers */
    struct sw_h2_header trailers[H2STREAM_TRAILERS];
    size_t n_trailers;
    uint64_t since_ns;
    bool end;    /* nothing follows what is in out */
    bool stuck;  /* had bytes when there was no room for a frame */
    bool filled; /* on_drain is due when out is empty */
};

/* --- h2conn.c --- */
/* Continues from the loop, unless a step is under way (which will see to it). */
void h2conn_wake(struct sw_h2conn *c);
void h2conn_wake_now(struct sw_h2conn *c);
void h2conn_arm(struct sw_h2conn *c);

/* --- h2conn_stream.c --- */
struct sw_h2 *h2stream_engine(struct sw_h2conn *c);
/* Reports to the owner and frees. */
void h2stream_gone(struct sw_h2stream *s, uint32_t code);
/* There is room for frames again. */
void h2stream_resume_stuck(struct sw_h2conn *c);
/* Reports emptied queues to their owners. */
void h2stream_drained(struct sw_h2conn *c);
