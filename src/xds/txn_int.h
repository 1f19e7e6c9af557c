/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a transaction, for the cache. */
#pragma once

#include <stdbool.h>

#include "base/vec.h"
#include "xds/txn.h"

struct xds_op {
    struct sw_slice name;   /* of res, or owned when there is none */
    struct sw_xds_res *res; /* owned; NULL: delete */
    size_t seq;
};

struct xds_change {
    char *type;
    bool whole; /* what is not named goes */
    SW_VEC(struct xds_op) ops;
};

struct sw_xds_txn {
    SW_VEC(struct xds_change) changes; /* few types: a list will do */
};

/* Sorted by name, the last of each name only. */
void xds_change_settle(struct xds_change *c);
