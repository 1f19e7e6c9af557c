/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole input is read as an address, ip:port, block and authority. Properties: what is accepted
 * and printed is accepted again and equal; results are untouched on refusal; an address is in its
 * own block; the host an authority names is a piece of the input.
 */
#include <stdint.h>
#include <stdlib.h>

#include "io/addr.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(bool ok)
{
    if (!ok)
        abort();
}

static void try_addr(struct sw_slice in)
{
    struct sw_addr a = {.port = 77};
    struct sw_addr b;
    struct sw_addr c;
    struct sockaddr_storage ss;
    char text[SW_ADDR_TEXT];

    if (sw_addr_parse(in, &a, NULL) != SW_OK) {
        check(a.port == 77 && a.ip.family == 0);
        return;
    }
    check(sw_addr_parse(sw_slice_str(sw_addr_text(&a, text)), &b, NULL) == SW_OK);
    check(sw_addr_eq(&a, &b));
    check(sw_addr_to_sockaddr(&a, &ss) > 0);
    c = sw_addr_from_sockaddr(&ss);
    check(sw_addr_eq(&a, &c));
}

static void try_ip(struct sw_slice in)
{
    struct sw_ip a = {0};
    struct sw_ip b;
    char text[SW_IP_TEXT];

    if (sw_ip_parse(in, &a, NULL) != SW_OK) {
        check(a.family == 0);
        return;
    }
    check(sw_ip_parse(sw_slice_str(sw_ip_text(&a, text)), &b, NULL) == SW_OK);
    check(sw_ip_eq(&a, &b));
    check(!(sw_ip_is_any(&a) && sw_ip_is_loopback(&a)));
}

static void try_cidr(struct sw_slice in)
{
    struct sw_cidr c;

    if (sw_cidr_parse(in, &c, NULL) != SW_OK)
        return;
    check(c.len <= sw_ip_len(&c.ip) * 8);
    check(sw_cidr_contains(&c, &c.ip));
}

static void try_authority(struct sw_slice in)
{
    struct sw_slice host = {0};
    uint16_t port = 0;
    struct sw_err err = {0};

    if (sw_authority_split(in, &host, &port, &err) != SW_OK) {
        check(host.p == NULL && port == 0 && err.msg[0]);
        return;
    }
    check(port != 0 && host.n > 0);
    check(host.p >= in.p && host.p + host.n <= in.p + in.n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct sw_slice in = sw_slice(data, n);

    try_addr(in);
    try_ip(in);
    try_cidr(in);
    try_authority(in);
    return 0;
}
