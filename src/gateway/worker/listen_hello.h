/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a ClientHello before TLS begins. A pure parser; for listen.c and its tests. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/def.h"
#include "base/slice.h"

enum { SW_GW_HELLO_MAX = 32 * 1024, SW_GW_HELLO_ALPN = 8 };

struct sw_gw_hello {
    struct sw_slice sni; /* empty: none */
    struct sw_slice alpn[SW_GW_HELLO_ALPN];
    size_t n_alpn;
    uint8_t sni_text[256]; /* lower case; what sni points to */
    uint8_t alpn_text[256];
};

/*
 * Looks at the first bytes of a connection. SW_OK: a ClientHello, *ret is filled (it points into
 * itself). SW_EAGAIN: could become one, more bytes needed. SW_EPROTO: not TLS, or malformed: *ret
 * is empty.
 */
SW_NODISCARD int sw_gw_hello_parse(struct sw_slice in, struct sw_gw_hello *ret);
