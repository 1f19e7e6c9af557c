/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The UDP proxy. A session is made by the first datagram of a client and has a socket of its own
 * toward the host, so that answers find their way back, or a CONNECT-UDP tunnel. It ends when
 * nothing moved for a while, when its host is gone, or when there are too many. The kernel spreads
 * clients over the workers.
 */
#include "gateway/udp.h"

#include <stdio.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "gateway/accesslog.h"
#include "gateway/cluster.h"
#include "gateway/exchange.h"
#include "gateway/gateway_int.h"
#include "gateway/stats.h"
#include "gateway/worker.h"
#include "io/dgram.h"
#include "io/sock.h"

enum {
    SESSIONS_MAX = 16384,
    TUNNELS_MAX = 1024, /* sessions that are tunnels: each is a stream here and a socket far away */
    BATCH = 64,
    KEY = 19,
};

/* After a tunnel was refused its client's datagrams are dropped for so long: one CONNECT for each
 * of them would be an attack on the far end. */
#define REFUSED_NS (1 * UINT64_C(1000000000))
/*
 * While draining, clients that are here have so long. Until the socket is closed the kernel brings
 * it its share of what a successor on the same port could have had, so all of that is served, too.
 */
#define DRAIN_NS (1 * UINT64_C(1000000000))
/* However short idle_timeout is, looking for sessions that end takes turns with serving them. */
#define SWEEP_LEAST_NS (10 * SW_NS_PER_MS)

struct session {
    struct sw_watch watch;
    struct sw_list link;  /* listener->sessions, used last first */
    struct sw_defer more; /* answers are left in the socket */
    struct listener *listener;
    struct sw_gw_host *host;         /* a reference while it is counted */
    struct sw_gw_udp_tunnel *tunnel; /* instead of host and fd; owned */
    struct sw_addr client;
    char key[KEY];             /* of client */
    int fd;                    /* -1: none */
    uint64_t refused_until_ns; /* the tunnel ended badly: nothing is sent before; 0: not so */
    uint32_t dropped;          /* datagrams for which the tunnel had no room */
    char failure[96];
    uint64_t start_ns;
    uint64_t start_wall_ns;
    uint64_t active_ns;
    uint64_t rx;
    uint64_t tx;
};

struct listener {
    struct sw_list link;
    struct sw_watch watch;
    struct sw_gw_worker *worker;
    struct sw_gw_listener *config; /* a reference */
    struct sw_gw_lstats *stats;
    struct sw_addr at;
    int fd;
    struct sw_map sessions_by_client; /* client address -> struct session */
    struct sw_list sessions;
    struct sw_timer sweep;
    struct sw_defer more;
    uint64_t drain_until_ns; /* 0: it is not draining */
    bool gone;
};

struct udp {
    struct sw_list listeners;
    uint8_t *room; /* owned */
    uint8_t *buf;  /* in it: SW_DGRAM_MAX bytes, with what tunnels want around them */
    size_t n_listeners;
    size_t n_sockets; /* of sessions */
    size_t max_sockets;
};

/* The struct has a hole: its bytes are not a key. */
static struct sw_slice client_key(const struct sw_addr *a, char out[KEY])
{
    out[0] = (char)a->ip.family;
    memcpy(out + 1, a->ip.b, 16);
    memcpy(out + 17, &a->port, sizeof(a->port));
    return sw_slice(out, KEY);
}

/* ---- sessions ---- */

static void session_log(const struct session *s, uint32_t flags)
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

static void session_free(struct session *s, enum sw_gw_result how)
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
    (void)sw_map_del(&s->listener->sessions_by_client, sw_slice(s->key, KEY));
    sw_list_unlink(&s->link);
    sw_gw_lstats_conn(s->listener->stats, -1);
    if (s->host)
        sw_gw_lb_done(s->listener->worker->hosts, s->host, how, 0);
    sw_free(s);
}

static void touch(struct session *s)
{
    s->active_ns = sw_loop_now(s->listener->worker->loop);
    sw_list_unlink(&s->link);
    sw_list_push_front(&s->listener->sessions, &s->link);
}

static void on_more_answers(struct sw_defer *d);

