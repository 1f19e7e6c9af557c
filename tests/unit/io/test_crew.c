/* SPDX-License-Identifier: Apache-2.0 */
/* Accepting with pauses, and worker threads from their first order to their end. */
#include "test.h"
#include <setjmp.h>

#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "io/accept.h"
#include "io/crew.h"
#include "io/sock.h"

/* ---- accepting ---- */

struct world {
    struct sw_loop *loop;
    struct sw_accept_group group;
    struct sw_acceptor own;
    struct sw_addr at;
    int taken[16];
    unsigned n;
    unsigned pauses;
};

static uint64_t now_ns = 1000000000;

static uint64_t clock_ns(void)
{
    return now_ns;
}

static void on_accept(struct sw_acceptor *a, int fd, const struct sw_addr *peer)
{
    struct world *w = SW_CONTAINER_OF(a->group, struct world, group);

    assert_true(peer->port != 0);
    assert_true(w->n < SW_ARRAY_LEN(w->taken));
    w->taken[w->n++] = fd;
}

static void on_pause(struct sw_accept_group *g)
{
    SW_CONTAINER_OF(g, struct world, group)->pauses++;
}

static void world_init(struct world *w)
{
    struct sw_sock_opts o = SW_SOCK_OPTS_INIT;
    int fd;

    *w = (struct world){.loop = sw_loop_new(NULL)};
    assert_non_null(w->loop);
    sw_loop_set_clock(w->loop, clock_ns);
    sw_accept_init(&w->group, w->loop, "test");
    w->group.on_pause = on_pause;
    assert_int_equal(sw_addr_parse(sw_slice_str("127.0.0.1:0"), &w->at, NULL), SW_OK);
    assert_int_equal(sw_sock_listen(&w->at, &o, &fd, NULL), SW_OK);
    w->at = sw_sock_local(fd);
    assert_int_equal(sw_accept_open(&w->group, &w->own, fd, on_accept, NULL), SW_OK);
}

static void world_done(struct world *w)
{
    sw_accept_done(&w->group);
    for (unsigned i = 0; i < w->n; i++)
        sw_sock_close(w->taken[i]);
    sw_loop_free(w->loop);
}

/* A client whose connection is in the queue when this returns. */
static int connect_to(const struct sw_addr *at)
{
    struct sw_sock_opts o = SW_SOCK_OPTS_INIT;
    int fd;

    assert_int_equal(sw_sock_connect(at, NULL, &o, &fd, NULL), SW_OK);
    while (!sw_sock_is_connected(fd))
        ;
    return fd;
}

static void turns(struct world *w, int n)
{
    while (n--)
        sw_loop_turn(w->loop, 0);
}

static void test_all_waiting_are_taken_within_some_turns(void **state)
{
    struct world w;
    int fds[9];

    (void)state;
    world_init(&w);
    for (size_t i = 0; i < SW_ARRAY_LEN(fds); i++)
        fds[i] = connect_to(&w.at);
    turns(&w, 5);
    assert_int_equal(w.n, SW_ARRAY_LEN(fds));
    for (size_t i = 0; i < SW_ARRAY_LEN(fds); i++)
        sw_sock_close(fds[i]);
    world_done(&w);
}

static void test_a_high_descriptor_pauses_and_accepting_resumes(void **state)
{
    struct world w;
    int a;
    int b;

    (void)state;
    world_init(&w);
    a = connect_to(&w.at);
    b = connect_to(&w.at);
    w.group.fd_ceiling = 0;
    turns(&w, 4);
    assert_int_equal(w.n, 1); /* the one that was too high is served still */
    assert_int_equal(w.pauses, 1);
    w.group.fd_ceiling = 1 << 30;
    now_ns += 200 * 1000000;
    turns(&w, 4);
    assert_int_equal(w.n, 2);
    sw_sock_close(a);
    sw_sock_close(b);
    world_done(&w);
}

static void test_no_descriptors_lose_no_connection(void **state)
{
    struct world w;
    struct rlimit old;
    struct rlimit low;
    int fd;

    (void)state;
    world_init(&w);
    fd = connect_to(&w.at);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    low = old;
    low.rlim_cur = 3;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    turns(&w, 4);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_int_equal(w.n, 0);
    assert_int_equal(w.pauses, 1);
    now_ns += 200 * 1000000;
    turns(&w, 4);
    assert_int_equal(w.n, 1);
    sw_sock_close(fd);
    world_done(&w);
}

static void test_held_listeners_wait(void **state)
{
    struct world w;
    struct sw_sock_opts o = SW_SOCK_OPTS_INIT;
    struct sw_addr late = {0};
    int fds[2];

    (void)state;
    world_init(&w);
    sw_accept_hold(&w.group, true);
    late = w.at;
    late.port = 0;
    assert_int_equal(sw_accept_listen(&w.group, &late, &o, on_accept, &late, NULL), SW_OK);
    fds[0] = connect_to(&w.at);
    fds[1] = connect_to(&late);
    turns(&w, 3);
    assert_int_equal(w.n, 0);
    sw_accept_hold(&w.group, false);
    turns(&w, 3);
    assert_int_equal(w.n, 2);
    sw_sock_close(fds[0]);
    sw_sock_close(fds[1]);
    world_done(&w);
}

