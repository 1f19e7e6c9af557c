/* SPDX-License-Identifier: Apache-2.0 */
/* The peer, as its verified certificate chain describes it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "tls/cert/spiffe.h"

enum {
    SW_TLS_PEER_IDS_MAX = 16, /* SPIFFE SANs kept of one leaf; more are refused */
    SW_TLS_ORGS_MAX = 32,     /* organisations kept of one leaf's subject */
};

/* One certificate of a peer's chain, enough to find it in a CRL. */
struct sw_tls_cert_ref {
    struct sw_slice issuer; /* DER name */
    struct sw_slice serial; /* DER integer content */
};

struct sw_tls_peer_id {
    struct sw_slice uri;
    struct sw_spiffe id;
};

/* The authenticated peer. Immutable; shared by connections from the same certificate. */
struct sw_tls_peer {
    uint8_t fingerprint[32]; /* SHA-256 of the leaf's DER form */
    uint64_t not_before_s;   /* of the chain: latest begin, earliest end */
    uint64_t not_after_s;
    uint32_t n_ids;                   /* see sw_tls_peer_identity; 'web' may have more */
    bool several;                     /* more than one SPIFFE URI: it has no identity */
    uint32_t n_certs;                 /* of the chain it presented */
    const struct sw_tls_peer_id *ids; /* in the order of the certificate */
    const struct sw_tls_cert_ref *certs;
    struct sw_slice cn; /* common name of the leaf's subject, empty: none */
    uint32_t n_orgs;    /* organisations of the subject, at most SW_TLS_ORGS_MAX */
    const struct sw_slice *orgs;
};

/*
 * The identity of a peer: that of a certificate with one SPIFFE URI. NULL: none or several. All
 * decisions (trust domain, expected name, policy, logs) are made of this.
 */
const struct sw_tls_peer_id *sw_tls_peer_identity(const struct sw_tls_peer *p);

/*
 * A zeroed peer with one reference. *ret_room: 'extra' bytes for what its pointers point to; they
 * live as long as the peer.
 */
struct sw_tls_peer *sw_peer_new(size_t extra, void **ret_room);
const struct sw_tls_peer *sw_peer_ref(const struct sw_tls_peer *p);
/* Accepts NULL; always returns NULL. */
const struct sw_tls_peer *sw_peer_unref(const struct sw_tls_peer *p);
