/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One of several processes leads, by holding a coordination.k8s.io Lease. Times of other machines
 * are never compared with ours: a lease is expired when we have seen it unchanged for as long as
 * it claims to last. The leader that cannot renew stops leading before others may take over.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kube/client/client.h"

struct sw_lease;

/* Zero in a field means the default in brackets. */
struct sw_lease_opts {
    struct sw_slice ns;
    struct sw_slice name;
    struct sw_slice identity;   /* unique for this process [hostname_random] */
    uint32_t duration_s;        /* how long others wait for us [15] */
    uint64_t renew_deadline_ns; /* without a renewal for so long we stop [10 s] */
    uint64_t retry_ns;          /* between attempts [2 s] */
    /* From the loop. lost comes after led only; neither comes from inside sw_lease_release. */
    void (*led)(void *arg);
    void (*lost)(void *arg);
    void (*other)(void *arg, struct sw_slice identity); /* another process leads; may be NULL */
    void *arg;
};

/* NULL with SW_EINVAL unless duration > renew_deadline > 1.2 retry. */
SW_NODISCARD struct sw_lease *sw_lease_new(struct sw_kube_client *c, const struct sw_lease_opts *o,
                                           struct sw_err *err);
/* Stops without releasing the Lease: others wait until it expires. Before the client. */
void sw_lease_free(struct sw_lease *l);
void sw_lease_start(struct sw_lease *l);
/*
 * Stops trying and, when leading, gives the lease back so that others need not wait. Leading ends
 * at once; done (may be NULL) comes from the loop when the server has stored that, or the write
 * failed.
 */
void sw_lease_release(struct sw_lease *l, void (*done)(void *arg), void *arg);

bool sw_lease_is_leader(const struct sw_lease *l);
/* The holder as last seen; empty: none. */
struct sw_slice sw_lease_holder(const struct sw_lease *l);
struct sw_slice sw_lease_identity(const struct sw_lease *l);
/* Of the object as last seen; empty: not seen yet. */
struct sw_slice sw_lease_uid(const struct sw_lease *l);
