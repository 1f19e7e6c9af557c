/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Datagrams of strangers, fed to an endpoint: the first byte says under which load and by which
 * way, two bytes cut the rest into datagrams as the kernel's GRO would. Nobody gets more than three
 * times what they sent, and what an endpoint keeps stays bounded.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "quic/conn.h"
#include "quic/endpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static struct sw_quic *endpoint(void)
{
    static const uint8_t seed[SW_SEED_LEN] = {7};
    static const struct sw_slice alpn = {"test/1", 6};
    struct sw_quic_config cfg = {.alpns = &alpn, .n_alpns = 1, .max_conns = 20};
    struct sw_quic *q;

    (void)!sw_log_filter(SW_SLICE_LIT("off"), true, NULL);
    cfg.key = sw_rawkey_from_seed(seed, NULL);
    (void)!sw_addr_parse(SW_SLICE_LIT("127.0.0.1:0"), &cfg.bind, NULL);
    q = sw_quic_new(sw_loop_new(NULL), &cfg, NULL);
    if (!q)
        abort();
    return q;
}

/* Connections that strangers began do not survive an input: the next one starts from the same. */
static void forget(struct sw_quic *q)
{
    SW_LIST_FOREACH (it, &q->conns) {
        struct sw_qconn *c = SW_CONTAINER_OF(it, struct sw_qconn, link);

        sw_qconn_fail(c, SW_QCLOSE_LOCAL, 0, "");
        c->end.quiet = true;
        sw_qconn_bury(c);
    }
    SW_LIST_FOREACH (it, &q->conn.graves)
        sw_qconn_free(SW_CONTAINER_OF(it, struct sw_qconn, link));
    q->limit.reset = (struct sw_qbucket){0};
    q->limit.version = (struct sw_qbucket){0};
    q->limit.refused = (struct sw_qbucket){0};
    q->limit.retry = (struct sw_qbucket){0};
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    static struct sw_quic *q;
    struct sw_qroute from = {.sock = 0};
    uint8_t *copy;
    size_t segment;
    uint64_t out;

    if (n < 4 || n > SW_DGRAM_MAX)
        return 0;
    if (!q)
        q = endpoint();
    (void)!sw_addr_parse(SW_SLICE_LIT("127.0.0.1:9"), &from.remote, NULL);
    q->cfg.max_half_open = p[0] & 1 ? 1 : 64;
    q->conn.half_open = p[0] & 1 ? 1 : 0;
    q->draining = (p[0] & 6) == 6;
    segment = (size_t)p[1] << 8 | p[2];
    p += 3;
    n -= 3;
    segment = segment ? segment : n;
    /* A copy of its exact size, so that a read past the end is seen. */
    out = q->stats.tx_bytes;
    for (size_t at = 0; at < n; at += segment) {
        size_t k = sw_min(segment, n - at);

        copy = sw_malloc(k);
        memcpy(copy, p + at, k);
        sw_quic_packet(q, &from, 0, copy, k);
        sw_free(copy);
    }
    sw_quic_turn(q);
    assert(q->stats.tx_bytes - out <= 3 * n);
    assert(q->conn.n_known <= q->cfg.max_conns && q->conn.n <= 16 * q->cfg.max_half_open + 1);
    forget(q);
    assert(q->conn.n == 0 && q->ids.cids.n == 0 && q->ids.tokens.n == 0);
    return 0;
}
