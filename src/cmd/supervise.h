/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs other roles of this binary as children of one process: started in order as each becomes
 * ready, started again with back-off when one ends, stopped in the opposite order. What they log
 * goes to a bounded file each. Children do not outlive the parent, whatever ends it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"
#include "io/addr.h"
#include "io/loop.h"

enum { SW_SUPERVISED_MAX = 8, SW_SUPERVISED_ARGS = 64 };

struct sw_supervisor;

/* One role. Everything is borrowed for the life of the supervisor. */
struct sw_supervised {
    const char *name;                     /* of the log file and in messages */
    const char *argv[SW_SUPERVISED_ARGS]; /* the role's name first; ends with NULL */
    /* Answers GET PATH with 200 once it is ready; family 0: as soon as it runs. */
    struct sw_addr ready;
    const char *ready_path;
    const char *ready_ca; /* asked over TLS, with the roots of this file; NULL: plain */
};

struct sw_supervisor_opts {
    const char *log_dir; /* exists */
    bool verbose;        /* lines go to standard error as well, after the role's name */
    const struct sw_supervised *roles; /* started in this order */
    size_t n;
    size_t n_first; /* 'up' follows these; the others wait for sw_supervisor_start_rest; 0: all */
    uint64_t ready_timeout_ns; /* of each role at the start */
    uint64_t stop_timeout_ns;  /* of each role at the end, then it is killed */
    /* All, or the first n_first, are ready for the first time. */
    void (*up)(void *arg);
    /* With n_first: so are the others. */
    void (*rest_up)(void *arg);
    /* All have ended. err says why unless sw_supervisor_stop was the reason. */
    void (*down)(void *arg, int rc, const struct sw_err *err);
    void *arg;
};

SW_NODISCARD struct sw_supervisor *
sw_supervisor_new(struct sw_loop *l, const struct sw_supervisor_opts *o, struct sw_err *err);
/* Starts the first role; the others follow. */
void sw_supervisor_start(struct sw_supervisor *s);
/* After 'up': starts the roles behind n_first. One that does not start ends all, as before. */
void sw_supervisor_start_rest(struct sw_supervisor *s);
/* Ends all, last first; 'down' follows. Called again: at once. */
void sw_supervisor_stop(struct sw_supervisor *s);
/* The caller owns the signals: to be called for every SIGCHLD. */
void sw_supervisor_reap(struct sw_supervisor *s);
/* Kills what still runs and waits for it. NULL is fine. */
void sw_supervisor_free(struct sw_supervisor *s);
