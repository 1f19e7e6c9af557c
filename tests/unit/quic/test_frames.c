/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of an opened packet, before ngtcp2 reads them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "quic/wire/frames.h"

enum { NEW_CID = 28 };

static size_t put(uint8_t *p, uint8_t seq, uint8_t prior)
{
    memset(p, 0x55, NEW_CID);
    p[0] = 0x18;
    p[1] = seq;
    p[2] = prior;
    p[3] = 8;
    return NEW_CID;
}

static bool is_blank(const uint8_t *p)
{
    for (size_t i = 1; i < NEW_CID; i++)
        if (p[i] != 0)
            return false;
    return p[0] == 1;
}

static void an_id_is_blanked_when_it_was_named_and_is_retired(void **state)
{
    static const struct {
        uint8_t seq;
        uint8_t prior;
        bool blank;
    } cases[] = {
        {1, 0, false}, {1, 0, false},  /* a copy that ngtcp2 knows */
        {5, 3, false}, {1, 0, true},   /* retired by that, and named before */
        {2, 0, false}, {2, 0, true},   /* late, the first time; and again */
        {0, 0, true},                  /* the one of the handshake */
        {9, 9, false}, {5, 3, true},   /* */
        {5, 5, true},  {9, 9, false},  /* */
        {6, 7, false}, {63, 0, false}, /* wrong, for ngtcp2 to say so */
    };
    struct sw_qids s;

    sw_qids_init(&s, false);
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        uint8_t p[3 + NEW_CID + 2] = {0x10, 0x40, 0x41}; /* MAX_DATA before it */

        (void)put(p + 3, cases[i].seq, cases[i].prior);
        p[3 + NEW_CID] = 0x1e;
        assert_true(sw_qids_screen(&s, p, sizeof(p)));
        if (is_blank(p + 3) != cases[i].blank)
            fail_msg("frame %zu: %s", i, cases[i].blank ? "not blanked" : "blanked");
        assert_memory_equal(p, "\x10\x40\x41", 3);
        assert_int_equal(p[3 + NEW_CID], 0x1e);
    }
}

static void numbers_far_below_the_highest_count_as_named(void **state)
{
    uint8_t p[NEW_CID + 1];
    struct sw_qids s;

    sw_qids_init(&s, false);
    (void)put(p, 63, 63);
    assert_true(sw_qids_screen(&s, p, NEW_CID));
    memset(p, 0x55, sizeof(p));
    memcpy(p, "\x18\x44\x00\x00\x08", 5); /* 1024 */
    assert_true(sw_qids_screen(&s, p, sizeof(p)));
    (void)put(p, 62, 0);
    assert_true(sw_qids_screen(&s, p, NEW_CID));
    assert_true(is_blank(p));
}

static void the_budget_is_restored_when_all_is_acknowledged(void **state)
{
    uint8_t p[NEW_CID];
    struct sw_qids s;
    uint8_t seq = 0;

    sw_qids_init(&s, true);
    while ((void)put(p, ++seq, 0), sw_qids_screen(&s, p, sizeof(p)))
        assert_true(seq < 16);
    assert_true(seq > 7); /* what a peer gives at first passes */
    assert_true(sw_qids_short(&s));
    assert_false(sw_qids_screen(&s, p, sizeof(p)));
    (void)put(p, 1, 0);
    assert_true(sw_qids_screen(&s, p, sizeof(p))); /* known: costs nothing */
    sw_qids_settled(&s);
    assert_false(sw_qids_short(&s));
    (void)put(p, seq, 0);
    assert_true(sw_qids_screen(&s, p, sizeof(p)));
}

static void an_id_that_came_without_a_frame_counts_as_named(void **state)
{
    uint8_t p[2 * NEW_CID];
    struct sw_qids s;

    sw_qids_init(&s, false);
    sw_qids_given(&s, 1);
    (void)put(p, 5, 3);
    (void)put(p + NEW_CID, 1, 0);
    assert_true(sw_qids_screen(&s, p, sizeof(p)));
    assert_true(!is_blank(p) && is_blank(p + NEW_CID));
}

static void late_packets_do_not_acknowledge(void **state)
{
    static const uint8_t frames[] = {0x01, 0x02, 9,    0, 1, 2, 0, 1, /* PING, ACK of two ranges */
                                     0x10, 3,    0x03, 9, 0, 0, 0, 1, 1, 1, 0x01};
    static const uint8_t hidden[] = {0x01, 0, 0, 0, 0, 0, 0, 0, 0x10, 3,
                                     0,    0, 0, 0, 0, 0, 0, 0, 0x01};
    static const struct {
        uint64_t number;
        bool late;
    } cases[] = {{5, false}, {4, true}, {6, false}, {9, false}, {7, true}, {9, true}, {10, false}};
    struct sw_qacks s = {0};
    uint8_t p[sizeof(frames)];

    assert_int_equal(sizeof(hidden), sizeof(frames));
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        memcpy(p, frames, sizeof(p));
        sw_qacks_screen(&s, cases[i].number, p, sizeof(p));
        assert_memory_equal(p, cases[i].late ? hidden : frames, sizeof(p));
    }
    for (int i = 0; i < 4; i++) {
        memcpy(p, frames, sizeof(p));
        sw_qacks_screen_long(&s, i % 2 ? 0xe0 : 0xc3, p, sizeof(p));
        assert_memory_equal(p, i < 2 ? frames : hidden, sizeof(p));
    }
}

