/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/conn/abuse.h"

#include <pthread.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/rate.h"
#include "base/time.h"

enum { WAYS = 8, PREFIX6 = 8 };
static const uint64_t interval_ns = SW_NS_PER_S / SW_GW_ABUSE_PER_S;

struct slot {
    uint8_t key[16];
    uint8_t family; /* 0: free */
    struct sw_rate resets;
};

struct sw_gw_abuse {
    pthread_mutex_t lock;
    struct slot *slots; /* owned, SW_GW_ABUSE_SLOTS; NULL until the first reset */
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

static uint64_t used_now(const struct slot *s, uint64_t now_ns)
{
    return sw_rate_used(&s->resets, interval_ns, now_ns);
}

static size_t first_way(const struct slot *key)
{
    return (size_t)(sw_hash(key->key, sizeof(key->key)) % (SW_GW_ABUSE_SLOTS / WAYS)) * WAYS;
}

/* The slot of the address; a new one takes that with the fewest resets. */
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

bool sw_gw_abuse_note(struct sw_gw_abuse *a, const struct sw_ip *ip, unsigned resets,
                      uint64_t now_ns)
{
    struct slot key = make_key(ip);
    uint64_t used;

    if (!a || !key.family)
        return false;
    (void)pthread_mutex_lock(&a->lock);
    if (!a->slots)
        a->slots = SW_NEW_ARRAY(struct slot, SW_GW_ABUSE_SLOTS);
    /* Twice the allowance at most: an address that stops is trusted again after a while. */
    used = sw_rate_add(&place_locked(a, &key, now_ns)->resets, resets, 2 * SW_GW_ABUSE_BURST,
                       interval_ns, now_ns);
    (void)pthread_mutex_unlock(&a->lock);
    return used >= SW_GW_ABUSE_BURST;
}

void sw_gw_abuse_free(struct sw_gw_abuse *a)
{
    if (!a)
        return;
    (void)pthread_mutex_destroy(&a->lock);
    sw_free(a->slots);
    sw_free(a);
}
