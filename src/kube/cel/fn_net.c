/* SPDX-License-Identifier: Apache-2.0 */
/* URLs, addresses and prefixes. Values keep their text; parts are parsed on access. */
#include <arpa/inet.h>
#include <ctype.h>
#include <string.h>

#include "base/hex.h"
#include "http/url.h"
#include "kube/cel/fn.h"
#include "kube/errs.h"
#include "kube/names.h"

/* ---- URLs ---- */

struct url {
    struct sw_slice scheme, host, path, query;
};

static bool good_escapes(struct sw_slice s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];

        if (c < 0x20 || c == 0x7f)
            return false;
        if (c == '%' && sw_hex_escape(s, i) < 0)
            return false;
    }
    return true;
}

/* host, host:port, [v6], [v6]:port; a port is digits. */
static bool good_host(struct sw_slice h)
{
    ptrdiff_t colon;

    if (h.n && h.p[0] == '[') {
        const char *end = memchr(h.p, ']', h.n);

        if (!end)
            return false;
        h = sw_slice_from(h, (size_t)(end - h.p) + 1);
        if (h.n && h.p[0] != ':')
            return false;
    }
    for (size_t i = 0; i < h.n; i++) {
        if (strchr(" <>\"\\^`{|}", h.p[i]))
            return false;
    }
    colon = sw_slice_find(h, ':');
    for (size_t i = colon < 0 ? h.n : (size_t)colon + 1; i < h.n; i++) {
        if (!isdigit((unsigned char)h.p[i]))
            return false;
    }
    return true;
}

/* An absolute URL or an absolute path, as in the first line of a request. */
static bool parse_url(struct sw_slice s, struct url *u)
{
    size_t i = 0;
    ptrdiff_t at;

    *u = (struct url){0};
    if (!s.n || !good_escapes(s) || memchr(s.p, ' ', s.n))
        return false;
    while (i < s.n && (isalnum((unsigned char)s.p[i]) || (i && strchr("+-.", s.p[i]))))
        i++;
    if (i && i < s.n && s.p[i] == ':' && isalpha((unsigned char)s.p[0])) {
        u->scheme = sw_slice_head(s, i);
        s = sw_slice_from(s, i + 1);
    } else if (s.p[0] != '/') {
        return false;
    }
    at = sw_slice_find(s, '#');
    if (at >= 0)
        s = sw_slice_head(s, (size_t)at);
    at = sw_slice_find(s, '?');
    if (at >= 0) {
        u->query = sw_slice_from(s, (size_t)at + 1);
        s = sw_slice_head(s, (size_t)at);
    }
    if (sw_slice_has_prefix(s, SW_SLICE_LIT("//")) && u->scheme.n) {
        s = sw_slice_from(s, 2);
        at = sw_slice_find(s, '/');
        u->host = at < 0 ? s : sw_slice_head(s, (size_t)at);
        s = at < 0 ? sw_slice("", 0) : sw_slice_from(s, (size_t)at);
        for (at = sw_slice_find(u->host, '@'); at >= 0; at = sw_slice_find(u->host, '@'))
            u->host = sw_slice_from(u->host, (size_t)at + 1);
    }
    u->path = s;
    return good_host(u->host);
}

static void split_host(struct sw_slice h, struct sw_slice *ret_name, struct sw_slice *ret_port)
{
    ptrdiff_t colon;

    *ret_port = sw_slice("", 0);
    if (h.n && h.p[0] == '[') {
        const char *end = memchr(h.p, ']', h.n);
        size_t n = end ? (size_t)(end - h.p) : h.n;

        *ret_name = sw_slice(h.p + 1, n - 1);
        if (n + 2 <= h.n)
            *ret_port = sw_slice_from(h, n + 2);
        return;
    }
    colon = sw_slice_find(h, ':');
    *ret_name = colon < 0 ? h : sw_slice_head(h, (size_t)colon);
    if (colon >= 0)
        *ret_port = sw_slice_from(h, (size_t)colon + 1);
}

FN(is_url)
{
    struct url u;

    NEED_STRINGS(1);
    return cel_bool(parse_url(a[0].s, &u));
}

FN(url)
{
    struct url u;

    NEED_STRINGS(1);
    if (!parse_url(a[0].s, &u))
        return cel_error(env,
                         "URL parse error during conversion from string: parse %s: invalid URI "
                         "for request",
                         sw_go_quote(env->a, a[0].s));
    return (struct cel_val){.k = CEL_URL, .s = a[0].s};
}

static struct cel_val part(struct sw_slice s)
{
    return cel_string(s.p ? s : sw_slice("", 0));
}

