/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "quic/wire/probe.h"

static const uint8_t key[PROBE_KEY] = {1, 2, 3};
static const uint8_t other[PROBE_KEY] = {1, 2, 4};

static struct sw_addr addr(const char *text)
{
    struct sw_addr a;

    assert_int_equal(sw_addr_parse(sw_slice_str(text), &a, NULL), SW_OK);
    return a;
}

static void probes_come_back_as_they_were_written(void **state)
{
    static const struct {
        enum sw_probe_kind kind;
        const char *seen;
    } cases[] = {
        {SW_PROBE_ASK, NULL},
        {SW_PROBE_TOLD, "203.0.113.7:4242"},
        {SW_PROBE_PING, NULL},
        {SW_PROBE_PONG, "[2001:db8::7]:65535"},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_probe m = {.kind = cases[i].kind, .tag = "tagtagt", .tx = "transaction"};
        struct sw_probe back;
        uint8_t p[PROBE_LEN];

        if (cases[i].seen)
            m.seen = addr(cases[i].seen);
        sw_probe_write(&m, key, p);
        assert_true(sw_probe_is(p, sizeof(p)));
        assert_int_equal(sw_probe_read(p, sizeof(p), &back, NULL), SW_OK);
        assert_memory_equal(&m, &back, sizeof(m));
        assert_true(sw_probe_genuine(p, key));
        assert_false(sw_probe_genuine(p, other));
    }
}

static void an_address_is_not_seen_on_the_wire(void **state)
{
    struct sw_probe m = {.kind = SW_PROBE_PONG, .tx = "transaction", .seen = addr("203.0.113.7:9")};
    uint8_t p[PROBE_LEN];

    (void)state;
    sw_probe_write(&m, key, p);
    for (size_t i = 0; i + 4 <= sizeof(p); i++)
        assert_memory_not_equal(p + i, m.seen.ip.b, 4);
}

static void every_changed_bit_is_noticed(void **state)
{
    struct sw_probe m = {.kind = SW_PROBE_PONG, .tx = "transaction", .seen = addr("203.0.113.7:9")};
    uint8_t p[PROBE_LEN];

    (void)state;
    sw_probe_write(&m, key, p);
    for (size_t i = 0; i < 8 * sizeof(p); i++) {
        p[i / 8] ^= (uint8_t)(1 << i % 8);
        assert_false(sw_probe_genuine(p, key));
        p[i / 8] ^= (uint8_t)(1 << i % 8);
    }
}

static void other_bytes_are_refused(void **state)
{
    struct sw_probe m = {.kind = SW_PROBE_PING};
    struct sw_probe back;
    uint8_t p[PROBE_LEN + 1] = {0};
    struct sw_err err;

    (void)state;
    sw_probe_write(&m, key, p);
    assert_int_equal(sw_probe_read(p, PROBE_LEN - 1, &back, &err), SW_EINVAL);
    assert_int_equal(sw_probe_read(p, PROBE_LEN + 1, &back, &err), SW_EINVAL);
    p[0] = SW_PROBE_PONG; /* an answer needs an address */
    assert_int_equal(sw_probe_read(p, PROBE_LEN, &back, &err), SW_EINVAL);
    p[0] = SW_PROBE_PONG + 1;
    assert_int_equal(sw_probe_read(p, PROBE_LEN, &back, &err), SW_EINVAL);
    p[0] = 0x40; /* a short header of QUIC */
    assert_false(sw_probe_is(p, PROBE_LEN));
    p[0] = 0xc0;
    assert_false(sw_probe_is(p, PROBE_LEN));
}

static void keys_of_asks_are_of_the_node(void **state)
{
    struct sw_nodeid a = {.b = {1}};
    struct sw_nodeid b = {.b = {2}};
    uint8_t x[PROBE_KEY];
    uint8_t y[PROBE_KEY];

    (void)state;
    sw_probe_ask_key(&a, x);
    sw_probe_ask_key(&b, y);
    assert_memory_not_equal(x, y, sizeof(x));
}

static struct sw_reach full_list(void)
{
    struct sw_reach m = {.want = true, .tag = "tagtagt", .key = "key", .seq = 7, .ack = 0xfffffffe};

    m.varies[1] = true;
    for (m.n = 0; m.n < SW_QUIC_ADDRS_MAX; m.n++) {
        m.addrs[m.n] = addr(m.n % 2 ? "10.1.2.3:4" : "[2001:db8::1]:5");
        m.addrs[m.n].port = (uint16_t)(m.n + 1);
    }
    return m;
}

static void lists_come_back_as_they_were_written(void **state)
{
    struct sw_reach m = full_list();
    struct sw_reach back;
    uint8_t p[REACH_MAX];
    size_t n = sw_reach_write(&m, p);

    (void)state;
    assert_true(n <= sizeof(p) && sw_reach_is(p, n));
    assert_int_equal(sw_reach_read(p, n, &back, NULL), SW_OK);
    assert_memory_equal(&m, &back, sizeof(m));
    m.n = 0;
    n = sw_reach_write(&m, p);
    assert_int_equal(sw_reach_read(p, n, &back, NULL), SW_OK);
    assert_int_equal(back.n, 0);
}

static void lists_cut_short_or_prolonged_are_refused(void **state)
{
    struct sw_reach m = full_list();
    struct sw_reach back;
    uint8_t p[REACH_MAX + 1] = {0};
    size_t n = sw_reach_write(&m, p);
    struct sw_err err;

    (void)state;
    for (size_t i = 0; i < n; i++)
        assert_int_equal(sw_reach_read(p, i, &back, &err), SW_EINVAL);
    assert_int_equal(sw_reach_read(p, n + 1, &back, &err), SW_EINVAL);
    m.seq = 0;
    n = sw_reach_write(&m, p);
    assert_int_equal(sw_reach_read(p, n, &back, &err), SW_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(probes_come_back_as_they_were_written),
        cmocka_unit_test(an_address_is_not_seen_on_the_wire),
        cmocka_unit_test(every_changed_bit_is_noticed),
        cmocka_unit_test(other_bytes_are_refused),
        cmocka_unit_test(keys_of_asks_are_of_the_node),
        cmocka_unit_test(lists_come_back_as_they_were_written),
        cmocka_unit_test(lists_cut_short_or_prolonged_are_refused),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
