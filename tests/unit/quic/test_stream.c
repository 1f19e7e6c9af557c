/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: flow control, ends, and what happens when one side gives up. */
#include "rig.h"

#include <sys/socket.h>

static void a_reader_that_takes_nothing_stops_the_sender(void **state)
{
    struct sw_quic_config cfg = {.first_window = 100000, .stream_window = 100000};
    struct rig r;
    struct rig_stream t;

    rig_start(&r, NULL, &cfg);
    r.b.hold_after = 0;
    rig_connect(&r);
    rig_open(&r, &t, 5000000);
    rig_while(&r, r.b.n_in == 0 || r.b.c->flow.held < 100000);
    rig_idle(&r, 100);
    assert_int_equal(r.b.n_in, 1);
    assert_int_equal(r.b.in[0].read, 0);
    /* What was sent is the window, what waits is bounded by the sender's buffer. */
    assert_int_equal(t.s->tx.sent, 100000);
    assert_true(t.written <= QUIC_SEND_MAX + QUIC_CHUNK);
    assert_int_equal(r.b.c->flow.held, 100000);
    r.b.in[0].hold_after = UINT64_MAX;
    sw_qstream_resume(r.b.in[0].s);
    rig_until_true(&r, &r.b.in[0].fin);
    assert_int_equal(r.b.in[0].read, 5000000);
    assert_false(r.b.in[0].mismatch);
    assert_int_equal(r.b.c->flow.held, 0);
    rig_stop(&r);
}

static void a_slow_reader_does_not_stop_others(void **state)
{
    struct sw_quic_config cfg = {
        .first_window = 200000, .stream_window = 200000, .conn_window = 400000};
    struct rig r;
    struct rig_stream slow[3];
    struct rig_stream quick;

    rig_start(&r, NULL, &cfg);
    r.b.hold_after = 0;
    rig_connect(&r);
    /* More than the connection's window waits, all of it unread. */
    for (size_t i = 0; i < SW_ARRAY_LEN(slow); i++)
        rig_open(&r, &slow[i], 200000);
    rig_until(&r, &r.b.n_in, 3);
    for (int i = 0; i < 1000 && r.b.c->flow.held < 600000; i++)
        rig_idle(&r, 5);
    assert_int_equal(r.b.c->flow.held, 600000);
    r.b.hold_after = UINT64_MAX;
    rig_open(&r, &quick, 100000);
    rig_until(&r, &r.b.n_in, 4);
    rig_until_true(&r, &r.b.in[3].fin);
    for (size_t i = 0; i < SW_ARRAY_LEN(slow); i++) {
        r.b.in[i].hold_after = UINT64_MAX;
        sw_qstream_resume(r.b.in[i].s);
        assert_true(r.b.in[i].fin && !r.b.in[i].mismatch);
    }
    rig_stop(&r);
}

/* All bytes arrived; that the peer went away meanwhile is no reason to throw them away. */
static void a_slow_reader_gets_the_end_of_a_closed_connection(void **state)
{
    struct sw_quic_config cfg = {.first_window = 1 << 20};
    struct rig r;
    struct rig_stream t;

    rig_start(&r, NULL, &cfg);
    r.b.hold_after = 1000;
    rig_connect(&r);
    rig_open(&r, &t, 300000);
    rig_until(&r, &r.b.n_in, 1);
    sw_qstream_finish(r.b.in[0].s);
    rig_until_true(&r, &t.closed);
    sw_qconn_close(r.a.c, 0, "");
    rig_until(&r, &r.a.closed, 1);
    rig_idle(&r, 50);
    assert_int_equal(r.b.closed, 0);
    r.b.in[0].hold_after = UINT64_MAX;
    sw_qstream_resume(r.b.in[0].s);
    rig_until(&r, &r.b.closed, 1);
    assert_true(r.b.in[0].fin && r.b.in[0].closed && !r.b.in[0].lost && !r.b.in[0].mismatch);
    assert_int_equal(r.b.in[0].read, 300000);
    rig_stop(&r);
}

