/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the DNS proxy share. All of it belongs to its thread. */
#pragma once

#include "base/arena.h"
#include "dns/exchange.h"
#include "dns/stub.h"
#include "dns/tcp.h"
#include "node/dns/dns.h"
#include "node/dns/reply.h"

enum {
    DNS_SOCKETS_MAX = 2,    /* of a pod: one address of each family */
    DNS_QUERIES_MAX = 4096, /* forwarded at once, */
    DNS_QUERIES_POD = 1024, /* of one pod, */
    DNS_QUERIES_CONN = 16,  /* of one connection */
    DNS_CONNS_MAX = 1024,   /* open TCP connections, */
    DNS_CONNS_POD = 128,    /* of one pod */
    DNS_IDLE_S = 5,         /* without a question or an answer */
    DNS_BATCH = 64,         /* datagrams read per wake-up */
};

struct dns_pod;
struct dns_conn;

struct dns_socket {
    struct dns_pod *pod;
    struct sw_addr at;
    int udp; /* owned; -1: closed. The same for the next ones */
    int udp_mark;
    int tcp; /* until the acceptor has it */
    int tcp_mark;
    struct sw_watch watch;
    struct sw_acceptor acceptor;
};

struct dns_pod {
    struct sw_list link;
    struct sw_dns_proxy *proxy;
    struct sw_pod *pod;              /* a reference */
    const struct sw_workload *local; /* in proxy->state; NULL while unknown */
    size_t n_queries;
    size_t n_conns;
    struct dns_socket socks[DNS_SOCKETS_MAX];
    size_t n_socks;
};

/* A request that is with a resolver, or waits for the workload of its pod. */
struct dns_query {
    struct sw_list link;
    struct sw_list conn_link; /* of the connection it came by */
    struct dns_pod *pod;
    struct dns_socket *sock; /* UDP: where it came in */
    struct dns_conn *conn;   /* TCP; NULL: UDP, or the connection is gone */
    bool tcp;
    struct sw_addr from;
    struct sw_slice msg; /* owned */
    struct sw_dnsp_reply asked;
    struct sw_dns_exchange *exchange;
    unsigned tries;
    uint64_t since_ns;
    struct sw_timer wait; /* runs while it waits for the workload */
};

struct sw_dns_proxy {
    struct sw_crew_thread thread;
    const struct sw_node_config *config;
    struct sw_loop *loop; /* the thread's */
    struct sw_metrics_shard *shard;
    struct sw_state *state; /* owned reference */
    struct sw_dnsp_env env;
    struct sw_arena search_text; /* of env.search */
    struct sw_addr servers[SW_DNS_SERVERS_MAX];
    size_t n_servers;
    struct sw_filewatch *watch;
    const char *group;   /* of the ports */
    struct sw_list pods; /* struct dns_pod */
    bool ended;          /* orders that come now only free what they carry */
    struct sw_accept_group accept;
    struct sw_list queries;
    size_t n_queries;
    struct sw_dns_tcp_set conns;
    uint8_t scratch[SW_DNS_MSG_MAX];
};

/* Where a request came from and its answer goes. */
struct dns_source {
    struct dns_pod *pod;
    struct dns_socket *sock;
    struct dns_conn *conn; /* NULL: UDP */
    struct sw_addr from;
};

/* --- proxy.c --- */
/* Answers or forwards; the answer may be written before it returns. False: not DNS. */
bool dnsp_handle(const struct dns_source *src, struct sw_slice msg);
void dnsp_send(const struct dns_source *src, const uint8_t *p, size_t n);
void dnsp_count(struct sw_dns_proxy *p, enum sw_metric_id id, const struct dns_pod *pod,
                const struct sw_dnsp_reply *asked, bool tcp);
struct sw_metric *dnsp_metric(struct sw_dns_proxy *p, enum sw_metric_id id,
                              const struct dns_pod *pod, const struct sw_dnsp_reply *asked,
                              bool tcp);
void dnsp_log(const struct dns_pod *pod, const struct sw_dnsp_reply *asked, const char *result);

/* --- forward.c --- */
/* False: too many are under way, or there is no resolver. */
bool dnsp_forward(const struct dns_source *src, struct sw_slice msg,
                  const struct sw_dnsp_reply *asked);
/*
 * Keeps the request until the workload of its pod is known, and answers SERVFAIL when that takes
 * too long. False: too many are under way.
 */
bool dnsp_park(const struct dns_source *src, struct sw_slice msg,
               const struct sw_dnsp_reply *asked);
/* Serves what waited for a workload that is known now. */
void dnsp_unpark(struct sw_dns_proxy *p);
/* The query ends without an answer. */
void dnsp_query_free(struct dns_query *q);
/* Reads resolv.conf now and whenever it changes. */
SW_NODISCARD int dnsp_upstream_init(struct sw_dns_proxy *p, struct sw_err *err);

/* --- tcp.c --- */
extern const struct sw_dns_tcp_ops dnsp_tcp_ops;
void dnsp_on_accept(struct sw_acceptor *a, int fd, const struct sw_addr *peer);
/* Queues an answer and writes what goes. */
void dnsp_conn_send(struct dns_conn *c, const uint8_t *p, size_t n);
void dnsp_conn_add(struct dns_conn *c, struct dns_query *q);
/* The query is over: the connection may take another. */
void dnsp_conn_remove(struct dns_query *q);
/* pod NULL: of all. */
void dnsp_close_conns(struct sw_dns_proxy *p, const struct dns_pod *pod);
