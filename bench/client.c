/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client half: bulk source, ping-pong, connection rate and idle holder.
 * Every blocking call has a time-out and main() arms an alarm for the whole run.
 */
#include "load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    SOURCE_ADDRS = 239,
    WARM_PINGS = 50,
    MAX_SAMPLES = 4 * 1000 * 1000,
    MAX_ERRORS = 100,
};

struct bulk_result {
    uint64_t bytes; /* inside the measured window */
    uint64_t total;
    uint64_t window_ns;
    int ok;
};

static int set_options(int fd)
{
    struct timeval tv = {.tv_sec = LOAD_IO_TIMEOUT_S};
    int one = 1;

    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)) < 0)
        return -1;
    return setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

static int bind_source(int fd, uint32_t source, uint64_t turn)
{
    struct sockaddr_in src = {.sin_family = AF_INET};
    int one = 1;

    /* The port is chosen at connect, when the whole four-tuple is known. */
    src.sin_addr.s_addr = htonl(source + 1 + (uint32_t)(turn % SOURCE_ADDRS));
    if (setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof(one)) < 0)
        return -1;
    return bind(fd, (struct sockaddr *)&src, sizeof(src));
}

/* The answer is read byte by byte at its end only: one read normally holds all of it. */
static int do_prelude(int fd, const struct load_opts *o)
{
    char buf[1024];
    int n = snprintf(buf, sizeof(buf), "CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s%s\r\n", o->connect,
                     o->connect, o->header ? o->header : "", o->header ? "\r\n" : "");
    size_t have = 0;

    if (n < 0 || (size_t)n >= sizeof(buf) || write(fd, buf, (size_t)n) != n)
        return -1;
    while (have < sizeof(buf) - 1) {
        ssize_t got = read(fd, buf + have, sizeof(buf) - 1 - have);

        if (got <= 0)
            break;
        have += (size_t)got;
        buf[have] = '\0';
        if (strstr(buf, "\r\n\r\n"))
            return strncmp(buf, "HTTP/1.1 200", 12) == 0 ? 0 : (errno = EPROTO, -1);
    }
    errno = EPROTO;
    return -1;
}

int load_dial(const struct load_opts *o, uint64_t turn)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    if (set_options(fd) < 0 || (o->source && bind_source(fd, o->source, turn) < 0) ||
        connect(fd, (const struct sockaddr *)&o->to, sizeof(o->to)) < 0 ||
        (o->connect && do_prelude(fd, o) < 0)) {
        int saved = errno;

        load_reset(fd);
        errno = saved;
        return -1;
    }
    return fd;
}

void load_reset(int fd)
{
    struct linger hard = {.l_onoff = 1, .l_linger = 0};

    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    (void)close(fd);
}

/* --- bulk ------------------------------------------------------------------------------ */

static int open_bulk(const struct load_opts *o, int conns, int ep, int *fds)
{
    for (int i = 0; i < conns; i++) {
        struct epoll_event ev = {.events = EPOLLOUT, .data.fd = -1};

        fds[i] = load_dial(o, (uint64_t)i);
        if (fds[i] < 0)
            return -1;
        ev.data.fd = fds[i];
        if (fcntl(fds[i], F_SETFL, O_NONBLOCK) < 0 || epoll_ctl(ep, EPOLL_CTL_ADD, fds[i], &ev) < 0)
            return -1;
    }
    return 0;
}

/*
 * Buffers between us and the sink are full when the window opens and when it
 * closes, so bytes accepted inside it equal bytes delivered.
 */
static int pump(const struct load_opts *o, int ep, struct bulk_result *ret)
{
    static char chunk[LOAD_WRITE_SIZE];
    uint64_t start = load_now_ns();
    uint64_t open_at = start + (uint64_t)(o->warm_secs * 1e9);
    uint64_t end_at = open_at + (uint64_t)(o->secs * 1e9);
    uint64_t opened = 0;
    uint64_t now = start;
    struct epoll_event evs[64];

    memset(chunk, 'x', sizeof(chunk));
    while (now < end_at) {
        int n = epoll_wait(ep, evs, 64, 1000);
        uint64_t sent = 0;

        for (int i = 0; i < n; i++) {
            ssize_t w = write(evs[i].data.fd, chunk, sizeof(chunk));

            if (w < 0 && errno != EAGAIN && errno != EINTR)
                return -1;
            sent += w > 0 ? (uint64_t)w : 0;
        }
        now = load_now_ns();
        ret->total += sent;
        if (opened)
            ret->bytes += sent;
        else if (now >= open_at)
            opened = now;
    }
    ret->window_ns = now - opened;
    return opened ? 0 : -1;
}

