/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/abuse.h"

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
    struct slot slots[SW_GW_ABUSE_SLOTS];
};

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

static const struct slot *find(const struct sw_gw_abuse *a, const struct slot *key)
{
    size_t at = first_way(key);

    for (size_t i = 0; i < WAYS; i++) {
        if (same(&a->slots[at + i], key))
            return &a->slots[at + i];
    }
    return NULL;
}

void sw_gw_abuse_note(struct sw_gw_abuse **a, const struct sw_ip *ip, unsigned offences,
                      uint64_t now_ns)
{
    struct slot key = make_key(ip);
    struct slot *best;
    size_t at = first_way(&key);

    if (!key.family)
        return;
    if (!*a)
        *a = SW_NEW(struct sw_gw_abuse);
    best = &(*a)->slots[at];
    for (size_t i = 0; i < WAYS; i++) {
        struct slot *s = &(*a)->slots[at + i];

        if (same(s, &key)) {
            best = s;
            break;
        }
        if (!s->family || (best->family && used_now(s, now_ns) < used_now(best, now_ns)))
            best = s;
    }
    if (!same(best, &key))
        *best = key;
    /* Not endlessly in debt: who stops is heard again after a while. */
    best->used = (uint32_t)sw_min((uint64_t)used_now(best, now_ns) + offences,
                                  UINT64_C(2) * SW_GW_ABUSE_BURST);
    best->since_ns = now_ns;
}

bool sw_gw_abuse_refused(const struct sw_gw_abuse *a, const struct sw_ip *ip, uint64_t now_ns)
{
    struct slot key = make_key(ip);
    const struct slot *s = a ? find(a, &key) : NULL;

    return s && used_now(s, now_ns) >= SW_GW_ABUSE_BURST;
}

void sw_gw_abuse_free(struct sw_gw_abuse *a)
{
    sw_free(a);
}
