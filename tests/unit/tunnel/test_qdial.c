/* SPDX-License-Identifier: Apache-2.0 */
/* The client half: one connection per node, and what its callers hear when it fails. */
#include "qrig.h"
#include "wild.h"

static struct sw_addr nowhere = {.ip = {.family = 4, .b = {127, 0, 0, 1}}, .port = 1};

/* A call that the device refuses at once: enough to see where it went. */
static struct call *simple(struct qrig *r, uint8_t node)
{
    r->verdict.status = 403;
    return call_connect(r, node, &nowhere);
}

/* The same, answered. */
static struct call *answered(struct qrig *r, uint8_t node)
{
    struct call *c = simple(r, node);

    RUN_UNTIL(r->loop, c->status);
    assert_int_equal(c->status, 403);
    return c;
}

/* Half a head: the device says nothing, as with a tunnel that runs. */
static struct call *running(struct qrig *r, uint8_t node)
{
    struct call *c = call_text(r, node, "CONNECT a:1 HTTP/1.1\r\nhost: a");

    RUN_UNTIL(r->loop, c->writables);
    return c;
}

static struct qrig *started(void)
{
    struct qrig *r = qrig_new();

    qrig_start(r);
    return r;
}

/* Ends the calls, then everything. */
static void done(struct qrig *r, struct call **c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        call_free(c[i]);
    qrig_free(r);
}

static void many_calls_share_one_dial(void **state)
{
    enum { N = 100 };
    struct qrig *r = started();
    struct call *c[N];

    (void)state;
    for (size_t i = 0; i < N; i++)
        c[i] = simple(r, 1);
    assert_int_equal(r->fake.dials, 0); /* nothing from inside */
    for (size_t i = 0; i < N; i++)
        RUN_UNTIL(r->loop, c[i]->status == 403);
    assert_int_equal(r->fake.dials, 1);
    assert_int_equal(r->lookups, 1);
    for (size_t i = 0; i < N; i++)
        call_free(c[i]);
    c[0] = answered(r, 2);
    assert_int_equal(r->fake.dials, 2);
    assert_int_equal(sw_qdial_conns(r->dial), 2);
    call_free(c[0]);
    qrig_free(r);
}

static void failures_are_shared_and_named(void **state)
{
    static const struct {
        enum fake_dial mode;
        int lookup;
        uint64_t wait_ns;
        enum sw_qfail fail;
    } cases[] = {
        {FAKE_DIAL_SILENT, 0, 10 * SW_NS_PER_S, SW_QFAIL_DIAL_TIMEOUT},
        {FAKE_DIAL_REFUSED, 0, 0, SW_QFAIL_NOT_ADMITTED},
        {FAKE_DIAL_IDENTITY, 0, 0, SW_QFAIL_IDENTITY},
        {FAKE_DIAL_FULL, 0, 0, SW_QFAIL_LIMIT},
        {FAKE_DIAL_OK, -1, 10 * SW_NS_PER_S, SW_QFAIL_LOOKUP},
        {FAKE_DIAL_OK, SW_QFAIL_UNKNOWN_NODE, 0, SW_QFAIL_UNKNOWN_NODE},
        {FAKE_DIAL_OK, SW_QFAIL_OFFLINE, 0, SW_QFAIL_OFFLINE},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct qrig *r = qrig_new();
        struct call *c[3];

        r->fake.mode = cases[i].mode;
        r->lookup = cases[i].lookup;
        qrig_start(r);
        for (size_t k = 0; k < 3; k++)
            c[k] = simple(r, 1);
        rig_settle(r->loop);
        if (cases[i].wait_ns) {
            assert_int_equal(c[0]->ended, 0);
            rig_advance(r->loop, cases[i].wait_ns);
        }
        for (size_t k = 0; k < 3; k++) {
            assert_int_equal(c[k]->ended, 1);
            assert_int_equal(c[k]->fail, cases[i].fail);
        }
        assert_int_equal(r->dial_failures, 1);
        assert_int_equal(r->lookups, 1);
        assert_int_equal(r->cancelled, cases[i].lookup < 0);
        /* The failure is not remembered, or not for long. */
        r->fake.mode = FAKE_DIAL_OK;
        r->lookup = 0;
        call_free(c[0]);
        if (cases[i].fail == SW_QFAIL_DIAL_TIMEOUT) {
            c[0] = simple(r, 1);
            RUN_UNTIL(r->loop, c[0]->ended);
            assert_int_equal(c[0]->fail, SW_QFAIL_DIAL_TIMEOUT);
            assert_int_equal(r->fake.dials, 1);
            call_free(c[0]);
            rig_advance(r->loop, 3 * SW_NS_PER_S);
        }
        c[0] = answered(r, 1);
        for (size_t k = 0; k < 3; k++)
            call_free(c[k]);
        qrig_free(r);
    }
}

