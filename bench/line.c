/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A long-distance line between two network namespaces, for kernels without netem: two TUN devices
 * and a process that carries packets from one to the other, late and not all of them. It sees IP
 * packets, so QUIC, TCP and a relay are judged on the same line. libc only.
 *
 *     line NETNS NETNS [SETTING VALUE]...
 *
 * makes the device "line" in both namespaces (paths, as below /run/netns), prints "ready" and then
 * takes settings, one a line, from standard input, until that ends:
 *
 *     delay MS     one way
 *     rate MBIT    of the bottleneck, each way; 0: none
 *     queue KB     of the bottleneck, drop-tail
 *     loss PERCENT behind the bottleneck, random
 *     seed N       of the losses
 *     stats        prints what was carried and dropped since the last time, as JSON
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    MTU = 1500,
    SLOTS = 1 << 15, /* packets under way in one direction */
    BURST = 64,      /* read before others are delivered */
};

struct packet {
    uint64_t due_ns;
    uint32_t n;
    uint8_t p[MTU];
};

struct counts {
    uint64_t carried, bytes, lost, overflowed, peak; /* bytes under way at most */
};

struct direction {
    int from, to;
    struct packet *ring; /* SLOTS, in order of delivery */
    uint32_t head, tail;
    uint64_t under_way; /* bytes */
    uint64_t free_ns;   /* when the bottleneck has sent everything */
    uint64_t last_ns;   /* delivery of the newest packet: no reordering when the delay falls */
    struct counts counts;
};

static struct {
    uint64_t delay_ns;
    double bytes_per_ns; /* 0: no bottleneck */
    double queue_bytes;
    double loss; /* 0..1 */
    uint64_t seed;
} line = {.queue_bytes = 1 << 20, .seed = 1};

static _Noreturn void die(const char *what)
{
    (void)fprintf(stderr, "line: %s: %m\n", what);
    exit(2);
}

static uint64_t now_ns(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* splitmix64: the same seed and packets give the same losses. */
static double random_unit(void)
{
    uint64_t z = line.seed += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ (z >> 31)) >> 11) / (double)(UINT64_C(1) << 53);
}

static int tun_open(const char *netns)
{
    struct ifreq r = {.ifr_flags = IFF_TUN | IFF_NO_PI};
    int ns = open(netns, O_RDONLY | O_CLOEXEC);
    int fd;

    if (ns < 0 || setns(ns, CLONE_NEWNET) != 0)
        die(netns);
    (void)close(ns);
    fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        die("/dev/net/tun");
    memcpy(r.ifr_name, "line", 5);
    if (ioctl(fd, TUNSETIFF, &r) != 0)
        die("cannot make the device");
    return fd;
}

static void direction_init(struct direction *d, int from, int to)
{
    void *ring = mmap(NULL, SLOTS * sizeof(struct packet), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (ring == MAP_FAILED)
        die("no memory");
    *d = (struct direction){.from = from, .to = to, .ring = ring};
}

/* Takes the packet in the slot at the tail, or forgets it. */
static void admit(struct direction *d, uint32_t n, uint64_t now)
{
    struct packet *k = &d->ring[d->tail % SLOTS];
    uint64_t out = d->free_ns > now ? d->free_ns : now;

    if (line.bytes_per_ns > 0) {
        if ((double)(out - now) * line.bytes_per_ns + n > line.queue_bytes) {
            d->counts.overflowed++;
            return;
        }
        out += (uint64_t)(n / line.bytes_per_ns);
        d->free_ns = out;
    }
    if (line.loss > 0 && random_unit() < line.loss) {
        d->counts.lost++;
        return;
    }
    k->n = n;
    k->due_ns = out + line.delay_ns;
    if (k->due_ns < d->last_ns)
        k->due_ns = d->last_ns;
    d->last_ns = k->due_ns;
    d->tail++;
    d->under_way += n;
    if (d->under_way > d->counts.peak)
        d->counts.peak = d->under_way;
}

static void take(struct direction *d)
{
    for (int i = 0; i < BURST; i++) {
        struct packet spill;
        bool full = d->tail - d->head == SLOTS;
        struct packet *k = full ? &spill : &d->ring[d->tail % SLOTS];
        ssize_t n = read(d->from, k->p, sizeof(k->p));

        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0)
            die("read");
        if (full)
            d->counts.overflowed++;
        else
            admit(d, (uint32_t)n, now_ns());
    }
}

