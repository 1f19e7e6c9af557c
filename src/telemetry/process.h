/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process of a role besides its work: the main thread's loop, signals, metrics, readiness,
 * admin listeners and the crew of workers, and how they drain. SIGTERM and SIGINT drain, a second
 * SIGINT ends at once, SIGHUP reloads.
 */
#pragma once

#include "io/crew.h"
#include "io/signal.h"
#include "telemetry/admin.h"

/* The options every role has; rows in opts/process.h. */
struct sw_process_config {
    uint32_t workers; /* 0: one per processor */
    uint64_t drain_ns;
    struct sw_addr admin_addr;
    struct sw_admin_access access;
    struct sw_addr stats_addr;
    struct sw_addr ready_addr;
    const char *log_level;
    int log_format; /* enum sw_log_format */
};

struct sw_process_opts {
    const char *name;      /* of the role: scope of log lines, metrics, title of the admin pages */
    const char *component; /* of metrics [the name] */
    const struct sw_process_config *config; /* NULL: the role sets admin's options itself */
    const char *awaits;                     /* the first task of readiness */
    bool no_signals;                        /* a thread of another role's process */
    void (*reload)(void *arg);              /* on SIGHUP; NULL: it is ignored */
    /* Once, instead of draining the crew within config->drain_ns; NULL: that. */
    void (*drain)(void *arg);
    void *arg;
};

struct sw_process {
    struct sw_process_opts opts;
    struct sw_loop *loop;
    struct sw_signals *signals;
    struct sw_metrics *metrics;
    struct sw_metrics_shard *shard; /* of the main thread */
    struct sw_ready *ready;
    struct sw_admin *admin;
    struct sw_crew crew; /* its main loop is this one */
    bool draining;
};

/* Opens all but the admin listeners. p is to be closed in any case. */
SW_NODISCARD int sw_process_open(struct sw_process *p, const struct sw_process_opts *o,
                                 struct sw_err *err);
/* Opens the admin listeners: o as far as the role wants them, the rest is set here. */
SW_NODISCARD int sw_process_open_admin(struct sw_process *p, const struct sw_admin_opts *o,
                                       struct sw_err *err);
/* Idempotent. */
void sw_process_drain(struct sw_process *p);
/* Before what the admin pages show. */
void sw_process_close_admin(struct sw_process *p);
/* Frees the rest, last of all. A zeroed one is fine. */
void sw_process_close(struct sw_process *p);