static void an_idle_connection_is_closed_and_made_again(void **state)
{
    struct qrig *r = started();
    struct call *c;

    (void)state;
    c = answered(r, 1);
    rig_advance(r->loop, 60 * SW_NS_PER_S); /* while a call lives */
    assert_int_equal(sw_qdial_conns(r->dial), 1);
    call_free(c);
    rig_advance(r->loop, 3590 * SW_NS_PER_S);
    assert_int_equal(sw_qdial_conns(r->dial), 1);
    rig_advance(r->loop, 20 * SW_NS_PER_S);
    assert_int_equal(sw_qdial_conns(r->dial), 0);
    assert_int_equal(r->closed_idle, 1);
    c = answered(r, 1);
    assert_int_equal(r->fake.dials, 2);
    done(r, &c, 1);
}

static void the_oldest_idle_connection_makes_room(void **state)
{
    struct qrig *r = qrig_new();
    struct call *c[4];

    (void)state;
    r->dc.max_conns = 2;
    r->dc.idle_ns = 1000 * SW_NS_PER_S;
    qrig_start(r);
    c[0] = simple(r, 1);
    c[1] = simple(r, 2);
    RUN_UNTIL(r->loop, c[0]->status && c[1]->status);
    c[2] = simple(r, 3);
    RUN_UNTIL(r->loop, c[2]->ended);
    assert_int_equal(c[2]->fail, SW_QFAIL_LIMIT); /* both are in use */
    call_free(c[1]);
    call_free(c[0]); /* node 2 is idle longer */
    c[3] = answered(r, 3);
    assert_string_equal(sw_qdial_state(r->dial, &(struct sw_nodeid){0}), "none");
    RUN_UNTIL(r->loop, r->closed_idle == 1);
    c[0] = answered(r, 1); /* still there */
    assert_int_equal(r->fake.dials, 3);
    call_free(c[0]);
    call_free(c[2]);
    call_free(c[3]);
    qrig_free(r);
}

static void calls_wait_for_streams(void **state)
{
    struct qrig *r = qrig_new();
    struct call *c[5];

    (void)state;
    r->fake.max_streams = 2;
    r->dc.max_calls = 4;
    qrig_start(r);
    for (size_t i = 0; i < 5; i++)
        c[i] = simple(r, 1);
    RUN_UNTIL(r->loop, c[4]->ended);
    assert_int_equal(c[4]->fail, SW_QFAIL_LIMIT);
    RUN_UNTIL(r->loop, c[0]->status && c[1]->status);
    rig_settle(r->loop);
    assert_int_equal(c[2]->status, 0);
    call_free(c[0]);
    RUN_UNTIL(r->loop, c[2]->status);
    assert_int_equal(c[3]->status, 0);
    call_free(c[1]);
    RUN_UNTIL(r->loop, c[3]->status);
    for (size_t i = 2; i < 5; i++)
        call_free(c[i]);
    qrig_free(r);
}

