/* SPDX-License-Identifier: Apache-2.0 */
#include "identity/quota.h"

#include <string.h>

#include "base/mem.h"
#include "base/rate.h"
#include "base/time.h"

struct quota_caller {
    struct sw_rate rate;
    size_t n;
    char name[];
};

void sw_quota_done(struct sw_quota *q)
{
    SW_MAP_DRAIN(&q->callers, sw_free);
}

/* The caller whose account is clear first is remembered for the least reason. */
static void make_room(struct sw_quota *q)
{
    struct quota_caller *first = NULL;

    SW_MAP_EACH (struct quota_caller, c, &q->callers) {
        if (!first || c->rate.clear_ns < first->rate.clear_ns)
            first = c;
    }
    if (!first)
        return;
    (void)sw_map_del(&q->callers, sw_slice(first->name, first->n));
    sw_free(first);
}

bool sw_quota_left(const struct sw_quota *q, const struct sw_quota_limits *l,
                   struct sw_slice caller, uint64_t now_ns)
{
    const struct quota_caller *c = sw_map_get(&q->callers, caller);

    return !c || sw_rate_used(&c->rate, l->each_ns, now_ns) < l->burst;
}

void sw_quota_count(struct sw_quota *q, const struct sw_quota_limits *l, struct sw_slice caller,
                    uint64_t now_ns)
{
    struct quota_caller *c = sw_map_get(&q->callers, caller);

    if (!c) {
        if (q->callers.n >= l->callers)
            make_room(q);
        c = sw_calloc(1, sizeof(*c) + caller.n + 1);
        c->n = caller.n;
        memcpy(c->name, caller.p, caller.n);
        (void)sw_map_put(&q->callers, sw_slice(c->name, c->n), c);
    }
    (void)sw_rate_add(&c->rate, 1, l->burst, l->each_ns, now_ns);
}

bool sw_quota_take(struct sw_quota *q, struct sw_slice caller, uint64_t now_ns)
{
    static const struct sw_quota_limits certificates = {.burst = SW_QUOTA_BURST,
                                                        .each_ns = SW_NS_PER_S / SW_QUOTA_PER_S,
                                                        .callers = SW_QUOTA_CALLERS};

    if (!sw_quota_left(q, &certificates, caller, now_ns))
        return false;
    sw_quota_count(q, &certificates, caller, now_ns);
    return true;
}
