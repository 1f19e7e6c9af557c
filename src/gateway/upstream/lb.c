/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Choosing a member. Each worker keeps its own view of a cluster: which members are usable, how
 * much each priority and locality carries, and the balancer's position. The view is made again when
 * the members or the health of one changed; between that a choice costs a few instructions.
 */
#include "gateway/upstream/lb.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/rand.h"
#include "gateway/conn/worker.h"
#include "gateway/upstream/cluster.h"

enum { PRIORITIES = 130, RETRY_PICKS = 5 };

struct slot {
    struct sw_gw_member *member; /* lives with the members of the view */
    uint32_t weight;
};

/* Members that are chosen among with one position: a locality, or a whole priority. */
struct group {
    struct slot *slots;
    uint32_t n;
    bool equal;       /* all weights are the same */
    uint64_t total;   /* of the weights */
    uint64_t share;   /* of this group among those of its priority */
    int64_t *current; /* smooth weighted round robin */
    uint64_t next;    /* round robin position */
};

struct level {
    struct group *groups;
    uint32_t n;
    uint64_t total_share;
};

struct ring_point {
    uint64_t hash;
    uint32_t slot;
};

struct sw_gw_lb_view {
    struct sw_arena arena;
    struct sw_gw_members *members;   /* a reference */
    struct sw_gw_cluster_spec *spec; /* a reference: another one must not get its address */
    uint64_t health_version;
    bool all_aside;       /* no other member is left: those that were set aside serve */
    struct level *levels; /* by priority */
    uint32_t n_levels;
    uint32_t load[PRIORITIES]; /* percent of the requests each priority gets */
    struct slot *all;          /* every usable member of the first loaded priority, for the ring */
    uint32_t n_all;
    uint32_t ring_priority;
    struct ring_point *ring;
    uint32_t n_ring;
};

void sw_gw_lb_view_free(struct sw_gw_lb_view *v)
{
    if (!v)
        return;
    (void)sw_gw_members_unref(v->members);
    (void)sw_gw_cluster_spec_unref(v->spec);
    sw_arena_clear(&v->arena);
    sw_free(v);
}

static bool usable(const struct sw_gw_endpoint *e)
{
    return !e->unhealthy && sw_gw_member_usable(e->member);
}

/* ---- the view ---- */

/* Share of the load per priority: health times overprovisioning, the first ones first. */
static void spread_load(struct sw_gw_lb_view *v, const uint32_t *health)
{
    uint32_t total = 0;
    uint32_t left = 100;

    for (uint32_t p = 0; p < v->members->n_priorities; p++)
        total += health[p];
    if (total > 100)
        total = 100;
    for (uint32_t p = 0; p < v->members->n_priorities && total; p++) {
        uint32_t load = (uint32_t)sw_min(left, (size_t)health[p] * 100 / total);

        v->load[p] = load;
        left -= load;
    }
    for (uint32_t p = 0; p < v->members->n_priorities && left && total; p++) {
        if (v->load[p]) { /* what rounding lost */
            v->load[p] += left;
            break;
        }
    }
}

static void fill_group(struct sw_gw_lb_view *v, struct group *g, const struct sw_gw_locality *l,
                       bool panic)
{
    for (size_t i = 0; i < l->n; i++) {
        const struct sw_gw_endpoint *e = &l->endpoints[i];

        if ((!panic && !usable(e)) || (sw_gw_member_aside(e->member) && !v->all_aside))
            continue;
        g->slots[g->n].member = e->member;
        g->slots[g->n].weight = e->weight;
        g->total += e->weight;
        g->equal = g->equal && e->weight == g->slots[0].weight;
        g->n++;
    }
}

