/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/abuse.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/time.h"

enum { WAYS = 8, PREFIX6 = 8 };

struct slot {
    uint8_t key[16];
    uint8_t family; /* 0: free */
    uint32_t used;  /* of the allowance, at since_ns */
    uint64_t since_ns;
};

struct sw_gw_abuse {
    pthread_mutex_t lock;
    atomic_bool any;    /* somebody is in the table */
    struct slot *slots; /* owned, SW_GW_ABUSE_SLOTS; NULL until somebody misbehaves */
};

struct sw_gw_abuse *sw_gw_abuse_new(void)
{
    struct sw_gw_abuse *a = SW_NEW(struct sw_gw_abuse);

    (void)pthread_mutex_init(&a->lock, NULL);
    return a;
}

static struct slot make_key(const struct sw_ip *ip)
{
    struct slot s = {.family = ip->family};

    memcpy(s.key, ip->b, ip->family == 6 ? PREFIX6 : 4);
    return s;
}

static bool same(const struct slot *x, const struct slot *y)
{
    return x->family == y->family && memcmp(x->key, y->key, sizeof(x->key)) == 0;
}

/* What is left of the offences by now. */
static uint32_t used_now(const struct slot *s, uint64_t now_ns)
{
    uint64_t back =
        now_ns > s->since_ns ? (now_ns - s->since_ns) / (SW_NS_PER_S / SW_GW_ABUSE_PER_S) : 0;

    return s->used - (uint32_t)sw_min(s->used, back);
}

static size_t first_way(const struct slot *key)
{
    return (size_t)(sw_hash(key->key, sizeof(key->key)) % (SW_GW_ABUSE_SLOTS / WAYS)) * WAYS;
}

static const struct slot *find_locked(const struct sw_gw_abuse *a, const struct slot *key)
{
    size_t at = first_way(key);

    for (size_t i = 0; i < WAYS; i++) {
        if (same(&a->slots[at + i], key))
            return &a->slots[at + i];
    }
    return NULL;
}

/* Its place, or that of the least bad. */
static struct slot *place_locked(struct sw_gw_abuse *a, const struct slot *key, uint64_t now_ns)
{
    struct slot *first = &a->slots[first_way(key)];
    struct slot *best = first;

    for (size_t i = 0; i < WAYS; i++) {
        struct slot *s = &first[i];

        if (same(s, key))
            return s;
        if (!s->family || (best->family && used_now(s, now_ns) < used_now(best, now_ns)))
            best = s;
    }
    *best = *key;
    return best;
}

void sw_gw_abuse_note(struct sw_gw_abuse *a, const struct sw_ip *ip, unsigned offences,
                      uint64_t now_ns)
{
    struct slot key = make_key(ip);
    struct slot *best;

    if (!a || !key.family)
        return;
    (void)pthread_mutex_lock(&a->lock);
    if (!a->slots)
        a->slots = SW_NEW_ARRAY(struct slot, SW_GW_ABUSE_SLOTS);
    best = place_locked(a, &key, now_ns);
    /* Not endlessly in debt: who stops is heard again after a while. */
    best->used = (uint32_t)sw_min((uint64_t)used_now(best, now_ns) + offences,
                                  UINT64_C(2) * SW_GW_ABUSE_BURST);
    best->since_ns = now_ns;
    (void)pthread_mutex_unlock(&a->lock);
    atomic_store_explicit(&a->any, true, memory_order_release);
}

bool sw_gw_abuse_refused(struct sw_gw_abuse *a, const struct sw_ip *ip, uint64_t now_ns)
{
    struct slot key = make_key(ip);
    const struct slot *s;
    bool refused;

    if (!a || !atomic_load_explicit(&a->any, memory_order_acquire))
        return false;
    (void)pthread_mutex_lock(&a->lock);
    s = find_locked(a, &key);
    refused = s && used_now(s, now_ns) >= SW_GW_ABUSE_BURST;
    (void)pthread_mutex_unlock(&a->lock);
    return refused;
}

void sw_gw_abuse_free(struct sw_gw_abuse *a)
{
    if (!a)
        return;
    (void)pthread_mutex_destroy(&a->lock);
    sw_free(a->slots);
    sw_free(a);
}
