/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of the one binary. Each takes its own argv (argv[0] is its name), prints, and
 * returns the exit status. */
#pragma once

#include "base/err.h"
#include "opts/opts.h"

int sw_cmd_node(int argc, char **argv);
int sw_cmd_gateway(int argc, char **argv);
int sw_cmd_cert(int argc, char **argv);
int sw_cmd_cni(int argc, char **argv);
int sw_cmd_store(int argc, char **argv);
int sw_cmd_envoy(int argc, char **argv);
int sw_cmd_xds(int argc, char **argv);
int sw_cmd_link(int argc, char **argv);
int sw_cmd_relay(int argc, char **argv);
int sw_cmd_sidecar(int argc, char **argv);
int sw_cmd_connector(int argc, char **argv);
int sw_cmd_expose(int argc, char **argv);
int sw_cmd_fabric(int argc, char **argv);
int sw_cmd_uninstall(int argc, char **argv);

/* Their options, for the manual pages. */
extern const struct sw_opts_cmd sw_cni_redirect_options;
extern const struct sw_opts_cmd sw_store_options;
extern const struct sw_opts_cmd sw_envoy_options;
extern const struct sw_opts_cmd sw_xds_options;
extern const struct sw_opts_cmd sw_connector_options;
extern const struct sw_opts_cmd sw_expose_options;
extern const struct sw_opts_cmd sw_fabric_options;
extern const struct sw_opts_cmd sw_uninstall_options;

/* Prints "spanwire: MESSAGE" on standard error; returns 1, the exit status of every failure. */
int sw_cmd_fail(const struct sw_err *err);
/*
 * Prints a cell of a table, at most 256 bytes, and a space; others choose such texts, so control
 * characters become '?': nothing in them may speak to the terminal.
 */
void sw_cmd_print_cell(struct sw_slice text, int width);
/* The same for a text of any length, in the arena. */
const char *sw_cmd_shown(struct sw_arena *a, struct sw_slice text);
/* Splits the HOST:PORT of an option; brackets around an IPv6 address are dropped. */
SW_NODISCARD int sw_cmd_host_port(const char *option, const char *text, struct sw_slice *ret_host,
                                  uint16_t *ret_port, struct sw_err *err);
/* Prints the help text of a command on standard output; returns 0. */
int sw_cmd_help(const struct sw_opts_cmd *cmd);
/* What a command does with its settings and plain arguments. The arena is for the call. */
typedef int (*sw_cmd_fn)(void *settings, const struct sw_opts_rest *rest, struct sw_arena *a,
                         struct sw_err *err);
/*
 * A command that runs once: reads its words into the settings, which are all zero before, runs it
 * and reports, an error of 'run' behind the command's name. Returns the exit status.
 */
int sw_cmd_run(const struct sw_opts_cmd *cmd, struct sw_args args, void *settings, sw_cmd_fn run);
/* Prints the message like sw_cmd_fail; returns 64, the status of a bad command line. */
int sw_cmd_bad_use(const struct sw_err *err);
/* Starts the log on standard error. SW_EINVAL: the filter is none. format: enum sw_log_format. */
SW_NODISCARD int sw_cmd_start_log(const char *filter, int format, struct sw_err *err);
/* Ends the log of a command and reports its result: rc, and help for SW_EOF. The exit status. */
int sw_cmd_end(const struct sw_opts_cmd *cmd, int rc, const struct sw_err *err);
