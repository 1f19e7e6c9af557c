/* SPDX-License-Identifier: Apache-2.0 */
#include "node/dns/dns.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "io/dgram.h"
#include "io/filewatch.h"
#include "node/dns/dns_int.h"

/* ---- what is seen of it ---- */

struct sw_metric *dnsp_metric(struct sw_dns_proxy *p, enum sw_metric_id id,
                              const struct dns_pod *pod, const struct sw_dnsp_reply *asked,
                              bool tcp)
{
    const struct sw_workload_class *c = pod->local ? pod->local->c : NULL;
    const struct sw_slice unknown = SW_SLICE_LIT("unknown");
    const struct sw_slice labels[] = {
        sw_slice_str(sw_dnsp_type_text(asked->type)),
        tcp ? SW_SLICE_LIT("tcp") : SW_SLICE_LIT("udp"),
        c && c->canonical_name.n ? c->canonical_name : unknown,
        c && c->canonical_revision.n ? c->canonical_revision : unknown,
    };

    return sw_metric_get(p->shard, id, labels);
}

void dnsp_count(struct sw_dns_proxy *p, enum sw_metric_id id, const struct dns_pod *pod,
                const struct sw_dnsp_reply *asked, bool tcp)
{
    sw_metric_add(dnsp_metric(p, id, pod, asked, tcp), 1);
}

void dnsp_log(const struct dns_pod *pod, const struct sw_dnsp_reply *asked, const char *result)
{
    struct sw_log_line l;

    if (!sw_log_enabled(SW_LOG_DEBUG, "dns"))
        return;
    sw_log_begin(&l, SW_LOG_DEBUG, "dns", "access");
    sw_log_str(&l, "src.workload", sw_slice_str(pod->pod->name));
    sw_log_str(&l, "src.namespace", sw_slice_str(pod->pod->ns));
    sw_log_str(&l, "query", sw_slice_str(sw_dnsp_type_text(asked->type)));
    sw_log_str(&l, "domain", sw_slice_str(asked->name));
    sw_log_str(&l, "result", sw_slice_str(result));
    sw_log_u64(&l, "endpoints", asked->n_addresses);
    sw_log_end(&l);
}

/* ---- requests ---- */

void dnsp_send(const struct dns_source *src, const uint8_t *p, size_t n)
{
    if (src->conn)
        dnsp_conn_send(src->conn, p, n);
    else if (src->sock->udp >= 0)
        (void)sw_dgram_send(src->sock->udp, p, n, &src->from);
}

static void forward(const struct dns_source *src, struct sw_slice msg, struct sw_dnsp_reply *r)
{
    struct sw_dns_proxy *p = src->pod->proxy;

    if (dnsp_forward(src, msg, r))
        return;
    dnsp_count(p, SW_METRIC_DNS_UPSTREAM_FAILURES, src->pod, r, src->conn != NULL);
    dnsp_log(src->pod, r, p->n_servers ? "too many queries are under way" : "no resolver is known");
    r->n = sw_dnsp_error(msg, SW_DNS_SERVFAIL, p->scratch);
    if (r->n)
        dnsp_send(src, p->scratch, r->n);
}

bool dnsp_handle(const struct dns_source *src, struct sw_slice msg)
{
    struct sw_dns_proxy *p = src->pod->proxy;
    struct sw_dnsp_request req = {
        .msg = msg,
        .tcp = src->conn != NULL,
        .state = p->state,
        .env = &p->env,
        .client = src->pod->local,
    };
    struct sw_dnsp_reply r;

    sw_dnsp_respond(&req, p->scratch, &r);
    if (r.verdict == SW_DNSP_DROP) {
        sw_metric_add(sw_metric_get1(p->shard, SW_METRIC_DNS_DROPPED, "malformed"), 1);
        return false;
    }
    /* A pod that has just started: its programs ask for names before the control plane has sent it.
     */
    if (!req.client && r.verdict == SW_DNSP_REPLY && r.rcode == SW_DNS_SERVFAIL &&
        dnsp_park(src, msg, &r))
        return true;
    dnsp_count(p, SW_METRIC_DNS_REQUESTS, src->pod, &r, req.tcp);
    if (r.verdict == SW_DNSP_FORWARD) {
        forward(src, msg, &r);
        return true;
    }
    dnsp_log(src->pod, &r, sw_dns_rcode_text(r.rcode));
    dnsp_send(src, p->scratch, r.n);
    return true;
}

/* Reads what has come, at most so many datagrams. */
static void read_udp(struct dns_socket *s, unsigned most)
{
    uint8_t buf[SW_DNS_MSG_MAX];

    for (unsigned i = 0; i < most; i++) {
        struct dns_source src = {.pod = s->pod, .sock = s};
        ssize_t n = sw_dgram_recv(s->udp, buf, sizeof(buf), &src.from);

        if (n == SW_EAGAIN)
            return;
        /* Port 0 and our own port are never the source of a question worth an answer (loops). */
        if (n >= 0 && src.from.port && src.from.port != s->at.port)
            (void)dnsp_handle(&src, sw_slice(buf, (size_t)n));
    }
}

