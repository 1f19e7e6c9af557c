/* SPDX-License-Identifier: Apache-2.0 */
/* Tickets: a NodeID with the addresses it can be reached at, as text. */
#pragma once

#include "base/arena.h"
#include "quic/id/nodeid.h"

/* "endpoint" + base32; addresses sorted. In the arena. */
struct sw_slice sw_ticket_write(struct sw_arena *a, const struct sw_quic_target *t);
/* SW_EINVAL, SW_ELIMIT. Custom addresses and all relays but the first are dropped. */
SW_NODISCARD int sw_ticket_parse(struct sw_arena *a, struct sw_slice in, struct sw_quic_target *ret,
                                 struct sw_err *err);
