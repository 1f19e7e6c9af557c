/* SPDX-License-Identifier: Apache-2.0 */
/* The gateways that may connect, by their keys. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/slice.h"
#include "base/vec.h"
#include "quic/id/nodeid.h"

enum { SW_PEERS_MAX = 4096 };

/* Sorted, each once. A zeroed struct is an empty set, which admits no peer. */
struct sw_peers {
    SW_VEC(struct sw_nodeid) ids;
};

void sw_peers_done(struct sw_peers *p);
/* Idempotent. SW_ELIMIT. */
SW_NODISCARD int sw_peers_add(struct sw_peers *p, const struct sw_nodeid *id, struct sw_err *err);
/*
 * A list as the annotation has it: ids separated by commas, blanks around them ignored. What is no
 * id is left out; returns how many, with the reason of the last in err.
 */
SW_NODISCARD size_t sw_peers_add_list(struct sw_peers *p, struct sw_slice list, struct sw_err *err);
bool sw_peers_has(const struct sw_peers *p, const struct sw_nodeid *id);
bool sw_peers_equal(const struct sw_peers *a, const struct sw_peers *b);
