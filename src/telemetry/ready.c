/* SPDX-License-Identifier: Apache-2.0 */
#include "telemetry/ready.h"

#include <pthread.h>
#include <stdio.h>

#include "base/err.h"
#include "base/mem.h"

enum { TASKS_MAX = 32, TASK_LEN = 64 };

struct sw_ready {
    pthread_mutex_t lock;
    size_t n;
    char pending[TASKS_MAX + 1][TASK_LEN]; /* sorted; one more so that moving may name the end */
};

struct sw_ready *sw_ready_new(void)
{
    struct sw_ready *r = SW_NEW(struct sw_ready);

    (void)pthread_mutex_init(&r->lock, NULL);
    return r;
}

void sw_ready_free(struct sw_ready *r)
{
    if (!r)
        return;
    (void)pthread_mutex_destroy(&r->lock);
    sw_free(r);
}

/* Where the task is, or would be. */
static size_t place_locked(const struct sw_ready *r, const char *task, bool *ret_found)
{
    size_t i = 0;

    while (i < r->n && strncmp(r->pending[i], task, TASK_LEN - 1) < 0)
        i++;
    *ret_found = i < r->n && strncmp(r->pending[i], task, TASK_LEN - 1) == 0;
    return i;
}

void sw_ready_add(struct sw_ready *r, const char *task)
{
    bool found;
    size_t i;

    (void)pthread_mutex_lock(&r->lock);
    i = place_locked(r, task, &found);
    if (!found && r->n < TASKS_MAX) {
        memmove(r->pending[i + 1], r->pending[i], (r->n - i) * TASK_LEN);
        (void)snprintf(r->pending[i], TASK_LEN, "%s", task);
        r->n++;
    }
    (void)pthread_mutex_unlock(&r->lock);
}

void sw_ready_done(struct sw_ready *r, const char *task)
{
    bool found;
    size_t i;

    (void)pthread_mutex_lock(&r->lock);
    i = place_locked(r, task, &found);
    if (found) {
        r->n--;
        memmove(r->pending[i], r->pending[i + 1], (r->n - i) * TASK_LEN);
    }
    (void)pthread_mutex_unlock(&r->lock);
}

bool sw_ready_check(struct sw_ready *r, struct sw_buf *pending)
{
    bool ready;
    int rc = SW_OK;

    (void)pthread_mutex_lock(&r->lock);
    ready = r->n == 0;
    for (size_t i = 0; i < r->n && pending && rc == SW_OK; i++) {
        rc = sw_buf_append_str(pending, i ? ", " : "");
        if (rc == SW_OK)
            rc = sw_buf_append_str(pending, r->pending[i]);
    }
    (void)pthread_mutex_unlock(&r->lock);
    return ready;
}