static void build_level(struct sw_gw_lb_view *v, uint32_t priority, bool panic, bool by_locality)
{
    const struct sw_gw_members *ms = v->members;
    struct level *lv = &v->levels[priority];
    size_t members = 0;
    size_t localities = 0;
    uint64_t weights = 0;

    for (size_t i = 0; i < ms->n_localities; i++) {
        if (ms->localities[i].priority == priority) {
            members += ms->localities[i].n;
            weights += ms->localities[i].weight;
            localities++;
        }
    }
    by_locality = by_locality && weights; /* no locality has a weight: exclude none by it */
    lv->groups = sw_arena_array(&v->arena, localities + 1, sizeof(*lv->groups));
    for (size_t i = 0; i < ms->n_localities; i++) {
        const struct sw_gw_locality *l = &ms->localities[i];
        struct group *g = &lv->groups[by_locality ? lv->n : 0];
        uint32_t before;

        if (l->priority != priority || (by_locality && l->weight == 0))
            continue;
        if (!g->slots) {
            size_t cap = by_locality ? l->n : members;

            g->slots = sw_arena_array(&v->arena, cap + 1, sizeof(*g->slots));
            g->current = sw_arena_array(&v->arena, cap + 1, sizeof(*g->current));
            g->equal = true;
            g->next = sw_rand_u64() & 0xffff; /* workers do not march in step */
        }
        before = g->n;
        fill_group(v, g, l, panic);
        if (by_locality) {
            /* A locality with few usable members gets less, 1.4 times its health at most. */
            uint64_t health = l->n ? (uint64_t)(g->n - before) * ms->overprovisioning / l->n : 0;

            g->share = (uint64_t)l->weight * (health > 100 ? 100 : health);
            lv->total_share += g->share;
            lv->n++;
        } else {
            lv->n = 1;
            g->share = 1;
            lv->total_share = 1;
        }
    }
}

static int by_hash(const void *a, const void *b)
{
    const struct ring_point *x = a;
    const struct ring_point *y = b;

    return x->hash < y->hash ? -1 : x->hash > y->hash;
}

/* Points in proportion to weight; the ring is the same on every worker and gateway. */
static void build_ring(struct sw_gw_lb_view *v, uint64_t min, uint64_t max)
{
    uint64_t total = 0;
    uint64_t count = 0;
    uint64_t size;
    uint32_t n = 0;

    /* Counted over all members, usable or not: a failure moves only its own requests. */
    for (size_t i = 0; i < v->members->n_localities; i++) {
        const struct sw_gw_locality *l = &v->members->localities[i];

        for (size_t k = 0; k < l->n && l->priority == v->ring_priority; k++) {
            total += l->endpoints[k].weight;
            count++;
        }
    }
    if (total == 0 || v->n_all == 0)
        return;
    size = min < count ? count : min;
    if (size > max)
        size = max;
    v->ring = sw_arena_array(&v->arena, size + v->n_all, sizeof(*v->ring));
    for (uint32_t i = 0; i < v->n_all; i++) {
        uint64_t points = (uint64_t)v->all[i].weight * size / total;

        for (uint64_t k = 0; k < (points ? points : 1); k++) {
            char key[320];
            int len =
                snprintf(key, sizeof(key), "%.*s_%llu",
                         SW_SLICE_ARG_MAX(v->all[i].member->text, 280), (unsigned long long)k);

            v->ring[n].hash = sw_siphash13(11, 13, key, (size_t)len);
            v->ring[n++].slot = i;
        }
    }
    v->n_ring = n;
    qsort(v->ring, n, sizeof(*v->ring), by_hash);
}

static void collect_all(struct sw_gw_lb_view *v)
{
    for (uint32_t p = 0; p < v->n_levels; p++) {
        size_t n = 0;

        for (uint32_t g = 0; g < v->levels[p].n; g++)
            n += v->levels[p].groups[g].n;
        if (n == 0 || v->load[p] == 0)
            continue;
        v->ring_priority = p;
        v->all = sw_arena_array(&v->arena, n, sizeof(*v->all));
        for (uint32_t g = 0; g < v->levels[p].n; g++) {
            const struct group *gr = &v->levels[p].groups[g];

            memcpy(v->all + v->n_all, gr->slots, gr->n * sizeof(*gr->slots));
            v->n_all += gr->n;
        }
        return; /* the ring covers the best priority that has members */
    }
}

/* Endpoints that may serve, by priority; those set aside only when there are no others. */
static void count_good(struct sw_gw_lb_view *v, uint32_t *good, uint32_t *up, uint32_t *all)
{
    const struct sw_gw_members *ms = v->members;
    bool any = false;

    for (size_t i = 0; i < ms->n_localities; i++) {
        const struct sw_gw_locality *l = &ms->localities[i];

        for (size_t k = 0; k < l->n; k++) {
            bool ok = usable(&l->endpoints[k]);

            up[l->priority] += ok;
            good[l->priority] += ok && !sw_gw_member_aside(l->endpoints[k].member);
        }
        all[l->priority] += (uint32_t)l->n;
        any |= good[l->priority] != 0;
    }
    v->all_aside = !any;
    if (v->all_aside)
        memcpy(good, up, PRIORITIES * sizeof(*good));
}

