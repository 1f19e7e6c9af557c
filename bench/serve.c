/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server half: sinks, echoes and HTTP origins on any number of ports, one epoll loop per
 * process, several processes on the same ports when asked (SO_REUSEPORT). It
 * serves until it is told to stop.
 */
#include "load.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { ECHO_SIZE = 64 * 1024, ACCEPTS_PER_WAKE = 64, TARGET_OFFSET = 8 /* of "CONNECT " */ };

struct conn {
    int fd;
    bool listening;
    enum serve_kind kind;
    unsigned head_len; /* bytes of the prelude eaten so far */
    unsigned seen;     /* characters of the blank line that ends it; 4: no prelude left */
    bool past_number;  /* HTTP: of the path */
    unsigned body;     /* HTTP: bytes the request asks for */
    char *pending;     /* owned: echo bytes the socket did not take yet, or NULL */
    size_t off;        /* of pending */
    size_t pending_len;
};

static char scratch[LOAD_READ_SIZE];

static struct conn *conn_new(int fd, enum serve_kind kind, bool listening)
{
    struct conn *c = calloc(1, sizeof(*c));

    if (!c)
        load_die("serve", "out of memory");
    c->fd = fd;
    c->kind = kind;
    c->listening = listening;
    c->seen = kind == SERVE_CONNECT || kind == SERVE_HTTP ? 0 : 4;
    return c;
}

static void conn_free(struct conn *c)
{
    (void)close(c->fd);
    free(c->pending);
    free(c);
}

static void watch(int ep, struct conn *c, int op, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.ptr = c};

    if (epoll_ctl(ep, op, c->fd, &ev) < 0)
        load_die("serve", "epoll_ctl");
}

static int listen_on(const struct sockaddr_in *addr)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int one = 1;

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)) < 0 ||
        bind(fd, (const struct sockaddr *)addr, sizeof(*addr)) < 0 || listen(fd, 4096) < 0)
        load_die("serve", "cannot listen");
    return fd;
}

static void on_accept(int ep, struct conn *l)
{
    for (int i = 0; i < ACCEPTS_PER_WAKE; i++) {
        int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        int one = 1;

        if (fd < 0)
            return;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        watch(ep, conn_new(fd, l->kind, false), EPOLL_CTL_ADD, EPOLLIN);
    }
}

/*
 * Eats the request head up to its blank line and answers it. A target that starts
 * with "s" (sink.bench:80) makes the connection a sink, any other an echo.
 * Returns how many of the n bytes belonged to the head, or -1 when the answer
 * could not be sent.
 */
static ssize_t eat_prelude(struct conn *c, const char *p, size_t n)
{
    static const char end[] = "\r\n\r\n";
    static const char answer[] = "HTTP/1.1 200 OK\r\n\r\n";
    size_t i = 0;

    while (i < n && c->seen < 4) {
        if (p[i] == end[c->seen])
            c->seen++;
        else
            c->seen = p[i] == '\r' ? 1 : 0;
        if (c->head_len++ == TARGET_OFFSET)
            c->kind = p[i] == 's' ? SERVE_SINK : SERVE_ECHO;
        i++;
    }
    if (c->seen == 4 && write(c->fd, answer, sizeof(answer) - 1) != (ssize_t)sizeof(answer) - 1)
        return -1;
    return (ssize_t)i;
}

/* Returns false when the connection is over. */
static bool echo(int ep, struct conn *c, const char *p, size_t n)
{
    ssize_t done = write(c->fd, p, n);

    if (done < 0 && errno != EAGAIN)
        return false;
    if (done < 0)
        done = 0;
    if ((size_t)done == n)
        return true;
    c->pending_len = n - (size_t)done;
    c->pending = malloc(c->pending_len);
    if (!c->pending)
        return false;
    memcpy(c->pending, p + done, c->pending_len);
    c->off = 0;
    watch(ep, c, EPOLL_CTL_MOD, EPOLLOUT);
    return true;
}

