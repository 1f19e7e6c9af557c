/* SPDX-License-Identifier: Apache-2.0 */
#include "identity/join/throttle.h"

#include <string.h>

#include "base/time.h"

enum { KEY_LEN = 17, IPV6_NET = 8 };

static const struct sw_quota_limits limits = {
    .burst = SW_JOIN_BURST, .each_ns = SW_NS_PER_S, .callers = SW_JOIN_ADDRESSES};

static struct sw_slice key_of(const struct sw_ip *ip, char out[KEY_LEN])
{
    memset(out, 0, KEY_LEN);
    out[0] = (char)ip->family;
    memcpy(out + 1, ip->b, ip->family == 6 ? IPV6_NET : sw_ip_len(ip));
    return sw_slice(out, KEY_LEN);
}

void sw_join_throttle_done(struct sw_join_throttle *t)
{
    sw_quota_done(&t->refusals);
}

bool sw_join_throttle_ok(const struct sw_join_throttle *t, const struct sw_ip *ip, uint64_t now_ns)
{
    char key[KEY_LEN];

    return sw_quota_left(&t->refusals, &limits, key_of(ip, key), now_ns);
}

void sw_join_throttle_refused(struct sw_join_throttle *t, const struct sw_ip *ip, uint64_t now_ns)
{
    char key[KEY_LEN];

    sw_quota_count(&t->refusals, &limits, key_of(ip, key), now_ns);
}
