/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The datagrams of one client through CONNECT-UDP (RFC 9298): an exchange whose body is capsules.
 * Pools, TLS, both versions of HTTP and circuit limits are those of any other exchange. Nothing is
 * sent before the answer; what comes meanwhile is kept within the limits the configuration gives.
 */
#include <stdio.h>

#include "base/hash.h"
#include "base/mem.h"
#include "gateway/config/config.h"
#include "gateway/exchange/exchange.h"
#include "gateway/exchange/side.h"
#include "gateway/exchange/state.h"
#include "gateway/l4/tcp.h"
#include "gateway/l4/udp.h"
#include "gateway/message/fields.h"
#include "gateway/observe/accesslog.h"
#include "http/capsule.h"
#include "http/grammar.h"
#include "io/dgram.h"

#define ANSWER_NS (15 * UINT64_C(1000000000))

struct sw_gw_udp_tunnel {
    struct sw_gw_worker *worker;
    const struct sw_gw_udp_tunneling *conf; /* of the exchange's listener */
    const struct sw_gw_udp_tunnel_ops *ops;
    void *arg;
    struct sw_exchange *x; /* NULL at the end */
    uint8_t *scratch;      /* borrowed */
    struct sw_capsule_reader reader;
    struct sw_buf kept; /* capsules that wait for the answer */
    uint32_t n_kept;
    struct sw_defer event; /* something to do that must not be done inside a callback */
    bool open;
    bool paused;
    bool over;
    const char *reason; /* why it is over; NULL: well */
    char why[96];
};

static struct sw_gw_udp_tunnel *of(const struct sw_exchange *x)
{
    return x->down.stream;
}

static struct sw_gw_udp_tunnel *detach(struct sw_exchange *x)
{
    struct sw_gw_udp_tunnel *t = gw_side_detach(&x->down);

    t->x = NULL;
    return t;
}

/* ---- what is done from the loop ---- */

static void send_bytes(struct sw_gw_udp_tunnel *t, uint8_t *p, size_t n)
{
    struct sw_exchange *x = t->x;

    x->sending_kept = true; /* its room is not that of a connection's buffer */
    sw_exchange_down_data(x, sw_slice(p, n));
    if (t->x != x)
        return;
    x->sending_kept = false;
    if (x->up.ops && x->up.head_sent)
        x->up.ops->flush(&x->up);
}

static void send_kept(struct sw_gw_udp_tunnel *t)
{
    size_t n = sw_buf_len(&t->kept); /* no more than a datagram can have */
    uint8_t *p = t->scratch + SW_GW_UDP_FRONT;

    if (n == 0)
        return;
    memcpy(p, sw_buf_data(&t->kept), n);
    sw_buf_done(&t->kept);
    send_bytes(t, p, n);
}

static void on_event(struct sw_defer *d)
{
    struct sw_gw_udp_tunnel *t = SW_CONTAINER_OF(d, struct sw_gw_udp_tunnel, event);

    if (!t->over) {
        send_kept(t);
        return;
    }
    gw_side_client_gone(SW_TAKE(t->x));
    t->ops->ended(t->arg, t->reason, t->why);
}

static void end(struct sw_gw_udp_tunnel *t, const char *reason)
{
    if (t->over)
        return;
    t->over = true;
    t->reason = reason;
    sw_loop_defer(t->worker->loop, &t->event, on_event);
}

/* ---- as the exchange sees the client ---- */

static void note_refusal(struct sw_gw_udp_tunnel *t, const struct sw_exchange *x)
{
    const struct sw_slice *said =
        sw_gw_fields_find(&x->resp.fields, SW_SLICE_LIT("x-spanwire-reason"));

    if (x->resp.local)
        (void)snprintf(t->why, sizeof(t->why), "%s%s%.60s", x->detail ? x->detail : "no answer",
                       x->failure[0] ? ": " : "", x->failure);
    else
        (void)snprintf(t->why, sizeof(t->why), "answered %u%s%.*s", x->resp.status,
                       said ? ", " : "", said ? (int)said->n : 0, said ? said->p : "");
}

