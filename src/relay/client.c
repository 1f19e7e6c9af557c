/* SPDX-License-Identifier: Apache-2.0 */
/* A connection: established, proved, moved to its worker, served, ended. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/time.h"
#include "io/sock.h"
#include "quic/id/nodeid.h"
#include "relay/relay_int.h"
#include "tls/tls.h"

enum {
    PING_MS = 15000,
    PING_JITTER_MS = 4000, /* on top of at least one second */
    PONG_MS = 5000,
    RESTART_RECONNECT_MS = 1000,
    RESTART_TRY_MS = 30000,
    ROSTER_MS = 3000, /* until the control plane may know a key that just came */
    READ_MIN = 4096,
    CONTROL_BYTES = 10 << 20, /* output that waits when a frame of control is added */
};

#define UNKNOWN "id is not known to the control plane"

static void on_timer(struct sw_timer *t);

/* ---- the end ---- */

static void setup_free(struct relay_client *c)
{
    struct relay_setup *s = c->setup;

    if (!s)
        return;
    relay_ask_cancel(s->ask);
    sw_defer_cancel(&s->move);
    sw_h1_free(s->h1);
    if (s->token)
        sw_free_secret(s->token, strlen(s->token));
    sw_free(s);
    c->setup = NULL;
}

/* Packets are not forwarded to it any more; the connection itself may still send a close frame. */
static void leave(struct relay_client *c)
{
    struct relay_stats *st = &c->worker->stats;

    if (c->state == RELAY_GONE)
        return;
    if (c->state == RELAY_ACTIVE) {
        sw_metric_add(st->disconnects, 1);
        sw_metric_sub(st->clients, 1);
    }
    if (!c->upgraded)
        sw_metric_add(st->http_closed, 1);
    c->state = RELAY_GONE;
    sw_timer_stop(c->worker->loop, &c->timer);
    relay_table_remove(c);
    setup_free(c);
    relay_evictable(c, true);
}

/*
 * Logs what happened to the client, with its id or address; of one that proved a key and was not
 * admitted both, and the whole key, which is what lists of ids have.
 */
void relay_client_note(const struct relay_client *c, const char *reason, const char *detail)
{
    char who[SW_ADDR_TEXT] = "?";
    char key[SW_NODEID_HEX] = "";
    char text[sizeof(who) + sizeof(key) + 160];

    if (c->id)
        (void)sw_nodeid_short(&c->id->id, who);
    else if (c->setup)
        (void)sw_addr_text(&c->setup->peer, who);
    if (c->setup && c->state == RELAY_JUDGED)
        (void)sw_nodeid_hex(&c->setup->id, key);
    (void)snprintf(text, sizeof(text), "%s%s%s: %.120s", who, key[0] ? " " : "", key, detail);
    relay_refused(c->worker, c->id || key[0], reason, text);
}

static void log_end(const struct relay_client *c, const char *why)
{
    char id[SW_NODEID_SHORT];

    if (c->id)
        sw_log_debug("relay", "client %s disconnected: %s", sw_nodeid_short(&c->id->id, id), why);
}

void relay_client_refuse(struct relay_client *c, uint16_t code, const char *reason,
                         const char *detail)
{
    if (c->state == RELAY_GONE)
        return;
    relay_client_note(c, reason, detail);
    if (!c->upgraded)
        sw_metric_add(c->worker->stats.http_errored, 1);
    leave(c);
    sw_wsconn_finish(&c->ws, code, reason);
}

void relay_client_drain(struct relay_client *c)
{
    uint8_t frame[9];

    if (c->state == RELAY_GONE)
        return;
    if (c->state == RELAY_ACTIVE)
        relay_client_send(c, frame,
                          sw_relay_put_restarting(frame, RESTART_RECONNECT_MS, RESTART_TRY_MS));
    leave(c);
    sw_wsconn_finish(&c->ws, SW_WS_GOING_AWAY, "restarting");
}

void relay_client_kill(struct relay_client *c)
{
    leave(c);
    relay_not_evictable(c);
    sw_wsconn_close(&c->ws);
}

/* ---- frames out ---- */

void relay_client_send(struct relay_client *c, const void *p, size_t n)
{
    /* Datagrams are dropped long before: this client sends requests and does not read. */
    if (sw_wsconn_unsent(&c->ws) > CONTROL_BYTES)
        c->flooded = true;
    else
        sw_wsconn_send(&c->ws, SW_WS_BINARY, p, n);
}

