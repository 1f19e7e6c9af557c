/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Capsule Protocol (RFC 9297) as far as UDP needs it, and the request path of UDP proxying
 * (RFC 9298). Bytes in, events out: no I/O.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

enum {
    SW_VARINT_MAX = 8,
    SW_UDP_PAYLOAD_MAX = 65527,
    SW_CAPSULE_DATAGRAM = 0,
    /* Head of a capsule with a UDP payload: type, length and context id. */
    SW_CAPSULE_UDP_HEAD = 1 + SW_VARINT_MAX + 1,
    SW_MASQUE_HOST_MAX = 255,
};

/* Integers of RFC 9000, section 16; v below 2^62. Bytes written. */
size_t sw_varint_put(uint8_t out[SW_VARINT_MAX], uint64_t v);
/* Bytes read; 0: there are not enough. */
size_t sw_varint_get(const uint8_t *p, size_t n, uint64_t *ret);

/* A stream of capsules being read; a zeroed struct starts one. */
struct sw_capsule_reader {
    uint8_t head[2 * SW_VARINT_MAX]; /* begun */
    uint8_t head_n;
    bool in_value;
    uint64_t type;
    uint64_t left;       /* bytes of the value to come */
    struct sw_buf value; /* of a DATAGRAM capsule in pieces; owned */
};

/*
 * Takes one step: SW_OK with the value of a DATAGRAM capsule (in 'in' or in the reader, until the
 * next call); SW_EAGAIN: all of 'in' was used, more is needed; SW_ELIMIT: a datagram longer than
 * any UDP payload. Capsules of other types are skipped. *ret_used is set in every case.
 */
SW_NODISCARD int sw_capsule_next(struct sw_capsule_reader *r, struct sw_slice in, size_t *ret_used,
                                 struct sw_slice *ret_value, struct sw_err *err);
/* True between capsules: the stream may end here. */
bool sw_capsule_idle(const struct sw_capsule_reader *r);
void sw_capsule_done(struct sw_capsule_reader *r);

/* Type, length and context id 0 for a UDP payload of n bytes; the number of bytes. */
size_t sw_capsule_udp_head(uint8_t out[SW_CAPSULE_UDP_HEAD], size_t n);
/*
 * A UDP payload as a capsule into n pieces of room, from the front: all or nothing, as half of one
 * would stop what follows. The number of bytes; 0: it does not fit.
 */
size_t sw_capsule_udp_put(const struct iovec *room, int n, struct sw_slice payload);
/*
 * The UDP payload of an HTTP datagram. SW_OK; SW_ENOENT: another context, to be dropped; SW_EPROTO:
 * cut; SW_ELIMIT: longer than UDP allows.
 */
SW_NODISCARD int sw_masque_udp_payload(struct sw_slice datagram, struct sw_slice *ret);

/*
 * "/.well-known/masque/udp/{host}/{port}/" with the host decoded: a name, IPv4, or IPv6 without
 * zone. SW_EINVAL for anything else; ret_host is NUL-terminated.
 */
SW_NODISCARD int sw_masque_udp_path(struct sw_slice path, char ret_host[SW_MASQUE_HOST_MAX + 1],
                                    uint16_t *ret_port, struct sw_err *err);
/* Writes that path. SW_ELIMIT when out is full. */
SW_NODISCARD int sw_masque_put_udp_path(struct sw_buf *out, struct sw_slice host, uint16_t port);
