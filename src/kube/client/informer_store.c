/* SPDX-License-Identifier: Apache-2.0 */
/* What an informer holds: the store that handlers know, and a complete state while it is read. */
#include <string.h>

#include "kube/client/informer_int.h"

static void map_clear(struct sw_map *m)
{
    SW_MAP_DRAIN(m, sw_kube_obj_unref);
    *m = (struct sw_map){0};
}

void inf_store_clear(struct sw_informer *i)
{
    map_clear(&i->store);
    inf_hollow_clear(i);
}

static bool is_number(struct sw_slice s)
{
    for (size_t k = 0; k < s.n; k++) {
        if (s.p[k] < '0' || s.p[k] > '9')
            return false;
    }
    return s.n > 0 && s.p[0] != '0';
}

bool inf_older(struct sw_slice a, struct sw_slice b)
{
    if (!is_number(a) || !is_number(b))
        return false;
    return a.n != b.n ? a.n < b.n : memcmp(a.p, b.p, a.n) < 0;
}

void inf_tell(struct sw_informer *i, bool known, struct sw_kube_obj *old, struct sw_kube_obj *now)
{
    if (i->cbs.set)
        i->cbs.set(i->arg, now);
    else if (known)
        i->cbs.update(i->arg, old, now);
    else
        i->cbs.add(i->arg, now);
}

void inf_store_put(struct sw_informer *i, struct sw_kube_obj *o)
{
    struct sw_kube_obj *old = sw_map_get(&i->store, o->key);
    bool same = old && (!old->uid.n || !o->uid.n || sw_slice_eq(old->uid, o->uid));

    if (i->o.hollow) {
        inf_hollow_put(i, o);
        return;
    }
    if (same && sw_slice_eq(old->rv, o->rv)) {
        sw_kube_obj_unref(o);
        return;
    }
    if (old && !same) {
        /* Deleted and made again while we did not look. */
        (void)sw_map_del(&i->store, old->key);
        i->cbs.del(i->arg, old);
        sw_kube_obj_unref(old);
        old = NULL;
    }
    (void)sw_map_put(&i->store, o->key, o);
    inf_tell(i, old != NULL, old, o);
    sw_kube_obj_unref(old);
}

void inf_store_del(struct sw_informer *i, struct sw_slice key, struct sw_kube_obj *last)
{
    struct sw_kube_obj *old = sw_map_get(&i->store, key);

    if (i->o.hollow) {
        inf_hollow_del(i, key, last);
        return;
    }
    if (old && last && last->uid.n && old->uid.n && !sw_slice_eq(old->uid, last->uid))
        old = NULL; /* of an earlier life of that name */
    if (old) {
        (void)sw_map_del(&i->store, old->key);
        i->cbs.del(i->arg, last ? last : old);
        sw_kube_obj_unref(old);
    }
    sw_kube_obj_unref(last);
}

void inf_fresh_clear(struct sw_informer *i)
{
    i->epoch++;
    map_clear(&i->fresh);
    for (size_t k = 0; k < i->order.n; k++)
        sw_kube_obj_unref(i->order.p[k]);
    sw_vec_done(&i->order);
}

void inf_fresh_put(struct sw_informer *i, struct sw_kube_obj *o)
{
    struct sw_kube_obj *known = sw_map_get(&i->store, o->key);

    if (i->o.hollow) {
        inf_hollow_put(i, o);
        return;
    }
    if (known && o->rv.n && sw_slice_eq(known->rv, o->rv) && sw_slice_eq(known->uid, o->uid)) {
        (void)sw_kube_obj_ref(known);
        sw_kube_obj_unref(o);
        o = known;
    }
    sw_vec_push(&i->order, sw_kube_obj_ref(o));
    sw_kube_obj_unref(sw_map_put(&i->fresh, o->key, o));
}

void inf_fresh_del(struct sw_informer *i, struct sw_slice key)
{
    if (i->o.hollow)
        inf_hollow_del(i, key, NULL);
    else
        sw_kube_obj_unref(sw_map_del(&i->fresh, key));
}

static void del_vanished(struct sw_informer *i)
{
    SW_VEC(struct sw_kube_obj *) gone = {0};

    SW_MAP_FOREACH (it, &i->store) {
        if (!sw_map_get(&i->fresh, it->key))
            sw_vec_push(&gone, it->value);
    }
    for (size_t k = 0; k < gone.n; k++)
        inf_store_del(i, gone.p[k]->key, NULL);
    sw_vec_done(&gone);
}

void inf_replace(struct sw_informer *i)
{
    if (i->o.hollow)
        inf_hollow_replace(i);
    del_vanished(i);
    for (size_t k = 0; k < i->order.n; k++) {
        struct sw_kube_obj *o = i->order.p[k];

        if (sw_map_get(&i->fresh, o->key) == o)
            inf_store_put(i, sw_kube_obj_ref(o));
    }
    inf_fresh_clear(i);
    i->stats.lists++;
    i->listed_ns = sw_loop_now(sw_kube_client_loop(i->client));
    if (!i->reader.synced) {
        i->reader.synced = true;
        if (i->cbs.synced)
            i->cbs.synced(i->arg);
    }
}
