/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `spanwire expose`: a device with one service, and the objects that give the service a public
 * name: HTTPProxy and ConnectorAdvertisement. They stay when the process ends, so that the same
 * command takes the same name again.
 */
#pragma once

#include "connector/connector.h"

struct sw_expose_config {
    struct sw_connector_config c;
    const char *target;
    struct sw_opt_list hostnames; /* of tcp://: tls_names */
    struct sw_opt_list tls_names;
    uint32_t port;     /* public port of tcp://; 0: any */
    const char *ca;    /* file; NULL: the system's */
    const char *name;  /* NULL: made of the machine's name and the port */
    const char *label; /* for people; NULL: none */
    bool rm;
    bool json;
    bool redirect;
    bool verify;
    uint64_t timeout_ns; /* to be ready; 0: no bound */
};

/*
 * Runs until a signal or a failure that a retry cannot fix. SW_EINVAL: bad use. The defaults
 * that depend on the target are filled into cfg; texts in the arena.
 */
SW_NODISCARD int sw_expose_run(struct sw_expose_config *cfg, struct sw_arena *arena,
                               struct sw_err *err);
