/* SPDX-License-Identifier: Apache-2.0 */
/* TCP connections of the authoritative server: pipelined questions, transfers, limits. */
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "dns/authority_int.h"
#include "io/sock.h"

enum {
    XFER_MSG = 16 * 1024, /* a message of a transfer: names compress within the first 16 KiB */
};

struct conn {
    struct sw_dns_tcp tcp;
    struct sw_dns_authority *authority;
    struct sw_addr peer;
    struct sw_dns_zone *zone; /* counted; of the transfer under way, else NULL */
    struct sw_dns_xfer xfer;
    size_t sent;
};

static struct conn *conn_of(struct sw_dns_tcp *t)
{
    return SW_CONTAINER_OF(t, struct conn, tcp);
}

static void start_transfer(struct conn *c, const struct sw_dns_reply *r)
{
    struct sw_dns_authority *a = c->authority;

    c->zone = sw_dns_zone_ref(a->zone);
    c->sent = 0;
    sw_dns_xfer_start(&c->xfer, c->zone, r, sw_wall_ns() / SW_NS_PER_S);
}

static bool transfer_more(struct sw_dns_tcp *t)
{
    struct conn *c = conn_of(t);
    struct sw_dns_authority *a = c->authority;
    char text[SW_ADDR_TEXT];

    while (c->zone && !sw_dns_tcp_full(t)) {
        size_t n = sw_dns_xfer_next(&c->xfer, a->scratch, XFER_MSG);

        if (n) {
            sw_dns_tcp_send(t, a->scratch, n);
            c->sent++;
            continue;
        }
        dns_count(a, SW_METRIC_DNS_TRANSFERS, "sent");
        sw_log_info("dns", "zone with serial %u transferred to %s in %zu messages",
                    sw_dns_zone_serial(c->zone), sw_addr_text(&c->peer, text), c->sent);
        c->zone = sw_dns_zone_unref(c->zone);
    }
    return c->zone != NULL;
}

static bool on_message(struct sw_dns_tcp *t, struct sw_slice msg)
{
    struct conn *c = conn_of(t);
    struct sw_dns_reply r;

    dns_handle(c->authority, msg, &c->peer, true, &r);
    if (r.verdict == SW_DNS_REPLY)
        sw_dns_tcp_send(t, c->authority->scratch, r.n);
    else if (r.verdict == SW_DNS_TRANSFER)
        start_transfer(c, &r);
    else
        return false;
    return true;
}

static void on_close(struct sw_dns_tcp *t, bool idle)
{
    struct conn *c = conn_of(t);

    if (c->zone && idle)
        dns_count(c->authority, SW_METRIC_DNS_TRANSFERS, "stalled");
    c->zone = sw_dns_zone_unref(c->zone);
}

static void conn_free(struct sw_dns_tcp *t)
{
    sw_free(conn_of(t));
}

const struct sw_dns_tcp_ops dns_tcp_ops = {
    .on_message = on_message, .fill = transfer_more, .on_close = on_close, .free = conn_free};

void dns_close_connections(struct sw_dns_authority *a)
{
    while (a->conns.n)
        sw_dns_tcp_evict(&a->conns);
}

/* ---- accepting ---- */

static size_t connections_of(struct sw_dns_authority *a, const struct sw_ip *ip)
{
    size_t n = 0;

    SW_LIST_EACH (struct sw_dns_tcp, t, &a->conns.list, link)
        n += sw_ip_eq(&conn_of(t)->peer.ip, ip);
    return n;
}

static void take_connection(struct sw_dns_authority *a, int fd, const struct sw_addr *peer)
{
    struct conn *c;

    if (connections_of(a, &peer->ip) >= a->o.max_per_ip) {
        dns_count(a, SW_METRIC_DNS_DROPPED, "connections");
        sw_sock_close(fd);
        return;
    }
    if (a->conns.n >= a->o.max_connections) {
        dns_count(a, SW_METRIC_DNS_DROPPED, "connections");
        sw_dns_tcp_evict(&a->conns);
    }
    c = SW_NEW(struct conn);
    c->authority = a;
    c->peer = *peer;
    sw_dns_tcp_open(&c->tcp, &a->conns, fd);
}

void dns_on_accept(struct sw_acceptor *a, int fd, const struct sw_addr *peer)
{
    take_connection(SW_CONTAINER_OF(a->group, struct sw_dns_authority, accept), fd, peer);
}
