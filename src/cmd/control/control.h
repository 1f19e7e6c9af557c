/* SPDX-License-Identifier: Apache-2.0 */
/* `spanwire control`: the API and the controllers. */
#pragma once

/* Takes its own argv and returns the exit status, see cmd/cmd.h. */
int sw_cmd_control(int argc, char **argv);
