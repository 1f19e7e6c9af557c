/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worker threads and their turns with the loop. Tenants, their queues and the jobs in them belong
 * to the loop (or to the worker whose turn it is); only the list of started tasks and the hand-over
 * of turns are behind the lock.
 */
#include "apiserver/api/work.h"
#include "apiserver/api/fair.h"

#include <pthread.h>
#include <stdatomic.h>

#include "apiserver/api/api.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time.h"

enum { THREADS = 2, QUEUED_MAX = 64, DISCARD_FROM = 4 << 20 };
static const uint64_t deadline_ns = 30 * SW_NS_PER_S;
static const uint64_t no_bound = UINT64_MAX / 2;

/* Something for a worker to do. */
struct task {
    struct sw_list link;
    void (*run)(struct task *t);
};

/* Requests of one user, or of one namespace's accounts. */
struct tenant {
    struct sw_list link; /* in work.tenants: the longest waiting first */
    struct sw_list jobs;
    size_t queued;
    unsigned running;
    bool first; /* may use the thread that is kept free */
    size_t n;
    char name[];
};

struct api_job {
    struct task task;
    struct sw_list link; /* in its tenant while it waits, then among those started */
    struct api_workers *work;
    struct tenant *tenant;
    struct api_req *r; /* NULL: answered */
    api_work_fn fn;    /* NULL: done */
    void *arg;
    api_work_fn then;      /* NULL: fn answers, or asks for more work */
    struct sw_timer timer; /* the deadline */
    struct sw_budget budget;
    struct sw_msg msg; /* asks for a turn */
    pthread_cond_t granted;
    bool turn; /* under the lock: the worker has it */
    bool started;
    bool gone;    /* the client went */
    bool resumed; /* continues what was admitted before: not refused any more */
};

struct api_workers {
    struct sw_api *api;
    struct api_work_opts opts;
    pthread_mutex_t lock;
    pthread_cond_t wanted;   /* a task is there, or the end */
    pthread_cond_t returned; /* the loop has its turn back */
    struct sw_list tasks;    /* under the lock */
    bool end;                /* under the lock */
    pthread_t *threads;
    unsigned nthreads;
    struct sw_list tenants;
    struct sw_list started; /* jobs on the workers, or about to be */
    unsigned running;
    size_t queued;
    bool stopping;
    uint64_t done;
    uint64_t refused;
    uint64_t timeouts;
    uint64_t gone;
};

static void dispatch(struct api_workers *k);
static void job_free(struct api_job *j);

static _Thread_local struct api_job *current;
static _Thread_local bool away; /* the worker is beside the loop */

/* --- turns ------------------------------------------------------------------------------ */

/* On the loop, after the last turn. */
static void job_over(struct api_job *j)
{
    struct api_workers *k = j->work;
    struct api_req *r = j->r;
    api_work_fn then = j->then;

    job_free(j);
    dispatch(k);
    if (r && then)
        then(r, NULL);
}

/* On the loop: stands still until the worker has done what needs it. */
static void on_turn(struct sw_msg *m)
{
    struct api_job *j = SW_CONTAINER_OF(m, struct api_job, msg);
    struct api_workers *k = j->work;

    (void)pthread_mutex_lock(&k->lock);
    j->turn = true;
    (void)pthread_cond_signal(&j->granted);
    while (j->turn)
        (void)pthread_cond_wait(&k->returned, &k->lock);
    (void)pthread_mutex_unlock(&k->lock);
    if (!j->fn)
        job_over(j);
}

static void take_turn(struct api_job *j)
{
    struct api_workers *k = j->work;

    j->msg.cb = on_turn;
    sw_loop_post(k->api->loop, &j->msg);
    (void)pthread_mutex_lock(&k->lock);
    while (!j->turn)
        (void)pthread_cond_wait(&j->granted, &k->lock);
    (void)pthread_mutex_unlock(&k->lock);
}

static void end_turn(struct api_workers *k, bool *turn)
{
    (void)pthread_mutex_lock(&k->lock);
    *turn = false;
    (void)pthread_cond_signal(&k->returned);
    (void)pthread_mutex_unlock(&k->lock);
}

void api_off_loop(void)
{
    if (!current || away)
        return;
    away = true;
    end_turn(current->work, &current->turn);
}

void api_on_loop(void)
{
    if (!current || !away)
        return;
    take_turn(current);
    away = false;
}

