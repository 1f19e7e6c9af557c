/* SPDX-License-Identifier: Apache-2.0 */
/* The balancer's choice with hosts, circuit limits and counters around it. */
#include <string.h>

#include "base/mem.h"
#include "base/time.h"
#include "gateway/conn/worker.h"
#include "gateway/upstream/aside.h"
#include "gateway/upstream/cluster.h"
#include "gateway/upstream/hosts.h"
#include "gateway/upstream/lb.h"
#include "gateway/upstream/outlier.h"
#include "gateway/upstream/pick.h"

/* A member made on the spot for where the client was going. */
static struct sw_gw_member *original_dst(const struct sw_gw_cluster *c,
                                         const struct sw_gw_pick *pick)
{
    struct sw_gw_member *m;
    char text[SW_ADDR_TEXT];

    if (pick->original_dst.ip.family == 0)
        return NULL;
    m = sw_gw_member_new();
    sw_gw_member_add_cells(m, c->state->n_cells);
    m->addr.ip = pick->original_dst;
    if (c->spec->dst_port)
        m->addr.ip.port = c->spec->dst_port;
    m->text = sw_slice_str(sw_arena_printf(&m->arena, "%s", sw_addr_text(&m->addr.ip, text)));
    return m;
}

static struct sw_gw_host *original_host(struct sw_gw_wcluster *wc, const struct sw_gw_pick *pick)
{
    struct sw_gw_member *m = original_dst(wc->cluster, pick);
    struct sw_gw_host *h = NULL;

    if (!m)
        return NULL;
    SW_MAP_EACH (struct sw_gw_host, old, &wc->hosts) {
        if (sw_addr_eq(&old->addr.ip, &m->addr.ip))
            h = old;
    }
    if (!h)
        h = sw_gw_wcluster_host(wc, m);
    (void)sw_gw_member_unref(m);
    return h;
}

static uint64_t now_of(const struct sw_gw_hosts *hs)
{
    return hs->worker ? sw_loop_now(hs->worker->loop) : sw_now_ns();
}

static struct sw_gw_member *choose(const struct sw_gw_hosts *hs, struct sw_gw_wcluster *wc,
                                   const struct sw_gw_pick *pick)
{
    struct sw_gw_member *m = NULL;

    if (atomic_load_explicit(&wc->cluster->state->aside_due_ns, memory_order_relaxed) &&
        !pick->session.n)
        m = sw_gw_aside_due(wc->cluster, pick, now_of(hs));
    return m ? m : sw_gw_lb_choose(wc, pick);
}

int sw_gw_lb_pick(struct sw_gw_hosts *hs, const struct sw_gw_config *c, struct sw_slice cluster,
                  const struct sw_gw_pick *pick, struct sw_gw_host **ret)
{
    struct sw_gw_wcluster *wc = sw_gw_wcluster_get(hs, c, cluster);
    struct sw_gw_cluster_cell *cell;
    struct sw_gw_member *m;
    struct sw_gw_host *h;

    if (!wc)
        return SW_ENOENT;
    cell = &wc->cluster->state->cells[hs->index];
    if (!sw_gw_limit_below(wc->active, wc->cluster->spec->limits.max_requests, hs->index,
                           wc->cluster->state->n_cells)) {
        sw_gw_bump(&cell->overflow);
        return SW_ELIMIT;
    }
    if (wc->cluster->spec->discovery == SW_GW_ORIGINAL_DST) {
        h = original_host(wc, pick);
    } else {
        m = choose(hs, wc, pick);
        h = m ? sw_gw_wcluster_host(wc, m) : NULL;
    }
    if (!h || (h->addr.kind == SW_GW_ADDR_IP && h->addr.ip.ip.family == 0)) {
        sw_gw_bump(&cell->no_host);
        return SW_GW_NO_HOST;
    }
    wc->active++;
    h->active++;
    sw_gw_bump(&cell->rq);
    atomic_store_explicit(&cell->active, wc->active, memory_order_relaxed);
    sw_gw_bump(&h->member->cells[hs->index].rq);
    atomic_store_explicit(&h->member->cells[hs->index].active, h->active, memory_order_relaxed);
    *ret = sw_gw_host_ref(h);
    return SW_OK;
}

