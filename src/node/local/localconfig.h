/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ztunnel's local configuration file: workloads, services and policies in YAML. It replaces the
 * state wholesale; unknown keys are refused with their place.
 */
#pragma once

#include "base/err.h"
#include "base/slice.h"
#include "node/state.h"

/* Called for things worth a log line that are no error (text is borrowed for the call). */
typedef void (*sw_localconfig_warn_cb)(void *ctx, const char *text);

struct sw_localconfig {
    const char *file; /* for messages: "FILE: line 3 column 5: unknown key 'workloadz'" */
    struct sw_slice text;
    struct sw_slice node;        /* as for sw_state_builder_new */
    sw_localconfig_warn_cb warn; /* NULL: none */
    void *warn_ctx;
};

/* Parses the text into a new snapshot. On failure *ret is untouched. */
SW_NODISCARD int sw_localconfig_parse(const struct sw_localconfig *c, struct sw_state **ret,
                                      struct sw_err *err);