bool api_work_here(void)
{
    return current != NULL;
}

struct sw_budget *api_work_budget(void)
{
    return current ? &current->budget : NULL;
}

/* --- tasks ------------------------------------------------------------------------------ */

static void push_task(struct api_workers *k, struct task *t)
{
    (void)pthread_mutex_lock(&k->lock);
    sw_list_push_back(&k->tasks, &t->link);
    (void)pthread_cond_signal(&k->wanted);
    (void)pthread_mutex_unlock(&k->lock);
}

static void *worker_main(void *arg)
{
    struct api_workers *k = arg;

    for (;;) {
        struct task *t;

        (void)pthread_mutex_lock(&k->lock);
        while (sw_list_empty(&k->tasks) && !k->end)
            (void)pthread_cond_wait(&k->wanted, &k->lock);
        t = SW_LIST_POP(&k->tasks, struct task, link);
        (void)pthread_mutex_unlock(&k->lock);
        if (!t)
            return NULL;
        t->run(t);
    }
}

struct trash {
    struct task task;
    struct sw_arena arena;
};

static void run_trash(struct task *t)
{
    struct trash *x = SW_CONTAINER_OF(t, struct trash, task);

    sw_arena_clear(&x->arena);
    sw_free(x);
}

void api_work_discard(struct api_workers *k, struct sw_arena *a)
{
    struct trash *x;

    if (!k || a->total < DISCARD_FROM) {
        sw_arena_clear(a);
        return;
    }
    x = SW_NEW(struct trash);
    *x = (struct trash){.task.run = run_trash, .arena = *a};
    *a = (struct sw_arena){0};
    push_task(k, &x->task);
}

/* --- queues ----------------------------------------------------------------------------- */

static struct tenant *tenant_of(struct api_workers *k, const struct api_user *u)
{
    struct sw_slice name = api_tenant(u);
    struct tenant *t;

    SW_LIST_FOREACH (it, &k->tenants) {
        t = SW_CONTAINER_OF(it, struct tenant, link);
        if (sw_slice_eq(sw_slice(t->name, t->n), name))
            return t;
    }
    t = sw_calloc(1, sizeof(*t) + name.n + 1);
    if (name.n)
        memcpy(t->name, name.p, name.n);
    t->n = name.n;
    t->first = api_first(u);
    sw_list_init(&t->jobs);
    sw_list_push_back(&k->tenants, &t->link);
    return t;
}

static void tenant_maybe_free(struct tenant *t)
{
    if (t->running || t->queued)
        return;
    sw_list_unlink(&t->link);
    sw_free(t);
}

static void run_job(struct task *t);

static unsigned running_common(const struct api_workers *k)
{
    unsigned n = 0;

    SW_LIST_EACH (const struct tenant, t, &k->tenants, link)
        n += t->first ? 0 : t->running;
    return n;
}

/* Starts what may be started: one job of each tenant, the longest waiting first. */
static void dispatch(struct api_workers *k)
{
    unsigned common = running_common(k);

    SW_LIST_EACH (struct tenant, t, &k->tenants, link) {
        struct api_job *j = SW_CONTAINER_OF(t->jobs.next, struct api_job, link);

        if (k->running == k->nthreads)
            return;
        if (t->running || sw_list_empty(&t->jobs) || (!t->first && common == k->opts.threads))
            continue;
        common += !t->first;
        sw_list_unlink(&j->link);
        t->queued--;
        k->queued--;
        t->running++;
        k->running++;
        j->started = true;
        sw_list_push_back(&k->started, &j->link);
        sw_list_unlink(&t->link);
        sw_list_push_back(&k->tenants, &t->link);
        j->task.run = run_job;
        push_task(k, &j->task);
    }
}

static void job_free(struct api_job *j)
{
    struct tenant *t = j->tenant;

    sw_timer_stop(j->work->api->loop, &j->timer);
    if (j->r && j->r->exec.job == j)
        j->r->exec.job = NULL;
    sw_list_unlink(&j->link);
    if (j->started) {
        t->running--;
        j->work->running--;
    } else {
        t->queued--;
        j->work->queued--;
    }
    tenant_maybe_free(t);
    (void)pthread_cond_destroy(&j->granted);
    sw_free(j);
}

