/* SPDX-License-Identifier: Apache-2.0 */
/* What the process of a role does with signals: reload, drain once, end. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "telemetry/process.h"

struct role {
    struct sw_process process;
    int reloads;
    int drains;
};

static void reload(void *arg)
{
    ((struct role *)arg)->reloads++;
}

static void drain(void *arg)
{
    ((struct role *)arg)->drains++;
}

static void open_role(struct role *r, bool own_drain)
{
    static const struct sw_process_config config = {.drain_ns = 1};
    const struct sw_process_opts o = {.name = "test",
                                      .config = &config,
                                      .awaits = "start",
                                      .reload = reload,
                                      .drain = own_drain ? drain : NULL,
                                      .arg = r};
    struct sw_err err = {0};

    assert_int_equal(sw_process_open(&r->process, &o, &err), SW_OK);
}

static void send_signal(struct role *r, int signo)
{
    assert_int_equal(raise(signo), 0);
    sw_loop_turn(r->process.loop, 0);
}

static void signals_reload_and_drain(void **state)
{
    struct role r = {0};
    SW_BUF_AUTO pending = {.max = 256};

    open_role(&r, true);
    send_signal(&r, SIGHUP);
    send_signal(&r, SIGHUP);
    assert_int_equal(r.reloads, 2);
    assert_int_equal(r.drains, 0);
    send_signal(&r, SIGTERM);
    send_signal(&r, SIGTERM);
    sw_process_drain(&r.process);
    assert_int_equal(r.drains, 1);
    assert_false(sw_ready_check(r.process.ready, &pending));
    assert_true(sw_slice_eq_str(sw_buf_slice(&pending), "draining, start"));
    sw_process_close(&r.process);
    (void)state;
}

/* A second SIGINT does not wait for the drain. */
static void second_interrupt_ends(void **state)
{
    struct role r = {0};

    open_role(&r, true);
    send_signal(&r, SIGINT);
    assert_int_equal(raise(SIGINT), 0);
    sw_loop_run(r.process.loop); /* returns */
    assert_int_equal(r.drains, 1);
    sw_process_close(&r.process);
    (void)state;
}

/* Without workers the drain is over at once. */
static void drain_of_the_crew_ends_the_loop(void **state)
{
    struct role r = {0};

    open_role(&r, false);
    assert_int_equal(raise(SIGTERM), 0);
    sw_loop_run(r.process.loop);
    assert_true(r.process.crew.draining);
    assert_int_equal(r.drains, 0);
    sw_process_close(&r.process);
    (void)state;
}

static void never_opened_closes(void **state)
{
    struct sw_process p = {0};

    sw_process_close_admin(&p);
    sw_process_close(&p);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signals_reload_and_drain),
        cmocka_unit_test(second_interrupt_ends),
        cmocka_unit_test(drain_of_the_crew_ends_the_loop),
        cmocka_unit_test(never_opened_closes),
    };

    return cmocka_run_group_tests_name("process", tests, NULL, NULL);
}
