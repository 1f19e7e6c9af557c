/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing a host for a request or connection, and what became of it. */
#pragma once

#include "gateway/upstream/host.h"

enum { SW_GW_NO_HOST = -50 }; /* a result beside those of base/err.h */

/*
 * A host of the named cluster for one request or connection, counted as active, with a reference
 * for the caller. SW_ENOENT: no such cluster; SW_ELIMIT: a circuit limit; SW_GW_NO_HOST: no usable
 * member.
 */
SW_NODISCARD int sw_gw_lb_pick(struct sw_gw_hosts *hs, const struct sw_gw_config *c,
                               struct sw_slice cluster, const struct sw_gw_pick *pick,
                               struct sw_gw_host **ret);

enum { SW_GW_HOSTS_MAX = 3 }; /* tried for one request while none has accepted a connection */

/*
 * No connection to 'h' could be made for the caller, which has sent nothing. Adds it to pick->tried
 * and counts a failover; false when there is no other host to try.
 */
SW_NODISCARD bool sw_gw_lb_fail_over(struct sw_gw_hosts *hs, const struct sw_gw_host *h,
                                     struct sw_gw_pick *pick);
/* Adds to pick->tried, once. */
void sw_gw_pick_tried(struct sw_gw_pick *pick, const struct sw_gw_member *m);

/* The attempt is over: counters, outlier ejection. Drops the caller's reference. */
void sw_gw_lb_done(struct sw_gw_hosts *hs, struct sw_gw_host *h, enum sw_gw_result how, int status);
/* Takes a slot for a retry from the cluster's limit or budget; given back by sw_gw_retry_give. */
SW_NODISCARD bool sw_gw_retry_take(struct sw_gw_hosts *hs, struct sw_slice cluster);
void sw_gw_retry_give(struct sw_gw_hosts *hs, struct sw_slice cluster);