/* On a worker. The loop frees the job when the last turn is over. */
static void run_job(struct task *t)
{
    struct api_job *j = SW_CONTAINER_OF(t, struct api_job, task);
    struct api_workers *k = j->work;

    current = j;
    take_turn(j);
    if (j->r && (j->resumed || !api_work_ended(j->r)))
        j->fn(j->r, j->arg);
    api_on_loop();
    current = NULL;
    k->done += !sw_budget_cancelled(&j->budget); /* counted when it was cancelled */
    j->fn = NULL;
    end_turn(k, &j->turn);
}

/* --- the end of work -------------------------------------------------------------------- */

static void give_up(struct api_job *j, struct api_req *r)
{
    struct api_workers *k = j->work;

    if (k->stopping) {
        api_shutting_down(r);
        return;
    }
    if (!j->gone)
        sw_log_warn("api", "%s of '%.*s' by '%.*s' cancelled: not done within %llu s",
                    r->is_resource ? api_verb_name(r->verb) : "request", SW_SLICE_ARG(r->path),
                    SW_SLICE_ARG(r->user.name),
                    (unsigned long long)(k->opts.deadline_ns / SW_NS_PER_S));
    api_fail(r, 504, "Timeout",
             "Timeout: request did not complete within requested timeout - more than %llu s of "
             "work; ask for less, e.g. with a limit",
             (unsigned long long)(k->opts.deadline_ns / SW_NS_PER_S));
}

bool api_work_ended(struct api_req *r)
{
    struct api_job *j = current;

    if (!j || j->r != r || !sw_budget_cancelled(&j->budget))
        return false;
    api_on_loop();
    give_up(j, r);
    return true;
}

/* The deadline, or the end of the client. */
static void on_over(struct sw_timer *t)
{
    struct api_job *j = SW_CONTAINER_OF(t, struct api_job, timer);
    struct api_req *r = j->r;

    if (!r || sw_budget_cancelled(&j->budget))
        return;
    if (j->gone)
        j->work->gone++;
    else if (!j->work->stopping)
        j->work->timeouts++;
    sw_budget_cancel(&j->budget);
    if (j->started || j->resumed)
        return; /* the worker finds out at its next step; what is written is answered */
    give_up(j, r);
    job_free(j);
}

/* The client went; called from inside the front, which must not lose the exchange yet. */
static void on_gone(struct sw_xchg *x)
{
    struct api_req *r = x->user;
    struct api_job *j = r->exec.job;

    if (!j)
        return;
    j->gone = true;
    sw_timer_start(j->work->api->loop, &j->timer, 0, on_over);
}

void api_work_forget(struct api_req *r)
{
    if (!r->exec.job)
        return;
    r->exec.job->r = NULL;
    r->exec.job = NULL;
    r->x->on_gone = NULL;
}

/* --- beginning -------------------------------------------------------------------------- */

static void enqueue(struct api_req *r, api_work_fn fn, void *arg, bool resumed)
{
    struct api_workers *k = r->api->work;
    struct tenant *t = tenant_of(k, &r->user);
    struct api_job *j = SW_NEW(struct api_job);

    *j = (struct api_job){.work = k,
                          .tenant = t,
                          .r = r,
                          .fn = fn,
                          .arg = arg,
                          .resumed = resumed,
                          .budget = {.steps = no_bound, .bytes = no_bound}};
    (void)pthread_cond_init(&j->granted, NULL);
    if (resumed)
        sw_list_push_front(&t->jobs, &j->link);
    else
        sw_list_push_back(&t->jobs, &j->link);
    t->queued++;
    k->queued++;
    if (r->exec.job)
        r->exec.job->r = NULL; /* requested in that one's own turn: it ends, this one continues */
    r->exec.job = j;
    r->x->on_gone = on_gone;
    sw_timer_start(k->api->loop, &j->timer, k->opts.deadline_ns, on_over);
    dispatch(k);
}

void api_work_run(struct api_req *r, api_work_fn fn, void *arg)
{
    struct api_workers *k = r->api->work;
    struct tenant *t;

    if (k->stopping) {
        api_shutting_down(r);
        return;
    }
    t = tenant_of(k, &r->user);
    if (t->queued >= k->opts.max_queued) {
        k->refused++;
        api_fail(
            r, 429, "TooManyRequests",
            "Too many requests, please try again later: %zu requests of '%.*s' that take long are "
            "waiting",
            t->queued, (int)t->n, t->name);
        return;
    }
    r->exec.long_work = true;
    enqueue(r, fn, arg, false);
}

