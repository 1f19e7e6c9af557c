/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sys/resource.h>

#include "rig.h"
#include "tunnel/dial.h"

struct
try {
    struct sw_dial dial;
    int calls;
    int rc;
    int sys_errno;
};

static void on_dialled(struct sw_dial *d, int rc, const struct sw_err *err)
{
    struct try *t = SW_CONTAINER_OF(d, struct try, dial);

    t->calls++;
    t->rc = rc;
    t->sys_errno = rc == SW_OK ? 0 : err->sys_errno;
}

static void start(struct try *t, struct sw_loop *l, const struct sw_addr *to, uint64_t timeout_ns)
{
    static const struct sw_sock_opts opts = SW_SOCK_OPTS_INIT;
    const struct sw_dial_target target = {.to = to, .opts = &opts, .timeout_ns = timeout_ns};

    sw_dial_start(&t->dial, l, &target, on_dialled);
}

static void a_listener_is_reached(void **state)
{
    struct sw_loop *l = rig_loop();
    struct try t = {0};
    struct sw_dialled got;
    struct sw_addr at;
    int listener = tcp_listener(&at);
    int far;

    (void)state;
    start(&t, l, &at, SW_NS_PER_S);
    assert_int_equal(t.calls, 0);
    RUN_UNTIL(l, t.calls);
    assert_int_equal(t.rc, SW_OK);
    far = tcp_accept(listener);
    sw_dial_take(&t.dial, &got);
    assert_true(got.fd >= 0);
    put(got.fd, "x");
    expect(l, far, "x");
    sw_dial_cancel(&t.dial); /* harmless now */
    rig_advance(l, 5 * SW_NS_PER_S);
    assert_int_equal(t.calls, 1);
    sw_dialled_close(&got);
    sw_sock_close(far);
    sw_sock_close(listener);
    rig_loop_done(l);
}

/* The kernel tells once: what it told before the connect was reported must not be lost. */
static void a_listener_that_speaks_first_is_heard(void **state)
{
    struct sw_loop *l = rig_loop();
    struct try t = {0};
    struct sw_dialled got;
    struct sw_addr at;
    int listener = tcp_listener(&at);
    int far;

    (void)state;
    start(&t, l, &at, SW_NS_PER_S);
    far = tcp_accept(listener);
    put(far, "x");
    RUN_UNTIL(l, t.calls);
    assert_int_equal(t.rc, SW_OK);
    sw_dial_take(&t.dial, &got);
    assert_true(got.events & SW_READ);
    sw_dialled_close(&got);
    sw_sock_close(far);
    sw_sock_close(listener);
    rig_loop_done(l);
}

static void a_closed_port_is_refused(void **state)
{
    struct sw_loop *l = rig_loop();
    struct try t = {0};
    struct sw_addr at;

    (void)state;
    sw_sock_close(tcp_listener(&at));
    start(&t, l, &at, SW_NS_PER_S);
    assert_int_equal(t.calls, 0);
    RUN_UNTIL(l, t.calls);
    assert_int_equal(t.rc, SW_ESYS);
    assert_int_equal(t.sys_errno, ECONNREFUSED);
    sw_dial_cancel(&t.dial);
    rig_loop_done(l);
}

/* A listener whose queue is full answers nothing. */
static void silence_runs_into_the_deadline(void **state)
{
    struct sw_sock_opts one = {.backlog = 1, .netns_fd = -1};
    struct sw_addr at = {.ip = {.family = 4, .b = {127, 0, 0, 1}}};
    struct sw_loop *l = rig_loop();
    struct try t[8] = {0};
    int listener;
    int timed_out = 0;

    (void)state;
    assert_int_equal(sw_sock_listen(&at, &one, &listener, NULL), SW_OK);
    at = sw_sock_local(listener);
    for (int i = 0; i < 8; i++)
        start(&t[i], l, &at, 10 * SW_NS_PER_S);
    rig_settle(l);
    rig_advance(l, 9 * SW_NS_PER_S);
    for (int i = 0; i < 8; i++)
        assert_true(t[i].calls == 0 || t[i].rc == SW_OK);
    rig_advance(l, 2 * SW_NS_PER_S);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(t[i].calls, 1);
        timed_out += t[i].rc == SW_ETIME;
        sw_dial_cancel(&t[i].dial);
    }
    assert_true(timed_out >= 4);
    sw_sock_close(listener);
    rig_loop_done(l);
}

static void a_cancelled_dial_never_calls(void **state)
{
    struct sw_loop *l = rig_loop();
    struct try t = {0};
    struct sw_addr at;

    (void)state;
    sw_dial_cancel(&t.dial); /* zeroed */
    sw_sock_close(tcp_listener(&at));
    start(&t, l, &at, SW_NS_PER_S);
    sw_dial_cancel(&t.dial);
    sw_dial_cancel(&t.dial);
    rig_advance(l, 5 * SW_NS_PER_S);
    assert_int_equal(t.calls, 0);
    rig_loop_done(l);
}

static void running_out_of_descriptors_is_reported_from_the_loop(void **state)
{
    struct sw_loop *l = rig_loop();
    struct try t = {0};
    struct sw_addr at;
    int listener = tcp_listener(&at);
    struct rlimit old;
    struct rlimit low;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    low = old;
    low.rlim_cur = 3;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    start(&t, l, &at, SW_NS_PER_S);
    assert_int_equal(t.calls, 0);
    RUN_UNTIL(l, t.calls);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_int_equal(t.rc, SW_ELIMIT);
    sw_sock_close(listener);
    rig_loop_done(l);
}

static void no_address_is_an_error_not_a_crash(void **state)
{
    struct sw_loop *l = rig_loop();
    struct try t = {0};

    (void)state;
    start(&t, l, &(struct sw_addr){0}, SW_NS_PER_S);
    RUN_UNTIL(l, t.calls);
    assert_int_equal(t.rc, SW_EINVAL);
    rig_loop_done(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_listener_is_reached),
        cmocka_unit_test(a_listener_that_speaks_first_is_heard),
        cmocka_unit_test(a_closed_port_is_refused),
        cmocka_unit_test(silence_runs_into_the_deadline),
        cmocka_unit_test(a_cancelled_dial_never_calls),
        cmocka_unit_test(running_out_of_descriptors_is_reported_from_the_loop),
        cmocka_unit_test(no_address_is_an_error_not_a_crash),
    };

    return cmocka_run_group_tests_name("dial", tests, NULL, NULL);
}
