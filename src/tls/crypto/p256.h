/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The curve P-256 (secp256r1): multiplication of points, ECDSA. Whatever involves a secret takes
 * the same steps and touches the same memory for every value of it. Numbers are plain (not
 * Montgomery's form), least significant word first.
 */
#pragma once

#include <stdbool.h>

#include "tls/crypto/mont256.h"

struct sw_p256_point {
    struct sw_n256 x;
    struct sw_n256 y;
};

/* True when k is from 1 to n - 1. k may be secret. */
bool sw_p256_scalar_ok(const struct sw_n256 *k);
/* True when p is a point of the curve, with coordinates below the prime. Public values. */
bool sw_p256_point_ok(const struct sw_p256_point *p);

/* *ret = k * G, k from 1 to n - 1. */
void sw_p256_base(const struct sw_n256 *k, struct sw_p256_point *ret);
/* *ret = k * p, k from 1 to n - 1, p a point of the curve. */
void sw_p256_mul(const struct sw_n256 *k, const struct sw_p256_point *p, struct sw_p256_point *ret);

/*
 * Signs a digest of any length (FIPS 186-4) with a nonce k that is unpredictable and used once. key
 * and k are from 1 to n - 1. False when r or s is 0: the caller takes another k.
 */
bool sw_p256_sign(const struct sw_n256 *key, const struct sw_n256 *k, const uint8_t *digest,
                  size_t n, struct sw_n256 *ret_r, struct sw_n256 *ret_s);
/* Verifies; r and s may have any value, pub is a point of the curve. Takes a time that depends on
 * all of them: they are public. */
bool sw_p256_verify(const struct sw_p256_point *pub, const uint8_t *digest, size_t n,
                    const struct sw_n256 *r, const struct sw_n256 *s);

/* True when the CPU has MULX and ADX. */
bool sw_p256_adx_ok(void);
/* Uses the portable arithmetic even where the CPU has MULX and ADX: for tests, before threads. */
void sw_p256_portable(bool portable);
