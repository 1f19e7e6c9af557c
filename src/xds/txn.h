/* SPDX-License-Identifier: Apache-2.0 */
/* Changes to a cache, applied at once by sw_xds_cache_commit. May be filled on any thread. */
#pragma once

#include "base/def.h"
#include "base/err.h"
#include "base/slice.h"
#include "xds/res.h"

struct sw_xds_txn;

SW_NODISCARD struct sw_xds_txn *sw_xds_txn_new(void);
/* Forgets it. NULL is fine. */
void sw_xds_txn_free(struct sw_xds_txn *t);
/*
 * The whole set of a type: after the commit it has the resources put here and no others. value is
 * the encoded message without Any; copied. The last one of a name wins.
 */
SW_NODISCARD int sw_xds_txn_put(struct sw_xds_txn *t, const char *type, struct sw_slice name,
                                struct sw_slice value, struct sw_err *err);
/* The type has nothing but what is put; needed when that is nothing. */
void sw_xds_txn_clear(struct sw_xds_txn *t, const char *type);
/*
 * Single changes that leave the rest of a type alone (endpoints). Not to be mixed with put and
 * clear of the same type: SW_EINVAL.
 */
SW_NODISCARD int sw_xds_txn_set(struct sw_xds_txn *t, const char *type, struct sw_slice name,
                                struct sw_slice value, struct sw_err *err);
/*
 * The same with what clients find the resource by; x may be NULL. SW_EINVAL beyond
 * SW_XDS_ALIASES_MAX or for a name that is too long.
 */
SW_NODISCARD int sw_xds_txn_set_extra(struct sw_xds_txn *t, const char *type, struct sw_slice name,
                                      struct sw_slice value, const struct sw_xds_extra *x,
                                      struct sw_err *err);
SW_NODISCARD int sw_xds_txn_del(struct sw_xds_txn *t, const char *type, struct sw_slice name,
                                struct sw_err *err);
