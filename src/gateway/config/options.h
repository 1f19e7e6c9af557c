/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the command, as read. */
#pragma once

#include "base/arena.h"
#include "io/addr.h"
#include "opts/admin.h"
#include "opts/process.h"
#include "opts/upstream.h"
#include <stdbool.h>
#include <stdint.h>

struct sw_gateway_config {
    struct sw_arena arena;
    const char *xds_dir;  /* one of this and the next is set */
    const char *xds_addr; /* host:port */
    const char *xds_ca;
    const char *xds_cert; /* both of this and the next, or none */
    const char *xds_key;
    const char *xds_server_name;
    const char *xds_token_file;
    const char *xds_node_id;
    const char *xds_node_cluster;
    const char *port_group; /* NULL: by the configuration's source */
    bool io_uring;
    int aead;
    struct sw_process_config process;
    struct sw_upstream_opts upstream;
    const char *error_pages; /* directory; NULL: the built-in pages */
};
