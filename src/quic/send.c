/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way out. A write pass asks ngtcp2 for packets, puts those of equal size one behind the other
 * and hands them to the kernel, or to a relay, with one call.
 */
#include <ngtcp2/ngtcp2.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "quic/conn.h"
#include "quic/pace.h"
#include "quic/path_int.h"
#include "quic/send.h"
#include "quic/stream.h"

enum {
    VECS = 4,
    OTHER_FRAMES = 300, /* bytes of a packet: headers, acknowledgements, credit */
};

/*
 * Without an acknowledgement of stream bytes: large packets may vanish. Both sides have to find it
 * out, and probes come at distances that double: a peer without packets for 10 s counts as gone.
 */
#define HOLE_NS (1500 * SW_NS_PER_MS)
/* Large packets that vanish this soon after another chance vanish for good. */
#define HOLE_RETRY_NS (30 * SW_NS_PER_S)

/* ---- routes ---- */

static void keep_for_later(struct sw_qsock *s, const struct sw_dgram_out *o)
{
    s->full = true;
    sw_watch_writable(&s->watch, true);
    s->waiting = sw_malloc(o->n);
    memcpy(s->waiting, o->p, o->n);
    s->waiting_out = *o;
    s->waiting_out.p = s->waiting;
}

/* Without GSO: one by one. */
static int send_singly(struct sw_qsock *s, struct sw_dgram_out o)
{
    size_t left = o.n;
    size_t segment = o.segment;
    int rc = SW_OK;

    while (left > 0 && rc != SW_EAGAIN) {
        o.n = sw_min(left, segment);
        o.segment = o.n;
        rc = sw_dgram_send_batch(s->fd, &o);
        s->q->stats.tx_calls++;
        o.p += o.n;
        left -= o.n;
    }
    return rc;
}

static int sock_send(struct sw_qsock *s, const struct sw_dgram_out *o)
{
    int rc;

    if (s->full)
        return SW_EAGAIN;
    if (s->no_gso && o->segment < o->n)
        return send_singly(s, *o);
    s->q->stats.tx_calls++;
    rc = sw_dgram_send_batch(s->fd, o);
    if (rc == SW_EINVAL) {
        s->no_gso = true;
        return send_singly(s, *o);
    }
    /* Congestion control let it go; it must not be lost because the socket is full just now. */
    if (rc == SW_EAGAIN)
        keep_for_later(s, o);
    return SW_OK;
}

int sw_qroute_send(struct sw_quic *q, const struct sw_qroute *r, uint8_t ecn, const uint8_t *p,
                   size_t n, size_t segment)
{
    q->stats.tx_packets += (n + segment - 1) / segment;
    q->stats.tx_bytes += n;
    if (r->relay)
        return sw_relay_client_send(r->relay->client, &r->node, ecn, p, n, segment);
    return sock_send(
        &q->sock[r->sock],
        &(struct sw_dgram_out){
            .p = p, .n = n, .segment = segment, .to = r->remote, .from = r->local, .ecn = ecn});
}

static void send_everywhere(struct sw_qconn *c, uint8_t ecn, const uint8_t *p, size_t n,
                            size_t segment)
{
    struct sw_qroutes *d = c->dial;

    for (size_t i = 0; i < d->n; i++)
        (void)sw_qroute_send(c->q, &d->route[i], ecn, p, n, segment);
    sw_free(d->flight);
    d->flight = sw_malloc(n);
    d->flight_n = n;
    d->flight_segment = segment;
    memcpy(d->flight, p, n);
}

int sw_qpath_send(struct sw_qconn *c, uint16_t id, uint8_t ecn, const uint8_t *p, size_t n,
                  size_t segment)
{
    struct sw_qpathent *path = sw_qpath_get(c, id);

    if (c->dial && c->dial->racing) {
        send_everywhere(c, ecn, p, n, segment);
        return SW_OK;
    }
    if (!path)
        return SW_OK; /* ngtcp2 remembers a path we gave up */
    return sw_qroute_send(c->q, &path->route, ecn, p, n, segment);
}

/* ---- a write pass ---- */

