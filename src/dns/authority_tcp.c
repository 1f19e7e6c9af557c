/* SPDX-License-Identifier: Apache-2.0 */
/* TCP connections of the authoritative server: pipelined questions, transfers, limits. */
#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "dns/authority_int.h"
#include "io/sock.h"

enum {
    OUT_HIGH = 64 * 1024, /* no more work for a client that does not read */
    OUT_MAX = OUT_HIGH + 2 + SW_DNS_MSG_MAX,
    XFER_MSG = 16 * 1024, /* a message of a transfer: names compress within the first 16 KiB */
    READ_ONCE = 4096,
    STEPS = 256, /* questions and messages per wake-up: others share the loop */
};

struct conn {
    struct sw_list link; /* idle for longest first */
    struct sw_dns_authority *authority;
    int fd;
    struct sw_addr peer;
    struct sw_watch watch;
    struct sw_timer idle;
    struct sw_buf in;
    struct sw_buf out;
    struct sw_dns_zone *zone; /* counted; of the transfer under way, else NULL */
    struct sw_dns_xfer xfer;
    size_t sent;
    bool eof; /* nothing more to read */
    struct sw_defer again;
    struct sw_defer free;
};

static void free_conn(struct sw_defer *d)
{
    sw_free(SW_CONTAINER_OF(d, struct conn, free));
}

static void close_conn(struct conn *c)
{
    struct sw_dns_authority *a = c->authority;

    if (c->fd < 0)
        return;
    sw_list_unlink(&c->link);
    a->n_conns--;
    sw_timer_stop(a->loop, &c->idle);
    sw_watch_stop(&c->watch);
    sw_sock_close(c->fd);
    c->fd = -1;
    sw_buf_done(&c->in);
    sw_buf_done(&c->out);
    c->zone = sw_dns_zone_unref(c->zone);
    sw_defer_cancel(&c->again);
    sw_loop_defer(a->loop, &c->free, free_conn);
}

void dns_close_connections(struct sw_dns_authority *a)
{
    SW_LIST_FOREACH (it, &a->conns)
        close_conn(SW_CONTAINER_OF(it, struct conn, link));
}

static void on_idle(struct sw_timer *t)
{
    struct conn *c = SW_CONTAINER_OF(t, struct conn, idle);

    if (c->zone)
        dns_count(c->authority, SW_METRIC_DNS_TRANSFERS, "stalled");
    close_conn(c);
}

/* Progress: whole messages in, bytes out. Single bytes of a question are none. */
static void progress(struct conn *c)
{
    struct sw_dns_authority *a = c->authority;

    sw_timer_start(a->loop, &c->idle, a->o.idle_ns, on_idle);
    sw_list_unlink(&c->link);
    sw_list_push_back(&a->conns, &c->link);
}

/* ---- writing ---- */

/* Room was checked: the buffer holds a whole message above its high mark. */
static void queue_message(struct conn *c, const uint8_t *p, size_t n)
{
    uint8_t len[2] = {(uint8_t)(n >> 8), (uint8_t)n};

    (void)!sw_buf_append(&c->out, len, sizeof(len));
    (void)!sw_buf_append(&c->out, p, n);
}

static void start_transfer(struct conn *c, const struct sw_dns_reply *r)
{
    struct sw_dns_authority *a = c->authority;

    c->zone = sw_dns_zone_ref(a->zone);
    c->sent = 0;
    sw_dns_xfer_start(&c->xfer, c->zone, r, sw_wall_ns() / SW_NS_PER_S);
}

static void transfer_more(struct conn *c)
{
    struct sw_dns_authority *a = c->authority;
    char text[SW_ADDR_TEXT];

    while (c->zone && sw_buf_len(&c->out) < OUT_HIGH) {
        size_t n = sw_dns_xfer_next(&c->xfer, a->scratch, XFER_MSG);

        if (n) {
            queue_message(c, a->scratch, n);
            c->sent++;
            continue;
        }
        dns_count(a, SW_METRIC_DNS_TRANSFERS, "sent");
        sw_log_info("dns", "zone with serial %u transferred to %s in %zu messages",
                    sw_dns_zone_serial(c->zone), sw_addr_text(&c->peer, text), c->sent);
        c->zone = sw_dns_zone_unref(c->zone);
    }
}

