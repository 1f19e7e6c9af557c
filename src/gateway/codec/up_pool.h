/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to upstream hosts, kept by host and server name. */
#pragma once

struct sw_exchange;
struct sw_gw_pool;
struct sw_gw_worker;

/*
 * Requests a connection to x->host; sw_exchange_up_ready or _up_failed follows, maybe from inside
 * the call.
 */
void sw_gw_pool_get(struct sw_exchange *x);
/* Takes x out of the queue of its pool again. No effect when it is in none. */
void sw_gw_pool_cancel(struct sw_exchange *x);
/* The host is going (config change, shutdown): idle connections are closed, busy ones when they are
 * done; the pool frees itself. NULL is fine. The host must not use it afterwards. */
void sw_gw_pool_release(struct sw_gw_pool *p);
/* The worker drains: connections to listeners of its own are not kept for later any more. */
void sw_gw_pools_drain(struct sw_gw_worker *w);
/* The worker ends and has no exchanges any more: what still dials, or waits for its peer, is closed
 * too. The loop frees it. */
void sw_gw_pools_close(struct sw_gw_worker *w);
