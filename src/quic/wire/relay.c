/* SPDX-License-Identifier: Apache-2.0 */
#include "quic/wire/relay.h"

#include <string.h>

#include "base/utf8.h"

static uint32_t load_be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void store_be32(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)(v >> 24);
    p[1] = (uint8_t)(v >> 16);
    p[2] = (uint8_t)(v >> 8);
    p[3] = (uint8_t)v;
}

enum { TO_RELAY = 1, TO_CLIENT = 2 };

/* Each frame type: which side may send it, and the minimum and maximum length of its body. */
static const struct {
    uint8_t way;
    uint8_t version; /* the only one that has it; 0: both */
    uint32_t min;
    uint32_t max;
} kinds[] = {
    [SW_RELAY_CHALLENGE] = {TO_CLIENT, 0, SW_RELAY_CHALLENGE_LEN, SW_RELAY_CHALLENGE_LEN},
    [SW_RELAY_AUTH] = {TO_RELAY, 0, SW_RELAY_AUTH_LEN - 1, SW_RELAY_AUTH_LEN - 1},
    [SW_RELAY_CONFIRMED] = {TO_CLIENT, 0, 0, 0},
    [SW_RELAY_DENIED] = {TO_CLIENT, 0, 1, SW_RELAY_MESSAGE_MAX - 1},
    [SW_RELAY_SEND] = {TO_RELAY, 0, SW_RELAY_DATAGRAM_HEAD - 1, SW_RELAY_MESSAGE_MAX - 1},
    [SW_RELAY_SEND_BATCH] = {TO_RELAY, 0, SW_RELAY_BATCH_HEAD - 1, SW_RELAY_MESSAGE_MAX - 1},
    [SW_RELAY_RECV] = {TO_CLIENT, 0, SW_RELAY_DATAGRAM_HEAD - 1, SW_RELAY_MESSAGE_MAX - 1},
    [SW_RELAY_RECV_BATCH] = {TO_CLIENT, 0, SW_RELAY_BATCH_HEAD - 1, SW_RELAY_MESSAGE_MAX - 1},
    [SW_RELAY_GONE] = {TO_CLIENT, 0, SW_NODEID_LEN, SW_NODEID_LEN},
    [SW_RELAY_PING] = {TO_RELAY | TO_CLIENT, 0, SW_RELAY_PING_LEN, SW_RELAY_PING_LEN},
    [SW_RELAY_PONG] = {TO_RELAY | TO_CLIENT, 0, SW_RELAY_PING_LEN, SW_RELAY_PING_LEN},
    [SW_RELAY_HEALTH] = {TO_CLIENT, SW_RELAY_V1, 0, SW_RELAY_MESSAGE_MAX - 1},
    [SW_RELAY_RESTARTING] = {TO_CLIENT, 0, 8, 8},
    [SW_RELAY_STATUS] = {TO_CLIENT, SW_RELAY_V2, 1, 1},
};

static int parse_denied(struct sw_relay_frame *f, struct sw_err *err)
{
    uint32_t len = 0;
    size_t at = 0;
    bool more = true;

    for (unsigned shift = 0; more; shift += 7) {
        if (at == f->n || shift > 14)
            return sw_err_set(err, SW_EPROTO, "length of a reason is cut off");
        len |= (uint32_t)(f->p[at] & 0x7f) << shift;
        more = f->p[at++] & 0x80;
    }
    if (len != f->n - at || !sw_utf8_valid(sw_slice(f->p + at, len)))
        return sw_err_set(err, SW_EPROTO, "reason is not as long as it says, or no text");
    f->p += at;
    f->n = len;
    return SW_OK;
}

static void take_id(struct sw_relay_frame *f)
{
    f->id = (const struct sw_nodeid *)(const void *)f->p;
    f->p += SW_NODEID_LEN;
    f->n -= SW_NODEID_LEN;
}

static void take_datagram(struct sw_relay_frame *f, bool batch)
{
    take_id(f);
    f->ecn = f->p[0] & 3;
    f->p++;
    f->n--;
    if (batch) {
        f->segment = (uint16_t)(f->p[0] << 8 | f->p[1]);
        f->p += 2;
        f->n -= 2;
    }
}

