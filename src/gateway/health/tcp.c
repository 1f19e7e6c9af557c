/* SPDX-License-Identifier: Apache-2.0 */
/* Health checks by bytes: a connection, what it sends and receives, over TLS or not. */
#include <string.h>

#include "base/mem.h"
#include "gateway/health/health_int.h"
#include "io/conn/conn.h"
#include "io/sock.h"
#include "tls/connfilter.h"

enum { RECEIVE_MAX = 64 * 1024 };

/* One connection of a check; it outlives its check until the loop is done with it. */
struct sw_gw_tcp_probe {
    struct sw_conn io;
    struct checker *checker; /* NULL: the check is over */
};

static struct sw_gw_tcp_probe *probe_of(struct sw_conn *io)
{
    return SW_CONTAINER_OF(io, struct sw_gw_tcp_probe, io);
}

static bool all_received(const struct checker *k, struct sw_slice have)
{
    for (size_t i = 0; i < k->check->n_receive; i++) {
        struct sw_slice want = k->check->receive[i];
        const char *at = memmem(have.p, have.n, want.p, want.n);

        if (!at)
            return false;
        have = sw_slice_from(have, (size_t)(at - have.p) + want.n);
    }
    return true;
}

static void finish(struct sw_conn *io, bool ok, const char *why)
{
    if (probe_of(io)->checker)
        checker_finish(probe_of(io)->checker, ok, why);
}

/* With TLS, the handshake alone shows that a server with the right name answers. */
static void on_open(struct sw_conn *io)
{
    const struct sw_gw_check *c = probe_of(io)->checker->check;

    sw_conn_put(io, c->send.p, c->send.n);
    if (c->n_receive)
        return;
    sw_conn_shutdown(io);
    if (io->shut)
        finish(io, true, "");
    else if (!io->cut) /* on_fail follows otherwise */
        finish(io, false, "cannot send");
}

/* Bytes that are not used come again together with what follows. */
static size_t on_bytes(struct sw_conn *io, struct sw_slice in)
{
    if (all_received(probe_of(io)->checker, in))
        finish(io, true, "");
    else if (in.n >= RECEIVE_MAX)
        finish(io, false, "answer too long");
    return 0;
}

static void on_eof(struct sw_conn *io)
{
    finish(io, false, "connection closed");
}

static void on_fail(struct sw_conn *io, const struct sw_err *err)
{
    finish(io, false, err->msg);
}

static void on_free(struct sw_conn *io)
{
    sw_free(probe_of(io));
}

static const struct sw_conn_ops io_ops = {
    .on_open = on_open,
    .on_bytes = on_bytes,
    .on_eof = on_eof,
    .on_fail = on_fail,
    .on_free = on_free,
};

static int probe_start(struct sw_gw_tcp_probe *p, struct sw_err *err)
{
    struct checker *k = p->checker;
    struct sw_conn_opts o = {.ops = &io_ops, .dialled = true};
    struct sw_sock_opts so = SW_SOCK_OPTS_INIT;
    struct sw_addr to = checker_target(k);
    int fd = -1;
    int rc = sw_sock_connect(&to, NULL, &so, &fd, err);

    if (rc != SW_OK)
        return rc;
    if (k->want.tls) {
        struct sw_tls_params params = {0};

        sw_gw_tls_client_params(&k->want, &params);
        o.filter = sw_tls_filter(sw_tls_new(&params, err));
        if (!o.filter) {
            sw_sock_close(fd);
            return err->rc;
        }
    }
    rc = sw_conn_init(&p->io, k->health->loop, fd, &o, err);
    p->io.in_max = RECEIVE_MAX;
    return rc;
}

void checker_begin_tcp(struct checker *k)
{
    struct sw_err err = {0};

    k->tcp = SW_NEW(struct sw_gw_tcp_probe);
    k->tcp->checker = k;
    if (probe_start(k->tcp, &err) == SW_OK)
        return;
    sw_free(SW_TAKE(k->tcp));
    checker_finish(k, false, err.msg);
}

void checker_drop_tcp(struct checker *k, bool now)
{
    struct sw_gw_tcp_probe *p = SW_TAKE(k->tcp);

    if (!p)
        return;
    p->checker = NULL;
    if (!now) {
        sw_conn_close(&p->io, false); /* on_free follows */
        return;
    }
    sw_conn_done(&p->io);
    sw_free(p);
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
        rc = sw_sock_connect_unix(SOCK_STREAM, a->name.p, &fd, &err);
        sw_sock_close(fd);
    }
    checker_finish(k, rc == SW_OK, err.msg);
    return true;
}
