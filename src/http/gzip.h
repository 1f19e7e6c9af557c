/* SPDX-License-Identifier: Apache-2.0 */
/* gzip for response bodies, and the negotiation of it. zlib stays behind this header. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/slice.h"

/* Appends the compressed bytes. SW_ELIMIT when out is full (out may hold a part then). */
SW_NODISCARD int sw_gzip(struct sw_slice in, struct sw_buf *out);
/* True when this Accept-Encoding value allows gzip (q-values respected, "*" counts). */
bool sw_gzip_accepted(struct sw_slice accept_encoding);
