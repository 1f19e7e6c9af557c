/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record opener behind a fixed hand-over. The input is a script for a peer that holds the right
 * keys: first byte role and algorithm, then steps of one kind byte, two length bytes and a body. A
 * step either seals the body as a record of a chosen inner type with padding, or delivers it raw.
 */
#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "tls/record.h"
#include "tls/tls.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { RAW = 0x80, WIRE_MAX = SW_TLS_RECORD_MAX + 1024 };

static void start(struct sw_record *r, bool server, enum sw_aead_alg alg)
{
    static const uint8_t a[48] = {1};
    static const uint8_t b[48] = {2};

    sw_record_init(r, &(struct sw_record_keys){.alg = alg,
                                               .server = server,
                                               .secret_len = alg == SW_AEAD_AES_256_GCM ? 48 : 32,
                                               .max_plain = SW_TLS_PLAIN_MAX,
                                               .rx_secret = server ? a : b,
                                               .tx_secret = server ? b : a});
}

/* Whatever was received, our own direction stays sound: what we seal, the other end can open. */
static void check_sending(struct sw_record *r, struct sw_record *peer)
{
    uint8_t plain[6] = "hello";
    uint8_t wire[SW_TLS_SEAL_ROOM(5)];
    struct sw_slice got = {0};
    size_t len = sw_record_seal(r, plain, 5, wire);
    size_t used = 0;

    assert((len == 0) == (r->dead || r->tx_closed));
    for (size_t at = 0; at < len; at += used) {
        int rc = sw_record_open(peer, wire + at, len - at, &used, &got, NULL);

        assert(rc == SW_OK && used > 0);
        peer->ku_count = 0;
    }
    assert(len == 0 || sw_slice_eq_str(got, "hello"));
}

static void step(struct sw_record *r, struct sw_record *peer, uint8_t kind, const uint8_t *body,
                 size_t n, uint8_t *wire)
{
    bool fresh = r->hs_head_n == 0 && !r->rx_closed;
    struct sw_slice plain = {0};
    size_t used = 1;
    size_t len;
    int rc;

    peer->tx = r->rx; /* in step, key updates included */
    if (kind & RAW) {
        len = n;
        memcpy(wire, body, n);
    } else {
        len = sw_record_seal_raw(peer, (uint8_t)(kind & 31), body, n, (kind & 0x60) * 2u, wire);
    }
    /* A cut record changes nothing. */
    if (!(kind & RAW) && !r->rx_closed)
        assert(sw_record_open(r, wire, len - 1, &used, &plain, NULL) == SW_EAGAIN && used == 0);
    rc = sw_record_open(r, wire, len, &used, &plain, NULL);
    assert(used <= len && plain.n <= SW_TLS_PLAIN_MAX);
    assert(plain.n == 0 || rc == SW_OK);
    if (rc == SW_OK && !(kind & RAW)) {
        assert(used == len);
        if ((kind & 31) == 23 && fresh && n > 0 && body[n - 1] != 0)
            assert(plain.n == n && memcmp(plain.p, body, n) == 0);
    }
    if (rc != SW_OK && rc != SW_EOF && rc != SW_EAGAIN) {
        uint8_t out[SW_TLS_CTRL_ROOM];

        assert(r->dead && sw_record_seal(r, wire, 1, out) == 0);
        (void)sw_record_alert(r, NULL, out);
        assert(sw_record_alert(r, NULL, out) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct sw_record r;
    struct sw_record peer;
    uint8_t *wire;
    size_t at = 1;

    if (n < 1)
        return 0;
    start(&r, data[0] & 1, (enum sw_aead_alg)((data[0] >> 1) % 3));
    start(&peer, !(data[0] & 1), (enum sw_aead_alg)((data[0] >> 1) % 3));
    wire = sw_malloc(WIRE_MAX);
    while (at + 3 <= n && !r.dead) {
        size_t len = (size_t)(data[at + 1] << 8 | data[at + 2]);

        len = sw_min(sw_min(len, n - at - 3), SW_TLS_PLAIN_MAX);
        step(&r, &peer, data[at], data + at + 3, len, wire);
        at += 3 + len;
        check_sending(&r, &peer);
    }
    sw_free(wire);
    sw_record_done(&r);
    sw_record_done(&peer);
    return 0;
}