/* False: the connection is gone. */
static bool write_out(struct conn *c)
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

/* ---- reading ---- */

/* Takes one whole question from the input. False: there is none. */
static bool take_question(struct conn *c)
{
    struct sw_slice in = sw_buf_slice(&c->in);
    struct sw_dns_reply r;
    size_t n;

    if (in.n < 2)
        return false;
    n = (size_t)(uint8_t)in.p[0] << 8 | (uint8_t)in.p[1];
    if (in.n - 2 < n)
        return false;
    dns_handle(c->authority, sw_slice(in.p + 2, n), &c->peer, true, &r);
    if (r.verdict == SW_DNS_REPLY)
        queue_message(c, c->authority->scratch, r.n);
    else if (r.verdict == SW_DNS_TRANSFER)
        start_transfer(c, &r);
    else
        c->eof = true; /* not a DNS client */
    sw_buf_consume(&c->in, n + 2);
    progress(c);
    return true;
}

/* False: nothing more for now, or the connection is gone. */
static bool read_in(struct conn *c)
{
    char *to;
    ssize_t n;

    to = sw_buf_reserve(&c->in, READ_ONCE);
    n = to ? sw_sock_read(c->fd, to, READ_ONCE) : SW_ELIMIT;
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

static void step(struct conn *c);

static void on_again(struct sw_defer *d)
{
    step(SW_CONTAINER_OF(d, struct conn, again));
}

/* Answers, one question after the other, until something has to be waited for. */
static void step(struct conn *c)
{
    for (unsigned i = 0; i < STEPS; i++) {
        transfer_more(c);
        if (!write_out(c))
            return;
        if (c->zone || sw_buf_len(&c->out) >= OUT_HIGH) {
            if (sw_buf_len(&c->out))
                return; /* goes on when the peer reads */
            continue;
        }
        if (take_question(c))
            continue;
        if (c->eof) {
            if (!sw_buf_len(&c->out))
                close_conn(c);
            return;
        }
        if (!read_in(c))
            return; /* gone, or waiting for the peer */
    }
    sw_loop_defer(c->authority->loop, &c->again, on_again);
}

static void on_event(struct sw_watch *w, unsigned events)
{
    (void)events;
    step(SW_CONTAINER_OF(w, struct conn, watch));
}

/* ---- accepting ---- */

static size_t connections_of(struct sw_dns_authority *a, const struct sw_ip *ip)
{
    size_t n = 0;

    SW_LIST_FOREACH (it, &a->conns)
        n += sw_ip_eq(&SW_CONTAINER_OF(it, struct conn, link)->peer.ip, ip);
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
    if (a->n_conns >= a->o.max_connections) {
        dns_count(a, SW_METRIC_DNS_DROPPED, "connections");
        close_conn(SW_CONTAINER_OF(a->conns.next, struct conn, link));
    }
    c = SW_NEW(struct conn);
    c->authority = a;
    c->fd = fd;
    c->peer = *peer;
    sw_buf_init(&c->in, 2 + SW_DNS_MSG_MAX + READ_ONCE);
    sw_buf_init(&c->out, OUT_MAX);
    sw_list_push_back(&a->conns, &c->link);
    a->n_conns++;
    sw_timer_start(a->loop, &c->idle, a->o.idle_ns, on_idle);
    if (sw_watch_start(a->loop, &c->watch, fd, on_event, NULL) != SW_OK)
        close_conn(c);
    else
        step(c);
}

void dns_on_accept(struct sw_acceptor *a, int fd, const struct sw_addr *peer)
{
    take_connection(SW_CONTAINER_OF(a->group, struct sw_dns_authority, accept), fd, peer);
}
