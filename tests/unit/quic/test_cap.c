/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/time.h"
#include "quic/cap.h"

enum { PACKET = 1452, PRODUCT = 500 * 1000 }; /* 100 Mb/s, 40 ms */

#define RTT_NS (40 * SW_NS_PER_MS)

struct flow {
    struct sw_qcap cap;
    struct sw_qcap_path path;
    uint64_t now;
};

/* A queue of one product, full. */
static struct flow full(void)
{
    return (struct flow){
        .now = SW_NS_PER_S,
        .path = {.under_way = 2 * PRODUCT,
                 .rtt_ns = 2 * RTT_NS,
                 .min_rtt_ns = RTT_NS,
                 .product = PRODUCT,
                 .window = 2 * PRODUCT + 192 * 1024,
                 .packet = PACKET},
    };
}

/* One round trip, in two passes, that has to send 'lost' packets again. */
static bool round_trip(struct flow *f, uint64_t lost)
{
    bool lowered = sw_qcap_look(&f->cap, f->now, &f->path);

    sw_qcap_sent(&f->cap, f->path.under_way / 2, lost * PACKET);
    f->now += f->path.rtt_ns / 2;
    lowered |= sw_qcap_look(&f->cap, f->now, &f->path);
    sw_qcap_sent(&f->cap, f->path.under_way / 2, 0);
    f->now += f->path.rtt_ns / 2;
    return lowered;
}

static bool any_lowered(struct flow *f, int rounds, uint64_t lost)
{
    bool lowered = false;

    for (int i = 0; i < rounds; i++)
        lowered |= round_trip(f, lost);
    return lowered;
}

static void nothing_lost_is_no_cap(void **state)
{
    struct flow f = full();

    (void)state;
    assert_false(any_lowered(&f, 100, 0));
    assert_int_equal(f.cap.bytes, 0);
    assert_false(sw_qcap_reached(&f.cap, UINT64_MAX));
}

static void random_loss_is_no_cap(void **state)
{
    struct flow f = full();
    uint64_t packets = f.path.under_way / PACKET;

    (void)state;
    assert_false(any_lowered(&f, 100, packets / 100));
    assert_false(any_lowered(&f, 100, packets / 50 + 5));
    assert_int_equal(f.cap.bytes, 0);
}

static void a_few_packets_of_a_slow_flow_are_no_cap(void **state)
{
    struct flow f = full();

    (void)state;
    f.path.under_way = 20 * PACKET;
    assert_false(any_lowered(&f, 100, 5));
}

static void much_loss_without_a_queue_is_no_cap(void **state)
{
    struct flow f = full();

    (void)state;
    f.path.rtt_ns = RTT_NS + RTT_NS / 10;
    assert_false(any_lowered(&f, 100, 40));
}

static void a_full_queue_leaves_room(void **state)
{
    struct flow f = full();

    (void)state;
    (void)round_trip(&f, 40);
    assert_true(round_trip(&f, 40));
    assert_in_range(f.cap.bytes, PRODUCT, PRODUCT * 3 / 2);
    assert_true(sw_qcap_reached(&f.cap, f.cap.bytes));
    assert_false(sw_qcap_reached(&f.cap, f.cap.bytes - 1));
}

/* Until then the losses are those of packets sent before. */
static void the_next_cut_waits_two_round_trips(void **state)
{
    struct flow f = full();
    uint64_t first;

    (void)state;
    f.path.under_way = 5 * PRODUCT;
    f.path.rtt_ns = 5 * RTT_NS;
    (void)any_lowered(&f, 2, 100);
    first = f.cap.bytes;
    assert_int_not_equal(first, 0);
    assert_false(any_lowered(&f, 2, 100));
    assert_int_equal(f.cap.bytes, first);
    assert_true(round_trip(&f, 100));
    assert_in_range(f.cap.bytes, PRODUCT, first - 1);
}

/* Also when others took their share of the rate meanwhile. */
static void the_product_is_left(void **state)
{
    struct flow f = full();

    (void)state;
    (void)any_lowered(&f, 2, 40);
    f.path.product = PRODUCT / 4;
    (void)any_lowered(&f, 1000, 40);
    assert_int_equal(f.cap.bytes, PRODUCT / 8 * 9 + PRODUCT / 10);
}

/* It counts as under way until it is noticed, and the path held less. */
static void what_was_lost_is_not_held_by_the_path(void **state)
{
    struct flow f = full();
    struct flow g = full();

    (void)state;
    g.path.under_way *= 2;
    (void)any_lowered(&f, 2, 80);
    (void)any_lowered(&g, 2, 80);
    assert_int_not_equal(f.cap.bytes, 0);
    assert_int_equal(f.cap.bytes, g.cap.bytes);
}

static void a_small_path_keeps_some_packets(void **state)
{
    struct flow f = full();

    (void)state;
    f.path.product = PACKET;
    (void)any_lowered(&f, 1000, 40);
    assert_int_equal(f.cap.bytes, 16 * PACKET);
}

static void it_grows_after_seconds_of_calm(void **state)
{
    struct flow f = full();
    uint64_t cap;
    uint64_t end;

    (void)state;
    (void)any_lowered(&f, 2, 40);
    cap = f.cap.bytes;
    for (end = f.now + 7900 * SW_NS_PER_MS; f.now < end;)
        (void)round_trip(&f, 0);
    assert_int_equal(f.cap.bytes, cap);
    (void)any_lowered(&f, 5, 0);
    assert_in_range(f.cap.bytes, cap + 1, cap * 5 / 4);
    (void)any_lowered(&f, 100, 0);
    assert_int_equal(f.cap.bytes, 0); /* it is above the window of BBR */
}

/* What ngtcp2 takes for the bandwidth right after a move may be any number. */
static void rates_of_any_size_are_bounded(void **state)
{
    const uint64_t most = 1000000000000000;

    (void)state;
    assert_int_equal(sw_qcap_bytes(0), 0);
    assert_int_equal(sw_qcap_bytes(1234.9), 1234);
    assert_int_equal(sw_qcap_bytes(1e15), most);
    assert_int_equal(sw_qcap_bytes(1.8446744073709552e19 * 300), most);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_lost_is_no_cap),
        cmocka_unit_test(random_loss_is_no_cap),
        cmocka_unit_test(a_few_packets_of_a_slow_flow_are_no_cap),
        cmocka_unit_test(much_loss_without_a_queue_is_no_cap),
        cmocka_unit_test(a_full_queue_leaves_room),
        cmocka_unit_test(the_next_cut_waits_two_round_trips),
        cmocka_unit_test(the_product_is_left),
        cmocka_unit_test(what_was_lost_is_not_held_by_the_path),
        cmocka_unit_test(a_small_path_keeps_some_packets),
        cmocka_unit_test(it_grows_after_seconds_of_calm),
        cmocka_unit_test(rates_of_any_size_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
