/* SPDX-License-Identifier: Apache-2.0 */
#include "dns/rrl.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/time.h"

enum { SLOTS = 16384, SLIP = 2 };

struct slot {
    uint64_t tag;
    uint64_t at_ns;  /* when 'tokens' was right */
    uint32_t tokens; /* in thousandths */
    uint32_t limited;
};

struct sw_dns_rrl {
    uint32_t rate;
    struct slot slots[SLOTS];
};

struct sw_dns_rrl *sw_dns_rrl_new(uint32_t rate)
{
    struct sw_dns_rrl *r;

    if (!rate)
        return NULL;
    r = SW_NEW(struct sw_dns_rrl);
    r->rate = rate < 1000000 ? rate : 1000000;
    return r;
}

void sw_dns_rrl_free(struct sw_dns_rrl *r)
{
    sw_free(r);
}

static uint64_t network_of(const struct sw_ip *ip)
{
    uint8_t key[8] = {ip->family};

    memcpy(key + 1, ip->b, ip->family == 4 ? 3 : 7);
    return sw_hash(key, sizeof(key)) | 1;
}

/* The slot of a network: one of two places, the one unused for longer when neither is its own. */
static struct slot *find(struct sw_dns_rrl *r, uint64_t tag, uint64_t now_ns)
{
    struct slot *a = &r->slots[(tag >> 1) % SLOTS];
    struct slot *b = &r->slots[(tag >> 32) % SLOTS];
    struct slot *s = a->tag == tag ? a : b->tag == tag ? b : a->at_ns <= b->at_ns ? a : b;

    if (s->tag != tag)
        *s = (struct slot){.tag = tag, .at_ns = now_ns, .tokens = r->rate * 1000};
    return s;
}

enum sw_dns_rrl_verdict sw_dns_rrl_check(struct sw_dns_rrl *r, const struct sw_ip *from,
                                         uint64_t now_ns)
{
    struct slot *s;
    uint64_t more;

    if (!r)
        return SW_DNS_RRL_PASS;
    s = find(r, network_of(from), now_ns);
    more = now_ns - s->at_ns >= SW_NS_PER_S ? r->rate * UINT64_C(1000)
                                            : (now_ns - s->at_ns) * r->rate / (SW_NS_PER_S / 1000);
    if (more) {
        s->at_ns = now_ns;
        s->tokens =
            (uint32_t)(s->tokens + more > r->rate * UINT64_C(1000) ? r->rate * UINT64_C(1000)
                                                                   : s->tokens + more);
    }
    if (s->tokens >= 1000) {
        s->tokens -= 1000;
        return SW_DNS_RRL_PASS;
    }
    return ++s->limited % SLIP ? SW_DNS_RRL_DROP : SW_DNS_RRL_SLIP;
}
