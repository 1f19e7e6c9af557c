/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a root of our own is followed by another without a broken connection: a new root is announced
 * (all peers trust both, the old one signs), then used (all peers trust both, the new one signs),
 * then the old one is forgotten. Each step waits until certificates and bundles of the step before
 * have spread or expired. A pure function of the material and the time.
 */
#pragma once

#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"

struct sw_ca_material;

struct sw_rotation_opts {
    struct sw_slice trust_domain; /* for a root that names none; may be empty otherwise */
    uint64_t wait_s;              /* from the announcement until the new root signs */
    uint64_t linger_s;            /* from then until the old one is forgotten */
};

enum sw_rotation_step {
    SW_ROTATION_NONE,
    SW_ROTATION_ANNOUNCE,
    SW_ROTATION_SWITCH,
    SW_ROTATION_FORGET,
};
const char *sw_rotation_name(enum sw_rotation_step step);

/* The step that comes next. */
enum sw_rotation_step sw_rotation_next(const struct sw_ca_material *m);
/*
 * When it is due, in seconds since the epoch: a new root is announced when a fifth of the life of
 * the old one is left. UINT64_MAX: never, because the CA is plugged in.
 */
SW_NODISCARD int sw_rotation_due(const struct sw_ca_material *m, const struct sw_rotation_opts *o,
                                 uint64_t *ret_s, struct sw_err *err);
/* Does the next step; texts that change are in the arena. */
SW_NODISCARD int sw_rotation_do(struct sw_arena *a, const struct sw_ca_material *m,
                                const struct sw_rotation_opts *o, uint64_t now_s,
                                struct sw_ca_material *ret, struct sw_err *err);
