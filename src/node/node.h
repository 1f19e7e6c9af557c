/* SPDX-License-Identifier: Apache-2.0 */
/* The node role: workers, the main loop beside them, start, reload, drain and end. */
#pragma once

#include "base/err.h"
#include "node/config.h"

/*
 * Runs until a signal or /quitquitquit ended it and connections drained. SW_OK, or what kept it
 * from starting (nothing is left half-started).
 */
SW_NODISCARD int sw_node_run(const struct sw_node_config *c, struct sw_err *err);