static struct sw_gw_lb_view *view_new(const struct sw_gw_cluster *c, uint64_t health_version)
{
    struct sw_gw_lb_view *v = SW_NEW(struct sw_gw_lb_view);
    const struct sw_gw_members *ms = c->members;
    uint32_t health[PRIORITIES] = {0};
    uint32_t good[PRIORITIES] = {0};
    uint32_t up[PRIORITIES] = {0};
    uint32_t all[PRIORITIES] = {0};
    uint32_t sum = 0;
    bool weighted = c->spec->locality_weighted;

    v->members = sw_gw_members_ref(c->members);
    v->spec = sw_gw_cluster_spec_ref(c->spec);
    v->health_version = health_version;
    v->n_levels = ms->n_priorities;
    v->levels = sw_arena_array(&v->arena, ms->n_priorities + 1, sizeof(*v->levels));
    count_good(v, good, up, all);
    for (uint32_t p = 0; p < ms->n_priorities; p++) {
        health[p] =
            all[p] ? (uint32_t)sw_min(100, (size_t)good[p] * ms->overprovisioning / all[p]) : 0;
        sum += health[p];
    }
    if (sum ==
        0) { /* none is healthy: with a panic threshold the first priority with members serves */
        for (uint32_t p = 0; p < ms->n_priorities && sum == 0 && c->spec->panic_percent > 0; p++) {
            v->load[p] = all[p] ? 100 : 0;
            sum = v->load[p];
        }
    } else {
        spread_load(v, health);
    }
    for (uint32_t p = 0; p < ms->n_priorities; p++) {
        /* Members that refuse connections do not put the others' health in doubt. */
        bool panic = all[p] && (double)up[p] * 100 < c->spec->panic_percent * all[p] &&
                     (sum < 100 || health[p] == sum || good[p] == 0);

        build_level(v, p, panic, weighted);
    }
    if (c->spec->lb == SW_GW_LB_RING_HASH || c->spec->lb == SW_GW_LB_MAGLEV) {
        collect_all(v);
        build_ring(v, c->spec->ring_min, c->spec->ring_max);
    }
    return v;
}

static struct sw_gw_lb_view *view_of(struct sw_gw_wcluster *wc)
{
    uint64_t hv = atomic_load_explicit(&wc->cluster->state->health_version, memory_order_acquire);

    if (wc->view && wc->view->members == wc->cluster->members && wc->view->health_version == hv &&
        wc->view->spec == wc->cluster->spec)
        return wc->view;
    sw_gw_lb_view_free(wc->view);
    wc->view = view_new(wc->cluster, hv);
    return wc->view;
}

/* ---- policies ---- */

static struct sw_gw_member *round_robin(struct group *g)
{
    uint32_t best = 0;

    if (g->equal)
        return g->slots[g->next++ % g->n].member;
    /* Smooth weighted: interleaved, never a burst to the heavy one. */
    for (uint32_t i = 0; i < g->n; i++) {
        g->current[i] += g->slots[i].weight;
        if (g->current[i] > g->current[best])
            best = i;
    }
    g->current[best] -= (int64_t)g->total;
    return g->slots[best].member;
}

static uint32_t weighted_random(const struct group *g)
{
    uint64_t at;

    if (g->equal)
        return (uint32_t)sw_rand_below(g->n);
    at = sw_rand_below(g->total);
    for (uint32_t i = 0; i < g->n; i++) {
        if (at < g->slots[i].weight)
            return i;
        at -= g->slots[i].weight;
    }
    return g->n - 1;
}

static uint32_t active_of(const struct sw_gw_wcluster *wc, const struct sw_gw_member *m)
{
    const struct sw_gw_host *h = sw_map_get(&wc->hosts, sw_slice(&m, sizeof(m)));

    return h ? h->active : 0;
}

static struct sw_gw_member *least_request(const struct sw_gw_wcluster *wc, const struct group *g)
{
    uint32_t best = weighted_random(g);
    uint64_t low = UINT64_MAX;
    uint32_t n = wc->cluster->spec->choice_count;

    for (uint32_t i = 0; i < (n ? n : 2); i++) {
        uint32_t at = weighted_random(g);
        uint32_t active = active_of(wc, g->slots[at].member);

        if (active < low) {
            low = active;
            best = at;
        }
    }
    return g->slots[best].member;
}

static struct sw_gw_member *on_ring(const struct sw_gw_lb_view *v, uint64_t hash)
{
    uint32_t lo = 0;
    uint32_t hi = v->n_ring;

    if (v->n_ring == 0)
        return NULL;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (v->ring[mid].hash < hash)
            lo = mid + 1;
        else
            hi = mid;
    }
    return v->all[v->ring[lo == v->n_ring ? 0 : lo].slot].member;
}

static struct group *choose_group(struct sw_gw_lb_view *v)
{
    struct level *lv = NULL;
    uint64_t at;

