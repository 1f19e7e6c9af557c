/* SPDX-License-Identifier: Apache-2.0 */
/* `spanwire store`: check, back up and restore the control plane's objects. */
#pragma once

#include "opts/opts.h"

/* argv[0] is "store". Returns the exit status. */
int sw_cmd_store(int argc, char **argv);

/* For the manual page. */
extern const struct sw_opts_cmd sw_store_options;
