/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses of host names that clusters have as backends. Data planes that cannot judge an address
 * when they connect (Envoy) get them as endpoint sets, looked up and judged here. What a set holds
 * is an input like EndpointSlices: a new answer changes one set and builds nothing.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/slice.h"
#include "io/addr.h"

/* Then "host/port". Four parts: no Service's set has them, whatever its namespace is called. */
#define SW_RESOLVED_SET "resolved/tcp/"

/* What a set holds. Slices live for the call. */
struct sw_resolved {
    struct sw_slice set;
    struct sw_slice host;
    uint16_t port;
    const struct sw_ip *ips; /* sorted; those that may be dialled */
    size_t n;
};
