/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The PROXY protocol: a few bytes in front of a connection that say where it came from. Version 2
 * is written (application tunnels start with it), versions 1 and 2 are read.
 */
#pragma once

#include <stdint.h>

#include "base/slice.h"
#include "io/addr.h"

enum {
    SW_PROXY_V2_MAX = 16 + 36 + 3 + 1024,
    SW_PROXY_HEAD_MAX = 16 + 4096, /* longer ones are refused */
};

/*
 * Writes command PROXY, STREAM, both addresses (mixed families become IPv6) and, when identity is
 * not empty, the TLV 0xD0 with it. Returns the length, 0 when identity is too long.
 */
size_t sw_proxy_v2_write(const struct sw_addr *src, const struct sw_addr *dst,
                         struct sw_slice identity, uint8_t out[SW_PROXY_V2_MAX]);

struct sw_proxy_head {
    size_t len;         /* bytes of the header */
    struct sw_addr src; /* family 0: the header has no address (LOCAL, UNKNOWN) */
    struct sw_addr dst;
};

/*
 * Reads the header that in begins with; the text form exactly as the protocol describes it.
 *
 * Returns SW_OK, SW_EAGAIN (more bytes are needed to tell), SW_ENOENT (there is no such header) or
 * SW_EPROTO (a header, but a broken one, or for something else than TCP).
 */
SW_NODISCARD int sw_proxy_read(struct sw_slice in, struct sw_proxy_head *ret);
