/* SPDX-License-Identifier: Apache-2.0 */
/* UDP sockets, non-blocking and close-on-exec. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "io/addr.h"

struct sw_sock_opts;

enum { SW_DGRAM_MAX = 65535 };

/*
 * A bound socket. Of the options (NULL: none) these count: the mark, the network namespace, v6only,
 * and 'share', for processes of a group that may have the port at the same time (io/port.h); each
 * client stays with one of them. EADDRINUSE: the message names the process that holds the port,
 * unless o->unnamed.
 */
SW_NODISCARD int sw_dgram_bind(const struct sw_addr *at, const struct sw_sock_opts *o, int *ret_fd,
                               struct sw_err *err);
/* A socket that talks to one peer only, with the mark and in the namespace of the options. */
SW_NODISCARD int sw_dgram_connect(const struct sw_addr *to, const struct sw_sock_opts *o,
                                  int *ret_fd, struct sw_err *err);
/*
 * One datagram: its length (0 is a datagram too), SW_EAGAIN, SW_ECLOSED (the peer refused an
 * earlier one) or SW_ESYS. ret_from may be NULL.
 */
ssize_t sw_dgram_recv(int fd, void *buf, size_t cap, struct sw_addr *ret_from);
/* to: NULL on a connected socket. SW_OK, SW_EAGAIN (drop it: UDP does), SW_ECLOSED, SW_ESYS. */
int sw_dgram_send(int fd, const void *p, size_t n, const struct sw_addr *to);

/*
 * ---- many datagrams at a time ----
 *
 * The kernel can cut one large buffer into datagrams of equal size on the way out (GSO) and put
 * datagrams of one sender together on the way in (GRO). Both save most of the cost of UDP.
 */

enum {
    SW_DGRAM_BATCH = 8,         /* buffers received into at once */
    SW_DGRAM_SEGMENTS_MAX = 64, /* datagrams of one send */
    SW_DGRAM_SEND_MAX = 65507,  /* bytes of one send */
};

/* What was received into one buffer: datagrams of 'segment' bytes, the last may be shorter. */
struct sw_dgram_in {
    uint8_t *buf; /* set by the caller, SW_DGRAM_MAX bytes */
    size_t n;
    size_t segment; /* n when there is only one datagram */
    struct sw_addr from;
    struct sw_ip to; /* our address the datagrams were sent to; family 0: not known */
    uint8_t ecn;     /* the two bits of RFC 3168 */
};

struct sw_dgram_out {
    const uint8_t *p;
    size_t n;
    size_t segment; /* less than n: several datagrams */
    struct sw_addr to;
    struct sw_ip from; /* family 0: the kernel chooses */
    uint8_t ecn;
};

/*
 * Prepares a bound socket for batches: enables addresses, ECN and GRO, sets the don't-fragment bit,
 * and requests buffers of buffer_bytes. What the kernel does not support is left out.
 */
void sw_dgram_tune(int fd, const struct sw_addr *bound, size_t buffer_bytes);
/* Fills up to n (at most SW_DGRAM_BATCH) of v: how many, SW_EAGAIN or SW_ESYS. */
int sw_dgram_recv_batch(int fd, struct sw_dgram_in *v, size_t n);
/*
 * SW_OK: sent, or lost on the way as UDP may (no route, refused); SW_EAGAIN: the socket is full,
 * wait for SW_WRITE; SW_ELIMIT: larger than the path takes; SW_EINVAL: this socket cannot send
 * several at once.
 */
int sw_dgram_send_batch(int fd, const struct sw_dgram_out *o);
