/* SPDX-License-Identifier: Apache-2.0 */
/* A connection with TLS below it: records that arrive in pieces, together, damaged or cut off. */
#include <unistd.h>

#include "base/mem.h"
#include "io/sock.h"

#include "conn_rig.h"

static void test_records_in_single_bytes(void **state)
{
    struct end *a;
    struct end *b;
    int left[2];
    int right[2];
    size_t moved = 1;

    (void)state;
    unix_pair(left);
    unix_pair(right);
    a = end_new(left[0], tls_of_role(true), false, 1000);
    b = end_new(right[0], tls_of_role(false), true, 1000);
    sw_conn_put(&b->conn, "early", 5); /* waits for the handshake */
    for (int idle = 0; idle < 20; idle = moved ? 0 : idle + 1) {
        const int from[] = {left[1], right[1]};

        moved = 0;
        for (int i = 0; i < 2; i++) {
            char byte;

            if (sw_sock_read(from[i], &byte, 1) == 1) {
                moved++;
                peer_write(from[!i], &byte, 1);
            }
        }
        sw_loop_turn(loop, moved ? 0 : 1);
    }
    assert_int_equal(a->opens + b->opens, 2);
    assert_int_equal(sw_buf_len(&a->got), 5);
    assert_memory_equal(sw_buf_data(&a->got), "early", 5);
    end_free(a);
    end_free(b);
    sw_sock_close(left[1]);
    sw_sock_close(right[1]);
}

static void test_join_offers_records_together(void **state)
{
    char *text = pattern(60000);
    struct end *a;
    struct end *b;
    int fds[2];

    (void)state;
    for (int join = 0; join < 2; join++) {
        unix_pair(fds);
        a = end_new(fds[0], tls_of_role(true), false, 1000);
        b = end_new(fds[1], tls_of_role(false), true, 1000);
        UNTIL(a->opens && b->opens);
        settle();
        a->conn.join = join;
        a->calls = 0;
        sw_conn_pause(&a->conn);
        sw_conn_put(&b->conn, text, 60000);
        settle();
        sw_conn_resume(&a->conn);
        UNTIL(sw_buf_len(&a->got) == 60000);
        assert_memory_equal(sw_buf_data(&a->got), text, 60000);
        if (join)
            assert_int_equal(a->calls, 1);
        else
            assert_true(a->calls >= 4);
        end_free(a);
        end_free(b);
    }
    sw_free(text);
}

static void test_damaged_record_fails_with_an_alert(void **state)
{
    static const uint8_t junk[40] = {23, 3, 3, 0, 35};
    struct end *a;
    struct end *b;
    int fds[2];
    int also;

    (void)state;
    unix_pair(fds);
    also = dup(fds[1]);
    a = end_new(fds[0], tls_of_role(true), false, 1000);
    b = end_new(fds[1], tls_of_role(false), true, 1000);
    UNTIL(a->opens && b->opens);
    settle();
    peer_write(also, junk, sizeof(junk));
    UNTIL(a->frees && b->frees);
    assert_int_equal(a->why.rc, SW_EPROTO);
    assert_int_equal(b->why.rc, SW_EPROTO); /* told by the alert */
    sw_sock_close(also);
    end_free(a);
    end_free(b);
}

static void test_end_below_the_filter_is_told_apart(void **state)
{
    struct end *a;
    struct end *b;

    (void)state;
    faced(true, &a, &b);
    sw_conn_close(&b->conn, false);
    UNTIL(a->eofs);
    assert_true(a->conn.truncated);
    end_free(a);
    end_free(b);
    faced(true, &a, &b);
    sw_conn_put(&b->conn, "bye", 3);
    sw_conn_shutdown(&b->conn);
    UNTIL(a->eofs);
    assert_false(a->conn.truncated);
    assert_int_equal(sw_buf_len(&a->got), 3);
    end_free(a);
    end_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_records_in_single_bytes),
        cmocka_unit_test(test_join_offers_records_together),
        cmocka_unit_test(test_damaged_record_fails_with_an_alert),
        cmocka_unit_test(test_end_below_the_filter_is_told_apart),
    };

    return cmocka_run_group_tests(tests, rig_set_up, rig_tear_down);
}
