/* SPDX-License-Identifier: Apache-2.0 */
#include "identity/quota.h"

#include <string.h>

#include "base/mem.h"
#include "base/rate.h"
#include "base/time.h"

static const uint64_t each_ns = SW_NS_PER_S / SW_QUOTA_PER_S;

struct quota_caller {
    struct sw_rate rate;
    size_t n;
    char name[];
};

void sw_quota_done(struct sw_quota *q)
{
    SW_MAP_DRAIN(&q->callers, sw_free);
}

/* The caller whose certificates are forgiven first is forgotten. */
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

static struct quota_caller *caller_of(struct sw_quota *q, struct sw_slice name)
{
    struct quota_caller *c = sw_map_get(&q->callers, name);

    if (c)
        return c;
    if (q->callers.n >= SW_QUOTA_CALLERS)
        make_room(q);
    c = sw_calloc(1, sizeof(*c) + name.n + 1);
    c->n = name.n;
    memcpy(c->name, name.p, name.n);
    (void)sw_map_put(&q->callers, sw_slice(c->name, c->n), c);
    return c;
}

bool sw_quota_take(struct sw_quota *q, struct sw_slice caller, uint64_t now_ns)
{
    struct quota_caller *c = caller_of(q, caller);

    if (sw_rate_used(&c->rate, each_ns, now_ns) >= SW_QUOTA_BURST)
        return false;
    (void)sw_rate_add(&c->rate, 1, SW_QUOTA_BURST, each_ns, now_ns);
    return true;
}
