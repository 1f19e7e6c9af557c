/* SPDX-License-Identifier: Apache-2.0 */
/* What the store keeps and its readers share: versions of objects, events. */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

/* One version of one object. Immutable and counted; shared by index, events and readers. */
struct sw_store_obj {
    atomic_uint refs;
    uint32_t priority; /* of its place in the index */
    uint64_t revision; /* the change that made this version */
    uint64_t created;  /* the change that created the object */
    struct sw_slice key;
    struct sw_slice value;
};

struct sw_store_obj *sw_store_obj_ref(struct sw_store_obj *o);
struct sw_store_obj *sw_store_obj_unref(struct sw_store_obj *o); /* returns NULL */

enum sw_store_change {
    SW_STORE_CREATED = 1,
    SW_STORE_UPDATED = 2,
    SW_STORE_DELETED = 3,
};

struct sw_store_event {
    atomic_uint refs;
    enum sw_store_change type;
    uint64_t revision;
    uint64_t wall_ms;          /* when it was written */
    struct sw_store_obj *obj;  /* owned: the new version; for a deletion the final value given
                                  with it, NULL when none was */
    struct sw_store_obj *prev; /* owned: the version before; NULL for a creation */
};

struct sw_store_event *sw_store_event_ref(struct sw_store_event *e);
struct sw_store_event *sw_store_event_unref(struct sw_store_event *e); /* returns NULL */
/* Key of the object the event is about. */
struct sw_slice sw_store_event_key(const struct sw_store_event *e);

/* ---- for the files of src/store ---- */

/* The value of a deletion may be absent: see struct sw_store_event. */
struct sw_store_obj *sw_store_obj_new(struct sw_slice key, struct sw_slice value);
/* Takes references of its own. */
struct sw_store_event *sw_store_event_new(enum sw_store_change type, uint64_t revision,
                                          uint64_t wall_ms, struct sw_store_obj *obj,
                                          struct sw_store_obj *prev);
