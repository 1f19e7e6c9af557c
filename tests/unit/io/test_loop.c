/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/thread.h"
#include "base/time.h"
#include "io/loop.h"

static uint64_t now_ns;

static uint64_t fake_clock(void)
{
    return now_ns;
}

static struct sw_loop *loop_new(void)
{
    struct sw_loop *l = sw_loop_new(NULL);

    assert_non_null(l);
    now_ns = SW_NS_PER_S;
    sw_loop_set_clock(l, fake_clock);
    return l;
}

/* ---- descriptors ---- */

struct end {
    struct sw_watch watch;
    int calls;
    unsigned events;
    struct end *other; /* stopped from the callback */
};

static void on_event(struct sw_watch *w, unsigned events)
{
    struct end *e = SW_CONTAINER_OF(w, struct end, watch);

    e->calls++;
    e->events |= events;
    if (e->other)
        sw_watch_stop(&e->other->watch);
}

static void pair(int fds[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
}

static void events_say_what_happened(void **state)
{
    struct sw_loop *l = loop_new();
    struct end e = {0};
    int fds[2];

    (void)state;
    pair(fds);
    assert_int_equal(sw_watch_start(l, &e.watch, fds[0], on_event, NULL), SW_OK);
    sw_loop_turn(l, 0);
    assert_int_equal(e.events, SW_WRITE); /* a fresh registration reports what is there */
    sw_loop_turn(l, 0);
    assert_int_equal(e.calls, 1); /* and only once */
    e.events = 0;
    assert_int_equal(write(fds[1], "x", 1), 1);
    sw_loop_turn(l, 0);
    assert_true(e.events & SW_READ);
    assert_false(e.events & SW_HUP);
    e.events = 0;
    (void)close(fds[1]);
    sw_loop_turn(l, 0);
    assert_true(e.events & SW_HUP);
    assert_true(e.events & SW_READ);
    sw_watch_stop(&e.watch);
    sw_watch_stop(&e.watch);
    (void)close(fds[0]);
    sw_loop_free(l);
}

static void a_watch_for_reading_reports_room_only_on_demand(void **state)
{
    struct sw_loop *l = loop_new();
    struct end e = {0};
    uint8_t datagram[1000] = {0};
    int fds[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    assert_int_equal(sw_watch_start_reading(l, &e.watch, fds[0], on_event, NULL), SW_OK);
    sw_loop_turn(l, 0);
    assert_int_equal(write(fds[0], datagram, sizeof(datagram)), sizeof(datagram));
    assert_int_equal(read(fds[1], datagram, sizeof(datagram)), sizeof(datagram));
    sw_loop_turn(l, 0);
    assert_int_equal(e.calls, 0);
    sw_watch_writable(&e.watch, true);
    sw_loop_turn(l, 0);
    assert_int_equal(e.events, SW_WRITE); /* there is room now */
    while (write(fds[0], datagram, sizeof(datagram)) > 0)
        ;
    e.events = 0;
    sw_loop_turn(l, 0);
    assert_int_equal(e.events, 0);
    while (read(fds[1], datagram, sizeof(datagram)) > 0)
        ;
    sw_loop_turn(l, 0);
    assert_int_equal(e.events, SW_WRITE); /* and again */
    sw_watch_writable(&e.watch, false);
    e.events = 0;
    assert_int_equal(write(fds[0], datagram, sizeof(datagram)), sizeof(datagram));
    assert_int_equal(read(fds[1], datagram, sizeof(datagram)), sizeof(datagram));
    sw_loop_turn(l, 0);
    assert_int_equal(e.events, 0);
    assert_int_equal(write(fds[1], "x", 1), 1);
    sw_loop_turn(l, 0);
    assert_int_equal(e.events, SW_READ);
    sw_watch_stop(&e.watch);
    (void)close(fds[0]);
    (void)close(fds[1]);
    sw_loop_free(l);
}

/* Both are ready in the same turn and each stops the other: exactly one is called. */
static void an_event_in_flight_is_dropped_when_its_watch_stopped(void **state)
{
    struct sw_loop *l = loop_new();
    struct end a = {0};
    struct end b = {0};
    int x[2];
    int y[2];

    (void)state;
    pair(x);
    pair(y);
    a.other = &b;
    b.other = &a;
    assert_int_equal(sw_watch_start(l, &a.watch, x[0], on_event, NULL), SW_OK);
    assert_int_equal(sw_watch_start(l, &b.watch, y[0], on_event, NULL), SW_OK);
    sw_loop_turn(l, 0);
    assert_int_equal(a.calls + b.calls, 1);
    for (int i = 0; i < 2; i++) {
        (void)close(x[i]);
        (void)close(y[i]);
    }
    sw_loop_free(l);
}

struct reuse {
    struct end closer;
    struct end victim;
    struct end heir;
    struct sw_loop *loop;
    int fd;
};

/* Closes the victim's descriptor and opens another with the same number. */
static void on_reuse(struct sw_watch *w, unsigned events)
{
    struct reuse *r = SW_CONTAINER_OF(w, struct reuse, closer.watch);
    int fds[2];

    (void)events;
    if (r->victim.calls || r->heir.watch.loop)
        return;
    sw_watch_stop(&r->victim.watch);
    (void)close(r->fd);
    pair(fds);
    assert_int_equal(fds[0], r->fd);
    assert_int_equal(sw_watch_start(r->loop, &r->heir.watch, fds[0], on_event, NULL), SW_OK);
    r->closer.calls = fds[1];
}

static void a_reused_number_does_not_inherit_events(void **state)
{
    struct reuse r = {.loop = loop_new()};
    int x[2];
    int y[2];

    (void)state;
    pair(x);
    pair(y);
    assert_int_equal(sw_watch_start(r.loop, &r.closer.watch, x[0], on_reuse, NULL), SW_OK);
    assert_int_equal(sw_watch_start(r.loop, &r.victim.watch, y[0], on_event, NULL), SW_OK);
    assert_int_equal(write(y[1], "x", 1), 1); /* readable: the heir's own events would not be */
    r.fd = y[0];
    sw_loop_turn(r.loop, 0);
    if (r.heir.watch.loop) { /* the closer was first */
        assert_int_equal(r.victim.calls, 0);
        assert_int_equal(r.heir.calls, 0);
        sw_loop_turn(r.loop, 0);
        assert_int_equal(r.heir.events, SW_WRITE);
        (void)close(r.closer.calls);
    }
    sw_watch_stop(&r.heir.watch);
    (void)close(r.fd);
    (void)close(y[1]);
    (void)close(x[0]);
    (void)close(x[1]);
    sw_loop_free(r.loop);
}

/* Stopped without closing, watched again: what is ready is reported again. */
static void a_descriptor_can_change_owners(void **state)
{
    struct sw_loop *l = loop_new();
    struct end a = {0};
    struct end b = {0};
    struct end c = {0};
    int fds[2];

    (void)state;
    pair(fds);
    assert_int_equal(write(fds[1], "x", 1), 1);
    assert_int_equal(sw_watch_start(l, &a.watch, fds[0], on_event, NULL), SW_OK);
    sw_loop_turn(l, 0);
    sw_watch_stop(&a.watch);
    assert_int_equal(sw_watch_start(l, &b.watch, fds[0], on_event, NULL), SW_OK);
    sw_loop_turn(l, 0);
    assert_int_equal(a.calls, 1);
    assert_int_equal(b.events, SW_READ | SW_WRITE);
    /* Moved: nothing is repeated, what comes next goes to the new owner. */
    sw_watch_move(&b.watch, &c.watch, on_event);
    sw_loop_turn(l, 0);
    assert_int_equal(c.calls, 0);
    assert_int_equal(write(fds[1], "y", 1), 1);
    sw_loop_turn(l, 0);
    assert_int_equal(b.calls, 1);
    assert_int_equal(c.calls, 1);
    sw_watch_stop(&b.watch); /* gave it away: stops nothing */
    assert_int_equal(write(fds[1], "z", 1), 1);
    sw_loop_turn(l, 0);
    assert_int_equal(c.calls, 2);
    sw_watch_stop(&c.watch);
    (void)close(fds[0]);
    (void)close(fds[1]);
    sw_loop_free(l);
}

static void watching_a_closed_descriptor_fails(void **state)
{
    struct sw_loop *l = loop_new();
    struct sw_err err = {0};
    struct end e = {0};

    (void)state;
    assert_int_equal(sw_watch_start(l, &e.watch, 900, on_event, &err), SW_ESYS);
    assert_null(e.watch.loop);
    sw_watch_stop(&e.watch);
    sw_loop_free(l);
}

/* ---- timers ---- */

struct alarm {
    struct sw_timer timer;
    struct sw_loop *loop;
    int id;
    int calls;
    uint64_t again_ns;
    bool again;
    struct alarm *stop;
};

static int order[256];
static size_t n_order;

static void on_alarm(struct sw_timer *t)
{
    struct alarm *a = SW_CONTAINER_OF(t, struct alarm, timer);

    assert_false(sw_timer_running(t));
    a->calls++;
    if (n_order < SW_ARRAY_LEN(order))
        order[n_order++] = a->id;
    if (a->again)
        sw_timer_start(a->loop, t, a->again_ns, on_alarm);
    if (a->stop)
        sw_timer_stop(a->loop, &a->stop->timer);
}

static void timers_fire_in_the_order_of_their_deadlines(void **state)
{
    struct sw_loop *l = loop_new();
    struct alarm a[100];

    (void)state;
    n_order = 0;
    for (int i = 0; i < 100; i++) {
        a[i] = (struct alarm){.loop = l, .id = i * 37 % 100};
        sw_timer_start(l, &a[i].timer, (uint64_t)(a[i].id + 1) * SW_NS_PER_MS, on_alarm);
    }
    for (int i = 0; i < 100; i += 3) /* every third is stopped */
        sw_timer_stop(l, &a[i].timer);
    for (int i = 1; i < 100; i += 3) /* and every third moved to the end */
        sw_timer_start(l, &a[i].timer, (uint64_t)(a[i].id + 1001) * SW_NS_PER_MS, on_alarm);
    sw_loop_turn(l, 0);
    assert_int_equal(n_order, 0);
    now_ns += 1000 * SW_NS_PER_MS;
    sw_loop_turn(l, 0);
    assert_int_equal(n_order, 33);
    for (size_t i = 1; i < n_order; i++)
        assert_true(order[i - 1] < order[i]);
    now_ns += 1000 * SW_NS_PER_MS;
    n_order = 0;
    sw_loop_turn(l, 0);
    assert_int_equal(n_order, 33);
    for (size_t i = 1; i < n_order; i++)
        assert_true(order[i - 1] < order[i]);
    for (int i = 0; i < 100; i++)
        assert_int_equal(a[i].calls, i % 3 != 0);
    sw_loop_free(l);
}

static void a_callback_may_rearm_its_timer_and_stop_others(void **state)
{
    struct sw_loop *l = loop_new();
    struct alarm b = {.loop = l, .id = 2};
    struct alarm a = {.loop = l, .id = 1, .again = true, .again_ns = SW_NS_PER_MS, .stop = &b};

    (void)state;
    sw_timer_start(l, &a.timer, SW_NS_PER_MS, on_alarm);
    sw_timer_start(l, &b.timer, 2 * SW_NS_PER_MS, on_alarm);
    now_ns += 5 * SW_NS_PER_MS;
    sw_loop_turn(l, 0); /* both are due; the first stops the second */
    assert_int_equal(a.calls, 1);
    assert_int_equal(b.calls, 0);
    now_ns += SW_NS_PER_MS;
    sw_loop_turn(l, 0);
    assert_int_equal(a.calls, 2);
    sw_timer_stop(l, &a.timer);
    sw_timer_stop(l, &a.timer);
    now_ns += SW_NS_PER_S;
    sw_loop_turn(l, 0);
    assert_int_equal(a.calls, 2);
    sw_loop_free(l);
}

static void a_timer_of_no_delay_does_not_spin(void **state)
{
    struct sw_loop *l = loop_new();
    struct alarm a = {.loop = l, .again = true, .again_ns = 0};

    (void)state;
    sw_timer_start(l, &a.timer, 0, on_alarm);
    for (int i = 1; i <= 3; i++) {
        now_ns += 1;
        sw_loop_turn(l, 0);
        assert_int_equal(a.calls, i);
    }
    sw_timer_stop(l, &a.timer);
    sw_loop_free(l);
}

static void an_endless_delay_does_not_wrap(void **state)
{
    struct sw_loop *l = loop_new();
    struct alarm a = {.loop = l};

    (void)state;
    sw_timer_start(l, &a.timer, UINT64_MAX, on_alarm);
    sw_loop_turn(l, 0);
    assert_int_equal(a.calls, 0);
    sw_timer_stop(l, &a.timer);
    sw_loop_free(l);
}

static void the_loop_sleeps_until_the_next_timer(void **state)
{
    struct sw_loop *l = sw_loop_new(NULL);
    struct alarm a = {.loop = l};

    (void)state;
    sw_timer_start(l, &a.timer, 20 * SW_NS_PER_MS, on_alarm);
    for (int i = 0; i < 5 && !a.calls; i++)
        sw_loop_turn(l, 1000000); /* who sleeps for so long is ended by the test runner */
    assert_int_equal(a.calls, 1);
    sw_loop_free(l);
}

/* ---- deferred calls ---- */

struct later {
    struct sw_defer defer;
    struct sw_loop *loop;
    int calls;
    int again;
    struct later *cancel;
};

static void on_later(struct sw_defer *d)
{
    struct later *x = SW_CONTAINER_OF(d, struct later, defer);

    x->calls++;
    if (x->again-- > 0)
        sw_loop_defer(x->loop, d, on_later);
    if (x->cancel)
        sw_defer_cancel(&x->cancel->defer);
}

static void deferred_calls_come_once_and_can_be_cancelled(void **state)
{
    struct sw_loop *l = loop_new();
    struct later c = {.loop = l};
    struct later b = {.loop = l, .again = 2};
    struct later a = {.loop = l, .cancel = &c};
    struct later never = {0};

    (void)state;
    sw_defer_cancel(&never.defer); /* zeroed */
    sw_loop_defer(l, &a.defer, on_later);
    sw_loop_defer(l, &a.defer, on_later);
    sw_loop_defer(l, &b.defer, on_later);
    sw_loop_defer(l, &c.defer, on_later);
    sw_loop_turn(l, 5000); /* does not wait */
    assert_int_equal(a.calls, 1);
    assert_int_equal(b.calls, 2); /* queued again by itself: a second round, then the next turn */
    assert_int_equal(c.calls, 0); /* cancelled by one of the same batch */
    sw_loop_turn(l, 5000);
    assert_int_equal(b.calls, 3);
    sw_loop_free(l);
}

static void freeing_the_loop_runs_what_is_left(void **state)
{
    struct sw_loop *l = loop_new();
    struct later a = {.loop = l, .again = 3};

    (void)state;
    sw_loop_defer(l, &a.defer, on_later);
    sw_loop_free(l);
    assert_int_equal(a.calls, 4);
}

/* ---- messages ---- */

struct note {
    struct sw_msg msg;
    struct sw_defer defer;
    struct sw_loop *loop;
    int *count;
    int from;
    int seq;
};

enum { POSTERS = 4, NOTES = 20000 };

static int last_seq[POSTERS];
static int received;

static void on_note(struct sw_msg *m)
{
    struct note *n = SW_CONTAINER_OF(m, struct note, msg);

    assert_true(n->seq == last_seq[n->from] + 1); /* each thread's own order is kept */
    last_seq[n->from] = n->seq;
    received++;
    sw_free(n);
}

struct poster {
    pthread_t thread;
    struct sw_loop *loop;
    int id;
};

static void *post_all(void *arg)
{
    struct poster *p = arg;

    for (int i = 1; i <= NOTES; i++) {
        struct note *n = SW_NEW(struct note);

        n->msg.cb = on_note;
        n->from = p->id;
        n->seq = i;
        sw_loop_post(p->loop, &n->msg);
    }
    return NULL;
}

static void messages_from_other_threads_all_arrive_in_order(void **state)
{
    struct sw_loop *l = sw_loop_new(NULL);
    struct poster p[POSTERS];

    (void)state;
    received = 0;
    memset(last_seq, 0, sizeof(last_seq));
    for (int i = 0; i < POSTERS; i++) {
        p[i] = (struct poster){.loop = l, .id = i};
        assert_int_equal(sw_thread_start(&p[i].thread, post_all, &p[i], "poster"), 0);
    }
    while (received < POSTERS * NOTES)
        sw_loop_turn(l, 5000);
    for (int i = 0; i < POSTERS; i++)
        (void)pthread_join(p[i].thread, NULL);
    assert_int_equal(received, POSTERS * NOTES);
    sw_loop_free(l);
}

static void count_note(struct sw_msg *m)
{
    struct note *n = SW_CONTAINER_OF(m, struct note, msg);

    (*n->count)++;
}

static void post_late(struct sw_defer *d)
{
    struct note *n = SW_CONTAINER_OF(d, struct note, defer);

    sw_loop_post(n->loop, &n->msg);
}

static void messages_left_over_are_delivered_when_the_loop_ends(void **state)
{
    struct sw_loop *l = loop_new();
    int count = 0;
    struct note early = {.msg.cb = count_note, .count = &count};
    struct note late = {.msg.cb = count_note, .count = &count, .loop = l};

    (void)state;
    sw_loop_post(l, &early.msg);
    sw_loop_defer(l, &late.defer, post_late); /* posts while the loop is being freed */
    sw_loop_free(l);
    assert_int_equal(count, 2);
}

static void stop_now(struct sw_msg *m)
{
    sw_loop_stop(SW_CONTAINER_OF(m, struct note, msg)->loop);
}

static void *post_stop(void *arg)
{
    struct note *n = arg;

    sw_loop_post(n->loop, &n->msg);
    return NULL;
}

static void a_message_wakes_and_stops_a_running_loop(void **state)
{
    struct sw_loop *l = sw_loop_new(NULL);
    struct note n = {.msg.cb = stop_now, .loop = l};
    pthread_t t;

    (void)state;
    assert_int_equal(sw_thread_start(&t, post_stop, &n, "stopper"), 0);
    sw_loop_run(l);
    (void)pthread_join(t, NULL);
    sw_loop_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_say_what_happened),
        cmocka_unit_test(a_watch_for_reading_reports_room_only_on_demand),
        cmocka_unit_test(an_event_in_flight_is_dropped_when_its_watch_stopped),
        cmocka_unit_test(a_reused_number_does_not_inherit_events),
        cmocka_unit_test(a_descriptor_can_change_owners),
        cmocka_unit_test(watching_a_closed_descriptor_fails),
        cmocka_unit_test(timers_fire_in_the_order_of_their_deadlines),
        cmocka_unit_test(a_callback_may_rearm_its_timer_and_stop_others),
        cmocka_unit_test(a_timer_of_no_delay_does_not_spin),
        cmocka_unit_test(an_endless_delay_does_not_wrap),
        cmocka_unit_test(the_loop_sleeps_until_the_next_timer),
        cmocka_unit_test(deferred_calls_come_once_and_can_be_cancelled),
        cmocka_unit_test(freeing_the_loop_runs_what_is_left),
        cmocka_unit_test(messages_from_other_threads_all_arrive_in_order),
        cmocka_unit_test(messages_left_over_are_delivered_when_the_loop_ends),
        cmocka_unit_test(a_message_wakes_and_stops_a_running_loop),
    };

    return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}
