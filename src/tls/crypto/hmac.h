/* SPDX-License-Identifier: Apache-2.0 */
/* Message authentication codes, for protocols that carry their own (TSIG). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

enum { SW_HMAC_SHA256 = 32 };

/* HMAC-SHA256 over the parts as if they were one. */
void sw_hmac_sha256(struct sw_slice key, const struct sw_slice *parts, size_t n,
                    uint8_t ret[SW_HMAC_SHA256]);
/* Compares in a time that does not depend on the content. */
bool sw_secret_eq(const void *a, const void *b, size_t n);
