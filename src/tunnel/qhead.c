/* SPDX-License-Identifier: Apache-2.0 */
#include "tunnel/qhead.h"

#include "base/map.h"
#include "http/capsule.h"
#include "http/grammar.h"
#include "io/addr.h"

const struct sw_h1_limits sw_qhead_limits = {
    .line = SW_QHEAD_MAX,
    .head = SW_QHEAD_MAX,
    .headers = SW_QHEAD_FIELDS,
};

const char *sw_qkind_text(enum sw_qkind k)
{
    static const char *const texts[] = {"tcp", "udp", "http", "upgrade"};

    return texts[k];
}

int sw_qhead_feed(struct sw_h1 *parser, struct sw_buf *in, struct sw_slice data, size_t *ret_used,
                  struct sw_err *err)
{
    size_t before = sw_buf_len(in);
    enum sw_h1_event event;
    size_t used = 0;
    int rc;

    data = sw_slice_head(data, SW_QHEAD_MAX - before);
    rc = sw_buf_append_slice(in, data);
    if (rc == SW_OK)
        rc = sw_h1_next(parser, sw_buf_slice(in), &used, &event, err);
    *ret_used = rc == SW_EAGAIN ? data.n : used - before;
    if (rc == SW_EAGAIN)
        sw_buf_consume(in, used);
    return rc;
}

/* "host", "host:port", "[v6]:port"; without a port the scheme's. */
static int split_origin(struct sw_slice authority, bool https, struct sw_qhead *ret,
                        struct sw_err *err)
{
    bool bracket = authority.n && authority.p[0] == '[';
    ptrdiff_t colon = sw_slice_rfind(authority, ':');
    ptrdiff_t end = sw_slice_rfind(authority, ']');

    if (colon > 0 && (!bracket || colon > end))
        return sw_authority_split(authority, &ret->host, &ret->port, err);
    ret->host = bracket ? sw_slice(authority.p + 1, authority.n - 2) : authority;
    ret->port = https ? 443 : 80;
    return SW_OK;
}

/* Path and authority name the same destination: one of them is what an allow list looks at. */
static int check_udp(struct sw_slice path, const struct sw_qhead *h, struct sw_err *err)
{
    char host[SW_MASQUE_HOST_MAX + 1];
    uint16_t port;
    struct sw_ip a;
    struct sw_ip b;
    int rc = sw_masque_udp_path(path, host, &port, err);

    if (rc != SW_OK)
        return sw_err_prefix(err, "connect-udp");
    if (port == h->port && sw_slice_ieq(h->host, sw_slice_str(host)))
        return SW_OK;
    if (port == h->port && sw_ip_parse(h->host, &a, NULL) == SW_OK &&
        sw_ip_parse(sw_slice_str(host), &b, NULL) == SW_OK && sw_ip_eq(&a, &b))
        return SW_OK;
    return sw_err_set(err, SW_EPROTO, "connect-udp: path and authority name different targets");
}

static int read_absolute(const struct sw_h1_msg *m, struct sw_qhead *h, struct sw_err *err)
{
    int rc;

    h->https = sw_slice_ieq(m->scheme, SW_SLICE_LIT("https"));
    if (!h->https && !sw_slice_ieq(m->scheme, SW_SLICE_LIT("http")))
        return sw_err_set(err, SW_EPROTO, "unknown scheme");
    rc = split_origin(m->authority, h->https, h, err);
    if (rc != SW_OK)
        return rc;
    if (m->upgrade.n == 0) {
        h->kind = SW_QKIND_HTTP;
    } else if (sw_slice_ieq(m->upgrade, SW_SLICE_LIT("connect-udp"))) {
        h->kind = SW_QKIND_UDP;
        return check_udp(m->path_query, h, err);
    } else {
        h->kind = SW_QKIND_UPGRADE;
    }
    h->path = m->path_query;
    if (h->path.n == 0)
        h->path = SW_SLICE_LIT("/");
    return SW_OK;
}

