/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verifies a presented chain: signatures, validity, purpose, revocation, identities. Success is
 * remembered per thread, so that a peer that connects again costs one hash instead of two signature
 * checks. What depends on the connection (expected identity, trust domain) is judged every time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/def.h"
#include "base/err.h"
#include "base/slice.h"
#include "tls/cert/cred.h"
#include "tls/peer.h"

enum { SW_VERIFY_CACHE_MAX = 4096 }; /* chains per thread */

struct sw_verify_in {
    const struct sw_tls_cred *cred;
    bool peer_is_client;
    const struct sw_slice *chain; /* DER, leaf first */
    size_t n;
};

/*
 * On SW_OK *ret_peer is a reference owned by the caller. Otherwise SW_EDENIED and *ret_alert is the
 * alert to send.
 */
SW_NODISCARD int sw_verify_chain(const struct sw_verify_in *in, const struct sw_tls_peer **ret_peer,
                                 uint8_t *ret_alert, struct sw_err *err);

/*
 * Looks the certificates of a peer up in newer revocations. Returns SW_OK, or SW_EDENIED naming the
 * revoked serial.
 */
SW_NODISCARD int sw_verify_recheck(const struct sw_tls_peer *p, const struct sw_tls_cred *cred,
                                   struct sw_err *err);

/* How many verdicts came from memory on this thread; for tests. */
uint64_t sw_verify_cache_hits(void);
/* Forgets all verdicts of this thread. */
void sw_verify_cache_clear(void);
