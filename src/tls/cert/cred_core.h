/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a credential, for the files of this directory and the handshakes of src/quic. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "tls/cert/cred.h"

struct gnutls_certificate_credentials_st;
struct gnutls_x509_trust_list_st;

struct gnutls_certificate_credentials_st *sw_cred_gnutls(const struct sw_tls_cred *c);
struct gnutls_x509_trust_list_st *sw_cred_trust(const struct sw_tls_cred *c);
/* True when c has a chain and a key. */
bool sw_cred_can_serve(const struct sw_tls_cred *c);
/* Names roots and revocations together: verdicts under one are void under another. 32 bytes. */
struct sw_slice sw_cred_bundle_hash(const struct sw_tls_cred *c);
/* True when some CRL of c lists the certificate. */
bool sw_cred_revoked(const struct sw_tls_cred *c, struct sw_slice issuer, struct sw_slice serial);
