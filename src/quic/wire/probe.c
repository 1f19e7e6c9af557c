/* SPDX-License-Identifier: Apache-2.0 */
#include "quic/wire/probe.h"

#include <string.h>

#include "tls/crypto/hmac.h"

enum {
    VERSION = 1,
    AT_TAG = 2,
    AT_TX = AT_TAG + PROBE_TAG,
    AT_FAMILY = AT_TX + PROBE_TX,
    AT_PORT = AT_FAMILY + 2, /* a zero byte between */
    AT_IP = AT_PORT + 2,
    AT_MAC = AT_IP + 16,
    MAC_LEN = PROBE_LEN - AT_MAC,

    REACH_VERSION = 8,
    REACH_FLAGS = 9,
    REACH_TAG = 10,
    REACH_KEY = REACH_TAG + PROBE_TAG,
    REACH_SEQ = REACH_KEY + PROBE_KEY,
    REACH_ACK = REACH_SEQ + 4,
    REACH_COUNT = REACH_ACK + 4,
    REACH_ADDRS = REACH_COUNT + 1,

    FLAG_WANT = 1,
    FLAG_VARIES4 = 2,
    FLAG_VARIES6 = 4,
    FLAGS = FLAG_WANT | FLAG_VARIES4 | FLAG_VARIES6,
};

_Static_assert(MAC_LEN == 16, "half a SHA-256");

/* ---- datagrams beside QUIC ---- */

static void mac(const uint8_t *p, const uint8_t key[PROBE_KEY], uint8_t ret[SW_HMAC_SHA256])
{
    struct sw_slice part = sw_slice(p, AT_MAC);

    sw_hmac_sha256(sw_slice(key, PROBE_KEY), &part, 1, ret);
}

/* Some routers replace what looks like an inner address; masked it looks like nothing. */
static void mask(uint8_t *p)
{
    for (size_t i = 0; i < 18; i++)
        p[AT_PORT + i] ^= p[AT_TX + i % PROBE_TX];
}

void sw_probe_write(const struct sw_probe *m, const uint8_t key[PROBE_KEY], uint8_t ret[PROBE_LEN])
{
    uint8_t sum[SW_HMAC_SHA256];

    memset(ret, 0, PROBE_LEN);
    ret[0] = (uint8_t)m->kind;
    ret[1] = VERSION;
    memcpy(ret + AT_TAG, m->tag, PROBE_TAG);
    memcpy(ret + AT_TX, m->tx, PROBE_TX);
    ret[AT_FAMILY] = (uint8_t)m->seen.ip.family;
    ret[AT_PORT] = (uint8_t)(m->seen.port >> 8);
    ret[AT_PORT + 1] = (uint8_t)m->seen.port;
    memcpy(ret + AT_IP, m->seen.ip.b, sw_ip_len(&m->seen.ip));
    mask(ret);
    mac(ret, key, sum);
    memcpy(ret + AT_MAC, sum, MAC_LEN);
}

static bool read_seen(const uint8_t *p, struct sw_addr *ret)
{
    uint8_t b[PROBE_LEN];
    size_t n = p[AT_FAMILY] == 4 ? 4 : 16;

    memcpy(b, p, PROBE_LEN);
    mask(b);
    ret->port = (uint16_t)(b[AT_PORT] << 8 | b[AT_PORT + 1]);
    for (size_t i = n; i < 16; i++)
        if (b[AT_IP + i])
            return false;
    return ret->port && (b[AT_FAMILY] == 4 || b[AT_FAMILY] == 6) &&
           sw_ip_from_bytes(b + AT_IP, n, &ret->ip, NULL) == SW_OK &&
           ret->ip.family == b[AT_FAMILY];
}

int sw_probe_read(const uint8_t *p, size_t n, struct sw_probe *ret, struct sw_err *err)
{
    struct sw_probe m = {0};
    bool answer;

    if (!sw_probe_is(p, n))
        return sw_err_set(err, SW_EINVAL, "unknown kind or length (%zu) of a probe", n);
    if (p[1] != VERSION || p[AT_FAMILY + 1])
        return sw_err_set(err, SW_EINVAL, "unknown version of a probe");
    m.kind = (enum sw_probe_kind)p[0];
    memcpy(m.tag, p + AT_TAG, PROBE_TAG);
    memcpy(m.tx, p + AT_TX, PROBE_TX);
    answer = m.kind == SW_PROBE_TOLD || m.kind == SW_PROBE_PONG;
    if (answer ? !read_seen(p, &m.seen) : p[AT_FAMILY] != 0)
        return sw_err_set(err, SW_EINVAL, "a probe's address is none");
    *ret = m;
    return SW_OK;
}

