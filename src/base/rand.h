/* SPDX-License-Identifier: Apache-2.0 */
/* Randomness: from the kernel for secrets and ids, a fast per-thread generator for choices. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Unpredictable bytes from getrandom(2). */
void sw_rand_bytes(void *p, size_t n);
/* Fast, per thread, good enough for load balancing and jitter; never for secrets. */
uint64_t sw_rand_u64(void);
/* A random UUID (version 4) in small letters. Returns out. */
enum { SW_UUID_LEN = 37 };
char *sw_uuid(char out[SW_UUID_LEN]);
/* Uniform in [0, bound); bound must not be 0. */
uint64_t sw_rand_below(uint64_t bound);
