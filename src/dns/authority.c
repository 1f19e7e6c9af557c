/* SPDX-License-Identifier: Apache-2.0 */
#include "dns/authority.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "dns/authority_int.h"
#include "io/dgram.h"
#include "io/sock.h"

enum {
    BATCH = 64, /* datagrams per wake-up: others share the loop */
    MAX_CONNECTIONS = 256,
    MAX_PER_IP = 16,
    IDLE_S = 10,
    PORT_TRIES = 20,
};

void dns_count(struct sw_dns_authority *a, enum sw_metric_id id, const char *value)
{
    if (a->o.metrics)
        sw_metric_add(sw_metric_get1(a->o.metrics, id, value), 1);
}

/* ---- answers ---- */

static void count_answer(struct sw_dns_authority *a, bool tcp, unsigned rcode)
{
    unsigned k = rcode < DNS_RCODES ? rcode : DNS_RCODES;

    if (!a->o.metrics)
        return;
    if (!a->answers[tcp][k]) {
        struct sw_slice values[2] = {sw_slice_str(tcp ? "tcp" : "udp"),
                                     sw_slice_str(sw_dns_rcode_text(rcode))};

        a->answers[tcp][k] = sw_metric_get(a->o.metrics, SW_METRIC_DNS_ANSWERS, values);
    }
    sw_metric_add(a->answers[tcp][k], 1);
}

/* Any client may query any name: only signs of a wrong configuration are logged. */
static void log_refusal(struct sw_dns_authority *a, const struct sw_addr *from,
                        const struct sw_dns_reply *r)
{
    enum sw_log_level level = r->rcode == SW_DNS_NOTAUTH || r->question.type == SW_DNS_AXFR ||
                                      r->question.type == SW_DNS_IXFR
                                  ? SW_LOG_WARN
                                  : SW_LOG_DEBUG;
    uint64_t now = sw_loop_now(a->loop);
    char addr[SW_ADDR_TEXT];
    char name[SW_DNS_NAME_TEXT];

    if (!sw_log_enabled(level, "dns") ||
        (level == SW_LOG_WARN && a->warned_ns && now - a->warned_ns < SW_NS_PER_S))
        return;
    if (level == SW_LOG_WARN)
        a->warned_ns = now;
    sw_log(level, "dns", "refused type %u of '%.200s' to %s: %s (%s)", r->question.type,
           sw_dns_name_text(&r->question.name, name), sw_addr_text(from, addr), r->refused,
           sw_dns_rcode_text(r->rcode));
}

static bool is_secondary(const struct sw_dns_authority *a, const struct sw_ip *ip)
{
    for (size_t i = 0; i < a->o.n_secondaries; i++)
        if (sw_ip_eq(&a->o.secondaries[i].ip, ip))
            return true;
    return false;
}

void dns_handle(struct sw_dns_authority *a, struct sw_slice msg, const struct sw_addr *from,
                bool tcp, struct sw_dns_reply *ret)
{
    struct sw_dns_request req = {.msg = msg,
                                 .tcp = tcp,
                                 .may_transfer = !a->o.n_keys && is_secondary(a, &from->ip),
                                 .keys = a->o.keys,
                                 .n_keys = a->o.n_keys,
                                 .key_transfers = a->o.n_keys > 0,
                                 .now_s = sw_wall_ns() / SW_NS_PER_S};

    sw_dns_respond(a->zone, &req, a->scratch, ret);
    if (ret->verdict == SW_DNS_DROP)
        dns_count(a, SW_METRIC_DNS_DROPPED, "malformed");
    else if (ret->verdict == SW_DNS_REPLY)
        count_answer(a, tcp, ret->rcode);
    if (ret->verdict == SW_DNS_REPLY && ret->refused)
        log_refusal(a, from, ret);
}

/* ---- UDP ---- */

static void answer_datagram(struct dns_listener *l, struct sw_slice msg, const struct sw_addr *from)
{
    struct sw_dns_authority *a = l->authority;
    struct sw_dns_reply r;
    size_t n;

    /* Port 0 and our own port are never the source of a question worth an answer (loops). */
    if (!from->port || (from->port == l->at.port && sw_ip_eq(&from->ip, &l->at.ip)))
        return;
    dns_handle(a, msg, from, false, &r);
    if (r.verdict != SW_DNS_REPLY)
        return;
    n = r.n;
    switch (sw_dns_rrl_check(a->rrl, &from->ip, sw_loop_now(a->loop))) {
    case SW_DNS_RRL_PASS:
        break;
    case SW_DNS_RRL_SLIP:
        dns_count(a, SW_METRIC_DNS_DROPPED, "slip");
        n = sw_dns_slip(msg, a->scratch, SW_DNS_UDP_PLAIN);
        break;
    case SW_DNS_RRL_DROP:
        dns_count(a, SW_METRIC_DNS_DROPPED, "rate");
        return;
    }
    if (n)
        (void)sw_dgram_send(l->udp, a->scratch, n, from);
}

