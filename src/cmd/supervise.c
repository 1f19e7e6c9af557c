/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "http/client.h"
#include "tls/cert/cred.h"

enum {
    LINE_MAX_BYTES = 16 * 1024,
    LOG_MAX_BYTES = 10 * 1024 * 1024, /* then the file is renamed to NAME.log.1 */
    PATH_BYTES = 4096,
};

static const uint64_t probe_every_ns = 5 * SW_NS_PER_MS;
static const uint64_t probe_timeout_ns = 2 * SW_NS_PER_S;
static const uint64_t again_min_ns = 100 * SW_NS_PER_MS;
static const uint64_t again_max_ns = 10 * SW_NS_PER_S;
static const uint64_t settled_ns = 30 * SW_NS_PER_S; /* ran this long: the next wait is short */

struct child {
    struct sw_supervisor *sup;
    const struct sw_supervised *role;
    pid_t pid; /* 0: not running */
    bool was_ready;
    bool answered; /* the probe under way got a 200 */
    uint64_t started_ns;
    uint64_t again_ns; /* wait before the next start */
    struct sw_timer again;
    struct sw_timer probe;
    struct sw_timer deadline; /* of readiness at the start, of the end at the stop */
    struct sw_http_client *http;
    struct sw_http_call *call;
    struct sw_watch pipe;
    int out;
    int file;
    size_t file_bytes;
    struct sw_buf line;
    char last[256]; /* line it wrote, for messages */
};

struct sw_supervisor {
    struct sw_loop *loop;
    struct sw_supervisor_opts o;
    struct child children[SW_SUPERVISED_MAX];
    size_t next; /* of the first start */
    bool up;
    bool stopping;
    bool kill_now;
    struct sw_err why;
    struct sw_defer finished;
};

static void start_child(struct child *c);
static void stop_next(struct sw_supervisor *s);

/* ---- logs ---- */

static void log_path(const struct child *c, const char *suffix, char out[PATH_BYTES])
{
    (void)snprintf(out, PATH_BYTES, "%s/%s.log%s", c->sup->o.log_dir, c->role->name, suffix);
}

static void log_open(struct child *c)
{
    char path[PATH_BYTES];
    struct stat st;

    log_path(c, "", path);
    c->file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    c->file_bytes = c->file >= 0 && fstat(c->file, &st) == 0 ? (size_t)st.st_size : 0;
}

static void log_rotate(struct child *c)
{
    char from[PATH_BYTES];
    char to[PATH_BYTES];

    log_path(c, "", from);
    log_path(c, ".1", to);
    (void)rename(from, to);
    (void)close(c->file);
    log_open(c);
}

static void log_line(struct child *c, const char *p, size_t n)
{
    (void)snprintf(c->last, sizeof(c->last), "%.*s", (int)sw_min(n, sizeof(c->last)), p);
    if (c->sup->o.verbose)
        (void)fprintf(stderr, "%-9s %.*s\n", c->role->name, (int)n, p);
    if (c->file < 0)
        return;
    if (c->file_bytes > LOG_MAX_BYTES)
        log_rotate(c);
    if (c->file >= 0 && dprintf(c->file, "%.*s\n", (int)n, p) > 0)
        c->file_bytes += n + 1;
}

static void log_lines(struct child *c)
{
    for (;;) {
        const char *p = sw_buf_data(&c->line);
        size_t n = sw_buf_len(&c->line);
        const char *end = n ? memchr(p, '\n', n) : NULL;

        if (!end && n < LINE_MAX_BYTES)
            return;
        n = end ? (size_t)(end - p) : n;
        log_line(c, p, n);
        sw_buf_consume(&c->line, n + (end != NULL));
    }
}

