/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/upstream/hosts.h"

#include "base/mem.h"
#include "gateway/config/config.h"
#include "gateway/conn/worker.h"
#include "gateway/upstream/cluster.h"
#include "gateway/upstream/lb.h"

struct sw_gw_host *sw_gw_host_ref(struct sw_gw_host *h)
{
    h->refs++;
    return h;
}

static void wcluster_unref(struct sw_gw_wcluster *wc)
{
    if (--wc->refs)
        return;
    sw_slice_free(&wc->name);
    sw_free(wc);
}

struct sw_gw_host *sw_gw_host_unref(struct sw_gw_host *h)
{
    if (h && --h->refs == 0) {
        (void)sw_gw_member_unref(h->member);
        (void)sw_gw_cluster_unref(h->cluster);
        wcluster_unref(h->wc);
        sw_arena_clear(&h->arena);
        sw_free(h);
    }
    return NULL;
}

static struct sw_slice member_key(struct sw_gw_member *const *m)
{
    return sw_slice(m, sizeof(*m));
}

struct sw_gw_host *sw_gw_wcluster_host(struct sw_gw_wcluster *wc, struct sw_gw_member *m)
{
    struct sw_gw_member_cell *cell = &m->cells[wc->index];
    struct sw_gw_host *h = cell->host;

    if (h && h->wc == wc) /* several clusters may have the member */
        return h;
    h = sw_map_get(&wc->hosts, member_key(&m));
    if (h) {
        cell->host = h;
        return h;
    }
    h = SW_NEW(struct sw_gw_host);
    h->refs = 1;
    h->wc = wc;
    wc->refs++;
    cell->host = h;
    h->member = sw_gw_member_ref(m);
    h->cluster = sw_gw_cluster_ref(wc->cluster);
    h->addr = m->addr;
    (void)sw_map_put(&wc->hosts, member_key(&h->member), h);
    return h;
}

static void release_pool(const struct sw_gw_worker *w, struct sw_gw_pool *p)
{
    if (p)
        w->calls->release_pool(p);
}

static void host_leave(struct sw_gw_host *h)
{
    struct sw_gw_member_cell *cell = &h->member->cells[h->wc->index];
    struct sw_gw_pool *pool = h->pool;

    if (cell->host == h)
        cell->host = NULL;
    h->gone = true;
    h->pool = NULL;
    release_pool(h->wc->worker, pool);
    (void)sw_gw_host_unref(h);
}

struct sw_gw_hosts *sw_gw_hosts_new(struct sw_gw_worker *w)
{
    struct sw_gw_hosts *hs = SW_NEW(struct sw_gw_hosts);

    hs->worker = w;
    hs->index = w ? w->index : 0;
    return hs;
}

static void wcluster_free(struct sw_gw_wcluster *wc)
{
    SW_MAP_DRAIN(&wc->hosts, host_leave);
    sw_gw_lb_view_free(wc->view);
    wc->view = NULL;
    (void)sw_gw_cluster_unref(wc->cluster);
    wcluster_unref(wc); /* hosts in use still count on it */
}

void sw_gw_hosts_free(struct sw_gw_hosts *hs)
{
    if (!hs)
        return;
    SW_MAP_DRAIN(&hs->clusters, wcluster_free);
    sw_free(hs);
}

struct sw_gw_wcluster *sw_gw_wcluster_get(struct sw_gw_hosts *hs, const struct sw_gw_config *c,
                                          struct sw_slice name)
{
    struct sw_gw_wcluster *wc = hs->last;
    struct sw_gw_cluster *cluster;

    if (wc && sw_slice_eq(wc->name, name))
        return wc;
    wc = sw_map_get(&hs->clusters, name);
    if (wc) {
        hs->last = wc;
        return wc;
    }
    cluster = c ? sw_gw_config_cluster(c, name) : NULL;
    if (!cluster)
        return NULL;
    wc = SW_NEW(struct sw_gw_wcluster);
    wc->refs = 1;
    wc->index = hs->index;
    wc->worker = hs->worker;
    wc->name = sw_slice_copy(name);
    wc->cluster = sw_gw_cluster_ref(cluster);
    (void)sw_map_put(&hs->clusters, wc->name, wc);
    return wc;
}

static bool still_member(const struct sw_gw_members *ms, const struct sw_gw_member *m)
{
    SW_GW_ENDPOINTS_EACH (e, ms) {
        if (e->member == m)
            return true;
    }
    return false;
}

/* Hosts stay when member, settings and TLS do: their connections are still good. */
static void wcluster_apply(struct sw_gw_wcluster *wc, struct sw_gw_cluster *now)
{
    bool same = wc->cluster->spec == now->spec && wc->cluster->tls == now->tls;

    SW_MAP_FOREACH (it, &wc->hosts) {
        struct sw_gw_host *h = it->value;

        if (same &&
            (now->spec->discovery == SW_GW_ORIGINAL_DST || still_member(now->members, h->member))) {
            (void)sw_gw_cluster_unref(h->cluster); /* an old version would keep all its members */
            h->cluster = sw_gw_cluster_ref(now);
            continue;
        }
        (void)sw_map_del(&wc->hosts, it->key);
        host_leave(h);
    }
    (void)sw_gw_cluster_unref(wc->cluster);
    wc->cluster = sw_gw_cluster_ref(now);
}

void sw_gw_hosts_apply(struct sw_gw_hosts *hs, const struct sw_gw_config *c)
{
    if (hs->applied == c->clusters->serial) /* no cluster changed */
        return;
    hs->applied = c->clusters->serial;
    SW_MAP_FOREACH (it, &hs->clusters) {
        struct sw_gw_wcluster *wc = it->value;
        struct sw_gw_cluster *now = sw_gw_config_cluster(c, wc->name);

        if (now == wc->cluster)
            continue;
        if (now) {
            wcluster_apply(wc, now);
        } else {
            (void)sw_map_del(&hs->clusters, it->key);
            hs->last = NULL;
            wcluster_free(wc);
        }
    }
}