/* A device with few streams: others get another connection, then they wait, and not for ever. */
static void a_full_connection_gets_a_second(void **state)
{
    enum { N = 4 };
    struct qrig *r = qrig_new();
    struct call *c[N];
    struct sw_nodeid id;

    (void)state;
    memset(id.b, 1, sizeof(id.b));
    r->fake.max_streams = 1;
    r->dc.max_conns_of_node = 2;
    r->dc.lookup_timeout_ns = SW_NS_PER_S;
    r->dc.wait_ns = 4 * SW_NS_PER_S;
    qrig_start(r);
    for (size_t i = 0; i < N; i++)
        c[i] = simple(r, 1);
    RUN_UNTIL(r->loop, c[0]->status == 403);
    rig_settle(r->loop);
    assert_int_equal(r->fake.dials, 1); /* it may be over in a moment */
    rig_advance(r->loop, 1500 * SW_NS_PER_MS);
    RUN_UNTIL(r->loop, c[1]->status == 403);
    assert_int_equal(r->fake.dials, 2);
    assert_int_equal(r->apart_full, 1);
    rig_advance(r->loop, SW_NS_PER_S);
    assert_int_equal(r->fake.dials, 2);
    call_free(c[1]);
    RUN_UNTIL(r->loop, c[2]->status == 403);
    assert_int_equal(c[3]->ended, 0);
    rig_advance(r->loop, 3 * SW_NS_PER_S);
    assert_int_equal(c[3]->ended, 1);
    assert_int_equal(c[3]->fail, SW_QFAIL_STREAM);
    /* The first one goes with its last call. */
    assert_int_equal(sw_qdial_conns(r->dial), 2);
    call_free(c[0]);
    RUN_UNTIL(r->loop, sw_qdial_conns(r->dial) == 1);
    /* And none is left when the node goes. */
    call_free(c[3]);
    c[3] = simple(r, 1);
    rig_settle(r->loop);
    rig_advance(r->loop, 1500 * SW_NS_PER_MS);
    RUN_UNTIL(r->loop, c[3]->status == 403);
    sw_qdial_forget(r->dial, &id);
    RUN_UNTIL(r->loop, c[2]->ended && c[3]->ended && sw_qdial_conns(r->dial) == 0);
    assert_int_equal(c[2]->fail, SW_QFAIL_OFFLINE);
    assert_int_equal(c[3]->fail, SW_QFAIL_OFFLINE);
    call_free(c[2]);
    call_free(c[3]);
    qrig_free(r);
}

/*
 * The time that a call waits for a stream begins when the connection stands, whenever the call
 * came; neither the dial's time nor a second connection's adds to it.
 */
static void the_wait_for_a_stream_is_bounded(void **state)
{
    (void)state;
    for (size_t conns = 1; conns <= 2; conns++) {
        struct qrig *r = qrig_new();
        struct call *c[3];

        r->fake.max_streams = 1;
        r->dc.max_conns_of_node = conns;
        r->dc.lookup_timeout_ns = 60 * SW_NS_PER_S;
        r->dc.wait_ns = 4 * SW_NS_PER_S;
        qrig_start(r);
        c[0] = simple(r, 1);
        c[1] = simple(r, 1);
        RUN_UNTIL(r->loop, c[0]->status);
        r->fake.mode = FAKE_DIAL_SILENT;
        rig_advance(r->loop, 2 * SW_NS_PER_S);
        assert_int_equal(r->fake.dials, conns);
        c[2] = simple(r, 1);
        rig_settle(r->loop);
        rig_advance(r->loop, 1900 * SW_NS_PER_MS);
        assert_int_equal(c[1]->ended, 0);
        rig_advance(r->loop, 200 * SW_NS_PER_MS);
        assert_int_equal(c[1]->ended, 1);
        assert_int_equal(c[1]->fail, SW_QFAIL_STREAM);
        assert_int_equal(c[0]->ended, 0);
        assert_int_equal(c[2]->ended, 0); /* it came 2 s later */
        done(r, c, 3);
    }
}

/* A wait for a stream is part of the time to answer, and no sign that the node is gone. */
static void the_wait_for_a_stream_counts_as_time_to_answer(void **state)
{
    static const struct {
        uint64_t wait_s;
        size_t dials; /* with a call after it */
    } cases[] = {{10, 2}, {14, 1}};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct qrig *r = qrig_new();
        struct call *c[3];

        r->fake.max_streams = 1;
        r->dc.max_conns_of_node = 1;
        r->sc.head_timeout_ns = 1000 * SW_NS_PER_S;
        qrig_start(r);
        c[0] = running(r, 1);
        c[1] = call_text(r, 1, "CONNECT a:1 HTTP/1.1\r\nhost: a");
        rig_settle(r->loop);
        rig_advance(r->loop, cases[i].wait_s * SW_NS_PER_S);
        assert_int_equal(c[1]->writables, 0);
        call_free(c[0]);
        RUN_UNTIL(r->loop, c[1]->writables);
        rig_advance(r->loop, (15 - cases[i].wait_s) * SW_NS_PER_S - 100 * SW_NS_PER_MS);
        assert_int_equal(c[1]->ended, 0);
        rig_advance(r->loop, 200 * SW_NS_PER_MS);
        assert_int_equal(c[1]->ended, 1);
        assert_int_equal(c[1]->fail, SW_QFAIL_ANSWER_TIMEOUT);
        c[2] = answered(r, 1);
        assert_int_equal(r->fake.dials, cases[i].dials);
        done(r, c + 1, 2);
    }
}

