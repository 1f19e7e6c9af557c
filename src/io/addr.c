/* SPDX-License-Identifier: Apache-2.0 */
#include "io/addr.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>

#include "base/hex.h"

enum { NAME_MAX_LEN = 253, LABEL_MAX_LEN = 63 };

static const uint8_t mapped_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

int sw_ip_from_bytes(const void *p, size_t n, struct sw_ip *ret, struct sw_err *err)
{
    const uint8_t *b = p;
    struct sw_ip ip = {0};

    if (n == 16 && memcmp(b, mapped_prefix, sizeof(mapped_prefix)) == 0) {
        b += 12;
        n = 4;
    }
    if (n != 4 && n != 16)
        return sw_err_set(err, SW_EINVAL, "an IP address has 4 or 16 bytes, not %zu", n);
    ip.family = n == 4 ? 4 : 6;
    memcpy(ip.b, b, n);
    *ret = ip;
    return SW_OK;
}

int sw_ip_parse(struct sw_slice in, struct sw_ip *ret, struct sw_err *err)
{
    char text[SW_IP_TEXT];
    uint8_t raw[16];

    if (in.n > 0 && in.n < sizeof(text) && !memchr(in.p, '\0', in.n)) {
        memcpy(text, in.p, in.n);
        text[in.n] = '\0';
        if (inet_pton(AF_INET, text, raw) == 1)
            return sw_ip_from_bytes(raw, 4, ret, err);
        if (inet_pton(AF_INET6, text, raw) == 1)
            return sw_ip_from_bytes(raw, 16, ret, err);
    }
    return sw_err_set(err, SW_EINVAL, "'%.*s' is not an IP address", (int)sw_min(in.n, 64), in.p);
}

bool sw_ip_eq(const struct sw_ip *a, const struct sw_ip *b)
{
    return a->family == b->family && memcmp(a->b, b->b, sizeof(a->b)) == 0;
}

bool sw_ip_same_client(const struct sw_ip *a, const struct sw_ip *b)
{
    return a->family == b->family && memcmp(a->b, b->b, a->family == 6 ? 8 : 4) == 0;
}

bool sw_ip_is_loopback(const struct sw_ip *ip)
{
    static const uint8_t one[16] = {[15] = 1};

    if (ip->family == 4)
        return ip->b[0] == 127;
    return ip->family == 6 && memcmp(ip->b, one, sizeof(one)) == 0;
}

bool sw_ip_is_any(const struct sw_ip *ip)
{
    static const uint8_t none[16];

    return ip->family != 0 && memcmp(ip->b, none, sizeof(none)) == 0;
}

static char *put_number(char *p, unsigned n)
{
    char digits[5];
    size_t i = sizeof(digits);

    do {
        digits[--i] = (char)('0' + n % 10);
        n /= 10;
    } while (n);
    memcpy(p, digits + i, sizeof(digits) - i);
    return p + sizeof(digits) - i;
}

/* Addresses are in every access-log line: printf and inet_ntop would be a tenth of its cost. */
static char *put_ip4(char *p, const uint8_t b[4])
{
    for (int i = 0; i < 4; i++) {
        p = put_number(p, b[i]);
        *p++ = '.';
    }
    return p - 1;
}

char *sw_ip_text(const struct sw_ip *ip, char out[SW_IP_TEXT])
{
    out[0] = '\0';
    if (ip->family == 4)
        *put_ip4(out, ip->b) = '\0';
    else if (ip->family == 6)
        (void)inet_ntop(AF_INET6, ip->b, out, SW_IP_TEXT);
    return out;
}

static int parse_port(struct sw_slice in, bool zero_ok, size_t offset, uint16_t *ret,
                      struct sw_err *err)
{
    uint64_t port;

    if (!sw_slice_to_u64(in, 65535, &port) || (port == 0 && !zero_ok) || in.n > 5)
        return sw_err_at(err, SW_EINVAL, offset, "'%.*s' is not a port", (int)sw_min(in.n, 16),
                         in.p);
    *ret = (uint16_t)port;
    return SW_OK;
}

/* Splits at the port's colon; *ret_host keeps no brackets. */
static int split_port(struct sw_slice in, struct sw_slice *ret_host, struct sw_slice *ret_port,
                      struct sw_err *err)
{
    ptrdiff_t colon;
    struct sw_ip ip;