/* From the host back to the client. */
static void read_answers(struct session *s)
{
    struct udp *u = s->listener->worker->udp;

    for (unsigned i = 0; i < BATCH * 4; i++) {
        ssize_t n = sw_dgram_recv(s->fd, u->buf, SW_DGRAM_MAX, NULL);

        if (n == SW_EAGAIN)
            return;
        if (n < 0) { /* nobody there: the next datagram looks for another host */
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
    read_answers(SW_CONTAINER_OF(d, struct session, more));
}

static void on_answer(struct sw_watch *w, unsigned events)
{
    (void)events;
    read_answers(SW_CONTAINER_OF(w, struct session, watch));
}

/* ---- through a tunnel ---- */

static void on_tunnelled(void *arg, struct sw_slice payload)
{
    struct session *s = arg;

    s->tx += payload.n;
    touch(s);
    (void)!sw_dgram_send(s->listener->fd, payload.p, payload.n, &s->client);
}

/* The session stays for a moment as a mark that nothing goes here. */
static void on_tunnel_ended(void *arg, const char *reason, const char *why)
{
    struct session *s = arg;
    struct listener *l = s->listener;
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

static struct session *session_add(struct listener *l, const struct sw_addr *client)
{
    struct session *s = SW_NEW(struct session);

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

static struct session *session_new(struct listener *l, const struct sw_addr *client)
{
    const struct sw_gw_udp_proxy *p = &l->config->udp;
    struct sw_gw_pick pick = {.has_hash = p->hash_source_ip,
                              .hash = sw_siphash13(1, 1, client->ip.b, sizeof(client->ip.b)),
                              .original_dst = l->at};
    struct udp *u = l->worker->udp;
    struct session *s;
    struct sw_gw_host *h;
    struct sw_err err = {0};
    int fd;

    if (p->tunnel) {
        s = session_add(l, client);
        s->tunnel =
            sw_gw_udp_tunnel_new(l->worker, l->config, client, &l->at, u->room, &tunnel_ops, s);
        return s;
    }
    if (sw_gw_lb_pick(l->worker->hosts, l->worker->view->config, p->cluster, &pick, &h) != SW_OK) {
        sw_gw_lstats_refused(l->stats, "udp_no_host");
        return NULL;
    }
    if (h->addr.kind != SW_GW_ADDR_IP || sw_dgram_connect(&h->addr.ip, &fd, &err) != SW_OK) {
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

static struct session *oldest(struct listener *l)
{
    return SW_CONTAINER_OF(l->sessions.prev, struct session, link);
}

/* The session is of no use for another datagram. */
static bool is_spent(const struct listener *l, const struct session *s)
{
    return l->config->udp.per_packet || (s->host && s->host->gone) ||
           (s->refused_until_ns && sw_loop_now(l->worker->loop) >= s->refused_until_ns);
}

static void forward_tunnel(struct session *s, uint8_t *p, size_t n)
{
    if (s->tunnel && sw_gw_udp_tunnel_send(s->tunnel, p, n))
        return;
    s->dropped++;
    sw_gw_lstats_refused(s->listener->stats, s->tunnel ? "udp_tunnel_full" : "udp_tunnel_down");
}

/* Sessions of l that have a socket. */
static size_t sockets_of(const struct listener *l)
{
    return l->config->udp.tunnel ? 0 : l->sessions_by_client.n;
}

/*
 * Who gives a socket back when there are no more: a listener that has its share or more takes from
 * itself, one that has less takes from the one that has most, which is above its share then. NULL:
 * nobody has any.
 */
static struct listener *giver(struct udp *u, struct listener *l)
{
    struct listener *most = l;

    if (sockets_of(l) >= sw_max(u->max_sockets / u->n_listeners, 1))
        return l;
    for (struct sw_list *it = u->listeners.next; it != &u->listeners; it = it->next) {
        struct listener *other = SW_CONTAINER_OF(it, struct listener, link);

        if (sockets_of(other) > sockets_of(most))
            most = other;
    }
    return sockets_of(most) ? most : NULL;
}

/*
 * Addresses of datagrams cost their sender nothing: sessions have bounds, and the one that was
 * quiet for longest goes. A flood at one listener leaves the others theirs.
 */
static bool make_room(struct listener *l)
{
    struct udp *u = l->worker->udp;
    bool tunnel = l->config->udp.tunnel != NULL;
    bool full = l->sessions_by_client.n >= (tunnel ? TUNNELS_MAX : SESSIONS_MAX);
    struct listener *from = l;

    if (!full && (tunnel || u->n_sockets < u->max_sockets))
        return true;
    if (!full)
        from = giver(u, l);
    if (!from)
        return false;
    sw_gw_lstats_refused(from->stats, "udp_sessions");
    if (sw_gw_lstats_may_log(from->stats))
        sw_log_warn("udp", "listener '%.*s': %zu sessions are open, the oldest go",
                    SW_SLICE_ARG(from->config->name), from->sessions_by_client.n);
    session_free(oldest(from), SW_GW_RESULT_OK);
    return true;
}

static void forward(struct listener *l, const struct sw_addr *client, uint8_t *p, size_t n)
{
    char key[KEY];
    struct session *s = sw_map_get(&l->sessions_by_client, client_key(client, key));
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

static void on_datagrams(struct listener *l);

static void on_more(struct sw_defer *d)
{
    on_datagrams(SW_CONTAINER_OF(d, struct listener, more));
}

static void on_datagrams(struct listener *l)
{
    struct udp *u = l->worker->udp;

    for (unsigned i = 0; i < BATCH; i++) {
        struct sw_addr from = {0};
        ssize_t n = sw_dgram_recv(l->fd, u->buf, SW_DGRAM_MAX, &from);

        if (n == SW_EAGAIN)
            return;
        if (n >= 0)
            forward(l, &from, u->buf, (size_t)n);
    }
    sw_loop_defer(l->worker->loop, &l->more, on_more); /* others have a turn in between */
}

static void on_readable(struct sw_watch *w, unsigned events)
{
    (void)events;
    on_datagrams(SW_CONTAINER_OF(w, struct listener, watch));
}

static void end_sessions(struct listener *l)
{
    while (!sw_list_empty(&l->sessions))
        session_free(oldest(l), SW_GW_RESULT_OK);
}

/* A new process on the same port gets all datagrams from now on. */
static void listener_shut(struct listener *l)
{
    end_sessions(l);
    sw_watch_stop(&l->watch);
    sw_defer_cancel(&l->more);
    sw_sock_close(SW_TAKE_FD(l->fd));
}

static void on_sweep(struct sw_timer *t)
{
    struct listener *l = SW_CONTAINER_OF(t, struct listener, sweep);
    uint64_t idle = l->config->udp.idle_timeout_ns;
    uint64_t now = sw_loop_now(l->worker->loop);
    uint64_t every = SW_NS_PER_S;

    if (l->drain_until_ns) {
        idle = idle ? sw_min(idle, DRAIN_NS) : DRAIN_NS;
        every = DRAIN_NS / 10;
    }

    while (!sw_list_empty(&l->sessions) && idle && now - oldest(l)->active_ns >= idle)
        session_free(oldest(l), SW_GW_RESULT_OK);
    if (l->drain_until_ns && (sw_list_empty(&l->sessions) || now >= l->drain_until_ns)) {
        listener_shut(l);
        return;
    }
    if (idle)
        every = sw_max(sw_min(idle, every), SWEEP_LEAST_NS);
    sw_timer_start(l->worker->loop, &l->sweep, every, on_sweep);
}

/* ---- listeners ---- */

static void listener_free(struct listener *l)
{
    listener_shut(l);
    sw_map_done(&l->sessions_by_client);
    sw_timer_stop(l->worker->loop, &l->sweep);
    sw_list_unlink(&l->link);
    ((struct udp *)l->worker->udp)->n_listeners--;
    (void)sw_gw_listener_unref(l->config);
    sw_free(l);
}

static void cannot_open(struct sw_gw_worker *w, const struct sw_gw_listener *config,
                        const struct sw_err *err)
{
    if (w->index == 0 && sw_gw_lstats_may_log_port(sw_gw_lstats(w, config->name)))
        sw_log_error("udp", "listener '%.*s': %s; will try again", SW_SLICE_ARG(config->name),
                     err->msg);
}

static bool listener_open(struct sw_gw_worker *w, struct sw_gw_listener *config,
                          const struct sw_addr *at)
{
    struct udp *u = w->udp;
    struct sw_err err = {0};
    struct listener *l;
    char text[SW_ADDR_TEXT];
    int fd;

    if (sw_dgram_bind(at, true, &fd, &err) != SW_OK) {
        cannot_open(w, config, &err);
        return false;
    }
    l = SW_NEW(struct listener);
    l->worker = w;
    l->config = sw_gw_listener_ref(config);
    l->stats = sw_gw_lstats(w, config->name);
    l->at = *at;
    l->fd = fd;
    sw_list_init(&l->sessions);
    sw_list_init(&l->link);
    sw_list_push_back(&u->listeners, &l->link);
    u->n_listeners++;
    if (sw_watch_start(w->loop, &l->watch, fd, on_readable, &err) != SW_OK) {
        cannot_open(w, config, &err);
        listener_free(l);
        return false;
    }
    sw_timer_start(w->loop, &l->sweep, SW_NS_PER_S, on_sweep);
    if (w->index == 0)
        sw_log_info("udp", "listener '%.*s' on %s", SW_SLICE_ARG(config->name),
                    sw_addr_text(at, text));
    return true;
}

static struct listener *find(struct udp *u, const struct sw_gw_listener *config,
                             const struct sw_addr *at)
{
    for (struct sw_list *it = u->listeners.next; it != &u->listeners; it = it->next) {
        struct listener *l = SW_CONTAINER_OF(it, struct listener, link);

        if (sw_addr_eq(&l->at, at) && sw_slice_eq(l->config->name, config->name))
            return l;
    }
    return NULL;
}

static struct udp *udp_of(struct sw_gw_worker *w)
{
    struct udp *u = w->udp;

    if (!u) {
        u = SW_NEW(struct udp);
        sw_list_init(&u->listeners);
        u->room = sw_malloc(SW_GW_UDP_FRONT + SW_DGRAM_MAX + SW_GW_UDP_BACK);
        u->buf = u->room + SW_GW_UDP_FRONT;
        /* Half of all descriptors stay for connections. */
        u->max_sockets = sw_max(sw_sock_raise_fd_limit() / 2 / sw_max(w->gw->n_workers, 1), 1);
        w->udp = u;
    }
    return u;
}

/* How many of its sockets could not be opened. */
static unsigned want(struct sw_gw_worker *w, struct sw_gw_listener *config)
{
    unsigned failed = 0;

    for (size_t i = 0; i < config->n_addrs; i++) {
        struct listener *l = find(w->udp, config, &config->addrs[i].ip);

        if (!l) {
            failed += listener_open(w, config, &config->addrs[i].ip) ? 0 : 1;
            continue;
        }
        l->gone = false;
        if (l->config != config) {
            if (l->config->udp.tunnel || config->udp.tunnel)
                end_sessions(l); /* where a tunnel leads is part of the configuration */
            (void)sw_gw_listener_unref(l->config);
            l->config = sw_gw_listener_ref(config);
        }
    }
    return failed;
}

unsigned sw_gw_udp_apply(struct sw_gw_worker *w)
{
    const struct sw_gw_config *c = w->view->config;
    struct udp *u = w->udp;
    struct sw_list *next;
    unsigned failed = 0;
    bool any = u != NULL;

    for (size_t i = 0; i < c->n_list && !any; i++)
        any = c->list[i]->kind == SW_GW_LISTEN_UDP;
    if (!any)
        return 0;
    u = udp_of(w);
    for (struct sw_list *it = u->listeners.next; it != &u->listeners; it = it->next)
        SW_CONTAINER_OF(it, struct listener, link)->gone = true;
    for (size_t i = 0; i < c->n_list; i++) {
        if (c->list[i]->kind == SW_GW_LISTEN_UDP && c->list[i]->bind)
            failed += want(w, c->list[i]);
    }
    for (struct sw_list *it = u->listeners.next; it != &u->listeners; it = next) {
        struct listener *l = SW_CONTAINER_OF(it, struct listener, link);

        next = it->next;
        if (l->gone)
            listener_free(l);
    }
    return failed;
}

void sw_gw_udp_drain(struct sw_gw_worker *w)
{
    struct udp *u = w->udp;

    if (!u)
        return;
    for (struct sw_list *it = u->listeners.next; it != &u->listeners; it = it->next) {
        struct listener *l = SW_CONTAINER_OF(it, struct listener, link);

        if (l->drain_until_ns)
            continue;
        l->drain_until_ns = sw_loop_now(w->loop) + DRAIN_NS;
        sw_timer_start(w->loop, &l->sweep, DRAIN_NS / 10, on_sweep);
    }
}

bool sw_gw_udp_idle(const struct sw_gw_worker *w)
{
    const struct udp *u = w->udp;

    for (struct sw_list *it = u ? u->listeners.next : NULL; u && it != &u->listeners;
         it = it->next) {
        if (!sw_list_empty(&SW_CONTAINER_OF(it, struct listener, link)->sessions))
            return false;
    }
    return true;
}

void sw_gw_udp_free(struct sw_gw_worker *w)
{
    struct udp *u = w->udp;

    if (!u)
        return;
    while (!sw_list_empty(&u->listeners))
        listener_free(SW_CONTAINER_OF(u->listeners.next, struct listener, link));
    sw_free(u->room);
    sw_free(u);
    w->udp = NULL;
}
