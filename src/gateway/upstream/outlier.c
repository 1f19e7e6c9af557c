/* SPDX-License-Identifier: Apache-2.0 */
/* Passive health: a member that fails several times in a row is left out for a while. */
#include "gateway/upstream/outlier.h"
#include "base/log.h"

static void reset(struct sw_gw_member *m)
{
    atomic_store_explicit(&m->consecutive_local, 0, memory_order_relaxed);
    atomic_store_explicit(&m->consecutive_5xx, 0, memory_order_relaxed);
    atomic_store_explicit(&m->consecutive_gateway, 0, memory_order_relaxed);
}

/* Under the lock. At least one member may always be ejected, as the percentage of few would be
 * none. */
static void eject_locked(const struct sw_gw_cluster *c, struct sw_gw_member *m, uint64_t now_ns,
                         const char *why)
{
    const struct sw_gw_outlier_opts *o = &c->spec->outlier;
    struct sw_gw_cluster_state *st = c->state;
    uint64_t time_ns;

    if (atomic_load_explicit(&m->health, memory_order_relaxed) & SW_GW_FAILED_OUTLIER)
        return;
    if (st->n_ejected > 0 &&
        (uint64_t)(st->n_ejected + 1) * 100 > (uint64_t)o->max_percent * c->members->n)
        return;
    if (o->max_percent == 0)
        return;
    m->ejections++;
    time_ns = o->base_ejection_ns * m->ejections;
    m->ejected_until_ns = now_ns + (time_ns > o->max_ejection_ns ? o->max_ejection_ns : time_ns);
    st->n_ejected++;
    atomic_fetch_add_explicit(&st->ejections, 1, memory_order_relaxed);
    atomic_fetch_or_explicit(&m->health, SW_GW_FAILED_OUTLIER, memory_order_release);
    atomic_fetch_add_explicit(&st->health_version, 1, memory_order_release);
    reset(m);
    sw_log_info("outlier", "host '%.*s' of cluster '%.*s' ejected: %s", SW_SLICE_ARG(m->text),
                SW_SLICE_ARG(c->spec->name), why);
}

static bool reached(_Atomic uint32_t *n, uint32_t limit)
{
    return atomic_fetch_add_explicit(n, 1, memory_order_relaxed) + 1 >= limit && limit;
}

void sw_gw_outlier_report(const struct sw_gw_cluster *c, struct sw_gw_member *m,
                          enum sw_gw_result how, int status, uint64_t now_ns)
{
    const struct sw_gw_outlier_opts *o = &c->spec->outlier;
    const char *why = NULL;
    bool failed = how == SW_GW_RESULT_LOCAL || how == SW_GW_RESULT_BROKEN;

    if (!failed && status < 500) {
        if (atomic_load_explicit(&m->consecutive_5xx, memory_order_relaxed) ||
            atomic_load_explicit(&m->consecutive_local, memory_order_relaxed))
            reset(m);
        return;
    }
    if (failed && o->split_local) {
        if (reached(&m->consecutive_local, o->consecutive_local))
            why = "consecutive local origin failures";
    } else {
        bool gateway = failed || (status >= 502 && status <= 504);

        if (gateway && reached(&m->consecutive_gateway, o->consecutive_gateway))
            why = "consecutive gateway failures";
        else if (!gateway)
            atomic_store_explicit(&m->consecutive_gateway, 0, memory_order_relaxed);
        if (reached(&m->consecutive_5xx, o->consecutive_5xx))
            why = "consecutive 5xx";
    }
    if (!why)
        return;
    pthread_mutex_lock(&c->state->lock);
    eject_locked(c, m, now_ns, why);
    pthread_mutex_unlock(&c->state->lock);
}

bool sw_gw_outlier_sweep(const struct sw_gw_cluster *c, uint64_t now_ns)
{
    struct sw_gw_cluster_state *st = c->state;
    uint32_t out = 0;
    bool changed = false;

    pthread_mutex_lock(&st->lock);
    SW_GW_ENDPOINTS_EACH (e, c->members) {
        struct sw_gw_member *m = e->member;

        if (!(atomic_load_explicit(&m->health, memory_order_relaxed) & SW_GW_FAILED_OUTLIER))
            continue;
        if (m->ejected_until_ns > now_ns) {
            out++;
            continue;
        }
        atomic_fetch_and_explicit(&m->health, ~(uint32_t)SW_GW_FAILED_OUTLIER,
                                  memory_order_release);
        changed = true;
        sw_log_info("outlier", "host '%.*s' of cluster '%.*s' is no longer ejected",
                    SW_SLICE_ARG(m->text), SW_SLICE_ARG(c->spec->name));
    }
    st->n_ejected = out; /* members that left count no more */
    if (changed)
        atomic_fetch_add_explicit(&st->health_version, 1, memory_order_release);
    pthread_mutex_unlock(&st->lock);
    return out > 0;
}
