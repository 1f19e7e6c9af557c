/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UDP for a peer (RFC 9298): one connected socket per stream. Payloads come as capsules on the
 * stream or, where both sides agreed, as QUIC datagrams. What does not fit is dropped, as UDP does.
 */
#include "base/log.h"
#include "base/mem.h"
#include "io/dgram.h"
#include "io/sock.h"
#include "tunnel/qserve_int.h"

enum { BATCH = 64 };

static void read_socket(struct qs_exchange *x);
static void on_again(struct sw_defer *d);

static struct sw_slice flow_key(const struct qs_exchange *x)
{
    return sw_slice(&x->id, sizeof(x->id));
}

void qs_udp_free(struct qs_exchange *x)
{
    struct qs_udp *u = x->udp;

    if (!u)
        return;
    if (u->datagrams && x->conn)
        (void)sw_map_del(&x->conn->flows, flow_key(x));
    sw_watch_stop(&u->watch);
    sw_defer_cancel(&u->again);
    sw_timer_stop(x->v->loop, &u->idle);
    sw_sock_close(u->fd);
    sw_capsule_done(&u->reader);
    sw_free(u);
    x->udp = NULL;
    x->v->stats.udp_flows--;
}

/* ---- to the peer ---- */

static void send_capsule(struct qs_exchange *x, const uint8_t *p, size_t n)
{
    struct iovec room[2];
    int pieces = sw_qstream_reserve(x->stream, room);
    size_t k = sw_capsule_udp_put(room, pieces, sw_slice(p, n));

    if (pieces)
        sw_qstream_commit(x->stream, k);
    if (k)
        x->bytes_out += n;
    else
        x->v->stats.datagrams_dropped++;
}

/* buf has room for the ids in front of the payload. */
static void send_datagram(struct qs_exchange *x, uint8_t *payload, size_t n)
{
    uint8_t ids[SW_VARINT_MAX + 1];
    size_t k = sw_varint_put(ids, (uint64_t)x->id / 4);

    ids[k++] = 0; /* context */
    memcpy(payload - k, ids, k);
    if (sw_qconn_datagram(sw_qstream_conn(x->stream), payload - k, n + k) == SW_OK)
        x->bytes_out += n;
    else
        x->v->stats.datagrams_dropped++;
}

static void read_socket(struct qs_exchange *x)
{
    /* Not of the thread: every thread of every role would have its 64 KB from the start. */
    __attribute__((uninitialized)) uint8_t buf[SW_VARINT_MAX + 8 + SW_DGRAM_MAX];
    uint8_t *payload = buf + SW_VARINT_MAX + 8;
    struct qs_udp *u = x->udp;

    for (int i = 0; i < BATCH; i++) {
        ssize_t n = sw_dgram_recv(u->fd, payload, SW_UDP_PAYLOAD_MAX, NULL);

        if (n == SW_ECLOSED) /* the port was closed a moment ago: it may open again */
            continue;
        if (n == SW_EAGAIN)
            return;
        if (n < 0) {
            qs_abort(x, "socket_failed");
            return;
        }
        u->active_ns = sw_loop_now(x->v->loop);
        if (u->datagrams)
            send_datagram(x, payload, (size_t)n);
        else
            send_capsule(x, payload, (size_t)n);
    }
    sw_loop_defer(x->v->loop, &u->again, on_again);
}

static void on_again(struct sw_defer *d)
{
    read_socket(SW_CONTAINER_OF(d, struct qs_udp, again)->x);
}

static void on_event(struct sw_watch *w, unsigned events)
{
    read_socket(SW_CONTAINER_OF(w, struct qs_udp, watch)->x);
}

/* ---- from the peer ---- */

static void deliver(struct qs_exchange *x, struct sw_slice datagram)
{
    struct sw_slice payload = {0};
    int rc = sw_masque_udp_payload(datagram, &payload);

    if (rc == SW_OK)
        rc = sw_dgram_send(x->udp->fd, payload.p, payload.n, NULL);
    if (rc != SW_OK) {
        x->v->stats.datagrams_dropped++;
        return;
    }
    x->bytes_in += payload.n;
    x->udp->active_ns = sw_loop_now(x->v->loop);
}