FN(url_part)
{
    struct sw_slice name = {0}, port = {0};
    struct url u;

    if (a[0].k != CEL_URL || !parse_url(a[0].s, &u))
        return cel_error(env, "no such overload");
    charge(env, a[0].s.n);
    if (sw_slice_eq_str(n->name, "getScheme")) {
        char *p = sw_arena_dup(env->a, part(u.scheme).s);

        for (size_t i = 0; i < u.scheme.n; i++)
            p[i] = (char)tolower((unsigned char)p[i]);
        return cel_string(sw_slice(p, u.scheme.n));
    }
    if (sw_slice_eq_str(n->name, "getHost"))
        return part(u.host);
    if (sw_slice_eq_str(n->name, "getEscapedPath"))
        return part(u.path);
    split_host(u.host, &name, &port);
    return part(sw_slice_eq_str(n->name, "getPort") ? port : name);
}

FN(url_query)
{
    struct cel_map *m = SW_ARENA_NEW(env->a, struct cel_map);
    struct sw_query q = {0};
    struct url u;

    if (a[0].k != CEL_URL || !parse_url(a[0].s, &u))
        return cel_error(env, "no such overload");
    charge(env, a[0].s.n);
    if (u.query.n && sw_query_parse(env->a, u.query, &q, NULL) < 0)
        q.n = 0;
    m->keys = sw_arena_array(env->a, q.n + 1, sizeof(*m->keys));
    m->vals = sw_arena_array(env->a, q.n + 1, sizeof(*m->vals));
    for (size_t i = 0; i < q.n; i++) {
        size_t k = 0;

        while (k < m->n && !sw_slice_eq(m->keys[k].s, q.params[i].name))
            k++;
        if (k == m->n) {
            m->keys[k] = cel_string(q.params[i].name);
            m->vals[k] = cel_new_list(env);
            m->n++;
        }
        cel_push(env, &m->vals[k], part(q.params[i].value));
    }
    return (struct cel_val){.k = CEL_MAP, .map = m};
}

/* ---- addresses ---- */

struct net {
    bool v6;
    unsigned char b[16]; /* IPv4 in the first four */
    unsigned bits;       /* prefixes */
};

static bool parse_ip(struct sw_slice s, struct net *ret)
{
    char text[INET6_ADDRSTRLEN];

    *ret = (struct net){.v6 = sw_is_ipv6(s)};
    if ((!ret->v6 && !sw_is_ipv4(s)) || s.n >= sizeof(text))
        return false;
    memcpy(text, s.p, s.n);
    text[s.n] = 0;
    ret->bits = ret->v6 ? 128 : 32;
    return inet_pton(ret->v6 ? AF_INET6 : AF_INET, text, ret->b) == 1;
}

static bool parse_cidr(struct sw_slice s, struct net *ret)
{
    ptrdiff_t slash = sw_slice_find(s, '/');
    uint64_t bits;

    if (!sw_is_cidr(s) || slash < 0 || !parse_ip(sw_slice_head(s, (size_t)slash), ret) ||
        !sw_slice_to_u64(sw_slice_from(s, (size_t)slash + 1), 128, &bits))
        return false;
    ret->bits = (unsigned)bits;
    return true;
}

static const char *net_text(struct sw_arena *a, const struct net *n)
{
    char text[INET6_ADDRSTRLEN];

    if (!inet_ntop(n->v6 ? AF_INET6 : AF_INET, n->b, text, sizeof(text)))
        return "";
    return sw_arena_dup(a, sw_slice_str(text));
}

static void mask(struct net *n)
{
    for (unsigned i = n->bits; i < (n->v6 ? 128U : 32U); i++)
        n->b[i / 8] &= (unsigned char)~(0x80U >> (i % 8));
}

/* Whether the address (or the whole prefix) x is inside the prefix p. */
static bool covers(const struct net *p, const struct net *x)
{
    struct net m = *x, want = *p;

    if (p->v6 != x->v6 || x->bits < p->bits)
        return false;
    m.bits = p->bits;
    mask(&m);
    mask(&want);
    return memcmp(m.b, want.b, sizeof(m.b)) == 0;
}

bool cel_net_equal(const struct cel_val *x, const struct cel_val *y)
{
    struct net p, q;

    if (x->k == CEL_IP)
        return parse_ip(x->s, &p) && parse_ip(y->s, &q) && p.v6 == q.v6 &&
               memcmp(p.b, q.b, sizeof(p.b)) == 0;
    return parse_cidr(x->s, &p) && parse_cidr(y->s, &q) && p.v6 == q.v6 && p.bits == q.bits &&
           memcmp(p.b, q.b, sizeof(p.b)) == 0;
}

