/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies bytes both ways between a socket and a QUIC stream until both directions ended. The socket
 * is read straight into the stream's room and written straight from what was received; nothing is
 * held here. Half-closes travel as half-closes, resets as resets.
 *
 * The stream's callbacks belong to the owner, which passes them on.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "io/loop.h"
#include "tunnel/dial.h"

struct sw_qconn_ops;
struct sw_qpump;
struct sw_qstream;
struct sw_qstream_ops;

/*
 * The socket is closed. SW_OK: both directions ended. SW_ECLOSED: either side was reset (and so is
 * the other now), SW_ETIME: silence. The stream's closed is still to come, unless it was the cause.
 */
typedef void (*sw_qpump_done_cb)(struct sw_qpump *p, int rc);
typedef void (*sw_qpump_tap_cb)(void *arg, bool from_socket, const uint8_t *p, size_t n);

/* Embedded in what owns the stream. */
struct sw_qpump {
    struct sw_loop *loop; /* NULL: not started, or over */
    struct sw_qstream *stream;
    int fd; /* owned */
    struct sw_watch watch;
    struct sw_defer again;
    struct sw_timer idle;
    uint64_t idle_ns;
    uint64_t active_ns;   /* when bytes last moved */
    uint64_t from_socket; /* bytes moved */
    uint64_t to_socket;
    sw_qpump_done_cb finished;
    sw_qpump_tap_cb tap; /* NULL: none */
    void *tap_arg;
    bool readable : 1;
    bool hup : 1;
    bool no_room : 1;  /* the stream's room is full: its writable follows */
    bool blocked : 1;  /* the socket is full */
    bool read_end : 1; /* the socket's end was passed on */
    bool fin : 1;      /* the stream's end was passed on */
};

/*
 * Takes the dialled socket. idle_ns 0: no limit. Call sw_qstream_resume afterwards when bytes wait
 * in the stream. finished comes from the loop or from one of the functions below, never from here;
 * once unless stopped.
 */
void sw_qpump_start_dialled(struct sw_qpump *p, struct sw_loop *l, struct sw_qstream *s,
                            struct sw_dialled *d, uint64_t idle_ns, sw_qpump_done_cb finished);
bool sw_qpump_running(const struct sw_qpump *p);

/* The stream's callbacks. After the end they have no effect. */
size_t sw_qpump_data(struct sw_qpump *p, const uint8_t *data, size_t n, bool fin);
void sw_qpump_writable(struct sw_qpump *p);
/* RESET_STREAM or STOP_SENDING came, or the connection is gone. */
void sw_qpump_broken(struct sw_qpump *p);

/* For a stream, or a connection, whose owner goes before it: takes and forgets everything. */
extern const struct sw_qstream_ops sw_qstream_orphan;
extern const struct sw_qconn_ops sw_qconn_orphan;

/* Closes the socket, with a reset when asked. The stream is left alone. No callback any more. */
void sw_qpump_stop(struct sw_qpump *p, bool reset);