/* Nobody waits any more when there is room again: it is idle like any other. */
static void a_connection_that_was_full_is_closed_when_idle(void **state)
{
    struct qrig *r = qrig_new();
    struct call *c[2];

    (void)state;
    r->fake.max_streams = 1;
    qrig_start(r);
    c[0] = simple(r, 1);
    c[1] = simple(r, 1);
    RUN_UNTIL(r->loop, c[0]->status);
    rig_settle(r->loop);
    call_free(c[1]);
    call_free(c[0]);
    rig_settle(r->loop);
    assert_int_equal(sw_qdial_conns(r->dial), 1);
    rig_advance(r->loop, 3700 * SW_NS_PER_S);
    assert_int_equal(sw_qdial_conns(r->dial), 0);
    assert_int_equal(r->closed_idle, 1);
    qrig_free(r);
}

/* A connection that is found dead costs a call nothing, when nobody can have acted on it. */
static void a_dead_connection_is_replaced_once(void **state)
{
    static const struct {
        bool reused;
        const char *method;
        bool body;
        bool again;
    } cases[] = {
        {true, "CONNECT", false, true},
        {false, "CONNECT", false, false},
        {true, "CONNECT", true, false},
        {true, "POST", false, false},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct qrig *r = qrig_new();
        struct call *warm;
        struct call *c;

        r->sc.head_timeout_ns = 1000 * SW_NS_PER_S;
        qrig_start(r);
        warm = answered(r, 1);
        if (!cases[i].reused) { /* the call comes with the dial */
            call_free(warm);
            rig_advance(r->loop, 3700 * SW_NS_PER_S);
        }
        /* Half a head: the device says nothing. */
        c = call_raw(r, 1, SW_SLICE_LIT("CONNECT a:1 HTTP/1.1\r\nhost: a"), cases[i].method);
        RUN_UNTIL(r->loop, c->writables == 1);
        if (cases[i].body)
            assert_int_equal(sw_qcall_write(&c->q, "x", 1), 1);
        fake_break(r->server_conn);
        if (cases[i].again) {
            RUN_UNTIL(r->loop, c->writables == 2);
            assert_int_equal(c->ended, 0);
            assert_int_equal(r->fake.dials, 2);
            fake_break(r->server_conn);
        }
        RUN_UNTIL(r->loop, c->ended);
        assert_int_equal(c->fail, SW_QFAIL_LOST);
        if (cases[i].reused)
            call_free(warm);
        call_free(c);
        qrig_free(r);
    }
}

/*
 * A device that died does not say so: what it does not confirm goes to a new connection, and what
 * may not be sent twice waits on the old one.
 */
