/* SPDX-License-Identifier: Apache-2.0 */
/*
 * X25519 (RFC 7748). Takes the same steps and touches the same memory whatever the secret is.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct sw_fe;

/* q = n * p; every 32 bytes are a point and a scalar. The result may be all zeros: callers refuse
 * it. q may be n or p. */
void sw_x25519(uint8_t q[32], const uint8_t n[32], const uint8_t p[32]);
/* q = n * 9, the public key that belongs to n. */
void sw_x25519_base(uint8_t q[32], const uint8_t n[32]);

/* Uses the portable ladder even where the CPU has AVX-512 IFMA: for tests, before threads. */
void sw_x25519_portable(bool portable);

/* The ladder for CPUs with AVX-512 IFMA: *x / *z = n * u. n is clamped, u below 2^255. */
bool sw_x25519_ifma_ok(void);
void sw_x25519_ifma(const uint8_t n[32], const struct sw_fe *u, struct sw_fe *x, struct sw_fe *z);