static void on_output(struct sw_watch *w, unsigned events)
{
    struct child *c = SW_CONTAINER_OF(w, struct child, pipe);
    ssize_t n;

    for (;;) {
        size_t room = LINE_MAX_BYTES - sw_buf_len(&c->line);
        char *to = sw_buf_reserve(&c->line, room);

        n = to ? read(c->out, to, room) : -1;
        if (n <= 0)
            break;
        sw_buf_commit(&c->line, (size_t)n);
        log_lines(c);
    }
    if (n == 0) {
        sw_watch_stop(&c->pipe);
        (void)close(c->out);
        c->out = -1;
    }
}

/* ---- readiness ---- */

static void probe_later(struct child *c);

static void became_ready(struct child *c)
{
    struct sw_supervisor *s = c->sup;

    sw_timer_stop(s->loop, &c->probe);
    if (c->was_ready)
        return;
    c->was_ready = true;
    sw_timer_stop(s->loop, &c->deadline);
    if (s->stopping)
        return;
    if (!s->up && s->next == s->o.n_first) {
        s->up = true;
        s->o.up(s->o.arg);
    } else if (s->next < s->o.n) {
        start_child(&s->children[s->next++]);
    } else {
        s->o.rest_up(s->o.arg);
    }
}

static void on_probe_head(struct sw_http_call *call, const struct sw_h1_msg *msg, void *arg)
{
    struct child *c = arg;

    c->answered = msg->status == 200;
}

static void on_probe_done(struct sw_http_call *call, int rc, const struct sw_err *err, void *arg)
{
    struct child *c = arg;

    c->call = NULL;
    if (rc == SW_OK && c->answered)
        became_ready(c);
    else if (c->pid)
        probe_later(c);
}

static int probe_client(struct child *c, struct sw_err *err)
{
    char host[SW_IP_TEXT];
    struct sw_http_client_opts o = {
        .scope = "up",
        .host = sw_slice_str(sw_ip_text(&c->role->ready.ip, host)),
        .port = c->role->ready.port,
        .tls = c->role->ready_ca != NULL,
        .connect_timeout_ns = probe_timeout_ns,
    };
    struct sw_slice roots = {0};
    struct sw_tls_cred *cred = NULL;

    if (c->http)
        return SW_OK;
    if (c->role->ready_ca) {
        int rc = sw_file_read(c->role->ready_ca, SW_TLS_PEM_MAX, &roots, err);

        if (rc != SW_OK)
            return rc;
        cred = sw_tls_cred_new(&(struct sw_tls_cred_pem){.roots = roots}, err);
        sw_free((void *)(uintptr_t)roots.p);
        if (!cred)
            return err->rc;
    }
    o.cred = cred;
    c->http = sw_http_client_new(c->sup->loop, &o, err);
    (void)sw_tls_cred_unref(cred);
    return c->http ? SW_OK : err->rc;
}

static void on_probe_time(struct sw_timer *t)
{
    struct child *c = SW_CONTAINER_OF(t, struct child, probe);
    struct sw_http_call_opts o = {.method = SW_SLICE_LIT("GET"),
                                  .target = sw_slice_str(c->role->ready_path),
                                  .timeout_ns = probe_timeout_ns,
                                  .body_max = (uint64_t)64 * 1024,
                                  .on_head = on_probe_head,
                                  .on_done = on_probe_done,
                                  .arg = c};
    struct sw_err err = {0};

    c->answered = false;
    if (probe_client(c, &err) == SW_OK)
        c->call = sw_http_call_start(c->http, &o, &err);
    if (!c->call)
        probe_later(c);
}

static void probe_later(struct child *c)
{
    sw_timer_start(c->sup->loop, &c->probe, probe_every_ns, on_probe_time);
}

static void probe_stop(struct child *c)
{
    sw_timer_stop(c->sup->loop, &c->probe);
    if (c->call)
        sw_http_call_cancel(c->call);
    c->call = NULL;
}

