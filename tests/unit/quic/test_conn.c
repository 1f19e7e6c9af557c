/* SPDX-License-Identifier: Apache-2.0 */
/* Connections between two endpoints: how they begin, what they refuse, how they end. */
#include "rig.h"

#include <ngtcp2/ngtcp2.h>

static void a_dial_by_key_connects(void **state)
{
    struct rig r;
    struct sw_quic_stats st;

    rig_start(&r, NULL, NULL);
    rig_connect(&r);
    assert_true(sw_nodeid_eq(sw_qconn_peer(r.b.c), sw_rawkey_id(r.a.key)));
    assert_true(sw_nodeid_eq(sw_qconn_peer(r.a.c), sw_rawkey_id(r.b.key)));
    assert_true(sw_slice_eq_str(sw_qconn_alpn(r.b.c), "test/1"));
    assert_true(sw_slice_eq_str(sw_qconn_alpn(r.a.c), "test/1"));
    assert_true(sw_qconn_dialled(r.a.c) && !sw_qconn_dialled(r.b.c));
    assert_int_equal(sw_qconn_path(r.a.c), SW_QPATH_DIRECT);
    assert_int_equal(sw_qconn_addr(r.a.c).ip.family, 4);
    assert_int_equal(r.b.q->conn.half_open, 0);
    sw_quic_stats(r.b.q, &st);
    assert_int_equal(st.accepted, 1);
    sw_qconn_close(r.a.c, 42, "enough");
    rig_until(&r, &r.b.closed, 1);
    rig_until(&r, &r.a.closed, 1);
    assert_int_equal(r.b.why.kind, SW_QCLOSE_APP);
    assert_int_equal(r.b.why.code, 42);
    assert_string_equal(r.b.why_text, "enough");
    assert_int_equal(r.a.why.kind, SW_QCLOSE_LOCAL);
    rig_stop(&r);
}

static void bytes_come_back_as_they_went(void **state)
{
    static const uint64_t sizes[] = {0, 1, 5000, 300000, 5000000};

    for (size_t i = 0; i < SW_ARRAY_LEN(sizes); i++) {
        struct rig r;
        struct rig_stream t;

        rig_start(&r, NULL, NULL);
        r.b.echo = true;
        rig_connect(&r);
        rig_open(&r, &t, sizes[i]);
        rig_until_true(&r, &t.closed);
        assert_true(t.fin && !t.lost && !t.mismatch && !t.stopped && !t.reset);
        assert_int_equal(t.read, sizes[i]);
        assert_false(r.b.in[0].stopped);
        assert_true(r.b.in[0].fin && !r.b.in[0].mismatch);
        rig_until_true(&r, &r.b.in[0].closed);
        assert_int_equal(sw_qconn_streams(r.a.c), 0);
        rig_stop(&r);
    }
}

static void a_peer_that_is_not_admitted_hears_so(void **state)
{
    struct rig r;
    struct sw_quic_stats st;

    rig_start(&r, NULL, NULL);
    r.b.deny = true;
    assert_non_null(rig_dial(&r, "test/1"));
    rig_until(&r, &r.a.closed, 1);
    assert_int_equal(r.a.ready, 0);
    assert_int_equal(r.a.why.kind, SW_QCLOSE_TRANSPORT);
    assert_int_equal(r.a.why.code, 2);
    assert_int_equal(r.b.accepted, 0);
    sw_quic_stats(r.b.q, &st);
    assert_int_equal(st.refused, 1);
    rig_stop(&r);
}

static void another_protocol_is_refused(void **state)
{
    struct rig r;

    rig_start(&r, NULL, NULL);
    assert_non_null(rig_dial(&r, "other"));
    rig_until(&r, &r.a.closed, 1);
    assert_int_equal(r.a.why.kind, SW_QCLOSE_TRANSPORT);
    assert_int_equal(r.a.why.code, 0x178);
    assert_int_equal(r.b.accepted, 0);
    assert_int_equal(r.b.q->conn.half_open, 0);
    rig_stop(&r);
}

