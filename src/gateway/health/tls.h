/* SPDX-License-Identifier: Apache-2.0 */
/* TLS for checks that speak bytes: one short conversation over a connected socket. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

struct sw_gw_check_tls;
struct sw_gw_tls_want;

/* Begins the handshake. 'want' is borrowed; so is the socket. NULL with err. */
SW_NODISCARD struct sw_gw_check_tls *sw_gw_check_tls_new(const struct sw_gw_tls_want *want, int fd,
                                                         struct sw_err *err);
/* NULL is fine. */
void sw_gw_check_tls_free(struct sw_gw_check_tls *t);
/* True once the handshake ended well. */
bool sw_gw_check_tls_open(const struct sw_gw_check_tls *t);
/* Takes what the socket has; appends what the peer said. SW_EAGAIN: nothing more for now; anything
 * else is the end. */
SW_NODISCARD int sw_gw_check_tls_read(struct sw_gw_check_tls *t, struct sw_buf *plain,
                                      struct sw_err *err);
/* Only when open, and not more than a record holds. */
SW_NODISCARD int sw_gw_check_tls_write(struct sw_gw_check_tls *t, struct sw_slice data,
                                       struct sw_err *err);
