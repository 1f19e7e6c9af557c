/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members that refuse connections. Requests fail over to another member, so clients notice only the
 * delay; after a few failures in a row the member is set aside, and one request at a time, after a
 * growing interval, finds out whether it accepts connections again. A cluster with
 * outlier_detection ejects by those rules instead (outlier.c).
 */
#include "gateway/upstream/aside.h"
#include "base/log.h"
#include "base/time.h"
#include "gateway/upstream/cluster.h"

enum {
    FAILURES = 3, /* in a row, of all workers */
    FIRST_S = 1,  /* set aside for; doubled each time */
    MOST_S = 30,
};

static void changed_locked(struct sw_gw_cluster_state *st)
{
    atomic_fetch_add_explicit(&st->health_version, 1, memory_order_release);
}

static void due_locked(struct sw_gw_cluster_state *st, uint64_t at_ns)
{
    uint64_t next = atomic_load_explicit(&st->aside_due_ns, memory_order_relaxed);

    if (next == 0 || at_ns < next)
        atomic_store_explicit(&st->aside_due_ns, at_ns, memory_order_relaxed);
}

static void set_aside_locked(const struct sw_gw_cluster *c, struct sw_gw_member *m, uint64_t now_ns,
                             const char *why)
{
    struct sw_gw_cluster_state *st = c->state;
    uint64_t s = m->aside_times < 5 ? FIRST_S << m->aside_times : MOST_S;

    if (sw_gw_member_aside(m) && !m->aside_probed) /* a connection that was begun before */
        return;
    m->aside_probed = false;
    m->aside_until_ns = now_ns + s * SW_NS_PER_S;
    due_locked(st, m->aside_until_ns);
    if (m->aside_times++ == 0) {
        m->aside_since_ns = now_ns;
        sw_log_warn("gateway",
                    "cluster '%.*s': endpoint %.*s set aside: %u connection failures in a row: %s",
                    SW_SLICE_ARG(c->spec->name), SW_SLICE_ARG(m->text),
                    atomic_load_explicit(&m->connect_failures, memory_order_relaxed), why);
    }
    if (sw_gw_member_aside(m))
        return;
    atomic_fetch_add_explicit(&st->ejections, 1, memory_order_relaxed);
    atomic_fetch_or_explicit(&m->health, SW_GW_SET_ASIDE, memory_order_release);
    changed_locked(st);
}

void sw_gw_aside_failed(const struct sw_gw_cluster *c, struct sw_gw_member *m, uint64_t now_ns,
                        const char *why)
{
    uint32_t n = atomic_fetch_add_explicit(&m->connect_failures, 1, memory_order_relaxed) + 1;

    if (n < FAILURES || c->spec->outlier.on || c->members->n < 2)
        return;
    pthread_mutex_lock(&c->state->lock);
    set_aside_locked(c, m, now_ns, why);
    pthread_mutex_unlock(&c->state->lock);
}

static void clear_locked(const struct sw_gw_cluster *c, struct sw_gw_member *m)
{
    m->aside_probed = false;
    if (!sw_gw_member_aside(m))
        return;
    atomic_fetch_and_explicit(&m->health, ~(uint32_t)SW_GW_SET_ASIDE, memory_order_release);
    changed_locked(c->state);
}

void sw_gw_aside_connected(const struct sw_gw_cluster *c, struct sw_gw_member *m, uint64_t now_ns)
{
    if (atomic_load_explicit(&m->connect_failures, memory_order_relaxed) == 0)
        return;
    atomic_store_explicit(&m->connect_failures, 0, memory_order_relaxed);
    pthread_mutex_lock(&c->state->lock);
    clear_locked(c, m);
    if (m->aside_times)
        sw_log_info("gateway",
                    "cluster '%.*s': endpoint %.*s accepts connections again after %llu s",
                    SW_SLICE_ARG(c->spec->name), SW_SLICE_ARG(m->text),
                    (unsigned long long)((now_ns - m->aside_since_ns) / SW_NS_PER_S));
    m->aside_times = 0;
    pthread_mutex_unlock(&c->state->lock);
}

static struct sw_gw_member *take_due_locked(const struct sw_gw_cluster *c, struct sw_gw_endpoint *e,
                                            const struct sw_gw_pick *pick, uint64_t now_ns)
{
    struct sw_gw_member *m = e->member;

    if (pick->has_hash) {
        clear_locked(c, m); /* the ring sends its own clients */
        return NULL;
    }
    m->aside_until_ns = now_ns + SW_NS_PER_S;
    if (e->unhealthy || !sw_gw_member_usable(m))
        return NULL;
    m->aside_until_ns += c->spec->connect_timeout_ns; /* by then its failure is known */
    m->aside_probed = true;
    return m;
}

struct sw_gw_member *sw_gw_aside_due(const struct sw_gw_cluster *c, const struct sw_gw_pick *pick,
                                     uint64_t now_ns)
{
    struct sw_gw_cluster_state *st = c->state;
    struct sw_gw_member *found = NULL;

    if (now_ns < atomic_load_explicit(&st->aside_due_ns, memory_order_relaxed))
        return NULL;
    pthread_mutex_lock(&st->lock);
    atomic_store_explicit(&st->aside_due_ns, 0, memory_order_relaxed);
    SW_GW_ENDPOINTS_EACH (e, c->members) {
        if (!sw_gw_member_aside(e->member))
            continue;
        if (!found && e->member->aside_until_ns <= now_ns)
            found = take_due_locked(c, e, pick, now_ns);
        if (sw_gw_member_aside(e->member))
            due_locked(st, e->member->aside_until_ns);
    }
    pthread_mutex_unlock(&st->lock);
    return found;
}
