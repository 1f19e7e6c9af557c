/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server of address discovery: sockets, connections by their IDs, and the limits against
 * exhaustion: a bound on connections, a rate per address, and a Retry when many handshakes are
 * under way, so that only the owner of an address can use up its rate.
 */
#include <ngtcp2/ngtcp2.h>
#include <ngtcp2/ngtcp2_crypto.h>
#include <string.h>

#include "base/hash.h"
#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/rate.h"
#include "base/time.h"
#include "io/dgram.h"
#include "io/sock.h"
#include "quic/qad/qad_int.h"
#include "tls/cert/cred.h"

enum {
    SOCKETS = 2,
    SECRET = 32,
    BATCHES = 4,
    ACCOUNTS = 4096, /* per kind; addresses that meet in one share it */
    BURST_S = 5,     /* seconds' worth an address may spend at once */
    HALF_OPEN_FACTOR = 8,
    ANSWERS_PER_SECOND = 2000, /* without a connection: Retry, version, refusal */
    SOCKET_BUFFER = 1 << 20,
};

#define RETRY_LIFETIME_NS (10 * SW_NS_PER_S)

struct cid {
    struct sw_list link;
    struct qad_conn *conn; /* borrowed */
    uint8_t len;
    uint8_t b[NGTCP2_MAX_CIDLEN];
};

struct qad_conn {
    struct sw_qadc c;
    struct sw_qad_server *s;
    struct sw_list link; /* s->conns */
    struct sw_list cids;
    int sock;
    bool counted;          /* as half open */
    bool reported;         /* established */
    uint32_t reported_seq; /* report that was counted */
};

struct sock {
    struct sw_watch watch;
    struct sw_qad_server *s;
    int fd;
    int mark;
    uint16_t port;
};

struct sw_qad_server {
    struct sw_loop *loop;
    struct sw_qad_server_config cfg;
    struct sw_tls_cred *cred; /* a reference; NULL: none yet */
    struct sock socks[SOCKETS];
    size_t n_socks;
    struct sw_map cids;
    struct sw_list conns; /* oldest first */
    size_t n_conns;
    size_t n_half;
    struct sw_rate answers;
    struct sw_rate unproved[ACCOUNTS];
    struct sw_rate proved[ACCOUNTS];
    uint8_t secret[SECRET]; /* of Retry tokens */
    uint8_t *rx;            /* owned: SW_DGRAM_BATCH buffers */
};

static void report(const struct sw_qad_server *s, enum sw_qad_event e, const char *why)
{
    if (s->cfg.event)
        s->cfg.event(s->cfg.arg, e, why);
}

/* ---- connections ---- */

static void drop_cid(struct sw_qad_server *s, struct cid *id)
{
    (void)sw_map_del(&s->cids, sw_slice(id->b, id->len));
    sw_list_unlink(&id->link);
    sw_free(id);
}

static bool add_cid(struct qad_conn *q, const uint8_t *p, size_t n)
{
    struct cid *id;

    if (n > NGTCP2_MAX_CIDLEN || sw_map_get(&q->s->cids, sw_slice(p, n)))
        return false;
    id = SW_NEW(struct cid);
    id->conn = q;
    id->len = (uint8_t)n;
    memcpy(id->b, p, n);
    sw_list_push_back(&q->cids, &id->link);
    (void)sw_map_put(&q->s->cids, sw_slice(id->b, n), id);
    return true;
}

static struct qad_conn *conn_of(struct sw_qadc *c)
{
    return SW_CONTAINER_OF(c, struct qad_conn, c);
}

static void conn_free(struct qad_conn *q)
{
    struct sw_qad_server *s = q->s;

    s->n_half -= q->counted;
    SW_LIST_EACH (struct cid, id, &q->cids, link)
        drop_cid(s, id);
    sw_list_unlink(&q->link);
    s->n_conns--;
    sw_qadc_done(&q->c);
    sw_free(q);
}

static void send_on(struct sw_qad_server *s, int sock, const struct sw_dgram_out *o)
{
    (void)sw_dgram_send_batch(s->socks[sock].fd, o); /* what is lost is sent again */
}

static void on_send(struct sw_qadc *c, const struct sw_addr *to, const struct sw_ip *from,
                    const uint8_t *p, size_t n)
{
    struct qad_conn *q = conn_of(c);

    send_on(q->s, q->sock,
            &(struct sw_dgram_out){.p = p, .n = n, .segment = n, .to = *to, .from = *from});
}

static bool on_cid(struct sw_qadc *c, const uint8_t *p, size_t n)
{
    return add_cid(conn_of(c), p, n);
}

