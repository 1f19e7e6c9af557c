/* SPDX-License-Identifier: Apache-2.0 */
/* Members whose addresses come from DNS. */
#pragma once

#include "gateway/upstream/cluster.h"

struct sw_loop;

struct sw_gw_dns;
/* The members resolved so far, with a reference for the callee; called again after every change. */
typedef void (*sw_gw_dns_cb)(struct sw_gw_members *m, void *arg);
/*
 * Keeps the host names among 'base' resolved. NULL when there are none. The first answer, or
 * failure, is always reported.
 */
struct sw_gw_dns *sw_gw_dns_new(struct sw_loop *l, const struct sw_gw_cluster_spec *spec,
                                struct sw_gw_members *base, unsigned n_workers, sw_gw_dns_cb cb,
                                void *arg);
void sw_gw_dns_free(struct sw_gw_dns *d);
