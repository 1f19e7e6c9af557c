/* SPDX-License-Identifier: Apache-2.0 */
/* `spanwire status`: data planes and what they accepted of their configuration. */
#pragma once

#include "opts/opts.h"

/* Takes its own argv and returns the exit status, see cmd/cmd.h. */
int sw_cmd_status(int argc, char **argv);

/* For the manual page. */
extern const struct sw_opts_cmd sw_status_options;
