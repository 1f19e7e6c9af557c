/* SPDX-License-Identifier: Apache-2.0 */
/* UDP sockets, non-blocking and close-on-exec. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"
#include "io/addr.h"

enum { SW_DGRAM_MAX = 65535 };

/* A bound socket; reuse_port: several may share the address, each client stays with one of them. */
SW_NODISCARD int sw_dgram_bind(const struct sw_addr *at, bool reuse_port, int *ret_fd,
                               struct sw_err *err);
/* A socket that talks to one peer only. */
SW_NODISCARD int sw_dgram_connect(const struct sw_addr *to, int *ret_fd, struct sw_err *err);
/*
 * One datagram: its length (0 is a datagram too), SW_EAGAIN, SW_ECLOSED (the peer refused an
 * earlier one) or SW_ESYS. ret_from may be NULL.
 */
ssize_t sw_dgram_recv(int fd, void *buf, size_t cap, struct sw_addr *ret_from);
/* to: NULL on a connected socket. SW_OK, SW_EAGAIN (drop it: UDP does), SW_ECLOSED, SW_ESYS. */
int sw_dgram_send(int fd, const void *p, size_t n, const struct sw_addr *to);