static void a_silent_connection_is_replaced(void **state)
{
    struct qrig *r = started();
    struct call *c[4];

    (void)state;
    c[0] = running(r, 1);
    rig_settle(r->loop);
    fake_die(&r->fake);
    c[1] = simple(r, 1);
    c[2] = call_raw(r, 1, SW_SLICE_LIT("POST http://a/ HTTP/1.1\r\nhost: a\r\n\r\n"), "POST");
    rig_settle(r->loop);
    rig_advance(r->loop, 2 * SW_NS_PER_S);
    assert_int_equal(r->fake.dials, 1);
    rig_advance(r->loop, SW_NS_PER_S);
    assert_int_equal(r->fake.dials, 2);
    assert_int_equal(r->apart_silent, 1);
    fake_revive(&r->fake);
    RUN_UNTIL(r->loop, c[1]->status == 403 && c[2]->status == 403);
    assert_int_equal(c[0]->ended, 0);
    assert_int_equal(r->fake.dials, 2);
    assert_int_equal(sw_qdial_conns(r->dial), 2);
    call_free(c[1]);
    call_free(c[2]);
    rig_settle(r->loop);
    assert_int_equal(sw_qdial_conns(r->dial), 2); /* the old one has a tunnel */
    call_free(c[0]);
    RUN_UNTIL(r->loop, sw_qdial_conns(r->dial) == 1);
    /* It dies for good: the new dial has less time, and others hear of it at once. */
    fake_die(&r->fake);
    r->fake.mode = FAKE_DIAL_SILENT;
    c[0] = simple(r, 1);
    rig_settle(r->loop);
    rig_advance(r->loop, 3 * SW_NS_PER_S);
    assert_int_equal(r->fake.dials, 3);
    rig_advance(r->loop, 3 * SW_NS_PER_S);
    assert_int_equal(c[0]->ended, 1);
    assert_int_equal(c[0]->fail, SW_QFAIL_DIAL_TIMEOUT);
    c[3] = simple(r, 1);
    RUN_UNTIL(r->loop, c[3]->ended);
    assert_int_equal(r->fake.dials, 3);
    call_free(c[0]);
    call_free(c[3]);
    qrig_free(r);
}

/* The network was away for a while: the connection that has the tunnels serves new calls, too. */
static void a_connection_that_is_heard_again_is_used(void **state)
{
    struct qrig *r = started();
    struct call *c[4];

    (void)state;
    c[0] = running(r, 1);
    fake_die(&r->fake);
    r->fake.mode = FAKE_DIAL_SILENT;
    c[1] = simple(r, 1);
    rig_settle(r->loop);
    rig_advance(r->loop, 3 * SW_NS_PER_S);
    rig_advance(r->loop, 3 * SW_NS_PER_S);
    assert_int_equal(c[1]->fail, SW_QFAIL_DIAL_TIMEOUT);
    assert_int_equal(c[0]->ended, 0);
    assert_int_equal(sw_qdial_conns(r->dial), 1);
    fake_revive(&r->fake);
    c[2] = answered(r, 1); /* although the failure is remembered */
    assert_int_equal(r->fake.dials, 2);
    assert_int_equal(r->apart_recovered, 1);
    /* Heard again while others wait for a dial. */
    fake_die(&r->fake);
    c[3] = simple(r, 1);
    rig_settle(r->loop);
    rig_advance(r->loop, 3 * SW_NS_PER_S);
    assert_int_equal(r->fake.dials, 3);
    fake_revive(&r->fake);
    rig_advance(r->loop, 3 * SW_NS_PER_S);
    RUN_UNTIL(r->loop, c[3]->status == 403);
    assert_int_equal(r->fake.dials, 3);
    assert_int_equal(sw_qdial_conns(r->dial), 1);
    done(r, c, 4);
}

/* An idle connection that missed its signs of life is not worth a wait. */
static void a_stale_connection_is_not_used(void **state)
{
    struct qrig *r = started();
    struct call *c;

    (void)state;
    c = answered(r, 1);
    call_free(c);
    fake_die(&r->fake);
    rig_advance(r->loop, 8 * SW_NS_PER_S);
    c = simple(r, 1);
    rig_settle(r->loop);
    assert_int_equal(r->fake.dials, 2);
    done(r, &c, 1);
}

/* One stream that waits behind others is no reason to leave a connection that lives. */
static void a_slow_stream_does_not_cost_the_connection(void **state)
{
    struct qrig *r = qrig_new();
    struct call *c[2];

    (void)state;
    r->sc.head_timeout_ns = 1000 * SW_NS_PER_S;
    qrig_start(r);
    c[0] = answered(r, 1);
    fake_die(&r->fake);
    c[1] = simple(r, 1);
    rig_settle(r->loop);
    rig_advance(r->loop, 2 * SW_NS_PER_S);
    r->fake.dead = false; /* other packets come, and this one does not */
    rig_advance(r->loop, 8 * SW_NS_PER_S);
    assert_int_equal(r->fake.dials, 1);
    assert_int_equal(c[1]->ended, 0);
    fake_revive(&r->fake);
    RUN_UNTIL(r->loop, c[1]->status == 403);
    done(r, c, 2);
}