static void another_key_is_refused(void **state)
{
    struct rig r;
    struct sw_rawkey *other = sw_rawkey_generate(NULL);
    struct sw_addr bound[2];
    struct sw_quic_target t = {.id = *sw_rawkey_id(other), .addrs = bound};

    rig_start(&r, NULL, NULL);
    t.n_addrs = sw_quic_bound(r.b.q, bound);
    r.a.c = sw_quic_dial(r.a.q, &t, SW_SLICE_LIT("test/1"), &rig_conn_ops, &r.a, NULL);
    assert_non_null(r.a.c);
    rig_until(&r, &r.a.closed, 1);
    assert_int_equal(r.a.why.kind, SW_QCLOSE_IDENTITY);
    assert_int_equal(r.a.ready, 0);
    rig_stop(&r);
    sw_rawkey_free(other);
}

static void what_cannot_be_dialled_is_said_at_once(void **state)
{
    struct rig r;
    struct sw_addr a;
    struct sw_addr bound[2];
    struct sw_quic_target t = {.addrs = &a};
    struct sw_err err;

    rig_start(&r, NULL, NULL);
    t.id = *sw_rawkey_id(r.b.key);
    assert_null(sw_quic_dial(r.a.q, &t, SW_SLICE_LIT("x"), &rig_conn_ops, &r.a, &err));
    assert_int_equal(err.rc, SW_EINVAL);
    /* A family without a socket. */
    assert_int_equal(sw_addr_parse(SW_SLICE_LIT("[::1]:5"), &a, NULL), SW_OK);
    t.n_addrs = 1;
    assert_null(sw_quic_dial(r.a.q, &t, SW_SLICE_LIT("x"), &rig_conn_ops, &r.a, &err));
    assert_int_equal(err.rc, SW_EINVAL);
    /* Ourselves, no protocol, no key. */
    assert_int_equal(sw_quic_bound(r.b.q, bound), 1);
    a = bound[0];
    assert_null(sw_quic_dial(r.a.q, &t, SW_SLICE_LIT(""), &rig_conn_ops, &r.a, &err));
    t.id = *sw_rawkey_id(r.a.key);
    assert_null(sw_quic_dial(r.a.q, &t, SW_SLICE_LIT("x"), &rig_conn_ops, &r.a, &err));
    memset(&t.id, 0, sizeof(t.id));
    assert_null(sw_quic_dial(r.a.q, &t, SW_SLICE_LIT("x"), &rig_conn_ops, &r.a, &err));
    assert_int_equal(err.rc, SW_EINVAL);
    rig_stop(&r);
}

static void a_dial_gives_up_in_time(void **state)
{
    struct sw_quic_config cfg = {.dial_ns = 300 * SW_NS_PER_MS};
    struct rig r;
    struct sw_addr a;
    struct sw_quic_target t = {.addrs = &a, .n_addrs = 1};

    rig_start(&r, &cfg, NULL);
    t.id = *sw_rawkey_id(r.b.key);
    assert_int_equal(sw_addr_parse(SW_SLICE_LIT("127.0.0.1:9"), &a, NULL), SW_OK);
    assert_non_null(sw_quic_dial(r.a.q, &t, SW_SLICE_LIT("x"), &rig_conn_ops, &r.a, NULL));
    rig_until(&r, &r.a.closed, 1);
    assert_int_equal(r.a.why.kind, SW_QCLOSE_TIMEOUT);
    rig_stop(&r);
}

static void the_first_address_that_answers_is_used(void **state)
{
    struct rig r;
    struct sw_addr a[4];
    struct sw_quic_target t = {.addrs = a, .n_addrs = 4};
    struct rig_stream s;

    rig_start(&r, NULL, NULL);
    t.id = *sw_rawkey_id(r.b.key);
    assert_int_equal(sw_addr_parse(SW_SLICE_LIT("127.0.0.1:9"), &a[0], NULL), SW_OK);
    assert_int_equal(sw_addr_parse(SW_SLICE_LIT("127.0.0.7:9"), &a[1], NULL), SW_OK);
    assert_int_equal(sw_quic_bound(r.b.q, &a[2]), 1);
    a[3] = a[2];
    r.a.c = sw_quic_dial(r.a.q, &t, SW_SLICE_LIT("test/2"), &rig_conn_ops, &r.a, NULL);
    rig_until(&r, &r.a.ready, 1);
    assert_true(sw_addr_eq(&a[2], &(struct sw_addr){.ip = sw_qconn_addr(r.a.c).ip,
                                                    .port = sw_qconn_addr(r.a.c).port}));
    r.b.echo = true;
    rig_open(&r, &s, 100000);
    rig_until_true(&r, &s.closed);
    assert_true(s.fin && !s.mismatch);
    assert_int_equal(r.b.accepted, 1);
    rig_stop(&r);
}