static void a_reset_is_told_with_its_code(void **state)
{
    struct rig r;
    struct rig_stream t;

    rig_start(&r, NULL, NULL);
    r.b.hold_after = 0;
    rig_connect(&r);
    rig_open(&r, &t, 5000000);
    rig_idle(&r, 20);
    sw_qstream_reset(t.s, 77);
    rig_until_true(&r, &r.b.in[0].reset);
    assert_int_equal(r.b.in[0].reset_code, 77);
    assert_false(r.b.in[0].fin);
    assert_int_equal(r.b.c->flow.held, 0);
    /* The other direction still works. */
    r.b.in[0].to_write = 1000;
    r.b.in[0].finish = true;
    rig_pump(&r.b.in[0]);
    rig_until_true(&r, &t.closed);
    assert_true(t.fin && !t.lost && !t.mismatch);
    assert_int_equal(t.read, 1000);
    rig_until_true(&r, &r.b.in[0].closed);
    rig_stop(&r);
}

static void a_reader_may_stop_the_sender(void **state)
{
    struct rig r;
    struct rig_stream t;

    rig_start(&r, NULL, NULL);
    r.b.hold_after = 0;
    rig_connect(&r);
    rig_open(&r, &t, 50000000);
    rig_until(&r, &r.b.n_in, 1);
    sw_qstream_stop(r.b.in[0].s, 5);
    rig_until_true(&r, &t.stopped);
    assert_false(r.b.in[0].closed);
    sw_qstream_finish(r.b.in[0].s);
    rig_until_true(&r, &t.closed);
    rig_until_true(&r, &r.b.in[0].closed);
    assert_int_equal(r.b.c->flow.held, 0);
    /* Credit of what nobody read came back: the connection is as good as new. */
    r.b.hold_after = UINT64_MAX;
    rig_open(&r, &t, 40000000);
    rig_until(&r, &r.b.n_in, 2);
    rig_until_true(&r, &r.b.in[1].fin);
    rig_stop(&r);
}

static void aborted_streams_leave_nothing_behind(void **state)
{
    struct rig r;
    struct rig_stream t[40];

    rig_start(&r, NULL, NULL);
    rig_connect(&r);
    /* Each of them could use up the window. */
    for (int round = 0; round < 5; round++) {
        r.b.n_in = 0;
        for (size_t i = 0; i < SW_ARRAY_LEN(t); i++)
            rig_open(&r, &t[i], 1000000);
        rig_idle(&r, 3);
        for (size_t i = 0; i < SW_ARRAY_LEN(t); i++) {
            if (t[i].s)
                sw_qstream_abort(t[i].s, 1);
            t[i].to_write = 0;
        }
        for (size_t i = 0; i < r.b.n_in; i++)
            if (r.b.in[i].s)
                sw_qstream_abort(r.b.in[i].s, 2);
        for (size_t i = 0; i < SW_ARRAY_LEN(t); i++)
            rig_until_true(&r, &t[i].closed);
        /* What was under way may still open streams there. */
        for (int i = 0; i < 500 && (i < 4 || sw_qconn_streams(r.b.c) > 0); i++) {
            for (size_t j = 0; j < r.b.n_in; j++)
                if (r.b.in[j].s && !r.b.in[j].closed)
                    sw_qstream_abort(r.b.in[j].s, 2);
            rig_idle(&r, 5);
        }
        assert_int_equal(sw_qconn_streams(r.a.c), 0);
        assert_int_equal(sw_qconn_streams(r.b.c), 0);
    }
    r.b.n_in = 0;
    r.b.echo = true;
    rig_open(&r, &t[0], 40000000);
    rig_until_true(&r, &t[0].closed);
    assert_true(t[0].fin && !t[0].mismatch);
    rig_stop(&r);
}

static void a_stream_nobody_wants_is_reset(void **state)
{
    struct rig r;
    struct rig_stream t;

    rig_start(&r, NULL, NULL);
    r.b.no_attach = true;
    rig_connect(&r);
    rig_open(&r, &t, 3000000);
    rig_until_true(&r, &t.closed);
    assert_true(t.reset && t.stopped && !t.lost);
    rig_while(&r, sw_qconn_streams(r.b.c) > 0);
    assert_int_equal(sw_qconn_streams(r.b.c), 0);
    rig_stop(&r);
}

