/* SPDX-License-Identifier: Apache-2.0 */
/* Keyed hash for tables whose keys a peer may choose (SipHash-1-3, key drawn at start). */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* SipHash-1-3 under an explicit key: for tests and for stable sharding. */
uint64_t sw_siphash13(uint64_t k0, uint64_t k1, const void *p, size_t n);
/* The variant with 128 bits of output. */
void sw_siphash13_128(uint64_t k0, uint64_t k1, const void *p, size_t n, uint64_t ret[2]);
/* Under the process's own random key. Not stable between processes. */
uint64_t sw_hash(const void *p, size_t n);
