/* SPDX-License-Identifier: Apache-2.0 */
/* What `spanwire control` shows of itself: metrics, and what its data planes acknowledged. */
#pragma once

struct sw_api;
struct sw_buf;
struct sw_control_gateway;
struct sw_control_mesh_xds;
struct sw_control_pages;
struct sw_metrics;
struct sw_metrics_shard;

/* With an API of ours (may be NULL) they are pages of it: /metrics and /debug/xds. */
struct sw_control_pages *sw_control_pages_new(struct sw_api *api);
/* After whoever counts in its shard, and after the API. NULL is fine. */
void sw_control_pages_free(struct sw_control_pages *p);
/* For all that run on the loop to count in. */
struct sw_metrics_shard *sw_control_pages_metrics(const struct sw_control_pages *p);
struct sw_metrics *sw_control_pages_registry(const struct sw_control_pages *p);
/* Whose data planes there are; borrowed, either may be NULL. */
void sw_control_pages_show(struct sw_control_pages *p, const struct sw_control_gateway *g,
                           const struct sw_control_mesh_xds *m);
/* JSON: controllers, and what each data plane has acknowledged. */
void sw_control_pages_status(const struct sw_control_pages *p, struct sw_buf *out);
