/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store of an informer that hands objects out and does not keep them: per object a name, a hash
 * of the uid and the revision. What a complete state does not have any more is found by epochs.
 */
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "kube/client/informer_int.h"

struct inf_known {
    uint64_t uid; /* hash; 0: none */
    uint64_t rv;  /* a number, or a hash with the highest bit set */
    uint32_t epoch;
    uint16_t ns_len; /* 0: without a namespace */
    uint16_t key_len;
    char key[];
};

enum { HASHED_SHIFT = 63 };

static uint64_t revision_of(const struct sw_kube_obj *o)
{
    uint64_t n = 0;

    if (sw_slice_to_u64(o->rv, INT64_MAX, &n))
        return n;
    return sw_hash(o->rv.p, o->rv.n) | UINT64_C(1) << HASHED_SHIFT;
}

/* A repetition. A complete state counts as it is: a server may have been set back. */
static bool is_old(const struct sw_informer *i, const struct inf_known *k, uint64_t rv)
{
    bool numbers = !((k->rv | rv) >> HASHED_SHIFT);

    return rv == k->rv || (i->state == INF_WATCH && numbers && rv < k->rv);
}

static uint64_t uid_of(const struct sw_kube_obj *o)
{
    return o->uid.n ? sw_hash(o->uid.p, o->uid.n) | 1 : 0;
}

static struct inf_known *known_new(const struct sw_kube_obj *o)
{
    struct inf_known *k = sw_malloc(sizeof(*k) + o->key.n);

    *k = (struct inf_known){.ns_len = (uint16_t)o->ns.n, .key_len = (uint16_t)o->key.n};
    memcpy(k->key, o->key.p, o->key.n);
    return k;
}

/* What handlers get of an object that was deleted while no watch was open. */
static struct sw_kube_obj *remains_of(const struct inf_known *k)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice key = sw_slice(k->key, k->key_len);
    struct sw_json *meta =
        SW_JSON_OF(&a, {"namespace", .some = sw_slice_head(key, k->ns_len)},
                   {"name", .text = k->ns_len ? sw_slice_from(key, k->ns_len + 1u) : key});

    return sw_kube_obj_new(SW_JSON_OF(&a, {"metadata", .json = meta}));
}

/* The entry goes from the map; last may be NULL. */
static void drop(struct sw_informer *i, struct inf_known *k, struct sw_kube_obj *last)
{
    struct sw_kube_obj *remains = last ? NULL : remains_of(k);

    (void)sw_map_del(&i->known, sw_slice(k->key, k->key_len));
    sw_free(k);
    if (last || remains)
        i->cbs.del(i->arg, last ? last : remains);
    sw_kube_obj_unref(remains);
}

void inf_hollow_put(struct sw_informer *i, struct sw_kube_obj *o)
{
    struct inf_known *k = sw_map_get(&i->known, o->key);
    uint64_t uid = uid_of(o);
    uint64_t rv = revision_of(o);

    if (k && k->uid && uid && k->uid != uid) {
        /* Deleted and made again while we did not look. */
        drop(i, k, NULL);
        k = NULL;
    }
    if (k && is_old(i, k, rv)) {
        k->epoch = i->epoch;
        sw_kube_obj_unref(o);
        return;
    }
    if (k) {
        k->rv = rv;
        k->epoch = i->epoch;
        inf_tell(i, true, NULL, o);
    } else if (o->key.n <= UINT16_MAX) {
        k = known_new(o);
        k->uid = uid;
        k->rv = rv;
        k->epoch = i->epoch;
        (void)sw_map_put(&i->known, sw_slice(k->key, k->key_len), k);
        inf_tell(i, false, NULL, o);
    }
    sw_kube_obj_unref(o);
}

void inf_hollow_del(struct sw_informer *i, struct sw_slice key, struct sw_kube_obj *last)
{
    struct inf_known *k = sw_map_get(&i->known, key);
    uint64_t uid = last ? uid_of(last) : 0;

    if (k && !(uid && k->uid && uid != k->uid)) /* else of an earlier life of that name */
        drop(i, k, last);
    sw_kube_obj_unref(last);
}

void inf_hollow_replace(struct sw_informer *i)
{
    SW_MAP_EACH (struct inf_known, k, &i->known) {
        if (k->epoch != i->epoch)
            drop(i, k, NULL);
    }
}

void inf_hollow_clear(struct sw_informer *i)
{
    SW_MAP_DRAIN(&i->known, sw_free);
    i->known = (struct sw_map){0};
}