/* A clock that only we move: what depends on short times does not depend on the machine. */
static uint64_t told_ns;

static uint64_t told_clock(void)
{
    return told_ns;
}

static void connect_by_told_clock(struct rig *r, const struct sw_quic_config *cfg)
{
    rig_start(r, cfg, cfg);
    told_ns = sw_now_ns();
    sw_loop_set_clock(r->loop, told_clock);
    rig_connect(r);
}

static void ten_ms_pass(struct rig *r)
{
    told_ns += 10 * SW_NS_PER_MS;
    for (int i = 0; i < 6; i++)
        sw_loop_turn(r->loop, 1);
}

static void silence_ends_a_connection(void **state)
{
    struct sw_quic_config cfg = {.idle_ns = 300 * SW_NS_PER_MS, .keepalive_ns = 60 * SW_NS_PER_S};
    struct rig r;
    int n = 0;

    connect_by_told_clock(&r, &cfg);
    while (r.a.closed == 0 && n++ < 1000)
        ten_ms_pass(&r);
    assert_true(n >= 25);
    while (r.b.closed == 0 && n++ < 1000)
        ten_ms_pass(&r);
    assert_int_equal(r.a.closed + r.b.closed, 2);
    assert_int_equal(r.a.why.kind, SW_QCLOSE_IDLE);
    assert_int_equal(r.b.why.kind, SW_QCLOSE_IDLE);
    rig_stop(&r);
}

/* With something to say and nobody to hear it, twenty-five seconds are enough. */
static void a_peer_that_does_not_answer_is_given_up(void **state)
{
    struct rig r;
    struct rig_stream t;

    rig_start(&r, NULL, NULL);
    rig_connect(&r);
    rig_idle(&r, 30);
    r.b.c->end.quiet = true;
    r.b.c->end.closing = true;
    sw_quic_free(r.b.q);
    r.b.q = NULL;
    rig_open(&r, &t, 1000);
    /* Most of them have passed. */
    rig_idle(&r, 60);
    r.a.c->heard.at_ns -= 24 * SW_NS_PER_S + 500 * SW_NS_PER_MS;
    rig_until(&r, &r.a.closed, 1);
    assert_int_equal(r.a.why.kind, SW_QCLOSE_IDLE);
    rig_stop(&r);
}

/* From now on a's packets go nowhere, and b's come from where a does not know it. */
static void readdress_b(struct rig *r)
{
    struct sw_qconn *c = r->a.c;

    for (size_t i = 0; i < QUIC_PATHS_MAX; i++)
        c->paths.ent[i].route.remote.port = 9;
    for (size_t i = 0; i < c->dial->n; i++)
        c->dial->route[i].remote.port = 9;
}

/* A NAT got another address: what the peer sends says where it is now, once nothing else comes. */
static void a_peer_with_another_address_is_followed(void **state)
{
    struct sw_quic_config cfg = {.keepalive_ns = 100 * SW_NS_PER_MS};
    struct rig r;
    struct rig_stream t;

    rig_start(&r, NULL, &cfg);
    rig_connect(&r);
    rig_idle(&r, 30);
    readdress_b(&r);
    rig_open(&r, &t, 100000);
    rig_until_true(&r, &r.b.in[0].fin);
    assert_int_equal(r.b.in[0].read, 100000);
    assert_int_equal(r.a.closed + r.b.closed, 0);
    assert_true(r.a.paths >= 1);
    rig_stop(&r);
}

