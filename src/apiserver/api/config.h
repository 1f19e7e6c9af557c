/* SPDX-License-Identifier: Apache-2.0 */
/* What a server is started with. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "io/addr.h"

struct sw_egress;

/* Borrowed for the call, except where noted. */
struct sw_api_config {
    const char *data_dir;     /* made when missing */
    struct sw_addr listen;    /* port 0 takes a free one */
    const char *advertise;    /* "host:port" clients should use; NULL: the listening address */
    const char *const *names; /* further names of the server certificate, ends with NULL; or NULL */
    const char *audit_log;    /* file for one JSON line per request; NULL: none */
    bool relaxed_sync;        /* power loss may take the last writes */
    uint32_t max_inflight;    /* requests of one client at a time; 0 = 400 */
    uint32_t max_watches;     /* of one client; 0 = 4096 */
    uint64_t space_objects;   /* that one namespace may hold; 0: no limit */
    uint64_t space_bytes;     /* the same in bytes */
    uint32_t max_conns;       /* 0 = 4096 */
    uint32_t max_conns_addr;  /* of one address, not loopback; 0 = 1024 */
    uint64_t unread_timeout_ns; /* an answer of which nothing is read for so long; 0 = 60 s */
    uint32_t keep_events;       /* changes kept for watches at least; 0 = the store's default */
    uint64_t keep_events_ms;
    uint64_t work_deadline_ns;  /* of a request handled on a worker; 0 = 30 s */
    bool fabric_kinds;          /* install the fabric's own kinds */
    bool accounts;              /* accounts and credentials (DIR/roles) for the fabric's roles */
    const char *device_account; /* one more, with the rights of a device in 'default'; or NULL */
    bool loopback_endpoints;    /* Endpoints and EndpointSlices may name this machine */
    struct sw_egress *egress;   /* borrowed: where Services of webhooks may lead */
};
