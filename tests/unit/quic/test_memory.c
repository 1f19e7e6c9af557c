/* SPDX-License-Identifier: Apache-2.0 */
/* What streams of an endpoint may hold: slow readers are held back, and nobody else. */
#include "rig.h"

enum { SLOW = 60, MIB = 1 << 20 };

static uint64_t buffered(const struct rig_side *side)
{
    struct sw_quic_stats st;

    sw_quic_stats(side->q, &st);
    return st.buffered;
}

static uint64_t times_held_back(const struct rig_side *side)
{
    struct sw_quic_stats st;

    sw_quic_stats(side->q, &st);
    return st.held_back;
}

/* SLOW streams whose reader takes nothing: n bytes each. */
static void open_slow(struct rig *r, struct rig_stream slow[SLOW], uint64_t n)
{
    r->b.hold_after = 0;
    for (size_t i = 0; i < SLOW; i++)
        rig_open(r, &slow[i], n);
    rig_until(r, &r->b.n_in, SLOW);
    rig_while(r, times_held_back(&r->a) < SLOW / 2);
    rig_idle(r, 100);
    for (size_t i = 0; i < SLOW; i++)
        assert_int_equal(r->b.in[i].read, 0);
}

static void release(struct rig *r, uint64_t n)
{
    for (size_t i = 0; i < SLOW; i++) {
        r->b.in[i].hold_after = UINT64_MAX;
        sw_qstream_resume(r->b.in[i].s);
    }
    for (size_t i = 0; i < SLOW; i++) {
        rig_until_true(r, &r->b.in[i].fin);
        assert_int_equal(r->b.in[i].read, n);
        assert_false(r->b.in[i].mismatch);
    }
}

/* An accepted stream that reads everything. */
static void run_quick(struct rig *r, uint64_t n)
{
    size_t k = r->b.n_in;
    struct rig_stream quick;

    r->b.hold_after = UINT64_MAX;
    rig_open(r, &quick, n);
    rig_until(r, &r->b.n_in, k + 1);
    rig_until_true(r, &r->b.in[k].fin);
    assert_int_equal(r->b.in[k].read, n);
    assert_false(r->b.in[k].mismatch);
    sw_qstream_finish(r->b.in[k].s);
    rig_until_true(r, &quick.closed);
}

static void nothing_is_left(struct rig *r)
{
    for (size_t i = 0; i < SLOW; i++)
        sw_qstream_finish(r->b.in[i].s);
    rig_while(r, buffered(&r->a) || buffered(&r->b) || r->a.q->memory.tx_beyond ||
                     r->b.q->memory.promised);
    assert_int_equal(buffered(&r->a), 0);
    assert_int_equal(buffered(&r->b), 0);
    assert_int_equal(r->a.q->memory.tx_beyond, 0);
    assert_int_equal(r->b.q->memory.promised, 0);
    assert_int_equal(r->a.c->flow.tx_beyond, 0);
    assert_int_equal(r->b.c->flow.promised, 0);
}

static void readers_that_take_nothing_are_held_back(void **state)
{
    static const struct {
        struct sw_quic_config cfg;
        uint64_t limit; /* for what is to be sent */
    } cases[] = {
        {{.max_buffered = 8 * MIB, .max_conn_buffered = 8 * MIB}, 4 * MIB},
        {{.max_buffered = 800 * MIB, .max_conn_buffered = 8 * MIB}, 4 * MIB},
        {{.max_buffered = 2, .max_conn_buffered = 2}, 1}, /* always full */
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct rig r;
        struct rig_stream slow[SLOW];

        rig_start(&r, &cases[i].cfg, &cases[i].cfg);
        rig_connect(&r);
        open_slow(&r, slow, 2 * MIB);
        /* 60 MiB were offered. */
        assert_true(buffered(&r.a) <= cases[i].limit + SLOW * QUIC_CHUNK);
        assert_true(r.a.c->flow.tx_beyond <= cases[i].limit + SLOW * (QUIC_CHUNK - QUIC_FLOOR));
        assert_true(times_held_back(&r.a) >= SLOW / 2);
        /* And 32 KiB each were sent. */
        assert_true(buffered(&r.b) <= SLOW * QUIC_FLOOR);
        /* Others move, and do not become slower by it than a chunk at a time. */
        run_quick(&r, 20 * MIB);
        release(&r, 2 * MIB);
        nothing_is_left(&r);
        rig_stop(&r);
    }
}

