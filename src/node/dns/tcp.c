/* SPDX-License-Identifier: Apache-2.0 */
/* TCP connections of the DNS proxy: several questions at once, answered in any order. */
#include "base/mem.h"
#include "io/sock.h"
#include "node/dns/dns_int.h"

struct dns_conn {
    struct sw_dns_tcp tcp; /* pending: the queries below */
    struct dns_pod *pod;
    struct sw_list queries; /* struct dns_query, by conn_link */
};

static struct dns_conn *conn_of(struct sw_dns_tcp *t)
{
    return SW_CONTAINER_OF(t, struct dns_conn, tcp);
}

static bool on_message(struct sw_dns_tcp *t, struct sw_slice msg)
{
    struct dns_conn *c = conn_of(t);
    struct dns_source src = {.pod = c->pod, .conn = c};

    return dnsp_handle(&src, msg);
}

/* Queries under way continue without it. */
static void on_close(struct sw_dns_tcp *t, bool idle)
{
    struct dns_conn *c = conn_of(t);

    SW_LIST_EACH (struct dns_query, it, &c->queries, conn_link)
        dnsp_conn_remove(it);
    c->pod->n_conns--;
}

static void conn_free(struct sw_dns_tcp *t)
{
    sw_free(conn_of(t));
}

const struct sw_dns_tcp_ops dnsp_tcp_ops = {
    .on_message = on_message, .on_close = on_close, .free = conn_free};

void dnsp_close_conns(struct sw_dns_proxy *p, const struct dns_pod *pod)
{
    SW_LIST_EACH (struct sw_dns_tcp, t, &p->conns.list, link) {
        if (!pod || conn_of(t)->pod == pod)
            sw_dns_tcp_close(t);
    }
}

void dnsp_conn_send(struct dns_conn *c, const uint8_t *p, size_t n)
{
    sw_dns_tcp_send(&c->tcp, p, n);
}

void dnsp_conn_add(struct dns_conn *c, struct dns_query *q)
{
    q->conn = c;
    sw_list_push_back(&c->queries, &q->conn_link);
    c->tcp.pending++;
}

void dnsp_conn_remove(struct dns_query *q)
{
    sw_list_unlink(&q->conn_link);
    q->conn->tcp.pending--;
    q->conn = NULL;
}

void dnsp_on_accept(struct sw_acceptor *a, int fd, const struct sw_addr *peer)
{
    struct dns_socket *s = SW_CONTAINER_OF(a, struct dns_socket, acceptor);
    struct sw_dns_proxy *p = s->pod->proxy;
    struct dns_conn *c;

    if (s->pod->n_conns >= DNS_CONNS_POD) {
        sw_metric_add(sw_metric_get1(p->shard, SW_METRIC_DNS_DROPPED, "connections"), 1);
        sw_sock_close(fd);
        return;
    }
    if (p->conns.n >= DNS_CONNS_MAX) {
        sw_metric_add(sw_metric_get1(p->shard, SW_METRIC_DNS_DROPPED, "connections"), 1);
        sw_dns_tcp_evict(&p->conns);
    }
    c = SW_NEW(struct dns_conn);
    c->pod = s->pod;
    sw_list_init(&c->queries);
    s->pod->n_conns++;
    sw_dns_tcp_open(&c->tcp, &p->conns, fd);
}
