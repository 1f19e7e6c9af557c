/* SPDX-License-Identifier: Apache-2.0 */
#include "identity/join/throttle.h"

#include <string.h>

#include "base/mem.h"
#include "base/time.h"

enum { KEY_LEN = 17, IPV6_NET = 8 };

static const uint64_t decay_ns = SW_NS_PER_S; /* each refusal of an address, after so long */

struct throttled {
    char key[KEY_LEN];
    struct sw_rate rate;
};

static struct sw_slice key_of(const struct sw_ip *ip, char out[KEY_LEN])
{
    memset(out, 0, KEY_LEN);
    out[0] = (char)ip->family;
    memcpy(out + 1, ip->b, ip->family == 6 ? IPV6_NET : sw_ip_len(ip));
    return sw_slice(out, KEY_LEN);
}

void sw_join_throttle_done(struct sw_join_throttle *t)
{
    SW_MAP_DRAIN(&t->by_address, sw_free);
}

bool sw_join_throttle_ok(const struct sw_join_throttle *t, const struct sw_ip *ip, uint64_t now_ns)
{
    char key[KEY_LEN];
    const struct throttled *a = sw_map_get(&t->by_address, key_of(ip, key));

    return !a || sw_rate_used(&a->rate, decay_ns, now_ns) < SW_JOIN_BURST;
}

/* The one that is forgiven first goes: it is remembered for the least reason. */
static void make_room(struct sw_join_throttle *t)
{
    struct throttled *first = NULL;

    if (t->by_address.n < SW_JOIN_ADDRESSES)
        return;
    SW_MAP_EACH (struct throttled, a, &t->by_address) {
        if (!first || a->rate.clear_ns < first->rate.clear_ns)
            first = a;
    }
    (void)sw_map_del(&t->by_address, sw_slice(first->key, KEY_LEN));
    sw_free(first);
}

void sw_join_throttle_refused(struct sw_join_throttle *t, const struct sw_ip *ip, uint64_t now_ns)
{
    char key[KEY_LEN];
    struct throttled *a = sw_map_get(&t->by_address, key_of(ip, key));

    if (!a) {
        make_room(t);
        a = SW_NEW(struct throttled);
        (void)key_of(ip, a->key);
        (void)sw_map_put(&t->by_address, sw_slice(a->key, KEY_LEN), a);
    }
    (void)sw_rate_add(&a->rate, 1, SW_JOIN_BURST, decay_ns, now_ns);
}