static void on_cid_gone(struct sw_qadc *c, const uint8_t *p, size_t n)
{
    struct qad_conn *q = conn_of(c);
    struct cid *id = sw_map_get(&q->s->cids, sw_slice(p, n));

    if (id && id->conn == q)
        drop_cid(q->s, id);
}

static void on_news(struct sw_qadc *c)
{
    struct qad_conn *q = conn_of(c);
    struct sw_qad_server *s = q->s;

    if (c->established && !q->reported) {
        q->reported = true;
        s->n_half -= q->counted;
        q->counted = false;
        report(s, SW_QAD_ESTABLISHED, "");
    }
    if (c->seq != q->reported_seq) {
        q->reported_seq = c->seq;
        report(s, SW_QAD_REPORTED, "");
    }
    if (!c->ended)
        return;
    if (c->failed)
        report(s, SW_QAD_FAILED, c->why);
    if (q->reported)
        report(s, SW_QAD_CLOSED, c->why);
    conn_free(q);
}

static const struct sw_qadc_ops conn_ops = {
    .send = on_send,
    .cid = on_cid,
    .cid_gone = on_cid_gone,
    .news = on_news,
};

/* ---- packets of no connection ---- */

/* A packet, and where it came in. */
struct in {
    int sock;
    struct sw_addr local;
    struct sw_addr from;
    uint8_t *p;
    size_t n;
};

static void answer(struct sw_qad_server *s, const struct in *in, const uint8_t *p, ngtcp2_ssize n)
{
    if (n > 0)
        send_on(s, in->sock,
                &(struct sw_dgram_out){.p = p,
                                       .n = (size_t)n,
                                       .segment = (size_t)n,
                                       .to = in->from,
                                       .from = in->local.ip});
}

static bool may_answer(struct sw_qad_server *s)
{
    const uint64_t interval = SW_NS_PER_S / ANSWERS_PER_SECOND;
    uint64_t now = sw_loop_now(s->loop);

    if (sw_rate_used(&s->answers, interval, now) >= ANSWERS_PER_SECOND)
        return false;
    (void)sw_rate_add(&s->answers, 1, ANSWERS_PER_SECOND, interval, now);
    return true;
}

/* Takes one from the account of the address; false: it is empty. */
static bool spend(struct sw_qad_server *s, struct sw_rate *accounts, const struct sw_addr *from)
{
    uint64_t interval = SW_NS_PER_S / s->cfg.per_address;
    uint64_t most = (uint64_t)s->cfg.per_address * BURST_S;
    uint64_t now = sw_loop_now(s->loop);
    size_t len = from->ip.family == 6 ? 8 : 4;
    struct sw_rate *r = &accounts[sw_hash(from->ip.b, len) % ACCOUNTS];

    if (sw_rate_used(r, interval, now) >= most)
        return false;
    (void)sw_rate_add(r, 1, most, interval, now);
    return true;
}

static void send_version(struct sw_qad_server *s, const struct in *in, const ngtcp2_version_cid *vc)
{
    static const uint32_t versions[] = {NGTCP2_PROTO_VER_V1};
    uint8_t buf[QAD_PACKET];

    if (may_answer(s))
        answer(s, in, buf,
               ngtcp2_pkt_write_version_negotiation(buf, sizeof(buf), (uint8_t)sw_rand_u64(),
                                                    vc->scid, vc->scidlen, vc->dcid, vc->dcidlen,
                                                    versions, SW_ARRAY_LEN(versions)));
}

static void refuse(struct sw_qad_server *s, const struct in *in, const ngtcp2_pkt_hd *hd,
                   const char *why)
{
    uint8_t buf[QAD_PACKET];

    report(s, SW_QAD_REFUSED, why);
    if (may_answer(s))
        answer(s, in, buf,
               ngtcp2_crypto_write_connection_close(buf, sizeof(buf), hd->version, &hd->scid,
                                                    &hd->dcid, NGTCP2_CONNECTION_REFUSED, NULL, 0));
}

static void send_retry(struct sw_qad_server *s, const struct in *in, const ngtcp2_pkt_hd *hd)
{
    uint8_t token[NGTCP2_CRYPTO_MAX_RETRY_TOKENLEN];
    uint8_t buf[QAD_PACKET];
    struct sockaddr_storage ss;
    socklen_t len = sw_addr_to_sockaddr(&in->from, &ss);
    ngtcp2_cid scid = {.datalen = NGTCP2_MAX_CIDLEN};
    ngtcp2_ssize n;

    if (!may_answer(s))
        return;
    sw_rand_bytes(scid.data, scid.datalen);
    n = ngtcp2_crypto_generate_retry_token(token, s->secret, sizeof(s->secret), hd->version,
                                           (const ngtcp2_sockaddr *)&ss, len, &scid, &hd->dcid,
                                           sw_loop_now(s->loop));
    if (n < 0)
        return;
    report(s, SW_QAD_RETRIED, "");
    answer(s, in, buf,
           ngtcp2_crypto_write_retry(buf, sizeof(buf), hd->version, &hd->scid, &scid, &hd->dcid,
                                     token, (size_t)n));
}

