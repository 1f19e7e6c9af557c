/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which Gateways each client of the xDS server may have, by RBAC: those who may get /xds have all,
 * Ingresses included; others the Gateways NS/NAME of which they may get /xds/NS/NAME. What a client
 * says of itself (its node's id and cluster) counts for nothing.
 */
#pragma once

#include "base/err.h"
#include "base/slice.h"
#include "xds/server.h"

struct sw_api;
struct sw_control_access;
struct sw_gateway_controller;
struct sw_control_views;

/* One of api and access judges; both are borrowed. */
struct sw_control_views *sw_control_views_new(struct sw_loop *l, struct sw_api *api,
                                              struct sw_control_access *access);
/* NULL is fine. */
void sw_control_views_free(struct sw_control_views *v);
/* From when on there are streams, and a controller that makes the views' content. */
void sw_control_views_start(struct sw_control_views *v, struct sw_xds_server *s,
                            struct sw_gateway_controller *c);
/* Rights may have changed: all streams are looked at, from the loop. */
void sw_control_views_changed(void *v);

/* For struct sw_xds_server_opts. */
int sw_control_views_allow(struct sw_control_views *v, const struct sw_xds_client_id *id,
                           struct sw_err *err);
int sw_control_views_view(struct sw_control_views *v, const struct sw_xds_client_id *id,
                          char ret[SW_XDS_VIEW_MAX], struct sw_err *err);
/* For struct sw_gateway_controller_opts. */
void sw_control_views_gateways(struct sw_control_views *v, struct sw_slice names);
/* For struct sw_plane_watch_opts. */
struct sw_slice sw_control_views_of(struct sw_control_views *v, struct sw_slice view);
