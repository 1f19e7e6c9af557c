/* SPDX-License-Identifier: Apache-2.0 */
/* One request over one HTTP/2 connection, for the status of its response: for health checks. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"
#include "io/addr.h"
#include "io/loop.h"

struct sw_gw_probe;
struct sw_gw_tls_want;

/* Borrowed for the call but for 'want', which lives as long as the probe. */
struct sw_gw_probe_opts {
    struct sw_addr to;
    const struct sw_gw_tls_want *want; /* NULL: no TLS */
    struct sw_slice method;
    struct sw_slice authority; /* empty: the address */
    struct sw_slice path;
    uint64_t timeout_ns; /* to connect */
    /* Once, from the loop: the status, or 0 and why there is none. May free the probe. */
    void (*on_done)(int status, const char *why, void *arg);
    void *arg;
};

/* NULL with err. */
SW_NODISCARD struct sw_gw_probe *
sw_gw_probe_new(struct sw_loop *l, const struct sw_gw_probe_opts *o, struct sw_err *err);
/* No callback comes any more. NULL is fine. now: at once, not allowed in its own callbacks. */
void sw_gw_probe_free(struct sw_gw_probe *p, bool now);