void relay_client_status(struct relay_client *c, enum sw_relay_health status)
{
    static const char *const texts[] = {
        [SW_RELAY_HEALTHY] = "",
        [SW_RELAY_SAME_ID] = "another endpoint connected with the same id",
        [SW_RELAY_RATE_LIMITED] = "",
    };
    uint8_t frame[64] = {SW_RELAY_STATUS, (uint8_t)status};
    size_t n = 2;

    if (c->version == SW_RELAY_V1) {
        if (status == SW_RELAY_RATE_LIMITED)
            return; /* that version cannot say it */
        frame[0] = SW_RELAY_HEALTH;
        n = strlen(texts[status]);
        memcpy(frame + 1, texts[status], n);
        n++;
    }
    relay_client_send(c, frame, n);
}

void relay_client_challenge(struct relay_client *c)
{
    uint8_t frame[1 + SW_RELAY_CHALLENGE_LEN] = {SW_RELAY_CHALLENGE};

    sw_rand_bytes(c->setup->challenge, SW_RELAY_CHALLENGE_LEN);
    memcpy(frame + 1, c->setup->challenge, SW_RELAY_CHALLENGE_LEN);
    relay_client_send(c, frame, sizeof(frame));
    c->state = RELAY_AUTH;
}

void relay_client_denied(struct relay_client *c, const char *reason, const char *detail)
{
    uint8_t frame[2 + SW_RELAY_REASON_MAX];

    relay_client_send(c, frame, sw_relay_put_denied(frame, reason));
    relay_client_refuse(c, SW_WS_POLICY, "denied", detail);
}

/* ---- the way in ---- */

static uint64_t ping_delay(void)
{
    return (PING_MS + 1000 + sw_rand_below(PING_JITTER_MS)) * SW_NS_PER_MS;
}

static bool is_stranger(const struct relay_worker *w, const struct sw_nodeid *id)
{
    return w->roster && relay_roster_find(w->roster, id) == RELAY_STRANGER;
}

/* What the lists say of a key; NULL: it may be here. */
static const char *judge(const struct relay_worker *w, const struct sw_nodeid *id)
{
    const char *why = sw_relay_access_judge(w->access, id);

    return why || !is_stranger(w, id) ? why : UNKNOWN;
}

static void set_rate(struct relay_client *c)
{
    const struct relay_worker *w = c->worker;

    c->unlimited = w->roster && relay_roster_find(w->roster, &c->id->id) == RELAY_GATEWAY;
    if (w->relay->config->rate && !c->unlimited) /* large reads would be paid for with long waits */
        c->ws.io.read_max = (uint32_t)sw_max(w->relay->config->burst, READ_MIN);
}

/*
 * A device registers its key and connects here at the same time; the watch brings it a moment
 * later.
 */
static void await_roster(struct relay_client *c)
{
    c->setup->awaited = true;
    sw_conn_pause(&c->ws.io);
    sw_timer_start(c->worker->loop, &c->timer, ROSTER_MS * SW_NS_PER_MS, on_timer);
}

/*
 * The lists may have changed since the proof: while another server was asked, or on the way here.
 * A stranger may be one that the worker it comes from knows already, from a newer roster.
 */
static bool may_stay(struct relay_client *c)
{
    const char *why = sw_relay_access_judge(c->worker->access, &c->setup->id);

    if (why) {
        relay_client_denied(c, why, why);
        return false;
    }
    if (!is_stranger(c->worker, &c->setup->id))
        return true;
    relay_evictable(c, false);
    await_roster(c);
    return false;
}

static void activate(struct relay_client *c)
{
    static const uint8_t confirmed[1] = {SW_RELAY_CONFIRMED};
    struct relay_worker *w = c->worker;
    char id[SW_NODEID_SHORT];
    char addr[SW_ADDR_TEXT];

    if (!may_stay(c))
        return;
    relay_client_send(c, confirmed, sizeof(confirmed));
    sw_log_debug("relay", "client %s connected from %s", sw_nodeid_short(&c->setup->id, id),
                 sw_addr_text(&c->setup->peer, addr));
    relay_table_add(c, &c->setup->id);
    setup_free(c);
    relay_not_evictable(c);
    if (sw_wsconn_tls(&c->ws))
        sw_tls_export_done(sw_wsconn_tls(&c->ws));
    c->state = RELAY_ACTIVE;
    c->rx_ns = sw_loop_now(w->loop);
    set_rate(c);
    sw_metric_add(w->stats.accepts, 1);
    sw_metric_add(w->stats.clients, 1);
    sw_timer_start(w->loop, &c->timer, ping_delay(), on_timer);
    sw_conn_resume(&c->ws.io);
}

