/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a namespace may hold: the counts of its ResourceQuotas, and a limit of objects and bytes for
 * every namespace. The counters are exact: they change when a write is queued (as reserved) and
 * when it is done, so that concurrent creates cannot pass a limit together.
 */
#pragma once

#include "apiserver/api/write.h"

struct api_quota;

/* Limits of a namespace without quotas of its own; 0: none. */
struct api_quota_opts {
    uint64_t objects;
    uint64_t bytes;
};

/* Counts what is stored. */
struct api_quota *api_quota_new(struct sw_api *api, const struct api_quota_opts *o);
void api_quota_free(struct api_quota *q);
/*
 * Before a write of 'size' bytes is queued: takes its share, until api_quota_settle. False: the
 * namespace has no room, 403 was sent.
 */
bool api_quota_take(struct api_write *w, size_t size);
/* The write was not queued, or is done: res is NULL, or what became of it. */
void api_quota_settle(struct api_write *w, const struct sw_store_result *res);
/* The same for a deletion without a request. */
void api_quota_removed(struct sw_api *api, const struct sw_store_result *res);
/* How many objects of a resource a namespace has, in the store or on their way. */
uint64_t api_quota_count(const struct api_quota *q, const struct api_res *res, struct sw_slice ns);
/* How many creations were refused. */
uint64_t api_quota_refused(const struct api_quota *q);
