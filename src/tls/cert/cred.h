/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a workload shows and trusts in handshakes: its chain and key, the roots, revocations.
 * Immutable and reference counted; may be shared between threads without further care.
 * Rotation makes a new one; connections keep what they were opened with.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/def.h"
#include "base/err.h"
#include "base/slice.h"
#include "tls/cert/spiffe.h"

struct sw_tls_cred;

enum {
    SW_TLS_CHAIN_MAX = 10,    /* certificates in a presented chain, ours or a peer's */
    SW_TLS_ROOTS_MAX = 256,   /* trust anchors */
    SW_TLS_PEM_MAX = 4 << 20, /* bytes of one PEM input */
};

/* All borrowed for the call only. */
struct sw_tls_cred_pem {
    struct sw_slice chain; /* leaf first, then intermediates; a root at the end is dropped */
    struct sw_slice key;   /* PKCS#8 or SEC1 PEM */
    struct sw_slice roots; /* one or more */
    struct sw_slice crl;   /* PEM (several blocks) or one DER; empty: no revocations */
    bool any_identity;     /* the leaf needs no SPIFFE identity: for HTTPS, not for the mesh */
    bool trust_nobody;     /* without roots every peer is refused, but for insecure_skip */
};

/* A certificate for people and config dumps. Slices live as long as the credential. */
struct sw_tls_cert_info {
    struct sw_slice pem;
    struct sw_slice serial; /* decimal */
    uint64_t not_before_s;  /* seconds since the epoch */
    uint64_t not_after_s;
};

/*
 * Checks and packs. chain and key both empty make a credential that can only be used by clients
 * and only to verify. Refuses: no roots, key and leaf that do not belong together, a leaf without
 * a SPIFFE identity, a CRL that does not parse or whose signature is wrong for a known root.
 *
 * Returns a reference owned by the caller, or NULL with SW_EINVAL or SW_ELIMIT in err.
 */
struct sw_tls_cred *sw_tls_cred_new(const struct sw_tls_cred_pem *pem, struct sw_err *err);

/*
 * A copy of c with other revocations (crl as in sw_tls_cred_pem). NULL as above; c is untouched.
 */
struct sw_tls_cred *sw_tls_cred_with_crl(const struct sw_tls_cred *c, struct sw_slice crl,
                                         struct sw_err *err);

/*
 * Would a peer that trusts the same roots accept our own chain now? SW_OK, or SW_EDENIED with the
 * reason; always SW_OK for a verify-only credential.
 */
SW_NODISCARD int sw_tls_cred_check_chain(const struct sw_tls_cred *c, struct sw_err *err);

struct sw_tls_cred *sw_tls_cred_ref(struct sw_tls_cred *c);
/* Accepts NULL; always returns NULL: c = sw_tls_cred_unref(c). */
struct sw_tls_cred *sw_tls_cred_unref(struct sw_tls_cred *c);

/* Identity of the leaf (first SPIFFE URI SAN); NULL / empty for a verify-only credential. */
const struct sw_spiffe *sw_tls_cred_id(const struct sw_tls_cred *c);
struct sw_slice sw_tls_cred_uri(const struct sw_tls_cred *c);
/* Validity of the leaf, seconds since the epoch; 0 for a verify-only credential. */
uint64_t sw_tls_cred_not_before(const struct sw_tls_cred *c);
uint64_t sw_tls_cred_not_after(const struct sw_tls_cred *c);
bool sw_tls_cred_has_crl(const struct sw_tls_cred *c);

/* The presented chain (leaf first) and the roots; the array lives as long as c. */
size_t sw_tls_cred_chain(const struct sw_tls_cred *c, const struct sw_tls_cert_info **ret);
size_t sw_tls_cred_roots(const struct sw_tls_cred *c, const struct sw_tls_cert_info **ret);
