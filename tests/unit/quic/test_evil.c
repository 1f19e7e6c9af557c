/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer that is through the handshake and sends frames that ngtcp2 would not: the linker leads
 * sw_aead_seal here, and a DATAGRAM of ours becomes other frames of the same length.
 */
#include "middle.h"
#include "rig.h"
#include "tls/crypto/aead.h"

enum {
    NEW_CID = 28, /* bytes of such a frame */
    HEAD = 3,     /* of a DATAGRAM that is longer than 63 bytes */
    FRAMES_MAX = 40,
};

struct new_cid {
    uint8_t seq; /* below 64, as all numbers here */
    uint8_t prior;
};

static struct {
    struct new_cid frames[FRAMES_MAX];
    size_t n;
} evil;

__typeof__(sw_aead_seal) __real_sw_aead_seal;
__typeof__(sw_aead_seal) __wrap_sw_aead_seal;

static void put_frame(uint8_t *p, struct new_cid f)
{
    memset(p, 0xe0 + f.seq % 16, NEW_CID);
    p[0] = 0x18;
    p[1] = f.seq;
    p[2] = f.prior;
    p[3] = 8;
    p[4] = f.seq; /* the ID differs */
    p[12] = f.seq;
}

void __wrap_sw_aead_seal(const struct sw_aead_sched *s, const struct sw_aead_input *in,
                         uint8_t *out)
{
    static uint8_t copy[SW_DGRAM_MAX];
    struct sw_aead_input changed = *in;
    uint8_t mark[16];
    uint8_t *at;

    memset(mark, 0xa7, sizeof(mark));
    memcpy(copy, in->p, in->n);
    at = evil.n ? memmem(copy, in->n, mark, sizeof(mark)) : NULL;
    if (at) {
        assert_int_equal(at[-HEAD], 0x31);
        for (size_t i = 0; i < evil.n; i++)
            put_frame(at - HEAD + i * NEW_CID, evil.frames[i]);
        evil.n = 0;
    }
    changed.p = copy;
    __real_sw_aead_seal(s, &changed, out);
}

/* a sends these instead of a datagram. m: the middleman on the way, or NULL. */
static void send_frames(struct rig *r, struct middle *m, const struct new_cid *f, size_t n)
{
    uint8_t data[FRAMES_MAX * NEW_CID];

    memset(data, 0xa7, sizeof(data));
    memcpy(evil.frames, f, n * sizeof(*f));
    evil.n = n;
    assert_int_equal(sw_qconn_datagram(r->a.c, data, n * NEW_CID - HEAD), SW_OK);
    rig_while(r, evil.n > 0);
    for (int i = 0; i < 5 && m; i++)
        middle_turn(m, r);
    if (!m)
        rig_idle(r, 20);
}

/* ngtcp2 0.12 retires such an ID each time, and aborts the process the second time. */
static void an_id_that_is_retired_already_may_be_named_again(void **state)
{
    static const struct new_cid frames[] = {{20, 20}, {8, 0}, {8, 0}, {8, 0}};
    struct rig_stream t;
    struct rig r;

    rig_start(&r, &(struct sw_quic_config){.datagrams = true},
              &(struct sw_quic_config){.datagrams = true});
    r.b.echo = true;
    rig_connect(&r);
    rig_idle(&r, 20);
    send_frames(&r, NULL, frames, SW_ARRAY_LEN(frames));
    /* What became of this connection is the peer's affair; the endpoint serves others. */
    sw_qconn_close(r.a.c, 0, "");
    rig_until(&r, &r.b.closed, 1);
    r.a.ready = 0;
    r.b.accepted = 0;
    rig_connect(&r);
    rig_open(&r, &t, 1000);
    rig_until_true(&r, &t.closed);
    rig_stop(&r);
}

/*
 * It comes from one address after the other, gives an ID for each, and acknowledges nothing. ngtcp2
 * 0.12 keeps 16 retirements that are not acknowledged, and aborts the process at the next.
 */
static void a_peer_that_hops_and_acknowledges_nothing_is_not_followed_for_ever(void **state)
{
    struct rig_stream t;
    struct middle m;
    struct rig r;

    rig_start(&r, &(struct sw_quic_config){.datagrams = true},
              &(struct sw_quic_config){.datagrams = true});
    r.b.echo = true;
    middle_connect(&m, &r);
    for (int i = 0; i < 20; i++)
        middle_turn(&m, &r);
    m.closed_back = true;
    for (uint8_t i = 0; i < 40; i++) {
        const struct new_cid f = {.seq = (uint8_t)(4 + i)};

        middle_rebind(&m);
        if (i >= 3) /* it has given as many as it may */
            send_frames(&r, &m, (const struct new_cid[]){f, f, f}, 3);
        assert_int_equal(sw_qconn_datagram(r.a.c, (const uint8_t *)"x", 1), SW_OK);
        for (int j = 0; j < 3; j++)
            middle_turn(&m, &r);
    }
    assert_true(r.b.q->stats.rx_dropped > 0);
    assert_int_equal(r.b.closed, 0);
    sw_qconn_close(r.a.c, 0, "");
    while (!r.b.closed)
        middle_turn(&m, &r);
    middle_close(&m);
    r.a.ready = 0;
    r.b.accepted = 0;
    rig_connect(&r);
    rig_open(&r, &t, 1000);
    rig_until_true(&r, &t.closed);
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_id_that_is_retired_already_may_be_named_again),
        cmocka_unit_test(a_peer_that_hops_and_acknowledges_nothing_is_not_followed_for_ever),
    };

    return cmocka_run_group_tests_name("quic evil", tests, NULL, NULL);
}