static void bulk_worker(const struct load_opts *o, int conns, struct bulk_result *ret)
{
    int *fds = calloc((size_t)conns, sizeof(*fds));
    int ep = epoll_create1(EPOLL_CLOEXEC);

    if (!fds || ep < 0)
        load_die("src", "set-up");
    for (int i = 0; i < conns; i++)
        fds[i] = -1;
    if (open_bulk(o, conns, ep, fds) < 0)
        load_die("src", "connect");
    if (pump(o, ep, ret) < 0)
        load_die("src", "write");
    ret->ok = 1;
    for (int i = 0; i < conns; i++)
        load_reset(fds[i]);
    (void)close(ep);
    free(fds);
}

static void fork_bulk_workers(const struct load_opts *o, struct bulk_result *res)
{
    for (int i = 0; i < o->procs; i++) {
        pid_t pid = fork();

        if (pid < 0)
            load_die("src", "fork");
        if (pid == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            bulk_worker(o, o->conns / o->procs, &res[i]);
            _exit(0);
        }
    }
    while (wait(NULL) > 0 || errno == EINTR)
        ;
}

int load_src(const struct load_opts *o)
{
    size_t size = sizeof(struct bulk_result) * LOAD_MAX_PROCS;
    struct bulk_result *res =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    double gbps = 0;
    uint64_t total = 0;

    if (res == MAP_FAILED)
        load_die("src", "mmap");
    if (o->procs > 1)
        fork_bulk_workers(o, res);
    else
        bulk_worker(o, o->conns, &res[0]);
    for (int i = 0; i < o->procs; i++) {
        if (!res[i].ok)
            load_die("src", "a worker failed");
        gbps += (double)res[i].bytes * 8 / (double)res[i].window_ns;
        total += res[i].total;
    }
    printf("{\"mode\":\"src\",\"conns\":%d,\"procs\":%d,\"secs\":%.4f,\"total_bytes\":%llu,"
           "\"gbps\":%.4f}\n",
           o->conns, o->procs, (double)res[0].window_ns / 1e9, (unsigned long long)total, gbps);
    return 0;
}

/* --- ping-pong ------------------------------------------------------------------------- */

static int read_full(int fd, char *buf, size_t n)
{
    size_t have = 0;

    while (have < n) {
        ssize_t got = read(fd, buf + have, n - have);

        if (got == 0)
            errno = ECONNRESET;
        if (got <= 0)
            return -1;
        have += (size_t)got;
    }
    return 0;
}

static void ping(int fd, char *out, char *in, size_t size, uint64_t n)
{
    memcpy(out, &n, sizeof(n));
    if (write(fd, out, size) != (ssize_t)size || read_full(fd, in, size) < 0)
        load_die("rtt", "exchange");
    if (memcmp(out, in, size) != 0) {
        errno = EBADMSG;
        load_die("rtt", "the echo differs from what was sent");
    }
}

int load_rtt(const struct load_opts *o)
{
    uint32_t *samples = calloc(MAX_SAMPLES, sizeof(*samples));
    char *out = calloc(2, (size_t)o->size);
    int fd = load_dial(o, 0);
    size_t n = 0;

    if (!samples || !out)
        load_die("rtt", "out of memory");
    if (fd < 0)
        load_die("rtt", "connect");
    for (uint64_t i = 0; i < WARM_PINGS; i++)
        ping(fd, out, out + o->size, (size_t)o->size, i);

    uint64_t start = load_now_ns();
    uint64_t end_at = start + (uint64_t)(o->secs * 1e9);
    uint64_t now = start;

    while (now < end_at && n < MAX_SAMPLES) {
        uint64_t before = now;

        ping(fd, out, out + o->size, (size_t)o->size, n);
        now = load_now_ns();
        samples[n++] = (uint32_t)(now - before);
    }
    load_reset(fd);
    printf("{\"mode\":\"rtt\",\"size\":%d,\"n\":%zu,\"secs\":%.4f", o->size, n,
           (double)(now - start) / 1e9);
    load_print_percentiles(samples, n);
    printf("}\n");
    free(samples);
    free(out);
    return 0;
}

/* --- connection rate ------------------------------------------------------------------- */

/* Connects and exchanges one byte. Returns the descriptor or -1. */
static int open_and_touch(const struct load_opts *o, uint64_t turn)
{
    int fd = load_dial(o, turn);
    char out = (char)('a' + (int)(turn % 26));
    char in = 0;

    if (fd < 0)
        return -1;
    if (write(fd, &out, 1) == 1 && read_full(fd, &in, 1) == 0 && in == out)
        return fd;

    int saved = errno;

    load_reset(fd);
    errno = saved ? saved : EBADMSG;
    return -1;
}

static void nap(double secs)
{
    struct timespec ts = {.tv_sec = (time_t)secs,
                          .tv_nsec = (long)((secs - (double)(time_t)secs) * 1e9)};

    (void)nanosleep(&ts, NULL);
}

