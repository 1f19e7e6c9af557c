/* SPDX-License-Identifier: Apache-2.0 */
/* Certificate signing requests of workloads (PKCS #10). */
#pragma once

#include "base/buf.h"
#include "base/def.h"
#include "base/err.h"
#include "base/slice.h"

/*
 * A new P-256 key and a request for a certificate with this SPIFFE identity: empty subject, one
 * critical URI SAN, signed with ECDSA and SHA-256. Appends PEM to both; the key is as sw_pkcs8_pem
 * writes it, and callers overwrite it after use.
 *
 * Returns SW_OK, SW_EINVAL (not a SPIFFE identity) or SW_ELIMIT (a buffer is full).
 */
SW_NODISCARD int sw_csr_new(struct sw_slice identity, struct sw_buf *ret_csr,
                            struct sw_buf *ret_key, struct sw_err *err);
/* The same request for a key that exists (PEM). SW_EINVAL for a key that does not parse, too. */
SW_NODISCARD int sw_csr_of_key(struct sw_slice identity, struct sw_slice key_pem,
                               struct sw_buf *ret_csr, struct sw_err *err);

/*
 * Appends the public key (SubjectPublicKeyInfo, DER) of a request (PEM) that is signed by that key.
 * SW_EINVAL (does not parse, another's signature, a weak key) or SW_ELIMIT.
 */
SW_NODISCARD int sw_csr_public_key(struct sw_slice csr, struct sw_buf *ret_spki,
                                   struct sw_err *err);
