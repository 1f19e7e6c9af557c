/* SPDX-License-Identifier: Apache-2.0 */
#include "quic/path_places.h"

#include <string.h>

#include "base/rand.h"
#include "base/time.h"

#define MOVE_NS   (5 * SW_NS_PER_S) /* between moves from one direct path to another */
#define BONUS6_NS (3 * SW_NS_PER_MS)

/* ---- the table ---- */

static struct sw_qplace *find(struct sw_qplace *list, size_t n, const struct sw_qroute *at)
{
    for (size_t i = 0; i < n; i++)
        if (sw_qroute_eq(&list[i].route, at))
            return &list[i];
    return NULL;
}

struct sw_qplace *sw_qplaces_find(struct sw_qplaces *s, const struct sw_qroute *at)
{
    return find(s->at, s->n, at);
}

void sw_qplaces_name(struct sw_qplaces *s, const struct sw_qroute *routes, size_t n)
{
    struct sw_qplace now[PLACES_MAX];
    size_t k = 0;

    for (size_t i = 0; i < n && k < SW_QUIC_ADDRS_MAX; i++) {
        const struct sw_qplace *had = sw_qplaces_find(s, &routes[i]);

        if (!find(now, k, &routes[i]))
            now[k++] = had ? *had : (struct sw_qplace){.route = routes[i]};
    }
    memcpy(s->at, now, k * sizeof(*now));
    s->n = k;
    s->named = k;
}

/* Pings that an attacker replays from other addresses must not keep the peer's own ones out. */
static struct sw_qplace *oldest_unanswered(struct sw_qplaces *s)
{
    struct sw_qplace *oldest = NULL;

    for (size_t i = s->named; i < s->n; i++)
        if (!s->at[i].rtt_ns && (!oldest || s->at[i].since_ns < oldest->since_ns))
            oldest = &s->at[i];
    return oldest;
}

struct sw_qplace *sw_qplaces_learn(struct sw_qplaces *s, const struct sw_qroute *from,
                                   uint64_t now_ns)
{
    struct sw_qplace *k = s->n < PLACES_MAX ? &s->at[s->n++] : oldest_unanswered(s);

    if (!k)
        return NULL;
    *k = (struct sw_qplace){.route = *from, .since_ns = now_ns};
    sw_qplace_begin(k, now_ns);
    return k;
}

/* ---- one place ---- */

void sw_qplace_begin(struct sw_qplace *k, uint64_t now_ns)
{
    sw_rand_bytes(k->tx, sizeof(k->tx) - 1);
    k->sent = 0;
    k->next_ns = now_ns;
    if (now_ns - k->heard_ns > PLACE_FRESH_NS)
        k->rtt_ns = 0;
}

bool sw_qplace_answered(struct sw_qplace *k, const uint8_t tx[PROBE_TX], uint64_t now_ns)
{
    uint8_t i = tx[PROBE_TX - 1];
    uint64_t rtt;

    if (i >= k->sent || memcmp(k->tx, tx, PROBE_TX - 1) != 0)
        return false;
    rtt = sw_max(now_ns - k->sent_ns[i], UINT64_C(1));
    k->rtt_ns = k->rtt_ns && i > 0 ? sw_min(k->rtt_ns, rtt) : rtt;
    k->heard_ns = now_ns;
    return true;
}

/* ---- the best ---- */

static uint64_t worth(const struct sw_qplace *k)
{
    return k->rtt_ns + (k->route.remote.ip.family == 6 ? 0 : BONUS6_NS);
}

static bool usable(const struct sw_qplace *k, uint64_t now_ns)
{
    return k->rtt_ns && now_ns - k->heard_ns < PLACE_FRESH_NS && now_ns >= k->barred_ns;
}

const struct sw_qroute *sw_qplaces_best(struct sw_qplaces *s, const struct sw_qplaces_now *now)
{
    const struct sw_qplace *current = now->on ? sw_qplaces_find(s, now->on) : NULL;
    const struct sw_qplace *best = NULL;

    for (size_t i = 0; i < s->n; i++) {
        const struct sw_qplace *k = &s->at[i];

        if (k == current || !usable(k, now->now_ns) || (best && worth(k) >= worth(best)))
            continue;
        /* The present path is silent: then only what answered since then is any better. */
        if (!now->on || !now->urgent || k->heard_ns > now->heard_ns)
            best = k;
    }
    if (!best)
        return NULL;
    /* From one direct path to another only for a gain that lasts. */
    if (now->on && !now->urgent &&
        (!current || !usable(current, now->now_ns) ||
         worth(best) + PLACE_GAIN_NS > worth(current) || now->now_ns - s->moved_ns < MOVE_NS))
        return NULL;
    s->moved_ns = now->now_ns;
    return &best->route;
}
