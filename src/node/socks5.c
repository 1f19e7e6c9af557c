/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 15080: SOCKS5 (RFC 1928), method "no authentication", command CONNECT. The reply is sent once the
 * way is really open. Names are resolved by the system.
 */
#include "node/socks5.h"

#include "base/mem.h"
#include "base/time.h"
#include "io/resolver.h"
#include "node/outbound.h"

enum {
    REQUEST_MAX = 4 + 1 + 255 + 2, /* the longest request; a greeting is shorter */
    DEADLINE_S = 10,
    DRAIN_READS = 64,
    REPLY_FAILED = 1,
    REPLY_HOST_UNREACHABLE = 4,
    REPLY_COMMAND = 7,
    REPLY_ADDRESS_TYPE = 8,
};

struct socks5 {
    struct sw_live live;
    struct sw_watch watch;
    struct sw_timer deadline;
    struct sw_resolve *resolve; /* ours until it answers */
    int fd;
    uint16_t port;
    bool method_chosen;
    size_t n;
    uint8_t in[REQUEST_MAX];
    struct sw_defer reap;
};

static void on_reap(struct sw_defer *d)
{
    sw_free(SW_CONTAINER_OF(d, struct socks5, reap));
}

static void retire(struct socks5 *s)
{
    struct sw_worker *w = s->live.pod->worker;

    sw_watch_stop(&s->watch);
    sw_timer_stop(w->loop, &s->deadline);
    if (s->resolve)
        s->resolve->arg = NULL;
    sw_sock_close(s->fd);
    s->fd = -1;
    sw_live_remove(w, &s->live);
    sw_loop_defer(w->loop, &s->reap, on_reap);
}

static void refuse(struct socks5 *s, uint8_t code, const char *why)
{
    const uint8_t reply[10] = {5, code, 0, 1};

    /* Unread input would turn the close into a reset that overtakes the reply. */
    for (int i = 0; i < DRAIN_READS && sw_sock_read(s->fd, s->in, sizeof(s->in)) > 0; i++)
        ;
    if (code)
        (void)!sw_sock_write(s->fd, reply, sizeof(reply));
    sw_ledger_refused(&s->live.pod->worker->book, SW_OUTBOUND, &s->live.src, NULL, "socks5", why);
    retire(s);
}

static void on_drained(struct sw_live *l, const char *why)
{
    refuse(SW_CONTAINER_OF(l, struct socks5, live), REPLY_FAILED, why);
}

static const struct sw_live_ops live_ops = {.end = on_drained};

static void on_deadline(struct sw_timer *t)
{
    refuse(SW_CONTAINER_OF(t, struct socks5, deadline), REPLY_FAILED, "SOCKS5 request timed out");
}

/* Hands the connection to the outbound path. */
static void start(struct socks5 *s, const struct sw_ip *ip)
{
    struct sw_addr dst = {.ip = *ip, .port = s->port};
    struct sw_addr src = s->live.src;
    struct sw_wpod *p = s->live.pod;
    int fd = SW_TAKE_FD(s->fd);

    sw_watch_stop(&s->watch);
    retire(s);
    sw_outbound_start(p, fd, &src, &dst, true);
}

static void on_resolved(struct sw_resolve *a)
{
    struct socks5 *s = a->arg;

    if (s) {
        const struct sw_ip *ip = &a->ips[0];

        s->resolve = NULL;
        for (size_t i = 0; i < a->n; i++) {
            if (a->ips[i].family == s->live.src.ip.family) {
                ip = &a->ips[i];
                break;
            }
        }
        if (a->rc == SW_OK)
            start(s, ip);
        else
            refuse(s, REPLY_HOST_UNREACHABLE, "SOCKS5: cannot resolve the name");
    }
    sw_free(a);
}