/* A path that answers is not left for a packet from elsewhere, which anybody may have copied. */
static void a_stray_packet_moves_nothing(void **state)
{
    struct rig r;
    struct sw_qroute from;
    uint8_t p[64] = {0x40};

    rig_start(&r, NULL, NULL);
    rig_connect(&r);
    rig_idle(&r, 30);
    from = sw_qpath_get(r.a.c, r.a.c->paths.now)->route;
    from.remote.port = 9;
    memcpy(p + 1, SW_CONTAINER_OF(r.a.c->cids.next, struct sw_qcid, link)->b, QUIC_CID_LEN);
    sw_quic_packet(r.a.q, &from, 0, p, sizeof(p));
    assert_int_equal(r.a.c->dial->stray_ns, 0);
    r.a.c->heard.at_ns -=
        2 * SW_NS_PER_S; /* not answering: it is tried, and cannot answer either */
    sw_quic_packet(r.a.q, &from, 0, p, sizeof(p));
    assert_int_not_equal(r.a.c->dial->stray_ns, 0);
    rig_idle(&r, 200);
    assert_int_equal(r.a.paths, 0);
    assert_int_equal(r.a.closed + r.b.closed, 0);
    rig_stop(&r);
}

static void keepalives_prevent_it(void **state)
{
    struct sw_quic_config cfg = {.idle_ns = 300 * SW_NS_PER_MS, .keepalive_ns = 50 * SW_NS_PER_MS};
    struct rig r;

    connect_by_told_clock(&r, &cfg);
    for (int i = 0; i < 80; i++)
        ten_ms_pass(&r);
    assert_int_equal(r.a.closed + r.b.closed, 0);
    rig_stop(&r);
}

static void datagrams_go_both_ways(void **state)
{
    struct sw_quic_config cfg = {.datagrams = true};
    struct rig r;
    uint8_t p[1100];

    rig_start(&r, &cfg, &cfg);
    r.b.echo = true;
    rig_connect(&r);
    for (size_t i = 0; i < sizeof(p); i++)
        p[i] = (uint8_t)i;
    assert_true(sw_qconn_datagram_max(r.a.c) >= sizeof(p));
    assert_int_equal(sw_qconn_datagram(r.a.c, p, sizeof(p)), SW_OK);
    rig_until(&r, &r.a.dgrams, 1);
    assert_int_equal(r.a.dgram_n, sizeof(p));
    assert_memory_equal(r.a.dgram, p, sizeof(p));
    assert_int_equal(sw_qconn_datagram(r.a.c, p, sw_qconn_datagram_max(r.a.c) + 1), SW_ELIMIT);
    for (size_t i = 0; i < QUIC_DGRAMS_MAX; i++)
        assert_int_equal(sw_qconn_datagram(r.a.c, p, 1), SW_OK);
    assert_int_equal(sw_qconn_datagram(r.a.c, p, 1), SW_ELIMIT);
    rig_until(&r, &r.b.dgrams, 1 + QUIC_DGRAMS_MAX);
    rig_stop(&r);
}

static void without_datagrams_none_are_taken(void **state)
{
    struct rig r;

    rig_start(&r, NULL, NULL);
    rig_connect(&r);
    assert_int_equal(sw_qconn_datagram_max(r.a.c), 0);
    assert_int_equal(sw_qconn_datagram(r.a.c, (const uint8_t *)"x", 1), SW_ELIMIT);
    rig_stop(&r);
}

static void connections_are_limited(void **state)
{
    struct sw_quic_config cfg = {.max_conns = 1};
    struct rig r;

    rig_start(&r, NULL, &cfg);
    rig_connect(&r);
    assert_non_null(rig_dial(&r, "test/1"));
    rig_until(&r, &r.a.closed, 1);
    assert_int_equal(r.a.why.kind, SW_QCLOSE_TRANSPORT);
    assert_int_equal(r.a.why.code, 2);
    rig_stop(&r);
}

static void under_load_addresses_are_proved(void **state)
{
    struct sw_quic_stats st;
    struct rig r;

    rig_start(&r, NULL, NULL);
    r.b.q->cfg.max_half_open = 0;
    /* Now the bound on proved ones is 0 as well: lift that one by a handshake that is open. */
    r.b.q->cfg.max_half_open = 1;
    r.b.q->conn.half_open = 1;
    rig_connect(&r);
    sw_quic_stats(r.b.q, &st);
    assert_int_equal(st.retries, 1);
    assert_int_equal(r.b.q->conn.half_open, 1);
    r.b.q->conn.half_open = 0;
    rig_stop(&r);
}