static void deliver(struct direction *d)
{
    uint64_t now = now_ns();

    for (; d->head != d->tail; d->head++) {
        struct packet *k = &d->ring[d->head % SLOTS];

        if (k->due_ns > now)
            return;
        /* A device that is down refuses: the packet is lost, as on a real one. */
        if (write(d->to, k->p, k->n) < 0 && errno == EAGAIN)
            return;
        d->counts.carried++;
        d->counts.bytes += k->n;
        d->under_way -= k->n;
    }
}

static void set(const char *key, const char *value)
{
    double v = strtod(value, NULL);

    if (strcmp(key, "delay") == 0)
        line.delay_ns = (uint64_t)(v * 1e6);
    else if (strcmp(key, "rate") == 0)
        line.bytes_per_ns = v / 8e3;
    else if (strcmp(key, "queue") == 0)
        line.queue_bytes = v * 1e3;
    else if (strcmp(key, "loss") == 0)
        line.loss = v / 100;
    else if (strcmp(key, "seed") == 0)
        line.seed = strtoull(value, NULL, 10);
    else
        (void)fprintf(stderr, "line: unknown setting '%s'\n", key);
}

static void print_stats(struct direction d[2])
{
    printf("{");
    for (int i = 0; i < 2; i++) {
        struct counts *c = &d[i].counts;

        printf("%s\"%s\": {\"carried\": %llu, \"bytes\": %llu, \"lost\": %llu, \"overflowed\": "
               "%llu, \"peak\": %llu}",
               i ? ", " : "", i ? "back" : "forth", (unsigned long long)c->carried,
               (unsigned long long)c->bytes, (unsigned long long)c->lost,
               (unsigned long long)c->overflowed, (unsigned long long)c->peak);
        *c = (struct counts){0};
    }
    printf("}\n");
}

/* False at the end of input. */
static bool obey(struct direction d[2])
{
    static char in[512];
    static size_t have;
    ssize_t n = read(STDIN_FILENO, in + have, sizeof(in) - 1 - have);
    char *end;

    if (n <= 0)
        return n < 0 && errno == EAGAIN;
    have += (size_t)n;
    in[have] = '\0';
    while ((end = strchr(in, '\n'))) {
        char *value;

        *end = '\0';
        value = strchr(in, ' ');
        if (value)
            *value++ = '\0';
        if (strcmp(in, "stats") == 0) {
            print_stats(d);
        } else if (value) {
            set(in, value);
            printf("ok\n");
        }
        have -= (size_t)(end + 1 - in);
        memmove(in, end + 1, have + 1);
    }
    return have < sizeof(in) - 1;
}

static uint64_t next_due(const struct direction d[2])
{
    uint64_t due = UINT64_MAX;

    for (int i = 0; i < 2; i++) {
        const struct packet *k = &d[i].ring[d[i].head % SLOTS];

        if (d[i].head != d[i].tail && k->due_ns < due)
            due = k->due_ns;
    }
    return due;
}

static void run(struct direction d[2])
{
    struct pollfd p[3] = {{.fd = d[0].from, .events = POLLIN},
                          {.fd = d[1].from, .events = POLLIN},
                          {.fd = STDIN_FILENO, .events = POLLIN}};

    for (;;) {
        uint64_t due = next_due(d);
        uint64_t now = now_ns();
        uint64_t wait = due > now ? due - now : 0;
        struct timespec ts = {.tv_sec = (time_t)(wait / 1000000000),
                              .tv_nsec = (long)(wait % 1000000000)};

        if (ppoll(p, 3, due == UINT64_MAX ? NULL : &ts, NULL) < 0)
            die("poll");
        if (p[2].revents && !obey(d))
            return;
        for (int i = 0; i < 2; i++) {
            if (p[i].revents)
                take(&d[i]);
            deliver(&d[i]);
        }
    }
}

int main(int argc, char **argv)
{
    struct direction d[2];
    int a;
    int b;

    if (argc < 3 || argc % 2 == 0) {
        (void)fprintf(stderr, "usage: line NETNS NETNS [SETTING VALUE]...\n");
        return 2;
    }
    for (int i = 3; i < argc; i += 2)
        set(argv[i], argv[i + 1]);
    a = tun_open(argv[1]);
    b = tun_open(argv[2]);
    direction_init(&d[0], a, b);
    direction_init(&d[1], b, a);
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    (void)fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
    printf("ready\n");
    run(d);
    return 0;
}
