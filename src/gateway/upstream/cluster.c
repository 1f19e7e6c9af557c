/* SPDX-License-Identifier: Apache-2.0 */
/* Lives of clusters and members, and the clusters and hosts a worker has used. */
#include "gateway/upstream/cluster.h"

#include "base/mem.h"
#include "gateway/config/config_int.h"
#include "gateway/conn/worker.h"
#include "gateway/upstream/lb.h"

static bool last_ref(_Atomic uint32_t *refs)
{
    return atomic_fetch_sub_explicit(refs, 1, memory_order_acq_rel) == 1;
}

static void add_ref(_Atomic uint32_t *refs)
{
    atomic_fetch_add_explicit(refs, 1, memory_order_relaxed);
}

struct sw_gw_member *sw_gw_member_ref(struct sw_gw_member *m)
{
    add_ref(&m->refs);
    return m;
}

struct sw_gw_member *sw_gw_member_unref(struct sw_gw_member *m)
{
    if (m && last_ref(&m->refs)) {
        sw_free(m->cells);
        sw_arena_clear(&m->arena);
        sw_free(m);
    }
    return NULL;
}

struct sw_gw_members *sw_gw_members_ref(struct sw_gw_members *m)
{
    add_ref(&m->refs);
    return m;
}

struct sw_gw_members *sw_gw_members_unref(struct sw_gw_members *m)
{
    if (!m || !last_ref(&m->refs))
        return NULL;
    for (size_t i = 0; i < m->n_localities; i++) {
        for (size_t k = 0; k < m->localities[i].n; k++)
            (void)sw_gw_member_unref(m->localities[i].endpoints[k].member);
    }
    sw_arena_clear(&m->arena);
    sw_free(m);
    return NULL;
}

struct sw_gw_cluster_spec *sw_gw_cluster_spec_ref(struct sw_gw_cluster_spec *s)
{
    add_ref(&s->refs);
    return s;
}

struct sw_gw_cluster_spec *sw_gw_cluster_spec_unref(struct sw_gw_cluster_spec *s)
{
    if (s && last_ref(&s->refs)) {
        sw_arena_clear(&s->arena);
        sw_free(s);
    }
    return NULL;
}

struct sw_gw_cluster_state *sw_gw_cluster_state_new(unsigned n_workers)
{
    struct sw_gw_cluster_state *s = SW_NEW(struct sw_gw_cluster_state);

    atomic_init(&s->refs, 1);
    (void)pthread_mutex_init(&s->lock, NULL);
    s->n_cells = n_workers;
    s->cells = sw_aligned_alloc(SW_GW_LINE, n_workers * sizeof(*s->cells));
    memset(s->cells, 0, n_workers * sizeof(*s->cells));
    return s;
}

struct sw_gw_cluster_state *sw_gw_cluster_state_ref(struct sw_gw_cluster_state *s)
{
    add_ref(&s->refs);
    return s;
}

struct sw_gw_cluster_state *sw_gw_cluster_state_unref(struct sw_gw_cluster_state *s)
{
    if (s && last_ref(&s->refs)) {
        (void)pthread_mutex_destroy(&s->lock);
        sw_free(s->cells);
        sw_free(s);
    }
    return NULL;
}

struct sw_gw_cluster *sw_gw_cluster_new(struct sw_gw_cluster_spec *spec, struct sw_gw_members *m,
                                        struct sw_gw_cluster_state *st, struct sw_gw_tls *tls)
{
    struct sw_gw_cluster *c = SW_NEW(struct sw_gw_cluster);

    atomic_init(&c->refs, 1);
    c->spec = sw_gw_cluster_spec_ref(spec);
    c->members = sw_gw_members_ref(m);
    c->state = sw_gw_cluster_state_ref(st);
    c->tls = tls ? sw_gw_tls_ref(tls) : NULL;
    return c;
}

struct sw_gw_cluster *sw_gw_cluster_ref(struct sw_gw_cluster *c)
{
    add_ref(&c->refs);
    return c;
}

struct sw_gw_cluster *sw_gw_cluster_unref(struct sw_gw_cluster *c)
{
    if (c && last_ref(&c->refs)) {
        (void)sw_gw_cluster_spec_unref(c->spec);
        (void)sw_gw_members_unref(c->members);
        (void)sw_gw_cluster_state_unref(c->state);
        (void)sw_gw_tls_unref(c->tls);
        sw_free(c);
    }
    return NULL;
}

/* ---- hosts of a worker ---- */

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
    SW_MAP_FOREACH (it, &wc->hosts)
        host_leave(it->value);
    sw_map_done(&wc->hosts);
    sw_gw_lb_view_free(wc->view);
    wc->view = NULL;
    (void)sw_gw_cluster_unref(wc->cluster);
    wcluster_unref(wc); /* hosts in use still count on it */
}

void sw_gw_hosts_free(struct sw_gw_hosts *hs)
{
    if (!hs)
        return;
    SW_MAP_FOREACH (it, &hs->clusters)
        wcluster_free(it->value);
    sw_map_done(&hs->clusters);
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
    wc->name = sw_slice(sw_slice_dup(name), name.n);
    wc->cluster = sw_gw_cluster_ref(cluster);
    (void)sw_map_put(&hs->clusters, wc->name, wc);
    return wc;
}

static bool still_member(const struct sw_gw_members *ms, const struct sw_gw_member *m)
{
    for (size_t i = 0; i < ms->n_localities; i++) {
        for (size_t k = 0; k < ms->localities[i].n; k++) {
            if (ms->localities[i].endpoints[k].member == m)
                return true;
        }
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

void sw_gw_hosts_release_pools(struct sw_gw_hosts *hs)
{
    SW_MAP_FOREACH (it, &hs->clusters) {
        struct sw_gw_wcluster *wc = it->value;

        SW_MAP_FOREACH (ht, &wc->hosts) {
            struct sw_gw_host *h = ht->value;
            struct sw_gw_pool *pool = h->pool;

            h->pool = NULL;
            release_pool(hs->worker, pool);
        }
    }
}
