/* SPDX-License-Identifier: Apache-2.0 */
/* Access log: one struct in, one line with scope 'access' out, fields in ztunnel's order. */
#pragma once

#include <stdint.h>

#include "base/slice.h"
#include "io/addr.h"

enum sw_direction {
    SW_OUTBOUND, /* we stand beside the client */
    SW_INBOUND,  /* we stand beside the server */
};

const char *sw_direction_text(enum sw_direction d);

struct sw_access_peer {
    struct sw_addr addr; /* src: the client; dst: the next hop. Family 0: absent */
    struct sw_slice workload;
    struct sw_slice ns;
    struct sw_slice identity; /* only when proven by mTLS */
    struct sw_slice cluster;
};

/* Empty slices and NULLs are left out of the line. */
struct sw_access {
    enum sw_direction direction;
    struct sw_access_peer src;
    struct sw_access_peer dst;
    struct sw_slice hbone_addr;  /* authority of the tunnel */
    struct sw_slice dst_service; /* hostname */
    /* As the metrics count them; the line has them from the workload's point of view. */
    uint64_t received; /* from the connecting side toward the destination */
    uint64_t sent;     /* back to the connecting side */
    uint64_t duration_ns;
    struct sw_slice trace_id; /* this and the next two: appended behind the fixed fields */
    struct sw_slice link;     /* site at the other end of a link */
    struct sw_slice policy;   /* that allowed it */
    const char *error;        /* NULL: ended well */
};

/* 'connection opened', DEBUG: no bytes, no duration. */
void sw_accesslog_opened(const struct sw_access *a);
/* 'connection complete', INFO, or ERROR when a->error is set. */
void sw_accesslog_complete(const struct sw_access *a);
/* 'connection failed', WARN: ended before there was a record; addresses, direction and error only.
 */
void sw_accesslog_failed(const struct sw_access *a);