void sw_gw_lb_done(struct sw_gw_hosts *hs, struct sw_gw_host *h, enum sw_gw_result how, int status)
{
    struct sw_gw_wcluster *wc = h->wc;
    struct sw_gw_cluster_cell *cell = &h->cluster->state->cells[hs->index];
    struct sw_gw_member_cell *mc = &h->member->cells[hs->index];
    bool failed = how == SW_GW_RESULT_LOCAL || how == SW_GW_RESULT_BROKEN;

    h->active--;
    atomic_store_explicit(&mc->active, h->active, memory_order_relaxed);
    if (wc->active) {
        wc->active--;
        atomic_store_explicit(&cell->active, wc->active, memory_order_relaxed);
    }
    if (failed || status >= 500)
        sw_gw_bump(&mc->rq_err);
    if (how == SW_GW_RESULT_LOCAL)
        sw_gw_bump(&mc->cx_fail);
    if (how == SW_GW_RESULT_OK && status >= 100 && status < 600)
        sw_gw_bump(&cell->status[status / 100]);
    else if (failed)
        sw_gw_bump(&cell->status[0]);
    if (h->cluster->spec->outlier.on && how != SW_GW_RESULT_NEUTRAL)
        sw_gw_outlier_report(h->cluster, h->member, how, status, now_of(hs));
    /* By a connection that was there before. */
    if (how == SW_GW_RESULT_OK && sw_gw_member_aside(h->member))
        sw_gw_aside_connected(h->cluster, h->member, now_of(hs));
    (void)sw_gw_host_unref(h);
}

void sw_gw_pick_tried(struct sw_gw_pick *pick, const struct sw_gw_member *m)
{
    for (unsigned i = 0; i < pick->n_tried; i++) {
        if (pick->tried[i] == m)
            return;
    }
    if (pick->n_tried < SW_GW_TRIED_MAX)
        pick->tried[pick->n_tried++] = m;
}

bool sw_gw_lb_fail_over(struct sw_gw_hosts *hs, const struct sw_gw_host *h, struct sw_gw_pick *pick)
{
    struct sw_gw_wcluster *wc = sw_map_get(&hs->clusters, h->wc->name);

    sw_gw_pick_tried(pick, h->member);
    if (!wc || wc->cluster->spec->discovery == SW_GW_ORIGINAL_DST ||
        !sw_gw_lb_has_untried(wc, pick))
        return false;
    sw_gw_bump(&wc->cluster->state->cells[hs->index].failovers);
    return true;
}

bool sw_gw_retry_take(struct sw_gw_hosts *hs, struct sw_slice cluster)
{
    struct sw_gw_wcluster *wc = sw_map_get(&hs->clusters, cluster);
    const struct sw_gw_limits *l;
    uint32_t limit;

    if (!wc)
        return false;
    l = &wc->cluster->spec->limits;
    limit = l->max_retries;
    if (l->budget_percent > 0) {
        limit = (uint32_t)((double)wc->active * l->budget_percent / 100);
        limit = limit < l->budget_min ? l->budget_min : limit;
    }
    if (l->budget_percent > 0
            ? wc->retries >= limit
            : !sw_gw_limit_below(wc->retries, limit, hs->index, wc->cluster->state->n_cells)) {
        sw_gw_bump(&wc->cluster->state->cells[hs->index].overflow);
        return false;
    }
    wc->retries++;
    sw_gw_bump(&wc->cluster->state->cells[hs->index].retries);
    return true;
}

void sw_gw_retry_give(struct sw_gw_hosts *hs, struct sw_slice cluster)
{
    struct sw_gw_wcluster *wc = sw_map_get(&hs->clusters, cluster);

    if (wc && wc->retries)
        wc->retries--;
}