int sw_qhead_read(const struct sw_h1_msg *m, struct sw_qhead *ret, struct sw_err *err)
{
    struct sw_qhead h = {0};
    struct sw_ip ip;
    int rc = SW_OK;

    if (m->minor != 1)
        return sw_err_set(err, SW_EPROTO, "not HTTP/1.1");
    switch (m->form) {
    case SW_H1_AUTHORITY:
        h.kind = SW_QKIND_TCP;
        rc = sw_authority_split(m->authority, &h.host, &h.port, err);
        break;
    case SW_H1_ABSOLUTE:
        rc = read_absolute(m, &h, err);
        break;
    case SW_H1_ORIGIN:
    case SW_H1_ASTERISK:
        rc = sw_err_set(err, SW_EPROTO, "the request target is not in absolute form");
        break;
    }
    if (rc == SW_OK)
        rc = sw_host_parse(h.host, &ip, err);
    if (rc != SW_OK)
        return err && err->rc == SW_EPROTO ? rc : sw_err_set(err, SW_EPROTO, "bad request target");
    *ret = h;
    return SW_OK;
}

void *sw_qhead_flow(const struct sw_map *flows, struct sw_slice *datagram)
{
    uint64_t quarter = 0;
    size_t k = sw_varint_get((const uint8_t *)datagram->p, datagram->n, &quarter);
    int64_t id = (int64_t)(quarter * 4);

    if (k == 0 || quarter >= UINT64_MAX / 8)
        return NULL;
    *datagram = sw_slice_from(*datagram, k);
    return sw_map_get(flows, sw_slice(&id, sizeof(id)));
}

/* ---- writing ---- */

int sw_qhead_put_authority(struct sw_buf *out, struct sw_slice host, uint16_t port)
{
    if (sw_slice_find(host, ':') >= 0)
        return sw_buf_printf(out, "[%.*s]:%u", SW_SLICE_ARG(host), port);
    return sw_buf_printf(out, "%.*s:%u", SW_SLICE_ARG(host), port);
}

/* The authority in a buffer of its own, checked. */
static int make_authority(struct sw_buf *tmp, struct sw_slice host, uint16_t port)
{
    int rc = host.n > SW_MASQUE_HOST_MAX || port == 0 ? SW_EINVAL
                                                      : sw_qhead_put_authority(tmp, host, port);
    struct sw_ip ip;

    if (rc == SW_OK && !sw_http_host_valid(sw_buf_slice(tmp)))
        rc = SW_EINVAL;
    if (rc == SW_OK)
        rc = sw_host_parse(host, &ip, NULL);
    return rc;
}

int sw_qhead_put_connect(struct sw_buf *out, struct sw_slice host, uint16_t port)
{
    SW_BUF_AUTO authority = {.max = 512};
    int rc = make_authority(&authority, host, port);

    if (rc == SW_OK)
        rc = sw_h1_put_request(out, SW_SLICE_LIT("CONNECT"), sw_buf_slice(&authority), 1);
    if (rc == SW_OK)
        rc = sw_h1_put_field(out, SW_SLICE_LIT("host"), sw_buf_slice(&authority));
    return rc;
}

int sw_qhead_put_request(struct sw_buf *out, struct sw_slice method, struct sw_slice host,
                         uint16_t port, struct sw_slice path)
{
    SW_BUF_AUTO authority = {.max = 512};
    SW_BUF_AUTO target = {.max = SW_QHEAD_MAX};
    int rc = make_authority(&authority, host, port);

    if (rc != SW_OK || path.n == 0 || (path.p[0] != '/' && !sw_slice_eq_str(path, "*")))
        return SW_EINVAL;
    rc = sw_buf_printf(&target, "http://%.*s", SW_SLICE_ARG(sw_buf_slice(&authority)));
    if (rc == SW_OK && path.p[0] == '/')
        rc = sw_buf_append_slice(&target, path);
    if (rc == SW_OK)
        rc = sw_h1_put_request(out, method, sw_buf_slice(&target), 1);
    return rc == SW_OK ? sw_h1_put_field(out, SW_SLICE_LIT("host"), sw_buf_slice(&authority)) : rc;
}

int sw_qhead_put_udp(struct sw_buf *out, struct sw_slice host, uint16_t port, bool datagrams)
{
    SW_BUF_AUTO path = {.max = 1024};
    int rc = sw_masque_put_udp_path(&path, host, port);

    if (rc == SW_OK)
        rc = sw_qhead_put_request(out, SW_SLICE_LIT("GET"), host, port, sw_buf_slice(&path));
    if (rc == SW_OK)
        rc = sw_buf_append_str(out, "connection: Upgrade\r\nupgrade: connect-udp\r\n"
                                    "capsule-protocol: ?1\r\n");
    if (rc == SW_OK && datagrams)
        rc = sw_buf_append_str(out, SW_QTUNNEL_DATAGRAMS ": ?1\r\n");
    return rc == SW_OK ? sw_h1_put_end(out) : rc;
}
