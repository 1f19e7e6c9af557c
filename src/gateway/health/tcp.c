/* SPDX-License-Identifier: Apache-2.0 */
/* Health checks by bytes: a connection, what it sends and receives, over TLS or not. */
#include <string.h>

#include "gateway/health/health_int.h"
#include "gateway/health/tls.h"
#include "io/sock.h"

static bool all_received(const struct checker *k)
{
    struct sw_slice have = sw_buf_slice(&k->in);

    for (size_t i = 0; i < k->check->n_receive; i++) {
        struct sw_slice want = k->check->receive[i];
        const char *at = memmem(have.p, have.n, want.p, want.n);

        if (!at)
            return false;
        have = sw_slice_from(have, (size_t)(at - have.p) + want.n);
    }
    return true;
}

static void on_tcp_bytes(struct sw_watch *w, unsigned events)
{
    struct checker *k = SW_CONTAINER_OF(w, struct checker, watch);
    char buf[4096];
    ssize_t n;

    (void)events;
    while ((n = sw_sock_read(k->fd, buf, sizeof(buf))) > 0) {
        if (sw_buf_append(&k->in, buf, (size_t)n) < 0) {
            checker_finish(k, false, "answer too long");
            return;
        }
        if (all_received(k)) {
            checker_finish(k, true, "");
            return;
        }
    }
    if (n != SW_EAGAIN)
        checker_finish(k, false, "connection closed");
}

/* The handshake alone says that somebody with the right name is there. */
static void on_tls_bytes(struct sw_watch *w, unsigned events)
{
    struct checker *k = SW_CONTAINER_OF(w, struct checker, watch);
    struct sw_err err = {0};
    int rc = sw_gw_check_tls_read(k->tls, &k->in, &err);

    (void)events;
    if (sw_gw_check_tls_open(k->tls) && !k->said) {
        int sent = k->check->send.n ? sw_gw_check_tls_write(k->tls, k->check->send, &err) : SW_OK;

        k->said = true;
        rc = sent == SW_OK ? rc : sent;
    }
    if (k->said && (rc == SW_EAGAIN || k->check->n_receive) && all_received(k))
        checker_finish(k, true, "");
    else if (rc != SW_EAGAIN)
        checker_finish(k, false, err.msg);
}

static void begin_tls(struct checker *k)
{
    struct sw_err err = {0};

    k->tls = sw_gw_check_tls_new(&k->want, k->fd, &err);
    if (!k->tls || sw_watch_start(k->health->loop, &k->watch, k->fd, on_tls_bytes, &err) != SW_OK)
        checker_finish(k, false, err.msg);
}

static void on_dialled(struct sw_dial *d, int rc, const struct sw_err *err)
{
    struct checker *k = SW_CONTAINER_OF(d, struct checker, dial);
    struct sw_dialled c;
    struct sw_err e = {0};

    if (rc != SW_OK) {
        checker_finish(k, false, rc == SW_ETIME ? "connect timeout" : err->msg);
        return;
    }
    sw_dial_take(d, &c);
    if (k->want.tls) {
        k->fd = sw_dialled_fd(&c);
        begin_tls(k);
        return;
    }
    if (k->check->send.n == 0 && k->check->n_receive == 0) {
        sw_dialled_close(&c);
        checker_finish(k, true, "");
        return;
    }
    k->fd = sw_dialled_fd(&c);
    if (sw_sock_write(k->fd, k->check->send.p, k->check->send.n) != (ssize_t)k->check->send.n ||
        (k->check->n_receive &&
         sw_watch_start(k->health->loop, &k->watch, k->fd, on_tcp_bytes, &e) != SW_OK))
        checker_finish(k, false, "cannot send");
    else if (k->check->n_receive == 0)
        checker_finish(k, true, "");
    else
        on_tcp_bytes(&k->watch, SW_READ);
}

void checker_begin_tcp(struct checker *k)
{
    struct sw_addr to = checker_target(k);
    struct sw_sock_opts o = SW_SOCK_OPTS_INIT;

    sw_dial_start(&k->dial, k->health->loop, &to, NULL, &o, k->check->timeout_ns, on_dialled);
}

/* A Unix socket is there or not, an internal listener always is. */
bool checker_begin_pipe(struct checker *k)
{
    const struct sw_gw_addr *a = &k->member->check_addr;
    struct sw_err err = {0};
    int fd = -1;
    int rc = SW_OK;

    if (a->kind == SW_GW_ADDR_IP && a->ip.ip.family)
        return false;
    if (a->kind == SW_GW_ADDR_PIPE) {
        rc = sw_sock_connect_unix(a->name.p, &fd, &err);
        sw_sock_close(fd);
    }
    checker_finish(k, rc == SW_OK, err.msg);
    return true;
}
