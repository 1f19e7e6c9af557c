/* SPDX-License-Identifier: Apache-2.0 */
/* Between the format strings, the logs and the files they go to. */
#pragma once

#include "gateway/observe/accesslog.h"

/* True when the format is one operator whose value is a number. */
bool sw_gw_format_is_number(const struct sw_gw_format *f);

/* ---- accesslog_sink.c: files, pipes and standard streams, shared by the logs that name them ----
 */

struct sw_gw_sink;

/* A reference. /dev/stdout and /dev/stderr are the process's own. NULL with err: cannot open. */
struct sw_gw_sink *sw_gw_sink_get(const char *path, struct sw_err *err);
/* What is queued is still written. NULL is fine. */
void sw_gw_sink_put(struct sw_gw_sink *s);
/* Queues a line, or drops and counts it. Never waits for the file. From any thread. */
void sw_gw_sink_write(struct sw_gw_sink *s, struct sw_slice line);
