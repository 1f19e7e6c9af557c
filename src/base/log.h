/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structured log lines, plain (tab separated, like ztunnel's) or JSON. Lines are queued and a
 * thread of its own writes them in batches, so a slow terminal never stalls a worker; when the
 * queue is full lines are dropped, and the loss is counted and logged. Before sw_log_start and
 * after sw_log_stop lines go straight to the descriptor.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/rate.h"
#include "base/slice.h"

enum sw_log_level {
    SW_LOG_OFF = 0,
    SW_LOG_ERROR,
    SW_LOG_WARN,
    SW_LOG_INFO,
    SW_LOG_DEBUG,
    SW_LOG_TRACE,
};

enum sw_log_format {
    SW_LOG_PLAIN,
    SW_LOG_JSON,
};

/* Starts the writer thread. fd is borrowed. */
void sw_log_start(int fd, enum sw_log_format format);
/*
 * Writes what is queued and ends the thread. Safe without a start, and twice. Waits two seconds at
 * most for the reader of the descriptor; what is not taken by then is lost, and so are later lines.
 */
void sw_log_stop(void);
/* Waits until all lines queued so far are written. */
void sw_log_flush(void);
/* Lines lost to a full queue since the start. */
uint64_t sw_log_dropped(void);

/*
 * Filter in the form "info", "debug,access=off" or "scope=trace": a bare level sets the default,
 * scope=level one scope. With 'replace' the previous filter is forgotten, otherwise the new
 * directives are added to it. SW_EINVAL names the bad directive and changes nothing.
 */
SW_NODISCARD int sw_log_filter(struct sw_slice directives, bool replace, struct sw_err *err);
/* Current filter as text, heap, caller frees with sw_free. */
char *sw_log_filter_text(void);
bool sw_log_enabled(enum sw_log_level level, const char *scope);

/* One line being built on the caller's stack. Too long a line is cut, never refused. */
struct sw_log_line {
    bool on; /* false: the filter drops it and every call is free */
    bool json;
    bool fields; /* one was written */
    size_t n;
    char text[2048];
};

void sw_log_begin(struct sw_log_line *l, enum sw_log_level level, const char *scope,
                  const char *fmt, ...) SW_PRINTF(4, 5);
/* Fields; strings are quoted and escaped, so content from peers cannot forge lines. */
void sw_log_str(struct sw_log_line *l, const char *key, struct sw_slice value);
void sw_log_cstr(struct sw_log_line *l, const char *key, const char *value); /* NULL: omitted */
/* As sw_log_str but in quotes even where the plain form could do without. */
void sw_log_quoted(struct sw_log_line *l, const char *key, struct sw_slice value);
void sw_log_u64(struct sw_log_line *l, const char *key, uint64_t value);
void sw_log_end(struct sw_log_line *l);

/* A line without fields. */
void sw_log(enum sw_log_level level, const char *scope, const char *fmt, ...) SW_PRINTF(3, 4);

#define sw_log_error(scope, ...) sw_log(SW_LOG_ERROR, scope, __VA_ARGS__)
#define sw_log_warn(scope, ...)  sw_log(SW_LOG_WARN, scope, __VA_ARGS__)
#define sw_log_info(scope, ...)  sw_log(SW_LOG_INFO, scope, __VA_ARGS__)
#define sw_log_debug(scope, ...) sw_log(SW_LOG_DEBUG, scope, __VA_ARGS__)

/*
 * Bounds the lines that others cause: a burst, then ten a second. Lines beyond it are counted, and
 * the next one that is logged has the number as 'suppressed_lines'. Zeroed: nothing was logged.
 */
enum { SW_LOG_LIMIT_BURST = 20 };
struct sw_log_limit {
    struct sw_rate rate;
    uint64_t suppressed; /* since the last line that was logged */
};
/* False: no line now. */
bool sw_log_limit_take(struct sw_log_limit *l, uint64_t now_ns);
/* After a sw_log_limit_take that was true: the field, unless no line was suppressed. */
void sw_log_limit_put(struct sw_log_limit *l, struct sw_log_line *line);
/* Both with a line without other fields. */
void sw_log_limited(struct sw_log_limit *l, uint64_t now_ns, enum sw_log_level level,
                    const char *scope, const char *fmt, ...) SW_PRINTF(5, 6);
