/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Says what Envoy would refuse, before it is sent: the constraints of its messages, and whether a
 * set of resources hangs together. It stands in for the client that answers NACK.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"
#include "control/gateway/xds/xds.h"

enum sw_xds_severity {
    SW_XDS_ERROR,   /* Envoy refuses the resource, or could not serve it */
    SW_XDS_WARNING, /* accepted, but hardly meant: a route that nothing reaches */
};

/* Slices live for the call. */
struct sw_xds_finding {
    enum sw_xds_severity severity;
    const char *type;         /* short: "Listener" */
    struct sw_slice resource; /* name */
    struct sw_slice field;    /* "filter_chains[0].filters[1]", may be empty */
    struct sw_slice text;
};

typedef void (*sw_xds_on_finding)(void *arg, const struct sw_xds_finding *f);

struct sw_xds_lint_opts {
    /*
     * The set is all there is: every cluster, route configuration, secret, endpoint set and
     * internal listener that is named must be in it (but the invalid cluster). Without it only
     * each resource by itself is looked at.
     */
    bool closed;
};

/*
 * Looks at all resources and calls fn (may be NULL) for each finding, in the order of the
 * resources. Returns the number of errors.
 */
size_t sw_xds_lint(const struct sw_model_resource *r, size_t n, const struct sw_xds_lint_opts *o,
                   sw_xds_on_finding fn, void *arg);
