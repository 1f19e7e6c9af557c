/* SPDX-License-Identifier: Apache-2.0 */
/* Batched reads and writes: the same results with the kernel's ring and without. */
#include "test.h"

#include <errno.h>

#include "base/err.h"
#include "base/mem.h"
#include "io/batch.h"
#include "io/sock.h"

enum { MAX = 16 };

static void pair(int fds[2])
{
    assert_int_equal(sw_sock_pair(fds, NULL), SW_OK);
}

static void check_moves_bytes(bool ring)
{
    struct sw_batch *b = sw_batch_new(MAX, ring);
    int fds[MAX / 2][2];

    for (int i = 0; i < MAX / 2; i++)
        pair(fds[i]);
    /* Often enough for the ring's counters to wrap around its size many times. */
    for (int round = 0; round < 100; round++) {
        int n = 1 + round % (MAX / 2);
        char in[MAX / 2][8] = {{0}};
        const struct sw_batch_result *r;

        for (int i = 0; i < n; i++)
            assert_int_equal(sw_batch_write(b, fds[i][0], &"abcdefgh"[i], 1), i);
        for (int i = 0; i < n; i++)
            assert_int_equal(sw_batch_read(b, fds[i][1], in[i], sizeof(in[i])), n + i);
        assert_int_equal(sw_batch_queued(b), 2 * n);
        r = sw_batch_run(b);
        assert_int_equal(sw_batch_queued(b), 0);
        for (int i = 0; i < n; i++) {
            assert_int_equal(r[i].n, 1);
            assert_int_equal(r[n + i].n, 1);
            assert_int_equal(in[i][0], "abcdefgh"[i]);
        }
    }
    for (int i = 0; i < MAX / 2; i++) {
        sw_sock_close(fds[i][0]);
        sw_sock_close(fds[i][1]);
    }
    sw_batch_free(b);
}

static void check_results(bool ring)
{
    struct sw_batch *b = sw_batch_new(MAX, ring);
    static char big[4 << 20];
    char in[4] = {0};
    int empty[2], ended[2], broken[2], full[2], fine[2];
    const struct sw_batch_result *r;
    int closed = 99999;

    pair(empty);
    pair(ended);
    pair(broken);
    pair(full);
    pair(fine);
    sw_sock_shutdown_write(ended[1]);
    sw_sock_close(broken[1]);
    (void)sw_batch_read(b, empty[0], in, 1);
    (void)sw_batch_read(b, ended[0], in, 1);
    (void)sw_batch_write(b, broken[0], "x", 1);
    (void)sw_batch_write(b, full[0], big, sizeof(big)); /* takes a part */
    (void)sw_batch_write(b, full[0], big, sizeof(big)); /* nothing any more */
    (void)sw_batch_write(b, closed, "x", 1);
    (void)sw_batch_write(b, fine[0], "1", 1);
    (void)sw_batch_write(b, fine[0], "2", 1);
    (void)sw_batch_read(b, fine[1], in, sizeof(in));
    r = sw_batch_run(b);
    assert_int_equal(r[0].n, SW_EAGAIN);
    assert_int_equal(r[1].n, SW_EOF);
    assert_int_equal(r[2].n, SW_ECLOSED);
    assert_int_equal(r[2].sys_errno, EPIPE);
    assert_true(r[3].n > 0 && r[3].n < (ssize_t)sizeof(big));
    assert_int_equal(r[4].n, SW_EAGAIN);
    assert_int_equal(r[5].n, SW_ESYS);
    assert_int_equal(r[5].sys_errno, EBADF);
    assert_int_equal(r[6].n, 1);
    assert_int_equal(r[7].n, 1);
    assert_int_equal(r[8].n, 2);
    assert_memory_equal(in, "12", 2);
    /* The next run begins anew. */
    assert_int_equal(sw_batch_write(b, fine[0], "3", 1), 0);
    assert_int_equal(sw_batch_run(b)[0].n, 1);
    for (int i = 0; i < 2; i++) {
        sw_sock_close(empty[i]);
        sw_sock_close(ended[i]);
        sw_sock_close(full[i]);
        sw_sock_close(fine[i]);
    }
    sw_sock_close(broken[0]);
    sw_batch_free(b);
}

static void bytes_move_with_the_ring(void **state)
{
    (void)state;
    check_moves_bytes(true);
}

static void bytes_move_without_it(void **state)
{
    (void)state;
    check_moves_bytes(false);
}

static void every_end_is_told_with_the_ring(void **state)
{
    (void)state;
    check_results(true);
}

static void every_end_is_told_without_it(void **state)
{
    (void)state;
    check_results(false);
}

static void few_operations_need_no_ring(void **state)
{
    struct sw_batch *b = sw_batch_new(MAX, true);
    int fds[2];
    char c = 0;

    (void)state;
    pair(fds);
    (void)sw_batch_write(b, fds[0], "x", 1);
    (void)sw_batch_read(b, fds[1], &c, 1);
    assert_int_equal(sw_batch_run(b)[1].n, 1);
    assert_int_equal(c, 'x');
    assert_false(sw_batch_has_ring(b));
    sw_sock_close(fds[0]);
    sw_sock_close(fds[1]);
    sw_batch_free(b);
}

/* Nobody's descriptors are kept open by it. */
static void closed_sockets_end_for_their_peers(void **state)
{
    struct sw_batch *b = sw_batch_new(MAX, true);
    int fds[4][2];
    char c[4];

    (void)state;
    for (int i = 0; i < 4; i++) {
        pair(fds[i]);
        (void)sw_batch_read(b, fds[i][0], &c[i], 1);
    }
    assert_int_equal(sw_batch_run(b)[3].n, SW_EAGAIN);
    for (int i = 0; i < 4; i++) {
        sw_sock_close(fds[i][0]);
        assert_int_equal(sw_sock_read(fds[i][1], &c[i], 1), SW_EOF);
        sw_sock_close(fds[i][1]);
    }
    sw_batch_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_move_with_the_ring),
        cmocka_unit_test(bytes_move_without_it),
        cmocka_unit_test(every_end_is_told_with_the_ring),
        cmocka_unit_test(every_end_is_told_without_it),
        cmocka_unit_test(few_operations_need_no_ring),
        cmocka_unit_test(closed_sockets_end_for_their_peers),
    };

    return cmocka_run_group_tests_name("io batch", tests, NULL, NULL);
}
