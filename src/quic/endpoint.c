/* SPDX-License-Identifier: Apache-2.0 */
/* An endpoint: its sockets, its turn of work, and how it begins and ends. */
#include <ngtcp2/ngtcp2.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "io/sock.h"
#include "quic/cid.h"
#include "quic/conn.h"
#include "quic/endpoint.h"
#include "quic/handshake.h"
#include "quic/path_int.h"
#include "quic/send.h"
#include "quic/stateless.h"
#include "quic/stream.h"
#include "tls/record.h"

enum {
    BATCHES_PER_WAKE = 8,
    SOCKET_BUFFER = 7 * 1024 * 1024,
    ALPNS_MAX = 16,
};

#define HOUSEKEEPING_NS  (10 * SW_NS_PER_S)
#define NETWORK_NS       (250 * SW_NS_PER_MS) /* between two changes of the network; doubles */
#define NETWORK_MAX_NS   (2 * SW_NS_PER_S)
#define NETWORK_QUIET_NS (10 * SW_NS_PER_S) /* after that a change is the first one again */

/* ---- a turn ---- */

static void on_turn(struct sw_defer *d);

void sw_quic_wake(struct sw_quic *q)
{
    if (!q->busy)
        sw_loop_defer(q->loop, &q->turn, on_turn);
}

static void report_ready(struct sw_qconn *c)
{
    struct sw_quic *q = c->q;

    c->shake.complete = false;
    c->shake.told = true;
    c->paths.told = c->paths.now;
    if (c->dialled) {
        if (c->ops && c->ops->ready)
            c->ops->ready(c);
        return;
    }
    q->stats.accepted++;
    if (q->cfg.accepted)
        q->cfg.accepted(q->cfg.arg, c);
    if (!c->ops)
        sw_qconn_close(c, 0, "endpoint accepts no connections");
}

static void run_stream_callbacks(struct sw_qconn *c)
{
    struct sw_list now;
    struct sw_qstream *s;

    sw_list_init(&now);
    sw_list_splice(&now, &c->streams.events);
    while ((s = SW_LIST_POP(&now, struct sw_qstream, event)))
        sw_qstream_run_callbacks(s);
}

static void deliver_datagrams(struct sw_qconn *c)
{
    struct sw_qdgram *d;

    while ((d = SW_LIST_POP(&c->dgrams.in, struct sw_qdgram, link))) {
        if (!c->end.closing && !sw_qreach_datagram(c, d->p, d->n) && c->ops && c->ops->datagram)
            c->ops->datagram(c, d->p, d->n);
        sw_free(d);
    }
}

static void run_callbacks(struct sw_qconn *c)
{
    if (c->shake.complete && !c->end.closing)
        report_ready(c);
    if (c->shake.told) {
        run_stream_callbacks(c);
        deliver_datagrams(c);
        if (c->paths.changed && c->ops && c->ops->path && !c->end.closing)
            c->ops->path(c);
        c->paths.changed = false;
        if (c->streams.room && c->ops && c->ops->room && !c->end.closing)
            c->ops->room(c);
        c->streams.room = false;
    }
    if (c->end.closing && !sw_qconn_lingers(c))
        sw_qconn_bury(c);
}

static void run_all_callbacks(struct sw_quic *q)
{
    struct sw_qconn *c;

    while ((c = SW_LIST_POP(&q->events, struct sw_qconn, event)))
        run_callbacks(c);
    q->scratch.gathered = 0;
    q->scratch.pieces.n = 0;
}

static void write_all(struct sw_quic *q)
{
    struct sw_list now;
    struct sw_qconn *c;

    sw_list_init(&now);
    sw_list_splice(&now, &q->dirty);
    while ((c = SW_LIST_POP(&now, struct sw_qconn, dirty))) {
        sw_qpath_check(c);
        sw_qconn_write(c);
    }
}

void sw_quic_turn(struct sw_quic *q)
{
    q->busy = true;
    run_all_callbacks(q);
    write_all(q);
    run_all_callbacks(q);
    q->busy = false;
    if (!sw_list_empty(&q->dirty) || !sw_list_empty(&q->events))
        sw_quic_wake(q);
}

/* ---- packets in ---- */

void sw_quic_packet(struct sw_quic *q, const struct sw_qroute *from, uint8_t ecn, uint8_t *p,
                    size_t n)
{
    ngtcp2_version_cid vc;
    struct sw_qconn *c = NULL;
    int rc;

    if (n == 0)
        return;
    q->stats.rx_packets++;
    q->stats.rx_bytes += n;
    if (sw_probe_is(p, n) && sw_quic_probe(q, from, p, n))
        return;
    if (!from->relay && sw_qseen_by_packet(q, from, p, n))
        return;
    rc = ngtcp2_pkt_decode_version_cid(&vc, p, n, QUIC_CID_LEN);
    if (rc == 0)
        c = sw_qcid_find(q, vc.dcid, vc.dcidlen);
    if (c)
        sw_qconn_read(c, from, ecn, p, n);
    else
        sw_quic_stranger(q, from, ecn, p, n, false);
}

