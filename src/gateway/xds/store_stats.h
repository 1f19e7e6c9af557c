/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics of clusters. Their names are labels, so their number is bounded: further ones are counted
 * under 'overflow'. */
#pragma once

struct sw_gw_res;
struct sw_gw_store;

/* Brings the metrics of clusters up to date; on the main thread, whose shard the store has. */
void sw_gw_stats_scrape(struct sw_gw_store *s);
/*
 * The cluster r goes. Its gauges go with it; what its last requests count is told until the last of
 * them is over.
 */
void sw_gw_stats_leave(struct sw_gw_store *s, struct sw_gw_res *r);
/* Tells what clusters that went counted since, and forgets those nobody uses any more. */
void sw_gw_stats_sweep(struct sw_gw_store *s);
/* With the store: forgets all of them. */
void sw_gw_stats_done(struct sw_gw_store *s);