static bool token_ok(const struct sw_qad_server *s, const struct in *in, const ngtcp2_pkt_hd *hd,
                     ngtcp2_cid *odcid)
{
    struct sockaddr_storage ss;
    socklen_t len = sw_addr_to_sockaddr(&in->from, &ss);

    return ngtcp2_crypto_verify_retry_token(odcid, hd->token.base, hd->token.len, s->secret,
                                            sizeof(s->secret), hd->version,
                                            (const ngtcp2_sockaddr *)&ss, len, &hd->dcid,
                                            RETRY_LIFETIME_NS, sw_loop_now(s->loop)) == 0;
}

static void accept_conn(struct sw_qad_server *s, const struct in *in,
                        const struct sw_qadc_first *first)
{
    struct qad_conn *q = SW_NEW(struct qad_conn);
    struct sw_err err = {0};

    q->s = s;
    q->sock = in->sock;
    q->c.loop = s->loop;
    q->c.ops = &conn_ops;
    sw_list_init(&q->cids);
    sw_list_push_back(&s->conns, &q->link);
    s->n_conns++;
    q->counted = true;
    s->n_half++;
    report(s, SW_QAD_INCOMING, "");
    if (sw_qadc_accept(&q->c, first, s->cred, &err) != SW_OK) {
        report(s, SW_QAD_FAILED, err.msg);
        conn_free(q);
        return;
    }
    /* Later packets of the client's first flight still carry the ID it made up. */
    (void)add_cid(q, first->hd->dcid.data, first->hd->dcid.datalen);
    sw_qadc_read(&q->c, &in->local, &in->from, in->p, in->n);
}

static void on_initial(struct sw_qad_server *s, const struct in *in, const ngtcp2_pkt_hd *hd)
{
    ngtcp2_cid odcid = hd->dcid;
    struct sw_qadc_first first = {
        .hd = hd, .odcid = &odcid, .to = in->local.ip, .port = in->local.port, .from = in->from};

    first.retried = hd->token.len > 0 && hd->token.base[0] == NGTCP2_CRYPTO_TOKEN_MAGIC_RETRY;
    if (first.retried && !token_ok(s, in, hd, &odcid))
        return;
    if (!first.retried && (s->n_half >= s->cfg.max_half_open || !spend(s, s->unproved, &in->from)))
        send_retry(s, in, hd);
    else if (s->n_conns >= s->cfg.max_conns)
        refuse(s, in, hd, "too many connections");
    else if (s->n_half >= (size_t)s->cfg.max_half_open * HALF_OPEN_FACTOR)
        refuse(s, in, hd, "too many handshakes under way");
    else if (first.retried && !spend(s, s->proved, &in->from))
        refuse(s, in, hd, "too many connections of one address");
    else
        accept_conn(s, in, &first);
}

static void on_packet(struct sw_qad_server *s, const struct in *in)
{
    ngtcp2_version_cid vc;
    ngtcp2_pkt_hd hd;
    int rc = ngtcp2_pkt_decode_version_cid(&vc, in->p, in->n, QAD_CID_LEN);
    struct cid *id = NULL;

    if (rc == 0)
        id = sw_map_get(&s->cids, sw_slice(vc.dcid, vc.dcidlen));
    if (id) {
        sw_qadc_read(&id->conn->c, &in->local, &in->from, in->p, in->n);
        return;
    }
    /* No amplification: a packet must be at least as large as the answer to it. */
    if (in->n < NGTCP2_MAX_UDP_PAYLOAD_SIZE || !(in->p[0] & 0x80) || !s->cred)
        return;
    if ((rc == 0 || rc == NGTCP2_ERR_VERSION_NEGOTIATION) && vc.version != 0 &&
        vc.version != NGTCP2_PROTO_VER_V1)
        send_version(s, in, &vc);
    else if (rc == 0 && ngtcp2_accept(&hd, in->p, in->n) == 0)
        on_initial(s, in, &hd);
}

/* ---- sockets ---- */

