/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP client for latencies: one connection that stays open, plain HTTP/1.1, one request at a
 * time, back to back or at due times. Throughput is left to wrk and h2load.
 */
#include "load.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { DISCARD = 50, SAMPLES_MAX = 4 << 20, HEAD_MAX = 8192 };

static char answer[LOAD_READ_SIZE];

/* The body's length from the head at p, or -1 when it does not say 200 or no length. */
static long body_length(const char *p)
{
    static const char key[] = "content-length:";

    if (strncmp(p, "HTTP/1.1 200", 12) != 0)
        return -1;
    for (p = strstr(p, "\r\n"); p; p = strstr(p + 2, "\r\n")) {
        if (strncasecmp(p + 2, key, sizeof(key) - 1) == 0)
            return strtol(p + 2 + sizeof(key) - 1, NULL, 10);
    }
    return -1;
}

/* One exchange; leaves with an error when the answer is not as it should be. */
static void exchange(int fd, const char *request, size_t n)
{
    size_t got = 0;
    size_t want = 0;

    if (write(fd, request, n) != (ssize_t)n)
        load_die("http", "write");
    while (want == 0 || got < want) {
        ssize_t r = read(fd, answer + (want ? 0 : got), want ? sizeof(answer) : HEAD_MAX - got);
        const char *blank;
        long body;

        if (r <= 0)
            load_die("http", "read");
        got += (size_t)r;
        if (want)
            continue;
        answer[got] = '\0';
        blank = strstr(answer, "\r\n\r\n");
        if (!blank && got < HEAD_MAX)
            continue;
        body = blank ? body_length(answer) : -1;
        errno = EPROTO;
        if (body < 0)
            load_die("http", "not the answer expected");
        want = (size_t)(blank - answer) + 4 + (size_t)body;
    }
    errno = EPROTO;
    if (got != want)
        load_die("http", "more than one answer");
}

/* Sleeps until shortly before the time and looks at the clock from there on. */
static void wait_until(uint64_t at)
{
    const uint64_t lead = 30000;
    uint64_t now = load_now_ns();

    if (now + lead < at) {
        uint64_t rest = at - lead - now;
        struct timespec ts = {(time_t)(rest / 1000000000ULL), (long)(rest % 1000000000ULL)};

        (void)nanosleep(&ts, NULL);
    }
    while (load_now_ns() < at)
        continue;
}

int load_http(const struct load_opts *o)
{
    uint32_t *samples = malloc(SAMPLES_MAX * sizeof(*samples));
    char request[1024];
    int n = snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n",
                     o->get ? o->get : "/0", o->host ? o->host : "bench.local");
    int fd = load_dial(o, 0);
    size_t count = 0;
    int one = 1;
    uint64_t began;

    if (fd < 0 || !samples || n < 0 || (size_t)n >= sizeof(request))
        load_die("http", "connect");
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    for (int i = 0; i < DISCARD; i++)
        exchange(fd, request, (size_t)n);
    began = load_now_ns();
    for (uint64_t i = 0; count < SAMPLES_MAX; i++) {
        uint64_t due = o->rate > 0 ? began + (uint64_t)((double)i * 1e9 / o->rate) : load_now_ns();

        if ((double)(due - began) >= o->secs * 1e9)
            break;
        /* Late because of the answer before: that counts. Late by the timer: it does not. */
        if (o->rate > 0 && load_now_ns() < due) {
            wait_until(due);
            due = load_now_ns();
        }
        exchange(fd, request, (size_t)n);
        samples[count++] = (uint32_t)(load_now_ns() - due);
    }
    printf("{\"mode\":\"http\",\"n\":%zu,\"rate\":%.1f", count,
           (double)count * 1e9 / (double)(load_now_ns() - began));
    load_print_percentiles(samples, count);
    printf("}\n");
    return 0;
}
