/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a connection to a relay: attempts, proof of the key, packets, pings. */
#include "quic/relay/client.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/time.h"
#include "quic/relay/auth.h"
#include "quic/relay/client_int.h"
#include "tls/cert/cred.h"

enum {
    BACKOFF_MIN_MS = 10,
    BACKOFF_MAX_MS = 16000,
    RESTART_MAX_MS = 30000, /* longest restart delay that a relay may request */
    USEFUL_MS = 1000,       /* a connection that lasted is followed by another at once */
    PONG_MIN_MS = 500,
    PONG_MAX_MS = 5000,
    QUEUE_FRAMES = 512,
    QUEUE_BYTES = 2 << 20,
};

static const uint64_t default_timeout_ns = 10 * SW_NS_PER_S;
static const uint64_t ping_after_ns = 15 * SW_NS_PER_S;

static void on_attempt(struct sw_timer *t);
static void on_tick(struct sw_timer *t);

/* ---- attempts ---- */

static void on_timeout(struct sw_timer *t)
{
    rc_lost(SW_CONTAINER_OF(t, struct sw_relay_client, deadline), "timed out");
}

static void attempt(struct sw_relay_client *c)
{
    c->pinged = false;
    c->ping_ns = 0;
    c->rtt_ns = 0;
    c->restart_ns = 0;
    sw_timer_start(c->loop, &c->deadline, c->connect_timeout_ns, on_timeout);
    rc_dial(c);
}

static void on_attempt(struct sw_timer *t)
{
    attempt(SW_CONTAINER_OF(t, struct sw_relay_client, deadline));
}

void rc_lost(struct sw_relay_client *c, const char *why)
{
    bool was_up = c->state == RC_UP;
    uint64_t delay;

    if (was_up && c->pinged && sw_loop_now(c->loop) - c->up_ns >= USEFUL_MS * SW_NS_PER_MS) {
        sw_backoff_reset(&c->backoff);
        delay = c->restart_ns ? sw_rand_below(c->restart_ns) : 0;
    } else {
        delay = sw_backoff_next(&c->backoff, BACKOFF_MIN_MS * SW_NS_PER_MS,
                                BACKOFF_MAX_MS * SW_NS_PER_MS);
    }
    sw_log_debug("relay", "connection to '%s' %s: %s", c->url.authority,
                 was_up ? "was lost" : "was not made", why);
    rc_hang_up(c);
    c->state = RC_WAIT;
    sw_timer_stop(c->loop, &c->tick);
    sw_timer_start(c->loop, &c->deadline, delay, on_attempt);
    if (was_up)
        c->ops->state(c->arg, false, why); /* may free c */
}

/* ---- frames out ---- */

static void send_frame(struct sw_relay_client *c, const void *p, size_t n)
{
    sw_wsconn_send(&c->link->ws, SW_WS_BINARY, p, n);
}

static void send_ping(struct sw_relay_client *c)
{
    uint8_t frame[1 + SW_RELAY_PING_LEN] = {SW_RELAY_PING};
    uint64_t ms = PONG_MAX_MS;

    sw_rand_bytes(c->ping, sizeof(c->ping));
    memcpy(frame + 1, c->ping, sizeof(c->ping));
    send_frame(c, frame, sizeof(frame));
    c->ping_ns = sw_loop_now(c->loop);
    if (c->rtt_ns)
        ms = sw_max(PONG_MIN_MS, sw_min(PONG_MAX_MS, 3 * c->rtt_ns / SW_NS_PER_MS));
    sw_timer_start(c->loop, &c->tick, ms * SW_NS_PER_MS, on_tick);
}

/* Time for a ping, or a pong did not come. */
static void on_tick(struct sw_timer *t)
{
    struct sw_relay_client *c = SW_CONTAINER_OF(t, struct sw_relay_client, tick);
    uint64_t quiet = sw_loop_now(c->loop) - c->rx_ns;

    if (c->ping_ns && c->rx_ns <= c->ping_ns) {
        rc_lost(c, "relay does not answer");
    } else if (c->ping_ns || quiet < ping_after_ns) {
        /* Something came meanwhile: it lives. */
        c->ping_ns = 0;
        sw_timer_start(c->loop, &c->tick, ping_after_ns - sw_min(quiet, ping_after_ns), on_tick);
    } else {
        send_ping(c);
    }
}

