/* SPDX-License-Identifier: Apache-2.0 */
/*
 * apiload create|get|list|watch|sync: one load on the API, one JSON line as the result. The
 * clients of a closed loop send their next request when the last one is answered.
 */
#include "api.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_SAMPLES = 4 * 1000 * 1000,
    AHEAD = 16, /* flat-out watch: changes not yet seen by the slowest watcher */
    EVENTS = 256,
};

struct opts {
    struct api_target target;
    const char *tag; /* part of every name, so that runs do not meet */
    const char *file;
    double secs;
    double warm;
    double rate; /* watch: changes per second; 0: as fast as the watchers follow */
    uint64_t count;
    int conns;
    int size;
    int pid; /* the server, for its CPU time */
};

static struct opts o = {.tag = "t", .secs = 1.5, .warm = 0.3, .conns = 1, .size = 1024};
static uint32_t samples[MAX_SAMPLES]; /* microseconds */
static size_t n_samples;
static char value[API_MAX_VALUE * 4 / 3 + 8];

static void sample(uint64_t ns)
{
    if (n_samples < MAX_SAMPLES)
        samples[n_samples++] = ns / 1000 > UINT32_MAX ? UINT32_MAX : (uint32_t)(ns / 1000);
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static void print_percentiles(const char *prefix, uint32_t *s, size_t n)
{
    if (n == 0)
        return;
    qsort(s, n, sizeof(*s), by_value);
    printf(",\"%sp50_us\":%u,\"%sp90_us\":%u,\"%sp99_us\":%u,\"%smax_us\":%u", prefix, s[n / 2],
           prefix, s[n * 9 / 10], prefix, s[n * 99 / 100], prefix, s[n - 1]);
}

/* CPU time of the server: the clock that clock_getcpuclockid(3) names. */
static double server_cpu(void)
{
    struct timespec ts = {0};

    if (o.pid)
        (void)clock_gettime((clockid_t)((~(unsigned)o.pid << 3) | 2u), &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static size_t base64(const char *in, size_t n, char *out)
{
    static const char abc[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *at = out;

    for (size_t i = 0; i < n; i += 3) {
        uint32_t v = (uint32_t)(uint8_t)in[i] << 16;

        v |= i + 1 < n ? (uint32_t)(uint8_t)in[i + 1] << 8 : 0;
        v |= i + 2 < n ? (uint32_t)(uint8_t)in[i + 2] : 0;
        *at++ = abc[v >> 18];
        *at++ = abc[v >> 12 & 63];
        *at++ = i + 1 < n ? abc[v >> 6 & 63] : '=';
        *at++ = i + 2 < n ? abc[v & 63] : '=';
    }
    *at = '\0';
    return (size_t)(at - out);
}

/* Letters that differ from place to place, as text does; etcd gets them in base64. */
static void make_value(void)
{
    static char plain[API_MAX_VALUE];
    uint32_t seed = 1;

    for (int i = 0; i < o.size; i++) {
        seed = seed * 1103515245 + 12345;
        plain[i] = (char)('a' + (seed >> 16) % 26);
    }
    if (o.target.etcd)
        (void)base64(plain, (size_t)o.size, value);
    else
        memcpy(value, plain, (size_t)o.size);
}

/* --- requests --------------------------------------------------------------------------- */

static char request[sizeof(value) + 2048];

static size_t build(const char *method, const char *path, const char *text)
{
    int n = snprintf(request, sizeof(request),
                     "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: apiload\r\n"
                     "Accept: application/json\r\n"
                     "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                     method, path, strlen(text), text);

    if (n < 0 || (size_t)n >= sizeof(request))
        api_die("request too long");
    return (size_t)n;
}

static const char *key64(const char *prefix, uint64_t i, char *to)
{
    char name[128];
    int n = i == UINT64_MAX ? snprintf(name, sizeof(name), "/configmaps/default/%s", prefix)
                            : snprintf(name, sizeof(name), "/configmaps/default/%s-%08llu", prefix,
                                       (unsigned long long)i);

    (void)base64(name, (size_t)n, to);
    return to;
}

static size_t build_create(uint64_t i)
{
    static char text[sizeof(value) + 512];
    char key[256];

    if (o.target.etcd) {
        (void)snprintf(text, sizeof(text), "{\"key\":\"%s\",\"value\":\"%s\"}",
                       key64(o.tag, i, key), value);
        return build("POST", "/v3/kv/put", text);
    }
    (void)snprintf(text, sizeof(text),
                   "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":"
                   "\"%s-%08llu\"},\"data\":{\"v\":\"%s\"}}",
                   o.tag, (unsigned long long)i, value);
    return build("POST", "/api/v1/namespaces/default/configmaps", text);
}

static size_t build_get(uint64_t i)
{
    char text[512];
    char key[256];

    i = (i * 2654435761u) % o.count;
    if (o.target.etcd) {
        (void)snprintf(text, sizeof(text), "{\"key\":\"%s\"}", key64(o.tag, i, key));
        return build("POST", "/v3/kv/range", text);
    }
    (void)snprintf(text, sizeof(text), "/api/v1/namespaces/default/configmaps/%s-%08llu", o.tag,
                   (unsigned long long)i);
    return build("GET", text, "");
}

static size_t build_list(uint64_t i)
{
    char text[700];
    char from[256];
    char to[256];
    char after[64];

    (void)i;
    if (!o.target.etcd)
        return build("GET", "/api/v1/namespaces/default/configmaps", "");
    (void)snprintf(after, sizeof(after), "%s.", o.tag); /* '.' follows '-' */
    (void)snprintf(text, sizeof(text), "{\"key\":\"%s\",\"range_end\":\"%s\"}",
                   key64(o.tag, UINT64_MAX, from), key64(after, UINT64_MAX, to));
    return build("POST", "/v3/kv/range", text);
}

/* --- closed loops ----------------------------------------------------------------------- */

static struct api_conn *open_all(int ep, int n)
{
    struct api_conn *conns = calloc((size_t)n, sizeof(*conns));

    if (!conns)
        api_die("memory");
    for (int i = 0; i < n; i++) {
        struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &conns[i]};

        api_open(&conns[i], &o.target);
        if (epoll_ctl(ep, EPOLL_CTL_ADD, conns[i].fd, &ev) < 0)
            api_die("epoll");
    }
    return conns;
}

static int wait_events(int ep, struct epoll_event *evs, int ms)
{
    int n = epoll_wait(ep, evs, EVENTS, ms);

    if (n < 0 && errno != EINTR)
        api_die("epoll_wait");
    if (n == 0 && ms == API_IO_TIMEOUT_S * 1000)
        api_die("no answer in time");
    return n < 0 ? 0 : n;
}

struct loop {
    size_t (*build)(uint64_t);
    uint64_t issued, limit, done, bytes, min_body, busy;
    uint64_t open_at, end_at; /* of the measured window */
    double cpu;
};

static void next_request(struct loop *l, struct api_conn *c, uint64_t now)
{
    if (l->issued >= l->limit || now >= l->end_at)
        return;
    api_send(c, request, l->build(l->issued++));
    l->busy++;
}

static void answered(struct loop *l, struct api_conn *c, uint64_t now)
{
    l->busy--;
    if (c->body_n < l->min_body)
        api_die("the answer is shorter than what was stored");
    if (now >= l->open_at && now < l->end_at) {
        l->done++;
        l->bytes += c->body_n;
        sample(now - c->sent_ns);
    }
    next_request(l, c, now);
}

static int run_closed(const char *mode, struct loop *l)
{
    int ep = epoll_create1(EPOLL_CLOEXEC);
    struct api_conn *conns = open_all(ep, o.conns);
    struct epoll_event evs[EVENTS];
    uint64_t now = api_now_ns();
    bool opened = false;
    double secs;

    l->open_at = l->limit == UINT64_MAX ? now + (uint64_t)(o.warm * 1e9) : now;
    l->end_at = l->limit == UINT64_MAX ? l->open_at + (uint64_t)(o.secs * 1e9) : UINT64_MAX;
    for (int i = 0; i < o.conns; i++)
        next_request(l, &conns[i], now);
    while (l->busy) {
        int n = wait_events(ep, evs, API_IO_TIMEOUT_S * 1000);

        now = api_now_ns();
        if (!opened && now >= l->open_at) {
            opened = true;
            l->cpu = -server_cpu();
        }
        for (int i = 0; i < n; i++) {
            if (api_recv(evs[i].data.ptr))
                answered(l, evs[i].data.ptr, api_now_ns());
        }
    }
    l->cpu += server_cpu();
    now = api_now_ns();
    secs = (double)((now < l->end_at ? now : l->end_at) - l->open_at) / 1e9;
    printf("{\"mode\":\"%s\",\"conns\":%d,\"n\":%llu,\"issued\":%llu,\"rate\":%.1f,\"mb_s\":%.1f,"
           "\"cpu_us\":%.1f",
           mode, o.conns, (unsigned long long)l->done, (unsigned long long)l->issued,
           (double)l->done / secs, (double)l->bytes / 1e6 / secs,
           l->done ? l->cpu * 1e6 / (double)l->done : 0);
    print_percentiles("", samples, n_samples);
    printf("}\n");
    return 0;
}

static int run_create(void)
{
    struct loop l = {.build = build_create, .limit = o.count ? o.count : UINT64_MAX};

    return run_closed("create", &l);
}

static int run_get(void)
{
    struct loop l = {.build = build_get, .limit = UINT64_MAX, .min_body = (uint64_t)o.size};

    return run_closed("get", &l);
}

static int run_list(void)
{
    struct loop l = {
        .build = build_list, .limit = UINT64_MAX, .min_body = o.count * (uint64_t)o.size};

    return run_closed("list", &l);
}

/* --- watch ------------------------------------------------------------------------------ */

struct change {
    uint64_t sent_ns;
    uint32_t seen; /* by so many watchers */
};

static struct {
    int ep;
    struct api_conn *watchers;
    struct api_conn writer;
    struct change *changes;
    size_t cap;
    uint64_t sent, acked, complete, deliveries, ready;
    uint32_t *last; /* microseconds until the last watcher had it */
    uint32_t *ack;
} w;

/* The revision the watches start from: that of an (almost) empty list. */
static unsigned long long current_revision(void)
{
    const char *at;

    api_send(&w.writer, request, build("GET", "/api/v1/namespaces/default/configmaps?limit=1", ""));
    while (!api_recv(&w.writer))
        (void)usleep(100);
    at = strstr(w.writer.keep, "\"resourceVersion\":\"");
    if (!at)
        api_die("a list without a revision");
    return strtoull(at + 19, NULL, 10);
}

static void start_watchers(void)
{
    struct epoll_event evs[EVENTS];
    char text[700];
    char from[256];
    char to[256];
    char after[64];
    size_t n;

    (void)snprintf(after, sizeof(after), "%s.", o.tag);
    if (o.target.etcd) {
        (void)snprintf(text, sizeof(text),
                       "{\"create_request\":{\"key\":\"%s\",\"range_end\":\"%s\"}}",
                       key64(o.tag, UINT64_MAX, from), key64(after, UINT64_MAX, to));
        n = build("POST", "/v3/watch", text);
    } else {
        (void)snprintf(text, sizeof(text),
                       "/api/v1/namespaces/default/configmaps?watch=1&resourceVersion=%llu",
                       current_revision());
        n = build("GET", text, "");
    }
    w.watchers = open_all(w.ep, o.conns);
    for (int i = 0; i < o.conns; i++) {
        w.watchers[i].mark = o.target.etcd ? "{\"kv\"" : "\n";
        api_send(&w.watchers[i], request, n);
    }
    /* etcd says when a watch exists; ours begins at a revision and cannot miss anything. */
    while (w.ready < (uint64_t)o.conns) {
        int got = wait_events(w.ep, evs, API_IO_TIMEOUT_S * 1000);

        for (int i = 0; i < got; i++) {
            struct api_conn *c = evs[i].data.ptr;
            bool was = c->status && (!o.target.etcd || c->body_n);

            if (api_recv(c))
                api_die("a watch ended");
            w.ready += !was && c->status && (!o.target.etcd || c->body_n);
        }
    }
}

static void send_change(uint64_t now)
{
    if (w.sent == w.cap)
        api_die("too many changes");
    w.changes[w.sent].sent_ns = now;
    api_send(&w.writer, request, build_create(w.sent));
    w.sent++;
}

static void delivered(struct api_conn *c, uint64_t now)
{
    while (c->events < c->marks) {
        struct change *ch = &w.changes[c->events++];

        if (c->events > w.sent)
            api_die("an event nobody caused");
        sample(now - ch->sent_ns);
        w.deliveries++;
        if (++ch->seen == (uint32_t)o.conns)
            w.last[w.complete++] = (uint32_t)((now - ch->sent_ns) / 1000);
    }
}

static void take_events(struct epoll_event *evs, int n)
{
    for (int i = 0; i < n; i++) {
        struct api_conn *c = evs[i].data.ptr;
        int done = api_recv(c);
        uint64_t now = api_now_ns();

        if (c != &w.writer) {
            if (done)
                api_die("a watch ended");
            delivered(c, now);
        } else if (done) {
            w.ack[w.acked++] = (uint32_t)((now - c->sent_ns) / 1000);
        }
    }
}

/* Changes at their times, or as soon as the slowest watcher is not far behind. */
static bool due(uint64_t now, uint64_t start)
{
    if (w.writer.busy)
        return false;
    if (o.rate > 0)
        return (double)(now - start) / 1e9 * o.rate >= (double)w.sent;
    return w.sent - w.complete < AHEAD;
}

static void print_watch(double secs, double cpu)
{
    printf("{\"mode\":\"watch\",\"watchers\":%d,\"changes\":%llu,\"deliveries\":%llu,"
           "\"changes_s\":%.1f,\"rate\":%.1f,\"cpu_s\":%.3f",
           o.conns, (unsigned long long)w.sent, (unsigned long long)w.deliveries,
           (double)w.sent / secs, (double)w.deliveries / secs, cpu);
    if (cpu > 0)
        printf(",\"per_core\":%.0f,\"cpu_us\":%.2f", (double)w.deliveries / cpu,
               cpu * 1e6 / (double)w.deliveries);
    print_percentiles("", samples, n_samples);
    print_percentiles("last_", w.last, w.complete);
    print_percentiles("ack_", w.ack, w.acked);
    printf("}\n");
}

static int run_watch(void)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &w.writer};
    struct epoll_event evs[EVENTS];
    uint64_t start;
    uint64_t end;
    uint64_t now;
    double cpu;

    w.cap = 200000;
    w.changes = calloc(w.cap, sizeof(*w.changes));
    w.last = calloc(w.cap, sizeof(*w.last));
    w.ack = calloc(w.cap, sizeof(*w.ack));
    w.ep = epoll_create1(EPOLL_CLOEXEC);
    if (!w.changes || !w.last || !w.ack || w.ep < 0)
        api_die("memory");
    api_open(&w.writer, &o.target);
    start_watchers();
    if (epoll_ctl(w.ep, EPOLL_CTL_ADD, w.writer.fd, &ev) < 0)
        api_die("epoll");
    cpu = -server_cpu();
    now = start = api_now_ns();
    end = start + (uint64_t)(o.secs * 1e9);
    while (now < end || w.complete < w.sent || w.writer.busy) {
        if (now < end && due(now, start))
            send_change(now);
        take_events(evs, wait_events(w.ep, evs, now < end ? 1 : API_IO_TIMEOUT_S * 1000));
        now = api_now_ns();
    }
    cpu += server_cpu();
    print_watch((double)(now - start) / 1e9, cpu);
    return 0;
}

/* --- the disk --------------------------------------------------------------------------- */

/* What any durable write must wait for: one value appended and synced. */
static int run_sync(void)
{
    int fd = open(o.file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    uint64_t start = api_now_ns();
    uint64_t end = start + (uint64_t)(o.secs * 1e9);
    uint64_t now = start;
    off_t at = 0;

    if (fd < 0)
        api_die("file");
    while (now < end) {
        if (pwrite(fd, value, 4096, at) != 4096 || fdatasync(fd) < 0)
            api_die("file");
        at += 4096;
        sample(api_now_ns() - now);
        now = api_now_ns();
    }
    printf("{\"mode\":\"sync\",\"n\":%zu,\"rate\":%.1f", n_samples,
           (double)n_samples / ((double)(now - start) / 1e9));
    print_percentiles("", samples, n_samples);
    printf("}\n");
    return 0;
}

/* --- options ---------------------------------------------------------------------------- */

static void set_to(const char *text)
{
    char host[64];
    const char *colon = strrchr(text, ':');

    if (!colon || (size_t)(colon - text) >= sizeof(host))
        api_die("--to takes HOST:PORT");
    (void)snprintf(host, sizeof(host), "%.*s", (int)(colon - text), text);
    o.target.to.sin_family = AF_INET;
    o.target.to.sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
    if (inet_pton(AF_INET, host, &o.target.to.sin_addr) != 1)
        api_die("--to takes an IPv4 address");
}

static void set_option(const char *name, const char *arg)
{
    if (strcmp(name, "--to") == 0)
        set_to(arg);
    else if (strcmp(name, "--proto") == 0)
        o.target.etcd = strcmp(arg, "etcd") == 0;
    else if (strcmp(name, "--ca") == 0)
        o.target.ca = arg;
    else if (strcmp(name, "--cert") == 0)
        o.target.cert = arg;
    else if (strcmp(name, "--key") == 0)
        o.target.key = arg;
    else if (strcmp(name, "--tag") == 0)
        o.tag = arg;
    else if (strcmp(name, "--file") == 0)
        o.file = arg;
    else if (strcmp(name, "--secs") == 0)
        o.secs = strtod(arg, NULL);
    else if (strcmp(name, "--rate") == 0)
        o.rate = strtod(arg, NULL);
    else if (strcmp(name, "--count") == 0)
        o.count = strtoull(arg, NULL, 10);
    else if (strcmp(name, "--conns") == 0)
        o.conns = (int)strtol(arg, NULL, 10);
    else if (strcmp(name, "--size") == 0)
        o.size = (int)strtol(arg, NULL, 10);
    else if (strcmp(name, "--pid") == 0)
        o.pid = (int)strtol(arg, NULL, 10);
    else
        api_die(name);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } modes[] = {{"create", run_create},
                 {"get", run_get},
                 {"list", run_list},
                 {"watch", run_watch},
                 {"sync", run_sync}};
    struct rlimit files = {API_MAX_CONNS + 100, API_MAX_CONNS + 100};

    for (int i = 2; i + 1 < argc; i += 2)
        set_option(argv[i], argv[i + 1]);
    if (o.conns < 1 || o.conns > API_MAX_CONNS || o.size < 1 || o.size > API_MAX_VALUE)
        api_die("--conns or --size out of range");
    (void)setrlimit(RLIMIT_NOFILE, &files);
    (void)alarm((unsigned)o.secs + 300);
    make_value();
    api_tls_init(&o.target);
    for (size_t i = 0; argc > 1 && i < sizeof(modes) / sizeof(modes[0]); i++) {
        if (strcmp(argv[1], modes[i].name) == 0)
            return modes[i].run();
    }
    api_die("usage: apiload create|get|list|watch|sync --to HOST:PORT [options]");
}
