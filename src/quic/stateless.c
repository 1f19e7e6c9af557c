/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets that belong to no connection. Nothing is remembered about their senders: answers are
 * smaller than the question or limited in rate, and a Retry makes a client prove its address before
 * it costs us a connection.
 */
#include <netinet/in.h>
#include <ngtcp2/ngtcp2.h>
#include <ngtcp2/ngtcp2_crypto.h>

#include "base/log.h"
#include "base/rand.h"
#include "base/time.h"
#include "quic/cid.h"
#include "quic/conn.h"
#include "quic/path_int.h"
#include "quic/send.h"
#include "quic/stateless.h"

enum {
    RESETS_PER_SECOND = 50,
    VERSIONS_PER_SECOND = 50,
    REFUSALS_PER_SECOND = 50,
    RETRIES_PER_SECOND = 2000,
    FLOOD_LINES_PER_SECOND = 1,
    HALF_OPEN_FACTOR = 8, /* proved addresses may have that many handshakes more */
};

#define RETRY_LIFETIME_NS (10 * SW_NS_PER_S)

void sw_quic_reset_token(const struct sw_quic *q, const uint8_t *cid, size_t n, uint8_t ret[16])
{
    ngtcp2_cid id;

    ngtcp2_cid_init(&id, cid, n);
    if (ngtcp2_crypto_generate_stateless_reset_token(ret, q->secret, sizeof(q->secret), &id) != 0)
        sw_rand_bytes(ret, 16);
}

static void answer(struct sw_quic *q, const struct sw_qroute *to, ngtcp2_ssize n)
{
    if (n > 0)
        (void)sw_qroute_send(q, to, 0, q->scratch.tx, (size_t)n, (size_t)n);
}

/* Shorter than what caused it (RFC 9000, 10.3.3), so that two that answer each other stop. */
static void send_reset(struct sw_quic *q, const struct sw_qroute *to, const uint8_t *p, size_t n)
{
    enum { LONGEST = 43 };
    uint8_t token[NGTCP2_STATELESS_RESET_TOKENLEN];
    uint8_t rnd[LONGEST];
    size_t len = sw_min(n - 1, LONGEST);

    if (n < 1 + QUIC_CID_LEN ||
        len < NGTCP2_MIN_STATELESS_RESET_RANDLEN + NGTCP2_STATELESS_RESET_TOKENLEN)
        return;
    if (!sw_qbucket_take(&q->limit.reset, sw_quic_now(q), RESETS_PER_SECOND))
        return;
    sw_quic_reset_token(q, p + 1, QUIC_CID_LEN, token);
    sw_rand_bytes(rnd, sizeof(rnd));
    answer(q, to,
           ngtcp2_pkt_write_stateless_reset(q->scratch.tx, len, token, rnd, len - sizeof(token)));
}

static void send_version(struct sw_quic *q, const struct sw_qroute *to,
                         const ngtcp2_version_cid *vc)
{
    static const uint32_t versions[] = {NGTCP2_PROTO_VER_V1};

    if (!sw_qbucket_take(&q->limit.version, sw_quic_now(q), VERSIONS_PER_SECOND))
        return;
    answer(q, to,
           ngtcp2_pkt_write_version_negotiation(q->scratch.tx, QUIC_MTU, (uint8_t)sw_rand_u64(),
                                                vc->scid, vc->scidlen, vc->dcid, vc->dcidlen,
                                                versions, SW_ARRAY_LEN(versions)));
}

static void send_refused(struct sw_quic *q, const struct sw_qroute *to, const ngtcp2_pkt_hd *hd,
                         const char *why)
{
    q->stats.refused++;
    if (!sw_qbucket_take(&q->limit.refused, sw_quic_now(q), REFUSALS_PER_SECOND))
        return;
    sw_log_limited(&q->limit.refused_lines, sw_quic_now(q), SW_LOG_INFO, "quic",
                   "refused a connection: %s", why);
    answer(q, to,
           ngtcp2_crypto_write_connection_close(q->scratch.tx, QUIC_MTU, hd->version, &hd->scid,
                                                &hd->dcid, NGTCP2_CONNECTION_REFUSED, NULL, 0));
}

/* ---- proof of address ---- */

/* What a token is bound to: the sender's address, or its key when it comes by relay. */
static socklen_t sender(const struct sw_qroute *r, struct sockaddr_storage *ss)
{
    struct sockaddr_in6 sa = {.sin6_family = AF_INET6};

    if (!r->relay)
        return sw_addr_to_sockaddr(&r->remote, ss);
    memcpy(&sa.sin6_addr, r->node.b, sizeof(sa.sin6_addr));
    memset(ss, 0, sizeof(*ss));
    memcpy(ss, &sa, sizeof(sa));
    return sizeof(sa);
}