void api_work_resume(struct api_req *r, api_work_fn fn, void *arg)
{
    if (r->exec.long_work && r->x && !r->api->work->stopping)
        enqueue(r, fn, arg, true);
    else
        fn(r, arg);
}

void api_work_then(struct api_req *r, api_work_fn fn)
{
    r->exec.job->then = fn;
    r->exec.long_work = false;
}

/* --- the whole -------------------------------------------------------------------------- */

struct api_workers *api_work_new(struct sw_api *api, const struct api_work_opts *o,
                                 struct sw_err *err)
{
    struct api_workers *k = SW_NEW(struct api_workers);
    int rc = 0;

    k->api = api;
    k->opts = *o;
    k->opts.threads = o->threads ? o->threads : THREADS;
    k->opts.deadline_ns = o->deadline_ns ? o->deadline_ns : deadline_ns;
    k->opts.max_queued = o->max_queued ? o->max_queued : QUEUED_MAX;
    (void)pthread_mutex_init(&k->lock, NULL);
    (void)pthread_cond_init(&k->wanted, NULL);
    (void)pthread_cond_init(&k->returned, NULL);
    sw_list_init(&k->tasks);
    sw_list_init(&k->tenants);
    sw_list_init(&k->started);
    k->threads = sw_calloc(k->opts.threads + 1, sizeof(*k->threads));
    while (rc == 0 && k->nthreads < k->opts.threads + 1) {
        rc = sw_thread_start(&k->threads[k->nthreads], worker_main, k, "sw-api-work");
        k->nthreads += rc == 0;
    }
    if (rc == 0)
        return k;
    (void)sw_err_sys(err, rc, "cannot start a worker of the API");
    api_work_free(k);
    return NULL;
}

/* Jobs of one tenant end now: those that wait are answered. */
static void end_jobs(struct tenant *t)
{
    while (!sw_list_empty(&t->jobs)) {
        struct api_job *j = SW_CONTAINER_OF(t->jobs.next, struct api_job, link);
        bool last = t->queued == 1 && !t->running;

        if (j->r)
            give_up(j, j->r);
        job_free(j);
        if (last)
            return; /* the tenant went with it */
    }
}

void api_work_stop(struct api_workers *k)
{
    if (!k)
        return;
    k->stopping = true;
    SW_LIST_FOREACH (it, &k->tenants)
        end_jobs(SW_CONTAINER_OF(it, struct tenant, link));
    SW_LIST_FOREACH (it, &k->started)
        sw_budget_cancel(&SW_CONTAINER_OF(it, struct api_job, link)->budget);
    while (k->running)
        sw_loop_turn(k->api->loop, 10);
}

void api_work_free(struct api_workers *k)
{
    if (!k)
        return;
    (void)pthread_mutex_lock(&k->lock);
    k->end = true;
    (void)pthread_cond_broadcast(&k->wanted);
    (void)pthread_mutex_unlock(&k->lock);
    for (unsigned i = 0; i < k->nthreads; i++)
        (void)pthread_join(k->threads[i], NULL);
    sw_free(k->threads);
    (void)pthread_cond_destroy(&k->wanted);
    (void)pthread_cond_destroy(&k->returned);
    (void)pthread_mutex_destroy(&k->lock);
    sw_free(k);
}

void api_workers_metrics(const struct api_workers *k, struct sw_buf *out)
{
    static const char *const heads[] = {
        "# HELP spanwire_api_work_total Requests handled on a worker thread, by how they ended\n"
        "# TYPE spanwire_api_work_total counter\n",
        "# HELP spanwire_api_work_waiting Requests that wait for a worker thread\n"
        "# TYPE spanwire_api_work_waiting gauge\n"};

    (void)!sw_buf_printf(out,
                         "%sspanwire_api_work_total{result=\"done\"} %llu\n"
                         "spanwire_api_work_total{result=\"refused\"} %llu\n"
                         "spanwire_api_work_total{result=\"timeout\"} %llu\n"
                         "spanwire_api_work_total{result=\"client_gone\"} %llu\n"
                         "%sspanwire_api_work_waiting %zu\n",
                         heads[0], (unsigned long long)k->done, (unsigned long long)k->refused,
                         (unsigned long long)k->timeouts, (unsigned long long)k->gone, heads[1],
                         k->queued);
}