struct cps_run {
    uint32_t *samples;
    int *held; /* descriptors of the current burst */
    int n_held;
    size_t n;
    int errors;
    uint64_t paused_ns;
};

static void end_burst(const struct load_opts *o, struct cps_run *r)
{
    uint64_t before = load_now_ns();

    while (r->n_held > 0)
        load_reset(r->held[--r->n_held]);
    nap(o->pause_secs);
    r->paused_ns += load_now_ns() - before;
}

static void one_connection(const struct load_opts *o, struct cps_run *r)
{
    uint64_t before = load_now_ns();
    int fd = open_and_touch(o, r->n);

    if (fd < 0) {
        if (++r->errors >= MAX_ERRORS)
            load_die("cps", "too many failed connections");
        return;
    }
    if (o->burst == 0)
        load_reset(fd);
    else
        r->held[r->n_held++] = fd;
    r->samples[r->n++] = (uint32_t)(load_now_ns() - before);
    if (o->burst && r->n_held == o->burst)
        end_burst(o, r);
}

int load_cps(const struct load_opts *o)
{
    struct cps_run r = {.samples = calloc(MAX_SAMPLES, sizeof(*r.samples)),
                        .held = calloc((size_t)o->burst + 1, sizeof(*r.held))};
    uint64_t start = load_now_ns();
    uint64_t limit = (uint64_t)(o->secs * 1e9);

    if (!r.samples || !r.held)
        load_die("cps", "out of memory");
    while (load_now_ns() - start - r.paused_ns < limit && r.n < MAX_SAMPLES)
        one_connection(o, &r);

    double secs = (double)(load_now_ns() - start - r.paused_ns) / 1e9;

    while (r.n_held > 0)
        load_reset(r.held[--r.n_held]);
    if (r.n == 0)
        load_die("cps", "no connection succeeded");
    printf("{\"mode\":\"cps\",\"n\":%zu,\"errors\":%d,\"secs\":%.4f,\"rate\":%.2f", r.n, r.errors,
           secs, (double)r.n / secs);
    load_print_percentiles(r.samples, r.n);
    printf("}\n");
    free(r.samples);
    free(r.held);
    return 0;
}

/* --- idle holder ----------------------------------------------------------------------- */

int load_idle(const struct load_opts *o)
{
    int *fds = calloc((size_t)o->conns, sizeof(*fds));
    int failed = 0;
    char c;

    if (!fds)
        load_die("idle", "out of memory");
    for (int i = 0; i < o->conns; i++) {
        fds[i] = open_and_touch(o, (uint64_t)i);
        if (fds[i] < 0 && ++failed >= MAX_ERRORS)
            load_die("idle", "too many failed connections");
    }
    printf("{\"mode\":\"idle\",\"conns\":%d,\"failed\":%d}\n", o->conns - failed, failed);
    (void)fflush(stdout);
    /* The driver measures now; it closes our input when it has finished. */
    while (read(STDIN_FILENO, &c, 1) > 0)
        ;
    for (int i = 0; i < o->conns; i++) {
        if (fds[i] >= 0)
            load_reset(fds[i]);
    }
    free(fds);
    return 0;
}

/* --- start-up time --------------------------------------------------------------------- */

static bool accepts(const struct sockaddr_in *to)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool yes = fd >= 0 && connect(fd, (const struct sockaddr *)to, sizeof(*to)) == 0;

    if (fd >= 0)
        load_reset(fd);
    return yes;
}

/*
 * Runs a program and probes its port until a connection is accepted. The child
 * gets its own process group so that helpers it forks can be ended with it.
 */
int load_start(const struct load_opts *o)
{
    uint64_t start;
    uint64_t took = 0;
    pid_t pid;

    if (accepts(&o->to)) {
        errno = EADDRINUSE;
        load_die("start", "something accepts on that port already");
    }
    start = load_now_ns();
    pid = fork();
    if (pid < 0)
        load_die("start", "fork");
    if (pid == 0) {
        (void)setpgid(0, 0);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)execv(o->argv[0], o->argv);
        _exit(127);
    }
    while (load_now_ns() - start < (uint64_t)LOAD_IO_TIMEOUT_S * 1000000000ULL) {
        if (accepts(&o->to)) {
            took = load_now_ns() - start;
            break;
        }
        nap(20e-6);
    }
    if (kill(-pid, SIGTERM) < 0)
        (void)kill(pid, SIGTERM);
    nap(0.2);
    if (kill(-pid, SIGKILL) < 0)
        (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    if (!took) {
        errno = ETIMEDOUT;
        load_die("start", "the program never accepted");
    }
    printf("{\"mode\":\"start\",\"ms\":%.3f}\n", (double)took / 1e6);
    return 0;
}
