/* SPDX-License-Identifier: Apache-2.0 */
/* One question about Ed25519 public keys that GnuTLS does not answer. Values are public. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * True when the 32 bytes are the canonical encoding (RFC 8032, 5.1.3) of a point of the curve whose
 * order is not small: a signature verifies under a point of small order without any secret.
 */
bool sw_ed25519_point_ok(const uint8_t p[32]);
