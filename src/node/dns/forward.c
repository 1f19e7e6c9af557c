/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that are not answered at once: those for others, which go to the resolvers of
 * resolv.conf, one after the other, and those of pods whose workload is not known yet.
 */
#include <ctype.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "io/filewatch.h"
#include "node/dns/dns_int.h"

enum {
    TRY_MS = 1500,   /* a resolver has so long before the next is asked */
    TOTAL_MS = 5000, /* as long as clients wait */
    PARK_MS = 4000,  /* for the workload; below the client's own timeout of 5 s, so that it gets an
                        answer */
    ROUNDS = 2,
    RESOLV_CONF_MAX = 65536,
};

static void ask(struct dns_query *q);

static struct dns_source source_of(const struct dns_query *q)
{
    return (struct dns_source){.pod = q->pod, .sock = q->sock, .conn = q->conn, .from = q->from};
}

void dnsp_query_free(struct dns_query *q)
{
    struct sw_dns_proxy *p = q->pod->proxy;

    sw_dns_exchange_cancel(q->exchange);
    sw_timer_stop(p->loop, &q->wait);
    sw_list_unlink(&q->link);
    p->n_queries--;
    q->pod->n_queries--;
    if (q->conn)
        dnsp_conn_remove(q);
    sw_slice_free(&q->msg);
    sw_free(q);
}

/* n bytes of scratch are the answer. A TCP client that went away gets none. */
static void finish(struct dns_query *q, size_t n)
{
    struct dns_source src = source_of(q);
    bool gone = q->tcp && !q->conn;
    uint8_t *out = q->pod->proxy->scratch;

    dnsp_query_free(q);
    if (n && !gone)
        dnsp_send(&src, out, n);
}

static void failed(struct dns_query *q, const char *why)
{
    struct sw_dns_proxy *p = q->pod->proxy;

    dnsp_count(p, SW_METRIC_DNS_UPSTREAM_FAILURES, q->pod, &q->asked, q->tcp);
    dnsp_log(q->pod, &q->asked, why);
    finish(q, sw_dnsp_error(q->msg, SW_DNS_SERVFAIL, p->scratch));
}

static void on_answer(void *arg, int rc, struct sw_slice answer)
{
    struct dns_query *q = arg;
    struct sw_dns_proxy *p = q->pod->proxy;
    uint64_t took = sw_loop_now(p->loop) - q->since_ns;

    q->exchange = NULL;
    if (rc == SW_OK) {
        sw_metric_observe(dnsp_metric(p, SW_METRIC_DNS_UPSTREAM_SECONDS, q->pod, &q->asked, q->tcp),
                          (double)took / (double)SW_NS_PER_S);
        dnsp_log(q->pod, &q->asked, "forwarded");
        finish(q, sw_dnsp_pass_on(&q->asked, q->msg, answer, p->scratch));
    } else if (q->tries < ROUNDS * p->n_servers && took < TOTAL_MS * SW_NS_PER_MS) {
        ask(q);
    } else {
        failed(q, "no resolver answered");
    }
}

static void ask(struct dns_query *q)
{
    struct sw_dns_proxy *p = q->pod->proxy;
    uint64_t left = q->since_ns + TOTAL_MS * SW_NS_PER_MS - sw_loop_now(p->loop);
    struct sw_dns_exchange_opts o = {
        .server = p->servers[q->tries++ % p->n_servers],
        .msg = q->msg,
        .timeout_ns = sw_min(left, TRY_MS * SW_NS_PER_MS),
        .tcp = q->tcp,
        .sock = {.mark = p->config->sockets.packet_mark, .netns_fd = q->pod->pod->netns_fd},
    };

    q->exchange = sw_dns_exchange_start(p->loop, &o, on_answer, q);
}

/* NULL: too many are under way. */
static struct dns_query *query_new(const struct dns_source *src, struct sw_slice msg,
                                   const struct sw_dnsp_reply *asked)
{
    struct sw_dns_proxy *p = src->pod->proxy;
    struct dns_query *q;

    if (p->n_queries >= DNS_QUERIES_MAX || src->pod->n_queries >= DNS_QUERIES_POD)
        return NULL;
    q = SW_NEW(struct dns_query);
    q->pod = src->pod;
    q->sock = src->sock;
    q->tcp = src->conn != NULL;
    q->from = src->from;
    q->msg = sw_slice_copy(msg);
    q->asked = *asked;
    q->since_ns = sw_loop_now(p->loop);
    sw_list_push_back(&p->queries, &q->link);
    p->n_queries++;
    src->pod->n_queries++;
    if (src->conn)
        dnsp_conn_add(src->conn, q);
    return q;
}