static void handshakes_have_an_upper_bound_even_then(void **state)
{
    struct sw_quic_config cfg = {.dial_ns = 400 * SW_NS_PER_MS};
    struct rig r;

    rig_start(&r, &cfg, NULL);
    r.b.q->cfg.max_half_open = 1;
    r.b.q->conn.half_open = 1000;
    assert_non_null(rig_dial(&r, "test/1"));
    rig_until(&r, &r.a.closed, 1);
    assert_int_equal(r.a.why.kind, SW_QCLOSE_TIMEOUT);
    assert_int_equal(r.b.accepted, 0);
    r.b.q->conn.half_open = 0;
    rig_stop(&r);
}

static void handshakes_that_failed_count_for_a_while(void **state)
{
    struct sw_quic_stats st;
    struct rig r;

    rig_start(&r, NULL, NULL);
    r.b.q->cfg.max_half_open = 1;
    assert_non_null(rig_dial(&r, "other"));
    rig_until(&r, &r.a.closed, 1);
    assert_int_equal(r.b.q->conn.n_failures, 1);
    assert_int_equal(r.b.q->conn.n_known, 0);
    /* The honest one behind it has to prove its address, and gets in. */
    rig_connect(&r);
    sw_quic_stats(r.b.q, &st);
    assert_int_equal(st.retries, 1);
    assert_int_equal(r.b.q->conn.n_known, 1);
    assert_int_equal(r.a.q->conn.n_known, 1);
    assert_true(sw_qconn_drop_half_open(r.b.q));
    assert_int_equal(r.b.q->conn.n_failures, 0);
    assert_false(sw_qconn_drop_half_open(r.b.q));
    rig_stop(&r);
}

static void the_oldest_handshake_makes_room(void **state)
{
    struct sw_quic_config cfg = {.dial_ns = 300 * SW_NS_PER_MS};
    struct sw_quic_stats st;
    struct rig r;

    rig_start(&r, &cfg, NULL);
    assert_non_null(rig_dial(&r, "test/1"));
    for (int i = 0; i < 100 && r.b.q->conn.half_open == 0; i++)
        sw_loop_turn(r.loop, 1);
    assert_int_equal(r.b.q->conn.half_open, 1);
    /* Not one more fits; the next that has proved its address takes the place. */
    assert_true(sw_qconn_drop_half_open(r.b.q));
    assert_int_equal(r.b.q->conn.half_open, 0);
    assert_int_equal(r.b.q->conn.n_failures, 0);
    assert_int_equal(r.b.q->conn.n, 0);
    sw_quic_stats(r.b.q, &st);
    assert_int_equal(st.failed, 1);
    assert_int_equal(r.b.closed, 0); /* nobody had heard of it */
    rig_stop(&r);
}

static void keys_change_under_traffic(void **state)
{
    struct rig r;
    struct rig_stream t;

    rig_start(&r, NULL, NULL);
    r.a.q->key_update_after = 50;
    r.b.q->key_update_after = 70;
    r.b.echo = true;
    rig_connect(&r);
    for (int i = 0; i < 4; i++) {
        rig_open(&r, &t, 3000000);
        rig_until_true(&r, &t.closed);
        assert_true(t.fin && !t.mismatch);
        rig_idle(&r, 20);
    }
    assert_int_equal(r.a.closed + r.b.closed, 0);
    rig_stop(&r);
}

static void a_drained_endpoint_ends_with_its_streams(void **state)
{
    struct rig r;
    struct rig_stream t;

    rig_start(&r, NULL, NULL);
    r.b.echo = true;
    rig_connect(&r);
    rig_open(&r, &t, 10);
    t.finish = false;
    rig_until(&r, &r.b.n_in, 1);
    sw_quic_drain(r.b.q);
    rig_idle(&r, 50);
    rig_until_true(&r, &t.closed);
    assert_true(t.fin);
    rig_until(&r, &r.a.closed, 1);
    assert_int_equal(r.a.why.kind, SW_QCLOSE_APP);
    /* And nobody new comes in. */
    assert_non_null(rig_dial(&r, "test/1"));
    rig_until(&r, &r.a.closed, 2);
    assert_int_equal(r.a.why.code, 2);
    rig_stop(&r);
}

static void freeing_an_endpoint_tells_everybody(void **state)
{
    struct rig r;
    struct rig_stream t;

    rig_start(&r, NULL, NULL);
    r.b.echo = true;
    rig_connect(&r);
    rig_open(&r, &t, 10000000);
    rig_idle(&r, 5);
    sw_quic_free(r.a.q);
    assert_int_equal(r.a.closed, 1);
    assert_true(t.closed && t.lost);
    rig_until(&r, &r.b.closed, 1);
    assert_int_equal(r.b.why.kind, SW_QCLOSE_APP);
    r.a.q = NULL;
    rig_stop(&r);
}

