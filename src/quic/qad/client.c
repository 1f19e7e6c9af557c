/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/mem.h"
#include "base/time.h"
#include "quic/qad/qad_int.h"
#include "tls/cert/cred.h"

enum { CIDS_MAX = 8 }; /* of ours: the peer may hold few at once */

struct sw_qad_client {
    struct sw_qadc conn;
    const struct sw_qad_client_ops *ops;
    void *arg;
    struct sw_addr relay;
    struct sw_addr local; /* as ngtcp2 knows it: the owner has one socket per family */
    char *host;
    uint8_t pin[SW_QAD_PIN];
    struct sw_tls_cred *cred; /* a reference */
    struct sw_defer first;
    struct sw_timer patience; /* until the first answer */
    uint8_t cids[CIDS_MAX][QAD_CID_LEN];
    bool cid_used[CIDS_MAX];
};

static struct sw_qad_client *client_of(struct sw_qadc *c)
{
    return SW_CONTAINER_OF(c, struct sw_qad_client, conn);
}

static void on_send(struct sw_qadc *c, const struct sw_addr *to, const struct sw_ip *from,
                    const uint8_t *p, size_t n)
{
    struct sw_qad_client *q = client_of(c);

    q->ops->send(q->arg, to, p, n);
}

static bool on_cid(struct sw_qadc *c, const uint8_t *p, size_t n)
{
    struct sw_qad_client *q = client_of(c);

    for (size_t i = 0; i < CIDS_MAX; i++) {
        if (q->cid_used[i])
            continue;
        q->cid_used[i] = true;
        memcpy(q->cids[i], p, sw_min(n, QAD_CID_LEN));
        break;
    }
    return true; /* one that found no place is not known: its packets are not ours */
}

static void on_cid_gone(struct sw_qadc *c, const uint8_t *p, size_t n)
{
    struct sw_qad_client *q = client_of(c);

    for (size_t i = 0; i < CIDS_MAX; i++)
        if (q->cid_used[i] && n == QAD_CID_LEN && memcmp(q->cids[i], p, n) == 0)
            q->cid_used[i] = false;
}

static void on_news(struct sw_qadc *c)
{
    struct sw_qad_client *q = client_of(c);

    if (c->ended) {
        sw_timer_stop(c->loop, &q->patience);
        q->ops->ended(q->arg, c->why);
    } else if (c->fresh) {
        c->fresh = false;
        sw_timer_stop(c->loop, &q->patience);
        q->ops->observed(q->arg, &c->observed);
    }
}

static const struct sw_qadc_ops conn_ops = {
    .send = on_send,
    .cid = on_cid,
    .cid_gone = on_cid_gone,
    .news = on_news,
};

static void on_first(struct sw_defer *d)
{
    sw_qadc_write(&SW_CONTAINER_OF(d, struct sw_qad_client, first)->conn);
}

/* Connected perhaps, but no report came. */
static void on_patience(struct sw_timer *t)
{
    struct sw_qad_client *q = SW_CONTAINER_OF(t, struct sw_qad_client, patience);

    sw_qadc_close(&q->conn);
    q->ops->ended(q->arg, q->conn.established ? "relay reports no address" : "no answer in time");
}

struct sw_qad_client *sw_qad_client_new(struct sw_loop *l, const struct sw_qad_client_config *cfg,
                                        struct sw_err *err)
{
    struct sw_qad_client *q = SW_NEW(struct sw_qad_client);
    uint64_t timeout_ns = cfg->timeout_ns ? cfg->timeout_ns : 3 * SW_NS_PER_S;
    int rc = SW_OK;

    q->conn.loop = l;
    q->conn.ops = &conn_ops;
    q->ops = cfg->ops;
    q->arg = cfg->arg;
    q->relay = cfg->relay;
    q->local.ip.family = cfg->relay.ip.family;
    q->host = cfg->host ? sw_strdup(cfg->host) : NULL;
    if (cfg->pin)
        memcpy(q->pin, cfg->pin, SW_QAD_PIN);
    q->cred = cfg->cred
                  ? sw_tls_cred_ref(cfg->cred)
                  : sw_tls_cred_new(
                        &(struct sw_tls_cred_pem){.any_identity = true, .trust_nobody = true}, err);
    if (!cfg->pin && (!cfg->cred || !cfg->host))
        rc = sw_err_set(err, SW_EINVAL, "address discovery needs a pin, or roots and a host");
    else if (!q->cred)
        rc = err->rc;
    if (rc == SW_OK)
        rc = sw_qadc_connect(&q->conn, &q->relay,
                             &(struct sw_qadc_trust){
                                 .host = q->host, .cred = q->cred, .pin = cfg->pin ? q->pin : NULL},
                             timeout_ns, err);
    if (rc != SW_OK) {
        q->conn.ended = true;
        sw_qad_client_free(q);
        return NULL;
    }
    sw_timer_start(l, &q->patience, timeout_ns, on_patience);
    sw_loop_defer(l, &q->first, on_first);
    return q;
}

void sw_qad_client_free(struct sw_qad_client *q)
{
    if (!q)
        return;
    sw_qadc_close(&q->conn);
    sw_timer_stop(q->conn.loop, &q->patience);
    sw_defer_cancel(&q->first);
    sw_qadc_done(&q->conn);
    (void)sw_tls_cred_unref(q->cred);
    sw_free(q->host);
    sw_free(q);
}

/* Long and short headers both: is it addressed to an ID of ours? */
static bool is_ours(const struct sw_qad_client *q, const uint8_t *p, size_t n)
{
    size_t at = 1;

    if (n > 6 && (p[0] & 0x80)) {
        if (p[5] != QAD_CID_LEN)
            return false;
        at = 6;
    }
    if (n < at + QAD_CID_LEN)
        return false;
    for (size_t i = 0; i < CIDS_MAX; i++)
        if (q->cid_used[i] && memcmp(q->cids[i], p + at, QAD_CID_LEN) == 0)
            return true;
    return false;
}

bool sw_qad_client_packet(struct sw_qad_client *q, const struct sw_addr *from, uint8_t *p, size_t n)
{
    if (!sw_addr_eq(from, &q->relay) || !is_ours(q, p, n))
        return false;
    sw_qadc_read(&q->conn, &q->local, from, p, n);
    return true;
}

void sw_qad_client_probe(struct sw_qad_client *q)
{
    sw_qadc_ping(&q->conn);
}

uint64_t sw_qad_client_rtt_ns(const struct sw_qad_client *q)
{
    return sw_qadc_rtt_ns(&q->conn);
}
