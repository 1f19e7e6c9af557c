/* SPDX-License-Identifier: Apache-2.0 */
/* Runs one system tool inside a network namespace, with bounded output and a deadline. */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

enum { SW_CHILD_TIMEOUT_MS = 10000 };

struct sw_child {
    const char *const *argv; /* argv[0] is a bare name, looked up in the system directories */
    struct sw_slice input;   /* its standard input */
    uint32_t timeout_ms;     /* 0: SW_CHILD_TIMEOUT_MS */
};

/*
 * Starts the tool in the namespace (-1: here), feeds it, collects what it says on both outputs
 * (cut at out's maximum) and waits. *ret_status is its exit status, 128 + N when signal N ended it.
 *
 * SW_OK whenever it ran to its end, whatever the status; SW_ENOENT: no such tool; SW_ETIME: it was
 * killed after the deadline; SW_ESYS: namespace or process could not be had.
 */
SW_NODISCARD int sw_child_run(int netns_fd, const struct sw_child *c, struct sw_buf *out,
                              int *ret_status, struct sw_err *err);
