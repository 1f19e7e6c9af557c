/* SPDX-License-Identifier: Apache-2.0 */
/* TCP connections of the DNS proxy: several questions at once, answered in any order. */
#include "base/buf.h"
#include "base/mem.h"
#include "base/time.h"
#include "io/sock.h"
#include "node/dns/proxy_int.h"

enum {
    OUT_HIGH = 64 * 1024, /* no more work for a client that does not read */
    OUT_MAX = OUT_HIGH + (DNS_QUERIES_CONN + 1) * (2 + SW_DNS_MSG_MAX),
    READ_ONCE = 4096,
    STEPS = 64,
    IDLE_S = 5,
};

struct dns_conn {
    struct sw_list link; /* the longest idle first */
    struct dns_pod *pod;
    int fd;
    struct sw_watch watch;
    struct sw_timer idle;
    struct sw_buf in;
    struct sw_buf out;
    struct sw_list queries; /* struct dns_query, by conn_link */
    size_t n_queries;
    bool eof;
    struct sw_defer again;
    struct sw_defer free;
};

static void free_conn(struct sw_defer *d)
{
    sw_free(SW_CONTAINER_OF(d, struct dns_conn, free));
}

/* Queries under way go on without it. */
static void close_conn(struct dns_conn *c)
{
    struct sw_dns_proxy *p = c->pod->proxy;

    if (c->fd < 0)
        return;
    SW_LIST_FOREACH (it, &c->queries)
        dnsp_conn_remove(SW_CONTAINER_OF(it, struct dns_query, conn_link));
    sw_list_unlink(&c->link);
    p->n_conns--;
    c->pod->n_conns--;
    sw_timer_stop(p->loop, &c->idle);
    sw_watch_stop(&c->watch);
    sw_sock_close(c->fd);
    c->fd = -1;
    sw_buf_done(&c->in);
    sw_buf_done(&c->out);
    sw_defer_cancel(&c->again);
    sw_loop_defer(p->loop, &c->free, free_conn);
}

void dnsp_close_conns(struct sw_dns_proxy *p, const struct dns_pod *pod)
{
    SW_LIST_FOREACH (it, &p->conns) {
        struct dns_conn *c = SW_CONTAINER_OF(it, struct dns_conn, link);

        if (!pod || c->pod == pod)
            close_conn(c);
    }
}

/* Queries have a deadline of their own. */
static void on_idle(struct sw_timer *t)
{
    struct dns_conn *c = SW_CONTAINER_OF(t, struct dns_conn, idle);

    if (c->n_queries)
        sw_timer_start(c->pod->proxy->loop, t, IDLE_S * SW_NS_PER_S, on_idle);
    else
        close_conn(c);
}

/* Whole messages in, bytes out; single bytes of a question are no progress. */
static void progress(struct dns_conn *c)
{
    struct sw_dns_proxy *p = c->pod->proxy;

    sw_timer_start(p->loop, &c->idle, IDLE_S * SW_NS_PER_S, on_idle);
    sw_list_unlink(&c->link);
    sw_list_push_back(&p->conns, &c->link);
}

/* False: the connection is gone. */
static bool write_out(struct dns_conn *c)
{
    while (sw_buf_len(&c->out)) {
        ssize_t n = sw_sock_write(c->fd, sw_buf_data(&c->out), sw_buf_len(&c->out));

        if (n == SW_EAGAIN)
            return true;
        if (n < 0) {
            close_conn(c);
            return false;
        }
        sw_buf_consume(&c->out, (size_t)n);
        progress(c);
    }
    return true;
}

/* Takes one whole question from the input. False: there is none. */
static bool take_question(struct dns_conn *c)
{
    struct dns_source src = {.pod = c->pod, .conn = c};
    struct sw_slice in = sw_buf_slice(&c->in);
    size_t n;

    if (in.n < 2)
        return false;
    n = (size_t)(uint8_t)in.p[0] << 8 | (uint8_t)in.p[1];
    if (in.n - 2 < n)
        return false;
    if (!dnsp_handle(&src, sw_slice(in.p + 2, n)))
        c->eof = true; /* does not speak DNS: no more of it */
    if (c->fd < 0)
        return false;
    sw_buf_consume(&c->in, n + 2);
    progress(c);
    return true;
}