static void streams_are_limited_and_come_back(void **state)
{
    struct sw_quic_config cfg = {.max_streams = 4};
    struct rig r;
    struct rig_stream t[4];
    struct rig_stream more = {.hold_after = UINT64_MAX};

    rig_start(&r, NULL, &cfg);
    r.b.echo = true;
    rig_connect(&r);
    for (size_t i = 0; i < SW_ARRAY_LEN(t); i++)
        rig_open(&r, &t[i], 100);
    assert_int_equal(sw_qstream_open(r.a.c, &rig_stream_ops, &more, &more.s), SW_ELIMIT);
    rig_until(&r, &r.a.rooms, 1);
    assert_int_equal(sw_qstream_open(r.a.c, &rig_stream_ops, &more, &more.s), SW_OK);
    sw_qstream_abort(more.s, 0);
    rig_stop(&r);
}

static void too_many_resets_end_the_connection(void **state)
{
    struct sw_quic_config cfg = {.max_streams = 64};
    struct rig_stream *all = SW_NEW_ARRAY(struct rig_stream, 5000);
    struct rig r;
    size_t n = 0;

    rig_start(&r, NULL, &cfg);
    rig_connect(&r);
    while (r.a.closed == 0 && n < 5000) {
        struct rig_stream *t = &all[n];

        t->hold_after = UINT64_MAX;
        if (sw_qstream_open(r.a.c, &rig_stream_ops, t, &t->s) == SW_OK) {
            n++;
            assert_int_equal(sw_qstream_write(t->s, "x", 1), 1);
            sw_loop_turn(r.loop, 0);
            if (!t->closed)
                sw_qstream_abort(t->s, 0);
        }
        for (size_t i = 0; i < SW_ARRAY_LEN(r.b.in); i++)
            if (r.b.in[i].s && r.b.in[i].reset)
                sw_qstream_abort(r.b.in[i].s, 0);
        sw_loop_turn(r.loop, 1);
    }
    assert_int_equal(r.a.closed, 1);
    assert_int_equal(r.a.why.code, 0xa);
    for (size_t i = 0; i < n; i++)
        assert_true(all[i].closed);
    rig_stop(&r);
    sw_free(all);
}

static void big_transfers_are_told_in_big_pieces(void **state)
{
    struct rig r;
    struct rig_stream t;

    rig_start(&r, NULL, NULL);
    rig_connect(&r);
    rig_open(&r, &t, 20000000);
    rig_until_true(&r, &r.b.in[0].fin);
    assert_true(r.b.in[0].biggest >= 30000);
    rig_stop(&r);
}

static void an_idle_stream_owns_no_buffer(void **state)
{
    struct rig r;
    struct rig_stream t;
    struct iovec room[2];

    rig_start(&r, NULL, NULL);
    r.b.echo = true;
    rig_connect(&r);
    t = (struct rig_stream){.hold_after = UINT64_MAX, .to_write = 300000};
    assert_int_equal(sw_qstream_open(r.a.c, &rig_stream_ops, &t, &t.s), SW_OK);
    assert_true(sw_qstream_reserve(t.s, room) > 0);
    sw_qstream_commit(t.s, 0);
    assert_null(t.s->tx.head);
    rig_pump(&t);
    while (t.read < 300000)
        sw_loop_turn(r.loop, 100);
    rig_while(&r, sw_qstream_unacked(t.s) > 0 || r.b.in[0].s->tx.head);
    rig_idle(&r, 20);
    assert_int_equal(sw_qstream_unacked(t.s), 0);
    assert_true(!t.s->tx.head && !t.s->tx.spare && !t.s->tx.at);
    assert_true(!r.b.in[0].s->tx.head && !r.b.in[0].s->rx.rest.p);
    /* And goes on from there. */
    t.to_write = 100000;
    t.finish = true;
    rig_pump(&t);
    rig_until_true(&r, &t.closed);
    assert_true(t.fin && !t.mismatch);
    assert_int_equal(t.read, 400000);
    rig_stop(&r);
}

static void many_streams_share_a_connection(void **state)
{
    struct rig r;
    struct rig_stream t[60];

    rig_start(&r, NULL, NULL);
    r.b.echo = true;
    rig_connect(&r);
    for (size_t i = 0; i < SW_ARRAY_LEN(t); i++)
        rig_open(&r, &t[i], i * 9973);
    for (size_t i = 0; i < SW_ARRAY_LEN(t); i++) {
        rig_until_true(&r, &t[i].closed);
        assert_true(t[i].fin && !t[i].mismatch);
        assert_int_equal(t[i].read, i * 9973);
    }
    rig_stop(&r);
}