static void on_udp(struct sw_watch *w, unsigned events)
{
    struct dns_listener *l = SW_CONTAINER_OF(w, struct dns_listener, udp_watch);
    uint8_t buf[4096];

    for (unsigned i = 0; i < BATCH; i++) {
        struct sw_addr from;
        ssize_t n = sw_dgram_recv(l->udp, buf, sizeof(buf), &from);

        if (n == SW_EAGAIN)
            return;
        if (n >= 0)
            answer_datagram(l, sw_slice(buf, (size_t)n), &from);
    }
}

/* ---- life ---- */

/* Both protocols on one port; with port 0 the one the kernel gives to UDP may be taken for TCP. */
static int bind_both(struct dns_listener *l, const struct sw_addr *at, struct sw_err *err)
{
    const struct sw_sock_opts so = SW_SOCK_OPTS_INIT;
    int rc = SW_OK;

    for (unsigned i = 0; i < PORT_TRIES; i++) {
        struct sw_addr tcp = *at;

        rc = sw_dgram_bind(at, NULL, &l->udp, err);
        if (rc != SW_OK)
            return rc;
        tcp.port = sw_sock_local(l->udp).port;
        rc = sw_sock_listen(&tcp, &so, &l->tcp, err);
        if (rc == SW_OK) {
            l->at = tcp;
            return SW_OK;
        }
        sw_sock_close(l->udp);
        l->udp = -1;
        if (at->port)
            break;
    }
    return rc;
}

static int start_listener(struct sw_dns_authority *a, const struct sw_addr *at, struct sw_err *err)
{
    struct dns_listener *l = &a->listeners[a->n_listeners++];
    int rc;

    l->authority = a;
    l->udp = -1;
    l->tcp = -1;
    rc = bind_both(l, at, err);
    if (rc == SW_OK)
        rc = sw_watch_start_listener(a->loop, &l->udp_watch, l->udp, on_udp, err);
    if (rc == SW_OK)
        rc = sw_accept_open(&a->accept, &l->acceptor, SW_TAKE_FD(l->tcp), dns_on_accept, err);
    return rc;
}

struct sw_dns_authority *
sw_dns_authority_new(struct sw_loop *l, const struct sw_dns_authority_opts *o, struct sw_err *err)
{
    struct sw_dns_authority *a = SW_NEW(struct sw_dns_authority);
    int rc = SW_OK;

    a->loop = l;
    a->o = *o;
    a->o.max_connections = o->max_connections ? o->max_connections : MAX_CONNECTIONS;
    a->o.max_per_ip = o->max_per_ip ? o->max_per_ip : MAX_PER_IP;
    a->o.idle_ns = o->idle_ns ? o->idle_ns : IDLE_S * SW_NS_PER_S;
    a->rrl = sw_dns_rrl_new(o->rate);
    sw_dns_tcp_set_init(&a->conns, l, &dns_tcp_ops);
    a->conns.idle_ns = a->o.idle_ns;
    sw_accept_init(&a->accept, l, "dns");
    for (size_t i = 0; i < o->n_secondaries; i++)
        a->notifies[i] = (struct dns_notify){.authority = a, .to = o->secondaries[i], .fd = -1};
    for (size_t i = 0; i < o->n_listen && rc == SW_OK; i++)
        rc = start_listener(a, &o->listen[i], err);
    if (rc != SW_OK) {
        sw_dns_authority_free(a);
        return NULL;
    }
    return a;
}

void sw_dns_authority_set_zone(struct sw_dns_authority *a, struct sw_dns_zone *z)
{
    struct sw_dns_zone *old = a->zone;

    a->zone = sw_dns_zone_ref(z);
    (void)sw_dns_zone_unref(old);
    if (a->o.metrics) {
        sw_metric_set(sw_metric_get1(a->o.metrics, SW_METRIC_DNS_SERIAL, NULL),
                      sw_dns_zone_serial(z));
        sw_metric_set(sw_metric_get1(a->o.metrics, SW_METRIC_DNS_SETS, NULL),
                      (int64_t)sw_dns_zone_count(z) + 1);
    }
    dns_notify_all(a);
}

struct sw_addr sw_dns_authority_addr(const struct sw_dns_authority *a)
{
    return a->listeners[0].at;
}

void sw_dns_authority_free(struct sw_dns_authority *a)
{
    if (!a)
        return;
    dns_close_connections(a);
    for (size_t i = 0; i < a->o.n_secondaries; i++)
        dns_notify_stop(&a->notifies[i]);
    for (size_t i = 0; i < a->n_listeners; i++) {
        sw_watch_stop(&a->listeners[i].udp_watch);
        sw_sock_close(a->listeners[i].udp);
        sw_sock_close(a->listeners[i].tcp);
    }
    sw_accept_done(&a->accept);
    sw_dns_rrl_free(a->rrl);
    (void)sw_dns_zone_unref(a->zone);
    sw_free(a);
}
