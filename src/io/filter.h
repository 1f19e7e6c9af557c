/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A filter between a connection and its socket: bytes in, bytes out, no I/O and no clock. TLS is
 * one (tls/connfilter.h). io/conn drives it; a filter never calls back.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

enum {
    SW_FILTER_PLAIN_MAX = 16384,         /* most plain bytes that one seal takes */
    SW_FILTER_RECORD_MAX = 5 + 16640,    /* largest record that one open needs at once */
    SW_FILTER_CTRL_ROOM = 128,           /* what a record, or all control records, add */
    SW_FILTER_HANDSHAKE_MAX = 2 * 65536, /* most that a handshake step sends */
};

struct sw_filter;

struct sw_filter_ops {
    /*
     * A step of the handshake: takes bytes of 'in' (*ret_used is always written), appends what is
     * to be sent to out. SW_OK when done, SW_EAGAIN when input is missing, otherwise the
     * connection is dead and out ends with the alert to send. A client starts with an empty 'in'.
     */
    int (*handshake)(struct sw_filter *f, struct sw_slice in, size_t *ret_used, struct sw_buf *out,
                     struct sw_err *err);
    /*
     * Opens the record at buf in place. SW_OK with the plain bytes, which may be none; SW_EAGAIN:
     * incomplete; SW_EOF: the peer ended its direction; otherwise dead: see alert.
     */
    int (*open)(struct sw_filter *f, uint8_t *buf, size_t n, size_t *ret_used,
                struct sw_slice *ret_plain, struct sw_err *err);
    /*
     * Seals plain[0..n), n <= max_plain, into out, which has room for n + SW_FILTER_CTRL_ROOM
     * bytes. plain[n] is writable. Returns the bytes written, 0 when our direction has ended.
     */
    size_t (*seal)(struct sw_filter *f, uint8_t *plain, size_t n, uint8_t *out);
    size_t (*max_plain)(struct sw_filter *f);
    /* Control records that wait (a key update), with SW_FILTER_CTRL_ROOM bytes of room; 0: none. */
    size_t (*control)(struct sw_filter *f, uint8_t *out);
    /* Ends our direction; room as for control. */
    size_t (*close_notify)(struct sw_filter *f, uint8_t *out);
    /* The alert that belongs to a failure of open; room as for control. */
    size_t (*alert)(struct sw_filter *f, const struct sw_err *err, uint8_t *out);
    void (*free)(struct sw_filter *f);
};

/* Embedded in the filter's own state. */
struct sw_filter {
    const struct sw_filter_ops *ops;
};