struct batch {
    size_t n;
    size_t segment;
    uint16_t path;
    uint8_t ecn;
    uint8_t count;
};

static void flush(struct sw_qconn *c, struct batch *b)
{
    size_t last = b->n ? (b->n - 1) / b->segment * b->segment : 0;

    if (b->n > 0) {
        (void)sw_qpath_send(c, b->path, b->ecn, c->q->scratch.tx, b->n, b->segment);
        sw_qsilence_sent(c, b->path, c->q->scratch.tx + last, b->n - last);
    }
    c->keys.tx_packets += b->count;
    *b = (struct batch){0};
}

/* A packet of n bytes was written behind the batch. */
static void append(struct sw_qconn *c, struct batch *b, size_t n, uint16_t path, uint8_t ecn)
{
    uint8_t *tx = c->q->scratch.tx;

    if (b->n > 0 && (n > b->segment || path != b->path || ecn != b->ecn)) {
        size_t at = b->n;

        flush(c, b);
        memmove(tx, tx + at, n);
    }
    if (b->n == 0)
        *b = (struct batch){.segment = n, .path = path, .ecn = ecn};
    b->n += n;
    b->count++;
    /* Only the last one may be shorter. */
    if (n < b->segment || b->count == SW_DGRAM_SEGMENTS_MAX)
        flush(c, b);
}

struct packet {
    uint8_t *p;
    size_t max;
    size_t fresh; /* bytes in it that were not sent before */
    ngtcp2_path_storage ps;
    ngtcp2_pkt_info pi;
};

static void drop_datagram(struct sw_qconn *c)
{
    struct sw_qdgram *d = SW_CONTAINER_OF(c->dgrams.out.next, struct sw_qdgram, link);

    sw_list_unlink(&d->link);
    c->dgrams.n--;
    c->dgrams.bytes -= d->n;
    sw_free(d);
}

/* > 0: a packet; 0: congestion; NGTCP2_ERR_WRITE_MORE: room is left, or none were waiting. */
static ngtcp2_ssize put_datagrams(struct sw_qconn *c, struct packet *k)
{
    while (!sw_list_empty(&c->dgrams.out)) {
        struct sw_qdgram *d = SW_CONTAINER_OF(c->dgrams.out.next, struct sw_qdgram, link);
        ngtcp2_vec v = {.base = d->p, .len = d->n};
        int accepted = 0;
        ngtcp2_ssize n = ngtcp2_conn_writev_datagram(c->nc, &k->ps.path, &k->pi, k->p, k->max,
                                                     &accepted, NGTCP2_WRITE_DATAGRAM_FLAG_MORE, 0,
                                                     &v, 1, sw_quic_now(c->q));

        if (accepted) {
            k->fresh += d->n;
            drop_datagram(c);
        }
        if (n == NGTCP2_ERR_INVALID_ARGUMENT || n == NGTCP2_ERR_INVALID_STATE) {
            /* The path takes less than when it was queued: lost, as datagrams may be. */
            drop_datagram(c);
            continue;
        }
        if (n != NGTCP2_ERR_WRITE_MORE)
            return n;
    }
    return NGTCP2_ERR_WRITE_MORE;
}

/* What a packet can hold of it, or more: how many vectors, and in *ret_len how many bytes. */
static size_t unsent(const struct sw_qstream *s, size_t max, ngtcp2_vec v[VECS], size_t *ret_len)
{
    struct sw_qchunk *at = s->tx.at;
    uint32_t off = s->tx.at_off;
    size_t len = 0;
    size_t n = 0;

    for (; at && n < VECS && len < max; at = at->next, off = 0) {
        if (at->n > off) {
            v[n++] = (ngtcp2_vec){.base = at->p + off, .len = at->n - off};
            len += at->n - off;
        }
    }
    *ret_len = len;
    return n;
}

