/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"
#include "io/netns.h"

enum { PATH_LEN = 128 };

/* A child in progress; the descriptors are ours and non-blocking. */
struct run {
    const struct sw_child *child;
    char path[PATH_LEN];
    pid_t pid;
    int in;  /* to its standard input, -1 when all is written */
    int out; /* from both its outputs, -1 at the end */
    struct sw_err *err;
};

/* Never $PATH: this runs as root, and the caller's environment is not to choose the program. */
static int find_tool(const char *name, char path[PATH_LEN], struct sw_err *err)
{
    static const char *const dirs[] = {"/usr/sbin", "/sbin", "/usr/bin", "/bin", "/usr/local/sbin"};

    for (size_t i = 0; i < SW_ARRAY_LEN(dirs); i++) {
        int n = snprintf(path, PATH_LEN, "%s/%s", dirs[i], name);

        if (n > 0 && n < PATH_LEN && access(path, X_OK) == 0)
            return SW_OK;
    }
    return sw_err_set(err, SW_ENOENT, "'%s' is not installed (looked in /usr/sbin, /usr/bin, ...)",
                      name);
}

SW_NORETURN static void child_main(const struct run *r, int in, int out)
{
    /* execve does not write to its arguments; its type is older than const. */
    union {
        const char *const *from;
        char *const *to;
    } argv = {.from = r->child->argv};
    static char path[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
    static char locale[] = "LC_ALL=C";
    static char *const env[] = {path, locale, NULL};

    if (dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 &&
        dup2(out, STDERR_FILENO) >= 0)
        (void)execve(r->path, argv.to, env);
    _exit(127);
}

/* Runs in the namespace: the child inherits it, we go back. */
static int spawn(void *arg)
{
    struct run *r = arg;
    int to[2];
    int from[2];

    if (pipe2(to, O_CLOEXEC) != 0)
        return sw_err_sys(r->err, errno, "pipe");
    if (pipe2(from, O_CLOEXEC) != 0) {
        (void)close(to[0]);
        (void)close(to[1]);
        return sw_err_sys(r->err, errno, "pipe");
    }
    r->pid = fork();
    if (r->pid == 0)
        child_main(r, to[0], from[1]);
    (void)close(to[0]);
    (void)close(from[1]);
    r->in = to[1];
    r->out = from[0];
    if (r->pid < 0)
        return sw_err_sys(r->err, errno, "fork");
    (void)fcntl(r->in, F_SETFL, O_NONBLOCK);
    (void)fcntl(r->out, F_SETFL, O_NONBLOCK);
    return SW_OK;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

static void feed(struct run *r, struct sw_slice *left)
{
    ssize_t n = write(r->in, left->p, left->n);

    if (n > 0)
        *left = sw_slice_from(*left, (size_t)n);
    if (left->n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        close_fd(&r->in);
}

static void collect(struct run *r, struct sw_buf *out)
{
    char chunk[1024];
    ssize_t n = read(r->out, chunk, sizeof(chunk));

    if (n > 0) /* past the maximum it is read and dropped, so that the child never blocks */
        (void)!sw_buf_append(out, chunk, sw_min((size_t)n, out->max - sw_buf_len(out)));
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        close_fd(&r->out);
}

/* Talks to the child until it closes its output or the deadline passes. */
static int converse(struct run *r, struct sw_buf *out)
{
    uint32_t timeout = r->child->timeout_ms ? r->child->timeout_ms : SW_CHILD_TIMEOUT_MS;
    uint64_t deadline = sw_now_ns() + timeout * SW_NS_PER_MS;
    struct sw_slice left = r->child->input;

    if (left.n == 0)
        close_fd(&r->in);
    while (r->out >= 0) {
        struct pollfd p[2] = {{.fd = r->out, .events = POLLIN}, {.fd = r->in, .events = POLLOUT}};
        uint64_t now = sw_now_ns();

        if (now >= deadline)
            return SW_ETIME;
        if (poll(p, 2, (int)((deadline - now) / SW_NS_PER_MS) + 1) <= 0)
            continue;
        if (p[1].revents)
            feed(r, &left);
        if (p[0].revents)
            collect(r, out);
    }
    return SW_OK;
}

static int reap(struct run *r, int rc, int *ret_status)
{
    int status = 0;

    if (rc != SW_OK)
        (void)kill(r->pid, SIGKILL);
    while (waitpid(r->pid, &status, 0) < 0 && errno == EINTR)
        ;
    *ret_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return rc;
}

int sw_child_run(int netns_fd, const struct sw_child *c, struct sw_buf *out, int *ret_status,
                 struct sw_err *err)
{
    struct run r = {.child = c, .pid = -1, .in = -1, .out = -1, .err = err};
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction old;
    int rc = find_tool(c->argv[0], r.path, err);

    if (rc != SW_OK)
        return rc;
    rc = netns_fd < 0 ? spawn(&r) : sw_netns_run(netns_fd, spawn, &r, err);
    if (rc == SW_OK) {
        /* A child that ends before it has read everything must not end us. */
        (void)sigaction(SIGPIPE, &ignore, &old);
        rc = reap(&r, converse(&r, out), ret_status);
        (void)sigaction(SIGPIPE, &old, NULL);
        if (rc == SW_ETIME)
            rc = sw_err_set(err, SW_ETIME, "'%s' did not finish in time", c->argv[0]);
    }
    close_fd(&r.in);
    close_fd(&r.out);
    return rc;
}
