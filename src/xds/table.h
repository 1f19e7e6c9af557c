/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resources of one large type: found by name, alias, node and service, and kept in the order of
 * their last change. A client that has all changes up to a number gets the later ones, so a change
 * costs each stream what changed and no more, whatever the size of the type. Removed resources stay
 * as records without content while there are not too many of them; a client that missed removals
 * beyond that has to reconnect and send what it holds.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "base/vec.h"
#include "xds/index.h"
#include "xds/res.h"

struct xds_rec {
    struct sw_slice name;   /* of res, or owned when there is none */
    struct sw_xds_res *res; /* a reference; NULL: it was removed */
    uint64_t seq;           /* of its last change */
    uint32_t slot;          /* small number of its own, for sets of records */
};

/* A change. It counts while it is the last one of its record. */
struct xds_change_at {
    uint64_t seq;
    struct xds_rec *rec;
};

struct xds_table {
    struct sw_map names; /* name -> struct xds_rec, removed ones included */
    struct xds_index aliases;
    struct xds_index nodes;
    struct xds_index services;
    SW_VEC(struct xds_change_at) log; /* by seq */
    uint64_t seq;                     /* of the last change */
    uint64_t forgotten;               /* removals up to here are not known any more */
    size_t n;                         /* resources */
    size_t n_removed;                 /* records without content */
    uint32_t n_slots;
    SW_VEC(uint32_t) free_slots;
    uint64_t sum[2];
    char version[SW_XDS_VERSION_LEN + 1]; /* hash over names and versions */
};

/* True for types that are kept so. */
bool xds_table_for(struct sw_slice type);

struct xds_table *xds_table_new(void);
/* NULL is fine. */
void xds_table_free(struct xds_table *t);

/* All return whether anything changed. A reference to res is taken. */
bool xds_table_set(struct xds_table *t, struct sw_xds_res *res, bool *ret_new);
bool xds_table_del(struct xds_table *t, struct sw_slice name);
/* After a number of changes: updates the version and drops what no stream needs. */
void xds_table_seal(struct xds_table *t);

/* NULL when there is none, or it was removed. */
struct xds_rec *xds_table_get(const struct xds_table *t, struct sw_slice name);
/* The first entry of the log after seq; t->log.n at the end. */
size_t xds_table_after(const struct xds_table *t, uint64_t seq);

static inline bool xds_change_counts(const struct xds_change_at *c)
{
    return c->rec->seq == c->seq;
}