static void send_head(struct sw_exchange *x, bool last)
{
    struct sw_gw_udp_tunnel *t = of(x);

    if (x->resp.length != SW_GW_LENGTH_TUNNEL) {
        note_refusal(t, x);
        end(t, x->resp.local ? "udp_tunnel_failed" : "udp_tunnel_refused");
        return;
    }
    t->open = true;
    x->down.tunnel = true;
    sw_loop_defer(t->worker->loop, &t->event, on_event);
}

static void send_data(struct sw_exchange *x, struct sw_slice in)
{
    struct sw_gw_udp_tunnel *t = of(x);
    struct sw_err err = {0};
    int rc = SW_OK;

    while (in.n && rc == SW_OK && t->open && !t->over) {
        struct sw_slice value = {0};
        struct sw_slice payload = {0};
        size_t used = 0;

        rc = sw_capsule_next(&t->reader, in, &used, &value, &err);
        in = sw_slice_from(in, used);
        if (rc == SW_OK && sw_masque_udp_payload(value, &payload) == SW_OK)
            t->ops->datagram(t->arg, payload);
    }
    if (rc != SW_OK && rc != SW_EAGAIN)
        end(t, "udp_bad_capsule");
}

static void send_end(struct sw_exchange *x)
{
    struct sw_gw_udp_tunnel *t = of(x);

    end(t, sw_capsule_idle(&t->reader) ? NULL : "udp_bad_capsule");
}

static void pause_reading(struct sw_gw_side *s)
{
    ((struct sw_gw_udp_tunnel *)s->stream)->paused = true;
}

static void resume_reading(struct sw_gw_side *s)
{
    ((struct sw_gw_udp_tunnel *)s->stream)->paused = false;
}

static void abort_down(struct sw_exchange *x)
{
    struct sw_gw_udp_tunnel *t = of(x);

    if (!t->over)
        (void)snprintf(t->why, sizeof(t->why), "%s", x->failure[0] ? x->failure : "broken off");
    end(detach(x), "udp_tunnel_failed");
}

static void done(struct sw_exchange *x)
{
    end(detach(x), NULL);
}

static const struct sw_gw_side_ops side = {
    .send_head = send_head,
    .send_data = send_data,
    .send_end = send_end,
    .flush = gw_side_nothing,
    .blocked = gw_side_never_blocked, /* drops datagrams that do not fit: nothing ever waits */
    .pause = pause_reading,
    .resume = resume_reading,
    .abort = abort_down,
    .done = done,
    .send_info = gw_side_no_info,
};

/* ---- the request ---- */

/* Authority and path from the configuration. False: one of the hosts is not one. */
static bool fill_target(struct sw_exchange *x, const struct sw_gw_udp_tunneling *conf,
                        const struct sw_gw_vars *vars)
{
    SW_BUF_AUTO path = {.max = 1024};
    char back[SW_MASQUE_HOST_MAX + 1];
    struct sw_slice host = sw_gw_format_text(conf->target_host, vars, &x->arena);
    uint16_t port;

    if (host.n > 2 && host.p[0] == '[' && host.p[host.n - 1] == ']')
        host = sw_slice(host.p + 1, host.n - 2);
    if (sw_masque_put_udp_path(&path, host, conf->target_port) != SW_OK ||
        sw_masque_udp_path(sw_buf_slice(&path), back, &port, NULL) != SW_OK)
        return false;
    x->req.path = sw_arena_slice(&x->arena, sw_buf_slice(&path));
    x->req.authority = sw_gw_format_text(conf->proxy_host, vars, &x->arena);
    if (conf->proxy_port)
        x->req.authority = sw_slice_str(sw_arena_printf(
            &x->arena, "%.*s:%u", SW_SLICE_ARG(x->req.authority), conf->proxy_port));
    return sw_http_host_valid(x->req.authority);
}