void qs_udp_datagram(struct qs_exchange *x, struct sw_slice datagram)
{
    deliver(x, datagram);
}

size_t qs_udp_data(struct qs_exchange *x, const uint8_t *p, size_t n, bool fin)
{
    struct qs_udp *u = x->udp;
    struct sw_slice rest = sw_slice(p, n);
    struct sw_err err = {0};
    int rc = SW_OK;

    while (rest.n && rc == SW_OK) {
        struct sw_slice value = {0};
        size_t used = 0;

        rc = sw_capsule_next(&u->reader, rest, &used, &value, &err);
        rest = sw_slice_from(rest, used);
        if (rc == SW_OK)
            deliver(x, value);
    }
    if (rc != SW_OK && rc != SW_EAGAIN) {
        qs_abort(x, "bad_capsule");
    } else if (fin && !sw_capsule_idle(&u->reader)) {
        qs_abort(x, "cut_capsule");
    } else if (fin) {
        x->fin = true;
        sw_qstream_finish(x->stream);
        qs_over(x, NULL);
    }
    return n;
}

/* ---- life ---- */

static void on_idle(struct sw_timer *t)
{
    struct qs_udp *u = SW_CONTAINER_OF(t, struct qs_udp, idle);
    struct qs_exchange *x = u->x;
    uint64_t quiet = sw_loop_now(x->v->loop) - u->active_ns;

    if (quiet < x->v->c.udp_idle_ns) {
        sw_timer_start(x->v->loop, &u->idle, x->v->c.udp_idle_ns - quiet, on_idle);
        return;
    }
    sw_qstream_finish(x->stream);
    sw_qstream_stop(x->stream, 0);
    qs_over(x, NULL);
}

static bool answer(struct qs_exchange *x)
{
    SW_BUF_AUTO head = {.max = 512};
    int rc = sw_buf_append_str(&head, "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\n"
                                      "upgrade: connect-udp\r\ncapsule-protocol: ?1\r\n");

    if (rc == SW_OK && x->udp->datagrams)
        rc = sw_buf_append_str(&head, SW_QTUNNEL_DATAGRAMS ": ?1\r\n");
    if (rc == SW_OK)
        rc = sw_h1_put_end(&head);
    return rc == SW_OK && qs_answer(x, sw_buf_slice(&head));
}

void qs_udp_start(struct qs_exchange *x, const struct sw_addr *to)
{
    const struct sw_slice *asked = sw_h1_field(x->msg, SW_QTUNNEL_DATAGRAMS);
    struct qs_udp *u;
    struct sw_err err = {0};
    int fd;

    if (sw_dgram_connect(to, NULL, &fd, &err) != SW_OK) {
        qs_refuse(x, 502, "Origin Is Unreachable", "origin_unreachable");
        return;
    }
    u = SW_NEW(struct qs_udp);
    u->x = x;
    u->fd = fd;
    u->active_ns = sw_loop_now(x->v->loop);
    x->udp = u;
    x->v->stats.udp_flows++;
    if (sw_watch_start(x->v->loop, &u->watch, fd, on_event, &err) != SW_OK) {
        qs_refuse(x, 502, NULL, "no_socket");
        return;
    }
    if (asked && sw_slice_eq_str(*asked, "?1") &&
        sw_qconn_datagram_max(sw_qstream_conn(x->stream)) > 0) {
        u->datagrams = true;
        (void)sw_map_put(&x->conn->flows, flow_key(x), x);
    }
    x->state = QS_UDP;
    qs_begun(x, 101);
    if (!answer(x))
        return;
    sw_timer_start(x->v->loop, &u->idle, x->v->c.udp_idle_ns, on_idle);
    if (x->fin)
        (void)qs_udp_data(x, NULL, 0, true);
    else
        qs_want_data(x);
}
