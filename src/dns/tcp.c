/* SPDX-License-Identifier: Apache-2.0 */
#include "dns/tcp.h"

#include "dns/wire.h"
#include "io/sock.h"

enum {
    OUT_HIGH = 64 * 1024, /* no more work for a client that does not read */
    READ_ONCE = 4096,
    STEPS = 256, /* messages per wake-up: others share the loop */
};

void sw_dns_tcp_set_init(struct sw_dns_tcp_set *s, struct sw_loop *l,
                         const struct sw_dns_tcp_ops *ops)
{
    *s = (struct sw_dns_tcp_set){.loop = l, .ops = ops};
    sw_list_init(&s->list);
}

static void on_free(struct sw_defer *d)
{
    struct sw_dns_tcp *c = SW_CONTAINER_OF(d, struct sw_dns_tcp, free);

    c->set->ops->free(c);
}

static void close_conn(struct sw_dns_tcp *c, bool idle)
{
    struct sw_dns_tcp_set *s = c->set;

    if (c->fd < 0)
        return;
    sw_list_unlink(&c->link);
    s->n--;
    sw_timer_stop(s->loop, &c->idle);
    sw_watch_stop(&c->watch);
    sw_sock_close(c->fd);
    c->fd = -1;
    sw_buf_done(&c->in);
    sw_buf_done(&c->out);
    sw_defer_cancel(&c->again);
    s->ops->on_close(c, idle);
    sw_loop_defer(s->loop, &c->free, on_free);
}

void sw_dns_tcp_close(struct sw_dns_tcp *c)
{
    close_conn(c, false);
}

void sw_dns_tcp_evict(struct sw_dns_tcp_set *s)
{
    if (!sw_list_empty(&s->list))
        close_conn(SW_CONTAINER_OF(s->list.next, struct sw_dns_tcp, link), false);
}

/* Answers to come have a deadline of their own. */
static void on_idle(struct sw_timer *t)
{
    struct sw_dns_tcp *c = SW_CONTAINER_OF(t, struct sw_dns_tcp, idle);

    if (c->pending)
        sw_timer_start(c->set->loop, t, c->set->idle_ns, on_idle);
    else
        close_conn(c, true);
}

/* Whole messages in, bytes out. Single bytes of a message are no progress. */
static void progress(struct sw_dns_tcp *c)
{
    struct sw_dns_tcp_set *s = c->set;

    sw_timer_start(s->loop, &c->idle, s->idle_ns, on_idle);
    sw_list_unlink(&c->link);
    sw_list_push_back(&s->list, &c->link);
}

/* False: the connection is closed. */
static bool write_out(struct sw_dns_tcp *c)
{
    while (sw_buf_len(&c->out)) {
        ssize_t n = sw_sock_write(c->fd, sw_buf_data(&c->out), sw_buf_len(&c->out));

        if (n == SW_EAGAIN)
            return true;
        if (n < 0) {
            close_conn(c, false);
            return false;
        }
        sw_buf_consume(&c->out, (size_t)n);
        progress(c);
    }
    return true;
}

/* Takes one whole message from the input. False: there is none, or the connection is closed. */
static bool take_message(struct sw_dns_tcp *c)
{
    struct sw_slice in = sw_buf_slice(&c->in);
    size_t n;

    if (in.n < 2)
        return false;
    n = (size_t)(uint8_t)in.p[0] << 8 | (uint8_t)in.p[1];
    if (in.n - 2 < n)
        return false;
    if (!c->set->ops->on_message(c, sw_slice(in.p + 2, n)))
        c->eof = true;
    if (c->fd < 0)
        return false;
    sw_buf_consume(&c->in, n + 2);
    progress(c);
    return true;
}

/* False: nothing more for now, or the connection is closed. */
static bool read_in(struct sw_dns_tcp *c)
{
    char *to = sw_buf_reserve(&c->in, READ_ONCE);
    ssize_t n = to ? sw_sock_read(c->fd, to, READ_ONCE) : SW_ELIMIT;

    if (n == SW_EOF) {
        c->eof = true;
        return true;
    }
    if (n < 0 && n != SW_EAGAIN) {
        close_conn(c, false);
        return false;
    }
    if (n > 0)
        sw_buf_commit(&c->in, (size_t)n);
    return n != SW_EAGAIN;
}

/* One message of work, or one read. False: wait for the client, an answer or the end. */
static bool step_once(struct sw_dns_tcp *c)
{
    const struct sw_dns_tcp_set *s = c->set;
    bool more = s->ops->fill && s->ops->fill(c);

    if (c->fd < 0 || !write_out(c))
        return false;
    if (more || sw_dns_tcp_full(c))
        return !sw_buf_len(&c->out); /* else it continues when the client reads */
    if (c->pending && c->pending >= s->max_pending)
        return false;
    if (take_message(c))
        return true;
    if (c->fd < 0)
        return false;
    if (!c->eof)
        return read_in(c);
    if (!sw_buf_len(&c->out) && !c->pending)
        close_conn(c, false);
    return false;
}

static void on_again(struct sw_defer *d);

static void step(struct sw_dns_tcp *c)
{
    unsigned n = 0;

    if (c->fd < 0)
        return;
    c->stepping = true;
    while (n < STEPS && step_once(c))
        n++;
    c->stepping = false;
    if (n == STEPS)
        sw_loop_defer(c->set->loop, &c->again, on_again);
}

static void on_again(struct sw_defer *d)
{
    step(SW_CONTAINER_OF(d, struct sw_dns_tcp, again));
}

static void on_event(struct sw_watch *w, unsigned events)
{
    step(SW_CONTAINER_OF(w, struct sw_dns_tcp, watch));
}

bool sw_dns_tcp_full(const struct sw_dns_tcp *c)
{
    return sw_buf_len(&c->out) >= OUT_HIGH;
}

void sw_dns_tcp_send(struct sw_dns_tcp *c, const uint8_t *p, size_t n)
{
    const uint8_t len[2] = {(uint8_t)(n >> 8), (uint8_t)n};

    if (c->fd < 0)
        return;
    if (sw_buf_append(&c->out, len, sizeof(len)) != SW_OK || sw_buf_append(&c->out, p, n) != SW_OK)
        close_conn(c, false);
    else if (!c->stepping)
        sw_loop_defer(c->set->loop, &c->again, on_again);
}

void sw_dns_tcp_open(struct sw_dns_tcp *c, struct sw_dns_tcp_set *s, int fd)
{
    c->set = s;
    c->fd = fd;
    sw_buf_init(&c->in, 2 + SW_DNS_MSG_MAX + READ_ONCE);
    sw_buf_init(&c->out, OUT_HIGH + (s->max_pending + 1) * (2 + SW_DNS_MSG_MAX));
    sw_list_push_back(&s->list, &c->link);
    s->n++;
    sw_timer_start(s->loop, &c->idle, s->idle_ns, on_idle);
    if (sw_watch_start(s->loop, &c->watch, fd, on_event, NULL) != SW_OK)
        close_conn(c, false);
    else
        step(c);
}