bool sw_probe_genuine(const uint8_t *p, const uint8_t key[PROBE_KEY])
{
    uint8_t sum[SW_HMAC_SHA256];

    mac(p, key, sum);
    return sw_secret_eq(sum, p + AT_MAC, MAC_LEN);
}

void sw_probe_ask_key(const struct sw_nodeid *to, uint8_t ret[PROBE_KEY])
{
    struct sw_slice part = sw_slice(to->b, SW_NODEID_LEN);

    sw_hmac_sha256(SW_SLICE_LIT("spanwire ask"), &part, 1, ret);
}

/* ---- inside a connection ---- */

static void put_u32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (24 - 8 * i));
}

static uint32_t get_u32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

bool sw_reach_is(const uint8_t *p, size_t n)
{
    static const uint8_t prefix[REACH_VERSION] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

    return n > sizeof(prefix) && memcmp(p, prefix, sizeof(prefix)) == 0;
}

size_t sw_reach_write(const struct sw_reach *m, uint8_t ret[REACH_MAX])
{
    size_t at = REACH_ADDRS;

    memset(ret, 0xff, REACH_VERSION);
    ret[REACH_VERSION] = VERSION;
    ret[REACH_FLAGS] = (uint8_t)((m->want ? FLAG_WANT : 0) | (m->varies[0] ? FLAG_VARIES4 : 0) |
                                 (m->varies[1] ? FLAG_VARIES6 : 0));
    memcpy(ret + REACH_TAG, m->tag, PROBE_TAG);
    memcpy(ret + REACH_KEY, m->key, PROBE_KEY);
    put_u32(ret + REACH_SEQ, m->seq);
    put_u32(ret + REACH_ACK, m->ack);
    ret[REACH_COUNT] = (uint8_t)m->n;
    for (size_t i = 0; i < m->n; i++) {
        const struct sw_addr *a = &m->addrs[i];
        size_t n = sw_ip_len(&a->ip);

        ret[at] = (uint8_t)a->ip.family;
        memcpy(ret + at + 1, a->ip.b, n);
        ret[at + 1 + n] = (uint8_t)(a->port >> 8);
        ret[at + 2 + n] = (uint8_t)a->port;
        at += n + 3;
    }
    return at;
}

/* One address at p; its length, 0: it is none. */
static size_t read_addr(const uint8_t *p, size_t n, struct sw_addr *ret)
{
    size_t len = n && p[0] == 4 ? 4 : 16;

    if (n < len + 3 || (p[0] != 4 && p[0] != 6) ||
        sw_ip_from_bytes(p + 1, len, &ret->ip, NULL) != SW_OK || ret->ip.family != p[0])
        return 0;
    ret->port = (uint16_t)(p[1 + len] << 8 | p[2 + len]);
    return ret->port ? len + 3 : 0;
}

int sw_reach_read(const uint8_t *p, size_t n, struct sw_reach *ret, struct sw_err *err)
{
    struct sw_reach m = {0};
    size_t at = REACH_ADDRS;

    if (!sw_reach_is(p, n) || n < REACH_ADDRS)
        return sw_err_set(err, SW_EINVAL, "a list of addresses of %zu bytes", n);
    if (p[REACH_VERSION] != VERSION || (p[REACH_FLAGS] & ~FLAGS))
        return sw_err_set(err, SW_EINVAL, "unknown version or flags of a list of addresses");
    m.want = p[REACH_FLAGS] & FLAG_WANT;
    m.varies[0] = p[REACH_FLAGS] & FLAG_VARIES4;
    m.varies[1] = p[REACH_FLAGS] & FLAG_VARIES6;
    memcpy(m.tag, p + REACH_TAG, PROBE_TAG);
    memcpy(m.key, p + REACH_KEY, PROBE_KEY);
    m.seq = get_u32(p + REACH_SEQ);
    m.ack = get_u32(p + REACH_ACK);
    m.n = p[REACH_COUNT];
    if (m.seq == 0 || m.n > SW_QUIC_ADDRS_MAX)
        return sw_err_set(err, SW_EINVAL, "a list of %zu addresses, number %u", m.n, m.seq);
    for (size_t i = 0; i < m.n; i++) {
        size_t k = read_addr(p + at, n - at, &m.addrs[i]);

        if (k == 0) {
            (void)sw_err_set(err, SW_EINVAL, "address %zu of a list is none", i);
            if (err)
                err->offset = at;
            return SW_EINVAL;
        }
        at += k;
    }
    if (at != n)
        return sw_err_set(err, SW_EINVAL, "%zu bytes behind a list of addresses", n - at);
    *ret = m;
    return SW_OK;
}
