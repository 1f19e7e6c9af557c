/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load: the one load tool of the suite. `load serve` is the far end, the other
 * modes are clients; each prints one JSON line. bench/README.md lists the modes.
 */
#include "load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { DEADLINE_SLACK_S = 10 };

static const char usage[] =
    "usage: load serve  --sink|--echo|--connect-server|--http IP:PORT ... [--procs N]\n"
    "       load src    --to IP:PORT [--conns N] [--secs S] [--warm S] [--procs N]\n"
    "       load rtt    --to IP:PORT [--size N] [--secs S]\n"
    "       load cps    --to IP:PORT [--secs S] [--source IP] [--burst N --pause S]\n"
    "       load http   --to IP:PORT --get PATH [--host NAME] [--secs S] [--rate N]\n"
    "       load idle   --to IP:PORT --conns N          (holds them until its input closes)\n"
    "       load start  --to IP:PORT -- PROGRAM ARG...\n"
    "       every client takes --connect AUTHORITY [--header LINE]: HTTP/1.1 CONNECT first\n";

static const struct {
    const char *name;
    int (*run)(const struct load_opts *o);
    bool client;
} modes[] = {
    {"serve", load_serve, false}, {"src", load_src, true},   {"rtt", load_rtt, true},
    {"cps", load_cps, true},      {"idle", load_idle, true}, {"start", load_start, true},
    {"http", load_http, true},
};