/* The peer has forgotten everything: its answer to our packet tells us so. */
static void a_stateless_reset_is_understood(void **state)
{
    struct rig r;
    struct sw_quic_config cfg = {0};
    struct rig_stream t;
    struct sw_addr at[2];

    rig_start(&r, NULL, NULL);
    rig_connect(&r);
    assert_int_equal(sw_quic_bound(r.b.q, at), 1);
    /* Die without a word. */
    r.b.c->end.quiet = true;
    r.b.c->end.closing = true;
    sw_quic_free(r.b.q);
    cfg.bind = at[0];
    cfg.key = r.b.key;
    cfg.alpns = &(struct sw_slice){"test/1", 6};
    cfg.n_alpns = 1;
    r.b.q = sw_quic_new(r.loop, &cfg, NULL);
    assert_non_null(r.b.q);
    rig_open(&r, &t, 100000);
    rig_until(&r, &r.a.closed, 1);
    assert_int_equal(r.a.why.kind, SW_QCLOSE_RESET);
    assert_true(t.closed && t.lost);
    rig_stop(&r);
}

/* What was found last is remembered: neither another ID nor a removed one may be taken for it. */
static void an_id_leads_to_its_connection_until_it_is_removed(void **state)
{
    static const uint8_t one[QUIC_CID_LEN] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const uint8_t two[QUIC_CID_LEN] = {1, 2, 3, 4, 5, 6, 7, 9};
    struct sw_qconn *first;
    struct rig r;

    (void)state;
    rig_start(&r, NULL, NULL);
    first = rig_dial(&r, "test/1");
    rig_until(&r, &r.a.ready, 1);
    (void)rig_dial(&r, "test/1");
    rig_until(&r, &r.a.ready, 2);
    assert_ptr_not_equal(first, r.a.c);
    assert_true(sw_qcid_add(first, one, sizeof(one)));
    assert_true(sw_qcid_add(r.a.c, two, sizeof(two)));
    for (int i = 0; i < 3; i++) {
        assert_ptr_equal(sw_qcid_find(r.a.q, one, sizeof(one)), first);
        assert_ptr_equal(sw_qcid_find(r.a.q, one, sizeof(one)), first);
        assert_null(sw_qcid_find(r.a.q, one, sizeof(one) - 1));
        assert_ptr_equal(sw_qcid_find(r.a.q, two, sizeof(two)), r.a.c);
    }
    sw_qcid_remove(r.a.c, two, sizeof(two));
    assert_null(sw_qcid_find(r.a.q, two, sizeof(two)));
    assert_ptr_equal(sw_qcid_find(r.a.q, one, sizeof(one)), first);
    sw_qcid_remove_all(first);
    assert_null(sw_qcid_find(r.a.q, one, sizeof(one)));
    rig_stop(&r);
}

/* ngtcp2 searches from the smallest on: packets carry the first one. */
static void the_first_id_is_the_smallest(void **state)
{
    struct rig r;

    (void)state;
    rig_start(&r, NULL, NULL);
    assert_non_null(rig_dial(&r, "test/1"));
    rig_until(&r, &r.a.ready, 1);
    for (int side = 0; side < 2; side++) {
        struct sw_qconn *c = side ? r.b.c : r.a.c;
        size_t first = 0;
        size_t more = 0;

        SW_LIST_FOREACH (it, &c->cids) {
            const struct sw_qcid *id = SW_CONTAINER_OF(it, struct sw_qcid, link);

            if (id->len != QUIC_CID_LEN)
                continue; /* the client made it up */
            first += id->b[0] < 0x80;
            more += id->b[0] >= 0x80;
        }
        assert_int_equal(first, 1);
        assert_true(more > 1);
    }
    rig_stop(&r);
}

