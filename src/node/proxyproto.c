/* SPDX-License-Identifier: Apache-2.0 */
#include "node/proxyproto.h"

#include <string.h>

enum {
    VERSION_2_PROXY = 0x21,
    TCP_OVER_IPV4 = 0x11,
    TCP_OVER_IPV6 = 0x21,
    TLV_IDENTITY = 0xd0,
};

static const uint8_t signature[12] = {0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d,
                                      0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a};

static uint8_t *put16(uint8_t *p, size_t v)
{
    p[0] = (uint8_t)(v >> 8);
    p[1] = (uint8_t)v;
    return p + 2;
}

static uint8_t *put_ip(uint8_t *p, const struct sw_ip *ip, bool v4)
{
    if (v4) {
        memcpy(p, ip->b, 4);
        return p + 4;
    }
    if (ip->family == 4) { /* mapped, because the other side is IPv6 */
        memset(p, 0, 10);
        p[10] = 0xff;
        p[11] = 0xff;
        memcpy(p + 12, ip->b, 4);
    } else {
        memcpy(p, ip->b, 16);
    }
    return p + 16;
}

size_t sw_proxy_v2_write(const struct sw_addr *src, const struct sw_addr *dst,
                         struct sw_slice identity, uint8_t out[SW_PROXY_V2_MAX])
{
    bool v4 = src->ip.family == 4 && dst->ip.family == 4;
    uint8_t *p = out + 16;

    if (identity.n > 1024)
        return 0;
    memcpy(out, signature, sizeof(signature));
    out[12] = VERSION_2_PROXY;
    out[13] = v4 ? TCP_OVER_IPV4 : TCP_OVER_IPV6;
    p = put_ip(p, &src->ip, v4);
    p = put_ip(p, &dst->ip, v4);
    p = put16(p, src->port);
    p = put16(p, dst->port);
    if (identity.n) {
        *p++ = TLV_IDENTITY;
        p = put16(p, identity.n);
        memcpy(p, identity.p, identity.n);
        p += identity.n;
    }
    (void)put16(out + 14, (size_t)(p - out) - 16);
    return (size_t)(p - out);
}
