/* SPDX-License-Identifier: Apache-2.0 */
/* Connections between two endpoints: how they begin, what they refuse, how they end. */
#include "rig.h"

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
    assert_int_equal(r.b.q->half_open, 0);
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
        assert_true(t.fin && !t.lost && !t.mismatch);
        assert_int_equal(t.read, sizes[i]);
        assert_true(r.b.in[0].fin && !r.b.in[0].mismatch);
        rig_until_true(&r, &r.b.in[0].closed);
        assert_int_equal(sw_qconn_streams(r.a.c), 0);
        rig_stop(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dial_by_key_connects),
        cmocka_unit_test(bytes_come_back_as_they_went),
    };

    return cmocka_run_group_tests_name("quic conn", tests, NULL, NULL);
}