static const struct option longopts[] = {
    {"sink", required_argument, NULL, SERVE_SINK},
    {"echo", required_argument, NULL, SERVE_ECHO},
    {"connect-server", required_argument, NULL, SERVE_CONNECT},
    {"http", required_argument, NULL, SERVE_HTTP},
    {"get", required_argument, NULL, 'g'},
    {"host", required_argument, NULL, 'H'},
    {"rate", required_argument, NULL, 'r'},
    {"to", required_argument, NULL, 't'},
    {"conns", required_argument, NULL, 'n'},
    {"secs", required_argument, NULL, 's'},
    {"warm", required_argument, NULL, 'w'},
    {"procs", required_argument, NULL, 'P'},
    {"size", required_argument, NULL, 'z'},
    {"source", required_argument, NULL, 'S'},
    {"burst", required_argument, NULL, 'b'},
    {"pause", required_argument, NULL, 'p'},
    {"connect", required_argument, NULL, 'c'},
    {"header", required_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

uint64_t load_now_ns(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

_Noreturn void load_die(const char *mode, const char *text)
{
    printf("{\"mode\":\"%s\",\"error\":\"%s\",\"errno\":%d}\n", mode, text, errno);
    (void)fflush(stdout);
    _exit(2);
}

static int compare_u32(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

void load_print_percentiles(uint32_t *samples, size_t n)
{
    if (n == 0)
        return;
    qsort(samples, n, sizeof(*samples), compare_u32);
    printf(",\"p50_us\":%.2f,\"p90_us\":%.2f,\"p99_us\":%.2f,\"max_us\":%.2f", samples[n / 2] / 1e3,
           samples[n * 9 / 10] / 1e3, samples[n * 99 / 100] / 1e3, samples[n - 1] / 1e3);
}

static _Noreturn void refuse(const char *what, const char *value)
{
    (void)fprintf(stderr, "load: bad %s '%s'\n%s", what, value, usage);
    exit(1);
}

static struct sockaddr_in parse_addr(const char *text)
{
    struct sockaddr_in addr = {.sin_family = AF_INET};
    const char *colon = strrchr(text, ':');
    char host[INET_ADDRSTRLEN];
    size_t len = colon ? (size_t)(colon - text) : 0;
    char *end = NULL;

    if (len == 0 || len >= sizeof(host))
        refuse("address", text);
    memcpy(host, text, len);
    host[len] = '\0';

    unsigned long port = strtoul(colon + 1, &end, 10);

    if (inet_pton(AF_INET, host, &addr.sin_addr) != 1 || *end || port == 0 || port > 65535)
        refuse("address", text);
    addr.sin_port = htons((uint16_t)port);
    return addr;
}

static int parse_count(const char *text, int max)
{
    char *end = NULL;
    long n = strtol(text, &end, 10);

    if (end == text || *end || n < 1 || n > max)
        refuse("number", text);
    return (int)n;
}

static double parse_secs(const char *text)
{
    char *end = NULL;
    double n = strtod(text, &end);

    if (end == text || *end || !(n >= 0) || n > 600)
        refuse("duration", text);
    return n;
}

static uint32_t parse_source(const char *text)
{
    struct in_addr a;

    if (inet_pton(AF_INET, text, &a) != 1)
        refuse("source address", text);
    return ntohl(a.s_addr);
}

static void add_listener(struct load_opts *o, enum serve_kind kind, const char *text)
{
    if (o->n_listeners == LOAD_MAX_LISTENERS)
        refuse("listener (too many)", text);
    o->listeners[o->n_listeners++] = (struct listener){.kind = kind, .addr = parse_addr(text)};
}

static void parse_option(struct load_opts *o, int c)
{
    switch (c) {
    case SERVE_SINK:
    case SERVE_ECHO:
    case SERVE_CONNECT:
    case SERVE_HTTP:
        add_listener(o, (enum serve_kind)c, optarg);
        break;
    case 't':
        o->to = parse_addr(optarg);
        break;
    case 'n':
        o->conns = parse_count(optarg, LOAD_MAX_CONNS);
        break;
    case 's':
        o->secs = parse_secs(optarg);
        break;
    case 'w':
        o->warm_secs = parse_secs(optarg);
        break;
    case 'P':
        o->procs = parse_count(optarg, LOAD_MAX_PROCS);
        break;
    case 'z':
        o->size = parse_count(optarg, 1 << 20);
        break;
    case 'S':
        o->source = parse_source(optarg);
        break;
    case 'b':
        o->burst = parse_count(optarg, LOAD_MAX_CONNS);
        break;
    case 'p':
        o->pause_secs = parse_secs(optarg);
        break;
    case 'c':
        o->connect = optarg;
        break;
    case 'h':
        o->header = optarg;
        break;
    case 'g':
        o->get = optarg;
        break;
    case 'H':
        o->host = optarg;
        break;
    case 'r':
        o->rate = parse_count(optarg, 1000000);
        break;
    default:
        (void)fputs(usage, stderr);
        exit(1);
    }
}

static void on_alarm(int sig)
{
    static const char line[] = "{\"mode\":\"?\",\"error\":\"deadline passed\",\"errno\":110}\n";

    (void)sig;
    (void)!write(STDOUT_FILENO, line, sizeof(line) - 1);
    _exit(2);
}

static void prepare(const struct load_opts *o, bool has_deadline)
{
    struct rlimit files;

    (void)signal(SIGPIPE, SIG_IGN);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    if (!has_deadline)
        return;
    (void)signal(SIGALRM, on_alarm);
    /* Pauses between bursts do not count as measured time: allow for them twice over. */
    (void)alarm((unsigned)(o->secs * 4 + o->warm_secs) + DEADLINE_SLACK_S);
}

int main(int argc, char **argv)
{
    struct load_opts o = {.secs = 1.5, .warm_secs = 0.2, .conns = 1, .procs = 1, .size = 64};
    int c;

    if (argc < 2) {
        (void)fputs(usage, stderr);
        return 1;
    }
    while ((c = getopt_long(argc - 1, argv + 1, "+", longopts, NULL)) != -1)
        parse_option(&o, c);
    o.argv = argv + 1 + optind;
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        if (strcmp(argv[1], modes[i].name) != 0)
            continue;
        if (modes[i].client && o.to.sin_port == 0)
            refuse("address", "(none)");
        if (o.size < (int)sizeof(uint64_t) || (modes[i].run == load_start && !o.argv[0]))
            refuse("arguments for", argv[1]);
        if (modes[i].client && o.conns < o.procs)
            o.procs = o.conns;
        /* The idle holder lives as long as its driver wants; the pipe is its deadline. */
        prepare(&o, modes[i].client && modes[i].run != load_idle);
        return modes[i].run(&o);
    }
    refuse("mode", argv[1]);
}
