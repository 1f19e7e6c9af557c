/* SPDX-License-Identifier: Apache-2.0 */
/* IP addresses, ip:port pairs and CIDR blocks. IPv4-mapped IPv6 becomes IPv4 on the way in. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/slice.h"

struct sw_ip {
    uint8_t family; /* 4, 6, or 0 = none */
    uint8_t b[16];  /* IPv4 uses the first four, the rest is zero */
};

struct sw_addr {
    struct sw_ip ip;
    uint16_t port;
};

struct sw_cidr {
    struct sw_ip ip;
    uint8_t len;
};

enum { SW_IP_TEXT = 48, SW_ADDR_TEXT = 56 };

SW_NODISCARD int sw_ip_parse(struct sw_slice in, struct sw_ip *ret, struct sw_err *err);
/* From 4 or 16 raw bytes in network order. */
SW_NODISCARD int sw_ip_from_bytes(const void *p, size_t n, struct sw_ip *ret, struct sw_err *err);
bool sw_ip_eq(const struct sw_ip *a, const struct sw_ip *b);
/* One client, as far as limits go: of IPv6, a network of 64 bits is one. */
bool sw_ip_same_client(const struct sw_ip *a, const struct sw_ip *b);
bool sw_ip_is_loopback(const struct sw_ip *ip);
bool sw_ip_is_any(const struct sw_ip *ip);
static inline size_t sw_ip_len(const struct sw_ip *ip)
{
    return ip->family == 4 ? 4 : ip->family == 6 ? 16 : 0;
}
/* Text without brackets; returns out. */
char *sw_ip_text(const struct sw_ip *ip, char out[SW_IP_TEXT]);

/* "1.2.3.4:80", "[2001:db8::1]:80". Port 0 is accepted (bind). */
SW_NODISCARD int sw_addr_parse(struct sw_slice in, struct sw_addr *ret, struct sw_err *err);
bool sw_addr_eq(const struct sw_addr *a, const struct sw_addr *b);
/* "ip:port", IPv6 in brackets; returns out. */
char *sw_addr_text(const struct sw_addr *a, char out[SW_ADDR_TEXT]);

/* "10.0.0.0/8"; a bare address means its full length. Host bits are cleared. */
SW_NODISCARD int sw_cidr_parse(struct sw_slice in, struct sw_cidr *ret, struct sw_err *err);
bool sw_cidr_contains(const struct sw_cidr *c, const struct sw_ip *ip);

socklen_t sw_addr_to_sockaddr(const struct sw_addr *a, struct sockaddr_storage *ret);
/* Unknown families give family 0. */
struct sw_addr sw_addr_from_sockaddr(const struct sockaddr_storage *ss);
/* The same of an address that getifaddrs(3) found; family 0 also for NULL. */
struct sw_addr sw_addr_from_ifaddr(const struct sockaddr *sa);

/*
 * Splits "host:port" as found in a CONNECT request target. Brackets of an IPv6 literal are
 * dropped from *ret_host. Refuses an empty host, a missing port, port 0 and trailing bytes.
 * SW_EINVAL with err->offset at the offending byte.
 */
SW_NODISCARD int sw_authority_split(struct sw_slice in, struct sw_slice *ret_host,
                                    uint16_t *ret_port, struct sw_err *err);

/*
 * Reads a host as a tenant writes it: an address (ret->family is set), or a DNS name (family 0) of
 * labels of letters, digits, '-' and '_', with or without a final dot. Refuses every other
 * spelling of an address, which inet_aton, and with it getaddrinfo, would take: a name whose last
 * label is a number, decimal, octal or hexadecimal ("127.1", "0x7f.1", "0177.0.0.1").
 * SW_EINVAL with a message that quotes the text.
 */
SW_NODISCARD int sw_host_parse(struct sw_slice in, struct sw_ip *ret, struct sw_err *err);
/* True for a name whose last label is a number: an address in disguise. */
bool sw_host_is_numeric(struct sw_slice host);
