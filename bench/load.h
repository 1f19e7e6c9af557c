/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load tool of the benchmark suite: shared types of its server and client
 * halves. It depends on libc alone, so that no bug of the product can hide in
 * the instrument that measures it.
 */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LOAD_WRITE_SIZE = 128 * 1024, /* one bulk write */
    LOAD_READ_SIZE = 256 * 1024,  /* one read of a sink */
    LOAD_IO_TIMEOUT_S = 5,        /* longest wait of one blocking call */
    LOAD_MAX_CONNS = 20000,
    LOAD_MAX_PROCS = 16,
    LOAD_MAX_LISTENERS = 16,
    LOAD_MAX_BODY = 1 << 20, /* of an HTTP answer */
};

enum serve_kind {
    SERVE_SINK,    /* read and forget */
    SERVE_ECHO,    /* send back what came */
    SERVE_CONNECT, /* answer an HTTP/1.1 CONNECT, then one of the two by its target */
    SERVE_HTTP,    /* answer GET /N with N bytes, on connections that stay open */
};

struct listener {
    enum serve_kind kind;
    struct sockaddr_in addr;
};

struct load_opts {
    struct sockaddr_in to;
    const char *connect; /* authority of the CONNECT prelude, NULL for none */
    const char *header;  /* "name: value" to go with it, NULL for none */
    double secs;
    double warm_secs;  /* bulk: time before the measured window opens */
    double pause_secs; /* cps with bursts: idle time between bursts, not counted */
    int conns;
    int procs;
    int size;         /* bytes of one ping */
    const char *get;  /* http: the path to ask for */
    const char *host; /* http: the Host header */
    double rate;      /* http: requests per second at due times; 0: one after the other */
    int burst;        /* cps: connections held open before all are reset; 0: reset each at once */
    uint32_t source;  /* host order: clients bind source+1 .. source+240 in turn; 0: no bind */
    struct listener listeners[LOAD_MAX_LISTENERS];
    int n_listeners;
    char **argv; /* start: the program to run */
};

/* Monotonic clock in nanoseconds. */
uint64_t load_now_ns(void);

/* Prints one JSON line {"mode":MODE,"error":TEXT,"errno":N} and leaves with status 2. */
_Noreturn void load_die(const char *mode, const char *text);

/*
 * Sorts the samples (nanoseconds) in place and prints
 * ,"p50_us":..,"p90_us":..,"p99_us":..,"max_us":.. computed from all of them.
 */
void load_print_percentiles(uint32_t *samples, size_t n);

/*
 * Opens a blocking connection to o->to with its time-outs set, bound to source
 * address number `turn` when o->source is given, and exchanges the CONNECT
 * prelude when o->connect is given. Returns the descriptor, or -1 with errno
 * set; a refused prelude is EPROTO. The caller closes the descriptor.
 */
int load_dial(const struct load_opts *o, uint64_t turn);

/* Closes with a reset: neither end keeps TIME_WAIT state. */
void load_reset(int fd);

/* Each runs one mode to its end and returns the exit status. */
int load_serve(const struct load_opts *o);
int load_src(const struct load_opts *o);
int load_rtt(const struct load_opts *o);
int load_cps(const struct load_opts *o);
int load_idle(const struct load_opts *o);
int load_start(const struct load_opts *o);
int load_http(const struct load_opts *o);
