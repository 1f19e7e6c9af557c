/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What data planes made of their listeners, by the names of the sockets: those they serve and those
 * they could not bind. As text it is an input of the build, and what replicas of the control plane
 * exchange. No I/O here.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/map.h"
#include "base/slice.h"

enum { SW_PLANES_MAX = 8192 }; /* names of each kind */

struct sw_plane_fault {
    struct sw_slice node; /* the data plane that says so */
    struct sw_slice why;
};

/* Zeroed: nothing is known. Texts live in the arena. */
struct sw_planes {
    struct sw_arena arena;
    bool starting;        /* data planes may be about to reconnect: what was served still is */
    size_t n;             /* data planes that are connected */
    struct sw_map held;   /* name -> not NULL: some data plane serves it */
    struct sw_map faults; /* name -> struct sw_plane_fault: some data plane could not bind it */
};

/* The name under which a listener is held for one Gateway only. */
struct sw_slice sw_planes_name(struct sw_arena *a, struct sw_slice listener,
                               struct sw_slice gateway);
void sw_planes_done(struct sw_planes *p);
/* Beyond SW_PLANES_MAX names nothing is added. The first fault of a name counts. */
void sw_planes_hold(struct sw_planes *p, struct sw_slice name);
void sw_planes_fault(struct sw_planes *p, struct sw_slice name, struct sw_slice node,
                     struct sw_slice why);
/*
 * The faults in the reason of a refusal: "Error adding/updating listener(s) NAME: WHY", a line for
 * each further listener, as Envoy and our gateway word it. 'known' says which names are listeners
 * of ours; other lines are skipped. The text comes from the network.
 */
void sw_planes_refusal(struct sw_planes *p, struct sw_slice node, struct sw_slice text,
                       bool (*known)(void *arg, struct sw_slice name), void *arg);
/* Lines, sorted: equal states give equal text. SW_ELIMIT when out is full. */
SW_NODISCARD int sw_planes_write(const struct sw_planes *p, struct sw_buf *out);
/* Adds what such a text says. Lines it does not know are skipped. */
void sw_planes_read(struct sw_planes *p, struct sw_slice text);

/* Reason of a condition for a fault: AddressInUse, AddressNotUsable or Invalid. */
const char *sw_plane_reason(const struct sw_plane_fault *f);