    if (in.n && in.p[0] == '[') {
        ptrdiff_t close_at = sw_slice_find(in, ']');

        if (close_at < 0)
            return sw_err_at(err, SW_EINVAL, 0, "missing ']'");
        if ((size_t)close_at + 1 >= in.n || in.p[close_at + 1] != ':')
            return sw_err_at(err, SW_EINVAL, (size_t)close_at + 1, "missing port");
        *ret_host = sw_slice(in.p + 1, (size_t)close_at - 1);
        if (sw_slice_find(*ret_host, ':') < 0 || sw_ip_parse(*ret_host, &ip, NULL) != SW_OK)
            return sw_err_at(err, SW_EINVAL, 1, "brackets are for IPv6 addresses");
        *ret_port = sw_slice_from(in, (size_t)close_at + 2);
        return SW_OK;
    }
    colon = sw_slice_find(in, ':');
    if (colon < 0)
        return sw_err_at(err, SW_EINVAL, in.n, "missing port");
    if (sw_slice_rfind(in, ':') != colon)
        return sw_err_at(err, SW_EINVAL, (size_t)colon, "an IPv6 address needs brackets");
    *ret_host = sw_slice_head(in, (size_t)colon);
    *ret_port = sw_slice_from(in, (size_t)colon + 1);
    return SW_OK;
}

int sw_addr_parse(struct sw_slice in, struct sw_addr *ret, struct sw_err *err)
{
    struct sw_slice host = {0};
    struct sw_slice port = {0};
    struct sw_addr a = {0};
    int rc = split_port(in, &host, &port, err);

    if (rc == SW_OK)
        rc = sw_ip_parse(host, &a.ip, err);
    if (rc == SW_OK)
        rc = parse_port(port, true, (size_t)(port.p - in.p), &a.port, err);
    if (rc == SW_OK)
        *ret = a;
    return rc;
}

bool sw_addr_eq(const struct sw_addr *a, const struct sw_addr *b)
{
    return a->port == b->port && sw_ip_eq(&a->ip, &b->ip);
}

char *sw_addr_text(const struct sw_addr *a, char out[SW_ADDR_TEXT])
{
    char *p = out;

    if (a->ip.family == 4) {
        p = put_ip4(p, a->ip.b);
    } else if (a->ip.family == 6) {
        *p++ = '[';
        p += strlen(sw_ip_text(&a->ip, p));
        *p++ = ']';
    }
    *p++ = ':';
    *put_number(p, a->port) = '\0';
    return out;
}

static void clear_host_bits(struct sw_cidr *c)
{
    for (size_t i = 0; i < sizeof(c->ip.b); i++) {
        size_t first = i * 8;

        if (first >= c->len)
            c->ip.b[i] = 0;
        else if (first + 8 > c->len)
            c->ip.b[i] &= (uint8_t)(0xff << (first + 8 - c->len));
    }
}

int sw_cidr_parse(struct sw_slice in, struct sw_cidr *ret, struct sw_err *err)
{
    ptrdiff_t slash = sw_slice_find(in, '/');
    struct sw_cidr c = {0};
    uint64_t len;
    uint64_t most;
    int rc = sw_ip_parse(slash < 0 ? in : sw_slice_head(in, (size_t)slash), &c.ip, err);

    if (rc != SW_OK)
        return rc;
    most = c.ip.family == 4 ? 32 : 128;
    len = most;
    if (slash >= 0 && !sw_slice_to_u64(sw_slice_from(in, (size_t)slash + 1), most, &len))
        return sw_err_at(err, SW_EINVAL, (size_t)slash + 1, "'%.*s' has a bad prefix length",
                         (int)sw_min(in.n, 64), in.p);
    c.len = (uint8_t)len;
    clear_host_bits(&c);
    *ret = c;
    return SW_OK;
}

bool sw_cidr_contains(const struct sw_cidr *c, const struct sw_ip *ip)
{
    struct sw_cidr masked = {.ip = *ip, .len = c->len};

    if (ip->family == 0 || c->ip.family != ip->family)
        return false;
    clear_host_bits(&masked);
    return sw_ip_eq(&masked.ip, &c->ip);
}

socklen_t sw_addr_to_sockaddr(const struct sw_addr *a, struct sockaddr_storage *ret)
{
    memset(ret, 0, sizeof(*ret));
    if (a->ip.family == 4) {
        struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(a->port)};

        memcpy(&in.sin_addr, a->ip.b, 4);
        memcpy(ret, &in, sizeof(in));
        return sizeof(in);
    }
    if (a->ip.family == 6) {
        struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(a->port)};

        memcpy(&in6.sin6_addr, a->ip.b, 16);
        memcpy(ret, &in6, sizeof(in6));
        return sizeof(in6);
    }
    return 0;
}