/* The first datagrams of some turns never arrive. */
static size_t transfer_with_losses(struct rig *r, struct rig_stream *t, int every)
{
    static uint8_t waste[SW_DGRAM_MAX];
    struct rig_stream *in = &r->b.in[r->b.n_in % SW_ARRAY_LEN(r->b.in)];
    size_t lost = 0;

    *in = (struct rig_stream){0};
    rig_open(r, t, 50000000);
    for (int turn = 1; !t->closed && r->a.closed + r->b.closed == 0; turn++) {
        if (turn % every < 3 && recv(r->b.q->sock[0].fd, waste, sizeof(waste), MSG_DONTWAIT) > 0)
            lost++;
        sw_loop_turn(r->loop, 1);
        if (in->fin && in->s)
            sw_qstream_finish(in->s);
    }
    assert_true(in->fin && !in->mismatch);
    assert_int_equal(in->read, 50000000);
    return lost;
}

static void losses_do_not_change_the_order(void **state)
{
    struct rig r;
    struct rig_stream t;
    size_t lost = 0;

    rig_start(&r, NULL, NULL);
    rig_connect(&r);
    for (int i = 0; i < 3; i++)
        lost += transfer_with_losses(&r, &t, 50 + 20 * i);
    assert_true(lost > 0);
    assert_int_equal(r.b.c->flow.held, 0);
    rig_stop(&r);
}

/* n bytes of the pattern in frames, as ngtcp2 tells of them. */
static void receive(struct sw_qstream *s, uint64_t *at, size_t n, bool fin)
{
    uint8_t frame[1000];

    while (n > 0) {
        size_t k = sw_min(n, sizeof(frame));

        for (size_t i = 0; i < k; i++)
            frame[i] = rig_pattern(*at + i);
        *at += k;
        n -= k;
        sw_qstream_received(s, frame, k, fin && n == 0);
    }
}

/* What waited behind a lost packet comes with it, all at once: more than a batch can gather. */
static void a_whole_window_at_once_stays_in_order(void **state)
{
    static const uint64_t holds[] = {UINT64_MAX, 1, 600000, 900000};
    struct rig r;
    struct rig_stream t[SW_ARRAY_LEN(holds)];
    uint64_t at[SW_ARRAY_LEN(holds)] = {0};

    rig_start(&r, NULL, NULL);
    rig_connect(&r);
    for (size_t i = 0; i < SW_ARRAY_LEN(holds); i++) {
        struct rig_stream *in = &r.b.in[i];

        t[i] = (struct rig_stream){.to_write = 1, .hold_after = UINT64_MAX};
        assert_int_equal(sw_qstream_open(r.a.c, &rig_stream_ops, &t[i], &t[i].s), SW_OK);
        rig_pump(&t[i]);
        rig_until(&r, &in->read, 1);
        in->hold_after = holds[i];
        at[i] = 1;
        receive(in->s, &at[i], 300000, false);
        if (i > 0) /* two streams share what there is room for */
            receive(r.b.in[0].s, &at[0], 100000, false);
        receive(in->s, &at[i], 700000, i > 0);
        sw_quic_turn(r.b.q);
        assert_int_equal(in->read, sw_min(holds[i], at[i]));
        in->hold_after = UINT64_MAX;
        sw_qstream_resume(in->s);
        assert_true(!in->mismatch && in->fin == (i > 0));
        assert_int_equal(in->read, 1000001);
    }
    assert_int_equal(r.b.in[0].read, at[0]);
    assert_false(r.b.in[0].mismatch);
    assert_int_equal(r.b.c->flow.held, 0);
    rig_stop(&r);
}