    if (v->n_levels == 1 && v->levels[0].n == 1)
        return v->load[0] && v->levels[0].groups[0].n ? &v->levels[0].groups[0] : NULL;
    at = sw_rand_below(100);
    for (uint32_t p = 0; p < v->n_levels; p++) {
        if (v->load[p] == 0)
            continue;
        lv = &v->levels[p];
        if (at < v->load[p])
            break;
        at -= v->load[p];
    }
    if (!lv || lv->total_share == 0)
        return NULL;
    at = sw_rand_below(lv->total_share);
    for (uint32_t g = 0; g < lv->n; g++) {
        if (at < lv->groups[g].share)
            return lv->groups[g].n ? &lv->groups[g] : NULL;
        at -= lv->groups[g].share;
    }
    return NULL;
}

static struct sw_gw_member *choose_once(struct sw_gw_wcluster *wc, struct sw_gw_lb_view *v,
                                        uint64_t hash)
{
    enum sw_gw_lb_kind kind = wc->cluster->spec->lb;
    struct group *g;

    if (kind == SW_GW_LB_RING_HASH || kind == SW_GW_LB_MAGLEV)
        return on_ring(v, hash);
    g = choose_group(v);
    if (!g)
        return NULL;
    switch (kind) {
    case SW_GW_LB_ROUND_ROBIN:
    case SW_GW_LB_RING_HASH:
    case SW_GW_LB_MAGLEV:
        return round_robin(g);
    case SW_GW_LB_LEAST_REQUEST:
        return least_request(wc, g);
    case SW_GW_LB_RANDOM:
        return g->slots[weighted_random(g)].member;
    }
    return NULL;
}

static bool was_tried(const struct sw_gw_pick *pick, const struct sw_gw_member *m)
{
    for (unsigned i = 0; i < pick->n_tried; i++) {
        if (pick->tried[i] == m)
            return true;
    }
    return false;
}

/*
 * One that was not tried, of the first priority that has any. Choosing again and again may miss it
 * for long: a host that fails at once is always the one with the fewest requests.
 */
static struct sw_gw_member *any_untried(const struct sw_gw_lb_view *v,
                                        const struct sw_gw_pick *pick)
{
    struct sw_gw_member *found = NULL;
    uint64_t seen = 0;

    for (uint32_t i = 0; i < 2 * v->n_levels && !found; i++) {
        uint32_t p = i % v->n_levels;

        if ((v->load[p] != 0) != (i < v->n_levels)) /* first those that carry load */
            continue;
        for (uint32_t k = 0; k < v->levels[p].n; k++) {
            const struct group *g = &v->levels[p].groups[k];

            for (uint32_t n = 0; n < g->n; n++) {
                if (!was_tried(pick, g->slots[n].member) && sw_rand_below(++seen) == 0)
                    found = g->slots[n].member;
            }
        }
    }
    return found;
}

bool sw_gw_lb_has_untried(struct sw_gw_wcluster *wc, const struct sw_gw_pick *pick)
{
    return !(pick->session.n && pick->session_strict) && any_untried(view_of(wc), pick);
}

/* The member a sticky session names, if it can serve. */
static struct sw_gw_member *by_session(const struct sw_gw_members *ms,
                                       const struct sw_gw_pick *pick)
{
    SW_GW_ENDPOINTS_EACH (e, ms) {
        if (sw_slice_eq(e->member->text, pick->session))
            return usable(e) && (pick->session_strict || !sw_gw_member_aside(e->member)) ? e->member
                                                                                         : NULL;
    }
    return NULL;
}

struct sw_gw_member *sw_gw_lb_choose(struct sw_gw_wcluster *wc, const struct sw_gw_pick *pick)
{
    struct sw_gw_lb_view *v = view_of(wc);
    uint64_t hash = pick->has_hash ? pick->hash : sw_rand_u64();
    struct sw_gw_member *m = NULL;

    if (pick->session.n) {
        m = by_session(wc->cluster->members, pick);
        if (m && !was_tried(pick, m))
            return m;
        if (pick->session_strict)
            return NULL;
    }
    for (unsigned i = 0; i <= (pick->n_tried ? RETRY_PICKS : 0); i++) {
        m = choose_once(wc, v, hash);
        if (!m || !was_tried(pick, m))
            break;
        hash =
            hash * UINT64_C(6364136223846793005) + 1442695040888963407; /* elsewhere on the ring */
    }
    if (m && was_tried(pick, m)) {
        struct sw_gw_member *other = any_untried(v, pick);

        m = other ? other : m;
    }
    return m;
}
