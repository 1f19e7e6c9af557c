/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data planes connect to any replica of the control plane, and only the leader writes statuses. So
 * every replica keeps a Lease that says in an annotation what its data planes made of their
 * listeners (planes.h), and reads those of the others. One that was not renewed for as long as it
 * claims to last counts for nothing, and is deleted.
 */
#pragma once

#include <stdbool.h>

#include "control/gateway/planes.h"
#include "kube/client/client.h"

struct sw_plane_peers;

/* identity: unique for this process; empty: made up. changed: another replica has published
 * something new.
 */
struct sw_plane_peers *sw_plane_peers_new(struct sw_kube_client *c, struct sw_slice ns,
                                          struct sw_slice identity, void (*changed)(void *arg),
                                          void *arg);
/* Before the client. NULL is fine. */
void sw_plane_peers_free(struct sw_plane_peers *p);
/* What this replica's data planes say (copied); written when it changed, and renewed. */
void sw_plane_peers_publish(struct sw_plane_peers *p, struct sw_slice text);
/* Adds what the others say. */
void sw_plane_peers_add(const struct sw_plane_peers *p, struct sw_planes *to);
/* True once the others' Leases were read. */
bool sw_plane_peers_synced(const struct sw_plane_peers *p);
/* This replica ends: its Lease is deleted, as far as the API can be reached. */
void sw_plane_peers_leave(struct sw_plane_peers *p);
