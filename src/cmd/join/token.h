/* SPDX-License-Identifier: Apache-2.0 */
/* `spanwire token`: its settings and its way to the API, shared by its files. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "cmd/api.h"
#include "opts/opts.h"

/* Takes its own argv and returns the exit status, see cmd/cmd.h. */
int sw_cmd_token(int argc, char **argv);

/* For the manual page. */
extern const struct sw_opts_cmd sw_token_options;

struct sw_token_settings {
    int kind; /* enum sw_join_kind - 1 */
    const char *ns;
    const char *name;
    const char *account;
    struct sw_opt_list labels;
    const char *network;
    const char *address;
    struct sw_opt_list gateways;
    const char *xds_address;
    const char *xds_ca;
    const char *server;
    const char *join_address;
    uint64_t ttl_ns;
    bool all;
    const char *system_ns;
    const char *kubeconfig;
    const char *context;
};

/* A command under way. */
struct sw_token_cmd {
    const struct sw_token_settings *set;
    struct sw_cmd_api api;
    const char *ns;         /* --namespace, else the context's */
    struct sw_slice server; /* URL of the API and its roots, as the kubeconfig has them */
    struct sw_slice ca;
};

/* `token create`: makes the record and what belongs to it, and prints the line to run. */
SW_NODISCARD int sw_token_create(struct sw_token_cmd *t, struct sw_err *err);
/* Removes what a gateway's record could not own: it is of no namespace. */
void sw_token_drop_cluster_role(struct sw_token_cmd *t, struct sw_slice id);
