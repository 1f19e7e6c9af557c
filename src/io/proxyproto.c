/* SPDX-License-Identifier: Apache-2.0 */
#include "io/proxyproto.h"

#include <string.h>

#include "base/err.h"

enum {
    VERSION_2_LOCAL = 0x20,
    VERSION_2_PROXY = 0x21,
    UNSPECIFIED = 0x00,
    TCP_OVER_IPV4 = 0x11,
    TCP_OVER_IPV6 = 0x21,
    TLV_IDENTITY = 0xd0,
    V2_HEAD = 16,
    V1_MAX = 107, /* with its line end */
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

/* ---- reading ---- */

static int read_tlvs(const uint8_t *p, size_t n)
{
    while (n) {
        size_t len;

        if (n < 3)
            return SW_EPROTO;
        len = (size_t)p[1] << 8 | p[2];
        if (len > n - 3)
            return SW_EPROTO;
        p += 3 + len;
        n -= 3 + len;
    }
    return SW_OK;
}

static int read_v2(const uint8_t *p, size_t n, struct sw_proxy_head *ret)
{
    size_t len;
    size_t ip;

    if (n < V2_HEAD)
        return SW_EAGAIN;
    len = (size_t)p[14] << 8 | p[15];
    if (V2_HEAD + len > SW_PROXY_HEAD_MAX || (p[12] != VERSION_2_LOCAL && p[12] != VERSION_2_PROXY))
        return SW_EPROTO;
    if (n < V2_HEAD + len)
        return SW_EAGAIN;
    ret->len = V2_HEAD + len;
    if (p[12] == VERSION_2_LOCAL || p[13] == UNSPECIFIED)
        return SW_OK; /* whatever follows is to be skipped */
    ip = p[13] == TCP_OVER_IPV4 ? 4 : p[13] == TCP_OVER_IPV6 ? 16 : 0;
    if (ip == 0 || len < 2 * ip + 4 ||
        sw_ip_from_bytes(p + V2_HEAD, ip, &ret->src.ip, NULL) != SW_OK ||
        sw_ip_from_bytes(p + V2_HEAD + ip, ip, &ret->dst.ip, NULL) != SW_OK)
        return SW_EPROTO;
    p += V2_HEAD + 2 * ip;
    ret->src.port = (uint16_t)(p[0] << 8 | p[1]);
    ret->dst.port = (uint16_t)(p[2] << 8 | p[3]);
    return read_tlvs(p + 4, len - 2 * ip - 4);
}

static bool read_port(struct sw_slice s, uint16_t *ret)
{
    uint64_t v;

    if (s.n > 5 || (s.n > 1 && s.p[0] == '0') || !sw_slice_to_u64(s, UINT16_MAX, &v))
        return false;
    *ret = (uint16_t)v;
    return true;
}

/* "TCP4 192.0.2.1 192.0.2.2 40000 443", without the line end. */
static int read_words(struct sw_slice rest, struct sw_proxy_head *ret)
{
    struct sw_slice family = sw_slice_cut(&rest, ' ');
    bool v4 = sw_slice_eq_str(family, "TCP4");
    struct sw_slice word[4];

    if (sw_slice_eq_str(family, "UNKNOWN"))
        return SW_OK;
    if (!v4 && !sw_slice_eq_str(family, "TCP6"))
        return SW_EPROTO;
    for (size_t i = 0; i < SW_ARRAY_LEN(word); i++) {
        if (!rest.p)
            return SW_EPROTO;
        word[i] = sw_slice_cut(&rest, ' ');
        /* An IPv4-mapped address becomes IPv4, so the text itself has to be looked at. */
        if (i < 2 && (sw_slice_find(word[i], ':') < 0) != v4)
            return SW_EPROTO;
    }
    if (rest.p || sw_ip_parse(word[0], &ret->src.ip, NULL) != SW_OK ||
        sw_ip_parse(word[1], &ret->dst.ip, NULL) != SW_OK || !read_port(word[2], &ret->src.port) ||
        !read_port(word[3], &ret->dst.port))
        return SW_EPROTO;
    return SW_OK;
}

static int read_v1(struct sw_slice in, struct sw_proxy_head *ret)
{
    const char *lf = memchr(in.p, '\n', sw_min(in.n, V1_MAX));
    size_t n;

    if (!lf)
        return in.n >= V1_MAX ? SW_EPROTO : SW_EAGAIN;
    n = (size_t)(lf - in.p);
    if (n < 7 || in.p[n - 1] != '\r')
        return SW_EPROTO;
    ret->len = n + 1;
    return read_words(sw_slice(in.p + 6, n - 7), ret);
}

int sw_proxy_read(struct sw_slice in, struct sw_proxy_head *ret)
{
    static const char v1[] = "PROXY ";
    int rc;

    *ret = (struct sw_proxy_head){0};
    if (in.n == 0)
        return SW_EAGAIN;
    if (memcmp(in.p, signature, sw_min(in.n, sizeof(signature))) == 0)
        rc = in.n < sizeof(signature) ? SW_EAGAIN : read_v2((const uint8_t *)in.p, in.n, ret);
    else if (memcmp(in.p, v1, sw_min(in.n, sizeof(v1) - 1)) == 0)
        rc = in.n < sizeof(v1) - 1 ? SW_EAGAIN : read_v1(in, ret);
    else
        rc = SW_ENOENT;
    if (rc != SW_OK)
        *ret = (struct sw_proxy_head){0};
    return rc;
}