static void cut(struct sw_qsock *s, const struct sw_dgram_in *in)
{
    struct sw_qroute from = {
        .sock = (uint8_t)(s - s->q->sock), .local = in->to, .remote = in->from};

    for (size_t at = 0; at < in->n; at += in->segment)
        sw_quic_packet(s->q, &from, in->ecn, in->buf + at, sw_min(in->segment, in->n - at));
}

static void read_socket(struct sw_qsock *s)
{
    struct sw_quic *q = s->q;
    struct sw_dgram_in in[SW_DGRAM_BATCH];

    s->more = false;
    for (size_t i = 0; i < SW_DGRAM_BATCH; i++)
        in[i].buf = q->scratch.rx + i * SW_DGRAM_MAX;
    for (int round = 0; round < BATCHES_PER_WAKE; round++) {
        int n;

        q->stats.rx_calls++;
        n = sw_dgram_recv_batch(s->fd, in, SW_DGRAM_BATCH);
        if (n < 0)
            return;
        q->busy = true;
        for (int i = 0; i < n; i++)
            cut(s, &in[i]);
        sw_quic_turn(q);
        /* That was all there was: whatever comes later is an event of its own. */
        if (n > 0 && n < SW_DGRAM_BATCH)
            return;
    }
    s->more = true;
    sw_quic_wake(q);
}

static void on_turn(struct sw_defer *d)
{
    struct sw_quic *q = SW_CONTAINER_OF(d, struct sw_quic, turn);

    sw_quic_turn(q);
    for (size_t i = 0; i < q->n_socks; i++)
        if (q->sock[i].more)
            read_socket(&q->sock[i]);
}

static void send_waiting(struct sw_qsock *s)
{
    if (sw_dgram_send_batch(s->fd, &s->waiting_out) == SW_EAGAIN)
        return;
    sw_free(s->waiting);
    s->waiting = NULL;
    s->full = false;
    sw_watch_writable(&s->watch, false);
    SW_LIST_EACH (struct sw_qconn, c, &s->q->conns, link)
        sw_qconn_touch(c);
}

static void on_socket(struct sw_watch *w, unsigned events)
{
    struct sw_qsock *s = SW_CONTAINER_OF(w, struct sw_qsock, watch);

    if (s->full && (events & SW_WRITE))
        send_waiting(s);
    if (events & SW_READ)
        read_socket(s);
}

/* ---- begin and end ---- */

static int open_socket(struct sw_quic *q, const struct sw_addr *at, struct sw_err *err)
{
    struct sw_qsock *s = &q->sock[q->n_socks];
    const struct sw_sock_opts o = {.v6only = true, .netns_fd = -1};
    int rc;

    s->q = q;
    rc = sw_dgram_bind(at, &o, &s->fd, err);
    if (rc != SW_OK)
        return rc;
    s->addr = sw_sock_local(s->fd);
    sw_dgram_tune(s->fd, &s->addr, SOCKET_BUFFER);
    rc = sw_watch_start_reading(q->loop, &s->watch, s->fd, on_socket, err);
    if (rc != SW_OK) {
        sw_sock_close(s->fd);
        return rc;
    }
    q->n_socks++;
    return SW_OK;
}

static int open_sockets(struct sw_quic *q, struct sw_err *err)
{
    struct sw_addr v4 = {.ip = {.family = 4}};
    struct sw_addr v6 = {.ip = {.family = 6}};
    int rc;

    if (q->cfg.bind.ip.family)
        return open_socket(q, &q->cfg.bind, err);
    v4.port = q->cfg.bind.port;
    v6.port = q->cfg.bind.port;
    rc = open_socket(q, &v4, err);
    /* A machine without IPv6 is no reason to refuse. */
    if (rc == SW_OK && open_socket(q, &v6, NULL) != SW_OK)
        sw_log_debug("quic", "no IPv6 socket");
    return rc;
}

static void set_default(uint64_t *v, uint64_t value)
{
    if (*v == 0)
        *v = value;
}

