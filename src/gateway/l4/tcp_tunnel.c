/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TCP through an exchange: the client's bytes are the body of a CONNECT, which either goes to the
 * upstream as one (tunneling_config, over HTTP/1.1 or HTTP/2) or ends in our own upstream
 * connection, so that pools, TLS, internal addresses, retries and logs are those of HTTP.
 */
#include <stdio.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "gateway/config/config.h"
#include "gateway/config/tls.h"
#include "gateway/exchange/clients.h"
#include "gateway/exchange/exchange.h"
#include "gateway/exchange/side.h"
#include "gateway/exchange/state.h"
#include "gateway/l4/tcp.h"
#include "gateway/message/fields.h"
#include "gateway/observe/accesslog.h"
#include "gateway/observe/stats.h"
#include "gateway/upstream/host.h"
#include "gateway/upstream/hosts.h"
#include "http/grammar.h"
#include "io/conn/conn.h"
#include "io/sock.h"
#include "tls/connfilter.h"
#include "tls/tls.h"

enum { HANDSHAKE_MS = 15000, CAUSE_ID_MAX = 128, CAUSE_HOST_MAX = 253, CAUSE_PATH_MAX = 256 };

struct tun {
    struct sw_conn conn; /* the client's */
    struct sw_gw_down life;
    struct sw_gw_worker *worker;
    struct sw_gw_origin from;
    struct sw_slice cluster;         /* of the chain */
    struct sw_exchange *x;           /* NULL before the handshake and at the end */
    const struct sw_exchange *cause; /* while it begins: the request it is for; NULL: not known */
    bool open;                       /* the tunnel stands */
    bool linked;
};

static struct tun *of(struct sw_conn *c)
{
    return SW_CONTAINER_OF(c, struct tun, conn);
}

static struct tun *of_x(const struct sw_exchange *x)
{
    return x->down.stream;
}

/* ---- as the exchange sees the client ---- */

static void copy_field(const struct sw_exchange *x, const char *name, char *to, size_t cap)
{
    const struct sw_gw_fields *f = &x->resp.fields;

    to[0] = '\0';
    for (size_t i = 0; i < f->n; i++) {
        if (sw_slice_ieq(f->p[i].name, sw_slice_str(name)))
            (void)snprintf(to, cap, "%.*s", SW_SLICE_ARG(f->p[i].value));
    }
}

/* The proxy refused the CONNECT: keeps the reason for the exchange behind the internal listener. */
static void note_refusal(const struct tun *t, const struct sw_exchange *x)
{
    struct sw_gw_host *h = t->from.keep;

    if (!h)
        return;
    if (!h->refusal)
        h->refusal = SW_ARENA_NEW(&h->arena, struct sw_gw_refusal);
    h->refusal->at_ns = sw_loop_now(t->worker->loop);
    h->refusal->status = x->resp.status;
    copy_field(x, "x-spanwire-reason", h->refusal->reason, sizeof(h->refusal->reason));
    copy_field(x, "proxy-status", h->refusal->proxy_status, sizeof(h->refusal->proxy_status));
}

static void send_head(struct sw_exchange *x, bool end)
{
    struct tun *t = of_x(x);

    if (x->resp.length != SW_GW_LENGTH_TUNNEL) {
        if (!x->resp.local) {
            (void)snprintf(x->failure, sizeof(x->failure), "tunnel_response:%u", x->resp.status);
            note_refusal(t, x);
        }
        return;
    }
    t->open = true;
    x->down.tunnel = true;
    sw_conn_resume(&t->conn);
}

static void send_data(struct sw_exchange *x, struct sw_slice data)
{
    if (of_x(x)->open) /* the body of a refusal is not for the client */
        sw_conn_send(&of_x(x)->conn, data);
}

static void send_end(struct sw_exchange *x)
{
    if (of_x(x)->open)
        sw_conn_shutdown(&of_x(x)->conn);
}

static void flush(struct sw_gw_side *s)
{
    (void)!sw_conn_flush(s->conn);
}

static struct tun *detach(struct sw_exchange *x)
{
    struct tun *t = gw_side_detach(&x->down);

    t->x = NULL;
    return t;
}

static void abort_down(struct sw_exchange *x)
{
    sw_conn_close(&detach(x)->conn, true);
}

static void done(struct sw_exchange *x)
{
    struct tun *t = detach(x);

    if (t->open)
        sw_conn_close_flushed(&t->conn);
    else
        sw_conn_close(&t->conn, true);
}

static const struct sw_gw_side_ops side = {
    .send_head = send_head,
    .send_data = send_data,
    .send_end = send_end,
    .flush = flush,
    .blocked = gw_side_conn_blocked,
    .pause = gw_side_conn_pause,
    .resume = gw_side_conn_resume,
    .abort = abort_down,
    .done = done,
    .send_info = gw_side_no_info,
};

/* ---- the request ---- */