FN(is_ip)
{
    NEED_STRINGS(1);
    return cel_bool(sw_is_ipv4(a[0].s) || sw_is_ipv6(a[0].s));
}

FN(ip)
{
    struct net x;

    NEED_STRINGS(1);
    if (!parse_ip(a[0].s, &x))
        return cel_error(env,
                         "IP Address %s parse error during conversion from string: ParseAddr(%s): "
                         "unable to parse IP",
                         sw_go_quote(env->a, a[0].s), sw_go_quote(env->a, a[0].s));
    return (struct cel_val){.k = CEL_IP, .s = sw_slice_str(net_text(env->a, &x))};
}

FN(ip_canonical)
{
    struct net x;

    NEED_STRINGS(1);
    if (!parse_ip(a[0].s, &x))
        return cel_error(env, "IP Address %s parse error during conversion from string",
                         sw_go_quote(env->a, a[0].s));
    return cel_bool(sw_slice_eq_str(a[0].s, net_text(env->a, &x)));
}

static bool all_zero(const unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (p[i])
            return false;
    }
    return true;
}

static bool ip_is(const struct net *x, struct sw_slice what)
{
    const unsigned char *b = x->b;
    bool unspecified = all_zero(b, x->v6 ? 16 : 4);
    bool loopback = x->v6 ? all_zero(b, 15) && b[15] == 1 : b[0] == 127;
    bool multicast = x->v6 ? b[0] == 0xff : (b[0] & 0xf0) == 0xe0;
    bool local = x->v6 ? b[0] == 0xfe && (b[1] & 0xc0) == 0x80 : b[0] == 169 && b[1] == 254;

    if (sw_slice_eq_str(what, "isUnspecified"))
        return unspecified;
    if (sw_slice_eq_str(what, "isLoopback"))
        return loopback;
    if (sw_slice_eq_str(what, "isLinkLocalUnicast"))
        return local;
    if (sw_slice_eq_str(what, "isLinkLocalMulticast"))
        return x->v6 ? b[0] == 0xff && (b[1] & 0x0f) == 2 : b[0] == 224 && !b[1] && !b[2];
    return !unspecified && !loopback && !multicast && !local &&
           !(!x->v6 && b[0] == 255 && b[1] == 255 && b[2] == 255 && b[3] == 255);
}

FN(ip_part)
{
    struct net x;

    if (a[0].k != CEL_IP || !parse_ip(a[0].s, &x))
        return cel_error(env, "no such overload");
    if (sw_slice_eq_str(n->name, "family"))
        return cel_int(x.v6 ? 6 : 4);
    return cel_bool(ip_is(&x, n->name));
}

/* ---- prefixes ---- */

FN(is_cidr)
{
    NEED_STRINGS(1);
    return cel_bool(sw_is_cidr(a[0].s));
}

static struct cel_val cidr_value(struct cel_env *env, const struct net *x)
{
    return (struct cel_val){
        .k = CEL_CIDR,
        .s = sw_slice_str(sw_arena_printf(env->a, "%s/%u", net_text(env->a, x), x->bits))};
}

FN(cidr)
{
    struct net x;

    NEED_STRINGS(1);
    if (!parse_cidr(a[0].s, &x))
        return cel_error(env,
                         "network address parse error during conversion from string: "
                         "netip.ParsePrefix(%s): no '/'",
                         sw_go_quote(env->a, a[0].s));
    return cidr_value(env, &x);
}

FN(cidr_contains)
{
    bool ip = sw_slice_eq_str(n->name, "containsIP");
    struct net p, x;

    if (a[0].k != CEL_CIDR || !parse_cidr(a[0].s, &p))
        return cel_error(env, "no such overload");
    if (ip ? !parse_ip(a[1].s, &x) : !parse_cidr(a[1].s, &x))
        return cel_error(env, "%s %s parse error during conversion from string",
                         ip ? "IP Address" : "network address", sw_go_quote(env->a, a[1].s));
    return cel_bool(covers(&p, &x));
}

FN(cidr_part)
{
    struct net p;

    if (a[0].k != CEL_CIDR || !parse_cidr(a[0].s, &p))
        return cel_error(env, "no such overload");
    if (sw_slice_eq_str(n->name, "prefixLength"))
        return cel_int(p.bits);
    if (sw_slice_eq_str(n->name, "ip"))
        return (struct cel_val){.k = CEL_IP, .s = sw_slice_str(net_text(env->a, &p))};
    mask(&p);
    return cidr_value(env, &p);
}
