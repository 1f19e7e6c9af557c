/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NodeIDs that the control plane knows: of devices (Connectors) and of gateways (ConfigMaps in its
 * own namespace). Snapshots are immutable and counted, as the access lists are; known ids stay
 * known while the API is unreachable.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "io/loop.h"
#include "tls/cert/rawkey.h"

struct relay_roster;        /* a snapshot */
struct relay_roster_follow; /* what keeps it current */

enum relay_kin {
    RELAY_STRANGER,
    RELAY_DEVICE,
    RELAY_GATEWAY, /* carries what is for many devices: no rate limit */
};

enum relay_kin relay_roster_find(const struct relay_roster *r, const struct sw_nodeid *id);
size_t relay_roster_count(const struct relay_roster *r, enum relay_kin kin);
struct relay_roster *relay_roster_ref(struct relay_roster *r);
/* Accepts NULL; returns NULL. */
struct relay_roster *relay_roster_unref(struct relay_roster *r);

/* A reference is handed over with each change. complete: all lists were read once. */
typedef void (*relay_roster_cb)(void *arg, struct relay_roster *r, bool complete);

/*
 * kubeconfig: a file. The first snapshot, an empty one, is handed over at once. NULL: SW_EINVAL,
 * SW_ENOENT (the file).
 */
SW_NODISCARD struct relay_roster_follow *relay_roster_follow(struct sw_loop *l,
                                                             const char *kubeconfig,
                                                             relay_roster_cb cb, void *arg,
                                                             struct sw_err *err);
/* Accepts NULL. */
void relay_roster_unfollow(struct relay_roster_follow *f);
