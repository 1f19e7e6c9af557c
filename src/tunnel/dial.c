/* SPDX-License-Identifier: Apache-2.0 */
#include "tunnel/dial.h"

static void finish(struct sw_dial *d, int rc, const struct sw_err *err)
{
    sw_timer_stop(d->loop, &d->deadline);
    sw_defer_cancel(&d->done);
    if (rc != SW_OK) {
        sw_watch_stop(&d->watch);
        sw_sock_close(SW_TAKE_FD(d->fd));
    }
    d->cb(d, rc, err);
}

static void on_event(struct sw_watch *w, unsigned events)
{
    struct sw_dial *d = SW_CONTAINER_OF(w, struct sw_dial, watch);
    struct sw_err err = {0};
    int rc;

    d->events |= events; /* reported once: also events while 'done' is still to report */
    if (!(events & (SW_WRITE | SW_HUP)) || sw_list_linked(&d->done.link))
        return;
    /* Writable and not in error is connected; only other events need SO_ERROR. */
    rc = events & SW_HUP ? sw_sock_connect_result(d->fd, &err) : SW_OK;
    if (rc != SW_EAGAIN)
        finish(d, rc, &err);
}

static void on_deadline(struct sw_timer *t)
{
    struct sw_dial *d = SW_CONTAINER_OF(t, struct sw_dial, deadline);
    struct sw_err err = {0};

    finish(d, sw_err_set(&err, SW_ETIME, "connect timed out"), &err);
}

static void on_known(struct sw_defer *defer)
{
    struct sw_dial *d = SW_CONTAINER_OF(defer, struct sw_dial, done);

    finish(d, d->rc, &d->err);
}

void sw_dial_start(struct sw_dial *d, struct sw_loop *l, const struct sw_dial_target *t,
                   sw_dial_cb cb)
{
    *d = (struct sw_dial){.loop = l, .fd = -1, .cb = cb};
    d->rc = sw_sock_connect(t->to, t->src, t->opts, &d->fd, &d->err);
    if (d->rc == SW_OK)
        d->rc = sw_watch_start(l, &d->watch, d->fd, on_event, &d->err);
    /* A connect within the host is over by now; no need to wait for the loop to say so. */
    if (d->rc == SW_OK && !sw_sock_is_connected(d->fd))
        sw_timer_start(l, &d->deadline, t->timeout_ns, on_deadline);
    else /* before sessions flush, so that an answer leaves with what they have to send */
        sw_loop_defer_first(l, &d->done, on_known);
}

void sw_dial_cancel(struct sw_dial *d)
{
    if (!d->loop)
        return;
    sw_timer_stop(d->loop, &d->deadline);
    sw_watch_stop(&d->watch);
    sw_defer_cancel(&d->done);
    sw_sock_close(SW_TAKE_FD(d->fd));
    d->loop = NULL;
}

void sw_dial_take(struct sw_dial *d, struct sw_dialled *ret)
{
    ret->fd = d->fd;
    ret->events = d->events;
    sw_watch_move(&d->watch, &ret->watch, NULL);
    d->fd = -1;
    d->loop = NULL;
}

int sw_dialled_fd(struct sw_dialled *c)
{
    sw_watch_stop(&c->watch);
    return SW_TAKE_FD(c->fd);
}

void sw_dialled_close(struct sw_dialled *c)
{
    sw_sock_close(sw_dialled_fd(c));
}
