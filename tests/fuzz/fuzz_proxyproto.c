/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The input makes two addresses and an identity. Property: reading the header back, as a receiver
 * would, finds both addresses, both ports and the identity, and nothing else. The input is also
 * read as a header: what is accepted is accepted only when all of it is there.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "io/proxyproto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(bool ok)
{
    if (!ok)
        abort();
}

static void check_ip(const uint8_t *p, size_t n, const struct sw_ip *want)
{
    struct sw_ip got;

    check(sw_ip_from_bytes(p, n, &got, NULL) == SW_OK);
    check(sw_ip_eq(&got, want));
}

/* The input is a header itself, whole and cut short anywhere. */
static void read_any(const uint8_t *data, size_t n)
{
    struct sw_proxy_head head;
    struct sw_proxy_head again;
    int rc = sw_proxy_read(sw_slice(data, n), &head);

    check(rc == SW_OK || rc == SW_EAGAIN || rc == SW_ENOENT || rc == SW_EPROTO);
    check(rc == SW_OK || head.len == 0);
    if (rc != SW_OK)
        return;
    check(head.len > 0 && head.len <= n && head.len <= SW_PROXY_HEAD_MAX);
    check(head.src.ip.family == 0 ? head.dst.ip.family == 0 : head.dst.ip.family != 0);
    for (size_t i = 0; i < head.len; i++)
        check(sw_proxy_read(sw_slice(data, i), &again) == SW_EAGAIN);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct sw_proxy_head head;
    struct sw_addr src;
    struct sw_addr dst;
    struct sw_slice id;
    uint8_t out[SW_PROXY_V2_MAX];
    size_t len;
    size_t ip;

    read_any(data, n);
    if (n < 1 + 36)
        return 0;
    check(sw_ip_from_bytes(data + 1, data[0] & 1 ? 4 : 16, &src.ip, NULL) == SW_OK);
    check(sw_ip_from_bytes(data + 17, data[0] & 2 ? 4 : 16, &dst.ip, NULL) == SW_OK);
    src.port = (uint16_t)(data[33] << 8 | data[34]);
    dst.port = (uint16_t)(data[35] << 8 | data[36]);
    id = sw_slice(data + 37, n - 37);
    len = sw_proxy_v2_write(&src, &dst, id, out);
    if (id.n > 1024) {
        check(len == 0);
        return 0;
    }
    check(len <= SW_PROXY_V2_MAX && len >= 28);
    check(memcmp(out, "\r\n\r\n\0\r\nQUIT\n\x21", 13) == 0);
    check((size_t)(out[14] << 8 | out[15]) == len - 16);
    check(sw_proxy_read(sw_slice(out, len), &head) == SW_OK && head.len == len);
    check(sw_addr_eq(&head.src, &src) && sw_addr_eq(&head.dst, &dst));
    ip = out[13] == 0x11 ? 4 : 16;
    check(out[13] == 0x11 || out[13] == 0x21);
    check_ip(out + 16, ip, &src.ip);
    check_ip(out + 16 + ip, ip, &dst.ip);
    check((out[16 + 2 * ip] << 8 | out[17 + 2 * ip]) == src.port);
    check((out[18 + 2 * ip] << 8 | out[19 + 2 * ip]) == dst.port);
    if (id.n == 0) {
        check(len == 20 + 2 * ip);
    } else {
        const uint8_t *tlv = out + 20 + 2 * ip;

        check(len == 23 + 2 * ip + id.n);
        check(tlv[0] == 0xd0 && (size_t)(tlv[1] << 8 | tlv[2]) == id.n);
        check(memcmp(tlv + 3, id.p, id.n) == 0);
    }
    return 0;
}
