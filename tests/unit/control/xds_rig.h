/* SPDX-License-Identifier: Apache-2.0 */
/* Models for the tests of the Envoy side: put together by hand, one small world per feature. */
#pragma once

#include "base/arena.h"
#include "control/gateway/model.h"
#include "control/gateway/xds/xds.h"

#define L(s) SW_SLICE_LIT(s)
#define N(a) SW_ARRAY_LEN(a)

struct xds_case {
    const char *name;
    /* Fills the model and the endpoints. */
    void (*make)(struct sw_arena *a, struct sw_model *m, struct sw_endpoint_model *ep);
    struct sw_model_xds_conf conf;
};

extern const struct xds_case xds_cases[];
extern const size_t n_xds_cases;

/* The resources of a case: clusters, endpoints, listeners, routes, secrets. */
void xds_case_encode(const struct xds_case *c, struct sw_arena *a, struct sw_model_resources *ret);