/* On its own worker now. */
static void on_arrive(struct sw_msg *m)
{
    struct relay_setup *s = SW_CONTAINER_OF(m, struct relay_setup, msg);
    struct relay_client *c = s->client;
    struct relay_worker *w = &c->worker->relay->workers[relay_home(c->worker->relay, &s->id)];
    struct sw_err err = {0};

    c->worker = w;
    if (w->thread.stopped) {
        setup_free(c);
        sw_wsconn_discard(&c->ws);
        sw_free(c);
        return;
    }
    sw_list_push_back(&w->clients, &c->link);
    w->n_clients++;
    if (sw_conn_attach(&c->ws.io, w->loop, &err) != SW_OK) {
        relay_refused(w, false, "system", err.msg);
        relay_client_kill(c);
        return;
    }
    activate(c);
    if (w->thread.draining)
        relay_client_drain(c);
}

static void on_move(struct sw_defer *d)
{
    struct relay_setup *s = SW_CONTAINER_OF(d, struct relay_setup, move);
    struct relay_client *c = s->client;
    struct relay_worker *w = c->worker;

    sw_timer_stop(w->loop, &c->timer);
    sw_conn_detach(&c->ws.io);
    sw_list_unlink(&c->link);
    relay_not_evictable(c);
    w->n_clients--;
    s->msg.cb = on_arrive;
    sw_loop_post(w->relay->workers[relay_home(w->relay, &s->id)].loop, &s->msg);
}

void relay_client_admitted(struct relay_client *c)
{
    struct relay_worker *w = c->worker;

    if (relay_home(w->relay, &c->setup->id) == w->index) {
        activate(c);
        return;
    }
    sw_conn_pause(&c->ws.io);
    sw_loop_defer(w->loop, &c->setup->move, on_move);
}

void relay_client_judge_again(struct relay_client *c)
{
    const struct relay_worker *w = c->worker;
    const char *why;

    if (c->setup && c->setup->awaited && !is_stranger(w, &c->setup->id)) {
        struct sw_nodeid id = c->setup->id;

        c->setup->awaited = false;
        sw_timer_start(w->loop, &c->timer, w->relay->config->establish_ns, on_timer);
        sw_conn_resume(&c->ws.io);
        relay_client_proved(c, &id);
        return;
    }
    if (!c->id)
        return;
    why = judge(w, &c->id->id);
    if (why)
        relay_client_refuse(c, SW_WS_POLICY, "denied", why);
    else
        set_rate(c);
}

void relay_client_proved(struct relay_client *c, const struct sw_nodeid *id)
{
    struct relay_worker *w = c->worker;
    struct relay_setup *s = c->setup;
    const char *why = sw_relay_access_judge(w->access, id);

    c->state = RELAY_JUDGED;
    s->id = *id;
    if (why) {
        relay_client_denied(c, why, why);
    } else if (!sw_relay_access_token_ok(w->access, sw_slice_str(s->token))) {
        relay_client_denied(c, RELAY_UNAUTHORIZED, s->token ? "wrong token" : "no token");
    } else if (is_stranger(w, id)) {
        await_roster(c);
    } else if (w->asker) {
        sw_conn_pause(&c->ws.io);
        relay_ask(c);
    } else {
        relay_client_admitted(c);
    }
}

static void on_auth(struct relay_client *c, const struct sw_relay_frame *f)
{
    if (f->type != SW_RELAY_AUTH)
        relay_client_refuse(c, SW_WS_PROTOCOL_ERROR, "protocol", "not an answer to the challenge");
    else if (!sw_relay_answer_ok(f->id, c->setup->challenge, f->p))
        relay_client_denied(c, "signature invalid", "signature invalid");
    else
        relay_client_proved(c, f->id);
}

/* ---- frames in ---- */

