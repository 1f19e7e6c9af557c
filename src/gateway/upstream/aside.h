/* SPDX-License-Identifier: Apache-2.0 */
/* Members that refuse connections are set aside for a while. */
#pragma once

#include "gateway/upstream/host.h"

/* A connection to the member failed, before anything was sent. */
void sw_gw_aside_failed(const struct sw_gw_cluster *c, struct sw_gw_member *m, uint64_t now_ns,
                        const char *why);
/* A connection succeeded. */
void sw_gw_aside_connected(const struct sw_gw_cluster *c, struct sw_gw_member *m, uint64_t now_ns);
/* A member whose time aside is over and that this request shall try; NULL: none. */
struct sw_gw_member *sw_gw_aside_due(const struct sw_gw_cluster *c, const struct sw_gw_pick *pick,
                                     uint64_t now_ns);