static void send_retry(struct sw_quic *q, const struct sw_qroute *to, const ngtcp2_pkt_hd *hd)
{
    uint8_t token[NGTCP2_CRYPTO_MAX_RETRY_TOKENLEN];
    struct sockaddr_storage ss;
    socklen_t len = sender(to, &ss);
    ngtcp2_cid scid = {.datalen = QUIC_CID_MAX};
    ngtcp2_ssize n;

    if (!sw_qbucket_take(&q->limit.retry, sw_quic_now(q), RETRIES_PER_SECOND))
        return;
    /* Longer than the IDs of connections, so that it can never be taken for one. */
    sw_rand_bytes(scid.data, scid.datalen);
    n = ngtcp2_crypto_generate_retry_token(token, q->secret, sizeof(q->secret), hd->version,
                                           (const struct sockaddr *)&ss, len, &scid, &hd->dcid,
                                           sw_quic_now(q));
    if (n < 0)
        return;
    q->stats.retries++;
    answer(q, to,
           ngtcp2_crypto_write_retry(q->scratch.tx, QUIC_MTU, hd->version, &hd->scid, &scid,
                                     &hd->dcid, token, (size_t)n));
}

static bool token_ok(struct sw_quic *q, const struct sw_qroute *from, const ngtcp2_pkt_hd *hd,
                     ngtcp2_cid *odcid)
{
    struct sockaddr_storage ss;
    socklen_t len = sender(from, &ss);

    return ngtcp2_crypto_verify_retry_token(odcid, hd->token.base, hd->token.len, q->secret,
                                            sizeof(q->secret), hd->version,
                                            (const struct sockaddr *)&ss, len, &hd->dcid,
                                            RETRY_LIFETIME_NS, sw_quic_now(q)) == 0;
}

/* ---- new connections ---- */

static void welcome(struct sw_quic *q, const struct sw_qroute *from, uint8_t ecn, uint8_t *p,
                    size_t n, const ngtcp2_pkt_hd *hd)
{
    ngtcp2_cid odcid = hd->dcid;
    bool retried = hd->token.len > 0 && hd->token.base[0] == NGTCP2_CRYPTO_TOKEN_MAGIC_RETRY;
    struct sw_qaccept a = {.now_dcid = hd->dcid.data,
                           .now_dcid_len = hd->dcid.datalen,
                           .scid = hd->scid.data,
                           .scid_len = hd->scid.datalen};
    size_t under_way = q->conn.half_open + q->conn.n_failures;
    struct sw_qconn *c;

    /* A copy for another address of ours, or an old one: a good one may follow. */
    if (retried && !token_ok(q, from, hd, &odcid)) {
        q->stats.rx_dropped++;
        return;
    }
    if (!retried && under_way >= q->cfg.max_half_open) {
        if (sw_qbucket_take(&q->limit.flood, sw_quic_now(q), FLOOD_LINES_PER_SECOND))
            sw_log_info("quic", "%zu handshakes in progress: requiring address validation (Retry)",
                        under_way);
        send_retry(q, from, hd);
        return;
    }
    /* Genuine handshakes are short: evict the connection that has taken the longest. */
    if (under_way >= q->cfg.max_half_open * HALF_OPEN_FACTOR) {
        q->stats.rx_dropped++;
        if (!sw_qconn_drop_half_open(q))
            return;
    }
    a.retried = retried;
    a.token = hd->token.base;
    a.token_len = hd->token.len;
    a.dcid = odcid.data;
    a.dcid_len = odcid.datalen;
    c = sw_qconn_accept(q, &a, from);
    if (c)
        sw_qconn_read(c, from, ecn, p, n);
}

static void long_packet(struct sw_quic *q, const struct sw_qroute *from, uint8_t ecn, uint8_t *p,
                        size_t n, bool waited)
{
    ngtcp2_version_cid vc;
    ngtcp2_pkt_hd hd;
    int rc = ngtcp2_pkt_decode_version_cid(&vc, p, n, QUIC_CID_LEN);

    /* No amplification: a packet must be at least as large as the answer to it. */
    if (n < NGTCP2_MAX_UDP_PAYLOAD_SIZE || q->cfg.n_alpns == 0)
        goto drop;
    if ((rc == 0 || rc == NGTCP2_ERR_VERSION_NEGOTIATION) && vc.version != 0 &&
        vc.version != NGTCP2_PROTO_VER_V1) {
        send_version(q, from, &vc);
        return;
    }
    if (rc != 0 || ngtcp2_accept(&hd, p, n) != 0)
        goto drop;
    if (from->relay && !waited && sw_qrelay_hold(q, from, ecn, p, n))
        return;
    if (!from->relay)
        sw_qrelay_unhold(q, hd.dcid.data, hd.dcid.datalen);
    if (q->draining)
        send_refused(q, from, &hd, "draining");
    else if (q->conn.n_known >= q->cfg.max_conns)
        send_refused(q, from, &hd, "too many connections");
    else
        welcome(q, from, ecn, p, n, &hd);
    return;
drop:
    q->stats.rx_dropped++;
}

void sw_quic_stranger(struct sw_quic *q, const struct sw_qroute *from, uint8_t ecn, uint8_t *p,
                      size_t n, bool waited)
{
    struct sw_qconn *c;

    if (p[0] & 0x80) {
        long_packet(q, from, ecn, p, n, waited);
        return;
    }
    if (n >= NGTCP2_MIN_STATELESS_RESET_RANDLEN + QUIC_TOKEN) {
        c = sw_qcid_find_token(q, p + n - QUIC_TOKEN);
        /* Of one that dialled: by the way it is on only, see sw_qpath_enter. */
        if (c && c->nc && (!c->dial || sw_qpath_of(c, from, false))) {
            sw_qconn_read(c, from, ecn, p, n);
            return;
        }
    }
    q->stats.rx_dropped++;
    send_reset(q, from, p, n);
}
