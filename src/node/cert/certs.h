/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Certificates of the local workloads, issued by a CA directory on this machine. Lives on the main
 * loop: issues at once for every identity that is wanted, again at half of each lifetime, and
 * forgets those nobody wants any more. A CRL applies to all of them.
 */
#pragma once

#include "base/slice.h"
#include "io/loop.h"
#include "telemetry/metrics.h"
#include "tls/cert/cred.h"

struct sw_certs;

/* A new or renewed credential; the callee takes a reference of its own. */
typedef void (*sw_certs_cb)(void *arg, struct sw_slice identity, struct sw_tls_cred *cred);

struct sw_certs_opts {
    const char *dir; /* of the CA; NULL: no identities can be had */
    const char *crl; /* file, may not exist; NULL: none */
    uint64_t ttl_ns;
    struct sw_metrics_shard *shard; /* borrowed */
    sw_certs_cb cb;
    void *arg;
};

/* NULL with err when the CA cannot be loaded or the CRL is malformed. */
SW_NODISCARD struct sw_certs *sw_certs_new(struct sw_loop *l, const struct sw_certs_opts *o,
                                           struct sw_err *err);
void sw_certs_free(struct sw_certs *c);

/* From now on these identities are wanted, and no others. Callbacks come from inside. */
void sw_certs_want(struct sw_certs *c, const struct sw_slice *identities, size_t n);
/* The current credential, or NULL; borrowed. */
struct sw_tls_cred *sw_certs_get(const struct sw_certs *c, struct sw_slice identity);

struct sw_certs_entry {
    struct sw_slice identity;
    struct sw_tls_cred *cred; /* NULL while unavailable */
    const char *error;        /* why, when unavailable */
};
/* For dumps; sorted by identity. */
size_t sw_certs_count(const struct sw_certs *c);
struct sw_certs_entry sw_certs_at(const struct sw_certs *c, size_t i);
