/* SPDX-License-Identifier: Apache-2.0 */
/* The resolver's queue: how much may wait, and what becomes of it. The system's lookup is ours
 * here. */
#include "test.h"

#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/mem.h"
#include "io/loop.h"
#include "io/resolver.h"

enum { QUEUE = 1024, BEYOND = 5 };

/* A lookup waits here until the gate is open. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool open;
    unsigned inside; /* lookups that began */
    unsigned addrs;  /* how many each finds */
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};

struct found {
    struct addrinfo info;
    struct sockaddr_in at;
};

/* In front of the C library's. */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **ret)
{
    struct found *f;
    unsigned n;

    (void)name;
    (void)service;
    (void)hints;
    (void)pthread_mutex_lock(&gate.lock);
    gate.inside++;
    (void)pthread_cond_broadcast(&gate.wake);
    while (!gate.open)
        (void)pthread_cond_wait(&gate.wake, &gate.lock);
    n = gate.addrs;
    (void)pthread_mutex_unlock(&gate.lock);
    if (n == 0)
        return EAI_NONAME;
    f = sw_calloc(n, sizeof(*f));
    for (unsigned i = 0; i < n; i++) {
        f[i].at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(0x7f000001 + i)}};
        f[i].info = (struct addrinfo){.ai_family = AF_INET,
                                      .ai_addr = (struct sockaddr *)&f[i].at,
                                      .ai_addrlen = sizeof(f[i].at),
                                      .ai_next = i + 1 < n ? &f[i + 1].info : NULL};
    }
    *ret = &f->info;
    return 0;
}

void freeaddrinfo(struct addrinfo *list)
{
    sw_free(SW_CONTAINER_OF(list, struct found, info));
}

static void gate_set(bool open, unsigned addrs)
{
    (void)pthread_mutex_lock(&gate.lock);
    gate.open = open;
    gate.addrs = addrs;
    gate.inside = 0;
    (void)pthread_cond_broadcast(&gate.wake);
    (void)pthread_mutex_unlock(&gate.lock);
}

/* Until every thread of the resolver is inside a lookup. */
static void await_lookups(void)
{
    (void)pthread_mutex_lock(&gate.lock);
    while (gate.inside < SW_RESOLVER_THREADS)
        (void)pthread_cond_wait(&gate.wake, &gate.lock);
    (void)pthread_mutex_unlock(&gate.lock);
}

static struct {
    unsigned ok;
    unsigned none;
    unsigned refused;
    size_t n; /* addresses of the last one */
} seen;

static void on_answer(struct sw_resolve *r)
{
    seen.ok += r->rc == SW_OK;
    seen.none += r->rc == SW_ENOENT;
    seen.refused += r->rc == SW_ELIMIT;
    seen.n = r->n;
    sw_free(r);
}

static void ask(struct sw_loop *l)
{
    struct sw_resolve *r = SW_NEW(struct sw_resolve);

    r->loop = l;
    r->cb = on_answer;
    (void)snprintf(r->name, sizeof(r->name), "host.test");
    sw_resolve_start(r);
}

/* A lookup that hangs on every thread, and n questions behind them. */
static struct sw_loop *fill_queue(unsigned n)
{
    struct sw_loop *l = sw_loop_new(NULL);

    memset(&seen, 0, sizeof(seen));
    gate_set(false, 1);
    for (unsigned i = 0; i < SW_RESOLVER_THREADS; i++)
        ask(l);
    await_lookups();
    for (unsigned i = 0; i < n; i++)
        ask(l);
    sw_loop_turn(l, 0);
    assert_int_equal(seen.refused, 0);
    return l;
}

static void questions_beyond_the_queue_are_refused(void **state)
{
    struct sw_loop *l = fill_queue(QUEUE);

    (void)state;
    for (unsigned i = 0; i < BEYOND; i++)
        ask(l);
    for (unsigned i = 0; i < 10; i++) /* said without the thread */
        sw_loop_turn(l, 0);
    assert_int_equal(seen.refused, BEYOND);
    assert_int_equal(seen.ok, 0);
    /* Those that waited are answered, and then there is room again. */
    gate_set(true, 1);
    while (seen.ok < QUEUE + SW_RESOLVER_THREADS)
        sw_loop_turn(l, 5000);
    ask(l);
    while (seen.ok < QUEUE + SW_RESOLVER_THREADS + 1)
        sw_loop_turn(l, 5000);
    assert_int_equal(seen.refused, BEYOND);
    assert_int_equal(seen.none, 0);
    sw_resolver_stop();
    sw_loop_free(l);
}

/* Nothing is waited for: lookups under way are answered with nothing, as are those behind them. */
static void stopping_answers_what_waits(void **state)
{
    struct sw_loop *l = fill_queue(10);

    (void)state;
    sw_resolver_stop();
    while (seen.none < SW_RESOLVER_THREADS + 10)
        sw_loop_turn(l, 5000);
    assert_int_equal(seen.ok, 0);
    assert_int_equal(seen.refused, 0);
    /* Threads that come back later belong to nobody. */
    gate_set(true, 1);
    ask(l);
    while (seen.ok == 0)
        sw_loop_turn(l, 5000);
    assert_int_equal(seen.none, SW_RESOLVER_THREADS + 10);
    sw_resolver_stop();
    sw_loop_free(l);
}

static void addresses_beyond_the_bound_are_left_out(void **state)
{
    static const struct {
        unsigned found;
        size_t kept;
    } cases[] = {{1, 1}, {SW_RESOLVE_MAX, SW_RESOLVE_MAX}, {SW_RESOLVE_MAX + 1, SW_RESOLVE_MAX}};
    struct sw_loop *l = sw_loop_new(NULL);

    (void)state;
    memset(&seen, 0, sizeof(seen));
    for (unsigned i = 0; i < SW_ARRAY_LEN(cases); i++) {
        gate_set(true, cases[i].found);
        ask(l);
        while (seen.ok < i + 1)
            sw_loop_turn(l, 5000);
        assert_int_equal(seen.n, cases[i].kept);
    }
    gate_set(true, 0);
    ask(l);
    while (seen.none == 0)
        sw_loop_turn(l, 5000);
    assert_int_equal(seen.n, 0);
    sw_resolver_stop();
    sw_loop_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(questions_beyond_the_queue_are_refused),
        cmocka_unit_test(stopping_answers_what_waits),
        cmocka_unit_test(addresses_beyond_the_bound_are_left_out),
    };

    return cmocka_run_group_tests_name("io resolver", tests, NULL, NULL);
}
