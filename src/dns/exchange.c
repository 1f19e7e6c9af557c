/* SPDX-License-Identifier: Apache-2.0 */
#include "dns/exchange.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/rand.h"
#include "io/dgram.h"

enum {
    STRAY_MAX = 64, /* datagrams that are no answer to ours, before it gives up */
    UDP_MAX = 65535,
};

struct sw_dns_exchange {
    struct sw_loop *loop;
    struct sw_dns_exchange_opts o;
    sw_dns_exchange_cb cb;
    void *arg;
    struct sw_buf msg; /* with room for the length of TCP in front */
    uint16_t id;       /* on the wire */
    uint8_t given[2];  /* id of the message as given */
    bool tcp;
    bool connected;
    int rc;
    int fd;
    unsigned strays;
    size_t sent; /* of msg, over TCP */
    struct sw_buf in;
    struct sw_watch watch;
    struct sw_timer deadline;
    struct sw_defer end;
    struct sw_defer free;
};

/* ---- ending ---- */

static void on_free(struct sw_defer *d)
{
    sw_free(SW_CONTAINER_OF(d, struct sw_dns_exchange, free));
}

static void close_all(struct sw_dns_exchange *x)
{
    sw_timer_stop(x->loop, &x->deadline);
    sw_defer_cancel(&x->end);
    sw_watch_stop(&x->watch);
    sw_sock_close(x->fd);
    x->fd = -1;
    sw_buf_done(&x->msg);
    sw_buf_done(&x->in);
    sw_loop_defer(x->loop, &x->free, on_free);
}

void sw_dns_exchange_cancel(struct sw_dns_exchange *x)
{
    if (x)
        close_all(x);
}

static void finish(struct sw_dns_exchange *x, int rc, struct sw_slice answer)
{
    sw_dns_exchange_cb cb = x->cb;
    void *arg = x->arg;

    cb(arg, rc, answer);
    close_all(x);
}

static void fail(struct sw_dns_exchange *x, int rc)
{
    finish(x, rc, sw_slice("", 0));
}

static void on_end(struct sw_defer *d)
{
    struct sw_dns_exchange *x = SW_CONTAINER_OF(d, struct sw_dns_exchange, end);

    fail(x, x->rc);
}

/* From inside sw_dns_exchange_start: the callback must not come yet. */
static void fail_later(struct sw_dns_exchange *x, int rc)
{
    x->rc = rc;
    sw_loop_defer(x->loop, &x->end, on_end);
}

static void on_deadline(struct sw_timer *t)
{
    fail(SW_CONTAINER_OF(t, struct sw_dns_exchange, deadline), SW_ETIME);
}

/* ---- answers ---- */

bool sw_dns_answers(struct sw_slice question, struct sw_slice msg)
{
    struct sw_dns_reader a = {.p = (const uint8_t *)question.p, .n = question.n};
    struct sw_dns_reader b = {.p = (const uint8_t *)msg.p, .n = msg.n};
    struct sw_dns_header asked;
    struct sw_dns_header got;
    struct sw_dns_question want;
    struct sw_dns_question has;

    if (sw_dns_read_header(&a, &asked) != SW_OK || sw_dns_read_header(&b, &got) != SW_OK)
        return false;
    if (!(got.flags & SW_DNS_QR) || sw_dns_opcode_of(&asked) != sw_dns_opcode_of(&got))
        return false;
    if (asked.qd != 1 || sw_dns_opcode_of(&asked) != SW_DNS_QUERY)
        return true;
    if (got.qd == 0)
        return sw_dns_rcode_of(&got) != SW_DNS_NOERROR && sw_dns_rcode_of(&got) != SW_DNS_NXDOMAIN;
    return got.qd == 1 && sw_dns_read_question(&a, &want) == SW_OK &&
           sw_dns_read_question(&b, &has) == SW_OK && want.type == has.type &&
           want.class == has.class && sw_dns_name_eq(&want.name, &has.name);
}

static void to_tcp(struct sw_dns_exchange *x);

/* True when the exchange is over or continues by TCP: nothing more to read here. */
static bool on_message(struct sw_dns_exchange *x, uint8_t *p, size_t n)
{
    struct sw_slice question = sw_slice(sw_buf_data(&x->msg) + 2, sw_buf_len(&x->msg) - 2);
    bool ours = n >= SW_DNS_HEADER && ((unsigned)p[0] << 8 | p[1]) == x->id &&
                sw_dns_answers(question, sw_slice(p, n));

    if (ours && !x->tcp && (p[2] & (SW_DNS_TC >> 8))) {
        to_tcp(x);
        return true;
    }
    if (ours) {
        memcpy(p, x->given, sizeof(x->given));
        finish(x, SW_OK, sw_slice(p, n));
        return true;
    }
    if (!x->tcp && ++x->strays < STRAY_MAX)
        return false;
    fail(x, SW_EPROTO);
    return true;
}

