/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients of the UDP proxy. A session is made by the first datagram of a client and has a socket of
 * its own toward the host, so that answers find their way back, or a CONNECT-UDP tunnel. It ends
 * when nothing moved for a while, when its host is gone, or when there are too many.
 */
#include <stdio.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "gateway/conn/worker.h"
#include "gateway/exchange/exchange.h"
#include "gateway/l4/udp.h"
#include "gateway/l4/udp_int.h"
#include "gateway/observe/accesslog.h"
#include "gateway/observe/stats.h"
#include "gateway/upstream/host.h"
#include "gateway/upstream/pick.h"
#include "io/dgram.h"
#include "io/egress.h"
#include "io/sock.h"

enum {
    SESSIONS_MAX = 16384,
    TUNNELS_MAX = 1024, /* sessions that are tunnels: each is a stream here and a socket far away */
    ANSWERS = 256,      /* of one session in a turn */
};

/* After a tunnel was refused its client's datagrams are dropped for so long: one CONNECT for each
 * of them would be an attack on the far end. */
#define REFUSED_NS (1 * UINT64_C(1000000000))

/* The struct has a hole: its bytes are not a key. */
static struct sw_slice client_key(const struct sw_addr *a, char out[UDP_KEY])
{
    out[0] = (char)a->ip.family;
    memcpy(out + 1, a->ip.b, 16);
    memcpy(out + 17, &a->port, sizeof(a->port));
    return sw_slice(out, UDP_KEY);
}

static void session_log(const struct udp_session *s, uint32_t flags)
{
    const struct sw_gw_udp_proxy *p = &s->listener->config->udp;
    struct sw_gw_vars v = {
        .peer = s->client,
        .local = s->listener->at,
        .cluster = p->cluster,
        .member = s->host ? s->host->member : NULL,
        .listener = s->listener->config->name,
        .flags = flags,
        .failure = s->failure[0] ? s->failure : NULL,
        .start_wall_ns = s->start_wall_ns,
        .duration_ns = sw_loop_now(s->listener->worker->loop) - s->start_ns,
        .rx_bytes = s->rx,
        .tx_bytes = s->tx,
    };

    if (p->n_logs)
        sw_gw_accesslog_write(p->logs, p->n_logs, &v);
}

static void session_free(struct udp_session *s, enum sw_gw_result how)
{
    struct udp *u = s->listener->worker->udp;

    session_log(s, how == SW_GW_RESULT_LOCAL ? SW_GW_FLAG_UF : 0);
    sw_watch_stop(&s->watch);
    sw_defer_cancel(&s->more);
    if (s->fd >= 0) {
        sw_sock_close(s->fd);
        u->n_sockets--;
    }
    sw_gw_udp_tunnel_free(s->tunnel);
    (void)sw_map_del(&s->listener->sessions_by_client, sw_slice(s->key, UDP_KEY));
    sw_list_unlink(&s->link);
    sw_gw_lstats_conn(s->listener->stats, -1);
    if (s->host)
        sw_gw_lb_done(s->listener->worker->hosts, s->host, how, 0);
    sw_free(s);
}

static void touch(struct udp_session *s)
{
    s->active_ns = sw_loop_now(s->listener->worker->loop);
    sw_list_unlink(&s->link);
    sw_list_push_front(&s->listener->sessions, &s->link);
}

static void on_more_answers(struct sw_defer *d);

/* From the host back to the client. */
static void read_answers(struct udp_session *s)
{
    struct udp *u = s->listener->worker->udp;

    for (unsigned i = 0; i < ANSWERS; i++) {
        ssize_t n = sw_dgram_recv(s->fd, u->buf, SW_DGRAM_MAX, NULL);

        if (n == SW_EAGAIN)
            return;
        if (n < 0) { /* host unreachable: the next datagram picks another */
            session_free(s, SW_GW_RESULT_LOCAL);
            return;
        }
        s->tx += (uint64_t)n;
        touch(s);
        (void)!sw_dgram_send(s->listener->fd, u->buf, (size_t)n, &s->client);
    }
    /* Others have a turn in between; no event tells of what is left. */
    sw_loop_defer(s->listener->worker->loop, &s->more, on_more_answers);
}