static int send_part(struct sw_relay_client *c, const struct sw_nodeid *to, uint8_t ecn,
                     const uint8_t *p, size_t n, size_t segment)
{
    bool batch = segment && n > segment;
    size_t head = batch ? SW_RELAY_BATCH_HEAD : SW_RELAY_DATAGRAM_HEAD;
    struct sw_wsconn *ws = &c->link->ws;
    uint8_t *out;

    if (sw_wsconn_queued(ws) >= QUEUE_FRAMES || sw_wsconn_unsent(ws) + n > QUEUE_BYTES)
        return SW_EAGAIN;
    out = sw_wsconn_room(ws, SW_WS_BINARY, head + n, true);
    (void)sw_relay_put_datagram(out, batch ? SW_RELAY_SEND_BATCH : SW_RELAY_SEND, to, ecn,
                                (uint16_t)segment);
    memcpy(out + head, p, n);
    sw_wsconn_commit(ws, out, head + n);
    return SW_OK;
}

int sw_relay_client_send(struct sw_relay_client *c, const struct sw_nodeid *to, uint8_t ecn,
                         const uint8_t *p, size_t n, size_t segment)
{
    size_t most = SW_RELAY_PAYLOAD_MAX;
    int rc = SW_OK;

    if (c->state != RC_UP || n == 0 || segment > UINT16_MAX || segment > most)
        return SW_EAGAIN;
    if (segment)
        most -= most % segment;
    else if (n > most)
        return SW_EAGAIN;
    c->used_ns = sw_loop_now(c->loop);
    while (n && rc == SW_OK) {
        size_t k = sw_min(n, most);

        rc = send_part(c, to, ecn, p, k, segment);
        p += k;
        n -= k;
    }
    return rc;
}

/* ---- frames in ---- */

void rc_upgraded(struct sw_relay_client *c)
{
    c->state = RC_AUTH;
}

/*
 * A signed challenge says nothing about the connection it came over: a relay that passes on the
 * challenge of another one could log in there with our answer. Over TLS our request has proved the
 * key for this very connection already, and a relay that asks for more did not see that proof (a
 * proxy in front of it ends TLS) or wants the other one.
 */
static void refuse_challenge(struct sw_relay_client *c)
{
    if (!c->challenge_logged)
        sw_log_warn("relay",
                    "'%s': challenge refused, another relay could use the answer; the relay does "
                    "not accept the proof that is bound to TLS",
                    c->url.authority);
    c->challenge_logged = true;
    if (c->ops->refused)
        c->ops->refused(c->arg, SW_RELAY_REFUSED_CHALLENGE);
    rc_lost(c, "challenge over TLS refused");
}

static void answer_challenge(struct sw_relay_client *c, const struct sw_relay_frame *f)
{
    uint8_t sig[SW_ED25519_SIG];
    uint8_t out[SW_RELAY_AUTH_LEN];
    struct sw_err err = {0};

    if (c->url.tls && !c->sign_over_tls) {
        refuse_challenge(c);
        return;
    }
    if (sw_relay_answer(c->key, f->p, sig, &err) != SW_OK) {
        rc_lost(c, err.msg);
        return;
    }
    send_frame(c, out, sw_relay_put_auth(out, sw_rawkey_id(c->key), sig));
}

static void came_up(struct sw_relay_client *c)
{
    c->state = RC_UP;
    c->up_ns = sw_loop_now(c->loop);
    c->used_ns = c->up_ns;
    sw_timer_stop(c->loop, &c->deadline);
    send_ping(c);
    sw_log_debug("relay", "connected to '%s'", c->url.authority);
    c->ops->state(c->arg, true, ""); /* may free c */
}

static void denied(struct sw_relay_client *c, const struct sw_relay_frame *f)
{
    struct sw_err err = {0};

    (void)sw_err_set(&err, SW_EDENIED, "relay refused us: %.*s", (int)sw_min(f->n, 100), f->p);
    /* Logged once per run of refusals: attempts continue. */
    if (c->backoff.ns == 0)
        sw_log_warn("relay", "'%s': %s", c->url.authority, err.msg);
    rc_lost(c, err.msg);
}

static void on_pong(struct sw_relay_client *c, const struct sw_relay_frame *f)
{
    if (!c->ping_ns || memcmp(f->p, c->ping, SW_RELAY_PING_LEN) != 0)
        return;
    c->rtt_ns = sw_max(1, sw_loop_now(c->loop) - c->ping_ns);
    c->ping_ns = 0;
    c->pinged = true;
    sw_backoff_reset(&c->backoff);
    sw_timer_start(c->loop, &c->tick, ping_after_ns, on_tick);
}

static void on_status(const struct sw_relay_client *c, const struct sw_relay_frame *f)
{
    if (f->status == SW_RELAY_SAME_ID)
        sw_log_warn("relay", "'%s': another connection with our NodeID took over the traffic",
                    c->url.authority);
    else if (f->status == SW_RELAY_RATE_LIMITED)
        sw_log_warn("relay", "'%s' limits our rate", c->url.authority);
}

