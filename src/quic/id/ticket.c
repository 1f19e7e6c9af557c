/* SPDX-License-Identifier: Apache-2.0 */
/* Tickets: iroh's "endpoint" kind, postcard inside base32 (lengths and ports are LEB128). */
#include "quic/id/ticket.h"

#include "base/buf.h"
#include "base/utf8.h"
#include "quic/id/addrs.h"
#include "quic/id/base32.h"

enum {
    TICKET_TEXT_MAX = 8192, /* more than any address list we accept needs */
    TICKET_ADDRS_MAX = 256, /* listed, not kept */
    RELAY_URL_MAX = 2048,
    ADDR_RELAY = 0,
    ADDR_IP = 1,
    ADDR_CUSTOM = 2,
};

static const struct sw_slice kind = {"endpoint", 8};

/* ---- writing ---- */

static void put(struct sw_buf *b, const void *p, size_t n)
{
    /* The buffer is made large enough for the largest target. */
    (void)!sw_buf_append(b, p, n);
}

static void put_leb(struct sw_buf *b, uint64_t v)
{
    do {
        uint8_t c = (uint8_t)((v & 127) | (v > 127 ? 128 : 0));

        put(b, &c, 1);
        v >>= 7;
    } while (v);
}

struct sw_slice sw_ticket_write(struct sw_arena *a, const struct sw_quic_target *t)
{
    struct sw_addr addrs[SW_QUIC_ADDRS_MAX];
    size_t n_addrs = sw_addr_sort(t->addrs, t->n_addrs, addrs);
    bool relay = t->relay.n > 0 && t->relay.n <= RELAY_URL_MAX;
    SW_BUF_AUTO b = {.max = RELAY_URL_MAX + 64 + SW_QUIC_ADDRS_MAX * 24};
    char *text;
    size_t n;

    put_leb(&b, 0);
    put(&b, t->id.b, SW_NODEID_LEN);
    put_leb(&b, n_addrs + relay);
    if (relay) {
        put_leb(&b, ADDR_RELAY);
        put_leb(&b, t->relay.n);
        put(&b, t->relay.p, t->relay.n);
    }
    for (size_t i = 0; i < n_addrs; i++) {
        put_leb(&b, ADDR_IP);
        put_leb(&b, addrs[i].ip.family == 6);
        put(&b, addrs[i].ip.b, sw_ip_len(&addrs[i].ip));
        put_leb(&b, addrs[i].port);
    }
    n = kind.n + (8 * sw_buf_len(&b) + 4) / 5;
    text = sw_arena_alloc(a, n + 1);
    memcpy(text, kind.p, kind.n);
    sw_base32_write(sw_base32_rfc4648, (const uint8_t *)sw_buf_data(&b), sw_buf_len(&b),
                    text + kind.n);
    return sw_slice(text, n);
}

/* ---- reading ---- */

struct cursor {
    const uint8_t *p;
    const uint8_t *end;
    bool bad; /* something was missing or out of range: everything read since is zero */
};

static const uint8_t *get(struct cursor *c, uint64_t n)
{
    const uint8_t *p = c->p;

    if (c->bad || n > (uint64_t)(c->end - c->p)) {
        c->bad = true;
        return NULL;
    }
    c->p += n;
    return p;
}

static uint64_t get_leb(struct cursor *c, uint64_t max)
{
    uint64_t v = 0;

    for (unsigned shift = 0; shift < 64; shift += 7) {
        const uint8_t *p = get(c, 1);

        if (!p)
            return 0;
        v |= (uint64_t)(*p & 127) << shift;
        if (*p & 128)
            continue;
        if (v > max || (shift == 63 && *p > 1))
            break;
        return v;
    }
    c->bad = true;
    return 0;
}

static void read_ip(struct cursor *c, struct sw_addr *out, struct sw_quic_target *t)
{
    size_t len = get_leb(c, 1) ? 16 : 4;
    const uint8_t *ip = get(c, len);
    uint16_t port = (uint16_t)get_leb(c, UINT16_MAX);

    if (c->bad || t->n_addrs >= SW_QUIC_ADDRS_MAX || port == 0)
        return;
    if (sw_ip_from_bytes(ip, len, &out[t->n_addrs].ip, NULL) != SW_OK)
        return;
    out[t->n_addrs++].port = port;
}

static void read_addr(struct cursor *c, struct sw_arena *a, struct sw_addr *out,
                      struct sw_quic_target *t)
{
    uint64_t tag = get_leb(c, ADDR_CUSTOM);
    const uint8_t *p;
    uint64_t n;

    if (tag == ADDR_IP) {
        read_ip(c, out, t);
        return;
    }
    if (tag == ADDR_CUSTOM)
        (void)get_leb(c, UINT64_MAX);
    n = get_leb(c, RELAY_URL_MAX);
    p = get(c, n);
    if (p && tag == ADDR_RELAY && t->relay.n == 0 && sw_utf8_valid(sw_slice(p, n)))
        t->relay = sw_arena_slice(a, sw_slice(p, n));
}

int sw_ticket_parse(struct sw_arena *a, struct sw_slice in, struct sw_quic_target *ret,
                    struct sw_err *err)
{
    struct sw_slice text = sw_slice_from(in, kind.n);
    struct sw_quic_target t = {0};
    struct sw_addr *addrs;
    struct cursor c;
    const uint8_t *id;
    uint8_t *bytes;
    uint64_t n;

    if (in.n > TICKET_TEXT_MAX)
        return sw_err_set(err, SW_ELIMIT, "the ticket is longer than %d", TICKET_TEXT_MAX);
    if (!sw_slice_ieq(sw_slice_head(in, kind.n), kind))
        return sw_err_set(err, SW_EINVAL, "not an endpoint ticket");
    bytes = sw_arena_alloc(a, text.n + 1);
    if (!sw_base32_read(sw_base32_rfc4648, true, text, bytes))
        return sw_err_set(err, SW_EINVAL, "the ticket is not base32");
    c = (struct cursor){.p = bytes, .end = bytes + text.n * 5 / 8};
    addrs = sw_arena_array(a, SW_QUIC_ADDRS_MAX, sizeof(*addrs));
    t.addrs = addrs;
    (void)get_leb(&c, 0);
    id = get(&c, SW_NODEID_LEN);
    n = get_leb(&c, TICKET_ADDRS_MAX);
    for (uint64_t i = 0; i < n && !c.bad; i++)
        read_addr(&c, a, addrs, &t);
    if (c.bad || !id || c.p != c.end)
        return sw_err_set(err, SW_EINVAL, "the ticket is broken");
    memcpy(t.id.b, id, SW_NODEID_LEN);
    if (!sw_nodeid_valid(&t.id))
        return sw_err_set(err, SW_EINVAL, "the ticket's NodeID is not a valid Ed25519 key");
    *ret = t;
    return SW_OK;
}
