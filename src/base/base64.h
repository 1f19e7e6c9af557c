/* SPDX-License-Identifier: Apache-2.0 */
/* Base64 (RFC 4648), standard alphabet with padding. */
#pragma once

#include "base/buf.h"
#include "base/def.h"

/* Appends the encoding of s. SW_ELIMIT: buffer full. */
SW_NODISCARD int sw_base64_append(struct sw_buf *out, struct sw_slice s);
/*
 * Appends what the text decodes to. Refuses anything but canonical, padded input (no white space):
 * SW_EINVAL. SW_ELIMIT: buffer full.
 */
SW_NODISCARD int sw_base64_decode(struct sw_buf *out, struct sw_slice text);
