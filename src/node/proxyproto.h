/* SPDX-License-Identifier: Apache-2.0 */
/* PROXY protocol version 2, the header an application tunnel starts with. */
#pragma once

#include <stdint.h>

#include "base/slice.h"
#include "io/addr.h"

enum { SW_PROXY_V2_MAX = 16 + 36 + 3 + 1024 };

/*
 * Writes command PROXY, STREAM, both addresses (mixed families become IPv6) and, when identity is
 * not empty, the TLV 0xD0 with it. Returns the length, 0 when identity is too long.
 */
size_t sw_proxy_v2_write(const struct sw_addr *src, const struct sw_addr *dst,
                         struct sw_slice identity, uint8_t out[SW_PROXY_V2_MAX]);
