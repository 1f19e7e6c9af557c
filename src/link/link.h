/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data plane of links between clusters: listeners of Imports in, tunnels to the gateways of
 * other sites out, and the other way round the external port in, exported services out. Every
 * connection is authorised at the site's control plane. Compatible with ClusterLink's data planes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "io/addr.h"
#include "opts/admin.h"
#include "opts/opts.h"
#include "opts/process.h"
#include "opts/upstream.h"

/* What the control plane speaks. */
enum sw_link_control_form {
    SW_LINK_CONTROL_OURS,        /* requests over HTTP/2, reviews, epochs */
    SW_LINK_CONTROL_CLUSTERLINK, /* gRPC Check, as cl-controlplane */
};

struct sw_link_config {
    struct sw_arena arena;
    const char *control; /* "HOST:PORT" */
    const char *site;    /* directory with ca.pem, dataplane.pem, dataplane.key */
    const char *control_name;
    int form; /* enum sw_link_control_form */
    struct sw_opt_list listen;
    struct sw_opt_list import_address;
    uint32_t max_connections;
    uint32_t max_per_peer;
    uint64_t authorise_ns;
    uint64_t connect_ns;
    uint64_t pool_unused_ns;
    struct sw_upstream_opts upstream;
    int aead;
    const char *port_group;
    struct sw_process_config process;
};

extern const struct sw_opts_cmd sw_link_options;

/* Flags, environment and file; results as sw_opts_parse. */
SW_NODISCARD int sw_link_config_read(struct sw_link_config *c, int argc, char **argv,
                                     struct sw_err *err);
void sw_link_config_done(struct sw_link_config *c);

/*
 * Runs until a signal or /quitquitquit ended it and connections drained. SW_OK, or what kept it
 * from starting.
 */
SW_NODISCARD int sw_link_run(const struct sw_link_config *c, struct sw_err *err);
