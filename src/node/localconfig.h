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

/*
 * Parses 'text' into a new snapshot. 'file' is the name used in messages
 * ("FILE: line 3 column 5: unknown key 'workloadz'"). 'node' as for sw_state_builder_new.
 * warn may be NULL. On failure *ret is untouched.
 */
SW_NODISCARD int sw_localconfig_parse(const char *file, struct sw_slice text, struct sw_slice node,
                                      sw_localconfig_warn_cb warn, void *warn_ctx,
                                      struct sw_state **ret, struct sw_err *err);