static void on_udp(struct sw_watch *w, unsigned events)
{
    struct sw_dns_exchange *x = SW_CONTAINER_OF(w, struct sw_dns_exchange, watch);
    uint8_t buf[UDP_MAX];

    for (;;) {
        ssize_t n = sw_dgram_recv(x->fd, buf, sizeof(buf), NULL);

        if (n == SW_EAGAIN)
            return;
        if (n < 0) {
            fail(x, SW_ECLOSED);
            return;
        }
        if (on_message(x, buf, (size_t)n))
            return;
    }
}

/* ---- TCP ---- */

/* False: it is over. */
static bool tcp_write(struct sw_dns_exchange *x)
{
    while (x->sent < sw_buf_len(&x->msg)) {
        ssize_t n =
            sw_sock_write(x->fd, sw_buf_data(&x->msg) + x->sent, sw_buf_len(&x->msg) - x->sent);

        if (n == SW_EAGAIN)
            return true;
        if (n < 0) {
            fail(x, SW_ECLOSED);
            return false;
        }
        x->sent += (size_t)n;
    }
    return true;
}

static void tcp_read(struct sw_dns_exchange *x)
{
    for (;;) {
        struct sw_slice have = sw_buf_slice(&x->in);
        size_t want = have.n < 2 ? 2 : 2u + ((size_t)(uint8_t)have.p[0] << 8 | (uint8_t)have.p[1]);
        char *to;
        ssize_t n;

        if (have.n >= 2 && have.n == want) {
            (void)on_message(x, (uint8_t *)(uintptr_t)have.p + 2, have.n - 2);
            return;
        }
        to = sw_buf_reserve(&x->in, want - have.n);
        n = to ? sw_sock_read(x->fd, to, want - have.n) : SW_ELIMIT;
        if (n == SW_EAGAIN)
            return;
        if (n < 0) {
            fail(x, SW_ECLOSED);
            return;
        }
        sw_buf_commit(&x->in, (size_t)n);
    }
}

static void on_tcp(struct sw_watch *w, unsigned events)
{
    struct sw_dns_exchange *x = SW_CONTAINER_OF(w, struct sw_dns_exchange, watch);

    if (!x->connected) {
        int rc = sw_sock_connect_result(x->fd, NULL);

        if (rc == SW_EAGAIN)
            return;
        if (rc != SW_OK) {
            fail(x, SW_ECLOSED);
            return;
        }
        x->connected = true;
    }
    if (tcp_write(x))
        tcp_read(x);
}

/* Within the time that is left. */
static void to_tcp(struct sw_dns_exchange *x)
{
    int fd;

    sw_watch_stop(&x->watch);
    sw_sock_close(x->fd);
    x->fd = -1;
    x->tcp = true;
    if (sw_sock_connect(&x->o.server, NULL, &x->o.sock, &fd, NULL) != SW_OK) {
        fail_later(x, SW_ECLOSED);
        return;
    }
    x->fd = fd;
    if (sw_watch_start(x->loop, &x->watch, fd, on_tcp, NULL) != SW_OK)
        fail_later(x, SW_ESYS);
}

/* ---- asking ---- */

static void to_udp(struct sw_dns_exchange *x)
{
    int rc = sw_dgram_connect(&x->o.server, &x->o.sock, &x->fd, NULL);

    if (rc != SW_OK) {
        x->fd = -1;
        fail_later(x, SW_ECLOSED);
        return;
    }
    rc = sw_watch_start(x->loop, &x->watch, x->fd, on_udp, NULL);
    if (rc == SW_OK)
        rc = sw_dgram_send(x->fd, sw_buf_data(&x->msg) + 2, sw_buf_len(&x->msg) - 2, NULL);
    if (rc != SW_OK && rc != SW_EAGAIN) /* a datagram that was not taken is a lost one */
        fail_later(x, rc);
}

struct sw_dns_exchange *sw_dns_exchange_start(struct sw_loop *l,
                                              const struct sw_dns_exchange_opts *o,
                                              sw_dns_exchange_cb cb, void *arg)
{
    struct sw_dns_exchange *x = SW_NEW(struct sw_dns_exchange);
    const uint8_t len[2] = {(uint8_t)(o->msg.n >> 8), (uint8_t)o->msg.n};
    uint8_t id[2];

    x->loop = l;
    x->o = *o;
    x->cb = cb;
    x->arg = arg;
    x->fd = -1;
    sw_rand_bytes(id, sizeof(id));
    x->id = (uint16_t)((unsigned)id[0] << 8 | id[1]);
    sw_buf_init(&x->msg, 2 + SW_DNS_MSG_MAX);
    sw_buf_init(&x->in, 2 + SW_DNS_MSG_MAX);
    sw_timer_start(l, &x->deadline, o->timeout_ns, on_deadline);
    if (o->msg.n >= SW_DNS_HEADER)
        memcpy(x->given, o->msg.p, sizeof(x->given));
    if (o->msg.n < SW_DNS_HEADER || sw_buf_append(&x->msg, len, 2) != SW_OK ||
        sw_buf_append(&x->msg, id, 2) != SW_OK ||
        sw_buf_append(&x->msg, o->msg.p + 2, o->msg.n - 2) != SW_OK)
        fail_later(x, SW_EINVAL);
    else if (o->tcp)
        to_tcp(x);
    else
        to_udp(x);
    return x;
}