static void copy_config(struct sw_quic *q, const struct sw_quic_config *cfg)
{
    struct sw_quic_config *c = &q->cfg;

    *c = *cfg;
    if (c->max_conns == 0)
        c->max_conns = 4096;
    if (c->max_half_open == 0)
        c->max_half_open = 64;
    set_default(&c->max_streams, 1024);
    set_default(&c->stream_window, UINT64_C(16) << 20);
    set_default(&c->conn_window, UINT64_C(32) << 20);
    set_default(&c->first_window, QUIC_FLOOR);
    c->first_window = sw_min(c->first_window, c->stream_window);
    set_default(&c->max_buffered, UINT64_C(128) << 20);
    set_default(&c->max_conn_buffered, c->max_buffered / 2);
    set_default(&c->idle_ns, 30 * SW_NS_PER_S);
    set_default(&c->keepalive_ns, 5 * SW_NS_PER_S);
    set_default(&c->dial_ns, 10 * SW_NS_PER_S);
    c->n_alpns = sw_min(c->n_alpns, ALPNS_MAX);
    q->alpns = SW_NEW_ARRAY(struct sw_slice, c->n_alpns + 1);
    for (size_t i = 0; i < c->n_alpns; i++)
        q->alpns[i] = sw_slice_copy(cfg->alpns[i]);
    c->alpns = q->alpns;
    q->ca_file = cfg->relay_ca_file ? sw_strdup(cfg->relay_ca_file) : NULL;
    q->token = sw_slice_copy(cfg->relay_token);
    q->token_for = sw_slice_copy(cfg->relay_token_for);
    q->key_update_after = UINT64_C(1) << 22;
}

static void on_housekeeping(struct sw_timer *t)
{
    struct sw_quic *q = SW_CONTAINER_OF(t, struct sw_quic, housekeeping);

    sw_qrelays_sweep(q, false);
    sw_timer_start(q->loop, t, HOUSEKEEPING_NS, on_housekeeping);
}

struct sw_quic *sw_quic_new(struct sw_loop *l, const struct sw_quic_config *cfg, struct sw_err *err)
{
    struct sw_quic *q = SW_NEW(struct sw_quic);

    q->loop = l;
    sw_list_init(&q->conns);
    sw_list_init(&q->conn.graves);
    sw_list_init(&q->conn.halves);
    sw_list_init(&q->conn.failures);
    sw_list_init(&q->dirty);
    sw_list_init(&q->events);
    sw_list_init(&q->relays);
    sw_list_init(&q->held.all);
    copy_config(q, cfg);
    /*
     * Of the key, not random: a process that starts again on the same port can tell the peers of
     * the one before that their connections are gone.
     */
    sw_hkdf_label(sw_rawkey_seed(cfg->key), SW_SEED_LEN, "spanwire reset", q->secret,
                  sizeof(q->secret));
    q->openings = sw_qopenings_new(q);
    q->path_lib = sw_qpathlib_new();
    q->tls = sw_qtls_new(cfg->key, q->alpns, q->cfg.n_alpns, err);
    if (!q->tls || open_sockets(q, err) != SW_OK) {
        sw_quic_free(q);
        return NULL;
    }
    q->scratch.rx = sw_malloc(QUIC_GATHER);
    q->scratch.tx = sw_malloc(SW_DGRAM_SEND_MAX + QUIC_MTU_LOOPBACK);
    q->scratch.gather = sw_malloc(QUIC_GATHER);
    sw_timer_start(l, &q->housekeeping, HOUSEKEEPING_NS, on_housekeeping);
    return q;
}

static void close_all(struct sw_quic *q)
{
    SW_LIST_EACH (struct sw_qconn, c, &q->conns, link) {
        sw_qconn_close(c, 0, "");
        sw_qconn_bury(c);
    }
    SW_LIST_EACH (struct sw_qconn, c, &q->conn.graves, link)
        sw_qconn_free(c);
}

void sw_quic_free(struct sw_quic *q)
{
    if (!q)
        return;
    q->busy = true;
    close_all(q);
    sw_qrelay_held_done(q);
    q->cfg.mapped = NULL;
    sw_qrelays_sweep(q, true);
    sw_defer_cancel(&q->turn);
    sw_timer_stop(q->loop, &q->housekeeping);
    sw_timer_stop(q->loop, &q->network.timer);
    for (size_t i = 0; i < q->n_socks; i++) {
        sw_watch_stop(&q->sock[i].watch);
        sw_sock_close(q->sock[i].fd);
        sw_free(q->sock[i].waiting);
    }
    sw_qopenings_free(q->openings);
    sw_qtls_free(q->tls);
    for (size_t i = 0; i < q->cfg.n_alpns; i++)
        sw_slice_free(&q->alpns[i]);
    sw_free(q->alpns);
    sw_free(q->ca_file);
    sw_slice_free(&q->token);
    sw_slice_free(&q->token_for);
    sw_map_done(&q->ids.cids);
    sw_map_done(&q->ids.tokens);
    sw_map_done(&q->reaches);
    sw_vec_done(&q->scratch.pieces);
    sw_qchunks_done(q);
    sw_free(q->path_lib);
    sw_free(q->scratch.rx);
    sw_free(q->scratch.tx);
    sw_free(q->scratch.gather);
    explicit_bzero(q->secret, sizeof(q->secret));
    sw_free(q);
}