/* A device that stands still right after the handshake: the first call is worth a second dial, too.
 */
static void a_new_connection_that_goes_silent_is_replaced(void **state)
{
    struct qrig *r = started();
    struct call *c;

    (void)state;
    fake_die(&r->fake);
    c = simple(r, 1);
    rig_settle(r->loop);
    rig_advance(r->loop, 2 * SW_NS_PER_S);
    assert_int_equal(r->fake.dials, 1);
    assert_int_equal(c->ended, 0);
    rig_advance(r->loop, SW_NS_PER_S);
    fake_revive(&r->fake);
    RUN_UNTIL(r->loop, c->status || c->ended);
    assert_int_equal(c->status, 403);
    assert_int_equal(r->fake.dials, 2);
    RUN_UNTIL(r->loop, sw_qdial_conns(r->dial) == 1); /* nothing ran on the first */
    done(r, &c, 1);
}

/* QUIC gave it up under a tunnel: who asks in the next moment hears so at once, and later ones
 * dial. */
static void a_connection_lost_to_silence_is_remembered(void **state)
{
    struct qrig *r = started();
    struct call *c[3];

    (void)state;
    c[0] = running(r, 1);
    r->fake.mode = FAKE_DIAL_SILENT;
    c[0]->q.sent = 1; /* it may not be sent again */
    fake_break(r->server_conn);
    RUN_UNTIL(r->loop, c[0]->ended);
    c[1] = simple(r, 1);
    RUN_UNTIL(r->loop, c[1]->ended);
    assert_int_equal(c[1]->fail, SW_QFAIL_DIAL_TIMEOUT);
    assert_int_equal(r->fake.dials, 1);
    r->fake.mode = FAKE_DIAL_OK;
    rig_advance(r->loop, 3 * SW_NS_PER_S);
    c[2] = answered(r, 1);
    assert_int_equal(r->fake.dials, 2);
    done(r, c, 3);
}

static void a_node_that_never_answers_is_given_up(void **state)
{
    struct qrig *r = qrig_new();
    struct call *c;

    (void)state;
    r->sc.head_timeout_ns = 1000 * SW_NS_PER_S;
    qrig_start(r);
    c = running(r, 1);
    rig_advance(r->loop, 16 * SW_NS_PER_S);
    assert_int_equal(c->ended, 1);
    assert_int_equal(c->fail, SW_QFAIL_ANSWER_TIMEOUT);
    call_free(c);
    c = answered(r, 1); /* not on that connection again */
    assert_int_equal(r->fake.dials, 2);
    done(r, &c, 1);
}

/* ---- a device that is not ours ---- */

static void strange_answers_are_no_answers(void **state)
{
    static char huge[9000];
    struct {
        struct sw_slice say;
        bool fin;
        unsigned status;
        enum sw_qfail fail;
        const char *body;
    } cases[] = {
        {SW_SLICE_LIT("HTTP/1.1 200 Connection Established\r\n\r\nhello"), true, 200, 0, "hello"},
        {SW_SLICE_LIT("HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\n\r\nx"), true, 200, 0, "x"},
        {SW_SLICE_LIT("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc"), true, 200, 0, "abc"},
        {SW_SLICE_LIT(""), true, 0, SW_QFAIL_BAD_ANSWER, ""},
        {SW_SLICE_LIT("HTTP/1.1 200 OK\r\n"), true, 0, SW_QFAIL_BAD_ANSWER, ""},
        {SW_SLICE_LIT("SSH-2.0-x\r\n"), false, 0, SW_QFAIL_BAD_ANSWER, ""},
        {sw_slice(huge, sizeof(huge)), false, 0, SW_QFAIL_BAD_ANSWER, ""},
    };

    (void)state;
    memset(huge, 'a', sizeof(huge));
    memcpy(huge, "HTTP/1.1 200 OK\r\nx: ", 20);
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct qrig *r = qrig_new();
        struct wild w = {.say = cases[i].say, .fin = cases[i].fin};
        struct call *c;

        r->fake.accepted = w_accepted;
        r->fake.arg = &w;
        r->fake.step = i % 2 ? 5 : 0;
        qrig_start(r);
        c = call_connect(r, 1, &nowhere);
        RUN_UNTIL(r->loop, c->writables);
        sw_qcall_finish(&c->q);
        RUN_UNTIL(r->loop, c->ended);
        assert_int_equal(c->fail, cases[i].fail);
        assert_int_equal(c->status, cases[i].status);
        assert_true(call_body_is(c, cases[i].body));
        call_free(c);
        qrig_free(r);
    }
}

