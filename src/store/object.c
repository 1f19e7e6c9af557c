/* SPDX-License-Identifier: Apache-2.0 */
/* Counted, immutable things: object versions, events. */
#include "store/object.h"

#include <stdbool.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

static bool drop(atomic_uint *refs)
{
    return atomic_fetch_sub_explicit(refs, 1, memory_order_acq_rel) == 1;
}

static void take(atomic_uint *refs)
{
    (void)atomic_fetch_add_explicit(refs, 1, memory_order_relaxed);
}

struct sw_store_obj *sw_store_obj_new(struct sw_slice key, struct sw_slice value)
{
    struct sw_store_obj *o = sw_malloc(sizeof(*o) + key.n + value.n);
    char *data = (char *)(o + 1);

    memset(o, 0, sizeof(*o));
    atomic_init(&o->refs, 1);
    memcpy(data, key.p, key.n);
    if (value.n)
        memcpy(data + key.n, value.p, value.n);
    o->key = sw_slice(data, key.n);
    o->value = sw_slice(data + key.n, value.n);
    o->priority = (uint32_t)sw_hash(key.p, key.n);
    return o;
}

struct sw_store_obj *sw_store_obj_ref(struct sw_store_obj *o)
{
    take(&o->refs);
    return o;
}

struct sw_store_obj *sw_store_obj_unref(struct sw_store_obj *o)
{
    if (o && drop(&o->refs)) {
        sw_free(o);
    }
    return NULL;
}

struct sw_store_event *sw_store_event_new(enum sw_store_change type, uint64_t revision,
                                          uint64_t wall_ms, struct sw_store_obj *obj,
                                          struct sw_store_obj *prev)
{
    struct sw_store_event *e = SW_NEW(struct sw_store_event);

    atomic_init(&e->refs, 1);
    e->type = type;
    e->revision = revision;
    e->wall_ms = wall_ms;
    e->obj = obj ? sw_store_obj_ref(obj) : NULL;
    e->prev = prev ? sw_store_obj_ref(prev) : NULL;
    return e;
}

struct sw_store_event *sw_store_event_ref(struct sw_store_event *e)
{
    take(&e->refs);
    return e;
}

struct sw_store_event *sw_store_event_unref(struct sw_store_event *e)
{
    if (e && drop(&e->refs)) {
        (void)sw_store_obj_unref(e->obj);
        (void)sw_store_obj_unref(e->prev);
        sw_free(e);
    }
    return NULL;
}

struct sw_slice sw_store_event_key(const struct sw_store_event *e)
{
    return e->obj ? e->obj->key : e->prev->key;
}
