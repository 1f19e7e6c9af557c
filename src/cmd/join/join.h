/* SPDX-License-Identifier: Apache-2.0 */
/* `spanwire join`: brings this machine into a fabric. */
#pragma once

#include "opts/opts.h"

/* Takes its own argv and returns the exit status, see cmd/cmd.h. */
int sw_cmd_join(int argc, char **argv);

/* For the manual page. */
extern const struct sw_opts_cmd sw_join_options;
