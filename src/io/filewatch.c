/* SPDX-License-Identifier: Apache-2.0 */
#include "io/filewatch.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/time.h"

enum { SETTLE_MS = 20, LOST_MS = 1000 };

struct sw_filewatch {
    struct sw_loop *loop;
    struct sw_watch watch;
    struct sw_timer settle;
    int fd;
    int wd;     /* of the directory, -1 while it does not exist */
    bool gone;  /* the last that happened to the file is that it went away */
    char *path; /* owned */
    char *dir;  /* owned */
    sw_filewatch_cb cb;
    void *arg; /* borrowed */
};

static void look(struct sw_filewatch *f)
{
    static const uint32_t mask = IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE | IN_DELETE |
                                 IN_MOVED_FROM | IN_ONLYDIR | IN_DELETE_SELF | IN_MOVE_SELF;

    f->wd = inotify_add_watch(f->fd, f->dir, mask);
}

static void on_settled(struct sw_timer *t)
{
    struct sw_filewatch *f = SW_CONTAINER_OF(t, struct sw_filewatch, settle);

    if (f->wd < 0) { /* the directory was replaced: what is there now? */
        look(f);
        f->gone = false;
        if (f->wd < 0) {
            sw_timer_start(f->loop, t, LOST_MS * SW_NS_PER_MS, on_settled);
            return;
        }
    }
    /* Recreated meanwhile: its writer will close it, which is another event. */
    if (f->gone && access(f->path, F_OK) == 0)
        return;
    f->cb(f->arg);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static bool is_link(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
}

/*
 * A regular file is read when its writer has closed it: before, it may be half written, and half a
 * configuration can be a valid one without its policies. A link may lead through other entries of
 * the directory, so there any event is worth a look: the reader compares contents.
 */
static bool matters(struct sw_filewatch *f, const struct inotify_event *e)
{
    if (e->mask & (IN_DELETE_SELF | IN_MOVE_SELF)) {
        (void)inotify_rm_watch(f->fd, f->wd);
        f->wd = -1;
        return true;
    }
    if (e->mask & IN_IGNORED) /* the answer to that */
        return false;
    if (base_name(f->path)[0] == '\0') { /* the whole directory */
        f->gone = false;
        return !(e->mask & IN_CREATE);
    }
    if (is_link(f->path)) {
        f->gone = false;
        return true;
    }
    if (e->len == 0 || strcmp(e->name, base_name(f->path)) != 0 || (e->mask & IN_CREATE))
        return false;
    f->gone = e->mask & (IN_DELETE | IN_MOVED_FROM);
    return true;
}

static bool read_events(struct sw_filewatch *f)
{
    char buf[4096] __attribute__((aligned(8)));
    bool any = false;
    ssize_t n;

    while ((n = read(f->fd, buf, sizeof(buf))) > 0) {
        for (ssize_t at = 0; at < n;) {
            struct inotify_event e;

            memcpy(&e, buf + at, sizeof(e));
            any = matters(f, (const struct inotify_event *)(const void *)(buf + at)) || any ||
                  (e.mask & IN_Q_OVERFLOW);
            at += (ssize_t)(sizeof(e) + e.len);
        }
    }
    return any;
}

static void on_event(struct sw_watch *w, unsigned events)
{
    struct sw_filewatch *f = SW_CONTAINER_OF(w, struct sw_filewatch, watch);

    if (!read_events(f))
        return;
    /* Not pushed back by every event, or a busy directory would silence its files. */
    if (!sw_timer_running(&f->settle))
        sw_timer_start(f->loop, &f->settle, SETTLE_MS * SW_NS_PER_MS, on_settled);
}

struct sw_filewatch *sw_filewatch_new(struct sw_loop *l, const char *path, sw_filewatch_cb cb,
                                      void *arg, struct sw_err *err)
{
    const char *slash = strrchr(path, '/');
    struct sw_filewatch *f = SW_NEW(struct sw_filewatch);

    f->loop = l;
    f->path = sw_strdup(path);
    f->dir = slash ? sw_strndup(path, slash == path ? 1 : (size_t)(slash - path)) : sw_strdup(".");
    f->cb = cb;
    f->arg = arg;
    f->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (f->fd >= 0)
        look(f);
    if (f->fd < 0 || f->wd < 0)
        (void)sw_err_sys(err, errno, "cannot watch directory '%s'", f->dir);
    else if (sw_watch_start(l, &f->watch, f->fd, on_event, err) == SW_OK)
        return f;
    sw_filewatch_free(f);
    return NULL;
}

void sw_filewatch_free(struct sw_filewatch *f)
{
    if (!f)
        return;
    sw_timer_stop(f->loop, &f->settle);
    sw_watch_stop(&f->watch);
    if (f->fd >= 0)
        (void)close(f->fd);
    sw_free(f->path);
    sw_free(f->dir);
    sw_free(f);
}