static void on_udp(struct sw_watch *w, unsigned events)
{
    read_udp(SW_CONTAINER_OF(w, struct dns_socket, watch), DNS_BATCH);
}

/* ---- orders of the main thread ---- */

static struct sw_dns_proxy *proxy_of(struct sw_crew_thread *t)
{
    return SW_CONTAINER_OF(t, struct sw_dns_proxy, thread);
}

static void find_local(struct dns_pod *pod)
{
    pod->local = sw_pod_workload(pod->proxy->state, pod->pod);
}

static void take_state(struct sw_crew_thread *t, void *state)
{
    struct sw_dns_proxy *p = proxy_of(t);
    struct sw_state *old = p->state;

    p->state = state;
    SW_LIST_EACH (struct dns_pod, it, &p->pods, link)
        find_local(it);
    dnsp_unpark(p);
    (void)sw_state_unref(old);
}

void sw_dns_proxy_send_state(struct sw_dns_proxy *p, struct sw_state *state)
{
    if (p)
        sw_crew_order(&p->thread, take_state, state);
    else
        (void)sw_state_unref(state);
}

static void close_socket(struct dns_socket *s)
{
    sw_watch_stop(&s->watch);
    sw_sock_close(s->udp);
    sw_sock_close(s->udp_mark);
    sw_sock_close(s->tcp);
    sw_sock_close(s->tcp_mark);
    s->udp = s->udp_mark = s->tcp = s->tcp_mark = -1;
}

static void each_socket(struct sw_dns_proxy *p, void (*fn)(struct dns_socket *s))
{
    SW_LIST_EACH (struct dns_pod, pod, &p->pods, link) {
        for (size_t k = 0; k < pod->n_socks; k++)
            fn(&pod->socks[k]);
    }
}

static void finish_accepting(struct dns_socket *s)
{
    sw_accept_finish(&s->acceptor);
}

/* Datagrams are served to the end: the kernel gives this socket its share while it is open. */
static void on_drain(struct sw_crew_thread *t)
{
    struct sw_dns_proxy *p = proxy_of(t);

    each_socket(p, finish_accepting);
    sw_accept_done(&p->accept);
}

static bool is_idle(struct sw_crew_thread *t)
{
    return proxy_of(t)->n_queries == 0;
}

static void on_kill(struct sw_crew_thread *t)
{
    struct sw_dns_proxy *p = proxy_of(t);

    SW_LIST_EACH (struct dns_query, it, &p->queries, link)
        dnsp_query_free(it);
    dnsp_close_conns(p, NULL);
}

static void read_rest(struct dns_socket *s)
{
    read_udp(s, DNS_QUERIES_MAX);
}

static void on_thread_end(struct sw_crew_thread *t)
{
    struct sw_dns_proxy *p = proxy_of(t);

    p->ended = true;
    each_socket(p, read_rest);
    on_kill(t);
    each_socket(p, close_socket);
    sw_filewatch_free(p->watch);
    p->watch = NULL;
}

static const struct sw_crew_ops thread_ops = {
    .drain = on_drain, .idle = is_idle, .kill = on_kill, .end = on_thread_end};

/* ---- pods ---- */

/* One that nothing refers to any more. */
static void pod_free(struct dns_pod *pod)
{
    for (size_t k = 0; k < pod->n_socks; k++)
        close_socket(&pod->socks[k]);
    (void)sw_pod_unref(pod->pod);
    sw_free(pod);
}

static int open_socket(struct dns_pod *pod, const struct sw_addr *at, struct sw_err *err)
{
    struct dns_socket *s = &pod->socks[pod->n_socks++];
    struct sw_sock_opts o = {.netns_fd = pod->pod->netns_fd,
                             .mark = pod->proxy->config->sockets.packet_mark,
                             .share = pod->proxy->group,
                             .v6only = true};
    int rc;

    *s = (struct dns_socket){
        .pod = pod, .at = *at, .udp = -1, .udp_mark = -1, .tcp = -1, .tcp_mark = -1};
    o.ret_mark = &s->udp_mark;
    rc = sw_dgram_bind(at, &o, &s->udp, err);
    o.ret_mark = &s->tcp_mark;
    if (rc == SW_OK)
        rc = sw_sock_listen(at, &o, &s->tcp, err);
    if (rc == SW_OK)
        return SW_OK;
    close_socket(s);
    pod->n_socks--;
    return pod->pod->netns_fd >= 0 ? sw_err_prefix(err, "pod '%s'", pod->pod->uid) : rc;
}

/* Localhost means both families; one that the namespace lacks is left out. */
static int open_sockets(struct dns_pod *pod, struct sw_err *err)
{
    const struct sw_node_config *c = pod->proxy->config;
    struct sw_addr at = c->dns.addr;
    int rc = open_socket(pod, &at, err);

    if (rc != SW_OK || !c->dns.localhost || !c->listen.ipv6)
        return rc;
    at.ip = (struct sw_ip){.family = 6};
    at.ip.b[15] = 1;
    rc = open_socket(pod, &at, err);
    if (rc == SW_ESYS && (err->sys_errno == EAFNOSUPPORT || err->sys_errno == EADDRNOTAVAIL)) {
        *err = (struct sw_err){0};
        rc = SW_OK;
    }
    return rc;
}

