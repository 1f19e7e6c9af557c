/* SPDX-License-Identifier: Apache-2.0 */
#include "quic/wire/relay_url.h"

#include <string.h>

#include "http/grammar.h"
#include "io/addr.h"

static int set_host(struct sw_relay_url *u, struct sw_slice host, struct sw_err *err)
{
    /* A dot at the end says that the name is complete: for resolvers, not for certificates. */
    if (host.n > 1 && host.p[host.n - 1] == '.')
        host.n--;
    if (host.n == 0 || host.n >= sizeof(u->host))
        return sw_err_set(err, SW_EINVAL, "relay URL with a long host name, or without one");
    for (size_t i = 0; i < host.n; i++) {
        char ch = host.p[i];

        u->host[i] = (char)(ch >= 'A' && ch <= 'Z' ? ch - 'A' + 'a' : ch);
    }
    u->host[host.n] = '\0';
    return SW_OK;
}

static int set_authority(struct sw_relay_url *u, struct sw_slice authority, struct sw_err *err)
{
    struct sw_slice host = authority;
    ptrdiff_t colon = sw_slice_rfind(authority, ':');
    uint64_t port = u->tls ? 443 : 80;

    if (authority.n == 0 || authority.n >= sizeof(u->authority) || !sw_http_host_valid(authority))
        return sw_err_set(err, SW_EINVAL, "relay URL without a valid host");
    if (authority.p[0] == '[') {
        ptrdiff_t end = sw_slice_find(authority, ']');

        host = sw_slice(authority.p + 1, (size_t)end - 1);
        colon = colon > end ? colon : -1;
    } else if (colon >= 0) {
        host = sw_slice_head(authority, (size_t)colon);
    }
    if (colon >= 0 &&
        (!sw_slice_to_u64(sw_slice_from(authority, (size_t)colon + 1), 65535, &port) || port == 0))
        return sw_err_set(err, SW_EINVAL, "relay URL with a bad port");
    memcpy(u->authority, authority.p, authority.n);
    u->authority[authority.n] = '\0';
    u->port = (uint16_t)port;
    return set_host(u, host, err);
}

int sw_relay_url_parse(struct sw_slice url, struct sw_relay_url *ret, struct sw_err *err)
{
    static const struct {
        const char *scheme;
        bool tls;
    } schemes[] = {{"http://", false}, {"ws://", false}, {"https://", true}, {"wss://", true}};

    for (size_t i = 0; i < SW_ARRAY_LEN(schemes); i++) {
        struct sw_slice scheme = sw_slice_str(schemes[i].scheme);

        if (url.n >= scheme.n && sw_slice_ieq(sw_slice_head(url, scheme.n), scheme)) {
            struct sw_slice rest = sw_slice_from(url, scheme.n);
            size_t n = 0;

            while (n < rest.n && rest.p[n] != '/' && rest.p[n] != '?' && rest.p[n] != '#')
                n++;
            ret->tls = schemes[i].tls;
            return set_authority(ret, sw_slice_head(rest, n), err);
        }
    }
    return sw_err_set(err, SW_EINVAL, "relay URL is neither http nor https");
}

bool sw_relay_url_same(const struct sw_relay_url *a, const struct sw_relay_url *b)
{
    return a->tls == b->tls && a->port == b->port && strcmp(a->host, b->host) == 0;
}

bool sw_relay_url_same_text(struct sw_slice a, struct sw_slice b)
{
    struct sw_relay_url x;
    struct sw_relay_url y;

    return sw_relay_url_parse(a, &x, NULL) == SW_OK && sw_relay_url_parse(b, &y, NULL) == SW_OK &&
           sw_relay_url_same(&x, &y);
}

bool sw_relay_url_loopback(const struct sw_relay_url *u)
{
    struct sw_ip ip;

    return sw_ip_parse(sw_slice_str(u->host), &ip, NULL) == SW_OK && sw_ip_is_loopback(&ip);
}
