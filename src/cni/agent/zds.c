/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/agent/zds.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "io/accept.h"
#include "io/sock.h"
#include "io/unix/packet.h"

enum {
    CONNS_MAX = 8,
    QUEUE_MAX = 16384,
    ANSWER_S = 5, /* for the hello and for every acknowledgement */
};

struct item {
    struct sw_list link;
    enum sw_zds_kind kind;
    char *uid; /* owned */
    struct sw_arena arena;
    struct sw_slice bytes; /* in the arena */
    int fd;                /* owned; -1: none */
};

struct sw_zds_conn {
    struct sw_list link;
    struct sw_zds_server *server;
    struct sw_watch watch;
    struct sw_timer deadline; /* of what is waited for */
    struct sw_defer wake;
    struct sw_defer reap;
    struct sw_list queue;
    size_t n_queue;
    struct item *asked; /* owned; waits for its acknowledgement */
    int fd;
    bool hello_received;
};

struct sw_zds_server {
    struct sw_loop *loop;
    const struct sw_zds_server_ops *ops;
    void *arg;
    char *path; /* owned */
    struct sw_accept_group group;
    struct sw_acceptor acceptor;
    struct sw_list conns; /* newest first */
    size_t n_conns;
};

static void item_free(struct item *i)
{
    if (!i)
        return;
    sw_sock_close(i->fd);
    sw_arena_clear(&i->arena);
    sw_free(i->uid);
    sw_free(i);
}

static void on_reap(struct sw_defer *d)
{
    sw_free(SW_CONTAINER_OF(d, struct sw_zds_conn, reap));
}

struct sw_zds_conn *sw_zds_server_newest(const struct sw_zds_server *s)
{
    struct sw_zds_conn *c = SW_LIST_FIRST(&s->conns, struct sw_zds_conn, link);

    return c && c->hello_received ? c : NULL;
}

static void conn_close(struct sw_zds_conn *c)
{
    struct sw_zds_server *s = c->server;
    struct item *i;

    sw_timer_stop(s->loop, &c->deadline);
    sw_watch_stop(&c->watch);
    sw_sock_close(c->fd);
    c->fd = -1;
    sw_list_unlink(&c->link);
    s->n_conns--;
    item_free(c->asked);
    while ((i = SW_LIST_POP(&c->queue, struct item, link)) != NULL)
        item_free(i);
    sw_defer_cancel(&c->wake);
    sw_loop_defer(s->loop, &c->reap, on_reap);
}

static void conn_fail(struct sw_zds_conn *c, const char *why)
{
    struct sw_zds_server *s = c->server;
    bool newest = c == sw_zds_server_newest(s);

    if (c->fd < 0)
        return;
    sw_log_warn("zds", "connection of the node proxy closed: %s", why);
    conn_close(c);
    if (newest)
        s->ops->lost(s->arg);
}

static void on_late(struct sw_timer *t)
{
    struct sw_zds_conn *c = SW_CONTAINER_OF(t, struct sw_zds_conn, deadline);

    /* A late answer would be taken for that of the next request: better a new connection. */
    conn_fail(c, c->hello_received ? "no acknowledgement in time" : "no hello in time");
}

static void send_next(struct sw_zds_conn *c)
{
    if (c->fd < 0 || !c->hello_received || c->asked)
        return;
    c->asked = SW_LIST_POP(&c->queue, struct item, link);
    if (!c->asked)
        return;
    c->n_queue--;
    sw_timer_start(c->server->loop, &c->deadline, ANSWER_S * SW_NS_PER_S, on_late);
    if (sw_packet_send(c->fd, c->asked->bytes.p, c->asked->bytes.n, c->asked->fd) != SW_OK)
        conn_fail(c, "cannot send");
}

static void on_wake(struct sw_defer *d)
{
    send_next(SW_CONTAINER_OF(d, struct sw_zds_conn, wake));
}

int sw_zds_conn_send(struct sw_zds_conn *c, const struct sw_zds_request *r, int netns_fd,
                     struct sw_err *err)
{
    struct item *i;
    int rc = SW_OK;

