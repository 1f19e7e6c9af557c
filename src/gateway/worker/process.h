/* SPDX-License-Identifier: Apache-2.0 */
/* The process: what its main thread has, and workers borrow. */
#pragma once

#include <stdatomic.h>

#include "io/crew.h"
#include "io/loop.h"
#include "io/port.h"
#include "telemetry/process.h"

struct sw_egress;
struct sw_filewatch;
struct sw_gateway_config;
struct sw_gw_abuse;
struct sw_gw_bind;
struct sw_gw_dir;
struct sw_gw_set;
struct sw_gw_store;
struct sw_gw_worker;
struct sw_gw_xds;

struct sw_gateway {
    const struct sw_gateway_config *config;
    struct sw_process process;
    struct sw_gw_store *store;
    struct sw_gw_dir *dir; /* one of this and the next is set */
    struct sw_gw_xds *xds;
    struct sw_gw_abuse *abuse;    /* owned */
    struct sw_egress *egress;     /* owned: judges the addresses of clusters */
    struct sw_gw_worker *workers; /* owned array */
    size_t n_workers;
    _Atomic size_t serving;             /* workers that applied a first configuration */
    struct sw_gw_bind *bind;            /* owned */
    const struct sw_gw_set *listeners;  /* as sent to the workers last; only compared */
    char port_group[SW_PORT_GROUP_MAX]; /* processes that may have the same ports, see io/port.h */
    struct sw_msg serving_msg;
    bool logged_ready;
    struct sw_filewatch *pages_watch; /* of --error-pages; NULL: none */
};
