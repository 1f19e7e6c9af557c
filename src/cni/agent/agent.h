/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node agent: decides which pods of its node belong to the mesh, redirects their connections,
 * hands their namespaces to the node proxy, and serves the CNI plugin.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "io/addr.h"
#include "opts/opts.h"
#include "telemetry/admin_token.h"

struct sw_agent_config {
    struct sw_arena arena;
    const char *kubeconfig;
    const char *context;
    const char *node_name;
    const char *pod_namespace; /* the agent's own; NULL: none */
    const char *daemonset;     /* that runs the agent; NULL: none */
    const char *zds_socket;
    const char *plugin_socket;
    const char *run_dir;
    const char *node_state_dir; /* of the node proxy; NULL: stays */
    bool install;
    const char *plugin; /* the program to install; derived where it is not given */
    const char *bin_dir;
    const char *conf_dir;
    const char *conf_name;
    struct sw_opt_list excluded; /* derived: with the agent's own namespace */
    bool dns;
    bool ipv6;
    const char *host_proc;
    const char *host_netns;   /* NULL: our own */
    const char *netns_prefix; /* in front of the runtime's paths */
    bool probes;
    const char *probe_uid_text;
    uint64_t wait_ns; /* how long a plugin's ADD is held */
    uint64_t verify_ns;
    struct sw_addr admin_addr;
    struct sw_addr pages_addr;
    struct sw_admin_access access;
    const char *log_level;
    int log_format;
};

extern const struct sw_opts_cmd sw_agent_options;

/* As the other roles: SW_OK, SW_EOF for --help, or one line in err. Call _done in every case. */
SW_NODISCARD int sw_agent_config_read(struct sw_agent_config *c, int argc, char **argv,
                                      struct sw_err *err);
void sw_agent_config_done(struct sw_agent_config *c);

/* Runs until a signal, or until everything was uninstalled. */
SW_NODISCARD int sw_agent_run(const struct sw_agent_config *c, struct sw_err *err);
/*
 * Takes everything off this node: by the running agent where there is one (pods leave the mesh),
 * otherwise what is on the host: plugin, configuration, host rules and the rules of pods that are
 * recorded in the run directory or found by their processes.
 */
SW_NODISCARD int sw_agent_uninstall(const struct sw_agent_config *c, struct sw_err *err);