static void fill_request(struct sw_exchange *x)
{
    x->req.method = SW_SLICE_LIT("CONNECT");
    x->req.upgrade = SW_SLICE_LIT("connect-udp");
    x->req.scheme = SW_SLICE_LIT("https");
    x->req.version = SW_GW_HTTP2;
    x->req.length = SW_GW_LENGTH_TUNNEL;
    sw_gw_fields_init(&x->arena, &x->req.fields, 8);
    sw_gw_fields_add(&x->arena, &x->req.fields, SW_SLICE_LIT("capsule-protocol"),
                     SW_SLICE_LIT("?1"));
}

static void begin(struct sw_gw_udp_tunnel *t, struct sw_gw_listener *l,
                  const struct sw_addr *client, const struct sw_addr *local)
{
    const struct sw_gw_udp_proxy *p = &l->udp;
    struct sw_exchange *x = sw_exchange_new(t->worker);
    struct sw_gw_route_state *rs = SW_ARENA_NEW(&x->arena, struct sw_gw_route_state);
    struct sw_gw_vars vars = {
        .peer = *client, .local = *local, .listener = l->name, .cluster = p->cluster};
    bool ok;

    x->from.listener = sw_gw_listener_ref(l);
    x->from.peer = *client;
    x->from.local = *local;
    x->from.connection_id = ++t->worker->connection_seq;
    fill_request(x);
    ok = fill_target(x, p->tunnel, &vars);
    sw_gw_tunnel_headers(x, p->tunnel->headers, p->tunnel->n_headers, &vars);
    rs->cluster = p->cluster;
    rs->pick.original_dst = *local;
    rs->pick.has_hash = p->hash_source_ip;
    rs->pick.hash = sw_siphash13(1, 1, client->ip.b, sizeof(client->ip.b));
    x->rs = rs;
    x->plan.upgrade = true;
    x->plan.try_timeout_ns = ANSWER_NS;
    x->down.ops = &side;
    x->down.stream = t;
    t->x = x;
    if (ok)
        sw_exchange_start(x, false);
    else
        sw_exchange_refuse(x, 500, "bad_tunnel_target");
}

/* ---- life ---- */

struct sw_gw_udp_tunnel *sw_gw_udp_tunnel_new(struct sw_gw_worker *w,
                                              const struct sw_gw_udp_tunnel_opts *o)
{
    struct sw_gw_udp_tunnel *t = SW_NEW(struct sw_gw_udp_tunnel);

    t->worker = w;
    t->conf = o->listener->udp.tunnel;
    t->ops = o->ops;
    t->arg = o->arg;
    t->scratch = o->scratch;
    sw_buf_init(&t->kept, sw_min(t->conf->max_bytes, SW_DGRAM_MAX));
    begin(t, o->listener, o->client, o->local);
    return t;
}

static bool keep(struct sw_gw_udp_tunnel *t, const uint8_t *p, size_t n)
{
    if (t->n_kept >= t->conf->max_datagrams || sw_buf_len(&t->kept) + n > t->kept.max ||
        sw_buf_append_slice(&t->kept, sw_slice(p, n)) != SW_OK)
        return false;
    t->n_kept++;
    return true;
}

bool sw_gw_udp_tunnel_send(struct sw_gw_udp_tunnel *t, uint8_t *p, size_t n)
{
    uint8_t head[SW_CAPSULE_UDP_HEAD];
    size_t k = sw_capsule_udp_head(head, n);

    if (t->over || !t->x || t->paused || n > SW_UDP_PAYLOAD_MAX)
        return false;
    memcpy(p - k, head, k);
    if (!t->open || sw_buf_len(&t->kept))
        return keep(t, p - k, n + k);
    send_bytes(t, p - k, n + k);
    return true;
}

void sw_gw_udp_tunnel_free(struct sw_gw_udp_tunnel *t)
{
    if (!t)
        return;
    gw_side_client_gone(SW_TAKE(t->x));
    sw_defer_cancel(&t->event);
    sw_capsule_done(&t->reader);
    sw_buf_done(&t->kept);
    sw_free(t);
}