static ngtcp2_ssize put_stream(struct sw_qconn *c, struct sw_qstream *s, struct packet *k)
{
    ngtcp2_vec v[VECS];
    size_t len;
    size_t n_v = unsent(s, k->max, v, &len);
    ngtcp2_ssize taken = -1;
    ngtcp2_ssize n;
    bool fin;

    fin = s->tx.finish && s->tx.sent + len == s->tx.end;
    n = ngtcp2_conn_writev_stream(c->nc, &k->ps.path, &k->pi, k->p, k->max, &taken,
                                  NGTCP2_WRITE_STREAM_FLAG_MORE |
                                      (fin ? NGTCP2_WRITE_STREAM_FLAG_FIN : 0),
                                  s->id, v, n_v, sw_quic_now(c->q));
    if (taken >= 0) {
        k->fresh += (size_t)taken;
        sw_qstream_advance(s, (size_t)taken, fin && (size_t)taken == len);
    }
    return n;
}

/* The stream cannot continue by itself: what the peer sends brings it back, or nothing does. */
static void park(struct sw_qconn *c, struct sw_qstream *s, bool blocked)
{
    sw_list_unlink(&s->sendq);
    if (blocked)
        sw_list_push_back(&c->streams.blocked, &s->sendq);
}

/* One packet: its length, 0 when there is nothing to say or congestion forbids it, or an error. */
static ngtcp2_ssize write_packet(struct sw_qconn *c, struct packet *k)
{
    ngtcp2_ssize n = put_datagrams(c, k);

    while (n == NGTCP2_ERR_WRITE_MORE && !sw_list_empty(&c->streams.sendable)) {
        struct sw_qstream *s = SW_CONTAINER_OF(c->streams.sendable.next, struct sw_qstream, sendq);

        n = put_stream(c, s, k);
        if (n == NGTCP2_ERR_STREAM_DATA_BLOCKED) {
            park(c, s, true);
            n = NGTCP2_ERR_WRITE_MORE;
        } else if (n == NGTCP2_ERR_STREAM_SHUT_WR || n == NGTCP2_ERR_STREAM_NOT_FOUND) {
            park(c, s, false);
            sw_qstream_was_stopped(s, 0);
            n = NGTCP2_ERR_WRITE_MORE;
        } else if (!sw_qstream_pending(s)) {
            park(c, s, false);
        }
    }
    if (n == NGTCP2_ERR_WRITE_MORE)
        n = ngtcp2_conn_writev_stream(c->nc, &k->ps.path, &k->pi, k->p, k->max, NULL, 0, -1, NULL,
                                      0, sw_quic_now(c->q));
    return n;
}

/* The first of several waits for the others next time. */
static void rotate(struct sw_qconn *c)
{
    struct sw_list *m = sw_list_pop_front(&c->streams.sendable);

    if (m)
        sw_list_push_back(&c->streams.sendable, m);
}

static void update_keys(struct sw_qconn *c)
{
    if (c->keys.tx_packets < c->q->key_update_after)
        return;
    /* Not while another one is under way: then it is tried again. */
    if (ngtcp2_conn_initiate_key_update(c->nc, sw_quic_now(c->q)) == 0)
        c->keys.tx_packets = 0;
}

static bool socket_full(struct sw_qconn *c)
{
    struct sw_qpathent *p = sw_qpath_get(c, c->paths.now);

    return p && !p->route.relay && c->q->sock[p->route.sock].full;
}

/*
 * A path may stop taking large packets under an open connection (MTU black hole), while small ones
 * still get through and keep it alive: ngtcp2 probes for larger sizes, never for smaller ones.
 * Bytes of streams that stay unacknowledged for seconds are the sign, sooner when packets of the
 * peer arrived meanwhile. When none did, nothing may have got through: large ones get another
 * chance as soon as bytes are acknowledged. When they vanish again soon after that chance, the path
 * is at fault.
 */