/* Without pressure nobody notices the limits. */
static void few_streams_hold_what_they_like(void **state)
{
    struct rig r;
    struct rig_stream t;

    rig_start(&r, NULL, NULL);
    r.b.hold_after = 0;
    rig_connect(&r);
    rig_open(&r, &t, 5 * MIB);
    rig_while(&r, t.written <= MIB || r.b.n_in == 0);
    rig_idle(&r, 50);
    assert_true(t.written > MIB && t.written <= QUIC_SEND_MAX + QUIC_FLOOR + QUIC_CHUNK);
    assert_int_equal(times_held_back(&r.a), 0);
    r.b.in[0].hold_after = UINT64_MAX;
    sw_qstream_resume(r.b.in[0].s);
    rig_until_true(&r, &r.b.in[0].fin);
    rig_stop(&r);
}

static void a_window_grows_as_it_is_used(void **state)
{
    struct sw_quic_config cfg = {.stream_window = MIB};
    struct rig r;
    struct rig_stream t;

    rig_start(&r, NULL, &cfg);
    rig_connect(&r);
    rig_open(&r, &t, 50 * MIB);
    rig_until(&r, &r.b.n_in, 1);
    assert_true(r.b.in[0].s->rx.window < MIB);
    rig_until(&r, &r.b.in[0].read, 40 * MIB);
    assert_int_equal(r.b.in[0].s->rx.window, MIB);
    assert_int_equal(r.b.q->memory.promised, MIB - QUIC_FLOOR);
    /* Reading on is stopped: no more than the window comes. */
    r.b.in[0].hold_after = r.b.in[0].read;
    rig_idle(&r, 100);
    assert_true(r.b.c->flow.held <= MIB);
    r.b.in[0].hold_after = UINT64_MAX;
    sw_qstream_resume(r.b.in[0].s);
    rig_until_true(&r, &r.b.in[0].fin);
    assert_false(r.b.in[0].mismatch);
    /* Who has read everything keeps nothing from others, however long its answer takes. */
    rig_while(&r, r.b.q->memory.promised != 0);
    assert_int_equal(r.b.q->memory.promised, 0);
    sw_qstream_finish(r.b.in[0].s);
    rig_until_true(&r, &r.b.in[0].closed);
    assert_int_equal(r.b.q->memory.promised, 0);
    rig_stop(&r);
}

/* Readers that were quick until their windows had grown, and then stop. */
static void grown_windows_stay_within_the_budget(void **state)
{
    struct sw_quic_config cfg = {.max_buffered = 8 * MIB, .max_conn_buffered = 8 * MIB};
    struct rig r;
    struct rig_stream t[SLOW];

    rig_start(&r, NULL, &cfg);
    rig_connect(&r);
    r.b.hold_after = MIB;
    for (size_t i = 0; i < SLOW; i++) {
        rig_open(&r, &t[i], 3 * MIB);
        rig_until(&r, &r.b.n_in, i + 1);
        rig_until(&r, &r.b.in[i].read, MIB);
    }
    rig_while(&r, r.b.c->flow.held <= MIB || times_held_back(&r.b) == 0);
    rig_idle(&r, 100);
    assert_true(r.b.q->memory.promised <= 4 * MIB);
    assert_true(r.b.q->memory.promised > MIB);
    assert_true(r.b.c->flow.held > MIB);
    assert_true(r.b.c->flow.held <= 4 * MIB + SLOW * QUIC_FLOOR);
    assert_true(times_held_back(&r.b) > 0);
    run_quick(&r, 20 * MIB);
    release(&r, 3 * MIB);
    nothing_is_left(&r);
    rig_stop(&r);
}

/* ---- the limits themselves, without packets ---- */

/* A connection without ngtcp2: its peer gives no credit. */
struct bare {
    struct sw_quic q;
    struct sw_qconn c;
    struct sw_qstream s;
};

static struct bare *bare_new(uint64_t max_buffered, uint64_t max_conn_buffered)
{
    struct bare *b = SW_NEW(struct bare);

    b->q.cfg.max_buffered = max_buffered;
    b->q.cfg.max_conn_buffered = max_conn_buffered;
    b->c.q = &b->q;
    b->s.c = &b->c;
    return b;
}

/*
 * Half of a limit is for what is to be sent. Below half of that a stream may fill its queue, from
 * there on only what its peer takes (nothing here) beside the floor.
 */