static int parse_body(struct sw_relay_frame *f, struct sw_err *err)
{
    switch (f->type) {
    case SW_RELAY_AUTH:
        take_id(f);
        /* A byte string in postcard: its length, then the bytes. */
        if (f->p[0] != SW_ED25519_SIG)
            return sw_err_set(err, SW_EPROTO, "signature of %u bytes", f->p[0]);
        f->p++;
        f->n--;
        return SW_OK;
    case SW_RELAY_DENIED:
        return parse_denied(f, err);
    case SW_RELAY_SEND:
    case SW_RELAY_RECV:
        take_datagram(f, false);
        return SW_OK;
    case SW_RELAY_SEND_BATCH:
    case SW_RELAY_RECV_BATCH:
        take_datagram(f, true);
        return SW_OK;
    case SW_RELAY_GONE:
        take_id(f);
        return SW_OK;
    case SW_RELAY_RESTARTING:
        f->reconnect_ms = load_be32(f->p);
        f->try_ms = load_be32(f->p + 4);
        return SW_OK;
    case SW_RELAY_STATUS:
        f->status = f->p[0];
        return SW_OK;
    case SW_RELAY_HEALTH:
        if (!sw_utf8_valid(sw_slice(f->p, f->n)))
            return sw_err_set(err, SW_EPROTO, "health is no text");
        return SW_OK;
    case SW_RELAY_CHALLENGE:
    case SW_RELAY_CONFIRMED:
    case SW_RELAY_PING:
    case SW_RELAY_PONG:
        return SW_OK;
    }
    return SW_OK;
}

int sw_relay_parse(uint8_t *p, size_t n, bool to_relay, unsigned version,
                   struct sw_relay_frame *ret, struct sw_err *err)
{
    struct sw_relay_frame f = {0};
    unsigned type;
    int rc;

    if (n == 0)
        return sw_err_set(err, SW_EPROTO, "empty message");
    /* The type is a QUIC varint, but no type needs the longer forms. */
    type = p[0];
    if (type >= SW_ARRAY_LEN(kinds))
        return sw_err_set(err, SW_EPROTO, "unknown message type %u", type);
    if (!(kinds[type].way & (to_relay ? TO_RELAY : TO_CLIENT)))
        return sw_err_set(err, SW_EPROTO, "message type %u in the wrong direction", type);
    if (kinds[type].version && kinds[type].version != version)
        return sw_err_set(err, SW_EPROTO, "message type %u in version %u", type, version);
    f.type = (enum sw_relay_type)type;
    f.p = p + 1;
    f.n = n - 1;
    if (f.n < kinds[type].min || f.n > kinds[type].max)
        return sw_err_set(err, SW_EPROTO, "message type %u of %zu bytes", type, f.n);
    rc = parse_body(&f, err);
    if (rc == SW_OK)
        *ret = f;
    return rc;
}

size_t sw_relay_put_datagram(uint8_t out[SW_RELAY_BATCH_HEAD], enum sw_relay_type type,
                             const struct sw_nodeid *id, uint8_t ecn, uint16_t segment)
{
    out[0] = (uint8_t)type;
    memcpy(out + 1, id->b, SW_NODEID_LEN);
    out[1 + SW_NODEID_LEN] = ecn;
    if (type != SW_RELAY_SEND_BATCH && type != SW_RELAY_RECV_BATCH)
        return SW_RELAY_DATAGRAM_HEAD;
    out[SW_RELAY_DATAGRAM_HEAD] = (uint8_t)(segment >> 8);
    out[SW_RELAY_DATAGRAM_HEAD + 1] = (uint8_t)segment;
    return SW_RELAY_BATCH_HEAD;
}

size_t sw_relay_put_auth(uint8_t out[SW_RELAY_AUTH_LEN], const struct sw_nodeid *id,
                         const uint8_t sig[SW_ED25519_SIG])
{
    out[0] = SW_RELAY_AUTH;
    memcpy(out + 1, id->b, SW_NODEID_LEN);
    out[1 + SW_NODEID_LEN] = SW_ED25519_SIG;
    memcpy(out + 2 + SW_NODEID_LEN, sig, SW_ED25519_SIG);
    return SW_RELAY_AUTH_LEN;
}

size_t sw_relay_put_denied(uint8_t out[2 + SW_RELAY_REASON_MAX], const char *reason)
{
    struct sw_slice text = sw_slice_head(sw_slice_str(reason), SW_RELAY_REASON_MAX);

    out[0] = SW_RELAY_DENIED;
    out[1] = (uint8_t)text.n; /* one byte of LEB128 is enough up to 127 */
    if (text.n)
        memcpy(out + 2, text.p, text.n);
    return 2 + text.n;
}

size_t sw_relay_put_restarting(uint8_t out[9], uint32_t reconnect_ms, uint32_t try_ms)
{
    out[0] = SW_RELAY_RESTARTING;
    store_be32(out + 1, reconnect_ms);
    store_be32(out + 5, try_ms);
    return 9;
}
