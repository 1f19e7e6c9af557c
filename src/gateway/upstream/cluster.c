/* SPDX-License-Identifier: Apache-2.0 */
/* Lives of clusters and members. */
#include "gateway/upstream/cluster.h"
#include "gateway/config/config.h"

#include "base/mem.h"

struct sw_gw_member *sw_gw_member_new(void)
{
    struct sw_gw_member *m = SW_NEW(struct sw_gw_member);

    atomic_init(&m->refs, 1);
    return m;
}

void sw_gw_member_add_cells(struct sw_gw_member *m, unsigned n_workers)
{
    m->n_cells = n_workers;
    m->cells = sw_aligned_alloc(SW_GW_LINE, n_workers * sizeof(*m->cells));
    memset(m->cells, 0, n_workers * sizeof(*m->cells));
}

struct sw_gw_member *sw_gw_member_ref(struct sw_gw_member *m)
{
    sw_gw_take_ref(&m->refs);
    return m;
}

struct sw_gw_member *sw_gw_member_unref(struct sw_gw_member *m)
{
    if (m && sw_gw_drop_ref(&m->refs)) {
        sw_free(m->cells);
        sw_arena_clear(&m->arena);
        sw_free(m);
    }
    return NULL;
}

struct sw_gw_members *sw_gw_members_ref(struct sw_gw_members *m)
{
    sw_gw_take_ref(&m->refs);
    return m;
}

struct sw_gw_members *sw_gw_members_unref(struct sw_gw_members *m)
{
    if (!m || !sw_gw_drop_ref(&m->refs))
        return NULL;
    SW_GW_ENDPOINTS_EACH (e, m)
        (void)sw_gw_member_unref(e->member);
    sw_arena_clear(&m->arena);
    sw_free(m);
    return NULL;
}

struct sw_gw_cluster_spec *sw_gw_cluster_spec_ref(struct sw_gw_cluster_spec *s)
{
    sw_gw_take_ref(&s->refs);
    return s;
}

struct sw_gw_cluster_spec *sw_gw_cluster_spec_unref(struct sw_gw_cluster_spec *s)
{
    if (s && sw_gw_drop_ref(&s->refs)) {
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
    sw_gw_take_ref(&s->refs);
    return s;
}

struct sw_gw_cluster_state *sw_gw_cluster_state_unref(struct sw_gw_cluster_state *s)
{
    if (s && sw_gw_drop_ref(&s->refs)) {
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
    sw_gw_take_ref(&c->refs);
    return c;
}

struct sw_gw_cluster *sw_gw_cluster_unref(struct sw_gw_cluster *c)
{
    if (c && sw_gw_drop_ref(&c->refs)) {
        (void)sw_gw_cluster_spec_unref(c->spec);
        (void)sw_gw_members_unref(c->members);
        (void)sw_gw_cluster_state_unref(c->state);
        (void)sw_gw_tls_unref(c->tls);
        sw_free(c);
    }
    return NULL;
}