    if (c->n_queue >= QUEUE_MAX)
        return sw_err_set(err, SW_ELIMIT, "the node proxy does not answer");
    i = SW_NEW(struct item);
    i->kind = r->kind;
    i->uid = sw_slice_dup(r->uid);
    i->fd = r->kind == SW_ZDS_ADD ? fcntl(netns_fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (r->kind == SW_ZDS_ADD && i->fd < 0)
        rc = sw_err_sys(err, errno, "no descriptor to hand the pod over");
    if (rc == SW_OK)
        rc = sw_zds_request_encode(&i->arena, r, &i->bytes, err);
    if (rc != SW_OK) {
        item_free(i);
        return rc;
    }
    sw_list_push_back(&c->queue, &i->link);
    c->n_queue++;
    sw_loop_defer(c->server->loop, &c->wake, on_wake);
    return SW_OK;
}

void sw_zds_server_del(struct sw_zds_server *s, struct sw_slice uid)
{
    const struct sw_zds_request del = {.kind = SW_ZDS_DEL, .uid = uid};
    struct sw_err err = {0};

    SW_LIST_EACH (struct sw_zds_conn, c, &s->conns, link) {
        if (c->hello_received && sw_zds_conn_send(c, &del, -1, &err) != SW_OK)
            conn_fail(c, err.msg); /* the next one gets what there is */
    }
}

/* ---- what proxies send ---- */

static void take_hello(struct sw_zds_conn *c, struct sw_slice in)
{
    const struct sw_zds_request end = {.kind = SW_ZDS_SNAPSHOT};
    struct sw_zds_server *s = c->server;
    SW_ARENA_AUTO a = {0};
    struct sw_err err = {0};

    if (sw_zds_hello_decode(&a, in, &err) != SW_OK) {
        conn_fail(c, err.msg);
        return;
    }
    sw_timer_stop(s->loop, &c->deadline);
    c->hello_received = true;
    sw_list_unlink(&c->link);
    sw_list_push_front(&s->conns, &c->link);
    sw_log_info("zds", "node proxy connected (%zu in all)", s->n_conns);
    s->ops->snapshot(s->arg, c);
    if (sw_zds_conn_send(c, &end, -1, &err) != SW_OK)
        conn_fail(c, err.msg);
}

static void take_answer(struct sw_zds_conn *c, struct sw_slice in)
{
    struct sw_zds_server *s = c->server;
    SW_ARENA_AUTO a = {0};
    struct sw_slice error = {0};
    struct sw_err err = {0};
    struct item *i = c->asked;

    if (!i || sw_zds_response_decode(&a, in, &error, &err) != SW_OK) {
        conn_fail(c, i ? err.msg : "unexpected packet");
        return;
    }
    c->asked = NULL;
    sw_timer_stop(s->loop, &c->deadline);
    if (error.n)
        sw_log_warn("zds", "node proxy refused pod '%s': %.*s", i->uid,
                    SW_SLICE_ARG_MAX(error, 300));
    if (i->kind == SW_ZDS_ADD && c == sw_zds_server_newest(s))
        s->ops->added(s->arg, sw_slice_str(i->uid), error);
    item_free(i);
    send_next(c);
}

static void on_event(struct sw_watch *w, unsigned events)
{
    struct sw_zds_conn *c = SW_CONTAINER_OF(w, struct sw_zds_conn, watch);
    char bytes[SW_ZDS_PACKET_MAX];

    while (c->fd >= 0) {
        struct sw_packet pk;
        int rc = sw_packet_recv(c->fd, bytes, sizeof(bytes), &pk);

        if (rc == SW_EAGAIN)
            return;
        if (rc != SW_OK) {
            conn_fail(c, rc == SW_EOF ? "the proxy closed it" : "cannot read");
            return;
        }
        sw_sock_close(pk.fd);
        if (pk.cut || pk.n_fds)
            conn_fail(c, "packet too long, or with a descriptor");
        else if (!c->hello_received)
            take_hello(c, sw_slice(bytes, pk.n));
        else
            take_answer(c, sw_slice(bytes, pk.n));
    }
}

static void on_accept(struct sw_acceptor *acceptor, int fd, const struct sw_addr *peer)
{
    struct sw_zds_server *s = SW_CONTAINER_OF(acceptor, struct sw_zds_server, acceptor);
    struct sw_zds_conn *c;

    if (s->n_conns >= CONNS_MAX) {
        sw_log_warn("zds", "node proxy refused: %d are connected already", CONNS_MAX);
        sw_sock_close(fd);
        return;
    }
    c = SW_NEW(struct sw_zds_conn);
    c->server = s;
    c->fd = fd;
    sw_list_init(&c->queue);
    sw_list_push_back(&s->conns, &c->link);
    s->n_conns++;
    sw_timer_start(s->loop, &c->deadline, ANSWER_S * SW_NS_PER_S, on_late);
    if (sw_watch_start(s->loop, &c->watch, fd, on_event, NULL) != SW_OK)
        conn_fail(c, "cannot watch it");
    else
        on_event(&c->watch, SW_READ);
}

struct sw_zds_server *sw_zds_server_new(struct sw_loop *l, const char *path,
                                        const struct sw_zds_server_ops *ops, void *arg,
                                        struct sw_err *err)
{
    struct sw_zds_server *s = SW_NEW(struct sw_zds_server);
    int fd = -1;

    s->loop = l;
    s->ops = ops;
    s->arg = arg;
    s->path = sw_strdup(path);
    sw_list_init(&s->conns);
    sw_accept_init(&s->group, l, "zds");
    if (sw_sock_listen_unix(SOCK_SEQPACKET, path, 0600, &fd, err) != SW_OK ||
        sw_accept_open(&s->group, &s->acceptor, fd, on_accept, err) != SW_OK) {
        sw_free(s->path);
        sw_free(s);
        return NULL;
    }
    sw_accept_hold(&s->group, true);
    return s;
}

void sw_zds_server_open(struct sw_zds_server *s)
{
    sw_accept_hold(&s->group, false);
}

void sw_zds_server_free(struct sw_zds_server *s)
{
    if (!s)
        return;
    SW_LIST_EACH (struct sw_zds_conn, c, &s->conns, link)
        conn_close(c);
    (void)unlink(s->path); /* before it is free: the next agent makes one of the same name */
    sw_accept_done(&s->group);
    sw_free(s->path);
    sw_free(s);
}
