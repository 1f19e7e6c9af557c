/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address discovery of the relay (quic/qad/qad.h), on a thread of its own: unauthenticated clients
 * may make it busy with handshakes, and packets of clients must not wait for those.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rate.h"
#include "base/secret.h"
#include "base/time.h"
#include "quic/qad/qad.h"
#include "quic/wire/qad.h"
#include "relay/relay_int.h"
#include "tls/cert/ca.h"
#include "tls/cert/cred.h"

enum { PEM_MAX = 65536, CERT_DAYS = 3650 };

struct relay_qad {
    struct sw_crew_thread thread;
    struct sw_qad_server *server;
    struct sw_metrics_shard *shard;
    struct sw_metric *events[SW_QAD_REFUSED + 1];
    struct sw_rate lines; /* of the log: one a second */
    uint64_t unsaid;      /* refusals since the last line */
    char group[32];       /* processes that may hand over the port: those of one HTTP port */
    char field[SW_QAD_FIELD_MAX];
};

/* ---- what happens ---- */

static void log_refusal(struct relay_qad *q, const char *why)
{
    uint64_t now = sw_loop_now(q->thread.loop);

    q->unsaid++;
    if (sw_rate_used(&q->lines, SW_NS_PER_S, now) > 0)
        return;
    (void)sw_rate_add(&q->lines, 1, 1, SW_NS_PER_S, now);
    sw_log_info("relay", "refused (qad): address discovery: %s (%" PRIu64 " since the last line)",
                why, q->unsaid);
    q->unsaid = 0;
}

static void on_event(void *arg, enum sw_qad_event e, const char *why)
{
    struct relay_qad *q = arg;

    sw_metric_add(q->events[e], 1);
    if (e == SW_QAD_REFUSED)
        log_refusal(q, why);
    else if (e == SW_QAD_FAILED)
        sw_log_debug("relay", "address discovery: connection failed: %s", why);
}

static void get_metrics(struct relay_qad *q)
{
    static const enum sw_metric_id ids[] = {
        [SW_QAD_INCOMING] = SW_METRIC_RELAY_QAD_INCOMING,
        [SW_QAD_ESTABLISHED] = SW_METRIC_RELAY_QAD_CONNECTIONS,
        [SW_QAD_FAILED] = SW_METRIC_RELAY_QAD_ERRORED,
        [SW_QAD_CLOSED] = SW_METRIC_RELAY_QAD_CLOSED,
        [SW_QAD_RETRIED] = SW_METRIC_RELAY_QAD_RETRIES,
        [SW_QAD_REPORTED] = SW_METRIC_RELAY_QAD_REPORTS,
        [SW_QAD_REFUSED] = SW_METRIC_REFUSALS,
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(ids); i++)
        q->events[i] = sw_metric_get1(q->shard, ids[i], i == SW_QAD_REFUSED ? "qad" : NULL);
}

/* ---- the thread ---- */

static struct relay_qad *qad_of(struct sw_crew_thread *t)
{
    return SW_CONTAINER_OF(t, struct relay_qad, thread);
}

static void qad_end(struct sw_crew_thread *t)
{
    struct relay_qad *q = qad_of(t);

    sw_qad_server_free(q->server);
    q->server = NULL;
}

static bool qad_idle(struct sw_crew_thread *t)
{
    return !qad_of(t)->server;
}

static const struct sw_crew_ops thread_ops = {
    .drain = qad_end,
    .idle = qad_idle,
    .kill = qad_end,
    .end = qad_end,
};

static void take_cred(struct sw_crew_thread *t, void *cred)
{
    struct relay_qad *q = qad_of(t);

    if (q->server)
        sw_qad_server_set_cred(q->server, cred);
    else
        (void)sw_tls_cred_unref(cred);
}

void relay_qad_send_cred(struct relay_qad *q, struct sw_tls_cred *cred)
{
    sw_crew_order(&q->thread, take_cred, cred);
}

const char *relay_qad_field(const struct relay_qad *q)
{
    return q->field;
}

/* ---- life ---- */

