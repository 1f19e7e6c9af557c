/* SPDX-License-Identifier: Apache-2.0 */
#include "middle.h"

#include "io/sock.h"

struct sw_addr bound_of(struct sw_quic *q)
{
    struct sw_addr a[2];

    assert_true(sw_quic_bound(q, a) >= 1);
    return a[0];
}

int raw_socket(void)
{
    struct sw_addr any;
    int fd = -1;

    assert_int_equal(sw_addr_parse(SW_SLICE_LIT("127.0.0.1:0"), &any, NULL), SW_OK);
    assert_int_equal(sw_dgram_bind(&any, NULL, &fd, NULL), SW_OK);
    return fd;
}

void middle_open(struct middle *m, struct rig *r)
{
    *m = (struct middle){.front = raw_socket(), .back = raw_socket(), .b = bound_of(r->b.q)};
    m->buf = sw_malloc(SW_DGRAM_MAX);
}

void middle_close(struct middle *m)
{
    sw_sock_close(m->front);
    sw_sock_close(m->back);
    sw_free(m->buf);
}

void middle_rebind(struct middle *m)
{
    sw_sock_close(m->back);
    m->back = raw_socket();
}

void middle_forward(struct middle *m)
{
    ssize_t n;

    while ((n = sw_dgram_recv(m->front, m->buf, SW_DGRAM_MAX, &m->a)) > 0)
        if (!m->closed)
            (void)sw_dgram_send(m->back, m->buf, (size_t)n, &m->b);
    while ((n = sw_dgram_recv(m->back, m->buf, SW_DGRAM_MAX, NULL)) > 0) {
        m->to_a += (size_t)n;
        if ((size_t)n <= sizeof(m->last_to_a) && !(m->buf[0] & 0x80)) {
            memcpy(m->last_to_a, m->buf, (size_t)n);
            m->last_n = (size_t)n;
        }
        if (!m->closed_back && !m->closed)
            (void)sw_dgram_send(m->front, m->buf, (size_t)n, &m->a);
    }
}

void middle_turn(struct middle *m, struct rig *r)
{
    sw_loop_turn(r->loop, 1);
    middle_forward(m);
}

void middle_dial(struct middle *m, struct rig *r)
{
    struct sw_addr at = sw_sock_local(m->front);
    struct sw_quic_target t = {.id = *sw_rawkey_id(r->b.key), .addrs = &at, .n_addrs = 1};

    r->a.c = sw_quic_dial(r->a.q, &t, SW_SLICE_LIT("test/1"), &rig_conn_ops, &r->a, NULL);
    assert_non_null(r->a.c);
}

void middle_until(struct middle *m, struct rig *r, const volatile bool *flag)
{
    uint64_t end = sw_now_ns() + 60 * SW_NS_PER_S;

    while (!*flag && sw_now_ns() < end)
        middle_turn(m, r);
    assert_true(*flag);
}

void middle_connect(struct middle *m, struct rig *r)
{
    middle_open(m, r);
    middle_dial(m, r);
    while (!r->a.ready || !r->b.accepted)
        middle_turn(m, r);
}