static void fast_paths_are_near_by_their_lowest_round_trip(void **state)
{
    static const struct {
        uint64_t smoothed_us;
        uint64_t min_us;
        double mbit;
        bool near_by;
    } cases[] = {
        {100, 50, 10, true},       {999, 50, 10, true},
        {1000, 50, 1000, false},                             /* a queue on the way is as likely */
        {1000, 50, 2500, true},                              /* what waits at a busy receiver */
        {9999, 2999, 4200, true},  {10000, 50, 4200, false}, /* no longer the path it was */
        {4000, 3000, 4200, false}, {80000, 80000, 10000, false},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++)
        assert_int_equal(
            sw_qpace_near(cases[i].smoothed_us * 1000, cases[i].min_us * 1000, cases[i].mbit / 8e3),
            cases[i].near_by);
}

static void every_path_has_its_own_addresses(void **state)
{
    struct sw_qpathent path[] = {{.id = 1}, {.id = 2}, {.id = 3}};
    struct sw_qconn *conn[2];
    struct rig r;

    (void)state;
    rig_start(&r, NULL, NULL);
    (void)rig_dial(&r, "test/1");
    rig_until(&r, &r.a.ready, 1);
    rig_until(&r, &r.b.accepted, 1);
    conn[0] = r.a.c;
    conn[1] = r.b.c;
    for (size_t i = 0; i < 64; i++) {
        const struct sw_qpathent *p = &path[i * 7 % SW_ARRAY_LEN(path)];
        const struct sw_qconn *c = conn[i / 3 % 2];
        const ngtcp2_path *got = sw_qpath_lib(c, p);
        ngtcp2_path_storage want;

        sw_qpath_fill(p, &want);
        assert_true(ngtcp2_path_eq(got, &want.path));
        assert_int_equal(sw_qpath_id(got), p->id);
    }
    rig_stop(&r);
}

static void our_own_address_may_change(void **state)
{
    struct rig r;
    struct rig_stream t;

    rig_start(&r, NULL, NULL);
    r.b.echo = true;
    rig_connect(&r);
    rig_open(&r, &t, 20000000);
    rig_idle(&r, 10);
    sw_quic_network_changed(r.a.q);
    rig_until_true(&r, &t.closed);
    assert_true(t.fin && !t.mismatch);
    assert_true(r.a.paths >= 1 && r.b.paths == 0);
    sw_quic_network_changed(r.a.q);
    rig_idle(&r, 100);
    rig_open(&r, &t, 20000);
    rig_until_true(&r, &t.closed);
    assert_true(t.fin && !t.mismatch);
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dial_by_key_connects),
        cmocka_unit_test(bytes_come_back_as_they_went),
        cmocka_unit_test(a_peer_that_is_not_admitted_hears_so),
        cmocka_unit_test(another_protocol_is_refused),
        cmocka_unit_test(another_key_is_refused),
        cmocka_unit_test(what_cannot_be_dialled_is_said_at_once),
        cmocka_unit_test(a_dial_gives_up_in_time),
        cmocka_unit_test(the_first_address_that_answers_is_used),
        cmocka_unit_test(silence_ends_a_connection),
        cmocka_unit_test(a_peer_with_another_address_is_followed),
        cmocka_unit_test(a_stray_packet_moves_nothing),
        cmocka_unit_test(keepalives_prevent_it),
        cmocka_unit_test(a_peer_that_does_not_answer_is_given_up),
        cmocka_unit_test(datagrams_go_both_ways),
        cmocka_unit_test(without_datagrams_none_are_taken),
        cmocka_unit_test(connections_are_limited),
        cmocka_unit_test(under_load_addresses_are_proved),
        cmocka_unit_test(handshakes_have_an_upper_bound_even_then),
        cmocka_unit_test(handshakes_that_failed_count_for_a_while),
        cmocka_unit_test(the_oldest_handshake_makes_room),
        cmocka_unit_test(keys_change_under_traffic),
        cmocka_unit_test(a_drained_endpoint_ends_with_its_streams),
        cmocka_unit_test(freeing_an_endpoint_tells_everybody),
        cmocka_unit_test(a_stateless_reset_is_understood),
        cmocka_unit_test(our_own_address_may_change),
        cmocka_unit_test(an_id_leads_to_its_connection_until_it_is_removed),
        cmocka_unit_test(the_first_id_is_the_smallest),
        cmocka_unit_test(every_path_has_its_own_addresses),
        cmocka_unit_test(fast_paths_are_near_by_their_lowest_round_trip),
    };

    return cmocka_run_group_tests_name("quic conn", tests, NULL, NULL);
}
