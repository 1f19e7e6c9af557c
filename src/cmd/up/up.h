/* SPDX-License-Identifier: Apache-2.0 */
/* `spanwire up`: the roles of one machine under one process. */
#pragma once

#include "opts/opts.h"

/* Takes its own argv and returns the exit status, see cmd/cmd.h. */
int sw_cmd_up(int argc, char **argv);

/* For the manual page. */
extern const struct sw_opts_cmd sw_up_options;
