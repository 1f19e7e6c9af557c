/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/arena.h"
#include "base/slice.h"

/*
 * The canonical name of an HTTPProxy: two words, a dash, five characters, all from a hash of its
 * Gateway's uid, below the domain. In the arena. A name once given stays
 * (status.canonicalHostname), whatever becomes of that Gateway.
 */
struct sw_slice sw_connector_hostname(struct sw_arena *a, struct sw_slice uid,
                                      struct sw_slice domain);
