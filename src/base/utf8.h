/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

/* True when the bytes are well-formed (no surrogates, no overlong forms). */
bool sw_utf8_valid(struct sw_slice a);
/* Length of the well-formed sequence at a place with n bytes left, at least one; 0: it is none. */
size_t sw_utf8_len(const char *at, size_t n);
/* Writes a code point up to U+10FFFF; the number of bytes. */
size_t sw_utf8_put(char to[4], uint32_t c);
/*
 * Replaces each byte of control characters (C0, DEL, C1) and of what is not UTF-8 in place: text of
 * others must not control the terminal that shows it.
 */
void sw_utf8_mask(char *text, size_t n, char with);
