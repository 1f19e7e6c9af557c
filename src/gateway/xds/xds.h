/* SPDX-License-Identifier: Apache-2.0 */
/* Resources from an xDS server. */
#pragma once

#include "base/err.h"
#include "base/slice.h"
#include <stdbool.h>

struct sw_gw_store;
struct sw_loop;
struct sw_metrics_shard;

struct sw_gw_xds;
struct sw_xds_client_opts;

/*
 * Subscribes over delta ADS to all clusters and listeners, and to the routes, endpoints and secrets
 * they name. Options as in xds/client.h. NULL with err. What was learnt stays when the server goes.
 */
SW_NODISCARD struct sw_gw_xds *sw_gw_xds_new(struct sw_gw_store *s, struct sw_loop *l,
                                             const struct sw_xds_client_opts *o,
                                             struct sw_err *err);
struct sw_gateway_config;
/* The same from the options of the command (--xds-addr and friends). */
SW_NODISCARD struct sw_gw_xds *sw_gw_xds_open(struct sw_gw_store *s, struct sw_loop *l,
                                              const struct sw_gateway_config *c,
                                              struct sw_metrics_shard *shard, struct sw_err *err);
/* What is wrong with listeners that were accepted (copied); empty: nothing. Goes to the server as
 * the reason of a refusal, and with every answer until it changes. */
void sw_gw_xds_set_trouble(struct sw_gw_xds *x, struct sw_slice text);
/* The workers opened the sockets of the newest listeners, or could not: the server is answered. */
void sw_gw_xds_applied(struct sw_gw_xds *x);
/* Before the store is freed. NULL is fine. */
void sw_gw_xds_free(struct sw_gw_xds *x);
