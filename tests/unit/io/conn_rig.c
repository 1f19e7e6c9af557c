/* SPDX-License-Identifier: Apache-2.0 */
#include "conn_rig.h"

#include <sys/socket.h>

#include "base/mem.h"
#include "base/time.h"
#include "io/sock.h"
#include "tls/cert/ca.h"
#include "tls/connfilter.h"
#include "tls/tls.h"

struct sw_loop *loop;
static struct sw_ca *ca;
static struct sw_tls_cred *cred;
static uint64_t now_ns;

static uint64_t fake_clock(void)
{
    return now_ns;
}

void pass_ms(uint64_t ms)
{
    now_ns += ms * SW_NS_PER_MS;
    for (int i = 0; i < 8; i++)
        sw_loop_turn(loop, 0);
}

static struct end *end_of(struct sw_conn *c)
{
    return SW_CONTAINER_OF(c, struct end, conn);
}

static void maybe_close(struct end *e, enum callback where)
{
    if (e->close_in != where)
        return;
    if (e->linger_in)
        sw_conn_close_flushed(&e->conn);
    else
        sw_conn_close(&e->conn, false);
}

void pump(struct end *e)
{
    while (e->to_send.n) {
        size_t n = sw_conn_write(&e->conn, e->to_send);

        e->to_send = sw_slice_from(e->to_send, n);
        if (n == 0)
            return;
    }
}

static void on_open(struct sw_conn *c)
{
    end_of(c)->opens++;
    maybe_close(end_of(c), OPEN);
}

static bool on_ready(struct sw_conn *c)
{
    end_of(c)->readies++;
    return !end_of(c)->hold;
}

static size_t on_bytes(struct sw_conn *c, struct sw_slice in)
{
    struct end *e = end_of(c);
    size_t n = e->use_max ? sw_min(e->use_max, in.n) : in.n;

    e->calls++;
    if (e->other)
        sw_conn_resume_now(&e->other->conn);
    if (e->hook)
        e->hook(e);
    if (in.n < e->least)
        return 0;
    assert_int_equal(sw_buf_append(&e->got, in.p, n), SW_OK);
    if (e->pause_in_bytes)
        sw_conn_pause(c);
    maybe_close(e, BYTES);
    return n;
}

static void on_batch(struct sw_conn *c, size_t wire)
{
    end_of(c)->wire += wire;
    end_of(c)->batches++;
    maybe_close(end_of(c), BATCH);
}

static void on_eof(struct sw_conn *c)
{
    end_of(c)->eofs++;
    if (end_of(c)->repeat_eof)
        sw_conn_repeat_eof(c);
    maybe_close(end_of(c), END);
}

static void on_drained(struct sw_conn *c)
{
    end_of(c)->drains++;
    pump(end_of(c));
    maybe_close(end_of(c), DRAINED);
}

static void on_fail(struct sw_conn *c, const struct sw_err *err)
{
    end_of(c)->fails++;
    end_of(c)->why = *err;
    maybe_close(end_of(c), FAIL);
}

static void on_free(struct sw_conn *c)
{
    end_of(c)->frees++;
}

const struct sw_conn_ops rig_ops = {
    .on_open = on_open,
    .on_ready = on_ready,
    .on_bytes = on_bytes,
    .on_batch = on_batch,
    .on_eof = on_eof,
    .on_drained = on_drained,
    .on_fail = on_fail,
    .on_free = on_free,
};

struct sw_filter *tls_of_role(bool server)
{
    struct sw_tls_params p = {.server = server,
                              .web = true,
                              .cred = cred,
                              .host = server ? NULL : "localhost",
                              .sni = server ? NULL : "localhost"};
    struct sw_err err = {0};
    struct sw_tls *t = sw_tls_new(&p, &err);

    assert_non_null(t);
    return sw_tls_filter(t);
}

struct end *end_open(int fd, struct sw_conn_opts o)
{
    struct end *e = SW_NEW(struct end);
    struct sw_err err = {0};

    o.ops = &rig_ops;
    sw_buf_init(&e->got, 8 << 20);
    assert_int_equal(sw_conn_init(&e->conn, loop, fd, &o, &err), SW_OK);
    return e;
}

struct end *end_new(int fd, struct sw_filter *f, bool dialled, uint32_t open_ms)
{
    return end_open(fd, (struct sw_conn_opts){
                            .filter = f,
                            .open_ms = open_ms,
                            .dialled = dialled,
                        });
}