static void look_for_hole(struct sw_qconn *c)
{
    uint64_t now = sw_quic_now(c->q);
    bool waiting = false;
    char id[SW_NODEID_SHORT] = "";

    if (!c->shake.told || (c->hole.found && c->hole.path == c->paths.now) ||
        now - c->progress_ns < HOLE_NS)
        return;
    SW_LIST_EACH (struct sw_qstream, s, &c->streams.all, link)
        waiting |= sw_qstream_in_flight(s);
    if (!waiting || ngtcp2_conn_get_max_tx_udp_payload_size(c->nc) <= QUIC_MTU_FIRST) {
        c->progress_ns = now;
        return;
    }
    if (c->heard.at_ns < c->progress_ns + SW_NS_PER_S && now - c->progress_ns < 2 * HOLE_NS)
        return;
    c->hole.found = true;
    c->hole.mute = c->heard.at_ns < c->progress_ns + SW_NS_PER_S &&
                   (!c->hole.retry_ns || now - c->hole.retry_ns > HOLE_RETRY_NS);
    c->hole.path = c->paths.now;
    sw_log_debug("quic", "%s: packets lost, limiting the packet size to %d bytes",
                 sw_nodeid_short(&c->peer, id), QUIC_MTU_FIRST);
    while (!sw_list_empty(&c->dgrams.out))
        drop_datagram(c);
}

void sw_qconn_hole_retry(struct sw_qconn *c)
{
    c->hole.found = false;
    c->hole.retry_ns = sw_quic_now(c->q);
}

/* ngtcp2 fills first packets to the limit, before anything shows that large ones arrive. */
size_t sw_qconn_packet_max(const struct sw_qconn *c, size_t max)
{
    bool small = !c->shake.confirmed || (c->hole.found && c->hole.path == c->paths.now);

    return small ? sw_min(max, QUIC_MTU_FIRST) : max;
}

static size_t packet_max(const struct sw_qconn *c)
{
    return sw_qconn_packet_max(c, ngtcp2_conn_get_max_tx_udp_payload_size(c->nc));
}

/*
 * ngtcp2 reports no lost packets. But what was in it is sent again, and that is what a large packet
 * holds beside headers and acknowledgements when it is not new.
 */
static size_t sent_again(const struct packet *k, size_t n)
{
    return n > k->fresh + OTHER_FRAMES ? n - k->fresh : 0;
}

static int write_packets(struct sw_qconn *c)
{
    struct sw_quic *q = c->q;
    size_t limit = sw_qpace_limit(c);
    size_t total = 0;
    size_t again = 0;
    struct batch b = {0};
    struct packet k;
    ngtcp2_ssize n;

    k.max = packet_max(c);
    do {
        if (b.n + k.max > SW_DGRAM_SEND_MAX)
            flush(c, &b);
        k.p = q->scratch.tx + b.n;
        ngtcp2_path_storage_zero(&k.ps);
        k.pi.ecn = 0;
        k.fresh = 0;
        n = write_packet(c, &k);
        if (n > 0) {
            append(c, &b, (size_t)n, sw_qpath_id(&k.ps.path), (uint8_t)k.pi.ecn);
            total += (size_t)n;
            again += sent_again(&k, (size_t)n);
        }
    } while (n > 0 && total + k.max <= limit && !socket_full(c));
    flush(c, &b);
    sw_qpace_sent(c, total, again);
    rotate(c);
    return n < 0 ? (int)n : 0;
}

/* After a pass nothing waits to be sent again: what is not under way was acknowledged. */
static void settle_ids(struct sw_qconn *c)
{
    ngtcp2_conn_stat st;

    if (!sw_qids_short(&c->ids))
        return;
    ngtcp2_conn_get_conn_stat(c->nc, &st);
    if (st.bytes_in_flight == 0)
        sw_qids_settled(&c->ids);
}

void sw_qconn_write(struct sw_qconn *c)
{
    int rc;

    if (!c->nc || c->end.closing || socket_full(c))
        return;
    /* Credit of the connection, or a STOP_SENDING: ngtcp2 reports neither, so they are tried. */
    if (c->heard.since_write)
        sw_list_splice(&c->streams.sendable, &c->streams.blocked);
    c->heard.since_write = false;
    c->heard.ack_now = false;
    c->heard.n = 0;
    look_for_hole(c);
    rc = write_packets(c);
    if (rc != 0) {
        sw_qconn_fail_lib(c, rc);
        return;
    }
    update_keys(c);
    settle_ids(c);
    sw_qconn_rearm(c);
}
