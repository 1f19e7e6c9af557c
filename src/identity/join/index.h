/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All records of an API: codes that wait and machines that joined, kept current by an informer.
 * Unused codes are deleted an hour after they expired.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"
#include "identity/join/record.h"

struct sw_joins;
struct sw_jws_key;
struct sw_kube_client;

struct sw_joins_opts {
    struct sw_slice trust_domain; /* borrowed */
    struct sw_slice system_ns;    /* records of peers count here only; borrowed */
    /* A machine is gone: open streams may be concerned. May be NULL. */
    void (*on_gone)(void *arg);
    void *arg;
};

/* A record that is known. */
struct sw_join {
    struct sw_join_record r;
    struct sw_jws_key *key; /* NULL: not redeemed */
    struct sw_arena arena;
};

struct sw_joins *sw_joins_new(struct sw_kube_client *client, const struct sw_joins_opts *o);
/* Before the client. NULL is fine. */
void sw_joins_free(struct sw_joins *x);
/* False until all records were read once. */
bool sw_joins_synced(const struct sw_joins *x);
/* NULL: there is none. Until the loop continues. */
const struct sw_join *sw_joins_find(const struct sw_joins *x, struct sw_slice id);
/* Has a site joined as the peer of this name? */
bool sw_joins_has_peer(const struct sw_joins *x, struct sw_slice name);
/*
 * Whose token it is. SW_OK with *ret, until the loop continues; SW_ENOENT: it does not claim to be
 * a machine's; SW_EDENIED with the reason; SW_ETIME: records were not read yet.
 */
SW_NODISCARD int sw_joins_check(const struct sw_joins *x, struct sw_slice token,
                                const struct sw_join **ret, struct sw_err *err);
/* For a stream that was let in by this token: is the machine still there, with the same key? */
bool sw_joins_still_good(const struct sw_joins *x, struct sw_slice token, struct sw_err *err);