static void resolve(struct socks5 *s, const uint8_t *name, size_t n)
{
    struct sw_resolve *a;

    if (n == 0 || memchr(name, 0, n)) {
        refuse(s, REPLY_ADDRESS_TYPE, "SOCKS5: bad name");
        return;
    }
    a = SW_NEW(struct sw_resolve);
    memcpy(a->name, name, n); /* one length byte: at most 255 */
    a->loop = s->live.pod->worker->loop;
    a->cb = on_resolved;
    a->arg = s;
    s->resolve = a;
    sw_resolve_start(a);
}

/*
 * Bytes the message being read has at least, as far as it is known by now. Never more are read:
 * what follows the request is the connection's own first data.
 */
static size_t wanted(const struct socks5 *s)
{
    if (!s->method_chosen)
        return s->n < 2 ? 2 : 2 + (size_t)s->in[1];
    if (s->n < 5)
        return 5;
    return 4 + (s->in[3] == 1 ? 4 : s->in[3] == 4 ? 16 : 1 + (size_t)s->in[4]) + 2;
}

/* Greeting: version, count, methods. */
static void choose_method(struct socks5 *s)
{
    const uint8_t choice[2] = {5, 0};
    const uint8_t none[2] = {5, 0xff};

    if (!memchr(s->in + 2, 0, s->n - 2)) {
        (void)!sw_sock_write(s->fd, none, sizeof(none));
        refuse(s, 0, "SOCKS5: client offers no usable method");
        return;
    }
    (void)!sw_sock_write(s->fd, choice, sizeof(choice));
    s->method_chosen = true;
    s->n = 0;
}

/* What can be refused before the whole message is there. */
static bool acceptable(struct socks5 *s)
{
    if (s->in[0] != 5) {
        refuse(s, s->method_chosen ? REPLY_COMMAND : 0, "SOCKS5: wrong version");
        return false;
    }
    if (!s->method_chosen || s->n < 4)
        return true;
    if (s->in[1] != 1 || s->in[2] != 0) {
        refuse(s, REPLY_COMMAND, "SOCKS5: only CONNECT is supported");
        return false;
    }
    if (s->in[3] != 1 && s->in[3] != 3 && s->in[3] != 4) {
        refuse(s, REPLY_COMMAND, "SOCKS5: unknown address type");
        return false;
    }
    return true;
}

/* Request: version, command, 0, address type, address, port; complete. */
static void request(struct socks5 *s)
{
    size_t addr = s->n - 6;
    struct sw_ip ip;

    s->port = (uint16_t)(s->in[4 + addr] << 8 | s->in[5 + addr]);
    if (s->in[3] == 3)
        resolve(s, s->in + 5, addr - 1);
    else if (sw_ip_from_bytes(s->in + 4, addr, &ip, NULL) == SW_OK)
        start(s, &ip);
}

static void on_event(struct sw_watch *w, unsigned events)
{
    struct socks5 *s = SW_CONTAINER_OF(w, struct socks5, watch);

    while (s->fd >= 0 && !s->resolve) {
        ssize_t n = sw_sock_read(s->fd, s->in + s->n, wanted(s) - s->n);

        if (n == SW_EAGAIN)
            return;
        if (n <= 0) {
            refuse(s, 0, "SOCKS5: client left");
            return;
        }
        s->n += (size_t)n;
        if (!acceptable(s) || s->n < wanted(s))
            continue;
        if (s->method_chosen)
            request(s);
        else
            choose_method(s);
    }
}

void sw_socks5_accept(struct sw_wpod *p, int fd, const struct sw_addr *peer)
{
    struct sw_worker *w = p->worker;
    struct socks5 *s = SW_NEW(struct socks5);
    struct sw_err err = {0};

    s->fd = fd;
    s->live =
        (struct sw_live){.pod = p, .src = *peer, .protocol = SW_LIVE_SOCKS5, .ops = &live_ops};
    sw_live_add(w, &s->live);
    sw_timer_start(w->loop, &s->deadline, DEADLINE_S * SW_NS_PER_S, on_deadline);
    if (sw_watch_start(w->loop, &s->watch, fd, on_event, &err) != SW_OK)
        refuse(s, REPLY_FAILED, err.msg);
}