static void test_finishing_serves_the_queue_and_closing_does_not(void **state)
{
    struct world w;
    int fds[3];

    (void)state;
    world_init(&w);
    w.group.paused = true; /* even then: nobody comes back for them */
    for (size_t i = 0; i < SW_ARRAY_LEN(fds); i++)
        fds[i] = connect_to(&w.at);
    sw_accept_finish(&w.own);
    assert_int_equal(w.n, 3);
    assert_int_equal(w.own.fd, -1);
    sw_accept_finish(&w.own);
    sw_accept_close(&w.own);
    for (size_t i = 0; i < SW_ARRAY_LEN(fds); i++)
        sw_sock_close(fds[i]);
    world_done(&w);

    world_init(&w);
    fds[0] = connect_to(&w.at);
    sw_accept_close(&w.own);
    assert_int_equal(w.n, 0);
    sw_sock_close(fds[0]);
    world_done(&w);
}

/* ---- workers ---- */

struct hand {
    struct sw_crew_thread thread;
    int left; /* things to do before it is idle */
    int sum;
    int killed;
    int ended;
};

static struct hand *hand_of(struct sw_crew_thread *t)
{
    return SW_CONTAINER_OF(t, struct hand, thread);
}

static void hand_drain(struct sw_crew_thread *t)
{
    hand_of(t)->left = 0;
}

static void hand_stays(struct sw_crew_thread *t)
{
    (void)t;
}

static bool hand_idle(struct sw_crew_thread *t)
{
    return hand_of(t)->left == 0;
}

static void hand_kill(struct sw_crew_thread *t)
{
    hand_of(t)->killed++;
}

static void hand_end(struct sw_crew_thread *t)
{
    hand_of(t)->ended++;
}

static const struct sw_crew_ops hand_ops = {hand_drain, hand_idle, hand_kill, hand_end, NULL};
static const struct sw_crew_ops stubborn_ops = {hand_stays, hand_idle, hand_kill, hand_end, NULL};

static void add(struct sw_crew_thread *t, void *arg)
{
    hand_of(t)->sum += *(int *)arg;
}

static void run_crew(const struct sw_crew_ops *ops, uint64_t drain_ns, struct hand hands[3])
{
    static int one = 1;
    struct sw_loop *loop = sw_loop_new(NULL);
    struct sw_crew crew;

    sw_crew_init(&crew, "test", loop);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(sw_crew_thread_init(&hands[i].thread, &crew, ops, NULL), SW_OK);
        assert_int_equal(hands[i].thread.index, i);
        hands[i].left = 1;
        sw_crew_order(&hands[i].thread, add, &one);
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(sw_crew_thread_start(&hands[i].thread, NULL), SW_OK);
    for (int i = 0; i < 3; i++)
        sw_crew_order(&hands[i].thread, add, &one);
    sw_crew_drain(&crew, drain_ns);
    sw_crew_drain(&crew, drain_ns);
    sw_loop_run(loop);
    sw_crew_end(&crew);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(hands[i].sum, 2);
        assert_int_equal(hands[i].killed, 1);
        assert_int_equal(hands[i].ended, 1);
        sw_crew_order(&hands[i].thread, add, &one); /* too late for the thread, not lost */
        sw_crew_thread_done(&hands[i].thread);
        assert_int_equal(hands[i].sum, 3);
    }
    sw_loop_free(loop);
}

static void test_a_crew_drains_and_ends(void **state)
{
    struct hand hands[3] = {0};

    (void)state;
    run_crew(&hand_ops, (uint64_t)60 * 1000000000, hands);
}

static void test_a_deadline_ends_what_does_not_drain(void **state)
{
    struct hand hands[3] = {0};

    (void)state;
    run_crew(&stubborn_ops, 5 * 1000000, hands);
}

static void test_ends_of_what_never_began_are_harmless(void **state)
{
    struct sw_crew crew = {0};
    struct sw_accept_group group = {0};
    struct sw_acceptor a = {0};
    struct sw_crew_thread t = {0};

    (void)state;
    sw_crew_end(&crew);
    sw_crew_thread_done(&t);
    sw_accept_done(&group);
    sw_accept_finish(&a);
    sw_accept_close(&a);
    assert_int_equal(sw_crew_size(3), 3);
    assert_true(sw_crew_size(0) >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_waiting_are_taken_within_some_turns),
        cmocka_unit_test(test_a_high_descriptor_pauses_and_accepting_resumes),
        cmocka_unit_test(test_no_descriptors_lose_no_connection),
        cmocka_unit_test(test_held_listeners_wait),
        cmocka_unit_test(test_finishing_serves_the_queue_and_closing_does_not),
        cmocka_unit_test(test_a_crew_drains_and_ends),
        cmocka_unit_test(test_a_deadline_ends_what_does_not_drain),
        cmocka_unit_test(test_ends_of_what_never_began_are_harmless),
    };

    return cmocka_run_group_tests_name("crew", tests, NULL, NULL);
}
