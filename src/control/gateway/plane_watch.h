/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows what data planes make of their listeners, here and at other replicas, and reports it to
 * the controller, which writes it to statuses. What was served counts as served for a while after a
 * data plane disconnected or the control plane started. Listeners refused by data planes that do
 * not try again themselves (Envoy) are sent to them again from time to time.
 */
#pragma once

#include "base/slice.h"
#include "io/loop.h"

struct sw_gateway_controller;
struct sw_plane_watch;
struct sw_kube_client;
struct sw_xds_cache;
struct sw_xds_server;

/* Everything is borrowed. */
struct sw_plane_watch_opts {
    struct sw_loop *loop;
    struct sw_xds_server *server;
    struct sw_xds_cache *cache;
    struct sw_gateway_controller *controller;
    struct sw_kube_client *client;
    struct sw_slice lease_ns; /* empty: there are no other replicas */
    struct sw_slice identity;
    /* The Gateways of a view, "ns/name" each, by spaces; NULL: there are no views. */
    struct sw_slice (*gateways_of)(void *arg, struct sw_slice view);
    void *arg;
};

struct sw_plane_watch *sw_plane_watch_new(const struct sw_plane_watch_opts *o);
/* Called by the server after a change. NULL is fine. */
void sw_plane_watch_changed(struct sw_plane_watch *w);
/* This replica ends, and publishes that to the others. NULL is fine. */
void sw_plane_watch_leave(struct sw_plane_watch *w);
/* After the server was freed, before the controller and the client. NULL is fine. */
void sw_plane_watch_free(struct sw_plane_watch *w);
