/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Certificates of the local workloads. Lives on the main loop: asks an issuer for every identity
 * that is wanted, the urgent ones first and a few at a time, again at half of each lifetime, and
 * drops those that are not wanted any more. A certificate that cannot be renewed is used until it
 * expires. A CRL applies to all of them.
 */
#pragma once

#include "base/slice.h"
#include "io/loop.h"
#include "node/cert/issuer.h"
#include "telemetry/metrics.h"
#include "tls/cert/cred.h"

struct sw_certs;

/*
 * A new or renewed credential; the callee takes a reference of its own. NULL: there is none,
 * 'error' says why; connections that need it fail until the next call.
 */
typedef void (*sw_certs_cb)(void *arg, struct sw_slice identity, struct sw_tls_cred *cred,
                            const char *error);

struct sw_certs_opts {
    struct sw_issuer *issuer; /* taken over, also on failure; NULL: no identities can be had */
    const char *crl;          /* file, may not exist; NULL: none */
    uint64_t ttl_ns;
    struct sw_metrics_shard *shard; /* borrowed */
    uint64_t (*wall_ns)(void);      /* NULL: the clock of the machine */
    sw_certs_cb cb;
    void *arg;
};

/* NULL with err when the CRL is malformed. */
SW_NODISCARD struct sw_certs *sw_certs_new(struct sw_loop *l, const struct sw_certs_opts *o,
                                           struct sw_err *err);
void sw_certs_free(struct sw_certs *c);

/*
 * From now on these identities are wanted, and no others. The first n_served are of workloads that
 * are served now, the rest is fetched ahead. Callbacks may come from inside.
 */
void sw_certs_want(struct sw_certs *c, const struct sw_slice *identities, size_t n_served,
                   size_t n);
/*
 * A connection waits for the certificate of this identity, or was refused without it: its request
 * goes first. One that failed is repeated soon, but not for each connection.
 */
void sw_certs_need(struct sw_certs *c, struct sw_slice identity);

struct sw_certs_entry {
    struct sw_slice identity;
    struct sw_tls_cred *cred; /* borrowed; NULL while there is none */
    const char *error;        /* why there is none; NULL with cred NULL: being fetched */
};
/* What is known of one identity. One that is not wanted has neither credential nor error. */
struct sw_certs_entry sw_certs_find(const struct sw_certs *c, struct sw_slice identity);
/* For dumps; sorted by identity. */
size_t sw_certs_count(const struct sw_certs *c);
struct sw_certs_entry sw_certs_at(struct sw_certs *c, size_t i);