/* A relay without a certificate makes one. Clients pin it by the answer to the upgrade. */
static struct sw_tls_cred *make_cred(struct sw_err *err)
{
    static const char *const sans[] = {"relay.invalid", NULL};
    const struct sw_ca_web web = {
        .cn = "spanwire relay", .sans = sans, .server = true, .ttl_s = CERT_DAYS * 86400ull};
    struct sw_ca *ca = sw_ca_new(SW_SLICE_LIT("relay.invalid"), 0, err);
    struct sw_tls_cred *cred = NULL;
    SW_BUF_AUTO chain = {.max = PEM_MAX};
    SW_BUF_SECRET key = {.max = PEM_MAX};

    if (ca && sw_ca_issue_web(ca, &web, &chain, &key, err) == SW_OK)
        cred = sw_tls_cred_new(&(struct sw_tls_cred_pem){.chain = sw_buf_slice(&chain),
                                                         .key = sw_buf_slice(&key),
                                                         .any_identity = true,
                                                         .trust_nobody = true},
                               err);
    sw_ca_free(ca);
    return cred;
}

/* Without TLS nothing else vouches for the certificate: its digest goes along. */
static int announce(struct relay_qad *q, bool tls, struct sw_err *err)
{
    uint16_t port = sw_qad_server_bound(q->server).port;
    struct sw_tls_cred *cred;
    uint8_t pin[SW_QAD_PIN];
    int rc;

    (void)sw_qad_put_field(q->field, port, NULL);
    if (tls)
        return SW_OK;
    cred = make_cred(err);
    if (!cred)
        return err->rc;
    rc = sw_qad_pin(cred, pin, err);
    if (rc == SW_OK)
        (void)sw_qad_put_field(q->field, port, pin);
    sw_qad_server_set_cred(q->server, cred);
    return rc;
}

/*
 * Where to listen by default: iroh's port beside HTTPS, since iroh's endpoints look there; else the
 * number of the HTTP port. Those may be taken, and our clients get the number in the upgrade
 * anyhow.
 */
static struct sw_qad_server *listen_on(struct relay_qad *q, const struct sw_relay_config *c,
                                       struct sw_err *err)
{
    struct sw_qad_server_config cfg = {.listen = c->qad_listen,
                                       .share = q->group,
                                       .max_conns = c->qad_max,
                                       .per_address = c->qad_rate,
                                       .event = on_event,
                                       .arg = q};
    bool tls = c->tls_listen.ip.family != 0;
    struct sw_qad_server *s;

    (void)snprintf(q->group, sizeof(q->group), RELAY_PORT_GROUP "-qad-%u",
                   tls ? c->tls_listen.port : c->listen.port);
    if (!cfg.listen.ip.family) {
        cfg.listen = tls ? c->tls_listen : c->listen;
        if (tls)
            cfg.listen.port = SW_QAD_PORT;
    }
    s = sw_qad_server_new(q->thread.loop, &cfg, err);
    if (s || c->qad_listen.ip.family)
        return s;
    sw_log_warn("relay", "address discovery: %s; listening on another port, %s", err->msg,
                tls ? "not used by iroh clients" : "advertised to clients");
    cfg.listen.port = 0;
    return sw_qad_server_new(q->thread.loop, &cfg, err);
}

int relay_qad_new(struct sw_relay *r, struct relay_qad **ret, struct sw_err *err)
{
    struct relay_qad *q = SW_NEW(struct relay_qad);
    char text[SW_ADDR_TEXT];
    struct sw_addr at;
    int rc;

    *ret = q;
    q->shard = sw_metrics_shard_new(r->process.metrics);
    get_metrics(q);
    rc = sw_crew_thread_init(&q->thread, &r->process.crew, &thread_ops, err);
    if (rc != SW_OK)
        return rc;
    q->server = listen_on(q, r->config, err);
    if (!q->server)
        return sw_err_prefix(err, "address discovery");
    rc = announce(q, r->config->tls_listen.ip.family != 0, err);
    if (rc != SW_OK)
        return rc;
    at = sw_qad_server_bound(q->server);
    sw_log_info("relay", "listening on %s (UDP, address discovery)", sw_addr_text(&at, text));
    return SW_OK;
}

int relay_qad_start(struct relay_qad *q, struct sw_err *err)
{
    return sw_crew_thread_start(&q->thread, err);
}

void relay_qad_free(struct relay_qad *q)
{
    if (!q)
        return;
    sw_qad_server_free(q->server);
    q->server = NULL;
    sw_crew_thread_done(&q->thread);
    sw_metrics_shard_free(q->shard);
    sw_free(q);
}