static void on_frame(struct relay_client *c, const struct sw_relay_frame *f)
{
    uint8_t pong[1 + SW_RELAY_PING_LEN] = {SW_RELAY_PONG};

    switch (f->type) {
    case SW_RELAY_SEND:
    case SW_RELAY_SEND_BATCH:
        relay_forward(c, f);
        break;
    case SW_RELAY_PING:
        memcpy(pong + 1, f->p, SW_RELAY_PING_LEN);
        relay_client_send(c, pong, sizeof(pong));
        sw_metric_add(c->worker->stats.got_ping, 1);
        sw_metric_add(c->worker->stats.sent_pong, 1);
        break;
    case SW_RELAY_PONG:
        if (memcmp(f->p, &c->ping, SW_RELAY_PING_LEN) == 0)
            c->ping = 0;
        break;
    case SW_RELAY_AUTH:
    case SW_RELAY_CHALLENGE:
    case SW_RELAY_CONFIRMED:
    case SW_RELAY_DENIED:
    case SW_RELAY_RECV:
    case SW_RELAY_RECV_BATCH:
    case SW_RELAY_GONE:
    case SW_RELAY_HEALTH:
    case SW_RELAY_RESTARTING:
    case SW_RELAY_STATUS:
        relay_client_refuse(c, SW_WS_PROTOCOL_ERROR, "protocol", "frame out of place");
        break;
    }
}

static struct relay_client *client_of(struct sw_wsconn *ws)
{
    return SW_CONTAINER_OF(ws, struct relay_client, ws);
}

static void on_message(struct sw_wsconn *ws, uint8_t *p, size_t n)
{
    struct relay_client *c = client_of(ws);
    struct sw_relay_frame f;
    struct sw_err err = {0};

    if (c->state != RELAY_AUTH && c->state != RELAY_ACTIVE)
        return;
    c->rx_ns = sw_loop_now(c->worker->loop);
    if (sw_relay_parse(p, n, true, c->version, &f, &err) != SW_OK) {
        sw_metric_add(c->worker->stats.unknown_frames, 1);
        relay_client_refuse(c, SW_WS_PROTOCOL_ERROR, "protocol", err.msg);
    } else if (c->state == RELAY_AUTH) {
        on_auth(c, &f);
    } else {
        on_frame(c, &f);
    }
}

static void on_text(struct sw_wsconn *ws, size_t n)
{
    sw_metric_add(client_of(ws)->worker->stats.unknown_frames, 1);
}

/*
 * The token bucket: what was read is paid for afterwards, by waiting. A connection waits for what
 * the others of its id owe, too.
 */
static void on_batch(struct sw_wsconn *ws, size_t wire)
{
    struct relay_client *c = client_of(ws);
    const struct sw_relay_config *cfg = c->worker->relay->config;
    uint64_t now = sw_loop_now(c->worker->loop);
    struct relay_bucket *b;
    uint64_t earned;

    if (c->flooded)
        relay_client_refuse(c, SW_WS_POLICY, "flood", "it asks and does not read");
    if (!cfg->rate || c->unlimited || c->state != RELAY_ACTIVE || c->throttled)
        return;
    b = &c->id->bucket;
    earned = sw_min(now - b->tokens_ns, 60 * SW_NS_PER_S) / SW_NS_PER_US * cfg->rate / 1000000;
    b->tokens_ns = now;
    b->tokens += (int64_t)earned;
    if (b->tokens > (int64_t)cfg->burst)
        b->tokens = cfg->burst;
    b->tokens -= (int64_t)wire;
    if (b->tokens >= 0)
        return;
    sw_metric_add(c->worker->stats.limited_bytes, wire);
    if (!c->notified_rate) {
        c->notified_rate = true;
        sw_metric_add(c->worker->stats.limited_conns, 1);
        relay_client_status(c, SW_RELAY_RATE_LIMITED);
    }
    c->throttled = true;
    sw_conn_pause(&ws->io);
    sw_timer_start(c->worker->loop, &c->timer,
                   (uint64_t)-b->tokens * SW_NS_PER_S / cfg->rate + SW_NS_PER_MS, on_timer);
}

/* ---- time ---- */

static void check_life(struct relay_client *c)
{
    struct relay_worker *w = c->worker;
    uint64_t quiet = sw_loop_now(w->loop) - c->rx_ns;
    uint64_t wait = ping_delay();

    if (c->ping && quiet >= PONG_MS * SW_NS_PER_MS) {
        log_end(c, "it does not answer");
        relay_client_kill(c);
        return;
    }
    c->ping = 0;
    if (quiet >= PING_MS * SW_NS_PER_MS) {
        uint8_t frame[1 + SW_RELAY_PING_LEN] = {SW_RELAY_PING};

        c->ping = sw_rand_u64() | 1;
        memcpy(frame + 1, &c->ping, SW_RELAY_PING_LEN);
        relay_client_send(c, frame, sizeof(frame));
        wait = PONG_MS * SW_NS_PER_MS;
    } else {
        wait -= quiet;
    }
    sw_timer_start(w->loop, &c->timer, wait, on_timer);
}

