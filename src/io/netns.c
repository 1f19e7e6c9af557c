/* SPDX-License-Identifier: Apache-2.0 */
#include "io/netns.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

int sw_netns_open(const char *path, int *ret_fd, struct sw_err *err)
{
    SW_AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int type;

    if (fd < 0) {
        int saved = errno;

        (void)sw_err_sys(err, saved, "cannot open network namespace '%s'", path);
        return saved == ENOENT ? SW_ENOENT : SW_ESYS;
    }
    type = ioctl(fd, NS_GET_NSTYPE);
    if (type != CLONE_NEWNET)
        return sw_err_set(err, SW_EINVAL, "'%s' is not a network namespace", path);
    *ret_fd = SW_TAKE_FD(fd);
    return SW_OK;
}

static bool is_same(int x, int y)
{
    struct stat a;
    struct stat b;

    return fstat(x, &a) == 0 && fstat(y, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

int sw_netns_run(int fd, int (*fn)(void *arg), void *arg, struct sw_err *err)
{
    static _Thread_local int home = -1; /* this thread never moves for good, so one is enough */
    int rc;

    if (home < 0) {
        home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
        if (home < 0)
            return sw_err_sys(err, errno, "cannot open our own network namespace");
    }
    if (setns(fd, CLONE_NEWNET) != 0) {
        int saved = errno;

        /* To stay takes no right. */
        if (saved == EPERM && is_same(fd, home))
            return fn(arg);
        return sw_err_sys(err, saved, "cannot enter a network namespace");
    }
    rc = fn(arg);
    if (setns(home, CLONE_NEWNET) != 0) {
        (void)fprintf(stderr, "spanwire: cannot return to our own network namespace\n");
        abort();
    }
    return rc;
}

struct make_socket {
    struct sw_netns_socket kind;
    int fd;
    int saved_errno;
};

static int make_socket(void *arg)
{
    struct make_socket *m = arg;

    m->fd = socket(m->kind.family, m->kind.type | SOCK_CLOEXEC | SOCK_NONBLOCK, m->kind.protocol);
    m->saved_errno = errno;
    return SW_OK;
}

int sw_netns_socket(int netns_fd, struct sw_netns_socket kind, int *ret_fd, struct sw_err *err)
{
    struct make_socket m = {.kind = kind, .fd = -1};
    int rc = netns_fd < 0 ? make_socket(&m) : sw_netns_run(netns_fd, make_socket, &m, err);

    if (rc != SW_OK)
        return rc;
    errno = m.saved_errno;
    *ret_fd = m.fd;
    return SW_OK;
}