static void room_ends_where_the_limits_say(void **state)
{
    static const struct {
        uint64_t max;
        uint64_t max_conn;
        uint64_t used; /* by all connections */
        uint64_t used_conn;
        size_t room;
    } cases[] = {
        {64 * MIB, 64 * MIB, 0, 0, QUIC_SEND_MAX},
        {64 * MIB, 64 * MIB, 16 * MIB - 1, 0, QUIC_SEND_MAX},
        {64 * MIB, 64 * MIB, 16 * MIB, 0, QUIC_FLOOR},
        {64 * MIB, 8 * MIB, 2 * MIB - 1, 2 * MIB - 1, QUIC_SEND_MAX},
        {64 * MIB, 8 * MIB, 2 * MIB, 2 * MIB, QUIC_FLOOR},
        {64 * MIB, 8 * MIB, 15 * MIB, 0, QUIC_SEND_MAX}, /* others use it, not this one */
        {2, 2, 1, 1, QUIC_FLOOR},
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct bare *b = bare_new(cases[i].max, cases[i].max_conn);

        b->q.memory.tx_beyond = cases[i].used;
        b->c.flow.tx_beyond = cases[i].used_conn;
        if (sw_qmem_room(&b->s, 0) != cases[i].room)
            fail_msg("case %zu: %zu", i, sw_qmem_room(&b->s, 0));
        /* Who holds the floor already gets no more of it. */
        b->s.tx.mem = QUIC_FLOOR;
        assert_int_equal(sw_qmem_room(&b->s, 0), cases[i].room == QUIC_FLOOR ? 0 : cases[i].room);
        sw_free(b);
    }
}

static void only_what_is_beyond_the_floor_counts(void **state)
{
    struct bare *b = bare_new(64 * MIB, 64 * MIB);

    sw_qmem_count(&b->s, QUIC_FLOOR);
    assert_int_equal(b->q.memory.tx, QUIC_FLOOR);
    assert_int_equal(b->q.memory.tx_beyond, 0);
    sw_qmem_count(&b->s, QUIC_CHUNK);
    assert_int_equal(b->q.memory.tx_beyond, QUIC_CHUNK);
    assert_int_equal(b->c.flow.tx_beyond, QUIC_CHUNK);
    sw_qmem_count(&b->s, -QUIC_CHUNK);
    assert_int_equal(b->q.memory.tx_beyond, 0);
    assert_int_equal(b->c.flow.tx_beyond, 0);
    sw_qmem_count(&b->s, -QUIC_FLOOR);
    assert_int_equal(b->q.memory.tx, 0);
    sw_free(b);
}

static uint64_t still(void)
{
    return SW_NS_PER_S;
}

/* A reader that is as quick as can be gets half of what is left of the smaller budget, once. */
static void windows_grow_within_the_budgets(void **state)
{
    static const struct {
        uint64_t max;
        uint64_t max_conn;
    } cases[] = {{MIB, 64 * MIB}, {64 * MIB, MIB}};

    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct bare *b = bare_new(cases[i].max, cases[i].max_conn);
        uint64_t largest = 0;

        b->q.cfg.first_window = QUIC_FLOOR;
        b->q.cfg.stream_window = 16 * MIB;
        b->q.loop = sw_loop_new(NULL);
        sw_loop_set_clock(b->q.loop, still);
        sw_qmem_stream_begin(&b->s);
        while (b->s.rx.read < MIB) {
            (void)sw_qmem_taken(&b->s, b->s.rx.window);
            largest = sw_max(largest, b->s.rx.window);
        }
        /* It was at four floors, three of them out of the budget. */
        assert_int_equal(largest, QUIC_FLOOR + (MIB / 2 - 3 * QUIC_FLOOR) / 2);
        assert_int_equal(b->q.memory.promised, b->s.rx.window - QUIC_FLOOR);
        assert_int_equal(b->c.flow.promised, b->s.rx.window - QUIC_FLOOR);
        sw_qmem_stream_end(&b->s);
        assert_int_equal(b->q.memory.promised, 0);
        assert_int_equal(b->c.flow.promised, 0);
        sw_loop_free(b->q.loop);
        sw_free(b);
    }
}

/* What an endpoint without options may hold, and a connection of it. */
static void defaults_are_what_the_header_says(void **state)
{
    struct rig r;

    rig_start(&r, NULL, NULL);
    assert_int_equal(r.a.q->cfg.max_buffered, 128 * MIB);
    assert_int_equal(r.a.q->cfg.max_conn_buffered, 64 * MIB);
    assert_int_equal(r.a.q->cfg.first_window, QUIC_FLOOR);
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_that_take_nothing_are_held_back),
        cmocka_unit_test(few_streams_hold_what_they_like),
        cmocka_unit_test(a_window_grows_as_it_is_used),
        cmocka_unit_test(grown_windows_stay_within_the_budget),
        cmocka_unit_test(room_ends_where_the_limits_say),
        cmocka_unit_test(only_what_is_beyond_the_floor_counts),
        cmocka_unit_test(windows_grow_within_the_budgets),
        cmocka_unit_test(defaults_are_what_the_header_says),
    };

    return cmocka_run_group_tests_name("quic memory", tests, NULL, NULL);
}