static void on_readable(struct sw_watch *w, unsigned events)
{
    struct sock *k = SW_CONTAINER_OF(w, struct sock, watch);
    struct sw_qad_server *s = k->s;
    struct sw_dgram_in v[SW_DGRAM_BATCH];
    int n = SW_DGRAM_BATCH;

    for (size_t i = 0; i < SW_DGRAM_BATCH; i++)
        v[i].buf = s->rx + i * SW_DGRAM_MAX;
    /* Level-triggered: what is left wakes us again. */
    for (int round = 0; round < BATCHES && n == SW_DGRAM_BATCH; round++) {
        n = sw_dgram_recv_batch(k->fd, v, SW_DGRAM_BATCH);
        for (int i = 0; i < n; i++) {
            for (size_t at = 0; at < v[i].n; at += v[i].segment)
                on_packet(s, &(struct in){.sock = (int)(k - s->socks),
                                          .local = {.ip = v[i].to, .port = k->port},
                                          .from = v[i].from,
                                          .p = v[i].buf + at,
                                          .n = sw_min(v[i].segment, v[i].n - at)});
        }
    }
}

static int open_socket(struct sw_qad_server *s, const struct sw_addr *at, struct sw_err *err)
{
    struct sock *k = &s->socks[s->n_socks];
    struct sw_addr bound;
    const struct sw_sock_opts o = {.v6only = true,
                                   .share = s->cfg.share,
                                   .ret_mark = &k->mark,
                                   .unnamed = s->cfg.share != NULL,
                                   .netns_fd = -1};
    int rc = sw_dgram_bind(at, &o, &k->fd, err);

    if (rc != SW_OK)
        return rc;
    k->s = s;
    bound = sw_sock_local(k->fd);
    k->port = bound.port;
    sw_dgram_tune(k->fd, &bound, SOCKET_BUFFER);
    s->n_socks++;
    return sw_watch_start_listener(s->loop, &k->watch, k->fd, on_readable, err);
}

static int open_sockets(struct sw_qad_server *s, struct sw_err *err)
{
    struct sw_addr at = s->cfg.listen;
    int rc = open_socket(s, &at, err);

    if (rc != SW_OK || at.ip.family != 6 || !sw_ip_is_any(&at.ip))
        return rc;
    at.ip = (struct sw_ip){.family = 4};
    at.port = s->socks[0].port;
    return open_socket(s, &at, err);
}

struct sw_qad_server *sw_qad_server_new(struct sw_loop *l, const struct sw_qad_server_config *cfg,
                                        struct sw_err *err)
{
    struct sw_qad_server *s = SW_NEW(struct sw_qad_server);

    s->loop = l;
    s->cfg = *cfg;
    if (!s->cfg.max_conns)
        s->cfg.max_conns = 16384;
    if (!s->cfg.max_half_open)
        s->cfg.max_half_open = 64;
    if (!s->cfg.per_address)
        s->cfg.per_address = 20;
    for (size_t i = 0; i < SOCKETS; i++)
        s->socks[i].fd = s->socks[i].mark = -1;
    sw_list_init(&s->conns);
    sw_rand_bytes(s->secret, sizeof(s->secret));
    s->rx = sw_malloc((size_t)SW_DGRAM_BATCH * SW_DGRAM_MAX);
    if (open_sockets(s, err) != SW_OK) {
        sw_qad_server_free(s);
        return NULL;
    }
    return s;
}

void sw_qad_server_free(struct sw_qad_server *s)
{
    if (!s)
        return;
    SW_LIST_EACH (struct qad_conn, q, &s->conns, link) {
        sw_qadc_close(&q->c);
        on_news(&q->c);
    }
    for (size_t i = 0; i < SOCKETS; i++) {
        if (s->socks[i].fd < 0)
            continue;
        sw_watch_stop(&s->socks[i].watch);
        sw_sock_close(s->socks[i].fd);
        if (s->socks[i].mark >= 0)
            sw_sock_close(s->socks[i].mark);
    }
    (void)sw_tls_cred_unref(s->cred);
    sw_map_done(&s->cids);
    sw_free(s->rx);
    explicit_bzero(s->secret, sizeof(s->secret));
    sw_free(s);
}

void sw_qad_server_set_cred(struct sw_qad_server *s, struct sw_tls_cred *cred)
{
    (void)sw_tls_cred_unref(s->cred);
    s->cred = cred;
}

struct sw_addr sw_qad_server_bound(const struct sw_qad_server *s)
{
    return sw_sock_local(s->socks[0].fd);
}

size_t sw_qad_server_conns(const struct sw_qad_server *s)
{
    return s->n_conns;
}