void sw_gw_tunnel_headers(struct sw_exchange *x, const struct sw_gw_header_add *headers, size_t n,
                          const struct sw_gw_vars *vars)
{
    for (size_t i = 0; i < n; i++) {
        const struct sw_gw_header_add *h = &headers[i];
        struct sw_slice v = sw_gw_format_text(h->value, vars, &x->arena);

        if ((v.n == 0 && !h->keep_empty) || (v.n && !sw_http_value_valid(v)))
            continue;
        if (h->action == SW_GW_APPEND_OR_ADD)
            sw_gw_fields_add(&x->arena, &x->req.fields, h->name, v);
        else
            sw_gw_fields_set(&x->arena, &x->req.fields, h->name, v);
    }
}

/* Host and headers from the connection's metadata. False: the host is not one. */
static bool fill_tunnel(struct sw_exchange *x, const struct tun *t)
{
    const struct sw_gw_tunneling *tu = t->from.chain->tcp.tunnel;
    struct sw_gw_vars vars = {
        .peer = t->from.peer,
        .local = t->from.local,
        .sni = t->from.sni,
        .metadata = t->from.metadata,
        .listener = t->from.listener->name,
        .chain = t->from.chain->name,
        .cluster = t->cluster,
    };

    x->req.authority = sw_gw_format_text(tu->hostname, &vars, &x->arena);
    sw_gw_tunnel_headers(x, tu->headers, tu->n_headers, &vars);
    return sw_http_host_valid(x->req.authority);
}

/*
 * Which request the tunnel is opened for: sidecar and device log it, and `expose` shows what
 * failed. Method, authority and path go to connectors only: they get the request itself next.
 */
static void put_cause(struct sw_exchange *x, const struct tun *t)
{
    const struct sw_exchange *c = t->cause;
    const struct sw_slice *id = sw_gw_fields_get(&c->req.fields, SW_GW_H_X_REQUEST_ID);
    struct sw_slice said;

    if (id && id->n <= CAUSE_ID_MAX)
        sw_gw_fields_set(&x->arena, &x->req.fields, SW_SLICE_LIT("x-request-id"),
                         sw_arena_slice(&x->arena, *id));
    if (!sw_json_walk(t->from.metadata, "tunnel", "device", NULL) || !c->hcm)
        return;
    said = sw_slice_str(
        sw_arena_printf(&x->arena, "%.*s %.*s %.*s", SW_SLICE_ARG(sw_slice_head(c->req.method, 16)),
                        SW_SLICE_ARG(sw_slice_head(c->req.authority, CAUSE_HOST_MAX)),
                        SW_SLICE_ARG(sw_slice_head(c->req.path, CAUSE_PATH_MAX))));
    if (sw_http_value_valid(said))
        sw_gw_fields_set(&x->arena, &x->req.fields, SW_SLICE_LIT("x-spanwire-request"), said);
}

static void begin(struct tun *t)
{
    const struct sw_gw_tcp_proxy *p = &t->from.chain->tcp;
    struct sw_exchange *x = sw_exchange_new(t->worker);
    struct sw_gw_route_state *rs = SW_ARENA_NEW(&x->arena, struct sw_gw_route_state);
    bool host_ok = true;

    sw_gw_origin_tell(&t->from, x);
    x->from.sni = sw_arena_slice(&x->arena, t->from.sni);
    sw_exchange_meet(x, sw_tls_of(t->conn.filter));
    x->from.connection_id = ++t->worker->connection_seq;
    x->req.method = SW_SLICE_LIT("CONNECT");
    x->req.scheme = SW_SLICE_LIT("http");
    x->req.version = SW_GW_HTTP11;
    x->req.length = SW_GW_LENGTH_TUNNEL;
    x->req.connect = true;
    sw_gw_fields_init(&x->arena, &x->req.fields, 8);
    if (p->tunnel)
        host_ok = fill_tunnel(x, t);
    if (p->tunnel && t->cause)
        put_cause(x, t);
    rs->cluster = t->cluster;
    rs->pick.original_dst = t->from.local;
    rs->pick.has_hash = p->hash_source_ip;
    rs->pick.hash = sw_siphash13(1, 1, t->from.peer.ip.b, sizeof(t->from.peer.ip.b));
    x->rs = rs;
    x->plan.upgrade = true;
    x->plan.connect_terminate = p->tunnel == NULL;
    x->plan.idle_timeout_ns = p->idle_timeout_ns;
    x->plan.max_stream_ns = p->max_duration_ns;
    x->down.ops = &side;
    x->down.stream = t;
    x->down.conn = &t->conn;
    t->x = x;
    if (host_ok) {
        sw_exchange_start(x, false);
        return;
    }
    sw_log_warn("tcp", "listener '%.*s': invalid hostname '%.*s' in tunneling_config",
                SW_SLICE_ARG(t->from.listener->name), SW_SLICE_ARG_MAX(x->req.authority, 80));
    sw_exchange_refuse(x, 500, "bad_tunnel_hostname");
}