static void on_packets(struct sw_relay_client *c, const struct sw_relay_frame *f)
{
    if (f->n == 0)
        return;
    c->used_ns = c->rx_ns;
    c->ops->packets(c->arg, f->id, f->ecn, f->p, f->n, f->segment ? f->segment : f->n);
}

static void on_up_frame(struct sw_relay_client *c, struct sw_relay_frame *f)
{
    switch (f->type) {
    case SW_RELAY_RECV:
    case SW_RELAY_RECV_BATCH:
        on_packets(c, f);
        break;
    case SW_RELAY_GONE:
        if (c->ops->gone)
            c->ops->gone(c->arg, f->id);
        break;
    case SW_RELAY_PING: {
        uint8_t pong[1 + SW_RELAY_PING_LEN] = {SW_RELAY_PONG};

        memcpy(pong + 1, f->p, SW_RELAY_PING_LEN);
        send_frame(c, pong, sizeof(pong));
        break;
    }
    case SW_RELAY_PONG:
        on_pong(c, f);
        break;
    case SW_RELAY_HEALTH:
        sw_log_debug("relay", "message from relay '%s': %.*s", c->url.authority,
                     (int)sw_min(f->n, 100), f->p);
        break;
    case SW_RELAY_RESTARTING:
        c->restart_ns = sw_min(f->reconnect_ms, RESTART_MAX_MS) * SW_NS_PER_MS;
        break;
    case SW_RELAY_STATUS:
        on_status(c, f);
        break;
    case SW_RELAY_CHALLENGE:
    case SW_RELAY_AUTH:
    case SW_RELAY_CONFIRMED:
    case SW_RELAY_DENIED:
    case SW_RELAY_SEND:
    case SW_RELAY_SEND_BATCH:
        rc_lost(c, "relay repeats the handshake");
        break;
    }
}

static void on_auth_frame(struct sw_relay_client *c, const struct sw_relay_frame *f)
{
    if (f->type == SW_RELAY_CHALLENGE)
        answer_challenge(c, f);
    else if (f->type == SW_RELAY_CONFIRMED)
        came_up(c);
    else if (f->type == SW_RELAY_DENIED)
        denied(c, f);
    else
        rc_lost(c, "relay sends before it confirmed us");
}

void rc_message(struct sw_relay_client *c, uint8_t *p, size_t n)
{
    struct sw_relay_frame f;
    struct sw_err err = {0};

    c->rx_ns = sw_loop_now(c->loop);
    if (sw_relay_parse(p, n, false, c->link->version, &f, &err) != SW_OK)
        rc_lost(c, err.msg);
    else if (c->state == RC_UP)
        on_up_frame(c, &f);
    else
        on_auth_frame(c, &f);
}

/* ---- for owners ---- */

struct sw_relay_client *
sw_relay_client_new(struct sw_loop *l, const struct sw_relay_client_config *cfg, struct sw_err *err)
{
    struct sw_relay_client *c = SW_NEW(struct sw_relay_client);
    int rc;

    c->loop = l;
    c->key = cfg->key;
    c->ops = cfg->ops;
    c->arg = cfg->arg;
    c->connect_timeout_ns = cfg->connect_timeout_ns ? cfg->connect_timeout_ns : default_timeout_ns;
    c->used_ns = sw_loop_now(l);
    c->sign_over_tls = cfg->sign_over_tls;
    rc = sw_relay_url_parse(cfg->url, &c->url, err);
    if (rc == SW_OK && c->url.tls)
        rc = rc_set_roots(c, cfg->ca_file, err);
    if (rc == SW_OK && cfg->token.n && c->url.tls)
        c->token = sw_slice_dup(cfg->token);
    if (rc != SW_OK) {
        sw_relay_client_free(c);
        return NULL;
    }
    sw_timer_start(l, &c->deadline, 0, on_attempt);
    return c;
}

void sw_relay_client_free(struct sw_relay_client *c)
{
    if (!c)
        return;
    rc_hang_up(c);
    sw_timer_stop(c->loop, &c->deadline);
    sw_timer_stop(c->loop, &c->tick);
    (void)sw_tls_cred_unref(c->cred);
    if (c->token)
        sw_free_secret(c->token, strlen(c->token));
    sw_free(c);
}

bool sw_relay_client_up(const struct sw_relay_client *c)
{
    return c->state == RC_UP;
}

void sw_relay_client_probe(struct sw_relay_client *c)
{
    if (c->state == RC_UP && !c->ping_ns) {
        send_ping(c);
    } else if (c->state == RC_WAIT) {
        sw_backoff_reset(&c->backoff);
        sw_timer_start(c->loop, &c->deadline, 0, on_attempt);
    }
}

uint64_t sw_relay_client_last_used(const struct sw_relay_client *c)
{
    return c->used_ns;
}
