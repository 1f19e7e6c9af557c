/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/agent/jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/thread.h"

struct work {
    struct sw_msg msg; /* carries it back */
    struct sw_list link;
    struct sw_job job;
    struct sw_arena arena;
    int rc;
    struct sw_err err;
};

struct sw_jobs {
    struct sw_loop *loop;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct sw_list queue; /* under the lock, like the next */
    bool ending;
};

static void on_back(struct sw_msg *m)
{
    struct work *w = SW_CONTAINER_OF(m, struct work, msg);

    w->job.cb(w->job.arg, w->rc, &w->err);
    if (w->job.netns_fd >= 0)
        (void)close(w->job.netns_fd);
    sw_arena_clear(&w->arena);
    sw_free(w);
}

static void perform(struct work *w)
{
    struct sw_job *j = &w->job;

    switch (j->kind) {
    case SW_JOB_APPLY:
        w->rc = sw_redirect_apply(j->netns_fd, &j->redirect, &w->err);
        break;
    case SW_JOB_REMOVE:
        w->rc = sw_redirect_remove(j->netns_fd, &w->err);
        break;
    case SW_JOB_CHECK:
        w->rc = sw_redirect_verify(j->netns_fd, &w->err);
        break;
    case SW_JOB_NFT:
        w->rc = sw_redirect_run(j->netns_fd, j->script, &w->err);
        break;
    }
}

static struct work *take(struct sw_jobs *j)
{
    struct work *w = NULL;

    (void)pthread_mutex_lock(&j->lock);
    while (!j->ending && sw_list_empty(&j->queue))
        (void)pthread_cond_wait(&j->wake, &j->lock);
    if (!j->ending)
        w = SW_LIST_POP(&j->queue, struct work, link);
    (void)pthread_mutex_unlock(&j->lock);
    return w;
}

static void *thread_main(void *arg)
{
    struct sw_jobs *j = arg;
    struct work *w;

    while ((w = take(j)) != NULL) {
        perform(w);
        sw_loop_post(j->loop, &w->msg);
    }
    return NULL;
}

struct sw_jobs *sw_jobs_new(struct sw_loop *l, struct sw_err *err)
{
    struct sw_jobs *j = SW_NEW(struct sw_jobs);
    int rc;

    j->loop = l;
    sw_list_init(&j->queue);
    (void)pthread_mutex_init(&j->lock, NULL);
    (void)pthread_cond_init(&j->wake, NULL);
    rc = sw_thread_start(&j->thread, thread_main, j, "sw-jobs");
    if (rc != 0) {
        (void)sw_err_sys(err, rc, "cannot start a thread");
        sw_free(j);
        return NULL;
    }
    return j;
}

void sw_jobs_free(struct sw_jobs *j)
{
    struct work *w;

    if (!j)
        return;
    (void)pthread_mutex_lock(&j->lock);
    j->ending = true;
    (void)pthread_cond_signal(&j->wake);
    (void)pthread_mutex_unlock(&j->lock);
    (void)pthread_join(j->thread, NULL);
    while ((w = SW_LIST_POP(&j->queue, struct work, link)) != NULL) {
        w->rc = sw_err_set(&w->err, SW_ECANCELED, "the agent ends");
        sw_loop_post(j->loop, &w->msg);
    }
    (void)pthread_mutex_destroy(&j->lock);
    (void)pthread_cond_destroy(&j->wake);
    sw_free(j);
}

void sw_jobs_add(struct sw_jobs *j, const struct sw_job *job)
{
    struct work *w = SW_NEW(struct work);
    const char **names = sw_arena_array(&w->arena, job->redirect.n_virtual_ifs + 1, sizeof(*names));

    w->msg.cb = on_back;
    w->job = *job;
    w->job.script = sw_arena_slice(&w->arena, job->script);
    for (size_t i = 0; i < job->redirect.n_virtual_ifs; i++)
        names[i] = sw_arena_dup(&w->arena, sw_slice_str(job->redirect.virtual_ifs[i]));
    w->job.redirect.virtual_ifs = names;
    if (job->netns_fd >= 0) {
        w->job.netns_fd = fcntl(job->netns_fd, F_DUPFD_CLOEXEC, 0);
        if (w->job.netns_fd < 0) {
            /* Never without: it would change our own namespace. */
            w->rc = sw_err_sys(&w->err, errno, "cannot keep the namespace open");
            sw_loop_post(j->loop, &w->msg);
            return;
        }
    }
    (void)pthread_mutex_lock(&j->lock);
    sw_list_push_back(&j->queue, &w->link);
    (void)pthread_cond_signal(&j->wake);
    (void)pthread_mutex_unlock(&j->lock);
}