static int start_socket(struct sw_dns_proxy *p, struct dns_socket *s, struct sw_err *err)
{
    int rc = sw_watch_start_listener(p->loop, &s->watch, s->udp, on_udp, err);

    if (rc == SW_OK)
        rc = sw_accept_open(&p->accept, &s->acceptor, SW_TAKE_FD(s->tcp), dnsp_on_accept, err);
    if (rc == SW_OK)
        s->acceptor.mark = SW_TAKE_FD(s->tcp_mark);
    return rc;
}

static void take_pod(struct sw_crew_thread *t, void *arg)
{
    struct sw_dns_proxy *p = proxy_of(t);
    struct dns_pod *pod = arg;
    struct sw_err err = {0};

    if (p->ended) {
        pod_free(pod);
        return;
    }
    sw_list_push_back(&p->pods, &pod->link);
    find_local(pod);
    for (size_t k = 0; k < pod->n_socks; k++) {
        if (start_socket(p, &pod->socks[k], &err) != SW_OK)
            sw_log_error("dns", "pod '%s' has no DNS: %s", pod->pod->uid, err.msg);
    }
}

int sw_dns_proxy_add(struct sw_dns_proxy *p, struct sw_pod *pod, struct sw_err *err)
{
    struct dns_pod *d = SW_NEW(struct dns_pod);
    int rc;

    d->proxy = p;
    d->pod = sw_pod_ref(pod);
    rc = open_sockets(d, err);
    if (rc == SW_OK)
        sw_crew_order(&p->thread, take_pod, d);
    else
        pod_free(d);
    return rc;
}

static void drop_pod(struct dns_pod *pod)
{
    struct sw_dns_proxy *p = pod->proxy;

    dnsp_close_conns(p, pod);
    SW_LIST_EACH (struct dns_query, q, &p->queries, link) {
        if (q->pod == pod)
            dnsp_query_free(q);
    }
    for (size_t k = 0; k < pod->n_socks; k++)
        sw_accept_close(&pod->socks[k].acceptor);
    sw_list_unlink(&pod->link);
    pod_free(pod);
}

static void take_pod_gone(struct sw_crew_thread *t, void *arg)
{
    struct sw_dns_proxy *p = proxy_of(t);
    char *uid = arg;

    SW_LIST_EACH (struct dns_pod, pod, &p->pods, link) {
        if (!p->ended && strcmp(pod->pod->uid, uid) == 0) {
            drop_pod(pod);
            break;
        }
    }
    sw_free(uid);
}

void sw_dns_proxy_remove(struct sw_dns_proxy *p, const char *uid)
{
    if (p)
        sw_crew_order(&p->thread, take_pod_gone, sw_strdup(uid));
}

/* ---- life ---- */

struct sw_dns_proxy *sw_dns_proxy_new(const struct sw_dns_proxy_setup *from, struct sw_err *err)
{
    struct sw_dns_proxy *p = SW_NEW(struct sw_dns_proxy);
    const struct sw_node_config *c = from->config;
    int rc;

    p->config = c;
    p->group = from->group;
    sw_list_init(&p->pods);
    sw_list_init(&p->queries);
    p->env = (struct sw_dnsp_env){
        .domain = sw_slice_str(c->names.cluster_domain),
        .preferred_ns = sw_slice_str(c->dns.preferred_namespace),
        .ipv6 = c->listen.ipv6,
    };
    p->shard = sw_metrics_shard_new(from->metrics);
    p->state = sw_state_ref(from->state);
    rc = sw_crew_thread_init(&p->thread, from->crew, &thread_ops, err);
    p->loop = p->thread.loop;
    sw_dns_tcp_set_init(&p->conns, p->loop, &dnsp_tcp_ops);
    p->conns.idle_ns = DNS_IDLE_S * SW_NS_PER_S;
    p->conns.max_pending = DNS_QUERIES_CONN;
    if (rc == SW_OK) {
        sw_accept_init(&p->accept, p->loop, "dns");
        rc = dnsp_upstream_init(p, err);
    }
    if (rc != SW_OK) {
        sw_dns_proxy_free(p);
        return NULL;
    }
    return p;
}

int sw_dns_proxy_start(struct sw_dns_proxy *p, struct sw_err *err)
{
    return sw_crew_thread_start(&p->thread, err);
}

void sw_dns_proxy_free(struct sw_dns_proxy *p)
{
    struct dns_pod *pod;

    if (!p)
        return;
    p->ended = true;
    sw_filewatch_free(p->watch); /* of a thread that never ran */
    sw_accept_done(&p->accept);
    while ((pod = SW_LIST_POP(&p->pods, struct dns_pod, link))) /* orders that wait may look */
        pod_free(pod);
    sw_crew_thread_done(&p->thread);
    sw_arena_clear(&p->search_text);
    (void)sw_state_unref(p->state);
    sw_metrics_shard_free(p->shard);
    sw_free(p);
}