/* A server may send before the client knows that it is confirmed. */
static void bytes_that_come_early_are_kept(void **state)
{
    struct rig r;
    struct rig_stream t[2];
    uint64_t at[2] = {1, 1};

    rig_start(&r, NULL, NULL);
    rig_connect(&r);
    for (size_t i = 0; i < 2; i++) {
        t[i] = (struct rig_stream){.to_write = 1, .hold_after = UINT64_MAX};
        assert_int_equal(sw_qstream_open(r.a.c, &rig_stream_ops, &t[i], &t[i].s), SW_OK);
        rig_pump(&t[i]);
        rig_until(&r, &r.b.in[i].read, 1);
    }
    r.b.c->shake.told = false;
    receive(r.b.in[0].s, &at[0], 5000, false);
    sw_quic_turn(r.b.q);
    assert_int_equal(r.b.in[0].read, 1);
    r.b.c->shake.told = true;
    receive(r.b.in[1].s, &at[1], 3000, false);
    sw_quic_turn(r.b.q);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(r.b.in[i].read, at[i]);
        assert_false(r.b.in[i].mismatch);
    }
    assert_int_equal(r.b.c->flow.held, 0);
    rig_stop(&r);
}

/* A stream of a that b answers, and an exchange of one byte, after which nothing is under way. */
static void open_quiet(struct rig *r, struct rig_stream *t)
{
    *t = (struct rig_stream){.to_write = 1, .hold_after = UINT64_MAX};
    assert_int_equal(sw_qstream_open(r->a.c, &rig_stream_ops, t, &t->s), SW_OK);
    rig_pump(t);
    rig_until(r, &t->read, 1);
    rig_idle(r, 50);
}

/* An acknowledgement goes with the answer, not ahead of it in a packet of its own. */
static void an_exchange_takes_a_packet_each_way(void **state)
{
    enum { EXCHANGES = 1000, OTHERS = 200 };
    struct rig r;
    struct rig_stream t;
    uint64_t a, b;

    rig_start(&r, NULL, NULL);
    r.b.echo = true;
    rig_connect(&r);
    open_quiet(&r, &t);
    a = r.a.q->stats.tx_packets;
    b = r.b.q->stats.tx_packets;
    for (size_t i = 0; i < EXCHANGES; i++) {
        t.to_write = 1;
        rig_pump(&t);
        rig_until(&r, &t.read, 2 + i);
    }
    assert_in_range(r.a.q->stats.tx_packets - a, EXCHANGES, EXCHANGES + OTHERS);
    assert_in_range(r.b.q->stats.tx_packets - b, EXCHANGES, EXCHANGES + OTHERS);
    rig_stop(&r);
}

static void what_gets_no_answer_is_acknowledged_soon(void **state)
{
    struct rig r;
    struct rig_stream t;
    uint64_t sent_ns;

    rig_start(&r, NULL, NULL);
    r.b.echo = true;
    rig_connect(&r);
    open_quiet(&r, &t);
    r.b.in[0].echo = false;
    sent_ns = sw_now_ns();
    t.to_write = 1;
    rig_pump(&t);
    rig_until(&r, &r.b.in[0].read, 2);
    rig_while(&r, sw_qstream_in_flight(t.s));
    /* Long before the sender would send it again, on a busy machine as well. */
    assert_true(sw_now_ns() - sent_ns < SW_NS_PER_S);
    assert_int_equal(t.s->tx.acked, 2);
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reader_that_takes_nothing_stops_the_sender),
        cmocka_unit_test(a_slow_reader_does_not_stop_others),
        cmocka_unit_test(a_slow_reader_gets_the_end_of_a_closed_connection),
        cmocka_unit_test(a_reset_is_told_with_its_code),
        cmocka_unit_test(a_reader_may_stop_the_sender),
        cmocka_unit_test(aborted_streams_leave_nothing_behind),
        cmocka_unit_test(a_stream_nobody_wants_is_reset),
        cmocka_unit_test(streams_are_limited_and_come_back),
        cmocka_unit_test(too_many_resets_end_the_connection),
        cmocka_unit_test(big_transfers_are_told_in_big_pieces),
        cmocka_unit_test(an_idle_stream_owns_no_buffer),
        cmocka_unit_test(many_streams_share_a_connection),
        cmocka_unit_test(losses_do_not_change_the_order),
        cmocka_unit_test(a_whole_window_at_once_stays_in_order),
        cmocka_unit_test(bytes_that_come_early_are_kept),
        cmocka_unit_test(an_exchange_takes_a_packet_each_way),
        cmocka_unit_test(what_gets_no_answer_is_acknowledged_soon),
    };

    return cmocka_run_group_tests_name("quic stream", tests, NULL, NULL);
}
