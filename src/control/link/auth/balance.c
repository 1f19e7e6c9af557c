/* SPDX-License-Identifier: Apache-2.0 */
#include "control/link/auth/balance.h"

#include <string.h>

enum { DISTANCES = 3 };

/* A rotation: round-robin, and static with start 0. */
static void rotate(uint32_t *p, size_t n, uint64_t start)
{
    uint32_t tmp[SW_LINK_SOURCES_MAX];

    for (size_t i = 0; i < n; i++)
        tmp[i] = p[(start + i) % n];
    if (n)
        memcpy(p, tmp, n * sizeof(*p));
}

static void shuffle(uint32_t *p, size_t n, const struct sw_link_choice *c)
{
    for (size_t i = 0; i + 1 < n; i++) {
        size_t j = i + c->random(c->arg, n - i);
        uint32_t x = p[i];

        p[i] = p[j];
        p[j] = x;
    }
}

/* Draws one after the other, each with the chance its weight has among those left. */
static void draw(const struct sw_link_import *in, uint32_t *p, size_t n,
                 const struct sw_link_choice *c)
{
    for (size_t i = 0; i + 1 < n; i++) {
        uint64_t total = 0;
        uint64_t at;
        size_t j = i;

        for (size_t k = i; k < n; k++)
            total += in->sources[p[k]].weight;
        if (total == 0)
            return;
        at = c->random(c->arg, total);
        while (at >= in->sources[p[j]].weight)
            at -= in->sources[p[j++]].weight;
        if (j != i) {
            uint32_t x = p[j];

            memmove(p + i + 1, p + i, (j - i) * sizeof(*p));
            p[i] = x;
        }
    }
}

/* Nearest first, round-robin among those equally far. */
static void by_distance(const struct sw_link_import *in, uint32_t *p, size_t n,
                        const struct sw_link_choice *c)
{
    uint32_t out[SW_LINK_SOURCES_MAX];
    size_t used = 0;

    for (int d = 0; d < DISTANCES; d++) {
        size_t from = used;

        for (size_t i = 0; i < n; i++) {
            if (c->distance(c->arg, &in->sources[p[i]]) == d)
                out[used++] = p[i];
        }
        rotate(out + from, used - from, c->turn);
    }
    if (used)
        memcpy(p, out, used * sizeof(*p));
}

/* Keeps the order, moves those that do not answer behind the others. */
static void reachable_first(const struct sw_link_import *in, uint32_t *p, size_t n,
                            const struct sw_link_choice *c)
{
    uint32_t late[SW_LINK_SOURCES_MAX];
    size_t n_late = 0;
    size_t kept = 0;

    for (size_t i = 0; i < n; i++) {
        if (c->reachable && !c->reachable(c->arg, &in->sources[p[i]]))
            late[n_late++] = p[i];
        else
            p[kept++] = p[i];
    }
    if (n_late)
        memcpy(p + kept, late, n_late * sizeof(*p));
}

static size_t drop_excluded(const struct sw_link_import *in, uint32_t *p, size_t n,
                            const struct sw_link_choice *c)
{
    size_t kept = 0;

    for (size_t i = 0; i < n; i++) {
        if (!c->excluded || !c->excluded(c->arg, &in->sources[p[i]]))
            p[kept++] = p[i];
    }
    return kept;
}

size_t sw_link_order(const struct sw_link_import *in, const struct sw_link_choice *c,
                     uint32_t ret[SW_LINK_SOURCES_MAX])
{
    size_t n = sw_min(in->n, SW_LINK_SOURCES_MAX);

    for (size_t i = 0; i < n; i++)
        ret[i] = (uint32_t)i;
    switch (in->scheme) {
    case SW_LINK_ROUND_ROBIN:
        rotate(ret, n, c->turn);
        break;
    case SW_LINK_RANDOM:
        shuffle(ret, n, c);
        break;
    case SW_LINK_STATIC:
        break;
    case SW_LINK_WEIGHTED:
        draw(in, ret, n, c);
        break;
    case SW_LINK_LOCALITY:
        by_distance(in, ret, n, c);
        break;
    case SW_LINK_SCHEME_UNKNOWN:
        return 0;
    }
    n = drop_excluded(in, ret, n, c);
    reachable_first(in, ret, n, c);
    return n;
}