static void connections_that_never_move_see_no_ids(void **state)
{
    uint8_t p[2 * NEW_CID + 1] = {0x01};

    (void)put(p + 1, 1, 0);
    (void)put(p + 1 + NEW_CID, 2, 1);
    assert_true(sw_qids_screen(NULL, p, sizeof(p)));
    assert_true(is_blank(p + 1) && is_blank(p + 1 + NEW_CID));
}

static void what_does_not_parse_is_left_to_ngtcp2(void **state)
{
    uint8_t p[NEW_CID];
    uint8_t before[NEW_CID];
    struct sw_qids s;

    sw_qids_init(&s, true);
    for (size_t n = 0; n < NEW_CID; n++) {
        (void)put(p, 1, 0);
        memcpy(before, p, n);
        assert_true(sw_qids_screen(&s, p, n));
        assert_true(sw_qids_screen(NULL, p, n));
        assert_memory_equal(p, before, n);
    }
}

static void frames_that_allow_a_delayed_acknowledgement(void **state)
{
    static const struct {
        bool allowed;
        size_t n;
        uint8_t p[20];
    } cases[] = {
        {true, 0, {0}},
        {true, 3, {0x00, 0x01, 0x00}},
        {true, 5, {0x02, 9, 0, 0, 3}},          /* ACK */
        {true, 8, {0x03, 9, 0, 0, 3, 0, 0, 0}}, /* ACK_ECN */
        {false, 7, {0x02, 9, 0, 1, 3, 1, 1}},   /* ACK with a gap */
        {false, 10, {0x03, 9, 0, 1, 3, 1, 1, 0, 0, 0}} /* ACK_ECN with a gap */,
        {true, 4, {0x04, 4, 0, 9}},                  /* RESET_STREAM */
        {true, 3, {0x05, 4, 0}},                     /* STOP_SENDING */
        {false, 4, {0x06, 0, 1, 'x'}},               /* CRYPTO */
        {false, 3, {0x07, 1, 'x'}},                  /* NEW_TOKEN */
        {true, 8, {0x02, 9, 0, 0, 3, 0x08, 4, 'x'}}, /* ACK, STREAM */
        {true, 6, {0x0e, 4, 9, 1, 'x', 0x01}},       /* STREAM with offset and length, PING */
        {true, 4, {0x10, 9, 0x12, 9}},               /* MAX_DATA, MAX_STREAMS */
        {true, 3, {0x11, 4, 9}},                     /* MAX_STREAM_DATA */
        {true, 3, {0x31, 1, 'x'}},                   /* DATAGRAM */
        {false, 2, {0x19, 1}},                       /* RETIRE_CONNECTION_ID */
        {false, 9, {0x1a, 1, 2, 3, 4, 5, 6, 7, 8}},  /* PATH_CHALLENGE */
        {false, 10, {0x01, 0x1b, 1, 2, 3, 4, 5, 6, 7}} /* cut */,
        {false, 5, {0x1c, 0, 0, 1, 'x'}}, /* CONNECTION_CLOSE */
        {false, 1, {0x1e}},               /* HANDSHAKE_DONE */
        {false, 1, {0x20}},               /* not a frame */
        {false, 3, {0x02, 9, 0}},         /* cut */
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++)
        if (sw_qframes_allow_ack_delay(cases[i].p, cases[i].n) != cases[i].allowed)
            fail_msg("case %zu", i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_id_is_blanked_when_it_was_named_and_is_retired),
        cmocka_unit_test(numbers_far_below_the_highest_count_as_named),
        cmocka_unit_test(the_budget_is_restored_when_all_is_acknowledged),
        cmocka_unit_test(an_id_that_came_without_a_frame_counts_as_named),
        cmocka_unit_test(late_packets_do_not_acknowledge),
        cmocka_unit_test(connections_that_never_move_see_no_ids),
        cmocka_unit_test(what_does_not_parse_is_left_to_ngtcp2),
        cmocka_unit_test(frames_that_allow_a_delayed_acknowledgement),
    };

    return cmocka_run_group_tests_name("quic frames", tests, NULL, NULL);
}
