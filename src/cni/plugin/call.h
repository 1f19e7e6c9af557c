/* SPDX-License-Identifier: Apache-2.0 */
/* One HTTP request to the node agent over its Unix socket, waited for: a plugin has no loop. */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

struct sw_cni_post {
    const char *socket;
    const char *path;
    struct sw_slice body; /* JSON */
    uint64_t deadline_ns;
};

/*
 * Sends it and collects the answer (cut at its maximum). *ret_status is the HTTP status.
 * SW_EUNAVAIL: the agent is not there; SW_ETIME: no answer by the deadline; SW_EPROTO: not HTTP.
 */
SW_NODISCARD int sw_cni_call(const struct sw_cni_post *post, int *ret_status, struct sw_buf *answer,
                             struct sw_err *err);
