/* SPDX-License-Identifier: Apache-2.0 */
/* Active health checks. */
#pragma once

struct sw_gw_cluster;
struct sw_loop;

struct sw_gw_health;
/* Checks the members of a cluster and lets ejected ones back. NULL when there is nothing to do. */
struct sw_gw_health *sw_gw_health_new(struct sw_loop *l, struct sw_gw_cluster *c);
/* A new version of the same cluster; checks of members that stay continue. */
void sw_gw_health_update(struct sw_gw_health *h, struct sw_gw_cluster *c);
void sw_gw_health_free(struct sw_gw_health *h);
