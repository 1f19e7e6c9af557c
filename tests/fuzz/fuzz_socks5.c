/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First byte: how the bytes are cut, whether the client hangs up, what the resolver says.
 * Properties: the connection is passed on at most once, refused at most once and never both; it is
 * always gone in the end; cut or whole, the same bytes lead to the same destination.
 */
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../src/node/socks5.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static struct {
    int live;
    int started;
    int refused;
    struct sw_addr dst;
    bool fail_resolve;
} seen;

static void check(bool ok)
{
    if (!ok)
        abort();
}

/* ---- what the node would provide ---- */

void sw_live_add(struct sw_worker *w, struct sw_live *l)
{
    (void)w;
    (void)l;
    seen.live++;
}

void sw_live_remove(struct sw_worker *w, struct sw_live *l)
{
    (void)w;
    (void)l;
    seen.live--;
}

void sw_ledger_refused(struct sw_ledger_book *b, enum sw_direction d, const struct sw_addr *src,
                       const struct sw_addr *dst, const char *reason, const char *error)
{
    (void)b;
    (void)d;
    (void)src;
    (void)dst;
    check(reason && error && error[0]);
    seen.refused++;
}

void sw_outbound_start(struct sw_wpod *p, int fd, const struct sw_addr *peer,
                       const struct sw_addr *dst, bool socks5)
{
    (void)p;
    (void)peer;
    check(fd >= 0 && socks5);
    seen.started++;
    seen.dst = *dst;
    sw_sock_close(fd);
}

static void on_looked_up(struct sw_msg *m)
{
    struct sw_resolve *r = SW_CONTAINER_OF(m, struct sw_resolve, msg);

    r->cb(r);
}

void sw_resolve_start(struct sw_resolve *r)
{
    check(strlen(r->name) > 0);
    r->rc = seen.fail_resolve ? SW_ENOENT : SW_OK;
    r->n = !seen.fail_resolve;
    r->ips[0] = (struct sw_ip){.family = 4, .b = {10, 0, 0, (uint8_t)strlen(r->name)}};
    r->msg.cb = on_looked_up;
    sw_loop_post(r->loop, &r->msg);
}

void sw_resolver_stop(void)
{
}

/* ---- one conversation ---- */

static void play(uint8_t mode, struct sw_slice in, size_t step)
{
    static struct sw_worker *worker;
    static struct sw_wpod pod;
    struct sw_addr peer = {.ip = {.family = 4, .b = {127, 0, 0, 1}}, .port = 9};
    int fds[2];

    if (!worker) {
        worker = SW_NEW(struct sw_worker);
        worker->loop = sw_loop_new(NULL);
        pod.worker = worker;
    }
    seen.live = 0;
    seen.started = 0;
    seen.refused = 0;
    seen.fail_resolve = mode & 2;
    check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    sw_socks5_accept(&pod, fds[1], &peer);
    while (in.n) {
        struct sw_slice piece = sw_slice_head(in, step);

        if (sw_sock_write(fds[0], piece.p, piece.n) < 0)
            break;
        in = sw_slice_from(in, step);
        sw_loop_turn(worker->loop, 0);
    }
    sw_loop_turn(worker->loop, 0);
    sw_sock_close(fds[0]); /* the client leaves, if it is still there */
    for (int i = 0; i < 4; i++)
        sw_loop_turn(worker->loop, 0);
    check(seen.live == 0);
    check(seen.started + seen.refused == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct sw_slice in;
    int started;
    struct sw_addr dst;

    if (n < 1 || n > 1500)
        return 0;
    in = sw_slice(data + 1, n - 1);
    play(data[0], in, SIZE_MAX);
    started = seen.started;
    dst = seen.dst;
    play(data[0], in, 1 + data[0] / 4u);
    check(started == seen.started);
    if (started)
        check(sw_addr_eq(&dst, &seen.dst));
    return 0;
}