static void on_not_ready(struct sw_timer *t)
{
    struct child *c = SW_CONTAINER_OF(t, struct child, deadline);
    char path[PATH_BYTES];

    log_path(c, "", path);
    (void)sw_err_set(&c->sup->why, SW_ETIME, "%s did not become ready (%s); its log is %s",
                     c->role->name, c->last, path);
    sw_supervisor_stop(c->sup);
}

/* ---- processes ---- */

SW_NORETURN static void child_main(const struct child *c, int out, pid_t parent)
{
    /* execv does not write to its arguments; its type is older than const. */
    union {
        const char *const *from;
        char *const *to;
    } argv = {.from = c->role->argv};
    sigset_t none;

    (void)sigemptyset(&none);
    (void)pthread_sigmask(SIG_SETMASK, &none, NULL);
    (void)setpgid(0, 0); /* Ctrl-C is ours to pass on, in order */
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    /* It is for the parent. NOLINTNEXTLINE(concurrency-mt-unsafe): here is one thread */
    (void)unsetenv("SPANWIRE_CONFIG");
    if (getppid() == parent && dup2(out, STDOUT_FILENO) >= 0 && dup2(out, STDERR_FILENO) >= 0)
        (void)execv("/proc/self/exe", argv.to);
    _exit(127);
}

static void start_failed(struct child *c, const char *what, int error)
{
    (void)sw_err_sys(&c->sup->why, error, "%s: %s", c->role->name, what);
    sw_supervisor_stop(c->sup);
}

static void start_child(struct child *c)
{
    struct sw_supervisor *s = c->sup;
    pid_t self = getpid();
    struct sw_err err = {0};
    int ends[2];

    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
        start_failed(c, "pipe", errno);
        return;
    }
    (void)fcntl(ends[1], F_SETFL, 0); /* the role's own writes may wait */
    c->pid = fork();
    if (c->pid == 0)
        child_main(c, ends[1], self);
    (void)close(ends[1]);
    if (c->pid < 0) {
        c->pid = 0;
        (void)close(ends[0]);
        start_failed(c, "fork", errno);
        return;
    }
    c->started_ns = sw_loop_now(s->loop);
    c->out = ends[0];
    if (sw_watch_start(s->loop, &c->pipe, c->out, on_output, &err) != SW_OK)
        sw_log_warn("up", "%s: cannot write its log: %s", c->role->name, err.msg);
    if (!s->up || !c->was_ready)
        sw_timer_start(s->loop, &c->deadline, s->o.ready_timeout_ns, on_not_ready);
    if (c->role->ready.ip.family)
        probe_later(c);
    else
        became_ready(c);
}

static void on_again(struct sw_timer *t)
{
    start_child(SW_CONTAINER_OF(t, struct child, again));
}

/* It ended: a mistake of its own while everything starts ends us too, later it is started again. */
static void ended(struct child *c, int status)
{
    struct sw_supervisor *s = c->sup;
    char how[64];
    char path[PATH_BYTES];

    c->pid = 0;
    probe_stop(c);
    if (c->out >= 0)
        on_output(&c->pipe, 0);
    sw_timer_stop(s->loop, &c->deadline);
    if (s->stopping) {
        stop_next(s);
        return;
    }
    if (WIFSIGNALED(status))
        (void)snprintf(how, sizeof(how), "was ended by signal %d", WTERMSIG(status));
    else
        (void)snprintf(how, sizeof(how), "ended with status %d", WEXITSTATUS(status));
    log_path(c, "", path);
    if (!s->up || !c->was_ready) {
        (void)sw_err_set(&s->why, SW_ECLOSED, "%s %s (%s); its log is %s", c->role->name, how,
                         c->last, path);
        sw_supervisor_stop(s);
        return;
    }
    if (sw_loop_now(s->loop) - c->started_ns > settled_ns)
        c->again_ns = again_min_ns;
    sw_log_warn("up", "%s %s%s%s%s and is started again; its log is %s", c->role->name, how,
                c->last[0] ? " (" : "", c->last, c->last[0] ? ")" : "", path);
    sw_timer_start(s->loop, &c->again, c->again_ns, on_again);
    c->again_ns = sw_min(c->again_ns * 2, again_max_ns);
}