/* False: nothing more for now, or the connection is gone. */
static bool read_in(struct dns_conn *c)
{
    char *to = sw_buf_reserve(&c->in, READ_ONCE);
    ssize_t n = to ? sw_sock_read(c->fd, to, READ_ONCE) : SW_ELIMIT;

    if (n == SW_EOF) {
        c->eof = true;
        return true;
    }
    if (n < 0 && n != SW_EAGAIN) {
        close_conn(c);
        return false;
    }
    if (n > 0)
        sw_buf_commit(&c->in, (size_t)n);
    return n != SW_EAGAIN;
}

static void step(struct dns_conn *c);

static void on_again(struct sw_defer *d)
{
    step(SW_CONTAINER_OF(d, struct dns_conn, again));
}

static void step(struct dns_conn *c)
{
    for (unsigned i = 0; i < STEPS; i++) {
        if (c->fd < 0 || !write_out(c))
            return;
        if (sw_buf_len(&c->out) >= OUT_HIGH || c->n_queries >= DNS_QUERIES_CONN)
            return; /* goes on when the peer reads, or with an answer */
        if (take_question(c))
            continue;
        if (c->fd < 0)
            return;
        if (c->eof) {
            if (!sw_buf_len(&c->out) && !c->n_queries)
                close_conn(c);
            return;
        }
        if (!read_in(c))
            return;
    }
    sw_loop_defer(c->pod->proxy->loop, &c->again, on_again);
}

static void on_event(struct sw_watch *w, unsigned events)
{
    (void)events;
    step(SW_CONTAINER_OF(w, struct dns_conn, watch));
}

void dnsp_conn_send(struct dns_conn *c, const uint8_t *p, size_t n)
{
    const uint8_t len[2] = {(uint8_t)(n >> 8), (uint8_t)n};

    if (c->fd < 0)
        return;
    if (sw_buf_append(&c->out, len, sizeof(len)) != SW_OK || sw_buf_append(&c->out, p, n) != SW_OK)
        close_conn(c);
    else
        sw_loop_defer(c->pod->proxy->loop, &c->again, on_again);
}

void dnsp_conn_add(struct dns_conn *c, struct dns_query *q)
{
    q->conn = c;
    sw_list_push_back(&c->queries, &q->conn_link);
    c->n_queries++;
}

void dnsp_conn_remove(struct dns_query *q)
{
    sw_list_unlink(&q->conn_link);
    q->conn->n_queries--;
    q->conn = NULL;
}

void dnsp_on_accept(struct sw_acceptor *a, int fd, const struct sw_addr *peer)
{
    struct dns_socket *s = SW_CONTAINER_OF(a, struct dns_socket, acceptor);
    struct sw_dns_proxy *p = s->pod->proxy;
    struct dns_conn *c;

    (void)peer;
    if (s->pod->n_conns >= DNS_CONNS_POD) {
        sw_metric_add(sw_metric_get1(p->shard, SW_METRIC_DNS_DROPPED, "connections"), 1);
        sw_sock_close(fd);
        return;
    }
    if (p->n_conns >= DNS_CONNS_MAX) {
        sw_metric_add(sw_metric_get1(p->shard, SW_METRIC_DNS_DROPPED, "connections"), 1);
        close_conn(SW_CONTAINER_OF(p->conns.next, struct dns_conn, link));
    }
    c = SW_NEW(struct dns_conn);
    c->pod = s->pod;
    c->fd = fd;
    sw_buf_init(&c->in, 2 + SW_DNS_MSG_MAX + READ_ONCE);
    sw_buf_init(&c->out, OUT_MAX);
    sw_list_init(&c->queries);
    sw_list_push_back(&p->conns, &c->link);
    p->n_conns++;
    s->pod->n_conns++;
    sw_timer_start(p->loop, &c->idle, IDLE_S * SW_NS_PER_S, on_idle);
    if (sw_watch_start(p->loop, &c->watch, fd, on_event, NULL) != SW_OK)
        close_conn(c);
    else
        step(c);
}
