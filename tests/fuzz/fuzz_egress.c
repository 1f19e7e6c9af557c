/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses in disguise. The whole input is read as a host name, its first bytes as an IPv4
 * address that is put into every IPv6 form that carries one. Properties: a text taken for a name is
 * none that inet_aton takes for an address; no name has a NUL, so that what is judged is what a
 * resolver sees; whatever form a denied address has, the filter denies it.
 */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdlib.h>

#include "io/egress.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(bool ok)
{
    if (!ok)
        abort();
}

static void try_host(struct sw_slice in)
{
    struct sw_ip ip = {.family = 9};
    struct in_addr in4;
    char text[512];

    if (sw_host_parse(in, &ip, NULL) != SW_OK) {
        check(ip.family == 9);
        return;
    }
    check(in.n < sizeof(text) && !memchr(in.p, 0, in.n));
    memcpy(text, in.p, in.n);
    text[in.n] = '\0';
    if (ip.family == 0)
        check(inet_aton(text, &in4) == 0 && !sw_host_is_numeric(in));
}

static void denied(const uint8_t b[16])
{
    struct sw_ip ip;

    check(sw_ip_from_bytes(b, 16, &ip, NULL) == SW_OK);
    check(sw_egress_classify(&ip) != SW_EGRESS_OK);
}

/* Forms of RFC 4291, 2765, 6052, 8215, 3056, 4380 and 5214. */
static void try_forms(const uint8_t v4[4], const uint8_t junk[12])
{
    uint8_t b[16];

    memset(b, 0, sizeof(b));
    memcpy(b + 12, v4, 4); /* compatible */
    denied(b);
    b[10] = b[11] = 0xff; /* mapped */
    denied(b);
    b[8] = b[9] = 0xff; /* translated */
    b[10] = b[11] = 0;
    denied(b);
    memcpy(b, "\x00\x64\xff\x9b\0\0\0\0\0\0\0\0", 12); /* NAT64 */
    denied(b);
    memcpy(b, junk, 12);
    memcpy(b, "\x00\x64\xff\x9b\x00\x01", 6); /* local NAT64: 96 bits, then 48 bits */
    denied(b);
    memcpy(b + 6, v4, 2);
    memcpy(b + 9, v4 + 2, 2);
    denied(b);
    memcpy(b, junk, 12);
    b[0] = 0x20; /* 6to4 */
    b[1] = 0x02;
    memcpy(b + 2, v4, 4);
    denied(b);
    memcpy(b, junk, 12); /* Teredo */
    memcpy(b, "\x20\x01\0\0", 4);
    for (int i = 0; i < 4; i++)
        b[12 + i] = (uint8_t)~v4[i];
    denied(b);
    memcpy(b, junk, 8); /* ISATAP */
    memcpy(b + 8, "\0\0\x5e\xfe", 4);
    memcpy(b + 12, v4, 4);
    denied(b);
    b[8] = 2;
    denied(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const uint8_t nets[][2] = {{127, 0}, {169, 254}, {0, 0}, {224, 0}};
    uint8_t v4[4];

    try_host(sw_slice(data, n));
    if (n < 16)
        return 0;
    for (size_t i = 0; i < SW_ARRAY_LEN(nets); i++) {
        memcpy(v4, data, 4);
        v4[0] = nets[i][0];
        if (nets[i][0] == 169)
            v4[1] = nets[i][1];
        v4[3] |= 1; /* all zero is no address in RFC 8215's prefix */
        try_forms(v4, data + 4);
    }
    return 0;
}