static void on_more_answers(struct sw_defer *d)
{
    read_answers(SW_CONTAINER_OF(d, struct udp_session, more));
}

static void on_answer(struct sw_watch *w, unsigned events)
{
    read_answers(SW_CONTAINER_OF(w, struct udp_session, watch));
}

/* ---- through a tunnel ---- */

static void on_tunnelled(void *arg, struct sw_slice payload)
{
    struct udp_session *s = arg;

    s->tx += payload.n;
    touch(s);
    (void)!sw_dgram_send(s->listener->fd, payload.p, payload.n, &s->client);
}

/* The session stays for a moment as a mark that nothing goes here. */
static void on_tunnel_ended(void *arg, const char *reason, const char *why)
{
    struct udp_session *s = arg;
    struct udp_listener *l = s->listener;
    char peer[SW_ADDR_TEXT];

    if (!reason) {
        session_free(s, SW_GW_RESULT_OK);
        return;
    }
    (void)snprintf(s->failure, sizeof(s->failure), "%s", why);
    sw_gw_lstats_refused(l->stats, reason);
    if (sw_gw_lstats_may_log(l->stats))
        sw_log_warn("udp", "listener '%.*s': no tunnel for %s: %s", SW_SLICE_ARG(l->config->name),
                    sw_addr_text(&s->client, peer), s->failure);
    sw_gw_udp_tunnel_free(s->tunnel);
    s->tunnel = NULL;
    s->refused_until_ns = sw_loop_now(l->worker->loop) + REFUSED_NS;
}

static const struct sw_gw_udp_tunnel_ops tunnel_ops = {
    .datagram = on_tunnelled,
    .ended = on_tunnel_ended,
};

/* ---- the start ---- */

static struct udp_session *session_add(struct udp_listener *l, const struct sw_addr *client)
{
    struct udp_session *s = SW_NEW(struct udp_session);

    s->listener = l;
    s->client = *client;
    s->fd = -1;
    s->start_ns = sw_loop_now(l->worker->loop);
    s->start_wall_ns = sw_wall_ns();
    s->active_ns = s->start_ns;
    sw_list_init(&s->link);
    sw_list_push_front(&l->sessions, &s->link);
    (void)sw_map_put(&l->sessions_by_client, client_key(&s->client, s->key), s);
    sw_gw_lstats_conn(l->stats, 1);
    return s;
}

static struct udp_session *session_new(struct udp_listener *l, const struct sw_addr *client)
{
    const struct sw_gw_udp_proxy *p = &l->config->udp;
    struct sw_gw_pick pick = {.has_hash = p->hash_source_ip,
                              .hash = sw_siphash13(1, 1, client->ip.b, sizeof(client->ip.b)),
                              .original_dst = l->at};
    struct udp *u = l->worker->udp;
    struct udp_session *s;
    struct sw_gw_host *h;
    struct sw_err err = {0};
    int fd;

    if (p->tunnel) {
        struct sw_gw_udp_tunnel_opts o = {.listener = l->config,
                                          .client = client,
                                          .local = &l->at,
                                          .scratch = u->room,
                                          .ops = &tunnel_ops};

        o.arg = s = session_add(l, client);
        s->tunnel = sw_gw_udp_tunnel_new(l->worker, &o);
        return s;
    }
    if (sw_gw_lb_pick(l->worker->hosts, l->worker->view->config, p->cluster, &pick, &h) != SW_OK) {
        sw_gw_lstats_refused(l->stats, "udp_no_host");
        return NULL;
    }
    if (h->addr.kind != SW_GW_ADDR_IP ||
        sw_egress_check(h->cluster->spec->egress, &h->addr.ip, &err) != SW_OK ||
        sw_dgram_connect(&h->addr.ip, NULL, &fd, &err) != SW_OK) {
        sw_gw_lb_done(l->worker->hosts, h, SW_GW_RESULT_LOCAL, 0);
        sw_gw_lstats_refused(l->stats, "udp_no_socket");
        return NULL;
    }
    s = session_add(l, client);
    s->host = h;
    s->fd = fd;
    u->n_sockets++;
    if (sw_watch_start(l->worker->loop, &s->watch, fd, on_answer, &err) != SW_OK) {
        session_free(s, SW_GW_RESULT_NEUTRAL);
        return NULL;
    }
    return s;
}