bool dnsp_forward(const struct dns_source *src, struct sw_slice msg,
                  const struct sw_dnsp_reply *asked)
{
    struct sw_dns_proxy *p = src->pod->proxy;
    struct dns_query *q = p->n_servers ? query_new(src, msg, asked) : NULL;

    if (!q)
        return false;
    dnsp_count(p, SW_METRIC_DNS_UPSTREAM_REQUESTS, q->pod, asked, q->tcp);
    ask(q);
    return true;
}

/* ---- pods whose workload is not known yet ---- */

static void on_parked_too_long(struct sw_timer *t)
{
    struct dns_query *q = SW_CONTAINER_OF(t, struct dns_query, wait);
    struct sw_dns_proxy *p = q->pod->proxy;

    dnsp_count(p, SW_METRIC_DNS_REQUESTS, q->pod, &q->asked, q->tcp);
    dnsp_log(q->pod, &q->asked, "workload unknown");
    finish(q, sw_dnsp_error(q->msg, SW_DNS_SERVFAIL, p->scratch));
}

bool dnsp_park(const struct dns_source *src, struct sw_slice msg, const struct sw_dnsp_reply *asked)
{
    struct dns_query *q = query_new(src, msg, asked);

    if (q)
        sw_timer_start(src->pod->proxy->loop, &q->wait, PARK_MS * SW_NS_PER_MS, on_parked_too_long);
    return q != NULL;
}

/* The request is handled as if it came now. */
static void resume(struct dns_query *q)
{
    struct dns_source src = source_of(q);
    struct sw_slice msg = q->msg;
    bool gone = q->tcp && !q->conn;

    q->msg = (struct sw_slice){0};
    dnsp_query_free(q);
    if (!gone)
        (void)dnsp_handle(&src, msg);
    sw_slice_free(&msg);
}

void dnsp_unpark(struct sw_dns_proxy *p)
{
    size_t n = p->n_queries; /* those that are forwarded now come behind */

    SW_LIST_EACH (struct dns_query, q, &p->queries, link) {
        if (n-- == 0)
            return;
        if (sw_timer_running(&q->wait) && q->pod->local)
            resume(q);
    }
}

/* ---- resolv.conf ---- */

/* Ourselves would be a loop. */
static bool is_own(const struct sw_node_config *c, const struct sw_addr *a)
{
    return sw_addr_eq(&c->dns.addr, a) ||
           (c->dns.localhost && a->port == c->dns.addr.port && sw_ip_is_loopback(&a->ip));
}

/* As the names of questions are compared. */
static struct sw_slice lower(struct sw_arena *a, struct sw_slice name)
{
    char *text = sw_arena_dup(a, name);

    for (size_t i = 0; i < name.n; i++)
        text[i] = (char)tolower((unsigned char)text[i]);
    return sw_slice(text, name.n);
}

/* The last 'search' or 'domain' line counts (resolv.conf(5)). */
static void read_search(struct sw_dns_proxy *p, struct sw_slice text)
{
    sw_arena_clear(&p->search_text);
    p->env.n_search = 0;
    while (text.p) {
        struct sw_slice line = sw_slice_cut(&text, '\n');
        struct sw_slice word = sw_dns_resolv_word(&line);

        if (!sw_slice_eq_str(word, "search") && !sw_slice_eq_str(word, "domain"))
            continue;
        p->env.n_search = 0;
        while ((word = sw_dns_resolv_word(&line)).n && p->env.n_search < SW_DNSP_SEARCH_MAX) {
            if (word.p[word.n - 1] == '.')
                word.n--;
            if (word.n)
                p->env.search[p->env.n_search++] = lower(&p->search_text, word);
        }
    }
}

/* A file that cannot be read keeps what was known. */
static void on_resolv_conf(void *arg)
{
    struct sw_dns_proxy *p = arg;
    struct sw_addr found[SW_DNS_SERVERS_MAX];
    struct sw_slice text = {0};
    struct sw_err err = {0};
    size_t n;

    if (sw_file_read(p->config->dns.resolv_conf, RESOLV_CONF_MAX, &text, &err) != SW_OK) {
        sw_log_warn("dns", "cannot read nameservers, keeping the previous ones: %s", err.msg);
        return;
    }
    n = sw_dns_resolv_conf(text, found);
    p->n_servers = 0;
    for (size_t i = 0; i < n; i++) {
        if (!is_own(p->config, &found[i]))
            p->servers[p->n_servers++] = found[i];
    }
    if (!p->n_servers)
        sw_log_warn("dns", "no nameserver in '%s': names outside the mesh get SERVFAIL",
                    p->config->dns.resolv_conf);
    if (p->config->serve.mode == SW_NODE_DEDICATED)
        read_search(p, text);
    sw_slice_free(&text);
}

int dnsp_upstream_init(struct sw_dns_proxy *p, struct sw_err *err)
{
    on_resolv_conf(p);
    p->watch = sw_filewatch_new(p->loop, p->config->dns.resolv_conf, on_resolv_conf, p, err);
    return p->watch ? SW_OK : err->rc;
}
