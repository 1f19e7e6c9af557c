/* SPDX-License-Identifier: Apache-2.0 */
/* The gateway role: workers, the main loop beside them, start, reload, drain and end. */
#pragma once

#include "base/err.h"
#include "gateway/config/options.h"
#include "opts/opts.h"

extern const struct sw_opts_cmd sw_gateway_options;

/* Flags, environment and file; results as sw_opts_parse. */
SW_NODISCARD int sw_gateway_config_read(struct sw_gateway_config *c, int argc, char **argv,
                                        struct sw_err *err);
void sw_gateway_config_done(struct sw_gateway_config *c);

/*
 * Runs until a signal or /quitquitquit ended it and connections drained. SW_OK, or what kept it
 * from starting.
 */
SW_NODISCARD int sw_gateway_run(const struct sw_gateway_config *c, struct sw_err *err);