static struct udp_session *oldest(struct udp_listener *l)
{
    return SW_CONTAINER_OF(l->sessions.prev, struct udp_session, link);
}

/* The session is of no use for another datagram. */
static bool is_spent(const struct udp_listener *l, const struct udp_session *s)
{
    return l->config->udp.per_packet || (s->host && s->host->gone) ||
           (s->refused_until_ns && sw_loop_now(l->worker->loop) >= s->refused_until_ns);
}

static void forward_tunnel(struct udp_session *s, uint8_t *p, size_t n)
{
    if (s->tunnel && sw_gw_udp_tunnel_send(s->tunnel, p, n))
        return;
    s->dropped++;
    sw_gw_lstats_refused(s->listener->stats, s->tunnel ? "udp_tunnel_full" : "udp_tunnel_down");
}

/* Sessions of l that have a socket. */
static size_t sockets_of(const struct udp_listener *l)
{
    return l->config->udp.tunnel ? 0 : l->sessions_by_client.n;
}

/*
 * Which listener closes a session when no sockets are left: a listener that has its share or more
 * takes from itself, one that has less takes from the one that has most, which is above its share
 * then. NULL: no listener has any.
 */
static struct udp_listener *giver(struct udp *u, struct udp_listener *l)
{
    struct udp_listener *most = l;

    if (sockets_of(l) >= sw_max(u->max_sockets / u->n_listeners, 1))
        return l;
    SW_LIST_EACH (struct udp_listener, other, &u->listeners, link) {
        if (sockets_of(other) > sockets_of(most))
            most = other;
    }
    return sockets_of(most) ? most : NULL;
}

/*
 * Addresses of datagrams cost their sender nothing: sessions have bounds, and the one that was
 * quiet for longest goes. A flood at one listener leaves the others theirs.
 */
static bool make_room(struct udp_listener *l)
{
    struct udp *u = l->worker->udp;
    bool tunnel = l->config->udp.tunnel != NULL;
    bool full = l->sessions_by_client.n >= (tunnel ? TUNNELS_MAX : SESSIONS_MAX);
    struct udp_listener *from = l;

    if (!full && (tunnel || u->n_sockets < u->max_sockets))
        return true;
    if (!full)
        from = giver(u, l);
    if (!from)
        return false;
    sw_gw_lstats_refused(from->stats, "udp_sessions");
    if (sw_gw_lstats_may_log(from->stats))
        sw_log_warn("udp", "listener '%.*s': %zu UDP sessions open, evicting the oldest",
                    SW_SLICE_ARG(from->config->name), from->sessions_by_client.n);
    session_free(oldest(from), SW_GW_RESULT_OK);
    return true;
}

void udp_forward(struct udp_listener *l, const struct sw_addr *client, uint8_t *p, size_t n)
{
    char key[UDP_KEY];
    struct udp_session *s = sw_map_get(&l->sessions_by_client, client_key(client, key));
    int rc;

    if (s && is_spent(l, s)) {
        session_free(s, SW_GW_RESULT_OK);
        s = NULL;
    }
    if (!s && make_room(l))
        s = session_new(l, client);
    if (!s)
        return; /* nothing to send it to */
    s->rx += n;
    touch(s);
    if (s->fd < 0) {
        forward_tunnel(s, p, n);
        return;
    }
    rc = sw_dgram_send(s->fd, p, n, NULL);
    if (rc == SW_ECLOSED || rc == SW_ESYS)
        session_free(s, SW_GW_RESULT_LOCAL);
}

void udp_end_sessions(struct udp_listener *l)
{
    while (!sw_list_empty(&l->sessions))
        session_free(oldest(l), SW_GW_RESULT_OK);
}

void udp_end_idle(struct udp_listener *l, uint64_t idle_ns)
{
    uint64_t now = sw_loop_now(l->worker->loop);

    while (!sw_list_empty(&l->sessions) && now - oldest(l)->active_ns >= idle_ns)
        session_free(oldest(l), SW_GW_RESULT_OK);
}
