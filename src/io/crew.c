/* SPDX-License-Identifier: Apache-2.0 */
#include "io/crew.h"

#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time.h"
#include "io/resolver.h"
#include "io/splice.h"

enum { LAST_TURNS = 4 }; /* objects end in callbacks of objects that end */

/* ---- a worker ---- */

struct order {
    struct sw_msg msg;
    struct sw_crew_thread *thread;
    sw_crew_order_cb cb;
    void *arg;
};

static void on_order(struct sw_msg *m)
{
    struct order o = *SW_CONTAINER_OF(m, struct order, msg);

    sw_free(SW_CONTAINER_OF(m, struct order, msg));
    o.cb(o.thread, o.arg);
}

void sw_crew_order(struct sw_crew_thread *t, sw_crew_order_cb cb, void *arg)
{
    struct order *o = SW_NEW(struct order);

    *o = (struct order){.msg.cb = on_order, .thread = t, .cb = cb, .arg = arg};
    sw_loop_post(t->loop, &o->msg);
}

static void on_drained(struct sw_msg *m)
{
    struct sw_crew *c = SW_CONTAINER_OF(m, struct sw_crew, drained);

    sw_log_info(c->scope, "drained");
    sw_loop_stop(c->main);
}

static void check_idle(struct sw_crew_thread *t)
{
    struct sw_crew *c = t->crew;

    if (!t->draining || t->idle || !t->ops->idle(t))
        return;
    t->idle = true;
    if (atomic_fetch_add(&c->n_idle, 1) + 1 == c->n) {
        c->drained.cb = on_drained;
        sw_loop_post(c->main, &c->drained);
    }
}

static void *thread_main(void *arg)
{
    struct sw_crew_thread *t = arg;

    while (!t->stopped) {
        sw_loop_turn(t->loop, -1);
        check_idle(t);
    }
    t->ops->end(t);
    for (int i = 0; i < LAST_TURNS; i++)
        sw_loop_turn(t->loop, 0);
    sw_pipe_pool_done();
    if (t->ops->leave)
        t->ops->leave();
    return NULL;
}

int sw_crew_thread_init(struct sw_crew_thread *t, struct sw_crew *c, const struct sw_crew_ops *ops,
                        struct sw_err *err)
{
    *t = (struct sw_crew_thread){.crew = c, .ops = ops, .index = c->n++};
    sw_list_push_back(&c->threads, &t->link);
    t->loop = sw_loop_new(err);
    return t->loop ? SW_OK : err->rc;
}

int sw_crew_thread_start(struct sw_crew_thread *t, struct sw_err *err)
{
    char name[16];
    int rc;

    (void)snprintf(name, sizeof(name), "sw-worker-%u", t->index % 1000);
    rc = sw_thread_start(&t->thread, thread_main, t, name);
    if (rc != 0)
        return sw_err_sys(err, rc, "cannot start a worker");
    t->started = true;
    return SW_OK;
}

void sw_crew_thread_done(struct sw_crew_thread *t)
{
    sw_loop_free(SW_TAKE(t->loop));
}

/* ---- all of them ---- */

unsigned sw_crew_size(unsigned configured)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);

    if (configured)
        return configured;
    return cpus > 0 ? (unsigned)cpus : 1;
}

void sw_crew_init(struct sw_crew *c, const char *scope, struct sw_loop *main)
{
    *c = (struct sw_crew){.scope = scope, .main = main};
    sw_list_init(&c->threads);
}

static void do_drain(struct sw_crew_thread *t, void *arg)
{
    if (t->draining)
        return;
    t->draining = true;
    t->ops->drain(t);
}

static void on_deadline(struct sw_timer *timer)
{
    struct sw_crew *c = SW_CONTAINER_OF(timer, struct sw_crew, deadline);

    sw_log_info(c->scope, "drain deadline passed, closing what is left");
    sw_loop_stop(c->main);
}

void sw_crew_drain(struct sw_crew *c, uint64_t time_ns)
{
    if (c->draining)
        return;
    c->draining = true;
    sw_log_info(c->scope, "draining for at most %llu ms",
                (unsigned long long)(time_ns / SW_NS_PER_MS));
    SW_LIST_EACH (struct sw_crew_thread, t, &c->threads, link)
        sw_crew_order(t, do_drain, NULL);
    sw_timer_start(c->main, &c->deadline, time_ns, on_deadline);
}

static void do_kill(struct sw_crew_thread *t, void *arg)
{
    t->draining = true;
    t->idle = true;
    t->stopped = true;
    t->ops->kill(t);
}

void sw_crew_end(struct sw_crew *c)
{
    if (!c->main)
        return;
    SW_LIST_EACH (struct sw_crew_thread, t, &c->threads, link) {
        if (t->started)
            sw_crew_order(t, do_kill, NULL);
    }
    sw_resolver_stop();
    SW_LIST_EACH (struct sw_crew_thread, t, &c->threads, link) {
        if (t->started)
            (void)pthread_join(t->thread, NULL);
        t->stopped = true;
    }
    sw_timer_stop(c->main, &c->deadline);
}