void end_free(struct end *e)
{
    sw_conn_done(&e->conn);
    sw_buf_done(&e->got);
    sw_free(e);
}

void tcp_pair(int fds[2])
{
    struct sw_addr at = {0};
    struct sw_sock_opts o = SW_SOCK_OPTS_INIT;
    struct sw_err err = {0};
    int l;

    assert_int_equal(sw_ip_parse(SW_SLICE_LIT("127.0.0.1"), &at.ip, &err), SW_OK);
    assert_int_equal(sw_sock_listen(&at, &o, &l, &err), SW_OK);
    at = sw_sock_local(l);
    assert_int_equal(sw_sock_connect(&at, NULL, &o, &fds[1], &err), SW_OK);
    for (int i = 0; i < TURNS && sw_sock_accept(l, &fds[0], NULL, &err) == SW_EAGAIN; i++)
        sw_loop_turn(loop, 1);
    for (int i = 0; i < TURNS && sw_sock_connect_result(fds[1], &err) == SW_EAGAIN; i++)
        sw_loop_turn(loop, 1);
    sw_sock_close(l);
}

void unix_pair(int fds[2])
{
    struct sw_err err = {0};

    assert_int_equal(sw_sock_pair(fds, &err), SW_OK);
}

void small_buffers(int fd)
{
    int n = 4096;

    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &n, sizeof(n)), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &n, sizeof(n)), 0);
}

void settle(void)
{
    for (int i = 0; i < 10; i++)
        sw_loop_turn(loop, 1);
}

void peer_write(int fd, const void *p, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t k = sw_sock_write(fd, (const char *)p + at, n - at);

        if (k == SW_EAGAIN)
            sw_loop_turn(loop, 1);
        else
            assert_true(k > 0);
        at += k > 0 ? (size_t)k : 0;
    }
}

int peer_read_all(int fd, struct sw_buf *got)
{
    for (int i = 0; i < 100 * TURNS; i++) {
        char buf[65536];
        ssize_t n = sw_sock_read(fd, buf, sizeof(buf));

        if (n > 0)
            assert_int_equal(sw_buf_append(got, buf, (size_t)n), SW_OK);
        else if (n != SW_EAGAIN)
            return (int)n;
        sw_loop_turn(loop, 0);
    }
    fail_msg("peer got no end");
    return 0;
}

char *pattern(size_t n)
{
    char *p = sw_malloc(n);

    for (size_t i = 0; i < n; i++)
        p[i] = (char)((i * 7 + i / 251) & 0xff);
    return p;
}

void faced(bool tls, struct end **a, struct end **b)
{
    int fds[2];

    unix_pair(fds);
    small_buffers(fds[0]);
    small_buffers(fds[1]);
    *a = end_new(fds[0], tls ? tls_of_role(true) : NULL, false, 1000);
    *b = end_new(fds[1], tls ? tls_of_role(false) : NULL, true, 1000);
    UNTIL((*b)->opens && (!tls || (*a)->opens));
}

int rig_set_up(void **state)
{
    static const char *const sans[] = {"localhost", NULL};
    SW_BUF_AUTO chain = {.max = 65536};
    SW_BUF_AUTO key = {.max = 65536};
    struct sw_err err = {0};

    (void)state;
    now_ns = sw_now_ns();
    loop = sw_loop_new(&err);
    sw_loop_set_clock(loop, fake_clock);
    ca = sw_ca_new(SW_SLICE_LIT("cluster.local"), 0, &err);
    assert_int_equal(
        sw_ca_issue_web(ca,
                        &(struct sw_ca_web){.cn = "a", .sans = sans, .server = true, .ttl_s = 3600},
                        &chain, &key, &err),
        SW_OK);
    cred = sw_tls_cred_new(&(struct sw_tls_cred_pem){.chain = sw_buf_slice(&chain),
                                                     .key = sw_buf_slice(&key),
                                                     .roots = sw_ca_root_pem(ca),
                                                     .any_identity = true},
                           &err);
    assert_non_null(cred);
    return 0;
}

int rig_tear_down(void **state)
{
    (void)state;
    sw_loop_free(loop);
    sw_tls_cred_unref(cred);
    sw_ca_free(ca);
    return 0;
}
