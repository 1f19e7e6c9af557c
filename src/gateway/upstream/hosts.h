/* SPDX-License-Identifier: Apache-2.0 */
/* The hosts a worker has used, kept across snapshots. */
#pragma once

#include "gateway/upstream/host.h"

struct sw_gw_host *sw_gw_host_ref(struct sw_gw_host *h);
/* Returns NULL. */
struct sw_gw_host *sw_gw_host_unref(struct sw_gw_host *h);

/* The clusters and hosts a worker has used. */
struct sw_gw_hosts;
struct sw_gw_hosts *sw_gw_hosts_new(struct sw_gw_worker *w);
/* A new snapshot arrived: settles which hosts stay, releases the pools of the others. */
void sw_gw_hosts_apply(struct sw_gw_hosts *hs, const struct sw_gw_config *c);
void sw_gw_hosts_free(struct sw_gw_hosts *hs);

/* NULL: neither used before nor in the snapshot. */
struct sw_gw_wcluster *sw_gw_wcluster_get(struct sw_gw_hosts *hs, const struct sw_gw_config *c,
                                          struct sw_slice name);
/* This worker's host for a member; borrowed. */
struct sw_gw_host *sw_gw_wcluster_host(struct sw_gw_wcluster *wc, struct sw_gw_member *m);
