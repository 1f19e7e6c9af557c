/* SPDX-License-Identifier: Apache-2.0 */
/* Packets with descriptors over Unix sockets that keep packet borders (SOCK_SEQPACKET). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/def.h"
#include "base/err.h"

enum { SW_PACKET_FDS_MAX = 8 };

/* What was received. */
struct sw_packet {
    size_t n;       /* bytes; 0 is an empty packet */
    int fd;         /* the only descriptor that came along, the caller's; else -1 */
    unsigned n_fds; /* how many came along; more than one: all were closed */
    bool cut;       /* packet or descriptors did not fit */
};

/* SW_OK, SW_EAGAIN, SW_EOF (the peer closed), SW_ECLOSED (reset) or SW_ESYS. */
SW_NODISCARD int sw_packet_recv(int sock, void *buf, size_t cap, struct sw_packet *ret);
/* All or nothing; passes fd along when it is not -1. SW_OK, SW_EAGAIN, SW_ECLOSED or SW_ESYS. */
SW_NODISCARD int sw_packet_send(int sock, const void *p, size_t n, int fd);