/* One answer; what the socket does not take waits as an echo's rest does. */
static bool answer_http(int ep, struct conn *c)
{
    static char body[LOAD_MAX_BODY];
    char head[96];
    int n = snprintf(head, sizeof(head),
                     "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %u\r\n\r\n",
                     c->body);
    struct iovec iov[2] = {{head, (size_t)n}, {body, c->body}};
    size_t total = (size_t)n + c->body;
    ssize_t done = writev(c->fd, iov, 2);

    if (done < n)
        return false; /* an empty socket buffer takes a head */
    if ((size_t)done == total)
        return true;
    c->pending_len = total - (size_t)done;
    c->pending = calloc(1, c->pending_len);
    if (!c->pending)
        return false;
    c->off = 0;
    watch(ep, c, EPOLL_CTL_MOD, EPOLLOUT);
    return true;
}

/* Requests without bodies: "GET /N ..." up to the blank line. Returns false when it is over. */
static bool on_http(int ep, struct conn *c, const char *p, size_t n)
{
    static const char start[] = "GET /";
    static const char end[] = "\r\n\r\n";

    for (size_t i = 0; i < n; i++) {
        unsigned at = c->head_len++;

        if (c->pending)
            return false; /* it did not wait for its answer */
        if (at < sizeof(start) - 1) {
            if (p[i] != start[at])
                return false;
            continue;
        }
        if (c->seen == 0 && !c->past_number) {
            if (p[i] >= '0' && p[i] <= '9' && c->body < LOAD_MAX_BODY / 10)
                c->body = c->body * 10 + (unsigned)(p[i] - '0');
            else
                c->past_number = true;
        }
        if (p[i] == end[c->seen])
            c->seen++;
        else
            c->seen = p[i] == '\r' ? 1 : 0;
        if (c->seen < 4)
            continue;
        if (!answer_http(ep, c))
            return false;
        c->head_len = c->seen = c->body = 0;
        c->past_number = false;
    }
    return true;
}

static bool on_writable(int ep, struct conn *c)
{
    ssize_t done = write(c->fd, c->pending + c->off, c->pending_len - c->off);

    if (done < 0)
        return errno == EAGAIN;
    c->off += (size_t)done;
    if (c->off < c->pending_len)
        return true;
    free(c->pending);
    c->pending = NULL;
    watch(ep, c, EPOLL_CTL_MOD, EPOLLIN);
    return true;
}

static bool on_readable(int ep, struct conn *c)
{
    ssize_t n = read(c->fd, scratch, c->kind == SERVE_SINK ? sizeof(scratch) : ECHO_SIZE);
    ssize_t head = 0;

    if (n <= 0)
        return n < 0 && (errno == EAGAIN || errno == EINTR);
    if (c->kind == SERVE_HTTP)
        return on_http(ep, c, scratch, (size_t)n);
    if (c->seen < 4) {
        head = eat_prelude(c, scratch, (size_t)n);
        if (head < 0)
            return false;
    }
    if (c->kind != SERVE_ECHO || head == n)
        return true;
    return echo(ep, c, scratch + head, (size_t)(n - head));
}

static _Noreturn void serve_loop(const struct load_opts *o)
{
    int ep = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event evs[256];

    if (ep < 0)
        load_die("serve", "epoll_create1");
    for (int i = 0; i < o->n_listeners; i++) {
        const struct listener *l = &o->listeners[i];

        watch(ep, conn_new(listen_on(&l->addr), l->kind, true), EPOLL_CTL_ADD, EPOLLIN);
    }
    for (;;) {
        int n = epoll_wait(ep, evs, 256, -1);

        for (int i = 0; i < n; i++) {
            struct conn *c = evs[i].data.ptr;

            if (c->listening)
                on_accept(ep, c);
            else if (!(c->pending ? on_writable(ep, c) : on_readable(ep, c)))
                conn_free(c);
        }
    }
}

int load_serve(const struct load_opts *o)
{
    if (o->n_listeners == 0) {
        errno = EINVAL;
        load_die("serve", "no listener given");
    }
    for (int i = 1; i < o->procs; i++) {
        pid_t pid = fork();

        if (pid < 0)
            load_die("serve", "fork");
        if (pid == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            serve_loop(o);
        }
    }
    serve_loop(o);
}