static void on_timer(struct sw_timer *t)
{
    struct relay_client *c = SW_CONTAINER_OF(t, struct relay_client, timer);

    if (c->setup && c->setup->awaited) {
        relay_client_denied(c, UNKNOWN, UNKNOWN);
    } else if (c->state != RELAY_ACTIVE) {
        if (c->setup && c->setup->answered) {
            relay_client_drain(c); /* a connection of HTTP that is only kept open */
            return;
        }
        relay_client_refuse(c, SW_WS_POLICY, "timeout", "not established in time");
    } else if (c->throttled) {
        c->throttled = false;
        c->rx_ns = sw_loop_now(c->worker->loop); /* it was silent meanwhile */
        sw_conn_resume(&c->ws.io);
        sw_timer_start(c->worker->loop, &c->timer, ping_delay(), on_timer);
    } else {
        check_life(c);
    }
}

/* ---- the connection ---- */

static void on_open(struct sw_wsconn *ws)
{
    (void)ws; /* the handshake of TLS is done: the request follows */
}

static size_t on_bytes(struct sw_wsconn *ws, struct sw_slice in)
{
    struct relay_client *c = client_of(ws);

    return c->state == RELAY_HTTP ? relay_http_bytes(c, in) : in.n;
}

static void on_end(struct sw_wsconn *ws, const struct sw_err *why)
{
    struct relay_client *c = client_of(ws);

    if (c->state == RELAY_GONE)
        return;
    if (why->rc == SW_EPROTO || why->rc == SW_ELIMIT || why->rc == SW_EDENIED) {
        relay_client_note(c, c->upgraded ? "protocol" : "handshake", why->msg);
        if (!c->upgraded)
            sw_metric_add(c->worker->stats.http_errored, 1);
    } else if (why->rc == SW_ETIME) {
        relay_client_note(c, "write_timeout", why->msg);
    }
    log_end(c, why->msg);
    leave(c);
}

static void on_free(struct sw_wsconn *ws)
{
    struct relay_client *c = client_of(ws);
    struct relay_worker *w = c->worker;

    sw_list_unlink(&c->link);
    relay_not_evictable(c);
    w->n_clients--;
    relay_give_place(w->relay);
    sw_free(c);
}

static const struct sw_wsconn_ops ops = {
    .on_open = on_open,
    .on_bytes = on_bytes,
    .on_message = on_message,
    .on_text = on_text,
    .on_batch = on_batch,
    .on_end = on_end,
    .on_free = on_free,
};

static struct sw_tls *make_tls(const struct relay_worker *w, struct sw_err *err)
{
    struct sw_tls_params p = {
        .server = true,
        .web = true,
        .no_client_cert = true,
        .tls12 = true,
        .chacha = true,
        .exporter = true,
        .cred = w->cred,
        .alpn = "http/1.1",
    };

    return sw_tls_new(&p, err);
}

bool relay_client_start(struct relay_worker *w, int fd, const struct sw_addr *peer, bool tls)
{
    const struct sw_relay_config *cfg = w->relay->config;
    struct relay_client *c;
    struct sw_wsconn_opts o = {.ops = &ops,
                               .message_max = SW_RELAY_MESSAGE_MAX,
                               .stall_ms = (uint32_t)(cfg->write_timeout_ns / SW_NS_PER_MS)};
    struct sw_err err = {0};

    if (tls) {
        o.tls = make_tls(w, &err);
        if (!o.tls) {
            relay_refused(w, false, "handshake", err.msg);
            sw_sock_close(fd);
            return false;
        }
    }
    c = SW_NEW(struct relay_client);
    if (sw_wsconn_init(&c->ws, w->loop, fd, &o, &err) != SW_OK) {
        relay_refused(w, false, "system", err.msg);
        sw_free(c);
        return false;
    }
    c->worker = w;
    c->tls = tls;
    c->setup = SW_NEW(struct relay_setup);
    c->setup->peer = *peer;
    c->setup->client = c;
    relay_evictable(c, false);
    sw_list_init(&c->same);
    sw_list_push_back(&w->clients, &c->link);
    w->n_clients++;
    sw_metric_add(w->stats.http, 1);
    sw_timer_start(w->loop, &c->timer, cfg->establish_ns, on_timer);
    return true;
}
