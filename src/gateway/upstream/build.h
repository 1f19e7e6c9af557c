/* SPDX-License-Identifier: Apache-2.0 */
/* Clusters and their members, compiled. */
#pragma once

#include "gateway/config/build.h"
#include "gateway/upstream/cluster.h"

struct Sw__Cluster;
struct Sw__TransportSocket;

/* The object comes with one reference. */
struct sw_gw_cluster_spec *sw_gw_build_cluster(struct sw_gw_build *b, struct sw_slice bytes,
                                               struct sw_gw_tls **ret_tls,
                                               struct sw_slice *ret_inline_members);
/*
 * Members of a cluster from a ClusterLoadAssignment; those of 'old' with the same key are kept.
 * names: host names are allowed (DNS clusters); they become members without an IP.
 */
struct sw_gw_members *sw_gw_build_members(struct sw_gw_build *b, struct sw_slice bytes, bool names,
                                          const struct sw_gw_members *old, unsigned n_workers);
struct sw_gw_members *sw_gw_members_empty(void);

/* build_lb.c: load balancing. After the discovery type. */
SW_NODISCARD int sw_gw_build_lb(struct sw_gw_build *b, const struct Sw__Cluster *in,
                                struct sw_gw_cluster_spec *s);
/* build_tls.c: as sw_gw_build_tls_up, and what internal_upstream says goes to the spec. */
SW_NODISCARD int sw_gw_build_up_socket(struct sw_gw_build *b, const struct Sw__TransportSocket *s,
                                       struct sw_gw_cluster_spec *spec, struct sw_gw_tls **ret);
/*
 * Where sockets are chosen by a member's metadata, *tls (the one for the rest,
 * or NULL) becomes one of several; see sw_gw_tls_for. The reference moves.
 */
SW_NODISCARD int sw_gw_build_tls_matches(struct sw_gw_build *b, const struct Sw__Cluster *in,
                                         struct sw_gw_cluster_spec *spec, struct sw_gw_tls **tls);