struct sw_addr sw_addr_from_ifaddr(const struct sockaddr *sa)
{
    struct sw_addr a = {0};

    if (sa && sa->sa_family == AF_INET) {
        struct sockaddr_in in;

        memcpy(&in, sa, sizeof(in));
        a.port = ntohs(in.sin_port);
        (void)!sw_ip_from_bytes(&in.sin_addr, 4, &a.ip, NULL);
    } else if (sa && sa->sa_family == AF_INET6) {
        struct sockaddr_in6 in6;

        memcpy(&in6, sa, sizeof(in6));
        a.port = ntohs(in6.sin6_port);
        (void)!sw_ip_from_bytes(&in6.sin6_addr, 16, &a.ip, NULL);
    }
    return a;
}

struct sw_addr sw_addr_from_sockaddr(const struct sockaddr_storage *ss)
{
    return sw_addr_from_ifaddr((const struct sockaddr *)ss);
}

int sw_authority_split(struct sw_slice in, struct sw_slice *ret_host, uint16_t *ret_port,
                       struct sw_err *err)
{
    struct sw_slice host = {0};
    struct sw_slice port = {0};
    uint16_t number = 0;
    int rc = split_port(in, &host, &port, err);

    if (rc != SW_OK)
        return rc;
    if (host.n == 0)
        return sw_err_at(err, SW_EINVAL, 0, "empty host");
    for (size_t i = 0; i < host.n; i++) {
        unsigned char c = (unsigned char)host.p[i];

        if (c <= ' ' || c >= 0x7f || strchr("/?#@\\[]", c))
            return sw_err_at(err, SW_EINVAL, i, "bad byte 0x%02x in host", c);
    }
    rc = parse_port(port, false, (size_t)(port.p - in.p), &number, err);
    if (rc != SW_OK)
        return rc;
    *ret_host = host;
    *ret_port = number;
    return SW_OK;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* "1", "0177", "0x7f", and "0x", which some parsers read as zero. */
static bool is_number(struct sw_slice label)
{
    size_t i = 0;
    bool hex = label.n >= 2 && label.p[0] == '0' && (label.p[1] == 'x' || label.p[1] == 'X');

    if (hex)
        i = 2;
    while (i < label.n && (hex ? sw_hex_digit(label.p[i]) >= 0 : is_digit(label.p[i])))
        i++;
    return label.n && i == label.n;
}

bool sw_host_is_numeric(struct sw_slice host)
{
    ptrdiff_t dot;

    if (host.n && host.p[host.n - 1] == '.')
        host.n--;
    dot = sw_slice_rfind(host, '.');
    return is_number(dot < 0 ? host : sw_slice_from(host, (size_t)dot + 1));
}

static bool is_name(struct sw_slice in)
{
    struct sw_slice rest = in;

    if (rest.n && rest.p[rest.n - 1] == '.')
        rest.n--;
    if (rest.n == 0 || rest.n > NAME_MAX_LEN)
        return false;
    while (rest.p) {
        struct sw_slice label = sw_slice_cut(&rest, '.');

        if (label.n == 0 || label.n > LABEL_MAX_LEN)
            return false;
        for (size_t i = 0; i < label.n; i++) {
            char c = label.p[i];

            if (!is_digit(c) && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && c != '-' &&
                c != '_')
                return false;
        }
    }
    return true;
}

int sw_host_parse(struct sw_slice in, struct sw_ip *ret, struct sw_err *err)
{
    struct sw_ip ip = {0};

    if (sw_ip_parse(in, &ip, NULL) == SW_OK) {
        *ret = ip;
        return SW_OK;
    }
    if (!is_name(in))
        return sw_err_set(err, SW_EINVAL, "'%.*s' is neither an IP address nor a host name",
                          (int)sw_min(in.n, 64), in.n ? in.p : "");
    if (sw_host_is_numeric(in))
        return sw_err_set(err, SW_EINVAL,
                          "'%.*s' is an IPv4 address in disguise: the last label of a host name "
                          "must not be a number",
                          (int)sw_min(in.n, 64), in.p);
    *ret = ip;
    return SW_OK;
}
