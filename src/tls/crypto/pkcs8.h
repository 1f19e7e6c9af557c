/* SPDX-License-Identifier: Apache-2.0 */
/* Private keys as text (PKCS#8, RFC 5208), in the form strict parsers accept. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

struct gnutls_x509_privkey_int;

/*
 * Appends the key as a PEM block "PRIVATE KEY". The private value of an elliptic curve key has the
 * length of the curve's order, as RFC 5915 section 3 requires; GnuTLS alone writes it as an
 * integer, one byte longer or some bytes shorter. Callers overwrite the buffer after use.
 *
 * Returns SW_OK, SW_ELIMIT when the buffer is too small, SW_EINVAL for a key GnuTLS cannot write.
 */
SW_NODISCARD int sw_pkcs8_pem(struct gnutls_x509_privkey_int *key, struct sw_buf *out,
                              struct sw_err *err);
