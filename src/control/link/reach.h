/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which peers answer, as the heartbeats of this process see it. The controller of links takes the
 * JSON form as its input (sw_control_set_input) and writes PeerReachable and status.labels of Peers
 * from it; decisions read the snapshot itself.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/slice.h"
#include "policy/attr.h"

struct sw_link_reach {
    struct sw_slice peer;
    bool reachable;
    struct sw_attrs labels; /* the peer's own, as of its last answer; none while unreachable */
    uint64_t since_s;       /* wall clock of the last change of 'reachable' */
};

/*
 * {"peers":{"NAME":{"reachable":true,"since":1763430000,"labels":{"k":"v"}}}}, sorted by name.
 * Peers that were never probed to an end are not in it (absent: keep the condition as it is).
 */
struct sw_slice sw_link_reach_json(struct sw_arena *a, const struct sw_link_reach *p, size_t n);
