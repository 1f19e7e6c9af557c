/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys of session tickets (RFC 5077, RFC 8446 4.6.1). A ticket carries a whole session and opens
 * under the key it was sealed with, so there is one key per set of rules: what one listener and one
 * way of judging client certificates gave out is worth nothing anywhere else.
 */
#pragma once

#include <stdint.h>

#include "base/def.h"
#include "base/err.h"
#include "base/slice.h"

enum { SW_TLS_TICKET_KEY = 64 };

/*
 * The key for a scope, any text. master: secret bytes shared by the processes that may open the
 * tickets; empty: random ones of this process, the same for all its threads. The library changes
 * the key that seals with the time of day and keeps the one before.
 *
 * Returns SW_OK, or SW_EINVAL when the system has no random bytes.
 */
SW_NODISCARD int sw_tls_ticket_key(struct sw_slice master, struct sw_slice scope,
                                   uint8_t ret[SW_TLS_TICKET_KEY], struct sw_err *err);