void sw_supervisor_reap(struct sw_supervisor *s)
{
    for (size_t i = 0; i < s->o.n; i++) {
        struct child *c = &s->children[i];
        int status = 0;

        if (c->pid && waitpid(c->pid, &status, WNOHANG) == c->pid)
            ended(c, status);
    }
}

/* ---- the end ---- */

static void on_overdue(struct sw_timer *t)
{
    struct child *c = SW_CONTAINER_OF(t, struct child, deadline);

    sw_log_warn("up", "%s did not end in time and is killed", c->role->name);
    (void)kill(c->pid, SIGKILL);
}

static void on_finished(struct sw_defer *d)
{
    struct sw_supervisor *s = SW_CONTAINER_OF(d, struct sw_supervisor, finished);

    s->o.down(s->o.arg, s->why.rc, &s->why);
}

/* Ends the last one that still runs; the others follow as it goes. */
static void stop_next(struct sw_supervisor *s)
{
    for (size_t i = s->o.n; i-- > 0;) {
        struct child *c = &s->children[i];

        sw_timer_stop(s->loop, &c->again);
        probe_stop(c);
        if (!c->pid)
            continue;
        (void)kill(c->pid, s->kill_now ? SIGKILL : SIGTERM);
        sw_timer_start(s->loop, &c->deadline, s->o.stop_timeout_ns, on_overdue);
        return;
    }
    sw_loop_defer(s->loop, &s->finished, on_finished);
}

void sw_supervisor_stop(struct sw_supervisor *s)
{
    if (s->stopping && s->kill_now)
        return;
    s->kill_now = s->stopping;
    s->stopping = true;
    for (size_t i = 0; i < s->o.n; i++)
        sw_timer_stop(s->loop, &s->children[i].deadline);
    stop_next(s);
}

struct sw_supervisor *sw_supervisor_new(struct sw_loop *l, const struct sw_supervisor_opts *o,
                                        struct sw_err *err)
{
    struct sw_supervisor *s;

    if (o->n == 0 || o->n > SW_SUPERVISED_MAX) {
        (void)sw_err_set(err, SW_EINVAL, "%zu roles to supervise", o->n);
        return NULL;
    }
    s = SW_NEW(struct sw_supervisor);
    s->loop = l;
    s->o = *o;
    if (!s->o.n_first)
        s->o.n_first = o->n;
    for (size_t i = 0; i < o->n; i++) {
        struct child *c = &s->children[i];

        c->sup = s;
        c->role = &o->roles[i];
        c->out = -1;
        c->again_ns = again_min_ns;
        sw_buf_init(&c->line, LINE_MAX_BYTES);
        log_open(c);
    }
    return s;
}

void sw_supervisor_start(struct sw_supervisor *s)
{
    start_child(&s->children[s->next++]);
}

void sw_supervisor_start_rest(struct sw_supervisor *s)
{
    if (s->up && !s->stopping && s->next == s->o.n_first && s->next < s->o.n)
        start_child(&s->children[s->next++]);
}

void sw_supervisor_free(struct sw_supervisor *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->o.n; i++) {
        struct child *c = &s->children[i];

        probe_stop(c);
        sw_timer_stop(s->loop, &c->again);
        sw_timer_stop(s->loop, &c->deadline);
        sw_http_client_free(c->http);
        if (c->pid) {
            (void)kill(c->pid, SIGKILL);
            (void)waitpid(c->pid, NULL, 0);
        }
        sw_watch_stop(&c->pipe);
        if (c->out >= 0)
            (void)close(c->out);
        if (c->file >= 0)
            (void)close(c->file);
        sw_buf_done(&c->line);
    }
    sw_defer_cancel(&s->finished);
    sw_free(s);
}
