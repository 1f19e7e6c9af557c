/* SPDX-License-Identifier: Apache-2.0 */
#include "http/capsule.h"

#include <string.h>

#include "base/arena.h"
#include "http/grammar.h"
#include "http/url.h"
#include "io/addr.h"

enum { VALUE_MAX = SW_UDP_PAYLOAD_MAX + SW_VARINT_MAX };

static const struct sw_slice prefix = SW_SLICE_LIT("/.well-known/masque/udp/");

size_t sw_varint_put(uint8_t out[SW_VARINT_MAX], uint64_t v)
{
    unsigned log = v < 1 << 6 ? 0 : v < 1 << 14 ? 1 : v < 1 << 30 ? 2 : 3;
    size_t n = (size_t)1 << log;

    for (size_t i = n; i-- > 0; v >>= 8)
        out[i] = (uint8_t)v;
    out[0] = (uint8_t)((out[0] & 0x3f) | (log << 6));
    return n;
}

size_t sw_varint_get(const uint8_t *p, size_t n, uint64_t *ret)
{
    size_t len;
    uint64_t v;

    if (n == 0)
        return 0;
    len = (size_t)1 << (p[0] >> 6);
    if (n < len)
        return 0;
    v = p[0] & 0x3f;
    for (size_t i = 1; i < len; i++)
        v = v << 8 | p[i];
    *ret = v;
    return len;
}

/* ---- reading ---- */

/* Collects bytes until type and length are there. True: they are. */
static bool read_head(struct sw_capsule_reader *r, struct sw_slice *in)
{
    size_t t;
    size_t l;

    while (in->n) {
        r->head[r->head_n++] = (uint8_t)in->p[0];
        *in = sw_slice_from(*in, 1);
        t = sw_varint_get(r->head, r->head_n, &r->type);
        l = t ? sw_varint_get(r->head + t, r->head_n - t, &r->left) : 0;
        if (l) {
            r->head_n = 0;
            r->in_value = true;
            return true;
        }
    }
    return false;
}

/* The value of a DATAGRAM capsule: from the input when it is there whole. */
static int read_datagram(struct sw_capsule_reader *r, struct sw_slice *in, struct sw_slice *ret,
                         struct sw_err *err)
{
    size_t take = sw_min(in->n, r->left);

    if (r->left > VALUE_MAX)
        return sw_err_set(err, SW_ELIMIT, "a datagram longer than UDP allows");
    if (sw_buf_len(&r->value) == 0 && take == r->left) {
        *ret = sw_slice_head(*in, take);
    } else {
        r->value.max = VALUE_MAX;
        if (sw_buf_append(&r->value, in->p, take) != SW_OK)
            return sw_err_set(err, SW_ELIMIT, "a datagram longer than UDP allows");
        *ret = sw_buf_slice(&r->value);
    }
    *in = sw_slice_from(*in, take);
    r->left -= take;
    if (r->left)
        return SW_EAGAIN;
    r->in_value = false;
    return SW_OK;
}

static int step(struct sw_capsule_reader *r, struct sw_slice *in, struct sw_slice *ret,
                struct sw_err *err)
{
    if (!r->in_value) {
        sw_buf_clear(&r->value);
        if (!read_head(r, in))
            return SW_EAGAIN;
    }
    if (r->type == SW_CAPSULE_DATAGRAM)
        return read_datagram(r, in, ret, err);
    if (in->n < r->left) {
        r->left -= in->n;
        *in = sw_slice_from(*in, in->n);
        return SW_EAGAIN;
    }
    *in = sw_slice_from(*in, (size_t)r->left);
    r->in_value = false;
    return SW_ENOENT;
}

int sw_capsule_next(struct sw_capsule_reader *r, struct sw_slice in, size_t *ret_used,
                    struct sw_slice *ret_value, struct sw_err *err)
{
    struct sw_slice rest = in;
    int rc;

    do
        rc = step(r, &rest, ret_value, err);
    while (rc == SW_ENOENT);
    *ret_used = in.n - rest.n;
    return rc;
}

bool sw_capsule_idle(const struct sw_capsule_reader *r)
{
    return !r->in_value && r->head_n == 0;
}