void sw_quic_drain(struct sw_quic *q)
{
    q->draining = true;
    SW_LIST_EACH (struct sw_qconn, c, &q->conns, link) {
        if (c->streams.n == 0)
            sw_qconn_close(c, 0, "");
    }
}

size_t sw_quic_bound(const struct sw_quic *q, struct sw_addr ret[2])
{
    for (size_t i = 0; i < q->n_socks; i++)
        ret[i] = q->sock[i].addr;
    return q->n_socks;
}

static void on_network_timer(struct sw_timer *t);

static void network_changed(struct sw_quic *q)
{
    uint64_t now = sw_quic_now(q);
    bool quiet = now - q->network.at_ns >= NETWORK_QUIET_NS;

    q->network.waits = false;
    q->network.at_ns = now;
    q->network.gap_ns = quiet ? NETWORK_NS : sw_min(2 * q->network.gap_ns, NETWORK_MAX_NS);
    sw_timer_start(q->loop, &q->network.timer, q->network.gap_ns, on_network_timer);
    sw_qopenings_network_changed(q);
    SW_LIST_EACH (struct sw_qrelay, r, &q->relays, link) {
        sw_relay_client_probe(r->client);
        sw_qseen_by_start(r);
    }
    SW_LIST_EACH (struct sw_qconn, c, &q->conns, link)
        sw_qpath_network_changed(c);
}

static void on_network_timer(struct sw_timer *t)
{
    struct sw_quic *q = SW_CONTAINER_OF(t, struct sw_quic, network.timer);

    if (q->network.waits)
        network_changed(q);
}

/*
 * Each change makes every connection move and probe anew, which costs connection IDs of its peer.
 * So the first of several acts at once, the others together after a pause that doubles.
 */
void sw_quic_network_changed(struct sw_quic *q)
{
    q->network.waits = true;
    if (!sw_timer_running(&q->network.timer))
        network_changed(q);
}

/* All ways to the target; why not is in err. */
static int find_routes(struct sw_quic *q, const struct sw_quic_target *t, struct sw_slice alpn,
                       struct sw_qroutes *ret, struct sw_err *err)
{
    if (sw_nodeid_eq(&t->id, sw_rawkey_id(q->cfg.key)))
        return sw_err_set(err, SW_EINVAL, "a node cannot dial itself");
    if (alpn.n == 0 || alpn.n > 255 || !sw_nodeid_valid(&t->id))
        return sw_err_set(err, SW_EINVAL, "no protocol, or a NodeID that is no key");
    if (q->conn.n >= q->cfg.max_conns || q->draining)
        return sw_err_set(err, SW_ELIMIT, "too many connections");
    for (size_t i = 0; i < t->n_addrs; i++)
        (void)sw_qdial_add(q, ret, &t->addrs[i]);
    if (t->relay.n > 0 && ret->n < QUIC_ROUTES_MAX) {
        struct sw_qrelay *r = sw_qrelay_of_peer(q, &t->id, t->relay, err);

        if (r)
            ret->route[ret->n++] = (struct sw_qroute){.relay = r, .node = t->id};
        else if (ret->n == 0)
            return SW_EINVAL; /* err says why */
    }
    return ret->n ? SW_OK : sw_err_set(err, SW_EINVAL, "no address to dial");
}

struct sw_qconn *sw_quic_dial(struct sw_quic *q, const struct sw_quic_target *t,
                              struct sw_slice alpn, const struct sw_qconn_ops *ops, void *arg,
                              struct sw_err *err)
{
    struct sw_qroutes dial = {0};
    struct sw_qconn *c;

    if (find_routes(q, t, alpn, &dial, err) != SW_OK)
        return NULL;
    c = sw_qconn_dial(q, &t->id, alpn, &dial, err);
    if (c)
        sw_qconn_set_ops(c, ops, arg);
    return c;
}

void sw_quic_stats(const struct sw_quic *q, struct sw_quic_stats *ret)
{
    *ret = q->stats;
    ret->conns = q->conn.n;
    ret->conns_relay = 0;
    ret->buffered = q->memory.tx;
    SW_LIST_EACH (const struct sw_qconn, c, &q->conns, link) {
        bool relay = sw_qconn_path(c) == SW_QPATH_RELAY;
        uint64_t *rtt = relay ? &ret->rtt_relay_ns : &ret->rtt_direct_ns;

        ret->conns_relay += relay;
        if (c->shake.told)
            *rtt = sw_max(*rtt, sw_qconn_rtt_ns(c));
        ret->buffered += c->flow.held;
    }
}
