/* SPDX-License-Identifier: Apache-2.0 */
#include "node/mesh/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time.h"

enum {
    SOON_S = 2,         /* after the first change */
    INTERVAL_S = 10,    /* between two writes, at least */
    INTERVAL_SHARE = 20 /* and so many times as long as the last one took */
};
#define FILE_MAX ((size_t)2 << 30)

struct sw_mesh_store {
    struct sw_loop *loop;
    char *path;
    char *fresh;             /* name of the file while it is written */
    struct sw_state *wanted; /* to be written; NULL: nothing new */
    struct sw_timer timer;
    struct job *job;  /* the thread runs; NULL: it does not */
    uint64_t took_ns; /* of the last one */
};

/* One write. Belongs to the thread until its message arrives. */
struct job {
    struct sw_msg done;
    struct sw_mesh_store *store; /* NULL: it is gone */
    struct sw_state *state;
    pthread_t thread;
    struct sw_err err;
    uint64_t took_ns;
};

/* ---- the file ---- */

static int replace(const struct sw_mesh_store *s, struct sw_slice bytes, struct sw_err *err)
{
    SW_AUTO_FD fd = -1;
    int rc;

    (void)unlink(s->fresh);
    fd = open(s->fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return sw_err_sys(err, errno, "cannot create '%s'", s->fresh);
    rc = sw_fd_write_all(fd, bytes);
    if (rc != SW_OK || fsync(fd) != 0)
        rc = sw_err_sys(err, errno, "cannot write '%s'", s->fresh);
    if (rc == SW_OK && rename(s->fresh, s->path) != 0)
        rc = sw_err_sys(err, errno, "cannot rename '%s'", s->fresh);
    if (rc != SW_OK)
        (void)unlink(s->fresh);
    return rc;
}

static int write_state(const struct sw_mesh_store *s, const struct sw_state *state,
                       struct sw_err *err)
{
    SW_BUF_AUTO out = {.max = FILE_MAX};

    if (sw_mesh_stored_write(state, &out) != SW_OK)
        return sw_err_set(err, SW_ELIMIT, "state of more than %zu bytes", FILE_MAX);
    return replace(s, sw_buf_slice(&out), err);
}

/* ---- the thread ---- */

static void *thread_main(void *arg)
{
    struct job *j = arg;
    uint64_t start = sw_now_ns();

    if (write_state(j->store, j->state, &j->err) == SW_OK)
        j->err = (struct sw_err){0};
    j->took_ns = sw_now_ns() - start;
    sw_loop_post(j->store->loop, &j->done);
    return NULL;
}

static void start_timer(struct sw_mesh_store *s, uint64_t ns);

static uint64_t pause_ns(const struct sw_mesh_store *s)
{
    return sw_max(INTERVAL_S * SW_NS_PER_S, INTERVAL_SHARE * s->took_ns);
}

static void on_done(struct sw_msg *msg)
{
    struct job *j = SW_CONTAINER_OF(msg, struct job, done);
    struct sw_mesh_store *s = j->store;

    (void)sw_state_unref(j->state);
    if (s) {
        (void)pthread_join(j->thread, NULL);
        s->job = NULL;
        s->took_ns = j->took_ns;
        if (j->err.rc)
            sw_log_warn("xds", "state not stored, keeping the previous file: %s", j->err.msg);
        if (s->wanted)
            start_timer(s, pause_ns(s));
    }
    sw_free(j);
}

static void on_timer(struct sw_timer *t)
{
    struct sw_mesh_store *s = SW_CONTAINER_OF(t, struct sw_mesh_store, timer);
    struct job *j = SW_NEW(struct job);
    int rc;

    j->done.cb = on_done;
    j->store = s;
    j->state = s->wanted;
    s->wanted = NULL;
    s->job = j;
    rc = sw_thread_start(&j->thread, thread_main, j, "mesh-store");
    if (rc == 0)
        return;
    sw_log_warn("xds", "state not stored: no thread (error %d)", rc);
    s->job = NULL;
    (void)sw_state_unref(j->state);
    sw_free(j);
}

static void start_timer(struct sw_mesh_store *s, uint64_t ns)
{
    sw_timer_start(s->loop, &s->timer, ns, on_timer);
}

void sw_mesh_store_changed(struct sw_mesh_store *s, const struct sw_state *state)
{
    (void)sw_state_unref(s->wanted);
    s->wanted = sw_state_ref(state);
    if (!s->job && !sw_timer_running(&s->timer))
        start_timer(s, s->took_ns ? pause_ns(s) : SOON_S * SW_NS_PER_S);
}

/* ---- life ---- */

struct sw_mesh_store *sw_mesh_store_new(struct sw_loop *l, const char *dir, struct sw_err *err)
{
    struct sw_mesh_store *s;

    if (access(dir, R_OK | W_OK | X_OK) != 0) {
        (void)sw_err_sys(err, errno, "--state-dir: cannot use '%s'", dir);
        return NULL;
    }
    s = SW_NEW(struct sw_mesh_store);
    s->loop = l;
    s->path = sw_asprintf("%s/mesh.state", dir);
    s->fresh = sw_asprintf("%s/mesh.state.new", dir);
    return s;
}

void sw_mesh_store_free(struct sw_mesh_store *s)
{
    struct sw_err err = {0};

    if (!s)
        return;
    sw_timer_stop(s->loop, &s->timer);
    if (s->job) {
        (void)pthread_join(s->job->thread, NULL);
        s->job->store = NULL; /* its message is in the loop's queue */
    }
    if (s->wanted && write_state(s, s->wanted, &err) != SW_OK)
        sw_log_warn("xds", "state not stored: %s", err.msg);
    (void)sw_state_unref(s->wanted);
    sw_free(s->path);
    sw_free(s->fresh);
    sw_free(s);
}

int sw_mesh_store_load(struct sw_mesh_store *s, struct sw_state_builder *b, struct sw_err *err)
{
    struct sw_slice file = {0};
    int rc = sw_file_read(s->path, FILE_MAX, &file, err);

    if (rc != SW_OK)
        return rc;
    rc = sw_mesh_stored_read(file, b, err);
    sw_slice_free(&file);
    return rc == SW_OK ? rc : sw_err_prefix(err, "'%s'", s->path);
}