static void draining_lets_calls_end(void **state)
{
    struct qrig *r = started();
    struct call *c[2];

    (void)state;
    c[0] = answered(r, 1);
    sw_qdial_drain(r->dial);
    c[1] = simple(r, 1);
    assert_int_equal(c[1]->ended, 0);
    RUN_UNTIL(r->loop, c[1]->ended);
    assert_int_equal(c[1]->fail, SW_QFAIL_DRAINING);
    assert_int_equal(sw_qdial_conns(r->dial), 1);
    call_free(c[0]);
    rig_advance(r->loop, SW_NS_PER_MS);
    RUN_UNTIL(r->loop, sw_qdial_conns(r->dial) == 0);
    call_free(c[1]);
    qrig_free(r);
}

static void a_removed_node_loses_its_calls(void **state)
{
    struct qrig *r = qrig_new();
    struct sw_nodeid id;
    struct call *c;

    (void)state;
    memset(id.b, 1, sizeof(id.b));
    qrig_start(r);
    c = answered(r, 1);
    assert_string_equal(sw_qdial_state(r->dial, &id), "connected");
    sw_qdial_forget(r->dial, &id);
    assert_int_equal(c->ended, 1);
    assert_int_equal(c->fail, SW_QFAIL_OFFLINE);
    call_free(c);
    r->fake.mode = FAKE_DIAL_SILENT;
    c = simple(r, 1);
    rig_settle(r->loop);
    assert_string_equal(sw_qdial_state(r->dial, &id), "dialing");
    sw_qdial_forget(r->dial, &id);
    assert_int_equal(c->ended, 1);
    done(r, &c, 1);
}

static void a_call_may_be_cancelled_at_any_time(void **state)
{
    (void)state;
    for (int turns = 0; turns < 8; turns++) {
        struct qrig *r = qrig_new();
        struct call *c;

        qrig_start(r);
        c = simple(r, 1);
        for (int i = 0; i < turns; i++)
            sw_loop_turn(r->loop, 0);
        call_free(c);
        rig_settle(r->loop);
        assert_int_equal(sw_qdial_calls(r->dial), 0);
        qrig_free(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_calls_share_one_dial),
        cmocka_unit_test(failures_are_shared_and_named),
        cmocka_unit_test(an_idle_connection_is_closed_and_made_again),
        cmocka_unit_test(the_oldest_idle_connection_makes_room),
        cmocka_unit_test(calls_wait_for_streams),
        cmocka_unit_test(a_dead_connection_is_replaced_once),
        cmocka_unit_test(a_full_connection_gets_a_second),
        cmocka_unit_test(the_wait_for_a_stream_is_bounded),
        cmocka_unit_test(the_wait_for_a_stream_counts_as_time_to_answer),
        cmocka_unit_test(a_connection_that_was_full_is_closed_when_idle),
        cmocka_unit_test(a_silent_connection_is_replaced),
        cmocka_unit_test(a_connection_that_is_heard_again_is_used),
        cmocka_unit_test(a_stale_connection_is_not_used),
        cmocka_unit_test(a_slow_stream_does_not_cost_the_connection),
        cmocka_unit_test(a_new_connection_that_goes_silent_is_replaced),
        cmocka_unit_test(a_connection_lost_to_silence_is_remembered),
        cmocka_unit_test(a_node_that_never_answers_is_given_up),
        cmocka_unit_test(strange_answers_are_no_answers),
        cmocka_unit_test(draining_lets_calls_end),
        cmocka_unit_test(a_removed_node_loses_its_calls),
        cmocka_unit_test(a_call_may_be_cancelled_at_any_time),
    };

    return cmocka_run_group_tests_name("qdial", tests, NULL, NULL);
}
