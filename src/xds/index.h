/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which records of a table have a key: an address, a node, a service. Most keys have one record,
 * which then costs no more than its place in the map.
 */
#pragma once

#include "base/map.h"
#include "base/slice.h"

struct xds_rec;

struct xds_index {
    struct sw_map map; /* key -> a record, or a group (tagged) */
};

/* The records of a key, valid until the index changes. */
struct xds_hits {
    struct xds_rec *const *p;
    size_t n;
    struct xds_rec *one; /* what p points to when there is one */
};

void xds_index_done(struct xds_index *x);
/* The key is borrowed and lives until the record is removed under it. No record twice. */
void xds_index_add(struct xds_index *x, struct sw_slice key, struct xds_rec *rec);
/* Nothing happens when it is not there. */
void xds_index_del(struct xds_index *x, struct sw_slice key, struct xds_rec *rec);
void xds_index_find(const struct xds_index *x, struct sw_slice key, struct xds_hits *ret);
