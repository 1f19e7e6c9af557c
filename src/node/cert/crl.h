/* SPDX-License-Identifier: Apache-2.0 */
/* The file of revocations: read at the start, watched, and applied only when it is good. */
#pragma once

#include "base/err.h"
#include "base/slice.h"
#include "io/loop.h"
#include "telemetry/metrics.h"

struct sw_crl;

/*
 * Puts other revocations into force, all of them or none. 'text' lives until the next change.
 * Anything but SW_OK keeps the previous ones, with the reason in err.
 */
typedef int (*sw_crl_apply)(void *arg, struct sw_slice text, struct sw_err *err);

struct sw_crl_opts {
    const char
        *path; /* PEM with several blocks, or one DER; an absent or empty file revokes nothing */
    struct sw_metrics_shard *shard; /* borrowed */
    sw_crl_apply apply;
    void *arg;
};

/*
 * NULL with err when the file does not parse (continuing without it would fail open) or its
 * directory cannot be watched. Does not call apply.
 */
SW_NODISCARD struct sw_crl *sw_crl_new(struct sw_loop *l, const struct sw_crl_opts *o,
                                       struct sw_err *err);
/* NULL is fine. */
void sw_crl_free(struct sw_crl *c);
/* What is in force; empty for NULL. */
struct sw_slice sw_crl_text(const struct sw_crl *c);