void sw_capsule_done(struct sw_capsule_reader *r)
{
    sw_buf_done(&r->value);
}

/* ---- UDP ---- */

size_t sw_capsule_udp_head(uint8_t out[SW_CAPSULE_UDP_HEAD], size_t n)
{
    size_t at = 1;

    out[0] = SW_CAPSULE_DATAGRAM;
    at += sw_varint_put(out + at, n + 1);
    out[at] = 0;
    return at + 1;
}

/* Copies n bytes to a place in the room; what came before fills the pieces from the front. */
static void put(const struct iovec *room, size_t at, const void *p, size_t n)
{
    for (const uint8_t *from = p; n > 0; room++) {
        size_t k = at < room->iov_len ? sw_min(n, room->iov_len - at) : 0;

        memcpy((uint8_t *)room->iov_base + (k ? at : 0), from, k);
        at = at < room->iov_len ? 0 : at - room->iov_len;
        from += k;
        n -= k;
    }
}

size_t sw_capsule_udp_put(const struct iovec *room, int n, struct sw_slice payload)
{
    uint8_t head[SW_CAPSULE_UDP_HEAD];
    size_t k = sw_capsule_udp_head(head, payload.n);
    size_t have = 0;

    for (int i = 0; i < n; i++)
        have += room[i].iov_len;
    if (have < k + payload.n)
        return 0;
    put(room, 0, head, k);
    put(room, k, payload.p, payload.n);
    return k + payload.n;
}

int sw_masque_udp_payload(struct sw_slice datagram, struct sw_slice *ret)
{
    uint64_t context;
    size_t n = sw_varint_get((const uint8_t *)datagram.p, datagram.n, &context);

    if (n == 0)
        return SW_EPROTO;
    if (context != 0)
        return SW_ENOENT;
    if (datagram.n - n > SW_UDP_PAYLOAD_MAX)
        return SW_ELIMIT;
    *ret = sw_slice_from(datagram, n);
    return SW_OK;
}

static bool host_ok(struct sw_slice host)
{
    struct sw_ip ip;

    if (sw_slice_find(host, ':') >= 0)
        return sw_ip_parse(host, &ip, NULL) == SW_OK;
    return sw_slice_find(host, '%') < 0 && sw_http_host_valid(host);
}

int sw_masque_udp_path(struct sw_slice path, char ret_host[SW_MASQUE_HOST_MAX + 1],
                       uint16_t *ret_port, struct sw_err *err)
{
    SW_ARENA_AUTO tmp = {0};
    struct sw_slice rest = sw_slice_from(path, prefix.n);
    struct sw_slice host;
    struct sw_slice port;
    uint64_t v;

    if (!sw_slice_has_prefix(path, prefix))
        return sw_err_set(err, SW_EINVAL, "not a path of UDP proxying");
    host = sw_slice_cut(&rest, '/');
    port = rest.p ? sw_slice_cut(&rest, '/') : sw_slice(NULL, 0);
    if (!rest.p || rest.n)
        return sw_err_set(err, SW_EINVAL, "the path is not '{host}/{port}/'");
    if (host.n == 0 || host.n > (size_t)3 * SW_MASQUE_HOST_MAX ||
        sw_percent_decode(&tmp, host, false, &host, err) != SW_OK || host.n > SW_MASQUE_HOST_MAX ||
        !host_ok(host))
        return sw_err_set(err, SW_EINVAL, "the host of the path is none");
    if (!sw_slice_to_u64(port, 65535, &v) || v == 0)
        return sw_err_set(err, SW_EINVAL, "the port of the path is none");
    memcpy(ret_host, host.p, host.n);
    ret_host[host.n] = 0;
    *ret_port = (uint16_t)v;
    return SW_OK;
}

int sw_masque_put_udp_path(struct sw_buf *out, struct sw_slice host, uint16_t port)
{
    int rc = sw_buf_append_slice(out, prefix);

    if (rc == SW_OK)
        rc = sw_percent_encode(out, host);
    return rc == SW_OK ? sw_buf_printf(out, "/%u/", port) : rc;
}