/* ---- as the connection reports ---- */

static void gone(struct tun *t)
{
    gw_side_client_gone(SW_TAKE(t->x));
}

static void on_open(struct sw_conn *c)
{
    struct tun *t = of(c);
    const char *why = NULL;
    char peer[SW_ADDR_TEXT];

    if (c->filter && !sw_gw_tls_client_ok(t->from.chain, sw_tls_of(c->filter), &why)) {
        sw_gw_lstats_tls_refused(t->life.stats, "client_certificate");
        if (sw_gw_lstats_may_log(t->life.stats))
            sw_log_info("tcp", "listener '%.*s': %s refused: %s",
                        SW_SLICE_ARG(t->from.listener->name), sw_addr_text(&t->from.peer, peer),
                        why);
        gone(t);
        sw_conn_close_flushed(c);
        return;
    }
    begin(t);
}

static size_t on_bytes(struct sw_conn *c, struct sw_slice in)
{
    struct tun *t = of(c);

    if (!t->open || !t->x) {
        sw_conn_pause(c); /* until the way is open */
        return 0;
    }
    sw_exchange_down_data(t->x, in);
    return in.n;
}

static void on_batch(struct sw_conn *c, size_t wire)
{
    struct tun *t = of(c);

    if (t->x && t->x->up.ops && t->x->up.head_sent)
        t->x->up.ops->flush(&t->x->up);
}

static void on_eof(struct sw_conn *c)
{
    struct tun *t = of(c);

    if (t->x && t->open) {
        sw_exchange_down_end(t->x);
        return;
    }
    if (t->x && !sw_sock_hung_up(c->watch.fd)) {
        sw_conn_repeat_eof(c); /* a half-close: it travels once the way is open */
        return;
    }
    gone(t);
    sw_conn_close(c, false);
}

static void on_drained(struct sw_conn *c)
{
    struct tun *t = of(c);

    if (t->x)
        sw_exchange_down_drained(t->x);
}

static void on_fail(struct sw_conn *c, const struct sw_err *err)
{
    struct tun *t = of(c);
    char peer[SW_ADDR_TEXT];

    if (!t->x && err)
        sw_log_debug("tcp", "%s: %s", sw_addr_text(&t->from.peer, peer), err->msg);
    gone(t);
    sw_conn_close(c, true);
}

static void on_free(struct sw_conn *c)
{
    struct tun *t = of(c);

    gone(t);
    if (t->linked)
        sw_gw_down_remove(t->worker, &t->life);
    sw_gw_origin_done(&t->from);
    sw_free(t);
}

static const struct sw_conn_ops ops = {
    .on_open = on_open,
    .on_bytes = on_bytes,
    .on_batch = on_batch,
    .on_eof = on_eof,
    .on_drained = on_drained,
    .on_fail = on_fail,
    .on_free = on_free,
};

static void on_kill(struct sw_gw_down *d)
{
    struct tun *t = SW_CONTAINER_OF(d, struct tun, life);

    gone(t);
    sw_conn_close(&t->conn, true);
}

static void on_drain(struct sw_gw_down *d)
{
    if (!SW_CONTAINER_OF(d, struct tun, life)->open)
        on_kill(d);
}

void sw_gw_tcp_exchange(struct sw_gw_worker *w, const struct sw_gw_accepted *a,
                        struct sw_slice cluster)
{
    struct tun *t = SW_NEW(struct tun);
    struct sw_tls *tls = NULL;
    struct sw_err err = {0};
    struct sw_conn_opts o = {
        .ops = &ops,
        .pre = a->pre,
        .open_ms =
            a->chain->connect_timeout_ns ? sw_gw_ms(a->chain->connect_timeout_ns) : HANDSHAKE_MS,
    };
    int rc = SW_OK;

    t->worker = w;
    sw_gw_origin_init(&t->from, a);
    t->cluster = cluster;
    t->life.drain = on_drain;
    t->life.kill = on_kill;
    t->life.stats = sw_gw_lstats(w, a->listener->name);
    if (a->chain->tls) {
        tls = sw_gw_tls_accept(a->chain, a->sni, &err);
        if (!tls) {
            sw_sock_close(a->fd);
            rc = err.rc;
        }
    }
    if (rc == SW_OK) {
        o.filter = sw_tls_filter(tls);
        rc = sw_conn_init(&t->conn, w->loop, a->fd, &o, &err);
    }
    if (rc != SW_OK) {
        sw_log_warn("tcp", "listener '%.*s': %s", SW_SLICE_ARG(a->listener->name), err.msg);
        sw_gw_origin_done(&t->from);
        sw_free(t);
        return;
    }
    sw_gw_down_add(w, &t->life);
    t->linked = true;
    if (!tls) {
        t->cause = a->cause;
        begin(t);
        t->cause = NULL;
    }
}
