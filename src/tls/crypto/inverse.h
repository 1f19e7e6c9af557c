/* SPDX-License-Identifier: Apache-2.0 */
/* Inverses modulo the primes of the curves, in a time that does not depend on the number. */
#pragma once

#include <stdint.h>

#include "tls/crypto/mont256.h"

/* A prime above 2^254, and what sw_inverse needs of it. */
struct sw_inverse_mod {
    int64_t m[5];     /* in digits of 62 bits, least significant first */
    uint64_t inverse; /* 1 / m modulo 2^62 */
};

extern const struct sw_inverse_mod sw_inverse_p256_p;
extern const struct sw_inverse_mod sw_inverse_p256_n;
extern const struct sw_inverse_mod sw_inverse_25519;

/* r = 1 / a modulo m; 0 for 0. a is below m. r may be a. */
void sw_inverse(struct sw_n256 *r, const struct sw_n256 *a, const struct sw_inverse_mod *m);
