/* SPDX-License-Identifier: Apache-2.0 */
/* Base32 without padding, most significant bits first, in the alphabets of NodeIDs and tickets. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

extern const char sw_base32_rfc4648[33]; /* lower case */
extern const char sw_base32_z[33];       /* z-base-32 */

/* Writes (8 * n + 4) / 5 characters, no NUL. */
void sw_base32_write(const char *alphabet, const uint8_t *p, size_t n, char *out);
/*
 * Writes text.n * 5 / 8 bytes. False for a character that is none (fold: upper case counts as
 * lower), for a length no encoding has, and for bits left over that are not zero.
 */
SW_NODISCARD bool sw_base32_read(const char *alphabet, bool fold, struct sw_slice text,
                                 uint8_t *out);
